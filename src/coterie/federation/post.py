"""Questions and letters between the parties of a federation, over a line that may break.

Every message is sealed for its receiver. A question has a number; whoever was away for a moment, or lost the
line, is sent the same numbered question again and gives the answer it remembers, so that nothing is done
twice. Whoever has been started anew since has forgotten: it is missing, as `restarted`. Who is connected and
gives no answer says why, or else that is said of it.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

import coterie
from coterie.core.errors import BadInput, BadRun, Refused, shown
from coterie.federation.assembly import Assembly
from coterie.federation.certificates import Card
from coterie.federation.errands import Errand, Missing
from coterie.federation.flare import new_line
from coterie.federation.flare.tls import Unreachable
from coterie.federation.headers import MOST_BODY, bound, printable, safely
from coterie.federation.inbox import ASKERS, NAMES, Answer, Inbox, enveloped, opened
from coterie.federation.intake import LATER, MOST_MESSAGE, MOST_RELAY_NOTE, MOST_SHORT, TOO_LARGE, Intake
from coterie.federation.party import Kit
from coterie.federation.presence import Member, Presence
from coterie.federation.seals import seal, unseal

__all__ = ["Member", "Missing", "Post"]

PATIENCE = 15.0
SMALL = 1 << 20  # bytes of a message that goes at once
TICK = 0.5  # seconds between two looks at the clock
MOST_REPLIES = 4  # to one question; more than one is forged, or sent again
PAUSE = 2.0  # seconds until a question is sent again that a receiver had no room for
REPLIES = ("answer", "refusal", "note")
RETURN = 20.0  # further seconds for a line of our own that is down: until it is back, nobody else is known

Waits = Callable[[Collection[str]], None]
"""Gets the names of those whose answers are still to come."""


class Wireless(Protocol):
    """What a post needs of a line."""

    def start(self) -> None: ...

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None: ...

    def close(self) -> None: ...


class Post:
    """`answer(card, header, body)` does what a lead asks; `say` gets a line of what people should know. No
    question or letter of more than `most` bytes is taken, nor more of one sender at once (`intake.py`).
    """

    def __init__(
        self,
        kit: Kit,
        answer: Answer | None = None,
        say: Callable[[str], None] = lambda line: None,
        line: Callable[..., Wireless] | None = None,
        most: int = MOST_MESSAGE,
    ) -> None:
        self.kit, self.say = kit, (say := safely(say))
        self.boot = secrets.token_hex(8)
        self.presence = Presence(kit, say)
        self.inbox = Inbox(kit, self.boot, self.presence, self._send, say, most, self._look)
        self.assembly = Assembly(self._admit)
        # only who asks gets long answers: to a letter they are empty
        self.reply_intake = Intake(MOST_BODY if kit.role == "lead" else MOST_SHORT)
        self.note_intake = Intake(MOST_RELAY_NOTE)
        self.presence.watch(self._forget)
        if answer is not None:
            self.inbox.answers["ask"] = answer
        self._errands: dict[tuple[str, int], Errand] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._started = self._closed = False
        self._last, self._why = 0, ""
        about = {"boot": self.boot, "version": coterie.__version__}
        told = (kit, self._receive, self._turned, about)
        self._line = new_line(*told, self.assembly) if line is None else line(*told)

    def start(self, wait: float = 20.0) -> None:
        """Returns when who is here is known; else BadRun with the reason, and may be called again."""
        if not self._started:
            self._started = True
            self.inbox.start()
            self._line.start()
        with self.presence.news:
            if not self.presence.news.wait_for(lambda: self.presence.known, wait):
                why = self.presence.why or "the coordinator does not say who is here"
                raise BadRun(f"no line to the coordinator within {wait:g} s: {why}")

    def members(self) -> dict[str, Member]:
        return self.presence.members()

    def watch(self, changed: Callable[[str, bool], None]) -> None:
        """`changed(name, here)` is called by the line's thread: it must not wait for anything."""
        self.presence.watch(changed)

    def on_letter(self, take: Callable[[Card, dict[str, Any], bytes], None]) -> None:
        """`take(card, header, body)` gets other sites' letters; what it raises, their senders hear."""

        def answer(card: Card, header: dict[str, Any], body: bytes) -> bytes:
            take(card, *opened(body))
            return b""

        self.inbox.answers["letter"] = answer

    def on_call(self, answer: Answer, busy: Callable[[], tuple[str, str]]) -> None:
        """`answer(card, header, body)` gets what leads ask while work goes on, and must not wait for it;
        `busy` says with whose question that is, and in words for others who wait.
        """
        self.inbox.answers["call"], self.inbox.busy = answer, busy

    def close(self) -> None:
        with self.presence.news:
            self._closed = True
            self.presence.changed()
        self.inbox.close()
        self._line.close()

    # asking

    def next_number(self) -> int:
        """A number larger than all before, in earlier processes as well: time in microseconds."""
        with self.presence.news:
            self._last = max(self._last + 1, time.time_ns() // 1000)
            return self._last

    def ask(
        self,
        messages: Mapping[str, bytes],
        deadline: float,
        patience: float = PATIENCE,
        numbers: Mapping[str, int] | None = None,
        waits: Waits = lambda names: None,
    ) -> dict[str, bytes | Missing]:
        """Several parties at once; an answer of each, or why there is none, after at most `deadline` seconds.

        Who is away may come back within `patience` seconds. `numbers` are from `next_number`: who asks again
        under the same one gets the answer to the first time. `waits` is told whose answers are still to come
        whenever they become fewer.
        """
        return self._exchange("ask", messages, deadline, patience, numbers or {}, waits)

    def call(
        self, messages: Mapping[str, bytes], deadline: float, patience: float = PATIENCE
    ) -> dict[str, bytes | Missing]:
        """As `ask`, of what a party answers while it works at something else, for this lead as well."""
        return self._exchange("call", messages, deadline, patience, {})

    def letter(
        self,
        to: str,
        header: Mapping[str, Any],
        body: bytes | memoryview,
        deadline: float,
        patience: float = PATIENCE,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """From site to site; returns when the other has taken it, else BadRun. `look` may end it before."""
        found = self._exchange("letter", {to: enveloped(header, body)}, deadline, patience, {}, look=look)[to]
        if isinstance(found, Missing):
            raise BadRun(f"a letter from {self.kit.name} to {to} was not taken: {found.text}")

    def _exchange(
        self,
        kind: str,
        messages: Mapping[str, bytes],
        deadline: float,
        patience: float,
        numbers: Mapping[str, int],
        waits: Waits = lambda names: None,
        look: Callable[[], None] = lambda: None,
    ) -> dict[str, bytes | Missing]:
        if self.kit.name in messages:
            raise BadInput(f"{self.kit.name} cannot send to itself: leave it out")
        if self.kit.role not in ASKERS[kind]:
            raise Refused(f"a {self.kit.role} may not send {NAMES[kind]}: only a {ASKERS[kind][0]} may")
        end = time.monotonic() + deadline
        done: dict[str, bytes | Missing] = {}
        told = -1
        with self._errands_of(kind, messages, numbers) as errands:
            while open := [e for e in errands if e.name not in done]:
                if len(open) != told:
                    told = len(open)
                    waits([e.name for e in open])
                look()
                version = self.presence.version
                for errand in open:
                    if (found := self._step(errand, end, patience)) is not None:
                        done[errand.name] = found
                if len(done) < len(errands):
                    self._wait(version, min(end - time.monotonic(), TICK))
        waits(())
        return {name: done[name] for name in messages}

    @contextlib.contextmanager
    def _errands_of(
        self, kind: str, messages: Mapping[str, bytes], numbers: Mapping[str, int]
    ) -> Iterator[list[Errand]]:
        """One question of a kind at a time for each receiver, so that numbers arrive in order."""
        with self.presence.news:
            locks = [self._locks.setdefault((kind, name), threading.Lock()) for name in sorted(messages)]
        with contextlib.ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            errands = [
                Errand(name, kind, numbers.get(name) or self.next_number(), body)
                for name, body in messages.items()
            ]
            keys = [(e.name, e.number) for e in errands]
            self._errands |= dict(zip(keys, errands, strict=True))
            try:
                yield errands
            finally:
                for key in keys:
                    del self._errands[key]

    def _wait(self, version: int, seconds: float) -> None:
        with self.presence.news:
            self.presence.news.wait_for(lambda: self.presence.version != version, max(0.0, seconds))

    def _step(self, errand: Errand, end: float, patience: float) -> bytes | Missing | None:
        """The answer, or that there will be none, or nothing yet; sends the question if it is time to."""
        name, here, now = errand.name, self.presence, time.monotonic()
        while errand.replies:
            found = self._opened(errand, *errand.replies.pop(0))
            if isinstance(found, Missing) and found.text.endswith(LATER):  # it has not been looked at
                errand.excuse, errand.sent, errand.pause_until = found.text, None, now + PAUSE
            elif found is not None:
                return found
        self._read_note(errand)
        if errand.trouble:
            return Missing(name, "refused", errand.trouble)
        if self._closed:
            return Missing(name, "away", "this side was closed")
        if self.assembly.has_of(name):
            errand.heard_at = now  # what may be the answer is on its way
        if now >= end:
            return Missing(name, "late", errand.late(now))
        if not here.known:
            if now - here.down_since > patience + RETURN:
                return Missing(name, "away", here.why or "no line to the coordinator")
            return None
        member = here.member(name)
        if member is None:
            if now - here.gone_since(name) > patience:
                return Missing(name, "away", f"{name} is not connected")
            return None
        if errand.boot and member.boot != errand.boot:
            return Missing(name, "restarted", f"{name} was started anew while it was asked")
        turn = (here.turns, member.since)
        if errand.sent != turn and now >= errand.pause_until:
            self._dispatch(errand, member, turn)
        elif errand.is_quiet(now) and not errand.people_know:
            errand.people_know = True
            self.say(errand.late(now))
        return None

    def _read_note(self, errand: Errand) -> None:
        """What a receiver says of a question that it has not answered yet; people hear it once."""
        while errand.notes:
            found = self._opened(errand, *errand.notes.pop())
            if isinstance(found, bytes):
                errand.heard_at = time.monotonic()
                errand.excuse = printable(found.decode("utf-8", "replace"), 200)
        if errand.excuse and not errand.people_know:
            errand.people_know = True
            self.say(f"{errand.name} is {errand.excuse}; waiting for it")

    def _dispatch(self, errand: Errand, member: Member, turn: tuple[int, float]) -> None:
        header = {
            "from": self.kit.name,
            "to": errand.name,
            "kind": errand.kind,
            "number": errand.number,
            "boot": member.boot,
            "mine": self.boot,
        }
        errand.card, errand.boot, errand.sent = member.card, member.boot, turn
        errand.heard_at = time.monotonic()
        errand.sent_at = errand.sent_at or errand.heard_at
        if len(errand.body) <= SMALL:
            self._post(header, member.card, errand.body)
        else:  # a slow receiver holds up nobody else
            told = (header, member.card, errand.body)
            threading.Thread(target=self._post, args=told, name="coterie-post", daemon=True).start()

    def _post(self, header: dict[str, Any], to: Card, body: bytes) -> None:
        with contextlib.suppress(Unreachable):  # sent again by the next line
            self._send(header, seal(self.kit, to, bound(header), body))

    def _opened(self, errand: Errand, header: Mapping[str, Any], sealed: bytes) -> bytes | Missing | None:
        """What a reply says; nothing if it is not what its sender has sealed."""
        name, card = errand.name, errand.card
        try:
            if card is None or card.serial in self.presence.revoked.serials:
                raise Refused("it counts no more")
            body = unseal(self.kit, card, bound(header), sealed)
        except Refused as error:
            self.say(f"an answer of {name} is refused: {error}")
            return None
        if header["kind"] in ("answer", "note"):
            return body
        text = printable(body.decode("utf-8", "replace"), 2000)
        if header["mine"] != errand.boot:
            return Missing(name, "restarted", text)
        return Missing(name, "refused", text, text.endswith(TOO_LARGE))

    # the line

    def _send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        self._line.send(header, body)

    def _turned(self, connected: bool, why: str) -> None:
        if not connected and why != self._why and not self._closed:
            self.say(f"{why}; trying again")
        elif connected and self._why:
            self.say("the line to the coordinator is back")
        self._why = why
        self.presence.turned(connected, why)
        if connected:
            with contextlib.suppress(Unreachable):
                self._send({"to": "", "kind": "watch"})

    def _receive(self, header: dict[str, Any], body: bytes) -> None:
        kind = header.get("kind")
        if header.get("from") == "":
            self.presence.note(header, body)
        elif header.get("to") != self.kit.name:
            self.say(f"a message for {shown(header.get('to'))} came here: the relay is out of order")
        elif kind in REPLIES:
            self._replied(header, body)
        else:
            self.inbox.put(header, body)

    def _admit(self, header: dict[str, Any], size: int) -> Callable[[], None] | None:
        """A message in parts: by its first header and its size, how to let go of it, or None."""
        sender, intake, errand = str(header.get("from")), self.reply_intake, None
        if sender == "":
            intake = self.note_intake
        elif header.get("kind") not in REPLIES:
            return self.inbox.admit(header, size)
        elif (errand := self._awaited(header)) is None:
            return None
        why = intake.take(sender, size)
        if why:
            self.say(f"a message of {sender or 'the relay'} is refused: {why}")
            if errand is not None:
                with self.presence.news:
                    errand.trouble = f"its answer is not taken: {why}"
                    self.presence.changed()
            return None
        return lambda: intake.give_back(sender, size)

    def _awaited(self, header: Mapping[str, Any]) -> Errand | None:
        """The question that a reply is for: one that waits, of a start of a process that was asked."""
        errand = self._errands.get((str(header.get("from")), header.get("number", 0)))
        known = errand is not None and header.get("boot") == self.boot and errand.boot
        if errand is None or not known or (header.get("mine") != errand.boot and header["kind"] != "refusal"):
            if header["kind"] != "note":  # which may cross with the answer
                self.say(f"an answer of {shown(header.get('from'))} is refused: nothing waits for it")
            return None
        return errand

    def _replied(self, header: dict[str, Any], body: bytes) -> None:
        errand = self._awaited(header)
        if errand is None:
            return
        with self.presence.news:
            if header["kind"] == "note":
                errand.notes = [(header, body)] if len(body) <= MOST_SHORT else []
            elif len(errand.replies) < MOST_REPLIES and (
                sum(len(sealed) for _, sealed in errand.replies) + len(body) <= self.reply_intake.most
            ):
                errand.replies.append((header, body))
            self.presence.changed()

    def _look(self) -> None:
        """What grows too slowly is dropped, and all of who counts no more."""
        here = {"", *self.presence.members()}
        self.assembly.forget(here)
        for name in self.inbox.senders() - here:
            self.inbox.forget(name)
        for header in self.assembly.slow():
            if header.get("kind") in ASKERS:
                self.inbox.refuse(header, "its parts come too slowly: send it again")

    def _forget(self, name: str, here: bool) -> None:
        """Who goes or comes anew has nothing on its way here."""
        self.assembly.forget({"", *self.presence.members()} - {name})
        if not here:
            self.inbox.forget(name)
