"""Accounts of hosts, and budgets that are kept without a computation for each visit."""

from __future__ import annotations

import json

import pytest

from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.core.held import COORDINATOR
from coterie.kernels import SGD, Draws, Here, Score
from coterie.privacy import spending as book
from coterie.privacy.accounting import COARSE, epsilon, most_times, spent_on
from coterie.privacy.spending import EVERYBODY, Account, Budget, Ledger, cost_of, statement

pytest.importorskip("dp_accounting")

STEP = Charge(8.0)
ROWS = {"train": 100, "validation": 0, "test": 30}


def eps(times: int) -> float:
    return epsilon([Charge(8.0, times=times)], 1e-5, COARSE)


def test_figures_by_requester_and_with_all_colluding():
    account = Account()
    for who, times in ((COORDINATOR, 1), (2, 2), (EVERYBODY, 4)):
        account.charge(who, [Charge(8.0, times=times)])
    assert account.of(COORDINATOR) == spent_on([Charge(8.0, times=5)])
    assert account.of(2) == spent_on([Charge(8.0, times=6)])
    assert account.of(7) == account.of(EVERYBODY) == spent_on([Charge(8.0, times=4)])
    assert account.all() == spent_on([Charge(8.0, times=7)])


def test_a_budget_admits_as_many_visits_as_fit_and_looks_few_up(monkeypatch):
    asked = []
    monkeypatch.setattr(book, "epsilon", lambda *a: asked.append(a) or epsilon(*a))
    budget, account, visits = Budget(3.0, 1e-5), Account(), 0
    while budget.admits(account, 1, (STEP,)):
        account.charge(1, (STEP,))
        visits += 1
    assert visits == most_times([], [STEP], 3.0, 1e-5) > 20
    assert len(asked) < visits / 2
    before = len(asked)
    assert not budget.admits(account, 2, (STEP,))
    assert len(asked) == before


def test_a_smaller_budget_for_each_requester():
    budget, account = Budget(eps(10), 1e-5, per_requester=eps(4)), Account()

    def visits(who: int | None) -> int:
        done = 0
        while budget.admits(account, who, (STEP,)):
            account.charge(who, (STEP,))
            done += 1
        return done

    assert visits(0) == 4
    assert visits(EVERYBODY) == 0  # it would be one more for 0
    assert visits(1) == 4
    assert visits(2) == 2  # all together are 10


def test_visits_for_everybody_count_for_each():
    budget, account = Budget(eps(10), 1e-5, per_requester=eps(4)), Account()
    account.charge(EVERYBODY, [Charge(8.0, times=3)])
    assert budget.admits(account, 5, (STEP,))
    account.charge(5, (STEP,))
    assert not budget.admits(account, 5, (STEP,))
    assert not budget.admits(account, EVERYBODY, (STEP,))


def test_costs_of_kernels():
    assert cost_of(SGD(), ROWS) is None
    assert cost_of(Score(), ROWS) is None
    assert cost_of(Here(), ROWS) == ()
    assert cost_of(Draws(), ROWS) == ()


def test_a_ledger_survives_json():
    ledger = Ledger()
    ledger.account(0).charge(EVERYBODY, [Charge(2.0, 0.1, 20, 100, 3)])
    ledger.account(0).charge(COORDINATOR, [Charge(5.0)])
    ledger.refuse(1, COORDINATOR, 4)
    ledger.refuse(1, COORDINATOR, 6)  # the first one stays
    ledger.outside["evaluation", "calibrate"] += 2
    again = Ledger.of(json.loads(json.dumps(ledger.to_dict())))
    assert again == ledger
    assert again.out == {1: {COORDINATOR: 4}}


def test_the_statement_names_sites_and_partners():
    ledger = Ledger()
    ledger.account(0).charge(1, [Charge(8.0, times=2)])
    ledger.account(0).charge(COORDINATOR, [Charge(8.0, times=1)])
    ledger.refuse(1, 0, 3)
    told = statement(ledger, ["a", "b"], [100, 50], 1e-5, Budget(3.0, 1e-5, 1.0))
    first, second = told["sites"]
    fine = {n: epsilon([Charge(8.0, times=n)], 1e-5) for n in (1, 2, 3)}
    assert first["epsilon"] == fine[3]
    assert first["by"] == {"b": fine[2], "coordinator": fine[1]}
    assert (first["everybody"], second["epsilon"], second["out"]) == (0, 0, {"a": 3})
    assert told["budget"] == {"epsilon": 3.0, "per_requester": 1.0}
    assert {c["for"]: c["times"] for c in first["charges"]} == {"b": 2, "coordinator": 1}
    json.dumps(told)


@pytest.mark.parametrize("each", [0.0, -1.0])
def test_budgets_of_nothing_are_refused(each):
    with pytest.raises(BadInput, match="per_requester"):
        Budget(3.0, 1e-5, each)
