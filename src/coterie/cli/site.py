"""coterie site, coterie site check"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie.cli.command import Command, Flags, command_with, subcommands, word
from coterie.cli.flags import SettingsFlags
from coterie.core.belief import Belief
from coterie.core.errors import BadInput, BadRun
from coterie.core.options import Option
from coterie.engines.threads import narrow
from coterie.federation.data.site_data import SiteData
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit, read_kit
from coterie.federation.messages import printable
from coterie.federation.policy.rules import read_policy
from coterie.federation.site.server import CANCEL, SiteServer
from coterie.federation.site.session import Session
from coterie.federation.site.state import open_state
from coterie.federation.site.state_folders import state_of_kit
from coterie.federation.transport.post import Post
from coterie.runs.settings import Settings
from coterie.storage.atomic import readable_errors
from coterie.storage.locks import for_owner_alone
from coterie.storage.plugins import load_plugins
from coterie.storage.presence import PresenceFile

COMMANDS = {"site": ("partners", 60, "take part in a federation, with rows that stay on this machine")}
HELP = """Takes part in a federation, with rows that stay on this machine, until it is ended.

KIT is the folder that the federation's founder gave to this site. One connection goes out, to the
relay; nothing listens here. What is asked, and by whom, is said in a line each and written into
KIT/state/asked.jsonl. The policy says what this site takes part in; see docs/federation.md. Models for this
site end up in KIT/state/models, to be used with coterie predict; its part of each run's record is in
KIT/state/shown, to be read with coterie report while the run goes on. KIT/state leads to a folder outside of
the kit: what was spent and decided goes on with a new kit of the same name, and with the same rows.

usage: coterie site KIT --data table --recipe my.toml [--policy policy.toml]
       coterie site check KIT
       coterie site cancel KIT

examples:
  coterie site ward/sites/north --recipe north.toml --policy policy.toml
  coterie site ward/sites/c3 --data digits --split shift --clients 10 --client client-3
  coterie site check ward/sites/north
"""
CANCELS = "Ends what a site computes at present, in another terminal of its machine; the site goes on."
CHECK = "Tells in one line what keeps a site from connecting: name, port, certificate, clock; or nothing."
SETTINGS = ("data", "split", "clients", "seed", "plugins")
OWN = [
    Option("policy", str, "", "A TOML file that says what this site takes part in; without one, the usual."),
    Option(
        "state",
        str,
        "",
        "The folder below which sites keep models, what they spent and what was decided; by default "
        "COTERIE_STATE, or ~/.local/state/coterie/sites.",
    ),
    Option(
        "client",
        str,
        "",
        "Of data that is dealt to several, whose part this site has; by default its own name.",
    ),
]


@dataclass(frozen=True)
class _Kits:
    kit: str = word("The site's kit.", "KIT")


FLAGS = SettingsFlags("site", HELP, OWN, only=SETTINGS)


def _take_part(words: Sequence[str]) -> int:
    if not words or words[0].startswith("-"):
        if not {"-h", "--help"} & set(words):
            raise BadInput(
                "coterie site needs the folder of its kit first: coterie site KIT --recipe my.toml"
            )
        replace(FLAGS, name="site KIT").read(words)
    kit = _kit_of(words[0])
    settings, extra, _ = FLAGS.read(words[1:])
    policy = read_policy(extra["policy"] or None)
    holding = _rows_of(settings, kit, extra["client"])
    with for_owner_alone(), open_state(kit, holding.data, extra["state"], say) as state:
        serve(kit, holding, policy, state)
    return 0


@command_with(Flags(_Kits, "site check", CHECK))
def check(asked: _Kits) -> int:
    from coterie.federation.transport.line import connection_problems

    lines = connection_problems(_kit_of(asked.kit))
    for line in lines:
        print(line)
    return 0 if lines[0].startswith("all is well") else 2


@command_with(Flags(_Kits, "site cancel", CANCELS))
def cancel(asked: _Kits) -> int:
    """A note for the site's process, which looks for it every second while it computes."""
    state = state_of_kit(_kit_of(asked.kit).folder)
    if not state.is_dir():
        raise BadInput(f"no site has run with this kit, as there is no {state}: start it first")
    with readable_errors(state / CANCEL):
        (state / CANCEL).touch()
    print("what the site computes now ends within a second; asked.jsonl has who asked for it")
    return 0


site = subcommands("site", HELP, {"check": check, "cancel": cancel}, Command(_take_part, FLAGS.flags))


def _kit_of(folder: str) -> Kit:
    kit = read_kit(folder)
    if kit.role != "site":
        raise BadInput(f"{folder} is the kit of {kit.name}, a {kit.role}: give that of a site")
    return kit


def _rows_of(settings: Settings, kit: Kit, client: str) -> SiteData:
    """The site's rows, read once; they are in memory until it ends."""
    if settings.data in ("auto", "sites"):
        raise BadInput(
            "which rows does this site have? give --recipe my.toml, or --data table --table.path FILE"
        )
    load_plugins(settings.plugins)
    settings = settings.resolved()
    source = settings.made("data")
    if settings.data == "table":
        return SiteData.read(source, client or kit.name)
    split = settings.made("split")
    return SiteData.dealt(source, split, settings.clients, settings.seed, client or kit.name)


def serve(kit: Kit, holding: SiteData, policy: Any, state: Path) -> None:
    from coterie.use.site_model import keep_model

    def keep(session: Session, message: Mapping[str, Any], belief: Belief) -> str:
        facts, recipe = message["facts"], session.recipe
        where = keep_model(state / "models", session.client, session.asked, belief, facts, recipe)
        return str(where)

    def card_of(name: str) -> Card | None:
        member = post.members().get(name)
        return None if member is None else member.card

    server = SiteServer(
        kit.name,
        holding,
        policy,
        state,
        send_to_peer=lambda *message: post.send_to_peer(*message),
        keep=keep,
        say=say,
        card_of=card_of,
        kit=kit,
    )

    def answer(*told: Any) -> bytes:
        with narrow():
            return server.answer(*told)

    post = Post(kit, answer, say, most=policy.max_bytes)
    post.on_peer_message(server.take_peer_message)
    post.on_call(server.call, server.turns.busy)
    rows = f"{sum(len(pool) for pool in holding.data.pools)} rows{origin(holding)}"
    say(f"site {kit.name} of {kit.federation}, {rows}; connecting to {kit.host}:{kit.port}")
    try:
        stay(post, PresenceFile(state, post.presence).look)
    finally:
        server.cancel("the site ends")


def stay(post: Post, look: Callable[[], None] = lambda: None) -> None:
    """On the line, until the process is told to end; `look` is called every second."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        try:
            post.start(wait=WAIT)
            say("connected; waiting to be asked")
        except BadRun as error:  # it goes on trying: the relay may come later
            say(str(error))
        with contextlib.suppress(KeyboardInterrupt):
            while not ended.wait(1.0):  # a signal that another thread got is handled when this one wakes up
                look()
    finally:
        post.close()
        say("ended")


WAIT = 20.0


def origin(holding: SiteData) -> str:
    """From which file, and what the recipe calls the site, so that nobody serves another's table."""
    recipe = holding.data.recipe
    if recipe is None:
        return f" of {holding.data.name}"
    files = [f"{file}, called {name} there" for name, file in recipe.sites.items()]
    return f" of {', '.join(files) or recipe.file}"


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {printable(line, 2000)}", flush=True)
