"""Who asked what of a site, what came of it and what it took: asked.jsonl and energy.jsonl of its folder.

The first is in words that a person there can read. The second has CPU seconds of the site's process, by run:
they tell how fast a hospital's machine is and what it does beside, so they stay with the site, and nobody is
sent them. A line is added when a round is kept, and when a run ends; a kill loses those of one round.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import BadRun, shown
from coterie.federation.site.state_folders import STATE_FILES
from coterie.nets.courier import said
from coterie.storage.atomic import append_line

_ASKED = "asked.jsonl"
_LARGEST = 64 << 20  # bytes of it, before a new one is begun
_LONGEST = 8_000  # letters of an outcome
_LONG = 200  # letters of a list
_FEW = 12  # names that are listed
Message = Mapping[str, Any]
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
ENERGY = "energy.jsonl"


def _ledger(message: Message) -> str:
    first, many = int(message["first"]), len(message["entries"])
    signs = [f"sign entries {first} to {first + many - 1} of the run's ledger"] if many else []
    return " and ".join([*signs, *["keep what it is shown of the run"] * ("shown" in message)])


_GIVEN = {"open": "to be looked at", "mix": "to be mixed"}
_WORDS: dict[str, str | Callable[[Message], str]] = {
    "hello": "what its rows are, and what it takes part in",
    "deal": "set rows aside for testing",
    "sums": "counts, means and deviations of columns, for a scale that sites share",
    "fit": "make inputs of its rows",
    "check": "quantiles of columns, and how often a check of its data found what",
    "fold": "how many rows a fold of a tuning leaves",
    "finish": "keep the model that the run ends with here",
    "end": "forget the run",
    "cancel": "end what it is computing",
    "left-out": "to do nothing",
    "ping": "whether it is there",
    "rows": "all of its rows",
    "unseal": "take a sum of sealed models",
    "begin": lambda m: "begin a run: {model}, {rounds} rounds, {sites} sites".format(**m["work"]),
    "visit": lambda m: (
        f"{said(m['kernel'])[:_LONG]} on {len(m['rows'])} model(s), round {int(m['key']['round'])}"
    ),
    "ledger": _ledger,
    "give": lambda m: f"give {len(m['rows'])} model(s), {_GIVEN.get(str(m['why']), 'for others')}",
    "keep": lambda m: f"write round {int(m['store'])} down" if "store" in m else "drop what is over",
    "letters": lambda m: f"send models to {', '.join(str(o['to']) for o in m['orders'])[:_LONG]}",
    "offer": lambda m: f"whether it stays in {len(m['sums'])} {'circle' if m['circle'] else 'sum'}(s)",
    "seal": lambda m: f"send {len(m['orders'])} sealed model(s) to two helpers",
    "mix": lambda m: f"sum {len(m['rows'])} model(s)",
    "distances": lambda m: f"how far {len(m['replies'])} models are apart",
    "copy": lambda m: f"keep {len(m['new'])} model(s)",
    "fetch": lambda m: f"go on after round {int(m['round'])}",
}


def words_for(message: Message) -> str:
    """What a message asks for."""
    what = str(message.get("do"))
    plain = shown(what)[1:-1] if what.isascii() else shown(what)
    try:
        words = _WORDS[what]
        return (words if isinstance(words, str) else words(message)) or plain
    except _UNREADABLE:
        return plain


def words_for_answer(message: Mapping[str, Any], answer: Mapping[str, Any], size: int) -> str:
    """What leaves with an answer of so many bytes of numbers; nothing where none do."""
    what = message.get("do")
    if "error" in answer or not size:
        return ""
    if what == "visit":
        names = [str(name) for name in answer.get("numbers", ())]
        return f"tells {', '.join(names)}" if len(names) <= _FEW else f"tells {len(names)} numbers"
    if what == "give":
        return f"sends {len(message['rows'])} model(s), {size:,} bytes"
    return f"sends {size:,} bytes ({shown(what)[1:-1]})"


class RequestLog:
    def __init__(self, state: Path, say: Callable[[str], None]) -> None:
        self.state, self.say = state, say
        self.mute = False  # whether people know that nothing can be written down

    def write(self, leader: str, message: Mapping[str, Any], outcome: str, does: str = "") -> None:
        """`does` is what a visit did, in words."""
        entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "by": leader}
        run = message.get("run")
        entry |= {"run": None if run is None else str(run)[:64], "asked": words_for(message)}
        entry["outcome"] = outcome if len(outcome) <= _LONGEST else f"{outcome[:_LONGEST]} ..."
        entry |= {"does": does} if does else {}
        try:
            path = self.state / _ASKED
            if path.exists() and path.stat().st_size > _LARGEST:
                path.replace(path.with_suffix(".old.jsonl"))
            with path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            self.mute = False
        except OSError as error:  # a full disk must not end the process
            if not self.mute:
                self.say(f"{_ASKED} cannot be written: {error.strerror}: free space")
            self.mute = True


# what it took


class CpuTime:
    """CPU seconds of this process for what runs ask of it."""

    def __init__(self, state: Path) -> None:
        self.path = state / ENERGY
        self.unwritten = defaultdict[tuple[str, str], float](float)  # by run and who leads it

    @contextlib.contextmanager
    def of(self, run: str, leader: str) -> Iterator[None]:
        """Inside, CPU seconds count for a run."""
        before = time.process_time()
        try:
            yield
        finally:
            self.unwritten[run, leader] += time.process_time() - before

    def write(self) -> None:
        """A line for each run that took any; a full disk leaves them for later."""
        for (run, leader), seconds in list(self.unwritten.items()):
            told = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "run": run, "by": leader}
            with contextlib.suppress(BadRun):
                append_line(self.path, {**told, "cpu_seconds": seconds})
                del self.unwritten[run, leader]


class _Spent(NamedTuple):
    """On one run: who led it, when it was last kept, and CPU seconds of this site."""

    by: str
    last: str
    cpu_seconds: float


def site_energy(state: Path) -> dict[str, _Spent]:
    """By run, in the order in which they began; nothing where no run was kept yet."""
    found = dict[str, _Spent]()
    for line in STATE_FILES.lines(state / ENERGY):
        if not {"time", "run", "by", "cpu_seconds"} <= line.keys():
            raise BadRun(f"{state / ENERGY} is damaged (a line lacks something): delete it to do without")
        run, before = str(line["run"]), found.get(str(line["run"]))
        seconds = float(line["cpu_seconds"]) + (before.cpu_seconds if before else 0.0)
        found[run] = _Spent(str(line["by"]), str(line["time"]), seconds)
    return found
