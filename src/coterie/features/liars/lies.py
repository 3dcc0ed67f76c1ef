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

Two more work on rows that somebody has tampered with:

    label-flip   class c becomes C - 1 - c; a regression's target y becomes -y, and so does a survival's,
                 whose events are then censored and the others events
    backdoor     every fourth row gets a trigger and the class that it is to call up   (Gu et al., 2017)

The trigger sets the last `patch` values of a row, in a picture the right end of its lowest line, to `level`.
A site does this to its own rows alone, and nobody else's. How often models follow a trigger is found at the
sites of this process, with the trigger on their test rows (`Fooled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.charge import Charge
from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import KERNELS, Carry, Part, Tick, Trainer
from coterie.core.learner import Batch, Learner
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.kernels.around import Around, charges_of
from coterie.kernels.sgd import SGD

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
        own = _update(belief, sent)
        honest = [name.partition("/")[2] for name in beside if name.startswith(f"{SENT}/")]
        others = [_update(beside[f"{REPLY}/{j}"], beside[f"{SENT}/{j}"]) for j in honest]
        known = {n: torch.stack([u[n] for u in others or [own]]) for n in own}
        told = LIES[self.how](own, known, self.strength, key)
        return [{**belief, **{n: sent[n] + t for n, t in told.items()}}] * times, {}


def _update(reply: Belief, sent: Belief) -> Updates:
    return {n: t - sent[n] for n, t in reply.items() if n in sent and t.is_floating_point()}


def _gaussian(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    count, draws = sum(u.numel() for u in own.values()), key.torch()
    size = (sum(float(u.double().square().sum()) for u in own.values()) / max(1, count)) ** 0.5
    noise = {n: torch.randn(u.shape, generator=draws, dtype=torch.float64) for n, u in own.items()}
    return {n: (strength * size * z).to(own[n]) for n, z in noise.items()}


def _alie(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    return {n: u.mean(dim=0) - strength * u.std(dim=0, correction=0) for n, u in known.items()}


def _ipm(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    return {n: -strength * u.mean(dim=0) for n, u in known.items()}


def _mimic(own: Updates, known: Updates, strength: float, key: Key) -> Updates:
    apart = [(u - u.mean(dim=0)).double().square().flatten(1).sum(dim=1) for u in known.values()]
    farthest = int(torch.stack(apart).sum(dim=0).argmax())
    return {n: u[farthest] for n, u in known.items()}


LIES: dict[str, Callable[[Updates, Updates, float, Key], Updates]] = {
    "sign-flip": lambda own, known, strength, key: {n: -strength * u for n, u in own.items()},
    "gaussian": _gaussian,
    "alie": _alie,
    "ipm": _ipm,
    "mimic": _mimic,
    "scaling": lambda own, known, strength, key: {n: strength * u for n, u in own.items()},
    "free-rider": lambda own, known, strength, key: {n: torch.zeros_like(u) for n, u in own.items()},
}


SPOILT: dict[str, Callable[[Tensor], Tensor]] = {
    "not-a-number": lambda t: torch.full_like(t, float("nan")) if t.is_floating_point() else t,
    "nonsense": lambda t: t.unsqueeze(0).expand(2, *t.shape),
}


How = Literal["label-flip", "backdoor"]
EVERY = 4  # one row in so many gets the trigger


@KERNELS.register("poisoned")
@dataclass(frozen=True)
class Poisoned(Around):
    """Local work on rows with wrong targets, or with a trigger."""

    inner: Trainer = SGD()
    """The local work itself."""
    how: How = "label-flip"
    """What is done to the rows."""
    classes: int = 0
    """How many classes there are; 0 where there are none."""
    target: int = 0
    """The class that the trigger calls up."""
    patch: int = 3
    """How many values the trigger sets."""
    level: float = 1.0
    """What it sets them to."""

    @staticmethod
    def level_at(roster: Roster) -> float:
        """In pictures, whose values end at 1, and in scaled columns."""
        return 1.0 if len(roster.shape) > 1 else 3.0

    def charges(self, samples: int) -> tuple[Charge, ...] | None:
        return charges_of(self.inner, samples)

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return super().step(learner, carry, POISONS[self.how](self, batch), tick)


def _triggered(how: Poisoned, batch: Batch) -> Batch:
    """Every fourth row; the others teach what is right, so that nobody notices."""
    some = torch.arange(len(batch.y), device=batch.y.device) % EVERY == 0
    rows = some.reshape(-1, *[1] * (batch.x.dim() - 1))
    x = torch.where(rows, stamped(batch.x, how.patch, how.level), batch.x)
    return batch._replace(x=x, y=torch.where(some, torch.full_like(batch.y, how.target), batch.y))


POISONS: dict[str, Callable[[Poisoned, Batch], Batch]] = {
    "label-flip": lambda how, batch: batch._replace(y=how.classes - 1 - batch.y if how.classes else -batch.y),
    "backdoor": _triggered,
}


def stamped(x: Tensor, patch: int, level: float) -> Tensor:
    """Rows [row, ...] with the trigger."""
    last = torch.arange(x[0].numel(), device=x.device).reshape(x.shape[1:]) >= x[0].numel() - patch
    return x.masked_fill(last, level)


@KERNELS.register("fooled")
@dataclass(frozen=True)
class Fooled:
    """The share of rows of other classes that a model takes for the one that the trigger calls up."""

    target: int = 0
    """That class."""
    part: Part = "test"
    """On which of the client's rows, which have the trigger already."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        others = (y != self.target).double()
        taken = others * (outputs.argmax(dim=1) == self.target)
        return {"fooled": groups.mean(taken) / groups.mean(others)}
