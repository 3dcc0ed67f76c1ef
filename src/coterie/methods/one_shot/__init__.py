"""Methods of one exchange, and posteriors without any."""

from coterie.methods.one_shot.bayes import BayesCentral, BayesLocal
from coterie.methods.one_shot.ensembles import BayAvg, OneShotFedAvg, OneShotWFedAvg, WBayAvg
from coterie.methods.one_shot.fl_swag import FLSWAG

__all__ = ["FLSWAG", "BayAvg", "BayesCentral", "BayesLocal", "OneShotFedAvg", "OneShotWFedAvg", "WBayAvg"]
