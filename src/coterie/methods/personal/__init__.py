"""A model for each client, made with others: one paper, one file."""

from coterie.methods.personal.fedala import FedALA
from coterie.methods.personal.fedamp import FedAMP
from coterie.methods.personal.fedfomo import FedFomo
from coterie.methods.personal.pfedgraph import PFedGraph

__all__ = ["FedALA", "FedAMP", "FedFomo", "PFedGraph"]
