"""How visits are computed. Same methods, same numbers; engines differ only in how they train."""

from coterie.engines.auto import Auto
from coterie.engines.base import ENGINES
from coterie.engines.loop import Loop
from coterie.engines.pool import Pool
from coterie.engines.stacked import Stacked

__all__ = ["ENGINES", "Auto", "Loop", "Pool", "Stacked"]
