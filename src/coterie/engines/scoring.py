"""Scoring: each guest passes once over the rows of all hosts it visits, several guests side by side.

Pictures go through convolutions a few at a time, so that what a layer leaves is still in the cache when the
next one reads it, and with one thread for each guest; other models take many rows at once.
"""

from __future__ import annotations

import copy
import os
import queue
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Samples
from coterie.core.devices import seeded
from coterie.core.errors import BadInput
from coterie.core.kernel import Scorer
from coterie.core.learner import Learner
from coterie.core.net import Replies
from coterie.core.seeds import Key
from coterie.engines.bank import adjoined
from coterie.engines.pictures import channels_last
from coterie.engines.threads import one_thread_each, threads_for

if TYPE_CHECKING:
    from coterie.engines.base import InProcess

ROWS = 4096  # samples of one forward pass
NUMBERS = 3 * 2**15  # of the inputs of one forward pass through convolutions: 32 of CIFAR's pictures
_copies: weakref.WeakKeyDictionary[Learner, list[Learner]] = weakref.WeakKeyDictionary()

Figures = dict[str, float]


def score(net: InProcess, kernel: Scorer, beliefs: Beliefs, edges: Tensor, key: Key) -> Replies:
    """Each pair of guest and host once."""
    bank, pairs = net.banks[kernel.part], edges.tolist()
    for host in {h for _, h in pairs}:
        if not bank.sizes[host]:
            raise BadInput(f"client {net.clients[host].name!r} has no {kernel.part} samples to score on")
    visits: dict[int, set[int]] = {}
    for guest, host in pairs:
        visits.setdefault(guest, set()).add(host)
    traits = net.traits(beliefs)
    aside = traits.convolves and not traits.draws and net.device.type == "cpu"
    workers = min(len(visits), os.cpu_count() or 1) if aside else 1
    learners: queue.SimpleQueue[Learner] = queue.SimpleQueue()
    for learner in learners_for(net.learner, workers):
        learners.put(learner)

    def one(guest: int) -> dict[tuple[int, int], Figures]:
        hosts = sorted(visits[guest])
        samples, learner = [bank.part(h) for h in hosts], learners.get()
        try:
            with torch.no_grad():
                outputs = passed(learner, tree.row(beliefs, guest), samples, traits.convolves)
        finally:
            learners.put(learner)
        split = torch.split(outputs, [len(s) for s in samples])
        return {
            (guest, host): kernel.measure(learner.task, out, learner.losses(out, mine.y), mine.y)
            for host, mine, out in zip(hosts, samples, split, strict=True)
        }

    figures: dict[tuple[int, int], Figures] = {}
    if workers > 1:
        with one_thread_each(), ThreadPoolExecutor(workers) as threads:
            for found in threads.map(one, visits):
                figures |= found
    else:
        for guest in visits:
            # what a module draws by itself comes from this guest's seed, as in training
            with seeded(key.at("score", kernel.part, guest).integer(), net.device):
                figures |= one(guest)
    kept = [figures[guest, host] for guest, host in pairs]
    numbers = {n: torch.tensor([f[n] for f in kept], dtype=torch.float64) for n in (kept[0] if kept else ())}
    return Replies(edges, numbers)


def passed(learner: Learner, belief: Belief, samples: Sequence[Samples], convolves: bool) -> Tensor:
    """Predictions for the rows of all samples, [row, ...]."""
    numbers = sum(s.x.numel() for s in samples)
    with threads_for(numbers):
        return torch.cat([learner.outputs(belief, x) for x in pieces(samples, convolves)])


def pieces(samples: Sequence[Samples], convolves: bool) -> Iterator[Tensor]:
    """Inputs of the forward passes, in the order of the samples."""
    if not convolves:
        yield from torch.split(adjoined([s.x for s in samples]), ROWS)
        return
    for some in samples:  # not joined: their copy would cost as much as a layer
        rows = max(1, NUMBERS // some.x[:1].numel())
        yield from (channels_last(x) for x in torch.split(some.x, rows))


def learners_for(learner: Learner, workers: int) -> list[Learner]:
    """One for each thread, the first being the given one; the others have a module of their own to score."""
    made = _copies.setdefault(learner, [])
    while len(made) < workers - 1:
        another = copy.copy(learner)
        another.scoring = copy.deepcopy(learner.scoring)
        made.append(another)
    return [learner, *made[: workers - 1]]
