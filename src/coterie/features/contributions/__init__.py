"""How much each participant gave: ways to value the players of a game. Importing this package registers all
of them in `ESTIMATES`.
"""

from coterie.features.contributions.game import ESTIMATES, Estimate, ExactShapley, Game, LeaveOneOut
from coterie.features.contributions.walks import GTG, Shapley

__all__ = ["ESTIMATES", "GTG", "Estimate", "ExactShapley", "Game", "LeaveOneOut", "Shapley"]
