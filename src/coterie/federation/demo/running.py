"""Processes that can be watched, frozen and killed, and that end with whoever started them.

All that is started has a mark in its environment, so that it is found even when its parent is gone.
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
