"""coterie page"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from coterie.cli.command import Flags, command_with
from coterie.core.errors import BadInput

HELP = """Serves runs, comparisons and advice in a browser, on this machine: with whom, why, what is gained,
what is given away. Runs that go on are followed as they go.

PLACE is a run, a comparison, a folder of several, or the kit of a site, which shows the site's own part of
the runs that it takes part in. Nothing is loaded from elsewhere; the address has a token, for you alone.

examples:
  coterie page
  coterie page runs/compare-titanic-age-strict
  coterie page ward/sites/north
  coterie page ward/sites/north --host 0.0.0.0 --name north.example.org
"""
PACKAGES = ("starlette", "uvicorn")


@dataclass(frozen=True)
class Page:
    places: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="PLACE", help="Folders to show; by default runs."),
    ] = ()
    host: Annotated[
        str, tyro.conf.arg(help="Where to listen; other machines reach it only if told so, and by TLS.")
    ] = "127.0.0.1"
    port: Annotated[int, tyro.conf.arg(help="The port; by default 8377, or the next that is free.")] = 0
    name: Annotated[str, tyro.conf.arg(help="How people reach this machine, for the address.")] = ""
    kit: Annotated[
        str, tyro.conf.arg(help="Whose certificate serves other machines; by default that of a site shown.")
    ] = ""


@command_with(Flags(Page, "page", HELP))
def page(asked: Page) -> int:
    try:
        from coterie.page.library import library_of
        from coterie.page.serve import Where, serve
    except ModuleNotFoundError as error:
        raise needed(error) from None
    library = library_of(asked.places or ("runs",))
    kit = None
    folder = asked.kit or (str(library.sites[0].kit) if library.sites else "")
    if folder:
        from coterie.federation.party import read_kit

        kit = read_kit(folder)
    try:
        serve(library, Where(asked.host, asked.port, asked.name, kit))
    except ModuleNotFoundError as error:
        raise needed(error) from None
    return 0


def needed(error: ModuleNotFoundError) -> Exception:
    package = (error.name or "").partition(".")[0]
    if package not in PACKAGES:
        return error
    return BadInput(f"a page needs the package {package}: pip install 'coterie[page]'")
