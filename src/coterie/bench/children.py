"""Commands in processes of their own: timed from start to end, and never left behind."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from coterie.core.errors import CoterieError

SCRIPTS = Path(__file__).parent / "scripts"
BURNS = 900  # seconds after which a process that only burns a core gives up by itself


def timed(
    name: str, words: Sequence[str], folder: Path, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds of a command in a fresh process; what it says is kept in the folder."""
    said = folder / "stderr.txt"
    with (folder / "stdout.txt").open("wb") as out, said.open("wb") as errors:
        begin = clock()
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        with ended([child]):
            code = child.wait()
        took = clock() - begin
    if code:
        lines = said.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        raise CoterieError(f"{name} ended with code {code}: {lines[-1].strip()}")
    return took


@contextlib.contextmanager
def busy(cores: int) -> Iterator[None]:
    """So many processes beside what is done here, each of which keeps a core busy."""
    words = [sys.executable, str(SCRIPTS / "burn.py"), str(BURNS)]
    children: list[subprocess.Popen[bytes]] = []
    with ended(children):
        for _ in range(cores):
            children.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        yield


@contextlib.contextmanager
def ended(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """None of them is running or unwaited for afterwards, also after Ctrl-C."""
    try:
        yield
    finally:
        for child in children:
            child.kill()  # does nothing to one that has ended
        for child in children:
            child.wait()
