"""Robust rules at work: by hand, when some are away, among peers, sealed, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput, Refused
from coterie.features.sealed.wrapper import Sealed
from coterie.kernels import SGD
from coterie.methods import Gossip, Random, RandomWeighted, Robust, RobustPersonal
from coterie.methods.ruled import by_name

# x = 1 and one target y for each client: a full step at this rate takes w to (w + y) / 2
HALF = SGD(lr=0.25, batch=1000)
TARGETS = [0, 2, 6, 14, 200]  # from w = 0 the replies are 0, 1, 3, 7, 100


def start(*values: float) -> dict[str, torch.Tensor]:
    return {"weight": torch.tensor(values, dtype=torch.float64).reshape(-1, 1, 1)}


def w(state) -> list[float]:
    return state.beliefs.tensors["weight"].flatten().tolist()


def close(found, wanted, tolerance=1e-12):
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        torch.as_tensor(wanted, dtype=torch.float64),
        rtol=0,
        atol=tolerance,
    )


class TestServer:
    @pytest.mark.parametrize(
        ("options", "ends"),
        [
            ({"rule": "krum"}, 2.75),  # f = 1: the mean of 0, 1, 3, 7
            ({"rule": "krum:m=1"}, 1),
            ({"rule": "nnm+krum"}, 2.75),
            ({"rule": "monna", "root": "c4", "f": 2}, 110 / 3),
            ({"rule": "norm-bound"}, (0 + 1 + 3 + 3 + 3) / 5),
            ({"rule": "centred-clipping:radius=5:steps=1"}, (0 + 1 + 3 + 5 + 5) / 5),
            ({"rule": "mean"}, 22.2),
            ({"rule": "median"}, 3),
            ({"rule": "trimmed-mean", "f": 1}, 11 / 3),
            ({"rule": "meamed", "f": 1}, 2.75),
        ],
    )
    def test_a_round_by_hand(self, pull, play, options, ends):
        states, _ = play(Robust(HALF, **options), pull(TARGETS), start(0), 1)
        close(w(states[1]), [ends])

    def test_what_info_says(self, pull, play):
        _, (info,) = play(Robust(HALF, rule="krum"), pull(TARGETS), start(0), 1)
        close(info.weights, [[0.25] * 4 + [0]] * 5)
        assert info.extras["rule"] == {"f": {"server": 1}, "left_out": {"c4": 1}}
        # of lengths 0, 1, 3, 7, 100 those above the median 3 are cut: 3/7 and 3/100 of them are left
        _, (info,) = play(Robust(HALF, rule="norm-bound"), pull(TARGETS), start(0), 1)
        parts = torch.tensor([1, 1, 1, 3 / 7, 0.03], dtype=torch.float64)
        close(info.weights, (parts / parts.sum()).expand(5, 5))
        close(info.extras["rule"]["stayed"]["server"], 1 - float(parts.sum()) / 5)

    def test_fewer_answer_than_the_bound_needs(self, pull, play, without):
        net = without(pull(TARGETS), {1: (0,), 2: (0, 1, 2)})
        states, infos = play(Robust(HALF, rule="krum", f=1), net, start(0), 2)
        close(w(states[1]), [111 / 4])  # of four, f = 0: the mean of 1, 3, 7, 100
        assert infos[0].extras["rule"]["f"] == {"server": 0}
        assert w(states[2]) == w(states[1])  # of two, Krum has nothing to say
        assert infos[1].extras["rule"] == {"f": {"server": None}, "left_out": {}}
        assert infos[1].weights.sum() == 0

    def test_the_root_is_asked_in_every_round_and_without_it_nothing_moves(self, pull, play, without):
        net = without(pull(TARGETS), {2: (1,)})
        states, infos = play(Robust(HALF, rule="fltrust", root="c1", sample=0.4), net, start(0), 3)
        assert infos[0].weights[0, 1] > 0
        assert infos[2].weights[0, 1] > 0
        assert w(states[2]) == w(states[1])

    def test_variances_stay_positive_where_weights_are_not(self):
        names = ["0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
        weights = by_name(torch.tensor([0.5, 2.0, -1.5]), names)
        close(weights["1.running_var"], [[0.2, 0.8, 0]], 1e-6)
        close(weights["1.weight"], [[0.5, 2, -1.5]])
        assert isinstance(by_name(torch.tensor([0.5, 0.5, 0.0]), names), torch.Tensor)
        assert isinstance(by_name(torch.tensor([0.5, 2.0, -1.5]), names[:1]), torch.Tensor)


class TestPersonal:
    def test_rounds_by_hand(self, pull, play):
        states, (info,) = play(RobustPersonal(HALF, "c3", f=2), pull(TARGETS), start(0), 1)
        close(w(states[1]), [11 / 3])  # nearest to 7: 7, 3, 1
        close(info.weights[3], [0, 1 / 3, 1 / 3, 1 / 3, 0])
        assert info.weights[:3].sum() == 0
        assert info.extras["rule"] == {"f": {"c3": 2}, "left_out": {"c0": 1, "c4": 1}}

    def test_everybody_at_once_is_each_alone(self, pull, play):
        net = pull(TARGETS)
        for rule in ("monna", "median"):
            all_of_them, infos = play(RobustPersonal(HALF, rule=rule, f=1), net, start(0), 2)
            for k in (1, 4):
                alone, own = play(RobustPersonal(HALF, f"c{k}", rule, f=1), net, start(0), 2)
                close(w(all_of_them[2])[k], w(alone[2])[0])
                close(infos[1].weights[k], own[1].weights[k])

    @pytest.mark.parametrize(("rule", "ends"), [("monna", 11 / 6), ("median", 1.5), ("fltrust", 3.5)])
    def test_part_of_the_way(self, pull, play, rule, ends):
        # half the way from 0 to 11/3, 3 and, all replies pointing one way, 7
        method = RobustPersonal(HALF, "c3", rule, f=2, server_step=0.5)
        targets = [2, 2, 6, 14, 200] if rule == "fltrust" else TARGETS
        close(w(play(method, pull(targets), start(0), 1)[0][1]), [ends])

    def test_who_hears_from_nobody_trains_alone_and_who_is_away_waits(self, pull, play, without):
        net = without(pull(TARGETS), {1: (0, 1, 2, 4), 2: (3,)})
        states, infos = play(RobustPersonal(HALF, "c3", "krum"), net, start(0), 2)
        close(w(states[1]), [7])
        close(infos[0].weights[3], [0, 0, 0, 1, 0])
        assert infos[0].extras["rule"]["f"] == {"c3": None}
        assert w(states[2]) == w(states[1])
        assert infos[1].weights.sum() == 0


class TestPeers:
    def test_a_round_by_hand(self, pull, play):
        net, first = pull(TARGETS), start(0, 0, 0, 0, 0)
        states, (info,) = play(Random(HALF, "at-once", rule="monna", f=2, selected=4), net, first, 1)
        # of 0, 1, 3, 7, 100 the three nearest to each
        close(w(states[1]), [4 / 3, 4 / 3, 4 / 3, 11 / 3, 110 / 3])
        close(info.weights[4], [0, 0, 1 / 3, 1 / 3, 1 / 3])
        assert info.extras["rule"]["left_out"] == {"c0": 2, "c3": 3, "c4": 4, "c1": 1}

    def test_the_mean_is_what_it_was(self, pull, play):
        net, first = pull(TARGETS), start(0, 0, 0, 0, 0)
        for kind in (Random, Gossip):
            plain, _ = play(kind(HALF, "at-once"), net, first, 3)
            told, infos = play(kind(HALF, "at-once", rule="mean"), net, first, 3)
            assert [w(s) for s in plain] == [w(s) for s in told]
            assert "rule" not in infos[0].extras

    def test_too_few_for_a_rule_keep_their_own(self, pull, play):
        net, first = pull(TARGETS), start(0, 0, 0, 0, 0)
        states, (info,) = play(Random(HALF, "at-once", rule="krum", selected=1), net, first, 1)
        close(w(states[1]), [0, 1, 3, 7, 100])
        assert set(info.extras["rule"]["f"].values()) == {None}

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"rule": "krum", "order": "thesis"}, "and order=thesis mixes in turn: set order=at-once"),
            ({"rule": "median"}, "rule=median looks at single models, which peers do not: set rule=monna"),
            ({"rule": "fltrust"}, "starts from one belief that went to all, and peers have many"),
            ({"rule": "krum", "patience": 3}, "and patience=3 lets some rest: set patience=0"),
            ({"f": 2}, "f=2 needs a rule, as the mean holds against no liar: set rule=monna"),
            ({"rule": "krumm"}, "did you mean krum?"),
        ],
    )
    def test_refused(self, options, said):
        with pytest.raises(BadInput) as refused:
            RandomWeighted(**{"order": "at-once", **options})
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)

    def test_beyond_the_bound(self, pull, play):
        with pytest.raises(BadInput, match="krum needs n > 2f \\+ 2; got n=5, f=2"):
            play(Random(HALF, "at-once", rule="krum", f=2), pull(TARGETS), start(0), 1)


def test_batch_norm_goes_along(crowd, net_of, play, start_of):
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    net = net_of(model, crowd((6, 6, 6, 6)))
    for rule, options in (("nnm+krum", {}), ("fltrust", {"root": "c0"}), ("median", {})):
        states, _ = play(Robust(SGD(batch=3, epochs=1), rule=rule, **options), net, model, 2)
        found = states[2].beliefs.tensors
        assert bool((found["1.running_var"] > 0).all())
        assert found["1.num_batches_tracked"].tolist() == [4]


SEALABLE = ["mean", "krum", "nnm+krum", "monna", "geometric-median", "centred-clipping", "fltrust"]
SEALABLE += ["minimum-diameter", "norm-bound"]


@pytest.mark.parametrize("rule", SEALABLE)
def test_rules_from_distances_run_sealed(rule, crowd, net_of, play):
    model = nn.Linear(4, 3)
    net = net_of(model, crowd((12, 9, 14, 10, 8)))
    root = {"root": "c2"} if rule in ("monna", "fltrust") else {}
    for method in (Robust(rule=rule, **root), RobustPersonal(requester="c1", rule=rule)):
        clear, sealed = (
            play(method, some, model, 2)[0][2].beliefs.tensors for some in (net, Sealed(net, 1.0))
        )
        assert max(float((clear[n] - sealed[n]).abs().max()) for n in clear) < 1e-6
        assert not torch.equal(clear["weight"][0], model.weight)


def test_what_cannot_be_sealed_says_why(crowd, net_of, play):
    net = Sealed(net_of(nn.Linear(4, 3), crowd((12, 9, 14, 10, 8))), 1.0)
    with pytest.raises(
        BadInput, match=r"robust looks at single models \(open\), which --wrap sealed rules out"
    ):
        Sealed.admit(Robust(rule="median"), net.roster)
    with pytest.raises(Refused, match="distances between answers to different beliefs cannot be sealed"):
        play(Random(order="at-once", rule="monna", selected=3), net, nn.Linear(4, 3), 2)
