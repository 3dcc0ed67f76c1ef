"""What a belief does while it visits a client."""

from coterie.kernels.adam import Adam
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD

__all__ = ["SGD", "Adam", "Score"]
