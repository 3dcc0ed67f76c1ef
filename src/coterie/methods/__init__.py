"""Every method, one paper, one file. Importing this package registers all of them in `METHODS`."""

from coterie.core.method import METHODS, partners_of, ranks_by
from coterie.methods.advised import Advised
from coterie.methods.baselines.central import Central
from coterie.methods.baselines.local import Local
from coterie.methods.baselines.nothing import Nothing
from coterie.methods.clustered import CFL, IFCA, DataInterpolation
from coterie.methods.linear import Partial, Pooled, Recalibrated
from coterie.methods.one_shot import (
    FLSWAG,
    BayAvg,
    BayesCentral,
    BayesLocal,
    OneShotFedAvg,
    OneShotWFedAvg,
    WBayAvg,
)
from coterie.methods.peers import (
    DAC,
    DPSGD,
    PENS,
    EpsilonGreedy,
    Gossip,
    Greedy,
    Oracle,
    Random,
    RandomWeighted,
)
from coterie.methods.personal import (
    APFL,
    Ditto,
    FedALA,
    FedAMP,
    FedFomo,
    FedPer,
    FedRep,
    PerFedAvg,
    PFedGraph,
    PFedMe,
)
from coterie.methods.ranking import Influence, Ndoye, Similar
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
