"""The lead's side of what sites are shown: which rounds of a record each has, and what it gets next.

What a site gets is its own part (`shown.py`), in the messages by which it signs the run's ledger
(`federation/witness.py`), as {"config", "about", "rounds", "end"}: the first two at the first contact, `end`
when the run is over. It answers up to which round it has them (`seen`), so that one that was away catches up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from coterie.federation.parts import AT_ONCE
from coterie.runs import shown
from coterie.runs.alike import Similarity, apart_of, similarity_of
from coterie.runs.record import Record


class Written(NamedTuple):
    """All that a record has of a round; no weights before the first; `alike` if it says what sketches say."""

    line: Mapping[str, Any]
    timing: Mapping[str, Any]
    weights: np.ndarray | None
    matrices: Mapping[str, np.ndarray]
    passed: np.ndarray
    alike: Similarity | None


class Showing:
    """Of a record that grows, to the clients by number.

    have      the last round that each has, as it said; who is not in there has said nothing yet
    headed    who has the settings
    told      who knows that the run is over
    diverged  how training diverged, if that is why
    waiting   who is still to be shown something on this occasion; anybody may fall back once on each
    """

    def __init__(self, record: Record) -> None:
        self.record, self.over, self.diverged = record, False, ""
        self.have: dict[int, int] = {}
        self.headed: set[int] = set()
        self.told: set[int] = set()
        self.waiting: set[int] = set()
        self.fell: set[int] = set()
        self._rounds: dict[int, Written] = {}

    def begin(self) -> None:
        """There is something new to show, to all."""
        self.waiting, self.fell, self._rounds = set(range(len(self.record.clients))), set(), {}

    def order(self, number: int) -> dict[str, Any] | None:
        """What a site gets next; None for nothing. One that has said nothing yet gets the last round."""
        last = self.record.done
        first = self.have.get(number, last - 1) + 1
        rounds = range(first, min(first + AT_ONCE, last + 1))
        ends = self.over and first + len(rounds) > last and number not in self.told
        if number not in self.waiting or not (rounds or ends):
            return None
        head = {} if number in self.headed else self._head(number)
        told = {**head, "rounds": [self._round(r, number) for r in rounds]}
        return {**told, "end": self._end(number)} if ends else told

    def answered(self, number: int, order: Mapping[str, Any], answer: Any) -> bool:
        """What a site says that it has, after an order; False if that is of no use."""
        last = order["rounds"][-1]["line"]["round"] if order["rounds"] else self.have.get(number, -1)
        first = last + 1 - len(order["rounds"])
        if type(answer) is int and answer == last:
            self.have[number] = last
            self.headed.add(number)
            self.told |= {number} if "end" in order else set()
            return True
        self.headed.discard(number)
        self.have.pop(number, None)
        if number not in self.fell and (answer is None or (type(answer) is int and -1 <= answer < first)):
            self.fell.add(number)
            self.have[number] = -1 if answer is None else answer
            self.headed |= set() if answer is None else {number}  # None: it has lost all of it
            return True
        self.waiting.discard(number)
        return False

    def _head(self, number: int) -> dict[str, Any]:
        record = self.record
        config = shown.config_for(record.config, record.clients[number])
        return {"config": config, "about": shown.about_for(record.about, number)}

    def _round(self, r: int, number: int) -> dict[str, Any]:
        written, record = self._written(r), self.record
        line = shown.part_of(written.line, number, record.clients)
        if written.alike is not None:
            line["extras"]["similar"]["apart"] = apart_of(written.alike, number)
        told = {"line": line, "timing": dict(written.timing)}
        if written.weights is not None:
            told["heard"] = shown.heard_by(
                number, written.weights, written.matrices, written.passed, record.config
            )
        return told

    def _written(self, r: int) -> Written:
        """Read once for all sites."""
        if r not in self._rounds:
            record = self.record
            line = next(m for m in reversed(record.metrics) if m["round"] == r)
            timing = next(
                (t for t in reversed(record.timings) if t["round"] == r), {"round": r, "seconds": 0.0}
            )
            weights, named, passed = None, {}, np.zeros((0, 5), dtype=int)
            if r:
                weights, passed = np.asarray(record.weights[r]), np.asarray(record.passed[r])
                named = {name: by[r] for name, by in record.matrices.items() if r in by}
            alike = similarity_of(record) if "similar" in (line.get("extras") or {}) else None
            self._rounds[r] = Written(line, timing, weights, named, passed, alike)
        return self._rounds[r]

    def _end(self, number: int) -> dict[str, Any]:
        record = self.record
        if self.diverged:
            return {"diverged": self.diverged}
        return {
            "calibration": shown.calibration_for(record.calibration(), number),
            "privacy": shown.privacy_for(record.privacy(), record.clients[number]),
        }
