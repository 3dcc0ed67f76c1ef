"""Runs as frames of pandas and as CSV files, figures as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coterie import features
from coterie.report.curves import label_options
from coterie.report.summary import summary_rows
from coterie.runs.record import Record
from coterie.show import views
from coterie.storage.atomic import replace_atomically, write_whole

if TYPE_CHECKING:
    import pandas as pd


def summary_frame(records: Sequence[Record]) -> pd.DataFrame:
    """One row a method: figures as fractions, halves of 95 % intervals over seeds as `<figure>_half`.

    `interval` says what they cover: splits (of the same rows, corrected for those they share), dealing (of a
    published test set) or training (on the same rows); none for one seed. `overlap` is the number of test
    rows over all others by which splits are corrected, else 0. `gain_low` and `gain_high` bound the gain over
    which test rows there happened to be, where the interval over seeds does not cover that.
    `worst_*` is the worst client's figure in each seed, then the mean over seeds. `gain` is the difference
    to `local` in the headline metric, paired by client and seed, above zero if better. `scored` counts the
    clients that have a figure: of one requester's method, one, and all figures are of it. `precision`,
    `recall`, `circle_precision`, `circle_recall` and `drift` are the last that were measured, where any were.
    Metrics of your own have `worst_NAME` and `gain_NAME` too. `over_nothing` is how far the headline metric
    is above that of always the same answer, each client's own mean or most frequent class; a `gain` beside
    one that is not above 0 is none.
    `models` (that passed, each transfer once whoever its ends are), `models_each` (by client), their `bytes`,
    `sent` and `received` (by clients) and `seconds` are means over seeds of a whole run; so are `steps`,
    gradient steps of all clients, and `kwh`, an estimate, where they were counted.
    """
    import pandas as pd  # only where a frame is asked for: it takes a while to import

    return pd.DataFrame(summary_rows(records))


def clients_frame(records: Sequence[Record]) -> pd.DataFrame:
    """One row for each run and client: its sizes, group and final figures, and its gain over `local`."""
    import pandas as pd

    by_label = views.groups(records)
    metrics, main = views.metrics(records), views.headline_metric(records)
    alone = views.baseline(by_label)
    parts = []
    for label, runs in by_label.items():
        for record in runs:
            about = record.about["clients"]
            part = {"label": label, "seed": views.seed(record), "client": record.clients}
            part["cluster"] = pd.array([c.get("cluster") for c in about], dtype="Int64")
            part |= {split: [c.get(split) for c in about] for split in ("train", "validation", "test")}
            part |= {metric: views.final(record, metric) for metric in metrics}
            if alone is not None:
                part["gain"] = views.gains([record], by_label[alone], main)[0] if label != alone else math.nan
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def sweep_frame(records: Sequence[Record]) -> pd.DataFrame:
    """The rows of `clients_frame`, with `name` of the method and its options after the label."""
    frame = clients_frame(records)
    told = {label: label_options(label) for label in views.groups(records)}
    frame.insert(1, "name", [label.partition(":")[0] for label in frame["label"]])
    for place, option in enumerate(dict.fromkeys(o for options in told.values() for o in options)):
        frame.insert(2 + place, option, [told[label].get(option) for label in frame["label"]])
    return frame


def history_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Every figure of every round: label, seed, round, client, model, split, metric, value."""
    return _together(records, Record.history)


def collaboration_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Models, bytes and measures: label, seed, round, client, sent, received, bytes, precision, ..."""
    return _together(records, Record.collaboration)


def calibration_frame(records: Sequence[Record]) -> pd.DataFrame:
    """How sure and how often right: label, seed, client, by, low, high, samples, mean, right."""
    return _together(records, lambda record: record.reliability())


def _together(records: Sequence[Record], frame: Callable[[Record], pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    parts = []
    for label, runs in views.groups(records).items():
        for record in runs:
            part = frame(record)
            part.insert(0, "label", label)
            part.insert(1, "seed", views.seed(record))
            parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _matrix_frames(records: Sequence[Record]) -> Iterator[pd.DataFrame]:
    """Named matrices in long form, one frame a round: label, seed, round, receiver, sender, name, value."""
    import pandas as pd

    for label, runs in views.groups(records).items():
        for record in runs:
            clients = np.array(record.clients, dtype=object)
            for name, by_round in record.matrices.items():
                for round, matrix in by_round.items():
                    receivers, senders = np.nonzero(~np.isnan(matrix))
                    part = {"label": label, "seed": views.seed(record), "round": round}
                    part |= {"receiver": clients[receivers], "sender": clients[senders]}
                    yield pd.DataFrame(part | {"name": name, "value": matrix[receivers, senders]})


def write_csv(folder: str | Path, records: Sequence[Record]) -> list[Path]:
    """Writes history.csv, summary.csv, clients.csv, collaboration.csv and costs.csv; returns their paths.

    Where samples were counted by confidence, calibration.csv has them. Where a method named matrices, they
    are in matrices.csv, written round by round: they may be many.
    """
    frames = {
        "history.csv": history_frame(records),
        "summary.csv": summary_frame(records),
        "clients.csv": clients_frame(records),
        "collaboration.csv": collaboration_frame(records),
    }
    further = {name: frame(records) for name, frame in features.entries("FRAMES").items()}
    frames |= {name: frame for name, frame in further.items() if not frame.empty}
    written = [
        write_whole(Path(folder) / name, frame.to_csv(index=False, lineterminator="\n"))
        for name, frame in frames.items()
    ]
    if any(r.matrices for r in records):

        def write(draft: Path) -> None:
            with draft.open("w", encoding="utf-8", newline="") as file:
                for i, frame in enumerate(_matrix_frames(records)):
                    frame.to_csv(file, header=i == 0, index=False, lineterminator="\n")

        written.append(Path(folder) / "matrices.csv")
        replace_atomically(written[-1], write)
    return written
