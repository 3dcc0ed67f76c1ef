"""The value of sums, through a net: models of sets of players are mixed where the sum was made, and scored.

    v_r(S) = -L_r(x_S)        for each judge r: the receiver of a sum, or everybody for one at the coordinator

L_r is the mean loss on r's validation rows where every site has some, else on its training rows. After the
judges come, for a sum of a coordinator, as many columns as there are players: Σ_{r≠j} n_r v_r, what all
judges but player j say together, n_r being rows, for what j gave to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.contributions.first_order import influence, slopes, step_length
from coterie.contributions.game import Coalition, Estimate, Game, exactly
from coterie.core.held import COORDINATOR, Held, together
from coterie.core.kernel import Part
from coterie.core.net import Net, Replies
from coterie.core.roster import Roster
from coterie.kernels.downhill import Downhill
from coterie.kernels.score import Score
from coterie.nets.sums import Sum, Unvalued

ROOM = 2**27  # bytes of models that are mixed at a time


def part_of(roster: Roster) -> Part:
    """The rows to judge by: validation, if everybody has some."""
    return "validation" if all(m.validation for m in roster.members) else "train"


def rows_of(roster: Roster, part: Part) -> np.ndarray:
    """[site]"""
    return np.array([getattr(m, part) for m in roster.members], dtype=np.float64)


class Judged:
    """A sum before its judges. The belief that went out is scored first: who answers is a judge."""

    def __init__(self, net: Net, summed: Sum, part: Part) -> None:
        self.net, self.sum, self.part, self.scored = net, summed, part, 0
        self.kernel = Score(part, ("loss", "samples"))
        self.key = summed.key.at("contributions")
        everybody = range(len(net.roster)) if summed.receiver == COORDINATOR else [summed.receiver]
        losses = self._losses(self.sum.before, list(everybody))
        self.judges = [r for r, loss in zip(everybody, losses[0], strict=True) if np.isfinite(loss)]
        if not self.judges:
            raise Unvalued("nobody was there to judge")
        self.nobody = losses[:, [list(everybody).index(r) for r in self.judges]]
        one = {name: t[:1] for name, t in summed.held.like.items()}
        size = sum(t.element_size() * t.numel() for t in one.values())
        self.at_once = max(1, ROOM // max(1, size))

    def game(self) -> Game:
        return Game(len(self.sum.players), self.ask)

    def ask(self, coalitions: Sequence[Coalition]) -> np.ndarray:
        """[coalition, column]"""
        losses = np.repeat(self.nobody, len(coalitions), axis=0)
        some = [i for i, s in enumerate(coalitions) if s]
        for start in range(0, len(some), self.at_once):
            now = some[start : start + self.at_once]
            weights = self.sum.of([coalitions[i] for i in now])
            mixed = self.net.mix(weights, self.sum.held, torch.full((len(now),), self.sum.receiver))
            losses[now] = self._losses(mixed, self.judges)
        if not np.isfinite(losses).all():
            raise Unvalued("a judge went, or a loss was not finite")
        found: np.ndarray = -losses @ self.columns()
        return found

    def columns(self) -> np.ndarray:
        """[judge, column] what each judge counts in a column."""
        each = np.eye(len(self.judges))
        if self.sum.receiver != COORDINATOR:
            return each
        rows = rows_of(self.net.roster, self.part)[self.judges]
        others = np.array([[r != j for j in self.sum.players] for r in self.judges])
        return np.concatenate([each, rows[:, None] * others], axis=1)

    def _losses(self, models: Held, judges: Sequence[int]) -> np.ndarray:
        """[model, judge]; NaN where nobody answers."""
        edges = [(i, r) for i in range(len(models)) for r in judges]
        self.scored += len(edges)
        replies = self.net.visit(self.kernel, models, torch.tensor(edges), self.key.at("score"))
        place = {r: k for k, r in enumerate(judges)}
        found = np.full((len(models), len(judges)), np.nan)
        for (i, r), loss in zip(replies.edges.tolist(), replies.numbers.get("loss", ()), strict=True):
            found[i, place[r]] = float(loss)
        return found


def first_order(net: Net, summed: Sum, judges: Sequence[int]) -> tuple[Estimate, list[int]]:
    """I_rj of a sum for those judges that answer, and who they are; see `contributions/first_order.py`."""
    if len(set(summed.whose) - {-1}) < len([w for w in summed.whose if w >= 0]):
        raise Unvalued("first-order takes one model of each sender")
    if getattr(net, "seals", False) and not summed.alike:
        raise Unvalued("first-order, sealed, takes answers to one belief alone")
    order = torch.tensor([summed.whose.index(j) for j in range(len(summed.players))])
    held, n, at = summed.held.rows(order), len(order), summed.receiver
    mine = Replies(towards(summed.players), {}, held, summed.before)
    length = step_length(net.distances(mine, torch.tensor([0]), at).lengths.numpy())
    total = float(summed.weights[order].sum())
    if length == 0:
        return exactly(np.zeros((len(judges), n))), list(judges)
    key = summed.key.at("contributions", "downhill")
    steps = net.visit(Downhill(length=length), summed.before, towards(judges), key)
    if len(steps) == 0:
        raise Unvalued("nobody was there to judge")
    both = Replies(torch.cat([mine.edges, steps.edges]), {}, together([held, steps.beliefs]), summed.before)
    apart, lengths = (t.numpy() for t in net.distances(both, torch.arange(n, n + len(steps)), at))
    steep = steps.numbers["steepness"].numpy()
    found = slopes(apart[:n], lengths[:n], lengths[n:], steep)
    return exactly(influence(found, summed.shares.numpy(), total)), steps.hosts.tolist()


def towards(hosts: Sequence[int]) -> Tensor:
    """Edges from the one belief to hosts."""
    return torch.tensor([(0, host) for host in hosts])


def beside_others(
    values: np.ndarray, rows: np.ndarray, judges: Sequence[int], players: Sequence[int]
) -> np.ndarray:
    """Values [judge, player] and a row for each player: what all judges but that one say together, as
    `Judged.columns` has it.
    """
    others = np.array([[r != j for r in judges] for j in players]) * rows
    return np.concatenate([values, others @ values])


def game_of(estimate: Estimate, judges: Sequence[int], players: Sequence[int], joint: bool) -> dict[str, Any]:
    """A game as JSON holds it; what is exact has no more than values."""
    n = len(judges)
    kinds = ["value", *(k for k in ("variance", "freedom", "hidden") if getattr(estimate, k).any())]
    said: dict[str, Any] = {"receivers": list(judges), "senders": list(players)}
    said |= {k: getattr(estimate, k)[:n].tolist() for k in kinds}
    if joint:
        said["given"] = {k: np.diagonal(getattr(estimate, k)[n:]).tolist() for k in kinds}
    return said | ({"said": estimate.said} if estimate.said else {})
