"""Models by name. Importing this package registers all of them in `MODELS`."""

from coterie.models.base import MODELS, Model, count_parameters, seeded
from coterie.models.erosion_cnn import ErosionCnn
from coterie.models.lenet import LeNet5, LeNet5Small
from coterie.models.linear import Linear, Logistic
from coterie.models.mlp import Mlp
from coterie.models.pens_cnn import PensCnn
from coterie.models.resnet import ResNet18

__all__ = [
    "MODELS",
    "ErosionCnn",
    "LeNet5",
    "LeNet5Small",
    "Linear",
    "Logistic",
    "Mlp",
    "Model",
    "PensCnn",
    "ResNet18",
    "count_parameters",
    "seeded",
]
