"""Local work around other local work, which does everything that is not said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from coterie.core.contract import (
    Batch,
    Belief,
    Carry,
    Charge,
    Extent,
    Key,
    Learner,
    Plan,
    Reply,
    Tick,
    Trainer,
)
from coterie.core.facts import kernel_fact
from coterie.core.kernel import extent_of


def numbers_of(kernel: Any) -> tuple[str, ...]:
    """The names of what local work tells the coordinator."""
    found: tuple[str, ...] | None = kernel_fact(kernel, "numbers")
    return ("loss", "samples") if found is None else found


def charges_of(kernel: Any, samples: int) -> tuple[Charge, ...] | None:
    """What a visit of local work costs a client of so many rows; None where there is no bound."""
    charges = kernel_fact(kernel, "charges")
    return None if charges is None else charges(samples)


def innermost(kernel: Any) -> Any:
    """The work that all others are around."""
    while isinstance(kernel, Around):
        kernel = kernel.inner
    return kernel


def reworked(kernel: Any, change: Callable[[Any], Any]) -> Any:
    """The same work with its innermost part changed."""
    if isinstance(kernel, Around):
        return replace(kernel, inner=reworked(kernel.inner, change))
    return change(kernel)


@dataclass(frozen=True)
class Around:
    """The same work; what differs is in a subclass.

    What it costs rows (`charges`) is not passed on by itself: a subclass that looks at them in another way
    would inherit a bound that does not hold for it. One that does not is `AsCostly`.
    """

    inner: Trainer
    """The local work itself."""

    @property
    def keeps(self) -> bool:
        return bool(self.inner.keeps)

    @property
    def numbers(self) -> tuple[str, ...]:
        return numbers_of(self.inner)

    def extent(self, samples: int) -> Extent | None:
        return extent_of(self.inner, samples)

    def plan(self, samples: int, key: Key) -> Plan:
        return self.inner.plan(samples, key)

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        return self.inner.fresh(learner, belief)

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        return self.inner.start(belief, memory, beside)

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return self.inner.step(learner, carry, batch, tick)

    def mark(self, carry: Carry) -> Carry:
        inner: Any = self.inner
        after: Carry = inner.mark(carry)
        return after

    def finish(self, carry: Carry) -> Reply:
        return self.inner.finish(carry)


@dataclass(frozen=True)
class AsCostly(Around):
    """The same work, which looks at rows as it does without what is around it, and costs them as much."""

    def charges(self, samples: int) -> tuple[Charge, ...] | None:
        return charges_of(self.inner, samples)
