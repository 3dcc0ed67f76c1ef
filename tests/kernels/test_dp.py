"""DP-SGD: clipping and noise by hand, batches by coins, the same numbers on every engine, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coterie.core import rowwise
from coterie.core.belief import belief_of, stack
from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, hold
from coterie.core.kernel import Tick, kernel_of, kernel_to_dict
from coterie.core.learner import Batch, Learner
from coterie.core.net import edges_of, from_server, to_own
from coterie.core.seeds import Key
from coterie.engines.eager import EagerLearner
from coterie.kernels import DP, HMC, SGD, SGLD, SWAG, Adam, Fold, Gather, Proximal, Slopes
from coterie.kernels.around import charges_of
from coterie.kernels.dp import hiding, noisy_mean, poisson_rows, usual_cap

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
SIZES = (9, 14, 6)


class Scaled(nn.Module):
    """A parameter that is no layer's, so that rows go one by one."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 0.5]))
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x) * self.scale


def picture_net():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)),
        nn.Conv2d(1, 3, 2, padding=1, bias=False),
        nn.ReLU(),
        nn.Conv2d(3, 2, 2, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(2, 3),
    )


MODELS = {
    "logistic": lambda: nn.Linear(4, 3),
    "mlp with dropout": lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.4), nn.Linear(5, 3)),
    "convolutions": picture_net,
    "group norm": lambda: nn.Sequential(nn.Linear(4, 6), nn.GroupNorm(2, 6), nn.ReLU(), nn.Linear(6, 3)),
    "a scale": Scaled,
}
TAPPED = ("logistic", "mlp with dropout", "convolutions")
WORK = {
    "sgd, with empty and capped batches": DP(SGD(lr=0.3, batch=2, steps=12, momentum=0.5), sigma=0.7, cap=2),
    "adam": DP(Adam(lr=0.05, batch=4), sigma=0.5, clip=0.1),
    "epochs": DP(SGD(lr=0.3, batch=4, epochs=2, schedule="cosine"), sampling="epochs"),
    "swag": DP(SWAG(lr=0.05, batch=4, epochs=3, every=2, rank=2), sigma=0.5),
    "sgld": DP(SGLD(lr=0.05, batch=4, rank=0), sigma=0.5),
}


def rows(n, dtype=torch.float64, seed=5):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(3, (n,), generator=generator)


def batch_of(n, dtype=torch.float64):
    x, y = rows(n, dtype)
    return Batch(x, y, torch.ones(n, dtype=dtype))


def learner_of(name):
    torch.manual_seed(1)
    module = MODELS[name]().double()
    return Learner(module, "classification"), belief_of(module)


class TestByHand:
    """y = w x with squared error: the gradient of a row is 2 (w x - y) x."""

    x = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    y = torch.tensor([0.25, 3.0], dtype=torch.float64)

    def learner(self):
        model = nn.Linear(1, 1, bias=False).double()
        return Learner(model, "regression"), {"weight": torch.tensor([[0.5]], dtype=torch.float64)}

    def test_one_row_is_clipped_and_one_is_not(self):
        # 2 (0.5 - 0.25) 1 = 0.5 stays, 2 (1 - 3) 2 = -8 becomes -1
        learner, belief = self.learner()
        found = learner.clipped(belief, Batch(self.x, self.y, torch.ones(2).double()), torch.tensor(0), 1.0)
        assert found["weight"].item() == pytest.approx(-0.5)

    def test_padding_counts_for_nothing(self):
        learner, belief = self.learner()
        weight = torch.tensor([1.0, 0.0]).double()
        found = learner.clipped(belief, Batch(self.x, self.y, weight), torch.tensor(0), 1.0)
        assert found["weight"].item() == pytest.approx(0.5)

    def test_no_row_gives_nothing(self):
        learner, belief = self.learner()
        empty = Batch(self.x[:0], self.y[:0], torch.ones(0).double())
        assert learner.clipped(belief, empty, torch.tensor(0), 1.0)["weight"].item() == 0

    def test_noise_is_a_share_of_the_clip_and_all_of_it_is_divided_by_the_expected_batch(self):
        assert noisy_mean(torch.tensor(-0.5), torch.tensor(2.0), 0.5, 3.0, 4).item() == (-0.5 + 3.0) / 4

    def test_a_row_that_is_not_finite_counts_for_nothing(self):
        learner, belief = self.learner()
        x = torch.tensor([[1.0], [torch.inf]], dtype=torch.float64)
        found = learner.clipped(belief, Batch(x, self.y, torch.ones(2).double()), torch.tensor(0), 1.0)
        assert found["weight"].item() == pytest.approx(0.5)


class TestRows:
    @pytest.mark.parametrize("name", [n for n in MODELS if "dropout" not in n])
    def test_each_row_as_autograd_has_it(self, name):
        learner, belief = learner_of(name)
        batch, clip = batch_of(7), 0.3
        total = {n: torch.zeros_like(belief[n]) for n in learner.trainable}
        for i in range(7):
            one = Batch(*(t[i : i + 1] for t in batch))
            grads = learner.gradient(belief, one, torch.tensor(0)).grads
            norm = torch.cat([g.flatten() for g in grads.values()]).norm()
            total = {n: t + grads[n] * min(1.0, clip / float(norm)) for n, t in total.items()}
        found = learner.clipped(belief, batch, torch.tensor(0), clip)
        for n in total:
            torch.testing.assert_close(found[n], total[n])

    @pytest.mark.parametrize("name", MODELS)
    def test_which_models_are_tapped(self, name):
        learner, belief = learner_of(name)
        learner.clipped(belief, batch_of(3), torch.tensor(0), 1.0)
        (uses,) = rowwise._known[learner.training].values()
        assert (uses is not None) == (name in TAPPED)

    @pytest.mark.parametrize("name", MODELS)
    def test_eager_is_the_same(self, name):
        learner, belief = learner_of(name)
        eager, batch = EagerLearner(learner), batch_of(6)
        wanted = learner.clipped(belief, batch, torch.tensor(3), 0.5)
        packed = eager.clipped(eager.layout.pack(belief), batch, torch.tensor(3), 0.5)
        found = eager.layout.unpack(packed)
        for n in wanted:
            torch.testing.assert_close(found[n], wanted[n])

    def test_a_model_that_mixes_rows_goes_row_by_row(self):
        class Centred(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 3)

            def forward(self, x):
                return self.linear(x - x.mean(0, keepdim=True) / 2)

        module = Centred().double()
        learner = Learner(module, "classification")
        learner.clipped(belief_of(module), batch_of(3), torch.tensor(0), 1.0)
        assert list(rowwise._known[learner.training].values()) == [None]

    @pytest.mark.parametrize("name", ["mlp with dropout", "convolutions", "a scale"])
    @settings(max_examples=15)
    @given(scale=st.floats(0.01, 100.0), gone=st.integers(0, 5), clip=st.floats(0.01, 3.0))
    def test_no_row_moves_the_mean_by_more_than_the_clip(self, name, scale, gone, clip):
        learner, belief = learner_of(name)
        batch = batch_of(6)
        batch = batch._replace(x=batch.x * scale)
        without = batch._replace(weight=batch.weight.index_fill(0, torch.tensor(gone), 0.0))
        both = [learner.clipped(belief, b, torch.tensor(0), clip) for b in (batch, without)]
        apart = sum((both[0][n] - both[1][n]).square().sum() for n in learner.trainable).sqrt()
        assert float(apart) <= clip * (1 + 1e-9)


def test_noise_has_the_variance_that_is_claimed():
    # chi-squared with 20,000 degrees of freedom: within five standard deviations of its mean
    module = nn.Linear(100, 100, bias=False).double()
    learner, belief = Learner(module, "classification"), belief_of(module)
    x = torch.zeros(1, 100, dtype=torch.float64)  # a gradient of 0
    batch = Batch(x, torch.zeros(1, dtype=torch.int64), torch.ones(1).double())
    private = hiding(learner, clip=0.5, sigma=1.5, expected=4)
    drawn = [private.gradient(belief, batch, torch.tensor(s)).grads["weight"] for s in (7, 8)]
    scaled = torch.cat(drawn).flatten() * 4 / (1.5 * 0.5)
    n = len(scaled)
    assert abs(float(scaled.square().sum()) - n) < 5 * math.sqrt(2 * n)
    assert abs(float(scaled.sum())) < 5 * math.sqrt(n)
    assert abs(float((drawn[0] * drawn[1]).sum()) * (4 / 0.75) ** 2) < 5 * math.sqrt(n / 2)


class TestCoins:
    def test_rows_come_by_chance(self):
        drawn = poisson_rows(50, 10, 4000, 50, Key(0))
        sizes = (drawn >= 0).sum(1).double()
        assert float(sizes.mean()) == pytest.approx(10, abs=0.2)
        assert float(sizes.var()) == pytest.approx(50 * 0.2 * 0.8, rel=0.1)
        times = torch.bincount(drawn[drawn >= 0], minlength=50).double()
        assert float((times - 800).abs().max()) < 5 * math.sqrt(4000 * 0.2 * 0.8)
        for step in drawn[:100].tolist():
            here = [r for r in step if r >= 0]
            assert len(set(here)) == len(here)
            assert step == here + [-1] * (len(step) - len(here))

    def test_of_more_than_the_cap_some_are_picked_at_random(self):
        drawn = poisson_rows(20, 10, 4000, 10, Key(1))
        sizes = (drawn >= 0).sum(1)
        assert drawn.shape[1] == int(sizes.max()) == 10
        times = torch.bincount(drawn[drawn >= 0], minlength=20).double()
        assert float((times / times.mean() - 1).abs().max()) < 0.1

    def test_a_batch_of_all_rows_has_them_all(self):
        assert poisson_rows(5, 5, 3, usual_cap(5), Key(0)).tolist() == [[0, 1, 2, 3, 4]] * 3

    def test_a_batch_may_be_empty(self):
        drawn = poisson_rows(100, 1, 50, 7, Key(0))
        assert bool(((drawn >= 0).sum(1) == 0).any())

    def test_epochs_are_dealt_as_ever(self):
        work = SGD(batch=4, epochs=2)
        mine = DP(work, sampling="epochs").plan(10, Key(3))
        assert torch.equal(mine.rows, work.plan(10, Key(3)).rows)


@pytest.fixture(scope="module")
def federation(client_of):
    def make(dtype, name="mlp with dropout"):
        clients = []
        for i, n in enumerate(SIZES):
            x, y = rows(n, dtype, seed=i)
            clients.append(client_of(x, y, name=str(i)))
        torch.manual_seed(1)
        return MODELS[name]().to(dtype), clients

    return make


def held(*beliefs):
    return hold(stack(beliefs), at_coordinator(len(beliefs)))


def played(net, module, work):
    everyone = torch.arange(len(SIZES))
    first = net.visit(work, held(belief_of(module)), from_server(everyone), Key(0).at_round(1, 2))
    second = net.visit(
        work, first.beliefs.only(module.state_dict()), to_own(len(SIZES)), Key(0).at_round(2, 2)
    )
    return second.beliefs.tensors, second.numbers, net.slots.tensors()


class TestEngines:
    @pytest.mark.parametrize(
        ("name", "keep", "dtype"),
        [*((name, True, torch.float64) for name in WORK), ("adam", False, torch.float32)],
    )
    def test_agree(self, name, keep, dtype, federation, net_of):
        module, clients = federation(dtype)
        work = replace(WORK[name], inner=replace(WORK[name].inner, keep=keep))
        self.alike(Gather(work) if name in ("swag", "sgld") else work, dtype, module, clients, net_of)

    @pytest.mark.parametrize("model", MODELS)
    def test_agree_for_any_model(self, model, federation, net_of):
        module, clients = federation(torch.float64, model)
        work = WORK["sgd, with empty and capped batches"]
        sizes = [(work.plan(n, Key(0)).rows >= 0).sum(1) for n in SIZES]
        assert any(bool((s == 0).any()) for s in sizes)
        assert any(bool((s == 2).any()) for s in sizes)
        self.alike(work, torch.float64, module, clients, net_of)

    def alike(self, work, dtype, module, clients, net_of):
        wanted = played(net_of(module, clients, "loop"), module, work)
        for engine in ("stacked", "pool"):
            found = played(net_of(module, clients, engine), module, work)
            for theirs, ours in zip(found, wanted, strict=True):
                assert theirs.keys() == ours.keys()
                for n in ours:
                    torch.testing.assert_close(
                        theirs[n], ours[n], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], msg=n
                    )

    def test_steps_are_recorded(self, federation, net_of, caplog):
        module, clients = federation(torch.float32)
        caplog.set_level("INFO", "coterie")
        played(net_of(module, clients, "stacked"), module, WORK["adam"])
        assert "batched anew" not in caplog.text

    def test_the_loss_is_not_told_and_samples_are_those_expected(self, federation, net_of):
        module, clients = federation(torch.float64)
        work = WORK["sgd, with empty and capped batches"]
        _, numbers, _ = played(net_of(module, clients), module, work)
        assert {n: v.tolist() for n, v in numbers.items()} == {"samples": [24.0] * 3}
        assert work.numbers == ("samples",)


def test_a_pull_is_neither_clipped_nor_lost(federation, net_of):
    # proximal(dp(sgd)): with all of the gradient noise and the pull, the pull is exact
    module, clients = federation(torch.float64)
    start = belief_of(module)
    anchor = {n: t + 1 for n, t in start.items()}
    work = DP(SGD(lr=0.1, batch=4, steps=1), clip=0.01)
    ends = [
        net_of(module, clients[:1])
        .visit(kernel, held(start), edges_of([(0, 0)]), Key(0), beside={"anchor": held(anchor)})
        .beliefs.tensors
        for kernel in (work, Proximal(work, strength=2.0))
    ]
    for n in start:
        torch.testing.assert_close(ends[1][n] - ends[0][n], torch.full_like(ends[0][n], 0.1 * 2.0))


class TestCharges:
    work = DP(SGD(batch=4, epochs=3), sigma=2.0, clip=0.5)

    @pytest.mark.parametrize(
        ("work", "wanted"),
        [
            (work, (Charge(2.0, 0.4, 16, 10, 9),)),
            (replace(work, cap=5), (Charge(2.0, 0.4, 5, 10, 9),)),
            (replace(work, sampling="epochs"), (Charge(2.0, rows=10, times=3),)),
            (DP(SGD(batch=4, steps=4), sampling="epochs"), (Charge(1.0, rows=10, times=2),)),
            (Proximal(work), (Charge(2.0, 0.4, 16, 10, 9),)),
            (Fold(work, folds=5, fold=0, passes=2), (Charge(2.0, 0.5, 16, 8, 12),)),
            (Gather(DP(SWAG(batch=5))), (Charge(1.0, 0.5, 19, 10, 2),)),
            (SGD(), None),
            (Fold(SGD()), None),
            (Slopes(work), None),
        ],
    )
    def test_of_a_visit(self, work, wanted):
        assert charges_of(work, 10) == wanted

    def test_a_plan_has_as_many_steps_as_are_charged(self):
        assert len(self.work.plan(10, Key(0))) == 9
        assert len(Fold(self.work, folds=5, passes=2).plan(10, Key(0))) == 12


class TestRefused:
    def test_batch_norm(self, client_of, net_of, refused):
        module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
        for engine in ("loop", "pool", "auto"):
            net = net_of(module, [client_of(*rows(9))], engine)
            with refused(
                BadInput,
                "dp cannot hide rows in a model with batch norm (BatchNorm1d '1'), which mixes them: take a "
                "model without, or group norm instead",
            ):
                net.visit(DP(SGD(batch=4)), held(belief_of(module)), edges_of([(0, 0)]), Key(0))

    def test_fewer_rows_than_a_batch(self, refused):
        for ask in (lambda w: w.plan(3, Key(0)), lambda w: w.charges(3)):
            with refused(
                BadInput,
                "3 training rows, and dp needs at least a batch of them, 4: lower batch, or leave the client "
                "out",
            ):
                ask(DP(SGD(batch=4)))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"sigma": 0.0}, "sigma=0.0 must be above 0 and finite: try 1, or leave dp out"),
            ({"sigma": math.nan}, "sigma=nan must be above 0 and finite: try 1, or leave dp out"),
            ({"clip": -1.0}, "clip=-1.0 must be above 0 and finite: try 1, or leave dp out"),
            ({"cap": 31}, "cap=31 must be at least the batch, 32: raise it, or take 0 for 66"),
            (
                {"inner": HMC()},
                "dp needs work that looks at rows by one gradient a step (sgd, adam, adamw, swag, sgld, "
                "psgld); got hmc: put one of these inside",
            ),
            ({"inner": DP()}, "dp(dp(...)): dp goes around plain work: try dp(sgd)"),
        ],
    )
    def test_options(self, options, message, refused):
        with refused(BadInput, message):
            DP(**options)


def test_it_crosses_a_wire_as_data():
    work = DP(Adam(lr=0.2), clip=0.3, sampling="epochs")
    assert kernel_of(kernel_to_dict(work)) == work


def test_noise_of_a_sampler_is_another():
    # with the same numbers in both, drift and diffusion would cancel
    module = nn.Linear(2, 2).double()
    learner, belief = Learner(module, "classification"), belief_of(module)
    batch = Batch(torch.zeros(1, 2).double(), torch.zeros(1, dtype=torch.int64), torch.ones(1).double())
    sampler = SGLD(lr=1.0, prior=0.0)
    tick = Tick(torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor(5))
    zero = batch._replace(weight=torch.zeros(1).double())
    moved = [
        w.step(learner, w.start(belief, w.fresh(learner, belief), {}), b, tick)["belief"]["weight"]
        for w, b in ((sampler, zero), (DP(sampler, sigma=1.0), zero))
    ]
    private = (moved[1] - moved[0]) * 32
    diffusion = moved[0] - belief["weight"]
    assert not torch.allclose(private.abs(), diffusion.abs(), rtol=1e-3)
