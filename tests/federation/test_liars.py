"""A site that answers wrongly is left out and named, and others go on.

Every lie is told in a federation within this process, and in one of processes where it takes them, or for
long. Run as a script this is such a site: test_liars.py FILE KIT ..., where the file says how it lies.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from room import Room
from safetensors.torch import load_file
from ward import LONG, rounds_of

from coterie.federation.lead.orders import blamed
from coterie.federation.site import server, session
from coterie.nets.site import kind_of, lacking

LIAR, SINCE = "d", 3  # from that round on


class Liar(session.Session):
    """Tells the truth until some round."""

    told = Path()  # a file that says what
    now = 0
    last = ({}, {})

    @property
    def lie(self):
        return self.told.read_text()

    @property
    def lying(self):
        return self.now >= SINCE

    def do_visit(self, message, tensors):
        self.now = max(self.now, message["key"]["round"])
        answer, numbers = found = super().do_visit(message, tensors)
        before, Liar.last = Liar.last, found
        if not self.lying:
            return found
        if self.lie == "reply of other shapes":
            return {
                **answer,
                "like": {n: [kind, [*shape, 2]] for n, (kind, shape) in answer["like"].items()},
            }, numbers
        if self.lie == "loss is NaN":
            return answer, {n: t * float("nan") if n == "loss" else t for n, t in numbers.items()}
        if self.lie == "too many numbers":
            return answer, {n: torch.cat([t, t]) for n, t in numbers.items()}
        if self.lie == "answer to another question":
            return before
        if self.lie == "no answer at all":
            return {}, {}
        return found

    def do_give(self, message, tensors):
        answer, given = super().do_give(message, tensors)
        return answer, self.spoilt(given)

    def do_letter(self, message, tensors):
        answer, given = super().do_letter(message, tensors)
        return answer, self.spoilt(given)

    def spoilt(self, given):
        if self.lying and self.lie == "models are NaN":
            return {n: torch.full_like(t, float("nan")) for n, t in given.items()}
        if self.lying and self.lie == "models of other shapes":
            return {n: torch.cat([t, t]) for n, t in given.items()}
        if self.lying and self.lie == "models of other names":
            return {f"{n}x": t for n, t in given.items()}
        return given

    def do_letters(self, message, *more):
        if self.lying and self.lie == "letters are not sent":
            return {"sent": [100] * len(message["orders"])}, {}
        return super().do_letters(message, *more)

    def take_peer_message(self, sender, data):
        if self.lying and self.lie == "dies of a letter":
            os._exit(9)
        if self.lying and self.lie == "takes no letters":
            raise session.Refused("no letters today")
        super().take_peer_message(sender, data)


SHAPES = "its reply is made of other tensors than those of others"
LIES = [
    ("loss is NaN", "fedavg", "it tells a loss that is no number"),
    ("letters are not sent", "pens", "what d sent to a is not there"),
    ("takes no letters", "pens", "to d was not taken: no letters today"),
    ("models of other shapes", "pens", "what d sent to a is not there"),
    ("models are NaN", "fedavg", "with numbers that are not finite"),
    ("reply of other shapes", "fedavg", SHAPES),
    ("too many numbers", "fedavg", "it tells 'loss' of shape [2], not [1]"),
    ("answer to another question", "fedavg", SHAPES),
    ("no answer at all", "fedavg", "its answer is not to what it was asked"),
    ("models of other shapes", "fedavg", "of shape [4, 3], not [2, 3]"),  # the first tensor of the model
    ("models of other names", "fedavg", "it gives other tensors than it was asked for"),
    ("models are NaN", "pens", "is not finite: leave that site out"),
]
PROCESSES = [*LIES, ("dies of a letter", "pens", "d is not connected")]


def holds(folder, lines, away, why, rounds):
    """What holds wherever a site lies."""
    assert rounds_of(lines) == list(range(rounds + 1))
    assert list(away) == list(range(SINCE, rounds + 1))
    assert all(why.replace("to a", "to ") in one or "is not there" in one for one in away.values())
    assert not any(set(line.get("away", {})) - {LIAR} for line in lines), "an honest site was left out"
    assert all(v is not None for line in lines for v in line["scores"]["own/test"]["loss"][:3])
    for kept in folder.rglob("*.safetensors"):
        for name, t in load_file(kept).items():
            assert not t.is_floating_point() or bool(torch.isfinite(t).all()), (kept, name)


@pytest.mark.parametrize(("lie", "method", "why"), LIES)
def test_a_liar_is_left_out_and_named(tmp_path, monkeypatch, caplog, lie, method, why):
    (tmp_path / "lie").write_text(lie)
    monkeypatch.setattr(Liar, "told", tmp_path / "lie")
    honest = session.Session
    monkeypatch.setattr(
        server,
        "Session",
        lambda client, *more: (Liar if client.name == LIAR else honest)(client, *more),
    )
    record = Room(tmp_path).play(monkeypatch, tmp_path / "run", rounds=6, method=method)
    away = {line["round"]: line["away"][LIAR] for line in record.metrics if LIAR in line.get("away", {})}
    holds(tmp_path / "run", record.metrics, away, why, 6)
    assert why in next(line for line in caplog.messages if "d is left out: " in line)


@pytest.fixture(scope="module")
def ward(ward):
    """One of its sites lies."""
    liar = [sys.executable, Path(__file__), ward.folder / "lie", ward.kits[LIAR], "--recipe", ward.recipe]

    def start():
        ward.sites[LIAR] = ward.start(LIAR, liar)
        ward.connected(LIAR)

    ward.sites[LIAR].stop()
    ward.start_liar = start
    yield ward
    ward.sites[LIAR].stop()


@pytest.mark.slow
@pytest.mark.parametrize(("lie", "method", "why"), PROCESSES)
def test_who_answers_wrongly_is_left_out_and_named(ward, lie, method, why):
    """Each a process with a kit of its own."""
    if ward.sites[LIAR].returncode is not None:
        ward.start_liar()
    (ward.folder / "lie").write_text(lie)
    out = f"{lie} {method}".replace(" ", "-")
    driver = ward.run(out, "--method", method, "--rounds", 6, net=["--federation.patience", 1])
    assert driver.wait(LONG) == 0
    assert why in driver.wait_for("d is left out: ")
    holds(ward.folder / out, ward.lines(out), ward.away(out, LIAR), why, 6)


@pytest.mark.parametrize(
    ("failed", "before", "who"),
    [
        ([], {}, set()),
        ([(0, 3), (1, 3), (2, 3)], {}, {3}),  # a receiver that nobody reaches
        ([(3, 0), (3, 1), (3, 2)], {}, {3}),  # a sender whose letters nobody takes
        ([(0, 3), (3, 1)], {}, {3}),
        ([(0, 3)], {}, {0}),  # word against word
        ([(0, 3)], {3: 6, 0: 2}, {3}),  # and who had trouble before
        ([(0, 1), (2, 3)], {3: 1}, {0, 3}),
    ],
)
def test_whose_fault_it_is_that_letters_failed(failed, before, who):
    assert blamed(dict.fromkeys(failed, "why"), Counter(before)).keys() == who


def test_what_a_site_lacks_of_what_it_should_hold():
    held = {1: {"w": torch.zeros(2), "more": torch.zeros(1)}, 2: {"w": torch.zeros(3)}}
    like = {str(id): {"w": kind_of(torch.zeros(2))} for id in (1, 2, 3)}
    assert lacking(held, like) == [2, 3]


if __name__ == "__main__":
    from coterie.cli.site import site

    Liar.told = Path(sys.argv[1])
    server.Session = Liar
    sys.exit(site(sys.argv[2:]))
