"""The summary: one line a method, as cells, for pandas, as HTML and as CSV; and other tables beside it."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.metrics.summary import Interval, means_of_known, worst
from coterie.metrics.table import NAMED
from coterie.report import decisions, glossary, views, words
from coterie.report.inks import Ink
from coterie.report.kinds import covers, kind_of, overlap
from coterie.report.nothing import below_nothing, beyond_nothing, nothing_in
from coterie.report.spent import costs_frame, mean_total
from coterie.runs.record import Record
from coterie.storage.atomic import replace_atomically, write_whole

if TYPE_CHECKING:
    import pandas as pd

BELOW = "below nothing"


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


def summary_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The rows of `summary_frame`, all with the same columns."""
    by_label = views.groups(records)
    metrics, measured = views.metrics(records), views.metrics(records, views.MEASURED)
    main, own = views.headline_metric(records), views.own_metrics(records)
    alone = views.baseline(by_label)
    kind = kind_of(records)
    rows = []
    for label, runs in by_label.items():
        scored = views.with_figure(runs, main)
        row: dict[str, Any] = {
            "method": label,
            "seeds": len(runs),
            "clients": len(runs[0].clients),
            "scored": int(scored.sum()),
            "rounds": min(r.done for r in runs),
            "finished": all(r.finished for r in runs),
            "interval": kind if len(runs) > 1 else "none",
            "overlap": overlap(runs, scored),
        }
        base = None if alone is None else by_label[alone] if label != alone else []
        spreads = {main: views.over_seeds(runs, main), **_standing(runs, base, main, "gain")}
        spreads |= {m: views.over_seeds(runs, m) for m in metrics if m != main}
        for m in own:
            spreads |= _standing(runs, base, m, f"gain_{m}")
        spreads |= {m: views.over_seeds(runs, m, views.MEASURED) for m in measured}
        for name, spread in spreads.items():
            row |= {name: spread.mean, f"{name}_half": spread.half}
            row |= {"gain_low": spread.low, "gain_high": spread.high} if name == "gain" else {}
        above = means_of_known(beyond_nothing(by_label, runs, main))
        row["over_nothing"] = float(means_of_known(above.reshape(1, -1))[0])
        traffic = [r.traffic() for r in runs]
        cost = {key: float(np.mean([t[key] for t in traffic])) for key in traffic[0]}
        row |= {
            "sent": cost["sent"],
            "received": cost["received"],
            "models": cost["models"],
            "models_each": cost["each"],
        }
        row |= {"bytes": cost["bytes"], "seconds": cost["seconds"]}
        rows.append(row | {kind: mean_total(runs, kind) for kind in ("steps", "kwh")})
    return rows


def _standing(
    runs: Sequence[Record], alone: Sequence[Record] | None, metric: str, gain: str
) -> dict[str, Interval]:
    """The worst client's figure, and what is gained over training alone where somebody did (who did gains
    nothing over themselves).
    """
    higher = views.better_higher(runs)[metric]
    each = [worst(list(views.final(r, metric)), higher) for r in runs]
    found = {f"worst_{metric}": views.over_splits(runs, each)}
    if alone is not None:
        none = Interval(math.nan, math.nan, 0)
        found[gain] = views.gain_over_seeds(runs, alone, metric) if alone else none
    return found


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


def history_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Every figure of every round: label, seed, round, client, model, split, metric, value."""
    return _together(records, Record.history)


def collaboration_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Models, bytes and measures: label, seed, round, client, sent, received, bytes, precision, ..."""
    return _together(records, Record.collaboration)


def calibration_frame(records: Sequence[Record]) -> pd.DataFrame:
    """How sure and how often right: label, seed, client, by, low, high, samples, mean, right."""
    return _together(records, Record.reliability)


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


def matrix_frames(records: Sequence[Record]) -> Iterator[pd.DataFrame]:
    """Named matrices in long form, one frame a round: label, seed, round, receiver, sender, name, value."""
    import pandas as pd

    for label, runs in views.groups(records).items():
        for record in runs:
            clients = np.array(record.clients, dtype=object)
            for name, by_round in record.matrices.items():
                for round, matrix in by_round.items():
                    receivers, senders = np.nonzero(~np.isnan(matrix))
                    yield pd.DataFrame(
                        {
                            "label": label,
                            "seed": views.seed(record),
                            "round": round,
                            "receiver": clients[receivers],
                            "sender": clients[senders],
                            "name": name,
                            "value": matrix[receivers, senders],
                        }
                    )


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
        "costs.csv": costs_frame(records),
    }
    counted = calibration_frame(records)
    frames |= {} if counted.empty else {"calibration.csv": counted}
    written = [
        write_whole(Path(folder) / name, frame.to_csv(index=False, lineterminator="\n"))
        for name, frame in frames.items()
    ]
    if any(r.matrices for r in records):
        written.append(Path(folder) / "matrices.csv")
        replace_atomically(written[-1], lambda draft: _write_matrices(draft, records))
    return written


def _write_matrices(path: Path, records: Sequence[Record]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for i, frame in enumerate(matrix_frames(records)):
            frame.to_csv(file, header=i == 0, index=False, lineterminator="\n")


def summary_html(records: Sequence[Record], inks: Mapping[str, Ink] | None = None) -> str:
    """The summary as an HTML table, without ECE, which the page has a part of its own for.

    With inks, each method shows its colour.
    """
    return html_of(*cells(records, without=("brier", "ece")), inks)


def measures_html(records: Sequence[Record], inks: Mapping[str, Ink] | None = None) -> str:
    """What was measured of collaboration, last, as an HTML table."""
    return html_of(*measured_cells(records), inks)


def html_of(header: Sequence[str], rows: Sequence[Sequence[str]], inks: Mapping[str, Ink] | None) -> str:
    shown = glossary.linked if inks else html.escape  # a table by itself has no glossary to link to
    head = "".join(f'<th scope="col">{shown(h)}</th>' for h in header)
    lines = []
    for label, *rest in rows:
        swatch = inks[label].box() if inks else ""
        line = "".join(f"<td>{html.escape(c)}</td>" for c in rest)
        lines.append(f'<tr><th scope="row">{swatch}{html.escape(label)}</th>{line}</tr>')
    return f'<table class="figures"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def cells(
    records: Sequence[Record], without: Sequence[str] = ("brier",)
) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text: the method first, three of cost last, before these the further metrics."""
    summary = summary_rows(records)
    main = views.headline_metric(records)
    shown = [main, f"worst_{main}", *(["gain"] if "gain" in summary[0] else [])]
    own = views.own_metrics(records)
    shown += sorted(
        (m for m in views.shown(records) if m != main and m not in without), key=lambda m: m not in own
    )
    titles = {f"worst_{main}": "worst client", "gain": "gain over local"}
    header = ["method", *(titles.get(name) or words.unit(name) for name in shown)]
    header += ["models", "traffic", "training"]
    rows, without_gain = [], no_gains(views.groups(records))
    for row in summary:
        line = [row["method"]]
        for name in shown:
            metric = name if name in NAMED or name in own else main
            found = interval_in(row, name)
            if name == "gain" and row["method"] in without_gain:
                line.append(without_gain[row["method"]])
                continue
            line.append(words.spread(found, metric, sign=name == "gain") + words.beside(found, metric))
        line += [words.whole(row["models"]), words.size(row["bytes"]), words.duration(row["seconds"])]
        rows.append(line)
    return header, rows


def no_gains(by_label: views.Groups) -> dict[str, str]:
    """By method, what stands in the place of a gain over training alone where it is none: of a method that is
    no better than always the same answer, and of that itself.
    """
    metric = views.headline_metric([runs[0] for runs in by_label.values()])
    none, alone = nothing_in(by_label), views.baseline(by_label)
    below = {x: BELOW for x, runs in by_label.items() if below_nothing(by_label, runs, metric)}
    return {x: said for x, said in below.items() if x != alone} | ({} if none is None else {none: words.NONE})


def measured_cells(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """The same of what was measured of collaboration, and the models that passed by client."""
    measured = views.metrics(records, views.MEASURED)
    found, rest = [m for m in measured if m != "drift"], [m for m in measured if m == "drift"]
    header = ["method", *map(words.unit, found), "models per client", *map(words.unit, rest)]
    rows = []
    for row in summary_rows(records):
        line = [row["method"], *(words.spread(interval_in(row, m), m) for m in found)]
        line.append(words.whole(row["models_each"]))
        rows.append([*line, *(words.spread(interval_in(row, m), m) for m in rest)])
    return header, rows


def interval_in(row: Mapping[str, Any], name: str) -> Interval:
    low, high = (row.get(f"{name}_{end}", math.nan) for end in ("low", "high"))
    return Interval(row[name], row[f"{name}_half"], row["seeds"], low, high)


def legend(records: Sequence[Record], trust: bool = True, without: Collection[str] = ()) -> str:
    """How to read the summary, in words; without `trust`, nothing on calibration, nor on columns that are
    left out.
    """
    by_label = views.groups(records)
    counts = sorted({len(runs) for runs in by_label.values()})
    if counts == [1]:
        said = "One seed, so there is no interval (—), and a difference may be chance."
    else:
        seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        main, several = views.headline_metric(records), [runs for runs in by_label.values() if len(runs) > 1]
        agree = any(math.isnan(views.over_seeds(runs, main).half) for runs in several)
        why = ["for one seed"] * (counts[0] == 1) + ["where all seeds agree, which tells nothing"] * agree
        none = f" (— {', or '.join(why)})" if why else ""
        said = f"Mean over clients, then over {seeds} seeds; ±{none} is half of {covers(records)}."
    if "worst client" not in without:
        said += " Worst client: the figure of the client that fares worst"
        said += " in each seed, then the mean over seeds." if counts != [1] else "."
    if views.baseline(by_label) is not None and "gain over local" not in without:
        what = "points" if words.in_percent(views.headline_metric(records)) else "the metric's unit"
        said += f" Gain: against {views.baseline(by_label)} on the same clients and seeds, in {what}; above"
        said += " zero is better."
        if BELOW in no_gains(by_label).values():
            said += f" {BELOW.capitalize()}: no better than always the same answer, so no gain."
        said += "".join(f" {text}" for text in words.beside_legend(records))
    said += "".join(f" {text}." for text in partly(by_label, views.headline_metric(records)))
    if "models" not in without:
        said += " Models: how many were sent in a run, by clients or a server"
        said += "; the mean over seeds." if counts != [1] else "."
    said += "".join(f" {m}: lower is better." for m, up in views.own_metrics(records).items() if not up)
    if "sensitivity" in views.metrics(records) and "sensitivity" not in without:
        said += (
            f" Sensitivity, specificity and net benefit: of {decisions.positive_name(records)}, said from a "
        )
        said += "probability of one half on."
    if trust and "ece" in views.metrics(records):
        said += " ECE: how far being sure is from being right; NLL: how surprised the model is by the truth."
    return said


def partly(by_label: views.Groups, metric: str) -> list[str]:
    """Whose figures those of a method are, where some clients have none."""
    whose: dict[str, list[str]] = {}
    for label, runs in by_label.items():
        known = views.with_figure(runs, metric)
        names, of = [c for c, k in zip(runs[0].clients, known, strict=True) if k], len(known)
        if 0 < len(names) < of:
            who = f"{names[0]} alone" if len(names) == 1 else f"{len(names)} clients"
            whose.setdefault(f"figures of {who}, the others of {of} clients have none", []).append(label)
    return [f"{', '.join(labels)}: {text}" for text, labels in whose.items()]


def measures_legend(records: Sequence[Record], drift: bool = True) -> str:
    """What was measured, in words."""
    measured, said = views.metrics(records, views.MEASURED), []
    if "recall" in measured:
        said.append(
            "Precision: how many of those a client gave a weight are of its own group; recall: how many of "
            "the others of its group it gave one. Who gave nobody one has no precision."
        )
    if "circle_recall" in measured:
        said.append("Circle: whom the method takes for a client's own kind so far, averaged with or not.")
    if drift and "drift" in measured:
        said.append("Distance (drift): Euclidean, of a client's model to the mean of all clients' models.")
    return " ".join(said)


def unfinished(records: Sequence[Record]) -> list[str]:
    """What to say of runs that stopped before their last round."""
    return [
        f"{r.label}, seed {views.seed(r)}: stopped after round {r.done} of {r.config.get('rounds', '?')}; "
        "its figures are those of the last scored round"
        for r in records
        if not r.finished
    ]
