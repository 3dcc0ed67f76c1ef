"""A site's state is opened: it belongs to the site's name and rows, not to the kit that it comes with.

A new kit of the same name goes on with what was kept: what was spent, what people decided, what was asked and
counted within a day, models and heads. Folders of another name, federation or authority count beside it
(`state_folders.py`) if any one of these is the same: federation and site by name, the file that the rows are
read from, the rows themselves. What earlier versions kept in KIT/state is taken over. To begin anew is for a
person at the site, who removes the folders that the site names when it starts.

A row's mark is a keyed hash of its inputs in order of size, so that neither the order of rows nor the order
or the names of columns matter; the key (`marks.key`) and the marks never leave the machine. Two tables are of
the same rows if they have a quarter of the smaller one's different rows in common. Of tables with few
different rows (a handful of yes and no) that would say nothing: those are the same only as a whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coterie.core.errors import BadInput, BadRun
from coterie.data.dataset import Dataset
from coterie.data.intake import Array
from coterie.federation.data.site_data import digest_of_rows
from coterie.federation.kits.kit import Kit, read_toml
from coterie.federation.site import state_folders as folders
from coterie.federation.site.budget import SECRET, secret_at
from coterie.storage import locks
from coterie.storage.atomic import readable_errors, write_whole
from coterie.storage.decisions import now

_MARKS = "rows.marks"
_OLD = (  # what an earlier version kept in a kit
    *("asked.jsonl", "begun.txt", "checked.txt", "dealt.txt", "decisions.jsonl", "energy.jsonl"),
    *("heads.jsonl", "ledger.jsonl", "models", "noise.key", "offers.jsonl", "quality.json", "runs", "shown"),
)
_SHARE = 0.25  # of the smaller table's different rows
_FEWEST = 20  # different rows by which a table can be told from others
_AT_ONCE = 4096  # rows, so that a large table is not in memory twice
_Say = Callable[[str], None]


@dataclass(frozen=True)
class RowMarks:
    """`marks` [different row], in order; `digests` and `files` may be several, of earlier tables too."""

    marks: np.ndarray
    digests: frozenset[str]
    files: frozenset[str]

    def same_rows(self, other: RowMarks) -> bool:
        if self.digests & other.digests or self.files & other.files:
            return True
        smaller = min(len(self.marks), len(other.marks))
        common = len(np.intersect1d(self.marks, other.marks, assume_unique=True))
        return smaller >= _FEWEST and common >= _SHARE * smaller

    def joined(self, other: RowMarks) -> RowMarks:
        """What was a site's stays its own, so that a table that changes bit by bit is still the same."""
        marks = np.union1d(self.marks, other.marks)
        return RowMarks(marks, self.digests | other.digests, self.files | other.files)


NO_ROWS = RowMarks(np.array([], dtype="<u8"), frozenset(), frozenset())


@contextlib.contextmanager
def open_state(kit: Kit, data: Dataset, given: str, say: _Say) -> Iterator[Path]:
    """The folder of the site's state, locked; `given` is the root, if a person says one."""
    root = folders.root_folder(given)
    if (root / folders.ABOUT).exists() and folders.home_in(folders.root_of(root), kit.folder) == root:
        root = folders.root_of(root)  # a site's own folder below a root stands for that root
    elif place := next((p for p in (root, *root.parents) if (p / "kit.toml").exists()), None):
        why = "a new kit would begin anew"
        raise BadInput(f"state {root} lies in the kit {place}, and {why}: give another")
    home = folders.home_in(root, kit.folder)
    with readable_errors(root):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with in_use(home, what="the site's state"):
        new = not (home / folders.ABOUT).exists()
        for old in _old_states(kit, root):
            say(f"{old} is taken over: from now on it is in {_take_over(kit, old, home)}")
        key = secret_at(root / folders.KEY)
        marks = np.array([mark for pool in data.pools for mark in marks_in(pool.x, key)], dtype="<u8")
        files, recipe = list[str](), data.recipe
        if recipe is not None and not recipe.site:  # a file that several sites share tells nothing
            files = [*recipe.sites.values()] if recipe.sites else [recipe.file]
            files = [str((Path(recipe.folder) / file).resolve()) for file in files if file]
        mine = RowMarks(np.unique(marks), frozenset({digest_of_rows(data)}), frozenset(files))
        if (home / folders.ABOUT).exists():
            mine = _marks_at(home).joined(mine)  # all rows that it had so far
        write_about(home, kit.federation, kit.name, mine)
        empty = new and not any((home / name).exists() for name in _OLD)
        with folders.one_at_a_time(home):
            _find_kin(home, mine)
            there = (kit.folder / folders.STATE).resolve()  # below another root, to which the kit leads
            if there != home and (there / folders.ABOUT).exists():
                _make_kin(home, there)
        whose, since = f"site {kit.name} of {kit.federation}", folders.read_about(home)["since"]
        if empty:
            say(f"nothing is kept of {whose} yet: what it spends, decides and counts begins anew, in {home}")
        else:
            say(f"what is kept of {whose} since {since} is in force, in {home}")
        for other in folders.kin_of(home):
            say(f"the same name, file or rows: what was spent, refused or counted in {other} counts here too")
        _link_kit(kit, home)
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


def _old_states(kit: Kit, root: Path) -> Iterator[Path]:
    """Where an earlier version kept what is this site's: a kit, one that it replaces, or --state."""
    for folder in (kit.folder, *sorted(kit.folder.parent.glob(f"{kit.name}.revoked-*"))):
        told = read_toml(folder / "kit.toml") if (folder / "kit.toml").is_file() else {}
        same = all(told.get(what) == getattr(kit, what) for what in ("name", "role", "federation"))
        if same and not (folder / folders.STATE).is_symlink() and _old_contents(folder / folders.STATE, root):
            yield folder / folders.STATE
    if _old_contents(root, root):
        yield root


def _old_contents(old: Path, root: Path) -> list[Path]:
    """What is to be taken over; of a root only what is known to be state, as sites' folders lie there too."""
    if old == root:
        return [path for name in _OLD if (path := old / name).exists()]
    return [path for path in old.iterdir() if path.name != locks.NAME] if old.is_dir() else []


def _take_over(kit: Kit, old: Path, home: Path) -> Path:
    """Moves what is there into the site's own folder, or beside it where that has something already."""
    place, i = home, 2
    while (place / folders.ABOUT).exists():
        place, i = home.with_name(f"{home.name}.{i}"), i + 1
    with in_use(old), readable_errors(place):
        place.mkdir(mode=0o700, exist_ok=True)
        for path in _old_contents(old, folders.root_of(home)):
            secret = path.name == SECRET  # whoever made the kit may know it: noise comes from a new one
            shutil.move(path, place / (f"{SECRET}.before" if secret else path.name))
    write_about(place, kit.federation, kit.name, NO_ROWS)
    return place


def write_about(state: Path, federation: str, site: str, rows: RowMarks) -> None:
    since = folders.read_about(state)["since"] if (state / folders.ABOUT).exists() else now()
    told = folders.STATE_FILES.headed({"federation": federation, "site": site, "since": since})
    told |= {"digests": sorted(rows.digests), "files": sorted(rows.files)}
    for name, content in (
        (_MARKS, rows.marks.tobytes()),
        (folders.ABOUT, json.dumps(told, indent=1).encode()),
    ):
        write_whole(state / name, content)
        (state / name).chmod(0o600)


def _marks_at(state: Path) -> RowMarks:
    told, path = folders.read_about(state), state / _MARKS
    try:
        marks = np.frombuffer(path.read_bytes(), dtype="<u8")
    except (OSError, ValueError):
        raise folders.damaged(path) from None
    return RowMarks(marks, frozenset(map(str, told["digests"])), frozenset(map(str, told["files"])))


def _find_kin(home: Path, mine: RowMarks) -> None:
    """Finds whose name, file or rows are the same; what counts there counts here as well."""
    about = folders.read_about(home)
    for path in sorted(folders.root_of(home).glob(f"*/*/{folders.ABOUT}")):
        other = path.parent
        if other == home:
            continue
        told = folders.read_about(other)
        named = all(folders.path_part(told[k]) == folders.path_part(about[k]) for k in ("federation", "site"))
        if named or mine.same_rows(_marks_at(other)):
            for one in (other, *folders.kin_of(other)):
                if one != home:
                    _make_kin(home, one)


def _make_kin(state: Path, other: Path) -> None:
    """Each counts at the other from now on, and for ever: rows that change later do not part them."""
    below = folders.root_of(state) == folders.root_of(other)
    for one, name in ((state, other), (other, state)):
        line = name.relative_to(folders.root_of(name)).as_posix() if below else str(name)
        path = one / folders.KIN
        if not path.exists() or line not in path.read_text().splitlines():
            with readable_errors(path), path.open("a") as file:
                file.write(line + "\n")


def _link_kit(kit: Kit, home: Path) -> None:
    """KIT/state leads to the state, for people. A kit that cannot be written does without; one that leads to
    state below another root still does.
    """
    link = kit.folder / folders.STATE
    with contextlib.suppress(OSError):
        if link.is_symlink() and not (link / folders.ABOUT).exists():
            link.unlink()  # to what is not there any more
        if not link.is_symlink():
            if link.is_dir():
                (link / locks.NAME).unlink(missing_ok=True)
                link.rmdir()
            link.symlink_to(home, target_is_directory=True)


def marks_in(x: Array, key: bytes) -> Iterator[int]:
    """Of each row, by its values in order of size."""
    flat = np.asarray(x).reshape(len(x), -1)
    for first in range(0, len(flat), _AT_ONCE):
        rows = flat[first : first + _AT_ONCE]
        if rows.dtype.hasobject:
            told = ["\0".join(sorted(map(repr, row))).encode() for row in rows.tolist()]
        else:
            some = np.sort(rows, axis=1)
            if some.dtype.kind == "f":  # unknown values are all alike, and so are both zeros
                some = np.where(np.isnan(some), np.nan, some + 0.0)
            told = [row.tobytes() for row in np.ascontiguousarray(some)]
        for row in told:
            yield int.from_bytes(hashlib.blake2b(row, digest_size=8, key=key).digest(), "little")
