"""How beliefs visit clients. Same methods, same numbers; engines differ only in how they visit."""

from coterie.engines.absent import Absent
from coterie.engines.base import ENGINES, InProcess
from coterie.engines.loop import Loop

__all__ = ["ENGINES", "Absent", "InProcess", "Loop"]
