"""coterie table inspect"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, subcommands, word
from coterie.core.errors import BadInput
from coterie.data.tables.inspect import Inspection, Seen, inspect, status
from coterie.data.tables.recipe_file import write_recipe
from coterie.data.tables.texts import some

COMMANDS = {"table": ("tables", 10, "look at tables of your own, all sites at once, and write a recipe")}
HELP = """Tables of your own.

usage: coterie table inspect FILE... [--target COLUMN] [--event COLUMN] [--site COLUMN] [--out recipe.toml]

examples:
  coterie table inspect north.csv south.csv --target ill
  coterie table inspect all.xlsx --target ill --site hospital --out my.toml
"""

ABOUT = """Looks at tables (CSV, TSV, Excel, Parquet) all at once, and writes a recipe: how they are read.

One file a site, or one file with a column that says whose a row is. The recipe is for you to edit;
coterie run --recipe FILE follows it. Nothing leaves this machine.

examples:
  coterie table inspect north.csv south.csv --target ill
  coterie table inspect all.xlsx --target ill --site hospital --out my.toml
  coterie table inspect north.csv south.csv --target days --event died
"""
LETTERS = "+ has it   n other name   w other words   u other unit   0 empty   - absent"
WIDTH = 80


@dataclass(frozen=True)
class _Asked:
    files: tuple[str, ...] = word("One file for each site, or one with --site.", "FILE...")
    target: str = flag("", "The column to predict; it is needed to find leaks.")
    event: str = flag("", "The column that says whether the event was seen; the target is then a time.")
    site: str = flag("", "The column that says whose a row is.")
    out: str = flag("recipe.toml", "The recipe to write.")


@command_with(Flags(_Asked, "table inspect", ABOUT))
def _inspect(asked: _Asked) -> None:
    out = Path(asked.out)
    if out.exists():
        raise BadInput(f"{out} exists: give another with --out, or remove it first")
    with screen.stages(*asked.files) as show:
        home = out.parent.resolve()
        seen = inspect(asked.files, asked.target, asked.site, home=home, event=asked.event, show=show)
    write_recipe(out, seen.recipe)
    for line in summary(seen):
        screen.out.print(line)
    print(f"recipe: {out}")
    if asked.target:
        print(f"next: edit it, then coterie run --recipe {shlex.quote(str(out))}")
    else:
        print('next: write target = "COLUMN" into it, or inspect again with --target')


table = subcommands("table", HELP, {"inspect": _inspect})


def summary(seen: Inspection) -> list[Table | str]:
    """Within 80 columns: sites, the matrix of columns by site, what will be done, what is asked."""
    lines: list[Table | str] = [_sites_table(seen), "", *_matrix(seen), ""]
    used = [
        s for s in seen.columns if s.rule.read and s.rule.name not in (seen.recipe.target, seen.recipe.event)
    ]
    out = [s for s in seen.columns if not s.rule.read]
    rules = seen.recipe
    lines.append(
        f"{len(used)} inputs; missing: {rules.missing}, scale: {rules.scale}, absent columns: {rules.absent}"
    )
    if out:
        lines.append(f"left out: {escape(some([f'{s.rule.name} ({s.kind})' for s in out], 20))}")
    if seen.says:
        lines += ["", f"done, and why ({len(seen.says)}):", *(f"· {escape(line)}" for line in seen.says)]
    if seen.asks:
        lines += ["", f"questions for you ({len(seen.asks)}):", *(f"? {escape(line)}" for line in seen.asks)]
    return [*lines, ""]


def _sites_table(seen: Inspection) -> Table:
    recipe = seen.recipe
    classes = list(recipe.rule(recipe.event).values if recipe.event else recipe.classes)[:6]
    found = Table("site", "rows", *map(escape, classes), box=None, header_style="bold")
    for site, rows in seen.rows.items():
        counts: Mapping[str, int] = seen.classes.get(site, {})
        found.add_row(escape(site), str(rows), *(str(counts.get(c, 0)) for c in classes))
    return found


def _matrix(seen: Inspection) -> list[Table | str]:
    """Columns by site, a letter each; sites by number where their names do not fit."""
    sites = list(seen.rows)
    longest = max(len(s.rule.name) for s in seen.columns)
    fits = min(longest, 30) + 24 + sum(len(s) + 2 for s in sites) <= WIDTH
    heads = sites if fits else [str(i + 1) for i in range(len(sites))]
    many = 4 * len(sites) > WIDTH - 54 and not fits
    found = Table(
        "column",
        "used as",
        "missing, at most",
        *([] if many else map(escape, heads)),
        box=None,
        header_style="bold",
    )
    goals = {seen.recipe.event: "event", seen.recipe.target: "target"}
    for column in seen.columns:
        letters = [status(column.rule, column, s) for s in sites]
        use = column.rule.use + (f" {column.rule.unit}" if column.rule.unit else "")
        found.add_row(
            escape(_cut(column.rule.name, 30)),
            escape(goals.get(column.rule.name, _cut(use, 14))),
            share(column),
            *([] if many else letters),
        )
    if many:
        return [found, f"{len(sites)} sites: too many for a matrix; who lacks what is in the recipe"]
    numbered = [] if fits else [escape(f"sites: {', '.join(f'{i + 1} {s}' for i, s in enumerate(sites))}")]
    return [found, *numbered, LETTERS]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def share(column: Seen) -> str:
    """Of the cells of sites that have it."""
    gaps = [g for g in column.gaps.values() if g < 1]
    worst = max(gaps, default=0.0)
    return f"{100 * worst:.0f} %" if worst else ""
