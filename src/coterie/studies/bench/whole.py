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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadInput, CoterieError
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.runs.builder import Builder
from coterie.runs.compare import Comparison
from coterie.runs.settings import Settings
from coterie.studies.bench.measure import Watch

SCRIPTS = Path(__file__).parent / "scripts"
BURNS = 900  # seconds after which a process that only burns a core gives up by itself
SIDE, CLASSES, SHADES = 28, 10, 256
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
class _Whole:
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


def _command(name: str, words: Sequence[str], *last: str) -> Side:
    """A command that is told where to write by its last words, in which {} is the folder."""
    return lambda folder: timed(name, [*words, *(w.format(folder) for w in last)], folder)


def _beside_plain(name: str, about: str, target: Target) -> _Whole:
    """A study beside its plain script."""
    study = STUDIES[name]

    def ready(folder: Path, quick: bool) -> tuple[Side, Side]:
        chosen, data = study.small() if quick else study, folder / f"{name.removeprefix('study-')}.npz"
        write_clients(data, chosen.comparison)
        ours = _command(f"{name}, ours", chosen.ours(), "--out", "{}/study")
        return ours, _command(f"{name}, plain", chosen.plain(data), "{}/scores.csv")

    def check() -> None:
        """A workload does not download: refused unless its data are there."""
        settings = study.comparison.settings
        if not settings.made("data").at_hand():
            raise BadInput(
                f"{name} needs data that is not at hand: coterie data fetch {settings.data}, or name other "
                "--workloads"
            )

    return _Whole(name, about, "plain script", target, ready, check)


def _first_run(folder: Path, quick: bool) -> tuple[Side, Side]:
    ours = [*OURS, "run", "--data", "digits", "--rounds", "1"]
    return (
        _command("first-run, ours", ours, "--out", "{}/run"),
        _command("first-run, torch", [sys.executable, "-c", "import torch"]),
    )


def _many(folder: Path, quick: bool) -> tuple[Side, Side]:
    """Beside it: the same rounds on the engine, with no evaluation, no folder and no report."""
    clients, rounds, data = 20 if quick else 1000, 2 if quick else 10, folder / "pictures.npz"
    write_pictures(data, train=50 * clients, test=10 * clients)
    settings = Settings(
        data="pictures", split="iid", clients=clients, model="logistic", kernel="sgd", rounds=rounds,
        plugins=(str(SCRIPTS / "pictures.py"),), options={"pictures": {"path": str(data)}},
    )  # fmt: skip
    bare = [sys.executable, str(SCRIPTS / "bare_many.py"), str(data), str(clients), str(rounds)]
    ours = _command("many, ours", [*OURS, "run", *flags(settings)], "--out", "{}/run")
    return ours, _command("many, bare", bare)


def _beside_others(folder: Path, quick: bool) -> tuple[Side, Side]:
    study = STUDIES["study-titanic"]
    alone = _command("busy, ours", (study.small() if quick else study).ours(), "--out", "{}/study")

    def crowded(folder: Path) -> float:
        with busy(os.cpu_count() or 1):
            return alone(folder)

    return crowded, alone


# the thesis' step 1, which the plain script has too
PENS = {"rounds_step1": 20, "sampled": 3, "direction": "mine-on-theirs"}
# and rankings without a bar, as in the papers
BARE = {"bar": "none"}
AS_IN_PLAIN: dict[str, dict[str, Any]] = {"pens": PENS, "ndoye": BARE, "influence": BARE}

DIGITS: dict[str, dict[str, Any]] = {"shift": {"distribution": "F"}, "sgd": {"lr": 0.5}}

STUDIES = {
    "study-titanic": Study(Comparison(Settings(data="titanic", kernel="sgd"), FOUR, 5), "plain_titanic.py"),
    "study-hospitals": Study(
        Comparison(Settings(data="heart-disease", kernel="sgd", options=AS_IN_PLAIN), NINE, 3),
        "plain_hospitals.py",
    ),
    "study-digits": Study(
        Comparison(Settings(data="digits", split="shift", clients=10, options=DIGITS), FOUR, 5),
        "plain_digits.py",
    ),
}

WHOLES = {
    w.name: w
    for w in (
        _beside_plain(
            "study-titanic",
            "compare on Titanic, 4 clients, 4 methods, 5 seeds, 30 rounds, with folder and report",
            Target(1 / 3),
        ),
        _beside_plain(
            "study-hospitals",
            "compare on heart disease, 4 hospitals, 9 methods, 3 seeds, 30 rounds",
            Target(1 / 3, most=25),
        ),
        _beside_plain(
            "study-digits",
            "compare on digits, 10 clients of shifted labels, 4 methods, 5 seeds, 30 rounds",
            Target(1 / 3),
        ),
        _Whole("first-run", "run on digits, 1 round", "import torch", Target(1.5, more=0.5), _first_run),
        _Whole(
            "many",
            "run of 1,000 clients x 50 pictures, linear 784-10, FedAvg, 10 rounds, with folder and report",
            "bare training",
            Target(2),
            _many,
        ),
        _Whole(
            "busy",
            "study-titanic beside a busy process for each core",
            "the same alone",
            Target(3),
            _beside_others,
        ),
    )
}


def measure_whole(
    workload: _Whole, repeats: int, quick: bool, out: Path | None = None, watch: Watch = lambda side: None
) -> Row:
    """Ours, the other, ours, the other, ...; what they write stays in `out`, or is removed."""
    seconds: dict[str, list[float]] = {"ours": [], workload.beside: []}
    with _room(out) as folder:
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


def row_of(workload: _Whole, ours: Sequence[float], other: Sequence[float]) -> Row:
    best, median = (min(ours), min(other)), (statistics.median(ours), statistics.median(other))
    return Row(
        workload=workload.name, beside=workload.beside, repeats=len(ours), ours_best=best[0],
        ours_median=median[0], other_best=best[1], other_median=median[1], ratio_best=best[1] / best[0],
        ratio_median=median[1] / median[0], target=str(workload.target), met=workload.target.met(*median),
    )  # fmt: skip


@contextlib.contextmanager
def _room(out: Path | None) -> Iterator[Path]:
    """That folder, new; or one that is removed afterwards."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="coterie-bench-") as name:
            yield Path(name)
    else:
        out.mkdir(parents=True)
        yield out.absolute()


# what is written before anything is timed: clients for the plain scripts, and pictures for many clients


def write_clients(path: Path, comparison: Comparison) -> None:
    """The rows of each seed's clients, prepared: SEED/names, and SEED/CLIENT/train_x, train_y and so on."""
    arrays, builder = {}, Builder()
    settings = comparison.with_method(comparison.methods[0])  # clients are the same for all methods
    for seed in range(settings.seed, settings.seed + comparison.seeds):
        clients = builder.setup(replace(settings, seed=seed), lambda roster, start: ()).clients
        arrays[f"{seed}/names"] = np.array([c.name for c in clients])
        for i, client in enumerate(clients):
            for part, samples in (("train", client.train), ("test", client.test)):
                arrays[f"{seed}/{i}/{part}_x"] = samples.x.numpy()
                arrays[f"{seed}/{i}/{part}_y"] = samples.y.numpy()
    np.savez(path, **arrays)  # type: ignore[arg-type]


def write_pictures(path: Path, train: int, test: int, seed: int = 0) -> None:
    """Random grey pictures whose label is the largest of as many random sums over their pixels."""
    rng = Key(seed, ("bench", "pictures")).numpy()
    x = rng.integers(SHADES, size=(train + test, 1, SIDE, SIDE), dtype=np.uint8)
    truth = rng.normal(size=(SIDE * SIDE, CLASSES)).astype(np.float32)
    y = ((x.reshape(len(x), -1).astype(np.float32) - SHADES / 2) @ truth).argmax(axis=1)
    np.savez(path, train_x=x[:train], train_y=y[:train], test_x=x[train:], test_y=y[train:])


# commands in processes of their own: timed from start to end, and never left behind


def timed(
    name: str, words: Sequence[str], folder: Path, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds of a command in a fresh process; what it says is kept in the folder."""
    said = folder / "stderr.txt"
    with (folder / "stdout.txt").open("wb") as out, said.open("wb") as errors:
        begin = clock()
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        with _ended([child]):
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
    with _ended(children):
        for _ in range(cores):
            children.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        yield


@contextlib.contextmanager
def _ended(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """None of them is running or unwaited for afterwards, also after Ctrl-C."""
    try:
        yield
    finally:
        for child in children:
            child.kill()  # does nothing to one that has ended
        for child in children:
            child.wait()
