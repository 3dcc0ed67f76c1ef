"""Notes on the data, gathered: one line for each thing done, and whom it concerns.

A note reads "thing done: details", or "client 'a' thing done (details)". Notes of one thing are gathered,
whichever client and seed they are of; a note without details stands for itself. The record keeps all in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.report.words import several

Told = tuple[int, Mapping[str, Any]]
"""A seed, and what its run says of itself."""
MORE = "details with -v"
OF_ONE = re.compile(r"client '(?P<name>.+?)' (?P<note>(?P<what>.+?)( \(.*\))?)")


@dataclass
class Thing:
    """Something that was done; `notes` has the clients by note, none of them where it is of all the data."""

    what: str
    notes: dict[str, dict[str, None]] = field(default_factory=dict)
    seeds: set[int] = field(default_factory=set)

    @property
    def clients(self) -> list[str]:
        return list(dict.fromkeys(name for names in self.notes.values() for name in names))

    def whom(self, of_seeds: int) -> str:
        """How many sites and seeds, the only site by name; seeds only where there are several."""
        clients, said = self.clients, list[str]()
        if clients:
            said.append(clients[0] if len(clients) == 1 else several(len(clients), "site"))
        if of_seeds > 1 and (clients or len(self.notes) > 1 or len(self.seeds) < of_seeds):
            said.append(several(len(self.seeds), "seed"))
        return ", ".join(said)

    def lines(self) -> list[str]:
        """Every note in full, behind the clients it is of."""
        return [
            f"{', '.join(names)}: {note}" if names else note
            for note, names in sorted(self.notes.items(), key=lambda entry: [*entry[1]][:1])
        ]


def gathered(told: Iterable[Told]) -> list[Thing]:
    """All that was done, in the order in which it was said: first to all of the data, then to clients'."""
    general, own = dict[str, Thing](), dict[str, Thing]()
    for seed, about in told:
        for note in about.get("notes") or ():
            if found := OF_ONE.fullmatch(note):
                _add(own, found["note"], seed, found["what"])[found["name"]] = None
            else:
                _add(general, note, seed)
        for client in about["clients"]:
            for note in client.get("notes") or ():
                _add(own, note, seed)[client["name"]] = None
    return [*general.values(), *own.values()]


def _add(things: dict[str, Thing], note: str, seed: int, what: str = "") -> dict[str, None]:
    """Puts a note where it belongs, and gives its clients."""
    what = what or note.partition(": ")[0]
    thing = things.setdefault(what, Thing(what))
    thing.seeds.add(seed)
    return thing.notes.setdefault(note, {})


def short(things: Sequence[Thing], width: int, of_seeds: int) -> list[str]:
    """A line for each thing that fits the width: the note itself if there is one only and it has room, else
    what was done and to whom.
    """
    return [_short(thing, width, of_seeds) for thing in things]


def _short(thing: Thing, width: int, of_seeds: int) -> str:
    whom, note = thing.whom(of_seeds), next(iter(thing.notes))
    brief = f"{thing.what}: {f'{whom}; ' if whom else ''}{MORE}"
    whole = f"{note} ({whom})" if whom else note
    fits = note == thing.what or len(whole) <= max(width, len(brief))
    return whole if fits and len(thing.notes) == 1 else brief
