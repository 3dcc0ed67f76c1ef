"""coterie contributions"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from coterie.cli.command import Flags, command_with, flag, word
from coterie.cli.report import read_sections
from coterie.core.errors import BadRun, UnknownName
from coterie.features.contributions.shown import found_in, legend, sentence, tables
from coterie.show import views
from coterie.show.terminal import fitting
from coterie.storage.paths import given_path

COMMANDS = {
    "contributions": ("after", 50, "say what each client gave to each other, and what that was worth"),
}
HELP = """Says what each client of a run gave to each other: in how many rounds its reply was taken in, with
what weight, and what that was worth, if the run was told to value it (--wrap contributions).

examples:
  coterie contributions runs/digits-shift-weight-erosion-seed0
  coterie contributions runs/digits-shift-weight-erosion-seed0 --requester client-2
  coterie run --data digits --validation 0.2 --method weight-erosion --wrap contributions:by=gtg+first-order
"""


@dataclass(frozen=True)
class _Asked:
    path: str = word("The folder of a run or a comparison.")
    requester: str = flag("", "Show all that one client was given, by name.")


@command_with(Flags(_Asked, "contributions", HELP))
def contributions(asked: _Asked) -> int:
    sections, console = read_sections(given_path(asked.path)), Console()
    for section in sections:
        found = found_in(views.groups(section.records))
        requester, record = asked.requester, section.records[0]
        if requester and requester not in record.clients:
            raise UnknownName("requester", requester, record.clients)
        if "lead" in record.about and (site := record.about["site"]) != (requester := requester or site):
            raise BadRun(f"{asked.path} is {site}'s part of a run, without what others gave to {requester}")
        if not found:
            console.print(Text(f"{section.title}: nobody took in anything of anybody."), soft_wrap=True)
        for label, told in found.items():
            said = f"what {requester} was given" if "lead" in record.about else sentence(told)
            console.print(Text(f"{label}: {said}", style="bold"), soft_wrap=True)
            for header, rows in tables(told, requester):
                if rows:
                    console.print()
                    console.print(fitting(header, rows, "", "", console.width))
            console.print()
            console.print(Text(" ".join(legend(told)), style="dim"), soft_wrap=True)
    return 0
