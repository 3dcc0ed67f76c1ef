"""coterie page"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import BadInput

COMMANDS = {"page": ("after", 40, "show runs, live federations and a site's own part in them in a browser")}
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
class _Page:
    places: tuple[str, ...] = word("Folders to show; by default runs.", "PLACE", default=())
    host: str = flag("127.0.0.1", "Where to listen; other machines reach it only if told so, and by TLS.")
    port: int = flag(0, "The port; by default 8377, or the next that is free.")
    name: str = flag("", "How people reach this machine, for the address.")
    kit: str = flag("", "Whose certificate serves other machines; by default that of a site shown.")


@command_with(Flags(_Page, "page", HELP))
def page(asked: _Page) -> int:
    try:
        from coterie.page.library import library_of
        from coterie.page.serve import Where, serve
    except ModuleNotFoundError as error:
        raise _needed(error) from None
    library = library_of(asked.places or ("runs",))
    kit = None
    folder = asked.kit or (str(library.sites[0].kit) if library.sites else "")
    if folder:
        from coterie.federation.kits.kit import read_kit

        kit = read_kit(folder)
    try:
        serve(library, Where(asked.host, asked.port, asked.name, kit))
    except ModuleNotFoundError as error:
        raise _needed(error) from None
    return 0


def _needed(error: ModuleNotFoundError) -> Exception:
    package = (error.name or "").partition(".")[0]
    if package not in PACKAGES:
        return error
    return BadInput(f"a page needs the package {package}: pip install 'coterie[page]'")
