"""PENS cut off in step 1, at the switch and in step 2, and resumed, ends as if nothing had happened."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from coterie.runs.experiment import Experiment, prepare
from coterie.runs.folder import Folder
from coterie.runs.runner import run
from coterie.runs.settings import Settings
from coterie.storage.atomic import read_lines

ROUNDS, STEP_1 = 8, 3
SAME = ("metrics.jsonl", "models.safetensors", "checkpoint.safetensors", "config.toml")
# where a run is cut off: in the middle of a round, or just after one was written down
CUTS = {
    "in step 1": ("within", 2),
    "between rounds of step 1": ("after", 1),
    "at the switch": ("after", STEP_1),
    "in the first round of step 2": ("within", STEP_1 + 1),
    "after the first round of step 2": ("after", STEP_1 + 1),
    "in step 2": ("within", STEP_1 + 3),
}


class Cut(Exception):
    """Stands for a kill: nothing is saved on its way out."""


class Dying:
    """A net that breaks at the second visit of a round: all have trained, nobody has averaged."""

    def __init__(self, net, round):
        self._net, self._round, self._visits = net, round, 0

    def __getattr__(self, verb):
        return getattr(self._net, verb)

    def visit(self, kernel, beliefs, edges, key, memory=None):
        self._visits += key.round == self._round
        if self._visits == 2:
            raise Cut
        return self._net.visit(kernel, beliefs, edges, key, memory)


@cache
def experiment(order: str, engine: str, checkpoint: int = 1) -> Experiment:
    """Momentum kept, clients away, some stopped early: the state has everything in it."""
    options = {
        "pens": {"order": order, "samplings": 2, "rounds_step1": STEP_1, "patience": 2, "window": 2},
        "sgd": {"lr": 0.3, "epochs": 2, "momentum": 0.5, "keep": True},
    }
    return prepare(
        Settings(
            data="digits", split="clusters", model="logistic", clients=6, method="pens", engine=engine,
            rounds=ROUNDS, validation=0.2, absent=0.1, checkpoint=checkpoint, options=options,
        ),
        None,
    )  # fmt: skip


def go(path: Path, what: Experiment, how: str = "", round: int = 0) -> None:
    """Runs what is left, up to where it is cut off."""

    def watch(record) -> None:
        if how == "after" and record.done == round:
            raise Cut

    if how == "within":
        what = replace(what, net=Dying(what.net, round))
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


def assert_same(path: Path, reference: Path) -> None:
    for name in SAME:
        assert (path / name).read_bytes() == (reference / name).read_bytes(), name
    matrices = sorted((reference / "collaboration").iterdir())
    assert matrices
    for matrix in matrices:
        assert (path / "collaboration" / matrix.name).read_bytes() == matrix.read_bytes(), matrix.name
    assert sorted(p.name for p in path.iterdir()) == sorted(p.name for p in reference.iterdir())


def cut_off(path: Path, what: Experiment, cut: str) -> None:
    with pytest.raises(Cut):
        go(path, what, *CUTS[cut])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("engine", ["loop", "stacked", "pool"])
@pytest.mark.parametrize("order", ["thesis", "program"])
def test_cut_off_once(order, engine, cut, unbroken, tmp_path):
    what = experiment(order, engine)
    cut_off(tmp_path / "run", what, cut)
    go(tmp_path / "run", what)
    assert_same(tmp_path / "run", unbroken(order, engine))


@pytest.mark.parametrize("order", ["thesis", "program"])
def test_cut_off_again_and_again_with_checkpoints_on_either_side_of_the_switch(order, unbroken, tmp_path):
    # saved after rounds 2, 4, 6: what is cut off at the switch runs the last round of step 1 once more
    what = experiment(order, "auto", checkpoint=2)
    for cut in ("in step 1", "at the switch", "in the first round of step 2", "in step 2"):
        cut_off(tmp_path / "run", what, cut)
    go(tmp_path / "run", what)
    assert_same(tmp_path / "run", unbroken(order, "auto", checkpoint=2))


@pytest.mark.parametrize("order", ["thesis", "program"])
def test_both_steps_and_early_stopping_took_place(order, unbroken):
    extras = [line["extras"] for line in read_lines(unbroken(order, "loop") / "metrics.jsonl")[1:]]
    assert [e["step"] for e in extras] == [1] * STEP_1 + [2] * (ROUNDS - STEP_1)
    assert extras[-1]["stopped"] > 0
    assert extras[STEP_1]["stopped"] == 0
