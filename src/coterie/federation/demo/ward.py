"""A relay, four sites and somebody who leads, each in a process and a folder of its own.

    folder/coordinator    the relay's kit, and what it says
    folder/sites/NAME     a site's kit, its table and recipe, and what it says
    folder/states/NAME    what that site keeps, its models among it; `state` of its kit leads there
    folder/people/lead    the kit of whoever starts runs, and the runs

Folders of one name stand for the disk of a host: a process reads and writes in its own alone. The tables are
of real patients, heart disease of four hospitals; where these are not at hand and there is no network, they
are scikit-learn's breast cancer, dealt to four.
"""

from __future__ import annotations

import csv
import io
import math
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import load_file

from coterie.core.errors import BadData, BadRun, shown
from coterie.core.seeds import Key
from coterie.data.preparation import Column
from coterie.data.sources import heart_disease as heart
from coterie.federation.demo.hosts import Here, Hosts
from coterie.federation.demo.running import NotSeen, Running
from coterie.federation.kits.authority import found_federation
from coterie.federation.site.state_folders import ROOT
from coterie.storage.atomic import write_whole

DEALT = ("north", "south", "east", "west")
INSTEAD = "heart disease is not at hand and could not be fetched: breast cancer, dealt to four sites, instead"
_UP = 120.0  # seconds that all may take to connect; a few on a machine with nothing else to do
_PATIENCE = 5.0  # seconds for a command to end when it is asked to
_PORT = 8443
OUTPUT = "output.log"
METHODS = ("local", "fedavg", "weight-erosion", "pens")
PERSONAL = ("local", "weight-erosion", "pens")  # those by which each site has a model of its own
BY = "pens"  # whose model predicts in the end
PATIENTS = 4
Say = Callable[[str], None]


# tables of patients


@dataclass(frozen=True)
class Study:
    """Rows of text by site, with what their columns are; the last one is to be predicted."""

    about: str
    columns: tuple[Column, ...]
    target: str
    values: tuple[str, str]
    rows: Mapping[str, Sequence[Sequence[str]]]

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self.rows)

    def table(self, site: str, rows: slice = slice(None), target: bool = True) -> str:
        """A site's rows as CSV."""
        wide, text = len(self.columns) + target, io.StringIO()
        lines = [[*(c.name for c in self.columns), self.target], *self.rows[site][rows]]
        csv.writer(text, lineterminator="\n").writerows(line[:wide] for line in lines)
        return text.getvalue()

    def recipe(self, files: Mapping[str, str]) -> str:
        """How these sites' files are read, in TOML."""

        def values(known: Sequence[str]) -> str:
            return "values = [" + ", ".join(f'"{value}"' for value in known) + "]"

        lines = [f'target = "{self.target}"', 'missing = "median"', 'absent = "flag"', "", "[sites]"]
        lines += [f'{site} = "{file}"' for site, file in files.items()]
        for column in self.columns:
            lines += ["", f'[columns."{column.name}"]', f'use = "{column.kind}"']
            if known := ("0", "1") if column.kind == "flag" else tuple(column.values):
                lines.append(values(known))
        lines += ["", f"[columns.{self.target}]", 'use = "flag"', values(self.values)]
        return "\n".join([*lines, ""])

    def write(self, folder: Path, site: str) -> None:
        """What a site has before it takes part: its table, and a recipe that reads it."""
        write_whole(folder / f"{site}.csv", self.table(site))
        write_whole(folder / "recipe.toml", self.recipe({site: f"{site}.csv"}))


def study(say: Say) -> Study:
    source = heart.HeartDisease()
    try:
        paths = source.fetch()
    except BadData:
        if source.at_hand():  # it is there, but damaged: that can be mended
            raise
        say(INSTEAD)
        return breast_cancer()
    table, ill = heart.read_hospitals(paths)
    columns = [c for c in heart.COLUMNS if c not in heart.SPARSE]

    def text(column: str, value: float) -> str:
        blank = math.isnan(value) or (value == 0 and column in heart.NEVER_ZERO)
        return "" if blank else f"{value:g}"

    rows: dict[str, list[list[str]]] = {hospital: [] for hospital in heart.HOSPITALS}
    for i, hospital in enumerate(table["hospital"]):
        found = [text(c, table[c][i]) for c in columns]
        rows[hospital].append([*found, "yes" if ill[i] else "no"])
    kinds = tuple(map(heart.column_of, columns))
    return Study("heart disease, four hospitals", kinds, "ill", ("no", "yes"), rows)


def breast_cancer() -> Study:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in found.feature_names]
    order = Key(0).at("dealt").numpy().permutation(len(found.target))
    rows: dict[str, list[list[str]]] = {site: [] for site in DEALT}
    for i, row in enumerate(order):
        values = [f"{value:g}" for value in found.data[row]]
        rows[DEALT[i % len(DEALT)]].append([*values, str(found.target_names[found.target[row]])])
    columns = tuple(Column(name, "number") for name in names)
    classes = (str(found.target_names[0]), str(found.target_names[1]))
    return Study("breast cancer, dealt to four sites", columns, "diagnosis", classes, rows)


# the parties


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
        port = _PORT
        if not isinstance(self.place, Hosts):  # any that is free
            with socket.create_server((host, 0)) as server:
                port = server.getsockname()[1]
        found_federation(self.folder, self.study.sites, host=host, port=port, listen=host)
        for site in self.study.sites:
            self.study.write(self.home(site), site)

    def home(self, party: str) -> Path:
        """The folder that stands for a party's disk."""
        if party in self.study.sites:
            return self.folder / "sites" / party
        return self.folder / party if party == "coordinator" else self.folder / "people" / party

    def models(self, site: str) -> Path:
        return self.home(site) / "state" / "models"

    def start(self, party: str) -> Running:
        """The process of the relay or of a site, begun; `ready` waits for it."""
        home, env = self.home(party), {ROOT: str(self.folder / "states" / party)}
        words = ["relay", str(home)]
        if party in self.study.sites:
            words = ["site", str(home), "--recipe", str(home / "recipe.toml")]
        self.processes[party] = self.place.run(party, command(*words), env, log=home / OUTPUT)
        return self.processes[party]

    def ready(self, party: str, seconds: float = _UP) -> None:
        process = self.processes[party]
        says = "connected; waiting" if party in self.study.sites else "listening on"
        try:
            process.wait_for(says, seconds)
        except NotSeen:
            last = f"; it said {shown(process.lines[-1])}" if process.lines else ""
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
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if code:
            raise BadRun(f"coterie {words[0]} on {host} ended with {code}: see */{OUTPUT} in {self.folder}")


# what `coterie federation demo` shows: a federation at work, and in the end what was where


def demo(folder: Path, hosts: bool, rounds: int, say: Say) -> None:
    """All of it; whatever is started is ended."""
    data = study(say)
    with place_for(data, folder, hosts) as place:
        ward = Ward(place, folder, data)
        ward.found()
        rows = ", ".join(f"{site} {len(found)}" for site, found in data.rows.items())
        say(f"{data.about} (rows: {rows}), in {folder}")
        where = "each in a network namespace of its own" if hosts else "on loopback"
        seconds = ward.start_all()
        say(f"a relay and {len(data.sites)} sites, {where}: all connected after {seconds:.1f} s")
        words = ["compare", "--methods", *METHODS, "--seeds", "1", "--rounds", str(rounds)]
        words = [*ward.led(words), "--out", str(ward.home("lead") / "comparison")]
        say(f"\nlead: coterie {shlex.join(words)}")
        ward.show("lead", words)
        _predict(ward, data.sites[0], say)
        say("\nwhat was where")
        for line in _inventory(ward):
            say(f"  {line}")
        say(f"  {search(ward)}")
    say(f"everything is ended; what it left is in {folder}")


def _predict(ward: Ward, site: str, say: Say) -> None:
    """A site's own model is asked about some of its patients, where both are."""
    home = ward.home(site)
    (home / "patients.csv").write_text(ward.study.table(site, slice(PATIENTS), target=False))
    words = ["predict", str(ward.models(site) / BY), str(home / "patients.csv"), "--explain", "2"]
    say(f"\n{site}, with the model that stayed there: coterie {shlex.join(words)}")
    ward.show(site, words)


def _inventory(ward: Ward) -> Iterator[str]:
    """A line for each host: what is on its disk besides its kit."""
    wide = max(map(len, ("coordinator", *ward.study.sites)))
    logs = ", ".join(f for f in ("relay.log", OUTPUT) if (ward.home("coordinator") / f).exists())
    yield f"{'coordinator':<{wide}}  {logs}: who came and went"
    for site, rows in ward.study.rows.items():
        own = ", ".join(m for m in METHODS if (ward.models(site) / m).is_dir())
        yield f"{site:<{wide}}  {site}.csv: {len(rows)} rows; state/models: {own}"
    kept = sorted({p.parents[2].name for p in ward.home("lead").glob("comparison/*/*/models/*.safetensors")})
    shared = ", ".join(kept) or "none"
    yield f"{'lead':<{wide}}  comparison: figures and report; models that all share: {shared}"


def search(ward: Ward) -> str:
    """Looks for every row and every site's own model where they must not be."""
    files = [p for party in ("coordinator", "lead") for p in ward.home(party).rglob("*") if p.is_file()]
    held = {path: path.read_bytes() for path in files}
    wanted, weights = list[tuple[str, bytes]](), list[tuple[str, bytes]]()
    for site in ward.study.sites:
        rows = ward.study.table(site, target=False).splitlines()[1:]
        wanted += [(f"a row of {site}", row.encode()) for row in rows]
        for method in PERSONAL:  # the largest array of each, as it is in any file or message
            arrays = load_file(ward.models(site) / method / "weights.safetensors").values()
            largest = max(arrays, key=lambda array: array.size)
            weights.append((f"a model of {site}", largest.tobytes()))
    for what, data in [*wanted, *weights]:
        for path, content in held.items():
            if data in content:
                raise BadRun(f"{path} holds {what}: it must not be there; please report it")
    return (
        f"looked for {len(wanted)} rows and {len(weights)} models of sites' own in all {len(files)} files of "
        "relay and lead: none there"
    )
