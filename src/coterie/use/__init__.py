"""A model in use: what a client's own model says of new rows, from its run or from a folder without it."""

from coterie.use.bundle import load, save
from coterie.use.of_run import predictor_of, predictor_of_run
from coterie.use.predictor import Predictor

__all__ = ["Predictor", "load", "predictor_of", "predictor_of_run", "save"]
