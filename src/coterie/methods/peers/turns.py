"""What a round among peers works on: the state carried from round to round, scores, and what was done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.net import Net, Replies, to_own
from coterie.core.seeds import Key
from coterie.kernels.score import Score
from coterie.methods.peers.picks import Asked


@dataclass(frozen=True, eq=False)
class State:
    """What is carried on.

    beliefs     [client, ...] each client's own
    notes       what the method has learned, tensors by name
    watch       early stopping's figures, empty without it
    best        [client, ...] each client's best model so far, with early stopping
    memory      what clients keep between visits
    """

    beliefs: Beliefs
    notes: Mapping[str, Tensor]
    watch: Mapping[str, Tensor]
    best: Beliefs | None = None
    memory: Beliefs | None = None


class Scores(NamedTuple):
    """[receiver, sender] merits, the higher the better and NaN where not asked; accuracies or -losses."""

    merit: Tensor
    by: str

    @property
    def shown(self) -> Tensor:
        return -self.merit if self.by == "loss" else self.merit


class Turns(NamedTuple):
    """What a round did, whatever the order: the models after it, and by client what Info shows."""

    beliefs: Beliefs
    memory: Beliefs | None
    here: Tensor
    asked: Asked
    picked: Asked
    weights: Tensor
    scores: Scores
    loss: Tensor


def merits(replies: Replies, by_loss: bool = False) -> tuple[Tensor, str]:
    """The higher the better: accuracies, or -losses if told so and for a regression."""
    if "accuracy" in replies.numbers and not by_loss:
        return replies.numbers["accuracy"].double(), "accuracy"
    by = "loss" if by_loss or replies.numbers else "accuracy"
    return -replies.numbers.get("loss", torch.zeros(0)).double(), by


def going_on(state: State) -> Tensor:
    """[client] who has not stopped early."""
    stopped = state.watch.get("stopped")
    n = tree.count(state.beliefs)
    return torch.ones(n, dtype=torch.bool) if stopped is None else ~stopped


def present(net: Net, beliefs: Beliefs, asked: Tensor, key: Key) -> Tensor:
    """[client] which of the asked [client] answer; a look at their own data shows it, and nothing is sent."""
    n = len(net.names)
    if not bool(asked.any()):
        return torch.zeros(n, dtype=torch.bool)
    return among(net.visit(Score("train"), beliefs, to_own(n)[asked], key.at("present")).hosts, n)


def reached(asked: Asked, active: Tensor, here: Tensor) -> Asked:
    """Who is away asks nobody and is asked by nobody."""
    return [[s[here[s]] for s in samplings] if active[k] else [] for k, samplings in enumerate(asked)]


def among(hosts: Tensor, n: int) -> Tensor:
    return torch.zeros(n, dtype=torch.bool).index_fill_(0, hosts, True)


def nothing_scored(n: int) -> Scores:
    return Scores(torch.full((n, n), math.nan, dtype=torch.float64), "accuracy")


def put_rows(beliefs: Beliefs, which: Tensor, new: Beliefs) -> Beliefs:
    """The beliefs, with those of `which` [client] taken from `new`."""
    index = which.nonzero().flatten()
    return tree.put(beliefs, index, tree.rows(new, index)) if len(index) else beliefs


def write(beliefs: dict[str, Tensor], k: int, new: Beliefs) -> None:
    for name, t in beliefs.items():
        t[k] = new[name][0]
