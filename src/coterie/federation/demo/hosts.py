"""Hosts to try a federation on: this machine as it is, or a network namespace for each.

`Hosts` joins namespaces by a bridge, which lies in a namespace of its own, so that neither routes nor
firewalls of this machine matter; one cable leads here, so that the hosts are reached from here as well.
`Here` has the same methods on loopback and needs nothing, but no cable can be cut.

    with Hosts(["relay", "north"], folder) as hosts:
        relay = hosts.run("relay", [sys.executable, "-c", SERVER, hosts.address("relay")])
        relay.wait_for("listening")
        hosts.cut("north")

Whatever is made goes away at the end, even if this process itself is killed: a shell waits for that.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from coterie.core.errors import BadRun
from coterie.federation.demo.running import MARK, AtEnd, Running


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
        self.running.append(Running(words, log, {**self.marked(), **(env or {})}, self.inside(host), cwd))
        return self.running[-1]

    def marked(self) -> dict[str, str]:
        """Marks come after those of whoever started this process, as it may have to end them too."""
        return {MARK: f"{os.environ.get(MARK, '')}/{self.mark}"}

    def inside(self, host: str) -> list[str]:
        """Words before a command that make it run there, as the same process."""
        self.names.index(host)
        return []

    def cannot(self, why: str) -> NoReturn:
        raise BadRun(why)

    def cut(self, host: str) -> None:
        self.cannot("on loopback no cable can be cut: needs network namespaces")

    heal = cut

    def undoing(self) -> list[str]:
        """Shell lines that end what is left of all that ran here, whoever its parent is by now."""
        marked = f"grep -lsz '^{MARK}=.*/{self.mark}' /proc/[0-9]*/environ | cut -d/ -f3"
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
        for host, space in self.spaces.items():
            cable = self._cable(host)
            cables += [f"link add {cable} type veth peer name eth0 netns {space}"]
            cables += [f"link set {cable} master bridge up"]
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
        cables = [f"ip -n {spaces[0]} link del {name}" for name in ("here", *map(self._cable, self.names))]
        return [*super().undoing(), *cables, *(f"ip netns del {name}" for name in spaces)]

    def _cable(self, host: str) -> str:
        return f"v{self.names.index(host)}"

    def cut(self, host: str) -> None:
        """Pulls its cable: what is sent is lost and nobody is told, as long as `heal` has not been called."""
        _must(["ip", "-n", self.wires, "link", "set", self._cable(host), "down"])

    def heal(self, host: str) -> None:
        _must(["ip", "-n", self.wires, "link", "set", self._cable(host), "up"])


def _must(words: Sequence[str], lines: Sequence[str] = ()) -> None:
    if why := tool(words, lines):
        raise RuntimeError(f"{shlex.join(words)}: {why}")
