"""What a client's replies have gone into in a run, by its record: whose models, in which rounds, how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coterie.core.errors import UnknownName
from coterie.runs.record import Record


@dataclass(frozen=True)
class Touched:
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


def touched(record: Record, client: str) -> Touched:
    names = record.clients
    if client not in names:
        raise UnknownName("client", client, names)
    me, rounds, shares = names.index(client), dict[str, list[int]](), dict[str, float]()
    reached = np.zeros(len(names), dtype=bool)
    for r in sorted(record.weights):
        if not mixed(record, r):
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
    return Touched(joined, rounds, shares, later)


def mixed(record: Record, round: int) -> bool:
    """Whether a round's weights are of sums that were made: those of a ranking are of rounds to come."""
    extras = next((m.get("extras") or {} for m in record.metrics if m["round"] == round), {})
    return "ranked_pairs" not in extras


def visits(record: Record, rounds: range) -> int:
    """Times that clients trained in these rounds, as far as they told."""
    some = (m["train_loss"] for m in record.metrics if m["round"] in rounds)
    return sum(loss is not None for losses in some for loss in losses)


def seconds(record: Record, rounds: range) -> float:
    some = [t for t in record.timings if t["round"] in rounds]
    return float(sum(t["seconds"] + t.get("evaluate_seconds", 0.0) for t in some))
