"""Gaussian posteriors: their product, clients that come and go, predictions, files."""

from coterie.posteriors.gaussian import (
    Gaussian,
    covariance,
    densified,
    diagonal,
    from_collected,
    full,
    isotropic,
    log_density,
    low_rank,
    mean,
    product,
    sample,
    variances,
)
from coterie.posteriors.online import Pool, add, joint, pool_of, remove, update
from coterie.posteriors.store import Saved, read, write
from coterie.posteriors.weighing import by_variance

__all__ = [
    "Gaussian",
    "Pool",
    "Saved",
    "add",
    "by_variance",
    "covariance",
    "densified",
    "diagonal",
    "from_collected",
    "full",
    "isotropic",
    "joint",
    "log_density",
    "low_rank",
    "mean",
    "pool_of",
    "product",
    "read",
    "remove",
    "sample",
    "update",
    "variances",
    "write",
]
