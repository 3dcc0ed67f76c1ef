"""How much open pages slow a live run: python benchmarks/page_load.py --pages 50 --pairs 3 --rounds 600

A federation of four sites on loopback trains, once with nobody looking and once with `coterie page` and so
many pages open on it (`page_readers.py`), in turns. All are processes of this one machine: coordinator,
sites, lead, page, and the readers' browsers as well, whose work elsewhere would be on machines of their own.

Seconds are those of the wall from round 10, at which the pages are opened, to the last round, so that opening
them counts; the median round is by the run's own notes. Ends with code 1 if a page got an error.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tyro

from coterie.federation.demo.hosts import Here
from coterie.federation.demo.running import Running
from coterie.federation.demo.ward import Ward, breast_cancer, command, place_for
from coterie.page.library import entry_at
from coterie.storage.atomic import read_lines
from coterie.storage.rounds import METRICS, TIMINGS
from coterie.storage.tail import last_lines

FIRST = 10  # the round from which on seconds count
LONG = 900.0  # seconds that no run takes if all is well
TICK = 0.05
READERS = str(Path(__file__).with_name("page_readers.py"))


@dataclass(frozen=True)
class Asked:
    pages: int = 50
    """Pages that are open at once."""
    pairs: int = 3
    """How often a run is done without pages, and then with them."""
    rounds: int = 600
    """Rounds of a run: half a minute and more on a machine with nothing else to do."""


@dataclass(frozen=True)
class Seen:
    """What pages cost and got while one run went on; seconds are of the processor."""

    page: float
    readers: float
    opened: int
    events: int
    cards: int
    same: int
    slowest: float
    errors: Sequence[str]


@dataclass(frozen=True)
class Timed:
    """One run: seconds a round, by the wall and by the median of its own notes."""

    wall: float
    median: float
    load: float
    seen: Seen | None = None


class Watch:
    """Pages on a run, from when they are opened."""

    def __init__(self, place: Here, page: Running, folder: Path, clients: Sequence[str], pages: int) -> None:
        address = page.wait_for("page: ").removeprefix("page: ")
        entry = entry_at(folder)
        assert entry is not None
        words = [sys.executable, READERS, address, entry.id, str(pages), *clients]
        self.page, self.before = page, processor_seconds(page.pid)
        self.readers = place.run("lead", words, log=folder.parent.parent / f"readers-{folder.name}.log")

    def end(self) -> Seen:
        cost = processor_seconds(self.page.pid) - self.before
        self.readers.stop()
        told = json.loads(self.readers.lines[-1])
        got = {name: int(n) for name, n in told["got"].items()}
        counts = (got.get(name, 0) for name in ("opened", "events", "cards 200", "cards 304"))
        return Seen(cost, told["cpu"], *counts, slowest=told["slowest"], errors=told["errors"])


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def done(folder: Path) -> int:
    """The last round that is over."""
    return next((int(line["round"]) for line in last_lines(folder / METRICS, 1)), -1)


def until(lead: Running, folder: Path, round: int) -> float:
    """When a round was over."""
    end = time.monotonic() + LONG
    while done(folder) < round:
        if lead.returncode is not None and done(folder) < round:
            raise SystemExit(f"the run ended with {lead.returncode}: {' '.join(lead.lines[-3:])}")
        if time.monotonic() > end:
            raise SystemExit(f"round {round} was not over within {LONG:g} s")
        time.sleep(TICK)
    return time.monotonic()


@contextmanager
def page_of(place: Here, runs: Path, wanted: bool) -> Iterator[Running | None]:
    """`coterie page`, that answers before the run begins."""
    if not wanted:
        yield None
        return
    page = place.run("lead", command("page", str(runs)), log=runs.parent / "page.log")
    try:
        page.wait_for("page: ", LONG)
        yield page
    finally:
        page.stop()


def timed(ward: Ward, name: str, asked: Asked, looked_at: bool) -> Timed:
    runs = ward.folder / "runs"
    folder = runs / name
    runs.mkdir(exist_ok=True)
    words = ward.led(["run", "--rounds", str(asked.rounds), "--out", str(folder)])
    with page_of(ward.place, runs, looked_at) as page:
        lead = ward.place.run("lead", command(*words), log=ward.folder / f"lead-{name}.log")
        begun = until(lead, folder, FIRST)
        watch = Watch(ward.place, page, folder, ward.study.sites, asked.pages) if page else None
        ended = until(lead, folder, asked.rounds)
        seen, load = watch.end() if watch else None, os.getloadavg()[0]
        lead.wait(LONG)
    lines = [line for line in read_lines(folder / TIMINGS) if line.get("round", 0) > FIRST]
    usual = statistics.median(line["seconds"] + line["evaluate_seconds"] for line in lines)
    return Timed((ended - begun) / (asked.rounds - FIRST), usual, load, seen)


def tell(name: str, one: Timed) -> None:
    cells = [f"{1000 * one.wall:9.1f}", f"{1000 * one.median:9.1f}", f"{one.load:6.1f}"]
    if one.seen:
        s = one.seen
        cells += [f"{s.page:9.1f}", f"{s.readers:10.1f}", f"{s.opened:7}", f"{s.events:8}", f"{s.cards:7}"]
        cells += [f"{s.same:6}", f"{1000 * s.slowest:9.0f}", f"{len(s.errors):7}"]
    print(f"{name:16}" + "".join(cells), flush=True)
    for error in one.seen.errors[:5] if one.seen else ():
        print(f"  {error}", flush=True)


def measure(asked: Asked) -> int:
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # parties share the cores
    plain, watched = list[Timed](), list[Timed]()
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before; milliseconds a round, then")
    print("processor seconds of the page and of its readers, and what these got")
    print(
        f"{'':16}{'wall':>9}{'median':>9}{'load':>6}{'page s':>9}{'readers s':>10}{'open':>7}{'events':>8}"
        f"{'cards':>7}{'same':>6}{'slowest':>9}{'errors':>7}"
    )
    data = breast_cancer()
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")  # for the page's token
        with place_for(data, folder, hosts=False) as place:
            ward = Ward(place, folder, data)
            ward.found()
            ward.start_all()
            for turn in range(1, asked.pairs + 1):
                plain.append(timed(ward, f"alone-{turn}", asked, looked_at=False))
                tell(f"alone {turn}", plain[-1])
                watched.append(timed(ward, f"watched-{turn}", asked, looked_at=True))
                tell(f"{asked.pages} pages {turn}", watched[-1])
    for what in ("wall", "median"):
        before, after = (statistics.median(getattr(t, what) for t in some) for some in (plain, watched))
        pairs = [getattr(b, what) / getattr(a, what) for a, b in zip(plain, watched, strict=True)]
        told = ", ".join(f"{ratio:.3f}" for ratio in pairs)
        print(
            f"{what:8}{1000 * before:8.1f} ms alone, {1000 * after:8.1f} ms with {asked.pages} pages: ",
            end="",
        )
        print(f"{after / before:.3f} times; by pair {told}")
    good = all(t.seen and not t.seen.errors and t.seen.opened == asked.pages for t in watched)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(measure(tyro.cli(Asked, description=__doc__)))
