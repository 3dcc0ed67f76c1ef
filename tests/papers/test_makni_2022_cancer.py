"""Section 6 of makni-2022: measures by hand, its posterior, verdicts on made-up results, a tiny run."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.belief import belief_of
from coterie.core.learner import Batch, Learner
from coterie.core.seeds import Key
from coterie.kernels import HMC
from coterie.models.base import count_parameters
from coterie.papers import drawing
from coterie.papers.makni_2022 import cancer as c
from coterie.papers.makni_2022 import cancer_report as report
from coterie.papers.makni_2022.cancer_scales import SETTINGS, Setting
from coterie.papers.makni_2022.measures import deviation, gap, mixing, on_plane, overlap, plane_of, scores
from coterie.posteriors.slots import flat

CROSS = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).double()  # covariance 2/3 I


@pytest.fixture(scope="module")
def task() -> c.Task:
    return c.task_of(SETTINGS["tiny"], 0)


class TestNetwork:
    def test_has_as_many_weights_as_the_paper(self):
        # 31 · 200 + 201 · 50 + 2 · 51 · 50 + 51
        task = c.task_of(Setting(), 0)
        assert count_parameters(task.net) == 21_401
        assert (len(task.client.train), len(task.client.test)) == (455, 114)

    def test_its_two_logits_are_one(self, task):
        with torch.no_grad():
            logits = task.net(task.client.test.x)
        assert bool((logits[:, 0] == 0).all())
        torch.testing.assert_close(logits.softmax(dim=1)[:, 1], logits[:, 1].sigmoid())

    def test_the_rows_are_standardised_by_those_to_train_on(self, task):
        x = task.client.train.x
        assert float(x.mean(dim=0).abs().max()) < 1e-5
        assert float((x.std(dim=0, correction=0) - 1).abs().max()) < 1e-4
        assert float(task.client.test.x.mean(dim=0).abs().max()) > 1e-3


class TestMeasures:
    def test_deviation_is_of_means(self):
        # means (2, 0) and (1, 4): (1 + 4) / 2
        a = torch.tensor([[1.0, 3.0], [3.0, -3.0]])
        assert deviation(a, torch.tensor([[1.0, 4.0]])) == 2.5

    def test_gap_is_of_averages(self):
        # averages (.5, .2) and (.4, .4)
        assert gap(torch.tensor([[0.3, 0.2], [0.7, 0.2]]), torch.tensor([[0.4, 0.4]])) == pytest.approx(0.15)

    def test_overlap_of_clouds_apart(self):
        # away by (1, 0): 1 / (8 · 2/3)
        assert overlap(CROSS, CROSS + torch.tensor([1.0, 0.0])) == pytest.approx(math.exp(-3 / 16))

    def test_overlap_of_clouds_of_two_sizes(self):
        # covariances 2/3 and 8/3, in the middle 5/3: √(4/9 · 64/9) / (25/9) under a root
        assert overlap(CROSS, 2 * CROSS) == pytest.approx(0.8)

    @given(st.floats(0.1, 10), st.floats(-3, 3))
    def test_overlap_goes_both_ways_and_is_one_with_itself(self, unit, away):
        other = unit * CROSS + away
        assert overlap(CROSS, other) == pytest.approx(overlap(other, CROSS))
        assert overlap(other, other) == pytest.approx(1)
        assert overlap(CROSS, other) <= 1 + 1e-12

    def test_scores_by_hand(self):
        found = scores(torch.tensor([0.9, 0.2]).double(), torch.tensor([1, 0]))
        assert found["accuracy"] == 1
        assert found["nll"] == pytest.approx(-(math.log(0.9) + math.log(0.8)) / 2)
        assert found["brier"] == pytest.approx((2 * 0.01 + 2 * 0.04) / 2)
        assert found["ece"] == pytest.approx((0.1 + 0.2) / 2)

    def test_mixing_names_the_worst(self):
        draws = torch.randn(4, 50, 3, generator=torch.Generator().manual_seed(0))
        draws[0, :, 1] += 10
        draws[:, :, 2] = 1  # never moves
        found = mixing(draws)
        assert found["r_hat_worst"] > 2
        assert found["ess_least"] < 10
        assert found["r_hat_median"] < found["r_hat_worst"]


class TestPlane:
    def test_by_hand(self):
        # around (1, 1, 1): ±3 along the second coordinate, ±1 along the third
        theta = torch.tensor([[1.0, 4.0, 1.0], [1.0, -2.0, 1.0], [1.0, 1.0, 2.0], [1.0, 1.0, 0.0]]).double()
        plane = plane_of(theta)
        assert plane.origin.tolist() == [1, 1, 1]
        torch.testing.assert_close(plane.axes, torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).double())
        assert plane.shares.tolist() == pytest.approx([0.9, 0.1])
        torch.testing.assert_close(plane.project(theta)[:, 0], torch.tensor([3.0, -3.0, 0.0, 0.0]).double())
        torch.testing.assert_close(plane.lift(plane.project(theta)), theta)

    @given(st.integers(0, 100))
    def test_axes_are_square_and_of_length_one(self, seed):
        theta = torch.randn(6, 9, generator=torch.Generator().manual_seed(seed)).double()
        plane = plane_of(theta)
        torch.testing.assert_close(plane.axes @ plane.axes.T, torch.eye(2).double())
        first, second = plane.project(theta).var(dim=0)
        assert first >= second
        torch.testing.assert_close(plane.shares[0], first / theta.var(dim=0).sum())

    def test_from_its_point_next_to_zero_lengths_are_those_of_t(self):
        theta = torch.randn(6, 9, generator=torch.Generator().manual_seed(1)).double()
        plane, start = c.confined(plane_of(theta))
        torch.testing.assert_close(plane.lift(start), theta.mean(dim=0))
        t = torch.tensor([0.3, -2.0]).double()
        square = plane.origin.square().sum() + t.square().sum()
        torch.testing.assert_close(plane.lift(t).square().sum(), square)

    def test_clouds_and_heights_on_a_grid(self):
        plane = plane_of(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).double())
        found = on_plane(plane, CROSS, 2 * CROSS, lambda theta: theta[:, 0] + 10 * theta[:, 1], 3)
        assert found["ratio"] == pytest.approx([0.5, 0.5])
        assert found["sides"] == [pytest.approx([-2.32, 0, 2.32])] * 2
        # rows go along the second axis, as pictures have them
        assert np.array(found["log_posterior"])[:, 1] == pytest.approx([-23.2, 0, 23.2])
        assert np.array(found["log_posterior"])[1] == pytest.approx([-2.32, 0, 2.32])


class TestPosterior:
    def test_is_the_likelihood_of_all_rows_and_the_prior(self, task):
        theta = flat(task.slots, belief_of(task.net))
        with torch.no_grad():
            z = task.net(task.client.train.x)[:, 1].double()
        y = task.client.train.y
        likelihood = torch.where(y == 1, z.sigmoid(), 1 - z.sigmoid()).log().sum()
        wanted = likelihood - task.given.prior / 2 * theta.square().sum()
        torch.testing.assert_close(task.log_posterior(theta[None])[0], wanted, rtol=1e-5, atol=0)

    def test_chains_in_the_plane_have_the_same(self, task):
        theta = flat(task.slots, belief_of(task.net)) + torch.randn(5, 393).double() / 10
        plane, start = c.confined(plane_of(theta))
        module = c.InPlane(task.net, task.slots, plane.origin, plane.axes)
        learner = Learner(module, "classification")
        assert learner.trainable == ("place",)
        data, work = task.client.train, HMC(prior=task.given.prior)
        batch = Batch(data.x, data.y, torch.ones(len(data)))
        found = []
        for t in (start, start + torch.tensor([0.4, -0.2])):
            belief = {**belief_of(module), "place": t.float()}
            samples = torch.tensor(float(len(data))).double()
            found.append(work.potential(learner, belief, batch, torch.tensor(1), samples).value)
        wanted = task.log_posterior(
            torch.stack([plane.lift(start), plane.lift(start + torch.tensor([0.4, -0.2]))])
        )
        torch.testing.assert_close(found[1] - found[0], wanted[0] - wanted[1], rtol=1e-4, atol=1e-3)


@pytest.fixture(scope="module")
def made() -> dict[str, dict]:
    return {preset: c.cancer(preset, 0, lambda share, said: None, "tiny") for preset in ("text", "as-run")}


class TestTinyRun:
    def test_json_can_hold_it_and_all_numbers_are_there(self, made):
        for result in made.values():
            assert json.loads(json.dumps(result, allow_nan=False)) == result
            assert result["draws"] == [2, 10]
            assert len(result["planes"]["both"]["swag"]) == len(result["planes"]["both"]["hmc"]) == 20
            assert 0 <= result["acceptance"] <= 1

    def test_the_same_seed_gives_the_same(self, made):
        heard = []
        again = c.cancer("text", 0, lambda share, said: heard.append(share), "tiny")
        assert again == made["text"]
        assert heard == sorted(heard)
        assert (heard[0], heard[-1] <= 1) == (0, True)

    def test_swag_is_the_same_under_both_presets(self, made):
        text, as_run = (made[p]["size"]["swag"] for p in ("text", "as-run"))
        assert text == as_run
        assert made["text"]["size"]["hmc"] != made["as-run"]["size"]["hmc"]

    def test_chains_in_the_plane_stay_there(self, task):
        swag = torch.randn(30, 393, generator=torch.Generator().manual_seed(0)).double() / 10
        chains = c.in_swags_plane(task, swag, Key(0), lambda share, said: None)
        plane = plane_of(swag)
        draws = chains.draws.flatten(0, 1)
        torch.testing.assert_close(plane.lift(plane.project(draws)), draws, rtol=0, atol=1e-5)
        assert float(draws.std(dim=0).max()) > 0

    def test_half_of_the_chains_come_from_each_first_model(self):
        two = {"w": torch.tensor([[1.0], [2.0]])}
        assert c.halved(two, 4)["w"].flatten().tolist() == [1, 1, 2, 2]
        assert c.halved(two, 3)["w"].flatten().tolist() == [1, 1, 2]

    def test_figures(self, made, tmp_path):
        written = drawing.write(tmp_path, lambda: report.figure(made["as-run"]), "png")
        assert [p.name for p in written] == ["cancer-as-run-samples.png", "cancer-as-run-surface.png"]
        axes = report.figure(made["text"])["cancer-text-samples"].axes
        for ax, plane, of in zip(axes, ("both", "both", "swag", "swag"), ("swag", "hmc") * 2, strict=True):
            drawn = np.asarray(ax.collections[0].get_offsets())
            assert drawn == pytest.approx(np.array(made["text"]["planes"][plane][of]))

    def test_table(self, made):
        by = {preset: {0: result} for preset, result in made.items()}
        lines = report.table(by).splitlines()
        assert lines[0] == "|  | text | as-run |"
        assert len(lines) == 3 + len(report.ROWS)
        assert (
            lines[3]
            == f"| {next(iter(report.ROWS))} | "
            + " | ".join(report.written([made[p]["deviation"]["swag-hmc"]]) for p in made)
            + " |"
        )
        assert (
            report.value(made["as-run"], ("planes", "swag", "ratio", 1))
            == (made["as-run"]["planes"]["swag"]["ratio"][1])
        )


class TestReport:
    @pytest.mark.parametrize(
        ("values", "wanted"),
        [
            ([0.5], "0.500"),
            ([12.345, 12.345], "12.3 ± 0.0"),
            ([-10783.0, -10783.0], "-10783 ± 0"),
            ([2.5e-5], "2.50e-05"),
            ([2e-5, 2e-5], "(2.00 ± 0.00)e-5"),
            ([0.0], "0"),
        ],
    )
    def test_numbers(self, values, wanted):
        assert report.written(values) == wanted

    def results(self, made, deviations, ratios) -> dict[int, dict]:
        by = {}
        for seed, (deviated, ratio) in enumerate(zip(deviations, ratios, strict=True)):
            by[seed] = copy.deepcopy(made["text"])
            by[seed]["deviation"]["swag-hmc"] = deviated
            for plane in by[seed]["planes"].values():
                plane["ratio"] = ratio
        return by

    def test_claims_hold(self, made):
        by = self.results(made, (1e-3, 1.1e-3, 0.9e-3), [[1.0, 1.1], [1.1, 0.9], [0.9, 1.0]])
        assert [claim.check(by).word for claim in report.CLAIMS] == ["holds", "holds"]
        # log₁₀(10^-2.5 / 1e-3) = 0.5
        assert report.means_are_close(self.results(made, (1e-3,), [[1, 1]])).why == "+0.50, one seed"

    def test_claims_fail(self, made):
        by = self.results(made, (1e-2, 1.1e-2, 0.9e-2), [[1.0, 0.1], [1.1, 0.11], [0.9, 9.0]])
        assert [claim.check(by).word for claim in report.CLAIMS] == ["fails", "fails"]

    def test_claims_are_undecided(self, made):
        by = self.results(made, (1e-3, 1e-2), [[1.0, 1.0], [4.0, 1.0]])
        assert [claim.check(by).word for claim in report.CLAIMS] == ["undecided", "undecided"]
        assert [claim.check({}).why for claim in report.CLAIMS] == ["not run", "not run"]
