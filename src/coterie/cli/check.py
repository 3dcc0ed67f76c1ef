"""coterie check"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.flags import Given, SettingsFlags
from coterie.cli.report import read_sections
from coterie.cli.run import OUT, fresh, out_of
from coterie.cli.words import by_flag
from coterie.core.errors import BadInput, Gathered
from coterie.core.options import Option
from coterie.core.seeds import Key
from coterie.data.quality.checks import CHECKS, Quality, check_names, checked
from coterie.data.quality.finding import ALL_SITES
from coterie.data.quality.ranges import Ranges, read_ranges
from coterie.data.quality.rows import dealt_rows
from coterie.data.quality.worth import worth
from coterie.data.some import some_of
from coterie.engines.threads import narrow
from coterie.report.page import write_report
from coterie.report.quality import ADVICE, FILE, PAGE, change, headline, write_quality
from coterie.runs.about import command_line, origin
from coterie.runs.compare import read_records
from coterie.runs.settings import Settings, from_table
from coterie.storage.paths import given_path

LIST = "\n".join(f"  {name:<12} {about}" for name, about in CHECKS.items())
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
OWN = [
    Option(
        "run",
        str,
        "",
        "The folder of a run or a comparison, whose data are looked at and whose report gets it.",
    ),
    Option("checks", tuple[str, ...], tuple(CHECKS), "Which checks to do; by default all."),
    Option("ranges", str, "", "A TOML file with bounds of your own, beside Coterie's (docs/quality.md)."),
    Option("worth", bool, False, "Say what columns that the requester lacks bring clients that record them."),
    Option("requester", str, "", "The client that asks, with --worth."),
    OUT,
]
FEW = 8  # findings of a site on the screen


@command_with(SettingsFlags("check", HELP, OWN, only=SETTINGS))
@narrow()
def check(given: Given) -> int:
    settings, extra, words = given
    names, bounds, settings, run = asked(settings, extra, words)
    settings, out = settings.resolved(), out_of(extra)
    quality = found(settings, names, bounds, extra["requester"] if extra["worth"] else "")
    about = {k: getattr(settings, k) for k in ("data", "split", "clients", "seed", "net")}
    about |= {"checks": list(names), "command": command_line(), **origin()}
    table = replace(quality, about=about).told()
    place = run or out or fresh(f"check-{settings.data}-{settings.split}-seed{settings.seed}")
    write_quality(place, table)
    show(table)
    print(f"quality: {place / FILE}")
    print(f"page: {place / PAGE}")
    if run is not None:
        print(f"report: {write_report(run / 'report.html', read_sections(run))}")
    return 0


def asked(
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
        settings = settings_of(run)
    if hasattr(settings.made("net"), "meet"):
        if extra["worth"]:
            wrong.add("--worth needs rows of all sites at hand, and these stay at theirs: leave it out")
        if extra["ranges"]:
            wrong.add("--ranges cannot be told to sites of a federation, which look at home: leave it out")
    elif run is None and settings.net != "in-process":
        wrong.add(f"--net {settings.net} moves models, and a check has none: leave it out")
    wrong.refuse()
    return names, bounds, settings, run


def settings_of(run: Path) -> Settings:
    """Those of a run, or of the first of a comparison's, that say which data it has."""
    config = read_records(run)[0].config
    if "given" in config:
        raise BadInput(f"{run} was started from Python, which alone has its data: use coterie.check there")
    whole = from_table(config, str(run))
    parts = {name: getattr(whole, name) for name in SETTINGS}
    kept = (whole.data, whole.split, whole.net)
    return Settings(**parts, options={k: v for k, v in whole.options.items() if k in kept})


def found(settings: Settings, names: Sequence[str], bounds: Ranges, requester: str) -> Quality:
    net = settings.made("net")
    if hasattr(net, "meet"):
        from coterie.federation.quality import ask_sites

        return ask_sites(net, names)
    key, split = Key(settings.dealt_by).at("data"), settings.made("split")
    data = some_of(settings.made("data").load(), settings.rows, key)
    sites, said = dealt_rows(data, split, settings.clients, key)
    brings, notes = worth(sites, requester, settings.seed) if requester else ([], [])
    quality = checked(sites, bounds, names, settings.seed)
    return replace(quality, worth=tuple(brings), notes=(*said, *quality.notes, *notes))


# what people see


def show(table: Mapping[str, Any]) -> None:
    """Short, worst first, by site."""
    screen.out.print(f"[bold]{escape(headline(table))}[/bold]")
    places = [(site["site"], site["rows"]) for site in table["sites"]]
    if any(f["site"] == ALL_SITES for f in table["findings"]):
        places.append((ALL_SITES, sum(rows for _, rows in places)))
    for site, rows in places:
        mine = [f for f in table["findings"] if f["site"] == site]
        screen.out.print(f"\n[bold]{escape(site)}[/bold] ({rows} rows)")
        if not mine:
            screen.out.print("  nothing to look at")
            continue
        grid = Table(box=None, pad_edge=False, show_header=False)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for f in mine[:FEW]:
            remedy = "" if f["severity"] == "look" else f"; {f['remedy']}"
            grid.add_row(f"  {f['severity']}", escape(f["says"] + remedy))
        screen.out.print(grid)
        if len(mine) > FEW:
            screen.out.print(f"  and {len(mine) - FEW} more on the page")
    show_worth(table)
    if table["notes"]:
        screen.out.print()
        for note in table["notes"]:
            screen.out.print(f"[dim]· {escape(note)}[/dim]", soft_wrap=True)
    screen.out.print(f"\n{ADVICE}")


def show_worth(table: Mapping[str, Any]) -> None:
    if not table["worth"]:
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("column", "partner", "loss falls by", "score rises by", "shuffled, loss rises by"):
        grid.add_column(heading, overflow="fold")
    for w in table["worth"]:
        cells = change(w["loss"]), f"{change(w['score'])} {w['measure']}", change(w["permuted"])
        grid.add_row(escape(w["column"]), escape(w["partner"]), *map(escape, cells))
    screen.out.print()
    screen.out.print(grid)
    screen.out.print("The partners' gain, with 95 % intervals: it may be another here.")
