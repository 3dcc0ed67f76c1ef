"""Ranking before training: whom is it worth learning with? Methods that fill the collaboration matrix."""

from coterie.methods.ranking.influence import Influence
from coterie.methods.ranking.ndoye import Ndoye
from coterie.methods.ranking.similar import Similar

# what `coterie rank` takes: by which matrix each ranks, and whether a high value is a good one
RANKINGS = {
    "ndoye": ("transfer loss", False),
    "influence": ("influence", True),
    "similar": ("dissimilarity", False),
}

__all__ = ["RANKINGS", "Influence", "Ndoye", "Similar"]
