"""What others ask of a party: each question is done once, in order, and its answer remembered.

A question names the start of this process that it is meant for (its boot), the sender's own, and a number
that only grows while the sender runs. A number that was seen gets the remembered answer again; a smaller one,
one of an earlier start of the sender's, another boot, a sender that may not ask, or a seal that does not open
are refused, and nothing is done. Each sender has a worker, so that long work keeps neither the line nor other
senders waiting, and another for calls, which are answered while its own work goes on. How much may be on its
way or wait is bounded before memory is taken (`intake.py`). Who has to wait is told so, and why.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.core.errors import CoterieError, Refused, lines_of
from coterie.federation.certificates import Card
from coterie.federation.clerk import Clerk
from coterie.federation.flare.tls import Unreachable
from coterie.federation.headers import bound
from coterie.federation.intake import ENVELOPE, MOST_MESSAGE, MOST_SHORT, Intake
from coterie.federation.party import Kit
from coterie.federation.presence import Presence
from coterie.federation.seals import seal, unseal

log = logging.getLogger("coterie")

ASKERS = {"ask": ("lead",), "call": ("lead",), "letter": ("site", "helper")}  # who may send what to a party
NAMES = {"ask": "questions", "call": "calls", "letter": "letters"}
MOST_WAITING = 8  # questions of one sender
MOST_OVER = 10_000  # earlier starts of senders that are remembered
MOST_LETTER_HEADER = 1 << 20  # bytes of a letter's header
MOMENT, AGAIN = 2.0, 10.0  # seconds until somebody who waits is told so, and told again
LENGTH = struct.Struct(">I")

Answer = Callable[[Card, dict[str, Any], bytes], bytes]


def enveloped(header: Mapping[str, Any], body: bytes | memoryview) -> bytes:
    """A letter with a header that only the receiver reads."""
    told = json.dumps(dict(header)).encode()
    return b"".join([LENGTH.pack(len(told)), told, body])


def opened(letter: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        start = LENGTH.size + LENGTH.unpack_from(letter)[0]
        if start > LENGTH.size + MOST_LETTER_HEADER:
            raise ValueError("a header that is longer than any")
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
    reply: tuple[dict[str, Any], bytes] | None = None


@dataclass
class Waiting:
    """A question without an answer so far; `working` once it is its turn, `due` when its sender is told."""

    header: dict[str, Any]
    due: float
    working: bool = False


Key = tuple[str, str, str, str]


def key_of(header: Mapping[str, Any]) -> Key:
    kind, number, mine = (str(header.get(key)) for key in ("kind", "number", "mine"))
    return str(header.get("from")), kind, number, mine


class Inbox:
    """`send(header, sealed)` goes out on the line; `answers` has what to do by kind."""

    def __init__(
        self,
        kit: Kit,
        boot: str,
        presence: Presence,
        send: Callable[[dict[str, Any], bytes], None],
        say: Callable[[str], None],
        most: int = MOST_MESSAGE,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self.kit, self.boot, self.presence, self.send, self.say = kit, boot, presence, send, say
        self.answers: dict[str, Answer] = {}
        self.busy: Callable[[], tuple[str, str]] = lambda: ("", "")  # with whose question, and in words
        self.intake, self.look = Intake(most, ENVELOPE), look
        self.clerk = Clerk(self._look)
        self._waiting: dict[Key, Waiting] = {}
        self._seen: dict[tuple[str, str], Seen] = {}
        self._over: dict[tuple[str, str], None] = {}  # starts of senders that a later one has followed
        self._queues: dict[tuple[str, str], queue.Queue[tuple[dict[str, Any], bytes] | None]] = {}

    def admit(self, header: dict[str, Any], size: int) -> Callable[[], None] | None:
        """A message in parts, by its first header and how large it will be: how to let go of it, or None."""
        name, kind = str(header.get("from")), str(header.get("kind"))
        member, seen = self.presence.member(name), self._seen.get((name, kind))
        if member is None:
            self.say(f"a message of {name} is refused: it is no member that counts")
            return None
        if key_of(header) in self._waiting:
            return None  # it is here already: the answer will go out when it is ready
        try:
            if seen is None or (seen.number, seen.mine) != (header.get("number"), header.get("mine")):
                self._check(member.card, header, seen)
            self._take(header, size)
        except Refused as error:
            self.refuse(header, str(error))
            return None
        return lambda: self.intake.give_back(name, size)

    def _take(self, header: Mapping[str, Any], size: int) -> None:
        """Counts what is to be held of a sender, or refuses it."""
        if header.get("kind") == "call" and size > MOST_SHORT:
            raise Refused(f"{size} bytes in a call, of at most {MOST_SHORT}: ask instead")
        if why := self.intake.take(str(header.get("from")), size):
            raise Refused(why)

    def put(self, header: dict[str, Any], sealed: bytes) -> None:
        """Called by the line's thread: leaves the question to the sender's worker."""
        name, kind, key = str(header.get("from")), str(header.get("kind")), key_of(header)
        if self.presence.member(name) is None:
            self.say(f"a message of {name} is refused: it is no member that counts")
            return
        if key in self._waiting:
            return  # the answer will go out when it is ready
        place = (name, kind if kind in self.answers else "")
        waiting = self._queues.get(place)
        if waiting is None:
            waiting = self._queues[place] = queue.Queue(MOST_WAITING)
            threading.Thread(target=self._work, args=(waiting,), name=f"coterie-{name}", daemon=True).start()
        try:
            self._take(header, len(sealed))
        except Refused as error:
            self.refuse(header, str(error))
            return
        self._waiting[key] = Waiting(header, time.monotonic() + MOMENT)
        try:
            waiting.put_nowait((header, sealed))
        except queue.Full:
            self._over_with(header, len(sealed))
            self.refuse(header, f"{MOST_WAITING} are waiting already: wait until they are done")

    def refuse(self, header: dict[str, Any], why: str) -> None:
        """Its sender hears why, at once; one that is refused all the time hears it now and then."""
        name = str(header.get("from"))
        member = self.presence.member(name)
        if member is None:
            return
        card = member.card

        def tell() -> None:
            self.say(f"a message of {name} is refused: {why}")
            self._out(*self._reply(card, header, "refusal", why.encode()))

        self.clerk.soon(name, tell)

    def senders(self) -> set[str]:
        return {name for name, _ in list(self._queues)}

    def forget(self, name: str) -> None:
        """Of who has left nothing waits: it asks again once it is back."""
        for (sender, _), waiting in list(self._queues.items()):
            while sender == name:
                try:
                    item = waiting.get_nowait()
                except queue.Empty:
                    break
                if item is not None:
                    self._over_with(item[0], len(item[1]))

    def start(self) -> None:
        self.clerk.start()

    def close(self) -> None:
        self.clerk.close()
        for waiting in list(self._queues.values()):
            with contextlib.suppress(queue.Full):
                waiting.put_nowait(None)

    def _over_with(self, header: Mapping[str, Any], size: int) -> None:
        if self._waiting.pop(key_of(header), None) is not None:
            self.intake.give_back(str(header.get("from")), size)

    def _look(self) -> None:
        """Those who wait for longer than a moment are told so, and by whose question they are kept."""
        self.look()
        now = time.monotonic()
        for one in list(self._waiting.values()):
            name, kind = str(one.header.get("from")), str(one.header.get("kind"))
            member = self.presence.member(name)
            if now < one.due or member is None or member.card.role not in ASKERS.get(kind, ()):
                continue
            one.due = now + AGAIN
            whose, text = self.busy() if kind == "ask" else ("", "")
            if one.working and whose == name:
                text = ""  # its own
            self._out(*self._reply(member.card, one.header, "note", text.encode()))

    def _work(self, waiting: queue.Queue[tuple[dict[str, Any], bytes] | None]) -> None:
        while (item := waiting.get()) is not None:
            header, sealed = item[0], [item[1]]  # which nobody else keeps once it is opened
            key, size = key_of(header), len(item[1])
            del item
            begun = self._waiting.get(key)
            try:
                if begun is not None:
                    begun.working = True
                    self.intake.give_back(key[0], size)
                self.handle(header, sealed)
            except Exception as error:  # a worker that ends would leave a sender without answers for ever
                log.warning("a message could not be handled", exc_info=True)
                self.say(f"a message could not be handled: {type(error).__name__}")
            finally:
                self._waiting.pop(key, None)

    def handle(self, header: dict[str, Any], sealed: list[bytes]) -> None:
        """One question, from its checks to its answer; `sealed` has one."""
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
            body = self._checked(member.card, header, sealed.pop(), seen)
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
        seen.reply = reply
        self._out(*reply)

    def _check(self, card: Card, header: Mapping[str, Any], seen: Seen | None) -> None:
        """All that can be said of a question before it is opened."""
        kind = str(header.get("kind"))
        if card.role not in ASKERS.get(kind, ()):
            raise Refused(f"a {card.role} may not send {NAMES.get(kind, 'such messages')}")
        if kind not in self.answers:
            raise Refused(f"{self.kit.name} takes none")
        if header.get("boot") != self.boot:
            raise Refused(f"it is meant for an earlier start of {self.kit.name}")
        mine = (card.name, str(header.get("mine")))
        if mine in self._over:
            raise Refused(f"it is of an earlier start of {card.name}")
        if seen is not None and seen.mine == mine[1] and header.get("number", 0) <= seen.number:
            raise Refused(
                f"its number {header.get('number')} is not larger than the last, {seen.number}: it is old"
            )

    def _checked(self, card: Card, header: Mapping[str, Any], sealed: bytes, seen: Seen | None) -> bytes:
        self._check(card, header, seen)
        body = unseal(self.kit, card, bound(header), sealed)
        if seen is not None and seen.mine != header["mine"]:  # only who has the key ends its earlier start
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
