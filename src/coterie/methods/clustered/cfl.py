"""Clustered federated learning: average until it stalls, then part those whose updates point elsewhere.

Sattler, Müller and Samek, 2021, "Clustered Federated Learning: Model-Agnostic Distributed Multitask
Optimization Under Privacy Constraints", algorithms 1 to 3. Of each cluster c, from one to begin with:

    ΔW_i = LocalWork_i(θ_c) - θ_c                                    its clients' updates
    α_ij = ⟨ΔW_i, ΔW_j⟩ / (‖ΔW_i‖ ‖ΔW_j‖)                            cosines
    ‖Σ_i p_i ΔW_i‖ < ε1  and  max_i ‖ΔW_i‖ > ε2                      stalled
    c_1, c_2 = argmin_{c_1 ∪ c_2 = c} max_{i∈c_1, j∈c_2} α_ij        bipartition
    γ_max < sqrt((1 - α_cross) / 2),  α_cross that smallest maximum   far_apart
    θ_c ← θ_c + Σ_{i∈c} p_i ΔW_i                                     for all clusters, as parted

ε1 is `eps1`, ε2 `eps2`, γ_max `gamma`, p_i = n_i over those of the cluster who answered, or alike. Inner
products come from lengths and distances, ⟨ΔW_i, ΔW_j⟩ = (‖ΔW_i‖² + ‖ΔW_j‖² - ‖ΔW_i - ΔW_j‖²) / 2, and
‖Σ p_i ΔW_i‖² is a sum of them: the coordinator measures replies and adds them up, and looks at none.
Algorithm 1 (merge the two most alike until two groups are left) finds the best bipartition exactly.

ε1 and ε2 depend on the model and on the learning rate. The paper's rule of thumb has ε1 near a tenth of the
longest update, and ε2 between that and ten times as much: clusters then part once averaging has converged,
after hundreds of rounds. `auto` parts sooner, at ε1 = L/2 and ε2 = 2L/5, L being the longest update of any
client so far; what keeps clients of one kind together is then γ_max = 0.6, which asks for α_cross below 0.28.
`wait` is how many rounds a cluster trains before it may part. docs/methods/clustered.md has the figures.

Deviations. Who is away when its cluster parts goes with the half to which its updates were last more alike
(`sides`), or with the larger one if none of its updates was ever measured. A client that is alone in its
cluster trains alone: its model stays with it and is not measured. The parameter tree, by which new clients
find their cluster, is left out, as a run's clients are fixed. Statistics of batch norm do not count.
The authors' program (felisat/clustered-federated-learning) parts by complete linkage, which need not give the
best bipartition of the text, never parts fewer than three clients, and weighs all alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.held import COORDINATOR
from coterie.core.method import CIRCLE, METHODS, first_of, losses_of
from coterie.core.net import Distances, Net, Replies
from coterie.core.options import bounded, check_options
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.clustered.groups import by_client, same_group
from coterie.methods.server.fedavg import averaging_weights

Bound = float | Literal["auto"]
OF_LONGEST = {"eps1": 0.5, "eps2": 0.4}  # if nothing is said


@dataclass(frozen=True, eq=False)
class State:
    """The clusters' models and who is where.

    beliefs   [cluster, ...] at the coordinator; that of a client alone is with it
    of        [client] the cluster of each
    made      [cluster] the round in which it was made
    alpha     [client, client] cosines of updates as last measured, NaN for never
    longest   ‖ΔW_i‖ so far, of any client
    """

    beliefs: Held
    of: Tensor
    made: Tensor
    alpha: Tensor
    longest: float


class _Parted(NamedTuple):
    """Clusters after those that stalled have parted.

    of        [client] the cluster of each
    parents   [cluster] which it was before
    told      what to say of it
    """

    of: Tensor
    parents: Tensor
    alpha: Tensor
    longest: float
    told: dict[str, Any]


@METHODS.register("cfl")
@dataclass(frozen=True)
class CFL:
    """Federated averaging in clusters that part where clients' updates point in different directions."""

    chooses: ClassVar[Partners] = Partners(
        by={"similarity": "high"},
        shares="model",
        words={
            "en": "Those stay together whose training goes the same way.",
            "fr": "Restent ensemble ceux dont l'entraînement va dans la même direction.",
            "de": "Zusammen bleiben die, deren Training in dieselbe Richtung geht.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    eps1: Bound = "auto"
    """A cluster may part when its mean update is shorter than this; auto: half of the longest so far."""
    eps2: Bound = "auto"
    """And when the update of some client is longer than this; auto: 0.4 of the longest."""
    gamma: float = bounded(0.6, "be at least 0 and below 1", "try 0.6")
    """How far apart halves must be: cosines between them are below 1 - 2 gamma²; 0: however near (γ_max)."""
    wait: int = bounded(5, "be at least 0", "try 5")
    """Rounds that a cluster trains before it may part."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""

    def __post_init__(self) -> None:
        check_options(self)
        for option in OF_LONGEST:
            value = getattr(self, option)
            if value != "auto" and (isinstance(value, str) or not 0 <= value < math.inf):
                raise BadInput(f"{option}={value} must be at least 0 and finite: try auto")

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        if self.wait >= key.rounds:
            said = f"cfl: wait={self.wait} leaves none of {key.rounds} rounds to part in: it is fedavg"
            return (said,)
        return ()

    def init(self, start: Held, net: Net) -> State:
        n = len(net.roster)
        alpha = torch.full((n, n), math.nan, dtype=torch.float64)
        zeros = torch.zeros(n, dtype=torch.int64)
        return State(first_of(start), zeros, torch.zeros(1, dtype=torch.int64), alpha, 0.0)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, torch.stack([state.of, torch.arange(n)], dim=1), key)
        if len(replies) == 0:
            return state, self.info(state, replies, torch.zeros(len(state.made), 0), {}, net)
        now = self.parted(state, replies, net, key)
        shares = _within(
            now.of[replies.hosts], net.roster.sizes[replies.hosts], self.weighted, len(now.parents)
        )
        trained = shares.any(dim=1).nonzero().flatten()
        mixed = net.mix(shares[trained], replies.beliefs, _homes(now.of, len(now.parents))[trained])
        new = torch.isin(torch.arange(len(now.parents)), torch.tensor(now.told["parted"], dtype=torch.int64))
        after = State(
            state.beliefs.rows(now.parents).put(trained, mixed),
            now.of,
            torch.where(new, key.round, state.made[now.parents]),
            now.alpha,
            now.longest,
        )
        return after, self.info(after, replies, shares, now.told, net)

    def parted(self, state: State, replies: Replies, net: Net, key: Key) -> _Parted:
        """Measures the replies of each cluster, and parts those that stall."""
        of, alpha, longest = state.of.clone(), state.alpha.clone(), state.longest
        measured: dict[int, tuple[Tensor, Tensor]] = {}
        for c in range(len(state.made)):
            mine = (replies.guests == c).nonzero().flatten()
            if len(mine) > 1:
                found = net.distances(replies.only(mine), torch.arange(len(mine)), COORDINATOR)
                measured[c] = replies.hosts[mine], inner_products(found)
                longest = max(longest, float(found.lengths.max()))
        parents = list(range(len(state.made)))
        told: dict[str, Any] = {"parted": [], "mean update": {}, "longest update": {}}
        for c, (here, products) in measured.items():
            cosines = cosines_of(products)
            alpha[here.unsqueeze(1), here] = cosines
            mean = mean_length(products, averaging_weights(net.roster.sizes[here], self.weighted))
            most = float(products.diagonal().max().sqrt())
            told["mean update"][str(c)], told["longest update"][str(c)] = mean, most
            if key.round - state.made[c] <= self.wait or not stalled(mean, most, *self.bounds(longest)):
                continue
            half = bipartition(cosines)
            if far_apart(cosines, half, self.gamma):
                members = (state.of == c).nonzero().flatten()
                of[members[sides(members, here, half, state.alpha)]] = len(parents)
                told["parted"] += [c, len(parents)]
                parents.append(c)
        return _Parted(of, torch.tensor(parents), alpha, longest, told)

    def bounds(self, longest: float) -> tuple[float, float]:
        """ε1 and ε2."""
        eps1, eps2 = (
            share * longest if getattr(self, name) == "auto" else float(getattr(self, name))
            for name, share in OF_LONGEST.items()
        )
        return eps1, eps2

    def info(self, state: State, replies: Replies, shares: Tensor, told: dict[str, Any], net: Net) -> Info:
        n = len(net.roster)
        sizes = torch.bincount(state.of, minlength=len(state.made)).tolist()
        return Info(
            by_client(shares, replies.hosts, state.of, n),
            losses_of(replies, n),
            extras={"clients of each cluster": sizes, **told},
            matrices={CIRCLE: same_group(state.of), "similarity": state.alpha},
        )

    def models(self, state: State) -> Models:
        shared = state.beliefs if len(state.beliefs) == 1 else None
        return Models(state.beliefs, of=state.of, shared=shared)

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, numbers=(*numbers_of(self.local), "distances"))


def inner_products(found: Distances) -> Tensor:
    """⟨ΔW_i, ΔW_j⟩ [i, j], from ‖ΔW_i‖ and ‖ΔW_i - ΔW_j‖."""
    squares = found.lengths.square()
    products = (squares.unsqueeze(1) + squares - found.apart.square()) / 2
    return products.diagonal_scatter(squares)


def cosines_of(products: Tensor) -> Tensor:
    """α [i, j]; an update of length 0 is like no other, and like itself."""
    lengths = products.diagonal().sqrt()
    scale = lengths.unsqueeze(1) * lengths
    cosines = torch.where(scale > 0, products / scale, 0.0).clamp(-1, 1)
    return cosines.fill_diagonal_(1.0)


def mean_length(products: Tensor, shares: Tensor) -> float:
    """‖Σ_i p_i ΔW_i‖."""
    return math.sqrt(max(0.0, float(shares @ products @ shares)))


def stalled(mean: float, most: float, eps1: float, eps2: float) -> bool:
    """Together they stand still, and yet some client would go on."""
    return mean < eps1 and most > eps2


def bipartition(cosines: Tensor) -> Tensor:
    """[client] whether it is in the half without client 0, of the two that are least alike: see the top.

    Algorithm 1: of all pairs from the most alike to the least, the groups of either are joined, until two
    groups are left. Of equals, the pair that comes first.
    """
    n = len(cosines)
    group = torch.arange(n)
    i, j = torch.triu_indices(n, n, offset=1)
    for pair in cosines[i, j].argsort(descending=True, stable=True).tolist():
        if len(torch.unique(group)) == 2:
            break
        group = torch.where(group == group[j[pair]], group[i[pair]], group)
    return group != group[0]


def far_apart(cosines: Tensor, half: Tensor, gamma: float) -> bool:
    """γ_max < sqrt((1 - α_cross) / 2)."""
    cross = float(cosines[half][:, ~half].max())
    return gamma < math.sqrt(max(0.0, (1 - cross) / 2))


def sides(members: Tensor, here: Tensor, half: Tensor, alpha: Tensor) -> Tensor:
    """[member] whether it goes with the second half: who is `here` as parted, who is away with the half that
    it was last more alike to on average, or with the larger.
    """
    larger = bool(half.double().mean() > 0.5)
    found = torch.full((len(members),), larger)
    for m, member in enumerate(members.tolist()):
        there = (here == member).nonzero().flatten()
        if len(there):
            found[m] = half[there[0]]
            continue
        second, first = (alpha[member, here[side]].nanmean() for side in (half, ~half))
        if not bool(second.isnan() | first.isnan()):
            found[m] = bool(second > first)
    return found


def _within(of: Tensor, sizes: Tensor, weighted: bool, clusters: int) -> Tensor:
    """p [cluster, reply] from the cluster and the size of each reply; rows add up to 1 or 0."""
    shares = torch.zeros(clusters, len(of), dtype=torch.float64)
    for c in torch.unique(of).tolist():
        shares[c, of == c] = averaging_weights(sizes[of == c], weighted)
    return shares


def _homes(of: Tensor, clusters: int) -> Tensor:
    """[cluster] where its model lies: at the coordinator, or with the one client that it has."""
    at = torch.full((clusters,), COORDINATOR)
    for c in range(clusters):
        members = (of == c).nonzero().flatten()
        if len(members) == 1:
            at[c] = members[0]
    return at
