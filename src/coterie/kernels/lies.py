"""What a liar answers instead of its reply, made at the liar's own site. For studies.

With u the liar's own update (its reply less what it was sent), u_j those of the honest, which liars that work
together know, and s the `strength`:

    sign-flip    -s u
    gaussian     s √(mean u²) ξ,  ξ ~ N(0, I)
    alie         m - s σ, with mean m and standard deviation σ of the u_j, each coordinate for itself
                 (Baruch, Baruch and Goldberg, 2019, "A little is enough")
    ipm          -s m                    (Xie, Koyejo and Gupta, 2020, "Fall of empires": inner products)
    mimic        the u_j that lies farthest from m, by all liars alike
                 (after Karimireddy, He and Jaggi, 2022, "Byzantine-robust learning on heterogeneous data")
    scaling      s u                     (Bagdasaryan et al., 2020, "How to backdoor federated learning")
    free-rider   0: what it was sent comes back, and no work was done
    not-a-number a reply without a number in it
    nonsense     a reply whose tensors have another shape

Updates are of the tensors that were sent and have numbers behind the point; the rest of a reply stays.
Deviations: a standard deviation is that of as many as there are, and 0 of one; where no honest reply is
known, alie, ipm and mimic work with the liar's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.kernel import KERNELS
from coterie.core.seeds import Key

SENT, REPLY = "sent", "reply"
Updates = dict[str, Tensor]
"""By name; stacked [honest client, ...] of several."""


@KERNELS.register("lie")
@dataclass(frozen=True)
class Lie:
    """Makes a lie of a reply. Beside it is what the liar was `sent`, and of the honest sent/j and reply/j."""

    how: str = "sign-flip"
    """Which lie."""
    strength: float = 1.0
    """How large it is."""

    def make(
        self, belief: Belief, beside: Mapping[str, Belief], times: int, key: Key
    ) -> tuple[Sequence[Belief], dict[str, float]]:
        if self.how in SPOILT:
            return [{n: SPOILT[self.how](t) for n, t in belief.items()}] * times, {}
        sent = beside[SENT]
        own = update(belief, sent)
        others = [
            update(beside[f"{REPLY}/{name.partition('/')[2]}"], beside[name])
            for name in beside
            if name.startswith(f"{SENT}/")
        ]
        known = {n: torch.stack([u[n] for u in others or [own]]) for n in own}
        told = LIES[self.how](own, known, self.strength, key)
        return [{**belief, **{n: sent[n] + t for n, t in told.items()}}] * times, {}


def update(reply: Belief, sent: Belief) -> Updates:
    return {n: t - sent[n] for n, t in reply.items() if n in sent and t.is_floating_point()}


def sign_flip(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    return {n: -strength * u for n, u in own.items()}


def gaussian(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    count, draws = sum(u.numel() for u in own.values()), key.torch()
    size = (sum(float(u.double().square().sum()) for u in own.values()) / max(1, count)) ** 0.5
    noise = {n: torch.randn(u.shape, generator=draws, dtype=torch.float64) for n, u in own.items()}
    return {n: (strength * size * z).to(own[n]) for n, z in noise.items()}


def alie(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    return {n: u.mean(dim=0) - strength * u.std(dim=0, correction=0) for n, u in known.items()}


def ipm(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    return {n: -strength * u.mean(dim=0) for n, u in known.items()}


def mimic(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    apart = [(u - u.mean(dim=0)).double().square().flatten(1).sum(dim=1) for u in known.values()]
    farthest = int(torch.stack(apart).sum(dim=0).argmax())
    return {n: u[farthest] for n, u in known.items()}


def scaling(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    return {n: strength * u for n, u in own.items()}


def free_rider(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    return {n: torch.zeros_like(u) for n, u in own.items()}


LIES: dict[str, Callable[[Updates, Updates, float, Key], Updates]] = {
    "sign-flip": sign_flip,
    "gaussian": gaussian,
    "alie": alie,
    "ipm": ipm,
    "mimic": mimic,
    "scaling": scaling,
    "free-rider": free_rider,
}


def no_number(t: Tensor) -> Tensor:
    return torch.full_like(t, float("nan")) if t.is_floating_point() else t


def other_shape(t: Tensor) -> Tensor:
    return t.unsqueeze(0).expand(2, *t.shape)


SPOILT: dict[str, Callable[[Tensor], Tensor]] = {"not-a-number": no_number, "nonsense": other_shape}
