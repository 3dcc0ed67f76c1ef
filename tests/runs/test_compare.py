"""Several methods and seeds on the same clients: who runs, where, with what, and what is not run again."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from coterie.cli import compare as compare_command
from coterie.core.errors import BadInput, BadRun, UnknownName
from coterie.data.sources.titanic import Titanic
from coterie.methods import METHODS
from coterie.methods.server.fedavg import FedAvg
from coterie.runs import builder as building
from coterie.runs.builder import Builder
from coterie.runs.compare import (
    Comparison,
    create,
    is_comparison,
    labelled,
    parsed,
    read_comparison,
    read_records,
    run_cell,
    slug,
)
from coterie.runs.settings import Settings

QUICK = Settings(data="titanic", rounds=2, seed=5, options={"sgd": {"lr": 0.5}})
SPECS = ("local", "fedavg", "fedavg:weighted=false", "finetune:tune=1,sample=0.5")


BUILDER = Builder()


class Stop(Exception):
    pass


def run_all(path: Path, comparison: Comparison, until: str = "", rounds: int = 0) -> None:
    """Runs cells in order; the one at `until` is cut off after so many rounds."""

    def stop(record) -> None:
        if record.done >= rounds:
            raise Stop

    for (spec, place), (_, settings) in zip(labelled(comparison), comparison.cells(), strict=True):
        watch = stop if place == until else lambda record: None
        run_cell(path / place, settings, spec, "a command", watch, BUILDER)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> tuple[Path, Comparison]:
    """A finished comparison."""
    path, comparison = tmp_path_factory.mktemp("compare") / "here", Comparison(QUICK, SPECS, 2)
    create(path, comparison, BUILDER)
    run_all(path, comparison)
    return path, comparison


def files(path: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(p.relative_to(path)): (p.stat().st_mtime_ns, p.read_bytes())
        for p in path.rglob("*")
        if p.is_file() and p.name != ".lock"
    }


def test_one_folder_for_each_method_and_seed(done):
    path, comparison = done
    places = [
        "local/seed-5",
        "local/seed-6",
        "fedavg/seed-5",
        "fedavg/seed-6",
        "fedavg-weighted-false/seed-5",
        "fedavg-weighted-false/seed-6",
        "finetune-tune-1-sample-0.5/seed-5",
        "finetune-tune-1-sample-0.5/seed-6",
    ]
    assert [place for place, _ in comparison.cells()] == places
    assert all((path / place / "models.safetensors").exists() for place in places)
    assert sorted(p.name for p in path.iterdir()) == sorted(
        {*(p.partition("/")[0] for p in places), "compare.toml"}
    )


def test_labels_seeds_and_options_are_those_of_the_specs(done):
    path, _ = done
    (one,) = read_records(path / "fedavg" / "seed-6")
    assert (one.label, one.config["seed"]) == ("fedavg", 6)
    records = read_records(path)
    assert [(r.label, r.config["seed"]) for r in records] == [(s, seed) for s in SPECS for seed in (5, 6)]
    assert [r.config["method"] for r in records[::2]] == ["local", "fedavg", "fedavg", "finetune"]
    assert [r.config.get("fedavg") for r in records[::2]] == [
        None,
        {"weighted": True, "sample": 1.0, "norm": "average"},
        {"weighted": False, "sample": 1.0, "norm": "average"},
        None,
    ]
    assert records[-1].config["finetune"] == {
        "tune": 1,
        "weighted": True,
        "sample": 0.5,
        "norm": "average",
    }
    assert all(
        r.config["sgd"]["lr"] == 0.5 and r.finished and r.about["command"] == "a command" for r in records
    )


def test_all_methods_see_the_same_clients_and_begin_alike(done):
    records = read_records(done[0])
    for seed in (0, 1):
        first, *others = records[seed::2]
        assert len(others) == 3
        for other in others:
            assert other.about["clients"] == first.about["clients"]
            assert other.about["fingerprint"] == first.about["fingerprint"]
            # on some processors products round by what lies beside them, and a pair of rows may change places
            mine, theirs = (r.metrics[0]["scores"]["own/test"] for r in (other, first))
            assert mine.keys() == theirs.keys()
            for metric, values in mine.items():
                assert values == pytest.approx(theirs[metric], abs=1e-3 if metric == "auc" else 1e-6)
    assert records[0].about["fingerprint"] != records[1].about["fingerprint"]
    weighted, alike = records[2], records[4]
    assert weighted.final("loss") != alike.final("loss")
    assert alike.weights[1].tolist() == [[0.25] * 4] * 4


def test_the_comparison_is_read_back_from_its_file(done):
    path, comparison = done
    assert is_comparison(path)
    assert read_comparison(path) == comparison
    table = tomllib.loads((path / "compare.toml").read_text())
    assert (table["methods"], table["seeds"], table["seed"]) == (list(SPECS), 2, 5)
    assert "method" not in table


def test_a_comparison_that_was_cut_off_goes_on(done, same_run, tmp_path):
    reference, comparison = done
    here = tmp_path / "here"
    create(here, comparison, BUILDER)
    with pytest.raises(Stop):
        run_all(here, comparison, until="fedavg/seed-6", rounds=1)
    begun = read_records(here)
    assert [(r.label, r.done) for r in begun] == [("local", 2), ("local", 2), ("fedavg", 2), ("fedavg", 1)]
    finished = {k: v for k, v in files(here).items() if not k.startswith("fedavg/seed-6")}
    run_all(here, read_comparison(here))
    after = files(here)
    assert {k: after[k] for k in finished} == finished
    for place, _ in comparison.cells():
        same_run(here / place, reference / place)
    run_all(here, comparison)  # nothing is left to do
    assert files(here) == after


def test_before_the_first_round_there_is_nothing_to_read(tmp_path, refused):
    path = tmp_path / "here"
    create(path, Comparison(QUICK, ("local",), 1), BUILDER)
    with refused(BadRun, f"{path} has no results yet: go on with 'coterie resume {path}'"):
        read_records(path)


def test_create_writes_over_nothing(tmp_path, refused):
    path, comparison = tmp_path / "here", Comparison(QUICK, ("local",), 1)
    create(path, comparison, BUILDER)
    with refused(
        BadRun,
        f"output folder {path} holds a comparison: go on with 'coterie resume {path}' or choose "
        "another --out",
    ):
        create(path, comparison, BUILDER)
    with pytest.raises(BadInput, match="must lie above 0"):
        create(tmp_path / "new", Comparison(QUICK, ("fedavg:sample=0",), 1), BUILDER)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("methods", "seeds", "message"),
    [
        (("local",), 0, "seeds=0 must be at least 1: try 3"),
        ((), 1, "no methods to compare: try --methods local fedavg finetune"),
        (("local", "fedavg", "local"), 1, "method 'local' is named twice: name each once"),
    ],
)
def test_refused_comparisons(refused, methods, seeds, message):
    with refused(BadInput, message):
        Comparison(QUICK, methods, seeds)


@pytest.mark.parametrize(
    ("spec", "name", "options"),
    [
        ("local", "local", {}),
        ("fedavg:", "fedavg", {}),
        ("fedavg:weighted=False, sample = 0.5", "fedavg", {"weighted": False, "sample": 0.5}),
        ("fedavg:sample=1", "fedavg", {"sample": 1.0}),
        ("finetune:tune=3,weighted=true", "finetune", {"tune": 3, "weighted": True}),
        ("fedavg:sgd.lr=1,sample=0.5", "fedavg", {"sample": 0.5, "sgd.lr": 1.0}),
    ],
)
def test_specs(spec, name, options):
    assert parsed(spec) == (name, options)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("fedvg:sample=1", UnknownName, "unknown method 'fedvg': did you mean fedavg?"),
        ("fedavg:sampel=1", UnknownName, "unknown option of method fedavg 'sampel': did you mean sample?"),
        ("fedavg:sample", BadInput, "method 'fedavg:sample': 'sample' needs the form option=value"),
        ("fedavg:sample=all", BadInput, "method fedavg: sample must be a number; got 'all'"),
        ("fedavg:sgd.lrr=1", UnknownName, "unknown option of kernel sgd 'lrr': did you mean lr?"),
        ("fedavg:sgdd.lr=1", UnknownName, "unknown kernel 'sgdd': did you mean sgd?"),
        ("finetune:tune=1.5", BadInput, "method finetune: tune must be a whole number; got 1.5"),
        ("central:lr=1", UnknownName, "unknown option of method central 'lr': known are by"),
    ],
)
def test_refused_specs(refused, spec, kind, message):
    with refused(kind, message):
        parsed(spec)


def test_only_a_methods_own_options_reach_it():
    shared = Settings(data="titanic", rounds=9, options={"fedavg": {"sample": 0.5}, "finetune": {"tune": 2}})
    comparison = Comparison(shared, ("local", "fedavg", "fedavg:sample=1", "finetune"), 1)
    local, half, whole, tuned = (s for _, s in comparison.cells())
    assert not {"fedavg", "finetune"} & local.options.keys()
    assert half.options["fedavg"]["sample"] == 0.5
    assert whole.options["fedavg"]["sample"] == 1.0
    assert tuned.options["finetune"] == {"tune": 2, "weighted": True, "sample": 1.0, "norm": "average"}
    assert "fedavg" not in tuned.options


def test_places_are_plain_file_names():
    assert slug("fedavg:weighted=false,sample=0.5") == "fedavg-weighted-false-sample-0.5"
    assert slug("../x:y=/etc") == "..-x-y-etc"


@pytest.fixture
def signed(monkeypatch):
    """A method with an option that may be any number."""
    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))

    @METHODS.register("signed")
    @dataclass(frozen=True)
    class Signed(FedAvg):
        pull: float = 0.0

    return "signed"


def test_two_specs_have_two_places(signed):
    comparison = Comparison(QUICK, (f"{signed}:pull=1e+1", f"{signed}:pull=1e-1"), 1)
    assert len({place for place, _ in comparison.cells()}) == 2


@pytest.mark.parametrize(
    ("methods", "more", "message"),
    [
        (("local", "finetune:tune=2"), {}, "tune=2 leaves none of 2 rounds"),
        (("local", "weight-erosion:requester=all,sgd.keep=true"), {}, "keep"),
        (
            ("fl-swag:form=low-rank",),
            {"kernel": "swag", "options": {"swag": {"every": 999}}},
            "would collect 0 deviations",
        ),
    ],
    ids=["rounds", "its local work", "its posterior"],
)
def test_a_method_that_cannot_work_is_refused_before_the_first_one_runs(tmp_path, methods, more, message):
    with pytest.raises(BadInput, match=message):
        create(
            tmp_path / "here", Comparison(replace(QUICK, **{"options": {}, **more}), methods, 1), Builder()
        )
    assert not (tmp_path / "here").exists()


def test_a_method_is_checked_with_the_local_work_that_it_will_have(tmp_path):
    """Two states, one a round, are enough for a form of low rank: as for `train`."""
    settings = replace(QUICK, kernel="swag", options={"swag": {"every": 1}})
    create(tmp_path / "here", Comparison(settings, ("fl-swag:form=low-rank",), 1), Builder())
    assert is_comparison(tmp_path / "here")


@pytest.mark.parametrize(("deal", "seeds"), [(None, [5, 6]), (9, [9])])
def test_data_are_loaded_once_and_dealt_once_for_each_seed(tmp_path, monkeypatch, deal, seeds):
    loaded, dealt, load, real = [], [], Titanic.load, building.deal_clients
    monkeypatch.setattr(Titanic, "load", lambda self: loaded.append(self) or load(self))
    monkeypatch.setattr(
        building, "deal_clients", lambda *told, **more: dealt.append(told[3].seed) or real(*told, **more)
    )
    comparison = Comparison(replace(QUICK, rounds=1, deal=deal), ("local", "fedavg", "central"), 2)
    builder = Builder()
    create(tmp_path / "here", comparison, builder)
    records = compare_command.run_all(tmp_path / "here", comparison, None, builder)
    assert [(r.label, r.config["seed"]) for r in records] == [
        (spec, seed) for spec in comparison.methods for seed in (5, 6)
    ]
    assert len(loaded) == 1
    assert dealt == seeds
