"""`deal`: rows dealt by a seed of their own, so that all seeds of a study share clients and test rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from coterie.cli.main import main
from coterie.core import belief as tree
from coterie.core.client import Client, Samples, digest_of
from coterie.core.seeds import Key
from coterie.data.dataset import Dataset
from coterie.data.sources.titanic import Titanic
from coterie.features.tuning import tuning as tuner
from coterie.features.tuning.tuning import Tuning, read_tuning, tune
from coterie.runs.builder import Builder, prepare
from coterie.runs.compare import comparison_from
from coterie.runs.loop import run
from coterie.runs.settings import Settings, from_table, read_toml
from coterie.sites.features import Features, Staged, stage
from coterie.sites.folds import deal_folds, first_rows, held_out

QUICK = Settings(data="titanic", kernel="sgd", rounds=2, validation=0.2, engine="loop")
NOTE = "dealt by deal={}: clients and test rows are the same for every seed"


@pytest.fixture
def numbered(monkeypatch) -> int:
    """Titanic, where a row's only input is its own number, over their count; how many there are."""
    data = Titanic().load()
    numbers = (np.arange(len(data.train)) / len(data.train)).astype(np.float32)[:, None]
    told = replace(data, train=replace(data.train, x=numbers), features=("number",))

    def load(self: Titanic) -> Dataset:
        return told

    monkeypatch.setattr(Titanic, "load", load)
    return len(numbers)


@pytest.fixture
def coterie_in(monkeypatch, tmp_path, capsys):
    """Runs a command that must succeed, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def go(*words: str) -> None:
        assert main(list(words)) == 0, capsys.readouterr().err

    return go


def rows_of(total: int, *parts: Samples) -> set[int]:
    return {round(x * total) for part in parts for x in part.x.flatten().tolist()}


def sites(settings: Settings) -> tuple[Client, ...]:
    return Builder().setup(settings.resolved(), lambda roster, start: ()).clients


def same_rows(one: Settings, two: Settings) -> bool:
    """Whether clients, and what each trains, validates and tests on, are the same."""
    return [digest_of(c) for c in sites(one)] == [digest_of(c) for c in sites(two)]


def test_unset_rows_are_dealt_by_the_seed():
    assert not same_rows(QUICK, replace(QUICK, seed=1))
    assert same_rows(replace(QUICK, seed=1), replace(QUICK, seed=1, deal=1))
    unset, told = (run(prepare(s, None), None, "x").record for s in (QUICK, replace(QUICK, deal=0)))
    assert unset.metrics == told.metrics
    assert unset.about["fingerprint"] == told.about["fingerprint"]
    assert "deal" not in unset.config
    assert [n for n in told.about["notes"] if n not in unset.about["notes"]] == [NOTE.format(0)]


def test_set_all_seeds_have_the_same_rows_and_all_else_is_the_seeds():
    first, other = replace(QUICK, deal=7), replace(QUICK, seed=1, deal=7)
    assert same_rows(first, other)
    assert not same_rows(first, QUICK)
    one, two = prepare(first, None), prepare(other, None)
    plain = prepare(replace(QUICK, seed=1), None)
    for name, weights in two.beliefs.items():
        assert torch.equal(weights, plain.beliefs[name])
        assert not torch.equal(weights, one.beliefs[name])
    assert (one.key, two.key) == (Key(0), Key(1))
    assert NOTE.format(7) in two.about["notes"]
    assert (two.config["seed"], two.config["deal"]) == (1, 7)


def test_a_run_says_in_a_few_letters_which_rows_it_has(monkeypatch):
    anew = [prepare(replace(QUICK, seed=seed), None).about for seed in (0, 1)]
    fixed = [prepare(replace(QUICK, seed=seed, deal=7), None).about for seed in (0, 1)]
    assert len({about["rows"] for about in (*anew, *fixed)}) == 3
    assert fixed[0]["rows"] == fixed[1]["rows"]
    assert not any(about["published_tests"] for about in (*anew, *fixed))
    data = Titanic().load()
    monkeypatch.setattr(Titanic, "load", lambda self: replace(data, test=data.train))
    assert prepare(QUICK, None).about["published_tests"]


def staged(seed: int, deal: int | None) -> Staged:
    x = torch.arange(12, dtype=torch.float32)[:, None]
    part = Samples(x, torch.arange(12) % 2)
    model = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.1)
    options = Features(aside=0.5, epochs=1, freeze=False, lr=0.01, lr_end=0.01, batch=2)
    beliefs = tree.stack([tree.belief_of(model)])
    told = {"called": "mine", "device": torch.device("cpu"), "deal": deal}
    return stage(options, [Client("a", part, part, part)], model, beliefs, Key(seed), **told)


def test_a_servers_rows_go_by_deal_and_its_training_by_the_seed(tmp_path, monkeypatch):
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))

    def kept(made: Staged) -> list[float]:
        return made.clients[0].train.x.flatten().tolist()

    one, two, three = staged(0, 5), staged(1, 5), staged(0, 6)
    assert kept(one) == kept(two) == kept(staged(5, None)) != kept(three)
    weights = [made.beliefs["0.weight"] for made in (one, two, three)]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])  # other rows, so another entry in the cache
    before = set((tmp_path / "features").iterdir())
    assert torch.equal(staged(5, 5).beliefs["0.weight"], staged(5, None).beliefs["0.weight"])
    assert set((tmp_path / "features").iterdir()) == before  # deal = seed is what it was without


def rows_in_trials(monkeypatch, total: int) -> set[int]:
    """Filled while trials run: every row that any of them trained on or was scored on."""
    seen, real = set[int](), tuner.fold_experiment

    def watched(settings, fold, method):
        for c in fold.clients:
            seen.update(rows_of(total, c.train, c.validation, c.test))
        return real(settings, fold, method)

    monkeypatch.setattr(tuner, "fold_experiment", watched)
    return seen


def test_no_seed_is_tested_on_rows_of_a_trial(numbered, monkeypatch, tmp_path):
    seen = rows_in_trials(monkeypatch, numbered)
    tuned = tune(Tuning(QUICK, ("local", "fedavg"), trials=2, folds=2), tmp_path / "here")
    assert all(t.error is None for t in tuned.trials)
    table = read_toml(tmp_path / "here" / "best.toml")

    def overlaps(told: dict) -> dict[int, set[int]]:
        """By seed, how many test rows of a run are among those of the trials."""
        found: dict[int, set[int]] = {}
        for _, settings in comparison_from(told, "best.toml").cells():
            tests = rows_of(numbered, *(c.test for c in sites(settings)))
            assert len(tests) == 393
            found.setdefault(settings.seed, set()).add(len(tests & seen))
        return found

    assert len(seen) == numbered - 393
    assert overlaps(table) == {0: {0}, 1: {0}, 2: {0}}
    unset = overlaps({k: v for k, v in table.items() if k != "deal"})
    assert unset[0] == {0}
    assert all(min(unset[seed]) > 200 for seed in (1, 2))  # what it would be without: most of them


@pytest.mark.parametrize(("seed", "deal", "written"), [(3, None, 3), (3, 8, 8)])
def test_what_a_tuning_writes(seed, deal, written, tmp_path):
    settings = replace(QUICK, seed=seed, deal=deal)
    tuned = tune(Tuning(settings, ("local",), trials=1, folds=2), tmp_path / "here")
    given = read_tuning(tmp_path / "here")  # as it was given, so that the same command goes on
    assert (given.settings.seed, given.settings.deal) == (seed, deal)
    best = from_table(read_toml(tmp_path / "here" / "best" / "local.toml"), "best")
    assert (best.seed, best.deal) == (seed, written)
    assert best == tuned.settings("local")
    table = read_toml(tmp_path / "here" / "best.toml")
    assert (table["seed"], table["deal"], table["seeds"]) == (seed, written, 3)


def test_a_comparison_says_it_and_goes_on_with_it(coterie_in, same_run):
    words = ("--data", "titanic", "--rounds", "2", "--deal", "4", "--methods", "local", "--seeds", "2")
    coterie_in("compare", *words, "--out", "here")
    for seed in (0, 1):
        config = read_toml(Path(f"here/local/seed-{seed}/config.toml"))
        assert (config["seed"], config["deal"]) == (seed, 4)
    page = Path("here/report.html").read_text()
    assert '<th scope="row">deal</th><td>4</td>' in page
    assert page.count(NOTE.format(4)) == 1
    Path("here/local/seed-1").rename("before")
    coterie_in("resume", "here")
    same_run(Path("here/local/seed-1"), Path("before"))


def test_rows_of_one_patient_are_in_one_fold():
    units = np.array([0, 0, 2, 2, 2, 5, 6, 6, 8, 9])
    x, y = torch.arange(10.0).unsqueeze(1), torch.tensor([0, 0, 1, 1, 1, 0, 1, 1, 0, 1])
    client = Client("a", Samples(x, y), Samples(x[:1], y[:1]), Samples(x[:0], y[:0]), units=units)
    first, of = first_rows(client)
    assert first.tolist() == [0, 2, 5, 6, 8, 9]
    fold = deal_folds(y.numpy()[first], 3, np.random.default_rng(0))[of]
    assert all(len(set(fold[units == u])) == 1 for u in set(units))
    kept = held_out(client, fold, 0)
    assert not set(kept.units) & set(units[fold == 0])
    assert len(kept.units) == len(kept.train)
