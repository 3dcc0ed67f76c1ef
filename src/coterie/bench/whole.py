"""Whole commands, from start to end as a user waits for them, beside what the same would take otherwise.

The two sides take turns, each in a fresh process, start-up included. Beside a study stands a script in plain
PyTorch that does the same study (`scripts/plain_*.py`) on the same rows, which it gets prepared; beside the
other commands stands what they cannot do without.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from coterie.bench import handed
from coterie.bench.children import SCRIPTS, busy, timed
from coterie.bench.measure import Watch
from coterie.kernels import SGD
from coterie.runs.compare import Comparison
from coterie.runs.settings import Settings

FOUR = ("local", "fedavg", "finetune", "central")
NINE = (
    "local", "fedavg", "finetune", "weight-erosion", "pens", "ndoye", "influence", "fl-swag", "central",
)  # fmt: skip
OURS = (sys.executable, "-m", "coterie")

Side = Callable[[Path], float]
"""Seconds of one of the two, which may write into this empty folder."""


@dataclass(frozen=True)
class Target:
    """What ours may take: this share of the other's seconds and so many more, and never more than `most`."""

    share: float
    more: float = 0.0
    most: float = math.inf

    def met(self, ours: float, other: float) -> bool:
        return ours <= min(self.share * other + self.more, self.most)

    def __str__(self) -> str:
        fast, slow = f"at least {1 / self.share:g} times as fast", f"at most {self.share:g} x its seconds"
        words = fast if self.share < 1 else slow
        words += f" + {self.more:g}" if self.more else ""
        return words + (f", at most {self.most:g} s" if self.most < math.inf else "")


@dataclass(frozen=True)
class Study:
    """A comparison, and the plain script that makes it too."""

    comparison: Comparison
    script: str

    def ours(self) -> list[str]:
        methods, seeds = self.comparison.methods, str(self.comparison.seeds)
        return [*OURS, "compare", *flags(self.comparison.settings), "--methods", *methods, "--seeds", seeds]

    def plain(self, data: Path) -> list[str]:
        settings = self.comparison.settings
        lr = settings.options.get("sgd", {}).get("lr", SGD().lr)
        given = {"data": data, "seeds": self.comparison.seeds, "rounds": settings.rounds, "lr": lr}
        script = [sys.executable, str(SCRIPTS / self.script)]
        return [*script, *(word for name, value in given.items() for word in (f"--{name}", str(value)))]

    def small(self) -> Study:
        """One seed, two rounds; one of them is fine-tuning's own."""
        settings = self.comparison.settings
        options = {**settings.options, "finetune": {"tune": 1}}
        few = replace(settings, rounds=2, options=options)
        return replace(self, comparison=replace(self.comparison, settings=few, seeds=1))


@dataclass(frozen=True)
class Whole:
    """A workload: `ready` writes what both sides need into a folder, small if so told, and makes the two."""

    name: str
    about: str
    beside: str
    target: Target
    ready: Callable[[Path, bool], tuple[Side, Side]]
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Row:
    """Seconds of ours and of what stands beside it; ratios are the other's over ours. Met by the medians."""

    workload: str
    beside: str
    repeats: int
    ours_best: float
    ours_median: float
    other_best: float
    other_median: float
    ratio_best: float
    ratio_median: float
    target: str
    met: bool


def flags(settings: Settings) -> list[str]:
    """The words of a command line that mean these settings."""
    words = []
    for f in fields(Settings):
        value = getattr(settings, f.name)
        if f.name == "options" or value == f.default or f.name == "features":
            continue
        words += [f"--{f.name}", *(value if isinstance(value, tuple) else [str(value)])]
    for part, table in settings.options.items():
        for option, value in table.items():
            words += [f"--{part}.{option}", str(value)]
    return words


def command(name: str, words: Sequence[str], *last: str) -> Side:
    """A command that is told where to write by its last words, in which {} is the folder."""
    return lambda folder: timed(name, [*words, *(w.format(folder) for w in last)], folder)


def beside_plain(name: str, about: str, target: Target) -> Whole:
    """A study beside its plain script."""
    study = STUDIES[name]

    def ready(folder: Path, quick: bool) -> tuple[Side, Side]:
        chosen, data = study.small() if quick else study, folder / f"{name.removeprefix('study-')}.npz"
        handed.write_clients(data, chosen.comparison)
        ours = command(f"{name}, ours", chosen.ours(), "--out", "{}/study")
        return ours, command(f"{name}, plain", chosen.plain(data), "{}/scores.csv")

    source = study.comparison.settings
    return Whole(name, about, "plain script", target, ready, lambda: handed.check_at_hand(name, source))


def first_run(folder: Path, quick: bool) -> tuple[Side, Side]:
    ours = [*OURS, "run", "--data", "digits", "--rounds", "1"]
    return (
        command("first-run, ours", ours, "--out", "{}/run"),
        command("first-run, torch", [sys.executable, "-c", "import torch"]),
    )


def many(folder: Path, quick: bool) -> tuple[Side, Side]:
    """Beside it: the same rounds on the engine, with no evaluation, no folder and no report."""
    clients, rounds, data = 20 if quick else 1000, 2 if quick else 10, folder / "pictures.npz"
    handed.write_pictures(data, train=50 * clients, test=10 * clients)
    settings = Settings(
        data="pictures",
        split="iid",
        clients=clients,
        model="logistic",
        kernel="sgd",
        rounds=rounds,
        plugins=(str(SCRIPTS / "pictures.py"),),
        options={"pictures": {"path": str(data)}},
    )
    bare = [sys.executable, str(SCRIPTS / "bare_many.py"), str(data), str(clients), str(rounds)]
    ours = command("many, ours", [*OURS, "run", *flags(settings)], "--out", "{}/run")
    return ours, command("many, bare", bare)


def beside_others(folder: Path, quick: bool) -> tuple[Side, Side]:
    study = STUDIES["study-titanic"]
    alone = command("busy, ours", (study.small() if quick else study).ours(), "--out", "{}/study")

    def crowded(folder: Path) -> float:
        with busy(os.cpu_count() or 1):
            return alone(folder)

    return crowded, alone


# the thesis' step 1, which the plain script has too
PENS = {"rounds_step1": 20, "sampled": 3, "direction": "mine-on-theirs"}
# and rankings without a bar, as in the papers
BARE = {"bar": "none"}
AS_IN_PLAIN: dict[str, dict[str, Any]] = {"pens": PENS, "ndoye": BARE, "influence": BARE}

STUDIES = {
    "study-titanic": Study(Comparison(Settings(data="titanic", kernel="sgd"), FOUR, 5), "plain_titanic.py"),
    "study-hospitals": Study(
        Comparison(Settings(data="heart-disease", kernel="sgd", options=AS_IN_PLAIN), NINE, 3),
        "plain_hospitals.py",
    ),
    "study-digits": Study(
        Comparison(
            Settings(
                data="digits",
                split="shift",
                clients=10,
                options={"shift": {"distribution": "F"}, "sgd": {"lr": 0.5}},
            ),
            FOUR,
            5,
        ),
        "plain_digits.py",
    ),
}

WHOLES = {
    w.name: w
    for w in (
        beside_plain(
            "study-titanic",
            "compare on Titanic, 4 clients, 4 methods, 5 seeds, 30 rounds, with folder and report",
            Target(1 / 3),
        ),
        beside_plain(
            "study-hospitals",
            "compare on heart disease, 4 hospitals, 9 methods, 3 seeds, 30 rounds",
            Target(1 / 3, most=25),
        ),
        beside_plain(
            "study-digits",
            "compare on digits, 10 clients of shifted labels, 4 methods, 5 seeds, 30 rounds",
            Target(1 / 3),
        ),
        Whole(
            "first-run",
            "run on digits, 1 round",
            "import torch",
            Target(1.5, more=0.5),
            first_run,
        ),
        Whole(
            "many",
            "run of 1,000 clients x 50 pictures, linear 784-10, FedAvg, 10 rounds, with folder and report",
            "bare training",
            Target(2),
            many,
        ),
        Whole(
            "busy",
            "study-titanic beside a busy process for each core",
            "the same alone",
            Target(3),
            beside_others,
        ),
    )
}


def measure_whole(
    workload: Whole, repeats: int, quick: bool, out: Path | None = None, watch: Watch = lambda side: None
) -> Row:
    """Ours, the other, ours, the other, ...; what they write stays in `out`, or is removed."""
    seconds: dict[str, list[float]] = {"ours": [], workload.beside: []}
    with room(out) as folder:
        sides = dict(zip(seconds, workload.ready(folder, quick), strict=True))
        for i in range(1, repeats + 1):
            for name, side in sides.items():
                mine = folder / f"{name.replace(' ', '-')}-{i}"
                mine.mkdir()
                seconds[name].append(side(mine))
                if out is None:
                    shutil.rmtree(mine)
                watch(name)
    return row_of(workload, seconds["ours"], seconds[workload.beside])


def row_of(workload: Whole, ours: Sequence[float], other: Sequence[float]) -> Row:
    best, median = (min(ours), min(other)), (statistics.median(ours), statistics.median(other))
    return Row(
        workload=workload.name,
        beside=workload.beside,
        repeats=len(ours),
        ours_best=best[0],
        ours_median=median[0],
        other_best=best[1],
        other_median=median[1],
        ratio_best=best[1] / best[0],
        ratio_median=median[1] / median[0],
        target=str(workload.target),
        met=workload.target.met(*median),
    )


@contextlib.contextmanager
def room(out: Path | None) -> Iterator[Path]:
    """That folder, new; or one that is removed afterwards."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="coterie-bench-") as name:
            yield Path(name)
    else:
        out.mkdir(parents=True)
        yield out.absolute()
