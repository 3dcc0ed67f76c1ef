"""SWAG's moments and columns by hand, and the Gaussian that is made of them."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from coterie.core.belief import belief_of, row, stack
from coterie.core.errors import BadInput
from coterie.core.held import hold
from coterie.core.net import SERVER, edges_of, from_server
from coterie.core.seeds import Key
from coterie.kernels import SGD, SWAG, Gather
from coterie.kernels.posterior import collected
from coterie.posteriors import from_collected, mean, variances

KEY = Key(0).at_round(1, 1)
ONE = edges_of([(0, 0)])


@pytest.fixture
def line(client_of, net_of):
    """w · x on (1, 2) and (2, 4), from w = 0: lr = 0.1 halves the way to 2 in each step: 1, 1.5, 1.75, ..."""
    x, y = torch.tensor([[1.0], [2.0]]).double(), torch.tensor([2.0, 4.0]).double()
    net = net_of(nn.Linear(1, 1, bias=False).double(), [client_of(x, y)])
    return net, hold({"weight": torch.zeros(1, 1, 1, dtype=torch.float64)}, SERVER)


def visited(line, **options):
    return read(*line, Gather(SWAG(lr=0.1, batch=2, **options)))


def read(net, start, work, key=KEY):
    """What one visit collected."""
    return collected(row(net.visit(work, start, ONE, key).beliefs.tensors, 0))


def numbers(belief) -> list[float]:
    return belief["weight"].flatten().tolist() if belief else []


class TestByHand:
    def test_three_steps_with_the_start_among_the_states(self, line):
        found = visited(line, steps=3)
        # 0, 1, 1.5, 1.75: mean 4.25 / 4; squares 0, 1, 2.25, 3.0625: mean 6.3125 / 4
        assert numbers(found.mean) == pytest.approx([1.0625])
        assert numbers(found.variance) == pytest.approx([1.578125 - 1.0625**2])
        # means on the way: 1/2, 2.5/3, 4.25/4
        assert numbers(found.deviations) == pytest.approx([0.5, 1.5 - 2.5 / 3, 1.75 - 1.0625])
        assert (found.count, found.draws) == (4, {})

    def test_without_the_start(self, line):
        found = visited(line, steps=3, origin=False)
        assert numbers(found.mean) == pytest.approx([4.25 / 3])
        assert numbers(found.variance) == pytest.approx([6.3125 / 3 - (4.25 / 3) ** 2])
        # the first state is its own mean
        assert numbers(found.deviations) == pytest.approx([0, 0.25, 1 / 3])
        assert found.count == 3

    def test_every_second_step_after_a_burn_in(self, line):
        # states 1, 1.5, 1.75, 1.875, 1.9375, 1.96875: due are 1.5, 1.875 and 1.96875. The first of these is
        # passed over and takes the place of the start
        found = visited(line, steps=6, burn=1, every=2)
        assert found.count == 3
        assert numbers(found.mean) == pytest.approx([(1.5 + 1.875 + 1.96875) / 3])
        assert numbers(found.deviations) == pytest.approx([1.875 - 3.375 / 2, 1.96875 - 5.34375 / 3])

    def test_a_burn_in_that_does_not_count(self, line):
        found = visited(line, steps=6, burn=1, every=2, origin=False)
        assert found.count == 2
        assert numbers(found.mean) == pytest.approx([(1.875 + 1.96875) / 2])
        assert numbers(found.deviations) == pytest.approx([0, 0.046875])

    def test_steps_after_the_last_that_is_due_are_left_out(self, line):
        assert numbers(visited(line, steps=5, every=2).mean) == pytest.approx([(0 + 1.5 + 1.875) / 3])

    def test_only_the_last_columns_stay_oldest_first(self, line):
        every, last = visited(line, steps=5), visited(line, steps=5, rank=2)
        assert numbers(last.deviations) == numbers(every.deviations)[-2:]
        assert numbers(last.mean) == numbers(every.mean)
        assert visited(line, steps=5, rank=0).deviations == {}

    def test_the_reply_is_the_mean_or_the_last_state(self, line):
        net, start = line
        # where nothing was collected, the last state too
        for options, weight in (({}, 1.0625), ({"average": False}, 1.75), ({"burn": 9}, 1.75)):
            reply = net.visit(SWAG(lr=0.1, batch=2, steps=3, **options), start, ONE, KEY).beliefs.tensors
            assert list(reply) == ["weight"]
            assert numbers(reply) == pytest.approx([weight])
        assert visited(line, steps=3, burn=9).count == 0

    def test_collecting_leaves_the_path_alone(self, line):
        net, start = line
        options = {"lr": 0.05, "batch": 1, "epochs": 4, "momentum": 0.5, "weight_decay": 0.1}
        plain = net.visit(SGD(**options), start, ONE, KEY)
        swag = net.visit(SWAG(**options, average=False), start, ONE, KEY)
        assert numbers(swag.beliefs.tensors) == numbers(plain.beliefs.tensors)
        assert swag.numbers["loss"].tolist() == plain.numbers["loss"].tolist()

    def twice(self, line, **options):
        """What two rounds collected, the second from what the first brought; and what was kept between."""
        net, start = line
        work = Gather(SWAG(lr=0.1, batch=2, keep=True, **options))
        first = net.visit(work, start, ONE, Key(0).at_round(1, 2)).beliefs.only(["weight"])
        kept = net.slots.before("", 2)
        return first.tensors, kept, read(net, first, work, Key(0).at_round(2, 2))

    def test_kept_moments_go_on_in_the_next_round(self, line):
        # the second visit sets out from the mean (0 + 1 + 1.5) / 3 = 5/6: states 17/12 and 41/24
        _, _, found = self.twice(line, steps=2, average=False)
        assert found.count == 5
        assert numbers(found.mean) == pytest.approx([(0 + 1 + 1.5 + 17 / 12 + 41 / 24) / 5])

    def test_a_visit_counts_its_own_steps_but_a_burn_in_goes_on(self, line):
        first, kept, found = self.twice(line, steps=3, every=2, burn=1)
        # due is the second state, 1.5: passed over, it begins the moments
        assert numbers(first) == pytest.approx([1.5])
        assert [kept[c].item() for c in ("due", "count", "columns")] == [1, 1, 0]
        # from there 1.75, 1.875, ...: the second again, now with a column
        assert numbers(found.mean) == pytest.approx([(1.5 + 1.875) / 2])
        assert numbers(found.variance) == pytest.approx([0.1875**2])
        assert numbers(found.deviations) == pytest.approx([0.1875])

    def test_a_visit_too_short_to_collect_leaves_the_first_start(self, line):
        _, _, found = self.twice(line, steps=2, every=3)
        assert (found.count, numbers(found.mean), numbers(found.variance)) == (1, [0], [0])


class TestEpochs:
    """Rows (1, 2) all: lr = 0.25 halves the way from 0 to 2 in each step, whatever the batch.

    With batches of 2, clients of 2, 3 and 5 rows have epochs of 1, 2 and 3 steps.
    """

    sizes = (2, 3, 5)

    def visited(self, client_of, net_of, engine, **options):
        clients = [
            client_of(torch.ones(n, 1).double(), torch.full((n,), 2.0).double(), name=str(n))
            for n in self.sizes
        ]
        net = net_of(nn.Linear(1, 1, bias=False).double(), clients, engine)
        work = Gather(SWAG(lr=0.25, batch=2, per="epoch", **options))
        start = hold({"weight": torch.zeros(1, 1, 1, dtype=torch.float64)}, SERVER)
        opened = net.visit(work, start, from_server(torch.arange(3)), KEY).beliefs.tensors
        return [collected(row(opened, i)) for i in range(3)]

    @staticmethod
    def after(*steps: int) -> list[float]:
        return [2 - 2 / 2**s for s in steps]

    def expect(self, found, kept, before):
        """`kept` have columns; `before`, if any, counts without."""
        states = [*before, *kept]
        means = [sum(states[: i + 1]) / (i + 1) for i in range(len(states))]
        assert found.count == len(states)
        assert numbers(found.mean) == pytest.approx([means[-1]])
        assert numbers(found.variance) == pytest.approx(
            [sum(s * s for s in states) / len(states) - means[-1] ** 2]
        )
        columns = [s - m for s, m in zip(states, means, strict=True)][len(before) :]
        assert numbers(found.deviations) == pytest.approx(columns)

    @pytest.mark.parametrize("engine", ["loop", "pool", "stacked"])
    def test_ends_of_epochs(self, client_of, net_of, engine):
        found = self.visited(client_of, net_of, engine, epochs=7, every=2, burn=1)
        for mine, epoch in zip(found, (1, 2, 3), strict=True):
            self.expect(mine, self.after(4 * epoch, 6 * epoch), self.after(2 * epoch))

    @pytest.mark.parametrize("engine", ["loop", "pool", "stacked"])
    def test_steps_instead_of_epochs(self, client_of, net_of, engine):
        found = self.visited(client_of, net_of, engine, steps=5, origin=False)
        for mine, steps in zip(found, ((1, 2, 3, 4, 5), (2, 4), (3,)), strict=True):
            self.expect(mine, self.after(*steps), [])

    @given(st.integers(1, 30), st.integers(1, 35), st.integers(1, 6), st.integers(1, 4))
    def test_marks_end_epochs(self, samples, batch, epochs, every):
        plan = SWAG(batch=batch, epochs=epochs, every=every, per="epoch").plan(samples, KEY)
        # rows seen up to each mark are whole multiples of the client
        seen = (plan.rows >= 0).sum(dim=1).cumsum(0)[plan.marks]
        assert seen.tolist() == [every * samples * k for k in range(1, epochs // every + 1)]

    @given(st.integers(1, 40), st.integers(1, 12))
    def test_marks_by_steps(self, steps, every):
        plan = SWAG(batch=4, steps=steps, every=every).plan(10, KEY)
        assert (plan.marks.nonzero().flatten() + 1).tolist() == list(range(every, steps + 1, every))


def test_a_narrow_variance_survives_float32(client_of, net_of):
    # states 1000 ± 0.25 in turn: float32 knows their squares to 0.06 only
    net = net_of(nn.Linear(1, 1, bias=False), [client_of(torch.ones(1, 1), torch.full((1,), 1000.0))])
    start = hold({"weight": torch.full((1, 1, 1), 1000.25)}, SERVER)
    found = read(net, start, Gather(SWAG(lr=1.0, steps=3)))
    assert numbers(found.variance) == pytest.approx([0.0625], rel=1e-3)


def gaussian(found, form="low-rank"):
    return from_collected(found.mean, found.variance, found.deviations, found.count, form)


class TestGaussian:
    """Of four steps, the states 0, 1, 1.5, 1.75, 1.875."""

    states = (0, 1, 1.5, 1.75, 1.875)

    def wanted(self, form):
        centre = sum(self.states) / 5
        spread = sum((s - centre) ** 2 for s in self.states) / 5
        if form == "diagonal":
            return centre, spread
        # each state minus the mean of all up to it; the last three columns, so K - 1 = 2
        columns = [s - sum(self.states[: i + 1]) / (i + 1) for i, s in enumerate(self.states)][-3:]
        return centre, spread / 2 + sum(c * c for c in columns) / 4

    @pytest.mark.parametrize("form", ["diagonal", "low-rank", "full"])
    def test_its_moments(self, form, line):
        posterior = gaussian(visited(line, steps=4, rank=3), form)
        centre, spread = self.wanted(form)
        assert numbers(mean(posterior)) == pytest.approx([centre])
        assert numbers(variances(posterior)) == pytest.approx([spread])

    def test_a_temperature_scales_the_covariance(self, line):
        posterior = gaussian(visited(line, steps=4, rank=3)) * (1 / 0.25)
        centre, spread = self.wanted("low-rank")
        assert numbers(mean(posterior)) == pytest.approx([centre])
        assert numbers(variances(posterior)) == pytest.approx([spread / 4])


class TestRefusals:
    def test_too_few_states_or_columns_or_no_moments(self, line):
        with pytest.raises(BadInput, match="1 collected models: a variance needs at least 2"):
            gaussian(visited(line, steps=1, origin=False), "diagonal")
        with pytest.raises(BadInput, match=r"1 deviations of 2 collected models.*or use form=diagonal"):
            gaussian(visited(line, steps=1))
        with pytest.raises(BadInput, match="visit with Gather"):
            collected(belief_of(nn.Linear(1, 1)))

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"every": 0}, "every=0 must be at least 1: try 1"),
            ({"per": "epochs"}, "unknown per 'epochs': did you mean epoch?"),
            ({"burn": -1}, "burn=-1 must be at least 0: try 1"),
            ({"rank": -1}, "rank=-1 must be at least 0: try 1"),
        ],
    )
    def test_bad_options(self, options, said):
        with pytest.raises(BadInput, match=re.escape(said)):
            SWAG(**options)


def test_a_whole_net_comes_home_in_its_shapes(client_of, net_of):
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net = net_of(module, [client_of(torch.randn(9, 3), torch.randint(2, (9,)))])
    found = read(net, hold(stack([belief_of(module)]), SERVER), Gather(SWAG(batch=2, rank=3)))
    assert {n: t.shape for n, t in found.mean.items()} == {n: t.shape for n, t in module.state_dict().items()}
    assert {n: d.shape[1:] for n, d in found.deviations.items()} == {
        n: v.shape for n, v in found.variance.items()
    }
    assert len(found.deviations["0.weight"]) == 3
