"""Scoring: guests pass over the rows of the hosts they visit, and the figures of all come out at once.

Whoever passes (`passage.py`), the outputs then lie one visit after the other, and a kernel measures many
visits together.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput
from coterie.core.groups import Groups, added
from coterie.core.kernel import Look, Part, Scorer, apart
from coterie.core.seeds import Key
from coterie.engines.bank import Bank, taken
from coterie.engines.base import Ground
from coterie.engines.passage import Passed, Visits, predicted, spans
from coterie.engines.threads import one_thread_each, threads_for
from coterie.metrics.calibration import logits_of, probabilities

MEASURED = 2**18  # of the outputs that are measured together: more fall out of the caches
KEPT = 8  # lists of edges whose visits are kept: those of one round are mostly those of the next
_visits: weakref.WeakKeyDictionary[Bank, dict[bytes, tuple[Visits, Tensor]]] = weakref.WeakKeyDictionary()


class _Terms(NamedTuple):
    """What is added up for hosts, in this order: the outputs of a visit, so many times. All are [term]."""

    visits: Tensor
    hosts: Tensor
    weights: Tensor


def score(
    net: Ground, kernel: Scorer, beliefs: Beliefs, edges: Tensor, key: Key, called: Sequence[int]
) -> dict[str, Tensor]:
    """Figures of each edge; `called` are the numbers that the edges' guests go by."""
    if kernel.part is None:  # it only asks who is there
        return {}
    visits, back = _visits_of(net, kernel.part, edges)
    names = dict(zip(edges[:, 0].tolist(), called, strict=True))
    with torch.no_grad():
        passes = predicted(net, kernel.part, beliefs, visits, key, names)
        return _measured(net, kernel, visits, passes, back)


def score_crowds(
    net: Ground, kernel: Scorer, beliefs: Beliefs, edges: Tensor, shares: Tensor | None, key: Key
) -> tuple[Tensor, dict[str, Tensor]]:
    """All guests of a host as one model, whose prediction is the average of theirs: an edge for each host.

    Probabilities are averaged (their logarithm is what is measured), or the outputs where there are no
    classes. What each guest counts are `shares` [edge], adding up to 1 at each host; None: all alike.
    """
    assert kernel.part is not None
    visits, back = _visits_of(net, kernel.part, edges)
    hosts, terms = _terms_of(edges[:, 1], back, shares)
    bank = net.banks[kernel.part]
    crowds = Visits([], torch.ones_like(hosts), bank.starts[hosts], bank.sizes[hosts])
    with torch.no_grad():
        passes = predicted(net, kernel.part, beliefs, visits, key, in_order=True)
        means = _averaged(passes, visits, terms, crowds.sizes, net.learner.task == "classification")
        each = (Passed(torch.tensor([i]), mean) for i, mean in enumerate(means))
        figures = _measured(net, kernel, crowds, each, torch.arange(len(hosts)))
    first = {host: guest for guest, host in reversed(edges.tolist())}
    guests = torch.tensor([first[host] for host in hosts.tolist()])
    return torch.stack([guests, hosts], dim=1), figures


def _visits_of(net: Ground, part: Part, edges: Tensor) -> tuple[Visits, Tensor]:
    """The visits that edges come down to, and which of them each edge is: [edge]."""
    known = _visits.setdefault(net.banks[part], {})
    mark = edges.numpy().tobytes()
    if mark in known:
        return known[mark]
    if len(known) == KEPT:
        known.clear()
    with one_thread_each():
        bank, guests, hosts = net.banks[part], edges[:, 0].tolist(), edges[:, 1]
        sizes = bank.sizes[hosts]
        if not bool(sizes.all()):
            empty = net.clients[int(hosts[sizes == 0][0])]
            raise BadInput(f"client {empty.name!r} has no {part} samples to score on")
        turns = {guest: turn for turn, guest in enumerate(dict.fromkeys(guests))}
        # hosts that share rows have the same start
        places = torch.tensor([turns[g] for g in guests]) * len(bank.x) + bank.starts[hosts]
        found, back = torch.unique(places, return_inverse=True)
        each = torch.bincount(found // len(bank.x))
        lengths = torch.empty_like(found).index_copy_(0, back, sizes)
        known[mark] = Visits(list(turns), each, found % len(bank.x), lengths), back
    return known[mark]


def _measured(
    net: Ground, kernel: Scorer, visits: Visits, passes: Iterable[Passed], back: Tensor
) -> dict[str, Tensor]:
    """Figures of each edge, which is the visit `back` [edge]."""
    assert kernel.part is not None
    y, learner = net.banks[kernel.part].y, net.learner
    order: list[Tensor] = []
    tables: list[Tensor] = []  # [figure, visit]
    names: list[str] = []
    for passed in _gathered(passes):
        with threads_for(sum(p.outputs.numel() for p in passed)):
            some, outputs = passed[0]
            if len(passed) > 1:
                some, outputs = (torch.cat(parts) for parts in zip(*passed, strict=True))
            truth, groups = taken(y, visits.rows(some)).cpu(), Groups.of(visits.sizes[some])
            losses = learner.losses_in(outputs, truth, groups, apart(kernel, groups))
            figures = kernel.measure(learner.task, outputs, losses, truth, groups)
            names = list(figures)
            tables.append(torch.stack(list(figures.values())))
            order.append(some)
    with one_thread_each():
        places = torch.cat(order).argsort()[back]
        return dict(zip(names, torch.cat(tables, dim=1).index_select(1, places).unbind(), strict=True))


def _gathered(passes: Iterable[Passed]) -> Iterator[list[Passed]]:
    """Passes until there is enough to measure."""
    some: list[Passed] = []
    numbers = 0
    for one in passes:
        some.append(one)
        numbers += one.outputs.numel()
        if numbers >= MEASURED:
            yield some
            some, numbers = [], 0
    if some:
        yield some


@one_thread_each()
def _terms_of(hosts: Tensor, back: Tensor, shares: Tensor | None) -> tuple[Tensor, _Terms]:
    """Of edges to these hosts, which are the visits `back`: each host once, and what is added up for them.

    Edges that repeat are one term, with the sum of their shares.
    """
    each, at = torch.unique(hosts, return_inverse=True)
    found, which = torch.unique(back * len(each) + at, return_inverse=True)
    visits, place = found // len(each), found % len(each)
    if shares is not None:
        return each, _Terms(visits, place, added(which, len(found), shares.cpu()))
    alike = 1 / torch.bincount(at).double()
    return each, _Terms(visits, place, torch.bincount(which) * alike[place])


def _averaged(
    passes: Iterable[Passed], visits: Visits, terms: _Terms, sizes: Tensor, classifies: bool
) -> Sequence[Tensor]:
    """The sum of the terms of each host, which has so many rows: [row, ...].

    Of probabilities, given back as logits, or of the outputs where there are no classes. Passes come in the
    order of the visits.
    """
    firsts, sums = sizes.cumsum(0) - sizes, torch.empty(0)
    for some, outputs in passes:
        with threads_for(outputs.numel()):
            wide = probabilities(outputs) if classifies else outputs.double()
            if not len(sums):
                sums = wide.new_zeros(int(sizes.sum()), *wide.shape[1:])
            bounds = torch.searchsorted(terms.visits, torch.stack([some[0], some[-1] + 1])).tolist()
            visit, host, weight = (t[slice(*bounds)] for t in terms)
            lengths, own = visits.sizes[visit], visits.sizes[some]
            source = spans((own.cumsum(0) - own)[visit - some[0]], lengths)
            times = torch.repeat_interleave(weight, lengths).unsqueeze(1)
            sums.index_add_(0, spans(firsts[host], lengths), times * wide[source])
    with threads_for(sums.numel()):
        return torch.split(logits_of(sums) if classifies else sums, sizes.tolist())


def look_at(net: Ground, kernel: Look, hosts: Tensor) -> dict[str, Tensor]:
    """What hosts measure of their own rows, whoever asks, and without any model: figures [edge, number]."""
    found: dict[int, dict[str, Tensor]] = {}
    with one_thread_each():  # so that sums round alike wherever they are made
        for host in torch.unique(hosts).tolist():
            rows = getattr(net.clients[host], kernel.part)
            if not len(rows):
                raise BadInput(f"client {net.clients[host].name!r} has no {kernel.part} rows to look at")
            try:
                found[host] = kernel.look(net.learner.task, rows.x.cpu(), rows.y.cpu())
            except BadInput as error:
                raise BadInput(f"client {net.clients[host].name!r}: {error}") from None
        names = next(iter(found.values()))
        return {name: torch.stack([found[h][name] for h in hosts.tolist()]) for name in names}
