"""What `coterie federation rehearse` does: a run over real processes, in which all kinds of things go wrong.

    a cable is cut for less than the patience, then for longer; a site, the relay and the driver are killed

The same run is played once without a network and without mishaps. As long as nobody was away, the
numbers must be the same to the last bit; once somebody was, figures may differ a little from there on.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from coterie.core.errors import BadRun, CoterieError, lines_of
from coterie.federation.demo.running import NotSeen, Running, left_behind, look
from coterie.federation.demo.ward import Study, Ward, command, place_for, study
from coterie.storage.atomic import write_whole

METHOD, ROUNDS, EPOCHS = "pens", 40, 25  # so many epochs that a round takes a part of a second
_WORK = ["run", "--method", METHOD, "--rounds", str(ROUNDS), "--sgd.epochs", str(EPOCHS), "--engine", "loop"]
_PATIENCE = 12.0  # more than a killed site needs to come back
_SHORT = 5.0  # seconds without a cable that nobody is to notice
_NOTICE = 1.0  # seconds for the run to notice that a site is gone
_LONGEST = 180.0  # seconds until something that must happen has happened
_POINTS = 0.02  # accuracy by which a run may differ in which somebody was away
_TICK = 0.05
Say = Callable[[str], None]
Line = Mapping[str, Any]


def rehearse(folder: Path, times: int, say: Say) -> bool:
    """Whether all went as it must, every time."""
    data, begun = study(say), time.monotonic()
    undisturbed = _alone(folder / "undisturbed", data)
    say(f"the same run without a network, to compare with: {time.monotonic() - begun:.1f} s")
    passed = 0
    for turn in range(1, times + 1):
        begun, before = time.monotonic(), look()
        wrong = _one_pass(folder / f"pass-{turn}", data, undisturbed, bool(turn % 2), say)
        wrong += [f"left behind: {line}" for line in left_behind(before)]
        for line in wrong:
            say(f"  failed: {line}")
        passed += not wrong
        say(f"pass {turn} of {times}: {'failed' if wrong else 'passed'}, {time.monotonic() - begun:.1f} s")
    say("passed" if passed == times else f"failed: {times - passed} of {times}")
    return passed == times


def _alone(folder: Path, data: Study) -> list[Line]:
    """What is recorded of the run when nothing can go wrong, as there is no network."""
    for site in data.sites:
        write_whole(folder / f"{site}.csv", data.table(site))
    write_whole(folder / "recipe.toml", data.recipe({site: f"{site}.csv" for site in data.sites}))
    words = [*_WORK, "--recipe", str(folder / "recipe.toml"), "--out", str(folder / "run")]
    with place_for(data, folder, hosts=False) as place:
        running = place.run("lead", command(*words), log=folder / "output.log")
        if code := running.wait(_LONGEST):
            raise BadRun(f"the run without a network ended with {code}: see {running.log}")
    return _lines_in(folder / "run")


def _one_pass(folder: Path, data: Study, undisturbed: Sequence[Line], long: bool, say: Say) -> list[str]:
    """What was not as it must be; `long` with a cut that outlasts the patience."""
    try:
        with place_for(data, folder, hosts=True) as place:
            ward = Ward(place, folder, data)
            ward.found()
            mishaps = _Mishaps(ward, say)
            try:
                mishaps.all(long)
            except NotSeen as error:
                codes = {party: running.returncode for party, running in ward.processes.items()}
                gone = [f"{party} has ended with {code}" for party, code in codes.items() if code is not None]
                return [str(error).partition("\n")[0], *gone]
    except CoterieError as error:
        return lines_of(error)
    return [*record_faults(_lines_in(mishaps.run), undisturbed, say), *_model_faults(ward)]


class _Mishaps:
    """Everything that happens in one pass, each thing as soon as the run has come to some round."""

    def __init__(self, ward: Ward, say: Say) -> None:
        self.ward, self.begun = ward, time.monotonic()
        self.run = ward.home("lead") / "run"
        self.told = say

    def say(self, line: str) -> None:
        self.told(f"  {time.monotonic() - self.begun:5.1f} s  {line}")

    def all(self, long: bool) -> None:
        ward, (first, second, third, *_) = self.ward, self.ward.study.sites
        ward.start_all()
        self.say("relay and sites are connected")
        self.drive([*ward.led(_WORK), "--federation.patience", str(_PATIENCE), "--out", str(self.run)])
        at = self.after(2)
        ward.place.cut(first)
        time.sleep(_SHORT)
        ward.place.heal(first)
        self.say(f"round {at}: the cable of {first} was cut for {_SHORT:g} s")
        at = self.after(4)
        ward.processes["coordinator"].kill()
        ward.start("coordinator")
        ward.ready("coordinator")
        self.say(f"round {at}: the relay was killed, and is started again")
        at = self.after(4)
        self.driver.kill()
        self.drive(["resume", str(self.run)])
        self.say(f"round {at}: the driver was killed, and the run is resumed")
        at = self.after(6)
        ward.processes[second].kill()
        time.sleep(_NOTICE)
        with self.standing():
            ward.start(second)
            ward.ready(second)
        self.say(f"round {at}: {second} was killed, and is started and connected again")
        if long:
            self.cut_for_long(third)
        if code := self.driver.wait(_LONGEST):
            raise NotSeen(f"the driver ended with {code}: see {self.driver.log}")
        self.say("the run is over")

    def drive(self, words: Sequence[str]) -> None:
        log = self.ward.home("lead") / "output.log"
        self.driver: Running = self.ward.place.run("lead", command(*words), log=log)

    def cut_for_long(self, site: str) -> None:
        at, begun = self.after(4), time.monotonic()
        relay = self.ward.processes["coordinator"]
        self.ward.place.cut(site)
        gone = self.until(lambda line: site in line.get("away", {}), f"a round without {site}")
        with self.standing():
            seen = len(relay.lines)
            self.ward.place.heal(site)
            seconds = time.monotonic() - begun
            relay.wait_for(f"{site} (site) is here", _LONGEST, seen)
        self.say(f"round {at}: the cable of {site} was cut for {seconds:.1f} s; round {gone} went without it")
        back = self.until(lambda line: line["round"] > gone and not line.get("away"), f"{site} again")
        self.say(f"round {back}: {site} is back")

    @contextlib.contextmanager
    def standing(self) -> Iterator[None]:
        """The driver stands still: on a fast machine the run would be over before a site is back."""
        self.driver.freeze()
        try:
            yield
        finally:
            self.driver.thaw()

    def after(self, rounds: int) -> int:
        """The round that the run is in, so many after that of now."""
        now = max((line["round"] for line in _lines_in(self.run)), default=0)
        return self.until(lambda line: line["round"] >= now + rounds, f"round {now + rounds}")

    def until(self, seen: Callable[[Line], bool], what: str) -> int:
        """The first round whose line in the record is such."""
        end = time.monotonic() + _LONGEST
        while True:
            over = self.driver.returncode
            for line in _lines_in(self.run):
                if seen(line):
                    return int(line["round"])
            if over is not None or time.monotonic() > end:
                why = f"the driver ended with {over}" if over is not None else f"within {_LONGEST:g} s"
                raise NotSeen(f"there was not {what} ({why}): see {self.driver.log}")
            time.sleep(_TICK)


def _lines_in(run: Path) -> list[Line]:
    """The record of a run, without a line that is just being written."""
    path = run / "metrics.jsonl"
    whole = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
    return [json.loads(line) for line in whole]


def record_faults(lines: Sequence[Line], undisturbed: Sequence[Line], say: Say) -> list[str]:
    rounds = [line["round"] for line in lines]
    if rounds != list(range(ROUNDS + 1)):
        return [f"rounds 0 to {ROUNDS} must be recorded once each: found {rounds}"]
    away = [line["round"] for line in lines if line.get("away")]
    alike = away[0] if away else ROUNDS + 1
    differ = [r for r in range(alike) if _plain(lines[r]) != _plain(undisturbed[r])]
    wrong = [f"round {differ[0]} differs from the undisturbed run, and nobody was away yet"] if differ else []
    ours, theirs = _accuracy(lines[-1]), _accuracy(undisturbed[-1])
    if not abs(ours - theirs) <= _POINTS:  # nor if it is no number
        wrong += [f"accuracy {ours:.3f} is not within {_POINTS} of {theirs:.3f}, that of the undisturbed run"]
    said = f"somebody was away in rounds {away[0]} to {away[-1]}" if away else "nobody was away"
    same = alike - len(differ)
    say(f"  {said}; {same} rounds equal the undisturbed run; accuracy {ours:.3f}, there {theirs:.3f}")
    return wrong


def _plain(line: Line) -> dict[str, Any]:
    """What both record; some measures need all models in one place."""
    return {key: value for key, value in line.items() if key not in ("away", "measures")}


def _accuracy(line: Line) -> float:
    """The mean over sites; those of one that is away are not known."""
    found = [a for a in line["scores"]["own/test"]["accuracy"] if a is not None]
    return sum(found) / len(found) if found else math.nan


def _model_faults(ward: Ward) -> list[str]:
    """Every site has its model, of finite numbers."""
    wrong = []
    for site in ward.study.sites:
        path = ward.models(site) / METHOD / "weights.safetensors"
        if not path.exists():
            wrong.append(f"{site} has not got its model")
        elif not all(math.isfinite(array.sum()) for array in load_file(path).values()):
            wrong.append(f"the model of {site} is not finite")
    return wrong
