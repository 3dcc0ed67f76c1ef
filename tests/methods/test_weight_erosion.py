from __future__ import annotations

import itertools
import math
import shlex
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import coterie
from coterie.cli.main import main
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.features.absence.wrapper import Absent
from coterie.kernels import SGD
from coterie.methods import WeightErosion
from coterie.methods.server import requesters
from coterie.methods.server.weight_erosion import (
    by_tensor,
    cone_angle,
    distance_penalty,
    distance_per_step,
    erode,
    relative_distance,
    steps_in_epochs,
    whole_passes,
)

NAN = math.nan
# x = 1 and one target y for each client: a full step at this rate takes w to (w + y) / 2,
# so that d_i = |y_i - y_0| / |w - y_0|
HALF = SGD(lr=0.25, batch=1000)
ONE_ROW = SGD(lr=0.25, batch=1, steps=1)


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def whole(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def start(*values: float) -> dict[str, torch.Tensor]:
    return {"weight": numbers(*values).reshape(-1, 1, 1)}


def w(states) -> list[list[float]]:
    return [s.beliefs.tensors["weight"].flatten().tolist() for s in states[1:]]


def close(found, wanted, tolerance=1e-12):
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        torch.as_tensor(wanted, dtype=torch.float64),
        rtol=0,
        atol=tolerance,
        equal_nan=True,
    )


class TestEquations:
    def test_erode_by_the_paper_s_angles(self):
        # gradients as long as the requester's: at 180 degrees d = 2; at 45, d² = 2 - √2 (the paper says 1/24)
        lost = 1 - erode(numbers(1, 1), numbers(2, math.sqrt(2 - math.sqrt(2))), 0.05, 0, whole(7, 7))
        close(lost, [0.1, 0.05 * 0.7653668647301796])

    def test_distance_penalty(self):
        assert (distance_penalty(0.3, 20), distance_penalty("auto", 20)) == (0.3, 0.005)

    def test_whole_passes(self):
        rounds, sizes = whole(0, 1, 5, 6, 6), whole(10, 10, 10, 10, 3)
        # steps of 4 rows: 0, 4, 20, 24 of 10 rows; the client with 3 rows gives all of them, 6 times
        assert whole_passes(rounds, sizes, epochs=9, steps=1, batch=4).tolist() == [0, 0, 2, 2, 6]
        assert whole_passes(rounds, sizes, epochs=9, steps=3, batch=4).tolist() == [0, 1, 6, 7, 18]
        assert whole_passes(rounds, sizes, epochs=2, steps=0, batch=4).tolist() == [0, 2, 10, 12, 12]

    def test_distance_per_step(self):
        # g_0 = (3, 4) in 2 steps; g_1 = (9, 12) in 6, the same way; g_2 = (4, 3) in 2; g_3 = (0, 0) in 4;
        # g_4 = (-3, 4) in 1: per step (-3, 4) against (1.5, 2), √(4.5² + 2²) / 2.5
        ways = numbers(3, 4, 9, 12, 4, 3, 0, 0, -3, 4).reshape(5, 2)
        steps = numbers(2, 6, 2, 4, 1)
        distance = relative_distance((ways - ways[0]).norm(dim=1), ways[0].norm())
        found = distance_per_step(distance, ways.norm(dim=1) / 5, steps / steps[0])
        close(found, [0, 0, math.sqrt(2) / 5, 1, math.sqrt(24.25) / 2.5])
        assert found[2] == distance[2]  # as many steps: the same bits
        endless = distance_per_step(numbers(math.inf, 0), numbers(math.inf, NAN), numbers(2, 3))
        assert endless.tolist() == [math.inf, 0]  # of a requester that did not move, as in (1)

    @given(
        st.lists(st.floats(-5, 5), min_size=9, max_size=9),
        st.lists(st.integers(1, 40), min_size=3, max_size=3),
    )
    def test_distance_per_step_is_that_of_ways_divided_by_steps(self, ways, steps):
        g, n = numbers(*ways).reshape(3, 3), numbers(*steps)
        if g[0].norm() < 0.1:
            return
        distance = relative_distance((g - g[0]).norm(dim=1), g[0].norm())
        found = distance_per_step(distance, g.norm(dim=1) / g[0].norm(), n / n[0])
        each = g / n.unsqueeze(1)
        close(found, (each - each[0]).norm(dim=1) / each[0].norm(), 1e-4)

    def test_steps_in_epochs(self):
        assert steps_in_epochs(whole(1, 32, 33, 600), 2, 32).tolist() == [2, 2, 4, 38]

    def test_importance_goes_to_all_tensors_of_a_layer_the_precise_name_last(self):
        names = ["conv.1.weight", "conv.1.bias", "conv.10.weight", "head.weight"]
        table = by_tensor(("conv.1.bias=0", "conv.1=2"), names)
        assert table == {"conv.1.weight": 2, "conv.1.bias": 0}
        assert by_tensor((), names) == {}


class TestCone:
    def angle(self, *gradients) -> float:
        g = torch.tensor(gradients, dtype=torch.float64)
        return cone_angle((g.unsqueeze(1) - g).norm(dim=2), g.norm(dim=1))

    @pytest.mark.parametrize(
        ("gradients", "degrees"),
        [
            ([(3, 4)], 0),
            ([(1, 0), (5, 0)], 0),
            ([(1, 0), (0, 7)], 45),
            ([(2, 0), (-1, math.sqrt(3))], 60),
            ([(1, 0, 0), (0, 2, 0), (0, 0, 3)], math.degrees(math.acos(3**-0.5))),  # around (1, 1, 1)
            ([(1, 0), (1, 1), (0, 1)], 45),  # one between two others changes nothing
            ([(0, 0), (1, 0), (0, 7)], 45),  # a gradient of 0 fits everywhere
            ([(0, 0), (0, 0)], 0),
            ([(1, 2), (-2, -4)], 90),
            ([(1, 0), (0, 1), (-1, -1)], 90),  # these fit into none
        ],
    )
    def test_by_hand(self, gradients, degrees):
        assert self.angle(*gradients) == pytest.approx(degrees, abs=1e-4)

    @given(st.data())
    def test_no_axis_does_better(self, data):
        rows, columns = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 5))
        part = st.floats(-4, 4).map(lambda x: round(x, 2))
        gradient = st.lists(part, min_size=columns, max_size=columns).filter(lambda g: any(g))
        gradients = data.draw(st.lists(gradient, min_size=rows, max_size=rows))
        found = self.angle(*gradients)
        g = torch.tensor(gradients, dtype=torch.float64)
        axes = torch.cat([g, g.sum(dim=0, keepdim=True), torch.tensor(data.draw(gradient)).unsqueeze(0)])
        axes = axes[axes.norm(dim=1) > 1e-9]
        cosines = (axes @ g.T) / (axes.norm(dim=1, keepdim=True) * g.norm(dim=1))
        widest = torch.rad2deg(torch.acos(cosines.clamp(-1, 1))).max(dim=1).values
        assert 0 <= found <= 90
        assert bool((widest >= found - 1e-4).all())


class TestTrajectories:
    """Alpha and w worked out by hand."""

    @pytest.mark.parametrize("engine", ["loop", "stacked"])
    def test_without_a_size_penalty(self, pull, play, engine):
        # y = 4 and 0, w = 0, p_d = 1/4
        # 1: d = 1,   α = 3/4; (2 + 0) / (7/4) = 8/7
        # 2: d = 7/5, α = 2/5; (18/7 + 2/5 · 4/7) / (7/5) = 2
        # 3: d = 2,   α = 0;   3, which is training alone; so is 4, where nobody else is asked
        net = pull([4, 0], engine=engine)
        states, infos = play(WeightErosion(HALF, "c0", p_d=0.25), net, start(0), 4)
        close([s.alpha[0, 1] for s in states], [1, 0.75, 0.4, 0, 0])
        assert [s.alpha[0, 0].item() for s in states] == [1] * 5
        close(w(states), [[8 / 7], [2], [3], [3.5]])
        close(infos[1].weights, [[5 / 7, 2 / 7], [0, 0]])
        close(infos[1].matrices["alpha"], [[1, 0.4], [NAN, NAN]])
        close(infos[1].matrices["relative distance"], [[0, 1.4], [NAN, NAN]])
        close(infos[3].weights, [[1, 0], [0, 0]])
        close(infos[3].matrices["relative distance"], [[0, NAN], [NAN, NAN]])
        close(infos[3].matrices["alpha"], [[1, 0], [NAN, NAN]])
        close(infos[0].loss, [16, 0])
        close(infos[3].loss, [1, NAN])

    def test_with_a_size_penalty(self, pull, play):
        # y = 4, 0, 0 with 3, 1 and 100 rows, one row a round, p_d = 1/4, p_s = 1
        # 1: d = 1,     passes 0, 0: α = 3/4, 3/4;  2 / (5/2) = 4/5
        # 2: d = 5/4,   passes 1, 0: α = 1/8, 7/16; (12/5 + 9/16 · 2/5) / (25/16) = 42/25
        # 3: d = 50/29, passes 2, 0: α = 0, 7/16 - 25/58 = 3/464
        net = pull([4, 0, 0], [3, 1, 100])
        states, _ = play(WeightErosion(ONE_ROW, "c0", p_d=0.25, p_s=1), net, start(0), 3)
        close([s.alpha[0, 1] for s in states], [1, 3 / 4, 1 / 8, 0])
        close([s.alpha[0, 2] for s in states], [1, 3 / 4, 7 / 16, 3 / 464])
        # 3: replies 71/25, 21/25 (and 21/25)
        close(w(states), [[0.8], [1.68], [(2.84 + 0.84 * 3 / 464) / (467 / 464)]])

    def test_every_client_for_itself(self, pull, play):
        # y = 4 and 0, w = 2, p_d = 1/4: both see d = 2, α = 1/2; (3 + 1/2) / (3/2) and (1 + 3/2) / (3/2)
        # then d = 12/5: α = 0, and each takes its own half step
        states, infos = play(WeightErosion(HALF, p_d=0.25), pull([4, 0]), start(2), 2)
        close(states[1].alpha, [[1, 0.5], [0.5, 1]])
        close(states[2].alpha, [[1, 0], [0, 1]])
        close(w(states), [[7 / 3, 5 / 3], [19 / 6, 5 / 6]])
        close(infos[0].weights, [[2 / 3, 1 / 3], [1 / 3, 2 / 3]])
        close(infos[1].matrices["relative distance"], [[0, 2.4], [2.4, 0]])
        close(infos[1].loss, [(4 - 7 / 3) ** 2, (5 / 3) ** 2])

    def test_sum_of_gradients_along_local_sgd(self, pull, play):
        # two steps take w three quarters of the way: replies 3 and 0, as if from one gradient
        # α = 1 - 1/4 · 3/3; 3 / (7/4)
        net = pull([4, 0], [2, 2])
        states, _ = play(WeightErosion(SGD(lr=0.25, batch=1), "c0", p_d=0.25), net, start(0), 1)
        close(states[1].alpha, [[1, 0.75]])
        close(w(states), [[12 / 7]])


class TestOptions:
    @pytest.mark.parametrize(("per_step", "gone"), [(True, False), (False, True)])
    def test_size_is_not_taken_for_dissimilarity(self, per_step, gone):
        """All alike, of 60 and of 600 rows: after ten rounds in epochs the large ones still count."""
        rng, clients = np.random.default_rng(0), []
        for i, rows in enumerate((85, 85, 857, 857)):
            x = rng.normal(size=(rows, 8))
            y = (x.sum(axis=1) + rng.normal(size=rows) > 0).astype(int)
            clients.append(coterie.Client.from_arrays(x, y, name=f"site-{i}"))
        asked = {"rounds": 10, "seed": 0, "per_step": per_step, "requester": "site-0"}
        run = coterie.train("logistic", clients, "weight-erosion", kernel="sgd", **asked)
        found = run.matrices["alpha"][-1, 0]
        assert (found[2:].max() == 0) == gone
        assert gone or found[2:].min() > found[1] > 0.3  # their long ways are less noisy than a small one's

    def test_a_second_weight_by_size(self, pull, play):
        # α = 1, 3/4; β = 1, 4: shares 1/4 and 3/4 of replies 2 and 0
        method = WeightErosion(HALF, "c0", p_d=0.25, beta="size")
        states, infos = play(method, pull([4, 0], [1, 4]), start(0), 1)
        close(states[1].alpha, [[1, 0.75]])
        close(infos[0].weights, [[0.25, 0.75], [0, 0]])
        close(w(states), [[0.5]])

    def test_a_quarter_of_a_server_step(self, pull, play):
        # a quarter of the way from 0 to 8/7; then replies 15/7 and 1/7, d = 14/13, α = 3/4 - 7/26 = 25/52
        states, _ = play(WeightErosion(HALF, "c0", p_d=0.25, server_step=0.25), pull([4, 0]), start(0), 2)
        close(w(states), [[2 / 7], [0.75 * 2 / 7 + 0.25 * (15 / 7 + 1 / 7 * 25 / 52) * 52 / 77]])

    @pytest.mark.parametrize(
        ("importance", "distance"),
        [
            ((), math.sqrt(2)),
            (("weight=0",), 0.0),
            (("bias=0",), 2.0),
            (("weight=4", "bias=1"), 8 / math.sqrt(20)),
        ],
    )
    def test_importance_of_layers(self, client_of, net_of, play, importance, distance):
        # from (0, 0), with (x, y) = (1, 1) and (-1, 1): gradients (-2, -2) and (2, -2) of weight and bias
        clients = [
            client_of(torch.tensor([[x]]).double(), torch.tensor([1.0]).double(), name=f"c{i}")
            for i, x in enumerate((1.0, -1.0))
        ]
        zero = {"weight": torch.zeros(1, 1, 1).double(), "bias": torch.zeros(1, 1).double()}
        method = WeightErosion(HALF, "c0", p_d=0.1, importance=importance)
        states, infos = play(method, net_of(nn.Linear(1, 1).double(), clients), zero, 1)
        close(infos[0].matrices["relative distance"], [[0, distance], [NAN, NAN]])
        close(states[1].alpha, [[1, 1 - 0.1 * distance]])

    @pytest.mark.parametrize(("by", "passes"), [(False, 3), (True, 1)])
    def test_rounds_by_participation(self, pull, play, without, by, passes):
        # client 1 takes part in rounds 1, at d = 1, and 4: after three rounds, or one of its own
        net = without(pull([4, 0, 4]), {2: (1,), 3: (1,)})
        method = WeightErosion(ONE_ROW, "c0", p_d=0.01, p_s=1, participation=by)
        states, infos = play(method, net, start(0), 4)
        assert states[4].rounds.tolist() == [[4, 2, 4]]
        distance = 4 / (4 - w(states)[2][0])
        close(infos[3].matrices["relative distance"][0], [0, distance, 0])
        close(states[4].alpha, [[1, 0.99 - (1 + passes) * 0.01 * distance, 1]])

    @pytest.mark.parametrize(("late", "first"), [("mean", 5 / 6), ("median", 3 / 4), ("one", 1.0)])
    def test_late_joiners(self, pull, play, without, late, first):
        # client 3 agrees with the requester and joins in round 2; the others' α go 3/4, 3/4 - 1/4 · 5/4
        net = without(pull([4, 0, 0, 4]), {1: (3,)})
        states, infos = play(WeightErosion(HALF, "c0", p_d=0.25, late=late), net, start(0), 2)
        close(infos[0].matrices["alpha"][0], [1, 0.75, 0.75, NAN])
        close(states[2].alpha, [[1, 7 / 16, 7 / 16, first]])
        close(infos[1].matrices["alpha"][0], states[2].alpha[0])

    @pytest.mark.parametrize(("cone", "stops"), [(80, True), (90, False)])
    def test_stops_once_gradients_fit_into_no_cone(self, pull, play, cone, stops):
        # from 8, y = 4 and 0 both pull down: one direction; then w is between them: opposite ones
        net = pull([4, 0])
        states, infos = play(WeightErosion(HALF, p_d=0.01, cone=cone), net, start(8), 5)
        opposite = next(r for r, values in enumerate(w(states), start=1) if values[0] < 4)
        assert states[opposite + 1].stopped.tolist() == [stops, stops]
        if not stops:
            assert all(info.extras == {} for info in infos)
            return
        assert infos[0].extras["stopped"] == []
        assert infos[0].extras["cone_degrees"] == pytest.approx({"c0": 0, "c1": 0}, abs=1e-4)
        assert infos[opposite].extras["stopped"] == ["c0", "c1"]
        assert infos[opposite].extras["cone_degrees"] == pytest.approx({"c0": 90, "c1": 90}, abs=1e-4)
        # neither models nor weights change any more, and from then on nobody is asked
        assert infos[opposite].weights.tolist() == [[0, 0], [0, 0]]
        assert bool(infos[-1].loss.isnan().all())
        assert infos[-1].extras == {"stopped": ["c0", "c1"], "cone_degrees": {}}
        assert w(states)[opposite:] == [w(states)[opposite - 1]] * (5 - opposite)
        assert torch.equal(states[-1].alpha, states[opposite].alpha)


class TestSomebodyIsMissing:
    def test_zero_reference_gradient(self, pull, play):
        # the requester is where it wants to be: who pulls elsewhere is infinitely far, who agrees is not
        states, infos = play(WeightErosion(HALF, "c0"), pull([0, 4, 0]), start(0), 2)
        assert infos[0].matrices["relative distance"][0].tolist() == [0, math.inf, 0]
        assert states[1].alpha.tolist() == states[2].alpha.tolist() == [[1, 0, 1]]
        assert w(states) == [[0], [0]]
        assert bool(torch.isfinite(infos[0].weights).all())
        # without a penalty it is plain averaging
        states, _ = play(WeightErosion(HALF, "c0", p_d=0), pull([0, 4]), start(0), 1)
        assert states[1].alpha.tolist() == [[1, 1]]
        assert w(states) == [[1]]

    def test_without_the_requester_nothing_changes(self, pull, play, without):
        net = without(pull([4, 0]), {2: (0,)})
        states, infos = play(WeightErosion(HALF, "c0", p_d=0.25), net, start(0), 3)
        assert w(states)[1] == w(states)[0]
        assert torch.equal(states[2].alpha, states[1].alpha)
        assert torch.equal(states[2].rounds, states[1].rounds)
        assert infos[1].weights.tolist() == [[0, 0], [0, 0]]
        close(infos[1].matrices["alpha"], [[1, 0.75], [NAN, NAN]])
        close(infos[1].matrices["relative distance"], [[NAN, NAN], [NAN, NAN]])
        # and then it goes on where it was: the second round of the trajectory
        close(states[3].alpha, [[1, 0.4]])
        close(w(states)[2], [2])

    def test_a_requester_that_comes_late_finds_all_weights_at_one(self, pull, play, without):
        net = without(pull([4, 0]), {1: (0,)})
        states, _ = play(WeightErosion(HALF, "c0", p_d=0.25), net, start(0), 2)
        assert states[1].rounds.tolist() == [[0, 0]]
        close(states[2].alpha, [[1, 0.75]])

    def test_when_all_others_are_gone_it_trains_alone(self, pull, play, without):
        net = without(pull([4, 0, 8]), {2: (1, 2)})
        states, infos = play(WeightErosion(HALF, "c0", p_d=0.25), net, start(0), 2)
        assert infos[1].weights.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
        assert torch.equal(states[2].alpha, states[1].alpha)
        close(w(states)[1], [(w(states)[0][0] + 4) / 2])

    def test_nobody_answers(self, pull, play, without):
        net = without(pull([4, 0]), {1: (0, 1)})
        states, infos = play(WeightErosion(HALF), net, start(1), 1)
        assert w(states) == [[1, 1]]
        assert bool(infos[0].loss.isnan().all())


class TestInvariants:
    @settings(max_examples=20)
    @given(
        targets=st.lists(st.integers(-8, 8), min_size=2, max_size=4),
        options=st.fixed_dictionaries(
            {
                "p_d": st.sampled_from(["auto", 0.0, 0.03, 0.5]),
                "p_s": st.sampled_from([0.0, 2.0]),
                "beta": st.sampled_from(["one", "size"]),
                "late": st.sampled_from(["mean", "median", "one"]),
                "participation": st.booleans(),
                "requester": st.sampled_from(["all", "c1"]),
            }
        ),
        absent=st.sampled_from([0.0, 0.4]),
        seed=st.integers(0, 5),
    )
    def test_alpha_never_grows_and_the_requester_s_stays_1(self, pull, play, targets, options, absent, seed):
        net = Absent(pull(targets, [1 + i % 3 for i in range(len(targets))]), absent)
        states, infos = play(WeightErosion(ONE_ROW, **options), net, start(0.3), 3, seed)
        who = range(len(targets)) if options["requester"] == "all" else [1]
        for before, after in itertools.pairwise(states):
            assert bool((after.alpha <= before.alpha).all())
            assert bool((after.alpha >= 0).all())
            assert [after.alpha[q, r].item() for q, r in enumerate(who)] == [1] * len(who)
        # who has the same data keeps the same weight, as long as it was here as often
        for i in range(len(targets)):
            for j in range(i):
                if targets[i] == targets[j] and i % 3 == j % 3 and not absent:
                    close(states[-1].alpha[:, i], states[-1].alpha[:, j])
        for info in infos:
            sums = info.weights.sum(dim=1)
            assert bool((((sums - 1).abs() < 1e-12) | (sums == 0)).all())

    def test_a_requester_alone_gets_what_it_gets_among_all(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        net, work = net_of(module, crowd()), SGD(batch=4)
        everyone, infos = play(WeightErosion(work), net, module, 2)
        alone, its = play(WeightErosion(work, "c2"), net, module, 2)
        for name, tensor in alone[-1].beliefs.tensors.items():
            assert torch.equal(everyone[-1].beliefs.tensors[name][2:], tensor)
        assert torch.equal(everyone[-1].alpha[2:], alone[-1].alpha)
        assert torch.equal(infos[-1].weights[2], its[-1].weights[2])
        assert its[-1].weights[:2].abs().sum() == 0

    def test_keeps_momentum_for_one_requester(self, pull, play):
        work = SGD(lr=0.25, momentum=0.5, keep=True)
        states, _ = play(WeightErosion(work, "c0", p_d=0), pull([4, 4]), start(0), 2)
        # g = -8, w = 2; then v = -4 + -4, w = 4
        assert w(states) == [[2], [4]]


def test_one_requester_s_model_is_everybody_s_and_else_each_has_its_own(pull, start_of):
    net, first = pull([1, 2, 3]), start_of(start(1, 2, 3))
    one, each = (m.models(m.init(first, net)) for m in (WeightErosion(requester="c1"), WeightErosion()))
    assert (one.of.tolist(), one.shared) == ([0, 0, 0], one.beliefs)
    assert one.beliefs.tensors["weight"].flatten().tolist() == [1]
    assert (each.of.tolist(), each.shared) == ([0, 1, 2], None)
    assert each.beliefs.tensors["weight"].flatten().tolist() == [1, 2, 3]


@pytest.mark.parametrize("cone", [90, 80])
@pytest.mark.parametrize(("room", "visits"), [(1, 6), (2 * 3 * 15 * 4, 4), (2**27, 2)])
def test_no_model_is_looked_at_and_replies_to_no_more_requesters_are_held_than_there_is_room_for(
    crowd, net_of, play, closed, monkeypatch, cone, room, visits
):
    held = []

    class Watched(closed):
        def visit(self, *args, **more):
            assert not any(reply() for reply in held), "replies of other requesters are still in memory"
            replies = super().visit(*args, **more)
            held.append(weakref.ref(replies))
            return replies

    module, method = nn.Linear(4, 3), WeightErosion(SGD(batch=4), p_s=0.5, cone=cone)
    alike = play(method, net_of(module, crowd()), module, 2)
    monkeypatch.setattr(requesters, "ROOM", room)
    found = play(method, Watched(net_of(module, crowd())), module, 2)
    assert len(held) == visits
    assert torch.equal(found[0][-1].alpha, alike[0][-1].alpha)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"p_d": NAN}, "p_d=nan must be at least 0 and finite: try 0.05 or auto"),
            ({"p_d": "small"}, "p_d=small must be at least 0 and finite: try 0.05 or auto"),
            ({"p_s": math.inf}, "p_s=inf must be at least 0 and finite"),
            ({"server_step": 0.0}, "server_step=0.0 must lie above 0 and up to 1"),
            ({"server_step": 1.5}, "server_step=1.5 must lie above 0 and up to 1"),
            ({"cone": 0.0}, "cone=0.0 must lie above 0 and up to 90 degrees"),
            ({"cone": 91.0}, "cone=91.0 must lie above 0 and up to 90 degrees"),
            ({"importance": ("head",)}, "importance 'head' needs the form layer=number, at least 0"),
            ({"importance": ("head=-1",)}, "importance 'head=-1' needs the form layer=number, at least 0"),
            ({"local": SGD(keep=True)}, "keep=true needs one requester.*or set keep=false"),
            ({"late": "means"}, "unknown late 'means': did you mean mean?"),
            ({"beta": "sizes"}, "unknown beta 'sizes': did you mean size?"),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_options(self, options, message):
        with pytest.raises(BadInput, match=message):
            WeightErosion(**options)

    @pytest.mark.parametrize(
        ("options", "clients", "message"),
        [
            ({"requester": "c11"}, 2, "unknown requester 'c11': did you mean c1?"),
            ({"requester": "c0"}, 1, "at least 2 clients; got 1: add some or use local"),
            ({"importance": ("wait=2",)}, 2, "unknown layer in importance 'wait': did you mean weight?"),
        ],
    )
    def test_what_does_not_suit_the_clients_or_the_model(self, pull, options, clients, message):
        with pytest.raises(BadInput, match=message):
            WeightErosion(**options).check(pull([1] * clients).roster, start(0), Key(0))

    def test_local_work_that_counts_no_passes(self):
        class Leap:
            keeps = False

        with pytest.raises(BadInput, match="p_s needs local work in epochs or steps: set p_s=0"):
            WeightErosion(Leap(), p_s=1.0)
        assert WeightErosion(Leap()).p_s == 0


class TestFromOutside:
    def test_from_the_shell(self, tmp_path, capsys):
        words = shlex.split("run --data titanic --method weight-erosion --rounds 1 --sgd.steps 1")
        own = shlex.split("--weight-erosion.p-d auto --weight-erosion.cone 80")
        own += ["--weight-erosion.importance", "head.bias=0"]
        asker = "--weight-erosion.requester"
        assert main([*words, *own, "--out", str(tmp_path / "run"), asker, "age 0-20"]) == 0
        capsys.readouterr()
        assert main([*words, asker, "age 0"]) == 2
        assert "unknown requester 'age 0': did you mean age 0-20?" in capsys.readouterr().err
