"""The reference engine and what all engines in one process share."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, row, stack
from coterie.core.errors import BadInput, Diverged
from coterie.core.net import edges_of, from_server, to_own
from coterie.core.seeds import Key
from coterie.engines import ENGINES, Loop
from coterie.kernels import SGD, Adam, Score

KEY = Key(0).at_round(1, 3)
FULL = SGD(lr=0.25, batch=100)


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


def weights(*values: float) -> dict[str, torch.Tensor]:
    return {"weight": torch.tensor(values, dtype=torch.float32).reshape(-1, 1, 1)}


def listed(beliefs) -> list[float]:
    return beliefs["weight"].flatten().tolist()


class TestEdges:
    def test_helpers(self):
        assert to_own(3).tolist() == [[0, 0], [1, 1], [2, 2]]
        assert from_server(torch.tensor([4, 1])).tolist() == [[0, 4], [0, 1]]
        assert edges_of([]).shape == (0, 2)
        assert edges_of([(1, 2)]).dtype == torch.int64


class TestVisit:
    def test_guests_meet_their_hosts_in_the_order_of_the_edges(self, pull):
        net = pull(0, 10, 100)
        edges = edges_of([(1, 2), (0, 0), (1, 0), (0, 1)])
        replies = net.visit(FULL, weights(2, 4), edges, KEY)
        # (4 + 100) / 2, (2 + 0) / 2, (4 + 0) / 2, (2 + 10) / 2
        assert listed(net.open(replies)) == [52.0, 1.0, 2.0, 6.0]
        assert replies.edges.tolist() == edges.tolist()
        assert replies.guests.tolist() == [1, 0, 1, 0]
        assert replies.hosts.tolist() == [2, 0, 0, 1]
        assert len(replies) == 4

    def test_numbers_are_laid_out_by_reply(self, pull):
        net = pull(0, 10, sizes=[3, 5])
        replies = net.visit(FULL, weights(2), edges_of([(0, 1), (0, 0)]), KEY)
        assert replies.numbers["loss"].tolist() == [64.0, 4.0]
        assert replies.numbers["samples"].tolist() == [5.0, 3.0]

    def test_names_and_sizes(self, pull):
        net = pull(0, 10, sizes=[3, 5])
        assert list(net.names) == ["c0", "c1"]
        assert net.sizes.tolist() == [3, 5]

    def test_one_belief_visits_two_hosts_and_stays_itself(self, pull):
        net, start = pull(0, 10), weights(2)
        replies = net.visit(FULL, start, edges_of([(0, 0), (0, 1)]), KEY)
        assert listed(net.open(replies)) == [1.0, 6.0]
        assert listed(start) == [2.0]

    def test_an_empty_list_of_edges(self, pull):
        net = pull(0, 10)
        replies = net.visit(FULL, weights(2), edges_of([]), KEY)
        assert len(replies) == 0
        assert listed(net.settle(weights(2), replies)) == [2.0]
        assert net.visit(Score(), weights(2), edges_of([]), KEY).numbers == {}

    def test_nobody_visited_keeps_the_memory(self, pull):
        net, kernel = pull(0, 10), SGD(momentum=0.9, keep=True)
        first = net.visit(kernel, weights(2, 2), to_own(2), KEY)
        again = net.visit(kernel, weights(2, 2), edges_of([]), KEY, first.memory)
        assert all(torch.equal(again.memory[n], t) for n, t in first.memory.items())


@pytest.fixture
def crowd(client_of, net_of):
    """Four ragged clients for a network with dropout."""
    clients = []
    for i, n in enumerate((5, 9, 14, 3)):
        generator = torch.Generator().manual_seed(i)
        x, y = torch.randn(n, 4, generator=generator), torch.randint(3, (n,), generator=generator)
        clients.append(client_of(x, y, name=f"c{i}"))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    return net_of(module, clients), stack([belief_of(module) for _ in range(2)])


class TestNumbersBelongToTheEdge:
    EDGES = ((0, 2), (1, 0), (0, 0), (1, 3), (0, 1))

    def replies(self, crowd, edges, key=KEY):
        net, beliefs = crowd
        kernel = SGD(lr=0.1, batch=4, epochs=2, momentum=0.5)
        replies = net.visit(kernel, beliefs, edges_of(edges), key)
        return {edge: row(net.open(replies), i) for i, edge in enumerate(edges)}

    def same(self, one, other) -> bool:
        return all(torch.equal(one[name], other[name]) for name in one)

    def test_the_order_of_edges_changes_no_reply(self, crowd):
        forward, backward = self.replies(crowd, self.EDGES), self.replies(crowd, self.EDGES[::-1])
        assert all(self.same(forward[edge], backward[edge]) for edge in self.EDGES)

    def test_other_edges_change_no_reply(self, crowd):
        together = self.replies(crowd, self.EDGES)
        assert all(self.same(together[e], self.replies(crowd, (e,))[e]) for e in self.EDGES)

    def test_hosts_with_the_same_data_draw_their_own(self, crowd, net_of, client_of):
        data = crowd[0].clients[2].train
        net = net_of(nn.Linear(4, 3), [client_of(data.x, data.y, name=name) for name in "ab"])
        zeros = {"weight": torch.zeros(1, 3, 4), "bias": torch.zeros(1, 3)}
        drawn = self.replies((net, zeros), [(0, 0), (0, 1)])
        assert not self.same(drawn[0, 0], drawn[0, 1])

    def test_guest_and_round_each_draw_their_own(self, crowd):
        # both guests hold the same numbers
        one, other = self.replies(crowd, [(0, 0)])[0, 0], self.replies(crowd, [(1, 0)])[1, 0]
        later = self.replies(crowd, [(0, 0)], Key(0).at_round(2, 3))[0, 0]
        assert not self.same(one, other)
        assert not self.same(one, later)

    def test_the_global_generator_is_neither_used_nor_moved(self, crowd):
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        one = self.replies(crowd, self.EDGES)
        assert torch.equal(torch.random.get_rng_state(), before)
        torch.manual_seed(2)
        other = self.replies(crowd, self.EDGES)
        assert all(self.same(one[e], other[e]) for e in self.EDGES)

    @pytest.mark.parametrize(
        "layer",
        [nn.AlphaDropout(0.5), nn.RReLU(), nn.FeatureAlphaDropout(0.5)],
        ids=lambda m: type(m).__name__,
    )
    def test_what_a_module_draws_by_itself_comes_from_the_edge_too(self, layer, crowd, net_of):
        module = nn.Sequential(nn.Linear(4, 16), layer, nn.Linear(16, 3))
        drawn = net_of(module, crowd[0].clients), stack([belief_of(module)] * 2)
        torch.manual_seed(1)
        one = self.replies(drawn, self.EDGES)
        torch.manual_seed(2)
        other = self.replies(drawn, self.EDGES[::-1])
        assert all(self.same(one[e], other[e]) for e in self.EDGES)


class TestMemory:
    def test_is_the_hosts_own(self, pull):
        net, kernel = pull(0, 10, 100), SGD(lr=0.25, momentum=0.5, keep=True)
        first = net.visit(kernel, weights(2), edges_of([(0, 2), (0, 0)]), KEY)
        # slopes 2 (w - y): only hosts 2 and 0 have been visited
        assert first.memory["velocity/weight"].flatten().tolist() == [4.0, 0.0, -196.0]
        assert first.memory["t"].tolist() == [1, 0, 1]
        second = net.visit(kernel, weights(2), edges_of([(0, 1), (0, 0)]), KEY, first.memory)
        # host 0 goes on: 0.5 · 4 + 4
        assert second.memory["velocity/weight"].flatten().tolist() == [6.0, -16.0, -196.0]
        assert second.memory["t"].tolist() == [2, 1, 1]
        assert first.memory["t"].tolist() == [1, 0, 1]

    def test_two_visits_to_one_host_cannot_both_be_kept(self, pull, refused):
        message = "keep=true needs at most one visit to each client in a round: set keep=false"
        for kernel in (SGD(momentum=0.9, keep=True), Adam(keep=True)):
            with refused(BadInput, message):
                pull(0, 10).visit(kernel, weights(1, 2), edges_of([(0, 1), (1, 1)]), KEY)

    def test_two_visits_to_one_host_are_fine_when_nothing_is_kept(self, pull):
        net = pull(0, 10)
        replies = net.visit(FULL, weights(2, 4), edges_of([(0, 1), (1, 1)]), KEY)
        assert listed(net.open(replies)) == [6.0, 7.0]
        assert replies.memory is None


class TestDiverged:
    def test_names_round_and_client(self, pull):
        net = pull(0, 10, sizes=[1, 50])
        with pytest.raises(Diverged) as caught:
            net.visit(SGD(lr=1e30, batch=1, epochs=3), weights(2), edges_of([(0, 1)]), Key(0).at_round(7, 9))
        text = str(caught.value)
        assert text.startswith("round 7, client 'c1': weight is no longer finite (loss ")
        assert text.endswith(": lower the learning rate or scale the inputs")
        assert "\n" not in text

    def test_a_loss_alone_can_diverge(self, pull, refused):
        message = "round 1, client 'c1': the loss is inf: lower the learning rate or scale the inputs"
        net = pull(0, 3e19)
        with refused(Diverged, message):
            net.visit(SGD(lr=1e-30), weights(0), edges_of([(0, 0), (0, 1)]), KEY)

    def test_one_sick_client_stops_the_round(self, pull):
        with pytest.raises(Diverged, match="client 'c0'"):
            pull(0, 10).visit(SGD(lr=1e38, steps=4), weights(2), edges_of([(0, 1), (0, 0)][::-1]), KEY)


class TestVerbs:
    def test_mix_and_settle_by_hand(self, pull):
        net = pull(0, 10)
        replies = net.visit(FULL, weights(2, 4, 8), edges_of([(2, 0), (0, 1)]), KEY)
        assert listed(net.open(replies)) == [4.0, 6.0]
        assert listed(net.mix(torch.tensor([[0.5, 0.5], [0.0, 1.0]]), replies)) == [5.0, 6.0]
        assert listed(net.settle(weights(2, 4, 8), replies)) == [6.0, 4.0, 4.0]

    def test_distances_between_replies_and_to_beliefs(self, pull):
        net = pull(0, 10)
        replies = net.visit(FULL, weights(2), edges_of([(0, 0), (0, 1)]), KEY)
        assert net.distances(replies, replies).tolist() == [[0.0, 5.0], [5.0, 0.0]]
        assert net.distances(replies, weights(2)).tolist() == [[1.0], [4.0]]
        assert net.distances(replies, weights(2), {"weight": 4.0}).tolist() == [[2.0], [8.0]]

    def test_distances_leave_frozen_parameters_and_statistics_out(self, client_of, net_of):
        module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        module[0].weight.requires_grad_(False)
        net = net_of(module, [client_of(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))])
        beliefs = stack([belief_of(module)])
        replies = net.visit(SGD(lr=0.1), beliefs, edges_of([(0, 0)]), KEY)
        after = net.open(replies)
        assert not torch.equal(after["1.running_mean"], beliefs["1.running_mean"])
        by_hand = sum((after[n] - beliefs[n]).square().sum() for n in ("0.bias", "1.weight", "1.bias")).sqrt()
        assert net.distances(replies, beliefs).item() == pytest.approx(by_hand.item(), rel=1e-5)

    def test_pool_joins_all_three_parts(self, client_of, net_of):
        def client(name, first):
            y = torch.arange(first, first + 6.0)
            train, test, validation = ((v.unsqueeze(1), v) for v in torch.split(y, [3, 2, 1]))
            return client_of(*train, name=name, test=test, validation=validation)

        net = net_of(nn.Linear(1, 1), [client("a", 0), client("b", 10), client("c", 20)])
        pool = net.pool([[2, 0], [1]])
        assert list(pool.names) == ["c+a", "b"]
        assert pool.sizes.tolist() == [6, 3]
        assert pool.clients[0].train.y.tolist() == [20.0, 21.0, 22.0, 0.0, 1.0, 2.0]
        assert pool.clients[0].test.x.flatten().tolist() == [23.0, 24.0, 3.0, 4.0]
        assert pool.clients[0].validation.y.tolist() == [25.0, 5.0]
        assert net.sizes.tolist() == [3, 3, 3]

    def test_a_belief_cannot_come_home_from_two_hosts(self, pull):
        net = pull(0, 10)
        replies = net.visit(FULL, weights(2), edges_of([(0, 0), (0, 1)]), KEY)
        with pytest.raises(BadInput):
            net.settle(weights(2), replies)


class TestScore:
    def test_by_hand_in_the_order_of_the_edges(self, pull):
        net = pull(0, 10)
        replies = net.visit(Score("train"), weights(2, 7), edges_of([(1, 0), (0, 1), (1, 0)]), KEY)
        assert replies.numbers["loss"].tolist() == [49.0, 64.0, 49.0]
        assert replies.numbers["rmse"].tolist() == [7.0, 8.0, 7.0]
        assert replies.memory is None

    def test_parts_are_told_apart(self, client_of, net_of):
        def part(y):
            return torch.ones(1, 1), torch.tensor([float(y)])

        net = net_of(nn.Linear(1, 1, bias=False), [client_of(*part(1), test=part(2), validation=part(3))])
        losses = {
            p: net.visit(Score(p), weights(0), edges_of([(0, 0)]), KEY).numbers["loss"].item()
            for p in ("train", "test", "validation")
        }
        assert losses == {"train": 1.0, "test": 4.0, "validation": 9.0}

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
        found = net.visit(Score(), stack([belief]), edges_of([(0, 0)]), KEY).numbers
        assert found["loss"].item() == pytest.approx(1.0)
        assert not found["loss"].requires_grad


def test_engines_are_registered():
    assert isinstance(ENGINES.make("loop"), Loop)
