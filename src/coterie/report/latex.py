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
from coterie.report import summary
from coterie.runs.record import Record
from coterie.show import numbers, views
from coterie.show.intervals import covers
from coterie.show.words import said, say, sentences

BEST, TIE = r"\textbf{{{}}}", r"{}$^{{\dagger}}$"
DAGGER = "\N{DAGGER}"
MARGIN = "worst_"
ROUNDING = 1e-12  # in a difference of means


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
