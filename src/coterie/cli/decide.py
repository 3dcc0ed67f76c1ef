"""coterie decide"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import tyro

from coterie.cli.command import Flags, command_with
from coterie.core.errors import BadInput
from coterie.federation.headers import printable
from coterie.runs.deciding import Asked, Place, place_of
from coterie.runs.decisions import folded, listed
from coterie.storage.paths import given_path
from coterie.use.cut import Cut
from coterie.use.deciding import decide as written_down

HELP = """Writes down what a client's people decided of a run, or says what they decided.

Nothing is trained: coterie again does the run again with it. What a person decides is recorded with who and
when in decisions.jsonl of the folder, and no line of it is ever changed; of two that contradict each other
the last counts. Of a site's kit, --refuse and --allow answer to others that want it in their circles, and
--refuse-plan and --allow-plan to runs that say beforehand what they will ask (KIT/state/plans.jsonl).

examples:
  coterie decide runs/breast-cancer-iid-pens-seed0
  coterie decide runs/breast-cancer-iid-pens-seed0 --client client-0 --leave-out client-3
  coterie decide runs/breast-cancer-iid-pens-seed0 --client client-0 --circle client-1 client-2
  coterie decide ward/sites/south --refuse north
  coterie decide ward/sites/south --allow-plan 3f2a91c04d7e5b8866f01d9a4c23b7e1
"""
LONGEST = 2_000  # letters of a line


@dataclass(frozen=True)
class Decide:
    place: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="PLACE", help="The folder of a run or a comparison, or a site's kit."),
    ]
    client: Annotated[str, tyro.conf.arg(help="Whose decision it is; of a site's kit, that site's.")] = ""
    leave_out: Annotated[tuple[str, ...], tyro.conf.arg(help="Partners that are to take no part.")] = ()
    take_in: Annotated[tuple[str, ...], tyro.conf.arg(help="Partners that are to take part after all.")] = ()
    circle: Annotated[tuple[str, ...], tyro.conf.arg(help="The only others to train with.")] = ()
    alone: Annotated[bool, tyro.conf.arg(help="A circle of nobody.")] = False
    forbid: Annotated[tuple[str, ...], tyro.conf.arg(help="Columns that no model may learn from.")] = ()
    require: Annotated[tuple[str, ...], tyro.conf.arg(help="Columns that every client must record.")] = ()
    free: Annotated[tuple[str, ...], tyro.conf.arg(help="Columns that are neither any more.")] = ()
    threshold: Annotated[str, tyro.conf.arg(help="CLASS=AT, from which probability on it is said.")] = ""
    refuse: Annotated[tuple[str, ...], tyro.conf.arg(help="Who may not have the client in a circle.")] = ()
    allow: Annotated[tuple[str, ...], tyro.conf.arg(help="Who may.")] = ()
    refuse_plan: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Plans of runs that a site takes no part in.")
    ] = ()
    allow_plan: Annotated[tuple[str, ...], tyro.conf.arg(help="Plans of runs that it takes part in.")] = ()
    by: Annotated[str, tyro.conf.arg(help="Who decides; by default who is logged in.")] = ""


@command_with(Flags(Decide, "decide", HELP))
def decide(told: Decide) -> int:
    path = given_path(told.place)
    place, wanted = place_of(path), list(asked(told))
    client = told.client or (place.clients[0] if place.site else "")
    if not wanted:
        return show(place, client)
    if not client:
        raise BadInput(f"whose decision is it? name a --client, such as {place.clients[0]}")
    written_down(path, client, wanted, told.by)
    for line in folded(place.lines(), client).words():
        print(printable(line, LONGEST))
    return 0


def asked(told: Decide) -> Iterator[Asked]:
    """The flags as decisions, in the order in which they count."""
    for name, within in [*((n, False) for n in told.leave_out), *((n, True) for n in told.take_in)]:
        yield "partner", {"name": name, "in": within}
    for rule in ("forbid", "require", "free"):
        for name in getattr(told, rule):
            yield "column", {"name": name, "rule": rule}
    if told.circle and told.alone:
        raise BadInput(f"--circle {' '.join(told.circle)} and --alone are two circles: give one of them")
    if told.circle or told.alone:
        yield "circle", {"among": list(told.circle), "approved": True}
    if told.threshold:
        cut = Cut.read(told.threshold)
        yield "threshold", {"class": cut.of, "at": cut.at}
    for name, allow in [*((n, False) for n in told.refuse), *((n, True) for n in told.allow)]:
        yield "veto", {"requester": name, "allow": allow}
    for plan, allow in [*((p, False) for p in told.refuse_plan), *((p, True) for p in told.allow_plan)]:
        yield "plan", {"plan": plan, "allow": allow}


def show(place: Place, client: str) -> int:
    """All that counts, of one client or of all."""
    if client:
        found = place.of(client).words()
    else:
        lines = place.lines()
        found = [word for name in place.clients for word in folded(lines, name).words()]
    for line in found or [f"nothing was decided for {client or listed(place.clients)} yet"]:
        print(printable(line, LONGEST))
    return 0
