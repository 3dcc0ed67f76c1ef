"""What a belief does while it visits a client. Importing this package registers all in `KERNELS`."""

from coterie.core.kernel import KERNELS
from coterie.kernels.adam import Adam
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD

__all__ = ["KERNELS", "SGD", "Adam", "Score"]
