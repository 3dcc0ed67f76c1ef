"""What the entries of a run's ledger say: numbers and names, never keys, never rows, never models.

    begin      config (its SHA-256), method, version, clients by name, rows and first weights (a fingerprint),
               SHA-256 of what run.json says of clients and columns, of its notes, and of the lines of
               metrics.jsonl so far; where a run is done again, of which config, and without whom or with
               which decisions of whom; in a federation the run's id, the federation's name and its authority
               (SHA-256 of ca.crt)
    round      round, who answered, shares by receiver and sender, and SHA-256 of the round's weights, of what
               passed, and of its line in metrics.jsonl; where there are any: circles that were published,
               contributions, withdrawals, who was kept out of circles, left out or away, and why
    resumed    after which round a run that was cut off goes on: the rounds after it are written anew; from
               the very beginning, SHA-256 of the lines so far, and the id, if it has another
    end        how many rounds there were, SHA-256 of the files of models and of further results, and if
               training diverged, how

Clients go by their numbers in `begin`: "0-3 7" are 0, 1, 2, 3 and 7. Shares are [receivers, senders, shares]
for receivers that listen alike, rounded; one number where all shares are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from coterie.storage.chain import canonical, finite, sha256

DIGITS = 6  # of a share behind the point
MOST_SHARES = 20_000  # of one round; of more there is the digest alone
MOST_LETTERS = 200_000  # of contributions, or of withdrawals; likewise
MOST_CLIENTS = 10_000_000  # numbers that a text may stand for
ABOUT = ("task", "classes", "features", "clients", "columns", "inputs", "parameters", "fingerprint", "rows")
REMARKS = ("notes", "small", "leaks", "published_tests")
MODELS = ("models.safetensors", "models/*.safetensors")
RESULTS = (  # what else a run writes once, at its end
    *("calibration.npz", "outcomes.npz", "probabilities.npz", "recalibration.json", "privacy.json"),
    *("features.safetensors", "preparation.json", "posteriors/*.safetensors"),
)
SAID = ("contributions", "withdrawals", "kept_out", "left_out", "published")


def begin(
    config: Mapping[str, Any],
    about: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]],
    bound: Mapping[str, str],
) -> dict[str, Any]:
    """`lines` of metrics.jsonl were there before the ledger: that of round 0, and in a run of an earlier
    version or one that goes on from another's rounds more; `bound` is what a federation's run is known by.
    """
    done = int(lines[-1]["round"]) if lines else 0
    # machine, command and times are nobody's result, and neither is where the run lies that is done again
    again = {k: v for k, v in about["again"].items() if k != "run"} if "again" in about else None
    return {
        "kind": "begin",
        "config": content_digest(config),
        "method": str(config["method"]),
        "version": str(about.get("coterie", "")),
        "clients": [str(c["name"]) for c in about["clients"]],
        "fingerprint": about.get("fingerprint"),
        "about": content_digest({name: about.get(name) for name in ABOUT}),
        "remarks": content_digest({name: about.get(name) for name in REMARKS}),
        "metrics": lines_digest(lines),
        **bound,
        **({"after": done} if done else {}),
        **({} if again is None else {"again": again}),
    }


def content_digest(content: Any) -> str:
    """Of what JSON or TOML holds, whatever the order of its names."""
    return sha256(canonical(finite(content)))


def lines_digest(lines: Sequence[Mapping[str, Any]]) -> str:
    """Of lines of metrics.jsonl, as they stand there."""
    return sha256("\n".join(map(json.dumps, lines)))


def array_digest(values: np.ndarray, kind: type) -> str:
    return sha256(np.ascontiguousarray(values, dtype=kind).tobytes())


def digests(folder: Path, patterns: Sequence[str]) -> dict[str, str]:
    """Of files, by name."""
    made = dict[str, str]()
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()):
        with path.open("rb") as file:
            made[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return made


def round_of(
    line: Mapping[str, Any], weights: np.ndarray, passed: np.ndarray | None = None
) -> dict[str, Any]:
    """Of a line of metrics.jsonl, weights [receiver, sender], and what passed [entry, 5]."""
    extras = line.get("extras") or {}
    told = {
        "kind": "round",
        "round": int(line["round"]),
        "answered": numbered([i for i, n in enumerate(line["numbers"]) if n]),
        "shares": shares_of(np.ascontiguousarray(weights, dtype=np.float32)),
        "weights": array_digest(weights, np.float32),
        "metrics": lines_digest([line]),
    }
    if passed is not None:
        told["passed"] = array_digest(passed, np.int64)
    for name in SAID:
        if value := extras.get(name):  # what is very long, by its digest
            long = len(canonical(finite(value))) > MOST_LETTERS
            told[name] = {"sha256": content_digest(value)} if long else value
    return told | ({"away": line["away"]} if line.get("away") else {})


def resumed(
    round: int, lines: Sequence[Mapping[str, Any]] = (), bound: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """`bound` is given where the run goes on under another id than before."""
    also = {} if round else {"metrics": lines_digest(lines)}
    return {"kind": "resumed", "after": round, **also, **(bound or {})}


def end(rounds: int, folder: Path, diverged: str = "") -> dict[str, Any]:
    said = {"kind": "end", "rounds": rounds}
    said |= {"models": digests(folder, MODELS), "results": digests(folder, RESULTS)}
    return said | ({"diverged": diverged} if diverged else {})


def shares_of(weights: np.ndarray) -> list[list[Any]] | None:
    """Rows that are alike once, without what is 0; None where that is too much to write down."""
    alike: dict[bytes, list[int]] = {}
    for receiver, row in enumerate(weights):
        alike.setdefault(row.tobytes(), []).append(receiver)
    found, total = list[list[Any]](), 0
    for receivers in alike.values():
        row = weights[receivers[0]]
        senders = np.flatnonzero(row)
        if not len(senders):
            continue
        total += len(senders)
        if total > MOST_SHARES:
            return None
        values = np.round(row[senders].astype(np.float64), DIGITS).tolist()
        told = values[0] if len(set(values)) == 1 else values
        found.append([numbered(receivers), numbered(senders.tolist()), told])
    return found


def numbered(numbers: Sequence[int]) -> str:
    """0-3 7, of numbers in order"""
    said = list[str]()
    for _, pairs in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [n for _, n in pairs]  # its numbers follow each other
        said.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return " ".join(said)


def numbers_in(text: str) -> list[int]:
    """The inverse of `numbered`; a ValueError where it is no such text."""
    found = list[int]()
    for part in text.split():
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not (found[-1] if found else -1) < begin <= end < MOST_CLIENTS:
            raise ValueError(f"{part[:20]} is out of place")
        found += range(begin, end + 1)
    return found
