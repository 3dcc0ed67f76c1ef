"""`coterie relay` as a process: strangers stay out, and whoever belongs comes back by itself."""

import contextlib
import dataclasses
import shutil
import signal
import socket
import ssl
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import parties
import pytest
from parties import until

from coterie.cli.main import main
from coterie.federation.kits import authority as kits
from coterie.federation.kits.authority import found_federation, revoke
from coterie.federation.kits.certificates import issue
from coterie.federation.kits.kit import read_kit
from coterie.federation.transport import line as check
from coterie.federation.transport.line import connection_problems
from coterie.federation.transport.post import Missing, Post

COTERIE = [sys.executable, "-m", "coterie"]
SITE = [sys.executable, parties.__file__]


class Clinic:
    """A federation, its relay and its sites, each a process."""

    def __init__(self, here, folder):
        self.here, self.folder, self.posts = here, folder, []
        found_federation(folder, ["a", "b"])
        self.relay = self.coordinate("--port", "0")
        self.port = int(self.relay.wait_for("listening on").rpartition(":")[2])

    def coordinate(self, *words):
        return self.here.run("relay", [*COTERIE, "relay", self.folder / "coordinator", *words])

    def kit(self, place):
        return dataclasses.replace(read_kit(self.folder / place), port=self.port)

    def site(self, name, seconds=0.0):
        running = self.here.run("site", [*SITE, self.folder / "sites" / name, self.port, seconds])
        running.wait_for("here")
        return running

    def post(self, place="people/lead", start=True):
        post = Post(self.kit(place))
        self.posts.append(post)
        if start:
            post.start()
        return post


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    import hosts

    folder = tmp_path_factory.mktemp("strangers")
    with contextlib.ExitStack() as opened:
        made = Clinic(opened.enter_context(hosts.Here(["relay", "site"], folder)), folder / "ward")
        yield made
        for post in made.posts:
            post.close()


def shaken(clinic, kit=None, version=ssl.TLSVersion.TLSv1_3):
    """A TLS connection with this kit's certificate, or none, to its first word from the relay."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    if kit is not None:
        context.load_cert_chain(kit.certificate_path, kit.key_path)
    with (
        socket.create_connection(("127.0.0.1", clinic.port), 5) as sock,
        context.wrap_socket(sock) as wrapped,
    ):
        return wrapped.recv(1)


def said(clinic, data):
    """What a relay answers to bytes that are no TLS."""
    with socket.create_connection(("127.0.0.1", clinic.port), 5) as sock:
        sock.sendall(data)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := sock.recv(1000):
                got += piece
        return got


def test_no_stranger_gets_in_and_a_silent_one_keeps_nobody_out(clinic, tmp_path):
    other = found_federation(tmp_path / "other", ["a"])
    silent = [socket.create_connection(("127.0.0.1", clinic.port), 5) for _ in range(70)]
    try:
        for kit, version, why in [
            (None, ssl.TLSVersion.TLSv1_3, "certificate required"),
            (other[1], ssl.TLSVersion.TLSv1_3, "unknown ca"),
            (clinic.kit("sites/a"), ssl.TLSVersion.TLSv1_2, "protocol version"),
        ]:
            with pytest.raises(ssl.SSLError) as refused:
                shaken(clinic, kit, version)
            assert why in refused.value.reason.lower().replace("_", " ")
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(300), b"\0" * 5000):
            assert len(said(clinic, data)) < 20, "an alert at most"
        lead = clinic.post()
        assert set(lead.members()) == {"lead"}
        lead.close()
    finally:
        for sock in silent:
            sock.close()
    clinic.relay.wait_for("refused 127.0.0.1")
    assert clinic.relay.returncode is None


def test_a_certificate_from_another_time(clinic, tmp_path):
    key, kit = kits.read_key(clinic.folder / "authority" / "ca.key"), clinic.kit("sites/b")
    today = f"this machine's clock says {datetime.now(UTC):%Y-%m-%d}"
    for days, why, alert in (
        (-20, "was valid until", "expired"),
        (20, "is valid only from", "bad certificate"),
    ):
        folder = Path(shutil.copytree(kit.folder, tmp_path / f"b{days}"))
        start = datetime.now(UTC) + timedelta(days=days)
        pem = issue(kit.ca_pem, key, "b", "site", kit.key.public_key(), 10, now=start)
        (folder / "b.crt").write_bytes(pem)
        old = dataclasses.replace(kit, folder=folder)
        (line,) = connection_problems(old)
        assert why in line
        assert today in line
        vars(old)["card"] = kit.card  # a process whose clock differs takes it for valid
        (line,) = connection_problems(old)
        assert "the relay does not take the certificate of b (" in line
        assert alert in line
        assert today in line


def test_why_a_site_cannot_connect(clinic, tmp_path):
    kit = clinic.kit("sites/a")
    assert connection_problems(kit) == [f"all is well: 127.0.0.1:{clinic.port} lets a in"]
    other = found_federation(tmp_path / "other", ["a"], port=clinic.port)[1]
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        closed = deaf.getsockname()[1]
    table = [
        (
            dataclasses.replace(kit, host="no-such-host.invalid"),
            "no-such-host.invalid cannot be found",
        ),
        (
            dataclasses.replace(kit, port=closed),
            f"nothing listens at 127.0.0.1:{closed}: is",
        ),
        (other, "is not signed by the authority of federation 'other'"),
    ]
    for tried, why in table:
        (line,) = connection_problems(tried)
        assert why in line
    with socket.create_server(("127.0.0.1", 0)) as plain:
        threading.Thread(target=lambda: plain.accept()[0].sendall(b"220 mail ready\r\n"), daemon=True).start()
        (line,) = connection_problems(dataclasses.replace(kit, port=plain.getsockname()[1]))
        assert "speaks no TLS" in line
    site = clinic.site("a")
    (line,) = connection_problems(kit)
    assert "a is already connected from 127.0.0.1:" in line
    site.stop()
    assert [bool(check._clocks(gap)) for gap in (0, 59, -59, 61, -3600)] == [False, False, False, True, True]


def test_the_kit_of_a_site_is_no_relay(clinic, tmp_path):
    running = clinic.here.run("site", [*COTERIE, "relay", clinic.folder / "sites" / "a"])
    assert running.wait(20) == 2
    assert "is the kit of a site: give the relay's" in running.lines[-1]


def test_one_relay_for_a_kit_and_one_for_a_port(clinic, tmp_path):
    second = clinic.coordinate()
    assert second.wait(20) == 2
    assert "another coterie relay runs with it" in second.lines[-1]
    found_federation(tmp_path / "other", ["a"])
    third = clinic.here.run(
        "relay", [*COTERIE, "relay", tmp_path / "other" / "coordinator", "--port", clinic.port]
    )
    assert third.wait(20) == 2
    assert f"cannot listen on 127.0.0.1:{clinic.port}: Address already in use" in third.lines[-1]
    assert "Traceback" not in "".join(second.lines + third.lines)


def test_a_site_killed_while_asked_is_away_and_restarted_if_it_comes_back(clinic):
    site, lead = clinic.site("a", 60), clinic.post()
    got = {}

    def ask(patience):
        got["a"] = lead.ask({"a": b"1"}, 30, patience=patience)["a"]

    for patience in (0.5, 15.0):
        thread = threading.Thread(target=ask, args=(patience,))
        thread.start()
        site.wait_for("asked")
        site.kill()
        if patience > 1:
            site = clinic.site("a")
        thread.join(20)
        assert got["a"].why == ("restarted" if patience > 1 else "away"), got
        if patience < 1:
            site = clinic.site("a", 60)
            until(lambda: "a" in lead.members())
    assert lead.ask({"a": b"again"}, 10)["a"] == b"again"
    site.stop()
    lead.close()


def test_a_relay_killed_and_started_again_loses_nothing(clinic):
    sites, lead = [clinic.site("a", 2), clinic.site("b", 0)], clinic.post()
    got = {}
    thread = threading.Thread(target=lambda: got.update(lead.ask({"a": b"1", "b": bytes(3 << 20)}, 40)))
    thread.start()
    sites[0].wait_for("asked")
    clinic.relay.kill()
    start = time.monotonic()
    clinic.relay = clinic.coordinate("--port", str(clinic.port))
    clinic.relay.wait_for("listening on")
    thread.join(30)
    assert got == {"a": b"1", "b": bytes(3 << 20)}
    assert sum(line == "asked" for line in sites[0].lines) == 1
    until(lambda: set(lead.members()) == {"a", "b", "lead"}, 15)
    assert time.monotonic() - start < 15
    for site in sites:
        site.stop()
    lead.close()


def test_a_revoked_site_is_out_at_once_and_for_good(clinic):
    site = clinic.site("b")
    revoke(clinic.folder, "b")
    site.wait_for("the certificate of b is revoked: ask for a new kit")
    clinic.relay.wait_for("b is revoked")
    (line,) = connection_problems(clinic.kit("sites/b"))
    assert "the certificate of b is revoked" in line
    lead = clinic.post()
    assert lead.ask({"b": b"1"}, 10, patience=0.3)["b"] == Missing("b", "away", "b is not connected")
    lead.close()
    site.stop()


def test_the_relay_has_its_old_name_too(tmp_path, capsys):
    found_federation(tmp_path / "ward", ["a"])
    assert main(["coordinate", str(tmp_path / "ward" / "sites" / "a")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "coterie: coterie coordinate is called coterie relay now; both do the same"
    assert "is the kit of a site" in said[1]


IN_BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]  # as shells start jobs: with SIGINT ignored


@pytest.mark.parametrize(
    ("by", "started"),
    [(signal.SIGTERM, []), (signal.SIGINT, []), (signal.SIGINT, IN_BACKGROUND)],
    ids=["SIGTERM", "SIGINT", "SIGINT in the background"],
)
def test_it_ends_when_told_to(here_of, tmp_path, by, started):
    here, folder = here_of("relay"), tmp_path / "ward"
    found_federation(folder, ["a"])
    relay = here.run("relay", [*started, *COTERIE, "relay", folder / "coordinator", "--port", "0"])
    port = int(relay.wait_for("listening on 127.0.0.1:").rpartition(":")[2])
    assert (folder / "coordinator" / "port").read_text() == f"{port}\n"
    post = Post(dataclasses.replace(read_kit(folder / "sites" / "a"), port=port))
    post.start()
    start = time.monotonic()
    relay.process.send_signal(by)
    assert relay.wait(5) == 0
    assert time.monotonic() - start < 2
    assert not (folder / "coordinator" / "port").exists()
    post.close()
