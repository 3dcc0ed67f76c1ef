"""Ditto, pFedMe, APFL, FedPer, FedRep and Per-FedAvg: by hand, beside what they come from, and at work."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.core.held import at_coordinator, hold
from coterie.core.net import edges_of, from_server
from coterie.core.seeds import Key
from coterie.kernels import DP, HMC, SGD, SWAG, Adam, Bounded, Meta, Only, Taken
from coterie.kernels.meta import dealt, evenly
from coterie.kernels.mixture import ALPHA, alpha_slope, mixed
from coterie.kernels.moreau import Moreau, envelope_step
from coterie.methods import APFL, Ditto, FedAvg, FedPer, FedRep, Local, PerFedAvg, PFedMe
from coterie.methods.personal.at_home import names_at_home
from coterie.methods.personal.pfedme import server_weights

FULL = SGD(lr=0.25, batch=100)  # with x = 1, one step takes w to (w + y) / 2
START = {"weight": torch.zeros(1, 1, 1).double()}
LEVEL = {**START, "bias": torch.zeros(1, 1).double()}
ENGINES = ["loop", "stacked", "pool"]
KEY = Key(0).at_round(1, 1)


def values(held, name="weight"):
    return held.tensors[name].flatten().tolist()


class TestByHand:
    """Two clients that want 2 and 6, all from 0."""

    def test_ditto(self, pull, play):
        states, _ = play(Ditto(FULL, pull=1.0), pull([2, 6]), START, 2)
        # w: 0, 2, 3 as in fedavg; v ← v - (2 (v - y) + (v - w)) / 4 from 0 with w = 0, then with w = 2
        assert [values(s.shared.beliefs) for s in states] == [[0.0], [2.0], [3.0]]
        assert values(states[1].own) == [1.0, 3.0]
        assert values(states[2].own) == [1.75, 4.25]

    def test_pfedme(self, pull, play):
        method = PFedMe(FULL, pull=1.0, inner_steps=2, outer_lr=0.5, server_step=2.0)
        states, _ = play(method, pull([2, 6]), START, 1)
        # θ: 0, y/2, then y/2 - (2 (y/2 - y) + y/2) / 4 = 5/8 y; w_k = 5/16 y, 1.25 on average, twice as far
        assert values(states[1].own) == [1.25, 3.75]
        assert values(states[1].beliefs) == [2.5]

    @pytest.mark.parametrize(("rate", "told"), [(0.0, [0.5, 0.5]), (0.1, [0.2, 0.0])])
    def test_apfl(self, pull, play, rate, told):
        states, infos = play(APFL(FULL, alpha_lr=rate), pull([2, 6]), START, 1)
        # w_k = y/2; v̄ = y/4, whose slope is -3/2 y: v = 3/16 y; ∂α = (0 - y/2) (-3/2 y) = 3/4 y²: 3 and 27
        assert values(states[1].beliefs) == [2.0]
        assert values(states[1].own) == [0.375, 1.125]
        assert values(states[1].alpha, ALPHA) == pytest.approx(told)
        assert list(infos[0].extras["alpha"].values()) == pytest.approx(told)
        both = [a * 3 / 16 * y + (1 - a) * y / 2 for a, y in zip(told, (2, 6), strict=True)]
        assert values(states[1].mixed) == pytest.approx(both)

    def test_fedper_and_fedrep(self, client_of, net_of, play):
        one = torch.ones(1, 1).double()
        clients = [client_of(one, one[0] * y, name=f"c{y}") for y in (2, 6)]
        net = net_of(nn.Linear(1, 1).double(), clients)
        states, _ = play(FedPer(FULL, home="bias"), net, LEVEL, 1)
        assert (values(states[1].beliefs), values(states[1].norms, "bias")) == ([2.0], [1.0, 3.0])
        states, _ = play(FedRep(FULL, home="bias", head_epochs=1), net, LEVEL, 1)
        # b = y/2 first; then w = 0 - 2 (y/2 - y) / 4 = y/4
        assert (values(states[1].body), values(states[1].heads, "bias")) == ([1.0], [1.0, 3.0])
        assert states[1].body.names == ("weight",)

    @pytest.mark.parametrize(("hessian", "factor"), [("none", 1.0), ("exact", 0.5), ("difference", 0.5)])
    def test_per_fedavg(self, pull, play, hessian, factor):
        method = PerFedAvg(FULL, adapt_lr=0.25, hessian=hessian)
        states, _ = play(method, pull([2, 6], sizes=(3, 3)), START, 1)
        # w̃ = y/2, whose slope is -y; the Hessian is 2, so that 1 - 2/4 of it is left: w_k = y/4 or y/8
        assert values(states[1].shared.beliefs) == pytest.approx([factor])
        assert values(states[1].own) == pytest.approx([(factor + y) / 2 for y in (2, 6)])

    def test_equations(self):
        two, six, half = (torch.tensor(v).double() for v in (2.0, 6.0, 0.5))
        assert envelope_step(two, six, half, 0.5) == 3.0  # 2 - ½ ½ (2 - 6)
        assert mixed({"a": two}, {"a": six}, half / 2)["a"] == 5.0
        assert alpha_slope({"a": two}, {"a": six}, {"a": half}) == -2.0
        assert server_weights(torch.tensor([0.25, 0.75]), 2.0, ["a"]).tolist() == [[0.5, 1.5, -1.0]]
        normed = ["a", "1.running_mean", "1.running_var", "1.weight"]
        found = server_weights(torch.tensor([0.25, 0.75]), 2.0, normed)
        assert found["a"].tolist() == [[0.5, 1.5, -1.0]]
        assert found["1.running_var"].tolist() == [[0.25, 0.75, 0.0]]
        assert [evenly(34, 16), evenly(16, 16), evenly(5, 16), evenly(17, 16)] == [12, 16, 5, 9]


class TestBesideWhatTheyComeFrom:
    def parts(self, crowd, net_of):
        module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        return net_of(module, crowd((6, 9, 14))), module

    def test_ditto_without_a_pull_is_training_alone_beside_fedavg(self, crowd, net_of, play):
        net, module = self.parts(crowd, net_of)
        (*_, mine), _ = play(Ditto(FULL, pull=0.0), net, module, 3)
        (*_, alone), _ = play(Local(FULL), net, module, 3)
        (*_, shared), _ = play(FedAvg(FULL), net, module, 3)
        for name in alone.beliefs.names:
            assert torch.equal(mine.shared.beliefs.tensors[name], shared.beliefs.tensors[name])
            torch.testing.assert_close(mine.own.tensors[name], alone.beliefs.tensors[name])

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    def test_apfl_of_one_model_is_that_model(self, crowd, net_of, play, alpha):
        net, module = self.parts(crowd, net_of)
        (*_, found), _ = play(APFL(FULL, alpha=alpha, alpha_lr=0.0), net, module, 3)
        (*_, shared), _ = play(FedAvg(FULL), net, module, 3)
        (*_, alone), _ = play(Local(FULL), net, module, 3)
        for name in alone.beliefs.names:
            assert torch.equal(found.beliefs.tensors[name], shared.beliefs.tensors[name])
            if alpha:  # v alone, though it was trained through a mixture
                torch.testing.assert_close(found.mixed.tensors[name], alone.beliefs.tensors[name])
        assert not alpha or torch.equal(found.mixed.tensors["1.weight"], found.own.tensors["1.weight"])

    def test_fedper_with_norms_at_home_is_fedbn(self, crowd, net_of, play):
        net, module = self.parts(crowd, net_of)
        (*_, mine), _ = play(FedPer(FULL, home="0.*"), net, module, 3)
        (*_, theirs), _ = play(FedAvg(FULL, norm="local"), net, module, 3)
        for ours, others in ((mine.beliefs, theirs.beliefs), (mine.norms, theirs.norms)):
            assert ours.names == others.names
            assert all(torch.equal(t, others.tensors[n]) for n, t in ours.tensors.items())

    def test_per_fedavg_looks_at_different_rows(self, crowd, net_of, play):
        """Each row of a step is in one batch, and padding stays padding."""
        x = torch.arange(7.0)
        parts = dealt((x, x, (x < 5).float()), 3)
        assert sorted(v for p in parts for v in p.x.tolist()) == x.tolist()
        assert [p.weight.tolist() for p in parts] == [[1, 1, 0], [1, 1], [1, 0]]


@pytest.mark.parametrize("engine", ENGINES)
class TestKernels:
    def visited(self, work, crowd, net_of, engine):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
        net = net_of(module, crowd((6, 9, 14), torch.float64), engine)
        start = hold({n: t.detach().unsqueeze(0) for n, t in module.named_parameters()}, at_coordinator(1))
        replies = net.visit(work, start, from_server(torch.arange(3)), KEY)
        return start.tensors, replies.beliefs.tensors, replies.numbers

    WORK = (
        Only(SGD(batch=4, momentum=0.9, weight_decay=0.1), ("2.weight", "2.bias")),
        Only(Adam(batch=4, weight_decay=0.1, decoupled=True), ("0.weight",)),
        Only(DP(SGD(batch=4, weight_decay=0.1)), ("2.weight", "2.bias")),
        Only(Bounded(SGD(batch=4)), ("2.bias",)),
        Meta(SGD(batch=2, momentum=0.5), hessian="difference"),
        Meta(SGD(batch=2, momentum=0.5), hessian="exact"),
        Moreau(Adam(batch=4, lr=0.01), inner_steps=2),
    )

    @pytest.mark.parametrize("work", WORK, ids=lambda w: f"{w.name} {getattr(w.inner, 'name', '')}")
    def test_all_engines_agree_and_other_tensors_stay_as_they_are(self, work, crowd, net_of, engine):
        start, found, told = self.visited(work, crowd, net_of, engine)
        _, expected, numbers = self.visited(work, crowd, net_of, "loop")
        assert found.keys() == expected.keys()
        for n, t in expected.items():
            torch.testing.assert_close(found[n], t, rtol=1e-10, atol=1e-12)
        assert all(torch.allclose(told[n], numbers[n]) for n in numbers)
        still = [n for n in start if n not in getattr(work, "names", start)]
        assert all(torch.equal(found[n], start[n].expand_as(found[n])) for n in still)
        assert all(not torch.equal(found[n], start[n].expand_as(found[n])) for n in start if n not in still)

    def test_a_product_with_the_hessian_is_that_of_differences(self, crowd, net_of, engine):
        one, other = (
            self.visited(Meta(SGD(batch=9), 0.3, h, delta=1e-4), crowd, net_of, engine)[1]
            for h in ("exact", "difference")
        )
        first = self.visited(Meta(SGD(batch=9), 0.3, "none"), crowd, net_of, engine)[1]
        assert all(torch.allclose(one[n], other[n], atol=1e-9) for n in one)
        assert not torch.allclose(one["0.weight"], first["0.weight"], atol=1e-5)


def test_a_survival_has_second_derivatives_too(client_of, net_of, play):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 3, generator=generator).double()
    y = (-x[:, 0]).exp() * torch.where(torch.rand(30, generator=generator) < 0.7, 1.0, -1.0)
    module = nn.Linear(3, 1, bias=False).double()
    start = {"weight": torch.zeros(1, 1, 3).double()}
    clients = [client_of(x[i::2], y[i::2], name=f"c{i}", censored=True) for i in range(2)]
    ends = [
        play(PerFedAvg(SGD(batch=4), adapt_lr=0.5, hessian=h, delta=1e-4), net_of(module, clients), start, 2)
        for h in ("exact", "difference", "none")
    ]
    exact, near, first = (states[-1].shared.beliefs.tensors["weight"] for states, _ in ends)
    torch.testing.assert_close(exact, near, rtol=1e-6, atol=1e-8)
    assert not torch.allclose(exact, first, atol=1e-4)


MODEL = {"0.weight": torch.zeros(1, 6, 4), "0.bias": torch.zeros(1, 6), "2.weight": torch.zeros(1, 3, 6)}
MODEL |= {"2.bias": torch.zeros(1, 3), "1.running_mean": torch.zeros(1, 6)}


class TestAtHome:
    @pytest.mark.parametrize(
        ("home", "names"),
        [
            ("", ("2.weight", "2.bias")),
            ("0.*", ("0.weight", "0.bias")),
            ("*bias", ("0.bias", "2.bias")),
            ("2.bias + 1.*", ("2.bias", "1.running_mean")),
        ],
    )
    def test_names(self, home, names):
        assert names_at_home(home, MODEL) == names

    def test_what_matches_nothing_or_everything_is_refused(self):
        with pytest.raises(
            BadInput, match=r"home: 'head\.\*' matches none of the model's tensors, 0\.weight"
        ):
            names_at_home("*bias+head.*", MODEL)
        one = {"weight": torch.zeros(1, 3, 4), "bias": torch.zeros(1, 3)}
        whole = (
            r"keeps all of the model at home \(weight, bias\), and nothing is left to share: with home=\*bias"
        )
        with pytest.raises(BadInput, match=whole):
            names_at_home("", one)
        with pytest.raises(BadInput, match="nothing is left to share: a model of more layers"):
            names_at_home("*", {"weight": one["weight"]})

    def test_heads_go_nowhere(self, crowd, net_of, passed):
        """A body of 30 numbers crosses; the head of 21 does not."""
        module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        for method in (FedPer(FULL), FedRep(FULL)):
            _, first, second = passed(method, net_of(module, crowd((6, 6))), module, 2)
            assert second.bytes.sum() == 2 * 2 * 30 * 4
            assert first.bytes.sum() == second.bytes.sum()

    def test_taken_needs_something_to_take(self, pull):
        with pytest.raises(BadInput, match="has nothing named own/"):
            pull([1]).visit(Taken(), hold(START, at_coordinator(1)), edges_of([(0, 0)]), KEY)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Ditto(pull=-1.0), r"strength=-1\.0 must be at least 0"),
        (lambda: Ditto(personal_epochs=-1), "personal_epochs=-1 must be at least 0"),
        (lambda: Ditto(HMC()), "ditto needs work by one gradient a step"),
        (lambda: FedRep(head_epochs=0), "head_epochs=0 must be at least 1"),
        (lambda: PFedMe(pull=0.0), r"pull=0\.0 must be above 0"),
        (lambda: PFedMe(outer_lr=1.0), r"outer_lr=1\.0 times pull=2\.0 must be above 0 and at most 1"),
        (lambda: PFedMe(inner_steps=0), "inner_steps=0 must be at least 1"),
        (lambda: PFedMe(server_step=0.0), r"server_step=0\.0 must be above 0"),
        (lambda: PFedMe(DP()), "pfedme makes several steps of each batch, which dp has no rule for"),
        (lambda: APFL(alpha=1.5), r"alpha=1\.5 must lie between 0 and 1"),
        (lambda: APFL(alpha_lr=-1.0), r"alpha_lr=-1\.0 must be at least 0"),
        (lambda: APFL(SWAG()), "apfl makes several steps of each batch, which swag has no rule for"),
        (lambda: PerFedAvg(adapt_lr=0.0), r"adapt_lr=0\.0 must be above 0"),
        (lambda: PerFedAvg(adapt_steps=0), "adapt_steps=0 must be at least 1"),
        (lambda: PerFedAvg(adapt_batch=-1), "adapt_batch=-1 must be at least 0"),
        (lambda: PerFedAvg(delta=0.0), r"delta=0\.0 must be above 0"),
        (lambda: PerFedAvg(Bounded()), "per-fedavg makes several steps of each batch"),
    ],
)
def test_options_out_of_bounds_are_refused(make, said):
    with pytest.raises(BadInput, match=said):
        make()


def test_steps_that_overshoot_are_spoken_of(pull):
    roster = pull([1]).roster
    for method in (Ditto(FULL, pull=8.0), PFedMe(FULL, pull=8.0, outer_lr=0.1)):
        (said,) = method.check(roster, START, KEY)
        assert said.startswith("lr=0.25 times pull=8.0 is 2: from 2 on")
    assert Ditto(FULL, pull=7.9).check(roster, START, KEY) == ()


def test_per_fedavg_refuses_names_it_does_not_know_and_clients_of_too_few_rows(pull, play):
    with pytest.raises(UnknownName, match="hessian"):
        PerFedAvg(hessian="some")
    with pytest.raises(
        BadData, match=r"'c1' has 2 training row\(s\), and per-fedavg with hessian=exact needs 3"
    ):
        play(PerFedAvg(FULL, hessian="exact"), pull([1, 2], sizes=(3, 2)), START, 1)


def test_they_serve_clients_that_disagree_as_one_model_cannot():
    """Of four clients two call high what the others call low: no model suits all of them."""
    rng = np.random.default_rng(0)
    clients = []
    for i in range(4):
        X = rng.normal(size=(90, 5))
        y = ((X.sum(axis=1) > 0) ^ (i % 2 == 1)).astype(int)
        clients.append(coterie.Client.from_arrays(X, y, name=f"c{i}"))

    def accuracy(method, **options):
        result = coterie.train("mlp", clients, method=method, rounds=12, seed=0, lr=0.1, **options)
        found = result.history.query(
            "round == 12 and metric == 'accuracy' and model == 'own' and split == 'test'"
        )
        return float(found["value"].mean())

    shared = accuracy("fedavg")
    assert shared < 0.6
    ahead = {"per-fedavg": {"adapt_lr": 0.5, "adapt_steps": 5}}
    for method in ("ditto", "pfedme", "apfl", "fedper", "fedrep", "per-fedavg"):
        assert accuracy(method, **ahead.get(method, {})) > 0.8, method
