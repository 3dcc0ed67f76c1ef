"""How beliefs visit clients. Same methods, same numbers; engines differ only in how they visit."""

from coterie.engines.absent import Absent
from coterie.engines.auto import Auto
from coterie.engines.base import ENGINES, InProcess
from coterie.engines.loop import Loop
from coterie.engines.pool import Pool
from coterie.engines.stacked import Stacked

__all__ = ["ENGINES", "Absent", "Auto", "InProcess", "Loop", "Pool", "Stacked"]
