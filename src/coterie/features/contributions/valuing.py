"""What a `mix` is as a game, and the value of its sums: who gave their rows, and what was there before.

A sum at a receiver r has players j with weights w_j, and perhaps rows that are nobody's gift and stay (a
server's old model, with a step below 1). Of a set S of players, the same sum would be

    x_S = Σ_fixed w_i x_i + W Σ_{j∈S} w_j x_j / Σ_{j∈S} w_j,     W = Σ_j w_j         x_∅ = what went out

Players are hosts of this round's training replies, and peers whose models are in a sum with such replies.
What went out to the receiver, or to all, is the belief from which they trained.

The value is found through a net: models of sets of players are mixed where the sum was made, and scored.

    v_r(S) = -L_r(x_S)        for each judge r: the receiver of a sum, or everybody for one at the coordinator

L_r is the mean loss on r's validation rows where every site has some, else on its training rows. After the
judges come, for a sum of a coordinator, as many columns as there are players: Σ_{r≠j} n_r v_r, what all
judges but player j say together, n_r being rows, for what j gave to others.

First-order influence is how fast a requester's loss falls towards each reply, from distances alone. Of the
idea of Grimberg, 2020, "Privacy-preserving and Personalized Federated Machine Learning for Medical Data",
sections 2.2 and 3.3 (and Richardson, Filos-Ratsikas and Faltings, 2019, "Rewarding High-Quality Data via
Influence Functions", which it builds on). With replies w_j to a belief w, w̄ = Σ_j p_j w_j:

    w̄_{-j} = w̄ + ε_j (w̄ - w_j),    ε_j = p_j / (1 - p_j)           the sum without j
    I_rj = ε_j ⟨∇L_r(w), w̄ - w_j⟩                                  what that adds to r's loss, to first order

Above 0, j helps. The only one there is (p_j = 1) leaves w itself behind: I_rj = ⟨∇L_r(w), w - w_j⟩.

The gradient is taken at w, which went out, not at w̄: so a step along it is one more reply to w, and all
products follow from distances among replies to one belief, which two servers can measure sealed. With d the
difference that a step of length ρ makes, d = -ρ ∇ / |∇|, and a_j = w_j - w:

    ⟨d, a_j⟩ = (|d|² + |a_j|² - |d - a_j|²) / 2,    ⟨∇, a_j⟩ = -|∇| / ρ ⟨d, a_j⟩

This is best conditioned where |d| and |a_j| are alike (a small difference of large squares loses digits), so
ρ is the root mean square of the |a_j|. ∇ is of the mean loss over r's training rows, as in training: for
everybody but r they are rows that it never saw.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.belief import Weights
from coterie.core.held import COORDINATOR, Held, together
from coterie.core.kernel import Part
from coterie.core.net import Net, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.features.contributions.game import ESTIMATES, Coalition, Estimate, Game
from coterie.kernels.downhill import Downhill
from coterie.kernels.score import Score

FIRST_ORDER = "first-order"
ROOM = 2**27  # bytes of models that are mixed at a time


class Unvalued(Exception):
    """Why a sum, or an estimate of it, cannot be valued."""


@dataclass(frozen=True)
class Trained:
    """Of a training reply: what went out, a row of a handle, and the key of the visit."""

    held: Held
    row: int
    key: Key

    @property
    def id(self) -> int:
        return int(self.held.parts[0].ids[self.row])

    @property
    def place(self) -> int:
        return int(self.held.parts[0].places[self.row])


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum at one receiver.

    held       rows that were heard
    weights    [row]
    whose      [row] the number of a player, or -1 for a row that stays
    players    sites, by that number
    before     what went out, one row
    alike      whether every player's row answers just that
    """

    receiver: int
    held: Held
    weights: Tensor
    whose: tuple[int, ...]
    players: tuple[int, ...]
    before: Held
    alike: bool
    key: Key

    def of(self, coalitions: Sequence[Coalition]) -> Tensor:
        """Weights [coalition, row] of the sums of these sets, none of them empty."""
        whose = torch.tensor(self.whose)
        stays, total = whose < 0, float(self.weights[whose >= 0].sum())
        rows = []
        for some in coalitions:
            inside = torch.isin(whose, torch.tensor(sorted(some)))
            mine = self.weights * inside
            rows.append(self.weights * stays + mine * (total / float(mine.sum())))
        return torch.stack(rows)


def sums_of(
    weights: Weights, beliefs: Held, at: Tensor, in_turn: bool, mixed: Held, known: Mapping[int, Trained]
) -> list[Sum]:
    """The sums of a mix, one for each receiver; `known` are this round's training replies by id."""
    if len(beliefs.parts) > 1 or len(mixed.parts) > 1:
        raise Unvalued("sums of models in parts are not valued")
    if not any(int(id) in known for id in beliefs.parts[0].ids):
        raise Unvalued("sums of what was not trained in that round are not valued")
    if not isinstance(weights, Tensor):
        raise Unvalued("sums with weights of their own for each layer are not valued")
    if len(torch.unique(at)) < len(at):
        raise Unvalued("several sums at one receiver are looks, not models, and not valued")
    found, now = [], beliefs
    for i, place in enumerate(at.tolist()):
        found.append(_sum_of(weights[i].double(), now, place, known))
        if in_turn:  # who comes later hears what those before it have become
            own = (beliefs.parts[0].places == place).nonzero().flatten()[:1]
            now = now.put(own, mixed.rows(torch.tensor([i])))
    return found


def _sum_of(weights: Tensor, beliefs: Held, place: int, known: Mapping[int, Trained]) -> Sum:
    rows = weights.nonzero().flatten()
    held, heard = beliefs.rows(rows), weights[rows]
    ids, places = held.parts[0].ids.tolist(), held.parts[0].places.tolist()
    replies = [id in known for id in ids]
    if not any(replies):
        raise Unvalued("sums of what was not trained in that round are not valued")
    if bool((heard < 0).any()):
        raise Unvalued("sums with weights below 0 are not valued")
    from_whom = list(zip(places, replies, strict=True))
    own = (place, True) in from_whom
    gifts = [reply or (p != COORDINATOR and (p != place or not own)) for p, reply in from_whom]
    players = tuple(dict.fromkeys(p for p, gift in zip(places, gifts, strict=True) if gift))
    whose = tuple(players.index(p) if gift else -1 for p, gift in zip(places, gifts, strict=True))
    mine = [known[id] for id, p in zip(ids, places, strict=True) if id in known and p == place]
    mine += [t for id in ids if (t := known.get(id)) and t.place in (place, COORDINATOR)]
    if not mine:
        raise Unvalued("sums of models that had not been trained by their receiver are not valued")
    first = mine[0]
    if first.held.names != held.names:
        raise Unvalued("sums of parts of a model are not valued")
    answers = [known[id].id if id in known else -1 for id in ids]
    alike = all(a == first.id for a, gift in zip(answers, gifts, strict=True) if gift)
    before = first.held.rows(torch.tensor([first.row]))
    return Sum(place, held, heard, whose, players, before, alike, first.key)


def _slopes(apart: np.ndarray, lengths: np.ndarray, step: np.ndarray, steepness: np.ndarray) -> np.ndarray:
    """⟨∇L_r, a_j⟩ [judge, player] from |d_r - a_j| [player, judge], |a_j| [player], |d_r| and |∇L_r|."""
    products = (np.square(step)[:, None] + np.square(lengths) - np.square(apart.T)) / 2
    scale = np.divide(steepness, step, out=np.zeros_like(step), where=step > 0)
    found: np.ndarray = -scale[:, None] * products
    return found


def _influence(slopes: np.ndarray, shares: np.ndarray, total: float = 1.0) -> np.ndarray:
    """I_rj [judge, player] from slopes [judge, player] and shares p_j [player], which add up to 1.

    `total` is what replies count in the sum, if something else is in it that stays.
    """
    if len(shares) == 1:
        return -total * slopes
    found: np.ndarray = total * shares / (1 - shares) * ((slopes @ shares)[:, None] - slopes)
    return found


def part_of(roster: Roster) -> Part:
    """The rows to judge by: validation, if everybody has some."""
    return "validation" if all(m.validation for m in roster.members) else "train"


def _rows_of(roster: Roster, part: Part) -> np.ndarray:
    """[site]"""
    return np.array([getattr(m, part) for m in roster.members], dtype=np.float64)


class _Judged:
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
        columns = np.eye(len(self.judges))  # [judge, column] what each judge counts in a column
        if self.sum.receiver == COORDINATOR:
            rows = _rows_of(self.net.roster, self.part)[self.judges]
            others = np.array([[r != j for j in self.sum.players] for r in self.judges])
            columns = np.concatenate([columns, rows[:, None] * others], axis=1)
        found: np.ndarray = -losses @ columns
        return found

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


def _first_order(net: Net, summed: Sum, judges: Sequence[int]) -> tuple[Estimate, list[int]]:
    """I_rj of a sum for those judges that answer, and who they are."""
    if len(set(summed.whose) - {-1}) < len([w for w in summed.whose if w >= 0]):
        raise Unvalued("first-order takes one model of each sender")
    if net.seals and not summed.alike:
        raise Unvalued("first-order, sealed, takes answers to one belief alone")
    order = torch.tensor([summed.whose.index(j) for j in range(len(summed.players))])
    held, n, at = summed.held.rows(order), len(order), summed.receiver
    to_players, to_judges = (
        torch.tensor([(0, host) for host in hosts]) for hosts in (summed.players, judges)
    )
    mine = Replies(to_players, {}, held, summed.before)
    length = float(np.sqrt(np.square(net.distances(mine, torch.tensor([0]), at).lengths.numpy()).mean()))  # ρ
    total = float(summed.weights[order].sum())
    if length == 0:
        return Estimate.exactly(np.zeros((len(judges), n))), list(judges)
    key = summed.key.at("contributions", "downhill")
    steps = net.visit(Downhill(length=length), summed.before, to_judges, key)
    if len(steps) == 0:
        raise Unvalued("nobody was there to judge")
    both = Replies(torch.cat([mine.edges, steps.edges]), {}, together([held, steps.beliefs]), summed.before)
    apart, lengths = (t.numpy() for t in net.distances(both, torch.arange(n, n + len(steps)), at))
    steep = steps.numbers["steepness"].numpy()
    found = _slopes(apart[:n], lengths[:n], lengths[n:], steep)
    shares = summed.weights[order] / summed.weights[order].sum()  # p_j: a player has one row each
    return Estimate.exactly(_influence(found, shares.numpy(), total)), steps.hosts.tolist()


def estimated(net: Net, summed: Sum, by: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """A sum as a game, as the record has it, by one estimate of those options; and how often sites were
    asked.
    """
    joint = summed.receiver == COORDINATOR
    if by != FIRST_ORDER:
        judged = _Judged(net, summed, part_of(net.roster))
        rng = summed.key.at("contributions", by, "at", summed.receiver).numpy()
        takes = {f.name for f in dataclasses.fields(ESTIMATES[by])}
        estimator = ESTIMATES.make(by, **{o: value for o, value in options.items() if o in takes})
        estimate = estimator(Game(len(summed.players), judged.ask), rng)
        return _game_of(estimate, judged.judges, summed.players, joint), judged.scored
    asked = range(len(net.roster)) if joint else [summed.receiver]
    estimate, judges = _first_order(net, summed, list(asked))
    if joint:  # and what all judges but each player say together, as `_Judged.ask` has it
        others = np.array([[r != j for r in judges] for j in summed.players])
        beside = others * _rows_of(net.roster, "train")[judges]
        estimate = Estimate.exactly(np.concatenate([estimate.value, beside @ estimate.value]))
    return _game_of(estimate, judges, summed.players, joint), len(judges)


def _game_of(
    estimate: Estimate, judges: Sequence[int], players: Sequence[int], joint: bool
) -> dict[str, Any]:
    """A game as JSON holds it; what is exact has no more than values."""
    n = len(judges)
    kinds = ["value", *(k for k in ("variance", "freedom", "hidden") if getattr(estimate, k).any())]
    said: dict[str, Any] = {"receivers": list(judges), "senders": list(players)}
    said |= {k: getattr(estimate, k)[:n].tolist() for k in kinds}
    if joint:
        said["given"] = {k: np.diagonal(getattr(estimate, k)[n:]).tolist() for k in kinds}
    return said | ({"said": estimate.said} if estimate.said else {})
