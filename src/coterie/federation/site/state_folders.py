"""Where state of sites lies: below one root, in a folder for each site, whatever kit it comes with; and, in
`runs` of that, a folder for each run, which belongs to who began it.

    ROOT/FEDERATION-xxxxxxxx/SITE    xxxxxxxx tells the authorities of two federations of one name apart
    KIT/state                        leads there

The root is --state, else COTERIE_STATE, else a folder of the user's own. `kin.txt` of a site's folder names
others that count there too, as FEDERATION-xxxxxxxx/SITE, or in full below another root: those of the same
rows under another name (`state.py`). What is spent there is spent here, a no there is a no here, and
days' counts are of all together. Two processes may be at work with two of them: who spends looks first, while
nobody else does.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import BadData, BadRun, Refused, shown
from coterie.storage.atomic import readable_errors
from coterie.storage.locks import locked
from coterie.storage.paths import given_path, read_given_toml, state_folder
from coterie.storage.versioned import Schema

STATE, ROOT = "state", "COTERIE_STATE"
KIN, ABOUT, KEY = "kin.txt", "site.json", "marks.key"
STATE_FILES = Schema(1, "go on with the version of Coterie that wrote it")
"""Of all files of a site's state: site.json has the number, and each line may have one."""
_TEXTS, _LISTS = ("federation", "site", "since"), ("digests", "files")
LONGEST = 30.0  # seconds for another process to be done with a line
_SOON = 0.001  # seconds after which most are
_RUN = re.compile(r"[0-9a-f]{32}")
_OLD = 30 * 24 * 3600  # seconds
MOST_FOLDERS = 20  # of one lead's runs that were not ended
_LEADER, BEGAN = "leader", "plan"  # in a run's folder: who began it, and with which plan


def root_folder(given: str = "") -> Path:
    """The root that is given, that of the environment, or the usual one."""
    if text := given or os.environ.get(ROOT, ""):
        return given_path(text, "state" if given else ROOT).resolve()
    return (state_folder() / "sites").resolve()


def home_in(root: Path, kit: Path) -> Path:
    """The folder of the site whose kit this is. Names may come from anybody, and are only part of a path."""
    table, ca = read_given_toml(kit / "kit.toml"), kit / "ca.crt"
    with readable_errors(ca):
        authority = hashlib.sha256(b"".join(ca.read_bytes().split())).hexdigest()[:8]
    federation = f"{path_part(table.get('federation'))}-{authority}"
    return root / federation / path_part(table.get("name"))


def path_part(name: Any) -> str:
    """Small letters, as A and a count as the same."""
    return re.sub(r"[^a-z0-9_-]+", "-", str(name).lower())[:63].strip("-") or "site"


def state_of_kit(kit: Path) -> Path:
    """KIT/state; before the site was first started with this kit, what it has kept with an earlier one."""
    if (kit / STATE).is_symlink() or not (kit / "ca.crt").exists():
        return kit / STATE
    home = home_in(root_folder(), kit)
    return home if (home / ABOUT).exists() else kit / STATE


def read_about(state: Path) -> dict[str, Any]:
    """What site.json says: whose state it is, since when, and what tells its rows again."""
    try:
        told = json.loads((state / ABOUT).read_bytes())
        STATE_FILES.check(told, state / ABOUT)
        if all(isinstance(told[k], str) for k in _TEXTS) and all(isinstance(told[k], list) for k in _LISTS):
            return dict(told)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise damaged(state / ABOUT)


def damaged(path: Path) -> BadRun:
    return BadRun(f"{path} is damaged: bring it back from a copy, or remove {path.parent} to begin anew")


def root_of(state: Path) -> Path:
    return state.parent.parent


def marks_key(state: Path) -> Path:
    """Of the key that makes marks of rows, one for all sites below a root; a folder by itself has its own."""
    state = state.resolve()
    return (root_of(state) if (state / ABOUT).exists() else state) / KEY


def kin_of(state: Path) -> list[Path]:
    """The other folders that count at this one; those that a person has removed do not."""
    if not (state / KIN).exists():
        return []
    state = state.resolve()  # it may be reached by the kit
    lines = (state / KIN).read_text().splitlines()
    return [folder for line in lines if (folder := root_of(state) / line).is_dir()]


@contextlib.contextmanager
def one_at_a_time(state: Path) -> Iterator[None]:
    """Nobody else who keeps state below the same roots does this meanwhile."""
    if not (state / ABOUT).exists():  # a folder by itself, which no root knows of
        yield
        return
    roots = {root_of(folder) for folder in (state.resolve(), *kin_of(state))}
    with contextlib.ExitStack() as held:
        for root in sorted(roots):  # in one order, so that two never wait for each other
            end, lock = time.monotonic() + LONGEST, None
            while lock is None:
                try:
                    lock = held.enter_context(locked(root, _SOON))
                except BadRun:
                    if time.monotonic() > end:
                        line = f"{root} is in use by another process for {LONGEST:g} s"
                        raise BadRun(f"{line}: end that first") from None
        yield


# folders of runs


def run_of(message: Mapping[str, Any]) -> str:
    """The run that a message names; also the name of a folder."""
    run = message.get("run")
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise BadData(f"{shown(run)} names no run: is it of another version?")
    return run


class RunFolders:
    """A folder for each run of a site, which belongs to who began it."""

    def __init__(self, state: Path) -> None:
        """Runs that were not ended and that nobody has gone on with for long leave nothing behind."""
        self.folder = state / "runs"
        for run in self.folder.glob("*"):
            with contextlib.suppress(OSError):
                if time.time() - last_use(run) > _OLD:
                    shutil.rmtree(run)

    def of(self, run: str, leader: str) -> Path:
        """The folder of a run, which may be there already if that lead began it."""
        with readable_errors(self.folder / run):
            whose = self._leader_of(self.folder / run)
        if whose not in ("", leader):
            raise Refused(f"this run is led by {shown(whose)}, not by {shown(leader)}")
        return self.folder / run

    def make(self, run: Path, leader: str, plan: str) -> None:
        """For a run that has begun, with that plan. Of runs that the same lead never ended the oldest go, or
        it could fill the disk with them.
        """
        with readable_errors(run):
            if not run.exists():
                mine = [other for other in self.folder.glob("*") if self._leader_of(other) == leader]
                for old in sorted(mine, key=last_use)[: max(0, len(mine) - MOST_FOLDERS + 1)]:
                    shutil.rmtree(old, ignore_errors=True)
            run.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name, text in ((_LEADER, leader), (BEGAN, plan)):
                if not (run / name).exists():
                    (run / name).write_text(text)

    @staticmethod
    def _leader_of(run: Path) -> str:
        """Nobody, where there is no run."""
        path = run / _LEADER
        return path.read_text() if path.exists() else ""


def last_use(folder: Path) -> float:
    """When something was last written there."""
    return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
