"""A net that somebody listens to: what visits a site, what it replies, whether that leaves the site, and
which sums are made of it.

It changes nothing. Rows go by their ids, so that the same reply is known again wherever it turns up. A reply
leaves its host when it goes to another place: to be mixed, measured, copied or looked at there, or to visit
another site. One that stays (the last rounds of fine-tuning) is seen by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs, Weights
from coterie.core.held import COORDINATOR, Held, at_coordinator, hold
from coterie.core.kernel import Kernel, makes, scores
from coterie.core.method import Models, asked, only_for
from coterie.core.net import Beside, Distances, Replies
from coterie.core.seeds import Key
from coterie.nets.counting import Counting
from coterie.nets.wrapped import Wrapped
from coterie.runs.experiment import Experiment
from coterie.runs.loop import first_state, one_round


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
class _Overheard(Wrapped):
    """Calls `replied` for each reply of local work, `left` for each that leaves its host, when it first does,
    and `mixed` for each sum of beliefs.
    """

    replied: Callable[[Reply], None] = lambda reply: None
    left: Callable[[Reply], None] = lambda reply: None
    mixed: Callable[[Sum], None] = lambda some: None
    trained: frozenset[str] = field(default_factory=frozenset)
    copies: dict[int, int] = field(default_factory=dict)  # id of a copy -> id of what it is a copy of
    at_home: dict[int, Reply] = field(default_factory=dict)  # id -> a reply that has not left yet

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
        self.moves(beliefs, [(guest, host) for guest, host in replies.edges.tolist()])
        if scores(kernel) or makes(kernel) or replies.held is None:
            return replies
        sent, back = self.net.peek(beliefs), self.net.peek(replies.held)
        if sent is None or back is None or not self.trained <= set(back) & set(sent):
            return replies  # not in this process, or a reply that is no model: a posterior's moments
        ids = replies.held.parts[0].ids.tolist()
        for i, (guest, host) in enumerate(replies.edges.tolist()):
            went, came = tree.row(sent, guest), tree.row(back, i)
            reply = Reply(key.round, guest, host, ids[i], went, came)
            self.at_home[ids[i]] = reply
            self.replied(reply)
        return replies

    def moves(self, held: Held, pairs: Iterable[tuple[int, int]]) -> None:
        """Rows of a handle go to places: (row, place) each."""
        part = held.parts[0]
        ids, places = part.ids.tolist(), part.places.tolist()
        for row, to in pairs:
            id = self.copies.get(ids[row], ids[row])
            if places[row] != to and id in self.at_home:
                self.left(self.at_home.pop(id))

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        mixed = self.net.mix(weights, beliefs, at, in_turn)
        if isinstance(weights, Tensor):
            names, matrix, heard = beliefs.names, weights, weights
        else:
            names, matrix = beliefs.names[:1], weights[beliefs.names[0]]
            heard = torch.stack(list(weights.values())).abs().sum(dim=0)
        self.moves(beliefs, [(row, int(at[i])) for i, row in heard.nonzero().tolist()])
        values = self.net.peek(mixed)
        if values is None:
            return mixed
        ids = [self.copies.get(i, i) for i in beliefs.parts[0].ids.tolist()]
        if in_turn:
            whose = {place: i for i, place in enumerate(beliefs.places.tolist())}
            matrix, _ = tree.in_turn(matrix, [whose[place] for place in at.tolist()])
        went_in, made = ({n: t for n, t in some.items() if n in names} for some in (beliefs.tensors, values))
        for i, receiver in enumerate(at.tolist()):
            by_id, rows = dict[int, float](), dict[int, Belief]()
            for j in matrix[i].nonzero().flatten().tolist():  # the same row may stand there twice
                by_id[ids[j]] = by_id.get(ids[j], 0.0) + float(matrix[i, j])
                rows[ids[j]] = tree.row(went_in, j)
            self.mixed(Sum(int(receiver), by_id, tree.row(made, i), rows))
        return mixed

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        self.moves(beliefs, zip(rows.tolist(), at.tolist(), strict=True))
        copies = self.net.deliver(beliefs, rows, at)
        for part, copy in zip(beliefs.parts[:1], copies.parts[:1], strict=True):
            for old, new in zip(part.ids[rows].tolist(), copy.ids.tolist(), strict=True):
                self.copies[new] = self.copies.get(old, old)
        return copies

    def share(self, beliefs: Held, to: Tensor) -> None:
        self.moves(beliefs, [(row, place) for row in range(len(beliefs)) for place in to.tolist()])
        self.net.share(beliefs, to)

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        self.moves(replies.beliefs, [(row, at) for row in range(len(replies))])
        return self.net.distances(replies, to, at, importance)

    def open(self, beliefs: Held) -> Beliefs:
        self.moves(beliefs, [(row, COORDINATOR) for row in range(len(beliefs))])
        return self.net.open(beliefs)

    def keep(self, live: Iterable[Held], round: int) -> None:
        held = list(live)
        kept = {self.copies.get(i, i) for h in held for part in h.parts for i in part.ids.tolist()}
        for id in [i for i in self.at_home if i not in kept]:
            del self.at_home[id]  # it is dropped everywhere, and never left
        self.net.keep(held, round)


def played(
    experiment: Experiment,
    rounds: int,
    *,
    begin: Callable[[int], None] = lambda round: None,
    replied: Callable[[Reply], None] = lambda reply: None,
    left: Callable[[Reply], None] = lambda reply: None,
    mixed: Callable[[Sum], None] = lambda some: None,
) -> tuple[Models, Beliefs | None]:
    """The run's rounds up to that one, without scoring, on a net that somebody listens to; `begin` is called
    before each. The models that they end with, and these as they are where they are in this process: handles
    stay good though the net is closed.
    """
    trained = frozenset(n for n, p in experiment.model.named_parameters() if p.requires_grad)
    net = Counting(_Overheard(experiment.net.net, replied, left, mixed, trained))
    experiment = replace(experiment, net=net)
    start = hold(experiment.beliefs, at_coordinator(tree.count(experiment.beliefs)))
    try:
        state = first_state(experiment, start)
        for r in range(1, rounds + 1):
            begin(r)
            state, _ = one_round(experiment, state, r, state, r - 1)
    finally:
        net.close()
    models = only_for(experiment.method.models(state), asked(experiment.method, experiment.roster.names))
    return models, net.peek(models.beliefs)


def flat(belief: Belief, names: tuple[str, ...]) -> Tensor:
    """Some tensors as one vector, in float64."""
    return torch.cat([belief[name].detach().reshape(-1).double() for name in names])
