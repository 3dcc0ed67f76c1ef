"""Heads that sites sign with the keys of their certificates, and keep.

    signature = ECDSA over P-256 with SHA-256 of "coterie, head of a ledger:" and {head, index, run, site}

A site signs only what continues the head that it has kept (`chain.continued`). It keeps its heads in a file
of its own, in which nothing is ever changed; whoever leads a run keeps the signatures beside the ledger.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput, shown
from coterie.ledger.chain import canonical
from coterie.storage.atomic import read_lines

SIGNATURES = "signatures.jsonl"
HEADS = "heads.jsonl"
SAID = b"coterie, head of a ledger:\n"  # no other signature of a party's is over something that begins so


@dataclass(frozen=True)
class Signed:
    """A head that a site has signed; `certificate` is in PEM, and may be in an earlier line alone."""

    site: str
    run: str
    index: int
    head: str
    signature: str
    certificate: str = ""

    @property
    def told(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if v != ""}


def message(site: str, run: str, index: int, head: str) -> bytes:
    """What is signed."""
    return SAID + canonical({"head": head, "index": index, "run": run, "site": site}).encode()


def signed(kit: Any, run: str, index: int, head: str) -> Signed:
    """By a party's kit."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signature = kit.key.sign(message(kit.name, run, index, head), ec.ECDSA(hashes.SHA256()))
    return Signed(kit.name, run, index, head, b64encode(signature).decode(), kit.card.pem.decode())


def trouble(one: Signed, ca_pem: bytes | None) -> str:
    """Why a signature does not count; nothing if it does. The certificate is held against an authority's, if
    that is at hand; a certificate that has run out since still says who signed.
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        certificate = x509.load_pem_x509_certificate(one.certificate.encode())
        names = [a.value for a in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "there is no certificate to check it by"
    if names != [one.site] or not isinstance(key, ec.EllipticCurvePublicKey):
        return "its certificate is somebody else's"
    if ca_pem is not None:
        try:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ca_pem))
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            return "its certificate is not signed by the federation's authority"
    try:
        said = message(one.site, one.run, one.index, one.head)
        key.verify(b64decode(one.signature, validate=True), said, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return "the signature is not over this head"
    return ""


def signed_of(told: Any) -> Signed | None:
    """As `Signed.told` has it; None if it is something else."""
    words = ("site", "run", "head", "signature")
    if not isinstance(told, Mapping) or type(told.get("index")) is not int:
        return None
    pem = told.get("certificate", "")
    if not all(isinstance(told.get(k), str) for k in words) or not isinstance(pem, str):
        return None
    return Signed(told["site"], told["run"], told["index"], told["head"], told["signature"], pem)


def read(path: Path) -> list[Signed]:
    """What a file of signatures or of heads has; notes of refusals are passed over. A certificate stands in
    the first line of its site, and holds for those after it until there is another.
    """
    found, certificates = list[Signed](), dict[str, str]()
    for told in read_lines(path):
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
    with path.open("a") as file:
        file.write("".join(json.dumps(one) + "\n" for one in some))
