"""How much each participant gave: ways to value the players of a game. Importing this package registers all
of them in `ESTIMATES`.
"""

from coterie.contributions.exact import ExactShapley
from coterie.contributions.game import ESTIMATES, Estimate, Game
from coterie.contributions.gtg import GTG
from coterie.contributions.leave_one_out import LeaveOneOut
from coterie.contributions.permutations import Shapley

__all__ = ["ESTIMATES", "GTG", "Estimate", "ExactShapley", "Game", "LeaveOneOut", "Shapley"]
