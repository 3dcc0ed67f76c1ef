"""The summary: one line a method, as plain numbers and as cells, and how to read it; on a terminal, with what
else there is to say of the runs below it, and in notebooks.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from coterie import features
from coterie.metrics.summary import Interval, means_of_known, worst
from coterie.metrics.table import NAMED
from coterie.report import clients, outcome
from coterie.report.learnable import below_nothing, beyond_nothing, first_sentence, nothing_in
from coterie.runs.about import COMMON, SEEING
from coterie.runs.record import Record
from coterie.show import numbers, parts, views
from coterie.show.blocks import Table
from coterie.show.intervals import covers, kind_of, overlap
from coterie.show.parts import Runs
from coterie.show.terminal import fitted, fitting, print_blocks, rich
from coterie.show.words import Saying, said, say, sentences

Cells = tuple[list[str], list[list[str]]]
COST = ("column.models", "column.traffic", "column.training")
MANY = 40  # methods that a notebook does not list any more


def summary_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The rows of `summary_frame`, all with the same columns."""
    by_label = views.groups(records)
    metrics, measured = views.metrics(records), views.metrics(records, views.MEASURED)
    main, own = views.headline_metric(records), views.own_metrics(records)
    alone = views.baseline(by_label)
    kind = kind_of(records)
    columns = features.entries("COLUMNS")
    rows = []
    for label, runs in by_label.items():
        scored = views.with_figure(runs, main)
        row: dict[str, Any] = {"method": label, "seeds": len(runs), "clients": len(runs[0].clients)}
        row |= {"scored": int(scored.sum()), "rounds": min(r.done for r in runs)}
        row |= {"finished": all(r.finished for r in runs), "interval": kind if len(runs) > 1 else "none"}
        row["overlap"] = overlap(runs, scored)
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
        cost = views.mean_traffic(runs)
        row |= {"sent": cost["sent"], "received": cost["received"]}
        row |= {"models": cost["models"], "models_each": cost["each"]}
        row |= {"bytes": cost["bytes"], "seconds": cost["seconds"]}
        rows.append(row | {name: of(runs) for name, of in columns.items()})
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


def cells(records: Sequence[Record], without: Sequence[str] = ("brier",)) -> Cells:
    """Header and rows as text: the method first, three of cost last, before these the further metrics."""
    summary = summary_rows(records)
    main = views.headline_metric(records)
    shown = [main, f"worst_{main}", *(["gain"] if "gain" in summary[0] else [])]
    own = views.own_metrics(records)
    rest = [m for m in views.metrics_to_show(records) if m != main and m not in without]
    shown += sorted(rest, key=lambda m: m not in own)
    titles = {f"worst_{main}": said("column.worst"), "gain": said("column.gain")}
    header = [said("column.method"), *(titles.get(name) or numbers.unit(name) for name in shown)]
    header += map(said, COST)
    rows, without_gain = [], no_gains(views.groups(records))
    for row in summary:
        line = [row["method"]]
        for name in shown:
            metric = name if name in NAMED or name in own else main
            found = interval_in(row, name)
            spread, bounds = (
                numbers.spread(found, metric, sign=name == "gain"),
                outcome.bounds_of_gain(found, metric),
            )
            cell = said("list.joined", one=spread, other=bounds) if bounds else spread
            line.append(without_gain.get(row["method"], cell) if name == "gain" else cell)
        line += [numbers.whole(row["models"]), numbers.size(row["bytes"]), numbers.duration(row["seconds"])]
        rows.append(line)
    return header, rows


def no_gains(by_label: views.Groups) -> dict[str, str]:
    """By method, what stands in the place of a gain over training alone where it is none: of a method that is
    no better than always the same answer, and of that itself.
    """
    metric = views.headline_metric([runs[0] for runs in by_label.values()])
    none, alone = nothing_in(by_label), views.baseline(by_label)
    below = [x for x, runs in by_label.items() if x != alone and below_nothing(by_label, runs, metric)]
    made: dict[str, str] = dict.fromkeys(below, said("summary.below"))
    return made if none is None else made | {none: numbers.NONE}


def measured_cells(records: Sequence[Record]) -> Cells:
    """The same of what was measured of collaboration, and the models that passed by client."""
    measured = views.metrics(records, views.MEASURED)
    found, rest = [m for m in measured if m != "drift"], [m for m in measured if m == "drift"]
    header = [said("column.method"), *map(numbers.unit, found), said("column.models_each")]
    header += map(numbers.unit, rest)
    rows = []
    for row in summary_rows(records):
        line = [row["method"], *(numbers.spread(interval_in(row, m), m) for m in found)]
        line.append(numbers.whole(row["models_each"]))
        rows.append([*line, *(numbers.spread(interval_in(row, m), m) for m in rest)])
    return header, rows


def interval_in(row: Mapping[str, Any], name: str) -> Interval:
    low, high = (row.get(f"{name}_{end}", math.nan) for end in ("low", "high"))
    return Interval(row[name], row[f"{name}_half"], row["seeds"], low, high)


def legend(records: Sequence[Record], trust: bool = True, without: Collection[str] = ()) -> str:
    """How to read the summary, in words; without `trust`, nothing on calibration, nor on columns that are
    left out.
    """
    by_label = views.groups(records)
    main, alone = views.headline_metric(records), views.baseline(by_label)
    one = all(len(runs) == 1 for runs in by_label.values())
    lines: list[str] = [said("summary.one_seed") if one else _seeds(records)]
    if "column.worst" not in without:
        lines.append(said("summary.worst" if one else "summary.worst_seeds"))
    if alone is not None and "column.gain" not in without:
        lines.append(said(f"summary.gain.{'points' if numbers.in_percent(main) else 'unit'}", alone=alone))
        lines += [said("summary.below_said")] if said("summary.below") in no_gains(by_label).values() else []
        lines += outcome.beside_legend(records)
    lines += [said("report.line", said=text) for text in outcome.partly(by_label, main)]
    if "column.models" not in without:
        lines.append(said("summary.models" if one else "summary.models_seeds"))
    lines += [said("summary.lower", metric=m) for m, up in views.own_metrics(records).items() if not up]
    if "sensitivity" in views.metrics(records) and "sensitivity" not in without:
        lines.append(said("summary.sensitivity", name=views.positive_name(records)))
    if trust and "ece" in views.metrics(records):
        lines.append(said("summary.trust"))
    return sentences(*lines)


def _seeds(records: Sequence[Record]) -> Saying:
    """What ± is, and where there is none."""
    by_label, main = views.groups(records), views.headline_metric(records)
    counts = sorted({len(runs) for runs in by_label.values()})
    seeds = str(counts[0]) if len(counts) == 1 else said("list.to", low=counts[0], high=counts[-1])
    several = [runs for runs in by_label.values() if len(runs) > 1]
    agree = any(math.isnan(views.over_seeds(runs, main).half) for runs in several)
    if counts[0] > 1 and not agree:
        return said("summary.seeds", n=seeds, covers=covers(records))
    why = "for_one_or_agree" if counts[0] == 1 and agree else "agree" if agree else "for_one"
    return said("summary.seeds_none", n=seeds, why=said(f"summary.{why}"), covers=covers(records))


def measures_legend(records: Sequence[Record], drift: bool = True) -> str:
    """What was measured, in words."""
    measured = views.metrics(records, views.MEASURED)
    asked = {"recall": "measures.precision", "circle_recall": "measures.circle"}
    asked |= {"drift": "measures.drift"} if drift else {}
    return sentences(*(said(key) for name, key in asked.items() if name in measured))


def unfinished(records: Sequence[Record]) -> list[Saying]:
    """What to say of runs that stopped before their last round."""
    lines = []
    for r in (r for r in records if not r.finished):
        of = r.config.get("rounds", "?")
        lines.append(said("summary.stopped", method=r.label, seed=views.seed(r), done=r.done, of=of))
    return lines


# on a terminal, and in a notebook


def render_table(records: Sequence[Record], width: int | None = None) -> RichTable:
    """The summary; what `width` has no room for is left out, the least important first. Where accuracy is
    blind, what sees stays.
    """
    header, rows = cells(records)
    gain, worst, cost = said("column.gain"), said("column.worst"), list(map(said, COST))
    seeing = [title for title in map(numbers.unit, seeing_metrics(records)) if title in header]
    every, least = len(header), 1 + len(seeing) if seeing else 3 if gain in header else 2
    first = [*seeing, header[1], gain, *views.own_metrics(records), worst, *cost]
    order = [header[0], *(h for h in first if h in header), *(h for h in header[1:] if h not in first)]
    kept, rows = fitted(header, rows, order, least, width)
    known = {say.again(title) for title in kept}
    gone = {text.key for text in (gain, worst, *cost) if say.again(text) not in known}
    gone |= set() if say.again(numbers.unit("sensitivity")) in known else {"sensitivity"}
    notes = [legend(records, trust="ECE" in kept, without=gone)]
    notes += [said("report.unfinished", text=text) for text in unfinished(records)]
    notes += [said("summary.wider")] if len(kept) < every else []
    return rich(kept, rows, notes)


def seeing_metrics(records: Sequence[Record]) -> tuple[str, ...]:
    """What tells models apart where one class is common at some client, or nobody knows whether it is: AUC,
    and what ways are compared by then. Nothing where accuracy does.
    """
    if views.task(records[0]) != "classification":
        return ()
    counts = [(client.get("labels") or [()])[0] for r in records for client in r.about["clients"]]
    seen = all(sum(rows) and max(rows) < COMMON * sum(rows) for rows in counts)
    return () if seen else ("auc", SEEING)


def print_table(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints the summary and what belongs to it, as wide as the console allows."""
    console = console or Console()
    console.print(render_table(records, console.width))
    if text := clients.leaks_line(records):
        console.print(Text(text, style="bold"))
    if text := clients.small_samples_line(records):
        console.print(Text(say.again(text), style="dim"))
    if "recall" in views.metrics(records, views.MEASURED):  # measured against true groups
        short, long = (measures_legend(records, drift=drift) for drift in (False, True))
        console.print()
        console.print(fitting(*measured_cells(records), long, short, console.width))
    print_blocks(parts.blocks("screen", Runs("", records)), console)


def render_listening(records: Sequence[Record], labels: Sequence[str], width: int) -> RichTable:
    """For each client whom it listens to most, by each of these methods; those of a cell go one below the
    other where they do not fit side by side.
    """
    by_label = views.groups(records)
    found = [clients.listened(by_label[label]) for label in labels]
    for between in (", ", "\n"):
        texts = [[between.join(line) or "nobody" for line in column] for column in found]
        columns = [["client", *records[0].clients]]
        columns += [[label, *column] for label, column in zip(labels, texts, strict=True)]
        wide = sum(max(cell_len(part) for cell in c for part in cell.split("\n")) + 2 for c in columns)
        if wide <= width:
            break
    titles = (escape(column[0]) for column in columns)
    table = RichTable(*titles, box=None, header_style="bold", pad_edge=False)
    for row in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    return table


def summary_html(records: Sequence[Record]) -> str:
    """The summary as an HTML table by itself, without ECE, which the page has a part of its own for."""
    from coterie.show.html import table_html  # templates are read only where there is a page

    return table_html(Table(*cells(records, without=("brier", "ece"))))


def runs_html(kind: str, records: Sequence[Record]) -> str:
    """Runs as what came out in one sentence, and the summary."""
    many = len(views.groups(records))
    table = summary_html(records) if many <= MANY else ""
    more = f"<p>{numbers.several(many, 'method')}: .summary() has them all</p>" if not table else ""
    first = f"<p>{html.escape(leaking)}</p>" if (leaking := clients.leaks_line(records)) else ""
    said = f"{first_sentence(records)} {outcome.headline(records)}"
    return f"<div><p><b>{kind}</b> {html.escape(said)}</p>{first}{table}{more}</div>"


def lines_html(kind: str, lines: Sequence[str]) -> str:
    """What there is to say of a thing, line by line."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<div><p><b>{html.escape(kind)}</b></p><ul>{items}</ul></div>"
