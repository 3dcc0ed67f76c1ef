"""A ranking as a record has it: who was ranked for whom, by which figures, and who was chosen."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.methods import ranks_by
from coterie.methods.ranking.bar import ABOVE, THERE, error_name
from coterie.metrics import no_model
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


def is_ranking(record: Record) -> bool:
    """Whether a run has ranked yet."""
    found = ranks_by(str(record.config.get("method")))
    return found is not None and bool(record.matrices.get(found[0]))


def ranked(record: Record) -> Ranked:
    """The ranking of a record that has one."""
    method = str(record.config["method"])
    found = ranks_by(method)
    assert found is not None, f"{method} ranks nobody"
    name, high = found
    round, n = max(record.matrices[name]), len(record.clients)
    options = record.config.get(method, {})

    def matrix(which: str) -> np.ndarray:
        found = record.matrices.get(which, {}).get(round)
        return np.full((n, n), math.nan) if found is None else np.asarray(found, dtype=float)

    return Ranked(
        name, high, record.clients, matrix(name), matrix(error_name(name)),
        matrix(ABOVE), matrix(error_name(ABOVE)), matrix(THERE), guesses(record),
        np.asarray(record.weights[round]) > 0,
        bar=str(options.get("bar", "own")) if ABOVE in record.matrices else "none",
        best=int(options.get("best", 0)),
        threshold=float(options.get("threshold", -math.inf if high else math.inf)),
        withdrew=_pairs(t for t in _said(record, round, "withdrawals") if t.get("of") == "circle"),
        kept_out=_pairs(_said(record, round, "kept_out")),
    )  # fmt: skip


def _said(record: Record, round: int, name: str) -> list[Mapping[str, Any]]:
    """What the round that ranked says under a name."""
    extras = next((m.get("extras") or {} for m in record.metrics if m["round"] == round), {})
    return list(extras.get(name, ()))


def _pairs(told: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(str(one["site"]), str(one.get("receiver"))) for one in told}


def guesses(record: Record) -> np.ndarray:
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
