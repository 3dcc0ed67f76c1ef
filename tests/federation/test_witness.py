"""Sites sign the heads of a run's ledger, keep them, and see when it was cut off or forked."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from room import Room

from coterie.cli.main import main
from coterie.core.errors import CoterieError
from coterie.core.wire import pack, unpack
from coterie.features.ledger import heads
from coterie.federation.kits.certificates import authority, authority_mark, new_key
from coterie.federation.policy.keys import Policy
from coterie.federation.site.ledger_signer import Signer
from coterie.storage import chain
from coterie.storage.chain import after


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return Room(
        tmp_path_factory.mktemp("room"), {"b": Policy(share_at_most=0.24)}, names=("a", "b", "c"), rows=40
    )


@pytest.fixture(scope="module")
def once(room, tmp_path_factory):
    """A run of two rounds that all have signed."""
    folder = tmp_path_factory.mktemp("run") / "run"
    with pytest.MonkeyPatch.context() as patch:
        room.play(patch, folder, rounds=2)
    return folder


@pytest.fixture
def ran(once, tmp_path):
    return Path(shutil.copytree(once, tmp_path / "run"))


def kept(room, name):
    return room.states[name] / heads.HEADS


def verify(folder, *words, capsys):
    capsys.readouterr()
    code = main(["ledger", "verify", str(folder), *map(str, words)])
    return code, capsys.readouterr().out.splitlines()


def rewritten(folder, change):
    """The whole chain anew, as somebody can who has the folder."""
    last, lines = None, []
    for entry in chain.read(folder):
        last = after(last, change(dict(entry.content)))
        lines.append(last.line)
    (folder / chain.FILE).write_text("\n".join(lines) + "\n")


def test_every_site_signs_every_head_and_keeps_it(room, once, capsys):
    found = chain.read(once)
    assert [e.content["kind"] for e in found] == ["begin", "round", "round", "end"]
    assert found[1].content["withdrawals"][0]["site"] == "b"
    signed = heads.read(once / heads.SIGNATURES)
    assert {(s.site, s.index) for s in signed} == {(n, i) for n in room.names for i in range(4)}
    assert all(s.head == found[s.index].hash for s in signed)
    for name in room.names:
        mine = heads.read(kept(room, name))
        assert [(s.site, s.index, s.head) for s in mine] == [(name, i, found[i].hash) for i in range(4)]
        assert not any(heads.trouble(s, room.kits["lead"].ca_pem) for s in mine)
    words = ["--heads", *(kept(room, n) for n in room.names), "--authority", room.kits["a"].ca_path]
    assert verify(once, *words, capsys=capsys) == (
        0,
        ["4 entries, 3 sites signed the last head"],
    )
    secret = b"".join(kit.key_path.read_bytes() for kit in room.kits.values())
    for path in (once / chain.FILE, once / heads.SIGNATURES, kept(room, "a")):
        assert b"PRIVATE" not in path.read_bytes()
        assert not any(
            line in path.read_bytes() for line in secret.split(b"\n") if b"-----" not in line and line
        )


def test_a_chain_that_was_cut_off(room, ran, capsys):
    lines = (ran / chain.FILE).read_text().splitlines()
    (ran / chain.FILE).write_text("\n".join(lines[:-1]) + "\n")
    code, said = verify(ran, capsys=capsys)
    assert code == 2
    assert said[0] == "entry 2 is the last, and a signed entry 3: the chain was cut off"
    (ran / heads.SIGNATURES).unlink()  # whoever cuts the one cuts the other: what sites have kept tells
    code, said = verify(ran, capsys=capsys)
    assert (code, len(said)) == (
        2,
        1,
    )  # models and no end: no proof, it may have been killed
    assert said[0].endswith("the chain was cut off, or the run was killed in its last moment")
    code, said = verify(ran, "--heads", kept(room, "b"), capsys=capsys)
    assert (code, said[0]) == (2, "entry 2 is the last, and b signed entry 3: the chain was cut off")


def test_a_chain_that_was_written_anew(room, ran, capsys):
    rewritten(ran, lambda content: {k: v for k, v in content.items() if k != "withdrawals"})
    code, said = verify(ran, capsys=capsys)
    assert code == 2
    assert said[0] == "entry 1: a signed another head for it: the chain was forked"
    (ran / heads.SIGNATURES).unlink()
    said = ["entry 1 says otherwise than round 1 of the record of withdrawals"]
    said += ["entry 2 says otherwise than round 2 of the record of withdrawals"]
    assert verify(ran, capsys=capsys) == (2, said)
    code, said = verify(ran, "--heads", kept(room, "c"), capsys=capsys)
    assert (code, said[0]) == (2, "entry 1: c signed another head for it: the chain was forked")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda told, other: {"signature": other["signature"]}, "the signature is not over this head"),
        (lambda told, other: {"signature": "%"}, "the signature is not over this head"),
        (lambda told, other: {"certificate": other["certificate"]}, "its certificate is somebody else's"),
        (lambda told, other: {"certificate": "none"}, "there is no certificate to check it by"),
    ],
)
def test_signatures_that_do_not_count(ran, capsys, change, why):
    path = ran / heads.SIGNATURES
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at, other = (next(i for i, t in enumerate(lines) if t["site"] == name) for name in ("b", "a"))
    lines[at] |= change(lines[at], lines[other])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, said = verify(ran, capsys=capsys)
    assert code == 2
    assert said[0] == f"entry 0: the signature of b does not count: {why}"


def test_certificates_of_another_authority_do_not_count(room, ran, tmp_path, capsys):
    (tmp_path / "ca.crt").write_bytes(authority("kits", new_key()))
    code, said = verify(ran, "--authority", tmp_path / "ca.crt", capsys=capsys)
    assert code == 2
    assert "its certificate is not signed by the federation's authority" in said[0]


def test_who_was_away_signs_when_it_is_back(tmp_path, monkeypatch, capsys):
    room = Room(tmp_path, names=("a", "b", "c"), rows=40)

    def watch(record):
        room.gone = {"c"} if record.done == 1 else set()
        if record.done == 2:
            room.boots["c"] = 2
            room.open("c")

    room.play(monkeypatch, tmp_path / "run", watch, rounds=3)
    by_site = {}
    for one in heads.read(tmp_path / "run" / heads.SIGNATURES):
        by_site.setdefault(one.site, []).append(one.index)
    assert by_site == {"a": [0, 1, 2, 3, 4], "b": [0, 1, 2, 3, 4], "c": [0, 1, 3, 4]}
    shown = [m for m in room.asked("c", "ledger") if m["first"] == 2]
    assert [len(m["entries"]) for m in shown] == [2]  # what it had missed, too
    ca = room.kits["a"].ca_path
    said = ["5 entries, 3 sites signed the last head"]
    assert verify(tmp_path / "run", "--authority", ca, capsys=capsys) == (0, said)


def test_a_fork_is_not_signed_and_both_sides_say_so(tmp_path, monkeypatch, capsys):
    """After the first round who leads writes the past anew; all sites have kept its head."""
    room, folder = Room(tmp_path, names=("a", "b"), rows=40), tmp_path / "run"

    def watch(record):
        if record.done == 1:
            rewritten(folder, lambda content: {**content, "answered": "0"} if "round" in content else content)

    from coterie.features.ledger import hook as ledgered

    append = chain.append

    def lying(into, entry):  # goes on from what it has written anew
        last = chain.last_of(into)
        append(into, after(last, entry.content))

    monkeypatch.setattr(ledgered.chain, "append", lying)
    room.play(monkeypatch, folder, watch, rounds=2)
    why = "the ledger does not continue entry 1 as it was signed here: it was forked"
    assert {n["site"] for n in heads.refusals(folder / heads.SIGNATURES)} == {"a", "b"}
    assert all(n["refused"] == why for n in heads.refusals(folder / heads.SIGNATURES))
    assert [s.index for s in heads.read(kept(room, "a"))] == [0, 1]
    assert any(e["outcome"] == f"not signed: {why}" for e in room.diary("a"))
    assert any(why in line for line in room.said["a"])
    code, said = verify(folder, capsys=capsys)
    assert code == 2
    assert said[0] == "entry 1: a signed another head for it: the chain was forked"
    assert any("a would not sign it" in line for line in said)


def test_a_run_that_goes_on_is_signed_from_where_it_was(tmp_path, monkeypatch, capsys):
    room, folder = Room(tmp_path, names=("a", "b"), rows=40), tmp_path / "run"

    class Cut(BaseException):
        pass

    def watch(record):
        if record.done == 2:
            raise Cut

    with pytest.raises(Cut):
        room.play(monkeypatch, folder, watch, rounds=3, checkpoint=2)
    room.open("b")  # its process too is another
    room.boots["b"] = 2
    room.play(monkeypatch, folder, rounds=3, checkpoint=2)
    kinds = [e.content["kind"] for e in chain.read(folder)]
    assert kinds == ["begin", "round", "round", "resumed", "round", "end"]
    words = ["--heads", kept(room, "b"), "--authority", room.kits["b"].ca_path]
    assert verify(folder, *words, capsys=capsys) == (
        0,
        ["6 entries, 2 sites signed the last head"],
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({}, "it did not sign"),
        ({"signed": {"site": "a"}}, "it did not sign"),
        ({"have": 99}, "it did not sign"),
        ({"refused": "\x1b[2Jno"}, "[2Jno"),
    ],
)
def test_nonsense_instead_of_a_signature_is_noted(tmp_path, monkeypatch, answer, why):
    room, folder = Room(tmp_path, names=("a", "b"), rows=40), tmp_path / "run"
    room.change = lambda name, message, said: (
        pack(answer, {}) if name == "a" and message.get("do") == "ledger" else said
    )
    room.play(monkeypatch, folder, rounds=1)
    notes = heads.refusals(folder / heads.SIGNATURES)
    assert [n["site"] for n in notes] == ["a"]
    assert [n["refused"] for n in notes] == [why]


def test_a_signature_over_something_else_does_not_count(tmp_path, monkeypatch):
    room, folder = Room(tmp_path, names=("a", "b"), rows=40), tmp_path / "run"
    wrong = heads.signed(room.kits["b"], "0" * 32, 1, "f" * 64)

    def change(name, message, said):
        if name != "a" or message.get("do") != "ledger":
            return said
        told = unpack(said)[0]
        return pack({**told, "signed": {**told["signed"], "signature": wrong.signature}}, {})

    room.change = change
    room.play(monkeypatch, folder, rounds=1)
    notes = heads.refusals(folder / heads.SIGNATURES)
    assert notes[0]["refused"] == "the signature is not over this head"


def test_a_file_of_heads_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / heads.HEADS).write_text('{"site": 3}\n')
    found = Signer(tmp_path, SimpleNamespace(name="a")).sign("0" * 32, 0, [])
    assert "is no signed head" in found["refused"]


CA = authority("kits", new_key())
BOUND = {"run": "0" * 32, "federation": "kits", "authority": authority_mark(CA), "clients": ["a"]}
ENTRIES = [after(None, {"kind": "begin", **BOUND})]
ENTRIES.append(after(ENTRIES[0], {"kind": "end"}))
LINES = [entry.line for entry in ENTRIES]
ANY = st.one_of(
    st.none(), st.integers(-3, 3), st.text(max_size=4), st.lists(st.sampled_from([*LINES, "x", "{}"]))
)


@given(st.lists(st.tuples(ANY, ANY), max_size=4))
def test_whatever_comes_a_site_signs_nothing_but_its_chain(asked):
    key = SimpleNamespace(sign=lambda *told: b"x")
    told = {"role": "site", "federation": "kits", "ca_pem": CA}
    kit = SimpleNamespace(name="a", key=key, card=SimpleNamespace(pem=b"pem"), **told)
    with tempfile.TemporaryDirectory() as folder:
        assert "signed" in Signer(Path(folder), kit).sign("0" * 32, 0, LINES[:1])
        (Path(folder) / heads.HEADS).unlink()
        signer, last = Signer(Path(folder), kit), -1
        for first, lines in asked:
            try:
                found = signer.sign("0" * 32, first, lines)
            except CoterieError:
                continue
            if "signed" in found:
                assert found["signed"]["head"] == ENTRIES[found["signed"]["index"]].hash
                assert found["signed"]["index"] >= last
                last = found["signed"]["index"]
