"""A model in use: what a client's own model says of new rows, from its run or from a folder without it."""

from coterie.use.bundle import load, save
from coterie.use.cut import Cut, read_cut, write_cut
from coterie.use.from_run import predictor_of, predictor_of_run
from coterie.use.predictor import Predictor

__all__ = [
    "Cut",
    "Predictor",
    "load",
    "predictor_of",
    "predictor_of_run",
    "read_cut",
    "save",
    "write_cut",
]
