"""Local work that says what it costs, for tests of accounts: it adds no noise."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.charge import Charge
from coterie.core.kernel import KERNELS
from coterie.kernels import SGD

SIGMA = 8.0


@KERNELS.register("charged")
@dataclass(frozen=True)
class Charged(SGD):
    """SGD that costs one Gaussian a visit."""

    def charges(self, samples: int) -> tuple[Charge, ...]:
        return (Charge(SIGMA),)
