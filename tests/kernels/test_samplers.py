"""SGLD, pSGLD and HMC on a posterior that is known: a linear model with a Gaussian prior.

    U(θ) = N L(θ) + λ/2 ‖θ‖²,  L = mean of (y - θ·x)²:   N(m, T A⁻¹),  A = 2 XᵀX + λ I,  m = A⁻¹ 2 Xᵀy

Many chains at once are many beliefs that visit one client. Chains are independent, so the standard error of a
statistic is that of its means over chains; bounds are 4.5 of them, which chance passes once in 150,000 times.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import NamedTuple

import arviz
import pytest
import torch
from torch import Tensor, nn

from coterie.core.belief import row
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, hold
from coterie.core.net import SERVER, edges_of, to_own
from coterie.core.seeds import Key
from coterie.kernels import HMC, PSGLD, SGLD, Gather
from coterie.kernels.bayes import normals
from coterie.kernels.hmc import Potential, dual_average, leapfrog
from coterie.kernels.posterior import collected
from coterie.nets import InProcess

CHAINS, N, PRIOR, T = 256, 12, 3.0, 0.5
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
IDENTITY = torch.eye(2, dtype=torch.float64)


class Known(NamedTuple):
    net: InProcess
    mean: Tensor
    precision: Tensor


@pytest.fixture(scope="module")
def known(client_of, net_of) -> Known:
    # rows on two tilted axes: 2 XᵀX has the eigenvalues 24 and 9 there
    along, across = torch.tensor([0.8, 0.6]).double(), torch.tensor([-0.6, 0.8]).double()
    signs = torch.tensor([1.0, -1.0]).double().repeat(6)
    lengths = torch.tensor([math.sqrt(2.0)] * 6 + [math.sqrt(0.75)] * 6).double()
    axes = torch.cat([along.expand(6, 2), across.expand(6, 2)])
    x = axes * (lengths * signs).unsqueeze(1)
    y = x @ torch.tensor([1.0, -2.0]).double() + 0.3 * signs.cumsum(0)
    precision = 2 * x.T @ x + PRIOR * IDENTITY
    torch.testing.assert_close(torch.linalg.eigvalsh(precision), torch.tensor([12.0, 27.0]).double())
    net = net_of(nn.Linear(2, 1, bias=False).double(), [client_of(x, y)], "stacked")
    return Known(net, torch.linalg.solve(precision, 2 * x.T @ y), precision)


def visited(known: Known, work, seed: int, chains: int = CHAINS):
    """Draws [chain, draw, parameter] of chains that set out from the mean, and the replies."""
    starts = hold({"weight": known.mean.expand(chains, 1, 2).clone()}, at_coordinator(chains))
    edges = edges_of([(c, 0) for c in range(chains)])
    replies = known.net.visit(Gather(work), starts, edges, Key(seed).at_round(1, 1))
    opened = replies.beliefs.tensors
    drawn = torch.stack([opened[f"draw/{k}/weight"][:, 0] for k in range(work.rank)], dim=1)
    return drawn, opened, replies


def assert_samples(drawn: Tensor, mean: Tensor, covariance: Tensor, slack: float = 0.0) -> None:
    """Mean and covariance are those; `slack` is what theory leaves open, in standard deviations."""
    away, spread = drawn - mean, covariance.diagonal().sqrt()
    products = away.unsqueeze(-1) * away.unsqueeze(-2)
    for found, wanted, scale in ((away, 0, spread), (products, covariance, spread.outer(spread))):
        chains = found.mean(1)
        error = chains.std(0) / math.sqrt(len(chains))
        assert bool((error < 0.05 * scale).all())  # else the test would say nothing
        assert bool(((chains.mean(0) - wanted).abs() <= 4.5 * error + slack * scale).all())


def langevin(known: Known, lr: float, temperature: float, metric: Tensor | None = None) -> Tensor:
    """T A⁻¹ (I - η A / (2 N))⁻¹: what steps of finite length have instead of T A⁻¹, here in a metric."""
    root = IDENTITY if metric is None else metric.sqrt().diag()
    inner = root @ known.precision @ root
    return temperature * root @ torch.linalg.inv(inner @ (IDENTITY - lr * inner / (2 * N))) @ root


SGLD_WORK = SGLD(lr=0.3, batch=N, steps=90, burn=10, every=3, rank=20, prior=PRIOR, temperature=T)
PSGLD_WORK = PSGLD(lr=0.15, decay=0.99, batch=N, steps=220, burn=24, every=5, rank=20, prior=PRIOR)
HMC_WORK = HMC(steps=80, adapt=60, burn=60, rank=20, leaps=2, prior=PRIOR, temperature=T)


@pytest.mark.parametrize("seed", SEEDS)
class TestKnownGaussian:
    @pytest.fixture(autouse=True)
    def recorded(self, caplog):
        """Steps are recorded once and replayed, noise and all."""
        caplog.set_level("INFO", "coterie")
        yield
        assert not [r for r in caplog.get_records("call") if "batched anew" in r.getMessage()]

    def test_sgld(self, known, seed):
        drawn, _, _ = visited(known, SGLD_WORK, seed)
        assert_samples(drawn, known.mean, langevin(known, SGLD_WORK.lr, T))

    def test_psgld(self, known, seed):
        # the metric settles where V is the mean of ĝ², ĝ = ((A - λ) (θ - m) - λ m) / N
        likelihood, metric = known.precision - PRIOR * IDENTITY, torch.ones(2).double()
        for _ in range(20):
            covariance = langevin(known, PSGLD_WORK.lr, 1.0, metric)
            square = (likelihood @ covariance @ likelihood).diagonal() + (PRIOR * known.mean).square()
            metric = 1 / (PSGLD_WORK.eps + square.sqrt() / N)
        drawn, _, _ = visited(known, PSGLD_WORK, seed)
        # what the metric itself still moves is of order 1 - decay
        assert_samples(drawn, known.mean, covariance, slack=0.03)

    def test_hmc(self, known, seed):
        drawn, _, replies = visited(known, HMC_WORK, seed)
        assert_samples(drawn, known.mean, T * torch.linalg.inv(known.precision))
        assert bool((replies.numbers["acceptance"] > 0.5).all())


class TestBatches:
    """SGLD with one of four rows in each step: no step is small, and yet all can be worked out.

    With the row (x, y) a step is θ ← A θ + η 2 y x + noise, A = I - η (2 x xᵀ + λ / N). An epoch deals
    the rows in one of 24 orders, all alike likely. Its first j steps are M θ + c + noise of covariance Q, and
    as the order does not depend on θ,

        E[θ] ← E[M] E[θ] + E[c],    E[θ θᵀ] ← E[M θ θᵀ Mᵀ + M θ cᵀ + c θᵀ Mᵀ + c cᵀ + Q].

    In the long run a whole epoch leaves both as they are: two linear equations. Every fifth step is in turn
    the first, second, third and fourth of an epoch.
    """

    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, -0.6]]).double()
    y = torch.tensor([1.5, -0.5, 0.5, 0.5]).double()
    work = SGLD(lr=0.2, batch=1, steps=140, every=5, burn=8, rank=20, prior=0.4, temperature=0.1)

    def steps(self, j: int) -> tuple[Tensor, Tensor, Tensor]:
        """M, c and Q of the first j steps of an epoch, for each order [order, ...]."""
        lr, share = self.work.lr, self.work.prior / 4
        noise, orders = 2 * lr * self.work.temperature / 4 * IDENTITY, []
        for order in itertools.permutations(range(4)):
            M, c, Q = IDENTITY, 0 * IDENTITY[0], 0 * IDENTITY
            for x, y in zip(self.x[list(order[:j])], self.y[list(order[:j])], strict=True):
                A = IDENTITY - lr * (2 * x.outer(x) + share * IDENTITY)
                M, c, Q = A @ M, A @ c + lr * 2 * y * x, A @ Q @ A.T + noise
            orders.append((M, c, Q))
        M, c, Q = (torch.stack(parts) for parts in zip(*orders, strict=True))
        return M, c, Q

    def in_the_long_run(self) -> tuple[Tensor, Tensor]:
        """Mean and covariance over the four places in an epoch."""

        def added(mean, M, c, Q):
            mixed = (M @ mean).unsqueeze(2) * c.unsqueeze(1)
            return (mixed + mixed.mT + c.unsqueeze(2) * c.unsqueeze(1) + Q).mean(0)

        M, c, Q = self.steps(4)
        mean = torch.linalg.solve(IDENTITY - M.mean(0), c.mean(0))
        passed_on = torch.stack([torch.kron(m, m) for m in M]).mean(0)  # takes S, row by row, to M S Mᵀ
        rest = added(mean, M, c, Q).flatten()
        second = torch.linalg.solve(torch.eye(4).double() - passed_on, rest).view(2, 2)
        means, seconds = [], []
        for j in (1, 2, 3, 4):
            M, c, Q = self.steps(j)
            means.append(M.mean(0) @ mean + c.mean(0))
            seconds.append((M @ second @ M.mT).mean(0) + added(mean, M, c, Q))
        centre = torch.stack(means).mean(0)
        return centre, torch.stack(seconds).mean(0) - centre.outer(centre)

    @pytest.fixture(scope="class")
    @classmethod
    def few(cls, client_of, net_of) -> Known:
        net = net_of(nn.Linear(2, 1, bias=False).double(), [client_of(cls.x, cls.y)], "stacked")
        precision = 2 * cls.x.T @ cls.x + cls.work.prior * IDENTITY
        return Known(net, torch.linalg.solve(precision, 2 * cls.x.T @ cls.y), precision)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_covariance(self, few, seed):
        mean, covariance = self.in_the_long_run()
        # steps on all rows would widen it by 1 / (1 - η a / (2 N)), 1.12; batches show well beyond that
        posterior = self.work.temperature * torch.linalg.inv(few.precision)
        assert bool((covariance.diagonal() > 1.4 * posterior.diagonal()).all())
        drawn, _, _ = visited(few, self.work, seed)
        assert_samples(drawn, mean, covariance)


@pytest.mark.parametrize("work", [SGLD_WORK, HMC_WORK], ids=["sgld", "hmc"])
def test_long_chains_mix_by_arviz(known, work):
    longer = replace(work, steps=(work.burn + 100) * work.every, rank=100)
    drawn, opened, _ = visited(known, longer, 0, chains=8)
    for d in (0, 1):
        chains = drawn[..., d].numpy()
        assert float(arviz.rhat(chains)) < 1.05
        assert float(arviz.ess(chains)) > chains.size / 4
    # and the moments that came home are those of the draws
    assert opened["count"].tolist() == [100] * 8
    torch.testing.assert_close(opened["weight"][:, 0], drawn.mean(1))
    torch.testing.assert_close(opened["variance/weight"][:, 0], drawn.var(1, correction=0))


def test_acceptance_comes_near_its_target(client_of, net_of):
    # 40 directions of different precision, so that not all paths close at one length of a step
    data = client_of(torch.linspace(0, 3, 40).double().diag(), torch.zeros(40).double())
    net = net_of(nn.Linear(40, 1, bias=False).double(), [data] * 32, "stacked")
    work = HMC(steps=160, adapt=120, leaps=4, rank=0, prior=2.0, target=0.65)
    starts = hold({"weight": torch.randn(32, 1, 40, dtype=torch.float64) / 2}, at_coordinator(32))
    found = net.visit(work, starts, to_own(32), Key(0).at_round(1, 1)).numbers["acceptance"]
    assert float(found.std()) / math.sqrt(len(found)) < 0.01  # else the test would say nothing
    assert float(found.mean()) == pytest.approx(0.65, abs=0.05)


class TestByHand:
    """w · x on (1, 2) and (2, 4): L = 2.5 (w - 2)², of slope 5 (w - 2)."""

    @pytest.fixture
    def line(self, client_of, net_of):
        data = client_of(torch.tensor([[1.0], [2.0]]).double(), torch.tensor([2.0, 4.0]).double())
        return net_of(nn.Linear(1, 1, bias=False).double(), [data])

    def visited(self, net, work):
        """What came of 1."""
        start = hold({"weight": torch.ones(1, 1, 1, dtype=torch.float64)}, SERVER)
        return row(net.visit(work, start, edges_of([(0, 0)]), Key(0)).beliefs.tensors, 0)

    def after(self, net, work) -> float:
        return self.visited(net, work)["weight"].item()

    def test_sgld_without_noise_is_sgd_with_its_share_of_the_prior(self, line):
        # from 1: slope -5, and λ / N = 4 / 2 times 1: 1 - 0.1 · (-5 + 2)
        work = SGLD(lr=0.1, batch=2, prior=4.0, temperature=0, average=False)
        assert self.after(line, work) == pytest.approx(1.3)

    def test_the_noise_of_one_step(self, line):
        # √(2 η T / N) = √(2 · 0.1 · 3 / 2) of one standard normal number, the seed's own
        quiet, loud = (SGLD(lr=0.1, batch=2, prior=4.0, temperature=t, average=False) for t in (0, 3.0))
        seed = torch.tensor(quiet.plan(2, Key(0).at("guest", 0, "host", 0)).seed)
        noise = normals(seed, [torch.zeros(1, 1).double()])[0].item()
        assert self.after(line, loud) == pytest.approx(1.3 + math.sqrt(0.3) * noise)

    def test_a_whole_client_counts_for_a_batch_of_it(self, line):
        # batches of one row still weigh the prior and the noise by N = 2
        plan = SGLD(batch=1, steps=3, schedule="linear", final=0.5).plan(2, Key(0).at_round(1, 1))
        assert plan.rates.tolist() == [[1.0, 2.0], [pytest.approx(5 / 6), 2.0], [pytest.approx(4 / 6), 2.0]]

    def test_psgld_without_noise_divides_by_the_slope(self, line):
        # from 1: V / (1 - α) = 25, G = 1 / (1 + 5): 1 - 0.6 · (-5 + 2) / 6
        work = PSGLD(lr=0.6, batch=2, prior=4.0, temperature=0, eps=1.0, average=False)
        assert self.after(line, work) == pytest.approx(1.3)

    @pytest.mark.parametrize("burn", [0, 1, 3])
    def test_draws_that_are_due(self, line, burn):
        # from 1 without noise: each step takes w to 2 + (w - 2) / 2, so 1.5, 1.75, 1.875, 1.9375; due are the
        # second and the fourth
        work = SGLD(lr=0.1, batch=2, prior=0, temperature=0, steps=5, every=2, burn=burn, rank=3)
        found = collected(self.visited(line, Gather(work)))
        kept = [1.75, 1.9375][burn:]
        assert found.count == len(kept)
        assert found.deviations == {}
        assert [d.item() for d in found.draws.get("weight", ())] == pytest.approx(kept)
        # where all were passed over, the reply is the last state
        mean = sum(kept) / len(kept) if kept else 2 - 1 / 2**5
        assert found.mean["weight"].item() == pytest.approx(mean)

    def test_every_second_draw_of_hmc(self, line):
        # ever longer chains are the same up to their ends, so that each draw can be had as a last state
        works = [HMC(steps=s, adapt=0, burn=0, leaps=2, average=False) for s in range(1, 8)]
        states = [self.after(line, work) for work in works]
        work = replace(works[-1], every=2, burn=1, rank=5)
        found = collected(self.visited(line, Gather(work)))
        assert [d.item() for d in found.draws["weight"]] == [states[3], states[5]]  # the 4th and the 6th
        assert found.mean["weight"].item() == pytest.approx((states[3] + states[5]) / 2)
        assert len(set(states)) > 3

    def test_a_path_to_infinity_is_refused(self, line):
        work = HMC(lr=1e60, steps=2, adapt=0, burn=0, leaps=5, average=False)
        assert self.after(line, work) == 1.0

    def test_the_first_adaptation(self):
        # t = 1: h = (0.8 - 0.3) / 11, x = log 10 - h / 0.2, and x̄ = x
        zero = torch.zeros(()).double()
        memory = {"gap": zero, "log_step": zero, "log_step_mean": zero, "t": torch.tensor(1)}
        chance = torch.tensor(0.3).double()
        found = dual_average(memory, torch.tensor(True), chance, 0.8)
        x = math.log(10) - 0.5 / 11 / 0.2
        assert [found[n].item() for n in ("gap", "log_step", "log_step_mean")] == pytest.approx(
            [0.5 / 11, x, x]
        )
        # t = 2, accepted for sure: h = (1 - 1/12) h - 0.2 / 12
        again = dual_average(
            {**found, "t": torch.tensor(2)}, torch.tensor(True), torch.tensor(1.0).double(), 0.8
        )
        h = 11 / 12 * 0.5 / 11 - 0.2 / 12
        second = math.log(10) - math.sqrt(2) * h / 0.2
        assert again["log_step"].item() == pytest.approx(second)
        share = 2**-0.75
        assert again["log_step_mean"].item() == pytest.approx(share * second + (1 - share) * x)
        over = dual_average({**again, "t": torch.tensor(3)}, torch.tensor(False), chance, 0.8)
        assert over == again

    def test_one_leap_of_a_spring(self):
        # U = w²/2, from (1, 0) by ε = 1/2: p = -1/4, w = 7/8, p = -1/4 - 7/32
        at, momentum, end = leapfrog(spring, {"w": ONE}, {"w": 0 * ONE}, spring({"w": ONE}), ONE / 2, 1)
        assert (at["w"].item(), momentum["w"].item(), end.value.item()) == (7 / 8, -15 / 32, 49 / 128)

    def test_a_path_can_be_walked_back(self):
        start = {"w": ONE}, {"w": ONE / 3}
        at, momentum, end = leapfrog(spring, *start, spring(start[0]), ONE / 5, 7)
        back, turned, _ = leapfrog(spring, at, {"w": -momentum["w"]}, end, ONE / 5, 7)
        assert back["w"].item() == pytest.approx(1)
        assert turned["w"].item() == pytest.approx(-1 / 3)


ONE = torch.ones((), dtype=torch.float64)


def spring(at) -> Potential:
    return Potential(at["w"].square() / 2, {"w": at["w"]}, ONE, {})


class TestNoise:
    def test_is_standard_normal(self):
        z = normals(torch.tensor(7), [torch.zeros(100_000).double()])[0]
        moments = [z.pow(k).mean().item() for k in (1, 2, 3, 4)]
        errors = [math.sqrt(v / len(z)) for v in (1, 2, 15, 96)]  # variances of z, z², z³, z⁴
        assert all(abs(m - w) < 4.5 * e for m, w, e in zip(moments, (0, 1, 0, 3), errors, strict=True))

    def test_of_one_step_has_nothing_to_do_with_the_next(self):
        rows = torch.stack(
            [normals(torch.tensor(2**62 + s), [torch.zeros(20_000).double()])[0] for s in range(6)]
        )
        lagged = torch.stack([rows[0, 1:], rows[0, :-1]])
        halves = rows[0].view(2, -1)  # sine and cosine of one angle
        for several in (rows, lagged, halves):
            off = several.corrcoef() - torch.eye(len(several)).double()
            assert float(off.abs().max()) < 4.5 / math.sqrt(several.shape[1])

    def test_is_the_same_for_a_vector_as_for_its_pieces(self):
        pieces = normals(torch.tensor(3), [torch.zeros(2, 3), torch.zeros(()), torch.zeros(4)])
        assert [p.shape for p in pieces] == [(2, 3), (), (4,)]
        whole = normals(torch.tensor(3), [torch.zeros(11)])[0]
        assert torch.equal(torch.cat([p.flatten() for p in pieces]), whole)


@pytest.mark.parametrize(
    ("make", "option", "value", "said"),
    [
        (SGLD, "prior", -1, "at least 0 and finite: try 1"),
        (SGLD, "temperature", math.nan, "at least 0 and finite: try 1"),
        (SGLD, "lr", 0, "above 0 and finite: try 0.1"),
        (SGLD, "every", 0, "at least 1"),
        (SGLD, "batch", 0, "at least 1"),
        (PSGLD, "decay", 1.0, "lie in [0, 1): try 0.99"),
        (PSGLD, "eps", 0, "above 0: try 1e-2"),
        (HMC, "temperature", 0, "above 0 for hmc: try 1"),
        (HMC, "lr", math.inf, "above 0 and finite: try 0.1"),
        (HMC, "leaps", 0, "at least 1: try 10"),
        (HMC, "steps", 0, "at least 1: try 10"),
        (HMC, "adapt", -1, "at least 0: try 0"),
        (HMC, "target", 1.0, "lie between 0 and 1: try 0.8"),
        (HMC, "jitter", 1.0, "lie in [0, 1): try 0.2"),
        (HMC, "burn", -1, "at least 0"),
    ],
)
def test_bad_options(make, option, value, said):
    with pytest.raises(BadInput, match=re.escape(said)) as refusal:
        make(**{option: value})
    assert str(refusal.value).startswith(f"{option}={value} must ")
