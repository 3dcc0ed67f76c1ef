"""From runs to standings: figures by method and setting, who is best or tied with it, gains, and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from coterie.metrics.ranks import Friedman, friedman, ranked
from coterie.metrics.summary import Interval, interval
from coterie.papers.benchmark.settings import SETTINGS
from coterie.papers.benchmark.ways import WAYS


class Cell(NamedTuple):
    """A method's figure in a setting; `best` if no other has a better mean, `tied` if the best one's paired
    difference to it cannot be told from none.
    """

    found: Interval
    best: bool = False
    tied: bool = False


def by_seed(frame: pd.DataFrame, setting: str, figure: str) -> pd.DataFrame:
    """Figures [seed, method] of a setting, methods in the order of the study."""
    mine = frame[frame["setting"] == setting].pivot(index="seed", columns="method", values=figure)
    return mine[[way for way in WAYS if way in mine.columns]]


def ranking(columns: Sequence[str]) -> list[str]:
    """Those that take part in ranks: yardsticks stand beside them."""
    return [way for way in columns if not WAYS[way].yardstick]


def cells(frame: pd.DataFrame, setting: str, figure: str, higher: bool = True) -> dict[str, Cell]:
    """Each method's figure in a setting, with the best and its ties marked among those that are ranked."""
    table, overlap = by_seed(frame, setting, figure), SETTINGS[setting].overlap
    means = table.mean()[ranking(table.columns)]
    if table.empty or means.isna().all():
        return {}
    best = str(means.idxmax() if higher else means.idxmin())
    made = {}
    for way in table.columns:
        apart = interval((table[way] - table[best]).to_numpy(), overlap=overlap)
        tied = way in means.index and way != best and apart.side == 0
        made[way] = Cell(interval(table[way].to_numpy(), overlap=overlap), way == best, tied)
    return made


def gains(frame: pd.DataFrame, over: str, figure: str) -> dict[str, dict[str, Interval]]:
    """{method: {setting: paired difference to another method over seeds}}."""
    made = dict[str, dict[str, Interval]]()
    for setting in settings_in(frame):
        table = by_seed(frame, setting, figure)
        for way in [w for w in table.columns if over in table.columns]:
            apart = (table[way] - table[over]).to_numpy()
            made.setdefault(way, {})[setting] = interval(apart, overlap=SETTINGS[setting].overlap)
    return made


def settings_in(frame: pd.DataFrame) -> list[str]:
    return [name for name in SETTINGS if name in set(frame["setting"])]


class Standing(NamedTuple):
    """Mean ranks over settings, by method, the best first; and what tells them apart."""

    ranks: dict[str, float]
    test: Friedman


def standing(frame: pd.DataFrame, figure: str) -> Standing | None:
    """Of the methods that are in every setting there is; None for fewer than two of either."""
    names = settings_in(frame)
    means = {name: by_seed(frame, name, figure).mean() for name in names}
    everywhere = [w for w in WAYS if not WAYS[w].yardstick and all(w in means[n].index for n in names)]
    if len(names) < 2 or len(everywhere) < 2:
        return None
    ranks = ranked(np.array([means[name][everywhere].to_numpy() for name in names]).round(6))
    test = friedman(ranks)
    order = np.argsort(test.ranks, kind="stable")
    return Standing({everywhere[i]: float(test.ranks[i]) for i in order}, test)
