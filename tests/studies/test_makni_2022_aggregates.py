"""makni-2022: everything made of what clients sent, by hand."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from coterie.core.seeds import Key
from coterie.kernels.posterior import Collected
from coterie.posteriors import covariance, mean, variances
from coterie.studies.makni_2022 import aggregates, report
from coterie.studies.makni_2022.why import PARTS

LOG3 = math.log(3)
FEW, MANY = 100, 20_000


class Slope(nn.Module):
    """Logits 0 and w x: of x = 1 the probability of class 1 is σ(w). The unit is a buffer."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.register_buffer("unit", torch.ones(1))

    def forward(self, x):
        return torch.cat([torch.zeros_like(x), x * self.w * self.unit], dim=1)


def sent(columns=3):
    """Means ln 3 and 4 ln 3, variances 1 and ½; the last two deviations are 1, 1 and ½, ½."""

    def one(mu, variance, old, new):
        deviations = torch.tensor([[old]] * (columns - 2) + [[new]] * 2) if columns else torch.empty(0)
        whole = {"w": torch.tensor([mu]), "unit": torch.ones(1)}
        known = {"w": deviations} if columns else {}
        return Collected(whole, {"w": torch.tensor([variance])}, known, {}, 30)

    return [one(LOG3, 1.0, 100.0, 1.0), one(4 * LOG3, 0.5, 7.0, 0.5)]


def of(variance, mu=(0.0,), deviations=None):
    known = {"w": torch.tensor(deviations)} if deviations else {}
    return Collected({"w": torch.tensor(mu)}, {"w": torch.tensor(variance)}, known, {}, 5)


class TestProducts:
    def test_the_last_columns_alone(self):
        found = aggregates.products(sent())
        assert list(found) == ["FL-SWAG", "low rank 2"]
        # precisions 1 and 2: (1 + 2 · 4) / 3
        assert float(mean(found["FL-SWAG"])["w"]) == pytest.approx(3 * LOG3)
        assert float(variances(found["FL-SWAG"])["w"]) == pytest.approx(1 / 3)
        # ½ + (1 + 1) / 2 = 1.5 and ¼ + (¼ + ¼) / 2 = ½: precisions 2/3 and 2, (2/3 + 2 · 4) / (8/3)
        assert float(mean(found["low rank 2"])["w"]) == pytest.approx(3.25 * LOG3)
        assert float(variances(found["low rank 2"])["w"]) == pytest.approx(3 / 8)

    def test_twenty_columns_where_everybody_has_them(self):
        assert list(aggregates.products(sent(20))) == ["FL-SWAG", "low rank 2", "low rank 20"]
        # 18 columns of 100 and two of 1: ½ + (18 · 10⁴ + 2) / (2 · 19)
        found = aggregates.posterior_of(sent(20)[0], 20)
        assert float(variances(found)["w"]) == pytest.approx(0.5 + 180_002 / 38)
        assert list(aggregates.products([sent(20)[0], sent(19)[1]])) == ["FL-SWAG", "low rank 2"]
        assert list(aggregates.products(sent(0))) == ["FL-SWAG"]

    def test_two_weights_move_together_and_one_that_never_moved_has_the_floor(self):
        # ½ diag(1, 1) + ½ (d dᵀ + d dᵀ) with d = (1, -1)
        found = aggregates.posterior_of(of([1.0, 1.0], [0.0, 0.0], [[1.0, -1.0]] * 2), 2)
        torch.testing.assert_close(covariance(found), torch.tensor([[1.5, -1.0], [-1.0, 1.5]]).double())
        assert float(variances(aggregates.posterior_of(of([0.0]), 0))["w"]) == pytest.approx(1e-6)

    def test_in_any_order_and_sharper_than_each(self):
        spreads = [3.0, 0.02, 50.0]
        some = [of([v], [float(i)]) for i, v in enumerate(spreads)]
        one, other = (aggregates.products(f)["FL-SWAG"] for f in (some, some[::-1]))
        assert float(mean(one)["w"]) == pytest.approx(float(mean(other)["w"]), abs=1e-6)
        assert -1e-6 <= float(mean(one)["w"]) <= 2 + 1e-6
        assert float(variances(one)["w"]) <= min(spreads) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("preset", "factor", "spread", "pair"),
    [("text", 1, 1 / 3, [1.5, -1.0]), ("as-run", 1, 1 / 9, [2.25, 0.0]), ("text", 10, 10 / 3, [15.0, -10.0])],
)
def test_draws_have_the_products_spread_or_the_programs(monkeypatch, preset, factor, spread, pair):
    monkeypatch.setattr(aggregates, "SAMPLES", MANY)
    w = aggregates.drawn(aggregates.products(sent())["FL-SWAG"] * (1 / factor), preset, Key(0))["w"].double()
    assert w.shape == (MANY, 1)
    assert float(w.mean()) == pytest.approx(3 * LOG3, abs=5 * math.sqrt(spread / MANY))
    assert float(w.var()) == pytest.approx(spread, rel=5 * math.sqrt(2 / MANY))
    # the program draws weights apart
    found = aggregates.posterior_of(of([1.0, 1.0], [0.0, 0.0], [[1.0, -1.0]] * 2), 2) * (1 / factor)
    w = aggregates.drawn(found, preset, Key(0))["w"]
    assert torch.cov(w.T)[0].tolist() == pytest.approx(pair, abs=0.1 * factor)


def by_hand(p: float) -> dict[str, float]:
    """Four times x = 1, of which three are of class 1, predicted with probability p > ½."""
    return {
        "accuracy": 0.75,
        "ece": abs(0.75 - p),
        "brier": 0.75 * 2 * (1 - p) ** 2 + 0.25 * 2 * p**2,
        "nll": -0.75 * math.log(p) - 0.25 * math.log(1 - p),
    }


def odds(power: float) -> float:
    return 3**power / (1 + 3**power)


def averaged(centre: float, spread: float) -> tuple[float, float]:
    """Mean and standard deviation of σ(w), w ~ N(centre, spread)."""
    z = np.linspace(-9, 9, 100_001)
    weights = np.exp(-z * z / 2)
    p = 1 / (1 + np.exp(-centre - math.sqrt(spread) * z))
    found = np.average(p, weights=weights)
    return float(found), float(np.sqrt(np.average((p - found) ** 2, weights=weights)))


@pytest.fixture(scope="module")
def score(client_of, net_of):
    """Scores by preset, of clients of 4 and 2 rows."""

    @cache
    def score(preset, seed=0):
        net = net_of(Slope(), [client_of(torch.ones(4, 1), [1, 1, 1, 0])])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(aggregates, "SAMPLES", FEW)
            return aggregates.score(net, sent(), torch.tensor([4, 2]), preset, Key(seed))

    return score


ONES = {
    "client 1": 0.75,
    "client 2": 81 / 82,
    "FL-SWAG, mean": 27 / 28,
    "low rank 2, mean": odds(3.25),
    "levels alone": 27 / 28,  # with one weight, all there is: shares 1/3 and 2/3
    "coordinates alone": odds(2.5),
    "coordinates shuffled": odds(2.5),
    "by variance": odds(2),  # variances 1 and ½: (2 · 1 + 4) / 3
    "FedAvg": odds(2.5),
    "wFedAvg": 0.9,  # (2 + 4) / 3 = 2 ln 3
    "BayAvg": (3 / 4 + 81 / 82) / 2,
    "wBayAvg": (2 * 3 / 4 + 81 / 82) / 3,
}
DRAWN = {
    "text": {
        "FL-SWAG": (3, 1 / 3),
        "low rank 2": (3.25, 3 / 8),
        "FL-SWAG, T = 0.1": (3, 1 / 30),
        "FL-SWAG, T = 1000": (3, 1000 / 3),
        "low rank 2, T = 10": (3.25, 30 / 8),
    },
    "as-run": {"FL-SWAG": (3, 1 / 9), "low rank 2": (3.25, 9 / 64)},
}


@pytest.mark.parametrize("preset", ["text", "as-run"])
def test_scores_against_probabilities(score, preset):
    found = score(preset).figures
    for row, p in ONES.items():
        assert found[row] == pytest.approx(by_hand(p), abs=1e-6), row
    for row, (centre, spread) in DRAWN[preset].items():
        p, deviation = averaged(centre * LOG3, spread)
        # of four alike rows of which three are of class 1: confidence less accuracy
        sure = 0.75 + found[row]["ece"] if p > 0.75 else 0.75 - found[row]["ece"]
        assert sure == pytest.approx(p, abs=5 * deviation / math.sqrt(FEW)), row
        assert found[row] == pytest.approx(by_hand(sure)), row
    same = ["client 1", "client 2", "FL-SWAG, mean", "FL-SWAG", "low rank 2, mean", "low rank 2"]
    hot = [f"{row}, T = {T}" for T in ("0.1", "10", "1000", "100000") for row in ("FL-SWAG", "low rank 2")]
    averages = [*PARTS, "FedAvg", "wFedAvg", "BayAvg", "wBayAvg"]
    assert list(found) == [*same, *(hot if preset == "text" else ()), *averages]


def test_one_key_one_result_and_a_tally_for_the_figure(score):
    first, again, other = score("as-run"), score.__wrapped__("as-run"), score("as-run", 1)
    assert first.figures == again.figures
    assert first.figures["FL-SWAG"] != other.figures["FL-SWAG"]
    assert list(first.tallies) == ["FL-SWAG"]
    by_confidence = report.unpacked(first.tallies["FL-SWAG"]).confidence
    assert (by_confidence.samples.sum(), by_confidence.right.sum()) == (4, 3)
    ece = float((by_confidence.right - by_confidence.total).abs().sum()) / 4
    assert ece == pytest.approx(first.figures["FL-SWAG"]["ece"], abs=1e-6)
