"""FL-SWAG: one exchange, in which each client sends a Gaussian over models (Makni, 2022, Algorithm 3).

    μ_i, Σ_i ← SWAG(client i)                                for each client i of b, alone
    Λ_S = Σ_i Σ_i⁻¹,   μ_S = Λ_S⁻¹ Σ_i Σ_i⁻¹ μ_i
    p(y|x) ≈ 1/S Σ_s p(y|x, θ_s),   θ_s ~ N(μ_S, T Λ_S⁻¹)

S is `samples`, T `temperature`; Σ_i is Σ_diag (`form` diagonal), or ½ Σ_diag + D Dᵀ / (2(K-1)) (low-rank; as
a matrix: full). The algebra is `coterie.posteriors`, the training `alone.py`. Before the last round a
client's model is its own; after it everybody's is the product. S = 0 predicts with μ_S alone.

Variances below `floor` are raised to it: a weight behind an input that is always 0 never moves. `prior` is
the precision of a Gaussian prior that each client has counted whole: all but one are divided out. Neither is
in the paper, whose program clamps at 1e-6 and has no prior; temperature and low rank it leaves open.

Batch norm's statistics cannot be multiplied: the draws take the average of the clients', and then each client
renews them by one pass over its own data, so that it has draws of its own.

In the last round a client sends its mean and variances, beside a diagonal also K columns, and receives the
product: counted in models' worth of numbers. The weights of that round are each client's share of the joint
precision, averaged over coordinates. Who does not answer in it, or was away so often that it collected too
little, is not in the product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput
from coterie.core.method import METHODS, Info, Models, scatter
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.methods.baselines.local import by_oneself
from coterie.methods.one_shot.alone import Alone
from coterie.methods.server.norms import norm_names
from coterie.posteriors import Gaussian, isotropic, mean, product, sample


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...] and memory; after the exchange, what was sent and its product.

    sent       [reply, ...] what `Gather` brought home, from the clients `senders` [reply]
    joint      [1 + S, ...] the product's mean and its draws; with batch norm [client · (1 + S), ...]
    """

    own: Beliefs
    memory: Beliefs | None = None
    sent: Beliefs | None = None
    senders: Tensor | None = None
    joint: Beliefs | None = None


@METHODS.register("fl-swag")
@dataclass(frozen=True)
class FLSWAG(Alone):
    """One exchange: each client sends a Gaussian over models, and their product predicts, calibrated."""

    prior: float = 0.0
    """Precision of a Gaussian prior that every client has counted, to count it once; 0 for none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.prior < math.inf:
            raise BadInput(f"prior={self.prior} must be at least 0 and finite: try 1")

    def init(self, beliefs: Beliefs, clients: int) -> State:
        self.check_room(beliefs, clients if norm_names(beliefs) else 1)
        return State(tree.repeat(beliefs, clients))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.names)
        replies = self.train(net, state.own, state.memory, key)
        own = net.settle(state.own, replies)
        alone = by_oneself(n, replies)
        if key.round < key.rounds or len(replies) == 0:
            return State(own, replies.memory), alone
        sent = net.open(replies)
        fit = [i for i in range(len(replies)) if self.enough(int(sent["count"][i]), int(sent["columns"][i]))]
        if not fit:
            return State(own, replies.memory), alone
        sent, hosts = tree.rows(sent, torch.tensor(fit)), replies.hosts[fit]
        mine = self.gaussians(sent, [net.names[h] for h in hosts.tolist()])
        posterior = self.product_of(mine)
        drawn = self.drawn(posterior, sent, state.own, key.at("draw"))
        if norm_names(drawn):
            each = torch.arange(1 + self.samples).repeat(n)
            drawn = self.renewed(net, tree.rows(drawn, each), key.at("refresh"))
        columns = sent["columns"].clamp(max=vars(self.work)["rank"]).cpu()
        info = Info(
            weights=scatter(precision_shares(mine), hosts, n, empty=0).expand(n, n),
            sent=alone.sent.index_copy(0, hosts, 2 + columns),
            received=torch.full((n,), weight_in_models(posterior)),
            loss=alone.loss,
        )
        return State(own, None, sent, hosts, drawn), info

    def gaussians(self, sent: Beliefs, names: Sequence[str]) -> list[Gaussian]:
        """p_i of each client that sent something: [reply, ...]."""
        return [self.gaussian(tree.row(sent, i), name) for i, name in enumerate(names)]

    def product_of(self, posteriors: Sequence[Gaussian]) -> Gaussian:
        """N(μ_S, T Λ_S⁻¹)."""
        prior = isotropic(mean(posteriors[0]), 1 / self.prior) if self.prior else None
        return product(posteriors, prior) * (1 / self.temperature)

    def drawn(self, posterior: Gaussian, sent: Beliefs, like: Beliefs, key: Key) -> Beliefs:
        """μ_S and the draws θ_s as whole models [1 + S, ...]; buffers are the clients' average."""
        found = {name: t.unsqueeze(0) for name, t in mean(posterior).items()}
        if self.samples:
            draws = sample(posterior, self.samples, key)
            found = {name: torch.cat([t, draws[name]]) for name, t in found.items()}
        rest = {name: sent[name] for name in like if name not in found}
        alike = torch.full((1, tree.count(sent)), 1 / tree.count(sent), dtype=torch.float64)
        still = tree.repeat(tree.mix(alike, rest), 1 + self.samples) if rest else {}
        return {name: (found | dict(still))[name].to(like[name].device) for name in like}

    def models(self, state: State, clients: int) -> Models:
        if state.joint is None:
            return Models(state.own, of=torch.arange(clients))
        a_set = 1 + self.samples
        everyone = tree.count(state.joint) == a_set
        of = torch.zeros(clients, dtype=torch.int64) if everyone else torch.arange(clients) * a_set
        crowd = of.unsqueeze(1) + torch.arange(1, a_set) if self.samples else None
        return Models(state.joint, of, shared=0 if everyone else None, crowd=crowd)

    def posteriors(self, state: State, names: Sequence[str]) -> Mapping[str, tuple[Gaussian, Belief]]:
        """What each client sent, and beside it its buffers, by its name; empty before the exchange."""
        if state.sent is None or state.senders is None:
            return {}
        who = [names[i] for i in state.senders.tolist()]
        found = dict[str, tuple[Gaussian, Belief]]()
        for i, (name, mine) in enumerate(zip(who, self.gaussians(state.sent, who), strict=True)):
            trained = {slot.name for slot in mine.slots}
            found[name] = mine, {n: state.sent[n][i] for n in state.own if n not in trained}
        return found


def weight_in_models(posterior: Gaussian) -> int:
    """How many models' worth of numbers a Gaussian is: shift, diagonal, columns, or half a matrix."""
    p, precision = posterior.shift.numel(), posterior.precision
    if precision.dense is not None:
        return 1 + -(-(p + 1) // 2)
    return 2 + sum(f.columns.shape[1] for f in precision.factors)


def precision_shares(posteriors: Sequence[Gaussian]) -> Tensor:
    """Mean over coordinates of Λ_i / Σ_j Λ_j: [reply], adding up to 1."""
    entries = torch.stack([p.precision.entries() for p in posteriors])
    return (entries / entries.sum(dim=0)).mean(dim=1)
