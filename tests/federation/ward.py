"""A ward to disturb: a relay, sites with small tables of their own, and runs that a person leads, each a
process of its own.

    ward = Ward(hosts, folder)
    ward.open()                                  # the relay and all sites, connected
    driver = ward.run("x", "--method", "pens")   # coterie run
    ward.halt("b", 5)                            # b stands still in the middle of round 5: so does the round
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import random
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hosts import Here, Running

from coterie.federation.kits.authority import found_federation
from coterie.federation.site.state_folders import ROOT

COTERIE = [sys.executable, "-m", "coterie"]
ONE_CORE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LONG = 90.0  # seconds for what takes a few on a machine that has nothing else to do
RECIPE = 'target = "ill"\n[sites]\n{sites}\n{columns}[columns.ill]\nuse = "flag"\nvalues = ["no", "yes"]\n'
INPUTS = ("age", "pulse", "weight")


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as some:
        some.bind((host, 0))
        port: int = some.getsockname()[1]
        return port


def write_tables(folder: Path, names: Sequence[str], rows: int = 80) -> Path:
    """A table for each site, and one recipe for all; sites of odd number are ill for another reason."""
    for i, name in enumerate(names):
        draws = random.Random(i)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow([*INPUTS, "ill"])
            for _ in range(rows):
                x = [draws.gauss(0, 1) for _ in INPUTS]
                ill = x[0] + (0.5 if i % 2 else -0.5) * x[1] + draws.gauss(0, 0.5) > 0
                table.writerow([*(f"{v:.3f}" for v in x), "yes" if ill else "no"])
    sites = "\n".join(f'{name} = "{name}.csv"' for name in names)
    columns = "".join(f'[columns.{name}]\nuse = "number"\n' for name in INPUTS)
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(sites=sites, columns=columns))
    return path


class Ward:
    """Processes by name: `relay`, sites, and runs by the folder that they write."""

    def __init__(
        self,
        hosts: Here,
        folder: Path,
        names: Sequence[str] = ("a", "b", "c", "d"),
        helpers: Sequence[str] = (),
    ) -> None:
        self.hosts, self.folder, self.names = hosts, folder, tuple(names)
        folder.mkdir(parents=True, exist_ok=True)
        place = hosts.address(self._host("relay"))
        self.port = free_port(hosts.here)
        kits = found_federation(
            folder / "kits", names, host=place, port=self.port, listen=place, helpers=helpers
        )
        self.kits = {kit.name: kit.folder for kit in kits}
        self.recipe = write_tables(folder, names)
        self.relay: Running
        self.sites: dict[str, Running] = {}
        self.drivers: list[Running] = []
        self.marks: dict[int, int] = {}  # how much each site had said when the last run was started

    def _host(self, name: str) -> str:
        return name if name in self.hosts.names else self.hosts.names[0]

    def start(self, name: str, words: Sequence[Any], env: Mapping[str, str] | None = None) -> Running:
        """Any process, on the host of that name."""
        number = len(self.hosts.running)
        log = self.folder / f"{name}-{number}.log"
        env = {**ONE_CORE, ROOT: str(self.folder / "states"), **(env or {})}
        return self.hosts.run(self._host(name), words, env, log, cwd=self.folder)

    # parties

    def open(self, names: Sequence[str] | None = None) -> None:
        self.open_relay()
        for name in names or self.names:
            self.open_site(name)
        for name in names or self.names:
            self.connected(name)

    def open_relay(self) -> None:
        listen = ["--listen", self.hosts.address(self._host("relay"))]
        self.relay = self.start("relay", [*COTERIE, "relay", self.kits["coordinator"], *listen])
        self.relay.wait_for("listening", LONG)

    def open_site(self, name: str, *words: Any, env: Mapping[str, str] | None = None) -> Running:
        start = [*COTERIE, "site", self.kits[name], "--recipe", self.recipe]
        self.sites[name] = self.start(name, [*start, *words], env)
        return self.sites[name]

    def open_helper(self, name: str) -> Running:
        self.sites[name] = self.start(name, [*COTERIE, "helper", self.kits[name]])
        return self.sites[name]

    def whole(self) -> None:
        """Whoever is gone is started anew."""
        if self.relay.returncode is not None:
            self.open_relay()
        gone = [name for name in self.names if self.sites[name].returncode is not None]
        for name in gone:
            self.open_site(name)
        for name in gone:
            self.connected(name)

    def restart(self, names: Sequence[str], rounds: int = 1000) -> None:
        """Sites are killed and started anew, with a policy that takes so many rounds."""
        policy = self.folder / "policy.toml"
        policy.write_text(f"max_rounds = {rounds}\n")
        for name in names:
            self.sites[name].kill()
            self.open_site(name, "--policy", policy)
        for name in names:
            self.connected(name)

    def connected(self, name: str) -> None:
        self.sites[name].wait_for("connected", LONG)

    def halt(self, name: str, round: int) -> None:
        """A site stands still as soon as it is asked something of that round; the round waits for it."""
        self.asked(name, round)
        self.sites[name].freeze()

    def asked(self, name: str, round: int) -> None:
        """Returns when a site is asked something of that round, in the run that was started last."""
        site = self.sites[name]
        site.wait_for(in_round(round), LONG, after=self.marks.get(site.pid, 0))

    def settle(self) -> None:
        """After a test, however it ended: nobody stands still, and no run is left."""
        for site in self.sites.values():
            if site.returncode is None:
                site.thaw()
        for driver in self.drivers:
            if driver.returncode is None:
                driver.kill()
        self.drivers = []

    # runs

    def run(self, out: str, *words: Any, net: Sequence[Any] = ()) -> Running:
        self.marks = {site.pid: len(site.lines) for site in self.sites.values()}
        lead = ["--federation.kit", self.kits["lead"], "--federation.sites", *self.names]
        how = ["--engine", "loop", "--out", self.folder / out]
        return self._lead("run", "--net", "federation", *lead, *net, *how, *words)

    def resume(self, out: str) -> Running:
        return self._lead("resume", self.folder / out)

    def _lead(self, *words: Any) -> Running:
        self.drivers.append(self.start("lead", [*COTERIE, *words]))
        return self.drivers[-1]

    def lines(self, out: str) -> list[dict[str, Any]]:
        """What a run has written down, round by round."""
        path = self.folder / out / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def numbers(self, out: str) -> list[dict[str, Any]]:
        """The same without who was away, which a round that waited for somebody tells as well."""
        return [{k: v for k, v in line.items() if k != "away"} for line in self.lines(out)]

    def away(self, out: str, name: str) -> dict[int, str]:
        """Rounds without a site, and why."""
        lines = self.lines(out)
        return {line["round"]: line["away"][name] for line in lines if name in line.get("away", {})}


def in_round(round: int) -> re.Pattern[str]:
    """What a site says when it is asked to do something in that round."""
    return re.compile(rf"asks: .*, round {round}\b")


def rounds_of(lines: Sequence[Mapping[str, Any]]) -> list[int]:
    return [line["round"] for line in lines]


def finite(value: Any) -> bool:
    """Whether all numbers in there are; null is none."""
    if isinstance(value, Mapping):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def wait_until(true: Any, seconds: float = LONG) -> None:
    """For what no line tells of, such as a file of another process."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


class Proxy:
    """Between a party and the relay: passes bytes on, until it is told to spoil one, or to hang up within."""

    def __init__(self, port: int) -> None:
        self.port, self.spoilt = port, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._fault = ""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def here(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def spoil(self, how: str) -> None:
        """The next bytes from the party: `flip` changes one of them, `cut` sends half and hangs up."""
        self.spoilt.clear()
        self._fault = how

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                party, _ = self.listener.accept()
                with contextlib.suppress(OSError):
                    relay = socket.create_connection(("127.0.0.1", self.port))
                    for way in ((party, relay, True), (relay, party, False)):
                        threading.Thread(target=self._pass, args=way, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(1 << 16):
                fault, self._fault = (self._fault, "") if up else ("", self._fault)
                if fault == "flip":
                    data = data[:-1] + bytes([data[-1] ^ 1])
                target.sendall(data[: len(data) // 2] if fault == "cut" else data)
                if fault:
                    self.spoilt.set()
                if fault == "cut":
                    break
            for one in (source, target):
                one.shutdown(socket.SHUT_RDWR)


def other_port(kit: Path, folder: Path, port: int) -> Path:
    """The same kit, for a relay at another port."""
    shutil.copytree(kit, folder, ignore=shutil.ignore_patterns("state"))
    path = folder / "kit.toml"
    path.write_text(re.sub(r"(?m)^port = \d+$", f"port = {port}", path.read_text()))
    return folder
