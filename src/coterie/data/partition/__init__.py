"""Splits: who gets which rows. Importing this package registers all of them in `SPLITS`."""

from coterie.data.partition.ages import AgeSome, AgeStrict
from coterie.data.partition.bands import Bands
from coterie.data.partition.base import SPLITS, Deal, Split
from coterie.data.partition.clusters import Clusters
from coterie.data.partition.dirichlet import Dirichlet
from coterie.data.partition.iid import Iid
from coterie.data.partition.interests import Interests
from coterie.data.partition.shift import Shift
from coterie.data.partition.silos import Silos
from coterie.data.partition.turns import TURNS, turn

__all__ = [
    "SPLITS",
    "TURNS",
    "AgeSome",
    "AgeStrict",
    "Bands",
    "Clusters",
    "Deal",
    "Dirichlet",
    "Iid",
    "Interests",
    "Shift",
    "Silos",
    "Split",
    "turn",
]
