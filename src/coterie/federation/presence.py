"""Who is here, as the relay tells it, and whose word counts, as the authority has signed it.

The relay is not trusted with names: a certificate that it hands on is checked against the authority, and a
list of revoked ones holds only if the authority signed it and it is no older than the last.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.core.errors import CoterieError, shown
from coterie.federation.certificates import Card, card_of
from coterie.federation.party import Kit, Revoked, revoked_of

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
        self._watchers: list[Callable[[str, bool], None]] = []

    def watch(self, changed: Callable[[str, bool], None]) -> None:
        self._watchers.append(changed)

    def members(self) -> dict[str, Member]:
        """Those whose certificates hold and are not revoked; without a line, the last that were known."""
        with self.news:
            return {n: m for n, m in self._members.items() if m.card.serial not in self.revoked.serials}

    def member(self, name: str) -> Member | None:
        return self.members().get(name)

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
                self._revoke(bytes(body))
                return
            told = json.loads(bytes(body))
            if header.get("kind") == "members":
                self._whole(told)
            elif header.get("kind") == "arrived":
                self._came(self._read(told))
            elif header.get("kind") == "left":
                self._went(str(told["name"]))
        except (CoterieError, ValueError, KeyError, TypeError, RecursionError) as error:
            self.say(f"a note of the relay's is not taken: {shown(str(error))}")

    def _whole(self, told: list[Any]) -> None:
        if len(told) > MOST_MEMBERS:
            raise ValueError(f"{len(told)} members, of at most {MOST_MEMBERS}")
        found, now = {}, time.monotonic()
        for one in told:
            try:
                member = self._read(one)
            except CoterieError as error:
                self.say(f"a member is not counted: {error}")
                continue
            found[member.card.name] = member
        with self.news:
            before, self._members = self._members, found
            if not self._told:
                self._told, self._first = True, now
            for name in before.keys() - found.keys():
                self._gone[name] = now
            self.known = True
            self.changed()
        self._tell([(n, False) for n in before.keys() - found.keys()])
        self._tell([(n, True) for n in found.keys() - before.keys()])

    def _came(self, member: Member) -> None:
        with self.news:
            self._members[member.card.name] = member
            self._gone.pop(member.card.name, None)
            self.changed()
        self._tell([(member.card.name, True)])

    def _went(self, name: str) -> None:
        with self.news:
            if self._members.pop(name, None) is None:
                return
            self._gone[name] = time.monotonic()
            self.changed()
        self._tell([(name, False)])

    def _tell(self, changes: list[tuple[str, bool]]) -> None:
        for name, here in changes:
            if name != self.kit.name:
                for changed in self._watchers:
                    changed(name, here)

    def _revoke(self, told: bytes) -> None:
        revoked = revoked_of(told, self.kit.ca_pem)
        with self.news:
            if revoked.number > self.revoked.number:
                self.revoked = revoked
                self.changed()

    def _read(self, told: Mapping[str, Any]) -> Member:
        pem, name = str(told["card"]), str(told["name"])
        card = self._cards.get(pem)
        if card is None:
            card = card_of(pem.encode("ascii", "replace"), self.kit.ca_pem)
            if len(self._cards) > MOST_MEMBERS:
                self._cards.clear()
            self._cards[pem] = card
        if card.name != name:
            raise ValueError(f"{name} comes with the certificate of {card.name}")
        boot, version, where = (str(told.get(key, ""))[:128] for key in ("boot", "version", "where"))
        return Member(card, boot, version, float(told["since"]), where)
