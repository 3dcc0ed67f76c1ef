"""coterie federation init | invite | revoke"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated, Literal

import tyro

from coterie.cli.flags import dispatch, parse
from coterie.core.errors import BadInput
from coterie.storage.paths import given_folder, given_path

HELP = """A federation of several hosts: a kit, which is a folder, for each of its parties.

usage: coterie federation init DIR --sites NAME... [--people NAME[:viewer]...]
                               [--host HOST] [--port N] [--listen ADDRESS] [--days N]
       coterie federation invite DIR NAME [--role site|lead|viewer] [--days N]
       coterie federation revoke DIR NAME

examples:
  coterie federation init ward --sites north south east
  coterie federation invite ward west
  coterie federation revoke ward south
"""

INIT = """Makes a federation: an authority, and a kit for the coordinator, each site and each person.

Whoever has a kit's key is that party. Hand each kit over by a safe way, to its owner alone.

examples:
  coterie federation init ward --sites north south east
  coterie federation init ward --sites north south --host relay.example.org --listen 0.0.0.0
  coterie federation init ward --sites north south --people lead anna:viewer
"""

INVITE = """Makes a kit for one more party, or a new one for a name that was revoked.

examples:
  coterie federation invite ward west
  coterie federation invite ward anna --role viewer
"""

REVOKE = """Shuts a party out: its certificate counts no more once the coordinator has the new list.

example:
  coterie federation revoke ward south
"""

FOLDER = tyro.conf.arg(metavar="DIR", help="The folder that coterie federation init has made.")
DAYS = tyro.conf.arg(help="For how many days a certificate is valid.")
OWNERS = {
    "coordinator": "for the host {host}, where the coordinator runs",
    "site": "for the site {name}",
    "lead": "for {name}, who starts runs",
    "viewer": "for {name}, who may see which sites are there",
}


@dataclass(frozen=True)
class Init:
    folder: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIR", help="A new folder.")]
    sites: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...", help="The sites' names.")] = ()
    people: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME...", help="Who starts runs; NAME:viewer may only look.")
    ] = ("lead",)
    host: Annotated[str, tyro.conf.arg(help="The name or address at which sites reach the coordinator.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, tyro.conf.arg(help="The coordinator's port.")] = 8443
    listen: Annotated[
        str, tyro.conf.arg(help="The address on which the coordinator listens; this machine alone if empty.")
    ] = ""
    days: Annotated[int, DAYS] = 730


@dataclass(frozen=True)
class Invite:
    folder: Annotated[tyro.conf.Positional[str], FOLDER]
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help="The new party.")]
    role: Annotated[Literal["site", "lead", "viewer"], tyro.conf.arg(help="What it may do.")] = "site"
    days: Annotated[int, DAYS] = 730


@dataclass(frozen=True)
class Revoke:
    folder: Annotated[tyro.conf.Positional[str], FOLDER]
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help="The party to shut out.")]


KINDS = {"init": Init, "invite": Invite, "revoke": Revoke}


def federation(words: Sequence[str]) -> int:
    known = {"init": init, "invite": invite, "revoke": revoke}
    return dispatch("federation", known, words, HELP)


def init(words: Sequence[str]) -> None:
    asked = parse(Init, words, "federation init", INIT)
    folder, kits = given_folder(asked.folder, "DIR"), _kits()
    made = kits.found(
        folder, asked.sites, asked.people, asked.host, asked.port, asked.days, listen=asked.listen
    )
    print(f"federation {made[0].federation}: {len(asked.sites)} site(s), in {folder}")
    rows = [(folder / "authority", "makes and revokes kits: keep it yourself, where nobody else can read it")]
    rows += [(kit.folder, OWNERS[kit.role].format(name=kit.name, host=kit.host)) for kit in made]
    wide = max(len(str(place)) for place, _ in rows)
    for place, whose in rows:
        print(f"  {place!s:<{wide}}  {whose}")
    print("Whoever has a kit's key is that party: hand each over by a safe way, to its owner alone.")
    print(f"next: coterie coordinate {shlex.quote(str(made[0].folder))}")


def invite(words: Sequence[str]) -> None:
    asked = parse(Invite, words, "federation invite", INVITE)
    kit = _kits().invite(given_path(asked.folder, "DIR"), asked.name, asked.role, asked.days)
    print(f"{kit.folder}: {OWNERS[kit.role].format(name=kit.name)}; hand it over by a safe way")


def revoke(words: Sequence[str]) -> None:
    asked = parse(Revoke, words, "federation revoke", REVOKE)
    folder = given_path(asked.folder, "DIR")
    _kits().revoke(folder, asked.name)
    print(f"{asked.name} is revoked; a coordinator that runs from {folder / 'coordinator'} shuts it out now")
    print(f"if it runs from a copy, put {folder / 'authority' / 'revoked.json'} into that")


def _kits() -> ModuleType:
    """The module that makes kits; it needs a package that those who work on one host do without."""
    try:
        from coterie.federation import kits
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise BadInput("kits need cryptography: pip install 'coterie[network]'") from None
    return kits
