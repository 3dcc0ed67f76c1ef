"""FedAMP: models that are alike attract each other, those that are not leave each other alone.

Huang, Chu, Zhou, Wang, Liu, Pei and Zhang, 2021, "Personalized cross-silo federated learning on non-IID
data", AAAI 35(9), arXiv:2007.03797, algorithm 1.

    u_i = (1 - α Σ_{j≠i} A'(‖w_i - w_j‖²)) w_i + α Σ_{j≠i} A'(‖w_i - w_j‖²) w_j       attention
    A(x) = 1 - exp(-x/σ),  so that  A'(x) = exp(-x/σ) / σ
    w_i ← argmin_w F_i(w) + λ/(2α) ‖w - u_i‖²                                        Proximal(local, pull)

w is `beliefs`, u is `clouds`, both with their clients; α is `alpha`, σ is `sigma`, λ/α is `pull`: λ is in no
other place. The weights of w_j in u_i are Info's `weights`, the distances ‖w_i - w_j‖ its matrix `distance`.
F_i is minimised by a round of local work that starts from w_i. In the first round u = w.

α = auto is σ/n for n clients: alike models then weigh 1/n each, as in an average of all, and a model that has
nobody near keeps to itself. σ = auto is, in each round, half of the median of ‖w_i - w_j‖² over all pairs:
who is nearer than most counts, whatever the scale of the model.

Deviations. The paper's server holds all w; here client i gets those of the others, measures and mixes them,
and the coordinator sees distances. α (n - 1) > σ is refused, as u might leave the models that it is made of
(the paper has α small enough). Both auto are ours. Whoever is away keeps w and u, and is in nobody's sum. Two
other programs differ from the paper. PFLlib's term is of the norm, not of its square, and of copies, so that
it pulls nothing; fluke takes the learning rate for the α of the pull.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.method import METHODS, check_others, handed_out, losses_of
from coterie.core.net import settle, to_own
from coterie.core.options import bounded, check_options
from coterie.kernels.around import numbers_of
from coterie.kernels.proximal import ANCHOR, Proximal
from coterie.kernels.sgd import SGD
from coterie.methods.personal.at_home import pull_of
from coterie.methods.personal.measured import laid_out, measure

Auto = Literal["auto"]


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], and what it is pulled towards [client, ...], both at home."""

    beliefs: Held
    clouds: Held


@METHODS.register("fedamp")
@dataclass(frozen=True)
class FedAMP:
    """Everybody's own model, pulled towards a mean in which those count most that are like it."""

    chooses: ClassVar[Partners] = Partners(
        by={"distance": "low"},
        words={
            "en": "Those count most whose models are like yours.",
            "fr": "Comptent le plus ceux dont les modèles ressemblent au vôtre.",
            "de": "Am meisten zählen die, deren Modelle Ihrem ähnlich sind.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    sigma: float | Auto = bounded("auto", "be above 0 and finite", "try 0.1 or auto", besides="auto")
    """Squared distance at which attention has fallen to 1/e; auto: half of the median over all pairs."""
    alpha: float | Auto = bounded("auto", "be above 0 and finite", "try 0.1 or auto", besides="auto")
    """How strong attention is, at most sigma / (clients - 1); auto: sigma / clients."""
    pull: float | None = None
    """How strongly a client's model is held near its mean, the paper's lambda / alpha. By default 0.3, and 1
    where linear models are solved, which go as far as their rows say."""

    scales_targets: ClassVar[bool] = True  # its attention is by distances of about 1

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 <= self.strength < math.inf:
            raise BadInput(f"pull={self.pull} must be at least 0 and finite: try 0.3")
        if self.sigma == "auto" and self.alpha != "auto":
            raise BadInput(f"alpha={self.alpha} needs a number for sigma, its unit: set sigma, or alpha=auto")

    @property
    def strength(self) -> float:
        return pull_of(self.local, self.pull, 0.3)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_others(roster, "fedamp")
        n = len(roster)
        if self.alpha != "auto" and self.sigma != "auto" and self.alpha * (n - 1) > self.sigma:
            most = self.sigma / (n - 1)
            raise BadInput(
                f"alpha={self.alpha} must be at most sigma / (clients - 1), {most:.4g}: lower it, or set auto"
            )
        return ()

    def init(self, start: Held, net: Net) -> State:
        own = handed_out(start, net)
        return State(own, own)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        work = Proximal(self.local, self.strength)
        replies = net.visit(work, state.beliefs, to_own(n), key, beside={ANCHOR: state.clouds})
        here, loss = replies.hosts, losses_of(replies, n)
        if len(here) == 0:
            return state, Info(torch.zeros(n, n, dtype=torch.float64), loss)
        apart = measure(net, replies, state.beliefs).apart
        sigma = typical(apart) if self.sigma == "auto" else self.sigma
        weights = attention(apart.square(), sigma, sigma / n if self.alpha == "auto" else self.alpha)
        clouds = state.clouds.put(here, net.mix(weights, replies.beliefs, here))
        info = Info(
            laid_out(weights, here, n, empty=0.0),
            loss,
            extras={"sigma": float(sigma)},
            matrices={"distance": laid_out(apart, here, n)},
        )
        return State(settle(net, state.beliefs, replies), clouds), info

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(sites=True, numbers=(*numbers_of(self.local), "distances"))


def attention(squares: Tensor, sigma: float, alpha: float) -> Tensor:
    """ξ [receiver, sender] from squared distances: α A'(‖w_i - w_j‖²), and for oneself what is left of 1."""
    others = (alpha / sigma) * torch.exp(-squares / sigma)
    others = others.clone().fill_diagonal_(0.0)
    return others + torch.diag(1 - others.sum(dim=1))


def typical(apart: Tensor) -> float:
    """σ: half of the median squared distance over all pairs; 1 where all are alike or nobody else is."""
    pairs = apart[~torch.eye(len(apart), dtype=torch.bool)].square()
    found = float(pairs.quantile(0.5)) / 2 if len(pairs) else 0.0
    return found if found > 0 else 1.0
