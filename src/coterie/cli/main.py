"""The `coterie` command: finds the subcommand, and turns errors into one line and an exit code."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import coterie
from coterie.cli.commands import COMMANDS, load
from coterie.core.clock import CLOCK
from coterie.core.errors import CoterieError, UnknownName

HELP = """coterie {version}: personalised collaborative learning

usage: coterie COMMAND [--help] [-v] ...

{commands}
-v tells more, such as which engine was chosen and why.

examples:
  coterie demo
  coterie run --data digits
  coterie compare --data titanic --methods local fedavg finetune --seeds 3
  coterie data show heart-disease
  coterie resume runs/digits-shift-fedavg-seed0

Python: import coterie; coterie.train(model, clients, method="fedavg")
"""


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    if "-v" in words:
        words.remove("-v")
        logging.basicConfig(level=logging.INFO, format="· %(message)s", force=True)
    signal.signal(signal.SIGTERM, _stop)
    try:
        code = _dispatch(words)
        sys.stdout.flush()  # while a reader that went away can still be told from a mishap
        return code
    except CoterieError as error:
        print(f"coterie: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        said = str(stop) or "stopped"
        print(f"coterie: {said}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def entry() -> None:
    """The shell's command. Everything is written when `main` is over, and torch takes long to leave."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        lines = "".join(f"  {name:<12}{about}\n" for name, about in COMMANDS.items())
        print(HELP.format(version=coterie.__version__, commands=lines), end="")
        return 0
    if words[0] in ("--version", "-V"):
        print(coterie.__version__)
        return 0
    if words[0] not in COMMANDS:
        raise UnknownName("command", words[0], COMMANDS)
    try:
        with CLOCK.part("start-up"):
            command = load(words[0])
        return command(words[1:])
    except SystemExit as stop:  # tyro's --help
        return int(stop.code or 0)


def _stop(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    entry()
