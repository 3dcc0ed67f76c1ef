"""A client withdraws from a run: what its replies have gone into, by the run's record, and how the run is
done again without it, from the last round before it joined whose state was kept.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadRun, UnknownName
from coterie.runs.folder import CHECKPOINTS, POSTERIORS, file_name
from coterie.runs.record import Record, spans
from coterie.runs.settings import digest
from coterie.show.numbers import several
from coterie.storage.atomic import read_lines, write_whole
from coterie.storage.checkpoint import copy_as
from coterie.storage.rounds import LINES, METRICS

FEW = 12  # receivers that are listed


@dataclass(frozen=True)
class _Touched:
    """
    joined     the first round in which anybody else listened to the client; None if nobody ever did
    rounds     {receiver: rounds in which it listened}
    shares     {receiver: its weights for the client, summed over rounds}
    later      who listened afterwards to models that had taken it in, and did not listen to it itself
    """

    joined: int | None
    rounds: Mapping[str, list[int]]
    shares: Mapping[str, float]
    later: list[str]


def touched(record: Record, client: str) -> _Touched:
    names = record.clients
    if client not in names:
        raise UnknownName("client", client, names)
    me, rounds, shares = names.index(client), dict[str, list[int]](), dict[str, float]()
    reached = np.zeros(len(names), dtype=bool)
    for r in sorted(record.weights):
        if not _mixed(record, r):
            continue
        weights = np.nan_to_num(np.asarray(record.weights[r]))
        heard = weights[:, me] > 0
        heard[me] = False
        for i in np.flatnonzero(heard).tolist():
            rounds.setdefault(names[i], []).append(int(r))
            shares[names[i]] = shares.get(names[i], 0.0) + float(weights[i, me])
        through = (weights[:, reached] > 0).any(axis=1)
        reached |= heard | through
    joined = min((some[0] for some in rounds.values()), default=None)
    reached[me] = False
    later = [name for name, so in zip(names, reached, strict=True) if so and name not in rounds]
    return _Touched(joined, rounds, shares, later)


def _mixed(record: Record, round: int) -> bool:
    """Whether a round's weights are of sums that were made: those of a ranking are of rounds to come."""
    extras = next((m.get("extras") or {} for m in record.metrics if m["round"] == round), {})
    return "ranked_pairs" not in extras


def said_of(record: Record, found: _Touched, client: str) -> list[str]:
    """What the client's replies have gone into."""
    if found.joined is None:
        return [f"nobody else's model has taken in a reply of {client} in {several(record.done, 'round')}"]
    lines = [f"what was mixed cannot be taken back: replies of {client} are in models of others"]
    some = sorted(found.shares.items(), key=lambda pair: -pair[1])
    for name, share in some[:FEW]:
        rounds = f"{several(len(found.rounds[name]), 'round')} ({spans(found.rounds[name])})"
        lines.append(f"  {name}: in {rounds}, shares add up to {share:.3g}")
    if len(some) > FEW:
        lines.append(f"  and {len(some) - FEW} more")
    if found.later:
        names = ", ".join(found.later[:FEW]) + (", ..." if len(found.later) > FEW else "")
        lines.append(f"  and through them, later: {names}")
    return lines


def ways(record: Record, found: _Touched, path: Path, client: str) -> list[str]:
    """What can be done."""
    lines = []
    if (path / POSTERIORS / f"{file_name(client)}.safetensors").exists():
        lines.append(
            f"{record.settings.method} joins posteriors: coterie posterior remove POOL {client} divides it "
            "out of a pool, and nothing is trained"
        )
    if found.joined is None:
        return lines
    if record.settings.connector.meets:
        others = [name for name in record.clients if name != client]
        return [
            *lines,
            "the rows are at the sites: each deletes the models that the run left there, and whoever leads "
            f"it runs again with --federation.sites {' '.join(others)}",
        ]
    kept, same = kept_before(path, record, found.joined), found.joined - 1
    left = range(kept + 1 if kept else 0, record.done + 1)
    losses = (m["train_loss"] for m in record.metrics if m["round"] in left)
    visits = sum(loss is not None for some in losses for loss in some)  # as far as clients told
    timings = (t for t in record.timings if t["round"] in left)
    seconds = float(sum(t["seconds"] + t.get("evaluate_seconds", 0.0) for t in timings))
    cost = f"{several(record.done - kept, 'round')}, {visits} visits, {seconds:.1f} s"
    over = "starts over, as no earlier state was kept (--history 1)"
    where = f"goes on after round {kept}" if kept else over
    again = f"; rounds up to {same} come out as they were" if same > kept else ""
    return [
        *lines,
        f"it joined in round {found.joined}; a run without it {where}: {cost}, as this run took{again}",
        f"to do so: coterie withdraw {shlex.quote(str(path))} {shlex.quote(client)} --retrain",
    ]


def refuse_unfit(record: Record, path: Path) -> None:
    if "given" in record.config:
        raise BadRun(f"{path} was started from Python: call coterie.train without that client, same seed")
    if record.settings.connector.meets:
        raise BadRun(f"{path} is of a federation, whose rows are at the sites: run with --federation.sites")


def kept_before(path: Path, record: Record, round: int) -> int:
    """The last round before this one whose state the folder has; 0 if there is none, or if sites that are
    elsewhere have theirs.
    """
    if not record.settings.connector.here:
        return 0
    found = [int(file.stem) for file in (path / CHECKPOINTS).glob("*.safetensors") if file.stem.isdecimal()]
    return max((r for r in found if r < round), default=0)


def begun(new: Path, old: Path, round: int, config: Mapping[str, Any], client: int) -> None:
    """What a new folder has, to go on after a round of another: its lines up to there, in which the client
    has no figures, and its state.
    """
    for name in LINES:
        lines = [entry for entry in read_lines(old / name) if entry.get("round", round + 1) <= round]
        if name == METRICS:
            lines = [_without(entry, client) for entry in lines]
        write_whole(new / name, "".join(json.dumps(entry) + "\n" for entry in lines))
    state = old / CHECKPOINTS / f"{round:05d}.safetensors"
    copy_as(state, new / "checkpoint.safetensors", round, digest(config))


def _without(line: Mapping[str, Any], client: int) -> dict[str, Any]:
    """A line of metrics.jsonl in which a client has neither scores nor a loss."""

    def blank(values: list[Any]) -> list[Any]:
        return [None if i == client else v for i, v in enumerate(values)]

    scores = line["scores"] and {
        name: {metric: blank(values) for metric, values in figures.items()}
        for name, figures in line["scores"].items()
    }
    measures = {name: blank(values) for name, values in line.get("measures", {}).items()}
    told = {**line, "scores": scores, "train_loss": blank(line["train_loss"])}
    return {**told, "measures": measures} if "measures" in line else told
