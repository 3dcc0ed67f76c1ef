"""Scoring: each guest passes once over the rows of all hosts it visits, several guests side by side.

Pictures go through convolutions a few at a time, so that what a layer leaves is still in the cache when the
next one reads it, and with one thread for each guest; other models take many rows at once.
"""

from __future__ import annotations

import copy
import os
import queue
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Samples
from coterie.core.devices import seeded
from coterie.core.errors import BadInput
from coterie.core.kernel import Part, Scorer
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines.bank import adjoined
from coterie.engines.base import Ground
from coterie.engines.pictures import channels_last
from coterie.engines.threads import one_thread_each, threads_for
from coterie.metrics.calibration import logits_of

ROWS = 4096  # samples of one forward pass
NUMBERS = 3 * 2**15  # of the inputs of one forward pass through convolutions: 32 of CIFAR's pictures
_copies: weakref.WeakKeyDictionary[Learner, list[Learner]] = weakref.WeakKeyDictionary()

T = TypeVar("T")
Pair = tuple[int, int]
Figures = dict[str, float]


def score(
    net: Ground, kernel: Scorer, beliefs: Beliefs, edges: Tensor, key: Key, called: Sequence[int]
) -> dict[str, Tensor]:
    """Each pair of guest and host once; `called` are the numbers that the edges' guests go by."""
    if kernel.part is None:  # it only asks who is there
        return {}

    def figures(pair: Pair, outputs: Tensor, samples: Samples) -> Figures:
        return measured(net.learner, kernel, outputs, samples)

    pairs: list[Pair] = [(g, h) for g, h in edges.tolist()]
    names = {g: name for (g, _), name in zip(pairs, called, strict=True)}
    found: dict[Pair, Figures] = {}
    for some in predicted(net, kernel.part, beliefs, pairs, key, figures, names):
        found |= some
    return tabled([found[pair] for pair in pairs])


def score_crowds(
    net: Ground, kernel: Scorer, beliefs: Beliefs, edges: Tensor, shares: Tensor | None, key: Key
) -> tuple[Tensor, dict[str, Tensor]]:
    """All guests of a host as one model, whose prediction is the average of theirs: an edge for each host.

    Probabilities are averaged (their logarithm is what is measured), or the outputs of a regression. What
    each guest counts are `shares` [edge], adding up to 1 at each host; None: all alike.
    """
    assert kernel.part is not None
    hosts, first = torch.unique(edges[:, 1]), dict[int, int]()
    weights = [1.0] * len(edges) if shares is None else shares.double().tolist()
    counts: dict[Pair, float] = {}
    for (guest, host), weight in zip(edges.tolist(), weights, strict=True):
        first.setdefault(host, guest)
        counts[guest, host] = counts.get((guest, host), 0.0) + weight
    if shares is None:
        each = torch.bincount(edges[:, 1]).tolist()
        counts = {(g, h): times * (1 / each[h]) for (g, h), times in counts.items()}
    classifies = net.learner.task == "classification"

    def part(pair: Pair, outputs: Tensor, samples: Samples) -> Tensor:
        wide = outputs.cpu().double()
        return counts[pair] * (wide.softmax(dim=1) if classifies else wide)

    sums: dict[int, Tensor] = {}
    for some in predicted(net, kernel.part, beliefs, list(counts), key, part):
        for (_, host), term in some.items():
            sums[host] = sums[host] + term if host in sums else term
    kept = []
    for host in hosts.tolist():
        mine = net.banks[kernel.part].part(host)
        mean = logits_of(sums[host]) if classifies else sums[host]
        kept.append(measured(net.learner, kernel, mean, Samples(mine.x, mine.y.cpu())))
    guests = torch.tensor([first[host] for host in hosts.tolist()])
    return torch.stack([guests, hosts], dim=1), tabled(kept)


def predicted(
    net: Ground,
    part: Part,
    beliefs: Beliefs,
    pairs: Sequence[Pair],
    key: Key,
    use: Callable[[Pair, Tensor, Samples], T],
    called: Mapping[int, int] | None = None,
) -> Iterator[dict[Pair, T]]:
    """Guest by guest, what `use` makes of its predictions for each of its hosts."""
    bank = net.banks[part]
    for host in {h for _, h in pairs}:
        if not bank.sizes[host]:
            raise BadInput(f"client {net.clients[host].name!r} has no {part} samples to score on")
    visits: dict[int, set[int]] = {}
    for guest, host in pairs:
        visits.setdefault(guest, set()).add(host)
    traits = net.traits(beliefs)
    aside = traits.convolves and not traits.draws and net.device.type == "cpu"
    workers = min(len(visits), os.cpu_count() or 1) if aside else 1
    learners: queue.SimpleQueue[Learner] = queue.SimpleQueue()
    for learner in learners_for(net.learner, workers):
        learners.put(learner)

    def one(guest: int) -> dict[Pair, T]:
        hosts = {h: (int(bank.starts[h]), int(bank.sizes[h])) for h in sorted(visits[guest])}
        samples = {place: bank.part(h) for h, place in hosts.items()}  # those that hosts share once
        learner = learners.get()
        try:
            with torch.no_grad():
                outputs = passed(learner, tree.row(beliefs, guest), list(samples.values()), traits.convolves)
        finally:
            learners.put(learner)
        split = dict(zip(samples, torch.split(outputs, [len(s) for s in samples.values()]), strict=True))
        return {(guest, h): use((guest, h), split[place], samples[place]) for h, place in hosts.items()}

    if workers > 1:
        with one_thread_each(), ThreadPoolExecutor(workers) as threads:
            yield from threads.map(one, visits)
    else:
        for guest in visits:
            # what a module draws by itself comes from this guest's seed, as in training
            with seeded(key.at("score", part, called[guest] if called else guest).integer(), net.device):
                found = one(guest)
            yield found


def measured(learner: Learner, kernel: Scorer, outputs: Tensor, samples: Samples) -> Figures:
    return kernel.measure(learner.task, outputs, learner.losses(outputs, samples.y), samples.y)


def tabled(kept: Sequence[Figures]) -> dict[str, Tensor]:
    """Figures of each edge as one tensor for each name."""
    return {n: torch.tensor([f[n] for f in kept], dtype=torch.float64) for n in (kept[0] if kept else ())}


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
