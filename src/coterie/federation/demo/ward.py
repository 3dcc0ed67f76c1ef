"""A coordinator, four sites and somebody who leads, each in a process and a folder of its own.

    folder/coordinator    the relay's kit, and what it says
    folder/sites/NAME     a site's kit, its table and recipe, and what it says
    folder/states/NAME    what that site keeps, its models among it; `state` of its kit leads there
    folder/people/lead    the kit of whoever starts runs, and the runs

Folders of one name stand for the disk of a host: a process reads and writes in its own alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from coterie.core.errors import BadRun, shown
from coterie.federation.demo.hosts import Here, Hosts
from coterie.federation.demo.running import NotSeen, Running
from coterie.federation.demo.tables import Study
from coterie.federation.kits import found
from coterie.federation.state_folders import ROOT

UP = 120.0  # seconds that all may take to connect; a few on a machine with nothing else to do
PORT = 8443
OUTPUT = "output.log"


def place_for(study: Study, folder: Path, hosts: bool) -> Here:
    """Where its parties run: a namespace for each, or all on loopback."""
    kind = Hosts if hosts else Here
    return kind(["coordinator", *study.sites, "lead"], folder)


def command(*words: str) -> list[str]:
    """The command `coterie`, of this very Python."""
    return [sys.executable, "-P", "-m", "coterie", *map(str, words)]


class Ward:
    """The parties of a federation in an open place; everybody is ended with that."""

    def __init__(self, place: Here, folder: Path, study: Study) -> None:
        self.place, self.folder, self.study = place, folder, study
        self.processes: dict[str, Running] = {}

    def found(self) -> None:
        """Kits for all, and a table and a recipe for each site."""
        host = self.place.address("coordinator")
        port = PORT if isinstance(self.place, Hosts) else free_port(host)
        found(self.folder, self.study.sites, host=host, port=port, listen=host)
        for site in self.study.sites:
            self.study.write(self.home(site), site)

    def home(self, party: str) -> Path:
        """The folder that stands for a party's disk."""
        if party in self.study.sites:
            return self.folder / "sites" / party
        return self.folder / party if party == "coordinator" else self.folder / "people" / party

    def start(self, party: str) -> Running:
        """The process of the coordinator or of a site, begun; `ready` waits for it."""
        home = self.home(party)
        words = (
            ("coordinate", home)
            if party == "coordinator"
            else ("site", home, "--recipe", home / "recipe.toml")
        )
        env = {ROOT: str(self.folder / "states" / party)}
        running = self.place.run(party, command(*map(str, words)), env, log=home / OUTPUT)
        self.processes[party] = running
        return running

    def ready(self, party: str, seconds: float = UP) -> None:
        says = "listening on" if party == "coordinator" else "connected; waiting"
        try:
            self.processes[party].wait_for(says, seconds)
        except NotSeen:
            lines = self.processes[party].lines
            last = f"; it said {shown(lines[-1])}" if lines else ""
            log = self.home(party) / OUTPUT
            raise BadRun(f"{party} did not get ready within {seconds:g} s{last}: see {log}") from None

    def start_all(self) -> float:
        """Everybody is up and connected; seconds that it took."""
        begun = time.monotonic()
        self.start("coordinator")
        for site in self.study.sites:  # meanwhile: most of it is loading
            self.start(site)
        for party in ("coordinator", *self.study.sites):
            self.ready(party)
        return time.monotonic() - begun

    def led(self, words: Sequence[str]) -> list[str]:
        """Words of run or compare, with those that name the federation and its sites."""
        kit = ["--net", "federation", "--federation.kit", str(self.home("lead"))]
        return [*words, *kit, "--federation.sites", *self.study.sites]

    def show(self, host: str, words: Sequence[str]) -> None:
        """Runs a command on a host, for the person at the keyboard to see."""
        sys.stdout.flush()
        env = {**os.environ, **self.place.marked()}
        whole = [*self.place.inside(host), *command(*words)]
        # a session of its own, so that a Ctrl-C comes here alone, and everybody is ended in order
        process = subprocess.Popen(whole, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait()
        finally:
            end(process)
        if code:
            raise BadRun(f"coterie {words[0]} on {host} ended with {code}: see */{OUTPUT} in {self.folder}")


def end(process: subprocess.Popen[bytes], seconds: float = 5.0) -> None:
    """Asks, waits, and then does not ask any more."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port(host: str) -> int:
    with socket.create_server((host, 0)) as server:
        port: int = server.getsockname()[1]
        return port
