"""A message encrypted by one party for another, so that whoever passes it on can neither read nor change it.

    encrypted = version, one-time public key, AES-256-GCM(key, body)
    key    = HKDF(ECDH(one-time key, receiver) + ECDH(sender, receiver))

The first half makes the key new for every message, which is why the nonce may be a constant; the second is
known to sender and receiver alone, so that nobody else can have encrypted it. The header that goes along in
the clear is bound to the body, with who sends and who receives. That does not say that a message is new:
numbers in the header do (post.py). Whoever steals a party's key can open all that was ever encrypted for it,
and encrypt for it in others' names.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from coterie.core.errors import BadInput, Refused, shown
from coterie.federation.kits.certificates import Card, new_key
from coterie.federation.kits.kit import Kit

VERSION = b"\x01"
POINT = 65  # bytes of a public key: 4, x, y
START = len(VERSION) + POINT
TAG = 16
NONCE = bytes(12)
LARGEST = 2**31 - 1 - TAG  # bytes that one call of AES-GCM takes
PURPOSE = b"coterie seal 1"


def encrypt(kit: Kit, to: Card, header: Mapping[str, Any], body: bytes | memoryview) -> bytes:
    """A body that only `to` can open, and only along with this header."""
    size = memoryview(body).nbytes
    if size > LARGEST:
        raise BadInput(f"a message of {size} bytes, of at most {LARGEST}: send a smaller model")
    try:
        bound = _bound(header, kit.name, to.name)
    except ValueError as error:
        raise BadInput(f"the header of a message to {shown(to.name)} {error}") from None
    once = new_key()
    point = _point(once.public_key())
    cipher = _cipher(once.exchange(ec.ECDH(), to.public_key), kit.secret_with(to), point, kit.card, to)
    # a BytesIO gives its bytes away without copying them, unlike a bytearray
    encrypted = io.BytesIO(bytes(START + size + TAG))
    with encrypted.getbuffer() as space:
        space[:START] = VERSION + point
        cipher.encrypt_into(NONCE, body, bound, space[START:])
    return encrypted.getvalue()


def decrypt(kit: Kit, sender: Card, header: Mapping[str, Any], encrypted: bytes | memoryview) -> bytes:
    """The body, if this sender encrypted it for this kit along with this header; else Refused."""
    whole = memoryview(encrypted).cast("B")
    try:
        if len(whole) < START + TAG or len(whole) > START + LARGEST + TAG or whole[:1] != VERSION:
            raise ValueError("it is not encrypted as in this version")
        bound = _bound(header, sender.name, kit.name)
        point = bytes(whole[len(VERSION) : START])
        once = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        cipher = _cipher(kit.key.exchange(ec.ECDH(), once), kit.secret_with(sender), point, sender, kit.card)
        return cipher.decrypt(NONCE, whole[START:], bound)
    except (ValueError, InvalidTag):
        raise Refused(
            f"a message to {shown(kit.name)} that {shown(sender.name)} has not encrypted so: not opened; "
            "both need kits of the same federation that are not replaced"
        ) from None


def _cipher(once: bytes, both: bytes, point: bytes, sender: Card, receiver: Card) -> AESGCM:
    """The key of one message from one certificate to another."""
    about = PURPOSE + point + _point(sender.public_key) + _point(receiver.public_key)
    return AESGCM(HKDF(hashes.SHA256(), 32, None, about).derive(once + both))


def _point(public: ec.EllipticCurvePublicKey) -> bytes:
    return public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _bound(header: Mapping[str, Any], sender: str, receiver: str) -> bytes:
    """The header in its only spelling, with who sends and who receives; a ValueError if it says otherwise."""
    ends = {"from": sender, "to": receiver}
    for end, name in ends.items():
        if header.get(end, name) != name:
            raise ValueError(f"says {end} {shown(header[end])}; it is {name}")
    try:
        return json.dumps({**header, **ends}, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must be what JSON can say") from None
