"""What moves between the coordinator and sites that are elsewhere: contents by id, messages and letters.

What lies at the coordinator is in `store`, by id. Models of peers go from site to site in letters that are
passed on unread; what is brought to the coordinator's own place is unpacked. `log` tells what crosses,
`measured` counts it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadRun
from coterie.core.held import COORDINATOR, Held
from coterie.core.roster import Roster
from coterie.core.wire import pack, payload, unpack
from coterie.nets.counting import nothing_passed
from coterie.nets.site import ERRORS

log = logging.getLogger("coterie")

Row = list[list[Any]]  # parts of one belief: [id, names]
Message = tuple[dict[str, Any], dict[str, Tensor]]


class Transport(Protocol):
    """How messages reach sites: each of several gets one, and all of their answers come back."""

    def ask(self, messages: Mapping[int, bytes]) -> dict[int, bytes]: ...

    def close(self) -> None: ...


class Courier:
    """The coordinator's store and its post."""

    def __init__(self, transport: Transport, roster: Roster) -> None:
        self.transport, self.roster = transport, roster
        self.store: dict[int, dict[str, Tensor]] = {}
        self.known: set[tuple[int, int, str]] = set()  # (id, place, name) of what a place has got a copy of
        self.measured = nothing_passed(len(roster))

    # what lies where

    def tensors(self, held: Held) -> Beliefs:
        """A handle's beliefs at the coordinator, in the clear."""
        rows = list(range(len(held)))
        self.bring(COORDINATOR, [(held, rows)])
        return tree.stack([self.belief(self.row(held, r)) for r in rows])

    def row(self, held: Held, row: int) -> Row:
        """One row by its parts."""
        return [[int(p.ids[row]), list(p.tensors)] for p in held.parts]

    def belief(self, row: Row) -> Belief:
        return {name: self.store[id][name] for id, names in row for name in names}

    def ids(self, live: Iterable[Held]) -> dict[int, set[int]]:
        """The ids of handles by place."""
        ids: dict[int, set[int]] = {place: set() for place in range(-1, len(self.roster))}
        for held in live:
            for part in held.parts:
                for id, place in zip(part.ids.tolist(), part.places.tolist(), strict=True):
                    ids[place].add(id)
        return ids

    def bring(self, to: int, wanted: Sequence[tuple[Held, Sequence[int]]]) -> dict[str, Tensor]:
        """Rows of handles come to a place: from sites at once; what the coordinator has is returned, to go
        along.
        """
        along: dict[str, Tensor] = {}
        letters: dict[int, list[tuple[int, list[str]]]] = {}
        first = {(id, place) for id, place, _ in self.known}
        for held, rows in wanted:
            self.sight(held, rows)
            for part in held.parts:
                names, ids, places = list(part.tensors), part.ids.tolist(), part.places.tolist()
                for row in dict.fromkeys(rows):
                    id, place = ids[row], places[row]
                    missing = [n for n in names if (id, to, n) not in self.known]
                    if place == to or not missing:
                        continue
                    self.known |= {(id, to, n) for n in missing}
                    self.measured.models[place, to] += (id, to) not in first  # else more of it follows
                    if place != COORDINATOR:
                        letters.setdefault(place, []).append((id, missing))
                    elif to != COORDINATOR:
                        along |= {f"{id}/{n}": self.store[id][n] for n in missing}
        for place, some in letters.items():
            self.carry(place, to, some)
        return along

    def sight(self, held: Held, rows: Sequence[int]) -> None:
        """What a handle of the coordinator's own making has in it (first weights, shares) is in the store
        too.
        """
        for part in held.parts:
            if not part.tensors or next(iter(part.tensors.values())).device.type == "meta":
                continue
            for row in rows:
                if int(part.places[row]) == COORDINATOR:
                    self.store.setdefault(int(part.ids[row]), {}).update(tree.row(part.tensors, row))

    def hand_over(self, place: int, brought: dict[str, Tensor]) -> None:
        if brought:
            self.ask({place: ({"do": "take", "copies": True}, brought)}, counted=brought)

    def carry(self, place: int, to: int, some: Sequence[tuple[int, list[str]]]) -> None:
        """Contents go from a site to another, unread, or to the coordinator, to be mixed or looked at."""
        rows, new = [[[id, names]] for id, names in some], [id for id, _ in some]
        request = {"do": "letter", "rows": rows, "new": new, "copies": True}
        letter = self.transport.ask({place: pack(request, {})})[place]
        if payload(letter) == 0:
            self.answer(place, letter)  # a refusal
        self.measured.bytes[place, to] += payload(letter)
        log.info(
            "%s ⇒ %s  %d model(s), %d bytes", self.name_of(place), self.name_of(to), len(new), payload(letter)
        )
        if to != COORDINATOR:
            self.answer(to, self.transport.ask({to: letter})[to])
            return
        _, tensors = unpack(letter)
        self.seen(place, tensors)
        for key, t in tensors.items():
            id, _, name = key.partition("/")
            self.store.setdefault(int(id), {})[name] = t

    # hooks for those who want to know what the coordinator learns

    def seen(self, place: int, tensors: Mapping[str, Tensor]) -> None:
        """It unpacks models of a site."""

    def heard(self, place: int, names: Sequence[str]) -> None:
        """A site tells it numbers of these names."""

    # messages

    def ask(
        self,
        messages: Mapping[int, Message],
        counted: Mapping[str, Tensor] | None = None,
        quiet: bool = False,
    ) -> dict[int, Message]:
        """Several sites at once; a refusal of any is ours."""
        packed = {}
        for site, (message, tensors) in messages.items():
            models = tensors if counted is None else counted
            if models:
                self.measured.bytes[COORDINATOR, site] += sum(t.nbytes for t in models.values())
            packed[site] = pack(message, tensors)
            if not quiet:
                log.info("→ %s  %s, %d bytes of models", self.name_of(site), _words(message), _size(models))
        answers = {site: self.answer(site, data) for site, data in self.transport.ask(packed).items()}
        for site, (_, tensors) in answers.items():
            if tensors and not quiet:
                some = ", ".join(sorted(tensors)) if len(tensors) < 12 else f"{len(tensors)} numbers"
                log.info("← %s  %s", self.name_of(site), some)
        return answers

    def answer(self, site: int, data: bytes) -> Message:
        answer, tensors = unpack(data)
        if "error" in answer:
            raise ERRORS.get(answer["error"], BadRun)(answer["text"])
        return answer, tensors

    def name_of(self, place: int) -> str:
        return "coordinator" if place == COORDINATOR else self.roster.names[place]


def _words(message: Mapping[str, Any]) -> str:
    """What a message asks, in a few words."""
    if message["do"] != "visit":
        return str(message["do"])
    return f"visit {_said(message['kernel'])} by {len(message['rows'])} belief(s)"


def _said(kernel: Mapping[str, Any]) -> str:
    """fold(sgd(lr=0.1))"""
    inner = [
        f"{k}={_said(v)}" if isinstance(v, Mapping) else f"{k}={v}" for k, v in kernel.items() if k != "name"
    ]
    return f"{kernel['name']}({', '.join(inner)})"


def _size(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.nbytes for t in tensors.values())
