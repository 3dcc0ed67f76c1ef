"""Heads that sites sign with the keys of their certificates, and keep.

    signature = ECDSA over P-256 with SHA-256 of "coterie, head of a ledger:" and
                {authority, federation, head, index, role, run, site, time}

`authority` is the SHA-256 of the certificate of the federation's authority: a head is of one run of one
federation, signed by one of its sites at one time, and counts for nothing else. Heads of earlier versions are
over {head, index, run, site}: their certificates alone say of which federation and role they are.

A site signs only what continues the head that it has kept (`chain.continued`). It keeps its heads in a file
of its own, in which nothing is ever changed; whoever leads a run keeps the signatures beside the ledger.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput, shown
from coterie.storage.atomic import read_lines
from coterie.storage.chain import canonical
from coterie.storage.versioned import Schema

SIGNATURES = "signatures.jsonl"
HEADS = "heads.jsonl"
SAID = b"coterie, head of a ledger:\n"  # no other signature of a party's is over something that begins so
UNSIGNED = ("signature", "certificate")
BOUND = ("federation", "authority", "role", "time")
WHEN = "%Y-%m-%dT%H:%M:%S%z"
REVOKED = "its certificate was revoked"
LINES = Schema(1, "read it with the version of Coterie that wrote it")


@dataclass(frozen=True)
class Signed:
    """A head that a site has signed; `certificate` is in PEM, and may be in an earlier line alone. What it is
    bound to besides the run is empty in heads of earlier versions.
    """

    site: str
    run: str
    index: int
    head: str
    signature: str
    certificate: str = ""
    federation: str = ""
    authority: str = ""
    role: str = ""
    time: str = ""

    @property
    def as_dict(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if v != ""}

    @property
    def bound(self) -> bool:
        return self.authority != ""


def _message(one: Signed) -> bytes:
    """What is signed."""
    return SAID + canonical({k: v for k, v in one.as_dict.items() if k not in UNSIGNED}).encode()


def signed(kit: Any, run: str, index: int, head: str) -> Signed:
    """By a party's kit."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    from coterie.federation.kits.certificates import authority_mark

    now = datetime.now(UTC).strftime(WHEN)
    mark = authority_mark(kit.ca_pem)
    draft = Signed(kit.name, run, index, head, "", "", kit.federation, mark, kit.role, now)
    signature = b64encode(kit.key.sign(_message(draft), ec.ECDSA(hashes.SHA256()))).decode()
    return replace(draft, signature=signature, certificate=kit.card.pem.decode())


def trouble(one: Signed, ca_pem: bytes | None, revoked: Collection[int] = ()) -> str:
    """Why a signature does not count; nothing if it does. The certificate is held against an authority's, if
    that is at hand; one that has run out since it was used still says who signed.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    from coterie.federation.kits.certificates import authority_mark, claimed_card, is_issued

    try:
        card = claimed_card(one.certificate.encode())
    except ValueError:
        return "there is no certificate to check it by"
    if card.name != one.site:
        return "its certificate is somebody else's"
    if card.role != "site":
        return f"its certificate is that of a {card.role}, and sites alone sign"
    if ca_pem is not None and not is_issued(card.certificate, ca_pem):
        return "its certificate is not signed by the federation's authority"
    try:
        signature = b64decode(one.signature, validate=True)
        card.public_key.verify(signature, _message(one), ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return "the signature is not over this head"
    if one.bound:
        if (one.role, one.federation) != (card.role, card.federation):
            return "it was not signed as a site of its certificate's federation"
        if ca_pem is not None and one.authority != authority_mark(ca_pem):
            return "it was signed for another federation"
        try:
            within = card.not_before <= datetime.strptime(one.time, WHEN) <= card.not_after
        except (ValueError, TypeError):
            within = False
        if not within:
            return f"its certificate was not valid when it was signed, {shown(one.time)}"
    return REVOKED if card.serial in revoked else ""


def signed_of(told: Any) -> Signed | None:
    """As `Signed.as_dict` has it; None if it is something else."""
    if not isinstance(told, Mapping) or type(told.get("index")) is not int:
        return None
    bound = BOUND if told.get("authority") else ()  # an earlier version wrote a time that it did not sign
    words: dict[str, Any] = {name: told.get(name) for name in ("site", "run", "head", "signature", *bound)}
    words["certificate"] = told.get("certificate", "")
    if not all(isinstance(word, str) for word in words.values()):
        return None
    return Signed(index=told["index"], **words)


def read(path: Path) -> list[Signed]:
    """What a file of signatures or of heads has; notes of refusals are passed over. A certificate stands in
    the first line of its site, and holds for those after it until there is another.
    """
    found, certificates = list[Signed](), dict[str, str]()
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    tables = read_lines(path)[: len(lines)]  # what a kill cut short does not count
    if len(tables) < len(lines):
        raise BadInput(f"{path}: line {len(tables) + 1} is damaged, and is no signed head: bring back a copy")
    for told in tables:
        LINES.check(told, path)
        one = signed_of(told)
        if one is not None:
            certificates[one.site] = one.certificate or certificates.get(one.site, "")
            found.append(replace(one, certificate=certificates[one.site]))
        elif "refused" not in told:
            raise BadInput(f"{path}: {shown(told)[:80]} is no signed head: give a site's {HEADS}")
    return found


def refusals(path: Path) -> list[Mapping[str, Any]]:
    """Sites that would not sign, and why."""
    return [told for told in read_lines(path) if "refused" in told]


def write(path: Path, some: Iterable[Mapping[str, Any]]) -> None:
    """After whole lines alone: one that a kill cut short goes, nobody has seen it."""
    with path.open("a+b") as file:
        if file.tell() and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(json.dumps(one) + "\n" for one in some).encode())
