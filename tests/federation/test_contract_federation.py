"""The contract over a real federation: a relay and four sites, each a process, behind TLS and seals.

Every method gives there what it gives on one machine that has all tables: figures, weights, matrices, what
was counted, and the model that each site ends with, to the last bit.
"""

from __future__ import annotations

import contextlib
import csv
import json
import random
import shutil
import subprocess
from pathlib import Path

import hosts
import numpy as np
import pandas as pd
import pytest
import torch
from ward import COTERIE, ONE_CORE, free_port

from coterie.cli.main import main
from coterie.core.errors import BadData
from coterie.federation.kits.authority import found_federation
from coterie.federation.lead.sites import hang_up
from coterie.kernels.natural import only_work
from coterie.methods import METHODS
from coterie.runs.builder import Builder
from coterie.runs.folder import Folder, read_models, read_record
from coterie.runs.loop import run
from coterie.runs.settings import Settings
from coterie.storage.tensors import read_tensors
from coterie.use import load

SITES = ("east", "north", "south", "west")
INPUTS = ("age", "dose", "weight")
RECIPE = 'target = "ill"\n[sites]\n{sites}\n{columns}[columns.ill]\nuse = "flag"\nvalues = ["no", "yes"]\n'
ROUNDS, SEED = 3, 1
POLICY = "open = true\nrows = true\nlabel_counts = true\n"
# options where three rounds and four sites are too few for the usual ones
OPTIONS = {
    "advised": {"candidates": ("fedavg", "finetune:tune=1"), "folds": 2},
    "bayes-central": {"samples": 2},
    "bayes-local": {"samples": 2},
    "cfl": {"eps1": 100.0, "eps2": 0.0, "gamma": 0.0, "wait": 0},
    "data-interpolation": {"lam": "auto", "others": 0},
    "finetune": {"tune": 1},
    "fl-swag": {"samples": 2},
    "ndoye": {"passes": 1, "folds": 3},
    "pens": {"rounds_step1": 1, "samplings": 2},
    "weight-erosion": {"p_s": 0.5},
}
# a momentum that lasts from round to round, short last batches; not where a client is visited more than once
WORK = {"lr": 0.1, "batch": 8, "momentum": 0.5, "keep": True, "schedule": "cosine"}
ONCE = {"weight-erosion", "robust-personal", "data-interpolation"}
ONCE = {"weight-erosion", "robust-personal"}
PLAIN = {"scaffold"}  # no momentum
# rows of a table are of no cluster, and oracle joins those of one
NEEDS = {"oracle": "has no cluster, which oracle needs"}
# fit linear models alone, from sums of sites
LINEAR = ("partial", "pooled")
OF_MODELS = {"drift"}  # measures that take models of several sites, which nobody has there


def write_tables(folder: Path) -> Path:
    """Of different lengths, with cells missing, and each site's rows elsewhere; the recipe's path."""
    for i, site in enumerate(SITES):
        draws = random.Random(i)
        with (folder / f"{site}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow([*INPUTS, "ill"])
            for row in range(36 + 5 * i):
                values = [draws.gauss(i / 4, 1 + i / 8) for _ in INPUTS]
                ill = values[0] - values[1] * (-1) ** i + draws.gauss(0, 0.5) > i / 4
                cells = ["" if draws.random() < 0.04 else f"{v:.3f}" for v in values]
                table.writerow([*cells, "yes" if (row % 2 if row < 8 else ill) else "no"])
    path = folder / "recipe.toml"
    columns = "".join(f'[columns.{name}]\nuse = "number"\n' for name in INPUTS)
    path.write_text(RECIPE.format(sites="\n".join(f'{s} = "{s}.csv"' for s in SITES), columns=columns))
    return path


class Ward:
    """The processes, and runs on them or on this machine alone."""

    def __init__(self, folder: Path, here: hosts.Here) -> None:
        self.folder, self.here = folder, here
        self.recipe = write_tables(folder)
        found_federation(folder / "ward", SITES, port=free_port())
        self.kit = str(folder / "ward" / "people" / "lead")
        self.builders = {"federation": Builder(), "in-process": Builder()}
        policy = folder / "policy.toml"
        policy.write_text(POLICY)
        self.relay = here.run("relay", [*COTERIE, "relay", folder / "ward" / "coordinator"])
        self.relay.wait_for("listening on", 60)
        words = ["--recipe", self.recipe, "--policy", policy]
        self.sites = {
            name: here.run(name, [*COTERIE, "site", self.home(name), *words], ONE_CORE) for name in SITES
        }
        for site in self.sites.values():
            site.wait_for("connected", 120)

    def home(self, name: str) -> Path:
        return self.folder / "ward" / "sites" / name

    def settings(self, net: str, method: str, options=None, rounds: int = ROUNDS, **more) -> Settings:
        work = {**WORK, "keep": method not in ONCE, "momentum": 0.0 if method in PLAIN else WORK["momentum"]}
        linear = method in LINEAR
        tables = {} if linear else {"sgd": work, "mlp": {"hidden": [6]}}
        if method in METHODS and only_work(METHODS[method]):
            tables.pop("sgd", None)
        if method in METHODS:
            tables[method] = OPTIONS.get(method, {}) if options is None else options
        where = {"table": {"recipe": str(self.recipe)}} if net == "in-process" else {net: {"kit": self.kit}}
        return Settings(
            data="table" if net == "in-process" else "auto",
            net=net,
            model="logistic" if linear else "mlp",
            method=method,
            rounds=rounds,
            seed=SEED,
            validation=0.2,
            engine="loop",
            options={**{k: v for k, v in tables.items() if v}, **where},
            **more,
        )

    def play(self, net: str, folder: Path, watch=lambda record: None, **asked):
        """A run in a folder, as `coterie run` does it."""
        experiment = self.builders[net].prepare(self.settings(net, **asked))
        opened = Folder.create(folder, experiment.config, experiment.about)
        try:
            run(experiment, opened, asked["method"], watch)
        finally:
            opened.close()
            experiment.net.close()
        return folder

    def models(self):
        """The models that sites have got since the last time, by site; they are taken away."""
        found = {}
        for name in SITES:
            for path in sorted((self.home(name) / "state" / "models").glob("*")):
                found[name] = (path.name, read_tensors(path / "weights.safetensors")[0])
                shutil.rmtree(path)
        return found


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contract")
    before = hosts.look()
    with contextlib.ExitStack() as opened:
        here = opened.enter_context(hosts.Here(["relay", *SITES], folder))
        opened.callback(hang_up)
        made = Ward(folder, here)
        yield made
        assert all(p.returncode is None for p in (made.relay, *made.sites.values())), "somebody went"
    assert not hosts.left_behind(before)


def same(far: Path, near: Path, models) -> None:
    """Two folders of runs, of which the first had its models at sites."""
    one, other = read_record(far), read_record(near)
    for left, right in zip(one.metrics, other.metrics, strict=True):
        assert not left.pop("away", None)
        right.pop("away", None)
        seen, all_of_them = left.pop("measures"), right.pop("measures")
        assert seen == {name: all_of_them[name] for name in seen}
        assert all_of_them.keys() - seen.keys() <= OF_MODELS
        assert json.dumps(left) == json.dumps(right)
    assert one.weights.keys() == other.weights.keys() == set(range(1, len(one.metrics)))
    assert all(np.array_equal(one.weights[r], w) for r, w in other.weights.items())
    assert one.matrices.keys() == other.matrices.keys()
    for name, by_round in other.matrices.items():
        assert one.matrices[name].keys() == by_round.keys()
        assert all(np.array_equal(one.matrices[name][r], m, equal_nan=True) for r, m in by_round.items())
    assert one.passed.keys() == other.passed.keys()
    assert all(np.array_equal(one.passed[r], m) for r, m in other.passed.items())
    expected = read_models(near)
    assert expected
    assert models.keys() == expected.keys()
    for site, (called, tensors) in models.items():
        assert called == str(other.config["method"])
        assert tensors.keys() == expected[site].keys()
        for name, t in tensors.items():
            assert t.dtype == expected[site][name].dtype
            assert torch.equal(t, expected[site][name]), (site, name)


# at least one of each kind of round and verb; what each method asks of sites is held to the reference behind
# messages, in processes of their own, by tests/contract; sketches of sites by test_sketches_of_sites.py
DAILY = (
    "fedavg",
    "fedrep",
    "fl-swag",
    "ndoye",
    "pens",
    "robust",
    "scaffold",
    "weight-erosion",
    *LINEAR,
    *NEEDS,
)


@pytest.mark.parametrize(
    "method", [m if m in DAILY else pytest.param(m, marks=pytest.mark.slow) for m in METHODS]
)
def test_every_method_gives_the_numbers_of_one_machine(ward, tmp_path, method):
    if method in NEEDS:
        for net in ("in-process", "federation"):
            with pytest.raises(BadData, match=NEEDS[method]):
                ward.builders[net].prepare(ward.settings(net, method))
        return
    far = ward.play("federation", tmp_path / "far", method=method)
    near = ward.play("in-process", tmp_path / "near", method=method)
    same(far, near, ward.models())


def test_a_forbidden_column_is_none_of_any_model_and_the_numbers_are_those_of_one_machine(ward, tmp_path):
    asked = {"method": "fedavg", "forbid": ("dose",), "require": ("age",)}
    far = ward.play("federation", tmp_path / "far", **asked)
    near = ward.play("in-process", tmp_path / "near", **asked)
    (kept,) = (ward.home("east") / "state" / "models").glob("*")
    assert load(kept).preparation.columns == ("age", "weight")
    rows = pd.DataFrame({"weight": [1.0], "age": [0.5]})
    assert load(kept).proba(rows).tolist() == load(near, "east").proba(rows).tolist()
    far_off = pd.DataFrame({"weight": [1.0, 900.0], "age": [0.5, 0.5]})
    trust = load(kept).table(far_off)["trust"].tolist()
    assert "weight 900 above training's" in trust[1]
    assert trust == load(near, "east").table(far_off)["trust"].tolist()
    held = [path.read_bytes() for path in far.rglob("*") if path.is_file()]
    assert not any(b"quantiles" in text for text in held)  # ranges stay at the site
    same(far, near, ward.models())
    assert read_record(far).about["notes"][0] == "column dose is forbidden: it is no input of any model"


class Cut(BaseException):
    """The driver's process goes."""


@pytest.mark.slow  # daily with pens: test_the_driver_is_killed_in_the_middle_of_a_round
@pytest.mark.parametrize("method", ["fedavg", "pens", "fl-swag"])
def test_another_driver_goes_on_where_the_first_was_cut_off(ward, tmp_path, method):
    """Cut off after round 3, when round 2 was the last to be saved; sites go back to that one."""

    def watch(record):
        if record.done == 3:
            raise Cut

    asked = {"method": method, "rounds": 4, "checkpoint": 2}
    with pytest.raises(Cut):
        ward.play("federation", tmp_path / "far", watch, **asked)
    assert not ward.models()
    hang_up()  # the kit can have one line at a time
    ward.builders["federation"] = Builder()
    words = [*COTERIE, "resume", str(tmp_path / "far")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    near = ward.play("in-process", tmp_path / "near", **asked)
    same(tmp_path / "far", near, ward.models())


WORDS = ["--model", "mlp", "--mlp.hidden", "6", "--engine", "loop", "--seed", str(SEED), "--sgd.batch", "8"]


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("compare", ["--methods", "local", "fedavg", "--seeds", "2", "--rounds", "2", "--jobs", "1"]),
        pytest.param("rank", ["--requester", "north"], marks=pytest.mark.slow),
        ("tune", ["--methods", "fedavg", "--trials", "2", "--folds", "2", "--rounds", "2"]),
        pytest.param(
            "advise",
            ["--candidates", "fedavg", "--folds", "2", "--inner", "2", "--rounds", "2"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_commands_that_train_more_than_once(ward, tmp_path, capsys, command, own):
    """What they write is what they write on one machine."""
    tables = {
        "far": ["--net", "federation", "--federation.kit", ward.kit],
        "near": ["--data", "table", "--table.recipe", str(ward.recipe)],
    }
    for name, where in tables.items():
        code = main([command, *where, *WORDS, *own, "--out", str(tmp_path / name)])
        said = capsys.readouterr().err
        assert code == 0, said
    assert told(tmp_path / "far") == told(tmp_path / "near")
    ward.models()


def told(folder: Path) -> dict[str, list[dict]]:
    """Every line of figures below a folder, by place."""
    found = {}
    for path in sorted(folder.rglob("*.jsonl")):
        if path.name in ("timings.jsonl", "ledger.jsonl", "signatures.jsonl"):  # of this run alone
            continue
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            for own in ("away", "seconds", "time"):
                line.pop(own, None)
            for name in OF_MODELS:
                line.get("measures", {}).pop(name, None)
        found[str(path.relative_to(folder))] = lines
    for path in sorted((folder / "trials").rglob("*.json")):
        found[str(path.relative_to(folder))] = [{**json.loads(path.read_text()), "seconds": 0}]
    assert found
    return found
