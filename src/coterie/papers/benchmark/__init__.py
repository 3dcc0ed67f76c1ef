"""One honest table: personal, clustered, decentralised, Bayesian and classical methods, each tuned alike, on
the same clients. A study of Coterie's own.

    settings.py   the data of eight settings, and how clients, models and rounds are chosen there
    ways.py       the methods, and what is searched for each
    study.py      cells SETTING/METHOD, and what one of them runs
    report.py     the tables;  standings.py: ranks and what they tell apart

How a cell is made, for each seed: rows are dealt, the method's options are searched on training rows alone
by cross-validation (`runs/tune.py`, the same number of trials and folds for every method, the same range of
learning rates), the method is trained once more on all training rows with the best of them, and scored on
test rows that no trial has seen. Where a test set is published, options are searched once, with rows that
are dealt by a seed of its own, and stay for all seeds; where none is, test rows of one seed are training rows
of another, so every seed searches for itself.
"""

from coterie.papers.benchmark.study import PAPER

__all__ = ["PAPER"]
