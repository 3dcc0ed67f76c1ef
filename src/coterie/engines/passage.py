"""Forward passes: guests on their way over the rows of the hosts they visit.

Many small guests go side by side through one forward pass, over as many rows each: what a shorter one lacks
is filled up and thrown away, and chunks are cut so that this is less than half. A guest with many rows goes
alone, and so does a model that has no batched form or draws random numbers.

Pictures go through convolutions a few at a time, so that what a layer leaves is still in the cache when the
next one reads it, and with one thread for each guest; other models take many rows at once.
"""

from __future__ import annotations

import copy
import os
import queue
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.devices import seeded
from coterie.core.errors import Refused
from coterie.core.kernel import Part
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.core.wire import aligned
from coterie.engines.bank import Bank, taken
from coterie.engines.base import Ground
from coterie.engines.eager import channels_last
from coterie.engines.replay import outputs_of
from coterie.engines.threads import one_thread_each, threads_for

ROWS = 4096  # samples of one forward pass
NUMBERS = 3 * 2**15  # of the inputs of one forward pass through convolutions: 32 of CIFAR's pictures
STACKED = 2**22  # of the models side by side in one forward pass: more gain nothing
_copies: weakref.WeakKeyDictionary[Learner, list[Learner]] = weakref.WeakKeyDictionary()
_batched: weakref.WeakKeyDictionary[Learner, bool] = weakref.WeakKeyDictionary()


class Visits(NamedTuple):
    """Who passes over which of a bank's rows; a guest passes once over rows that hosts share.

    guests   their numbers, in the order in which edges name them
    each     [guest] how many visits it makes: they lie one after the other, by their place in the bank
    starts   [visit] the first row
    sizes    [visit] the number of rows
    """

    guests: list[int]
    each: Tensor
    starts: Tensor
    sizes: Tensor

    def rows(self, some: Tensor | slice) -> Tensor | slice:
        """The bank's rows of some visits, one visit after the other."""
        starts, sizes = self.starts[some], self.sizes[some]
        if torch.equal(starts[1:], (starts + sizes)[:-1]):
            return slice(int(starts[0]), int(starts[-1] + sizes[-1]))
        return spans(starts, sizes)


class Passed(NamedTuple):
    """Outputs [row, ...] of some visits, one visit after the other, on the CPU."""

    visits: Tensor
    outputs: Tensor


def predicted(
    net: Ground,
    part: Part,
    beliefs: Beliefs,
    visits: Visits,
    key: Key,
    called: Mapping[int, int] | None = None,
    in_order: bool = False,
) -> Iterator[Passed]:
    """Outputs of all visits, some at a time; in the order of the visits, if that is asked for."""
    traits, bank, turns = net.traits(beliefs), net.banks[part], range(len(visits.guests))
    with one_thread_each():
        passage = _Passage(bank, beliefs, visits, traits.convolves)
    if traits.draws:
        for turn, guest in enumerate(visits.guests):
            # what a module draws by itself comes from this guest's seed, as in training
            with seeded(key.at("score", part, called[guest] if called else guest).integer(), net.device):
                found = passage.alone(net.learner, turn)
            yield from found
    elif getattr(getattr(net, "engine", None), "apart", False):
        for turn in turns:
            yield from passage.one_by_one(net.learner, turn)
    elif traits.convolves and net.device.type == "cpu":
        yield from _in_threads(net.learner, passage, turns)
    elif len(turns) == 1 or traits.convolves or not _has_batched_form(net.learner, beliefs, bank.x[:4]):
        for turn in turns:
            yield from passage.alone(net.learner, turn)
    else:
        most = max(1, STACKED // sum(t[0].numel() for t in beliefs.values()))
        for some in chunks(passage.rows, most, in_order):
            if len(some) == 1:
                yield from passage.alone(net.learner, some[0])
            else:
                yield passage.side_by_side(net.learner, some)


class _Passage:
    """Guests on their way over a bank's rows; `rows` is how many each has."""

    def __init__(self, bank: Bank, beliefs: Beliefs, visits: Visits, convolves: bool) -> None:
        self.bank, self.beliefs, self.visits, self.convolves = bank, beliefs, visits, convolves
        self._firsts: list[int] = [0, *visits.each.cumsum(0).tolist()]
        whose = torch.repeat_interleave(visits.each)
        self._per_row = bank.x.first.numel()
        self.rows: list[int] = torch.zeros_like(visits.each).index_add_(0, whose, visits.sizes).tolist()

    def alone(self, learner: Learner, turn: int) -> list[Passed]:
        """One guest's visits, as many in a pass as it has room for."""
        belief = tree.row(self.beliefs, self.visits.guests[turn])
        first, end = self._firsts[turn : turn + 2]
        passes, rows = [first], 0  # where each begins; visits of more rows than there is room for are alone
        for visit, size in enumerate(self.visits.sizes[first:end].tolist(), first):
            if rows and rows + size > ROWS:
                passes.append(visit)
                rows = 0
            rows += size
        return [self._run(learner, belief, a, b) for a, b in pairwise([*passes, end])]

    def one_by_one(self, learner: Learner, turn: int) -> list[Passed]:
        """One guest's visits, each in passes of its own: to the last bit as if nobody else were there."""
        row = tree.row(self.beliefs, self.visits.guests[turn])
        belief = {name: aligned(t) for name, t in row.items()}
        return [
            self._run(learner, belief, v, v + 1, apart=True) for v in range(*self._firsts[turn : turn + 2])
        ]

    def _run(self, learner: Learner, belief: Belief, first: int, end: int, apart: bool = False) -> Passed:
        """One guest's visits from the first up to the end; apart, rows lie where they would lie alone."""
        numbers = int(self.visits.sizes[first:end].sum()) * self._per_row
        with torch.no_grad(), threads_for(numbers):
            pieces = (aligned(x) if apart else x for x in self._pieces(first, end))
            outputs = torch.cat([learner.outputs(belief, x) for x in pieces])
        return Passed(torch.arange(first, end), outputs.cpu())

    def _pieces(self, first: int, end: int) -> Iterator[Tensor]:
        """Inputs of the forward passes over these visits."""
        if not self.convolves:
            yield from torch.split(self.bank.x[self.visits.rows(slice(first, end))], ROWS)
            return
        at_once = max(1, NUMBERS // self._per_row)
        for visit in range(first, end):  # not joined: their copy would cost as much as a layer
            x = self.bank.x[self.visits.rows(slice(visit, visit + 1))]
            yield from (channels_last(piece) for piece in torch.split(x, at_once))

    def side_by_side(self, learner: Learner, turns: Sequence[int]) -> Passed:
        """Several guests in one pass, each over as many rows as the one who has most."""
        learner.watch.check()
        longest = max(self.rows[turn] for turn in turns)
        with threads_for(len(turns) * longest * self._per_row):
            some = torch.tensor([v for turn in turns for v in range(*self._firsts[turn : turn + 2])])
            rows, lengths = self.visits.rows(some), [self.rows[turn] for turn in turns]
            real: Tensor | slice = slice(None)  # which rows are guests' own
            if min(lengths) < longest:  # any row takes the places that shorter ones leave
                real = spans(torch.arange(len(turns)) * longest, torch.tensor(lengths))
                numbers = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
                places = torch.zeros(len(turns) * longest, dtype=torch.int64)
                rows = places.index_copy_(0, real, numbers)
            x = self.bank.x[rows]
            which = [self.visits.guests[turn] for turn in turns]
            in_a_row = all(b == a + 1 for a, b in pairwise(which))  # then nothing is copied
            guests = slice(which[0], which[-1] + 1) if in_a_row else torch.tensor(which)
            beliefs = {name: taken(t, guests) for name, t in self.beliefs.items()}
            outputs = outputs_of(learner, beliefs, x.reshape(len(turns), longest, *x.shape[1:]))
            return Passed(some, taken(outputs.flatten(0, 1), real).cpu())


def _in_threads(learner: Learner, passage: _Passage, turns: Sequence[int]) -> Iterator[Passed]:
    """One thread for each guest, as many as there are processors."""
    workers = min(len(turns), os.cpu_count() or 1)
    if workers == 1:
        for turn in turns:
            yield from passage.alone(learner, turn)
        return
    learners: queue.SimpleQueue[Learner] = queue.SimpleQueue()
    learners.put(learner)
    others = _copies.setdefault(learner, [])  # with a module of their own to score
    while len(others) < workers - 1:
        another = copy.copy(learner)
        another.scoring = copy.deepcopy(learner.scoring)
        others.append(another)
    for another in others[: workers - 1]:
        learners.put(another)

    def alone(turn: int) -> list[Passed]:
        mine = learners.get()
        try:
            return passage.alone(mine, turn)
        finally:
            learners.put(mine)

    with one_thread_each(), ThreadPoolExecutor(workers) as threads:
        for found in threads.map(alone, turns):
            yield from found


def _has_batched_form(learner: Learner, beliefs: Beliefs, x: Tensor) -> bool:
    """Whether guests may pass side by side: found out once, by trying a few rows.

    Not if an operation has no batched form, nor if a row's outputs depend on the rows beside it, which may be
    filling.
    """
    if learner not in _batched:
        few = x[torch.arange(4, device=x.device) % len(x)]
        two = {name: t[:1].expand(2, *t.shape[1:]) for name, t in beliefs.items()}
        try:
            together = vmap(learner.outputs)(two, torch.stack([few, few.flip(0)]))[0, :2]
            apart = learner.outputs(tree.row(beliefs, 0), few[:2])
            _batched[learner] = torch.allclose(together, apart, rtol=1e-3, atol=1e-5, equal_nan=True)
        except Refused:  # work is to end, which says nothing of the model
            raise
        except Exception:  # whatever a module may do that has no batched form
            _batched[learner] = False
    return _batched[learner]


def chunks(rows: Sequence[int], most: int, in_order: bool) -> Iterator[list[int]]:
    """Guests that pass side by side: at most so many, and half of the rows of a pass at most are filling."""
    order: Sequence[int] = range(len(rows))
    if not in_order and max(rows) > 2 * min(rows):
        order = sorted(order, key=lambda turn: -rows[turn])
    some: list[int] = []
    longest = total = 0
    for turn in order:
        filled = max(longest, rows[turn]) * (len(some) + 1)
        if some and (len(some) == most or filled > min(ROWS, 2 * (total + rows[turn]))):
            yield some
            some, longest, total = [], 0, 0
        some.append(turn)
        longest, total = max(longest, rows[turn]), total + rows[turn]
    yield some


def spans(starts: Tensor, sizes: Tensor) -> Tensor:
    """So many numbers from each start on, one after the other: [Σ sizes]."""
    ends = sizes.cumsum(0)
    return torch.repeat_interleave(starts - ends + sizes, sizes) + torch.arange(int(ends[-1]))
