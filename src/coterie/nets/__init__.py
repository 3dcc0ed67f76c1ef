"""Where sites are, and how they are reached. Importing this package registers nets and wrappers;
features bring further ones.
"""

from coterie.core.net import NETS, WRAPS
from coterie.nets.counting import Counting
from coterie.nets.ground import Ground, Made, wrapped
from coterie.nets.in_process import InProcess
from coterie.nets.processes import Processes
from coterie.nets.wrapped import Wrapped

__all__ = ["NETS", "WRAPS", "Counting", "Ground", "InProcess", "Made", "Processes", "Wrapped", "wrapped"]
