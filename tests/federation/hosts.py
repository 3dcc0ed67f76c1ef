"""Hosts to rehearse a federation on: processes that can be watched, cut off, frozen and killed.

`Hosts` makes a network namespace for each host and joins them by a bridge, which lies in a namespace of its
own, so that neither routes nor firewalls of this machine matter; one cable leads here, so that a test can
reach the hosts as well. `Here` has the same methods on loopback and needs nothing, but no cable can be cut.

    with Hosts(["relay", "north"], tmp_path) as hosts:
        relay = hosts.run("relay", [sys.executable, "-c", SERVER, hosts.address("relay")])
        relay.wait_for("listening")
        hosts.cut("north")

Whatever is made goes away with the test, even if the test process itself is killed: a shell waits for that.
`look` before and `left_behind` after tell what somebody forgot.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

MARK = "COTERIE_TESTS_OF"  # in the environment of all that a test starts: whose it is
TAIL = 30  # lines of output that an error shows
FAKETIME = ("/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib/faketime")


class NotSeen(AssertionError):
    """A process did not say, or do, what a test waited for."""


@dataclass(frozen=True)
class Process:
    """One row of the machine's list of processes; a pid with its start is never used twice."""

    pid: int
    parent: int
    started: int
    state: str
    command: str


def processes() -> dict[int, Process]:
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended since
            name, _, rest = (entry / "stat").read_text().rpartition(")")
            fields = rest.split()
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            pid = int(entry.name)
            command = words or name.partition("(")[2]
            found[pid] = Process(pid, int(fields[1]), int(fields[19]), fields[0], command)
    return found


def below(pid: int) -> list[Process]:
    """Children, their children and so on, of those that still run."""
    everyone = processes()
    found, families = [], [pid]
    while families:
        parent = families.pop()
        for process in everyone.values():
            if process.parent == parent:
                families.append(process.pid)
                found.append(process)
    return [p for p in found if p.state not in "ZX"]


class AtEnd:
    """Shell lines that run when told, or as soon as this process is gone, in whatever way it went."""

    def __init__(self, lines: Sequence[str]) -> None:
        script = "\n".join(["trap '' INT TERM HUP", "read -r _", *lines])
        self.shell = subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"},
            start_new_session=True,  # a Ctrl-C in the terminal is not for it
        )

    def now(self) -> None:
        if self.shell.poll() is None:
            self.shell.communicate(b"\n", timeout=30)


class Running:
    """A process whose output is in a file and can be waited for."""

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        inside: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        self.log, self.lines = log, list[str]()
        self.name = log.stem
        self.more, self.silent = threading.Condition(), False
        self.process = subprocess.Popen(
            [*inside, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self._read, name=f"output of {self.name}", daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.log.open("ab", buffering=0) as file, self.process.stdout as said:
            for line in said:
                file.write(line)
                with self.more:
                    self.lines.append(line.decode(errors="replace").rstrip("\r\n"))
                    self.more.notify_all()
        with self.more:
            self.silent = True
            self.more.notify_all()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs, minus the signal that ended it."""
        return self.process.poll()

    def wait_for(self, text: str | re.Pattern[str], seconds: float = 10.0, after: int = 0) -> str:
        """The first line with that text in it, not counting the first `after` lines."""
        pattern = re.compile(re.escape(text)) if isinstance(text, str) else text
        until, at = time.monotonic() + seconds, after
        with self.more:
            while True:
                for line in self.lines[at:]:
                    if pattern.search(line):
                        return line
                at, left = max(at, len(self.lines)), until - time.monotonic()
                if self.silent or left <= 0:
                    break
                self.more.wait(left)
        why = "before its output ended" if self.silent else f"within {seconds:g} s"
        raise NotSeen(f"{self.name} did not say {pattern.pattern!r} {why}{self._last()}")

    def wait(self, seconds: float = 10.0) -> int:
        """Its exit code, once it has ended by itself and all it said was read."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NotSeen(f"{self.name} did not end within {seconds:g} s{self._last()}") from None
        self.reader.join(0.3)  # no longer: a child of it may hold the output open
        return code

    def _last(self) -> str:
        state = "running" if self.returncode is None else f"ended with {self.returncode}"
        return "\n".join([f" ({state}); its last lines:", *self.lines[-TAIL:]])

    def children(self) -> list[Process]:
        return below(self.pid)

    def kill(self) -> None:
        """SIGKILL, of this process alone; returns when it is gone."""
        self.process.kill()
        self.wait()

    def stop(self, seconds: float = 5.0) -> int:
        """SIGTERM, and SIGKILL for who does not listen; its exit code."""
        self.ask_to_end()
        with contextlib.suppress(NotSeen):
            return self.wait(seconds)
        self.kill()
        return self.wait()

    def ask_to_end(self) -> None:
        self.process.terminate()
        self.process.send_signal(signal.SIGCONT)  # who is frozen hears nothing

    def freeze(self) -> None:
        """SIGSTOP: it stays connected and says nothing more; returns when it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Here:
    """Every host is this machine: 127.0.0.1, and nothing between them that could fail."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        bad = [n for n in names if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", n)]
        if bad or len(set(names)) < len(names) or len(names) > 200:
            raise ValueError(f"hosts {list(names)}: up to 200 different names of letters, digits, - and _")
        self.names, self.folder = tuple(names), Path(folder)
        self.mark = f"{os.getpid()}-{secrets.token_hex(3)}"
        self.running: list[Running] = []
        self.here = "127.0.0.1"

    def address(self, host: str) -> str:
        return "127.0.0.1"

    def run(
        self,
        host: str,
        words: Sequence[str],
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        cwd: Path | None = None,
    ) -> Running:
        """Starts a process there; its output goes to `log`, a file of the host's name otherwise."""
        log = log or self.folder / f"{host}-{len(self.running)}.log"
        marked = {MARK: self.mark, **(env or {})}
        self.running.append(Running(words, log, marked, self.inside(host), cwd))
        return self.running[-1]

    def inside(self, host: str) -> list[str]:
        """Words before a command that make it run there, as the same process."""
        self.names.index(host)
        return []

    def cut(self, host: str) -> None:
        pytest.skip("on loopback no cable can be cut: needs network namespaces")

    heal = cut

    def lose(self, host: str, percent: float) -> None:
        self.cut(host)

    def slow(self, host: str, rate: str) -> None:
        self.cut(host)

    def undoing(self) -> list[str]:
        """Shell lines that end what is left of all that ran here, whoever its parent is by now."""
        marked = f"grep -lsz '^{MARK}={self.mark}$' /proc/[0-9]*/environ | cut -d/ -f3"
        return [f"for turn in 1 2 3; do for pid in $({marked}); do kill -9 $pid; done; done"]

    def make(self) -> None:
        """What must be there before anything runs."""

    def __enter__(self) -> Self:
        self.at_end = AtEnd(self.undoing())
        try:
            self.make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.close()

    def close(self, seconds: float = 3.0) -> None:
        """Everybody is asked to end at once, and has so many seconds in all."""
        until = time.monotonic() + seconds
        try:
            for process in self.running:
                process.ask_to_end()
            for process in self.running:
                process.stop(max(0.0, until - time.monotonic()))
        finally:
            self.at_end.now()
        for process in self.running:
            process.reader.join(2)
            for file in Path("/dev/shm").glob(f"*faketime_s*_{process.pid}"):
                file.unlink(missing_ok=True)  # of a killed process with a clock that was off


def tool(words: Sequence[str], lines: Sequence[str] = ()) -> str:
    """Runs ip or tc; what it complained of, in one line."""
    done = subprocess.run(words, input="\n".join(lines), capture_output=True, text=True, timeout=30)
    complaint = " ".join(done.stderr.split())
    return complaint or f"{words[0]} ended with {done.returncode}" if done.returncode else ""


class Hosts(Here):
    """A namespace for each host, one for the wires between them, and a cable from there to here."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        super().__init__(names, folder)
        self.spaces = {name: f"cot-{self.mark}-{name}" for name in names}
        self.wires = f"cot-{self.mark}"
        self.subnet = 0  # the X of 10.77.X.0/24

    @staticmethod
    @functools.cache
    def possible() -> str:
        """Why not; empty if it is."""
        if missing := [t for t in ("ip", "tc", "nsenter") if not shutil.which(t)]:
            return f"network namespaces need {', '.join(missing)}: install iproute2 and util-linux"
        if os.geteuid():
            return "network namespaces need root"
        name = f"cot-{os.getpid()}-{secrets.token_hex(3)}-probe"
        why = tool(["ip", "netns", "add", name]) or tool(["ip", "-n", name, "link", "add", "type", "bridge"])
        tool(["ip", "netns", "del", name])
        return why and f"no network namespaces on this machine: {why}"

    def address(self, host: str) -> str:
        return f"10.77.{self.subnet}.{self.names.index(host) + 1}"

    def inside(self, host: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.spaces[host]}"]

    def make(self) -> None:
        _must(["ip", "-batch", "-"], [f"netns add {n}" for n in (self.wires, *self.spaces.values())])
        _must(["ip", "-n", self.wires, "-batch", "-"], ["link add bridge type bridge", "link set bridge up"])
        self.subnet = self._subnet()
        self.here = f"10.77.{self.subnet}.254"
        cables = ["link set here master bridge up"]
        for i, space in enumerate(self.spaces.values()):
            cables += [f"link add v{i} type veth peer name eth0 netns {space}"]
            cables += [f"link set v{i} master bridge up"]
        _must(["ip", "-n", self.wires, "-batch", "-"], cables)
        for host, space in self.spaces.items():
            lines = ["link set lo up", f"addr add {self.address(host)}/24 dev eth0", "link set eth0 up"]
            _must(["ip", "-n", space, "-batch", "-"], lines)
        end = f"cot{self.subnet}"
        _must(["ip", "-batch", "-"], [f"addr add {self.here}/24 dev {end}", f"link set {end} up"])

    def _subnet(self) -> int:
        """A free X: who makes the cable of that name first has it, on the whole machine."""
        why = ""
        for x in secrets.SystemRandom().sample(range(1, 255), 254):
            words = ["ip", "link", "add", f"cot{x}", "type", "veth", "peer", "name", "here"]
            if not (why := tool([*words, "netns", self.wires])):
                return x
            if "exists" not in why:
                break
        raise RuntimeError(f"no cable from here to the hosts: {why}")

    def undoing(self) -> list[str]:
        spaces = [shlex.quote(name) for name in (self.wires, *self.spaces.values())]
        # cables first: with a namespace they would go too, but only some time later
        cables = [f"ip -n {spaces[0]} link del {name}" for name in ("here", *self._cables())]
        return [*super().undoing(), *cables, *(f"ip netns del {name}" for name in spaces)]

    def _cables(self) -> list[str]:
        return [f"v{i}" for i in range(len(self.names))]

    def _cable(self, host: str) -> str:
        return self._cables()[self.names.index(host)]

    def cut(self, host: str) -> None:
        """Pulls its cable: what is sent is lost and nobody is told, as long as `heal` has not been called."""
        _must(["ip", "-n", self.wires, "link", "set", self._cable(host), "down"])

    def heal(self, host: str) -> None:
        _must(["ip", "-n", self.wires, "link", "set", self._cable(host), "up"])

    def lose(self, host: str, percent: float) -> None:
        """So many of a hundred packets to it, and as many from it, are dropped by chance; 0 ends that."""
        wire = ["tc", "-n", self.wires]
        tool([*wire, "qdisc", "del", "dev", self._cable(host), "clsact"])
        if percent <= 0:
            return
        # a program of the kernel's packet filter: draw a number, drop the packet (2) if it is small; more
        # kernels have this than have netem
        small = min(round(percent / 100 * 2**32), 2**32 - 1)
        program = f"4,32 0 0 {2**32 - 0x1000 + 56},53 1 0 {small},6 0 0 2,6 0 0 {2**32 - 1}"
        why = tool([*wire, "qdisc", "add", "dev", self._cable(host), "clsact"])
        for way in ("ingress", "egress"):
            words = [*wire, "filter", "add", "dev", self._cable(host), way, "bpf", "da", "bytecode", program]
            why = why or tool(words)
        if why:
            pytest.skip(f"this kernel cannot drop packets by chance: {why}")

    def slow(self, host: str, rate: str) -> None:
        """Its cable takes no more than that, say "1mbit", each way; "" ends that."""
        for space, device in ((self.wires, self._cable(host)), (self.spaces[host], "eth0")):
            words = ["tc", "-n", space, "qdisc"]
            if not rate:
                tool([*words, "del", "dev", device, "root"])
                continue
            limit = ["tbf", "rate", rate, "burst", "32kb", "latency", "400ms"]
            if why := tool([*words, "replace", "dev", device, "root", *limit]):
                pytest.skip(f"this kernel cannot slow a cable down: {why}")


def _must(words: Sequence[str], lines: Sequence[str] = ()) -> None:
    if why := tool(words, lines):
        raise RuntimeError(f"{shlex.join(words)}: {why}")


@dataclass(frozen=True)
class Seen:
    """What was there at one moment, each thing by what it is, with how to call it."""

    folders: tuple[Path, ...]
    things: Mapping[tuple[Any, ...], str]


def look(*folders: Path) -> Seen:
    """Processes of this test process and their listening ports, its namespaces, and files in these folders.

    What other people run on the same machine is not looked at.
    """
    os.environ[MARK] = f"{os.getpid()}-"  # from now on, a process that leaves its parent is known
    things: dict[tuple[Any, ...], str] = {}
    for process in [p for p in processes().values() if p.pid == os.getpid()] + _ours():
        if process.pid != os.getpid():
            things["process", process.pid, process.started] = f"process {process.pid}: {process.command}"
        for port in _ports(process.pid):
            text = f"port {port} of process {process.pid}: {process.command}"
            things["port", process.pid, process.started, port] = text
    for space in Path("/run/netns").glob(f"cot-{os.getpid()}-*"):
        things["namespace", space.name] = f"namespace {space.name}"
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if path.is_symlink() or not path.is_dir():
                things["file", path] = f"file {path}"
    return Seen(folders, things)


def left_behind(before: Seen, seconds: float = 2.0) -> list[str]:
    """What is there now and was not before; what is just going has so many seconds for it."""
    until = time.monotonic() + seconds
    while True:
        now = look(*before.folders)
        left = [text for key, text in now.things.items() if key not in before.things]
        if not left or time.monotonic() > until:
            return sorted(left)
        time.sleep(0.02)


def _ours() -> list[Process]:
    """What descends from here, and what says in its environment that it once did."""
    children = below(os.getpid())
    known = {os.getpid(), *(p.pid for p in children)}
    word = f"{MARK}={os.getpid()}-".encode()
    return children + [p for p in processes().values() if p.pid not in known and word in _environment(p.pid)]


def _environment(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def _ports(pid: int) -> set[int]:
    """TCP ports that a process listens on, in whatever namespace it is."""
    ports: set[int] = set()
    with contextlib.suppress(OSError):  # it has ended since
        links = set()
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                links.add(os.readlink(fd))
        for table in ("tcp", "tcp6"):
            for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = row.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


@contextlib.contextmanager
def small_disk(mb: int, folder: Path) -> Iterator[Path]:
    """A disk with room for so many megabytes, in a new folder within that one."""
    place = Path(folder) / f"disk-{secrets.token_hex(3)}"
    place.mkdir()
    quoted = shlex.quote(str(place))
    at_end = AtEnd([f"umount -l {quoted}", f"rmdir {quoted}"])
    try:
        mount = shutil.which("mount")
        words = [str(mount), "-t", "tmpfs", "-o", f"size={mb}m,mode=700", "tmpfs", str(place)]
        if why := tool(words) if mount else "there is no mount command":
            pytest.skip(f"no small disk on this machine: {why}")
        yield place
    finally:
        at_end.now()


def clock_off(seconds: float) -> dict[str, str]:
    """What to add to a process's environment so that its clock is that much ahead, or behind if negative.

    Only what the wall clock says changes: waiting and time-outs are as long as ever.
    """
    named = os.environ.get("FAKETIME_LIBRARY", "")
    folders = [f for pattern in FAKETIME for f in Path("/").glob(pattern[1:])]
    found = [p for p in (Path(named), *(f / "libfaketimeMT.so.1" for f in folders)) if p.is_file()]
    if not found:
        pytest.skip("no clock can be set off: install faketime, or name its library in FAKETIME_LIBRARY")
    # both spellings of the last one are in use
    still = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": f"{seconds:+f}", "FAKETIME_NO_CACHE": "1", **still}
