"""One model for each kind of client, and kinds that nobody knows before."""

from coterie.methods.clustered.cfl import CFL
from coterie.methods.clustered.data_interpolation import DataInterpolation
from coterie.methods.clustered.ifca import IFCA

__all__ = ["CFL", "IFCA", "DataInterpolation"]
