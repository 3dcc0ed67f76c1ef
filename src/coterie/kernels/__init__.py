"""What a belief does while it visits a client. Importing this package registers all of it in `KERNELS`."""

from coterie.core.kernel import KERNELS, WORK, kernel_of, kernel_to_dict
from coterie.kernels.adam import Adam, AdamW
from coterie.kernels.ala import ALA
from coterie.kernels.bayes import Gather
from coterie.kernels.bounded import Bounded
from coterie.kernels.calibrate import Calibrate, Tallied
from coterie.kernels.choice import Choice
from coterie.kernels.constant import Constant
from coterie.kernels.controlled import Controlled
from coterie.kernels.curvature import ColumnSums, Curvature, Near
from coterie.kernels.downhill import Downhill
from coterie.kernels.dp import DP
from coterie.kernels.fold import Fold, HeldOut
from coterie.kernels.hmc import HMC
from coterie.kernels.leaning import Leaning
from coterie.kernels.meta import Meta
from coterie.kernels.mixture import Mixture
from coterie.kernels.moreau import Moreau
from coterie.kernels.newton import Newton
from coterie.kernels.noisy import Noisy
from coterie.kernels.only import Only
from coterie.kernels.posterior import Draws, Natural, Share, Visited
from coterie.kernels.proximal import Proximal, Tethered
from coterie.kernels.psgld import PSGLD
from coterie.kernels.recalibrate import Recalibrate
from coterie.kernels.refresh import Refresh
from coterie.kernels.relative import Relative
from coterie.kernels.ridge import Ridge
from coterie.kernels.score import Crowd, Here, Score
from coterie.kernels.sgd import SGD
from coterie.kernels.sgld import SGLD
from coterie.kernels.sketches import Moments, Quantiles
from coterie.kernels.slopes import Slopes
from coterie.kernels.swag import SWAG
from coterie.kernels.taken import Taken

__all__ = [
    "ALA",
    "DP",
    "HMC",
    "KERNELS",
    "PSGLD",
    "SGD",
    "SGLD",
    "SWAG",
    "WORK",
    "Adam",
    "AdamW",
    "Bounded",
    "Calibrate",
    "Choice",
    "ColumnSums",
    "Constant",
    "Controlled",
    "Crowd",
    "Curvature",
    "Downhill",
    "Draws",
    "Fold",
    "Gather",
    "HeldOut",
    "Here",
    "Leaning",
    "Meta",
    "Mixture",
    "Moments",
    "Moreau",
    "Natural",
    "Near",
    "Newton",
    "Noisy",
    "Only",
    "Proximal",
    "Quantiles",
    "Recalibrate",
    "Refresh",
    "Relative",
    "Ridge",
    "Score",
    "Share",
    "Slopes",
    "Taken",
    "Tallied",
    "Tethered",
    "Visited",
    "kernel_of",
    "kernel_to_dict",
]
