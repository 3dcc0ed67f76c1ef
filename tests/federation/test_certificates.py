"""What a certificate must be to count: table of those that do not, each with the line that says why."""

import contextlib
import itertools
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import assume, given
from hypothesis import strategies as st

from coterie.core.errors import BadInput, Refused
from coterie.federation.kits import certificates
from coterie.federation.kits.authority import found_federation
from coterie.federation.kits.certificates import ROLES, authority, card_of, issue, key_bytes, key_of, new_key
from coterie.federation.transport import tls

NOW = datetime(2030, 5, 17, 12, tzinfo=UTC)
CA_KEY, OTHER_KEY = new_key(), new_key()
CA, OTHER = authority("ward", CA_KEY, NOW), authority("ward", OTHER_KEY, NOW)
KEY = new_key()


def made(name="a", role="site", ca=CA, key=CA_KEY, days=10, now=NOW):
    return issue(ca, key, name, role, KEY.public_key(), days, now=now)


def custom(parts, public=None, ca=False, basic=True):
    """Signed by the authority, but not by our own hand."""
    oid = {
        "O": x509.OID_ORGANIZATION_NAME,
        "OU": x509.OID_ORGANIZATIONAL_UNIT_NAME,
        "CN": x509.OID_COMMON_NAME,
    }
    subject = x509.Name([x509.NameAttribute(oid[k], v) for k, v in parts])
    issuer = x509.load_pem_x509_certificate(CA).subject
    draft = x509.CertificateBuilder(
        issuer, subject, public or KEY.public_key(), 7, NOW, NOW + timedelta(days=9)
    )
    if basic:
        draft = draft.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return draft.sign(CA_KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


RIGHT = [("O", "ward"), ("OU", "site"), ("CN", "a")]


@pytest.mark.parametrize("role", ROLES)
def test_a_card_says_what_was_signed(role):
    card = card_of(made("North_1", role), CA, NOW)
    assert (card.name, card.role, card.federation) == ("North_1", role, "ward")
    assert (card.not_before, card.not_after) == (NOW - timedelta(days=1), NOW + timedelta(days=10))
    assert card.public_key == KEY.public_key()
    assert card.serial == x509.load_pem_x509_certificate(card.pem).serial_number
    assert card == card_of(card.pem, CA, NOW)


@pytest.mark.parametrize(
    ("pem", "now", "said"),
    [
        (b"", NOW, "not a certificate of a federation: it cannot be read as PEM: ask for a new kit"),
        (b"x" * 20_000, NOW, "not a certificate of a federation: 20000 bytes, of at most 16384: "),
        (made(ca=OTHER, key=OTHER_KEY), NOW, "the certificate of 'a' is not signed by the authority of "),
        (made(ca=CA, key=OTHER_KEY), NOW, "the certificate of 'a' is not signed by the authority of "),
        (
            made(),
            NOW - timedelta(days=2),
            "the certificate of 'a' is valid only from 2030-05-16 12:00 UTC on; this machine's clock says "
            "2030-05-15 12:00 UTC: set the clock",
        ),
        (
            made(),
            NOW + timedelta(days=11),
            "the certificate of 'a' was valid until 2030-05-27 12:00 UTC; this machine's clock says "
            "2030-05-28 12:00 UTC: ask for a new kit, or set the clock",
        ),
        (CA, NOW, "the certificate of 'authority' is not one of a party: it is an authority's own: "),
        (
            custom(RIGHT, ca=True),
            NOW,
            "the certificate of 'a' is not one of a party: it is an authority's own: ",
        ),
        (custom(RIGHT, basic=False), NOW, "the certificate of 'a' is not one of a party: "),
        (
            custom([*RIGHT, ("OU", "lead")]),
            NOW,
            "the certificate of 'a' is not one of a party: its subject must ",
        ),
        (
            custom([*RIGHT, ("CN", "b")]),
            NOW,
            "not a certificate of a federation: its subject must have one name",
        ),
        (
            custom([("O", "ward"), ("CN", "a")]),
            NOW,
            "the certificate of 'a' is not one of a party: its subject ",
        ),
        (
            custom([("O", "ward"), ("OU", "boss"), ("CN", "a")]),
            NOW,
            "the certificate of 'a' is not one of a party: its role 'boss' is none of coordinator, site, ",
        ),
        (
            custom([("O", "other"), ("OU", "site"), ("CN", "a")]),
            NOW,
            "the certificate of 'a' is not one of a party: its federation is 'other': ",
        ),
        (
            custom([("O", "ward"), ("OU", "site"), ("CN", "../a\n")]),
            NOW,
            r"the certificate of '../a\n' is not one of a party: its name is not allowed: ",
        ),
        (
            custom(RIGHT, ec.generate_private_key(ec.SECP384R1()).public_key()),
            NOW,
            "the certificate of 'a' is not one of a party: its key is not on the curve P-256: ",
        ),
        (
            custom(RIGHT, rsa.generate_private_key(65537, 2048).public_key()),
            NOW,
            "the certificate of 'a' is not one of a party: its key is not on the curve P-256: ",
        ),
    ],
)
def test_what_is_no_card(pem, now, said):
    with pytest.raises(Refused) as refused:
        card_of(pem, CA, now)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_a_party_is_no_authority():
    with pytest.raises(Refused, match="not the certificate of an authority: it may not sign others"):
        card_of(made(), made(), NOW)


WHOLE = ssl.PEM_cert_to_DER_cert(made().decode())


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
@given(at=st.integers(0, len(WHOLE) - 1), to=st.binary(min_size=1, max_size=3))
def test_a_changed_certificate_is_refused(at, to):
    changed = WHOLE[:at] + to + WHOLE[at + len(to) :]
    assume(changed != WHOLE)
    with pytest.raises(Refused):
        card_of(ssl.DER_cert_to_PEM_cert(changed).encode(), CA, NOW)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_the_first_bytes_of_a_certificate():
    """Where its version, serial and kinds are: parsers raise errors of many kinds there."""
    for at, value in itertools.product(range(40), (0, 1, 17, 255)):
        changed = WHOLE[:at] + bytes([value]) + WHOLE[at + 1 :]
        if changed != WHOLE:
            with pytest.raises(Refused):
                card_of(ssl.DER_cert_to_PEM_cert(changed).encode(), CA, NOW)


@pytest.mark.parametrize("name", ["", "-a", "_a", "a b", "a/b", "..", "ä", "a\n", "a" * 64, "a.b"])
def test_names_that_are_not_allowed(name):
    with pytest.raises(BadInput, match="must be 1 to 63 letters"):
        made(name)


@pytest.mark.parametrize(
    ("days", "now", "said"),
    [
        (0, NOW, "days=0 must be from 1 to 3650: try 730"),
        (3651, NOW, "days=3651 must be from 1 to 3650: try 730"),
        (
            730,
            NOW + timedelta(days=7000),
            "days=730 ends after the authority itself, on 2050-05-12 12:00 UTC: ",
        ),
    ],
)
def test_days(days, now, said):
    with pytest.raises(BadInput) as refused:
        made(days=days, now=now)
    assert str(refused.value).startswith(said)


def test_strict_verifiers_accept_the_chain():
    store = Store([x509.load_pem_x509_certificate(CA)])
    leaf = x509.load_pem_x509_certificate(made())
    PolicyBuilder().store(store).time(NOW).build_client_verifier().verify(leaf, [])


@pytest.mark.parametrize(
    ("server", "well"), [("coordinator", True), ("site", True), ("helper", False), ("viewer", False)]
)
def test_who_has_nothing_to_serve_cannot(tmp_path, server, well):
    ca = authority("ward", CA_KEY)
    (tmp_path / "ca.crt").write_bytes(ca)

    def side(protocol, name, role):
        key = new_key()
        pem = issue(ca, CA_KEY, name, role, key.public_key(), hosts=["127.0.0.1"])
        (tmp_path / f"{name}.crt").write_bytes(pem)
        (tmp_path / f"{name}.key").write_bytes(key_bytes(key))
        context = ssl.SSLContext(protocol)
        context.load_verify_locations(tmp_path / "ca.crt")
        context.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    ends = [ssl.MemoryBIO() for _ in range(2)]
    one = side(ssl.PROTOCOL_TLS_SERVER, "relay", server).wrap_bio(ends[0], ends[1], server_side=True)
    two = side(ssl.PROTOCOL_TLS_CLIENT, "north", "site").wrap_bio(
        ends[1], ends[0], server_hostname="127.0.0.1"
    )

    def shake():
        for _ in range(4):
            for end in (two, one):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue

    if not well:
        with pytest.raises(ssl.SSLCertVerificationError):
            shake()
        return
    shake()
    peer = ssl.DER_cert_to_PEM_cert(one.getpeercert(True)).encode()
    assert card_of(peer, ca).name == "north"


@pytest.mark.parametrize("role", ["site", "lead"])
def test_nobody_takes_who_may_serve_a_page_for_the_relay(tmp_path, role):
    """TLS lets a site's certificate serve; whoever dials looks at the role before a byte is sent."""
    with socket.create_server(("127.0.0.1", 0)) as listens:
        port = listens.getsockname()[1]
        kits = found_federation(tmp_path / "ward", ["north", "south"], host="127.0.0.1", port=port)
        mine = next(kit for kit in kits if kit.name == "north")
        other = next(kit for kit in kits if kit.role == role and kit.name != "north")
        heard = list[bytes]()

        def pretend():
            context = tls.server_context(other)
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(listens.accept()[0], server_side=True) as sock,
            ):
                heard.append(sock.recv(1))

        thread = threading.Thread(target=pretend, daemon=True)
        thread.start()
        with pytest.raises(tls.Unreachable, match=f"a {role} and not the relay"):
            tls.dial(mine, tls.client_context(mine))
        thread.join(10)
    assert heard in ([], [b""])


def test_a_key_comes_back_and_others_are_not_shown():
    assert key_of(key_bytes(KEY)).public_key() == KEY.public_key()
    secret = rsa.generate_private_key(65537, 2048)
    plain = serialization.NoEncryption()
    pem = secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    for wrong in (pem, b"", b"secret words", key_bytes(KEY)[:90]):
        with pytest.raises(ValueError, match=r"^not a (key on the curve|private key in PEM)"):
            key_of(wrong)


def test_the_authority_outlives_what_it_signs():
    assert certificates.AUTHORITY_DAYS > certificates.LONGEST
    assert certificates.federation_of(CA) == "ward"
