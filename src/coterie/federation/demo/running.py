"""Processes that can be watched, frozen and killed, and that end with whoever started them.

All that is started has a mark in its environment, so that it is found even when its parent is gone. `look`
says what is there at one moment, `left_behind` what somebody forgot since.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "COTERIE_STARTED_BY"  # in the environment of all that is started here: whose it is
TAIL = 30  # lines of output that an error shows


class NotSeen(Exception):
    """A process did not say, or do, what was waited for."""


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
    found, families = list[Process](), [pid]
    while families:
        parent = families.pop()
        children = [process for process in everyone.values() if process.parent == parent]
        families += [process.pid for process in children]
        found += children
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


# what was there before and after


@dataclass(frozen=True)
class _Seen:
    """What was there at one moment, each thing by what it is, with how to call it."""

    folders: tuple[Path, ...]
    things: Mapping[tuple[Any, ...], str]


def look(*folders: Path) -> _Seen:
    """Processes of this process and their listening ports, its namespaces, and files in these folders.

    What other people run on the same machine is not looked at.
    """
    mark, everyone, ours = f"/{os.getpid()}-", processes(), below(os.getpid())
    if mark not in os.environ.get(MARK, ""):  # from now on, a process that leaves its parent is known
        os.environ[MARK] = os.environ.get(MARK, "") + mark
    known = {os.getpid(), *(p.pid for p in ours)}
    for process in everyone.values():  # what says in its environment that it once descended from here
        with contextlib.suppress(OSError):  # it has ended since
            words = Path(f"/proc/{process.pid}/environ").read_bytes().decode(errors="replace").split("\0")
            marked = any(word.startswith(f"{MARK}=") and mark in word for word in words)
            ours += [process] if marked and process.pid not in known else []
    things: dict[tuple[Any, ...], str] = {}
    for process in [p for p in everyone.values() if p.pid == os.getpid()] + ours:
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
    return _Seen(folders, things)


def left_behind(before: _Seen, seconds: float = 2.0) -> list[str]:
    """What is there now and was not before; what is just going has so many seconds for it."""
    until = time.monotonic() + seconds
    while True:
        now = look(*before.folders)
        left = [text for key, text in now.things.items() if key not in before.things]
        if not left or time.monotonic() > until:
            return sorted(left)
        time.sleep(0.02)


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
