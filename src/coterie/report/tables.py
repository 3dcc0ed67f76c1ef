"""Runs as tables for other programs: frames of pandas, CSV files, and LaTeX for a paper (booktabs).

In LaTeX the best of each column and its ties are marked. A tie is a method whose difference to the best,
paired by client and seed, has a 95 % interval over seeds that holds 0, corrected where seeds split the same
rows anew (`metrics/summary.py`). So what is not marked is worse by more than these seeds leave to chance;
with one seed nobody can say so, and the best alone is marked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coterie import features
from coterie.metrics.summary import Interval, worst
from coterie.report import summary
from coterie.report.curves import label_options
from coterie.runs.record import Record
from coterie.show import numbers, views
from coterie.show.intervals import covers
from coterie.show.words import said, say, sentences
from coterie.storage.atomic import replace_atomically, write_whole

if TYPE_CHECKING:
    import pandas as pd

BEST, TIE = r"\textbf{{{}}}", r"{}$^{{\dagger}}$"
DAGGER = "\N{DAGGER}"
MARGIN = "worst_"
ROUNDING = 1e-12  # in a difference of means


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

    return pd.DataFrame(summary.summary_rows(records))


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
        "history.csv": _together(records, Record.history),
        "summary.csv": summary_frame(records),
        "clients.csv": clients_frame(records),
        "collaboration.csv": _together(records, Record.collaboration),
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


# LaTeX


def latex_table(records: Sequence[Record], name: str = "") -> str:
    """Needs the package booktabs. `name` says what the runs are of, in the caption."""
    by_label = views.groups(records)
    main, without_gain = views.headline_metric(records), summary.no_gains(by_label)
    # without the same clients and seeds in every method's figures none is the best
    who = {tuple(views.with_figure(runs, main)) for runs in by_label.values()}
    seeds = {tuple(map(views.seed, runs)) for runs in by_label.values()}
    alike = len(who) == len(seeds) == 1
    columns = _columns_of(records)
    marks = {c: _marked(by_label, c) if alike else {} for c in columns if c != "gain"}
    rows = []
    for row in summary.summary_rows(records):
        cells = [escaped(row["method"])]
        for column in columns:
            metric = main if column in ("gain", f"{MARGIN}{main}") else column
            text: str = numbers.spread(summary.interval_in(row, column), metric, sign=column == "gain")
            text = without_gain.get(row["method"], text) if column == "gain" else text
            text = escaped(say.again(text).removesuffix(f" ± {numbers.NONE}"))
            cells.append(marks.get(column, {}).get(row["method"], "{}").format(text))
        rows.append(cells)
    gain = said("latex.gain", alone=views.baseline(by_label) or "")
    titles: dict[str, str] = {"gain": gain, f"{MARGIN}{main}": said("column.worst")}
    for metric in (c for c in columns if c not in titles):  # with an arrow where lower is better
        unit, higher = numbers.unit(metric), views.better_higher(records)[metric]
        titles[metric] = unit if higher else said("latex.lower", metric=unit)
    header: list[str] = [said("column.method"), *(titles[c] for c in columns)]
    return _booktabs(header, rows, _caption(records, name, alike))


def _columns_of(records: Sequence[Record]) -> list[str]:
    """The headline's metric, its worst client, the gain over training alone, metrics of one's own, others."""
    main, own = views.headline_metric(records), views.own_metrics(records)
    several = len({r.label for r in records}) > 1
    gain = ["gain"] if several and views.baseline(views.groups(records)) is not None else []
    rest = [m for m in views.metrics_to_show(records) if m not in (main, "brier", "ece")]
    return [main, f"{MARGIN}{main}", *gain, *sorted(rest, key=lambda m: m not in own)]


def _marked(by_label: views.Groups, column: str) -> dict[str, str]:
    """By label, how its figure is written: the best bold, ties with a dagger."""
    metric = column.removeprefix(MARGIN)
    higher = views.better_higher([r for runs in by_label.values() for r in runs])[metric]
    means = {label: _each_seed(runs, column).mean() for label, runs in by_label.items()}
    known = {label: mean for label, mean in means.items() if math.isfinite(mean)}
    if len(known) < 2:
        return {}
    best = (max if higher else min)(known, key=lambda label: known[label])
    ties = [x for x in known if x != best and is_tie(_difference(by_label[x], by_label[best], column))]
    same = [x for x in ties if abs(known[x] - known[best]) <= ROUNDING]  # no worse: as good as the best
    return dict.fromkeys(ties, TIE) | dict.fromkeys([best, *same], BEST)


def _each_seed(runs: Sequence[Record], column: str) -> np.ndarray:
    """[seed] the mean over clients, or the worst client's figure."""
    metric = column.removeprefix(MARGIN)
    finals = [views.final(r, metric) for r in runs]
    if column.startswith(MARGIN):
        return np.array([worst(list(f), views.better_higher(runs)[metric]) for f in finals])
    return np.array([np.nanmean(f) if np.isfinite(f).any() else math.nan for f in finals])


def _difference(runs: Sequence[Record], best: Sequence[Record], column: str) -> Interval:
    """To the best, seed by seed, and for a mean over clients client by client."""
    if not column.startswith(MARGIN):
        return views.gain_over_seeds(runs, best, column)
    return views.over_splits(runs, list(_each_seed(runs, column) - _each_seed(best, column)))


def is_tie(gap: Interval) -> bool:
    """Whether what is known of a difference holds 0. Seeds that all agree have no interval, which proves
    nothing: a tie too. With one seed, of which no ties are told, only no difference at all is one.
    """
    return abs(gap.mean) <= ROUNDING or (gap.seeds > 1 and gap.side == 0)


def _caption(records: Sequence[Record], name: str, alike: bool) -> str:
    """What the figures are, and by what rule they are marked."""
    by_label = views.groups(records)
    seeds = max(len(runs) for runs in by_label.values())
    clients = numbers.several(len(records[0].clients), "client")
    text: list[str] = [said("report.line", said=name)] if name else []
    if seeds > 1:
        text.append(said("latex.means", clients=clients, seeds=numbers.several(seeds, "seed")))
        text.append(said("latex.half", covers=covers(records)))
    else:
        text.append(said("latex.one_seed", clients=clients))
    if "gain" in _columns_of(records):
        text.append(said("latex.gain_said", alone=views.baseline(by_label) or ""))
        below = said("summary.below") in summary.no_gains(by_label).values()
        text += [said("summary.below_said")] if below else []
    if len(by_label) > 1 and alike:
        ties = said("latex.dagger", mark=DAGGER) if seeds > 1 else said("latex.no_ties")
        text += [said("latex.bold"), ties]
    elif len(by_label) > 1:
        text.append(said("latex.unlike"))
    text += [said("report.unfinished", text=line) for line in summary.unfinished(records)]
    return escaped(sentences(*text)).replace(DAGGER, r"$^{\dagger}$")


SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "−": "$-$",
    "—": "---",
    "²": "$^2$",
    "∞": r"$\infty$",
    "ε": r"$\varepsilon$",
    "\u202f": r"\,",
    "\u00a0": "~",
    "…": r"\ldots{}",
    "↓": r"$\downarrow$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
}


def _booktabs(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Header and caption are texts, rows are LaTeX already."""
    body = "\n".join(f"    {' & '.join(row)} \\\\" for row in rows)
    return rf"""\begin{{table}}
  \centering
  \caption{{{caption}}}
  \begin{{tabular}}{{l{"r" * (len(header) - 1)}}}
    \toprule
    {" & ".join(map(escaped, header))} \\
    \midrule
{body}
    \bottomrule
  \end{{tabular}}
\end{{table}}
"""


def escaped(text: str) -> str:
    """Text as LaTeX shows it, whatever signs a name has in it; line breaks become spaces."""
    return "".join(SIGNS.get(sign, sign) for sign in re.sub(r"[\r\n]+", " ", say.again(text)))
