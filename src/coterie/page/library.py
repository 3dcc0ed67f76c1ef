"""What there is to show: runs, comparisons, advice and checks below the folders that were named; and a site.

PLACE                      shown as
a run, comparison, ...     itself
a folder of several        each of them, however deep they lie (three levels)
a site's kit               the site: its part of runs that it took part in, what it was asked, its models
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from coterie.core.errors import BadInput, CoterieError
from coterie.federation.state_folders import state_of_kit
from coterie.page.reading import Study, run_places
from coterie.report.quality import FILE as QUALITY
from coterie.runs.advising import is_advice
from coterie.runs.compare import is_comparison
from coterie.runs.folder import is_run, read_about
from coterie.runs.settings import read_toml

Kind = Literal["run", "comparison", "advice", "check"]
DEEP = 3  # folders below a place that are looked through
MANY = 2000  # of what is found
KIN = 40  # studies that are looked at for a client's page
AGAIN = 2.0  # seconds between two looks through folders
SHOWN = "shown"


@dataclass(frozen=True)
class Entry:
    """One thing to show; its id is made of its path, which no address has."""

    id: str
    path: Path
    kind: Kind
    changed: float
    name: str
    site: str = ""

    @property
    def study(self) -> bool:
        return self.kind in ("run", "comparison")


@dataclass(frozen=True)
class Site:
    """A site of a federation, by the folder of its kit."""

    name: str
    federation: str
    kit: Path
    state: Path


@dataclass(eq=False)
class Library:
    """All that is found below some places. Studies that were looked at stay in memory, and so do lines of a
    list of all, by language.
    """

    places: Sequence[Path]
    sites: Sequence[Site] = ()
    entries: dict[str, Entry] = field(default_factory=dict)
    studies: dict[str, Study] = field(default_factory=dict)
    rows: dict[tuple[Entry, str], str] = field(default_factory=dict)
    looked: float = -AGAIN
    lock: threading.RLock = field(default_factory=threading.RLock)

    def all(self) -> list[Entry]:
        """The newest first."""
        if time.monotonic() - self.looked >= AGAIN:
            found = [entry for place in self.places for entry in entries_below(place)]
            found += [entry for site in self.sites for entry in entries_of_site(site)]
            self.entries = {entry.id: entry for entry in found[:MANY]}
            self.looked = time.monotonic()
        return sorted(self.entries.values(), key=lambda entry: -entry.changed)

    def add(self, path: Path) -> None:
        """One more place, if it is not below those that there are."""
        mine = path.absolute()
        if not any(
            mine.is_relative_to(place.absolute()) and mine != place.absolute() for place in self.places
        ):
            self.places = [*self.places, path]
        self.looked = -AGAIN

    def entry(self, id: str) -> Entry | None:
        if id not in self.entries:
            self.looked = -AGAIN
            self.all()
        return self.entries.get(id)

    def study(self, entry: Entry, age: float = 0.0) -> Study:
        """As it is now, or was `age` seconds ago."""
        found = self.studies.setdefault(entry.id, Study(entry.path, lock=self.lock))
        found.refresh(age)
        return found

    def site_of(self, entry: Entry) -> Site | None:
        return next((site for site in self.sites if site.name == entry.site), None)

    def kin(self, entry: Entry, clients: Sequence[str]) -> list[Study]:
        """Other studies in the same place with the same clients, the newest first, that can be read."""
        found = list[Study]()
        for other in self.all():
            if other.study and other.id != entry.id and other.site == entry.site and len(found) < KIN:
                try:
                    if clients_of(other.path) == tuple(clients):
                        found.append(self.study(other))
                except (CoterieError, OSError):
                    continue
        return [study for study in found if study.records]


def clients_of(path: Path) -> tuple[str, ...]:
    """Of a study, without reading its rounds."""
    place = next((place for place, _ in run_places(path) if (place / "run.json").exists()), None)
    return () if place is None else _clients(place, (place / "run.json").stat().st_mtime_ns)


@functools.lru_cache(maxsize=MANY)
def _clients(place: Path, changed: int) -> tuple[str, ...]:
    return tuple(str(c["name"]) for c in read_about(place / "run.json")["clients"])


def library_of(places: Sequence[str]) -> Library:
    """Refuses a place that is not there, all of them at once."""
    missing = [p for p in places if not Path(p).is_dir()]
    if missing:
        raise BadInput(f"no folder {', '.join(map(repr, missing))}: check the path, or train something first")
    paths = [Path(p) for p in places]
    sites = [site for path in paths if (site := site_at(path)) is not None]
    homes = {site.kit for site in sites}
    return Library([path for path in paths if path not in homes], sites)


def site_at(path: Path) -> Site | None:
    """A folder that is the kit of a site."""
    if not (path / "kit.toml").exists():
        return None
    from coterie.federation.party import read_kit  # needs coterie[network], as whoever has a kit does

    kit = read_kit(str(path))
    if kit.role != "site":
        raise BadInput(
            f"{path} is the kit of {kit.name}, a {kit.role}: give a site's kit, or a folder of runs"
        )
    return Site(kit.name, kit.federation, path, state_of_kit(path))


def entries_of_site(site: Site) -> Iterator[Entry]:
    """Its part of runs."""
    for folder in (site.state / SHOWN).glob("*"):
        if (entry := entry_at(folder, site.name)) is not None:
            yield entry


def entries_below(path: Path, deep: int = DEEP) -> Iterator[Entry]:
    if (entry := entry_at(path)) is not None:
        yield entry
        return
    if deep:
        for folder in sorted(f for f in path.iterdir() if f.is_dir() and not f.name.startswith(".")):
            yield from entries_below(folder, deep - 1)


def entry_at(path: Path, site: str = "") -> Entry | None:
    kinds: dict[Kind, Any] = {"run": is_run, "comparison": is_comparison, "advice": is_advice}
    kind = next((kind for kind, test in kinds.items() if test(path)), None)
    if kind is None:
        kind = "check" if (path / QUALITY).exists() else None
    if kind is None:
        return None
    mark = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]
    return Entry(mark, path, kind, changed_at(path), called(path) if site else path.name, site)


def called(path: Path) -> str:
    """A run that a site is shown has a folder of a long number; people know it by what was done, and when."""
    try:
        changed = (path / "run.json").stat().st_mtime_ns
        return _called(path, changed)
    except (CoterieError, OSError, LookupError, TypeError):
        return path.name


@functools.lru_cache(maxsize=MANY)
def _called(path: Path, changed: int) -> str:
    started = str(read_about(path / "run.json")["times"]["started"])
    return f"{read_toml(path / 'config.toml')['method']}, {started[:16].replace('T', ' ')}"


def changed_at(path: Path) -> float:
    """When something was last written, or a process took it in hand."""
    files = ("metrics.jsonl", "compare.toml", "advice.json", QUALITY, "config.toml", "timings.jsonl", ".lock")
    return max((f.stat().st_mtime for name in files if (f := path / name).exists()), default=0.0)


def glance(entry: Entry) -> dict[str, Any]:
    """What a list says of an entry, from its small files alone; of one that cannot be read, that."""
    try:
        if entry.kind == "check":
            table = json.loads((entry.path / QUALITY).read_bytes())
            return {"data": str(table["about"].get("data", "")), "clients": len(table["sites"])}
        name = {"run": "config.toml", "comparison": "compare.toml", "advice": "advise.toml"}[entry.kind]
        config = read_toml(entry.path / name)
        methods = config.get("methods") or [config.get("method", "")]
        told: dict[str, Any] = {"data": str(config.get("data", "")), "methods": [str(m) for m in methods]}
        told |= {"rounds": config.get("rounds"), "seeds": config.get("seeds", 1), "net": config.get("net")}
        about = entry.path / "run.json"
        if about.exists():
            told["clients"] = len(json.loads(about.read_bytes())["clients"])
        return told
    except (CoterieError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return {"broken": str(error)}
