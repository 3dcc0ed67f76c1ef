"""Who is here, as the relay tells it, and whose word counts, as the authority has signed it.

The relay is not trusted with names: a certificate that it hands on is checked against the authority, and a
list of revoked ones holds only if the authority signed it and it is no older than the last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from coterie.core.errors import BadData, CoterieError, shown
from coterie.federation.kits.certificates import Card, card_of
from coterie.federation.kits.kit import Kit, Revoked, revoked_of
from coterie.federation.messages import NOTES, LeftNote, MemberNote

MOST_MEMBERS = 1024


@dataclass(frozen=True)
class Member:
    """One who is connected; `since` when, by the relay's clock. Two helpers of the same `where` are at one
    address, as the relay says.
    """

    card: Card
    boot: str
    version: str
    since: float
    where: str = ""


class Presence:
    """What the relay has told so far. `news` is notified of every change; it guards what is in here."""

    def __init__(self, kit: Kit, say: Callable[[str], None]) -> None:
        self.kit, self.say = kit, say
        self.news = threading.Condition()
        self.connected, self.known = False, False
        self.why = "not started"
        self.version = 0  # counts what is new
        self.turns = 0  # how many times a line has been made
        self.down_since = time.monotonic()
        self.revoked = Revoked()
        self._members: dict[str, Member] = {}
        self._cards: dict[str, Card] = {}
        self._gone: dict[str, float] = {}
        self._told, self._first = False, time.monotonic()  # whether, and when, we first heard who is here
        self.watchers: list[Callable[[str, bool], None]] = []  # told (name, here), who comes and goes

    def members(self) -> dict[str, Member]:
        """Those whose certificates hold and are not revoked; without a line, the last that were known."""
        with self.news:
            return {n: m for n, m in self._members.items() if m.card.serial not in self.revoked.serials}

    def member(self, name: str) -> Member | None:
        return self.members().get(name)

    def wait(self, version: int, seconds: float) -> None:
        """Until something is new since this version, at most so long."""
        with self.news:
            self.news.wait_for(lambda: self.version != version, max(0.0, seconds))

    def gone_since(self, name: str) -> float:
        return self._gone.get(name, self._first)

    def changed(self) -> None:
        """Wakes whoever waits for news; called with `news` held."""
        self.version += 1
        self.news.notify_all()

    # told by the line

    def turned(self, connected: bool, why: str) -> None:
        """Connected or not; who is here is known when the relay has told it."""
        with self.news:
            if connected:
                self.turns += 1
            elif self.connected:
                self.down_since = time.monotonic()
            if not connected:
                self.known = False
            self.connected, self.why = connected, why
            self.changed()

    def note(self, header: Mapping[str, Any], body: bytes) -> None:
        """A note of the relay's; one that makes no sense is said, and changes nothing."""
        try:
            if header.get("kind") == "revoked":
                revoked = revoked_of(bytes(body), self.kit.ca_pem)
                with self.news:
                    if revoked.number > self.revoked.number:
                        self.revoked = revoked
                        self.changed()
                return
            kind = str(header.get("kind"))
            if kind not in NOTES:  # of an earlier relay, which says more
                return
            try:
                told = msgspec.json.decode(bytes(body), type=NOTES[kind])
            except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
                raise BadData(f"it cannot be read ({shown(str(error))})") from None
            if isinstance(told, list):
                self._whole(told)
            elif isinstance(told, LeftNote):
                self._update({n: m for n, m in self._members.items() if n != told.name})
            else:
                member = self._read(told)
                self._update({**self._members, member.card.name: member}, {member.card.name})
        except (CoterieError, ValueError) as error:
            self.say(f"a note of the relay's is not taken: {shown(str(error))}")

    def _whole(self, told: list[MemberNote]) -> None:
        if len(told) > MOST_MEMBERS:
            raise ValueError(f"{len(told)} members, of at most {MOST_MEMBERS}")
        found = {}
        for one in told:
            try:
                member = self._read(one)
            except CoterieError as error:
                self.say(f"a member is not counted: {error}")
                continue
            found[member.card.name] = member
        if not self._told:
            self._told, self._first = True, time.monotonic()
        self._update(found, known=True)

    def _update(self, members: dict[str, Member], anew: Collection[str] = (), known: bool = False) -> None:
        """Who is here now; `anew` are those who have just come, if they were here before as well."""
        with self.news:
            before, self._members = self._members, members
            gone, come = before.keys() - members.keys(), members.keys() - before.keys() | set(anew)
            self._gone = {n: at for n, at in self._gone.items() if n not in come}
            self._gone |= dict.fromkeys(gone, time.monotonic())
            self.known |= known
            if gone or come or known:
                self.changed()
        for name, here in (*((name, False) for name in gone), *((name, True) for name in come)):
            for changed in self.watchers if name != self.kit.name else ():
                changed(name, here)

    def _read(self, told: MemberNote) -> Member:
        card = self._cards.get(told.card)
        if card is None:
            card = card_of(told.card.encode("ascii", "replace"), self.kit.ca_pem)
            if len(self._cards) > MOST_MEMBERS:
                self._cards.clear()
            self._cards[told.card] = card
        if card.name != told.name:
            raise ValueError(f"{told.name} comes with the certificate of {card.name}")
        return Member(card, told.boot, told.version, told.since, told.where)
