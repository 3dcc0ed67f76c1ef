"""A ranking: as a run of one round, in a folder like any other (`rank`), and as its record has it (`ranked`):
who was ranked for whom, by which figures, who was chosen, and why.

Of each pair there is one reason, the first that holds of those in REASONS: it says what speaks against the
pair, or that nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadData
from coterie.core.kernel import Kernel
from coterie.core.net import Replies
from coterie.methods import ranks_by
from coterie.methods.ranking.bar import ABOVE, THERE, error_name
from coterie.metrics import no_model
from coterie.nets import Counting
from coterie.runs.experiment import Experiment
from coterie.runs.folder import Folder
from coterie.runs.loop import run
from coterie.runs.record import Record


@dataclass(frozen=True, eq=False)
class Ranked:
    """What a record has of its ranking: matrices [requester, other], NaN where there is nothing to say.

    value, error      what is ranked by, above 0 for a good one if `high`, and its standard error
    above, spread     by how much the other's model loses more than one's own, and its standard error
    there             what the other's model loses on one's own rows
    guess             [requester] the loss of always saying one's own shares of classes, NaN where unknown
    chosen            who is in whose circle
    withdrew          (who, from whose circle)
    kept_out          the same, of whom people decided to keep out of it
    """

    name: str
    high: bool
    clients: list[str]
    value: np.ndarray
    error: np.ndarray
    above: np.ndarray
    spread: np.ndarray
    there: np.ndarray
    guess: np.ndarray
    chosen: np.ndarray
    bar: str
    best: int
    threshold: float
    withdrew: Collection[tuple[str, str]] = ()
    kept_out: Collection[tuple[str, str]] = ()

    def order(self, r: int) -> list[int]:
        """Those who were ranked for r, the best first."""
        known = np.flatnonzero(np.isfinite(self.value[r]))
        values = self.value[r, known]
        order: list[int] = known[np.argsort(-values if self.high else values, kind="stable")].tolist()
        return order

    @property
    def requesters(self) -> list[int]:
        return np.flatnonzero(np.isfinite(self.value).any(axis=1)).tolist()

    def passes(self, r: int, j: int) -> bool:
        value = self.value[r, j]
        return bool(value > self.threshold if self.high else value < self.threshold)

    def by_chance(self, r: int, j: int) -> bool:
        """Whether it passes by less than a standard error, where there is one."""
        return bool(self.value[r, j] - self.error[r, j] <= self.threshold)

    def clears(self, r: int, j: int) -> bool:
        """Whether the other's model does well enough beside one's own."""
        above, spread = self.above[r, j], self.spread[r, j]
        return self.bar == "none" or bool(above < -spread if self.bar == "better" else above <= spread)

    def too_few(self, r: int, j: int) -> bool:
        return self.bar != "none" and not math.isfinite(self.spread[r, j])

    def open_to(self, r: int) -> list[int]:
        """Who might be chosen for r, the best first."""
        return [
            j
            for j in self.order(r)
            if not self.too_few(r, j) and self.clears(r, j) and self.passes(r, j) and not self.by_chance(r, j)
        ]

    def pair(self, r: int, j: int) -> tuple[str, str]:
        return self.clients[j], self.clients[r]


REASONS: dict[str, Callable[[Ranked, int, int], bool]] = {
    "first": lambda f, r, j: bool(f.chosen[r, j]) and f.bar == "none",
    "helps": lambda f, r, j: bool(f.chosen[r, j]) and math.isfinite(f.error[r, j]),
    "better": lambda f, r, j: bool(f.chosen[r, j]) and f.bar == "better",
    "suits": lambda f, r, j: bool(f.chosen[r, j]),
    "few": Ranked.too_few,
    "guess": lambda f, r, j: not f.clears(r, j) and bool(f.there[r, j] > f.guess[r]),
    "even": lambda f, r, j: not f.clears(r, j) and bool(f.above[r, j] <= f.spread[r, j]),
    "own": lambda f, r, j: not f.clears(r, j),
    "harms": lambda f, r, j: f.high and f.threshold == 0 and not f.passes(r, j),
    "threshold": lambda f, r, j: not f.passes(r, j),
    "chance": Ranked.by_chance,
    "later": lambda f, r, j: f.best > 0 and f.open_to(r).index(j) >= f.best,
    "withdrew": lambda f, r, j: f.pair(r, j) in f.withdrew,
    "kept": lambda f, r, j: f.pair(r, j) in f.kept_out,
    "other": lambda f, r, j: True,
}
"""In the order in which they are asked; what they say is in words.toml, under ranking.reason."""
IN = ("first", "helps", "better", "suits")  # why somebody is in
JUDGED = frozenset(("guess", "even", "own", "harms", "threshold", "chance"))  # not good enough, by figures


def reason(found: Ranked, r: int, j: int) -> str:
    """The name of the first that holds."""
    return next(name for name, holds in REASONS.items() if holds(found, r, j))


def is_ranking(record: Record) -> bool:
    found = ranks_by(record.settings.method)
    return found is not None and bool(record.matrices.get(found[0]))


def ranked(record: Record) -> Ranked:
    method = record.settings.method
    found = ranks_by(method)
    assert found is not None, f"{method} ranks nobody"
    name, high = found
    round, n = max(record.matrices[name]), len(record.clients)
    options = record.config.get(method, {})
    extras = next((m.get("extras") or {} for m in record.metrics if m["round"] == round), {})
    withdrew = [one for one in extras.get("withdrawals", ()) if one.get("of") == "circle"]

    def pairs(entries: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
        return {(str(one["site"]), str(one.get("receiver"))) for one in entries}

    def matrix(which: str) -> np.ndarray:
        found = record.matrices.get(which, {}).get(round)
        return np.full((n, n), math.nan) if found is None else np.asarray(found, dtype=float)

    return Ranked(
        name, high, record.clients, matrix(name), matrix(error_name(name)),
        matrix(ABOVE), matrix(error_name(ABOVE)), matrix(THERE), _guesses(record),
        np.asarray(record.weights[round]) > 0,
        bar=str(options.get("bar", "own")) if ABOVE in record.matrices else "none",
        best=int(options.get("best", 0)),
        threshold=float(options.get("threshold", -math.inf if high else math.inf)),
        withdrew=pairs(withdrew),
        kept_out=pairs(extras.get("kept_out", ())),
    )  # fmt: skip


def _guesses(record: Record) -> np.ndarray:
    """[client] −Σ_c s_c log s_c of the shares s_c of classes among its training rows, where they are public
    and the loss is the usual one.
    """
    clients = record.about["clients"]
    found = np.full(len(clients), math.nan)
    if record.about.get("task", "classification") != "classification" or "loss" in record.config:
        return found
    for i, client in enumerate(clients):
        found[i] = no_model.of_labels("nll", (client.get("labels") or [[]])[0])
    return found


def rank(
    experiment: Experiment,
    path: Path,
    tick: Callable[[], None] = lambda: None,
    check: Callable[[Record], None] | None = None,
) -> Record:
    """Ranks and writes it down; `tick` is called after each training visit. What `check` refuses is not kept:
    by default, a ranking of nobody.
    """
    watched = replace(experiment, net=_Watched(experiment.net.net, tick))
    folder = Folder.create(path, experiment.config, experiment.about)
    try:
        record = run(watched, folder, experiment.settings.method).record
        (check or refuse_empty)(record)
    except BaseException:
        folder.discard()
        raise
    finally:
        watched.net.close()
    folder.close()
    return record


def refuse_empty(record: Record) -> None:
    """A ranking in which nobody is ranked is none."""
    if not any(np.isfinite(m).any() for by_round in record.matrices.values() for m in by_round.values()):
        around = ", ".join(record.settings.wrap) or "nothing"
        raise BadData(
            f"nobody could be ranked: the requester or all others did not answer (around the net: {around}): "
            "lower absent, or take another seed"
        )


@dataclass(frozen=True, eq=False)
class _Watched(Counting):
    """A net that tells of every training visit once it is over."""

    tick: Callable[[], None] = lambda: None

    def visit(self, kernel: Kernel, *told: Any, **more: Any) -> Replies:
        replies = super().visit(kernel, *told, **more)
        if len(replies) and hasattr(kernel, "plan"):
            self.tick()
        return replies
