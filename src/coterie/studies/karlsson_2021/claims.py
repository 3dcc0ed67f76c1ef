"""What the thesis says of its figures, and what it claims, checked on ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.studies.base import printed
from coterie.studies.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.studies.karlsson_2021 import EPSILONS, INITS

LABELS = {
    "central-half": "central, one cluster",
    "central-all": "central, both clusters",
    "oracle": "Oracle",
    "pens": "PENS",
    "epsilon-greedy-0.5": "epsilon-greedy (0.5, 1)",
    "epsilon-greedy-1-0.99": "epsilon-greedy (1, 0.99)",
    "epsilon-greedy-0.2": "epsilon-greedy (0.2, 1)",
    "greedy": "greedy",
    "random-weighted": "random-weighted",
    "random": "random",
    "local": "local",
}
GREEDY = ("greedy", *EPSILONS)
MOST = 1000
NEAR = 3.0  # points: PENS is "almost as" good as Oracle

# figures of the thesis: accuracies and half widths of 95 % intervals in %, models sent and received
TABLE_41 = {"local": "24.6 ± 0.1", "random": "46.0 ± 3.9", "central-half": "69.3 ± 1.0"}
TABLE_42 = printed("""
                       independent  independent, models  common      common, models
central-half           65.1 ± 0.9   0 ± 0         65.1 ± 0.9  0 ± 0
central-all            62.5 ± 0.3   0 ± 0         62.5 ± 0.3  0 ± 0
oracle                 43.7 ± 1.8   6560 ± 430    50.0 ± 1.1  5980 ± 320
pens                   42.9 ± 1.0   16130 ± 510   47.7 ± 2.0  15310 ± 190
epsilon-greedy-0.5     40.8 ± 2.9   7190 ± 430    42.1 ± 1.8  5490 ± 500
epsilon-greedy-1-0.99  39.5 ± 2.5   6950 ± 550    42.8 ± 0.9  5540 ± 530
epsilon-greedy-0.2     39.2 ± 1.9   6820 ± 690    41.1 ± 2.2  5160 ± 450
greedy                 38.2 ± 1.7   6630 ± 720    40.8 ± 0.7  4940 ± 200
random-weighted        38.2 ± 4.5   6630 ± 960    45.4 ± 1.1  5910 ± 80
random                 37.4 ± 1.8   6410 ± 720    44.1 ± 1.6  5650 ± 240
local                  24.5 ± 0.1   0 ± 0         24.7 ± 0.7  0 ± 0
""")
TABLE_43 = printed("""
                  precision  recall
independent-50    100.0      80.8
independent-200   97.8       71.2
independent-1000  82.2       80.6
common-50         100.0      67.6
common-200        99.7       67.4
common-1000       82.2       80.2
""")


@dataclass(frozen=True, eq=False)
class Run:
    """accuracy by scored round, over clients; models sent and received by the average client until then.

    precision and recall of PENS's neighbours after step 1; collected [receiver, sender], in how many rounds.
    """

    accuracy: Mapping[int, float]
    cost: float
    finished: bool
    precision: float | None
    recall: float | None
    collected: np.ndarray | None
    origin: Mapping[str, Any]

    @property
    def last(self) -> int:
        return max(self.accuracy)


Seeds = Mapping[int, Run]
Cells = Mapping[str, Seeds]  # by cell and seed


def gain(cells: Cells, cell: str, over: str) -> list[float]:
    """Points by which a cell's accuracy is above another's, seed by seed, in the same round."""
    found = []
    for seed, a in cells.get(cell, {}).items():
        b = cells.get(over, {}).get(seed)
        if b is None:
            continue
        if a.finished and b.finished:
            found.append(100 * (a.accuracy[a.last] - b.accuracy[b.last]))
        elif both := [r for r in a.accuracy if r in b.accuracy and r > 0]:
            found.append(100 * (a.accuracy[max(both)] - b.accuracy[max(both)]))
    return found


def settings_of(cells: Cells) -> list[str]:
    """The groups with two clusters that have any run, in the paper's order."""
    named = dict.fromkeys(cell.partition("/")[0] for cell in cells)
    return [group for group in named if group.partition("-")[0] in INITS]


def main_of(cells: Cells, init: str) -> str:
    """The group of that initialisation that has all methods."""
    return next(
        (c.partition("/")[0] for c in cells if c.startswith(f"{init}-") and c.endswith("/greedy")), ""
    )


def _above(cells: Cells, pairs: Mapping[str, tuple[str, str]]) -> Verdict:
    """The first of each pair of cells is above the second, where both were run."""
    gains = {name: gain(cells, *pair) for name, pair in pairs.items()}
    return every({name: above_zero(v) for name, v in gains.items() if v})


def _in_each(cells: Cells, method: str, other: str, most: bool = False) -> dict[str, tuple[str, str]]:
    """Two methods' cells by group: those with as many clients as the thesis' largest setting, where it finds
    that PENS fails, or all others.
    """
    groups = [group for group in settings_of(cells) if group.endswith(f"-{MOST}") == most]
    return {group: (f"{group}/{method}", f"{group}/{other}") for group in groups}


def pens_above_random(cells: Cells) -> Verdict:
    return _above(cells, _in_each(cells, "pens", "random"))


def not_with_most(cells: Cells) -> Verdict:
    return _above(cells, _in_each(cells, "random", "pens", most=True))


def pens_near_oracle(cells: Cells) -> Verdict:
    gains = {group: gain(cells, *pair) for group, pair in _in_each(cells, "pens", "oracle").items()}
    return every({group: near_zero(v, NEAR) for group, v in gains.items() if v})


def _common_above_independent(cells: Cells) -> Verdict:
    pairs = {}
    for n in [g.partition("-")[2] for g in settings_of(cells) if g.startswith("common-")]:
        for method in ("pens", "random", "oracle"):
            pairs[f"{method}, {n}"] = f"common-{n}/{method}", f"independent-{n}/{method}"
    return _above(cells, pairs)


def precise(cells: Cells) -> Verdict:
    parts = {}
    for group in settings_of(cells):
        runs = cells.get(f"{group}/pens", {}).values()
        known = [(r.precision, r.recall) for r in runs if r.precision is not None and r.recall is not None]
        if known:
            parts[group] = above_zero([100 * (precision - recall) for precision, recall in known])
    return every(parts)


def _precision_falls(cells: Cells) -> Verdict:
    parts = {}
    for init in INITS:
        numbers = sorted(int(g.partition("-")[2]) for g in settings_of(cells) if g.startswith(init))
        if len(numbers) < 2:
            continue
        few, many = (
            {s: r.precision for s, r in cells.get(f"{init}-{n}/pens", {}).items() if r.precision is not None}
            for n in (numbers[0], numbers[-1])
        )
        if gaps := [100 * (few[s] - many[s]) for s in few if s in many]:
            parts[f"{init}, {numbers[0]} – {numbers[-1]}"] = above_zero(gaps)
    return every(parts)


def _choosing_helps(cells: Cells) -> Verdict:
    group = main_of(cells, "independent")
    methods = ("pens", "random-weighted", *GREEDY)
    return _above(cells, {LABELS[m]: (f"{group}/{m}", f"{group}/random") for m in methods})


def _greed_hurts(cells: Cells) -> Verdict:
    group = main_of(cells, "common")
    return _above(cells, {LABELS[m]: (f"{group}/random", f"{group}/{m}") for m in GREEDY})


def _federation_works(cells: Cells) -> Verdict:
    group = next((c.partition("/")[0] for c in cells if c.startswith("iid-")), "")
    pairs = {
        "random – local": (f"{group}/random", f"{group}/local"),
        "central – random": (f"{group}/central-half", f"{group}/random"),
    }
    return _above(cells, pairs)


def _pens_costs_more(cells: Cells) -> Verdict:
    parts = {}
    for group in settings_of(cells):
        a, b = cells.get(f"{group}/pens", {}), cells.get(f"{group}/random", {})
        ratios = [a[s].cost / b[s].cost for s in a if s in b and a[s].finished and b[s].finished]
        if ratios:
            found = above_zero([r - 1 for r in ratios])
            parts[group] = Verdict(found.word, f"{np.mean(ratios):.1f} times")
    return every(parts)


CLAIMS: list[Claim[Cells]] = [
    Claim(f"PENS is above random (with fewer than {MOST:,} clients)", "4.3, figure 4.3", pens_above_random),
    Claim(f"PENS is below random with {MOST:,} clients", "4.3, figure 4.3", not_with_most),
    Claim(f"PENS is near Oracle, within {NEAR:g} points (fewer than {MOST:,})", "4.2, 4.3", pens_near_oracle),
    Claim("common above independent initialisation", "4.2, figure 4.3", _common_above_independent),
    Claim("PENS's neighbours: precision is above recall", "Table 4.3", precise),
    Claim("their precision falls with the number of clients", "Table 4.3", _precision_falls),
    Claim("independent initialisation: all that choose are above random", "4.2", _choosing_helps),
    Claim("common initialisation: greedy methods are below random", "4.2", _greed_hurts),
    Claim("PENS moves more models than random", "Table 4.2", _pens_costs_more),
    Claim("IID data: central is above random, and random above local", "Table 4.1", _federation_works),
]
