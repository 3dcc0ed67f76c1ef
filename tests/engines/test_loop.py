"""The reference engine, and what all engines in one process share."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, count, row, stack
from coterie.core.errors import BadInput, Diverged
from coterie.core.held import COORDINATOR, at_coordinator, hold
from coterie.core.net import SERVER, edges_of, from_server, settle, to_own
from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam, Here, Score

KEY = Key(0).at_round(1, 3)
FULL = SGD(lr=0.25, batch=100)


def held(tensors):
    return hold(tensors, at_coordinator(count(tensors)))


def weights(*values: float):
    return held({"weight": torch.tensor(values, dtype=torch.float32).reshape(-1, 1, 1)})


def listed(beliefs) -> list[float]:
    return beliefs.tensors["weight"].flatten().tolist()


@pytest.fixture
def pull(client_of, net_of):
    """Clients with x = 1 and one target each, so that one full step takes w to (w + y) / 2."""

    def make(*targets, sizes=None):
        sizes = sizes or [1] * len(targets)
        clients = [
            client_of(torch.ones(n, 1), torch.full((n,), float(y)), name=f"c{i}")
            for i, (y, n) in enumerate(zip(targets, sizes, strict=True))
        ]
        return net_of(nn.Linear(1, 1, bias=False), clients)

    return make


def test_edges():
    assert to_own(3).tolist() == [[0, 0], [1, 1], [2, 2]]
    assert from_server(torch.tensor([4, 1])).tolist() == [[0, 4], [0, 1]]
    assert edges_of([]).shape == (0, 2)


class TestVisit:
    def test_guests_meet_their_hosts_in_the_order_of_the_edges(self, pull):
        start, edges = weights(2, 4), edges_of([(1, 2), (0, 0), (1, 0), (0, 1)])
        replies = pull(0, 10, 100, sizes=[3, 5, 1]).visit(FULL, start, edges, KEY)
        # (4 + 100) / 2, (2 + 0) / 2, (4 + 0) / 2, (2 + 10) / 2
        assert listed(replies.beliefs) == [52.0, 1.0, 2.0, 6.0]
        assert replies.beliefs.places.tolist() == [2, 0, 0, 1]
        assert replies.edges.tolist() == edges.tolist()
        assert (replies.guests.tolist(), replies.hosts.tolist()) == ([1, 0, 1, 0], [2, 0, 0, 1])
        assert replies.numbers["loss"].tolist() == [96.0**2, 4.0, 16.0, 64.0]
        assert replies.numbers["samples"].tolist() == [1.0, 3.0, 3.0, 5.0]
        assert listed(start) == [2.0, 4.0]

    def test_an_empty_list_of_edges(self, pull, refused):
        net, start = pull(0, 10), weights(2)
        replies = net.visit(FULL, start, edges_of([]), KEY)
        assert settle(net, start, replies) is start
        assert net.visit(Score(), start, edges_of([]), KEY).numbers == {}
        with refused(BadInput, "this visit brought no beliefs: nobody answered, or it only measured"):
            _ = replies.beliefs


@pytest.fixture
def crowd(client_of, net_of):
    """Four ragged clients for a network with dropout."""
    clients = []
    for i, n in enumerate((5, 9, 14, 3)):
        generator = torch.Generator().manual_seed(i)
        x, y = torch.randn(n, 4, generator=generator), torch.randint(3, (n,), generator=generator)
        clients.append(client_of(x, y, name=f"c{i}"))
    module = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    return net_of(module, clients), stack([belief_of(module) for _ in range(2)])


class TestNumbersBelongToTheEdge:
    EDGES = ((0, 2), (1, 0), (0, 0), (1, 3), (0, 1))

    def replies(self, crowd, edges, key=KEY):
        net, beliefs = crowd
        kernel = SGD(lr=0.1, batch=4, epochs=2, momentum=0.5)
        found = net.visit(kernel, held(beliefs), edges_of(edges), key).beliefs.tensors
        return {edge: row(found, i) for i, edge in enumerate(edges)}

    def same(self, one, other) -> bool:
        return all(torch.equal(one[name], other[name]) for name in one)

    def test_neither_order_nor_other_edges_change_a_reply(self, crowd):
        together, backward = self.replies(crowd, self.EDGES), self.replies(crowd, self.EDGES[::-1])
        for edge in self.EDGES:
            assert self.same(together[edge], backward[edge])
            assert self.same(together[edge], self.replies(crowd, (edge,))[edge])

    def test_guest_host_and_round_each_draw_their_own(self, crowd, net_of, client_of):
        # both guests hold the same numbers, and both hosts the same rows
        data = crowd[0].clients[2].train
        net = net_of(crowd[0].learner.training, [client_of(data.x, data.y, name=name) for name in "ab"])
        drawn = self.replies((net, crowd[1]), [(0, 0), (0, 1), (1, 0)])
        later = self.replies((net, crowd[1]), [(0, 0)], Key(0).at_round(2, 3))
        for other in (drawn[0, 1], drawn[1, 0], later[0, 0]):
            assert not self.same(drawn[0, 0], other)

    @pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.RReLU()])
    def test_the_global_generator_is_neither_used_nor_moved(self, layer, crowd, net_of):
        module = nn.Sequential(nn.Linear(4, 16), layer, nn.Linear(16, 3))
        drawn = net_of(module, crowd[0].clients), stack([belief_of(module)] * 2)
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        one = self.replies(drawn, self.EDGES)
        assert torch.equal(torch.random.get_rng_state(), before)
        torch.manual_seed(2)
        other = self.replies(drawn, self.EDGES[::-1])
        assert all(self.same(one[e], other[e]) for e in self.EDGES)


class TestMemory:
    def test_is_the_hosts_own(self, pull):
        net, kernel = pull(0, 10, 100), SGD(lr=0.25, momentum=0.5, keep=True)

        def kept_by(round, pairs):
            net.visit(kernel, weights(2), edges_of(pairs), Key(0).at_round(round, 3))
            memory = net.slots.before("", round + 1)
            return memory["velocity/weight"].flatten().tolist(), memory["t"].tolist()

        # slopes 2 (w - y): only hosts 2 and 0 have been visited
        assert kept_by(1, [(0, 2), (0, 0)]) == ([4.0, 0.0, -196.0], [1, 0, 1])
        assert net.visit(kernel, weights(2), edges_of([]), Key(0).at_round(2, 3)).numbers == {}
        # host 0 goes on: 0.5 · 4 + 4
        assert kept_by(3, [(0, 1), (0, 0)]) == ([6.0, -16.0, -196.0], [2, 1, 1])

    def test_slots_are_apart(self, pull):
        net, kernel = pull(0, 10), SGD(lr=0.25, momentum=0.5, keep=True)
        for round, slot, after in ((1, "a", 1.0), (2, "b", 1.0), (3, "a", 0.5)):
            replies = net.visit(kernel, weights(2), edges_of([(0, 0)]), Key(0).at_round(round, 3), slot)
            assert listed(replies.beliefs) == [after]  # 2 - 0.25 · 4, then 2 - 0.25 · (4 / 2 + 4)

    @pytest.mark.parametrize("kernel", [SGD(momentum=0.9, keep=True), Adam(keep=True)])
    def test_two_visits_to_one_host_cannot_both_be_kept(self, kernel, pull):
        with pytest.raises(BadInput, match="set keep=false"):
            pull(0, 10).visit(kernel, weights(1, 2), edges_of([(0, 1), (1, 1)]), KEY)


@pytest.mark.parametrize(
    ("kernel", "targets", "said"),
    [
        (SGD(lr=1e30, batch=1, epochs=3), (0, 10), "weight is no longer finite (loss "),
        (SGD(lr=1e-30), (0, 3e19), "the loss is inf"),
    ],
)
def test_who_diverges_is_left_out_and_named_and_if_all_do_that_is_it(pull, kernel, targets, said):
    net = pull(*targets, sizes=[1, 50])
    both = net.visit(kernel, weights(0), edges_of([(0, 0), (0, 1)]), KEY)
    assert (both.edges.tolist(), len(both.beliefs), len(both.numbers["loss"])) == ([[0, 0]], 1, 1)
    assert net.figures()["left_out"]["c1"].startswith(said)
    assert net.figures() == {}
    with pytest.raises(Diverged) as caught:
        net.visit(kernel, weights(0), edges_of([(0, 1)]), KEY)
    text = str(caught.value)
    assert text.startswith(f"round 1, client 'c1': {said}")
    assert text.endswith(": lower the learning rate or scale the inputs")


class TestVerbs:
    def test_mix_settle_and_deliver_by_hand(self, pull):
        net, start = pull(0, 10), weights(2, 4, 8)
        replies = net.visit(FULL, start, edges_of([(2, 0), (0, 1)]), KEY)
        assert listed(replies.beliefs) == [4.0, 6.0]
        mixed = net.mix(torch.tensor([[0.5, 0.5], [0.0, 1.0]]), replies.beliefs, torch.tensor([1, 0]))
        assert (listed(mixed), mixed.places.tolist()) == ([5.0, 6.0], [1, 0])
        home = settle(net, start, replies)
        assert (listed(home), home.places.tolist()) == ([6.0, 4.0, 4.0], [COORDINATOR] * 3)
        assert home.parts[0].ids[1] == start.parts[0].ids[1]
        copies = net.deliver(start, torch.tensor([2, 0, 2]), torch.tensor([0, 1, 1]))
        assert (listed(copies), copies.places.tolist()) == ([8.0, 2.0, 8.0], [0, 1, 1])

    def test_sums_in_turn_take_what_was_summed_before(self, pull):
        sites = hold(weights(1, 2, 4).tensors, torch.arange(3))
        each = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]).double()
        # site 1 first: (1 + 2) / 2 = 1.5; then site 2: (1.5 + 4) / 2
        mixed = pull(0, 0, 0).mix(each, sites, torch.tensor([1, 2]), in_turn=True)
        assert (listed(mixed), mixed.places.tolist()) == ([1.5, 2.75], [1, 2])

    def test_a_belief_cannot_come_home_from_two_hosts(self, pull):
        net, start = pull(0, 10), weights(2)
        with pytest.raises(BadInput, match="mix its replies instead"):
            settle(net, start, net.visit(FULL, start, edges_of([(0, 0), (0, 1)]), KEY))

    def test_distances_between_replies_and_to_what_went_out(self, pull):
        net = pull(0, 10)
        replies = net.visit(FULL, weights(7, 2), edges_of([(1, 0), (1, 1), (0, 0)]), KEY)
        # 1, 6 and 3.5, from 2, 2 and 7
        found = net.distances(replies, torch.tensor([1, 0]), COORDINATOR)
        assert found.apart.tolist() == [[5.0, 0.0], [0.0, 5.0], [2.5, 2.5]]
        assert found.lengths.tolist() == [1.0, 4.0, 3.5]
        assert net.distances(replies, torch.tensor([0]), 0, {"weight": 4.0}).lengths.tolist() == [2, 8, 7]

    def test_distances_leave_frozen_parameters_and_statistics_out(self, client_of, net_of):
        module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        module[0].weight.requires_grad_(False)
        net = net_of(module, [client_of(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))])
        before = stack([belief_of(module)])
        replies = net.visit(SGD(lr=0.1), held(before), edges_of([(0, 0)]), KEY)
        after = replies.beliefs.tensors
        assert not torch.equal(after["1.running_mean"], before["1.running_mean"])
        by_hand = sum((after[n] - before[n]).square().sum() for n in ("0.bias", "1.weight", "1.bias")).sqrt()
        lengths = net.distances(replies, torch.tensor([0]), COORDINATOR).lengths
        assert lengths.tolist() == pytest.approx([by_hand.item()], rel=1e-5)

    def test_pool_joins_all_three_parts_at_the_coordinator(self, client_of, net_of):
        def client(name, first):
            y = torch.arange(first, first + 6.0)
            train, test, validation = ((v.unsqueeze(1), v) for v in torch.split(y, [3, 2, 1]))
            return client_of(*train, name=name, test=test, validation=validation)

        net = net_of(nn.Linear(1, 1, bias=False), [client("a", 0), client("b", 10), client("c", 20)])
        pool = net.in_one_place([[2, 0], [1]])
        assert pool.roster.names == ["c+a", "b"]
        assert (pool.roster.sizes.tolist(), net.roster.sizes.tolist()) == ([6, 3], [3, 3, 3])
        assert pool.clients[0].train.y.tolist() == [20.0, 21.0, 22.0, 0.0, 1.0, 2.0]
        assert pool.clients[0].test.x.flatten().tolist() == [23.0, 24.0, 3.0, 4.0]
        assert pool.clients[0].validation.y.tolist() == [25.0, 5.0]
        replies = pool.visit(SGD(lr=1e-9), weights(1), edges_of([(0, 1)]), KEY)
        assert replies.beliefs.places.tolist() == SERVER.tolist()
        assert net.in_one_place([[2, 0], [1]]) is pool


class TestScore:
    def test_by_hand_in_the_order_of_the_edges(self, pull):
        net, edges = pull(0, 10), edges_of([(1, 0), (0, 1), (1, 0)])
        replies = net.visit(Score("train"), weights(2, 7), edges, KEY)
        assert replies.numbers["loss"].tolist() == [49.0, 64.0, 49.0]
        assert replies.numbers["rmse"].tolist() == [7.0, 8.0, 7.0]
        assert replies.held is None
        assert list(net.visit(Score("train", ("loss",)), weights(2, 7), edges, KEY).numbers) == ["loss"]
        here = net.visit(Here(), weights(2, 7), edges, KEY)
        assert (here.edges.tolist(), here.numbers) == (edges.tolist(), {})

    def test_parts_are_told_apart(self, client_of, net_of):
        def part(y):
            return torch.ones(1, 1), torch.tensor([float(y)])

        net = net_of(nn.Linear(1, 1, bias=False), [client_of(*part(1), test=part(2), validation=part(3))])
        for name, loss in (("train", 1.0), ("test", 4.0), ("validation", 9.0)):
            replies = net.visit(Score(name), weights(0), edges_of([(0, 0)]), KEY)
            assert replies.numbers["loss"].item() == loss

    def test_a_part_that_is_empty(self, pull, refused):
        with refused(BadInput, "client 'c1' has no validation samples to score on"):
            pull(0, 10).visit(Score("validation"), weights(0), edges_of([(0, 1)]), KEY)

    def test_more_samples_than_one_pass_takes(self, client_of, net_of):
        y = torch.arange(10_000.0) / 1000
        net = net_of(nn.Linear(1, 1, bias=False), [client_of(torch.ones(10_000, 1), y)])
        found = net.visit(Score(), weights(2), edges_of([(0, 0)]), KEY).numbers
        assert found["samples"].item() == 10_000
        assert found["loss"].item() == pytest.approx(float((y.double() - 2).square().mean()), rel=1e-6)

    def test_scoring_needs_no_gradient_and_uses_running_statistics(self, client_of, net_of):
        module = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1, bias=False))
        net = net_of(module, [client_of(torch.tensor([[3.0]]), torch.tensor([0.0]))])
        belief = {
            **belief_of(module),
            "0.running_mean": torch.tensor([1.0]),
            "0.running_var": torch.tensor([4.0 - 1e-5]),
            "1.weight": torch.ones(1, 1),
        }
        found = net.visit(Score(), held(stack([belief])), edges_of([(0, 0)]), KEY).numbers
        assert found["loss"].item() == pytest.approx(1.0)
        assert not found["loss"].requires_grad
