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
renews them by one pass over its own data.

In the last round each client works out Λ_i and Λ_i μ_i at home and sends them to the others, who sum them up
and draw, all with the same random numbers; beside a diagonal, low rank also takes everybody's K columns.
Nothing of it passes by the coordinator. The weights of that round are each client's share of the joint
precision, averaged over coordinates. Who does not answer in it, or was away so often that it collected too
little, is not in the product; who does not answer stays with its own model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput
from coterie.core.held import Held, together
from coterie.core.method import METHODS, Info, Models, Reveals, handed_out, scatter
from coterie.core.net import Net, Replies, settle
from coterie.core.seeds import Key
from coterie.kernels.posterior import BUFFER, FACTOR, MINE, Draws, Natural, Share, collected, make_of
from coterie.methods.baselines.local import by_oneself
from coterie.methods.one_shot.alone import Alone
from coterie.posteriors import Gaussian


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

    prior: float = 0.0
    """Precision of a Gaussian prior that every client has counted, to count it once; 0 for none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.prior < math.inf:
            raise BadInput(f"prior={self.prior} must be at least 0 and finite: try 1")

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
        joint = net.mix(sums(sent, len(here)), sent.without([FACTOR]), here)
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
        """Λ_i and Λ_i μ_i of what each collected, at home."""
        kernel = Natural(self.form, self.floor, vars(self.work)["rank"])
        return net.visit(kernel, replies.beliefs, at_home(replies.hosts), key.at("natural"))

    def models(self, state: State) -> Models:
        n = len(state.own)
        if state.drawn is None or state.receivers is None:
            return Models(state.own, of=torch.arange(n))
        return crowds(state.own, state.drawn, state.receivers, self.samples)

    def posteriors(
        self, state: State, look: Callable[[Held], Beliefs | None], names: Sequence[str]
    ) -> Mapping[str, tuple[Gaussian, Belief]]:
        """What each client sent, and beside it its buffers, by its name; empty before the exchange.

        `look` shows what lies in this process, if it does.
        """
        sent = None if state.sent is None else look(state.sent)
        if sent is None or state.senders is None:
            return {}
        found = dict[str, tuple[Gaussian, Belief]]()
        for i, host in enumerate(state.senders.tolist()):
            mine = collected(tree.row(sent, i))
            buffers = {n: t for n, t in mine.mean.items() if n not in mine.variance}
            found[names[host]] = mine.gaussian(self.form, self.floor), buffers
        return found

    def reveals(self) -> Reveals:
        alone = super().reveals()
        return replace(alone, sites=True, numbers=(*alone.numbers, "share"))


def sums(natural: Held, receivers: int) -> dict[str, Tensor]:
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
