"""What one client may see of a run's record: what is about itself, and what is public.

    of others     their names, who was away and why, how much this client listens to each (its row of the
                  weights) and each to it (its column), and what passed between them and it
    of itself     all figures; of further matrices its row; of calibration and of privacy its own

Everything has the form that a run's files have, so that whoever reads a run reads a part of one: lists by
client have null, and counts 0, for others. What a method or a wrapper says beside (a round's `extras`) is in
a part if it is known here how to take one out of it; else it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from coterie.ledger.chain import finite
from coterie.methods.ranking.similar import COST
from coterie.methods.ranking.sketched import SIZE
from coterie.methods.server.guided import LAYERS
from coterie.metrics.calibration import Calibration
from coterie.nets.ground import read_wrap
from coterie.nets.in_process import LEFT_OUT

COUNTS = ("sent", "received", "sent_bytes", "received_bytes", "numbers", "rows")
ABOUT = (
    *("coterie", "versions", "commit", "task", "classes", "positive", "features", "inputs", "columns"),
    *("published_tests", "parameters", "belief_bytes"),
)
OF_THE_LEAD = ("engine", "device", "memory", "plugins", "features")  # settings that are of its machine
PRIVACY = ("delta", "grid", "budget", "outside", "scores", "noise")
LIMIT = "a limit of its own"  # why another withdrew: which is its own affair


# settings, and what a run is about


def config_for(config: Mapping[str, Any], me: str) -> dict[str, Any]:
    """The settings without what is of the lead's machine, paths above all, and without what others chose."""
    out = {*OF_THE_LEAD, str(config.get("engine"))}
    kept = {name: value for name, value in config.items() if name not in out}
    if "wrap" in kept:
        kept["wrap"] = [spec for spec in kept["wrap"] if _concerns(spec, me)]
    return {
        name: _without_paths(name, value) if isinstance(value, Mapping) else value
        for name, value in kept.items()
    }


def _concerns(spec: str, me: str) -> bool:
    """Whether a wrapper is of the whole run, or a circle is this client's or was left by it."""
    name, options = read_wrap(spec)
    return name != "circle" or me in (options.get("of"), options.get("without"))


def _without_paths(part: str, options: Mapping[str, Any]) -> dict[str, Any]:
    hidden = {("federation", "kit"), ("advised", "choice")}
    return {
        name: value
        for name, value in options.items()
        if (part, name) not in hidden and not (isinstance(value, str) and ("/" in value or "\\" in value))
    }


def about_for(about: Mapping[str, Any], number: int) -> dict[str, Any]:
    """All names; sizes, labels and notes of this client alone. Notes on the whole run may tell of others."""
    unknown: dict[str, Any] = {
        "train": 0,
        "validation": 0,
        "test": 0,
        "labels": None,
        "cluster": None,
        "notes": [],
    }
    clients = [
        dict(client) if i == number else {"name": client["name"], **unknown}
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


def part_of(line: Mapping[str, Any], number: int, names: Sequence[str]) -> dict[str, Any]:
    """A line of metrics.jsonl, see `line` in `record.py`. What all sites together spent is not in it."""
    me = names[number]
    scores, counts = line["scores"], {key: own(line[key], number, 0) for key in COUNTS if key in line}
    extras = {
        name: part
        for name, value in (line.get("extras") or {}).items()
        if name in EXTRAS and (part := EXTRAS[name](value, number, me)) not in (None, {}, [])
    }
    return {
        "round": line["round"],
        "scores": None if scores is None else {which: _own_each(f, number) for which, f in scores.items()},
        "train_loss": own(line["train_loss"], number),
        "transfers": {
            "models": line["sent"][number] + line["received"][number],
            "bytes": line["sent_bytes"][number] + line["received_bytes"][number],
        },
        **counts,
        "extras": extras,
        "measures": _own_each(line.get("measures") or {}, number),
        **{key: line[key] for key in ("away", "ended") if key in line},
    }


def own(values: Sequence[Any], number: int, empty: Any = None) -> list[Any]:
    """[client], with nothing for others."""
    return [value if i == number else empty for i, value in enumerate(values)]


def _own_each(figures: Mapping[str, Sequence[Any]], number: int) -> dict[str, list[Any]]:
    return {name: own(values, number) for name, values in figures.items()}


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
            found.append({**{k: one[k] for k in ("site", "receiver", "of") if k in one}, "why": LIMIT})
    return found


def _kept_out(told: Sequence[Mapping[str, str]], number: int, me: str) -> list[Mapping[str, str]]:
    """Whom people keep out of what is made for it, and out of what it is kept."""
    return [one for one in told if me in (one["site"], one["receiver"])]


def _similar(told: Mapping[str, Any], number: int, me: str) -> dict[str, Any]:
    """Sketches: quantiles of its own columns alone (`showing.py` adds how far others' lie)."""
    part = {key: told[key] for key in ("columns", "epsilon", "delta", "sigma") if key in told}
    if "quantiles" in told:
        part["quantiles"] = _by_name(told["quantiles"], number, me)
    if "drowned" in told:
        part["drowned"] = {measure: _among(names, number, me) for measure, names in told["drowned"].items()}
    return part


def _contributions(told: Mapping[str, Any], number: int, me: str) -> dict[str, Any]:
    """What others gave to it, as its own rows say: of each game, its row."""
    by = {
        name: {**found, "games": [_game(g, number) for g in found["games"] if number in g["receivers"]]}
        for name, found in told["by"].items()
    }
    return {**{key: told[key] for key in ("level", "rows", "unvalued")}, "by": by}


def _game(game: Mapping[str, Any], number: int) -> dict[str, Any]:
    at = game["receivers"].index(number)
    figures = {k: [game[k][at]] for k in ("value", "variance", "freedom", "hidden") if k in game}
    said = {"said": game["said"]} if "said" in game else {}
    return {"receivers": [number], "senders": game["senders"], **figures, **said}


def _rule(told: Mapping[str, Any], number: int, me: str) -> dict[str, Any]:
    """Of a robust rule at the server and at this client."""
    return {
        key: {name: value for name, value in some.items() if name in (me, "server")}
        for key, some in told.items()
        if isinstance(some, Mapping)
    }


def _layers(told: Mapping[str, Sequence[Any]], number: int, me: str) -> dict[str, list[Any]]:
    return _own_each(told, number)


def _public(told: Any, number: int, me: str) -> Any:
    return told


def _by_number(told: Any, number: int, me: str) -> list[Any]:
    return own(told, number)


Take = Callable[[Any, int, str], Any]
EXTRAS: dict[str, Take] = {
    **dict.fromkeys(("held_out", "note", "published", "ranked_pairs", "sealed", "sigma", "step"), _public),
    **dict.fromkeys((LEFT_OUT, "alpha", "lambda", "taken", "cone_degrees"), _by_name),
    **dict.fromkeys(("nobody", "stayed", "stopped"), _among),
    **dict.fromkeys(("neighbours", "circles", "follows"), _by_number),
    LAYERS: _layers,
    "withdrawals": _withdrawals,
    "kept_out": _kept_out,
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
    told = {key: statement[key] for key in PRIVACY if key in statement}
    return {**told, "sites": [site for site in statement["sites"] if site["name"] == me]}
