"""One linear model for all, as if all rows were in one place: Newton's method on sums.

    (g, H) ← Σ_k (∇L_k(c), ∇²L_k(c))            sums over rows, made through `mix`
    c ← (H + diag(1/σ²))^{-1} (H c - g)

For a regression g and H are X'y and X'X, and one round is the exact solution; others take a few. σ, how large
coefficients are, is learnt by the marginal likelihood (`linear/evidence.py`), of sums alone. The coordinator
sees sums over all sites; with `--wrap sealed`, no site's. A site's own (g, H) say more of its rows than a
model does: with fewer rows than columns they may tell the rows. (Wu, Jiang, Kim and Ohno-Machado, 2012, "Grid
binary logistic regression".)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS
from coterie.core.partners import NOBODY
from coterie.kernels.newton import Newton
from coterie.methods.linear.sums import Common, check_linear, first_common, one_more_step


@METHODS.register("pooled")
@dataclass(frozen=True)
class Pooled:
    """One linear model for all, exactly that of all rows in one place, from sums over sites."""

    chooses: ClassVar[Partners] = NOBODY

    only_work: ClassVar[str] = "newton"
    works: ClassVar[bool] = False

    @property
    def local(self) -> Trainer:
        """Newton's steps, of sums that sites tell: nobody chooses them."""
        return Newton()

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_linear("pooled", roster, start)
        return ()

    def init(self, start: Held, net: Net) -> Common:
        return first_common(start, net)

    def round(self, state: Common, net: Net, key: Key) -> tuple[Common, Info]:
        after = one_more_step(state, net, key, apart=False)
        return after, of_all(after, net)

    def models(self, state: Common) -> Models:
        return Models(state.beliefs, torch.zeros(len(state.there), dtype=torch.int64), state.beliefs)

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, numbers=("loss", "samples", "share"))


def of_all(state: Common, net: Net) -> Info:
    """Every client listens to all who answered, by their rows."""
    sizes = net.roster.sizes.double() * state.there
    shares = sizes / sizes.sum().clamp(min=1)
    n = len(shares)
    tau, level, sigma, noise = state.learnt.tolist()
    said = {"tau": tau, "level": level, "sigma": sigma, "noise": noise}
    return Info(shares.expand(n, n), state.losses, said)
