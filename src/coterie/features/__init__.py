"""What a run has besides its rounds: energy, budgets, privacy, ownership, ... Each is a folder here.

Nothing outside this package names one of them. A folder brings what it needs, in files with these names:

    hook.py      `HOOK`, what it does before, around and after rounds (`runs/hooks.py`)
    wrapper.py   a wrapper of the net, or several: importing it registers them (`core/net.py`)
    record.py    what it keeps of a run, `KEPT`, and makes of its record, `VIEWS`, by name (`runs/record.py`);
                 where that is little it stands in hook.py
    shown.py     its parts of the report, of what is said on a screen, of figures on paper: `PARTS`, each a
                 maker of blocks (`show/parts.py`); what it says is in words.toml, in three languages.
                 `COLUMNS` of the summary, by name, and `FRAMES` that are written as CSV, by the file's name
    resume.py    a folder that is no run, known by the `FILE` in it: `resume` goes on with it, and `report`
                 tells it again, or is None
    option.py    an option of `run` and `compare`, `OPTION`, and what is then `around` each run (`cli/run.py`)
    command.py   its commands in the shell: `COMMANDS`, which `cli/main.py` reads without importing it

A folder that is not there is left out, and the program works without it. So is one that stands on another
that is not there.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

PARTS = ("hook", "wrapper", "record", "shown", "resume", "option", "command")
TABLES = {
    "KEPT": ("hook", "record"),
    "VIEWS": ("hook", "record"),
    "COLUMNS": ("shown",),
    "FRAMES": ("shown",),
}
"""In which files a feature may have them."""


@functools.cache
def names() -> tuple[str, ...]:
    """The features that are there, in the order of their names."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules(__path__) if found.ispkg))


@functools.cache
def brought(part: str) -> tuple[ModuleType, ...]:
    """The files of that name (`PARTS`), of all features that have one."""
    return tuple(module for name in names() if (module := _loaded(name, part)) is not None)


def entries(table: str) -> dict[str, Any]:
    """What all features have in one of `TABLES`."""
    modules = [module for part in TABLES[table] for module in brought(part)]
    return {name: entry for module in modules for name, entry in vars(module).get(table, {}).items()}


def _loaded(name: str, part: str) -> ModuleType | None:
    """None where that file, or another feature that it stands on, is not there. Whatever else an import lacks
    is a mistake: a feature that is there must not be left out in silence.
    """
    own = f"{__name__}.{name}.{part}"
    try:
        return importlib.import_module(own)
    except ModuleNotFoundError as error:
        package, _, rest = (error.name or "").partition(f"{__name__}.")
        away = not package and rest.split(".")[0] not in (*names(), "")
        if error.name == own or away:
            return None
        raise
