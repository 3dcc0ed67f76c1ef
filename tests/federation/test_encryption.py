"""What is encrypted opens for one receiver, from one sender, with one header; anything else is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadInput, Refused
from coterie.federation.kits import authority as kits
from coterie.federation.transport import encryption
from coterie.federation.transport.encryption import decrypt, encrypt

HEADER = {"to": "b", "number": 7, "boot": "x", "deep": {"list": [1, 2.5, None, "ä"]}}
BODY = bytes(range(200))
OVERHEAD = 82


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    made = kits.found_federation(tmp_path_factory.mktemp("ward") / "ward", ["a", "b", "c"])
    return {kit.name: kit for kit in made}


@pytest.fixture(scope="module")
def encrypted(parties):
    return encrypt(parties["a"], parties["b"].card, HEADER, BODY)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(body=st.binary(max_size=300), header=st.dictionaries(st.text(min_size=5), json_values, max_size=4))
def test_what_is_sealed_is_opened(parties, body, header):
    closed = encrypt(parties["a"], parties["b"].card, header, memoryview(body))
    assert isinstance(closed, bytes)
    assert len(closed) == len(body) + OVERHEAD
    # the relay adds who sent it; the order of a header does not count
    arrived = dict(reversed({**header, "from": "a", "to": "b"}.items()))
    assert decrypt(parties["b"], parties["a"].card, arrived, memoryview(closed)) == body


def test_nothing_is_encrypted_twice_alike_and_none_shows_the_body(parties, encrypted):
    again = encrypt(parties["a"], parties["b"].card, HEADER, BODY)
    assert again[1:66] != encrypted[1:66]
    assert all(piece not in encrypted for piece in (BODY[:8], BODY[100:108]))


@given(at=st.integers(0, len(BODY) + OVERHEAD - 1), bit=st.integers(0, 7))
def test_any_bit_flipped(parties, encrypted, at, bit):
    changed = bytearray(encrypted)
    changed[at] ^= 1 << bit
    with pytest.raises(Refused, match="'a' has not encrypted so"):
        decrypt(parties["b"], parties["a"].card, HEADER, bytes(changed))


@given(length=st.integers(0, len(BODY) + OVERHEAD - 1))
def test_cut_short_at_either_end(parties, encrypted, length):
    for some in (encrypted[:length], encrypted[len(encrypted) - length :], encrypted + bytes(length + 1)):
        with pytest.raises(Refused):
            decrypt(parties["b"], parties["a"].card, HEADER, some)


@given(noise=st.binary(max_size=200))
def test_noise(parties, noise):
    for start in (b"", b"\x01", b"\x01\x04"):
        with pytest.raises(Refused):
            decrypt(parties["b"], parties["a"].card, HEADER, start + noise)


@pytest.mark.parametrize(
    "header",
    [
        {},
        {**HEADER, "number": 8},
        {**HEADER, "number": "7"},
        {**HEADER, "number": 7.0},
        {**HEADER, "more": None},
        {k: v for k, v in HEADER.items() if k != "boot"},
        {**HEADER, "deep": {"list": [1, 2.5, None, "a"]}},
        {**HEADER, "from": "c"},
        {**HEADER, "from": None},
        {**HEADER, "to": "c"},
        {**HEADER, "number": float("nan")},
        {**HEADER, "number": b"7"},
        {**HEADER, 1: 1},
    ],
    ids=str,
)
def test_another_header(parties, encrypted, header):
    with pytest.raises(Refused):
        decrypt(parties["b"], parties["a"].card, header, encrypted)


@pytest.mark.parametrize(("receiver", "sender"), [("c", "a"), ("b", "c"), ("a", "b"), ("a", "a"), ("b", "b")])
def test_another_receiver_or_sender(parties, encrypted, receiver, sender):
    plain = {k: v for k, v in HEADER.items() if k != "to"}
    with pytest.raises(Refused):
        decrypt(parties[receiver], parties[sender].card, plain, encrypted)


def test_a_forger_needs_the_sender_s_key(parties):
    """c has all that is public of a, and writes as a would."""
    forger = replace(parties["c"], name="a")
    vars(forger).update(card=parties["a"].card, key=parties["c"].key)
    with pytest.raises(Refused):
        decrypt(parties["b"], parties["a"].card, HEADER, encrypt(forger, parties["b"].card, HEADER, BODY))
    vars(forger).update(key=parties["a"].key, _secrets={})
    assert decrypt(parties["b"], parties["a"].card, HEADER, encrypt(forger, parties["b"].card, HEADER, BODY))


def test_a_sender_s_key_does_not_open_what_was_sent(parties, encrypted):
    """Whoever steals it later knows the secret of a and b, but the one-time key is gone."""
    a, b = parties["a"], parties["b"]
    thief = replace(a, name="b")
    vars(thief).update(card=b.card, key=a.key, _secrets={a.card.pem: a.secret_with(b.card)})
    with pytest.raises(Refused):
        decrypt(thief, a.card, HEADER, encrypted)
    vars(thief).update(key=b.key)
    assert decrypt(thief, a.card, HEADER, encrypted) == BODY


def test_a_name_alone_is_not_enough(tmp_path, parties):
    """Another federation's a, of the same name, and this one's a with a new certificate."""
    strange = {kit.name: kit for kit in kits.found_federation(tmp_path / "ward", ["a", "b"])}
    closed = encrypt(strange["a"], parties["b"].card, HEADER, BODY)
    with pytest.raises(Refused):
        decrypt(parties["b"], parties["a"].card, HEADER, closed)
    kits.revoke(tmp_path / "ward", "a")
    again = kits.invite(tmp_path / "ward", "a")
    closed = encrypt(again, strange["b"].card, HEADER, BODY)
    with pytest.raises(Refused):
        decrypt(strange["b"], strange["a"].card, HEADER, closed)
    assert decrypt(strange["b"], again.card, HEADER, closed) == BODY


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"to": "c"}, "the header of a message to 'b' says to 'c'; it is b"),
        ({"from": "b"}, "the header of a message to 'b' says from 'b'; it is a"),
        ({"x": {1, 2}}, "the header of a message to 'b' must be what JSON can say"),
        ({"x": float("inf")}, "the header of a message to 'b' must be what JSON can say"),
    ],
)
def test_a_header_that_cannot_be_bound(parties, header, said):
    with pytest.raises(BadInput) as refused:
        encrypt(parties["a"], parties["b"].card, header, b"")
    assert str(refused.value) == said


def test_a_body_too_large(parties, monkeypatch):
    monkeypatch.setattr(encryption, "LARGEST", 10)
    with pytest.raises(BadInput, match="a message of 11 bytes, of at most 10"):
        encrypt(parties["a"], parties["b"].card, {}, bytes(11))
    assert decrypt(
        parties["b"], parties["a"].card, {}, encrypt(parties["a"], parties["b"].card, {}, bytes(10))
    )


def test_the_secret_of_two_is_found_once(parties, monkeypatch):
    a, b = parties["a"], kits.read_kit(parties["b"].folder)
    assert a.secret_with(b.card) == b.secret_with(a.card)
    monkeypatch.setitem(vars(b), "key", None)  # no key any more, and none needed
    assert b.secret_with(a.card) == a.secret_with(b.card)
