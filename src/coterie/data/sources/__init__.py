"""Real data, by name: importing this registers every source in `SOURCES`."""

from coterie.data.sources import (
    breast_cancer,
    cifar10,
    cifar100,
    diabetes,
    digits,
    fashion_mnist,
    heart_disease,
    mnist,
    sites,
    table,
    tcga_brca,
    tiny_imagenet,
    titanic,
)
from coterie.data.sources.base import SOURCES, Source

__all__ = [
    "SOURCES",
    "Source",
    "breast_cancer",
    "cifar10",
    "cifar100",
    "diabetes",
    "digits",
    "fashion_mnist",
    "heart_disease",
    "mnist",
    "sites",
    "table",
    "tcga_brca",
    "tiny_imagenet",
    "titanic",
]
