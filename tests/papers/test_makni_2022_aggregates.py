"""makni-2022: everything made of what clients sent, by hand."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from coterie.core import belief as tree
from coterie.core.seeds import Key
from coterie.kernels.posterior import Collected, collected
from coterie.papers.makni_2022 import aggregates, figures
from coterie.papers.makni_2022.why import PARTS
from coterie.posteriors import covariance, mean, variances


class Slope(nn.Module):
    """Logits 0 and w x: of x = 1 the probability of class 1 is σ(w). The unit is a buffer."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.register_buffer("unit", torch.ones(1))

    def forward(self, x):
        return torch.cat([torch.zeros_like(x), x * self.w * self.unit], dim=1)


LOG3 = math.log(3)


def sent(*, columns=3):
    """Means ln 3 and 4 ln 3, variances 1 and ½; the last two deviations are 1, 1 and ½, ½."""
    found = {
        "w": torch.tensor([[LOG3], [4 * LOG3]]),
        "unit": torch.ones(2, 1),
        "variance/w": torch.tensor([[1.0], [0.5]]),
        "count": torch.full((2,), 30),
        "columns": torch.full((2,), columns),
    }
    for k in range(columns):  # newest first
        found[f"deviation/{k}/w"] = torch.tensor([[1.0], [0.5]] if k < 2 else [[100.0], [7.0]])
    return found


def both(**more):
    return [collected(tree.row(sent(**more), i)) for i in range(2)]


class TestProducts:
    def test_the_diagonal_one_by_hand(self):
        # precisions 1 and 2: (1 + 2 · 4) / 3
        found = aggregates.products(both())["FL-SWAG"]
        assert float(mean(found)["w"]) == pytest.approx(3 * LOG3)
        assert float(variances(found)["w"]) == pytest.approx(1 / 3)

    def test_low_rank_has_the_last_columns_alone(self):
        # ½ + (1 + 1) / 2 = 1.5 and ¼ + (¼ + ¼) / 2 = ½: precisions 2/3 and 2, (2/3 + 2 · 4) / (8/3)
        found = aggregates.products(both())
        assert list(found) == ["FL-SWAG", "low rank 2"]
        assert float(mean(found["low rank 2"])["w"]) == pytest.approx(3.25 * LOG3)
        assert float(variances(found["low rank 2"])["w"]) == pytest.approx(3 / 8)

    def test_twenty_columns_where_everybody_has_them(self):
        assert list(aggregates.products(both(columns=20))) == ["FL-SWAG", "low rank 2", "low rank 20"]
        # 18 columns of 100 and two of 1: ½ + (18 · 10⁴ + 2) / (2 · 19)
        found = aggregates.posterior_of(both(columns=20)[0], 20)
        assert float(variances(found)["w"]) == pytest.approx(0.5 + 180_002 / 38)
        fewer = [both(columns=20)[0], both(columns=19)[1]]
        assert list(aggregates.products(fewer)) == ["FL-SWAG", "low rank 2"]
        assert list(aggregates.products(both(columns=0))) == ["FL-SWAG"]

    def test_two_weights_move_together(self):
        # ½ diag(1, 1) + ½ (d dᵀ + d dᵀ) with d = (1, -1)
        zero, one = torch.zeros(2), torch.ones(2)
        d = torch.tensor([[1.0, -1.0]] * 2)
        found = aggregates.posterior_of(Collected({"w": zero}, {"w": one}, {"w": d}, {}, 5), 2)
        torch.testing.assert_close(covariance(found), torch.tensor([[1.5, -1.0], [-1.0, 1.5]]).double())

    def test_a_weight_that_never_moved_has_the_floor(self):
        still = Collected({"w": torch.ones(1)}, {"w": torch.zeros(1)}, {}, {}, 5)
        assert float(variances(aggregates.posterior_of(still, 0))["w"]) == pytest.approx(1e-6)

    @given(st.permutations(range(3)), st.lists(st.floats(0.01, 100), min_size=3, max_size=3))
    def test_in_any_order_and_sharper_than_each(self, order, spreads):
        some = [
            Collected({"w": torch.tensor([float(i)])}, {"w": torch.tensor([v])}, {}, {}, 5)
            for i, v in enumerate(spreads)
        ]
        one, other = (aggregates.products(f)["FL-SWAG"] for f in (some, [some[i] for i in order]))
        assert float(mean(one)["w"]) == pytest.approx(float(mean(other)["w"]), abs=1e-6)
        assert -1e-6 <= float(mean(one)["w"]) <= 2 + 1e-6
        assert float(variances(one)["w"]) <= min(spreads) * (1 + 1e-6)


MANY = 20_000


class TestDraws:
    @pytest.fixture(autouse=True)
    def many(self, monkeypatch):
        monkeypatch.setattr(aggregates, "SAMPLES", MANY)

    @pytest.mark.parametrize(
        ("preset", "factor", "spread"),
        [("text", 1, 1 / 3), ("as-run", 1, 1 / 9), ("text", 0.1, 1 / 30), ("text", 10, 10 / 3)],
    )
    def test_noise_of_the_product(self, preset, factor, spread):
        posterior = aggregates.products(both())["FL-SWAG"] * (1 / factor)
        w = aggregates.drawn(posterior, preset, Key(0))["w"].double()
        assert w.shape == (MANY, 1)
        assert float(w.mean()) == pytest.approx(3 * LOG3, abs=5 * math.sqrt(spread / MANY))
        assert float(w.var()) == pytest.approx(spread, rel=5 * math.sqrt(2 / MANY))

    @pytest.mark.parametrize(("preset", "wanted"), [("text", [1.5, -1.0]), ("as-run", [2.25, 0.0])])
    def test_the_program_draws_weights_apart(self, preset, wanted):
        d = torch.tensor([[1.0, -1.0]] * 2)
        found = Collected({"w": torch.zeros(2)}, {"w": torch.ones(2)}, {"w": d}, {}, 5)
        w = aggregates.drawn(aggregates.posterior_of(found, 2), preset, Key(0))["w"]
        assert torch.cov(w.T)[0].tolist() == pytest.approx(wanted, abs=0.15)


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


FEW = 100


@pytest.fixture(scope="module")
def score(client_of, net_of):
    """Scores by preset, of clients of 4 and 2 rows; the second one's test set, another, must not matter."""
    x = torch.ones(4, 1)
    first = client_of(x, [1, 1, 1, 0], name="a")
    second = client_of(x[:2], [1, 0], name="b", test=(x, [0, 0, 0, 0]))
    net = net_of(Slope(), [first, second])

    @cache
    def score(preset, seed=0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(aggregates, "SAMPLES", FEW)
            return aggregates.score(net, sent(), net.sizes, preset, Key(seed))

    return score


class TestScores:
    @pytest.mark.parametrize(
        ("row", "p"),
        [
            ("client 1", 0.75),
            ("client 2", 81 / 82),
            ("FL-SWAG, mean", 27 / 28),
            ("low rank 2, mean", odds(3.25)),
            ("levels alone", 27 / 28),  # with one weight, all there is: shares 1/3 and 2/3
            ("coordinates alone", odds(2.5)),
            ("coordinates shuffled", odds(2.5)),
            ("by variance", odds(2)),  # variances 1 and ½: (2 · 1 + 4) / 3
            ("FedAvg", odds(2.5)),
            ("wFedAvg", 0.9),  # (2 + 4) / 3 = 2 ln 3
            ("BayAvg", (3 / 4 + 81 / 82) / 2),
            ("wBayAvg", (2 * 3 / 4 + 81 / 82) / 3),
        ],
    )
    @pytest.mark.parametrize("preset", ["text", "as-run"])
    def test_against_probabilities(self, score, preset, row, p):
        assert score(preset).figures[row] == pytest.approx(by_hand(p), abs=1e-6)

    @pytest.mark.parametrize(
        ("preset", "row", "centre", "spread"),
        [
            ("text", "FL-SWAG", 3, 1 / 3),
            ("as-run", "FL-SWAG", 3, 1 / 9),
            ("text", "low rank 2", 3.25, 3 / 8),
            ("as-run", "low rank 2", 3.25, 9 / 64),
            ("text", "FL-SWAG, T = 0.1", 3, 1 / 30),
            ("text", "FL-SWAG, T = 1000", 3, 1000 / 3),
            ("text", "low rank 2, T = 10", 3.25, 30 / 8),
        ],
    )
    def test_draws_averaged(self, score, preset, row, centre, spread):
        p, deviation = averaged(centre * LOG3, spread)
        found = score(preset).figures[row]
        # of four alike rows of which three are of class 1: confidence less accuracy
        sure = 0.75 + found["ece"] if p > 0.75 else 0.75 - found["ece"]
        assert sure == pytest.approx(p, abs=5 * deviation / math.sqrt(FEW))
        assert found == pytest.approx(by_hand(sure))

    def test_temperatures_are_of_the_text_alone(self, score):
        same = ["client 1", "client 2", "FL-SWAG, mean", "FL-SWAG", "low rank 2, mean", "low rank 2"]
        averages = [*PARTS, "FedAvg", "wFedAvg", "BayAvg", "wBayAvg"]
        hot = [
            f"{row}, T = {T}" for T in ("0.1", "10", "1000", "100000") for row in ("FL-SWAG", "low rank 2")
        ]
        assert list(score("text").figures) == [*same, *hot, *averages]
        assert list(score("as-run").figures) == [*same, *averages]

    def test_one_key_one_result_and_a_tally_for_the_figure(self, score):
        first, again, other = score("as-run"), score.__wrapped__("as-run"), score("as-run", 1)
        assert first.figures == again.figures
        assert first.figures["FL-SWAG"] != other.figures["FL-SWAG"]
        assert list(first.tallies) == ["FL-SWAG"]
        by_confidence = figures.unpacked(first.tallies["FL-SWAG"]).confidence
        assert (by_confidence.samples.sum(), by_confidence.right.sum()) == (4, 3)
        ece = float((by_confidence.right - by_confidence.total).abs().sum()) / 4
        assert ece == pytest.approx(first.figures["FL-SWAG"]["ece"], abs=1e-6)
