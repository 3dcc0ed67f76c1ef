"""Every method of the contract's table, with limits that nobody reaches and with limits that bite."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from coterie.core.errors import Refused
from coterie.features.ownership.wrapper import Ownership
from coterie.methods import METHODS

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))
from table import COPIES, ROUNDS, assert_same, method_of, model_for, net_for, play, start_of

WHOLE = ("bayavg", "wbayavg")  # hand whole models out
ROWS = [*METHODS, "influence, first order", "pens in turn, stopping", "weight-erosion of one, half a step"]
ALL = [*((row, model_for(row)) for row in ROWS), ("fedavg, norms at home", "batchnorm")]
UNREACHED = 1 - 5e-10  # a bound, and within what is negligible of none


class Noted(Ownership):
    """Keeps what each round mixed."""

    def keep(self, live, round):
        live = list(live)
        self.__dict__.setdefault("told", []).append((dict(self.notes.sums), list(self.notes.withdrawals)))
        super().keep(live, round)
        self.notes.sums, self.notes.withdrawals = {}, []


@pytest.mark.parametrize("row", ["fedavg", "pens", "weight-erosion", "fl-swag", "d-psgd"])
def test_limits_that_nobody_reaches_change_nothing(row):
    method, start = method_of(row), start_of("dropout", torch.float64)
    plain = play(method, net_for("loop", "dropout", torch.float64, 0.3), start)
    owned = play(method, Ownership(net_for("loop", "dropout", torch.float64, 0.3), UNREACHED), start)
    assert_same(plain.models, owned.models, 1e-9)


@pytest.mark.parametrize(
    ("row", "model"),
    [pytest.param(*pair, marks=[pytest.mark.slow] * (pair[0] in set(COPIES) - set(WHOLE))) for pair in ALL],
)
def test_what_is_recorded_is_what_was_mixed(row, model):
    method, start = method_of(row), start_of(model, torch.float64)
    net = Noted(net_for("loop", model, torch.float64, 0.3), share_at_most=0.4, others_at_least=1)
    if row in WHOLE:
        with pytest.raises(Refused, match="would hand its whole model to"):
            play(method, net, start)
        return
    rounds = ROUNDS if row.startswith("bayes-") else 2  # these have to draw in some of them
    found = play(method, net, start, rounds=rounds)
    for info, (sums, withdrawn) in zip(found.infos, net.__dict__["told"][-rounds:], strict=True):
        net.notes.sums = sums
        weights = net.as_mixed(info.weights, info.mixed)
        total, planned = weights.sum(dim=1), info.weights.sum(dim=1)
        assert bool(((total - planned).abs() < 1e-6).logical_or(total == 0).all())
        names = [m.name for m in net.roster.members]
        gone = [(w["site"], w["receiver"]) for w in withdrawn if w["of"] == "sum"] if info.mixed else []
        for site, receiver in gone:
            rows = range(len(names)) if receiver == "coordinator" else [names.index(receiver)]
            assert all(weights[r, names.index(site)] == 0 for r in rows), (row, site, receiver)
