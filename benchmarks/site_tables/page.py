"""docs/results/tables.md, written from the CSV and the catalogue alone."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from . import ours, peers
from .catalogue import OWN, TABLES
from .judging import LINEAR_ALONE, LINEAR_WITH_SITE, Figures, Pair, Statement, mean_of, statements
from .scoring import HEADLINE, HIGHER, MEASURES

CALLED = {"nll": "log loss", "rmse": "RMSE", "concordance": "concordance", "auc": "AUC"}
TASKS = ("regression", "classification", "survival")
SAYS = {
    "better": "better: there is something to gain that partial pooling does not find, or not in every split",
    "within noise": "within noise too: these rows show no gain by others, or too few of them are tested on",
    "worse": "worse: sites are too unlike for one slope, and staying near oneself is right",
}


def shown(value: float, measure: str) -> str:
    if value != value:
        return "—"
    return f"{value:.4g}" if measure == "rmse" else f"{value:.3f}"


def lines(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """A table whose first columns are texts, the others numbers."""
    rule = "| --- " * texts + "| ---: " * (len(header) - texts) + "|"
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(header) + " |", rule, *body])


def figures_of(figures: Figures, task: str, measure: str) -> str:
    """A row for each contender, a column for each table; its best is bold, — has no figure. Means of fewer
    splits than others have say so, and are never the best.
    """
    tables = [t for t in figures.tables if HEADLINE[task] == figures.measure(t)]
    columns = []
    for table in tables:
        found = [figures.by_split(table, c, measure) for c in figures.contenders]
        most = max(map(len, found))
        whole = [mean_of(values) for values in found if most and len(values) == most]
        if not whole:
            continue
        best = max(whole) if measure in HIGHER else min(whole)
        column = [table]
        for values in found:
            text, fewer = shown(mean_of(values), measure), 0 < len(values) < most
            bold = len(values) == most and mean_of(values) == best
            column.append(f"{text} ({len(values)} of {most})" if fewer else f"**{text}**" if bold else text)
        columns.append(column)
    if not columns:
        return ""
    header, *rows = zip(
        ["", *(f"`{c}`" if c in ours.CONTENDERS else c for c in figures.contenders)], *columns, strict=True
    )
    return lines(header, rows, 1)


def pair_line(pair: Pair, figures: Figures) -> list[str]:
    measure, found = figures.measure(pair.table), pair.difference
    sign = "+" if found.mean > 0 else ""
    return [
        pair.table,
        CALLED[measure],
        f"{pair.first} {shown(pair.first_mean, measure)}",
        f"{pair.second} {shown(pair.second_mean, measure)}",
        f"{sign}{shown(found.mean, measure)} ± {shown(found.half, measure)}",
        pair.verdict,
    ]


def statement_part(statement: Statement, figures: Figures) -> str:
    verdicts = ("better", "within noise", "worse", "failed", "unknown")
    counts = [f"{v} on {statement.count(v)}" for v in verdicts if statement.count(v)]
    header = ["table", "measure", "first", "second", "gain of the first", "verdict"]
    body = lines(header, [pair_line(pair, figures) for pair in statement.pairs], 4)
    return f"### {statement.claim}\n{', '.join(counts)} of {len(statement.pairs)} tables.\n\n{body}\n"


def why_not(figures: Figures) -> str:
    """Of tables on which partial pooling is not clearly better than training alone: whether anybody's linear
    model gains by rows of other sites there.
    """
    undecided = [p.table for p in figures.pairs(["partial"], ["local"]) if p.verdict != "better"]
    others = [figures.pair(t, LINEAR_WITH_SITE, LINEAR_ALONE) for t in undecided]
    groups = {verdict: [p.table for p in others if p.verdict == verdict] for verdict in SAYS}
    said = [f"- {text}: {', '.join(groups[v])}." for v, text in SAYS.items() if groups[v]]
    head = (
        "Where partial pooling is not better than training alone by more than noise, scikit-learn's linear "
        "model\nof all rows with the site as a column, beside its model of each site, is\n\n"
    )
    return head + "\n".join(said)


def about_tables(rows: pd.DataFrame) -> str:
    """Where each comes from and what of it is used."""
    found = []
    for name in dict.fromkeys(rows["table"]):
        table, used = TABLES[name], rows[rows["table"] == name].iloc[0]
        source = "Coterie's data" if table.package == OWN else f"`{table.package}`, {table.file}"
        left = table.rows - int(used["train_rows"] + used["test_rows"])
        small = f"{left} rows without target or site, or of small sites" if left else ""
        said = ". ".join(text for text in (small, table.left_out) if text)
        found.append(
            [
                name,
                f"{table.sites} ({table.site})",
                table.target,
                source,
                table.cited,
                said or "—",
                *(
                    str(int(v))
                    for v in (used["train_rows"] + used["test_rows"], used["sites"], used["inputs"])
                ),
            ]
        )
    header = ["table", "sites", "target", "file", "cited", "left out", "rows", "sites", "inputs"]
    return lines(header, found, 6)


def failures(rows: pd.DataFrame) -> str:
    """What ended with an error, in its words."""
    failed = rows[rows["said"].notna()]
    if failed.empty:
        return ""
    grouped = failed.groupby(["contender", "table"], sort=False)
    said = [f"- {c} on {t}, {len(g)} of its splits: {g['said'].iloc[0]}" for (c, t), g in grouped]
    return "\n## What did not end\n" + "\n".join(said) + "\n"


def page(rows: pd.DataFrame, command: str) -> str:
    figures = Figures(rows)
    absent = [c for c in ours.CONTENDERS if c not in figures.contenders]
    parts = []
    for task in TASKS:
        for measure in MEASURES[task]:
            if text := figures_of(figures, task, measure):
                parts.append(f"### {task.capitalize()}: {CALLED.get(measure, measure)}\n{text}\n")
    ours_run = rows[rows["contender"].isin(ours.CONTENDERS)]
    texts = {
        "command": command,
        "tables": len(figures.tables),
        "splits": rows["split"].nunique(),
        "commit": ", ".join(dict.fromkeys(ours_run["commit"].astype(str))) or "none",
        "survival": peers.SURVIVAL,
        "absent": f"\nNot run: {', '.join(absent)}.\n" if absent else "",
        "statements": "\n".join(statement_part(s, figures) for s in statements(figures).values()),
        "why_not": why_not(figures),
        "figures": "\n".join(parts),
        "about": about_tables(rows),
        "failures": failures(rows),
    }
    return PAGE.format(**texts)


PAGE = """# Real tables of several sites, beside scikit-learn
{tables} tables, {splits} random splits of each site's rows into 70 % to train and 30 % to test on (by class,
or by whether the event was seen; rows of one person on one side), the same rows and columns for all.
[CSV](tables.csv); `{command}`; split k is dealt by seed k and is Coterie's seed, commit {commit}.
{absent}
Figures are means over sites, each counting once (the CSV also has them weighted by rows), then over splits.
Differences are paired over splits; ± is a 95 % interval corrected for the rows that splits share (Nadeau and
Bengio, 2003), and what holds 0 is noise. "Best of" is picked on the same test rows that it is judged on, so
that it flatters whichever side has more to pick from. About one in twenty verdicts is chance.

## What is asked
{statements}
{why_not}

## Figures
Above Coterie's methods, which run by `coterie.compare` as they come: scikit-learn. *trivial* is the site's
mean, rate (each class counts one row more) or one risk for all; *linear* RidgeCV, LogisticRegressionCV or
Cox's regression ({survival}), standardised, strength by cross-validation within the training rows
(a site of which a class has a single row gets a fixed strong penalty, one of a single class its rates);
*trees* gradient boosting, their number by cross-validation; each *alone*, *pooled*, and *pooled+site* with
the site as inputs. A class of which a site has no training row gets the chance of one row more. Folds of
scikit-learn's side keep rows of one person together; arrays do not tell Coterie of persons. `ditto`'s default
pull was picked of five by test rows of splits 0 and 1 of eight of these tables. — is no figure.

{figures}{failures}
## The tables
Missing values are the median, or most frequent value, of the site's training rows; numbers are scaled by all
sites' training rows; categories are one input for each value; a column of which a site has no value is the
others' mean with an input that says so. Sites with fewer than 20 rows (lung: 15), and those with fewer than
three rows of a second class, or three events, are left out.

{about}
"""
