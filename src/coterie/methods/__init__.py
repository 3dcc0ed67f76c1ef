"""Every method, one paper, one file. Importing this package registers all of them in `METHODS`."""

from coterie.core.method import METHODS, partners_of, ranks_by
from coterie.methods.advised import Advised
from coterie.methods.baselines.central import Central
from coterie.methods.baselines.local import Local
from coterie.methods.baselines.nothing import Nothing
from coterie.methods.clustered.cfl import CFL
from coterie.methods.clustered.data_interpolation import DataInterpolation
from coterie.methods.clustered.ifca import IFCA
from coterie.methods.linear.partial import Partial
from coterie.methods.linear.pooled import Pooled
from coterie.methods.linear.recalibrated import Recalibrated
from coterie.methods.one_shot.bayes import BayesCentral, BayesLocal
from coterie.methods.one_shot.ensembles import BayAvg, OneShotFedAvg, OneShotWFedAvg, WBayAvg
from coterie.methods.one_shot.fl_swag import FLSWAG
from coterie.methods.peers.d_psgd import DPSGD
from coterie.methods.peers.dac import DAC
from coterie.methods.peers.epsilon_greedy import EpsilonGreedy
from coterie.methods.peers.gossip import Gossip
from coterie.methods.peers.greedy import Greedy
from coterie.methods.peers.oracle import Oracle
from coterie.methods.peers.pens import PENS
from coterie.methods.peers.random import Random
from coterie.methods.peers.random_weighted import RandomWeighted
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
from coterie.methods.ranking.influence import Influence
from coterie.methods.ranking.ndoye import Ndoye
from coterie.methods.ranking.similar import Similar
from coterie.methods.server.cyclic import Cyclic
from coterie.methods.server.fedavg import FedAvg
from coterie.methods.server.fedopt import FedAdagrad, FedAdam, FedAvgM, FedYogi
from coterie.methods.server.fedprox import FedProx
from coterie.methods.server.finetune import FineTune
from coterie.methods.server.guided import FedKG, FedUnique, Guided
from coterie.methods.server.robust import Robust
from coterie.methods.server.robust_personal import RobustPersonal
from coterie.methods.server.scaffold import Scaffold
from coterie.methods.server.weight_erosion import WeightErosion

__all__ = [
    "APFL",
    "CFL",
    "DAC",
    "DPSGD",
    "FLSWAG",
    "IFCA",
    "METHODS",
    "PENS",
    "Advised",
    "BayAvg",
    "BayesCentral",
    "BayesLocal",
    "Central",
    "Cyclic",
    "DataInterpolation",
    "Ditto",
    "EpsilonGreedy",
    "FedALA",
    "FedAMP",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedFomo",
    "FedKG",
    "FedPer",
    "FedProx",
    "FedRep",
    "FedUnique",
    "FedYogi",
    "FineTune",
    "Gossip",
    "Greedy",
    "Guided",
    "Influence",
    "Local",
    "Ndoye",
    "Nothing",
    "OneShotFedAvg",
    "OneShotWFedAvg",
    "Oracle",
    "PFedGraph",
    "PFedMe",
    "Partial",
    "PerFedAvg",
    "Pooled",
    "Random",
    "RandomWeighted",
    "Recalibrated",
    "Robust",
    "RobustPersonal",
    "Scaffold",
    "Similar",
    "WBayAvg",
    "WeightErosion",
    "partners_of",
    "ranks_by",
]
