"""Where sites are, and how they are reached. Importing this package registers all nets and wrappers."""

from coterie.core.net import NETS, WRAPS
from coterie.nets.absent import Absent
from coterie.nets.accounted import Accounted
from coterie.nets.circle import Circle
from coterie.nets.contributions import Contributions
from coterie.nets.counting import Counting
from coterie.nets.ground import Ground, Made, wrapped
from coterie.nets.in_process import InProcess
from coterie.nets.liars import Liars
from coterie.nets.ownership import Ownership
from coterie.nets.private import Private
from coterie.nets.processes import Processes
from coterie.nets.sealed import Sealed
from coterie.nets.without import Without
from coterie.nets.wrapped import Wrapped

__all__ = [
    "NETS",
    "WRAPS",
    "Absent",
    "Accounted",
    "Circle",
    "Contributions",
    "Counting",
    "Ground",
    "InProcess",
    "Liars",
    "Made",
    "Ownership",
    "Private",
    "Processes",
    "Sealed",
    "Without",
    "Wrapped",
    "wrapped",
]
