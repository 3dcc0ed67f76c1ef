"""What one client may see of a run's record: what is about itself, and what is public.

    of others     their names, who was away and why, how much this client listens to each (its row of the
                  weights) and each to it (its column), and what passed between them and it
    of itself     all figures; of further matrices its row; of calibration and of privacy its own

Everything has the form that a run's files have, so that whoever reads a run reads a part of one: lists by
client have null, and counts 0, for others. What a method or a wrapper says beside (a round's `extras`) is in
a part if it is known here how to take one out of it; else it is left out.

The lead sends its part to each (`ViewPublisher`), in the messages by which it signs the run's ledger
(`federation/lead/witness.py`), as {"config", "about", "rounds", "end"}: the first two at the first contact,
`end` when the run is over. It answers up to which round it has them (`seen`), so that one that was away
catches up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.methods.ranking.similar import COST
from coterie.methods.ranking.sketched import SIZE
from coterie.methods.server.guided import LAYERS
from coterie.metrics.calibration import Calibration
from coterie.nets.ground import read_wrap
from coterie.nets.in_process import LEFT_OUT
from coterie.runs.record import Record
from coterie.storage.chain import finite

_COUNTS = ("sent", "received", "sent_bytes", "received_bytes", "numbers", "rows")
ABOUT = (
    *("coterie", "versions", "commit", "task", "classes", "positive", "features", "inputs", "columns"),
    *("published_tests", "parameters", "belief_bytes"),
)
_OF_THE_LEAD = ("engine", "device", "memory", "plugins", "features")  # settings that are of its machine
_PRIVACY = ("delta", "grid", "budget", "outside", "scores", "noise")
_LIMIT = "a limit of its own"  # why another withdrew: which is its own affair


# settings, and what a run is about


def config_for(config: Mapping[str, Any], me: str) -> dict[str, Any]:
    """The settings without what is of the lead's machine, paths above all, and without what others chose."""
    out = {*_OF_THE_LEAD, str(config.get("engine"))}
    kept = {name: value for name, value in config.items() if name not in out}
    if "wrap" in kept:
        # those of the whole run; a circle, where it is this client's or was left by it
        wraps = {spec: read_wrap(spec) for spec in kept["wrap"]}
        whose = {spec: (options.get("of"), options.get("without")) for spec, (_, options) in wraps.items()}
        kept["wrap"] = [spec for spec in kept["wrap"] if wraps[spec][0] != "circle" or me in whose[spec]]
    hidden = {("federation", "kit"), ("advised", "choice")}
    for part, options in kept.items():
        if isinstance(options, Mapping):
            kept[part] = {
                name: value
                for name, value in options.items()
                if (part, name) not in hidden and not (isinstance(value, str) and re.search(r"[/\\]", value))
            }
    return kept


def about_for(about: Mapping[str, Any], number: int) -> dict[str, Any]:
    """All names; sizes, labels and notes of this client alone. Notes on the whole run may tell of others."""
    unknown = {"train": 0, "validation": 0, "test": 0, "labels": None, "cluster": None}
    clients = [
        dict(client) if i == number else {"name": client["name"], **unknown, "notes": []}
        for i, client in enumerate(about["clients"])
    ]
    name, small = clients[number]["name"], about.get("small") or {}
    return {
        **{key: about[key] for key in ABOUT if key in about},
        "command": None,
        "clients": clients,
        "notes": [],
        "small": {name: small[name]} if name in small else {},
    }


# a round


def line_for(line: Mapping[str, Any], number: int, names: Sequence[str]) -> dict[str, Any]:
    """A line of metrics.jsonl, see `line` in `record.py`. What all sites together spent is not in it."""
    me = names[number]
    scores, counts = line["scores"], {key: _own(line[key], number, 0) for key in _COUNTS if key in line}
    extras = {
        name: part
        for name, value in (line.get("extras") or {}).items()
        if name in _EXTRAS and (part := _EXTRAS[name](value, number, me)) not in (None, {}, [])
    }
    return {
        "round": line["round"],
        "scores": None if scores is None else {which: _own_each(f, number) for which, f in scores.items()},
        "train_loss": _own(line["train_loss"], number),
        "transfers": {
            "models": line["sent"][number] + line["received"][number],
            "bytes": line["sent_bytes"][number] + line["received_bytes"][number],
        },
        **counts,
        "extras": extras,
        "measures": _own_each(line.get("measures") or {}, number),
        **{key: line[key] for key in ("away", "ended") if key in line},
    }


def _own(values: Sequence[Any], number: int, empty: Any = None) -> list[Any]:
    """[client], with nothing for others."""
    return [value if i == number else empty for i, value in enumerate(values)]


def _own_each(figures: Mapping[str, Sequence[Any]], number: int) -> dict[str, list[Any]]:
    return {name: _own(values, number) for name, values in figures.items()}


def heard_by(
    number: int,
    weights: np.ndarray,
    matrices: Mapping[str, np.ndarray],
    passed: np.ndarray,
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """A line of collaboration.jsonl as numbers: the client's row and column of the weights, its rows of
    further matrices but those that tell how many rows others have, and what passed with it at an end.
    """
    hidden = {SIZE}
    if config.get("similar", {}).get("by") == "size":
        hidden.add(COST)
    mine = (passed[:, 0] == number) | (passed[:, 1] == number)
    return {
        "row": weights[number].tolist(),
        "column": weights[:, number].tolist(),
        "named": {name: finite(m[number].tolist()) for name, m in matrices.items() if name not in hidden},
        "passed": passed[mine].tolist(),
    }


# what methods and wrappers say beside


def _by_name(told: Mapping[str, Any], number: int, me: str) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name == me}


def _among(told: Any, number: int, me: str) -> list[str]:
    """A list of those of whom something is true."""
    return [name for name in told if name == me] if isinstance(told, list) else []


def _withdrawals(told: Sequence[Mapping[str, Any]], number: int, me: str) -> list[Mapping[str, Any]]:
    """Its own, and others' from what is made for it."""
    found = list[Mapping[str, Any]]()
    for one in told:
        if one["site"] == me:
            found.append(one)
        elif one.get("receiver") == me:
            found.append({**{k: one[k] for k in ("site", "receiver", "of") if k in one}, "why": _LIMIT})
    return found


def _similar(told: Mapping[str, Any], number: int, me: str) -> dict[str, Any]:
    """Sketches: quantiles of its own columns alone (`ViewPublisher` adds how far others' lie)."""
    part = {key: told[key] for key in ("columns", "epsilon", "delta", "sigma") if key in told}
    if "quantiles" in told:
        part["quantiles"] = _by_name(told["quantiles"], number, me)
    if "drowned" in told:
        part["drowned"] = {measure: _among(names, number, me) for measure, names in told["drowned"].items()}
    return part


def _contributions(told: Mapping[str, Any], number: int, me: str) -> dict[str, Any]:
    """What others gave to it, as its own rows say: of each game, its row."""
    by = {}
    for name, found in told["by"].items():
        games = []
        for game in (g for g in found["games"] if number in g["receivers"]):
            at = game["receivers"].index(number)
            figures = {k: [game[k][at]] for k in ("value", "variance", "freedom", "hidden") if k in game}
            said = {"said": game["said"]} if "said" in game else {}
            games.append({"receivers": [number], "senders": game["senders"], **figures, **said})
        by[name] = {**found, "games": games}
    return {**{key: told[key] for key in ("level", "rows", "unvalued")}, "by": by}


def _rule(told: Mapping[str, Any], number: int, me: str) -> dict[str, Any]:
    """Of a robust rule at the server and at this client."""
    return {
        key: {name: value for name, value in some.items() if name in (me, "server")}
        for key, some in told.items()
        if isinstance(some, Mapping)
    }


_PUBLIC = ("held_out", "note", "published", "ranked_pairs", "sealed", "sigma", "step")
_EXTRAS: dict[str, Callable[[Any, int, str], Any]] = {
    **dict.fromkeys(_PUBLIC, lambda told, number, me: told),
    **dict.fromkeys((LEFT_OUT, "alpha", "lambda", "taken", "cone_degrees"), _by_name),
    **dict.fromkeys(("nobody", "stayed", "stopped"), _among),
    **dict.fromkeys(("neighbours", "circles", "follows"), lambda told, number, me: _own(told, number)),
    LAYERS: lambda told, number, me: _own_each(told, number),
    "withdrawals": _withdrawals,
    # whom people keep out of what is made for it, and out of what it is kept
    "kept_out": lambda told, number, me: [o for o in told if me in (o["site"], o["receiver"])],
    "similar": _similar,
    "contributions": _contributions,
    "rule": _rule,
}
"""By the name of an extra, how to take a client's part out of it."""


# the end of a run


def calibration_for(found: Calibration | None, number: int) -> dict[str, list[list[float]]] | None:
    """Each kind as [sum, bin], the sums in the order of `Tally`."""
    if found is None:
        return None
    return {
        kind: [t[number].tolist() if t.numel() else [] for t in tally]
        for kind, tally in found._asdict().items()
    }


def privacy_for(statement: Mapping[str, Any] | None, me: str) -> dict[str, Any] | None:
    """What looking at this client's rows has cost."""
    if statement is None:
        return None
    told = {key: statement[key] for key in _PRIVACY if key in statement}
    return {**told, "sites": [site for site in statement["sites"] if site["name"] == me]}


# the lead's side: which rounds of a record each site has, and what it gets next

AT_ONCE = 64  # rounds in a message


class _Written(NamedTuple):
    """All that a record has of a round; no weights before the first; `alike` if it says what sketches say."""

    line: Mapping[str, Any]
    timing: Mapping[str, Any]
    weights: np.ndarray | None
    matrices: Mapping[str, np.ndarray]
    passed: np.ndarray
    alike: Any


class ViewPublisher:
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
        self._rounds: dict[int, _Written] = {}

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
        told: dict[str, Any] = {"rounds": [self._round(r, number) for r in rounds]}
        if number not in self.headed:
            config = config_for(self.record.config, self.record.clients[number])
            told = {"config": config, "about": about_for(self.record.about, number), **told}
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

    def _round(self, r: int, number: int) -> dict[str, Any]:
        written, record = self._written(r), self.record
        line = line_for(written.line, number, record.clients)
        if written.alike is not None:
            line["extras"]["similar"]["apart"] = written.alike.apart_from(number)
        told = {"line": line, "timing": dict(written.timing)}
        if written.weights is not None:
            told["heard"] = heard_by(number, written.weights, written.matrices, written.passed, record.config)
        return told

    def _written(self, r: int) -> _Written:
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
            alike = record.of("similarity") if "similar" in (line.get("extras") or {}) else None
            self._rounds[r] = _Written(line, timing, weights, named, passed, alike)
        return self._rounds[r]

    def _end(self, number: int) -> dict[str, Any]:
        record = self.record
        if self.diverged:
            return {"diverged": self.diverged}
        return {
            "calibration": calibration_for(record.of("calibration"), number),
            "privacy": privacy_for(record.of("privacy"), record.clients[number]),
        }
