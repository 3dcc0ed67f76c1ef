"""A net that somebody listens to: what visits a site and what it replies, and which sums are made of that.

It changes nothing. Rows go by their ids, so that the same reply is known again wherever it turns up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Weights
from coterie.core.held import Held
from coterie.core.kernel import Kernel, makes, scores
from coterie.core.net import Beside, Replies
from coterie.core.seeds import Key
from coterie.nets.counting import Counting
from coterie.nets.wrapped import Wrapped
from coterie.runs.experiment import Experiment


class Reply(NamedTuple):
    """One visit of local work: the belief that went out, the one that came back, and its id."""

    round: int
    guest: int
    host: int
    id: int
    sent: Belief
    replied: Belief


class Sum(NamedTuple):
    """One row of a mix: its receiver, and the weight of each row that went in, by id.

    weights   id -> what it counts; where tensors have weights of their own, those of the first tensor
    value     the sum itself, of those tensors that have these weights
    rows      id -> what went in
    """

    receiver: int
    weights: dict[int, float]
    value: Belief
    rows: dict[int, Belief]


@dataclass(frozen=True, eq=False)
class Overheard(Wrapped):
    """Calls `replied` for each reply of local work, and `mixed` for each sum of beliefs."""

    replied: Callable[[Reply], None] = lambda reply: None
    mixed: Callable[[Sum], None] = lambda some: None
    trained: frozenset[str] = field(default_factory=frozenset)
    copies: dict[int, int] = field(default_factory=dict)  # id of a copy -> id of what it is a copy of

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        if scores(kernel) or makes(kernel) or replies.held is None:
            return replies
        sent, back = self.net.peek(beliefs), self.net.peek(replies.held)
        if sent is None or back is None or not self.trained <= set(back) & set(sent):
            return replies  # not in this process, or a reply that is no model: a posterior's moments
        ids = replies.held.parts[0].ids.tolist()
        for i, (guest, host) in enumerate(replies.edges.tolist()):
            went, came = tree.row(sent, guest), tree.row(back, i)
            self.replied(Reply(key.round, guest, host, ids[i], went, came))
        return replies

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        mixed = self.net.mix(weights, beliefs, at, in_turn)
        values = self.net.peek(mixed)
        if values is None:
            return mixed
        names = beliefs.names if isinstance(weights, Tensor) else beliefs.names[:1]
        matrix = weights if isinstance(weights, Tensor) else weights[names[0]]
        ids = [self.copies.get(i, i) for i in beliefs.parts[0].ids.tolist()]
        if in_turn:
            whose = {place: i for i, place in enumerate(beliefs.places.tolist())}
            matrix, _ = tree.in_turn(matrix, [whose[place] for place in at.tolist()])
        went_in, made = ({n: t for n, t in some.items() if n in names} for some in (beliefs.tensors, values))
        for i, receiver in enumerate(at.tolist()):
            by_id: dict[int, float] = {}
            rows: dict[int, Belief] = {}
            for j in matrix[i].nonzero().flatten().tolist():  # the same row may stand there twice
                by_id[ids[j]] = by_id.get(ids[j], 0.0) + float(matrix[i, j])
                rows[ids[j]] = tree.row(went_in, j)
            self.mixed(Sum(int(receiver), by_id, tree.row(made, i), rows))
        return mixed

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        copies = self.net.deliver(beliefs, rows, at)
        for part, copy in zip(beliefs.parts[:1], copies.parts[:1], strict=True):
            for old, new in zip(part.ids[rows].tolist(), copy.ids.tolist(), strict=True):
                self.copies[new] = self.copies.get(old, old)
        return copies


def listened_to(
    experiment: Experiment,
    replied: Callable[[Reply], None] = lambda reply: None,
    mixed: Callable[[Sum], None] = lambda some: None,
) -> Experiment:
    """The same experiment on a net that somebody listens to."""
    trained = frozenset(n for n, p in experiment.model.named_parameters() if p.requires_grad)
    return replace(experiment, net=Counting(Overheard(experiment.net.net, replied, mixed, trained)))


def flat(belief: Belief, names: tuple[str, ...]) -> Tensor:
    """Some tensors as one vector, in float64."""
    return torch.cat([belief[name].detach().reshape(-1).double() for name in names])
