"""Kits: complete or not there, for their owner alone, and refused in one line when their parts disagree."""

import json
import os
import shutil
import threading
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coterie.core.errors import BadInput, BadInputs, BadRun, Refused, UnknownName
from coterie.federation.kits import authority as kits
from coterie.federation.kits import certificates
from coterie.federation.kits.authority import found_federation, invite, revoke
from coterie.federation.kits.kit import read_kit, read_revoked, revoked_of
from coterie.storage.locks import locked


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "ward"
    found_federation(folder, ["a", "b"], ["lead", "anna:viewer"])
    return folder


@pytest.fixture
def ward(first, tmp_path):
    """A federation of one's own, to be spoilt."""
    return Path(shutil.copytree(first, tmp_path / "ward"))


@pytest.fixture
def no_umask():
    """As bare as a machine can be set up."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_what_is_made(tmp_path, no_umask):
    made = found_federation(
        tmp_path / "my ward", ["a", "b"], ["lead", "anna:viewer"], "relay.org", 9000, listen="0.0.0.0"
    )
    assert [(kit.name, kit.role) for kit in made] == [
        ("coordinator", "coordinator"),
        ("a", "site"),
        ("b", "site"),
        ("lead", "lead"),
        ("anna", "viewer"),
    ]
    assert {(kit.federation, kit.host, kit.port) for kit in made} == {("my-ward", "relay.org", 9000)}
    assert [kit.listen for kit in made[:2]] == ["0.0.0.0", "127.0.0.1"]
    assert len({kit.card.serial for kit in made}) == 5
    assert os.listdir(tmp_path) == ["my ward"]
    for path in [tmp_path / "my ward", *tmp_path.rglob("*/**/*")]:
        mode = path.stat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else 0o644 if path.name == "members.json" else 0o600), path


def test_a_kit_works_wherever_it_is_copied_and_never_shows_its_key(ward, tmp_path):
    there = read_kit(shutil.copytree(ward / "sites" / "a", tmp_path / "elsewhere"))
    assert there.key.public_key() == there.card.public_key
    body = there.key_path.read_text().splitlines()[1]
    assert body not in repr(there) + str(asdict(there)) + repr(there.card)
    assert "key" not in asdict(there)
    assert replace(there, port=9).port == 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"sites": []}, ["a federation needs a site: name one or more with sites='a'"]),
        (
            {"sites": ["a", "a/b", "A", "coordinator", "lead"], "people": ["lead", "x:boss"], "days": 0},
            [
                "role 'boss' of 'x' must be lead or viewer: write x:viewer",
                "name 'a/b' must be 1 to 63 letters from a to z, digits, - or _, the first no - or _: "
                "try site-1",
                "name 'A' is there already (A and a count as the same): choose another",
                "name 'coordinator' is there already (A and a count as the same): choose another",
                "name 'lead' is there already (A and a count as the same): choose another",
                "days=0 must be from 1 to 3650: try 730",
            ],
        ),
        (
            {"sites": ["a"], "host": "10.0.0.7", "port": 70000},
            [
                "host '10.0.0.7' is reached from elsewhere, and nothing listens there unless you say so: "
                "add listen='0.0.0.0', or the one address to listen on",
                "port=70000 must be from 1 to 65535: try 8443",
            ],
        ),
        (
            {"sites": ["a"], "host": "0.0.0.0"},
            ["host '0.0.0.0' is where one listens: give the address that sites connect to"],
        ),
        (
            {"sites": ["a"], "host": "a b"},
            ["host 'a b' must be a host's name or address: try 127.0.0.1"],
        ),
        (
            {"sites": ["a"], "host": "relay.org", "listen": "*"},
            ["listen '*' must be a host's name or address: try 127.0.0.1"],
        ),
    ],
    ids=str,
)
def test_all_mistakes_at_once_and_nothing_written(tmp_path, words, said):
    with pytest.raises(BadInput) as refused:
        found_federation(tmp_path / "ward", **words)
    lines = refused.value.lines if isinstance(refused.value, BadInputs) else [str(refused.value)]
    assert list(lines) == said
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("host", "listen"), [("localhost", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("::1", "::1")]
)
def test_a_relay_on_this_machine_listens_to_it_alone(tmp_path, host, listen):
    assert found_federation(tmp_path / "ward", ["a"], host=host)[0].listen == listen


def test_only_a_new_or_empty_folder(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    assert len(found_federation(tmp_path / "empty", ["a"])) == 3
    with pytest.raises(BadInput, match="empty is there and not empty"):
        found_federation(tmp_path / "empty", ["a"])
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="file is there and not empty"):
        found_federation(tmp_path / "file", ["a"])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(BadInput, match="is the folder you are in"):
        found_federation(".", ["a"])


def test_a_failure_on_the_way_leaves_nothing(tmp_path, monkeypatch):
    def full(path, content, write=kits.write_private):
        if path.name == "b.key":
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(kits, "write_private", full)
    with pytest.raises(BadRun, match="No space left on device"):
        found_federation(tmp_path / "ward", ["a", "b"])
    assert not any(tmp_path.iterdir())


def old(folder, name, now):
    """The certificate of a kit as if it had been made then."""
    office = kits.Office(folder.parents[1])
    ca_key = kits.read_key(office.folder / "ca.key")
    public = read_kit(folder).key.public_key()
    pem = certificates.issue(office.ca_pem, ca_key, name, "site", public, 5, now=now)
    (folder / f"{name}.crt").write_bytes(pem)


def said_in(file, old, new):
    return lambda kit: (kit / file).write_text((kit / file).read_text().replace(old, new))


TODAY = datetime.now(UTC)
CLOCK = "this machine's clock says "


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda kit: (kit / "kit.toml").unlink(), " is not a kit: it has no kit.toml: give a folder that "),
        (lambda kit: (kit / "kit.toml").write_text("= 3"), "kit.toml is not TOML: copy the kit again"),
        (lambda kit: (kit / "kit.toml").write_bytes(b"\xff"), "kit.toml is not TOML: copy the kit again"),
        (said_in("kit.toml", "8443", "'x'"), "kit.toml: port is not there or no int: copy the kit again"),
        (said_in("kit.toml", "8443", "true"), "kit.toml: port is not there or no int: copy the kit again"),
        (said_in("kit.toml", "8443", "0"), "kit.toml: port=0 must be from 1 to 65535: try 8443"),
        (said_in("kit.toml", "127.0.0.1", "a b"), "kit.toml: host 'a b' must be a host's name or address"),
        (said_in("kit.toml", '"a"', '"../b"'), "kit.toml: name '../b' must be 1 to 63 letters"),
        (said_in("kit.toml", '"site"', '"boss"'), "kit.toml: role 'boss' must be one of coordinator, site,"),
        (said_in("kit.toml", '"site"', '"lead"'), "kit.toml says role 'lead', its certificate 'site': copy"),
        (said_in("kit.toml", '"ward"', '"x"'), "kit.toml says federation 'x', its certificate 'ward': copy"),
        (lambda kit: (kit / "a.crt").unlink(), "a.crt: No such file or directory: copy the kit again"),
        (lambda kit: (kit / "a.key").unlink(), "a.key: No such file or directory: copy the kit again"),
        (lambda kit: (kit / "a.crt").write_text("x"), "not a certificate of a federation: it cannot be read"),
        (lambda kit: (kit / "ca.crt").write_text("x"), "not the certificate of an authority: it cannot be"),
        (lambda kit: (kit / "a.key").write_text("x"), "a.key is not a private key in PEM without a password"),
        (lambda kit: (kit / "a.key").chmod(0o640), "a.key can be read by others on this machine: chmod 600 "),
        (
            lambda kit: shutil.copy(kit.parent / "b" / "b.key", kit / "a.key"),
            "a.key is not the key of a.crt: copy the kit again",
        ),
        (
            lambda kit: shutil.copy(kit.parent / "b" / "b.crt", kit / "a.crt"),
            "kit.toml says name 'a', its certificate 'b': copy the kit again as it was made",
        ),
        (
            lambda kit: (
                found_federation(kit.parents[2] / "ward2", ["a"])
                and shutil.copy(kit.parents[2] / "ward2" / "authority" / "ca.crt", kit / "ca.crt")
            ),
            "the certificate of 'a' is not signed by the authority of federation 'ward2': use the kit that ",
        ),
        (lambda kit: old(kit, "a", TODAY - timedelta(days=9)), CLOCK),
        (lambda kit: old(kit, "a", TODAY + timedelta(days=3)), CLOCK),
    ],
)
def test_a_kit_that_does_not_hold_together(ward, spoil, said):
    spoil(ward / "sites" / "a")
    with pytest.raises(BadInput) as refused:
        read_kit(ward / "sites" / "a")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_invited_revoked_and_invited_again(ward):
    coordinator = read_kit(ward / "coordinator")
    assert read_revoked(coordinator) == kits.Revoked(frozenset(), 0, b"")
    was = read_kit(ward / "sites" / "a").card.serial
    serials = [was]
    for number in (1, 2, 3):
        with pytest.raises(BadInput, match="a has a kit already: choose another name, or first coterie"):
            invite(ward, "a")
        revoke(ward, "a")
        listed = read_revoked(coordinator)
        assert (listed.serials, listed.number) == (frozenset(serials), number)
        assert listed.told == (ward / "authority" / "revoked.json").read_bytes()
        with pytest.raises(UnknownName, match="unknown party 'a'"):
            revoke(ward, "a")
        (ward / "sites" / "a" / "notes.txt").write_text(str(number))
        serials.append(invite(ward, "a").card.serial)
    assert len(set(serials)) == 4
    assert read_kit(ward / "sites" / "a").card.serial == serials[-1]
    assert [(ward / "sites" / f"a.revoked-{i}" / "notes.txt").read_text() for i in (1, 2, 3)] == [
        "1",
        "2",
        "3",
    ]
    assert invite(ward, "eve", "viewer", days=3).folder == ward / "people" / "eve"


def test_the_authority_alone_invites_and_revokes(ward):
    """When all kits have been handed over and are gone."""
    for gone in ("sites", "people", "coordinator"):
        shutil.rmtree(ward / gone)
    revoke(ward, "b")
    assert (
        revoked_of((ward / "authority" / "revoked.json").read_bytes(), kits.Office(ward).ca_pem).number == 1
    )
    assert invite(ward, "b").folder == ward / "sites" / "b"


def test_a_kill_between_list_and_notes_revokes_for_good(ward, monkeypatch):
    def killed(self, members):
        raise KeyboardInterrupt

    serial = read_kit(ward / "sites" / "a").card.serial
    with monkeypatch.context() as patch:
        patch.setattr(kits.Office, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            revoke(ward, "a")
    revoke(ward, "b")
    assert serial in read_revoked(read_kit(ward / "coordinator")).serials
    revoke(ward, "a")
    assert len(read_revoked(read_kit(ward / "coordinator")).serials) == 2


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (
            lambda ward: invite(ward, "A"),
            "name 'A' is there already (A and a count as the same): choose another",
        ),
        (lambda ward: invite(ward, "../x"), "name '../x' must be 1 to 63 letters"),
        (
            lambda ward: invite(ward, "x", "coordinator"),
            "role 'coordinator' must be site, helper, lead or viewer: ",
        ),
        (lambda ward: invite(ward, "x", days=4000), "days=4000 must be from 1 to 3650: try 730"),
        (lambda ward: invite(ward / "sites", "x"), "sites has no authority/ca.key: give the folder that "),
        (lambda ward: revoke(ward, "bb"), "unknown party 'bb': did you mean b?"),
        (
            lambda ward: revoke(ward, "coordinator"),
            "the relay cannot be revoked, as it hands the list on",
        ),
    ],
)
def test_what_the_authority_does_not_do(ward, act, said):
    before = {path: path.stat().st_mtime_ns for path in ward.rglob("*") if path.name != ".lock"}
    with pytest.raises(BadInput) as refused:
        act(ward)
    assert said in str(refused.value)
    after = {path: path.stat().st_mtime_ns for path in ward.rglob("*") if path.name != ".lock"}
    del before[ward / "authority"], after[ward / "authority"]  # where the lock came to be
    assert after == before


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("members.json", "{"),
        ("members.json", "[3]"),
        ("members.json", '[{"name": "a"}]'),
        ("authority.toml", ""),
    ],
)
def test_a_damaged_authority(ward, file, content):
    (ward / "authority" / file).write_text(content)
    with pytest.raises(BadInput, match=f"{file} .*: bring it back from a copy"):
        invite(ward, "c")


def test_one_command_at_a_time(ward):
    with locked(ward / "authority"), pytest.raises(BadRun, match="is being changed by another command"):
        revoke(ward, "a")
    done = []

    def one(name):
        while True:
            try:
                return done.append(invite(ward, name).name)
            except BadRun:
                continue

    threads = [threading.Thread(target=one, args=(f"n{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {m["name"] for m in kits.Office(ward).members()} >= {"n0", "n1", "n2", "n3"}


def test_a_list_counts_only_with_the_signature_of_its_authority(ward, tmp_path):
    revoke(ward, "a")
    coordinator = read_kit(ward / "coordinator")
    told = read_revoked(coordinator).told
    outer = json.loads(told)
    other = found_federation(tmp_path / "other", ["a"])[0]
    revoke(tmp_path / "other", "a")
    inner = json.loads(outer["list"])
    wrong = [
        b"",
        b"[]",
        b"3",
        b"\xff",
        b"[" * 100_000,
        told[:-3],
        told + b" " * (5 << 20),
        read_revoked(other).told,
        json.dumps({**outer, "list": json.dumps({**inner, "revoked": []})}).encode(),
        json.dumps({**outer, "list": json.dumps({**inner, "number": 9})}).encode(),
        json.dumps({**outer, "signature": "AAAA"}).encode(),
        json.dumps({**outer, "signature": None}).encode(),
        json.dumps({"list": outer["list"]}).encode(),
    ]
    for some in wrong:
        with pytest.raises(Refused, match="the list of revoked certificates is not signed by the authority"):
            revoked_of(some, coordinator.ca_pem)
    assert revoked_of(told, coordinator.ca_pem).number == 1
