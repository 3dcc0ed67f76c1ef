"""What moves between the coordinator and sites that are elsewhere: contents by id, in messages.

What lies at the coordinator is in `store`, by id. Models of peers go from site to site in peer messages,
which nobody in between unpacks; what is brought to the coordinator's own place is unpacked. `log` tells what
crosses, `measured` counts it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

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
Wanted = Sequence[tuple[Held, Sequence[int]]]  # rows of handles
Content = tuple[int, dict[str, Tensor]]  # an id, and by name what its tensors are like, without numbers


class Silence(NamedTuple):
    """What comes instead of an answer; `lasting` if asking again would not help."""

    why: str
    lasting: bool = False


class Transport(Protocol):
    """How messages reach sites: each of several gets one, and an answer or a silence comes back for each."""

    def ask(self, messages: Mapping[int, bytes]) -> Mapping[int, bytes | Silence]: ...

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
        self.bring({COORDINATOR: [(held, rows)]}, why="open")
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

    def bring(self, wanted: Mapping[int, Wanted], why: str = "mix") -> dict[int, dict[str, Tensor]]:
        """Rows of handles come to places: from sites at once; what the coordinator has is returned for each
        place, to go along.
        """
        along: dict[int, dict[str, Tensor]] = {}
        peer_messages: dict[tuple[int, int], list[Content]] = {}
        first = {(id, place) for id, place, _ in self.known}
        for to, some in wanted.items():
            along[to] = {}
            for held, rows in some:
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
                            like = {n: part.tensors[n][row] for n in missing}
                            peer_messages.setdefault((place, to), []).append((id, like))
                        elif to != COORDINATOR:
                            along[to] |= {f"{id}/{n}": self.store[id][n] for n in missing}
        if peer_messages:
            self.carry(peer_messages, why)
        return along

    def sight(self, held: Held, rows: Sequence[int]) -> None:
        """What a handle of the coordinator's own making has (first weights, shares) is in the store too."""
        for part in held.parts:
            if not part.tensors or next(iter(part.tensors.values())).device.type == "meta":
                continue
            for row in rows:
                if int(part.places[row]) == COORDINATOR:
                    self.store.setdefault(int(part.ids[row]), {}).update(tree.row(part.tensors, row))

    def carry(self, peer_messages: Mapping[tuple[int, int], Sequence[Content]], why: str) -> None:
        """Contents go from sites to others, unread, or to the coordinator, to be mixed or looked at."""
        here = dict[int, Message]()
        for (place, to), some in peer_messages.items():
            rows, new = named(some)
            if to == COORDINATOR:
                here[place] = ({"do": "give", "rows": rows, "new": new, "why": why}, {})
            else:
                order = {"do": "letter", "rows": rows, "new": new, "to": self.name_of(to)}
                self._hand_over(place, to, pack(order, {}))
        for place, (_, tensors) in self.ask(here).items():
            wanted = peer_messages[place, COORDINATOR]
            self.check(place, tensors, {f"{id}/{n}": t for id, some in wanted for n, t in some.items()})
            self.passed(place, COORDINATOR, tree.size_in_bytes(tensors))
            self.seen(place, tensors)
            for key, t in tensors.items():
                id, _, name = key.partition("/")
                self.store.setdefault(int(id), {})[name] = t

    def _hand_over(self, place: int, to: int, order: bytes) -> None:
        """A letter is fetched and passed on as it is, by us who have both ends in hand."""
        letter = receipt = self.transport.ask({place: order})[place]
        size = 0
        if not isinstance(letter, Silence) and (size := payload(letter)):  # else a refusal
            receipt = self.transport.ask({to: letter})[to]
        if isinstance(receipt, Silence):
            self.need({place: receipt})
        else:
            self.answer(place, receipt)
            self.passed(place, to, size)

    def passed(self, place: int, to: int, size: int) -> None:
        """Models went from a site to somebody."""
        self.measured.bytes[place, to] += size
        log.info("%s ⇒ %s  %d bytes of models", self.name_of(place), self.name_of(to), size)

    def check(self, place: int, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
        """Whoever does not trust a site looks at what it gives: like these, which have no numbers."""

    def check_rows(self, place: int, rows: Mapping[str, Tensor]) -> None:
        """The same for rows."""

    # hooks for those who want to know what the coordinator learns

    def seen(self, place: int, tensors: Mapping[str, Tensor]) -> None:
        """It unpacks models of a site."""

    def heard(self, place: int, names: Sequence[str]) -> None:
        """A site tells it numbers of these names."""

    # messages

    def ask(
        self,
        messages: Mapping[int, Message],
        counted: Mapping[int, Mapping[str, Tensor]] | None = None,
        quiet: bool = False,
    ) -> dict[int, Message]:
        """Several sites at once; a refusal of any is ours, and all are needed."""
        answers, silent = self.try_to_ask(messages, counted, quiet)
        self.need(silent)
        return answers

    def try_to_ask(
        self,
        messages: Mapping[int, Message],
        counted: Mapping[int, Mapping[str, Tensor]] | None = None,
        quiet: bool = False,
    ) -> tuple[dict[int, Message], dict[int, Silence]]:
        """Several sites at once: who answered, and who did not."""
        packed = {}
        for site, (message, tensors) in messages.items():
            models = tensors if counted is None else counted[site]
            size = tree.size_in_bytes(models)
            self.measured.bytes[COORDINATOR, site] += size
            packed[site] = self.packed(site, message, tensors)
            if not quiet:
                what = str(message["do"])
                if what == "visit":
                    what = f"visit {said(message['kernel'])} by {len(message['rows'])} belief(s)"
                log.info("→ %s  %s, %d bytes of models", self.name_of(site), what, size)
        answers, silent = dict[int, Message](), dict[int, Silence]()
        for site, data in (self.transport.ask(packed) if packed else {}).items():
            found = data if isinstance(data, Silence) else self.answer(site, data)
            if isinstance(found, Silence):
                silent[site] = found
                continue
            answers[site] = found
            tensors = found[1]
            if tensors and not quiet:
                some = ", ".join(sorted(tensors)) if len(tensors) < 12 else f"{len(tensors)} numbers"
                log.info("← %s  %s", self.name_of(site), some)
        return answers, silent

    def answer(self, site: int, data: bytes) -> Message | Silence:
        """What a site says; a refusal is ours."""
        answer, tensors = self.opened(site, data)
        if "error" in answer:
            raise ERRORS.get(str(answer["error"]), BadRun)(str(answer.get("text", "")))
        return answer, tensors

    def said(self, text: Any) -> str:
        """What a site says in words, for people."""
        return str(text)

    def packed(self, site: int, message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
        return pack(message, tensors)

    def opened(self, site: int, data: bytes) -> Message:
        return unpack(data)

    def need(self, silent: Mapping[int, Silence]) -> None:
        """Sites that must answer did not; whoever can do without them may try again."""
        if silent:
            name = self.name_of(next(iter(silent)))
            raise BadRun(f"site {name!r} does not answer: resume the run in its folder")

    def name_of(self, place: int) -> str:
        return "coordinator" if place == COORDINATOR else self.roster.names[place]


def named(contents: Sequence[Content]) -> tuple[list[Row], list[int]]:
    """Contents as messages name them."""
    return [[[id, list(like)]] for id, like in contents], [id for id, _ in contents]


def said(kernel: Mapping[str, Any]) -> str:
    """fold(sgd(lr=0.1))"""
    options = [f"{k}={said(v) if isinstance(v, Mapping) else v}" for k, v in kernel.items() if k != "name"]
    return f"{kernel['name']}({', '.join(options)})"
