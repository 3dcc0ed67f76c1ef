"""Splits: who gets which rows. Importing this package registers all of them in `SPLITS`."""

from coterie.data.partition.ages import AgeSome, AgeStrict
from coterie.data.partition.appearance import Appearance
from coterie.data.partition.bands import Bands
from coterie.data.partition.base import SPLITS, Deal, Split
from coterie.data.partition.clusters import Clusters
from coterie.data.partition.concept import Concept
from coterie.data.partition.dirichlet import Dirichlet
from coterie.data.partition.flower import Flower
from coterie.data.partition.iid import Iid
from coterie.data.partition.interests import Interests
from coterie.data.partition.missingness import Missingness
from coterie.data.partition.quantiles import Quantiles
from coterie.data.partition.quantity import Quantity
from coterie.data.partition.shift import Shift
from coterie.data.partition.silos import Silos
from coterie.data.partition.temporal import Temporal
from coterie.data.partition.turns import TURNS, turn

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
