"""Who is who in a federation: an authority's key signs one certificate for every party.

A certificate says a name (CN), a role (OU) and a federation (O), and holds the public half of a key on the
curve P-256. The other half stays with the party: whoever has it is that party. A `Card` is a certificate that
has been checked; nothing here reads or writes a file.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Literal, get_args

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coterie.core.errors import BadInput, Refused, shown

Role = Literal["coordinator", "site", "helper", "lead", "viewer"]
SERVES = ("coordinator", "site", "lead")
"""Who may serve, sites and leads a page of their own; who is the relay, its role says."""
ROLES: tuple[Role, ...] = get_args(Role)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
DAYS, LONGEST = 730, 3650
AUTHORITY_DAYS = 2 * LONGEST
EARLIER = timedelta(days=1)  # clocks differ: a new certificate is valid at hosts that are behind, too
LARGEST = 16_384  # bytes of a certificate; ours have about 800
WHEN = "%Y-%m-%d %H:%M"
AGAIN = "ask for a new kit"


@dataclass(frozen=True)
class Card:
    """A checked certificate."""

    name: str
    role: Role
    federation: str
    serial: int
    pem: bytes

    @cached_property
    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.pem)

    @cached_property
    def public_key(self) -> ec.EllipticCurvePublicKey:
        return _public(self.certificate)

    @property
    def not_before(self) -> datetime:
        return self.certificate.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        return self.certificate.not_valid_after_utc


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadInput(
            f"name {shown(name)} must be 1 to 63 letters from a to z, digits, - or _, the first no - or _: "
            "try site-1"
        )


def check_days(days: int) -> None:
    if not 1 <= days <= LONGEST:
        raise BadInput(f"days={days} must be from 1 to {LONGEST}: try {DAYS}")


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as its file has it; it must go nowhere else."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def key_of(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """What is no such key ends in a ValueError that does not show it."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("not a private key in PEM without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("not a key on the curve P-256")
    return key


def authority(federation: str, key: ec.EllipticCurvePrivateKey, now: datetime | None = None) -> bytes:
    """The certificate of an authority, signed by itself."""
    start = now or datetime.now(UTC)
    name = _subject("authority", "authority", federation)
    public = key.public_key()
    own = x509.SubjectKeyIdentifier.from_public_key(public)
    signed = (
        _draft(name, name, public, start, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(own, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        .sign(key, hashes.SHA256())
    )
    return signed.public_bytes(serialization.Encoding.PEM)


def issue(
    ca_pem: bytes,
    ca_key: ec.EllipticCurvePrivateKey,
    name: str,
    role: Role,
    public: ec.EllipticCurvePublicKey,
    days: int = DAYS,
    hosts: Iterable[str] = (),
    now: datetime | None = None,
) -> bytes:
    """A party's certificate. `hosts` are the names or addresses under which a relay is reached."""
    check_name(name)
    check_days(days)
    ca = _authority(ca_pem)
    start = now or datetime.now(UTC)
    if start + timedelta(days=days) > ca.not_valid_after_utc:
        raise BadInput(
            f"days={days} ends after the authority itself, on {ca.not_valid_after_utc:{WHEN}} UTC: "
            "give fewer days, or make a new federation"
        )
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role in SERVES:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    also = list[x509.GeneralName]()
    for host in dict.fromkeys([name.replace("_", "-"), *hosts]):
        try:
            also.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            also.append(x509.DNSName(host))
    signed = (
        _draft(_subject(name, role, federation_of(ca_pem)), ca.subject, public, start, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(also), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(ca)), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return signed.public_bytes(serialization.Encoding.PEM)


def serves(pem: bytes) -> bool:
    """Whether a browser takes it for that of a server; those of sites of earlier versions do not say so."""
    uses = _load(pem).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return ExtendedKeyUsageOID.SERVER_AUTH in uses


def card_of(pem: bytes, ca_pem: bytes, now: datetime | None = None) -> Card:
    """The card of a certificate that this authority has signed and that is valid now; else Refused."""
    _authority(ca_pem)
    try:
        certificate = _load(pem)
        whose = f"the certificate of {shown(_one(certificate.subject, NameOID.COMMON_NAME))}"
    except ValueError as error:
        raise Refused(f"not a certificate of a federation: {error}: {AGAIN}") from None
    if not is_issued(certificate, ca_pem):
        raise Refused(
            f"{whose} is not signed by the authority of federation {shown(federation_of(ca_pem))}: "
            "use the kit that this federation's authority made"
        )
    now = now or datetime.now(UTC)
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    clock = f"this machine's clock says {now:{WHEN}} UTC"
    if now < first:
        raise Refused(f"{whose} is valid only from {first:{WHEN}} UTC on; {clock}: set the clock")
    if now > last:
        raise Refused(f"{whose} was valid until {last:{WHEN}} UTC; {clock}: {AGAIN}, or set the clock")
    try:
        return _read(certificate, federation_of(ca_pem))
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise Refused(f"{whose} is not one of a party: {error}: {AGAIN}") from None


@lru_cache(maxsize=256)
def claimed_card(pem: bytes) -> Card:
    """What a certificate says of itself, whoever signed it and whenever; a ValueError says what it lacks."""
    certificate = _load(pem)
    try:
        return _read(certificate, _one(certificate.subject, NameOID.ORGANIZATION_NAME))
    except (x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise ValueError(str(error)) from None


@lru_cache(maxsize=256)
def is_issued(certificate: x509.Certificate, ca_pem: bytes) -> bool:
    """Whether this authority has signed it."""
    try:
        certificate.verify_directly_issued_by(_authority(ca_pem))
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def authority_mark(ca_pem: bytes) -> str:
    """SHA-256 of an authority's certificate: federations may be called alike, their authorities never are."""
    return _authority(ca_pem).fingerprint(hashes.SHA256()).hex()


def federation_of(ca_pem: bytes) -> str:
    return _one(_authority(ca_pem).subject, NameOID.ORGANIZATION_NAME)


def public_of(ca_pem: bytes) -> ec.EllipticCurvePublicKey:
    """The key that checks what an authority has signed."""
    return _public(_authority(ca_pem))


@lru_cache(maxsize=16)
def _authority(pem: bytes) -> x509.Certificate:
    try:
        ca = _load(pem)
        _one(ca.subject, NameOID.ORGANIZATION_NAME)
        _public(ca)
        if not ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            raise ValueError("it may not sign others")
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        why = f"not the certificate of an authority: {error}"
        raise Refused(f"{why}: copy ca.crt from the kit again") from None
    return ca


def _load(pem: bytes) -> x509.Certificate:
    if len(pem) > LARGEST:
        raise ValueError(f"{len(pem)} bytes, of at most {LARGEST}")
    try:
        certificate = x509.load_pem_x509_certificate(bytes(pem))
        # parsed when asked for: what fails, fails here
        _ = certificate.subject, certificate.issuer, certificate.extensions
    except Exception:  # a stranger's bytes bring parsers to raise errors of many kinds
        raise ValueError("it cannot be read as PEM") from None
    return certificate


def _read(certificate: x509.Certificate, home: str) -> Card:
    """What a signed certificate says; a ValueError says what it lacks."""
    name = _one(certificate.subject, NameOID.COMMON_NAME)
    role = _one(certificate.subject, NameOID.ORGANIZATIONAL_UNIT_NAME)
    federation = _one(certificate.subject, NameOID.ORGANIZATION_NAME)
    if certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise ValueError("it is an authority's own")
    if not NAME.fullmatch(name):
        raise ValueError("its name is not allowed")
    known = next((r for r in ROLES if r == role), None)
    if known is None:
        raise ValueError(f"its role {shown(role)} is none of {', '.join(ROLES)}")
    if federation != home:
        raise ValueError(f"its federation is {shown(federation)}")
    _public(certificate)
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return Card(name, known, federation, certificate.serial_number, pem)


def _public(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    try:
        key = certificate.public_key()
    except UnsupportedAlgorithm:
        raise ValueError("its key is of an unknown kind") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("its key is not on the curve P-256")
    return key


def _one(name: x509.Name, oid: x509.ObjectIdentifier) -> str:
    values = [part.value for part in name.get_attributes_for_oid(oid)]
    if len(values) != 1 or not isinstance(values[0], str):
        raise ValueError("its subject must have one name, one role and one federation")
    return values[0]


def _subject(name: str, role: str, federation: str) -> x509.Name:
    oids = (NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME)
    values = zip(oids, (federation, role, name), strict=True)
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in values])


def _draft(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, start: datetime, days: int
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer, subject, public, x509.random_serial_number(), start - EARLIER, start + timedelta(days=days)
    )


def _usage(sign_certificates: bool) -> x509.KeyUsage:
    """An authority signs; a party signs its side of a TLS handshake and agrees on keys for seals."""
    never = ["content_commitment", "key_encipherment", "data_encipherment", "encipher_only", "decipher_only"]
    uses = dict.fromkeys(("digital_signature", "key_agreement"), not sign_certificates)
    uses |= dict.fromkeys(("key_cert_sign", "crl_sign"), sign_certificates) | dict.fromkeys(never, False)
    return x509.KeyUsage(**uses)
