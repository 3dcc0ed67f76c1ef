"""The relay: the only process of a federation that listens, and that passes on what others send each other.

It knows who is connected, and tells everybody who that is and whenever somebody comes or goes. Messages
between parties are encrypted: it reads whom a frame is for, and of what kind it is, and hands it on.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import logging.handlers
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from coterie.core.errors import BadInput, CoterieError, shown
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit, read_revoked
from coterie.federation.messages import MOST_TEXT, LeftNote, MemberNote, safely
from coterie.federation.transport.assembly import wrong
from coterie.federation.transport.line import Hub
from coterie.federation.transport.tls import Unreachable

log = logging.getLogger("coterie")

PING = 3.0  # seconds for an earlier connection of the same name to show that it is alive
LOOK = 1.0  # seconds between two looks at the list of revoked certificates
QUIET = 60.0  # seconds in which the same line about the same stranger is said once
LOG_BYTES = 1 << 20
SENDS: dict[str, tuple[str, ...]] = {
    "site": ("letter", "answer", "refusal", "note"),
    "helper": ("letter", "answer", "refusal", "note"),
    "lead": ("ask", "call", "refusal"),
    "viewer": (),
}


@dataclass(frozen=True)
class Present:
    """One who is connected."""

    card: Card
    boot: str
    version: str
    address: str
    since: float

    def note(self, salt: bytes = b"") -> MemberNote:
        """What others hear of it; not from where it is connected, but of helpers whether two are at one
        address: a mark of it that says nothing else, as its salt stays here.
        """
        host = self.address.rpartition(":")[0] or self.address
        mark = hashlib.sha256(salt + host.encode()).hexdigest()[:16]
        where = mark if self.card.role == "helper" else ""
        pem = self.card.pem.decode("ascii")
        return MemberNote(self.card.name, pem, self.boot, self.version, self.since, where)


class _File(logging.handlers.RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """A full disk keeps nobody from talking to each other."""


class Relay:
    """`say` gets one line for each arrival, leaving and refusal; the same goes to relay.log in the kit."""

    def __init__(
        self,
        kit: Kit,
        say: Callable[[str], None] = lambda line: None,
        host: str = "",
        port: int | None = None,
    ) -> None:
        if kit.role != "coordinator":
            raise BadInput(f"{kit.folder} is the kit of a {kit.role}: give the relay's, DIR/coordinator")
        self.kit, self._screen = kit, safely(say)
        self._present: dict[str, Present] = {}
        self._coming: dict[str, Present] = {}  # let in, and not yet greeted
        self._lock = threading.Lock()
        self._order = threading.Lock()  # of what is told to all
        self._said: dict[tuple[str, str], float] = {}
        self._over = threading.Event()
        self._salt = secrets.token_bytes(16)
        log_path = kit.folder / "relay.log"
        self._file = _File(log_path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self._file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self.revoked = read_revoked(kit)  # a list that cannot be read is no empty one: then nobody is let in

        def turned_away(address: str, why: str) -> None:
            self._say_once(address, f"refused {address}: {why}")

        self.hub = Hub(kit, self._admit, self._receive, self._arrived, self._left, turned_away, host, port)

    @property
    def address(self) -> tuple[str, int]:
        return self.hub.address

    @property
    def members(self) -> dict[str, Present]:
        with self._lock:
            return dict(self._present)

    def start(self) -> None:
        self.hub.start()
        threading.Thread(target=self._look, name="coterie-revoked", daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self.hub.close()
        self._file.close()

    def say(self, line: str) -> None:
        line = " ".join(line.split())
        self._file.handle(logging.LogRecord("relay", logging.INFO, "", 0, line, None, None))
        if not self._over.is_set():
            self._screen(line)

    # who comes and goes; these are called by the connections' threads

    def _admit(self, card: Card, address: str, about: Mapping[str, Any]) -> str:
        boot, version = (str(about.get(key, ""))[:MOST_TEXT] for key in ("boot", "version"))
        comer = Present(card, boot, version, address, time.time())
        with self._lock:
            why = self._unwanted(card)
            if not why and card.name in self._coming:
                place = self._coming[card.name].address
                why = f"{card.name} is already connecting from {place}: wait a moment"
            if not why:
                self._coming[card.name] = comer
            earlier = self._present.get(card.name)
        if not why and earlier is not None:  # of two with the same kit the first stays, if it is still there
            if self.hub.alive(card.name, PING):
                why = f"{card.name} is already connected from {earlier.address}: end that one first, "
                why += "or revoke the kit if it is not yours"
                with self._lock:
                    self._coming.pop(card.name, None)
            else:
                self.hub.drop(card.name, "another connection has taken its place")
        if why:
            self._say_once(address, f"refused {card.name} from {address}: {why}")
        return why

    def _unwanted(self, card: Card) -> str:
        if card.serial in self.revoked.serials:
            return f"the certificate of {card.name} is revoked: ask for a new kit"
        if card.role == "coordinator":
            return "a relay's kit cannot take part: use a site's or a person's"
        return ""

    def _arrived(self, name: str, about: Mapping[str, Any]) -> None:
        with self._order:  # it knows who is here before anybody knows of it, and asks it something
            with self._lock:
                comer = self._coming.pop(name)
                unwanted = self._unwanted(comer.card)  # the list may have changed meanwhile
                if not unwanted:
                    self._present[name] = comer
                told = [present.note(self._salt) for present in self._present.values()]
            if not unwanted:
                if self.revoked.told:
                    self._tell(name, "revoked", self.revoked.told)
                self._tell(name, "members", msgspec.json.encode(told))
        if unwanted:
            self.hub.drop(name, unwanted)
            return
        self.say(f"{name} ({comer.card.role}) is here, from {comer.address}")
        note = msgspec.json.encode(comer.note(self._salt))
        with self._order:
            for one in self.members.keys() - {name}:
                self._tell(one, "arrived", note)

    def _left(self, name: str) -> None:
        with self._order:  # all know that it has left before it can come again
            with self._lock:
                gone = self._present.pop(name, None)
                if gone is None:
                    self._coming.pop(name, None)
                here = list(self._present)
            if gone is not None and not self._over.is_set():
                for one in here:
                    self._tell(one, "left", msgspec.json.encode(LeftNote(name)))
        if gone is not None and not self._over.is_set():
            self.say(f"{name} has left")

    # what parties send

    def _receive(self, name: str, header: dict[str, Any], part: memoryview) -> None:
        problem = wrong(header, len(part))
        if problem:
            self._say_once(name, f"a message of {name} is dropped: {problem}")
            return
        sender = self._present.get(name)
        to, kind = header["to"], header["kind"]
        if sender is None:
            return
        if to == "":  # earlier versions ask who is here, and have been told already
            if kind not in ("watch", "members"):
                self._say_once(name, f"a message of {name} is dropped: it asks for {shown(kind)}")
        elif kind not in SENDS[sender.card.role]:
            why = f"a {sender.card.role} may not send {shown(kind)}"
            self._say_once(name, f"a message of {name} is dropped: {why}")
        else:
            with contextlib.suppress(Unreachable):  # all know that it is not here
                self.hub.send(to, header, part)

    # telling

    def _tell(self, name: str, kind: str, body: bytes) -> None:
        with contextlib.suppress(Unreachable):
            self.hub.send(name, {"kind": kind, "from": "", "to": name}, body, wait=False)

    def _say_once(self, whom: str, line: str) -> None:
        """A port scanner, or a party gone wild, does not fill the screen."""
        whom, now = whom.rpartition(":")[0] or whom, time.monotonic()
        key = (whom, line.partition(": ")[2])
        with self._lock:
            if now - self._said.get(key, -QUIET) < QUIET:
                return
            if len(self._said) > 1000:
                self._said.clear()
            self._said[key] = now
        self.say(line)

    # the list of revoked certificates

    def _look(self) -> None:
        seen = self._stamp()
        while not self._over.wait(LOOK):
            stamp = self._stamp()
            if stamp != seen:
                seen = stamp
                self.reread()

    def reread(self) -> None:
        """Takes the list as it is now; whoever is on it is hung up on, and all others get it."""
        before = self.revoked.number
        try:
            found = read_revoked(self.kit)
        except (CoterieError, OSError) as error:
            self.say(f"the list of revoked certificates cannot be read, the last one holds: {error}")
            return
        if found.number < before:
            self.say(f"the list of revoked certificates is older ({found.number}) than the one that holds")
        if found.number <= before:
            return
        self.revoked = found
        for name, present in self.members.items():
            if present.card.serial in self.revoked.serials:
                self.say(f"{name} is revoked")
                self.hub.drop(name, f"the certificate of {name} is revoked: ask for a new kit")
            else:
                self._tell(name, "revoked", self.revoked.told)

    def _stamp(self) -> tuple[int, int]:
        try:
            found = self.kit.revoked_path.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size
