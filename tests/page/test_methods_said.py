"""What the cards say of how methods choose, of every method there is: nothing that its own record denies."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.core.method import CIRCLE
from coterie.core.partners import WEIGHTS, Partners
from coterie.kernels.natural import only_work
from coterie.methods import METHODS
from coterie.page.cards import why, with_whom
from coterie.page.view import LEAST, View
from coterie.runs.record import Record
from coterie.show import views
from coterie.show.words import LANGUAGES, Words

EN = Words("en")
OPTIONS: dict[str, dict[str, Any]] = {
    "advised": {"candidates": ("fedavg",), "choice": ("fedavg",) * 5},
    "bayes-central": {"samples": 2},
    "bayes-local": {"samples": 2},
    "cfl": {"eps1": 100.0, "eps2": 0.0, "gamma": 0.0, "wait": 0},
    "data-interpolation": {"lam": 0.5},
    "fedper": {"home": "*bias"},
    "fedrep": {"home": "*bias"},
    "fedkg": {"raw": True},
    "fedunique": {"raw": True},
    "finetune": {"tune": 1},
    "fl-swag": {"samples": 2},
    "guided": {"raw": True},
    "ndoye": {"passes": 1, "folds": 3},
    "pens": {"rounds_step1": 1, "samplings": 2},
    "pfedme": {"inner_steps": 2},
    "scaffold": {"momentum": 0.0},
}
"""Where three rounds or five clients are too few for the usual ones."""
LAYERS = ("guided", "fedkg", "fedunique")  # that tell clients apart by layers, of which there must be some


@functools.cache
def clients() -> list[coterie.Client]:
    """Five of different sizes; the last two see the opposite."""
    draws, made = np.random.default_rng(0), []
    for i in range(5):
        x = draws.normal(size=(30 + 10 * i, 4))
        y = ((1 if i < 3 else -1) * x[:, 0] + 0.3 * draws.normal(size=len(x)) > 0).astype(int)
        made.append(coterie.Client.from_arrays(x, y, name=f"c{i}", validation=0.2))
    return [replace(c, cluster=i // 3) for i, c in enumerate(made)]


def timed() -> list[coterie.Client]:
    """The same rows with times until an event, which all of them have seen."""
    made = []
    for c in clients():
        times = np.arange(1.0, len(c.train) + 1)
        seen = np.ones(len(times), dtype=int)
        made.append(coterie.Client.from_arrays(np.asarray(c.train.x), times, event=seen, name=c.name))
    return made


@functools.cache
def record_of(method: str) -> Record:
    work = {} if only_work(METHODS[method]) else {"lr": 0.1}
    options = {"rounds": 3, **work, "progress": False, **OPTIONS.get(method, {})}
    model = "mlp" if method in LAYERS else "logistic"
    return coterie.train(model, clients(), method, **options).record


def view_of(method: str, client: str) -> View:
    record, study = record_of(method), SimpleNamespace(kept={}, path_of=lambda r: Path(method))
    return View(None, study, method, client, [record], (), None, False, None)


def alike(weights: np.ndarray) -> bool:
    """Whether everybody's model is made of all, by rows or in equal parts, or of its own alone."""
    rows = np.array([len(c.train) for c in clients()], dtype=float)
    usual = (rows / rows.sum(), np.full(len(rows), 1 / len(rows)))
    return np.allclose(weights, np.eye(len(rows))) or any(np.allclose(weights, u, atol=1e-6) for u in usual)


@pytest.mark.parametrize("method", list(METHODS))
def test_nothing_is_said_that_the_record_denies(method):
    record = record_of(method)
    chooses = bool(record.matrices) or not all(alike(np.asarray(w)) for w in record.weights.values())
    for client in record.clients:
        view = view_of(method, client)
        said = why.card(view, EN)
        assert said.answer
        assert (EN("why.nothing") in (said.answer, *said.lines, *said.how)) <= (not chooses)
        row = np.array([w[view.number] for w in record.weights.values()])
        others = row[:, view.others].max() >= LEAST
        assert (with_whom.card(view, EN).answer == EN("with.alone")) == (not others)


@pytest.mark.parametrize("method", list(METHODS))
def test_each_says_how_it_chooses_and_its_record_has_by_what(method):
    """One that chooses nobody measures nothing and takes all alike, one that chooses by a number records it,
    and one that has none records weights that differ.
    """
    assert isinstance(METHODS[method].chooses, Partners)
    record = record_of(method)
    differ = not all(alike(np.asarray(w)) for w in record.weights.values())
    for number in range(len(record.clients)):
        by = dict(views.partners(record, number).by)
        weights = by.pop(WEIGHTS, None)
        assert bool(set(by) & set(record.matrices)) == bool(by)
        assert bool(by) == bool(record.matrices.keys() - {CIRCLE})
        assert bool(by or weights) == differ
    assert not by or not weights


OTHERWISE = {
    "loss": {"direction": "theirs-on-mine"},
    "chosen": {"direction": "theirs-on-mine", "tell": "choices"},
    "accuracy": {"direction": "mine-on-theirs"},
    "concordance": {"direction": "mine-on-theirs"},
}
"""How greedy ways come to the numbers that the usual options do not record."""


@pytest.mark.parametrize(
    ("method", "number"), [(name, number) for name in METHODS for number in METHODS[name].chooses.by]
)
def test_each_number_that_is_declared_is_recorded(method, number):
    record = record_of(method)
    if number == WEIGHTS:
        assert record.weights
    elif number in record.matrices:
        assert np.isfinite(np.asarray(list(record.matrices[number].values()))).any()
    else:
        model, sites = ("linear", timed()) if number == "concordance" else ("logistic", clients())
        options = {"rounds": 1, "progress": False, "order": "at-once", **OTHERWISE[number]}
        assert number in coterie.train(model, sites, method, **options).record.matrices


@pytest.mark.parametrize("method", list(METHODS))
def test_who_chooses_says_how_in_every_language(method):
    chooses = METHODS[method].chooses
    assert not chooses.by or set(chooses.words) == set(LANGUAGES)
    said = chooses.in_words()
    assert said.startswith("chooses: nobody") == (not chooses.by)
    assert all(name in said for name in chooses.by if name != WEIGHTS)


@pytest.mark.parametrize("method", ["ifca", "weight-erosion", "local"])
def test_of_a_method_that_is_not_installed_nothing_is_said(method):
    view = view_of(method, "c0")
    (record,) = view.runs
    gone = replace(view, runs=[replace(record, config={**record.config, "method": "of-a-plugin"})])
    assert gone.partners is None
    for language in LANGUAGES:
        assert why.card(gone, Words(language)).answer == ""
    assert gone.shares == ""


def test_a_method_of_a_plugin_brings_its_own(monkeypatch):
    """Number, direction and words: here those of Weight Erosion turned round, in English alone."""
    own = Partners(by={"relative distance": "high"}, words={"en": "The farther, the better."}, shares="part")
    monkeypatch.setitem(METHODS._known, "farthest", SimpleNamespace(chooses=own))
    view = view_of("weight-erosion", "c0")
    config = {**view.record.config, "method": "farthest"}
    mine = replace(view, runs=[replace(view.record, config=config)])
    row = why.last_row(mine, "relative distance")
    farthest = max(mine.others, key=lambda j: row[j])
    assert why.card(mine, EN).answer.startswith(f"{mine.names[farthest]} fits best")
    assert "The farther, the better." in why.card(mine, Words("fr")).how
    assert mine.shares == "part"


@pytest.mark.parametrize("method", ["ifca", "data-interpolation", "fedala", "robust", "fl-swag", "oracle"])
def test_who_records_weights_alone_says_it_in_its_own_words(method):
    for language in LANGUAGES:
        card = why.card(view_of(method, "c0"), Words(language))
        assert card.answer == METHODS[method].chooses.words[language]


@pytest.mark.parametrize("method", ["central", "scaffold", "bayes-local"])
def test_of_one_that_is_known_to_choose_nobody_it_is_said(method):
    assert why.card(view_of(method, "c0"), EN).answer == EN("why.nothing")


def test_who_counted_before_is_not_denied():
    """The last round of fine-tuning is alone, those before were not."""
    assert with_whom.card(view_of("finetune", "c0"), EN).answer == EN("with.alone_now")
    assert with_whom.card(view_of("local", "c0"), EN).answer == EN("with.alone")


PARTS = ("ditto", "apfl", "pfedme", "per-fedavg", "fedper", "fedrep")
NO_SHARES = (
    "robust",
    "robust-personal",
    "cyclic",
    "wbayavg",
    "bayavg",
    "fl-swag",
    "fedala",
    "fedamp",
    "fedadam",
)


@pytest.mark.parametrize("method", [*PARTS, *NO_SHARES])
def test_no_shares_are_told_of_a_model_that_is_no_weighted_sum(method):
    card = with_whom.card(view_of(method, "c0"), EN)
    assert "Your model learns with c1 (" not in card.answer
    assert "Your model is made of" not in card.answer
    assert not any("Your own model counts in those of" in line for line in card.lines)
    assert EN("with.how") not in card.how
    assert "own_weight_there" not in card.table.columns
    if method in PARTS:
        assert card.answer.startswith("The part that all share is learned with ")
        assert "%" in card.answer
    else:
        assert "%" not in " ".join([card.answer, *card.lines])
        assert not card.pictures
        assert card.table.raw[0][0] in record_of(method).clients
        assert all(len(row) == len(card.table.columns) == 3 for row in card.table.raw)


def test_a_rule_other_than_the_mean_gives_no_shares():
    view = view_of("pens", "c0")
    assert view.shares == "model"
    record = replace(view.record, config={**view.record.config, "pens": {"rule": "median"}})
    assert replace(view, runs=[record]).shares == ""


def test_who_follows_advice_has_the_shares_of_what_it_follows():
    assert view_of("advised", "c0").shares == "model"  # fedavg


@pytest.mark.parametrize("language", LANGUAGES)
def test_nobody_is_chosen_for_a_reason(monkeypatch, language):
    say, view = Words(language), view_of("local", "c0")
    monkeypatch.setattr(View, "reasons", dict.fromkeys(view.others, "few"))
    few = say("reason.few", name="")
    assert why.ranking_answer(view, say) == say("why.nobody", reason=few.rstrip("."))
    monkeypatch.setattr(View, "reasons", {1: "few", 2: "own"})
    assert "c2" in why.ranking_answer(view, say)
