"""The `coterie` command: finds the subcommand, and turns errors into lines and an exit code.

Commands are found by looking: in the files of this folder, and in `command.py` of each feature and study. A
file says of itself which it has, among which others, at which place there, and what they do:

    COMMANDS = {"run": ("try", 20, "train with one method and write a run folder with a report")}

The function of a command has its name (`plan_privacy`), and its flags above it (`command.py`). This
dictionary is read as text, as to import every command takes seconds; a command is imported when it is called.

Exit codes:

0    done
1    a mistake of the program: one line that asks to report it
2    a mistake or a mishap that its lines explain
130  stopped by SIGINT (Ctrl-C) or SIGTERM; 141 nobody reads on

A traceback is shown with --debug alone.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
import traceback
from ast import literal_eval
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import coterie
from coterie.core.clock import CLOCK
from coterie.core.errors import (
    BadInput,
    CoterieError,
    UnknownName,
    flag_of,
    lines_of,
    shown,
    spelled_for_shell,
    with_flags,
)

if TYPE_CHECKING:
    from coterie.cli.command import Command


NETWORK = ("cryptography", "msgspec", "zstandard")  # of the extra coterie[network]
GROUPS = {
    "try": "Try it",
    "study": "Study methods",
    "tables": "Look at tables of your own",
    "partners": "Train with partners",
    "after": "After a run",
    "privacy": "Privacy and proof",
}
"""What people want, in the order in which a newcomer meets it."""


class _Entry(NamedTuple):
    """What `coterie --help` says of a command, and where it is."""

    group: str
    place: int
    about: str
    module: str


def _found() -> Mapping[str, _Entry]:
    """All there are, in the order of their groups and places. What files say of their commands is read."""
    here, found = Path(__file__).parent, dict[str, _Entry]()
    rooms = [path for room in ("features", "studies") for path in (here.parent / room).rglob("command.py")]
    for path in (*here.glob("*.py"), *rooms):
        module = ".".join(("coterie", *path.relative_to(here.parent).with_suffix("").parts))
        _, sign, rest = path.read_text("utf-8").partition("\nCOMMANDS = {")
        declared: dict[str, tuple[str, int, str]] = (
            literal_eval("{" + rest[: rest.index("}\n")] + "}") if sign else {}
        )
        found |= {name: _Entry(*said, module) for name, said in declared.items()}
    order = {group: number for number, group in enumerate(GROUPS)}
    return dict(sorted(found.items(), key=lambda one: (order[one[1].group], one[1].place, one[0])))


COMMANDS = _found()

ALIASES = {"coordinate": "relay"}
"""Names that commands had before, which still work and say the new one."""


def load(name: str) -> Command:
    """The function of a command.

    What is loaded stays to the end. To look through it for garbage takes a tenth of a second, several times
    while it is loaded and every so often in a run: Python is told not to.
    """
    module = COMMANDS[name].module
    if module not in sys.modules:
        gc.disable()
        try:
            importlib.import_module(module)
        finally:
            gc.freeze()
            gc.enable()
    command: Command = getattr(sys.modules[module], name.replace("-", "_"))
    return command


HELP = """coterie {version}: with whom should each site learn? A model for each, and rows stay at home

usage: coterie COMMAND [--help] [-v] [--debug] ...

examples:
  coterie demo                                    with whom to train, asked on real data
  coterie run --data digits                       train, and write a folder with a report
  coterie table inspect a.csv b.csv --target ill  look at tables of your own, for recipe.toml
  coterie advise --recipe recipe.toml             whom each should train with, and why
  coterie page                                    what came out, in a browser
{commands}
-v tells more, such as which engine was chosen and why; --debug shows where an error came from.

Python: import coterie; coterie.train(model, clients, method="fedavg")
"""
COMMON = {
    name: flag_of(name)
    for name in ("clients", "kernel", "net", "rounds", "rows", "seed", "test", "validation")
} | {"freeze": flag_of("freeze", "features")}
"""Settings that messages of every room name as Python does, validation=0.2, and their flags."""
STOPPED: list[int] = []  # signals that asked this command to stop
NO_MEMORY = "can't allocate memory"  # torch's words, in an error of no kind of its own


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    debug = "--debug" in words
    if "-v" in words:
        logging.basicConfig(level=logging.INFO, format="· %(message)s", force=True)
    STOPPED.clear()
    signal.signal(signal.SIGTERM, _stop)
    try:
        with spelled_for_shell():
            code = _dispatch([w for w in words if w not in ("-v", "--debug")])
        sys.stdout.flush()  # while a reader that went away can still be told from a mishap
        return code
    except KeyboardInterrupt as stop:
        _say(str(stop) or "stopped")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if debug:
            traceback.print_exc()
        if STOPPED:  # a library made another error of it
            _say("stopped")
            return 130
        lines, code = _told(error)
        _say(*lines)
        return code


def _told(error: Exception) -> tuple[list[str], int]:
    """What the person at the keyboard reads of an error, and the exit code."""
    if isinstance(error, CoterieError):
        return [with_flags(line, COMMON) for line in lines_of(error)], 2
    if isinstance(error, MemoryError) or NO_MEMORY in str(error):
        return ["not enough memory: take a smaller model, fewer clients or fewer rows"], 2
    if isinstance(error, OSError) and error.filename is not None:
        return [f"cannot use {shown(str(error.filename))}: {error.strerror}: check the path"], 2
    if (
        isinstance(error, ModuleNotFoundError)
        and (package := (error.name or "").partition(".")[0]) in NETWORK
    ):
        return [f"a federation needs the package {package}: pip install 'coterie[network]'"], 2
    said = f"unexpected {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return [f"{said.rstrip(': ')}: please report it; --debug shows where"], 1


def entry() -> None:
    """The shell's command. Everything is written when `main` is over, and torch takes long to leave.

    Shells start what runs in the background with SIGINT ignored; Python then leaves it ignored, and so do all
    children. A relay, a site or a long run is stopped by it all the same.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _dispatch(words: list[str]) -> int:
    for word in words:  # what no file of text can hold, and so no record: bytes that are not UTF-8, and NUL
        if "\0" in word or any("\ud800" <= c <= "\udfff" for c in word):
            said = f"argument {shown(word)} is not text in UTF-8"
            raise BadInput(f"{said}: rename the file, or write another word")
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP.format(version=coterie.__version__, commands=_by_group()), end="")
        return 0
    if words[0] in ("--version", "-V"):
        print(coterie.__version__)
        return 0
    if words[0] in ALIASES:
        _say(f"coterie {words[0]} is called coterie {ALIASES[words[0]]} now; both do the same")
        words = [ALIASES[words[0]], *words[1:]]
    if words[0] not in COMMANDS:
        raise UnknownName("command", words[0], COMMANDS)
    try:
        with CLOCK.part("start-up"):
            command = load(words[0])
        return command(words[1:])
    except SystemExit as stop:  # tyro's --help
        return int(stop.code or 0)


def _by_group() -> str:
    """A line for each command, below what people want of it."""
    wide, groups = max(map(len, COMMANDS)) + 2, dict[str, list[str]]()
    for name, entry in COMMANDS.items():
        groups.setdefault(entry.group, []).append(f"  {name:<{wide}}{entry.about}")
    return "".join("\n".join(["", f"{GROUPS[group]}:", *lines, ""]) for group, lines in groups.items())


def _say(*lines: str) -> None:
    for line in lines:
        print(f"coterie: {line}", file=sys.stderr)


def _stop(number: int, frame: object) -> NoReturn:
    STOPPED.append(number)
    raise KeyboardInterrupt


if __name__ == "__main__":
    entry()
