"""Whoever leads a run invents, drops or excuses rounds where no site has signed otherwise: verify tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from room import Room
from test_diverged_site import diverging
from test_forged_ledger import metrics, raised, verify, write_metrics

from coterie.core.errors import Diverged
from coterie.features.ledger import entries, heads
from coterie.federation.lead.witness import AT_ONCE, batch
from coterie.federation.site.ledger_signer import Signer, bound_to
from coterie.runs.folder import read_about, read_record
from coterie.runs.settings import read_toml
from coterie.storage import chain
from coterie.storage.chain import after
from coterie.storage.rounds import matrix_told

NAMES = ("a", "b", "c", "d")
NEW = "f" * 32


class Cut(BaseException):
    pass


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A run of three rounds, and one whose lead stopped it after two of three, as all have signed."""
    place = tmp_path_factory.mktemp("room")
    room = Room(place, names=NAMES, rows=40)
    room.place = place

    def watch(record):
        if record.done == 2:
            raise Cut

    with pytest.MonkeyPatch.context() as patch:
        room.play(patch, place / "run", rounds=3)
        with pytest.raises(Cut):
            room.play(patch, place / "stopped", watch, rounds=3)
        room.wanted = NAMES[:3]
        room.play(patch, place / "three", rounds=1)
    return room


class Desk:
    """A copy of a run and of what sites keep: what is signed here, no other test sees."""

    def __init__(self, room, name, place, capsys):
        self.room, self.place, self.capsys = room, place, capsys
        self.run = Path(shutil.copytree(room.place / name, place / "run"))
        for site in NAMES:
            (place / site).mkdir()
            shutil.copy(room.states[site] / heads.HEADS, place / site)
        self.id = chain.read(self.run)[0].content["run"]
        (self.run / heads.SIGNATURES).unlink()

    def verify(self, names=NAMES):
        files = [self.place / name / heads.HEADS for name in names]
        words = ["--authority", self.room.kits["a"].ca_path, "--heads", *files]
        return verify(self.run, *words, capsys=self.capsys)

    def sign(self, name, run, first, written):
        """What an honest site answers to entries of the lead's making."""
        return Signer(self.place / name, self.room.kits[name]).sign(run, first, [e.line for e in written])

    def add(self, name, *contents):
        """Entries after the last, which one site is asked to sign."""
        found, new = chain.read(self.run), []
        for content in contents:
            new.append(after([*found, *new][-1], content))
            chain.append(self.run, new[-1])
        return self.sign(name, self.id, new[0].index, new)

    def anew(self, *contents):
        """Another chain in its place."""
        found = []
        for content in contents:
            found.append(after(found[-1] if found else None, content))
        (self.run / chain.FILE).write_text("".join(entry.line + "\n" for entry in found))
        return found

    def begin(self, lines):
        about, config = read_about(self.run / "run.json"), read_toml(self.run / "config.toml")
        return entries.begin(config, about, lines, bound_to(self.room.kits["lead"], NEW))

    def rounds(self):
        return [dict(e.content) for e in chain.read(self.run) if e.content["kind"] == "round"]

    def forced(self, name, written, run):
        """Heads as a site would have signed that takes whatever it is shown."""
        last = written[-1]
        one = heads.signed(self.room.kits[name], run, last.index, last.hash)
        heads.write(self.place / name / heads.HEADS, [one.as_dict])


@pytest.fixture
def desk(room, tmp_path, capsys):
    return lambda name="run": Desk(room, name, tmp_path, capsys)


def invented(line, round):
    return {**json.loads(json.dumps(line)), "round": round}


# a run without an end


def test_a_run_that_was_stopped_is_said_to_have_no_end(desk):
    said = "3 entries, the run did not end (it is cut off after round 2), 4 sites signed the last head"
    assert desk("stopped").verify() == (0, [said])


def test_a_last_round_cannot_be_invented(desk):
    it = desk("stopped")
    lines = metrics(it.run)
    write_metrics(it.run, [*lines, invented(lines[-1], 3)])
    code, said = it.verify()
    assert code == 2
    assert said[0].startswith("metrics.jsonl has round 3, of which there is no entry: it was added")
    assert "coterie resume" in said[0]


def test_a_last_round_is_signed_by_all_who_have_scores_in_it(desk):
    """One honest site signs what it is shown; the others are said to have answered, and gone."""
    it = desk("stopped")
    lines, path = metrics(it.run), it.run / "collaboration.jsonl"
    lines.append(invented(lines[-1], 3))
    write_metrics(it.run, lines)
    kept = json.loads(path.read_text().splitlines()[-1])
    path.write_text(path.read_text() + json.dumps({**kept, "round": 3}) + "\n")
    record = read_record(it.run)
    new = entries.round_of(lines[-1], record.weights[3], record.passed[3])
    assert "signed" in it.add("d", new, entries.end(3, it.run))
    code, said = it.verify()
    assert code == 2
    assert said[0].startswith("entry 3 says that a answered, which signed nothing after entry 2")


@pytest.mark.parametrize("left", [1, 2])
def test_last_rounds_cannot_be_dropped(desk, left):
    it = desk("stopped")
    write_metrics(it.run, metrics(it.run)[:left])
    code, said = it.verify()
    assert (code, len(said)) == (2, 3 - left)
    assert said[-1].startswith("metrics.jsonl lacks round 2, of which entry 2 tells: it was dropped")


@pytest.mark.parametrize("name", ["privacy.json", "calibration.npz", "models.safetensors"])
def test_results_without_an_end_are_invented(desk, name):
    it = desk("stopped")
    (it.run / name).write_text("{}")
    code, said = it.verify()
    assert code == 2
    assert f"entry 2 is the last, and no end, but there is {name}" in said[0]


# after the end


def test_a_word_after_the_end_takes_no_protection_off(desk):
    it = desk()
    (it.run / "models.safetensors").unlink()
    (it.run / "privacy.json").write_text("{}")
    assert "refused" in it.add("d", {"kind": "resumed", "after": 3})
    it.forced("d", chain.read(it.run), it.id)
    code, said = it.verify()
    assert code == 2
    assert any("nothing follows" in line for line in said)
    assert "models.safetensors is missing, of which entry 4 tells" in said
    assert "privacy.json is not what entry 4 says: it was changed" in said


def test_an_end_is_not_followed_by_another(desk):
    it = desk()
    (it.run / "privacy.json").write_text("{}")
    contents = {"kind": "resumed", "after": 3}, entries.end(3, it.run)
    assert "the run has ended" in it.add("d", *contents)["refused"]
    it.forced("d", chain.read(it.run), it.id)
    assert it.verify() == (2, ["entry 6: another end than entry 4, with no round since"])


def test_a_round_after_the_end_is_signed_by_who_answered(desk):
    """The last round anew, signed by one site, where figures of all are raised."""
    it = desk()
    last, weights = metrics(it.run)[-1], read_record(it.run).weights[3]
    last["scores"]["own/test"]["accuracy"] = [0.99] * 4
    write_metrics(it.run, [*metrics(it.run)[:-1], last])
    passed = read_record(it.run).passed[3]
    new = entries.round_of(last, weights, passed)
    assert "signed" in it.add("d", {"kind": "resumed", "after": 2}, new, entries.end(3, it.run))
    code, said = it.verify()
    assert code == 2
    assert said[0].startswith("entry 6 says that a answered, which signed nothing after entry 4")


def test_a_run_has_as_many_rounds_as_it_was_to_have(desk):
    it = desk()
    lines = metrics(it.run)
    write_metrics(it.run, lines[:3])
    kept = (it.run / "collaboration.jsonl").read_text().splitlines(keepends=True)
    (it.run / "collaboration.jsonl").write_text("".join(kept[:2]))
    again = {"kind": "resumed", "after": 1}, it.rounds()[1]
    assert "signed" in it.add("d", *again, entries.end(2, it.run))
    code, said = it.verify("d")
    assert (code, said) == (2, ["entry 7: an end after round 2 of 3, and no budget was spent"])


def test_figures_of_earlier_rounds_cannot_be_told_anew(desk):
    it = desk()
    raised(it.run)
    lines = metrics(it.run)
    it.add("d", {"kind": "resumed", "after": 3, "metrics": entries.lines_digest(lines)})
    it.forced("d", chain.read(it.run), it.id)
    assert it.verify() == (2, ["entry 5: a run has no such entry"])


# who is excused


def test_a_ledger_without_rounds_excuses_nobody(desk):
    it = desk()
    raised(it.run)
    found = it.anew(it.begin(metrics(it.run)), entries.end(3, it.run))
    assert "has rounds already" in it.sign("d", NEW, 0, found)["refused"]
    it.forced("d", found, NEW)
    code, said = it.verify()
    assert code == 2
    assert said[0].startswith("no head of run ffffffff, which this ledger names, in ")


@pytest.mark.parametrize("also", [True, False])
def test_who_has_figures_was_not_away(desk, also):
    """Entries say so of three sites, and lines of metrics.jsonl do not, or have figures of theirs."""
    it = desk()
    raised(it.run)
    lines, away = metrics(it.run), dict.fromkeys("abc", "not connected")
    for line in lines if also else ():
        line |= {"away": away, "numbers": [0, 0, 0, 5]}
    write_metrics(it.run, lines)
    told = [
        {**said, "metrics": entries.lines_digest([line]), "answered": "3", "away": away}
        for said, line in zip(it.rounds(), lines[1:], strict=True)
    ]
    found = it.anew(it.begin(lines[:1]), *told, entries.end(3, it.run))
    assert "signed" in it.sign("d", NEW, 0, found)
    code, said = it.verify()
    assert code == 2
    assert said[0].startswith("no head of run ffffffff")
    otherwise = "entry 1 says otherwise than round 1 of the record of answered, away"
    assert (otherwise in said) is not also


def test_a_site_of_other_runs_alone_is_noted(desk):
    said = ["3 entries, 3 sites signed the last head; none of the sites of this run: d"]
    it = desk("three")
    assert it.verify() == (0, said)
    assert it.verify("d")[0] == 2


def test_sites_are_not_renamed_to_be_excused(desk):
    """Entry 0 names others, run.json those whose figures are shown."""
    it = desk()
    raised(it.run)
    lines = metrics(it.run)
    told = [
        {**s, "metrics": entries.lines_digest([line])} for s, line in zip(it.rounds(), lines[1:], strict=True)
    ]
    begin = {**it.begin(lines[:1]), "clients": ["x", "y", "z", "d"]}
    found = it.anew(begin, *told, entries.end(3, it.run))
    it.forced("d", found, NEW)
    assert it.verify() == (2, ["run.json has other clients than entry 0: one of the two was changed"])


# files beside it


def test_what_passed_and_what_is_remarked_is_held_against_it(desk):
    it = desk()
    path = it.run / "collaboration.jsonl"
    text, about = path.read_text(), json.loads((it.run / "run.json").read_text())
    lines = [json.loads(line) for line in text.splitlines()]
    lines[0]["traffic"] = matrix_told(np.zeros((0, 5), dtype=np.int64))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = "collaboration.jsonl, round 1, is not what entry 1 says of what passed: it was changed"
    assert it.verify() == (2, [said])
    path.unlink()
    assert it.verify() == (2, ["collaboration.jsonl is missing, of which entry 1 and others tell"])
    path.write_text(text)
    for change, what in (
        ({"notes": ["all of it is real"]}, "notes and remarks"),
        ({"small": ["none"]}, "notes and remarks"),
        ({"coterie": "9.9"}, "the version"),
        ({"again": {"run": "x", "without": ["q"]}}, "which run it does again"),
        ({"again": 3}, "which run it does again"),
    ):
        (it.run / "run.json").write_text(json.dumps({**about, **change}))
        code, said = it.verify()
        assert (code, len(said)) == (2, 1)
        assert f"run.json is not what entry 0 says of {what}" in said[0]


def test_a_line_that_is_none_ends_in_a_word(desk):
    it = desk()
    lines = metrics(it.run)
    lines[1] = {"round": 1, "scores": 3}
    write_metrics(it.run, lines)
    told = [
        {**s, "metrics": entries.lines_digest([line])} for s, line in zip(it.rounds(), lines[1:], strict=True)
    ]
    it.anew(it.begin(lines[:1]), *told, entries.end(3, it.run))
    code, said = it.verify()
    assert code == 2
    assert "metrics.jsonl, round 1, is no line of a run" in said


# what sites sign


def test_a_message_does_not_end_with_a_word_that_the_run_goes_on():
    found = [after(None, {"kind": "begin"})]
    for i in range(1, AT_ONCE + 5):
        kind = "resumed" if i in (AT_ONCE - 1, AT_ONCE) else "round"
        found.append(after(found[-1], {"kind": kind}))
    lines = [entry.line for entry in found]
    assert len(batch(lines, 0)) == AT_ONCE + 2
    assert len(batch(lines, 3)) == AT_ONCE
    assert batch(lines, len(lines)) == []


def test_an_end_is_remembered_after_a_restart_and_rounds_go_on_from_it(desk):
    """As where all states were lost: rounds are done again, and the run ends once more."""
    it = desk()
    found, again = chain.read(it.run), {"kind": "resumed", "after": 0, "metrics": "0" * 64}
    new = [after(found[-1], again)]
    assert "what comes next is not shown" in it.sign("a", it.id, 5, new)["refused"]
    new.append(after(new[-1], {**it.rounds()[0]}))
    assert "signed" in it.sign("a", it.id, 5, new)
    end = after(new[-1], entries.end(1, it.run))
    assert "signed" in it.sign("a", it.id, 7, [end])


def test_a_run_that_diverged_ends_so_and_is_not_shown_as_another(tmp_path, monkeypatch, capsys):
    room, folder = Room(tmp_path, names=("a", "b"), rows=40), tmp_path / "run"
    diverging(monkeypatch, set(room.names), {2})
    with pytest.raises(Diverged):
        room.play(monkeypatch, folder, rounds=3)
    last = chain.read(folder)[-1].content
    assert last["kind"] == "end"
    assert "no longer finite" in last["diverged"]
    words = ["--heads", *(room.states[name] / heads.HEADS for name in room.names)]
    words += ["--authority", room.kits["a"].ca_path]
    code, said = verify(folder, *words, capsys=capsys)
    assert code == 0
    assert "the run has no result, as training diverged, 2 sites signed the last head" in said[0]
    (folder / "events.jsonl").unlink()
    code, said = verify(folder, *words, capsys=capsys)
    assert code == 2
    assert said[0].startswith("events.jsonl does not end with training that diverged")
