"""Each site in a process of its own, on this machine: a federation in miniature.

A site gets its rows once, in a file that it removes as soon as it has read it; from then on it and the
coordinator talk in messages over a pair of sockets that nobody else has. `-v` tells what crosses. With a run
folder, each site keeps what is its own below `sites/`, so that a run that was killed goes on.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.core.client import Client
from coterie.core.errors import BadRun
from coterie.core.learner import Learner
from coterie.core.net import NETS, Net
from coterie.nets.courier import Silence
from coterie.nets.ground import Connector, Ground, begin_of
from coterie.nets.remote import Remote
from coterie.nets.site import ABOUT, receive, rows_of, send
from coterie.storage.tensors import write_tensors

START = "import sys; from coterie.nets.site import main; main(sys.argv[1:])"


@NETS.register("processes")
@dataclass(frozen=True)
class Processes(Connector):
    """Each site in a process of its own: shows what would cross a wire (-v)."""

    def connect(self, ground: Ground) -> Net:
        begin = begin_of(ground, "processes")
        transport = SiteProcesses(ground.clients, ground.made.plugins if ground.made else ())
        learner = Learner(ground.model, ground.roster.task)
        return Remote(transport, ground.roster, learner, ground.engine, begin)


class SiteProcesses:
    """A process for each client, and a socket to each."""

    def __init__(self, clients: Sequence[Client], plugins: Sequence[str] = ()) -> None:
        """Plugins are files that each site runs when it starts: no message can name one."""
        self.lines: list[socket.socket] = []
        self.children: list[subprocess.Popen[bytes]] = []
        self.names = [c.name for c in clients]
        with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
            os.chmod(folder, 0o700)
            for i, client in enumerate(clients):
                path = Path(folder) / f"{i}.safetensors"
                about = {name: getattr(client, name) for name in ABOUT}
                write_tensors(path, rows_of(client), {"number": i, "plugins": list(plugins), **about})
                ours, theirs = socket.socketpair()
                words = [sys.executable, "-c", START, str(theirs.fileno()), str(path)]
                child = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
                self.children.append(child)
                theirs.close()
                self.lines.append(ours)
            for i in range(len(clients)):  # each says hello once it has read and removed its file
                self._hear(i)

    def ask(self, messages: Mapping[int, bytes]) -> Mapping[int, bytes | Silence]:
        for site, data in messages.items():
            try:
                send(self.lines[site], data)
            except (BrokenPipeError, ConnectionResetError):
                raise self._gone(site) from None
        return {site: self._hear(site) for site in messages}

    def _hear(self, site: int) -> bytes:
        data = receive(self.lines[site])
        if data is None:
            raise self._gone(site)
        return data

    def _gone(self, site: int) -> BadRun:
        return BadRun(f"site {self.names[site]!r} has ended: resume the run in its folder, or start it anew")

    def close(self) -> None:
        """Hangs up; sites end by themselves, and are ended if they do not."""
        for line in self.lines:
            with contextlib.suppress(OSError):
                line.close()
        for child in self.children:
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
