"""Advised: the rule by hand, and that what is followed is just what it would be alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import coterie
from coterie.core.errors import BadInput, Several
from coterie.features.advice.judge import choose
from coterie.features.trials.gains import Gain, standard_error
from coterie.kernels import SGD
from coterie.kernels.newton import Newton
from coterie.methods.advised import ALONE, SOLVED, Advised
from coterie.methods.advised import CANDIDATES as USUAL
from coterie.metrics.classification import sensitivity

CANDIDATES = ("fedavg", "finetune:tune=1", "similar")


def clients_of(rows=60, seed=0):
    """Three that see the same, one that sees the opposite."""
    draws, made = np.random.default_rng(seed), []
    for name, sign in (("north", 1), ("south", 1), ("east", 1), ("west", -1)):
        x = draws.normal(size=(rows, 5))
        y = (sign * x.sum(axis=1) + 0.5 * draws.normal(size=rows) > 0).astype(int)
        made.append(coterie.Client.from_arrays(x, y, name=name))
    return made


def test_a_gain_and_its_standard_error_by_hand():
    """Differences 0.1, 0, 0.3: mean 0.4 / 3, variance 0.07 / 3, times 1/3 + 1/2."""
    gain = Gain([0.8, 0.8, 0.9], [0.7, 0.8, 0.6], higher=True)
    assert gain.mean == pytest.approx(0.4 / 3)
    assert gain.error == pytest.approx(math.sqrt((1 / 3 + 1 / 2) * 0.07 / 3))
    assert not gain.exceeds(1)
    assert gain.exceeds(0.9)
    turned = Gain([0.8, 0.8, 0.9], [0.7, 0.8, 0.6], higher=False)
    assert turned.mean == -gain.mean
    assert not turned.exceeds(0)
    assert standard_error(np.array([1.0])) == math.inf
    unknown = Gain([0.8, math.nan, 0.9], [0.7, 0.8, 0.6], higher=True)
    assert (unknown.folds, unknown.mean) == (2, pytest.approx(0.2))


def test_alone_is_kept_unless_another_is_better_by_more_than_noise():
    alone = [0.5, 0.5, 0.5, 0.5]
    steady, wild = Gain([0.53, 0.54, 0.53, 0.54], alone, True), Gain([0.9, 0.1, 0.9, 0.2], alone, True)
    more, worse = Gain([0.56, 0.58, 0.56, 0.58], alone, True), Gain([0.4, 0.4, 0.4, 0.4], alone, True)
    assert choose({"wild": wild, "worse": worse}, 1) == ALONE
    assert choose({"wild": wild, "steady": steady, "more": more}, 1) == "more"
    assert choose({"same": Gain(alone, alone, True)}, 0) == ALONE
    assert choose({}, 1) == ALONE


@pytest.mark.parametrize(("specificity", "found"), [(0.75, 2 / 3), (0.9, 1 / 3), (0.5, 1.0)])
def test_sensitivity_at_a_specificity_by_hand(specificity, found):
    """Of four well ones, with 0.1, 0.2, 0.3 and 0.9, so many may be called ill."""
    score = torch.tensor([0.1, 0.25, 0.2, 0.3, 0.5, 0.9, 0.95])
    y = torch.tensor([0, 1, 0, 0, 1, 0, 1])
    assert sensitivity(score, y, specificity).tolist() == [pytest.approx(found)]
    assert math.isnan(float(sensitivity(score[:1], y[:1], specificity)))


def test_what_is_followed_is_what_it_would_be_alone(tmp_path):
    """To the last bit, whoever else follows something else."""
    clients = clients_of()
    given = {"rounds": 3, "seed": 1, "lr": 0.3, "momentum": 0.5, "keep": True}
    choice = ("fedavg", "local", "finetune:tune=1", "similar")
    result = coterie.train("logistic", clients, "advised", candidates=CANDIDATES, choice=choice, **given)
    assert "similar" in result.report(tmp_path / "page.html").read_text()  # though no ranking is shown
    for client, spec in zip(clients, choice, strict=True):
        options = {"tune": 1} if "tune" in spec else {}
        own = coterie.train("logistic", clients, spec.partition(":")[0], **options, **given)
        theirs, mine = own.models[client.name].state_dict(), result.models[client.name].state_dict()
        assert all(torch.equal(theirs[name], t) for name, t in mine.items()), client.name
        which = [c.name for c in clients].index(client.name)
        assert np.array_equal(result.weights[-1, which], own.weights[-1, which])


def test_trials_come_first_and_their_choice_is_in_the_record_and_on_the_page(tmp_path):
    clients = clients_of(rows=120)
    result = coterie.train(
        "logistic", clients, "advised", candidates=("fedavg", "ndoye:best=2"), rounds=8, lr=0.3, folds=4
    )
    choice = result.record.config["advised"]["choice"]
    assert choice[3] == ALONE  # all others see the opposite
    assert any("advised follows" in note and "west: local" in note for note in result.record.about["notes"])
    assert result.record.metrics[-1]["extras"]["follows"] == choice
    page = result.report(tmp_path / "page.html").read_text()
    assert "What each was advised to follow" in page
    assert "alone (1 of 1 seeds)" in page


def test_without_candidates_the_usual_ones_of_the_local_work_are_tried():
    assert tuple(Advised(local=SGD()).ways) == (ALONE, *USUAL)
    assert tuple(Advised(local=Newton()).ways) == (ALONE, *SOLVED)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"candidates": ("fedavg", "fedavg")}, "named twice"),
        ({"candidates": ("advised",)}, "candidate of itself"),
        ({"candidates": ("fedaverage",)}, "unknown method"),
        ({"measure": "f1"}, "is none of these"),
        ({"specificity": 1.0}, "between 0 and 1"),
        ({"folds": 1}, "folds=1"),
        ({"sure": math.nan}, "sure=nan"),
    ],
)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises((BadInput, Several), match=said):
        Advised(**options)


def test_a_choice_must_fit_the_clients_and_a_candidate_must_leave_rows_where_they_are():
    clients = clients_of()
    for options, said in (
        ({"choice": ("local",)}, "1 ways for 4 clients"),
        ({"choice": ("pens",) * 4, "candidates": ("fedavg",)}, "no candidate"),
        ({"candidates": ("central",)}, "moves rows"),
        ({"candidates": ("fl-swag",)}, "several models"),
        ({"requester": "nobody"}, "requester"),
    ):
        with pytest.raises(BadInput, match=said):
            coterie.train("logistic", clients, "advised", rounds=2, folds=2, **options)
