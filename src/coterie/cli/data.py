"""coterie data list | fetch | show"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, subcommands, word
from coterie.cli.flags import SPENDING, Given, SettingsFlags
from coterie.core.options import Option
from coterie.data.sources import SOURCES
from coterie.report import splits
from coterie.report.paper_figures import write_figures
from coterie.runs.builder import prepare
from coterie.runs.record import Record
from coterie.show import figures, views
from coterie.storage.paths import given_folder

COMMANDS = {"data": ("try", 40, "list, fetch or show data: who has how many of which label")}
HELP = """Data at hand and to fetch.

usage: coterie data list
       coterie data fetch NAME
       coterie data show NAME [--split ... --clients ... --seed ...] [--figures svg --out FOLDER]

examples:
  coterie data show heart-disease
  coterie data show digits --split dirichlet --dirichlet.alpha 0.1 --clients 8
  coterie data show fashion-mnist --split interests --figures png --out pictures
"""

LIST = "Lists all data: what it is, and whether it is at hand.\n\nexample:\n  coterie data list"
FETCH = "Fetches and checks the files of one source, or of all.\n\nexample:\n  coterie data fetch mnist"
SHOW = """Shows who has how many samples of which label, after a split.

examples:
  coterie data show titanic
  coterie data show digits --split shift --shift.distribution C --figures svg
"""

FIGURES = Option(
    "figures", Literal["none", "png", "svg"], "none", "Also write sizes, labels and shares as pictures."
)
SHADES = ("on grey93", "on light_cyan1", "on sky_blue1", "on deep_sky_blue1", "white on dodger_blue2")
OUT = Option("out", str, ".", "The folder for the pictures.")


@dataclass(frozen=True)
class _Listing:
    """Lists all data."""


@dataclass(frozen=True)
class _Fetch:
    name: str = word("The data to fetch, or all.")


@command_with(Flags(_Listing, "data list", LIST))
def _list(asked: _Listing) -> None:
    table = Table("name", "at hand", "what", "licence", box=None, header_style="bold")
    for name, cls in SOURCES.items():
        source: Any = cls()
        table.add_row(name, "yes" if source.at_hand() else "to fetch", source.about, source.licence)
    screen.out.print(table)


@command_with(Flags(_Fetch, "data fetch", FETCH))
def fetch(asked: _Fetch) -> None:
    for one in SOURCES if asked.name == "all" else [asked.name]:
        files = SOURCES.make(one).fetch()
        said = f"{len(files)} file(s) checked in {files[0].parent}" if files else "comes with a package"
        print(f"{one}: {said}")


@command_with(SettingsFlags("data show", SHOW, [FIGURES, OUT], without=SPENDING, first="data"))
def show(given: Given) -> None:
    settings, extra, _ = given
    folder = given_folder(extra["out"])
    experiment = prepare(settings, None)
    about = experiment.about
    screen.say_notes(about)
    screen.out.print(label_table(about))
    if extra["figures"] != "none":
        record = Record(settings.data, experiment.config, about)
        files = write_figures(folder, [record], extra["figures"])
        files += figures.write(folder, lambda: splits.draw(record), extra["figures"])
        for file in files:
            print(f"figure: {file}")


data = subcommands("data", HELP, {"list": _list, "fetch": fetch, "show": show})


def label_table(about: Any) -> Table:
    """Clients by classes, training counts, darker where there are more; test sizes beside them."""
    kinds = views.kinds(about.get("task", "classification"), about["classes"])
    shown = kinds[:20]
    table = Table("client", *shown, "training", "validation", "test", box=None, header_style="bold")
    if len(kinds) > len(shown):
        table.caption = f"the first {len(shown)} of {len(kinds)} classes"
    most = max((n for c in about["clients"] if c["labels"] for n in c["labels"][0]), default=1)
    for client in about["clients"]:
        counts = client["labels"][0][: len(shown)] if client["labels"] else []
        cells = []
        for share, n in ((n / max(most, 1), n) for n in counts):
            shade = ("black " if share <= 0.8 else "") + SHADES[min(int(share * 5), 4)] if n else "dim"
            cells.append(Text(str(n) if n else "·", style=shade, justify="right"))
        sizes = [Text(str(client[part]), justify="right") for part in ("train", "validation", "test")]
        table.add_row(client["name"], *cells, *sizes)
    return table
