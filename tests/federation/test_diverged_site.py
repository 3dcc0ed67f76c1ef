"""A site whose training diverges has no part in that round, and is back in the next; if all diverge, that is
it.
"""

from __future__ import annotations

import pytest
from room import Room

from coterie.core.errors import Diverged
from coterie.core.kernel import scores
from coterie.features.live.live import read_live
from coterie.nets.in_process import InProcess
from coterie.nets.sound import diverged
from coterie.page.studies import Study
from coterie.runs.folder import read_record


def diverging(monkeypatch, names, rounds):
    work = InProcess.work

    def changed(net, kernel, beliefs, edges, key, *more):
        name = net.clients[0].name
        if name in names and key.round in rounds and not scores(kernel):
            raise diverged(key.round, name, "weight is no longer finite")
        return work(net, kernel, beliefs, edges, key, *more)

    monkeypatch.setattr(InProcess, "work", changed)


@pytest.mark.parametrize("method", ["fedavg", "weight-erosion"])
def test_who_diverges_is_left_out_of_the_round_alone(tmp_path, monkeypatch, method):
    room = Room(tmp_path)
    diverging(monkeypatch, {"b"}, {2})
    record = room.play(monkeypatch, method=method)
    left = [m["extras"].get("left_out", {}) for m in record.metrics]
    assert left == [{}, {}, {"b": "weight is no longer finite"}, {}]
    heard = [record.weights[r][0, 1] > 0 for r in (1, 2, 3)]
    assert heard == [True, False, True]
    assert all("away" not in m for m in record.metrics)  # it is there all along, and scored
    assert record.absences() == [
        "b was left out in 1 of 4 rounds (2): weight is no longer finite",
    ]


def test_if_all_diverge_the_run_ends_with_a_remedy(tmp_path, monkeypatch):
    room = Room(tmp_path)
    diverging(monkeypatch, set(room.names), {2})
    with pytest.raises(
        Diverged, match=r"^round 2, client 'a': weight is no longer finite: lower the learning"
    ):
        room.play(monkeypatch)


def test_sites_are_shown_that_a_run_has_no_result(tmp_path, monkeypatch):
    """Figures of its rounds are there, and would look like one."""
    room = Room(tmp_path)
    diverging(monkeypatch, set(room.names), {3})
    with pytest.raises(Diverged):
        room.play(monkeypatch, tmp_path / "run")
    (shown,) = (room.states["b"] / "shown").iterdir()
    assert "weight is no longer finite" in read_record(shown).diverged()
    live = read_live(shown)
    assert (live.state, live.done) == ("failed", 2)
    assert "weight is no longer finite" in live.why
    study = Study(shown)
    study.refresh()
    assert len(study.first.metrics) == 3
    assert not study.records
