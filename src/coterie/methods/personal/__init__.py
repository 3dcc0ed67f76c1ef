"""A model for each client beside, around or inside of a shared one, or made with those of some others."""

from coterie.methods.personal.apfl import APFL
from coterie.methods.personal.ditto import Ditto
from coterie.methods.personal.fedala import FedALA
from coterie.methods.personal.fedamp import FedAMP
from coterie.methods.personal.fedfomo import FedFomo
from coterie.methods.personal.fedper import FedPer
from coterie.methods.personal.fedrep import FedRep
from coterie.methods.personal.per_fedavg import PerFedAvg
from coterie.methods.personal.pfedgraph import PFedGraph
from coterie.methods.personal.pfedme import PFedMe

__all__ = [
    "APFL",
    "Ditto",
    "FedALA",
    "FedAMP",
    "FedFomo",
    "FedPer",
    "FedRep",
    "PFedGraph",
    "PFedMe",
    "PerFedAvg",
]
