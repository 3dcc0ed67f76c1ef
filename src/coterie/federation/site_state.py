"""A site's state is opened: it belongs to the site's name and rows, not to the kit that it comes with.

A new kit of the same name goes on with what was kept: what was spent, what people decided, what was asked and
counted within a day, models and heads. Folders of another name, federation or authority count beside it
(`state_folders.py`) if any one of these is the same: federation and site by name, the file that the rows are
read from, the rows themselves (`row_marks.py`). What earlier versions kept in KIT/state is taken over. To
begin anew is for a person at the site, who removes the folders that the site names when it starts.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from coterie.core.errors import BadInput, BadRun
from coterie.data.dataset import Dataset
from coterie.federation.budgets import SECRET, secret_at
from coterie.federation.party import Kit, read_toml
from coterie.federation.row_marks import RowMarks, row_marks
from coterie.federation.state_folders import (
    ABOUT,
    KEY,
    STATE,
    home_in,
    kin_of,
    make_kin,
    one_at_a_time,
    path_part,
    read_about,
    root_folder,
    root_of,
)
from coterie.storage import locks
from coterie.storage.atomic import readable_errors, write_whole
from coterie.storage.decided import now

MARKS = "rows.marks"
OLD: tuple[str, ...] = (
    "asked.jsonl",
    "begun.txt",
    "checked.txt",
    "dealt.txt",
    "decisions.jsonl",
    "energy.jsonl",
    "heads.jsonl",
)
OLD += ("ledger.jsonl", "models", "noise.key", "offers.jsonl", "quality.json", "runs", "shown")
Say = Callable[[str], None]


@contextlib.contextmanager
def opened(kit: Kit, data: Dataset, given: str, say: Say) -> Iterator[Path]:
    """The folder of the site's state, locked; `given` is the root, if a person says one."""
    root = root_for(kit, given)
    home = home_in(root, kit.folder)
    with readable_errors(root):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with in_use(home, what="the site's state"):
        new = not (home / ABOUT).exists()
        for old in old_states(kit, root):
            say(f"{old} is taken over: from now on it is in {take_over(kit, old, home)}")
        mine = noted(kit, home, row_marks(data, secret_at(root / KEY)))
        empty = new and not any((home / name).exists() for name in OLD)
        with one_at_a_time(home):
            relate(home, mine)
            if (there := left_elsewhere(kit, home)) is not None:
                make_kin(home, there)
        whose, since = f"site {kit.name} of {kit.federation}", read_about(home)["since"]
        if empty:
            say(f"nothing is kept of {whose} yet: what it spends, decides and counts begins anew, in {home}")
        else:
            say(f"what is kept of {whose} since {since} is in force, in {home}")
        for other in kin_of(home):
            say(f"the same name, file or rows: what was spent, refused or counted in {other} counts here too")
        lead_there(kit, home)
        yield home


@contextlib.contextmanager
def in_use(folder: Path, command: str = "site", what: str = "") -> Iterator[None]:
    try:
        lock = locks.locked(folder)
    except BadRun as error:
        if "in use" not in str(error):
            raise
        named = f"{folder}, {what}" if what else str(folder)
        raise BadRun(f"{named} is in use: another coterie {command} runs with it: end that first") from None
    with lock:
        yield


def root_for(kit: Kit, given: str) -> Path:
    """A site's own folder below a root stands for that root; a root in a kit would go with the kit."""
    root = root_folder(given)
    if (root / ABOUT).exists() and home_in(root_of(root), kit.folder) == root:
        return root_of(root)
    kits = [place for place in (root, *root.parents) if (place / "kit.toml").exists()]
    if kits:
        raise BadInput(
            f"state {root} lies in the kit {kits[0]}, and a new kit would begin anew: give another"
        )
    return root


def left_elsewhere(kit: Kit, home: Path) -> Path | None:
    """State of this site below another root, to which the kit leads."""
    there = (kit.folder / STATE).resolve()
    return there if there != home and (there / ABOUT).exists() else None


def old_states(kit: Kit, root: Path) -> Iterator[Path]:
    """Folders in which an earlier version kept what is this site's: in the kit, in one that it replaces, or
    where --state said.
    """
    folders = [kit.folder, *sorted(kit.folder.parent.glob(f"{kit.name}.revoked-*"))]
    for folder in folders:
        told = read_toml(folder / "kit.toml") if (folder / "kit.toml").is_file() else {}
        same = all(told.get(what) == getattr(kit, what) for what in ("name", "role", "federation"))
        if same and not (folder / STATE).is_symlink() and contents(folder / STATE, root):
            yield folder / STATE
    if contents(root, root):
        yield root


def contents(old: Path, root: Path) -> list[Path]:
    """What is to be taken over; of a root only what is known to be state, as sites' folders lie there too."""
    if old == root:
        return [path for name in OLD if (path := old / name).exists()]
    return [path for path in old.iterdir() if path.name != locks.NAME] if old.is_dir() else []


def take_over(kit: Kit, old: Path, home: Path) -> Path:
    """Moves what is there into the site's own folder, or beside it where that has something already."""
    place, i = home, 2
    while (place / ABOUT).exists():
        place, i = home.with_name(f"{home.name}.{i}"), i + 1
    with in_use(old), readable_errors(place):
        place.mkdir(mode=0o700, exist_ok=True)
        for path in contents(old, root_of(home)):
            secret = path.name == SECRET  # whoever made the kit may know it: noise comes from a new one
            shutil.move(path, place / (f"{SECRET}.before" if secret else path.name))
    write_about(place, kit.federation, kit.name, NOTHING)
    return place


NOTHING = RowMarks(np.array([], dtype="<u8"), frozenset(), frozenset())


def noted(kit: Kit, home: Path, rows: RowMarks) -> RowMarks:
    """All rows that the site had so far, with those of today, are written down."""
    mine = marks_at(home).joined(rows) if (home / ABOUT).exists() else rows
    write_about(home, kit.federation, kit.name, mine)
    return mine


def write_about(state: Path, federation: str, site: str, rows: RowMarks) -> None:
    since = read_about(state)["since"] if (state / ABOUT).exists() else now()
    told = {"federation": federation, "site": site, "since": since}
    told |= {"digests": sorted(rows.digests), "files": sorted(rows.files)}
    for name, content in ((MARKS, rows.marks.tobytes()), (ABOUT, json.dumps(told, indent=1).encode())):
        write_whole(state / name, content)
        (state / name).chmod(0o600)


def marks_at(state: Path) -> RowMarks:
    told, path = read_about(state), state / MARKS
    try:
        marks = np.frombuffer(path.read_bytes(), dtype="<u8")
    except (OSError, ValueError):
        raise BadRun(
            f"{path} is damaged: bring it back from a copy, or remove {state} to begin anew"
        ) from None
    return RowMarks(marks, frozenset(map(str, told["digests"])), frozenset(map(str, told["files"])))


def relate(home: Path, mine: RowMarks) -> None:
    """Finds whose name, file or rows are the same; what counts there counts here as well."""
    about = read_about(home)
    for path in sorted(root_of(home).glob(f"*/*/{ABOUT}")):
        other = path.parent
        if other == home:
            continue
        told = read_about(other)
        named = all(path_part(told[k]) == path_part(about[k]) for k in ("federation", "site"))
        if named or mine.same_rows(marks_at(other)):
            for one in (other, *kin_of(other)):
                if one != home:
                    make_kin(home, one)


def lead_there(kit: Kit, home: Path) -> None:
    """KIT/state leads to the state, for people. A kit that cannot be written does without; one that leads to
    state below another root still does.
    """
    link = kit.folder / STATE
    with contextlib.suppress(OSError):
        if link.is_symlink() and not (link / ABOUT).exists():
            link.unlink()  # to what is not there any more
        if not link.is_symlink():
            if link.is_dir():
                (link / locks.NAME).unlink(missing_ok=True)
                link.rmdir()
            link.symlink_to(home, target_is_directory=True)
