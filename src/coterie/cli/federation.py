"""coterie federation init | invite | revoke | who | demo | rehearse"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from coterie.cli.command import Flags, command_with, flag, subcommands, word
from coterie.core.errors import BadInput, CoterieError
from coterie.federation.messages import printable
from coterie.storage.paths import fresh_path, given_folder, given_path

if TYPE_CHECKING:
    from coterie.federation.transport.post import Post

COMMANDS = {
    "federation": ("partners", 40, "see a federation of several hosts at work; make and revoke its kits"),
}


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

INIT = """Makes a federation: an authority, and a kit for the relay, each site and each person.

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

WHO = """Says who is connected to the relay: sites, and people who lead runs.

A lead hears as well which sites are busy, for whom and since when, and which do not answer.

example:
  coterie federation who ward/people/lead
"""

REVOKE = """Shuts a party out: its certificate counts no more once the relay has the new list.

example:
  coterie federation revoke ward south
"""

DEMO = """Shows a federation at work: a relay and four hospitals, each in a process of its own.

Kits are made, all connect, four methods are compared over the federation, and a hospital predicts with the
model that stayed there. In the end everything is ended; a folder for each host tells what was where.

examples:
  coterie federation demo
  coterie federation demo --hosts
"""

REHEARSE = """Rehearses what goes wrong: cables are cut; a site, the relay and the driver are killed in a run.

A relay and four sites run in network namespaces of their own (this needs root and iproute2). The run
must come to its end, with every round once; as long as nobody was away, with the very numbers of an
undisturbed run. A minute or two for each time; the exit code is 1 if anything was not as it must be.

examples:
  coterie federation rehearse
  coterie federation rehearse --times 10
"""

OWNERS = {
    "coordinator": "for the host {host}, where the relay runs",
    "site": "for the site {name}",
    "helper": "for {name}, who helps to seal replies: run it on a host of its own",
    "lead": "for {name}, who starts runs",
    "viewer": "for {name}, who may see which sites are there",
}


@dataclass(frozen=True)
class _Init:
    folder: str = word("A new folder.", "DIR")
    sites: tuple[str, ...] = flag((), "The sites' names.", "NAME...")
    helpers: tuple[str, ...] = flag((), "Two servers and a dealer, for runs that are sealed.", "NAME...")
    people: tuple[str, ...] = flag(("lead",), "Who starts runs; NAME:viewer may only look.", "NAME...")
    host: str = flag("127.0.0.1", "The name or address at which sites reach the relay.")
    port: int = flag(8443, "The relay's port.")
    listen: str = flag("", "The address on which the relay listens; this machine alone if empty.")
    days: int = flag(730, "For how many days a certificate is valid.")


@dataclass(frozen=True)
class _Invite:
    folder: str = word("The folder that coterie federation init has made.", "DIR")
    name: str = word("The new party.", "NAME")
    role: Literal["site", "helper", "lead", "viewer"] = flag("site", "What it may do.")
    days: int = flag(730, "For how many days a certificate is valid.")


@dataclass(frozen=True)
class _Revoke:
    folder: str = word("The folder that coterie federation init has made.", "DIR")
    name: str = word("The party to shut out.", "NAME")


@dataclass(frozen=True)
class _Demo:
    out: str = flag("", "A new folder; by default one in runs/, federation-demo.", "DIR")
    hosts: bool = flag(
        False, "Each host in a network namespace of its own; needs root and iproute2.", switch=True
    )
    rounds: int = flag(15, "Rounds of training for each method.")


@dataclass(frozen=True)
class _Rehearse:
    out: str = flag("", "A new folder; by default one in runs/, federation-rehearsal.", "DIR")
    times: int = flag(1, "How many times; each has a folder of its own.")


@dataclass(frozen=True)
class _Who:
    kit: str = word("The kit of a lead or a viewer.", "KIT")


@command_with(Flags(_Who, "federation who", WHO))
def who(asked: _Who) -> None:
    from coterie.federation.transport.post import Post

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
    from coterie.federation.lead.sites import plain_answer
    from coterie.federation.transport.post import Missing

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


@command_with(Flags(_Init, "federation init", INIT))
def init(asked: _Init) -> None:
    folder, kits = given_folder(asked.folder, "DIR"), _kits()
    where = asked.host, asked.port, asked.days
    made = kits.found_federation(
        folder, asked.sites, asked.people, *where, listen=asked.listen, helpers=asked.helpers
    )
    print(f"federation {made[0].federation}: {len(asked.sites)} site(s), in {folder}")
    rows = [(folder / "authority", "makes and revokes kits: keep it yourself, where nobody else can read it")]
    rows += [(kit.folder, OWNERS[kit.role].format(name=kit.name, host=kit.host)) for kit in made]
    wide = max(len(str(place)) for place, _ in rows)
    for place, whose in rows:
        print(f"  {place!s:<{wide}}  {whose}")
    print("Whoever has a kit's key is that party: hand each over by a safe way, to its owner alone.")
    print(f"next: coterie relay {shlex.quote(str(made[0].folder))}")


@command_with(Flags(_Invite, "federation invite", INVITE))
def invite(asked: _Invite) -> None:
    kit = _kits().invite(given_path(asked.folder, "DIR"), asked.name, asked.role, asked.days)
    print(f"{kit.folder}: {OWNERS[kit.role].format(name=kit.name)}; hand it over by a safe way")


@command_with(Flags(_Revoke, "federation revoke", REVOKE))
def revoke(asked: _Revoke) -> None:
    folder = given_path(asked.folder, "DIR")
    _kits().revoke(folder, asked.name)
    print(f"{asked.name} is revoked; a relay that runs from {folder / 'coordinator'} shuts it out now")
    print(f"if it runs from a copy, put {folder / 'authority' / 'revoked.json'} into that")


@command_with(Flags(_Demo, "federation demo", DEMO))
def demo(asked: _Demo) -> None:
    if asked.rounds < 1:
        raise BadInput(f"--rounds {asked.rounds} must be at least 1: try 15")
    folder = _new_folder(asked.out, "federation-demo")
    if asked.hosts:
        _need_hosts("leave --hosts out to see it on loopback")
    from coterie.federation.demo import ward

    ward.demo(folder, asked.hosts, asked.rounds, _say)


@command_with(Flags(_Rehearse, "federation rehearse", REHEARSE))
def rehearse(asked: _Rehearse) -> int:
    if asked.times < 1:
        raise BadInput(f"--times {asked.times} must be at least 1: try 1")
    folder = _new_folder(asked.out, "federation-rehearsal")
    _need_hosts("rehearse where there are some; coterie federation demo does without")
    from coterie.federation.demo import rehearsal

    return 0 if rehearsal.rehearse(folder, asked.times, _say) else 1


KINDS = {"init": init, "invite": invite, "revoke": revoke, "who": who, "demo": demo, "rehearse": rehearse}
federation = subcommands("federation", HELP, KINDS)


def _new_folder(out: str, name: str) -> Path:
    folder = given_folder(out) if out else fresh_path(Path("runs") / name)
    _kits().check_free(folder)
    import coterie.federation.transport.line  # noqa: F401  # whoever lacks packages hears it before anything is made

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
        from coterie.federation.kits import authority as kits
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise BadInput("kits need cryptography: pip install 'coterie[network]'") from None
    return kits
