"""Kits: a folder for each party of a federation, with all that it needs to belong to it.

    DIR/authority      ca.key makes and revokes kits; whoever has it decides who belongs to the federation
    DIR/coordinator    the kit of the relay, and revoked.json, the list of certificates that count no more
    DIR/sites/NAME     a kit for each site
    DIR/helpers/NAME   a kit for each helper: two servers and a dealer, where replies are sealed
    DIR/people/NAME    a kit for each person: a lead starts work, a viewer may only ask who is there

People copy kits by hand, and whoever has a kit's key is that party: hand it over by a safe way, to nobody
else, and revoke it when it is lost. Only DIR/authority is needed to invite and to revoke.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import tomli_w
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from coterie.core.errors import BadInput, BadRun, Gathered, UnknownName, option, shown
from coterie.federation.kits import certificates, kit
from coterie.federation.kits.certificates import DAYS, ROLES, Role, check_days, check_name
from coterie.federation.kits.kit import REVOKED, Kit, Revoked, read_key, read_kit, read_part, read_toml
from coterie.storage.atomic import readable_errors, write_whole
from coterie.storage.locks import locked

COORDINATOR = "coordinator"


class _Member(TypedDict):
    """One certificate that the authority has made."""

    name: str
    role: Role
    serial: str
    revoked: bool


@dataclass(frozen=True)
class Office:
    """DIR/authority: the key that signs, what kits say of the relay, and who has got a kit."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "authority"

    @property
    def ca_pem(self) -> bytes:
        return read_part(self.folder / "ca.crt")

    def about(self) -> dict[str, Any]:
        path = self.folder / "authority.toml"
        about = read_toml(path)
        if missing := [key for key in ("host", "port", "listen") if key not in about]:
            raise BadInput(f"{path} does not say {', '.join(missing)}: bring it back from a copy")
        return about

    def members(self) -> list[_Member]:
        path = self.folder / "members.json"
        try:
            members: list[_Member] = json.loads(read_part(path))
            for member in members:
                check_name(member["name"])
                int(member["serial"], 16)
                member["revoked"] = bool(member["revoked"])
            return members
        except (ValueError, TypeError, KeyError, BadInput):
            raise BadInput(f"{path} is damaged: bring it back from a copy") from None

    def write(self, members: Sequence[_Member]) -> None:
        write_whole(self.folder / "members.json", json.dumps(members, indent=1))

    def admit(self, name: str, role: Role, days: int) -> Path:
        """A new kit in its place; noted first, as what is not noted cannot be revoked."""
        about = self.about()
        key, ca_pem = certificates.new_key(), self.ca_pem
        hosts = [about["host"], "localhost"] if role == COORDINATOR else []
        ca_key = read_key(self.folder / "ca.key")
        pem = certificates.issue(ca_pem, ca_key, name, role, key.public_key(), days, hosts)
        card = certificates.card_of(pem, ca_pem)
        told = {"name": name, "role": role, "federation": card.federation}
        told |= {k: about[k] for k in ("host", "port", *(["listen"] if role == COORDINATOR else []))}
        noted: _Member = {"name": name, "role": role, "serial": f"{card.serial:x}", "revoked": False}
        self.write([*self.members(), noted])
        place = _place_of(self.root, name, role)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with _drafted(place) as draft:
            write_private(draft / "kit.toml", tomli_w.dumps(told).encode())
            write_private(draft / "ca.crt", ca_pem)
            write_private(draft / f"{name}.crt", pem)
            write_private(draft / f"{name}.key", certificates.key_bytes(key))
        return place


def found_federation(
    folder: str | Path,
    sites: Sequence[str],
    people: Sequence[str] = ("lead",),
    host: str = "127.0.0.1",
    port: int = 8443,
    days: int = DAYS,
    listen: str = "",
    helpers: Sequence[str] = (),
) -> list[Kit]:
    """A new federation: the kits of the relay, the sites, the helpers and the people, in this order.

    People are written `name` (a lead) or `name:viewer`. All of it is there at the end, or nothing.
    """
    folder = Path(folder)
    wrong = Gathered()
    with wrong.one():
        check_free(folder)
    if not sites:
        wrong.add(f"a federation needs a site: name one or more with {option('sites', 'a')}")
    members: list[tuple[str, Role]] = [(COORDINATOR, "coordinator"), *((site, "site") for site in sites)]
    members += [(helper, "helper") for helper in helpers]
    if 0 < (many := len(helpers)) < 3:
        wrong.add(f"{many} helper(s), and sealing takes two servers and a dealer: name three, or none")
    for words in people:
        with wrong.one():
            name, _, role = words.partition(":")  # anna:viewer
            if role not in ("", "lead", "viewer"):
                must = f"role {shown(role)} of {shown(name)} must be lead or viewer"
                raise BadInput(f"{must}: write {name}:viewer")
            members.append((name, "viewer" if role == "viewer" else "lead"))
    for name, _ in members:
        with wrong.one():
            check_name(name)
    for line in _twice(name for name, _ in members):
        wrong.add(line)
    with wrong.one():
        listen = kit.listening(host, listen)
    with wrong.one():
        kit.check_port(port)
    with wrong.one():
        check_days(days)
    wrong.refuse()
    place = folder.resolve()
    with readable_errors(folder):
        place.parent.mkdir(parents=True, exist_ok=True)
    with _drafted(place) as draft:
        office = Office(draft)
        office.folder.mkdir(mode=0o700, exist_ok=True)
        key = certificates.new_key()
        about = {"host": host, "port": port, "listen": listen}
        federation = re.sub(r"[^A-Za-z0-9_-]+", "-", place.name).strip("-")[:63] or "federation"
        write_private(office.folder / "ca.key", certificates.key_bytes(key))
        write_private(office.folder / "ca.crt", certificates.authority(federation, key))
        write_private(office.folder / "authority.toml", tomli_w.dumps(about).encode())
        office.write([])
        for name, role in members:
            office.admit(name, role, days)
    return [read_kit(_place_of(folder, name, role)) for name, role in members]


def invite(folder: str | Path, name: str, role: Role = "site", days: int = DAYS) -> Kit:
    """A kit for one more party, or a new one for a name that was revoked."""
    check_name(name)
    check_days(days)
    if role not in ROLES or role == COORDINATOR:
        raise BadInput(f"role {shown(role)} must be site, helper, lead or viewer: a federation has one relay")
    with _at_work(folder) as office:
        there = [m["name"] for m in office.members() if not m["revoked"]]
        if name in there:
            revoking = f"coterie federation revoke {folder} {name}"
            raise BadInput(f"{name} has a kit already: choose another name, or first {revoking}")
        for line in _twice([*there, name]):
            raise BadInput(line)
        place = _place_of(office.root, name, role)
        if place.exists():  # of a revoked certificate; a site may have put things of its own beside it
            others = (place.with_name(f"{name}.revoked-{i}") for i in itertools.count(1))
            with readable_errors(place):
                place.rename(next(other for other in others if not other.exists()))
        return read_kit(office.admit(name, role, days))


def revoke(folder: str | Path, name: str) -> None:
    """The certificate of a party counts no more, from when the relay has got the list."""
    with _at_work(folder) as office:
        there = {m["name"]: m for m in office.members() if not m["revoked"] and m["name"] != COORDINATOR}
        if name == COORDINATOR:
            raise BadInput("the relay cannot be revoked, as it hands the list on: make a new federation")
        if name not in there:
            raise UnknownName("party", name, there)
        listed = office.folder / REVOKED
        before = kit.revoked_of(read_part(listed), office.ca_pem) if listed.exists() else Revoked()
        serials = before.serials | {int(there[name]["serial"], 16)}
        key = read_key(office.folder / "ca.key")
        told = _signed_list(serials, before.number + 1, office.ca_pem, key)
        write_whole(listed, told)
        if (office.root / COORDINATOR).is_dir():
            write_whole(office.root / COORDINATOR / REVOKED, told)
        office.write([{**m, "revoked": m["revoked"] or m["name"] == name} for m in office.members()])


def _signed_list(
    serials: frozenset[int], number: int, ca_pem: bytes, key: ec.EllipticCurvePrivateKey
) -> bytes:
    """The list of certificates that count no more, as the authority says it."""
    federation = certificates.federation_of(ca_pem)
    listed = {"federation": federation, "number": number, "revoked": sorted(f"{s:x}" for s in serials)}
    text = json.dumps(listed)
    signature = key.sign(kit.SAID + text.encode(), ec.ECDSA(hashes.SHA256()))
    return json.dumps({"list": text, "signature": b64encode(signature).decode()}).encode()


@contextlib.contextmanager
def _at_work(folder: str | Path) -> Iterator[Office]:
    """The authority of a federation, for one command at a time."""
    office = Office(Path(folder))
    if not (office.folder / "ca.key").is_file():
        remedy = "give the folder that coterie federation init has made"
        raise BadInput(f"{folder} has no authority/ca.key: {remedy}")
    try:
        lock = locked(office.folder)
    except BadRun:
        raise BadRun(f"{folder} is being changed by another command: wait for it") from None
    with lock:
        yield office


def _place_of(folder: Path, name: str, role: Role) -> Path:
    if role == COORDINATOR:
        return folder / COORDINATOR
    return folder / {"site": "sites", "helper": "helpers"}.get(role, "people") / name


def _twice(names: Iterable[str]) -> list[str]:
    """What is wrong with names that are not unique; some file systems take A and a for the same."""
    seen, lines = set[str](), list[str]()
    for name in names:
        if name.lower() in seen:
            lines.append(f"name {shown(name)} is there already (A and a count as the same): choose another")
        seen.add(name.lower())
    return lines


def check_free(folder: Path) -> None:
    """A folder that is new or empty. Not the one a shell is in: another takes its place."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is there and not empty: give the name of a new folder")
    if folder.resolve() == Path.cwd():
        raise BadInput(f"{folder} is the folder you are in: give the name of a new folder")


@contextlib.contextmanager
def _drafted(place: Path) -> Iterator[Path]:
    """A folder for the owner alone that takes its place once it is complete; nothing is left of a failure."""
    with readable_errors(place):
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        try:
            yield draft
            draft.replace(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def write_private(path: Path, content: bytes) -> None:
    """A new file that only its owner can read, from its first moment on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
