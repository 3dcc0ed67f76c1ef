"""coterie federation init | invite | revoke | who | demo | rehearse"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from coterie.cli.command import Flags, command_with, subcommands
from coterie.core.errors import BadInput, CoterieError
from coterie.federation.headers import printable
from coterie.storage.paths import fresh_path, given_folder, given_path

if TYPE_CHECKING:
    from coterie.federation.post import Post

ANSWERS_IN = 5.0  # seconds in which a site says whether it is busy

HELP = """A federation of several hosts: a kit, which is a folder, for each of its parties.

usage: coterie federation init DIR --sites NAME... [--helpers NAME NAME NAME] [--people NAME[:viewer]...]
                               [--host HOST] [--port N] [--listen ADDRESS] [--days N]
       coterie federation invite DIR NAME [--role site|helper|lead|viewer] [--days N]
       coterie federation revoke DIR NAME
       coterie federation who KIT
       coterie federation demo [--out DIR] [--hosts] [--rounds N]
       coterie federation rehearse [--out DIR] [--times N]

examples:
  coterie federation demo
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
  coterie federation init ward --sites north south east --helpers ada ben tom
"""

INVITE = """Makes a kit for one more party, or a new one for a name that was revoked.

examples:
  coterie federation invite ward west
  coterie federation invite ward anna --role viewer
"""

WHO = """Says who is connected to the coordinator: sites, and people who lead runs.

A lead hears as well which sites are busy, for whom and since when, and which do not answer.

example:
  coterie federation who ward/people/lead
"""

REVOKE = """Shuts a party out: its certificate counts no more once the coordinator has the new list.

example:
  coterie federation revoke ward south
"""

DEMO = """Shows a federation at work: a coordinator and four hospitals, each in a process of its own.

Kits are made, all connect, four methods are compared over the federation, and a hospital predicts with the
model that stayed there. In the end everything is ended; a folder for each host tells what was where.

examples:
  coterie federation demo
  coterie federation demo --hosts
"""

REHEARSE = """Rehearses what goes wrong: cables are cut; a site, the relay and the driver are killed in a run.

A coordinator and four sites run in network namespaces of their own (this needs root and iproute2). The run
must come to its end, with every round once; as long as nobody was away, with the very numbers of an
undisturbed run. A minute or two for each time; the exit code is 1 if anything was not as it must be.

examples:
  coterie federation rehearse
  coterie federation rehearse --times 10
"""

FOLDER = tyro.conf.arg(metavar="DIR", help="The folder that coterie federation init has made.")
DAYS = tyro.conf.arg(help="For how many days a certificate is valid.")
OWNERS = {
    "coordinator": "for the host {host}, where the coordinator runs",
    "site": "for the site {name}",
    "helper": "for {name}, who helps to seal replies: run it on a host of its own",
    "lead": "for {name}, who starts runs",
    "viewer": "for {name}, who may see which sites are there",
}


@dataclass(frozen=True)
class Init:
    folder: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIR", help="A new folder.")]
    sites: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...", help="The sites' names.")] = ()
    helpers: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="NAME...", help="Two servers and a dealer, for runs that are sealed."),
    ] = ()
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
    role: Annotated[Literal["site", "helper", "lead", "viewer"], tyro.conf.arg(help="What it may do.")] = (
        "site"
    )
    days: Annotated[int, DAYS] = 730


@dataclass(frozen=True)
class Revoke:
    folder: Annotated[tyro.conf.Positional[str], FOLDER]
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help="The party to shut out.")]


@dataclass(frozen=True)
class Demo:
    out: Annotated[
        str, tyro.conf.arg(metavar="DIR", help="A new folder; by default one in runs/, federation-demo.")
    ] = ""
    hosts: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        tyro.conf.arg(help="Each host in a network namespace of its own; needs root and iproute2."),
    ] = False
    rounds: Annotated[int, tyro.conf.arg(help="Rounds of training for each method.")] = 15


@dataclass(frozen=True)
class Rehearse:
    out: Annotated[
        str, tyro.conf.arg(metavar="DIR", help="A new folder; by default one in runs/, federation-rehearsal.")
    ] = ""
    times: Annotated[int, tyro.conf.arg(help="How many times; each has a folder of its own.")] = 1


@dataclass(frozen=True)
class Who:
    kit: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="KIT", help="The kit of a lead or a viewer.")
    ]


@command_with(Flags(Who, "federation who", WHO))
def who(asked: Who) -> None:
    from coterie.federation.post import Post

    kit = _kits().read_kit(given_path(asked.kit, "KIT"))
    if kit.role not in ("lead", "viewer"):
        raise BadInput(f"{kit.folder} is the kit of a {kit.role}: give that of a lead or a viewer")
    post = Post(kit)
    try:
        post.start()
        members = post.members()
        at_work = at_work_of(post, [n for n, m in members.items() if m.card.role == "site"])
        for name, member in sorted(members.items()):
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(member.since))
            you = " (you)" if name == kit.name else ""
            role, version = member.card.role, printable(member.version)
            print(f"{name}{you}: {role}, coterie {version}, since {since}{at_work.get(name, '')}")
    finally:
        post.close()


def at_work_of(post: Post, sites: Sequence[str]) -> dict[str, str]:
    """What a lead hears of sites that are not free: with whose work they are busy, or that they are mute."""
    from coterie.core.wire import pack
    from coterie.federation.post import Missing
    from coterie.federation.sites import plain_answer

    said = dict[str, str]()
    if post.kit.role != "lead":
        return said
    for name, answer in post.call(dict.fromkeys(sites, pack({"do": "ping"}, {})), ANSWERS_IN).items():
        try:
            busy = answer.text if isinstance(answer, Missing) else plain_answer(answer).get("busy", "")
        except CoterieError as error:
            busy = str(error)
        said[name] = f"; {printable(busy)}" if busy else ""
    return said


@command_with(Flags(Init, "federation init", INIT))
def init(asked: Init) -> None:
    folder, kits = given_folder(asked.folder, "DIR"), _kits()
    made = kits.found(
        folder,
        asked.sites,
        asked.people,
        asked.host,
        asked.port,
        asked.days,
        listen=asked.listen,
        helpers=asked.helpers,
    )
    print(f"federation {made[0].federation}: {len(asked.sites)} site(s), in {folder}")
    rows = [(folder / "authority", "makes and revokes kits: keep it yourself, where nobody else can read it")]
    rows += [(kit.folder, OWNERS[kit.role].format(name=kit.name, host=kit.host)) for kit in made]
    wide = max(len(str(place)) for place, _ in rows)
    for place, whose in rows:
        print(f"  {place!s:<{wide}}  {whose}")
    print("Whoever has a kit's key is that party: hand each over by a safe way, to its owner alone.")
    print(f"next: coterie coordinate {shlex.quote(str(made[0].folder))}")


@command_with(Flags(Invite, "federation invite", INVITE))
def invite(asked: Invite) -> None:
    kit = _kits().invite(given_path(asked.folder, "DIR"), asked.name, asked.role, asked.days)
    print(f"{kit.folder}: {OWNERS[kit.role].format(name=kit.name)}; hand it over by a safe way")


@command_with(Flags(Revoke, "federation revoke", REVOKE))
def revoke(asked: Revoke) -> None:
    folder = given_path(asked.folder, "DIR")
    _kits().revoke(folder, asked.name)
    print(f"{asked.name} is revoked; a coordinator that runs from {folder / 'coordinator'} shuts it out now")
    print(f"if it runs from a copy, put {folder / 'authority' / 'revoked.json'} into that")


@command_with(Flags(Demo, "federation demo", DEMO))
def demo(asked: Demo) -> None:
    if asked.rounds < 1:
        raise BadInput(f"--rounds {asked.rounds} must be at least 1: try 15")
    folder = _new_folder(asked.out, "federation-demo")
    if asked.hosts:
        _need_hosts("leave --hosts out to see it on loopback")
    from coterie.federation.demo import show

    show.demo(folder, asked.hosts, asked.rounds, _say)


@command_with(Flags(Rehearse, "federation rehearse", REHEARSE))
def rehearse(asked: Rehearse) -> int:
    if asked.times < 1:
        raise BadInput(f"--times {asked.times} must be at least 1: try 1")
    folder = _new_folder(asked.out, "federation-rehearsal")
    _need_hosts("rehearse where there are some; coterie federation demo does without")
    from coterie.federation.demo import rehearsal

    return 0 if rehearsal.rehearse(folder, asked.times, _say) else 1


KINDS = {"init": init, "invite": invite, "revoke": revoke, "who": who, "demo": demo, "rehearse": rehearse}
federation = subcommands("federation", HELP, KINDS)


def _new_folder(out: str, name: str) -> Path:
    """Where to write; nothing is there yet."""
    folder = given_folder(out) if out else fresh_path(Path("runs") / name)
    _kits().check_free(folder)
    from coterie.federation.flare import installed

    with installed():
        import coterie.federation.flare.line  # noqa: F401
    return folder


def _need_hosts(remedy: str) -> None:
    from coterie.federation.demo.hosts import Hosts

    if why := Hosts.possible():
        raise BadInput(f"{why}; {remedy}")


def _say(line: str) -> None:
    print(line, flush=True)


def _kits() -> ModuleType:
    """The module that makes kits; it needs a package that those who work on one host do without."""
    try:
        from coterie.federation import kits
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise BadInput("kits need cryptography: pip install 'coterie[network]'") from None
    return kits
