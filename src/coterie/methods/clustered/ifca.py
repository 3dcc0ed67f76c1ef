"""IFCA: k models, each client takes the one that fits its rows best and helps to train it.

Ghosh, Chung, Yin and Ramchandran, 2020, "An Efficient Framework for Clustered Federated Learning", algorithm
1; the same idea is HypCluster, the hypothesis-based clustering of Mansour, Mohri, Ro and Suresh, 2020, "Three
Approaches for Personalization with Applications to Federated Learning", section 3.

    ĵ_i  = argmin_j F_i(θ_j)                                        by each client i, on its training rows
    θ_j ← Σ_{i: ĵ_i=j} p_i LocalWork_i(θ_j) / Σ_{i: ĵ_i=j} p_i       average=models
    θ_j ← θ_j + Σ_{i: ĵ_i=j} p_i (LocalWork_i(θ_j) - θ_j)            average=gradients

Both averages are `cluster_weights`. F_i is the mean loss on client i's training rows, p_i is n_i over those
of all who answered (`weighted`, as HypCluster), or 1/m for m of them (IFCA). With one step of plain SGD the
last line is the paper's θ_j - γ/m Σ g_i: it divides by all m clients, not by those of cluster j. Layers
named in `shared` are averaged over all clients, whichever model they took (the paper's weight sharing).

What is told: a client tries the k models at home and tells only which it took (`chosen`), no loss.

Deviations. The paper begins with k models drawn independently: `--init independent` does that, and the first
k are taken. From one common start they have to be made different: in the first round everybody trains it,
and θ_j = Σ_i a_ji LocalWork_i(θ) with weights a_j drawn by the run's key from a Dirichlet distribution
(`first_weights`), mostly of one client each if `spread` is small. A model that nobody takes is dead for the
round: it stays as it is, is tried again in the next, and is counted in Info's extras. With `least` above 1, a
model that fewer clients took than that stays too, so that no average is a single client's model. Who does not
answer keeps the model that it took last. The authors' program picks a model for each test client by its loss
on test rows; here the choice is made on training rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.belief import Weights
from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Replies, Reveals, Roster, Trainer
from coterie.core.errors import BadInput, UnknownName
from coterie.core.held import together
from coterie.core.method import CIRCLE, METHODS, first_of, losses_of
from coterie.core.net import SERVER, from_server
from coterie.core.options import bounded, check_options, chosen
from coterie.core.partners import WEIGHTS, Partners
from coterie.kernels.around import numbers_of
from coterie.kernels.choice import CHOSEN, Choice
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.methods.clustered.groups import NOT_YET, by_client, same_group
from coterie.methods.server.fedavg import averaging_weights

Average = Literal["models", "gradients"]
ON_TRAINING_ROWS = Choice(Score("train", ("loss",)))


@dataclass(frozen=True, eq=False)
class State:
    """The k models [model, ...], one before they are made different; and which one each client took last
    [client], NOT_YET if none.
    """

    beliefs: Held
    of: Tensor


class Sums(NamedTuple):
    """How much of each reply [model, reply], and of the old model [model], is in a model's next version."""

    replies: Tensor
    stays: Tensor


@METHODS.register("ifca")
@dataclass(frozen=True)
class IFCA:
    """Some models for all; each client trains the one that does best on its rows."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        shares="model",
        words={
            "en": "Of several models each takes the one that fits its rows best, and trains it with "
            "those who took the same.",
            "fr": "Parmi plusieurs modèles, chacun prend celui qui convient le mieux à ses lignes et "
            "l'entraîne avec ceux qui ont pris le même.",
            "de": "Von mehreren Modellen nimmt jeder das, das am besten zu seinen Zeilen passt, und "
            "trainiert es mit denen, die dasselbe genommen haben.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round; steps=1 with average=gradients is the paper's gradient averaging."""
    k: int = bounded(2, "be at least 1", "try 2")
    """How many models there are, at most as many as clients."""
    average: Average = chosen("models", Average)
    """Average what clients made of a model, or add up their changes, divided by all clients of the round."""
    weighted: bool = True
    """Weigh clients by their number of training samples (HypCluster), or all alike (IFCA)."""
    shared: tuple[str, ...] = ()
    """Layers that all models have in common, by name, such as 0 or body; averaged over all clients."""
    spread: float = bounded(0.1, "be above 0 and finite", "try 0.1")
    """How the first models mix what clients made of one start: near 0 of one client each, large all alike."""
    least: int = bounded(1, "be at least 1", "try 2")
    """A model that fewer clients took stays as it is; with 2, no single client's model is ever passed on."""

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        if self.k > len(roster):
            raise BadInput(f"k={self.k} models for {len(roster)} clients leave some to nobody: lower k")
        tensors_of(self.shared, start)
        return ()

    def init(self, start: Held, net: Net) -> State:
        of = torch.full((len(net.roster),), NOT_YET)
        if len(start) < self.k:
            return State(first_of(start), of)
        own = torch.eye(self.k, len(start), dtype=torch.float64)
        common = torch.zeros_like(own).index_fill_(1, torch.tensor([0]), 1)
        return State(net.mix(self.by_name(own, common, start.names), start, SERVER.expand(self.k)), of)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if len(state.beliefs) < self.k:
            return self.parted(state, net, key)
        of = self.choose(state.beliefs, state.of, net, key)
        here = (of != NOT_YET).nonzero().flatten()
        replies = net.visit(self.local, state.beliefs, torch.stack([of[here], here], dim=1), key)
        if len(replies) == 0:
            return State(state.beliefs, of), self.info(of, replies, None, net)
        shares = averaging_weights(net.roster.sizes[replies.hosts], self.weighted)
        sums = cluster_weights(replies.guests, shares, self.k, self.average, self.least)
        after = State(self.summed(state.beliefs, replies, sums, shares, net), of)
        return after, self.info(of, replies, sums, net)

    def parted(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        """The first round from one start: everybody trains it, and k different averages are the models."""
        replies = net.visit(self.local, state.beliefs, from_server(torch.arange(len(net.roster))), key)
        if len(replies) == 0:
            return state, self.info(state.of, replies, None, net)
        drawn = first_weights(self.k, len(replies), self.spread, key.at("first"))
        shares = averaging_weights(net.roster.sizes[replies.hosts], self.weighted)
        weights = self.by_name(drawn, shares.expand(self.k, -1), state.beliefs.names)
        beliefs = net.mix(weights, replies.beliefs, SERVER.expand(self.k))
        of = self.choose(beliefs, state.of, net, key)
        return State(beliefs, of), self.info(of, replies, Sums(drawn, torch.zeros(self.k)), net)

    def choose(self, beliefs: Held, before: Tensor, net: Net, key: Key) -> Tensor:
        """[client] ĵ_i of those who answer; the others' stay."""
        n = len(net.roster)
        if self.k == 1:
            return torch.zeros(n, dtype=torch.int64)
        edges = torch.cartesian_prod(torch.arange(self.k), torch.arange(n))
        told = net.visit(ON_TRAINING_ROWS, beliefs, edges, key.at("choose"))
        if len(told) == 0:
            return before
        taken = told.edges[told.numbers[CHOSEN] > 0]
        return before.index_copy(0, taken[:, 1], taken[:, 0])

    def summed(self, old: Held, replies: Replies, sums: Sums, shares: Tensor, net: Net) -> Held:
        """The models after a round; those that nothing is added to are left alone."""
        moving = torch.arange(self.k) if self.shared else (sums.stays < 1).nonzero().flatten()
        own = torch.diag(sums.stays)[moving]
        if not bool(own.any()) and not self.shared:
            return old.put(moving, net.mix(sums.replies[moving], replies.beliefs, SERVER.expand(len(moving))))
        all_alike = torch.cat([shares.expand(len(moving), -1), torch.zeros_like(own)], dim=1)
        weights = self.by_name(torch.cat([sums.replies[moving], own], dim=1), all_alike, old.names)
        return old.put(moving, net.mix(weights, together([replies.beliefs, old]), SERVER.expand(len(moving))))

    def by_name(self, own: Tensor, common: Tensor, names: Sequence[str]) -> Weights:
        """Weights of each model's own layers, and others for the layers that all have in common."""
        common_names = tensors_of(self.shared, names)
        return {n: common if n in common_names else own for n in names} if common_names else own

    def info(self, of: Tensor, replies: Replies, sums: Sums | None, net: Net) -> Info:
        n = len(net.roster)
        rows = torch.zeros(self.k, 0, dtype=torch.float64) if sums is None else sums.replies
        sizes = torch.bincount(of[of != NOT_YET], minlength=self.k)
        return Info(
            by_client(rows, replies.hosts, of, n),
            losses_of(replies, n),
            extras={"clients of each model": sizes.tolist(), "dead models": int((sizes == 0).sum())},
            matrices={CIRCLE: same_group(of)},
        )

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=state.of.clamp(min=0) if len(state.beliefs) > 1 else state.of * 0)

    def reveals(self) -> Reveals:
        told = (CHOSEN,) if self.k > 1 else ()
        return Reveals(coordinator=True, numbers=(*numbers_of(self.local), *told))


def cluster_weights(taken: Tensor, shares: Tensor, k: int, average: Average, least: int) -> Sums:
    """What is in each model's next version, by the model that each reply is of and its share p_i, [reply]."""
    members = (torch.arange(k).unsqueeze(1) == taken) * shares
    enough = (torch.bincount(taken, minlength=k) >= least).unsqueeze(1)
    members = torch.where(enough, members, 0.0)
    total = members.sum(dim=1, keepdim=True)
    if average == "models":
        members = torch.where(total > 0, members / total, 0.0)
        return Sums(members, (total == 0).double().squeeze(1))
    return Sums(members, 1 - total.squeeze(1))


def first_weights(k: int, replies: int, spread: float, key: Key) -> Tensor:
    """a [model, reply], each row drawn from a symmetric Dirichlet distribution: adds up to 1."""
    drawn = torch.from_numpy(key.numpy().gamma(spread, size=(k, replies))).clamp(min=1e-300)
    return drawn / drawn.sum(dim=1, keepdim=True)


def tensors_of(layers: Iterable[str], names: Iterable[str]) -> set[str]:
    """The tensors of some layers, by the names of either."""
    names, found = list(names), set[str]()
    for layer in layers:
        mine = {n for n in names if n == layer or n.startswith(f"{layer}.")}
        if not mine:
            raise UnknownName("shared layer", layer, names)
        found |= mine
    return found
