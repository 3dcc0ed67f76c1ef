"""Questions and peer messages between the parties of a federation, over a line that may break.

Every message is encrypted for its receiver. A question has a number; whoever was away for a moment, or lost
the line, is sent the same numbered question again and gives the answer it remembers, so that nothing is done
twice. Whoever has been started anew since has forgotten: it is missing, as `restarted`. Who is connected and
gives no answer says why, or else that is said of it.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import coterie
from coterie.core.errors import BadInput, BadRun, Refused, shown
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit
from coterie.federation.messages import printable, safely
from coterie.federation.transport import assembly
from coterie.federation.transport.assembly import MOST_BODY, MOST_SHORT, Assembly, Header, Quota, bound
from coterie.federation.transport.encryption import decrypt, encrypt
from coterie.federation.transport.inbox import AGAIN, ASKERS, NAMES, Answer, Inbox, enveloped, opened
from coterie.federation.transport.line import Line
from coterie.federation.transport.presence import Member, Presence
from coterie.federation.transport.tls import Unreachable

PATIENCE = 15.0
SMALL = 1 << 20  # bytes of a message that goes at once
TICK = 0.5  # seconds between two looks at the clock
MOST_REPLIES = 4  # to one question; more than one is forged, or sent again
PAUSE = 2.0  # seconds until a question is sent again that a receiver had no room for
REPLIES = ("answer", "refusal", "note")
QUIET = AGAIN + 20.0  # seconds after which a party that is connected should have said something
LINE = 1e5  # bytes a second that even a slow line carries
RETURN = 20.0  # further seconds for a line of our own that is down: until it is back, nobody else is known

Waits = Callable[[Collection[str]], None]  # gets the names of those whose answers are still to come


@dataclass(frozen=True)
class Missing:
    """Who gave no answer, and why; `lasting` if the same question will get none later either."""

    name: str
    why: Literal["away", "late", "restarted", "refused"]
    text: str
    lasting: bool = False


@dataclass
class _Question:
    """One question on its way."""

    name: str
    kind: str
    number: int
    body: bytes
    card: Card | None = None  # of the receiver, once it has been sent to
    boot: str = ""
    sent: tuple[int, float] | None = None  # by which line of ours, and to which of the receiver's
    replies: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    notes: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)  # the last, while it is not read
    heard_at: float = 0.0  # when it was sent, or its receiver last said that it is there
    sent_at: float = 0.0  # when it was first sent
    excuse: str = ""  # why it takes long, as the receiver says
    people_know: bool = False  # that it takes long
    pause_until: float = 0.0  # after a receiver had no room for it
    trouble: str = ""  # why its answer is not taken

    def is_quiet(self, now: float) -> bool:
        """Whether nothing is heard of its receiver for longer than the question takes to get there."""
        return bool(self.sent_at) and now - self.heard_at >= QUIET + len(self.body) / LINE

    def late(self, now: float) -> str:
        """In words, that there is no answer so far."""
        if self.is_quiet(now):
            silence = f"{self.name} is connected but has not answered for {now - self.sent_at:.0f} s"
            return f"{silence}: ask there whether its process hangs"
        return f"{self.name} has not answered in time" + (f": it is {self.excuse}" if self.excuse else "")


class Post:
    """`answer(card, header, body)` does what a lead asks; `say` gets a line of what people should know. No
    question or letter of more than `most` bytes is taken, nor more of one sender at once (`assembly.py`).
    """

    def __init__(
        self,
        kit: Kit,
        answer: Answer | None = None,
        say: Callable[[str], None] = lambda line: None,
        line: Callable[..., Line] = Line,
        most: int = assembly.MOST_MESSAGE,
    ) -> None:
        self.kit, self.say = kit, (say := safely(say))
        self.boot = boot = secrets.token_hex(8)
        self.presence = presence = Presence(kit, say)
        self.inbox = Inbox(kit, boot, presence, lambda *told: self._line.send(*told), say, most, self._look)
        self.assembly = Assembly(self._admit)
        # only who asks gets long answers: to a peer message they are empty
        self.reply_quota = Quota(MOST_BODY if kit.role == "lead" else MOST_SHORT)
        self.note_quota = Quota(assembly.MOST_RELAY_NOTE)
        self.presence.watchers.append(self._forget)
        self.inbox.answers |= {} if answer is None else {"ask": answer}
        self._questions: dict[tuple[str, int], _Question] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._started = self._closed = False
        self._last, self._why = 0, ""
        about = {"boot": self.boot, "version": coterie.__version__}
        self._line = line(kit, self._receive, self._turned, about, self.assembly)

    def start(self, wait: float = 20.0) -> None:
        """Returns when who is here is known; else BadRun with the reason, and may be called again."""
        if not self._started:
            self._started = True
            self.inbox.start()
            self._line.start()
        with self.presence.news:
            if not self.presence.news.wait_for(lambda: self.presence.known, wait):
                why = self.presence.why or "the relay does not say who is here"
                raise BadRun(f"no line to the relay within {wait:g} s: {why}")

    def members(self) -> dict[str, Member]:
        return self.presence.members()

    def watch(self, changed: Callable[[str, bool], None]) -> None:
        """`changed(name, here)` is called by the line's thread: it must not wait for anything."""
        self.presence.watchers.append(changed)

    def on_peer_message(self, take: Callable[[Card, dict[str, Any], bytes], None]) -> None:
        """`take(card, header, body)` gets other sites' peer messages; what it raises, their senders hear."""

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
        waits: Waits = lambda names: None,
        look: Callable[[], None] = lambda: None,
        kind: str = "ask",
    ) -> dict[str, bytes | Missing]:
        """Several parties at once; an answer of each, or why there is none, after at most `deadline` seconds.

        Who is away may come back within `patience` seconds. `waits` is told whose answers are still to come
        whenever they become fewer; `look`, which may end it before, is called every now and then.
        """
        if self.kit.name in messages:
            raise BadInput(f"{self.kit.name} cannot send to itself: leave it out")
        if self.kit.role not in ASKERS[kind]:
            raise Refused(f"a {self.kit.role} may not send {NAMES[kind]}: only a {ASKERS[kind][0]} may")
        end = time.monotonic() + deadline
        done: dict[str, bytes | Missing] = {}
        told = -1
        with contextlib.ExitStack() as held:
            # one question of a kind at a time for each receiver, so that numbers arrive in order
            with self.presence.news:
                locks = [self._locks.setdefault((kind, name), threading.Lock()) for name in sorted(messages)]
            for lock in locks:
                held.enter_context(lock)
            questions = [_Question(n, kind, self.next_number(), body) for n, body in messages.items()]
            for question in questions:
                self._questions[question.name, question.number] = question
                held.callback(self._questions.pop, (question.name, question.number))
            while open := [e for e in questions if e.name not in done]:
                if len(open) != told:
                    told = len(open)
                    waits([e.name for e in open])
                look()
                version = self.presence.version
                for question in open:
                    if (found := self._step(question, end, patience)) is not None:
                        done[question.name] = found
                if len(done) < len(questions):
                    self.presence.wait(version, min(end - time.monotonic(), TICK))
        waits(())
        return {name: done[name] for name in messages}

    def call(
        self, messages: Mapping[str, bytes], deadline: float, patience: float = PATIENCE
    ) -> dict[str, bytes | Missing]:
        """As `ask`, of what a party answers while it works at something else, for this lead as well."""
        return self.ask(messages, deadline, patience, kind="call")

    def send_to_peer(
        self,
        to: str,
        header: Mapping[str, Any],
        body: bytes | memoryview,
        deadline: float,
        patience: float = PATIENCE,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """From site to site; returns when the other has taken it, else BadRun. `look` may end it before."""
        letter = {to: enveloped(header, body)}
        found = self.ask(letter, deadline, patience, look=look, kind="letter")[to]
        if isinstance(found, Missing):
            raise BadRun(f"a peer message from {self.kit.name} to {to} was not taken: {found.text}")

    def _step(self, question: _Question, end: float, patience: float) -> bytes | Missing | None:
        """The answer, or that there will be none, or nothing yet; sends the question if it is time to."""
        name, here, now = question.name, self.presence, time.monotonic()
        while question.replies:
            found = self._opened(question, *question.replies.pop(0))
            later = isinstance(found, Missing) and found.text.endswith(assembly.LATER)
            if isinstance(found, Missing) and later:  # it has not been looked at
                question.excuse, question.sent, question.pause_until = found.text, None, now + PAUSE
            elif found is not None:
                return found
        while question.notes:  # what a receiver says of a question that it has not answered yet
            found = self._opened(question, *question.notes.pop())
            if isinstance(found, bytes):
                question.heard_at = time.monotonic()
                question.excuse = printable(found.decode("utf-8", "replace"), 200)
        if question.excuse and not question.people_know:
            question.people_know = True
            self.say(f"{name} is {question.excuse}; waiting for it")
        if question.trouble:
            return Missing(name, "refused", question.trouble)
        if self._closed:
            return Missing(name, "away", "this side was closed")
        if self.assembly.has_of(name):
            question.heard_at = now  # what may be the answer is on its way
        if now >= end:
            return Missing(name, "late", question.late(now))
        if not here.known:
            if now - here.down_since > patience + RETURN:
                return Missing(name, "away", here.why or "no line to the relay")
            return None
        member = here.member(name)
        if member is None:
            if now - here.gone_since(name) > patience:
                return Missing(name, "away", f"{name} is not connected")
            return None
        if question.boot and member.boot != question.boot:
            return Missing(name, "restarted", f"{name} was started anew while it was asked")
        turn = (here.turns, member.since)
        if question.sent != turn and now >= question.pause_until:
            self._dispatch(question, member, turn)
        elif question.is_quiet(now) and not question.people_know:
            question.people_know = True
            self.say(question.late(now))
        return None

    def _dispatch(self, question: _Question, member: Member, turn: tuple[int, float]) -> None:
        header: Header = {"from": self.kit.name, "to": question.name, "kind": question.kind}
        header |= {"number": question.number, "boot": member.boot, "mine": self.boot}
        question.card, question.boot, question.sent = member.card, member.boot, turn
        question.heard_at = time.monotonic()
        question.sent_at = question.sent_at or question.heard_at
        told = (header, member.card, question.body)
        if len(question.body) <= SMALL:
            self._post(*told)
        else:  # a slow receiver holds up nobody else
            threading.Thread(target=self._post, args=told, name="coterie-post", daemon=True).start()

    def _post(self, header: dict[str, Any], to: Card, body: bytes) -> None:
        with contextlib.suppress(Unreachable):  # sent again by the next line
            self._line.send(header, encrypt(self.kit, to, bound(header), body))

    def _opened(self, question: _Question, header: Mapping[str, Any], body: bytes) -> bytes | Missing | None:
        """What a reply says; nothing if it is not what its sender has encrypted."""
        name, card = question.name, question.card
        try:
            if card is None or card.serial in self.presence.revoked.serials:
                raise Refused("it counts no more")
            body = decrypt(self.kit, card, bound(header), body)
        except Refused as error:
            self.say(f"an answer of {name} is refused: {error}")
            return None
        if header["kind"] in ("answer", "note"):
            return body
        text = printable(body.decode("utf-8", "replace"), 2000)
        if header["mine"] != question.boot:
            return Missing(name, "restarted", text)
        return Missing(name, "refused", text, text.endswith(assembly.TOO_LARGE))

    # the line

    def _turned(self, connected: bool, why: str) -> None:
        if not connected and why != self._why and not self._closed:
            self.say(f"{why}; trying again")
        elif connected and self._why:
            self.say("the line to the relay is back")
        self._why = why
        self.presence.turned(connected, why)

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
        sender, quota, question = str(header.get("from")), self.reply_quota, None
        if sender == "":
            quota = self.note_quota
        elif header.get("kind") not in REPLIES:
            return self.inbox.admit(header, size)
        elif (question := self._awaited(header)) is None:
            return None
        if why := quota.take(sender, size):
            self.say(f"a message of {sender or 'the relay'} is refused: {why}")
            if question is not None:
                with self.presence.news:
                    question.trouble = f"its answer is not taken: {why}"
                    self.presence.changed()
            return None
        return lambda: quota.give_back(sender, size)

    def _awaited(self, header: Mapping[str, Any]) -> _Question | None:
        """The question that a reply is for: one that waits, of a start of a process that was asked."""
        question = self._questions.get((str(header.get("from")), header.get("number", 0)))
        mine = question is not None and header.get("boot") == self.boot and question.boot
        if question is None or not mine or (header.get("mine") != mine and header["kind"] != "refusal"):
            if header["kind"] != "note":  # which may cross with the answer
                self.say(f"an answer of {shown(header.get('from'))} is refused: nothing waits for it")
            return None
        return question

    def _replied(self, header: dict[str, Any], body: bytes) -> None:
        question = self._awaited(header)
        if question is None:
            return
        with self.presence.news:
            if header["kind"] == "note":
                question.notes = [(header, body)] if len(body) <= MOST_SHORT else []
            elif len(question.replies) < MOST_REPLIES:
                size = sum(len(encrypted) for _, encrypted in question.replies) + len(body)
                question.replies += [(header, body)] if size <= self.reply_quota.most else []
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
