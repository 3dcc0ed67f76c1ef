"""Section 6 of makni-2022: measures by hand, its posterior, verdicts on made-up results, a tiny run."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from coterie.core.belief import belief_of, stack
from coterie.core.errors import BadInput
from coterie.core.held import hold
from coterie.core.learner import Batch, Learner
from coterie.core.net import to_own
from coterie.core.seeds import Key
from coterie.kernels import HMC
from coterie.models.base import count_parameters
from coterie.posteriors.slots import flat
from coterie.show import figures
from coterie.studies.makni_2022 import cancer as c
from coterie.studies.makni_2022 import cancer_report as report
from coterie.studies.makni_2022.cancer import SETTINGS, Setting
from coterie.studies.makni_2022.measures import deviation, gap, mixing, on_plane, overlap, plane_of, scores

CROSS = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).double()  # covariance 2/3 I


@pytest.fixture(scope="module")
def task() -> c.Task:
    return c.task_of(SETTINGS["tiny"], 0)


@pytest.fixture
def brief(task) -> c.Task:
    """The same with four blocks of four draws."""
    return replace(task, given=replace(task.given, block=4, warm=2, blocks=2))


def test_the_network_and_its_rows(task):
    # 31 · 200 + 201 · 50 + 2 · 51 · 50 + 51
    full = c.task_of(Setting(), 0)
    assert count_parameters(full.net) == 21_401
    assert (len(full.client.train), len(full.client.test)) == (455, 114)
    with torch.no_grad():
        logits = task.net(task.client.test.x)
    assert bool((logits[:, 0] == 0).all())
    torch.testing.assert_close(logits.softmax(dim=1)[:, 1], logits[:, 1].sigmoid())
    x = task.client.train.x
    assert float(x.mean(dim=0).abs().max()) < 1e-5
    assert float((x.std(dim=0, correction=0) - 1).abs().max()) < 1e-4
    assert float(task.client.test.x.mean(dim=0).abs().max()) > 1e-3


class TestMeasures:
    def test_by_hand(self):
        # means (2, 0) and (1, 4): (1 + 4) / 2; averages (.5, .2) and (.4, .4)
        assert deviation(torch.tensor([[1.0, 3.0], [3.0, -3.0]]), torch.tensor([[1.0, 4.0]])) == 2.5
        assert gap(torch.tensor([[0.3, 0.2], [0.7, 0.2]]), torch.tensor([[0.4, 0.4]])) == pytest.approx(0.15)
        # away by (1, 0): 1 / (8 · 2/3)
        assert overlap(CROSS, CROSS + torch.tensor([1.0, 0.0])) == pytest.approx(math.exp(-3 / 16))
        # covariances 2/3 and 8/3, in the middle 5/3: √(4/9 · 64/9) / (25/9) under a root
        assert overlap(CROSS, 2 * CROSS) == pytest.approx(0.8) == overlap(2 * CROSS, CROSS)
        assert overlap(CROSS, CROSS) == pytest.approx(1)
        found = scores(torch.tensor([0.9, 0.2]).double(), torch.tensor([1, 0]))
        nll, brier = -(math.log(0.9) + math.log(0.8)) / 2, (2 * 0.01 + 2 * 0.04) / 2
        assert found == pytest.approx({"accuracy": 1, "ece": (0.1 + 0.2) / 2, "nll": nll, "brier": brier})

    def test_mixing_names_the_worst(self):
        draws = torch.randn(4, 50, 3, generator=torch.Generator().manual_seed(0))
        draws[0, :, 1] += 10
        draws[:, :, 2] = 1  # never moves
        found = mixing(draws)
        assert found["r_hat_worst"] > 2 > found["r_hat_median"]
        assert found["ess_least"] < 10


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

    def test_axes_are_square_and_from_the_point_next_to_zero_lengths_are_those_of_t(self):
        theta = torch.randn(6, 9, generator=torch.Generator().manual_seed(1)).double()
        plane = plane_of(theta)
        torch.testing.assert_close(plane.axes @ plane.axes.T, torch.eye(2).double())
        first, second = plane.project(theta).var(dim=0)
        assert first >= second
        torch.testing.assert_close(plane.shares[0], first / theta.var(dim=0).sum())
        plane, start = c.confined(plane)
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


def test_the_posterior_is_the_likelihood_of_all_rows_and_the_prior_in_the_plane_too(task):
    theta, y = flat(task.slots, belief_of(task.net)), task.client.train.y
    with torch.no_grad():
        z = task.net(task.client.train.x)[:, 1].double()
    likelihood = torch.where(y == 1, z.sigmoid(), 1 - z.sigmoid()).log().sum()
    wanted = likelihood - task.given.prior / 2 * theta.square().sum()
    torch.testing.assert_close(task.log_posterior(theta[None])[0], wanted, rtol=1e-5, atol=0)

    plane, start = c.confined(plane_of(theta + torch.randn(5, 393).double() / 10))
    module = c.InPlane(task.net, task.slots, plane.origin, plane.axes)
    learner, data = Learner(module, "classification"), task.client.train
    assert learner.trainable == ("place",)
    batch, samples = Batch(data.x, data.y, torch.ones(len(data))), torch.tensor(float(len(data))).double()
    places = torch.stack([start, start + torch.tensor([0.4, -0.2])])
    found = [
        HMC(prior=task.given.prior)
        .potential(learner, {**belief_of(module), "place": t.float()}, batch, torch.tensor(1), samples)
        .value
        for t in places
    ]
    wanted = task.log_posterior(plane.lift(places))
    torch.testing.assert_close(found[1] - found[0], wanted[0] - wanted[1], rtol=1e-4, atol=1e-3)


@pytest.fixture(scope="module")
def heard() -> list[float]:
    return []


@pytest.fixture(scope="module")
def text(heard) -> dict:
    return c.cancer("text", 0, lambda share, said: heard.append(share), "tiny")


@pytest.fixture(scope="module")
def made(text) -> dict[str, dict]:
    return {"text": text, "as-run": c.cancer("as-run", 0, lambda share, said: None, "tiny")}


@pytest.mark.slow
class TestTinyRun:
    def test_json_can_hold_it_and_all_numbers_are_there(self, made, heard):
        for result in made.values():
            assert json.loads(json.dumps(result, allow_nan=False)) == result
            assert result["draws"] == [2, 10]
            assert len(result["planes"]["both"]["swag"]) == len(result["planes"]["both"]["hmc"]) == 20
            assert 0 <= result["acceptance"] <= 1
        text, as_run = (made[p]["size"] for p in ("text", "as-run"))
        assert text["swag"] == as_run["swag"]
        assert text["hmc"] != as_run["hmc"]
        assert heard == sorted(heard)
        assert heard[0] == 0 < heard[-1] <= 1

    def test_chains_in_the_plane_stay_there(self, brief):
        swag = torch.randn(30, 393, generator=torch.Generator().manual_seed(0)).double() / 10
        draws = c.in_swags_plane(brief, swag, Key(0), lambda share, said: None).draws.flatten(0, 1)
        plane = plane_of(swag)
        torch.testing.assert_close(plane.lift(plane.project(draws)), draws, rtol=0, atol=1e-5)
        assert float(draws.std(dim=0).max()) > 0

    def test_a_chain_goes_on_from_its_last_state(self, brief):
        given, everybody = brief.given, torch.arange(brief.given.chains)
        starts, total = stack([belief_of(brief.net)] * given.chains), given.warm + given.blocks
        draws, *_ = c.run_chains(brief, brief.net, starts, given.free, Key(0), lambda share, said: None)
        net, own = brief.several(given.chains, brief.net), hold(starts, everybody)
        for block in range(1, total + 1):
            key = Key(0).at_round(block, total)
            own = net.visit(c.sampler(given, given.free), own, to_own(given.chains), key).beliefs
        assert all(torch.equal(draws[n][:, -1], t) for n, t in net.open(own).items())

    def test_a_block_of_draws_ends_with_one_that_is_kept(self):
        with pytest.raises(BadInput, match="block=7 must be even"):
            Setting(block=7)

    def test_half_of_the_chains_come_from_each_first_model(self):
        two = {"w": torch.tensor([[1.0], [2.0]])}
        assert c.halved(two, 4)["w"].flatten().tolist() == [1, 1, 2, 2]
        assert c.halved(two, 3)["w"].flatten().tolist() == [1, 1, 2]

    def test_figures(self, made, tmp_path):
        written = figures.write(tmp_path, lambda: report.figure(made["as-run"]), "png")
        assert [p.name for p in written] == ["cancer-as-run-samples.png", "cancer-as-run-surface.png"]
        axes = report.figure(made["text"])["cancer-text-samples"].axes
        for ax, plane, of in zip(axes, ("both", "both", "swag", "swag"), ("swag", "hmc") * 2, strict=True):
            drawn = np.asarray(ax.collections[0].get_offsets())
            assert drawn == pytest.approx(np.array(made["text"]["planes"][plane][of]))

    def test_table(self, made):
        lines = report.table({preset: {0: result} for preset, result in made.items()}).splitlines()
        assert lines[0] == "|  | text | as-run |"
        assert len(lines) == 3 + len(report.ROWS)
        values = " | ".join(report.written([made[p]["deviation"]["swag-hmc"]]) for p in made)
        assert lines[3] == f"| {next(iter(report.ROWS))} | {values} |"
        found = report.value(made["as-run"], ("planes", "swag", "ratio", 1))
        assert found == made["as-run"]["planes"]["swag"]["ratio"][1]


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
def test_numbers(values, wanted):
    assert report.written(values) == wanted


@pytest.mark.parametrize(
    ("deviations", "ratios", "word"),
    [
        ((1e-3, 1.1e-3, 0.9e-3), [[1.0, 1.1], [1.1, 0.9], [0.9, 1.0]], "holds"),
        ((1e-2, 1.1e-2, 0.9e-2), [[1.0, 0.1], [1.1, 0.11], [0.9, 9.0]], "fails"),
        ((1e-3, 1e-2), [[1.0, 1.0], [4.0, 1.0]], "undecided"),
        ((), [], "undecided"),
        ((1e-3,), [[1, 1]], "undecided"),
    ],
)
def test_claims(text, deviations, ratios, word):
    by = {seed: copy.deepcopy(text) for seed in range(len(deviations))}
    for seed, result in by.items():
        result["deviation"]["swag-hmc"] = deviations[seed]
        for plane in result["planes"].values():
            plane["ratio"] = ratios[seed]
    assert [claim.check(by).word for claim in report.CLAIMS] == [word, word]
    # log₁₀(10^-2.5 / 1e-3) = 0.5
    assert len(by) > 1 or report.means_are_close(by).why == ("+0.50, one seed" if by else "not run")
