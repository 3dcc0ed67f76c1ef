"""Whoever leads a run writes its record anew, every accuracy raised: heads that sites have kept tell."""

from __future__ import annotations

import hashlib
import json
import shutil
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from room import Room

from coterie.cli.main import main
from coterie.features.ledger import heads
from coterie.features.ledger.entries import content_digest
from coterie.features.ledger.verify import NO_AUTHORITY, NOBODY
from coterie.federation.kits.authority import invite, revoke
from coterie.federation.kits.certificates import authority, claimed_card, issue, new_key
from coterie.federation.kits.kit import read_key
from coterie.federation.site.ledger_signer import Signer
from coterie.runs.settings import read_toml
from coterie.storage import chain
from coterie.storage.chain import after

NAMES = ("a", "b", "c", "d")
FINE = ["4 entries, 4 sites signed the last head"]


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Two runs of four sites, and one in another federation that is called the same."""
    place = tmp_path_factory.mktemp("room")
    room = Room(place, names=NAMES, rows=40, helpers=("ada", "ben", "tom"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("run", "second"):
            room.play(patch, place / name, rounds=2)
        room.place = place
        room.other = Room(tmp_path_factory.mktemp("other"), names=NAMES, rows=40)
        room.other.play(patch, place / "elsewhere", rounds=2)
    return room


@pytest.fixture
def ran(room, tmp_path):
    return Path(shutil.copytree(room.place / "run", tmp_path / "run"))


def files(room, names=NAMES, known=True):
    """What sites bring along, with the certificate of their authority or without."""
    words = ["--authority", room.kits["a"].ca_path] if known else []
    return [*words, "--heads", *(room.states[name] / heads.HEADS for name in names)]


def verify(folder, *words, capsys):
    capsys.readouterr()
    code = main(["ledger", "verify", str(folder), *map(str, words)])
    said = capsys.readouterr()
    assert not said.err, said.err
    return code, said.out.splitlines()


def run_in(folder):
    return heads.read(folder / heads.SIGNATURES)[0].run


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def rebuilt(folder, change=lambda content: content, also=()):
    """The chain anew, with digests of metrics.jsonl as it is by now."""
    lines = {line["round"]: sha256(json.dumps(line)) for line in metrics(folder)}
    last, written = None, []
    for content in [*(dict(entry.content) for entry in chain.read(folder)), *also]:
        if "metrics" in content:
            content["metrics"] = lines[content.get("round", 0)]
        last = after(last, change(content))
        written.append(last.line)
    (folder / chain.FILE).write_text("\n".join(written) + "\n")
    return last


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def write_metrics(folder, lines):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def raised(folder):
    """Every accuracy."""
    lines = metrics(folder)
    for line in lines:
        for scores in line["scores"].values():
            scores["accuracy"] = [0.99 for _ in scores["accuracy"]]
    write_metrics(folder, lines)


def name_run(run):
    return lambda content: {**content, "run": run} if "run" in content else content


def no_name(content):
    return {k: v for k, v in content.items() if k not in ("run", "federation", "authority")}


def signed_by(folder, *kits, run):
    last = chain.read(folder)[-1]
    found = [heads.signed(kit, run, last.index, last.hash).as_dict for kit in kits]
    (folder / heads.SIGNATURES).write_text("".join(json.dumps(one) + "\n" for one in found))


def party(kit, name, role, ca_pem, ca_key, **more):
    """A kit that nobody has handed out."""
    key = new_key()
    pem = issue(ca_pem, ca_key, name, role, key.public_key(), **more)
    card = claimed_card(pem)
    return SimpleNamespace(name=name, role=role, federation=kit.federation, ca_pem=ca_pem, key=key, card=card)


# what is as it was


def test_the_sites_own_heads_are_enough(room, ran, capsys):
    """They have heads of two runs; signatures beside the ledger are not needed, nor believed."""
    assert {one.run for one in heads.read(room.states["a"] / heads.HEADS)} == {
        run_in(room.place / "run"),
        run_in(room.place / "second"),
    }
    for folder in (ran, room.place / "second"):
        assert verify(folder, *files(room), capsys=capsys) == (0, FINE)
    (ran / heads.SIGNATURES).unlink()
    assert verify(ran, *files(room), capsys=capsys) == (0, FINE)
    assert verify(ran, *files(room, known=False), capsys=capsys) == (0, [f"{FINE[0]}; {NO_AUTHORITY}"])
    said = "4 entries, 2 sites signed the last head; not signed by a, d"
    assert verify(ran, *files(room, "cb"), capsys=capsys) == (0, [said])
    assert verify(ran, capsys=capsys) == (0, [f"4 entries; {NOBODY}"])


def test_without_an_authority_nothing_is_claimed_of_the_folder(room, ran, capsys):
    said = f"4 entries, said to be signed by 4 sites: {NO_AUTHORITY}"
    assert verify(ran, capsys=capsys) == (0, [said])


# what is not


def new_id(room, folder):
    rebuilt(folder, name_run("f" * 32))
    signed_by(folder, room.kits["lead"], run="f" * 32)


def new_id_and_no_signatures(room, folder):
    rebuilt(folder, name_run("f" * 32))
    (folder / heads.SIGNATURES).unlink()


def no_id(room, folder):
    rebuilt(folder, no_name)
    (folder / heads.SIGNATURES).unlink()


def the_same_id(room, folder):
    run = run_in(folder)
    rebuilt(folder)
    signed_by(folder, room.kits["lead"], room.kits["coordinator"], run=run)


def a_helper_signs(room, folder):
    rebuilt(folder, name_run("f" * 32))
    signed_by(folder, room.kits["ada"], run="f" * 32)


def a_lead_under_a_sites_name(room, folder):
    rebuilt(folder, name_run("f" * 32))
    lead = room.kits["lead"]
    told = {k: getattr(lead, k) for k in ("federation", "ca_pem", "key", "card")}
    signed_by(folder, SimpleNamespace(name="a", role="site", **told), run="f" * 32)


def the_id_of_another_run(room, folder):
    rebuilt(folder, name_run(run_in(room.place / "second")))
    shutil.copy(room.place / "second" / heads.SIGNATURES, folder)


def both_ids(room, folder):
    other = name_run(run_in(room.place / "second"))
    rebuilt(folder, lambda said: other(said) if said["kind"] != "round" else said | {"run": run_in(folder)})


def an_authority_of_its_own(room, folder):
    """All sites again, by an authority that is called the same and lies where config.toml says."""
    kit, key = folder.parent / "kit", new_key()
    kit.mkdir()
    ca = authority(room.kits["a"].federation, key)
    (kit / "ca.crt").write_bytes(ca)
    config = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(config.replace(str(room.kits["lead"].folder), str(kit)))
    mark = x509.load_pem_x509_certificate(ca).fingerprint(hashes.SHA256()).hex()
    also = {"config": content_digest(read_toml(folder / "config.toml")), "authority": mark}
    rebuilt(folder, lambda said: {**said, **also} if said["kind"] == "begin" else said)
    some = [party(room.kits[name], name, "site", ca, key) for name in NAMES]
    signed_by(folder, *some, run=run_in(folder))


def rolled_back(room, folder):
    """To an entry that all have signed; what follows is new, and the last of all."""
    head = [one.as_dict for one in heads.read(folder / heads.SIGNATURES) if one.index <= 1]
    found = chain.read(folder)
    last = chain.Entry(**vars(found[1]))
    lines, digests = [e.line for e in found[:2]], [sha256(json.dumps(line)) for line in metrics(folder)]
    for entry in found[2:]:
        said = dict(entry.content) | ({"metrics": digests[2]} if entry.content["kind"] == "round" else {})
        last = after(last, said)
        lines.append(last.line)
    (folder / chain.FILE).write_text("\n".join(lines) + "\n")
    (folder / heads.SIGNATURES).write_text("".join(json.dumps(one) + "\n" for one in head))


def other_sites(room, folder):
    change = {"clients": ["a", "b", "c", "x"]}
    rebuilt(folder, lambda said: {**said, **change} if said["kind"] == "begin" else said)


FORGERIES = [
    new_id,
    new_id_and_no_signatures,
    no_id,
    the_same_id,
    a_helper_signs,
    a_lead_under_a_sites_name,
    the_id_of_another_run,
    both_ids,
    an_authority_of_its_own,
    rolled_back,
    other_sites,
]


@pytest.mark.parametrize("forge", FORGERIES)
@pytest.mark.parametrize("names", [NAMES, ("c",)])
@pytest.mark.parametrize("known", [True, False])
def test_a_forged_record_does_not_verify(room, ran, capsys, forge, names, known):
    raised(ran)
    forge(room, ran)
    code, said = verify(ran, *files(room, names, known), capsys=capsys)
    assert code == 2
    assert 1 <= len(said) <= 9
    assert not any("is not what entry" in line for line in said if forge is not rolled_back), said


@pytest.mark.parametrize(
    "forge", [new_id, the_same_id, a_helper_signs, a_lead_under_a_sites_name, an_authority_of_its_own]
)
def test_signatures_beside_a_forged_record_do_not_count(room, ran, capsys, forge):
    """Even where no site has brought a head along."""
    raised(ran)
    forge(room, ran)
    code, said = verify(ran, "--authority", room.kits["a"].ca_path, capsys=capsys)
    assert code == 2
    assert "does not count" in said[0]


def test_an_authority_in_the_folder_is_not_believed(room, ran, capsys):
    raised(ran)
    an_authority_of_its_own(room, ran)
    said = verify(ran, capsys=capsys)[1]
    assert "signed the last head" not in said[0]
    assert "held against no authority" in said[0]


def test_what_is_wrong_fits_on_a_screen(room, ran, capsys):
    rebuilt(ran, no_name)  # intact but for what heads are told by, and without the lead's file
    (ran / heads.SIGNATURES).unlink()
    write_metrics(ran, [{**line, "round": line["round"] + 700} for line in metrics(ran)])
    code, said = verify(ran, *files(room), capsys=capsys)
    assert code == 2
    assert len(said) <= 3
    assert said[0].startswith("no head of this ledger, in ")


@pytest.mark.parametrize("known", [True, False])
def test_heads_of_another_federation_are_none_of_this_run(room, ran, capsys, known):
    """Its sites are called the same, and so is it."""
    assert room.other.kits["a"].federation == room.kits["a"].federation
    others = [room.other.states[name] / heads.HEADS for name in NAMES]
    for mixed in ([*files(room, known=known), others[0]], [*files(room, (), known), *others]):
        code, said = verify(ran, *mixed, capsys=capsys)
        assert code == 2
        assert said[0].startswith("no head of run ")
    other = ["--authority", room.other.kits["a"].ca_path]
    code, said = verify(ran, *files(room, known=False), *other, capsys=capsys)
    assert code == 2
    assert "its certificate is not signed by the federation's authority" in said[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"role": "lead"}, "that of a lead, and sites alone sign"),
        ({"role": "helper"}, "that of a helper, and sites alone sign"),
        ({"now": datetime.now(UTC) - timedelta(days=9), "days": 3}, "was not valid when it was signed"),
        ({"now": datetime.now(UTC) + timedelta(days=9)}, "was not valid when it was signed"),
        ({"name": "x"}, "it is none of the sites that entry 0 names"),
    ],
)
def test_certificates_of_the_authority_that_do_not_count(room, ran, tmp_path, capsys, change, why):
    key = read_key(room.kits["a"].folder.parents[1] / "authority" / "ca.key")
    told = {"name": "a", "role": "site"} | change
    mine = party(room.kits["a"], ca_pem=room.kits["a"].ca_pem, ca_key=key, **told)
    last = chain.read(ran)[-1]
    one = heads.signed(mine, run_in(ran), last.index, last.hash)
    heads.write(tmp_path / heads.HEADS, [one.as_dict])
    code, said = verify(ran, "--heads", tmp_path / heads.HEADS, capsys=capsys)
    assert code == 2
    assert why in said[0]


def test_a_head_cannot_be_stripped_of_what_it_is_bound_to(room, ran, tmp_path, capsys):
    for change in ({"role": "lead"}, {"federation": "x"}, {"authority": "0" * 64}, {"time": "2020"}, None):
        mine = [one.as_dict for one in heads.read(room.states["a"] / heads.HEADS) if one.run == run_in(ran)]
        for one in mine:
            one.update(change or {})
            if change is None:
                del one["authority"]
        (tmp_path / heads.HEADS).write_text("".join(json.dumps(one) + "\n" for one in mine))
        code, said = verify(ran, "--heads", tmp_path / heads.HEADS, capsys=capsys)
        assert code == 2
        assert said[0].endswith("does not count: the signature is not over this head")


def test_entries_after_what_sites_have_signed_prove_nothing(room, ran, tmp_path, capsys):
    """Files of heads that end before the ledger does, and what a site's friend signs in their place."""
    for name in NAMES:
        mine = [one.as_dict for one in heads.read(room.states[name] / heads.HEADS) if one.run == run_in(ran)]
        (tmp_path / name).write_text("".join(json.dumps(one) + "\n" for one in mine[:3]))
    (ran / heads.SIGNATURES).unlink()
    code, said = verify(ran, "--heads", *(tmp_path / name for name in NAMES), capsys=capsys)
    assert code == 2
    assert said == ["entry 3 is signed by nobody whose heads were given: anybody could have written that"]
    for name in NAMES:
        text = (tmp_path / name).read_text().splitlines()[:1]
        (tmp_path / name).write_text(text[0] + "\n")
    signed_by(ran, room.kits["d"], run=run_in(room.place / "run"))
    code, said = verify(ran, "--heads", *(tmp_path / name for name in "abc"), capsys=capsys)
    assert code == 2
    assert said[0].startswith("entry 2 says that a answered, which signed nothing after entry 0")


def test_two_chains_of_one_run_shown_to_two_sites(room, ran, tmp_path, capsys):
    """Each continues what its site has signed; heads of both tell."""
    run, honest = run_in(ran), Path(shutil.copytree(ran, tmp_path / "honest"))
    raised(ran)
    rebuilt(ran)
    (tmp_path / "state").mkdir()
    signer = Signer(tmp_path / "state", room.kits["d"])
    assert "signed" in signer.sign(run, 0, (ran / chain.FILE).read_text().splitlines())
    (ran / heads.SIGNATURES).unlink()
    fooled = tmp_path / "state" / heads.HEADS
    assert verify(ran, *files(room, ()), fooled, capsys=capsys)[0] == 0
    for folder in (ran, honest):
        code, said = verify(folder, *files(room, "a"), fooled, capsys=capsys)
        assert code == 2
        assert "signed another head for it: the chain was forked" in said[0]


def test_a_revoked_certificate_counts_no_more(tmp_path, monkeypatch, capsys):
    """Whoever found its key could have signed with it; heads by the new one stand for those before them."""
    room = Room(tmp_path, names=("a", "b"), rows=40)

    def watch(record):
        if record.done == 1:
            revoke(tmp_path / "kits", "a")
            room.kits["a"] = invite(tmp_path / "kits", "a")
            room.open("a")
            room.boots["a"] = 2

    room.play(monkeypatch, tmp_path / "once", rounds=1)
    room.play(monkeypatch, tmp_path / "run", watch, rounds=2)
    ca = tmp_path / "kits" / "authority" / "ca.crt"
    code, said = verify(tmp_path / "run", *files(room, "ab", False), "--authority", ca, capsys=capsys)
    assert (code, said) == (0, ["4 entries, 2 sites signed the last head"])
    code, said = verify(tmp_path / "once", *files(room, "ab", False), "--authority", ca, capsys=capsys)
    assert (code, said) == (
        2,
        ["entry 0: the signature of a does not count: its certificate was revoked"],
    )
    (ca.parent / "revoked.json").write_text("{}")
    assert main(["ledger", "verify", str(tmp_path / "once"), "--authority", str(ca)]) == 2
    assert "not signed by the authority" in capsys.readouterr().err


# files beside the ledger


def test_what_else_is_in_the_folder_is_held_against_it(room, ran, capsys):
    def said_after(name, change):
        data = (ran / name).read_bytes()
        change(ran / name)
        code, said = verify(ran, *files(room), capsys=capsys)
        (ran / name).write_bytes(data)
        return code, said

    def first_scores(path):
        lines = metrics(ran)
        lines[0]["scores"]["own/test"]["accuracy"] = [0.1] * 4
        write_metrics(ran, lines)

    def twice(path):
        lines = metrics(ran)
        write_metrics(ran, [*lines[:2], *lines[1:]])

    def rows(path):
        about = json.loads(path.read_text())
        about["clients"][0]["train"] = 10**6
        path.write_text(json.dumps(about))

    def curves(path):
        with np.load(path) as found:
            some = {name: values + 1 for name, values in found.items()}
        np.savez(path, **some)

    def short(path):
        path.write_text(path.read_text().splitlines()[0] + "\n")

    assert said_after("metrics.jsonl", first_scores) == (
        2,
        ["metrics.jsonl, round 0, is not what entry 0 says: it was changed"],
    )
    assert said_after("metrics.jsonl", twice) == (
        2,
        ["metrics.jsonl: its rounds do not follow each other: lines are missing, doubled or moved"],
    )
    assert said_after("run.json", rows) == (
        2,
        ["run.json is not what entry 0 says of clients and columns: it was changed"],
    )
    assert said_after("calibration.npz", curves) == (
        2,
        ["calibration.npz is not what entry 3 says: it was changed"],
    )
    assert said_after("collaboration.jsonl", short) == (
        2,
        ["collaboration.jsonl lacks round 2, of which entry 2 tells"],
    )
    assert verify(ran, *files(room), capsys=capsys) == (0, FINE)


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "round", "round": "x"},
        {"kind": "round", "round": 3, "answered": "0-999999999999"},
        {"kind": "resumed", "after": None},
        {"kind": "round", "round": 3, "away": 3},
        {"kind": "end", "models": 3},
        {"kind": "begin"},
        {},
    ],
)
def test_entries_of_no_run_are_refused(room, ran, capsys, content):
    rebuilt(ran, also=[content])
    said = ["entry 4: a run has no such entry"]
    assert verify(ran, *files(room), capsys=capsys) == (2, said)


# who was away, and what earlier versions wrote


def test_a_site_that_was_away_all_the_time_has_nothing_to_show(tmp_path, monkeypatch, capsys):
    """Another that came late has signed all; one that left, what it saw."""
    room, folder = Room(tmp_path, names=NAMES, rows=40), tmp_path / "run"
    room.play(monkeypatch, tmp_path / "before", rounds=1)  # all have heads of this
    room.gone = {"c", "d"}

    def watch(record):
        room.gone = {"d"} if record.done < 2 else {"d", "b"}

    room.play(monkeypatch, folder, watch, rounds=4)
    (folder / heads.SIGNATURES).unlink()
    kinds = [entry.content["kind"] for entry in chain.read(folder)]
    assert kinds == ["begin", *["round"] * 4, "end"]
    said = ["6 entries, 2 sites signed the last head; not signed by b (up to entry 2), d"]
    assert verify(folder, *files(room), capsys=capsys) == (0, said)
    code, said = verify(folder, *files(room, "bd"), capsys=capsys)
    assert (code, len(said)) == (2, 1)
    assert said[0].startswith("entries 3 to 5 are signed by nobody whose heads were given")
    code, said = verify(folder, *files(room, "d"), capsys=capsys)
    assert code == 2
    assert said[0].startswith("no head of run ")


def earlier_version(room, folder, place):
    """A run and heads as versions before wrote them: bound to a name and a run, and named by neither."""
    run, keys = run_in(folder), ("config", "kind", "method", "version", "clients", "fingerprint")
    rebuilt(folder, lambda said: {k: said[k] for k in keys} if said["kind"] == "begin" else said)
    found = chain.read(folder)
    (folder / heads.SIGNATURES).unlink()
    for name in NAMES:
        kit, lines = room.kits[name], []
        for entry in found:
            told = {"head": entry.hash, "index": entry.index, "run": run, "site": name}
            key = kit.key.sign(heads.SAID + chain.canonical(told).encode(), ec.ECDSA(hashes.SHA256()))
            also = {"signature": b64encode(key).decode(), "certificate": kit.card.pem.decode()}
            lines.append({"time": "2026-01-01T00:00:00+0000", **told, **also})
        heads.write(place / name, lines)
    return ["--authority", room.kits["a"].ca_path, "--heads", *(place / name for name in NAMES)]


def test_heads_of_earlier_versions_prove_what_they_can(room, ran, tmp_path, capsys):
    words = earlier_version(room, ran, tmp_path)
    said = f"{FINE[0]}; some heads are of an earlier version: only their certificates say of which federation"
    assert verify(ran, *words, capsys=capsys) == (0, [said])
    raised(ran)
    rebuilt(ran)
    code, said = verify(ran, *words, capsys=capsys)
    assert code == 2
    assert said[0].startswith("entry 1: a signed another head for it")


# what a site signs


def test_a_head_that_a_kill_cut_short_does_not_spoil_those_after_it(room, ran, tmp_path):
    lines, run, path = [entry.line for entry in chain.read(ran)], run_in(ran), tmp_path / heads.HEADS
    assert "signed" in Signer(tmp_path, room.kits["a"]).sign(run, 0, lines[:2])
    path.write_bytes(path.read_bytes() + b'{"site": "a", "run')
    assert "signed" in Signer(tmp_path, room.kits["a"]).sign(run, 2, lines[2:3])
    assert [one.index for one in heads.read(path)] == [1, 2]
    path.write_bytes(b"{\n" + path.read_bytes())
    found = Signer(tmp_path, room.kits["a"]).sign(run, 3, lines[3:])
    assert "line 1 is damaged" in found["refused"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (no_name, "entry 0 does not name the run and its federation"),
        (name_run("f" * 32), "the ledger names run "),
        (lambda said: {**said, "federation": "x"}, "the ledger names federation 'x'"),
        (lambda said: {**said, "authority": "x"}, "the ledger names authority 'x'"),
        (lambda said: {**said, "clients": ["b", "c"]}, "entry 0 does not name a among the sites"),
        (lambda said: {**said, "clients": 3}, "entry 0 does not name a among the sites"),
    ],
)
def test_a_site_signs_nothing_that_names_another_run(room, ran, tmp_path, change, why):
    begin = after(None, change(dict(chain.read(ran)[0].content)))
    found = Signer(tmp_path, room.kits["a"]).sign(run_in(ran), 0, [begin.line])
    assert why in found["refused"]
    assert not (tmp_path / heads.HEADS).exists()
    honest = chain.read(ran)[0].line
    assert "signed" in Signer(tmp_path, room.kits["a"]).sign(run_in(ran), 0, [honest])


def test_a_run_that_lost_its_states_goes_on_under_another_id(tmp_path, monkeypatch, capsys):
    """As after a power failure: the ledger is there, checkpoints are not."""
    room, folder = Room(tmp_path, names=("a", "b"), rows=40), tmp_path / "run"

    class Cut(BaseException):
        pass

    def watch(record):
        if record.done == 1:
            raise Cut

    with pytest.raises(Cut):
        room.play(monkeypatch, folder, watch, rounds=2)
    (folder / "checkpoint.safetensors").unlink()
    for name in room.names:
        room.open(name)
        room.boots[name] = 2
    room.play(monkeypatch, folder, rounds=2)
    (folder / heads.SIGNATURES).unlink()
    assert len({one.run for one in heads.read(room.states["a"] / heads.HEADS)}) == 2
    code, said = verify(folder, *files(room, "ab"), capsys=capsys)
    assert (code, said) == (0, ["6 entries, 2 sites signed the last head"])
