"""What the tables mean, in words that follow from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from coterie.metrics.summary import Interval
from coterie.papers.benchmark.standings import Standing, cells, settings_in
from coterie.papers.benchmark.ways import FAMILIES, WAYS

HOW = (
    "Figures are of clients' own models on their own test rows, in %: accuracy, and concordance for the "
    "survival of tcga-brca. Each method's learning rate and at most one option more were searched by "
    "cross-validation on training rows, as often for one as for another; no test row was seen before the "
    "last run. *Central* has all rows in one place, and stands beside the ranks. ± is half of the 95 % "
    "interval over seeds: in the first four settings over splits of the same rows, corrected for those they "
    "share, in the others over seeds that share the published test rows."
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
    points = [first_place(means), harmless(over["local"]), one_model(frame), families(means)]
    return "\n".join(f"- {point}" for point in points if point)


def first_place(means: Standing | None) -> str:
    if means is None:
        return ""
    best = list(means.ranks)[:5]
    listed = ", ".join(f"{way} ({means.ranks[way]:.1f})" for way in best)
    alike = sum(r - means.ranks[best[0]] < means.test.critical for r in means.ranks.values()) - 1
    return (
        f"No method is best everywhere. The best mean ranks of {len(means.ranks)} have {listed}; but eight "
        f"settings tell the first from all but {alike} of the others, not more: a paper that compares two of "
        "these on one data set tells little."
        if means.test.settings == 8
        else f"The best mean ranks of {len(means.ranks)} have {listed}."
    )


def harmless(over: Mapping[str, Mapping[str, Interval]]) -> str:
    """Methods that nowhere lose clearly to training alone, and gain clearly somewhere."""
    safe = {
        way: sum(f.side > 0 for f in found.values())
        for way, found in over.items()
        if way != "local" and not WAYS[way].yardstick and all(f.side >= 0 for f in found.values())
    }
    gaining = {way: n for way, n in sorted(safe.items(), key=lambda e: -e[1]) if n}
    if not gaining:
        return "No method gains clearly on training alone somewhere without losing clearly elsewhere."
    listed = ", ".join(f"{way} (clearly better in {n})" for way, n in gaining.items())
    return f"Nowhere clearly worse than training alone, and better somewhere: {listed}."


def one_model(frame: pd.DataFrame) -> str:
    """Where training alone, one model for all, or neither is good enough."""
    alone, shared = [], []
    for name in settings_in(frame):
        found = cells(frame, name, "mean")
        good = {way for way, cell in found.items() if cell.best or cell.tied}
        alone += [name] if "local" in good else []
        shared += [name] if "fedavg" in good else []
    none = "nowhere"
    return (
        f"Training alone cannot be told from the best in {', '.join(alone) or none}; one average for all "
        f"(fedavg) in {', '.join(shared) or none}. Try these two first: they cost least."
    )


def families(means: Standing | None) -> str:
    if means is None:
        return ""
    by_family = {
        family: np.mean([means.ranks[w] for w in ways if w in means.ranks])
        for family, ways in FAMILIES.items()
        if any(w in means.ranks for w in ways)
    }
    listed = ", ".join(f"{f} {r:.1f}" for f, r in sorted(by_family.items(), key=lambda e: e[1]))
    return f"Mean ranks by family: {listed}."
