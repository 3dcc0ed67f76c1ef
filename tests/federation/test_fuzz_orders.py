"""Well-formed orders of a lead who means harm, by a grammar of every verb and every kernel (`grammar.py`).

They are given to a site whose policy allows nothing, and to one that allows all but its rows, each beside
two twins with other values in half of their rows (`twins.py`): all that leaves, numbers and texts, is held
against what leaves the twins. Nothing of it may be about fewer than `min_rows` rows, or be a cell's value.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections import Counter

import numpy as np
import pytest
from grammar import LEAST, VERBS, Grammar, all_names, missing_verbs
from room import BY_CLASS
from twins import Cells, World, brought, cells_in, leaves, partly, replied, rows_behind, worlds

from coterie.core.kernel import KERNELS
from coterie.engines import loop
from coterie.federation.policy.keys import MAY, Policy
from coterie.federation.site.rows import RowGuard

SECONDS, MEMORY = 2.0, 2**28
BOUNDS = {
    "min_rows": LEAST,
    "max_seconds": SECONDS,
    "max_memory": MEMORY,
    "max_steps": 400,
    "deals_a_day": 10**6,
    "runs_a_day": 10**6,
    "row_leverage": 1.0,
}
CLOSED = Policy(**dict.fromkeys(MAY, False), scores="own", **BOUNDS)
OPEN = Policy(**{key: key != "rows" for key in MAY}, scores="all", label_counts=True, **BOUNDS)
NEVER = {"give", "letters", "distances", "rows", "check", "letter", "seal", "unseal"}  # where all is false
TOLD_BY_DESIGN = {"rows", "check"}  # where the policy allows it: the rows, and quantiles of columns
OFTEN = 3  # that rows behind figures of a kernel are counted, each changed in turn
NOISY = {"noisy", "choice", "tallied"}  # noise, ranks and bins: a row may change nothing though all count
QUICK = 0.2  # seconds of a visit that is done again for each row
NOT_HERE = {"relative", "fooled"}  # of a survival, and of pictures with validation rows


class Fuzz:
    """Plays orders, and writes down what is wrong with what comes of them.

    outcomes  {(verb, how it ended): how often}
    reached   {kernel: visits of it, or with it inside, that the guard was asked about}
    answered  {kernel: visits of it, or with it inside, that were done}
    sets      {rows that local work with figures was on: its kernel}
    """

    def __init__(self, folder, policy, seed, monkeypatch):
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        self.met = World(folder / "met", Policy(), frozenset(), monkeypatch).meet()
        self.policy, self.worlds = policy, worlds(folder, policy, monkeypatch)
        for world in self.worlds:
            world.set_aside(self.met)
            assert world.begin(self.met)[0] == "done"
        self.grammar = Grammar(seed, self.met, self.met.roster.shape[0], self.met.rule.ground)
        self.cells = [Cells(world) for world in self.worlds]
        self.outcomes, self.reached, self.answered = Counter(), Counter(), Counter()
        self.wrong, self.sets, self.slowest, self.counted = [], {}, (0.0, ""), Counter()
        self.asked, self.steps, self.took = [], [], 0.0
        watch_guard(self, monkeypatch)

    def play(self, orders):
        for _ in range(orders):
            self.one(*self.grammar.order())

    def one(self, message, tensors):
        do, names = message["do"], all_names(message["kernel"]) if "kernel" in message else []
        session = self.worlds[0].station.session
        held = brought(session, message, tensors) if do == "visit" else {}
        answers = []
        for world in self.worlds:
            self.asked.clear()
            self.steps.append([])
            start = time.monotonic()
            begin = do == "begin"
            answers.append(world.begin(self.met, message["fold"]) if begin else world.ask(message, tensors))
            self.took = time.monotonic() - start
            self.slowest = max(self.slowest, (self.took, str(message)[:300]))
        taken, self.steps = self.steps[-len(answers)], []
        how, found = answers[0][:2]
        self.outcomes[do, how] += 1
        self.reached.update(set(names) if self.asked else ())
        if how == "done":
            self.answered.update(set(names) if "diverged" not in found else ())
            self.grammar.heard(message, found)
        self.look(message, answers, held, session)
        if do == "visit" and how == "done" and taken:
            self.look_at_rows(message["kernel"], names, found, taken)
        if self.worlds[0].station.session is None:
            for world in self.worlds:
                world.set_aside(self.met)  # among many other ways it is forgotten
                assert world.begin(self.met)[0] == "done"
            self.grammar.ids = []

    # what is wrong with it

    def look(self, message, answers, held, session):
        """Everything that leaves, and what may leave later where models may."""
        do, how = message["do"], answers[0][0]
        if self.policy is OPEN and do in TOLD_BY_DESIGN:
            return
        told = [leaves(answer) for answer in answers]
        if found := cells_in(self.cells, told):
            self.wrong.append(("a cell", message, [(w, told[0][w]) for w in found[:3]]))
        if len({(answer[0], "diverged" in answer[1]) for answer in answers}) > 1:
            if do != "visit":  # what diverges goes by all rows
                self.wrong.append(("goes by values", message, [a[1] for a in answers]))
            return
        if do == "visit" and how == "done" and self.policy.to_coordinator:
            told = [{**t, **replied(w, message)} for t, w in zip(told, self.worlds, strict=True)]
        allowed = BY_CLASS if self.policy.label_counts else ()  # which may be of few, as docs/privacy.md says
        where = [w for w in partly(*told) if not any(name in w for name in allowed)]
        if do == "sums":  # how many rows have a value, of all: which rows were dealt goes by their classes
            where = [w for w in where if not (w.startswith("/sums/") and w.endswith("/0"))]
        if where and do == "visit" and how == "done":
            self.look_at_figure(message, held, session, where, told)
        elif where and do not in ("give", "letters"):  # of what visits left, which was looked at then
            self.wrong.append(("partly", message, [(w, [t.get(w) for t in told]) for w in where[:3]]))

    def look_at_figure(self, message, held, session, where, told):
        """A figure that half of the rows do not change: how many do?"""
        names = set(all_names(message["kernel"]))
        often = all(self.counted[name] >= OFTEN for name in names)
        if NOISY & names or often or self.took > QUICK:
            return
        self.counted.update(names)
        many = rows_behind(session, message, held, where[0], LEAST)
        if 0 < many < LEAST:
            values = [t.get(where[0]) for t in told]
            self.wrong.append((f"of {many} rows", message, where[0], values))

    def look_at_rows(self, kernel, names, found, steps):
        """Which rows local work took, from inside: enough, and not a few others than another visit's."""
        rows = frozenset(np.unique(np.concatenate(steps)).tolist())
        if len(rows) < LEAST:
            self.wrong.append((f"works on {len(rows)} rows", kernel))
        if "loss" in found.get("numbers", ()) and "dp" not in names:  # whose rows are drawn by a secret
            self.sets.setdefault(rows, kernel)

    def near(self):
        """Sets of rows that figures were told of and that differ by few."""
        return [(self.sets[a], self.sets[b]) for a in self.sets for b in self.sets if 0 < len(a ^ b) < LEAST]


def watch_guard(fuzz, monkeypatch):
    """Notes visits that the guard is asked about, and rows of each step that local work takes."""
    visit, batch = RowGuard.visit, loop.batch_of

    def asked(self, *told):
        fuzz.asked.append(1)
        return visit(self, *told)

    def seen(x, y, rows):
        if fuzz.steps:
            fuzz.steps[-1].append(rows[rows >= 0].numpy())
        return batch(x, y, rows)

    monkeypatch.setattr(RowGuard, "visit", asked)
    monkeypatch.setattr(loop, "batch_of", seen)


def memory():
    """The most that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held_to(fuzz, before):
    """What holds whatever was asked."""
    assert not fuzz.wrong, fuzz.wrong[:3]
    assert not fuzz.near(), fuzz.near()[:3]
    assert fuzz.slowest[0] < SECONDS + 3, fuzz.slowest
    assert memory() - before < MEMORY + 2**28
    if fuzz.policy is CLOSED:
        done = {verb for verb, how in fuzz.outcomes if how == "done"}
        assert not done & NEVER
    said = "\n".join(
        f"{name}: {fuzz.reached[name]} reached the guard, {fuzz.answered[name]} answered" for name in KERNELS
    )
    print(said, fuzz.outcomes, fuzz.counted, fuzz.slowest, sep="\n")


@pytest.mark.parametrize(("policy", "orders"), [(CLOSED, 150), (OPEN, 50)], ids=["closed", "open"])
def test_no_order_gets_a_figure_of_few_rows(tmp_path, monkeypatch, policy, orders):
    fuzz, before = Fuzz(tmp_path, policy, 34, monkeypatch), memory()
    fuzz.play(orders)
    held_to(fuzz, before)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "orders"), [(CLOSED, 10_000), (OPEN, 2_000)], ids=["closed", "open"])
def test_ten_thousand_orders(tmp_path, monkeypatch, policy, orders):
    fuzz, before = Fuzz(tmp_path, policy, 35, monkeypatch), memory()
    fuzz.play(orders)
    held_to(fuzz, before)
    asked = {verb for verb, _ in fuzz.outcomes}
    assert asked == VERBS.keys()
    if policy is OPEN:
        assert all(fuzz.reached[name] >= orders / 500 for name in KERNELS), fuzz.reached
        assert all(fuzz.answered[name] for name in KERNELS if name not in NOT_HERE), fuzz.answered


@pytest.fixture
def open_fuzz(tmp_path, monkeypatch):
    return Fuzz(tmp_path, OPEN, 36, monkeypatch)


def test_the_grammar_has_every_verb(open_fuzz):
    assert not missing_verbs(open_fuzz.worlds[0].station)


def test_every_kernel_gets_as_far_as_the_rows(open_fuzz):
    """A fuzz whose orders are all refused for their form would find nothing."""
    for name in KERNELS:
        for _ in range(12):
            message, tensors = open_fuzz.grammar.visit(open_fuzz.grammar.kernel(name, calm=True))
            open_fuzz.one({"do": "visit", **message}, tensors)
            if open_fuzz.answered[name] or (name in NOT_HERE and open_fuzz.reached[name]):
                break
    assert not [name for name in KERNELS if not open_fuzz.reached[name]]
    assert not [name for name in KERNELS if not open_fuzz.answered[name] and name not in NOT_HERE]
    assert not open_fuzz.wrong, open_fuzz.wrong[:3]


def test_labels_are_turned_round_among_the_classes_that_there_are(open_fuzz):
    """Among others the visit failed where a row had a label beyond them, and did not where none had."""
    world = open_fuzz.worlds[0]
    for classes in (0, 1, 3, 74):
        message, tensors = open_fuzz.grammar.visit({"name": "poisoned", "classes": classes})
        how, found, _, _ = world.ask({"do": "visit", **message}, tensors)
        assert (how, "where 2 are here" in found["text"]) == ("Refused", True)


@pytest.mark.parametrize("specificity", [0.0, 0.1, 0.5, 0.98])
def test_no_sensitivity_is_told_of_few_rows_of_a_class(tmp_path, monkeypatch, specificity):
    """At a chosen specificity it was, whatever the policy said: how many rows are of a class, and how one of
    them ranks.
    """
    fuzz = Fuzz(tmp_path, CLOSED, 37, monkeypatch)
    message, tensors = fuzz.grammar.visit({"name": "calibrate", "specificity": specificity})
    how, _, numbers, _ = fuzz.worlds[0].ask({"do": "visit", **message}, tensors)
    assert how == "done"
    assert not any(bool(numbers[name].isfinite().any()) for name in BY_CLASS if name in numbers)


def test_what_goes_wrong_with_rows_is_said_to_nobody_else(open_fuzz, monkeypatch):
    """The text of a mishap named a row's label, in `index 73 is out of bounds`."""

    def wrong(*told):
        raise IndexError("index 73 is out of bounds")

    world = open_fuzz.worlds[0]
    message, tensors = open_fuzz.grammar.visit({"name": "sgd"})
    monkeypatch.setattr(world.station.session, "do_visit", wrong)
    how, found, _, _ = world.ask({"do": "visit", **message}, tensors)
    assert how == "BadRun"
    assert found["text"] == "'visit' could not be done (IndexError)"
    assert any("out of bounds" in line for line in world.room.said["a"])  # people there read why
