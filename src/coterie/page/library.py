"""What there is to show: runs, comparisons, advice and checks below the folders that were named; and a site.

PLACE                      shown as
a run, comparison, ...     itself
a folder of several        each of them, however deep they lie (three levels)
a site's kit               the site: its part of runs that it took part in, what it was asked, its models
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput, CoterieError
from coterie.features.advice.question import is_advice
from coterie.features.quality.shown import FILE as QUALITY
from coterie.federation.site.state_folders import state_of_kit
from coterie.page.studies import Study, quality_of, run_places
from coterie.runs.compare import is_comparison
from coterie.runs.folder import is_run, read_about
from coterie.runs.settings import read_toml

KINDS: Mapping[str, tuple[Callable[[Path], bool], str]] = {
    "run": (is_run, "config.toml"),
    "comparison": (is_comparison, "compare.toml"),
    "advice": (is_advice, "advise.toml"),
    "check": (lambda path: (path / QUALITY).exists(), QUALITY),
}
"""How a folder of each kind is known, and its file that says of which data and methods it is."""
_DEEP = 3  # folders below a place that are looked through
_MANY = 2000  # of what is found
_KIN = 40  # studies that are looked at for a client's page
_AGAIN = 2.0  # seconds between two looks through folders
_SHOWN = "shown"
_WRITTEN = ("metrics.jsonl", "compare.toml", "advice.json", QUALITY, "config.toml", "timings.jsonl", ".lock")


@dataclass(frozen=True)
class Entry:
    """One thing to show; its id is made of its path, which no address has."""

    id: str
    path: Path
    kind: str
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
    rows: dict[tuple[Entry, str], Any] = field(default_factory=dict)
    looked: float = -_AGAIN
    lock: threading.RLock = field(default_factory=threading.RLock)

    def all(self) -> list[Entry]:
        """The newest first."""
        if time.monotonic() - self.looked >= _AGAIN:
            found = [entry for place in self.places for entry in _entries_below(place)]
            for site in self.sites:  # its part of runs
                of_site = (entry_at(folder, site.name) for folder in (site.state / _SHOWN).glob("*"))
                found += [entry for entry in of_site if entry is not None]
            self.entries = {entry.id: entry for entry in found[:_MANY]}
            self.looked = time.monotonic()
        return sorted(self.entries.values(), key=lambda entry: -entry.changed)

    def add(self, path: Path) -> None:
        """One more place, if it is not below those that there are."""
        if not any(place.absolute() in path.absolute().parents for place in self.places):
            self.places = [*self.places, path]
        self.looked = -_AGAIN

    def entry(self, id: str) -> Entry | None:
        if id not in self.entries:
            self.looked = -_AGAIN
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
            if other.study and other.id != entry.id and other.site == entry.site and len(found) < _KIN:
                try:
                    if _clients_of(other.path) == tuple(clients):
                        found.append(self.study(other))
                except (CoterieError, OSError):
                    continue
        return [study for study in found if study.records]

    def quality(self, entry: Entry) -> Mapping[str, Any] | None:
        """What a check found: of the study itself, else of the same sites in the same place."""
        if (own := quality_of(entry.path)) is not None:
            return own
        sites = set(self.study(entry).first.clients)
        for other in self.all():
            if other.kind == "check" and other.site == entry.site:
                table = quality_of(other.path)
                if table is not None and {site["site"] for site in table["sites"]} == sites:
                    return table
        return None


def _clients_of(path: Path) -> tuple[str, ...]:
    """Of a study, without reading its rounds."""
    place = next((place for place, _ in run_places(path) if (place / "run.json").exists()), None)
    return () if place is None else _clients(place, (place / "run.json").stat().st_mtime_ns)


@functools.lru_cache(maxsize=_MANY)
def _clients(place: Path, changed: int) -> tuple[str, ...]:
    return tuple(str(c["name"]) for c in read_about(place / "run.json")["clients"])


def library_of(places: Sequence[str]) -> Library:
    """Refuses a place that is not there, all of them at once."""
    missing = [p for p in places if not Path(p).is_dir()]
    if missing:
        raise BadInput(f"no folder {', '.join(map(repr, missing))}: check the path, or train something first")
    paths = [Path(p) for p in places]
    sites = [site for path in paths if (site := _site_at(path)) is not None]
    homes = {site.kit for site in sites}
    return Library([path for path in paths if path not in homes], sites)


def _site_at(path: Path) -> Site | None:
    """A folder that is the kit of a site."""
    if not (path / "kit.toml").exists():
        return None
    from coterie.federation.kits.kit import read_kit  # needs coterie[network], as whoever has a kit does

    kit = read_kit(str(path))
    if kit.role != "site":
        raise BadInput(
            f"{path} is the kit of {kit.name}, a {kit.role}: give a site's kit, or a folder of runs"
        )
    return Site(kit.name, kit.federation, path, state_of_kit(path))


def _entries_below(path: Path, deep: int = _DEEP) -> Iterator[Entry]:
    if (entry := entry_at(path)) is not None:
        yield entry
        return
    if deep:
        for folder in sorted(f for f in path.iterdir() if f.is_dir() and not f.name.startswith(".")):
            yield from _entries_below(folder, deep - 1)


def entry_at(path: Path, site: str = "") -> Entry | None:
    kind = next((kind for kind, (is_one, _) in KINDS.items() if is_one(path)), None)
    if kind is None:
        return None
    mark, name = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12], path.name
    if site:  # the folder is a long number then; people know it by what was done, and when
        with contextlib.suppress(CoterieError, OSError, LookupError, TypeError):
            name = _called(path, (path / "run.json").stat().st_mtime_ns)
    # when something was last written, or a process took it in hand
    changed = max((f.stat().st_mtime for name in _WRITTEN if (f := path / name).exists()), default=0.0)
    return Entry(mark, path, kind, changed, name, site)


@functools.lru_cache(maxsize=_MANY)
def _called(path: Path, changed: int) -> str:
    started = str(read_about(path / "run.json")["times"]["started"])
    return f"{read_toml(path / 'config.toml')['method']}, {started[:16].replace('T', ' ')}"


def summary_of(entry: Entry) -> dict[str, Any]:
    """What a list says of an entry, from its small files alone; of one that cannot be read, that."""
    try:
        file = entry.path / KINDS[entry.kind][1]
        if file.suffix == ".json":
            table = json.loads(file.read_bytes())
            return {"data": str(table["about"].get("data", "")), "clients": len(table["sites"])}
        config, about = read_toml(file), entry.path / "run.json"
        methods = config.get("methods") or [config.get("method", "")]
        told: dict[str, Any] = {"data": str(config.get("data", "")), "methods": [str(m) for m in methods]}
        return told | ({"clients": len(_clients_of(entry.path))} if about.exists() else {})
    except (CoterieError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return {"broken": str(error)}
