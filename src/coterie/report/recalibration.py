"""What the models that a run leaves for use do to their probabilities, or why nothing; its scores stay those
of the models themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from coterie.metrics.recalibration import Recalibrated, Recalibration
from coterie.report import page_tables, views, words
from coterie.report.inks import Ink
from coterie.runs.record import Record

FEW = 3  # clients that are named in a line
HEADER = ["client", "recalibrated by", "slope", "intercept", "fitted to", "NLL before", "NLL after"]
LEGEND = (
    "What is done to the probabilities of the models in use (predict, export): p′ = softmax(slope · outputs "
    "+ intercepts), fitted to rows that training had not seen, and only where it makes the log loss of folds "
    "that it was not fitted to clearly smaller. NLL: on each client's own test rows, which had no part in "
    "it. All other figures are of the models themselves."
)


def known(records: Sequence[Record]) -> list[tuple[Record, Mapping[str, Recalibrated]]]:
    """The runs whose models are for use."""
    return [(r, each) for r in records if (each := r.recalibration())]


def line(records: Sequence[Record]) -> str:
    """For a terminal; nothing where no run's models are for use, or several runs are shown."""
    found = known(records)
    if len(found) != 1:
        return ""
    _, each = found[0]
    changed = [name for name, one in each.items() if one.found]
    whys: dict[str, list[str]] = {}
    for name, one in each.items():
        if one.found is None:
            whys.setdefault(one.why, []).append(name)
    parts = []
    if changed:
        source = next(one.found.source for one in each.values() if one.found)
        parts.append(f"recalibrated for {named(changed)} (logistic, by {source})")
    parts += [f"left as they are for {named(names)} ({why})" for why, names in whys.items()]
    return f"Probabilities in use: {'; '.join(parts)}."


def named(names: Sequence[str]) -> str:
    rest = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + rest


def part(by_label: views.Groups, inks: Mapping[str, Ink]) -> str:
    """The table for a page; nothing where models are only compared."""
    made = ""
    for label, runs in by_label.items():
        for _, each in known(runs):
            rows = [[escape(n), *map(escape, cells(one, one.found))] for n, one in each.items() if one.found]
            made += f"<h3>{page_tables.swatch(label, inks)}: probabilities in use</h3>"
            made += page_tables.table(HEADER, rows, "figures") if rows else ""
            lines = [
                f"<li><b>{escape(n)}</b>: {escape(o.words())}</li>" for n, o in each.items() if not o.found
            ]
            made += f"<ul>{''.join(lines)}</ul>" if lines else ""
    return f"{made}<p>{escape(LEGEND)}</p>" if made else ""


def cells(one: Recalibrated, found: Recalibration) -> list[str]:
    two = len(found.intercepts) == 2
    own = found.intercepts[1] - found.intercepts[0] if two else None
    before, after = one.test.get("nll", (float("nan"),) * 2)
    return [
        found.kind,
        f"{found.slope:.3f}",
        words.NONE if own is None else f"{own:+.3f}".replace("-", "−"),
        f"{found.rows} rows ({found.source})",
        words.figure(before, "nll"),
        words.figure(after, "nll"),
    ]
