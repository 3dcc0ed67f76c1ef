"""What a run says of itself. Reports, tables and figures read only this.

What is large, matrices and models, stays in the run's folder until it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from coterie import features
from coterie.core.belief import Belief
from coterie.metrics.table import COLLABORATION
from coterie.nets.counting import Traffic

if TYPE_CHECKING:
    import pandas as pd

    from coterie.runs.settings import Settings

COORDINATOR = "coordinator"
T = TypeVar("T")


def nothing() -> None:
    """What is not known; a function of its own, so that a record can be handed to another process."""


def known(value: T) -> T:
    """What is known; likewise: `partial(known, value)`."""
    return value


class Kept(NamedTuple):
    """What a feature keeps of a run: its file in the run's folder, how that is read if it is there,
    and what there is otherwise.
    """

    file: str
    read: Callable[[Path], Any]
    otherwise: Callable[[], Any] = nothing

    def of(self, folder: Path) -> Any:
        return self.read(folder) if (folder / self.file).exists() else self.otherwise()


@dataclass(repr=False)
class Record:
    """A run, live or read back from its folder.

    label      what tables and figures call it, usually its method
    config     the resolved settings (plain values, as in config.toml)
    about      versions, commit, machine, task, clients with their sizes and label counts, notes
    metrics    one entry for each round, see `line`
    timings    one entry for each round: round, seconds (training), evaluate_seconds, cpu_seconds (training),
               evaluate_cpu_seconds
    weights    round -> [receiver, sender], who listened to whom
    passed     round -> [entry, 5] what passed: sender, receiver, models, bytes, numbers (see `triplets`)
    matrices   name -> round -> [receiver, sender], further ones that the method fills; NaN is nothing
    models     a function: client -> its tensors by name, of those that have a model of their own; nothing
               before the run is over
    diverged   a function: how training diverged, if it did (see `scoring.py`); such a run has no result
    more       what features keep of a run, by name: a function each

    What features know of a record is asked by name too, as if it were a method: `record.spent()`,
    `record.energy("FR")`, `record.calibration()` (`features.TABLES`).
    """

    label: str
    config: Mapping[str, Any]
    about: Mapping[str, Any]
    metrics: list[dict[str, Any]] = field(default_factory=list)
    timings: list[dict[str, Any]] = field(default_factory=list)
    weights: Mapping[int, np.ndarray] = field(default_factory=dict)
    passed: Mapping[int, np.ndarray] = field(default_factory=dict)
    matrices: Mapping[str, Mapping[int, np.ndarray]] = field(default_factory=dict)
    models: Callable[[], Mapping[str, Belief]] = dict
    diverged: Callable[[], str] = str
    more: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        """What a feature makes of the record, or keeps of the run."""
        if name.startswith("_") or "more" not in self.__dict__:
            raise AttributeError(name)
        if name in self.more:
            return self.more[name]
        if view := features.entries("VIEWS").get(name):
            return partial(view, self)
        if kept := features.entries("KEPT").get(name):
            return kept.otherwise
        raise AttributeError(f"a record has no {name!r}")

    def of(self, name: str) -> Any:
        """What a feature keeps of the run; None without it, or without the feature."""
        try:
            found = getattr(self, name)
        except AttributeError:
            return None
        return found()  # where an error is one

    def settle(self) -> None:
        """Values in place of functions: what a run keeps to work them out can neither be pickled nor is
        needed any more.
        """
        self.models = partial(known, dict(self.models()))
        self.more = {name: partial(known, work_out()) for name, work_out in self.more.items()}

    def take_over(self, past: Record) -> None:
        """All that an earlier process left of the same run."""
        for what in fields(self):
            if what.name not in ("label", "config", "about"):
                setattr(self, what.name, getattr(past, what.name))

    def __repr__(self) -> str:
        """Short: all of it is thousands of lines."""
        rounds = f"{self.done} of {self.config.get('rounds', '?')} rounds"
        return f"Record({self.label!r}, {len(self.clients)} clients, {rounds})"

    @property
    def clients(self) -> list[str]:
        return [c["name"] for c in self.about["clients"]]

    @property
    def done(self) -> int:
        return int(self.metrics[-1]["round"]) if self.metrics else 0

    @property
    def settings(self) -> Settings:
        """The config as settings, with defaults for what a run of an earlier version did not know of."""
        from coterie.runs.settings import recorded  # which knows features, and these know records

        return recorded(self.config)

    @property
    def finished(self) -> bool:
        return bool(self.metrics) and (self.done >= self.settings.rounds or bool(self.ended))

    @property
    def ended(self) -> str:
        """What ended the run before its last round, a kind of budget mostly; nothing if nothing did."""
        return str(self.metrics[-1].get("ended", "")) if self.metrics else ""

    def evaluated(self) -> Iterator[dict[str, Any]]:
        """The rounds in which models were scored."""
        return (m for m in self.metrics if m["scores"] is not None)

    def final(self, metric: str, scores: str = "own/test") -> list[float]:
        """Each client's last figure; NaN where it has none. One that was away in the end has an earlier
        round's.
        """
        n, found = len(self.clients), dict[int, float]()
        for m in (m for m in reversed(self.metrics) if m["scores"] is not None):
            values = m["scores"].get(scores, {}).get(metric, ())
            for i in (i for i, here in enumerate(_scored(m) if values else ()) if here and i not in found):
                found[i] = float("nan") if values[i] is None else float(values[i])
            if len(found) == n:
                break
        return [found.get(i, float("nan")) for i in range(n)]

    def curve(self, metric: str, scores: str = "own/test") -> tuple[list[int], np.ndarray]:
        lines = [m for m in self.evaluated() if scores in m["scores"]]
        values = [[np.nan if v is None else v for v in m["scores"][scores][metric]] for m in lines]
        return [m["round"] for m in lines], np.asarray(values, dtype=float)

    def history(self) -> pd.DataFrame:
        """Long form: round, client, model (own, shared or point), split, metric, value."""
        import pandas as pd  # only here: it takes a while to import

        rows = [
            (m["round"], client, *scores.split("/"), metric, np.nan if value is None else value)
            for m in self.evaluated()
            for scores, figures in m["scores"].items()
            for metric, values in figures.items()
            for client, value in zip(self.clients, values, strict=True)
        ]
        rows += [
            (m["round"], client, "own", "train", "loss", np.nan if value is None else value)
            for m in self.metrics
            for client, value in zip(self.clients, m["train_loss"], strict=True)
        ]
        return pd.DataFrame(rows, columns=["round", "client", "model", "split", "metric", "value"])

    def traffic(self) -> dict[str, float]:
        """Models that passed, each transfer once whoever its ends are; how many that is by client (`each`),
        their bytes, and seconds of training. `sent` and `received` are clients' own counts, added up.
        """
        passed = [self.transfers(m) for m in self.metrics]
        models = sum(p["models"] for p in passed)
        return {
            "sent": sum(sum(m["sent"]) for m in self.metrics),
            "received": sum(sum(m["received"]) for m in self.metrics),
            "models": models,
            "each": models / len(self.clients),
            "bytes": sum(p["bytes"] for p in passed),
            "seconds": sum(t["seconds"] for t in self.timings),
        }

    def transfers(self, entry: Mapping[str, Any]) -> Mapping[str, int]:
        """Models and bytes that passed in a round; runs of earlier versions have them in `passed` alone.

        There the round before the first is missing: models go out from the coordinator, one client at an end.
        """
        if "transfers" in entry:
            found: Mapping[str, int] = entry["transfers"]
            return found
        if entry["round"] in set(self.passed):
            models, size = np.asarray(self.passed[entry["round"]])[:, 2:4].sum(axis=0).tolist()
            return {"models": models, "bytes": size}
        return {
            "models": sum(entry["sent"]) + sum(entry["received"]),
            "bytes": sum(entry["sent_bytes"]) + sum(entry["received_bytes"]),
        }

    def collected(self) -> np.ndarray:
        """[receiver, sender] in how many rounds one gave the other a weight above 0; 0 for oneself."""
        times = np.zeros((len(self.clients), len(self.clients)))
        for weights in self.weights.values():
            times += weights > 0
        np.fill_diagonal(times, 0)
        return times

    def collaboration(self) -> pd.DataFrame:
        """A row for each round and client: models sent and received, their bytes, and what was measured.

        The measures are columns by name, NaN where one is not defined or was not measured in a round.
        """
        import pandas as pd

        measured = [n for n in COLLABORATION if any(n in m.get("measures", ()) for m in self.metrics)]
        nothing = [None] * len(self.clients)
        parts = [
            pd.DataFrame(
                {"round": m["round"], "client": self.clients, "sent": m["sent"], "received": m["received"]}
                | {"bytes": np.add(m["sent_bytes"], m["received_bytes"]), "numbers": m["numbers"]}
                | {name: m.get("measures", {}).get(name, nothing) for name in measured}
            )
            for m in self.metrics
        ]
        columns = ["round", "client", "sent", "received", "bytes", "numbers", *measured]
        frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
        return frame.astype(dict.fromkeys(measured, float))

    def given_away(self) -> pd.DataFrame:
        """What each party gave to which other in all rounds: sender, receiver, models, bytes, numbers."""
        import pandas as pd

        parties = [*self.clients, COORDINATOR]
        columns = ["sender", "receiver", "models", "bytes", "numbers"]
        frame = pd.DataFrame(self.passed_in_all(), columns=columns)
        return frame.assign(**{way: [parties[i] for i in frame[way]] for way in ("sender", "receiver")})

    def passed_in_all(self) -> np.ndarray:
        """[entry, 5] what passed in all rounds together, as in `passed`, by sender and then receiver."""
        kept = [np.asarray(entries) for entries in self.passed.values() if len(entries)]
        entries = np.concatenate(kept) if kept else np.zeros((0, 5), dtype=int)
        parties = len(self.clients) + 1
        pairs, whose = np.unique(entries[:, 0] * parties + entries[:, 1], return_inverse=True)
        sums = np.zeros((len(pairs), 3), dtype=entries.dtype)
        np.add.at(sums, whose, entries[:, 2:])
        return np.column_stack([pairs // parties, pairs % parties, sums])

    def away(self) -> dict[str, int]:
        """Who was away when models were scored last, and after which round it was last scored."""
        last: dict[str, int] = {}
        for m in self.evaluated():
            last |= {c: m["round"] for c, here in zip(self.clients, _scored(m), strict=True) if here}
        newest = max((m["round"] for m in self.evaluated()), default=0)
        return {client: r for client, r in last.items() if r < newest}

    def absences(self) -> list[str]:
        """A line for each site that did not answer in some rounds, or whose replies could not be used: which,
        and why at last; and who lied, in a study of liars.
        """
        rounds, why = dict[tuple[str, str], list[int]](), dict[tuple[str, str], str]()
        for m in self.metrics:
            for was, some in (("away", m.get("away")), ("left out", m.get("extras", {}).get("left_out"))):
                for client, reason in (some or {}).items():
                    rounds.setdefault((client, was), []).append(m["round"])
                    why[client, was] = reason
        many, lied = (
            len(self.metrics),
            self.metrics[-1].get("extras", {}).get("liars", []) if self.metrics else [],
        )
        lines = [
            f"{len(way['names'])} of {len(self.clients)} clients lie ({way['kind']}) and are not scored: "
            + ", ".join(way["names"])
            + (f"; the trigger turns {100 * way['fooled']:.0f} % of test rows" if "fooled" in way else "")
            for way in lied
        ]
        return lines + [
            f"{client} was {was} in {len(some)} of {many} rounds ({spans(some)}): {why[client, was]}"
            for (client, was), some in rounds.items()
        ]


def spans(rounds: Sequence[int]) -> str:
    """1 to 3, 7, 9 to 12"""
    said, begin = list[str](), rounds[0]
    for now, after in pairwise([*rounds, rounds[-1] + 2]):
        if after != now + 1:
            said.append(str(begin) if begin == now else f"{begin} to {now}")
            begin = after
    return ", ".join(said[:5]) + (", ..." if len(said) > 5 else "")


def _scored(entry: Mapping[str, Any]) -> list[bool]:
    """Which clients were there, with a model of their own, when a round's models were scored: those with any
    figure at all.
    """
    figures = entry["scores"]["own/test"].values()
    return [any(v is not None for v in values) for values in zip(*figures, strict=True)]


def triplets(moved: Traffic) -> np.ndarray:
    """[entry, 5] sender, receiver, models, bytes and numbers of all between whom anything passed.

    Clients by number, the coordinator after the last of them.
    """
    senders, receivers = np.nonzero(moved.models | moved.numbers)
    found = [m[senders, receivers] for m in (moved.models, moved.bytes, moved.numbers)]
    return np.stack([senders, receivers, *found], axis=1)


def line(
    round: int,
    scores: Mapping[str, Mapping[str, list[float | None]]] | None,
    train_loss: list[float | None],
    moved: Traffic,
    looked: Traffic,
    extras: Mapping[str, Any],
    measures: Mapping[str, list[float | None]] | None = None,
    away: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One round of metrics.jsonl: only what is the same each time the run is repeated.

    scores       by model and split ("own/test", "own/validation", "shared/test", and "point/test" for the
                 one model that stands for several), then by metric, one value for each client, None where
                 it is not defined or the client has no such model; None if this round was not scored
    train_loss   one value for each client, None for a client that did not train or ask for a model
    transfers    models and bytes that passed between any two, each once
    sent, received   models, one count for each client; sent_bytes, received_bytes likewise. What goes from
                 client to client is in the one's sent and in the other's received
    numbers      that went to the coordinator, one count for each client
    scoring      models and bytes that passed for scoring alone
    rows         that moved, if any: one count for each client
    measures     of collaboration by name (see `scoring.py`), one value for each client, None where it is
                 not defined; runs of earlier versions have none
    away         clients that did not answer, and why, if any
    """
    return {
        "round": round,
        "scores": scores,
        "train_loss": train_loss,
        "transfers": {"models": int(moved.models.sum()), "bytes": int(moved.bytes.sum())},
        "sent": moved.models[:-1].sum(axis=1).tolist(),
        "received": moved.models[:, :-1].sum(axis=0).tolist(),
        "sent_bytes": moved.bytes[:-1].sum(axis=1).tolist(),
        "received_bytes": moved.bytes[:, :-1].sum(axis=0).tolist(),
        "numbers": moved.numbers[:-1].sum(axis=1).tolist(),
        "scoring": {"models": int(looked.models.sum()), "bytes": int(looked.bytes.sum())},
        **({"rows": moved.rows.tolist()} if moved.rows.any() else {}),
        "extras": dict(extras),
        "measures": dict(measures or {}),
        **({"away": dict(away)} if away else {}),
    }
