"""From runs to standings, and what they mean in words that follow from them: figures by method and setting,
who is best or tied with it, gains, and ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from coterie.metrics.ranks import Friedman, friedman, ranked
from coterie.metrics.summary import Interval, interval
from coterie.studies.benchmark import FAMILIES, KINDS, SETTINGS, WAYS

HOW = (
    "Figures are of clients' own models on their own test rows, in %: accuracy, and concordance for the "
    "survival of tcga-brca. Each method's learning rate and at most one option more were searched by "
    "cross-validation on training rows, as often for one as for another; no test row was seen before the "
    "last run. *Central* has all rows in one place, and stands beside the ranks. ± is half of the 95 % "
    "interval over seeds: in the first four settings over splits of the same rows, corrected for those they "
    "share, in the others over seeds that share the published test rows."
)
LIMITS = (
    "What the table cannot say. The searches are short, so that a method with a narrow range of good options "
    "loses by them; models, rows and rounds are few. `fedfomo` holds a fifth of its training rows out, which "
    "it needs to try models on. `fedper` and `fedrep` keep the bias alone at home where a model has one "
    "layer. `fl-swag` exchanges once. `advised` chooses among `local`, `fedavg`, `finetune` and `ifca`, and "
    "what its trials cost is not counted. Where many differences are looked at, some leave out 0 by chance."
)
MARKS = (
    "**Bold** is the best mean in its setting, † cannot be told from it: the 95 % interval of the paired "
    "difference over seeds holds 0."
)
AGAINST = (
    "The mean over settings of the difference, and in how many settings the interval of the paired "
    "difference over seeds lies wholly above 0 and wholly below."
)
ECE = (
    "Expected calibration error, the mean over clients, in points (lower is better); a survival has none. "
    "Clients with few test rows have a large one by chance alone, the same for all methods of a setting."
)
COST = (
    "What a run takes for each that `fedavg` takes: the geometric mean over settings. Steps are gradient "
    "steps of all clients, bytes those of models and numbers that moved, seconds those of training in one "
    "process, which is the least certain of the three. The search takes as many runs for all."
)


PICTURES = {
    "ranks": "Mean ranks of methods over settings, the best on the left; Nemenyi's test cannot tell methods "
    "under one bar from each other",
    "gains": "What each method has above training alone in each setting, in points",
}


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


def cells(frame: pd.DataFrame, setting: str, figure: str, higher: bool = True) -> dict[str, Cell]:
    """Each method's figure in a setting, with the best and its ties marked among those that are ranked."""
    table, overlap = by_seed(frame, setting, figure), SETTINGS[setting].overlap
    means = table.mean()[[way for way in table.columns if not WAYS[way].yardstick]]
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


# in words


def ranks_of(means: Standing, low: Standing) -> str:
    """What Friedman's test and Nemenyi's distance say."""
    test = means.test
    best, last = next(iter(means.ranks)), list(means.ranks)[-1]
    alike = [way for way, rank in means.ranks.items() if rank - means.ranks[best] < test.critical]
    apart = len(means.ranks) - len(alike)
    differ = "differ" if test.p < 0.05 else "do not differ"
    said = (
        f"Over {test.settings} settings the ranks of {len(means.ranks)} methods {differ} by more than chance "
        f"(Friedman, Iman and Davenport's F = {test.statistic:.2f}, p = {test.p:.2g}); for the worst client "
        f"p = {low.test.p:.2g}. Two methods are told apart by Nemenyi's test if their mean ranks lie "
        f"{test.critical:.1f} or more apart: from the first, {best}, that tells {apart} of "
        f"{len(means.ranks) - 1} others"
    )
    return f"{said}. The last is {last}."


def taken(
    frame: pd.DataFrame, means: Standing | None, over: Mapping[str, Mapping[str, Mapping[str, Interval]]]
) -> str:
    """What a practitioner should take from the table, each point from the figures themselves."""
    points = [
        _first_place(frame, means),
        *by_kind(over["local"]),
        _simple(frame),
        harmless(over["local"]),
        harmful(over["local"]),
        _families(means),
    ]
    return "\n".join(f"- {point}" for point in points if point)


def _first_place(frame: pd.DataFrame, means: Standing | None) -> str:
    """Who leads, in how many settings, and how little the ranks tell."""
    if means is None:
        return ""
    names = settings_in(frame)
    best = {next(way for way, cell in cells(frame, name, "mean").items() if cell.best) for name in names}
    listed = ", ".join(f"{way} ({rank:.1f})" for way, rank in list(means.ranks.items())[:5])
    first = next(iter(means.ranks.values()))
    alike = sum(rank - first < means.test.critical for rank in means.ranks.values()) - 1
    return (
        f"{len(best)} different methods are the best of the {len(names)} settings. The best mean ranks of "
        f"{len(means.ranks)} have {listed}. So many settings cannot tell the first from {alike} of the "
        f"{len(means.ranks) - 1} others: who compares two of these on one data set learns little of which is "
        "better on the next."
    )


def by_kind(over: Mapping[str, Mapping[str, Interval]]) -> list[str]:
    """By what clients differ in: the three methods that gain most on training alone, and one for all."""
    points = []
    for kind, names in KINDS.items():
        found = {
            way: float(np.mean([by[name].mean for name in names]))
            for way, by in over.items()
            if not WAYS[way].yardstick and all(name in by for name in names)
        }
        first = sorted((way for way in found if way != "local"), key=lambda way: -found[way])[:3]
        points_of = {way: f"{100 * gain:+.1f}".replace("-", "−") for way, gain in found.items()}
        if first and "fedavg" in found:
            listed = ", ".join(f"{way} {points_of[way]}" for way in first)
            points.append(
                f"{kind[0].upper()}{kind[1:]} ({', '.join(names)}): over training alone, in points and in "
                f"the mean of these settings, {listed}; one average for all {points_of['fedavg']}."
            )
    return points


def _simple(frame: pd.DataFrame) -> str:
    """Where the plainest methods cannot be told from the best."""
    where: dict[str, list[str]] = {way: [] for way in ("local", "fedavg", "finetune")}
    for name in settings_in(frame):
        found = cells(frame, name, "mean")
        for way, names in where.items():
            names += [name] if way in found and (found[way].best or found[way].tied) else []
    alone, shared, tuned = (", ".join(names) or "no setting" for names in where.values())
    return (
        f"Training alone cannot be told from the best in {alone}; one average for all (fedavg) in {shared}; "
        f"the two one after the other (finetune) in {tuned}. These three cost least: whoever proposes "
        "another should be above all three of them, tuned alike."
    )


def _times_apart(over: Mapping[str, Mapping[str, Interval]], side: int) -> dict[str, int]:
    """In how many settings each method is clearly better (1), or worse (-1), than training alone."""
    ways = {way: found for way, found in over.items() if not WAYS[way].yardstick}
    return {way: sum(f.side == side for f in found.values()) for way, found in ways.items()}


def _most_first(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{way} ({n})" for way, n in sorted(counts.items(), key=lambda e: -e[1]) if n)


def harmless(over: Mapping[str, Mapping[str, Interval]]) -> str:
    """Methods that nowhere lose clearly to training alone, and gain clearly somewhere."""
    better, worse = _times_apart(over, 1), _times_apart(over, -1)
    listed = _most_first({way: n for way, n in better.items() if way != "local" and not worse[way]})
    if not listed:
        return "No method is clearly better than training alone somewhere and nowhere clearly worse."
    return (
        "Nowhere clearly worse than training alone, and clearly better in as many settings as the bracket "
        f"says: {listed}."
    )


def harmful(over: Mapping[str, Mapping[str, Interval]]) -> str:
    """Methods that are clearly worse than training alone in some settings."""
    listed = _most_first(_times_apart(over, -1))
    return f"Clearly worse than training alone in so many settings: {listed}." if listed else ""


def _families(means: Standing | None) -> str:
    if means is None:
        return ""
    ranks_of_family = {
        family: [means.ranks[w] for w in ways if w in means.ranks] for family, ways in FAMILIES.items()
    }
    by_family = {family: np.mean(ranks) for family, ranks in ranks_of_family.items() if ranks}
    listed = ", ".join(f"{f} {r:.1f}" for f, r in sorted(by_family.items(), key=lambda e: e[1]))
    return f"Mean ranks by family: {listed}."
