"""The hosts, wires, disks and clocks that other tests stand on do what they say, and go away."""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import hosts
import pytest
from hosts import Here, Hosts, NotSeen, Running, left_behind, look

# answers every datagram with the same
ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7007))
print("listening on", s.getsockname()[1])
while True:
    text, who = s.recvfrom(100)
    s.sendto(text, who)
"""
# asks again and again and says each time whether there was an answer
ASK = """
import itertools, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(float(sys.argv[2]))
for i in itertools.count():
    try:
        s.sendto(b"%d" % i, (sys.argv[1], 7007))
        while s.recv(100) != b"%d" % i:
            pass
        print("answer", i)
        time.sleep(0.002)
    except OSError:
        print("nothing", i)
"""
# takes whatever is sent and says how long that took
TAKE = """
import socket, sys, time
s = socket.create_server((sys.argv[1], 7007))
print("listening")
while True:
    c, _ = s.accept()
    start, size = time.monotonic(), 0
    while more := c.recv(65536):
        size += len(more)
    print("took", size, time.monotonic() - start)
"""
SEND = "import socket, sys; socket.create_connection((sys.argv[1], 7007)).sendall(bytes(int(sys.argv[2])))"
SLEEP = "import time; print('up'); time.sleep(1000)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
# leaves a process that is nobody's child any more
ASTRAY = f"""
import subprocess, sys
quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
p = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True, **quiet)
print("astray", p.pid)
"""


def python(program: str, *words: object) -> list[str]:
    return [sys.executable, "-c", program, *map(str, words)]


def alive(pid: int) -> bool:
    found = hosts.processes().get(pid)
    return found is not None and found.state not in "ZX"


def spaces(mark: str) -> list[str]:
    return [p.name for p in Path("/run/netns").glob(f"cot-{mark}*")]


@pytest.fixture
def started(here_of):
    """Starts a small program on this machine."""
    place = here_of("a")
    return lambda program, *words, **more: place.run("a", python(program, *words), **more)


# processes


def test_output_is_waited_for_and_kept(started):
    program = (
        r"import sys; print('one\ntwo 22'); sys.stderr.write('three\n'); sys.stdout.buffer.write(b'\xff\n')"
    )
    running = started(program)
    assert running.wait() == 0
    assert running.wait_for("wo 2") == "two 22"
    assert running.wait_for(re.compile(r"^t\w+$")) == "three"
    assert sorted(running.lines) == ["one", "three", "two 22", "\ufffd"]
    assert len(running.log.read_bytes().splitlines()) == 4


def test_a_line_that_was_there_before_does_not_count(started):
    running = started("print('here')\nimport time\ntime.sleep(0.2)\nprint('here again')\ntime.sleep(1000)")
    assert running.wait_for("here") == "here"
    assert running.wait_for("here", after=1) == "here again"
    with pytest.raises(NotSeen):
        running.wait_for("here", 0.05, after=2)


@pytest.mark.parametrize(
    ("program", "seconds", "says"),
    [
        (f"for i in range(40): print('line', i)\n{SLEEP}", 0.5, r"within 0.5 s \(running\)"),
        ("for i in range(40): print('line', i)\nexit(3)", 60, r"before its output ended \(ended with 3\)"),
    ],
)
def test_what_does_not_come_is_an_error_with_the_last_lines(started, program, seconds, says):
    running = started(program)
    with contextlib.suppress(NotSeen):
        running.wait(0.3)
    with pytest.raises(NotSeen, match=says) as caught:
        running.wait_for("gold", seconds)
    lines = str(caught.value).splitlines()
    assert len(lines) == 31
    assert lines[-2:] in (["line 39", "up"], ["line 38", "line 39"])


def test_who_does_not_end_is_an_error(started):
    running = started(SLEEP)
    running.wait_for("up")
    with pytest.raises(NotSeen, match=r"did not end within 0.05 s \(running\); its last lines:\nup$"):
        running.wait(0.05)


@pytest.mark.parametrize(
    ("program", "end", "code"),
    [
        (SLEEP, Running.stop, -signal.SIGTERM),
        (STUBBORN, lambda r: r.stop(0.1), -signal.SIGKILL),
        (SLEEP, Running.kill, -signal.SIGKILL),
        (SLEEP, lambda r: (r.freeze(), r.stop()), -signal.SIGTERM),
        (SLEEP, lambda r: (r.freeze(), r.kill()), -signal.SIGKILL),
        (SLEEP, lambda r: (r.kill(), r.stop(), r.kill()), -signal.SIGKILL),
    ],
    ids=["asked", "stubborn", "killed", "frozen and asked", "frozen and killed", "thrice"],
)
def test_a_process_ends(started, program, end, code):
    running = started(program)
    running.wait_for("up")
    assert running.returncode is None
    end(running)
    assert running.returncode == code
    assert not alive(running.pid)


def test_who_is_frozen_says_nothing_until_thawed(started):
    running = started("import time\nwhile True:\n    print('tick')\n    time.sleep(0.005)")
    running.wait_for("tick")
    running.freeze()
    assert hosts.processes()[running.pid].state == "T"
    with contextlib.suppress(NotSeen):  # what was said before may still be on its way
        running.wait_for("no such line", 0.1)
    count = len(running.lines)
    with pytest.raises(NotSeen):
        running.wait_for("tick", 0.2, after=count)
    running.thaw()
    running.wait_for("tick", after=count)


def test_children_are_known_and_outlive_a_kill(here_of):
    with Here(["a"], here_of("b").folder) as place:
        inner = shlex.join(python(SLEEP))
        running = place.run("a", ["sh", "-c", f"sh -c {shlex.quote(f'{inner}; :')}; :"])
        running.wait_for("up")
        found = hosts.below(running.pid)
        assert [p.command.split()[0] for p in found] == ["sh", sys.executable]
        running.kill()
        assert all(alive(p.pid) for p in found)
    assert not any(alive(p.pid) for p in found)


# places


@pytest.fixture(params=[Here, Hosts])
def kind(request):
    if request.param is Hosts and Hosts.possible():
        pytest.skip(Hosts.possible())
    return request.param


def test_nobody_survives_a_place(kind, tmp_path):
    """Also if the test fails: who listens, who does not, who is frozen, and who has left its parent."""
    before = look(tmp_path / "nothing")
    with contextlib.suppress(ZeroDivisionError), kind(["a", "b"], tmp_path) as place:
        pids = []
        for program in (SLEEP, STUBBORN):
            running = place.run("a", python(program), env={"LC_ALL": "C"})
            running.wait_for("up")
            assert [p.command.split()[0] for p in hosts.below(os.getpid()) if p.pid == running.pid] == [
                sys.executable
            ]
            pids += [running.pid]
        pids += [int(place.run("b", python(ASTRAY)).wait_for("astray").split()[1])]
        place.run("b", python(SLEEP)).freeze()
        assert all(map(alive, pids))
        place.close = lambda close=place.close: close(0.2)
        _ = 1 / 0
    assert not any(map(alive, pids))
    assert left_behind(before, 0.5) == []
    assert spaces(place.mark) == []


def test_nobody_survives_a_test_process_that_is_killed(kind, tmp_path):
    program = f"""
import sys, time
sys.path.insert(0, {str(Path(hosts.__file__).parent)!r})
from hosts import {kind.__name__}, small_disk
from pathlib import Path
import contextlib
folder = Path({str(tmp_path)!r})
with {kind.__name__}(["a"], folder) as place, contextlib.ExitStack() as more:
    running = place.run("a", [sys.executable, "-c", {SLEEP!r}])
    running.wait_for("up")
    if {kind is Hosts}:
        (more.enter_context(small_disk(1, folder)) / "file").write_text("x")
    print("all up", running.pid, place.mark)
    time.sleep(1000)
"""
    test = Running(python(program), tmp_path / "test.log")
    _, _, pid, mark = test.wait_for("all up").split()
    assert alive(int(pid))
    assert len(spaces(mark)) == (2 if kind is Hosts else 0)
    test.kill()
    until = time.monotonic() + 5
    while time.monotonic() < until and (alive(int(pid)) or spaces(mark) or [*tmp_path.glob("disk-*")]):
        time.sleep(0.02)
    assert not alive(int(pid))
    assert spaces(mark) == []
    assert [*tmp_path.glob("disk-*")] == []


def test_a_place_has_good_names(tmp_path):
    for names in (["a", "a"], ["a b"], ["-a"], ["../a"], [""]):
        with pytest.raises(ValueError, match="different names"):
            Here(names, tmp_path)
    with Here(["a"], tmp_path) as place, pytest.raises(ValueError, match="not in"):
        place.run("b", ["true"])


def test_on_loopback_no_cable_is_cut(here_of):
    place = here_of("a")
    assert (place.address("a"), place.here) == ("127.0.0.1", "127.0.0.1")
    for spoil in (place.cut, place.heal, lambda h: place.lose(h, 5), lambda h: place.slow(h, "1mbit")):
        with pytest.raises(pytest.skip.Exception, match="loopback"):
            spoil("a")


# wires


def test_hosts_reach_each_other_and_are_reached_from_here(hosts_of):
    net, other = hosts_of("relay", "north"), hosts_of("relay")
    assert net.subnet != other.subnet
    echo = net.run("relay", python(ECHO, net.address("relay")))
    echo.wait_for("listening on 7007")
    net.run("north", python(ASK, net.address("relay"), 0.5)).wait_for("answer")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind((net.here, 0))
        here.settimeout(5)
        here.sendto(b"hello", (net.address("relay"), 7007))
        assert here.recv(10) == b"hello"
    # a host's loopback is its own, and another set of hosts is another world
    net.run("north", python(ASK, "127.0.0.1", 0.05)).wait_for("nothing 2")
    other.run("relay", python(ASK, net.address("relay"), 0.05)).wait_for("nothing 2")


def test_a_cable_is_cut_and_mended(hosts_of):
    net = hosts_of("relay", "north", "south")
    net.run("relay", python(ECHO, net.address("relay"))).wait_for("listening")
    north, south = [net.run(h, python(ASK, net.address("relay"), 0.1)) for h in ("north", "south")]
    for spoil, mend in [
        (lambda: net.cut("north"), lambda: net.heal("north")),
        (lambda: net.lose("north", 100), lambda: net.lose("north", 0)),
    ]:
        north.wait_for("answer", after=len(north.lines))
        spoil()
        north.wait_for("nothing", after=len(north.lines))
        lost, kept = len(north.lines), len(south.lines)
        south.wait_for("answer", after=kept)
        with pytest.raises(NotSeen):
            north.wait_for("answer", 0.3, after=lost)
        mend()
        north.wait_for("answer", after=len(north.lines))


def test_some_packets_are_lost(hosts_of):
    net = hosts_of("relay", "north")
    net.run("relay", python(ECHO, net.address("relay"))).wait_for("listening")
    north = net.run("north", python(ASK, net.address("relay"), 0.01))
    north.wait_for("answer")
    net.lose("north", 30)
    start = len(north.lines)
    north.wait_for(re.compile(f" {start + 150}$"))
    heard = sum(line.startswith("answer") for line in north.lines[start:]) / len(north.lines[start:])
    assert 0.3 < heard < 0.7  # 0.49: there and back


def test_a_cable_is_slow(hosts_of):
    net = hosts_of("relay", "north")
    take = net.run("relay", python(TAKE, net.address("relay")))
    take.wait_for("listening")

    def seconds(sender: str, size: int) -> float:
        before = len(take.lines)
        if sender == "here":
            with socket.create_connection((net.address("relay"), 7007)) as here:
                here.sendall(bytes(size))
        else:
            net.run(sender, python(SEND, net.address("relay"), size))
        said = take.wait_for(f"took {size}", after=before)
        return float(said.split()[2])

    assert seconds("north", 200_000) < 0.5
    net.slow("north", "2mbit")
    assert seconds("north", 200_000) > 0.5  # 0.8, but for a first burst
    assert seconds("here", 200_000) < 0.5
    net.slow("relay", "2mbit")  # the other direction, towards a host
    net.slow("north", "")
    assert seconds("north", 200_000) > 0.5
    net.slow("relay", "")
    assert seconds("north", 200_000) < 0.5


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda m: m.setattr(hosts.os, "geteuid", lambda: 1000), "network namespaces need root"),
        (
            lambda m: m.setattr(hosts.shutil, "which", lambda t: None if t == "tc" else t),
            "network namespaces need tc: install iproute2 and util-linux",
        ),
        (
            lambda m: m.setattr(hosts.places, "tool", lambda words, lines=(): "not allowed"),
            "no network namespaces on this machine: not allowed",
        ),
    ],
    ids=["no root", "no tool", "no right"],
)
def test_why_there_are_no_hosts(monkeypatch, spoil, says):
    monkeypatch.setattr(hosts.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(hosts.os, "geteuid", lambda: 0)
    spoil(monkeypatch)
    assert Hosts.possible.__wrapped__() == says


# what is left


def test_whatever_is_left_is_told(started, tmp_path):
    before = look(tmp_path)
    assert left_behind(before, 0) == []
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    child = started(
        f"import socket; s = socket.create_server(('127.0.0.1', 0)); print(*s.getsockname()); {SLEEP}"
    )
    port_of_child = child.wait_for("127.0.0.1").split()[1]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text("x")
    astray = int(subprocess.run(python(ASTRAY), capture_output=True, text=True, timeout=10).stdout.split()[1])
    left = left_behind(before, 0)
    os.kill(astray, signal.SIGKILL)
    assert [line.partition(": ")[0] for line in left] == sorted(
        [
            f"file {tmp_path}/deep/file",
            f"port {port} of process {os.getpid()}",
            f"port {port_of_child} of process {child.pid}",
            f"process {child.pid}",
            f"process {astray}",
        ]
    )
    child.kill()
    server.close()
    (tmp_path / "deep" / "file").unlink()
    assert left_behind(before) == []


def test_an_open_namespace_is_left(hosts_of):
    before = look()
    net = hosts_of("relay")
    assert f"namespace cot-{net.mark}-relay" in left_behind(before, 0)
    net.close()
    assert left_behind(before) == []


# disks and clocks


def test_a_small_disk_is_soon_full(tmp_path, small_disk):
    small_disk(1)
    with hosts.small_disk(1, tmp_path) as folder:
        (folder / "fits").write_bytes(bytes(500_000))
        with pytest.raises(OSError, match="No space left") as caught:
            (folder / "does not").write_bytes(bytes(700_000))
        assert caught.value.errno == errno.ENOSPC
    assert [*tmp_path.iterdir()] == []


# a certificate of one day before and after now, and what a TLS handshake says of it
CLOCKS = """
import datetime, json, ssl, sys, threading, time
def handshake():
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=sys.argv[1])
    server.load_cert_chain(sys.argv[1], sys.argv[2])
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(a, b, server_side=True), client.wrap_bio(b, a, server_hostname="north")]
    for turn in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    return ends[1].version()
start = time.monotonic()
threading.Event().wait(0.1)
waited = time.monotonic() - start
now = [time.time(), datetime.datetime.now(datetime.timezone.utc).timestamp()]
print(json.dumps([*now, waited, handshake()]))
"""


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [(0, "TLSv1.3"), (3 * 86400, "certificate has expired"), (-3 * 86400, "certificate is not yet valid")],
)
def test_a_clock_is_off(clock_off, started, tmp_path, seconds, verdict):
    env = clock_off(seconds)
    certificate, key = day_certificate(tmp_path)
    running = started(CLOCKS, certificate, key, env=env)
    assert running.wait() == 0, running.lines
    at, date, waited, said = json.loads(running.lines[-1])
    assert at - time.time() == pytest.approx(seconds, abs=5)
    assert date == pytest.approx(at, abs=1)
    assert 0.1 <= waited < 1
    assert said == verdict


def day_certificate(folder: Path) -> tuple[Path, Path]:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "north")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("north")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    certificate, secret = folder / "north.crt", folder / "north.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(pem)
    return certificate, secret


def test_no_clock_without_the_library(monkeypatch):
    monkeypatch.setattr(hosts, "FAKETIME", ("/nowhere/*",))
    monkeypatch.delenv("FAKETIME_LIBRARY", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install faketime"):
        hosts.clock_off(1)
