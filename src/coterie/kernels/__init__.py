"""What a belief does while it visits a client. Importing this package registers all in `KERNELS`."""

from coterie.core.kernel import KERNELS
from coterie.kernels.adam import Adam
from coterie.kernels.bayes import Gather
from coterie.kernels.hmc import HMC
from coterie.kernels.psgld import PSGLD
from coterie.kernels.refresh import Refresh
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.kernels.sgld import SGLD
from coterie.kernels.swag import SWAG

__all__ = ["HMC", "KERNELS", "PSGLD", "SGD", "SGLD", "SWAG", "Adam", "Gather", "Refresh", "Score"]
