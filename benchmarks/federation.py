"""What a federation costs, on loopback: python benchmarks/federation.py rounds|sizes|start|memory|all

    rounds   seconds a round, after the first, beside `--net processes` and one process; where they go
    sizes    models there (a visit) and back, beside as many bytes through a plain TLS socket of two processes
    start    from the first command to four connected sites, and to the end of a run's first round
    memory   the largest resident size of coordinator, site and driver with large models

Every party is a process of its own that runs the real command; driver and sites note when they do what. Their
clock is the machine's, so that what a site does can be laid over what the driver waits for. Commands that are
compared take turns, and figures are medians, so that a slow minute hits all alike.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import re
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

LONG = 600.0  # seconds that nothing here takes if all is well
COLUMNS = 13
WIDE = {0.1: (150, 150), 10.0: (1560, 1560), 100.0: (4980, 4980)}  # hidden units of models of so many MB
NETS = ("federation", "processes", "in-process")
LOCAL = ("--sgd.steps", "1", "--sgd.batch", "8")  # as little as can be, where the way is what is timed
Span = tuple[float, float]


@dataclass(frozen=True)
class Asked:
    what: tyro.conf.Positional[Literal["rounds", "sizes", "start", "memory", "all"]] = "all"
    """What to measure."""
    sites: tuple[int, ...] = (2, 4, 10)
    """Sites of a federation, for rounds."""
    sizes: tuple[float, ...] = (0.1, 10.0, 100.0)
    """Megabytes of a model: some of 0.1, 10 and 100."""
    rounds: int = 12
    """Rounds of a run; the first is not counted."""
    repeats: int = 3
    """How often each run is done."""


# one party, which notes when it does what


def watched(out: str, words: Sequence[str]) -> int:
    """A command, and in a file which parts of it took from when to when."""
    spans: dict[str, list[Span]] = {}
    for owner, name, label in _parts(words[0]):
        setattr(owner, name, _timed(getattr(owner, name), spans.setdefault(label, [])))
    from coterie.cli.main import main

    try:
        return main(list(words))
    finally:
        Path(out).write_text(json.dumps({"spans": spans, "peak": peak(os.getpid())}))


def _parts(command: str) -> list[tuple[Any, str, str]]:
    from coterie.federation import inbox, net, orders, parcels, post, station
    from coterie.nets import courier, in_process, remote, site
    from coterie.runs import runner

    sealing = [(m, name, "seal") for m in (post, inbox) for name in ("seal", "unseal")]
    packing = [(m, name, "pack") for m in (courier, parcels) for name in ("pack", "unpack")]
    if command == "site":
        own = [(station.Station, "answer", "answer"), (in_process.InProcess, "work", "work")]
        return [*sealing, *packing, *own, (site.Site, "do_store", "store")]
    verbs = [(remote.Remote, "visit", "visit"), (orders.Orders, "carry", "carry")]
    ends = [(runner, "one_round", "round"), (net.Federated, "finish", "finish")]
    return [*sealing, *packing, *verbs, *ends, (post.Post, "ask", "ask")]


def _timed(work: Callable[..., Any], spans: list[Span]) -> Callable[..., Any]:
    @functools.wraps(work)
    def timed(*args: Any, **options: Any) -> Any:
        begin = time.monotonic()
        try:
            return work(*args, **options)
        finally:
            spans.append((begin, time.monotonic()))

    return timed


def peak(pid: int) -> float:
    """The largest resident size of a process so far, in megabytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1000 if found else float("nan")


# all of them


class Party:
    """A command that goes on, and says lines."""

    def __init__(self, folder: Path, words: Sequence[str], watch: str = "") -> None:
        self.out = folder / f"{watch}.json" if watch else None
        self.lines: list[str] = []
        self.more = threading.Condition()
        self.process = subprocess.Popen(
            command(words, self.out), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.more:
                self.lines.append(line)
                self.more.notify_all()

    def wait_for(self, text: str) -> None:
        with self.more:
            if not self.more.wait_for(lambda: any(text in line for line in self.lines), LONG):
                raise SystemExit(f"nobody said {text!r}: " + "".join(self.lines[-5:]))

    def end(self) -> dict[str, Any]:
        self.process.terminate()
        self.process.wait(LONG)
        return json.loads(self.out.read_text()) if self.out else {}


def command(words: Sequence[str], out: Path | None = None) -> list[str]:
    start = [str(Path(__file__).resolve()), "watched", str(out)] if out else ["-m", "coterie.cli.main"]
    return [sys.executable, *start, *words]


def run(folder: Path, *words: str, watch: bool = False) -> dict[str, Any]:
    """A command to its end, and what it noted."""
    out = folder / "driver.json" if watch else None
    done = subprocess.run(
        command(words, out), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise SystemExit(f"coterie {' '.join(words)} ended with {done.returncode}: {done.stdout[-2000:]}")
    return json.loads(out.read_text()) if out else {}


def write_tables(folder: Path, sites: int, rows: int | None = None) -> list[str]:
    """Hospital-like tables of 200 to 300 rows, or of so many, and a recipe for all."""
    import torch

    names = [f"h{i}" for i in range(sites)]
    for i, name in enumerate(names):
        made = torch.Generator().manual_seed(i)
        size = rows or int(torch.randint(200, 301, (), generator=made))
        x = torch.randn(size, COLUMNS, generator=made) + 0.1 * i
        ill = (x[:, :4].sum(1) + torch.randn(size, generator=made) > 0).int().tolist()
        lines = [",".join([*(f"{v:.3f}" for v in row), str(y)]) for row, y in zip(x.tolist(), ill, strict=True)]
        header = ",".join([*(f"c{j}" for j in range(COLUMNS)), "ill"])
        (folder / f"{name}.csv").write_text("\n".join([header, *lines, ""]))
    run(folder, "table", "inspect", *(f"{n}.csv" for n in names), "--target", "ill", "--out", "r.toml")
    return names


def found(folder: Path, names: Sequence[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run(folder, "federation", "init", "ward", "--sites", *names, "--port", str(port))


@contextlib.contextmanager
def parties(folder: Path, names: Sequence[str]) -> Iterator[list[Party]]:
    """The coordinator and the sites, once all are connected."""
    all = [Party(folder, ["coordinate", "ward/coordinator"])]
    try:
        all += [Party(folder, ["site", f"ward/sites/{n}", "--recipe", "r.toml"], watch=n) for n in names]
        for party in all[1:]:
            party.wait_for("waiting to be asked")
        yield all
    finally:
        for party in all:
            party.end()


def federated(names: Sequence[str]) -> list[str]:
    return ["--net", "federation", "--federation.kit", "ward/people/lead", "--federation.sites", *names]


def train(folder: Path, how: Sequence[str], rounds: int) -> dict[str, Any]:
    out = tempfile.mkdtemp(dir=folder)
    return run(folder, "run", *how, "--rounds", str(rounds), "--out", f"{out}/run", watch=True)


# figures


def rounds_of(noted: dict[str, Any]) -> list[Span]:
    """From where a round begins to where the next one does, without the first and the last."""
    begins = [begin for begin, _ in noted["spans"]["round"]]
    return list(zip(begins[1:], begins[2:], strict=False))


def within(spans: Iterable[Span], round: Span) -> float:
    """Seconds of a round in which at least one of these goes on."""
    total, at = 0.0, round[0]
    for begin, end in sorted(spans):
        begin, end = max(begin, at), min(end, round[1])
        if end > begin:
            total, at = total + end - begin, end
    return total


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def measure_rounds(asked: Asked) -> None:
    print("\nSeconds a round after the first; hospitals of 200 to 300 rows, 13 columns, logistic model")
    print(f"{'':16}{'federation':>11}{'processes':>11}{'one process':>12}{'more':>8}  of which: "
          f"{'driver':>7}{'seals':>7}{'sites':>7}{'storing':>8}{'line':>7}")  # fmt: skip
    for many in asked.sites:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            names = write_tables(folder, many)
            found(folder, names)
            for method in ("fedavg", "pens"):
                _rounds_row(folder, names, method, asked)


def _rounds_row(folder: Path, names: Sequence[str], method: str, asked: Asked) -> None:
    how = ["--method", method, *(["--pens.rounds-step1", str(asked.rounds)] if method == "pens" else [])]
    nets = {net: ["--recipe", "r.toml", "--net", net, *how] for net in NETS[1:]}
    seconds: dict[str, list[float]] = {net: [] for net in NETS}
    drivers = []
    with parties(folder, names) as running:
        for _ in range(asked.repeats):
            drivers.append(train(folder, [*federated(names), *how], asked.rounds))
            for net, words in nets.items():
                seconds[net] += [end - begin for begin, end in rounds_of(train(folder, words, asked.rounds))]
        sites = [party.end() for party in running[1:]]
    at_sites = {part: [s for site in sites for s in site["spans"][part]] for part in ("answer", "store")}
    parts: dict[str, list[float]] = {part: [] for part in ("driver", "seals", "sites", "storing", "line")}
    for noted in drivers:
        spans = noted["spans"]
        for round in rounds_of(noted):
            waits, seals = within(spans["ask"], round), within(spans["seal"], round)
            busy, stored = within(at_sites["answer"], round), within(at_sites["store"], round)
            seconds["federation"].append(round[1] - round[0])
            for part, value in zip(
                parts, (round[1] - round[0] - waits, seals, busy - stored, stored, waits - seals - busy), strict=True
            ):
                parts[part].append(value)
    mid = {net: median(values) for net, values in seconds.items()}
    more = mid["federation"] - mid["processes"]
    widths = (7, 7, 7, 8, 7)
    split = "".join(f"{median(v):{w}.3f}" for v, w in zip(parts.values(), widths, strict=True))
    print(f"{method + f', {len(names)} sites':16}{mid['federation']:11.3f}{mid['processes']:11.3f}"
          f"{mid['in-process']:12.3f}{more:8.3f}{'':12}{split}", flush=True)  # fmt: skip


def measure_sizes(asked: Asked, memory: bool) -> None:
    print("\nSeconds for a model there and back (the site's own work apart), beside plain TLS between two processes")
    print(f"{'':10}{'there':>8}{'work':>8}{'back':>8}{'way':>8}{'TLS':>8}{'times':>7}   of the way: "
          f"{'packing':>8}{'sealing':>8}{'both at site':>13}   {'peak MB:':9}{'relay':>7}{'site':>7}{'driver':>7}")  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = write_tables(folder, 2, rows=40)
        found(folder, names)
        for size in [max(asked.sizes)] if memory else asked.sizes:
            _size_row(folder, names, size, asked)


def _size_row(folder: Path, names: Sequence[str], size: float, asked: Asked) -> None:
    hidden = WIDE[size]
    model = ["--model", "mlp", "--mlp.hidden", *map(str, hidden), "--evaluate", "1000"]
    numbers = sum((a + 1) * b for a, b in zip((COLUMNS, *hidden), (*hidden, 2), strict=True))
    one = [*federated(names[:1]), "--federation.least", "1", "--federation.squeeze", "none"]
    (folder / "alone.toml").write_text("min_sites = 1\n")
    plain, drivers = [], []
    all = [Party(folder, ["coordinate", "ward/coordinator"])]
    words = ["site", f"ward/sites/{names[0]}", "--recipe", "r.toml", "--policy", "alone.toml"]
    all.append(Party(folder, words, watch=names[0]))
    try:
        all[1].wait_for("waiting to be asked")
        for _ in range(asked.repeats):
            plain += there_and_back(folder, 4 * numbers)
            drivers.append(train(folder, [*one, "--method", "fedavg", *model, *LOCAL], 5))
        relay = peak(all[0].process.pid)
    finally:
        noted = [party.end() for party in all]
    site, rows = noted[1]["spans"], []
    for driver in drivers:
        spans = driver["spans"]
        for round in rounds_of(driver):
            there, back = within(spans["visit"], round), within(spans["carry"], round)
            work = within(site["work"], round)
            rows.append((there, work, back, there + back - work, within(spans["pack"], round),
                         within(spans["seal"], round), within(site["pack"] + site["seal"], round)))  # fmt: skip
    there, work, back, way, packs, seals, theirs = (median(column) for column in zip(*rows, strict=True))
    tls = median(plain)
    driver = max(d["peak"] for d in drivers)
    print(f"{4 * numbers / 1e6:7.1f} MB{there:8.3f}{work:8.3f}{back:8.3f}{way:8.3f}{tls:8.3f}{way / tls:7.1f}"
          f"{'':15}{packs:8.3f}{seals:8.3f}{theirs:13.3f}{'':12}{relay:7.0f}{noted[1]['peak']:7.0f}{driver:7.0f}",
          flush=True)  # fmt: skip


# plain TLS, to compare with


def there_and_back(folder: Path, size: int, times: int = 3) -> list[float]:
    """Seconds that so many bytes take to another process and back, over TLS."""
    kit = folder / "ward" / "coordinator"
    words = [sys.executable, __file__, "echo", str(kit / "coordinator.crt"), str(kit / "coordinator.key")]
    with subprocess.Popen([*words, str(size), str(times)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        data, room, seconds = os.urandom(size), memoryview(bytearray(size)), []
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as line:
            for _ in range(times):
                begin = time.monotonic()
                line.sendall(data)
                fill(line, room)
                seconds.append(time.monotonic() - begin)
    return seconds


def echo(certificate: str, key: str, size: int, times: int) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as door:
        print(door.getsockname()[1], flush=True)
        with context.wrap_socket(door.accept()[0], server_side=True) as line:
            for _ in range(times):
                room = memoryview(bytearray(size))
                fill(line, room)
                line.sendall(room)
    return 0


def fill(line: ssl.SSLSocket, room: memoryview) -> None:
    while room:
        room = room[line.recv_into(room) :]


def measure_start(asked: Asked) -> None:
    rows = []
    for _ in range(asked.repeats):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            names = write_tables(folder, 4)
            begin = time.monotonic()
            found(folder, names)
            made = time.monotonic()
            with parties(folder, names):
                connected = time.monotonic()
                noted = train(folder, [*federated(names), "--method", "fedavg"], 2)
                over = time.monotonic()
        first = noted["spans"]["round"][1][0]
        rows.append([made - begin, connected - begin, first - begin, over - begin])
    made, connected, first, over = (median(column) for column in zip(*rows, strict=True))
    print(f"\nSeconds after the first command, four sites: kits are made {made:.1f}, all are connected "
          f"{connected:.1f}, the first round is over {first:.1f}, a run of two rounds has ended {over:.1f}")  # fmt: skip


def measure(asked: Asked) -> None:
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    print(f"{datetime.datetime.now():%Y-%m-%d %H:%M}, {os.cpu_count()} cores, load average {load} before")
    if asked.what in ("start", "all"):
        measure_start(asked)
    if asked.what in ("rounds", "all"):
        measure_rounds(asked)
    if asked.what in ("sizes", "memory", "all"):
        measure_sizes(asked, memory=asked.what == "memory")
    print(f"\nload average {', '.join(f'{n:.1f}' for n in os.getloadavg())} after")


if __name__ == "__main__":
    if sys.argv[1:2] == ["watched"]:
        code = watched(sys.argv[2], sys.argv[3:])
        sys.stdout.flush()
        os._exit(code)  # as the command itself does: torch takes long to leave
    if sys.argv[1:2] == ["echo"]:
        sys.exit(echo(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
    measure(tyro.cli(Asked, description=__doc__))
