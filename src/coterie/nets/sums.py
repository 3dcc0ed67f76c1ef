"""What a `mix` is as a game: who gave the rows of a sum, and what was there before it.

A sum at a receiver r has players j with weights w_j, and perhaps rows that are nobody's gift and stay (a
server's old model, with a step below 1). Of a set S of players, the same sum would be

    x_S = Σ_fixed w_i x_i + W Σ_{j∈S} w_j x_j / Σ_{j∈S} w_j,     W = Σ_j w_j         x_∅ = what went out

Players are hosts of this round's training replies, and peers whose models are in a sum with such replies.
What went out to the receiver, or to all, is the belief from which they trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.contributions.game import Coalition
from coterie.core.belief import Weights
from coterie.core.held import COORDINATOR, Held
from coterie.core.seeds import Key


class Unvalued(Exception):
    """Why a sum, or an estimate of it, cannot be valued."""


@dataclass(frozen=True)
class Trained:
    """Of a training reply: what went out, a row of a handle, and the key of the visit."""

    held: Held
    row: int
    key: Key

    @property
    def before(self) -> Held:
        return self.held.rows(torch.tensor([self.row]))

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

    @property
    def shares(self) -> Tensor:
        """[player] p_j, adding up to 1."""
        mine = torch.stack(
            [self.weights[torch.tensor(self.whose) == j].sum() for j in range(len(self.players))]
        )
        return mine / mine.sum()


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
        found.append(sum_of(weights[i].double(), now, place, known))
        if in_turn:  # who comes later hears what those before it have become
            own = (beliefs.parts[0].places == place).nonzero().flatten()[:1]
            now = now.put(own, mixed.rows(torch.tensor([i])))
    return found


def sum_of(weights: Tensor, beliefs: Held, place: int, known: Mapping[int, Trained]) -> Sum:
    rows = weights.nonzero().flatten()
    held, heard = beliefs.rows(rows), weights[rows]
    ids, places = held.parts[0].ids.tolist(), held.parts[0].places.tolist()
    replies = [id in known for id in ids]
    if not any(replies):
        raise Unvalued("sums of what was not trained in that round are not valued")
    if bool((heard < 0).any()):
        raise Unvalued("sums with weights below 0 are not valued")
    own = any(p == place for p, reply in zip(places, replies, strict=True) if reply)
    gifts = [
        reply or (p != COORDINATOR and (p != place or not own))
        for p, reply in zip(places, replies, strict=True)
    ]
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
    return Sum(place, held, heard, whose, players, first.before, alike, first.key)
