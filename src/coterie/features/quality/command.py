"""coterie check"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from coterie.cli import screen
from coterie.cli.command import by_flag, command_with
from coterie.cli.flags import Given, SettingsFlags
from coterie.cli.report import read_sections
from coterie.cli.run import LANGUAGE, OUT, fresh, out_of, spoken
from coterie.core.errors import BadInput, Gathered
from coterie.core.options import Option
from coterie.core.seeds import Key
from coterie.data.dataset import some_of
from coterie.data.quality.check import ALL_SITES
from coterie.data.quality.checks import CHECKS, Quality, check_names, checked
from coterie.data.quality.ranges import Ranges, read_ranges
from coterie.data.quality.site_rows import dealt_rows
from coterie.data.quality.worth import worth
from coterie.engines.threads import narrow
from coterie.features.quality.shown import (
    FILE,
    PAGE,
    columns,
    finding_texts,
    headline,
    worth_cells,
    write_quality,
)
from coterie.report.page import write_report
from coterie.runs.about import command_line, origin
from coterie.runs.compare import read_records
from coterie.runs.settings import Settings, from_table
from coterie.show.words import said, say
from coterie.storage.paths import given_path

COMMANDS = {
    "check": ("tables", 20, "look for mistakes in the data: units, impossible values, copies, gaps, labels"),
}
LIST = "\n".join(f"  {name:<12} {check.about}" for name, check in CHECKS.items())
HELP = f"""Looks at tables before anything is trained on them, and says what to look at. Advice, never a gate:
nothing is changed or refused for it, and it ends with 0 whatever it finds.

{LIST}

Writes quality.json and quality.html, which name rows: they are for the sites' own eyes. With --run the data
of a run or a comparison is looked at, and its report gets a part of it, without rows. With --net federation
sites look at home, and tell counts and 19 quantiles a column; their rows stay. --worth says what columns that
a client lacks bring those that record them.

examples:
  coterie check --recipe recipe.toml
  coterie check --data heart-disease --checks units ranges
  coterie check --run runs/ours
  coterie check --data heart-disease --heart-disease.sparse-columns --worth --requester switzerland
  coterie check --net federation --federation.kit ward/people/lead
"""
SETTINGS = ("data", "rows", "split", "clients", "seed", "deal", "net", "plugins")
RUN = "The folder of a run or a comparison, whose data are looked at and whose report gets it."
OWN = [
    Option("run", str, "", RUN),
    Option("checks", tuple[str, ...], tuple(CHECKS), "Which checks to do; by default all."),
    Option("ranges", str, "", "A TOML file with bounds of your own, beside Coterie's (docs/quality.md)."),
    Option("worth", bool, False, "Say what columns that the requester lacks bring clients that record them."),
    Option("requester", str, "", "The client that asks, with --worth."),
    OUT,
    LANGUAGE,
]
FEW = 8  # findings of a site on the screen


@command_with(SettingsFlags("check", HELP, OWN, only=SETTINGS))
@spoken
@narrow()
def check(given: Given) -> int:
    settings, extra, words = given
    names, bounds, settings, run = _asked(settings, extra, words)
    settings, out = settings.resolved(), out_of(extra)
    quality = _check_quality(settings, names, bounds, extra["requester"] if extra["worth"] else "")
    about = {k: getattr(settings, k) for k in ("data", "split", "clients", "seed", "net")}
    about |= {"checks": list(names), "command": command_line(), **origin()}
    table = replace(quality, about=about).to_dict()
    place = run or out or fresh(f"check-{settings.data}-{settings.split}-seed{settings.seed}")
    write_quality(place, table)
    _show(table)
    print(f"quality: {place / FILE}")
    print(f"page: {place / PAGE}")
    if run is not None:
        print(f"report: {write_report(run / 'report.html', read_sections(run))}")
    return 0


def _asked(
    settings: Settings, extra: Mapping[str, Any], words: Sequence[str]
) -> tuple[tuple[str, ...], Ranges, Settings, Path | None]:
    """Checks, bounds, settings of the data and the run that has them; all that is wrong is said at once."""
    wrong, names, run = Gathered(), tuple[str, ...](), None
    bounds: Ranges = {}
    with wrong.one():
        names = check_names(extra["checks"])
    with wrong.one():
        bounds = read_ranges(given_path(extra["ranges"], "--ranges") if extra["ranges"] else None)
    if extra["worth"] and not extra["requester"]:
        wrong.add("--worth is for one client: say which, --requester NAME")
    if extra["requester"] and not extra["worth"]:
        wrong.add(f"--requester {extra['requester']} asks with --worth alone: add it, or leave it out")
    if extra["run"]:
        others = {f"--{name}" for name in (*SETTINGS, "out", "recipe", "config")}
        own = [flag for flag, _ in by_flag(words) if flag in others or "." in flag]
        if own:
            wrong.add(f"{own[0]} beside --run, which has its own data and place: leave it out")
        with wrong.one():
            run = given_path(extra["run"], "--run")
    wrong.refuse()
    if run is not None:
        settings = _settings_of(run)
    if settings.made("net").meets:
        if extra["worth"]:
            wrong.add("--worth needs rows of all sites at hand, and these stay at theirs: leave it out")
        if extra["ranges"]:
            wrong.add("--ranges cannot be told to sites of a federation, which look at home: leave it out")
    elif run is None and not settings.connector.here:
        wrong.add(f"--net {settings.net} moves models, and a check has none: leave it out")
    wrong.refuse()
    return names, bounds, settings, run


def _settings_of(run: Path) -> Settings:
    """Those of a run, or of the first of a comparison's, that say which data it has."""
    config = read_records(run)[0].config
    if "given" in config:
        raise BadInput(f"{run} was started from Python, which alone has its data: use coterie.check there")
    whole = from_table(config, str(run))
    parts = {name: getattr(whole, name) for name in SETTINGS}
    kept = (whole.data, whole.split, whole.net)
    return Settings(**parts, options={k: v for k, v in whole.options.items() if k in kept})


def _check_quality(settings: Settings, names: Sequence[str], bounds: Ranges, requester: str) -> Quality:
    net = settings.made("net")
    if net.meets:
        from coterie.federation.data.quality import ask_sites

        return ask_sites(net, names)
    key, split = Key(settings.dealt_by).at("data"), settings.made("split")
    data = some_of(settings.made("data").load(), settings.rows, key)
    sites, said = dealt_rows(data, split, settings.clients, key)
    brings, notes = worth(sites, requester, settings.seed) if requester else ([], [])
    quality = checked(sites, bounds, names, settings.seed)
    return replace(quality, worth=tuple(brings), notes=(*said, *quality.notes, *notes))


# what people see


def _show(table: Mapping[str, Any]) -> None:
    """Short, worst first, by site."""
    screen.out.print(f"[bold]{escape(say.again(headline(table)))}[/bold]")
    places = [(site["site"], site["rows"]) for site in table["sites"]]
    if any(f["site"] == ALL_SITES for f in table["findings"]):
        places.append((ALL_SITES, sum(rows for _, rows in places)))
    for site, rows in places:
        mine = [f for f in table["findings"] if f["site"] == site]
        heading = said("quality.rows_of", site=f"[bold]{escape(site)}[/bold]", n=rows)
        screen.out.print(f"\n{say.again(heading)}")
        if not mine:
            screen.out.print("  " + say("quality.nothing"))
            continue
        grid = Table(box=None, pad_edge=False, show_header=False)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for f in mine[:FEW]:
            text, remedy = finding_texts(f)
            if f["severity"] != "look":
                text = said("list.semicolon", first=text, second=remedy)
            grid.add_row("  " + say(f"quality.short.{f['severity']}"), escape(say.again(text)))
        screen.out.print(grid)
        if len(mine) > FEW:
            screen.out.print("  " + say("quality.and_more", n=len(mine) - FEW))
    if table["worth"]:
        grid = Table(box=None, pad_edge=False, header_style="bold")
        for title in columns("column", "partner", "loss", "score", "permuted"):
            grid.add_column(say.again(title), overflow="fold")
        for w in table["worth"]:
            grid.add_row(*(escape(say.again(cell)) for cell in (w["column"], w["partner"], *worth_cells(w))))
        screen.out.print()
        screen.out.print(grid)
        screen.out.print(say("quality.gain_short"))
    if table["notes"]:
        screen.out.print()
        for note in table["notes"]:
            screen.out.print(f"[dim]· {escape(note)}[/dim]", soft_wrap=True)
    screen.out.print("\n" + say("quality.advice"))
