"""What others ask of a party: each question is done once, in order, and its answer remembered.

A question names the start of this process that it is meant for (its boot), the sender's own, and a number
that only grows while the sender runs. A number that was seen gets the remembered answer again; a smaller one,
one of an earlier start of the sender's, another boot, a sender that may not ask, or what cannot be decrypted
is refused, and nothing is done. Each sender has a worker, so that long work keeps neither the line nor other
senders waiting, and another for calls, which are answered while its own work goes on. How much may be on its
way or wait is bounded before memory is taken (`assembly.py`). Who has to wait is told so, and why.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.core.errors import CoterieError, Refused, lines_of
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit
from coterie.federation.transport.assembly import ENVELOPE, MOST_MESSAGE, MOST_SHORT, Quota, bound
from coterie.federation.transport.encryption import decrypt, encrypt
from coterie.federation.transport.presence import Presence
from coterie.federation.transport.tls import Unreachable

log = logging.getLogger("coterie")

ASKERS = {"ask": ("lead",), "call": ("lead",), "letter": ("site", "helper")}  # who may send what to a party
NAMES = {"ask": "questions", "call": "calls", "letter": "peer messages"}
MOST_WAITING = 8  # questions of one sender
MOST_OVER = 10_000  # earlier starts of senders that are remembered
MOST_PEER_HEADER = 1 << 20  # bytes of a peer message's header
MOMENT, AGAIN = 2.0, 10.0  # seconds until somebody who waits is told so, and told again
TICK = 1.0  # seconds between two looks at who waits
MOST_SAID = 8  # things that one sender is told between two looks
LENGTH = struct.Struct(">I")

Answer = Callable[[Card, dict[str, Any], bytes], bytes]
Letter = tuple[dict[str, Any], bytes]  # a header, and what is encrypted


def enveloped(header: Mapping[str, Any], body: bytes | memoryview) -> bytes:
    """A peer message with a header that only the receiver reads."""
    told = json.dumps(dict(header)).encode()
    return b"".join([LENGTH.pack(len(told)), told, body])


def opened(letter: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        start = LENGTH.size + LENGTH.unpack_from(letter)[0]
        if start > min(len(letter), LENGTH.size + MOST_PEER_HEADER):
            raise ValueError("a header that is longer than any")
        header = json.loads(letter[LENGTH.size : start])
        if not isinstance(header, dict):
            raise ValueError("a header that is no table")
    except (struct.error, ValueError, RecursionError):
        raise Refused("a peer message that cannot be read: both sides need the same version") from None
    return header, letter[start:]


@dataclass
class _Seen:
    """The last question of a sender, and the reply to it once there is one."""

    number: int
    mine: str
    reply: Letter | None = None


@dataclass
class _Waiting:
    """A question without an answer so far; `working` once it is its turn, `due` when its sender is told."""

    header: dict[str, Any]
    due: float
    working: bool = False


Key = tuple[str, str, str, str]


def _key_of(header: Mapping[str, Any]) -> Key:
    kind, number, mine = (str(header.get(key)) for key in ("kind", "number", "mine"))
    return str(header.get("from")), kind, number, mine


class Inbox:
    """`send(header, encrypted)` goes out on the line; `answers` has what to do by kind."""

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
        self.quota, self.look = Quota(most, ENVELOPE), look
        self.notices = _Notices(self._look)
        self._waiting: dict[Key, _Waiting] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._over: dict[tuple[str, str], None] = {}  # starts of senders that a later one has followed
        self._queues: dict[tuple[str, str], queue.Queue[Letter | None]] = {}

    def admit(self, header: dict[str, Any], size: int) -> Callable[[], None] | None:
        """A message in parts, by its first header and how large it will be: how to let go of it, or None."""
        name, kind = str(header.get("from")), str(header.get("kind"))
        member, seen = self.presence.member(name), self._seen.get((name, kind))
        if member is None:
            self.say(f"a message of {name} is refused: it is no member that counts")
            return None
        if _key_of(header) in self._waiting:
            return None  # it is here already: the answer will go out when it is ready
        try:
            if seen is None or (seen.number, seen.mine) != (header.get("number"), header.get("mine")):
                self._check(member.card, header, seen)
            self._take(header, size)
        except Refused as error:
            self.refuse(header, str(error))
            return None
        return lambda: self.quota.give_back(name, size)

    def _take(self, header: Mapping[str, Any], size: int) -> None:
        """Counts what is to be held of a sender, or refuses it."""
        if header.get("kind") == "call" and size > MOST_SHORT:
            raise Refused(f"{size} bytes in a call, of at most {MOST_SHORT}: ask instead")
        if why := self.quota.take(str(header.get("from")), size):
            raise Refused(why)

    def put(self, header: dict[str, Any], encrypted: bytes) -> None:
        """Called by the line's thread: leaves the question to the sender's worker."""
        name, kind, key = str(header.get("from")), str(header.get("kind")), _key_of(header)
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
            self._take(header, len(encrypted))
        except Refused as error:
            self.refuse(header, str(error))
            return
        self._waiting[key] = _Waiting(header, time.monotonic() + MOMENT)
        try:
            waiting.put_nowait((header, encrypted))
        except queue.Full:
            self._over_with(header, len(encrypted))
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

        self.notices.soon(name, tell)

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
        self.notices.start()

    def close(self) -> None:
        self.notices.close()
        for waiting in list(self._queues.values()):
            with contextlib.suppress(queue.Full):
                waiting.put_nowait(None)

    def _over_with(self, header: Mapping[str, Any], size: int) -> None:
        if self._waiting.pop(_key_of(header), None) is not None:
            self.quota.give_back(str(header.get("from")), size)

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

    def _work(self, waiting: queue.Queue[Letter | None]) -> None:
        while (item := waiting.get()) is not None:
            header, encrypted = item[0], [item[1]]  # which nobody else keeps once it is opened
            key, size = _key_of(header), len(item[1])
            del item
            begun = self._waiting.get(key)
            try:
                if begun is not None:
                    begun.working = True
                    self.quota.give_back(key[0], size)
                self.handle(header, encrypted)
            except Exception as error:  # a worker that ends would leave a sender without answers for ever
                log.warning("a message could not be handled", exc_info=True)
                self.say(f"a message could not be handled: {type(error).__name__}")
            finally:
                self._waiting.pop(key, None)

    def handle(self, header: dict[str, Any], encrypted: list[bytes]) -> None:
        """One question, from its checks to its answer; `encrypted` has one."""
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
            self._check(member.card, header, seen)
            body = decrypt(self.kit, member.card, bound(header), encrypted.pop())
        except Refused as error:
            self.say(f"a message of {name} is refused: {error}")
            self._out(*self._reply(member.card, header, "refusal", str(error).encode()))
            return
        if seen is not None and seen.mine != mine:  # only who has the key ends its earlier start
            self._over[name, seen.mine] = None
            while len(self._over) > MOST_OVER:
                del self._over[next(iter(self._over))]
        seen = self._seen[name, kind] = _Seen(number, mine)
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

    def _check(self, card: Card, header: Mapping[str, Any], seen: _Seen | None) -> None:
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
            number = header.get("number")
            raise Refused(f"its number {number} is not larger than the last, {seen.number}: it is old")

    def _reply(self, to: Card, header: Mapping[str, Any], kind: str, body: bytes) -> Letter:
        """Bound to the number of the question and to both boots."""
        ends = {"from": self.kit.name, "to": to.name, "boot": header.get("mine"), "mine": self.boot}
        told = {**ends, "kind": kind, "number": header.get("number")}
        return told, encrypt(self.kit, to, bound(told), body)

    def _out(self, header: dict[str, Any], encrypted: bytes) -> None:
        """If there is no line now, the sender asks again once there is one."""
        with contextlib.suppress(Unreachable):
            self.send(header, encrypted)


class _Notices:
    """What is said at once, whatever workers are at: refusals, and that somebody has to wait. A thread of its
    own; `look` is called about every second.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._counts = Counter[str]()
        self._lock = threading.Lock()

    def start(self) -> None:
        threading.Thread(target=self._run, name="coterie-notices", daemon=True).start()

    def soon(self, sender: str, do: Callable[[], None]) -> None:
        """Is done there; not if this sender has had its share, so that nobody is kept from theirs."""
        with self._lock:
            self._counts[sender] += 1
            if self._counts[sender] <= MOST_SAID:
                self._todo.put(do)

    def close(self) -> None:
        self._todo.put(None)

    def _run(self) -> None:
        due = time.monotonic() + TICK
        while True:
            try:
                do = self._todo.get(timeout=max(0.0, due - time.monotonic()))
                if do is None:
                    return
                self._safely(do)
            except queue.Empty:
                with self._lock:
                    self._counts.clear()
                self._safely(self.look)
                due = time.monotonic() + TICK

    def _safely(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception:  # a thread that ends would leave everybody without a word
            log.warning("something could not be said", exc_info=True)
