"""Section 6 of makni-2022 at each scale: of what the paper leaves open, all is ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coterie.core.errors import BadInput
from coterie.papers.base import Scale


class Leaps(NamedTuple):
    """Leapfrog steps for one draw, and the length of a step at first in units of 1 / √N."""

    number: int
    length: float


FREE, CONFINED = Leaps(30, 0.02), Leaps(6, 0.1)


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open."""

    hidden: tuple[int, ...] = (200, 50, 50, 50)
    """Units of the hidden layers."""
    held: float = 0.2
    """Share of the rows to test on."""
    prior: float = 15.0
    """λ, a standard deviation of 0.26; from 20 on, SGD ends for some first models at the zero network."""
    temperature: float = 1.0
    """1 for the posterior itself."""
    batch: int = 32
    """Rows in a batch of SGD and SWAG."""
    pretrain: int = 60
    """Epochs of SGD, with momentum 0.9 and a rate that falls on a cosine."""
    lr: float = 0.05
    """SGD's rate at first."""
    collect: int = 40
    """Epochs of SWAG, each of which gives one state."""
    swag_lr: float = 0.2
    """SWAG's rate, constant and without momentum; its spread is nearly proportional to it."""
    rank: int = 20
    """K, the columns that SWAG keeps."""
    chains: int = 4
    """Of HMC, one half from each first model."""
    block: int = 20
    """Draws between two reports of progress; even, for a chain goes on from the last that was kept."""
    warm: int = 4
    """Blocks before the first that counts; in the last of them the length of a step is settled."""
    blocks: int = 6
    """Blocks that count, with every second draw of each."""
    free: Leaps = FREE
    """Of chains in all weights."""
    confined: Leaps = CONFINED
    """Of chains in a plane."""
    grid: int = 41
    """Points along each side of a plane at which the posterior is worked out."""

    def __post_init__(self) -> None:
        if self.block % 2:
            raise BadInput(
                f"block={self.block} must be even, every second draw is kept: try {self.block + 1}"
            )

    @property
    def draws(self) -> int:
        """That count, of all chains; and as many of SWAG."""
        return self.chains * self.blocks * (self.block // 2)


SETTINGS: dict[Scale, Setting] = {
    "full": Setting(),
    "tiny": Setting(
        hidden=(8, 6, 6, 6), prior=2.0, pretrain=20, collect=8, rank=5, chains=2, block=10, warm=3, blocks=2,
        free=Leaps(5, 0.1), grid=7,
    ),
}  # fmt: skip
