"""The summary as a LaTeX table for a paper (booktabs), with the best of each column and its ties marked.

A tie is a method whose difference to the best, paired by client and seed, has a 95 % interval over seeds that
holds 0, corrected where seeds split the same rows anew (`metrics/summary.py`). So what is not marked is worse
by more than these seeds leave to chance; with one seed nobody can say so, and the best alone is marked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from coterie.metrics.summary import Interval, worst
from coterie.report import tables, views, words
from coterie.report.kinds import covers
from coterie.runs.record import Record

BEST, TIE = r"\textbf{{{}}}", r"{}$^{{\dagger}}$"
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
MARGIN = "worst_"
ROUNDING = 1e-12  # in a difference of means


def latex_table(records: Sequence[Record], name: str = "") -> str:
    """Needs the package booktabs. `name` says what the runs are of, in the caption."""
    by_label = views.groups(records)
    alike = same_clients(by_label, views.headline_metric(records))
    columns = columns_of(records)
    marks = {c: marked(by_label, c) if alike else {} for c in columns if c != "gain"}
    main, without_gain = views.headline_metric(records), tables.no_gains(by_label)
    lines = []
    for row in tables.summary_rows(records):
        cells = [escaped(row["method"])]
        for column in columns:
            metric = main if column in ("gain", f"{MARGIN}{main}") else column
            text = words.spread(tables.interval_in(row, column), metric, sign=column == "gain")
            text = without_gain.get(row["method"], text) if column == "gain" else text
            text = escaped(text.removesuffix(f" ± {words.NONE}"))
            cells.append(marks.get(column, {}).get(row["method"], "{}").format(text))
        lines.append("    " + " & ".join(cells) + r" \\")
    titles = {"gain": f"gain over {views.baseline(by_label)}", f"{MARGIN}{main}": "worst client"}
    header = ["method", *(titles.get(c) or words.unit(c) + arrow(records, c) for c in columns)]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{caption(records, name, alike)}}}",
            f"  \\begin{{tabular}}{{l{'r' * len(columns)}}}",
            r"    \toprule",
            "    " + " & ".join(map(escaped, header)) + r" \\",
            r"    \midrule",
            *lines,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def columns_of(records: Sequence[Record]) -> list[str]:
    """The headline's metric, its worst client, the gain over training alone, metrics of one's own, others."""
    main, own = views.headline_metric(records), views.own_metrics(records)
    several = len({r.label for r in records}) > 1
    gain = ["gain"] if several and views.baseline(views.groups(records)) is not None else []
    rest = [m for m in views.shown(records) if m not in (main, "brier", "ece")]
    return [main, f"{MARGIN}{main}", *gain, *sorted(rest, key=lambda m: m not in own)]


def arrow(records: Sequence[Record], metric: str) -> str:
    return "" if views.better_higher(records)[metric] else " ↓"


def same_clients(by_label: views.Groups, metric: str) -> bool:
    """Whether every method's figures are of the same clients and seeds, without which none is the best."""
    who = {tuple(views.with_figure(runs, metric)) for runs in by_label.values()}
    seeds = {tuple(map(views.seed, runs)) for runs in by_label.values()}
    return len(who) == len(seeds) == 1


def marked(by_label: views.Groups, column: str) -> dict[str, str]:
    """By label, how its figure is written: the best bold, ties with a dagger."""
    metric = column.removeprefix(MARGIN)
    higher = views.better_higher([r for runs in by_label.values() for r in runs])[metric]
    means = {label: each_seed(runs, column).mean() for label, runs in by_label.items()}
    known = {label: mean for label, mean in means.items() if math.isfinite(mean)}
    if len(known) < 2:
        return {}
    best = (max if higher else min)(known, key=lambda label: known[label])
    ties = [x for x in known if x != best and is_tie(difference(by_label[x], by_label[best], column))]
    same = [
        x for x in ties if abs(known[x] - known[best]) <= ROUNDING
    ]  # no worse at all: as good as the best
    return dict.fromkeys(ties, TIE) | dict.fromkeys([best, *same], BEST)


def each_seed(runs: Sequence[Record], column: str) -> np.ndarray:
    """[seed] the mean over clients, or the worst client's figure."""
    metric = column.removeprefix(MARGIN)
    finals = [views.final(r, metric) for r in runs]
    if column.startswith(MARGIN):
        return np.array([worst(list(f), views.better_higher(runs)[metric]) for f in finals])
    return np.array([np.nanmean(f) if np.isfinite(f).any() else math.nan for f in finals])


def difference(runs: Sequence[Record], best: Sequence[Record], column: str) -> Interval:
    """To the best, seed by seed, and for a mean over clients client by client."""
    if not column.startswith(MARGIN):
        return views.gain_over_seeds(runs, best, column)
    return views.over_splits(runs, list(each_seed(runs, column) - each_seed(best, column)))


def is_tie(gap: Interval) -> bool:
    """Whether what is known of a difference holds 0. Seeds that all agree have no interval, which proves
    nothing: a tie too. With one seed, of which no ties are told, only no difference at all is one.
    """
    return abs(gap.mean) <= ROUNDING or (gap.seeds > 1 and gap.side == 0)


def caption(records: Sequence[Record], name: str, alike: bool) -> str:
    """What the figures are, and by what rule they are marked."""
    by_label = views.groups(records)
    seeds = max(len(runs) for runs in by_label.values())
    said = [f"{name}." if name else "", f"Test figures of {words.several(len(records[0].clients), 'client')}"]
    said[1] += f", means over clients and {words.several(seeds, 'seed')}." if seeds > 1 else ", one seed."
    if seeds > 1:
        said.append(f"± is half of {covers(records)}.")
    if "gain" in columns_of(records):
        said.append(f"Gain: over {views.baseline(by_label)}, paired by client and seed.")
        if tables.BELOW in tables.no_gains(by_label).values():
            said[-1] += f" {tables.BELOW.capitalize()}: no better than always the same answer, so no gain."
    if len(by_label) > 1 and alike:
        said.append("Bold: the best of a column (↓: the lowest).")
        if seeds > 1:
            said.append("Dagger: a tie, the 95 % interval over seeds of its paired difference to the best")
            said[-1] += " holds 0. Also where all seeds agree, or test rows cannot tell the two apart."
        else:
            said.append("With one seed ties cannot be told.")
    elif len(by_label) > 1:
        said.append("Methods have figures of different clients or seeds, so none is marked as the best.")
    said += [f"Unfinished: {text}." for text in tables.unfinished(records)]
    return escaped(" ".join(filter(None, said))).replace("Dagger:", r"$^{\dagger}$:")


def escaped(text: str) -> str:
    """Text as LaTeX shows it, whatever signs a name has in it; line breaks become spaces."""
    return "".join(SIGNS.get(sign, sign) for sign in re.sub(r"[\r\n]+", " ", text))
