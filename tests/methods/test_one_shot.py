"""One exchange by hand: what is collected, what is sent, and what everyone predicts with."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import coterie
from coterie.core.belief import belief_of, row, stack
from coterie.core.errors import BadInput, UnknownName
from coterie.core.learner import Learner
from coterie.core.method import Facts
from coterie.core.net import to_own
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import SGD, SGLD, SWAG, Adam, Gather, Score
from coterie.kernels.posterior import collected
from coterie.methods import FLSWAG, METHODS, BayAvg, BayesCentral, BayesLocal, OneShotFedAvg, WBayAvg
from coterie.methods.one_shot.alone import collector, states
from coterie.methods.one_shot.bayes import spread_over
from coterie.nets import InProcess
from coterie.posteriors import mean, variances

HALF = SGD(lr=0.25)
START = {"weight": torch.zeros(1, 1, 1)}


def value(belief) -> float:
    return belief["weight"].item()


class TestFLSWAG:
    """Targets 4 and 8 from 0: the paths 0, 2, 3 and 0, 4, 6."""

    def test_the_product_of_both_paths(self, pull, play):
        (*_, last), infos = play(FLSWAG(HALF, warm=0), pull([4, 8]), START, 2)
        # means 5/3 and 10/3, variances 13/3 - 25/9 = 14/9 and 56/9: precisions 36/56 and 9/56
        assert last.joint["weight"][0].item() == pytest.approx((36 * 5 / 3 + 9 * 10 / 3) / 45)
        assert infos[0].weights.tolist() == [[1, 0], [0, 1]]
        assert infos[1].weights.flatten().tolist() == pytest.approx([0.8, 0.2] * 2)

    def test_collecting_after_plain_rounds(self, pull, play):
        (_, first, last), infos = play(FLSWAG(HALF, samples=0), pull([4, 8]), START, 2)
        # round 1 is plain: 2 and 4; then the states 2, 3 and 4, 6: N(2.5, 1/4) and N(5, 1)
        assert first.own["weight"].flatten().tolist() == [2, 4]
        assert last.own["weight"].flatten().tolist() == [2.5, 5]
        assert last.joint["weight"].flatten().tolist() == pytest.approx([(4 * 2.5 + 5) / 5])
        assert [i.sent.tolist() for i in infos] == [[0, 0], [2, 2]]
        assert [i.received.tolist() for i in infos] == [[0, 0], [2, 2]]

    def test_what_each_has_sent(self, pull, play):
        method = FLSWAG(HALF)
        (_, first, last), _ = play(method, pull([4, 8]), START, 2)
        assert method.posteriors(first, ["a", "b"]) == {}
        found = method.posteriors(last, ["a", "b"])
        assert {n: (value(mean(p)), value(variances(p)), b) for n, (p, b) in found.items()} == {
            "a": (2.5, 0.25, {}),
            "b": (5.0, 1.0, {}),
        }

    @pytest.mark.parametrize("temperature", [1.0, 0.25])
    def test_draws_are_of_the_product(self, pull, play, temperature):
        method = FLSWAG(HALF, temperature=temperature, samples=40_000)
        (*_, last), _ = play(method, pull([4, 8]), START, 2)
        draws, spread = last.joint["weight"][1:].flatten().double(), temperature / 5
        assert abs(draws.mean().item() - 3) < 4.5 * math.sqrt(spread / 40_000)
        assert draws.var().item() == pytest.approx(spread, rel=4.5 * math.sqrt(2 / 40_000))

    def test_low_rank_sends_its_columns(self, pull, play):
        (*_, last), infos = play(FLSWAG(HALF, warm=0, form="low-rank"), pull([4, 8]), START, 2)
        # columns 2 - 1 = 1 and 3 - 5/3 = 4/3: 7/9 + (1 + 16/9) / 2 = 39/18; for the other four times that
        wide = {
            n: value(variances(p))
            for n, (p, _) in FLSWAG(HALF, form="low-rank").posteriors(last, "ab").items()
        }
        assert wide == {"a": pytest.approx(39 / 18), "b": pytest.approx(4 * 39 / 18)}
        assert infos[-1].sent.tolist() == [4, 4]
        # in the product, of one parameter one column of each says all
        assert infos[-1].received.tolist() == [4, 4]

    def test_plain_rounds_end_where_they_end_with_any_kernel(self, pull, play):
        for work in (SWAG(lr=0.25, per="epoch"), SGLD(lr=0.25, temperature=0, prior=0)):
            (_, first, second, *_), _ = play(FLSWAG(work, samples=0), pull([4, 8]), START, 4)
            assert first.own["weight"].flatten().tolist() == [2, 4]
            assert second.own["weight"].flatten().tolist() == [3, 6]

    def test_a_full_matrix_is_received(self, client_of, net_of, play):
        net = net_of(nn.Linear(3, 1), [client_of(torch.randn(6, 3), torch.randn(6))])
        method = FLSWAG(SWAG(lr=0.1, batch=2), form="full", samples=0)
        _, infos = play(method, net, stack([belief_of(nn.Linear(3, 1))]), 2)
        assert infos[-1].sent.tolist() == [2 + 3]  # three steps' deviations
        assert infos[-1].received.tolist() == [1 + 3]  # 4 parameters: 10 numbers of a matrix are 2.5 models

    def test_a_prior_that_both_counted_counts_once(self, pull, play):
        (*_, last), _ = play(FLSWAG(HALF, prior=1.0), pull([4, 8]), START, 2)
        assert last.joint["weight"][0].item() == pytest.approx((4 * 2.5 + 5) / (5 - 1))

    def test_who_is_away_in_the_last_round_is_not_in_the_product(self, pull, play, without):
        net = without(pull([4, 8]), {2: (1,)})
        (*_, last), infos = play(FLSWAG(HALF), net, START, 2)
        assert last.joint["weight"][0].item() == pytest.approx(2.5)
        assert infos[-1].weights.tolist() == [[1, 0], [1, 0]]
        assert (infos[-1].sent.tolist(), infos[-1].received.tolist()) == ([2, 0], [2, 2])

    def test_who_collected_too_little_is_not_in_it_either(self, pull, play, without):
        # away in rounds 2 and 3, the other has one deviation where the first has three
        net = without(pull([4, 8]), {2: (1,), 3: (1,)})
        (*_, last), infos = play(FLSWAG(HALF, warm=0.25, form="low-rank"), net, START, 4)
        assert last.senders.tolist() == [0]
        assert infos[-1].weights.tolist() == [[1, 0], [1, 0]]

    def test_nobody_there_leaves_everyone_alone(self, pull, play, without):
        method = FLSWAG(HALF)
        (*_, last), _ = play(method, without(pull([4, 8]), {2: (0, 1)}), START, 2)
        assert last.joint is None
        assert method.models(last, 2).beliefs["weight"].flatten().tolist() == [2, 4]

    def test_everyone_predicts_with_the_same_draws(self, pull, play):
        method = FLSWAG(HALF, samples=3)
        (_, first, last), _ = play(method, pull([4, 8]), START, 2)
        assert method.models(first, 2).crowd is None
        found = method.models(last, 2)
        assert (found.of.tolist(), found.shared, found.crowd.tolist()) == ([0, 0], 0, [[1, 2, 3]] * 2)

    def test_batch_norm_has_each_clients_statistics(self, client_of, play):
        module = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2))
        near, far = torch.tensor([[0.0], [2.0]]), torch.tensor([[10.0], [14.0]])
        clients = tuple(client_of(x, torch.tensor([0, 1]), name=str(i)) for i, x in enumerate((near, far)))
        net = InProcess(ENGINES.make("loop"), Learner(module, "classification"), clients)
        method = FLSWAG(SGD(lr=0.1), samples=2)
        (*_, last), _ = play(method, net, stack([belief_of(module)]), 2)
        assert last.joint["0.running_mean"].flatten().tolist() == pytest.approx([1, 1, 1, 12, 12, 12])
        # the unbiased variances of both
        assert last.joint["0.running_var"].flatten().tolist() == pytest.approx([2, 2, 2, 8, 8, 8])
        found = method.models(last, 2)
        assert (found.of.tolist(), found.shared, found.crowd.tolist()) == ([0, 3], None, [[1, 2], [4, 5]])
        sent = method.posteriors(last, ["a", "b"])
        assert sorted(sent["a"][1]) == ["0.num_batches_tracked", "0.running_mean", "0.running_var"]


class TestWork:
    def test_sgd_becomes_swag_once_an_epoch(self):
        found = collector(SGD(lr=0.3, batch=4, momentum=0.5))
        assert found == SWAG(lr=0.3, batch=4, momentum=0.5, per="epoch", keep=True, average=False)

    def test_or_once_a_round(self):
        assert collector(SGD(steps=7)) == SWAG(steps=7, every=7, keep=True, average=False)

    def test_a_sampler_stays_what_it_is(self):
        assert collector(SGLD(rank=5)) == SGLD(rank=5, keep=True, average=False)

    def test_columns_where_there_is_a_use_for_them(self):
        kinds = [(work, form) for work in (SWAG(), SGLD()) for form in ("diagonal", "full")]
        assert [vars(FLSWAG(work, form=form).work)["rank"] for work, form in kinds] == [0, 20, 0, 20]
        assert [vars(BayesLocal(work, form=form).work)["rank"] for work, form in kinds] == [0, 20, 30, 30]

    def test_other_work_is_refused(self, refused):
        with refused(
            BadInput, "kernel adam collects no posterior: use swag, sgld, psgld or hmc (sgd becomes swag)"
        ):
            FLSWAG(Adam()).check(["a"], 3)

    @pytest.mark.parametrize(
        ("work", "wanted"),
        [
            (SWAG(batch=4, epochs=2), (7, 6)),  # three steps an epoch, and the start
            (SWAG(batch=4, epochs=2, origin=False), (6, 6)),
            (SWAG(batch=4, epochs=2, per="epoch"), (3, 2)),
            (SWAG(batch=4, epochs=2, every=4), (2, 1)),
            (SWAG(batch=4, epochs=2, burn=6), (1, 0)),
            (SWAG(batch=4, epochs=2, burn=7), (0, 0)),
            (SWAG(batch=4, epochs=2, rank=3), (7, 3)),
            (SGLD(batch=4, epochs=2, burn=2), (4, 4)),
        ],
    )
    def test_how_many_states(self, work, wanted, client_of, net_of):
        assert states(work, 10, 1, Key(0)) == wanted
        net = net_of(nn.Linear(1, 1), [client_of(torch.randn(10, 1), torch.randn(10))])
        replies = net.visit(
            Gather(work), stack([belief_of(nn.Linear(1, 1))]), to_own(1), Key(0).at_round(1, 1)
        )
        found = collected(row(net.open(replies), 0))
        kept = found.deviations or found.draws
        assert (found.count, len(kept["weight"]) if kept else 0) == wanted


class TestBaselines:
    def test_the_average_of_both(self, pull, play):
        net = pull([4, 8], sizes=[1, 3])
        for weighted, wanted in ((False, 4.5), (True, 0.25 * 3 + 0.75 * 6)):
            method = OneShotFedAvg(SGD(lr=0.25, batch=3), weighted=weighted)
            (_, first, last), infos = play(method, net, START, 2)
            assert first.own["weight"].flatten().tolist() == [2, 4]
            assert method.models(last, 2).beliefs["weight"].flatten().tolist() == pytest.approx([wanted])
            assert [i.sent.tolist() for i in infos] == [[0, 0], [1, 1]]

    def test_bayavg_keeps_all_models(self, pull, play):
        for kind, shares in ((BayAvg, [0.5, 0.5]), (WBayAvg, [0.25, 0.75])):
            method = kind(SGD(lr=0.25, batch=3))
            (_, first, last), infos = play(method, pull([4, 8], sizes=[1, 3]), START, 2)
            assert method.models(first, 2).crowd is None
            found = method.models(last, 2)
            assert found.beliefs["weight"].flatten().tolist() == [3, 6]
            assert (found.crowd.tolist(), found.shares.tolist()) == ([[0, 1], [0, 1]], [shares, shares])
            assert (infos[-1].sent.tolist(), infos[-1].received.tolist()) == ([1, 1], [1, 1])

    def test_who_is_away_has_no_voice(self, pull, play, without):
        method = BayAvg(HALF)
        (*_, last), infos = play(method, without(pull([4, 8, 12]), {2: (1,)}), START, 2)
        assert method.models(last, 3).shares.tolist() == [[0.5, 0, 0.5]] * 3
        assert (infos[-1].sent.tolist(), infos[-1].received.tolist()) == ([2, 0, 2], [1, 2, 1])


class TestBayes:
    def test_each_from_its_own(self, pull, play):
        method = BayesLocal(HALF, form="diagonal", samples=20_000)
        (*_, last), infos = play(method, pull([4, 8]), START, 2)
        assert infos[-1].sent.tolist() == [0, 0]
        found = last.drawn["weight"].flatten().double().view(2, -1)
        assert found[:, 0].tolist() == [2.5, 5]
        spread = torch.tensor([0.25, 1.0]).double()
        assert ((found[:, 1:].mean(1) - found[:, 0]).abs() < 4.5 * (spread / 20_000).sqrt()).all()
        assert found[:, 1:].var(1).tolist() == pytest.approx(spread.tolist(), rel=4.5 * math.sqrt(2 / 20_000))
        crowd = method.models(last, 2).crowd
        assert (crowd[0, 0], crowd[0, -1], crowd[1, 0]) == (1, 20_000, 20_002)

    def test_one_of_all_data(self, pull, play):
        # the pool's mean target is 6, and lr 0.25 halves the way: 3, then 4.5 collected with 3
        method = BayesCentral(SGD(lr=0.25, batch=2), form="diagonal", samples=2)
        (*_, last), infos = play(method, pull([4, 8]), START, 2)
        assert last.drawn["weight"][0].item() == pytest.approx(3.75)
        assert infos[-1].weights.tolist() == [[0.5, 0.5]] * 2
        found = method.models(last, 2)
        assert (found.of.tolist(), found.shared, found.crowd.tolist()) == ([0, 0], 0, [[1, 2]] * 2)

    def test_a_samplers_own_states(self, pull, play):
        # without noise or prior SGLD halves the way too: 2 | 3, 3.5, 3.75
        method = BayesLocal(SGLD(lr=0.25, temperature=0, prior=0), warm=0.25, samples=3)
        (*_, last), _ = play(method, pull([4]), START, 4)
        assert last.drawn["weight"].flatten().tolist() == pytest.approx([10.25 / 3, 3, 3.5, 3.75])

    def test_fewer_states_than_samples_are_said(self):
        """4 rounds, 2 of them warm, each of 2 steps of which one is kept: 2 states."""
        facts = [Facts("c0", "regression", 4, 0, None)]
        sampler = SGLD(batch=2, every=2)
        for samples, said in ((2, []), (5, ["as few as 2 states for samples=5: some count more than once"])):
            for method in (BayesLocal(sampler, samples=samples), BayesCentral(sampler, samples=samples)):
                assert method.look(facts, Key(0).at_round(1, 4)) == said
        assert BayesLocal(SWAG(), samples=50).look(facts, Key(0).at_round(1, 4)) == []

    def test_evenly_spaced(self):
        assert spread_over(10, 5).tolist() == [1, 3, 5, 7, 9]
        assert spread_over(3, 3).tolist() == [0, 1, 2]
        assert spread_over(2, 4).tolist() == [0, 0, 1, 1]


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"warm": 1.0}, "warm=1.0 must lie from 0 to below 1: try 0.5"),
            ({"floor": -1.0}, "floor=-1.0 must be at least 0 and finite: try 1e-6"),
            ({"temperature": 0.0}, "temperature=0.0 must be above 0 and finite: try 1, or samples=0"),
            ({"samples": -1}, "samples=-1 must be at least 0: try 30"),
            ({"prior": -1.0}, "prior=-1.0 must be at least 0 and finite: try 1"),
        ],
    )
    def test_bad_options(self, options, message, refused):
        with refused(BadInput, message):
            FLSWAG(**options)

    def test_an_unknown_form(self, refused):
        with refused(UnknownName, "unknown form 'diag': did you mean diagonal?"):
            FLSWAG(form="diag")

    def test_too_few_states_before_anything_runs(self, pull, play, refused):
        message = (
            "client 'c0' would collect 1 states in 1 rounds, diagonal needs at least 2: take more rounds, "
            "or a smaller every, burn or warm"
        )
        with refused(BadInput, message):
            play(FLSWAG(SWAG(lr=0.25, origin=False)), pull([4, 8]), START, 2)

    def test_too_few_columns_to_keep(self, pull, play, refused):
        message = "rank=1 keeps too few deviations for low-rank, at least 2: try 20"
        with refused(BadInput, message):
            play(FLSWAG(SWAG(lr=0.25, rank=1), form="low-rank"), pull([4, 8]), START, 4)

    def test_more_draws_than_there_is_room_for(self, refused):
        large = {"weight": torch.empty(1, 2**26, device="meta")}
        message = "samples=30 makes 78 GB of models for 10 posteriors, at most 8: lower samples"
        with refused(BadInput, message):
            BayesLocal().init(large, 10)
        assert FLSWAG().init(large, 10).joint is None

    def test_a_weight_that_does_not_move(self, client_of, net_of, play, refused):
        still = client_of(torch.zeros(2, 1), torch.ones(2), name="quiet")
        net = net_of(nn.Linear(1, 1, bias=False), [still])
        message = (
            "client 'quiet': the variance of weight[0, 0] is 0, must be above 0: that weight did not move; "
            "give a floor, for instance 1e-6"
        )
        with refused(BadInput, message):
            play(FLSWAG(HALF, floor=0), net, START, 2)


def test_averaged_predictions_by_hand(client_of, net_of):
    """Two models that say 0.9 and 0.2 for class 1: alike 0.55, by 1 to 3 0.375."""
    module = nn.Linear(1, 2, bias=False)
    net = net_of(module, [client_of(torch.ones(1, 1), torch.tensor([1]))] * 2)
    logits = [[0, math.log(9)], [0, math.log(0.25)]]
    beliefs = {"weight": torch.tensor(logits).unsqueeze(-1)}
    crowd = torch.tensor([[0, 1], [0, 1]])
    alike = net.confer(Score("train"), beliefs, crowd, None, Key(0))
    assert alike.numbers["loss"].tolist() == pytest.approx([-math.log(0.55)] * 2)
    assert alike.numbers["accuracy"].tolist() == [1, 1]
    shares = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    apart = net.confer(Score("train"), beliefs, crowd, shares, Key(0))
    assert apart.numbers["loss"].tolist() == pytest.approx([-math.log(0.55), -math.log(0.375)])
    assert apart.numbers["accuracy"].tolist() == [1, 0]


def test_averaged_outputs_of_a_regression(pull):
    net = pull([4, 8])
    beliefs = {"weight": torch.tensor([[[3.0]], [[7.0]]])}
    found = net.confer(Score("train"), beliefs, torch.tensor([[0, 1], [0, 1]]), None, Key(0))
    assert found.numbers["loss"].tolist() == pytest.approx([1, 9])


@pytest.mark.parametrize("name", ["fl-swag", "bayavg", "wbayavg", "one-shot-fedavg", "one-shot-wfedavg",
                                  "bayes-local", "bayes-central"])  # fmt: skip
def test_runs_in_one_line(name, crowd):
    assert name in METHODS
    result = coterie.train("mlp", crowd((30, 40, 20)), method=name, rounds=4, seed=0)
    final = result.history.query("round == 4 and metric == 'loss'")
    averages = name not in ("one-shot-fedavg", "one-shot-wfedavg")
    assert ("point" in set(final.model)) == averages
    assert final.value.notna().all()
    assert result.calibration.query("by == 'confidence'").samples.sum() > 0
