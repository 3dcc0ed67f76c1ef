"""What a round among peers works on: the state carried from round to round, scores, what was done, and early
stopping for each client by itself (Karlsson, 2021, section 3.4).

    m_t = mean(a_{t-W+1}, ..., a_t)
    stop once m has not risen above its maximum for P rounds; w ← w_s with s = argmax a_s

a_t is the client's validation accuracy after its t-th round (minus the loss for a regression), W `window`,
P `patience`. The first rounds average what there is. Rounds in which a client is away do not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Held, Key, Net, Replies, Roster, Task
from coterie.core.net import to_own
from coterie.kernels.score import Here
from coterie.methods.peers.picks import Asked


@dataclass(frozen=True, eq=False)
class State:
    """What is carried on.

    beliefs     [client, ...] each client's own, at home
    notes       what the method has learned, tensors by name
    watch       early stopping's figures (`first_watch`), empty without it
    best        [client, ...] each client's best model so far, at home, with early stopping
    """

    beliefs: Held
    notes: Mapping[str, Tensor]
    watch: Mapping[str, Tensor]
    best: Held | None = None


class Scores(NamedTuple):
    """[receiver, sender] merits, the higher the better and NaN where not asked; accuracies or -losses."""

    merit: Tensor
    by: str

    @property
    def shown(self) -> Tensor:
        return -self.merit if self.by == "loss" else self.merit


class Turns(NamedTuple):
    """What a round did, whatever the order: the models after it, and by client what Info shows; of a rule,
    what it tells.
    """

    beliefs: Held
    here: Tensor
    asked: Asked
    picked: Asked
    weights: Tensor
    scores: Scores
    loss: Tensor
    told: Mapping[str, Any] | None = None


JUDGED: dict[Task, str] = {"classification": "accuracy", "regression": "loss", "survival": "concordance"}


def metric_of(roster: Roster, by_loss: bool = False) -> str:
    """What models are judged by, the loss if told so: whatever else can be compared between clients."""
    return "loss" if by_loss else JUDGED[roster.task]


def merits(replies: Replies, by: str) -> Tensor:
    """The higher the better: accuracies, or -losses."""
    found = replies.numbers.get(by, torch.zeros(0)).double()
    return -found if by == "loss" else found


def going_on(state: State) -> Tensor:
    """[client] who has not stopped early."""
    stopped = state.watch.get("stopped")
    return torch.ones(len(state.beliefs), dtype=torch.bool) if stopped is None else ~stopped


def present(net: Net, beliefs: Held, asked: Tensor, key: Key) -> Tensor:
    """[client] which of the asked [client] answer; nothing is sent but the question."""
    n = len(net.roster)
    if not bool(asked.any()):
        return torch.zeros(n, dtype=torch.bool)
    return among(net.visit(Here(), beliefs, to_own(n)[asked], key.at("present")).hosts, n)


def among(hosts: Tensor, n: int) -> Tensor:
    return torch.zeros(n, dtype=torch.bool).index_fill_(0, hosts, True)


def put_rows(beliefs: Held, which: Tensor, new: Held) -> Held:
    """The beliefs, with those of `which` [client] taken from `new`."""
    index = which.nonzero().flatten()
    return beliefs.put(index, new.rows(index)) if len(index) else beliefs


def first_watch(clients: int, window: int) -> Mapping[str, Tensor]:
    """Nothing measured yet.

    recent      [client, window] the latest accuracies, the newest last; NaN where there is none
    high        [client] the highest moving average m
    best        [client] the highest accuracy
    waited      [client] rounds since the moving average last rose
    stopped     [client]
    """
    return {
        "recent": torch.full((clients, window), math.nan, dtype=torch.float64),
        "high": torch.full((clients,), -math.inf, dtype=torch.float64),
        "best": torch.full((clients,), -math.inf, dtype=torch.float64),
        "waited": torch.zeros(clients, dtype=torch.int64),
        "stopped": torch.zeros(clients, dtype=torch.bool),
    }


def next_watch(
    before: Mapping[str, Tensor], scores: Tensor, patience: int
) -> tuple[Mapping[str, Tensor], Tensor]:
    """After one more round with these scores [client], NaN where none; and whose model is its best so far."""
    measured = ~scores.isnan()
    shifted = torch.cat([before["recent"][:, 1:], scores.unsqueeze(1)], dim=1)
    recent = torch.where(measured.unsqueeze(1), shifted, before["recent"])
    mean = recent.nanmean(dim=1)
    rose, better = measured & (mean > before["high"]), measured & (scores > before["best"])
    waited = torch.where(rose, 0, before["waited"] + measured.long())
    after = {
        "recent": recent,
        "high": torch.where(rose, mean, before["high"]),
        "best": torch.where(better, scores, before["best"]),
        "waited": waited,
        "stopped": before["stopped"] | (waited >= patience),
    }
    return after, better
