"""Ranking before training: whom is it worth learning with? Methods that fill the collaboration matrix."""

from coterie.methods.ranking.influence import Influence
from coterie.methods.ranking.ndoye import Ndoye
from coterie.methods.ranking.similar import Similar

__all__ = ["Influence", "Ndoye", "Similar"]
