"""PENS cut off in step 1, at the switch and in step 2, and resumed, ends as if nothing had happened."""

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from coterie.nets import Counting, Wrapped
from coterie.runs.builder import Builder
from coterie.runs.experiment import Experiment
from coterie.runs.folder import Folder
from coterie.runs.loop import run
from coterie.runs.settings import Settings
from coterie.storage.atomic import read_lines

ROUNDS, STEP_1 = 8, 3
# where a run is cut off: in the middle of a round, or just after one was written down
CUTS = {
    "in step 1": ("within", 2),
    "at the switch": ("after", STEP_1),
    "in the first round of step 2": ("within", STEP_1 + 1),
    "after the first round of step 2": ("after", STEP_1 + 1),
    "in step 2": ("within", STEP_1 + 3),
}


class Cut(BaseException):
    """Stands for a kill: nothing is saved on its way out."""


@dataclass(frozen=True, eq=False)
class Dying(Wrapped):
    """A net that breaks at the second visit of a round: all have trained, nobody has averaged."""

    round: int
    seen: list = field(default_factory=list)

    def visit(self, kernel, beliefs, edges, key, slot="", beside=None):
        self.seen.extend([key.round] * (key.round == self.round))
        if len(self.seen) == 2:
            raise Cut
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)


BUILDER = Builder()


def experiment(order: str, engine: str, checkpoint: int = 1) -> Experiment:
    """Momentum kept, clients away, some stopped early: the state has everything in it."""
    options = {
        "pens": {"order": order, "samplings": 2, "rounds_step1": STEP_1, "patience": 2, "window": 2},
        "sgd": {"lr": 0.3, "batch": 64, "momentum": 0.5, "keep": True},
    }
    settings = Settings(
        data="digits", split="clusters", model="logistic", clients=6, method="pens", engine=engine,
        rounds=ROUNDS, validation=0.2, wrap=("absent=0.1",), checkpoint=checkpoint, options=options,
    )  # fmt: skip
    return BUILDER.prepare(settings)


def go(path: Path, what: Experiment, how: str = "", round: int = 0) -> None:
    """Runs what is left, up to where it is cut off."""

    def watch(record) -> None:
        if how == "after" and record.done == round:
            raise Cut

    if how == "within":
        what = replace(what, net=Counting(Dying(what.net.net, round)))
    folder = Folder(path) if path.exists() else Folder.create(path, what.config, what.about)
    try:
        run(what, folder, "pens", watch)
    finally:
        folder.close()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The folder of a run that was never cut off."""

    @cache
    def make(order: str, engine: str, checkpoint: int = 1) -> Path:
        path = tmp_path_factory.mktemp("unbroken") / "run"
        go(path, experiment(order, engine, checkpoint))
        return path

    return make


def cut_off(path: Path, what: Experiment, cut: str) -> None:
    with pytest.raises(Cut):
        go(path, what, *CUTS[cut])


@pytest.mark.parametrize(
    ("order", "engine", "cut"),
    [
        ("thesis", "stacked", "in step 1"),
        ("trained", "stacked", "in step 1"),
        ("program", "stacked", "at the switch"),
        ("program", "stacked", "in the first round of step 2"),
        ("program", "pool", "after the first round of step 2"),
        ("thesis", "pool", "in step 2"),
    ],
)
def test_cut_off_once(order, engine, cut, unbroken, same_run, tmp_path):
    cut_off(tmp_path / "run", experiment(order, engine), cut)
    go(tmp_path / "run", experiment(order, engine))
    same_run(tmp_path / "run", unbroken(order, engine))


def test_cut_off_again_and_again_with_checkpoints_on_either_side_of_the_switch(unbroken, same_run, tmp_path):
    # saved after rounds 2, 4, 6: what is cut off at the switch runs the last round of step 1 once more
    for cut in ("in step 1", "at the switch", "in the first round of step 2", "in step 2"):
        cut_off(tmp_path / "run", experiment("thesis", "stacked", checkpoint=2), cut)
    go(tmp_path / "run", experiment("thesis", "stacked", checkpoint=2))
    same_run(tmp_path / "run", unbroken("thesis", "stacked", checkpoint=2))


def test_both_steps_and_early_stopping_took_place(unbroken):
    extras = [line["extras"] for line in read_lines(unbroken("thesis", "stacked") / "metrics.jsonl")[1:]]
    assert [e["step"] for e in extras] == [1] * STEP_1 + [2] * (ROUNDS - STEP_1)
    assert extras[-1]["stopped"] > 0
    assert extras[STEP_1]["stopped"] == 0
