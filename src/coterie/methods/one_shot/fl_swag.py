"""FL-SWAG: one exchange, in which each client sends a Gaussian over models (Makni, 2022, Algorithm 3).

    μ_i, Σ_i ← SWAG(client i)                                for each client i of b, alone
    Λ_S = Σ_i Σ_i⁻¹,   μ_S = Λ_S⁻¹ Σ_i Σ_i⁻¹ μ_i
    p(y|x) ≈ 1/S Σ_s p(y|x, θ_s),   θ_s ~ N(μ_S, T Λ_S⁻¹)

S is `samples`, T `temperature`; Σ_i is Σ_diag (`form` diagonal), or ½ Σ_diag + D Dᵀ / (2(K-1)) (low-rank; as
a matrix: full). The algebra is `coterie.posteriors`, the training `alone.py`. Before the last round a
client's model is its own; after it everybody's is the product. S = 0 predicts with μ_S alone.

A weight that hardly moved is one of which a client learned hardly anything: below `floor` its precision
fades, or (`below` raise) its variance is raised to the floor. With `weigh` variance μ_S is instead
Σ_i w_i μ_i / Σ_i w_i, w_i = max(v_i, 1e-6), v_i being the diagonal that SWAG collected; the spread stays
Λ_S⁻¹. The equations and their reasons are in `posteriors/weighing.py`. `prior` is the precision of a Gaussian
prior that each client has counted whole: all but one are divided out. Nothing of this is in the paper, whose
program clamps at 1e-6 and has no prior; temperature and low rank it leaves open.

Batch norm's statistics cannot be multiplied: the draws take the average of the clients', and then each client
renews them by one pass over its own data.

In the last round each client works out Λ_i and Λ_i μ_i at home and sends them to the others, who sum them up
and draw, all with the same random numbers; beside a diagonal, low rank also takes everybody's K columns. To
weigh by variance they send w_i and w_i μ_i in place of Λ_i μ_i. Nothing of it passes by the coordinator. The
weights of that round are each client's share of the joint precision, or of Σ_i w_i, averaged over
coordinates. Who does not answer in it, or was away so often that it collected too little, is not in the
product; who does not answer stays with its own model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.contract import Belief, Beliefs, Held, Info, Key, Models, Net, Replies, Reveals, Roster
from coterie.core.errors import BadInput
from coterie.core.held import together
from coterie.core.method import METHODS, handed_out, scatter
from coterie.core.net import settle
from coterie.core.options import bounded, chosen
from coterie.core.partners import WEIGHTS, Partners
from coterie.kernels.posterior import BUFFER, FACTOR, MINE, Draws, Natural, Share, collected, make_of
from coterie.methods.baselines.local import by_oneself
from coterie.methods.one_shot.alone import Alone, rank_of
from coterie.posteriors import Gaussian
from coterie.posteriors.weighing import UNKNOWN, Below, Weigh

BY_VARIANCE = (
    "weigh=variance is of this run alone: it saves each client's own Gaussian, and a pool of these is their "
    "product, weighed by precision"
)


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], at home; after the exchange, what was sent and its product.

    sent       [reply, ...] what `Gather` collected, at home with the clients `senders` [reply]
    drawn      [receiver · (1 + S), ...] the product's mean and its draws, at home with each of `receivers`
    """

    own: Held
    sent: Held | None = None
    senders: Tensor | None = None
    drawn: Held | None = None
    receivers: Tensor | None = None


@METHODS.register("fl-swag")
@dataclass(frozen=True)
class FLSWAG(Alone):
    """One exchange: each client sends a Gaussian over models, and their product predicts, calibrated."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        words={
            "en": "The distributions that all have found for the model are multiplied: whoever is "
            "surer of it counts more.",
            "fr": "Les distributions que tous ont trouvées pour le modèle sont multipliées : qui en "
            "est plus sûr compte davantage.",
            "de": "Die Verteilungen, die alle für das Modell gefunden haben, werden multipliziert: Wer "
            "sich sicherer ist, zählt mehr.",
        },
    )

    floor: float = 1e-3
    """Variance of a weight that hardly moved; 0 refuses weights that did not move."""
    below: Below = chosen("fade", Below)
    """Below the floor, let a weight's precision fade, or raise its variance to the floor (the paper's)."""
    weigh: Weigh = chosen("precision", Weigh)
    """What the joint mean weighs clients by: precision (the product's), or variance: who moved a weight."""
    prior: float = bounded(0.0, "be at least 0 and finite", "try 1")
    """Precision of a Gaussian prior that every client has counted, to count it once; 0 for none."""

    common: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior and self.weigh == "variance":
            raise BadInput(
                f"prior={self.prior} is divided out of a product, and weigh=variance has another mean: "
                "take prior=0, or weigh=precision"
            )

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        said = super().check(roster, start, key)
        return [*said, BY_VARIANCE] if self.weigh == "variance" else said

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        replies = self.train(net, state.own, key)
        own = settle(net, state.own, replies)
        alone = by_oneself(n, replies)
        if key.round < key.rounds or len(replies) == 0:
            return State(own), alone
        natural = self.natural(net, replies, key)
        fit = self.fit(natural)
        if len(fit) == 0:
            return State(own), alone
        sent, here, senders = natural.beliefs.rows(fit), natural.hosts, natural.hosts[fit]
        joint = net.mix(_sums(sent, len(here)), sent.without([FACTOR]), here)
        columns = {f"{FACTOR}/{i}": sent.rows(torch.tensor([i])).only([FACTOR]) for i in range(len(fit))}
        beside = columns if FACTOR in sent.names else {}
        mine = {MINE: natural.beliefs, **beside}
        told = net.visit(Share(), joint, at_home(here), key.at("share"), beside=mine)
        shares = scatter(told.numbers["share"], told.hosts, n, empty=0)
        draw = Draws(
            make_of(own.like), len(fit), self.prior, self.temperature, key.at("draw").integer()
        )  # the same draws everywhere
        drawn = net.visit(draw, joint, at_home(here, 1 + self.samples), key.at("draw"), beside=beside)
        models = self.renewed(net, drawn.beliefs, drawn.hosts, key.at("refresh"))
        weights = torch.zeros(n, n, dtype=torch.float64)
        weights[here] = shares
        collected_at = torch.isin(replies.hosts, senders).nonzero().flatten()
        kept = replies.beliefs.rows(collected_at)
        return State(own, kept, senders, models, here), replace(alone, weights=weights)

    def natural(self, net: Net, replies: Replies, key: Key) -> Replies:
        """Λ_i and Λ_i μ_i (or w_i and w_i μ_i) of what each collected, at home."""
        rank, unknown = rank_of(self.work), self.unknown(len(net.roster))
        kernel = Natural(self.form, self.floor, rank, self.below, unknown, self.weigh)
        return net.visit(kernel, replies.beliefs, at_home(replies.hosts), key.at("natural"))

    def unknown(self, clients: int) -> float:
        """λ, which each says of a weight that it did not move: its share of a unit Gaussian, or the prior."""
        return max(UNKNOWN / clients, self.prior)

    def models(self, state: State) -> Models:
        n = len(state.own)
        if state.drawn is None or state.receivers is None:
            return Models(state.own, of=torch.arange(n))
        return crowds(state.own, state.drawn, state.receivers, self.samples)

    def posteriors(
        self, state: State, look: Callable[[Held], Beliefs | None], names: Sequence[str]
    ) -> Mapping[str, tuple[Gaussian, Belief]]:
        """Each client's own Gaussian, and beside it its buffers, by its name; empty before the exchange.

        It is the same whatever the joint mean is weighed by.

        `look` shows what lies in this process, if it does.
        """
        sent = None if state.sent is None else look(state.sent)
        if sent is None or state.senders is None:
            return {}
        found, unknown = dict[str, tuple[Gaussian, Belief]](), self.unknown(len(state.own))
        for i, host in enumerate(state.senders.tolist()):
            mine = collected(tree.row(sent, i))
            buffers = {n: t for n, t in mine.mean.items() if n not in mine.variance}
            found[names[host]] = mine.gaussian(self.form, self.floor, self.below, unknown), buffers
        return found

    def reveals(self) -> Reveals:
        alone = super().reveals()
        return replace(alone, sites=True, numbers=(*alone.numbers, "share"))


def _sums(natural: Held, receivers: int) -> dict[str, Tensor]:
    """Weights by name [receiver, sender]: natural parameters add up, buffers are averaged."""
    ones = torch.ones(receivers, len(natural), dtype=torch.float64)
    return {n: ones / len(natural) if n.startswith(BUFFER) else ones for n in natural.names}


def at_home(hosts: Tensor, times: int = 1) -> Tensor:
    """Edges on which row i visits hosts[i], so many times."""
    return torch.stack([torch.arange(len(hosts)), hosts], dim=1).repeat_interleave(times, dim=0)


def crowds(own: Held, drawn: Held, receivers: Tensor, samples: int) -> Models:
    """Receivers predict with their draws, of which each has (1 + S), the mean first; the others with their
    own.
    """
    n, a_set = len(own), 1 + samples
    of = torch.arange(n)
    of[receivers] = n + a_set * torch.arange(len(receivers))
    crowd = of.unsqueeze(1).expand(n, max(1, samples)).clone()
    if samples:
        crowd[receivers] += torch.arange(1, a_set)
    return Models(together([own, drawn]), of, crowd=crowd if samples else None)
