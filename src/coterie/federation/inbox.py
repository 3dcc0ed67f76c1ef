"""What others ask of a party: each question is done once, in order, and its answer remembered.

A question names the start of this process that it is meant for (its boot), the sender's own, and a number
that only grows while the sender runs. A number that was seen gets the remembered answer again; a smaller one,
one of an earlier start of the sender's, another boot, a sender that may not ask, or a seal that does not open
are refused, and nothing is done. Each sender has a worker, so that long work keeps neither the line nor other
senders waiting.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.core.errors import CoterieError, Refused, lines_of
from coterie.federation.certificates import Card
from coterie.federation.flare.tls import Unreachable
from coterie.federation.headers import bound
from coterie.federation.party import Kit
from coterie.federation.presence import Presence
from coterie.federation.seals import seal, unseal

log = logging.getLogger("coterie")

ASKERS = {"ask": ("lead",), "letter": ("site", "helper")}  # who may send what to a party
NAMES = {"ask": "questions", "letter": "letters"}
MOST_WAITING = 8  # questions of one sender
MOST_OVER = 10_000  # earlier starts of senders that are remembered
LENGTH = struct.Struct(">I")

Answer = Callable[[Card, dict[str, Any], bytes], bytes]


def enveloped(header: Mapping[str, Any], body: bytes | memoryview) -> bytes:
    """A letter with a header that only the receiver reads."""
    told = json.dumps(dict(header)).encode()
    return b"".join([LENGTH.pack(len(told)), told, body])


def opened(letter: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        start = LENGTH.size + LENGTH.unpack_from(letter)[0]
        header = json.loads(letter[LENGTH.size : start])
    except (struct.error, ValueError, RecursionError):
        raise Refused("a letter that cannot be read: both sides need the same version") from None
    if not isinstance(header, dict) or start > len(letter):
        raise Refused("a letter that cannot be read: both sides need the same version")
    return header, letter[start:]


@dataclass
class Seen:
    """The last question of a sender, and the reply to it once there is one."""

    number: int
    mine: str
    working: bool = True
    reply: tuple[dict[str, Any], bytes] | None = None


class Inbox:
    """`send(header, sealed)` goes out on the line; `answers` has what to do by kind."""

    def __init__(
        self,
        kit: Kit,
        boot: str,
        presence: Presence,
        send: Callable[[dict[str, Any], bytes], None],
        say: Callable[[str], None],
    ) -> None:
        self.kit, self.boot, self.presence, self.send, self.say = kit, boot, presence, send, say
        self.answers: dict[str, Answer] = {}
        self._seen: dict[tuple[str, str], Seen] = {}
        self._over: dict[tuple[str, str], None] = {}  # starts of senders that a later one has followed
        self._queues: dict[str, queue.Queue[tuple[dict[str, Any], bytes] | None]] = {}

    def put(self, header: dict[str, Any], sealed: bytes) -> None:
        """Called by the line's thread: leaves the question to the sender's worker."""
        name = str(header.get("from"))
        if self.presence.member(name) is None:
            self.say(f"a message of {name} is refused: it is no member that counts")
            return
        seen = self._seen.get((name, str(header.get("kind"))))
        if seen is not None and seen.working and seen.number == header.get("number"):
            return  # it is being done: the answer will go out when it is ready
        waiting = self._queues.get(name)
        if waiting is None:
            waiting = self._queues[name] = queue.Queue(MOST_WAITING)
            threading.Thread(target=self._work, args=(waiting,), name=f"coterie-{name}", daemon=True).start()
        try:
            waiting.put_nowait((header, sealed))
        except queue.Full:
            self.say(f"a message of {name} is refused: {MOST_WAITING} are waiting already")

    def close(self) -> None:
        for waiting in list(self._queues.values()):
            with contextlib.suppress(queue.Full):
                waiting.put_nowait(None)

    def _work(self, waiting: queue.Queue[tuple[dict[str, Any], bytes] | None]) -> None:
        while (item := waiting.get()) is not None:
            try:
                self.handle(*item)
            except Exception as error:  # a worker that ends would leave a sender without answers for ever
                log.warning("a message could not be handled", exc_info=True)
                self.say(f"a message could not be handled: {type(error).__name__}")
            del item

    def handle(self, header: dict[str, Any], sealed: bytes) -> None:
        """One question, from its checks to its answer."""
        name, kind = str(header.get("from")), str(header.get("kind"))
        member = self.presence.member(name)
        if member is None:
            return
        number, mine = header.get("number"), header.get("mine")
        if not isinstance(number, int) or not isinstance(mine, str):
            self.say(f"a message of {name} is refused: it has no number")
            return
        seen = self._seen.get((name, kind))
        if seen is not None and (seen.number, seen.mine) == (number, mine) and seen.reply is not None:
            self._out(*seen.reply)
            return
        try:
            body = self._checked(member.card, header, sealed, seen)
        except Refused as error:
            self.say(f"a message of {name} is refused: {error}")
            self._out(*self._reply(member.card, header, "refusal", str(error).encode()))
            return
        seen = self._seen[name, kind] = Seen(number, mine)
        try:
            reply = self._reply(member.card, header, "answer", self.answers[kind](member.card, header, body))
        except CoterieError as error:
            reply = self._reply(member.card, header, "refusal", " ".join(lines_of(error)).encode())
        except Exception as error:  # whatever the work ran into: the sender must hear of it
            log.warning("a question of %s could not be answered", name, exc_info=True)
            said = f"{self.kit.name} could not answer: unexpected {type(error).__name__}"
            self.say(said)
            reply = self._reply(member.card, header, "refusal", said.encode())
        seen.working, seen.reply = False, reply
        self._out(*reply)

    def _checked(self, card: Card, header: Mapping[str, Any], sealed: bytes, seen: Seen | None) -> bytes:
        kind = str(header.get("kind"))
        if card.role not in ASKERS.get(kind, ()):
            raise Refused(f"a {card.role} may not send {NAMES.get(kind, 'such messages')}")
        if kind not in self.answers:
            raise Refused(f"{self.kit.name} takes none")
        if header.get("boot") != self.boot:
            raise Refused(f"it is meant for an earlier start of {self.kit.name}")
        mine = (card.name, str(header["mine"]))
        if mine in self._over:
            raise Refused(f"it is of an earlier start of {card.name}")
        if seen is not None and seen.mine == mine[1] and header["number"] <= seen.number:
            raise Refused(
                f"its number {header['number']} is not larger than the last, {seen.number}: it is old"
            )
        body = unseal(self.kit, card, bound(header), sealed)
        if seen is not None and seen.mine != mine[1]:  # only who has the key can end its own earlier start
            self._over[card.name, seen.mine] = None
            while len(self._over) > MOST_OVER:
                del self._over[next(iter(self._over))]
        return body

    def _reply(
        self, to: Card, header: Mapping[str, Any], kind: str, body: bytes
    ) -> tuple[dict[str, Any], bytes]:
        """Bound to the number of the question and to both boots."""
        ends = {"from": self.kit.name, "to": to.name, "boot": header.get("mine"), "mine": self.boot}
        told = {**ends, "kind": kind, "number": header.get("number")}
        return told, seal(self.kit, to, bound(told), body)

    def _out(self, header: dict[str, Any], sealed: bytes) -> None:
        """If there is no line now, the sender asks again once there is one."""
        with contextlib.suppress(Unreachable):
            self.send(header, sealed)
