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

import datetime
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from federation_parties import (
    COLUMNS,
    Span,
    federated,
    found,
    parties,
    peak,
    there_and_back,
    train,
    write_tables,
)

WIDE = {0.1: (150, 150), 10.0: (1560, 1560), 100.0: (4980, 4980)}  # hidden units of models of so many MB
LOCAL = ("--sgd.steps", "1", "--sgd.batch", "8")  # as little as can be, where the way is what is timed


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


def rounds_of(noted: dict[str, Any]) -> list[Span]:
    """From where a round begins to where the next one does, without the first and the last."""
    begins = [begin for begin, _ in noted["spans"]["round"]]
    return list(itertools.pairwise(begins[1:]))


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


def table(title: str, *columns: str) -> None:
    """The head of a table; columns are as wide as their names, and `row` writes below them."""
    print(f"\n{title}\n{'':16}" + "".join(f"  {name:>7}" for name in columns), flush=True)


def row(name: str, *values: float, digits: int = 3) -> None:
    cells = (f"  {v:7.{digits if abs(v) < 100 else 0}f}" for v in values)
    print(f"{name:16}" + "".join(cells), flush=True)


def measure_rounds(asked: Asked) -> None:
    table(
        "Seconds a round after the first; 200 to 300 rows, 13 columns, logistic model. Beside it, by\n"
        "processes and in one. Where a round goes: the driver's own work, its seals, work and storing at\n"
        "sites, what else sites do (checks, letters to each other), the line; and how often they are asked",
        *("federat", "process", "one", "more", "driver", "seals", "work", "storing", "else", "line", "asks"),
    )
    for many in asked.sites:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            names = write_tables(folder, many)
            found(folder, names)
            for method in ("fedavg", "pens"):
                _rounds_row(folder, names, method, asked)


def _rounds_row(folder: Path, names: Sequence[str], method: str, asked: Asked) -> None:
    how = ["--method", method, *(["--pens.rounds-step1", str(asked.rounds)] if method == "pens" else [])]
    seconds: dict[str, list[float]] = {"processes": [], "in-process": []}
    drivers = []
    with parties(folder, names) as running:
        for _ in range(asked.repeats):
            drivers.append(train(folder, [*federated(names), *how], asked.rounds))
            for net, some in seconds.items():
                noted = train(folder, ["--recipe", "r.toml", "--net", net, *how], asked.rounds)
                some += [end - begin for begin, end in rounds_of(noted)]
        sites = [party.end()["spans"] for party in running[1:]]
    there = {part: [span for site in sites for span in site[part]] for part in ("answer", "work", "store")}
    splits = [split(noted["spans"], there, round) for noted in drivers for round in rounds_of(noted)]
    whole, *parts = (median(column) for column in zip(*splits, strict=True))
    beside = {net: median(some) for net, some in seconds.items()}
    row(f"{method}, {len(names)} sites", whole, *beside.values(), whole - beside["processes"], *parts)


def split(driver: dict[str, list[Span]], there: dict[str, list[Span]], round: Span) -> list[float]:
    """A round's seconds, and by what they go; what two do at once counts as the sites'."""
    whole, asks = round[1] - round[0], within(driver["ask"], round)
    answers, both = within(there["answer"], round), within(there["answer"] + driver["seal"], round)
    work, stores = within(there["work"], round), within(there["store"], round)
    count = sum(round[0] <= begin < round[1] for begin, _ in driver["ask"])
    return [whole, whole - asks, both - answers, work, stores, answers - work - stores, asks - both, count]


def measure_sizes(asked: Asked, memory: bool) -> None:
    table(
        "Seconds for a model there (a visit, without the site's work) and back. Beside it, as many bytes\n"
        "by plain TLS of two processes. Of it, packing and sealing at the driver, both at the site; and\n"
        "the largest resident megabytes",
        *("there", "back", "TLS", "times", "packing", "sealing", "at site", "relay", "site", "driver"),
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = write_tables(folder, 2, rows=40)
        found(folder, names)
        (folder / "alone.toml").write_text("min_sites = 1\n")
        for size in [max(asked.sizes)] if memory else asked.sizes:
            _size_row(folder, names[:1], size, asked)


def _size_row(folder: Path, names: Sequence[str], size: float, asked: Asked) -> None:
    sizes = (COLUMNS, *WIDE[size], 2)
    total = sum(4 * (a + 1) * b for a, b in itertools.pairwise(sizes))
    how = [*federated(names), "--federation.least", "1", "--federation.squeeze", "none", "--method", "fedavg"]
    how += ["--model", "mlp", "--mlp.hidden", *map(str, WIDE[size]), "--evaluate", "1000", *LOCAL]
    plain, drivers = list[float](), list[dict[str, Any]]()
    with parties(folder, names, "--policy", "alone.toml") as (relay, site):
        for _ in range(asked.repeats):
            plain += there_and_back(folder, total)
            drivers.append(train(folder, how, 5))
        relayed = peak(relay.process.pid)
        noted = site.end()
    at_site, rows = noted["spans"], list[list[float]]()
    for driver in drivers:
        spans = driver["spans"]
        for round in rounds_of(driver):
            there = within(spans["visit"], round) - within(at_site["work"], round)
            parts = (spans["pack"], spans["seal"], at_site["pack"] + at_site["seal"])
            rows.append([there, within(spans["carry"], round), *(within(part, round) for part in parts)])
    there, back, *split_up = (median(column) for column in zip(*rows, strict=True))
    tls, peaks = median(plain), (relayed, noted["peak"], max(d["peak"] for d in drivers))
    row(f"{total / 1e6:.1f} MB", there, back, tls, (there + back) / tls, *split_up, *peaks)


def measure_start(asked: Asked) -> None:
    table("Seconds after the first command, four sites", "kits", "connect", "round 1", "the end")
    rows = []
    for _ in range(asked.repeats):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            names = write_tables(folder, 4)
            times = [time.monotonic()]
            found(folder, names)
            times.append(time.monotonic())
            with parties(folder, names):
                times.append(time.monotonic())
                noted = train(folder, [*federated(names), "--method", "fedavg"], 2)
                times += [noted["spans"]["round"][1][0], time.monotonic()]
        rows.append([t - times[0] for t in times[1:]])
    row("fedavg, 2 rounds", *(median(column) for column in zip(*rows, strict=True)), digits=1)


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
    measure(tyro.cli(Asked, description=__doc__))
