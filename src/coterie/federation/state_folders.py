"""Where state of sites lies: below one root, in a folder for each site, whatever kit it comes with.

    ROOT/FEDERATION-xxxxxxxx/SITE    xxxxxxxx tells the authorities of two federations of one name apart
    KIT/state                        leads there

The root is --state, else COTERIE_STATE, else a folder of the user's own. `kin.txt` of a site's folder names
others that count there too, as FEDERATION-xxxxxxxx/SITE, or in full below another root: those of the same
rows under another name (`site_state.py`). What is spent there is spent here, a no there is a no here, and
days' counts are of all together. Two processes may be at work with two of them: who spends looks first, while
nobody else does.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from coterie.core.errors import BadRun
from coterie.storage.atomic import readable_errors
from coterie.storage.locks import locked
from coterie.storage.paths import given_path, state_folder
from coterie.storage.toml import read_given

STATE, ROOT = "state", "COTERIE_STATE"
KIN, ABOUT, KEY = "kin.txt", "site.json", "marks.key"
TEXTS, LISTS = ("federation", "site", "since"), ("digests", "files")
LONGEST = 30.0  # seconds for another process to be done with a line
SOON = 0.001  # seconds after which most are


def root_folder(given: str = "") -> Path:
    """The root that is given, that of the environment, or the usual one."""
    if text := given or os.environ.get(ROOT, ""):
        return given_path(text, "state" if given else ROOT).resolve()
    return (state_folder() / "sites").resolve()


def home_in(root: Path, kit: Path) -> Path:
    """The folder of the site whose kit this is. Names may come from anybody, and are only part of a path."""
    table, ca = read_given(kit / "kit.toml"), kit / "ca.crt"
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
        if all(isinstance(told[k], str) for k in TEXTS) and all(isinstance(told[k], list) for k in LISTS):
            return dict(told)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    raise BadRun(f"{state / ABOUT} is damaged: bring it back from a copy, or remove {state} to begin anew")


def root_of(state: Path) -> Path:
    return state.parent.parent


def marks_key(state: Path) -> Path:
    """Of the key that makes marks of rows, the same for all sites below a root; a folder by itself has its
    own.
    """
    state = state.resolve()
    return (root_of(state) if (state / ABOUT).exists() else state) / KEY


def kin_of(state: Path) -> list[Path]:
    """The other folders that count at this one; those that a person has removed do not."""
    if not (state / KIN).exists():
        return []
    state = state.resolve()  # it may be reached by the kit
    return [folder for line in _lines(state / KIN) if (folder := root_of(state) / line).is_dir()]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def make_kin(state: Path, other: Path) -> None:
    """Each counts at the other from now on, and for ever: rows that change later do not part them."""
    below = root_of(state) == root_of(other)
    for one, name in ((state, other), (other, state)):
        line = name.relative_to(root_of(name)).as_posix() if below else str(name)
        if line not in _lines(one / KIN):
            with readable_errors(one / KIN), (one / KIN).open("a") as file:
                file.write(line + "\n")


@contextlib.contextmanager
def one_at_a_time(state: Path) -> Iterator[None]:
    """Nobody else who keeps state below the same roots does this meanwhile."""
    if not (state / ABOUT).exists():  # a folder by itself, which no root knows of
        yield
        return
    roots = {root_of(folder) for folder in (state.resolve(), *kin_of(state))}
    with contextlib.ExitStack() as held:
        for root in sorted(roots):  # in one order, so that two never wait for each other
            held.enter_context(_waited_for(root))
        yield


def _waited_for(root: Path) -> IO[str]:
    end = time.monotonic() + LONGEST
    while True:
        try:
            return locked(root, SOON)
        except BadRun:
            if time.monotonic() > end:
                raise BadRun(
                    f"{root} is in use by another process for {LONGEST:g} s: end that first"
                ) from None
