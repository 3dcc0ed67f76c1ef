"""Part of a belief as a belief of its own: the tensors whose names begin with a prefix, under their names
without it.

Work that replies with two models at once (`moreau.py`, `mixture.py`) has the second under such a prefix. It
is taken where it lies, so it goes nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS
from coterie.core.seeds import Key

OWN = "own/"


@KERNELS.register("taken")
@dataclass(frozen=True)
class Taken:
    """The tensors under a prefix."""

    prefix: str = OWN
    """How their names begin."""

    def make(
        self, belief: Belief, beside: Mapping[str, Belief], times: int, key: Key
    ) -> tuple[Sequence[Belief], dict[str, float]]:
        mine = {n.removeprefix(self.prefix): t for n, t in belief.items() if n.startswith(self.prefix)}
        if not mine:
            raise BadInput(f"the belief has nothing named {self.prefix}...: visit with work that makes it")
        return [mine] * times, {}


def under(prefix: str, belief: Belief) -> dict[str, Tensor]:
    """The inverse: all tensors of a belief under a prefix."""
    return {prefix + n: t for n, t in belief.items()}
