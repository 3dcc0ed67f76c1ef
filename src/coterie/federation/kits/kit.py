"""A party's kit as it is read: its folder's files, checked, and the authority's list of revoked certificates.

A kit holds kit.toml, ca.crt, NAME.crt and NAME.key. Whoever has the key is that party. See `authority.py`
for how kits are made.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import tomllib
from base64 import b64decode
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from coterie.core.errors import BadInput, Refused, option, shown
from coterie.federation.kits import certificates
from coterie.federation.kits.certificates import ROLES, Card, Role, card_of, check_name

REVOKED = "revoked.json"
LARGEST = 4 << 20  # bytes of a list; one serial takes about 45
SAID = b"coterie, said by the authority:\n"  # no certificate begins so: a signature never serves as another's
LOOPBACK = "127.0.0.1"
HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?")


@dataclass(frozen=True)
class Kit:
    """A party's folder, read and checked. Its key is loaded when it is first used, and never shown."""

    folder: Path
    name: str
    role: Role
    federation: str
    host: str
    port: int
    listen: str = LOOPBACK  # where a relay listens; of no use to others

    @property
    def ca_path(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def certificate_path(self) -> Path:
        return self.folder / f"{self.name}.crt"

    @property
    def key_path(self) -> Path:
        return self.folder / f"{self.name}.key"

    @property
    def revoked_path(self) -> Path:
        return self.folder / REVOKED

    @cached_property
    def ca_pem(self) -> bytes:
        return read_part(self.ca_path)

    @property
    def serves(self) -> bool:
        """Whether its certificate can serve a page to other machines."""
        return certificates.serves(read_part(self.certificate_path))

    @cached_property
    def card(self) -> Card:
        return card_of(read_part(self.certificate_path), self.ca_pem)

    @cached_property
    def key(self) -> ec.EllipticCurvePrivateKey:
        return read_key(self.key_path)

    @cached_property
    def _secrets(self) -> dict[bytes, bytes]:
        return {}

    def secret_with(self, other: Card) -> bytes:
        """What this key and another party's have in common; found once for each party."""
        if other.pem not in self._secrets:
            self._secrets[other.pem] = self.key.exchange(ec.ECDH(), other.public_key)
        return self._secrets[other.pem]


@dataclass(frozen=True)
class Revoked:
    """Certificates that count no more; of two lists the one with the larger number holds."""

    serials: frozenset[int] = frozenset()
    number: int = 0
    told: bytes = b""


def read_kit(folder: str | Path) -> Kit:
    """A kit whose parts belong together and are valid now; else BadInput in one line."""
    folder = Path(folder)
    if not (folder / "kit.toml").is_file():
        raise BadInput(f"{folder} is not a kit: it has no kit.toml: give a folder that the authority made")
    path = folder / "kit.toml"
    told = read_toml(path)
    kinds = {"name": str, "role": str, "federation": str, "host": str, "port": int}
    for what, kind in kinds.items():
        if type(told.get(what)) is not kind:
            raise BadInput(f"{path}: {what} is not there or no {kind.__name__}: copy the kit again")
    listen, role = told.get("listen", LOOPBACK), next((r for r in ROLES if r == told["role"]), None)
    if role is None:
        raise BadInput(f"{path}: role {shown(told['role'])} must be one of {', '.join(ROLES)}")
    try:
        check_name(told["name"])
        _check_host(told["host"])
        _check_host(listen, "listen")
        check_port(told["port"])
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    kit = Kit(folder, told["name"], role, told["federation"], told["host"], told["port"], listen)
    try:
        card = kit.card
    except Refused as error:
        raise BadInput(f"kit {folder}: {error}") from None
    for what in ("name", "role", "federation"):
        said, signed = getattr(kit, what), getattr(card, what)
        if said != signed:
            raise BadInput(
                f"kit {folder}: kit.toml says {what} {shown(said)}, its certificate {shown(signed)}: "
                "copy the kit again as it was made"
            )
    if kit.key.public_key() != card.public_key:
        raise BadInput(f"{kit.key_path} is not the key of {kit.certificate_path.name}: copy the kit again")
    return kit


def revoked_of(told: bytes, ca_pem: bytes) -> Revoked:
    """A list that this authority has signed; else Refused."""
    wrong = Refused("the list of revoked certificates is not signed by the authority: ask the relay's host")
    if len(told) > LARGEST:
        raise wrong
    try:
        outer = json.loads(told)
        text, signature = outer["list"].encode(), b64decode(outer["signature"], validate=True)
        certificates.public_of(ca_pem).verify(signature, SAID + text, ec.ECDSA(hashes.SHA256()))
        inner = json.loads(text)
        serials = frozenset(int(serial, 16) for serial in inner["revoked"])
        return Revoked(serials, int(inner["number"]), bytes(told))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidSignature):
        raise wrong from None


def read_revoked(kit: Kit) -> Revoked:
    """The list in a relay's kit; empty if there is none."""
    if not kit.revoked_path.exists():
        return Revoked()
    return revoked_of(read_part(kit.revoked_path), kit.ca_pem)


def read_part(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}: copy the kit again as it was made") from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_part(path).decode())
    except ValueError:
        raise BadInput(f"{path} is not TOML: copy the kit again as it was made") from None


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A key that only its owner can read."""
    pem = read_part(path)
    if os.name != "nt" and path.stat().st_mode & 0o077:
        raise BadInput(f"{path} can be read by others on this machine: chmod 600 {path}")
    try:
        return certificates.key_of(pem)
    except ValueError as error:
        raise BadInput(f"{path} is {error}: copy the kit again as it was made") from None


def _check_host(host: Any, what: str = "host") -> None:
    if not isinstance(host, str) or (_address_in(host) is None and not HOST.fullmatch(host)):
        raise BadInput(f"{what} {shown(host)} must be a host's name or address: try {LOOPBACK}")


def check_port(port: int) -> None:
    if not 1 <= port <= 65535:
        raise BadInput(f"port={port} must be from 1 to 65535: try 8443")


def listening(host: str, listen: str) -> str:
    """Where a relay listens that is reached as `host`: on this machine alone unless one says where."""
    _check_host(host)
    address = _address_in(host)
    if address is not None and address.is_unspecified:
        raise BadInput(f"host {shown(host)} is where one listens: give the address that sites connect to")
    if listen:
        _check_host(listen, "listen")
        return listen
    if host == "localhost":
        return LOOPBACK
    if address is not None and address.is_loopback:
        return host
    raise BadInput(
        f"host {shown(host)} is reached from elsewhere, and nothing listens there unless you say so: "
        f"add {option('listen', '0.0.0.0')}, or the one address to listen on"
    )


def _address_in(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for a name."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(text)
    return None
