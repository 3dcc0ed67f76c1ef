"""The contributions of a run, added up over its rounds: what each client gave to each other.

Free of charge, from the weights that every round writes down (Grimberg, 2020, section 4.4, "Incentives"):

    times[r, j]     rounds in which r's model took in j's reply
    weight[r, j]    the weight that it had in them, summed

With the wrapper `contributions`, for each estimate, values in units of r's mean loss, above 0 for what
lowered it; and what j gave to others, with n_r rows to judge by:

    value[r, j] = Σ_t value_t[r, j]          given[j] = Σ_{r≠j} n_r value[r, j] / Σ_{r≠j} n_r

over rounds t that were valued and receivers r that were judged.

Rounds are drawn independently of each other, so variances add up; degrees of freedom by Satterthwaite, 1946:

    value = Σ_t value_t,   variance = Σ_t variance_t,   freedom = variance² / Σ_t (variance_t² / freedom_t)
    half  = t · √variance + Σ_t hidden_t

t is Student's quantile at `level`, held by all of m figures at once (Bonferroni: 1 - (1 - level) / m), with
degrees of freedom rounded down.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.features.contributions.valuing import FIRST_ORDER
from coterie.features.contributions.wrapper import PART
from coterie.metrics.summary import student

if TYPE_CHECKING:
    import pandas as pd

    from coterie.runs.record import Kept, Record


WEIGHT = "weight"
FREE = ("rounds", WEIGHT)
MANY = 1000  # degrees of freedom beyond which Student's quantile no longer falls by a thousandth


class Sums:
    """Figures [...] added up; each has a factor at which it counts."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.value, self.variance, self.fourth, self.hidden = (np.zeros(shape) for _ in range(4))
        self.seen = np.zeros(shape, dtype=bool)

    def add(
        self,
        at: tuple[np.ndarray, ...],
        value: np.ndarray,
        variance: np.ndarray,
        freedom: np.ndarray,
        hidden: np.ndarray,
        *,
        factor: float = 1.0,
    ) -> None:
        """Further figures, at their places."""
        spread = factor**2 * variance
        np.add.at(self.value, at, factor * value)
        np.add.at(self.variance, at, spread)
        fourth = np.divide(spread**2, freedom, out=np.zeros_like(spread), where=freedom > 0)
        np.add.at(self.fourth, at, fourth)
        np.add.at(self.hidden, at, factor * hidden)
        self.seen[at] = True

    def half(self, level: float, beside: int = 0) -> np.ndarray:
        """Half the width of the intervals, all of which hold at once at this level, and so do as many others
        `beside` them; NaN where nothing is.
        """
        apart = 1 - (1 - level) / max(1, int(self.seen.sum()) + beside)
        most = np.full_like(self.fourth, MANY)
        freedom = np.divide(self.variance**2, self.fourth, out=most, where=self.fourth > 0)
        found = np.full(self.value.shape, math.nan)
        for place in zip(*np.nonzero(self.seen), strict=True):
            t = student(max(1, min(MANY, int(freedom[place]))), apart)
            found[place] = t * math.sqrt(self.variance[place]) + self.hidden[place]
        return found

    def known(self) -> np.ndarray:
        """The values; NaN where nothing is."""
        return np.where(self.seen, self.value, math.nan)


@dataclass(frozen=True, eq=False)
class _Summed:
    """One estimate: [receiver, sender] and [sender], NaN where nothing was valued.

    value, half     what the one gave to the other, and half the width of its interval (0 for what is exact)
    given, around   what each gave to all others, and half the width of that
    rows            by which it was judged: validation or train
    rounds          in which anything was valued
    looks, sent, bytes, seconds   what it took: models scored or gradients taken at sites, models that passed
                    for it, and time
    said            counts: orders that were drawn (walks) and cut, sums that were skipped
    """

    value: np.ndarray
    half: np.ndarray
    given: np.ndarray
    around: np.ndarray
    rows: str
    rounds: int
    looks: int
    sent: int
    bytes: int
    seconds: float
    said: Mapping[str, int]


class _Kind(NamedTuple):
    """Pairs [receiver, sender] and half widths; given to others [sender] and half widths."""

    value: np.ndarray
    half: np.ndarray
    given: np.ndarray
    around: np.ndarray


class _Agreement(NamedTuple):
    """How far two estimates agree: rank correlation (Spearman) of what was given to others and of all pairs
    of two clients, and the largest difference of a pair; NaN for a difference of unlike units.
    """

    one: str
    other: str
    given: float
    pairs: float
    difference: float


@dataclass(frozen=True, eq=False)
class Contributed:
    """What a run says of contributions; `estimates` is empty without the wrapper.

    unvalued   why sums, or estimates of them, have no value, and how often
    """

    clients: list[str]
    rounds: int
    times: np.ndarray
    participation: np.ndarray
    weight: np.ndarray
    estimates: Mapping[str, _Summed]
    level: float
    unvalued: Mapping[str, int]
    asked: bool

    def kinds(self) -> dict[str, _Kind]:
        """By name, estimates first, and what was free to know; that is exact."""
        told = {name: _Kind(s.value, s.half, s.given, s.around) for name, s in self.estimates.items()}
        none, flat = np.zeros_like(self.weight), np.zeros(len(self.clients))
        told["rounds"] = _Kind(self.times, none, self.participation, flat)
        told[WEIGHT] = _Kind(self.weight, none, np.nansum(without_own(self.weight), axis=0), flat)
        return told

    def agreement(self) -> list[_Agreement]:
        """Of every two of the estimates and the summed weight."""
        kinds, made = self.kinds(), []
        for one, other in combinations([WEIGHT, *self.estimates], 2):
            pairs, others_pairs = (without_own(kinds[name].value) for name in (one, other))
            alike = spearman(kinds[one].given, kinds[other].given), spearman(pairs, others_pairs)
            apart = np.abs(pairs - others_pairs)  # of pairs that both have
            most = float(np.nanmax(apart)) if np.isfinite(apart).any() else math.nan
            made.append(_Agreement(one, other, *alike, math.nan if WEIGHT in (one, other) else most))
        return made

    def frame(self) -> pd.DataFrame:
        """A row for each pair and kind: by (rounds, weight or an estimate), receiver, sender, value, half (of
        the interval; 0 for what is exact). NaN pairs are left out.
        """
        import pandas as pd

        kinds = self.kinds()
        rows = [
            (by, self.clients[r], self.clients[j], float(kinds[by].value[r, j]), float(kinds[by].half[r, j]))
            for by in (*FREE, *self.estimates)
            for r, j in np.argwhere(~np.isnan(kinds[by].value))
        ]
        return pd.DataFrame(rows, columns=["by", "receiver", "sender", "value", "half"])


def _contributed(record: Record) -> Contributed:
    """All that a run, over or not, says of contributions."""
    n = len(record.clients)
    times, weight, participation = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
    for weights in record.weights.values():
        heard = np.asarray(weights) > 0
        times += heard
        weight += np.asarray(weights, dtype=np.float64)
        participation += (heard & ~np.eye(n, dtype=bool)).any(axis=0)
    lines = [m["extras"]["contributions"] for m in record.metrics if "contributions" in m["extras"]]
    unvalued = sum((Counter(line["unvalued"]) for line in lines), Counter[str]())
    names = dict.fromkeys(name for line in lines for name in line["by"])
    estimates = {name: _summed(record, name, lines) for name in names}
    level, rounds = float(lines[-1]["level"]) if lines else math.nan, len(record.weights)
    counts = (rounds, times, participation, weight)
    return Contributed(record.clients, *counts, estimates, level, dict(unvalued), bool(lines))


def _summed(record: Record, name: str, lines: list[dict[str, Any]]) -> _Summed:
    """One estimate over all rounds."""
    n, mine = len(record.clients), [line for line in lines if name in line["by"]]
    rows = "train" if name == FIRST_ORDER else str(mine[0]["rows"])
    sizes = np.array([c[rows] for c in record.about["clients"]], dtype=np.float64)
    pairs, given, said = Sums((n, n)), Sums((n,)), Counter[str]()
    for game in (game for line in mine for game in line["by"][name]["games"]):
        receivers, senders = (np.array(game[k], dtype=int) for k in ("receivers", "senders"))
        found = _figures(game, (len(receivers), len(senders)))
        pairs.add(np.ix_(receivers, senders), *found)
        said.update(game.get("said", {}))
        if "given" in game:
            given.add((senders,), *_figures(game["given"], (len(senders),)))
            continue
        for i, r in enumerate(receivers):
            others = senders != r
            given.add((senders[others],), *(kind[i][others] for kind in found), factor=sizes[r])
    judged = pairs.seen.any(axis=1)
    others = np.array([sizes[judged & (np.arange(n) != j)].sum() for j in range(n)])
    level, price = float(mine[-1]["level"]), [line["by"][name] for line in mine]
    with np.errstate(divide="ignore", invalid="ignore"):  # nobody else was judged
        to_others, around = given.known() / others, given.half(level, int(pairs.seen.sum())) / others
    half = pairs.half(level, int(given.seen.sum()))
    looks, sent, passed = (sum(p[what] for p in price) for what in ("looks", "sent", "bytes"))
    seconds = sum(t.get("parts", {}).get(PART + name, 0.0) for t in record.timings)
    figures = (pairs.known(), half, to_others, around)
    return _Summed(*figures, rows, len(mine), looks, sent, passed, seconds, dict(said))


def _figures(game: Mapping[str, Any], shape: tuple[int, ...]) -> list[np.ndarray]:
    """Value, variance, freedom, hidden; 0 where a game says nothing of it."""
    kinds = ("value", "variance", "freedom", "hidden")
    return [np.array(game[k], dtype=np.float64) if k in game else np.zeros(shape) for k in kinds]


def without_own(values: np.ndarray) -> np.ndarray:
    """NaN for what a client gave to itself."""
    return np.where(np.eye(len(values), dtype=bool), math.nan, values)


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of ranks, of what both have; equals share the mean of their ranks. NaN for fewer than
    three, or where one has equals alone.
    """
    both = np.isfinite(one) & np.isfinite(other)
    if both.sum() < 3:
        return math.nan
    a, b = (ranks(values[both]) for values in (one, other))
    a, b = a - a.mean(), b - b.mean()
    length = math.sqrt(float((a @ a) * (b @ b)))
    return float(a @ b) / length if length else math.nan


def ranks(values: np.ndarray) -> np.ndarray:
    _, place, many = np.unique(values, return_inverse=True, return_counts=True)
    found: np.ndarray = (np.cumsum(many) - (many - 1) / 2)[place]
    return found


KEPT: Mapping[str, Kept] = {}
VIEWS = {"contributions": _contributed}
