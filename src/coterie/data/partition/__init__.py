"""Splits: who gets which rows. Importing this package registers all of them in `SPLITS`."""

from coterie.data.partition.bands import AgeSome, AgeStrict, Bands, Quantiles
from coterie.data.partition.base import SPLITS, Deal, Iid, Split
from coterie.data.partition.clusters import TURNS, Appearance, Clusters, Concept, turn
from coterie.data.partition.dirichlet import Dirichlet, Quantity
from coterie.data.partition.flower import Flower
from coterie.data.partition.interests import Interests
from coterie.data.partition.missingness import Missingness
from coterie.data.partition.shift import Shift
from coterie.data.partition.silos import Silos
from coterie.data.partition.temporal import Temporal

__all__ = [
    "SPLITS",
    "TURNS",
    "AgeSome",
    "AgeStrict",
    "Appearance",
    "Bands",
    "Clusters",
    "Concept",
    "Deal",
    "Dirichlet",
    "Flower",
    "Iid",
    "Interests",
    "Missingness",
    "Quantiles",
    "Quantity",
    "Shift",
    "Silos",
    "Split",
    "Temporal",
    "turn",
]
