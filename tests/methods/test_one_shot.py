"""One exchange by hand: what is collected, what is sent, and what everyone predicts with."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import coterie
from coterie.core.belief import row
from coterie.core.errors import BadInput, UnknownName
from coterie.core.net import edges_of, to_own
from coterie.core.seeds import Key
from coterie.kernels import SGD, SGLD, SWAG, Adam, Crowd, Gather, Score
from coterie.kernels.posterior import collected, spread_over
from coterie.methods import FLSWAG, BayAvg, BayesCentral, BayesLocal, OneShotFedAvg, WBayAvg
from coterie.methods.one_shot.alone import collector, states
from coterie.posteriors import mean, product, variances

HALF = SGD(lr=0.25)
START = {"weight": torch.zeros(1, 1, 1).double()}


def value(belief) -> float:
    return belief["weight"].item()


def flat(held):
    return held.tensors["weight"].flatten().tolist()


class TestFLSWAG:
    """Targets 4 and 8 from 0: the paths 0, 2, 3 and 0, 4, 6."""

    def test_the_product_of_both_paths(self, pull, play):
        (*_, last), infos = play(FLSWAG(HALF, warm=0, floor=0, samples=0), pull([4, 8]), START, 2)
        # means 5/3 and 10/3, variances 13/3 - 25/9 = 14/9 and 56/9: precisions 36/56 and 9/56
        assert flat(last.drawn) == pytest.approx([(36 * 5 / 3 + 9 * 10 / 3) / 45] * 2)
        assert infos[0].weights.tolist() == [[1, 0], [0, 1]]
        assert infos[1].weights.flatten().tolist() == pytest.approx([0.8, 0.2] * 2)

    def test_collecting_after_plain_rounds(self, pull, play):
        method, net = FLSWAG(HALF, floor=0, samples=0), pull([4, 8])
        (_, first, last), _ = play(method, net, START, 2)
        # round 1 is plain: 2 and 4; then the states 2, 3 and 4, 6: N(2.5, 1/4) and N(5, 1)
        assert flat(first.own) == [2, 4]
        assert flat(last.own) == [2.5, 5]
        assert flat(last.drawn) == pytest.approx([(4 * 2.5 + 5) / 5] * 2)
        assert method.posteriors(first, net.peek, ["a", "b"]) == {}
        found = method.posteriors(last, net.peek, ["a", "b"])
        assert {n: (value(mean(p)), value(variances(p)), b) for n, (p, b) in found.items()} == {
            "a": (2.5, 0.25, {}),
            "b": (5.0, 1.0, {}),
        }

    def test_everyone_predicts_with_the_same_draws_of_the_product(self, pull, play):
        method = FLSWAG(HALF, floor=0, temperature=0.25, samples=4000)
        (_, first, last), _ = play(method, pull([4, 8]), START, 2)
        mine, yours = torch.tensor(flat(last.drawn)).view(2, -1)
        assert torch.equal(mine, yours)
        draws, spread = mine[1:].double(), 0.25 / 5
        assert abs(draws.mean().item() - 3) < 4.5 * math.sqrt(spread / 4000)
        assert draws.var().item() == pytest.approx(spread, rel=4.5 * math.sqrt(2 / 4000))
        assert method.models(first).crowd is None
        found = method.models(last)  # two own models, then a mean and draws of each
        assert (found.of.tolist(), found.shared) == ([2, 4003], None)
        assert found.crowd[:, [0, -1]].tolist() == [[3, 4002], [4004, 8003]]
        assert len(found.beliefs) == 8004

    def test_weighed_by_variance_the_mean_moves_and_the_spread_stays(self, pull, play):
        """N(2.5, 1/4) and N(5, 1): (2.5 / 4 + 5) / (5/4) = 4.5 for 3, and 1/5 as in the product."""
        method, net = FLSWAG(HALF, floor=0, weigh="variance", samples=4000), pull([4, 8])
        (*_, last), infos = play(method, net, START, 2)
        mine, yours = torch.tensor(flat(last.drawn)).view(2, -1)
        assert torch.equal(mine, yours)
        assert mine[0].item() == pytest.approx(4.5)
        draws = mine[1:].double()
        assert abs(draws.mean().item() - 4.5) < 4.5 * math.sqrt(0.2 / 4000)
        assert draws.var().item() == pytest.approx(0.2, rel=4.5 * math.sqrt(2 / 4000))
        assert infos[-1].weights.flatten().tolist() == pytest.approx([0.2, 0.8] * 2)
        # what is saved is each one's own, as ever: a pool of it is the product
        saved = {n: p for n, (p, _) in method.posteriors(last, net.peek, "ab").items()}
        assert value(mean(product(list(saved.values())))) == pytest.approx(3)
        (said,) = method.check(net.roster, START, Key(0, rounds=2))
        assert said == (
            "weigh=variance is of this run alone: it saves each client's own Gaussian, and a pool of these "
            "is their product, weighed by precision"
        )

    @pytest.mark.parametrize("form", ["low-rank", "full"])
    def test_weighed_by_variance_in_any_form(self, form, pull, play):
        """Variances 14/9 and 56/9 of the diagonal, whatever the form: 1 to 4. The spread is the product's."""
        made = {"warm": 0, "form": form, "floor": 0, "samples": 1}
        finds = [
            play(FLSWAG(HALF, weigh=w, **made), pull([4, 8]), START, 2) for w in ("precision", "variance")
        ]
        (product_mean, product_draw), (centre, draw) = (flat(last.drawn)[:2] for (*_, last), _ in finds)
        assert centre == pytest.approx(0.2 * 5 / 3 + 0.8 * 10 / 3)
        assert draw - centre == pytest.approx(product_draw - product_mean)
        assert finds[1][1][-1].weights.flatten().tolist() == pytest.approx([0.2, 0.8] * 2)

    def test_who_collected_too_little_does_not_weigh_by_variance(self, pull, play, without):
        net = without(pull([4, 8]), {2: (1,), 3: (1,)})
        method = FLSWAG(HALF, warm=0.25, form="low-rank", weigh="variance", samples=0)
        (*_, last), infos = play(method, net, START, 4)
        assert flat(last.drawn) == pytest.approx([flat(last.own)[0]] * 2)
        assert infos[-1].weights.tolist() == [[1, 0], [1, 0]]

    @pytest.mark.parametrize("weigh", ["precision", "variance"])
    def test_who_did_not_move_a_weight_leaves_it_to_who_did(self, weigh, client_of, net_of, play):
        """Each sees one input alone, nobody the third: N(2.5, 1/4) and N(5, 1) of theirs, else all rests."""
        x = torch.eye(3).double()
        clients = [client_of(x[[i]], torch.tensor([4.0 * (i + 1)]).double(), name=str(i)) for i in (0, 1)]
        net, start = net_of(nn.Linear(3, 1, bias=False).double(), clients), torch.zeros(1, 1, 3).double()
        start[..., 2] = 7
        method = FLSWAG(HALF, floor=0.25, weigh=weigh, samples=0)
        (*_, last), infos = play(method, net, {"weight": start}, 2)
        # with f = 1/4: r = 1/2 and 4/5, Λ = 1/2 / (1/2) + 1/2 · 1/2 and 4/5 / (5/4) + 1/5 · 1/2; λ = 1/2
        first, second = ((1.25, 0.74), (0.25, 1.0))[weigh == "variance"]
        other = {"precision": 0.5, "variance": 1e-6}[weigh]
        wanted = [2.5 * first / (first + other), 5 * second / (second + other), 7]
        assert flat(last.drawn) == pytest.approx(wanted * 2)
        mine = (first / (first + other) + other / (second + other) + 1 / 2) / 3
        assert infos[-1].weights[0].tolist() == pytest.approx([mine, 1 - mine])
        sent = method.posteriors(last, net.peek, "ab")
        joint = product([p for p, _ in sent.values()])
        assert (1 / variances(joint)["weight"]).flatten().tolist() == pytest.approx([1.75, 1.24, 1])

    def test_what_fades_is_no_less_sure_than_a_prior_that_was_counted(self):
        assert [FLSWAG(prior=p).unknown(4) for p in (0.0, 0.1, 3.0)] == [0.25, 0.25, 3.0]

    def test_low_rank(self, pull, play):
        method, net = FLSWAG(HALF, warm=0, form="low-rank", floor=0, samples=0), pull([4, 8])
        (*_, last), infos = play(method, net, START, 2)
        # columns 2 - 1 = 1 and 3 - 5/3 = 4/3: 7/9 + (1 + 16/9) / 2 = 39/18; for the other four times that
        wide = {n: value(variances(p)) for n, (p, _) in method.posteriors(last, net.peek, "ab").items()}
        assert wide == {"a": pytest.approx(39 / 18), "b": pytest.approx(4 * 39 / 18)}
        assert flat(last.drawn) == pytest.approx([0.8 * 5 / 3 + 0.2 * 10 / 3] * 2)
        assert infos[-1].weights.flatten().tolist() == pytest.approx([0.8, 0.2] * 2)

    def test_a_full_matrix_of_one_is_ones_own(self, client_of, net_of, play):
        net = net_of(nn.Linear(3, 1), [client_of(torch.randn(6, 3), torch.randn(6))])
        method = FLSWAG(SWAG(lr=0.1, batch=2), form="full", samples=0)
        (*_, last), infos = play(method, net, nn.Linear(3, 1), 2)
        for name, tensor in last.own.tensors.items():
            torch.testing.assert_close(last.drawn.tensors[name], tensor, rtol=1e-3, atol=1e-3)
        assert infos[-1].weights.tolist() == [[1]]

    def test_plain_rounds_end_where_they_end_with_any_kernel(self, pull, play):
        for work in (SWAG(lr=0.25, per="epoch"), SGLD(lr=0.25, temperature=0, prior=0)):
            (_, first, second, *_), _ = play(FLSWAG(work, samples=0), pull([4, 8]), START, 4)
            assert flat(first.own) == [2, 4]
            assert flat(second.own) == [3, 6]

    def test_a_prior_that_both_counted_counts_once(self, pull, play):
        (*_, last), _ = play(FLSWAG(HALF, prior=1.0, floor=0, samples=0), pull([4, 8]), START, 2)
        assert flat(last.drawn) == pytest.approx([(4 * 2.5 + 5) / (5 - 1)] * 2)

    def test_who_is_away_in_the_last_round_is_not_in_the_product(self, pull, play, without):
        method = FLSWAG(HALF, samples=1)
        (*_, last), infos = play(method, without(pull([4, 8]), {2: (1,)}), START, 2)
        assert flat(last.drawn)[0] == pytest.approx(2.5)
        assert infos[-1].weights.tolist() == [[1, 0], [0, 0]]
        # and stays with its own model, the 4 of the first round
        found = method.models(last)
        assert flat(found.beliefs)[1] == 4
        assert (found.of.tolist(), found.crowd.tolist()) == ([2, 1], [[3], [1]])

    def test_who_collected_too_little_is_not_in_it_either(self, pull, play, without):
        # away in rounds 2 and 3, the other has one deviation where the first has three
        net = without(pull([4, 8]), {2: (1,), 3: (1,)})
        (*_, last), infos = play(FLSWAG(HALF, warm=0.25, form="low-rank", samples=0), net, START, 4)
        assert (last.senders.tolist(), last.receivers.tolist()) == ([0], [0, 1])
        assert infos[-1].weights.tolist() == [[1, 0], [1, 0]]

    def test_nobody_there_leaves_everyone_alone(self, pull, play, without):
        method = FLSWAG(HALF)
        (*_, last), _ = play(method, without(pull([4, 8]), {2: (0, 1)}), START, 2)
        assert last.drawn is None
        assert flat(method.models(last).beliefs) == [2, 4]

    def test_batch_norm_has_each_clients_statistics(self, client_of, net_of, play):
        module = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2))
        near, far = torch.tensor([[0.0], [2.0]]), torch.tensor([[10.0], [14.0]])
        clients = [client_of(x, torch.tensor([0, 1]), name=str(i)) for i, x in enumerate((near, far))]
        method, net = FLSWAG(SGD(lr=0.1), samples=2), net_of(module, clients)
        (*_, last), _ = play(method, net, module, 2)
        drawn = last.drawn.tensors
        assert drawn["0.running_mean"].flatten().tolist() == pytest.approx([1, 1, 1, 12, 12, 12])
        # the unbiased variances of both
        assert drawn["0.running_var"].flatten().tolist() == pytest.approx([2, 2, 2, 8, 8, 8])
        sent = method.posteriors(last, net.peek, ["a", "b"])
        assert sorted(sent["a"][1]) == ["0.num_batches_tracked", "0.running_mean", "0.running_var"]

    def test_what_is_no_parameter_is_averaged(self, client_of, net_of, play):
        class Scaled(nn.Linear):
            def __init__(self):
                super().__init__(1, 1)
                self.register_buffer("scale", torch.tensor([3.0]))

        clients = [client_of(torch.ones(2, 1), torch.full((2,), y), name=str(y)) for y in (4.0, 8.0)]
        (*_, last), _ = play(FLSWAG(HALF, samples=0), net_of(Scaled(), clients), Scaled(), 2)
        assert last.drawn.tensors["scale"].flatten().tolist() == [3, 3]


class TestWork:
    def test_what_collects(self):
        found = collector(SGD(lr=0.3, batch=4, momentum=0.5))
        assert found == SWAG(lr=0.3, batch=4, momentum=0.5, per="epoch", keep=True, average=False)
        assert collector(SGD(steps=7)) == SWAG(steps=7, every=7, keep=True, average=False)
        assert collector(SGLD(rank=5)) == SGLD(rank=5, keep=True, average=False)
        with pytest.raises(BadInput, match="kernel adam collects no posterior: use swag, sgld, psgld or hmc"):
            collector(Adam())

    def test_columns_where_there_is_a_use_for_them(self):
        kinds = [(work, form) for work in (SWAG(), SGLD()) for form in ("diagonal", "full")]
        assert [vars(FLSWAG(work, form=form).work)["rank"] for work, form in kinds] == [0, 20, 0, 20]
        assert [vars(BayesLocal(work, form=form).work)["rank"] for work, form in kinds] == [0, 20, 30, 30]

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
    def test_how_many_states(self, work, wanted, client_of, net_of, start_of):
        assert states(work, 10, 1, Key(0)) == wanted
        module = nn.Linear(1, 1)
        net = net_of(module, [client_of(torch.randn(10, 1), torch.randn(10))])
        replies = net.visit(Gather(work), start_of(module), to_own(1), Key(0).at_round(1, 1))
        found = collected(row(net.open(replies.beliefs), 0))
        kept = found.deviations or found.draws
        assert (found.count, len(kept["weight"]) if kept else 0) == wanted


class TestBaselines:
    def test_the_average_of_both(self, pull, play):
        for weighted, wanted in ((False, 4.5), (True, 0.25 * 3 + 0.75 * 6)):
            method = OneShotFedAvg(SGD(lr=0.25, batch=3), weighted=weighted)
            (_, first, last), infos = play(method, pull([4, 8], sizes=[1, 3]), START, 2)
            assert flat(first.own) == [2, 4]
            found = method.models(last)
            assert (flat(found.beliefs), found.of.tolist(), found.shared) == ([wanted] * 2, [0, 1], None)
            assert infos[0].weights.tolist() == [[1, 0], [0, 1]]
            assert infos[1].weights.tolist() == [[0.25, 0.75] if weighted else [0.5, 0.5]] * 2

    def test_bayavg_keeps_all_models(self, pull, play):
        for kind, shares in ((BayAvg, [0.5, 0.5]), (WBayAvg, [0.25, 0.75])):
            method = kind(SGD(lr=0.25, batch=3))
            (_, first, last), _ = play(method, pull([4, 8], sizes=[1, 3]), START, 2)
            assert method.models(first).crowd is None
            found = method.models(last)
            assert flat(found.beliefs) == [3, 6]
            assert (found.crowd.tolist(), found.shares.tolist()) == ([[0, 1], [0, 1]], [shares, shares])

    def test_who_is_away_has_no_voice_and_its_own_model(self, pull, play, without):
        # 0 → 2, 4, 6 → 3, (4), 9
        (*_, last), infos = play(OneShotFedAvg(HALF), without(pull([4, 8, 12]), {2: (1,)}), START, 2)
        assert flat(last.own) == [6, 4, 6]
        assert infos[-1].weights.tolist() == [[0.5, 0, 0.5], [0, 0, 0], [0.5, 0, 0.5]]
        method = BayAvg(HALF)
        (*_, last), _ = play(method, without(pull([4, 8, 12]), {2: (1,)}), START, 2)
        found = method.models(last)
        assert found.shares.tolist() == [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
        assert found.crowd[1].tolist() == [1, 1, 1]


class TestBayes:
    def test_each_from_its_own(self, pull, play):
        method = BayesLocal(HALF, form="diagonal", samples=4000)
        (*_, last), _ = play(method, pull([4, 8]), START, 2)
        found = last.drawn.tensors["weight"].flatten().view(2, -1)
        assert found[:, 0].tolist() == [2.5, 5]
        spread = torch.tensor([0.25, 1.0]).double()
        assert ((found[:, 1:].mean(1) - found[:, 0]).abs() < 4.5 * (spread / 4000).sqrt()).all()
        assert found[:, 1:].var(1).tolist() == pytest.approx(spread.tolist(), rel=4.5 * math.sqrt(2 / 4000))
        models = method.models(last)
        assert models.crowd[:, [0, -1]].tolist() == [[3, 4002], [4004, 8003]]

    def test_one_of_all_data(self, pull, play):
        # the pool's mean target is 6, and lr 0.25 halves the way: 3, then 4.5 collected with 3
        method = BayesCentral(SGD(lr=0.25, batch=2), form="diagonal", samples=2)
        (*_, last), infos = play(method, pull([4, 8]), START, 2)
        assert flat(last.drawn)[0] == pytest.approx(3.75)
        assert infos[-1].weights.tolist() == [[0.5, 0.5]] * 2
        found = method.models(last)
        assert (found.of.tolist(), found.crowd.tolist()) == ([1, 1], [[2, 3]] * 2)
        assert flat(found.shared) == pytest.approx([3.75])

    def test_a_samplers_own_states(self, pull, play):
        # without noise or prior SGLD halves the way too: 2 | 3, 3.5, 3.75
        method = BayesLocal(SGLD(lr=0.25, temperature=0, prior=0), warm=0.25, samples=3)
        (*_, last), _ = play(method, pull([4]), START, 4)
        assert flat(last.drawn) == pytest.approx([10.25 / 3, 3, 3.5, 3.75])

    def test_fewer_states_than_samples_are_said(self, pull):
        """4 rounds, 2 of them warm, each of 2 steps of which one is kept: 2 states."""
        roster, sampler = pull([1], sizes=[4]).roster, SGLD(batch=2, every=2)
        for samples, said in ((2, []), (5, ["as few as 2 states for samples=5: some count more than once"])):
            for method in (BayesLocal(sampler, samples=samples), BayesCentral(sampler, samples=samples)):
                assert method.check(roster, START, Key(0, rounds=4)) == said
        assert BayesLocal(SWAG(), samples=50).check(roster, START, Key(0, rounds=4)) == []

    def test_evenly_spaced(self):
        assert spread_over(10, 5).tolist() == [1, 3, 5, 7, 9]
        assert spread_over(3, 3).tolist() == [0, 1, 2]
        assert spread_over(2, 4).tolist() == [0, 0, 1, 1]


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"warm": 1.0}, "warm=1.0 must lie from 0 to below 1"),
            ({"floor": -1.0}, "floor=-1.0 must be at least 0 and finite"),
            ({"temperature": 0.0}, "temperature=0.0 must be above 0 and finite: try 1, or samples=0"),
            ({"samples": -1}, "samples=-1 must be at least 0"),
            ({"prior": -1.0}, "prior=-1.0 must be at least 0 and finite"),
            (
                {"prior": 1.0, "weigh": "variance"},
                "prior=1.0 is divided out of a product, and weigh=variance has another mean: take prior=0",
            ),
        ],
    )
    def test_bad_options(self, options, message):
        with pytest.raises(BadInput, match=message):
            FLSWAG(**options)

    def test_unknown_words(self):
        with pytest.raises(UnknownName, match=r"unknown form 'diag': did you mean diagonal?"):
            FLSWAG(form="diag")
        with pytest.raises(UnknownName, match=r"unknown by 'al': did you mean all?"):
            BayesLocal(by="al")
        with pytest.raises(UnknownName, match="unknown below 'clamp'"):
            FLSWAG(below="clamp")
        with pytest.raises(UnknownName, match=r"unknown weigh 'var': did you mean variance?"):
            FLSWAG(weigh="var")

    @pytest.mark.parametrize(
        ("method", "rounds", "message"),
        [
            (FLSWAG(SWAG(origin=False)), 2, "'c0' would collect 1 states in 1 rounds, .* needs at least 2"),
            (
                FLSWAG(SWAG(rank=1), form="low-rank"),
                4,
                "rank=1 keeps too few deviations .* at least 2: try 20",
            ),
            (FLSWAG(Adam()), 4, "kernel adam collects no posterior"),
        ],
    )
    def test_too_little_is_collected(self, pull, method, rounds, message):
        with pytest.raises(BadInput, match=message):
            method.check(pull([4, 8]).roster, START, Key(0, rounds=rounds))

    def test_more_draws_than_there_is_room_for(self, pull):
        roster, large = pull([0] * 10).roster, {"weight": torch.empty(1, 2**26, device="meta")}
        for method in (BayesLocal(), FLSWAG()):
            with pytest.raises(
                BadInput, match="samples=30 makes 78 GB of models for 10 posteriors, at most 8"
            ):
                method.check(roster, large, Key(0, rounds=4))
        assert BayesCentral().check(roster, large, Key(0, rounds=4)) == []

    def test_a_weight_that_does_not_move(self, client_of, net_of, play):
        net = net_of(nn.Linear(1, 1, bias=False), [client_of(torch.zeros(2, 1), torch.ones(2), name="quiet")])
        message = (
            r"the variance of weight\[0, 0\] is 0, must be above 0: that weight did not move; give a floor"
        )
        with pytest.raises(BadInput, match=message):
            play(FLSWAG(HALF, floor=0), net, {"weight": torch.zeros(1, 1, 1)}, 2)


def test_averaged_predictions_by_hand(client_of, net_of, pull, start_of):
    """Two models that say 0.9 and 0.2 for class 1: alike 0.55, by 1 to 3 0.375."""
    net = net_of(nn.Linear(1, 2, bias=False), [client_of(torch.ones(1, 1), torch.tensor([1]))] * 2)
    logits = [[0, math.log(9)], [0, math.log(0.25)]]
    beliefs = start_of({"weight": torch.tensor(logits).unsqueeze(-1)})
    everyone, kernel = edges_of([(0, 0), (1, 0), (0, 1), (1, 1)]), Crowd(Score("train"))
    alike = net.visit(kernel, beliefs, everyone, Key(0)).numbers
    assert alike["loss"].tolist() == pytest.approx([-math.log(0.55)] * 2)
    assert alike["accuracy"].tolist() == [1, 1]
    shares = start_of({"share": torch.tensor([0.5, 0.5, 0.25, 0.75])})
    apart = net.visit(kernel, beliefs, everyone, Key(0), beside={"share": shares}).numbers
    assert apart["loss"].tolist() == pytest.approx([-math.log(0.55), -math.log(0.375)])
    assert apart["accuracy"].tolist() == [1, 0]
    # outputs of a regression: 3 and 7 make 5, for 4 and 8
    both = start_of({"weight": torch.tensor([[[3.0]], [[7.0]]]).double()})
    found = pull([4, 8]).visit(kernel, both, everyone, Key(0)).numbers
    assert found["loss"].tolist() == pytest.approx([1, 9])


@pytest.mark.parametrize("name", ["fl-swag", "wbayavg", "one-shot-wfedavg", "bayes-local", "bayes-central"])
def test_runs_in_one_line(name, crowd):
    few = {} if "avg" in name else {"samples": 5}
    result = coterie.train("mlp", crowd((30, 40, 20)), method=name, rounds=4, seed=0, **few)
    final = result.history.query("round == 4 and metric == 'loss'")
    assert ("point" in set(final.model)) == (name != "one-shot-wfedavg")
    assert final.value.notna().all()
    assert result.calibration.query("by == 'confidence'").samples.sum() > 0
