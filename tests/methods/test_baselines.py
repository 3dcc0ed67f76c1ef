"""Local and central: everybody alone, and everything in one place."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.kernels import SGD, Adam
from coterie.methods import METHODS, Central, Local
from coterie.methods.baselines.central import shares_of

FULL = SGD(lr=0.25, batch=100)
START = {"weight": torch.zeros(1, 1, 1)}


class TestLocal:
    def test_two_rounds_by_hand(self, pull, play):
        # w → (w + y) / 2
        states, infos = play(Local(FULL), pull([8, 4], sizes=[1, 3]), START, 2)
        assert [s.beliefs["weight"].flatten().tolist() for s in states] == [[0, 0], [4, 2], [6, 3]]
        assert infos[1].weights.tolist() == [[1.0, 0.0], [0.0, 1.0]]
        assert infos[1].loss.tolist() == [16.0, 4.0]
        assert infos[1].sent.tolist() == infos[1].received.tolist() == [0, 0]

    def test_a_neighbours_data_changes_nothing(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        start, method = stack([belief_of(module)]), Local(Adam(batch=4, keep=True))
        before, _ = play(method, net_of(module, crowd()), start, 3)
        after, _ = play(method, net_of(module, crowd(shift=[(1, 5.0)])), start, 3)
        for name, tensor in before[-1].beliefs.items():
            other = after[-1].beliefs[name]
            assert torch.equal(tensor[[0, 2]], other[[0, 2]])
            assert not torch.equal(tensor[1], other[1])

    def test_clients_may_begin_from_beliefs_of_their_own(self, pull, play):
        start = {"weight": torch.tensor([0.0, 100.0]).reshape(2, 1, 1)}
        states, _ = play(Local(FULL), pull([8, 4]), start, 1)
        assert states[1].beliefs["weight"].flatten().tolist() == [4.0, 52.0]

    def test_another_number_of_beliefs_is_refused(self, refused):
        with refused(BadInput, "2 initial beliefs for 3 clients: give one, or one for each"):
            Local().init({"weight": torch.zeros(2, 1, 1)}, 3)

    def test_a_client_that_is_gone_stays_where_it_was(self, pull, play, without):
        net = without(pull([8, 4]), {1: (0,), 2: (0, 1)})
        states, infos = play(Local(FULL), net, START, 3)
        assert [s.beliefs["weight"].flatten().tolist() for s in states[1:]] == [[0, 2], [0, 2], [4, 3]]
        assert infos[0].weights.tolist() == [[0.0, 0.0], [0.0, 1.0]]
        assert infos[1].weights.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert [loss != loss for loss in infos[0].loss.tolist()] == [True, False]

    def test_an_optimisers_state_survives_a_round_away(self, pull, play, without):
        # v = 0.5 v + 2 (w - y), at lr 0.25: w is 4 with v = -16, then -8 - 8 = -16
        net = without(pull([8, 8]), {2: (0,)})
        states, _ = play(Local(SGD(lr=0.25, momentum=0.5, keep=True)), net, START, 3)
        away, there = zip(*(s.beliefs["weight"].flatten().tolist() for s in states[1:]), strict=True)
        assert away == (4.0, 4.0, 8.0)
        assert there == (4.0, 8.0, 10.0)

    def test_with_a_requester_the_others_keep_the_first_model(self, pull, play):
        states, infos = play(Local(FULL, requester="c1"), pull([8, 4, 2]), START, 2)
        assert [s.beliefs["weight"].flatten().tolist() for s in states] == [[0, 0, 0], [0, 2, 0], [0, 3, 0]]
        assert infos[0].weights.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
        assert [loss != loss for loss in infos[0].loss.tolist()] == [True, False, True]

    def test_a_requester_trains_as_it_does_among_all(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        start, net = stack([belief_of(module)]), net_of(module, crowd())
        among_all, _ = play(Local(Adam(batch=4, keep=True)), net, start, 3)
        alone, _ = play(Local(Adam(batch=4, keep=True), requester="c2"), net, start, 3)
        for name, tensor in among_all[-1].beliefs.items():
            assert torch.equal(alone[-1].beliefs[name][2], tensor[2])
            assert torch.equal(alone[-1].beliefs[name][0], start[name][0])

    def test_an_unknown_requester_is_refused(self, refused):
        with refused(UnknownName, "unknown requester 'nort': did you mean north?"):
            Local(requester="nort").check(["north", "south"], 1)

    def test_each_uses_its_own_and_none_is_shared(self):
        method = Local()
        models = method.models(method.init(START, 3), 3)
        assert models.of.tolist() == [0, 1, 2]
        assert models.shared is None


class TestCentral:
    def test_a_round_by_hand(self, pull, play):
        # the mean target of 8, 4, 4, 4 is 5: w → (w + 5) / 2
        states, infos = play(Central(FULL), pull([8, 4], sizes=[1, 3]), START, 2)
        assert [s.beliefs["weight"].item() for s in states] == [0.0, 2.5, 3.75]
        assert infos[0].weights.tolist() == [[0.25, 0.75], [0.25, 0.75]]
        # (64 + 3 · 16) / 4
        assert infos[0].loss.tolist() == [28.0, 28.0]
        assert [info.extras["samples_moved"] for info in infos] == [4, 0]

    def test_is_training_on_the_joined_data(self, crowd, client_of, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
        start, clients = stack([belief_of(module)]), crowd()
        kernel = SGD(batch=6, momentum=0.9, keep=True)
        pooled, _ = play(Central(kernel), net_of(module, clients), start, 3)
        joined = client_of(
            torch.cat([c.train.x for c in clients]), torch.cat([c.train.y for c in clients]), name="all"
        )
        alone, _ = play(Local(kernel), net_of(module, [joined]), start, 3)
        for name, tensor in alone[-1].beliefs.items():
            assert torch.equal(pooled[-1].beliefs[name], tensor)

    def test_everybody_uses_the_one_model(self):
        method = Central()
        models = method.models(method.init({"weight": torch.tensor([[1.0], [2.0]])}, 2), 2)
        assert models.beliefs["weight"].tolist() == [[1.0]]
        assert models.of.tolist() == [0, 0]
        assert models.shared == 0


class TestCentralByCluster:
    def test_two_rounds_by_hand(self, pull, play):
        # cluster 7 pools the targets 8, 2, 2 (mean 4), cluster 3 has 6: w → (w + mean) / 2 in each
        net = pull([8, 6, 2], sizes=[1, 1, 2], clusters=[7, 3, 7])
        states, infos = play(Central(FULL, by="cluster"), net, START, 2)
        models = [Central(by="cluster").models(state, 3) for state in states]
        assert [m.beliefs["weight"].flatten()[m.of].tolist() for m in models] == [
            [0, 0, 0],
            [2, 3, 2],
            [3, 4.5, 3],
        ]
        assert [m.shared for m in models] == [None] * 3
        shares = torch.tensor([[1 / 3, 0, 2 / 3], [0, 1, 0], [1 / 3, 0, 2 / 3]], dtype=torch.float64)
        assert torch.equal(infos[0].weights, shares)
        assert infos[0].loss.tolist() == [24.0, 36.0, 24.0]  # (64 + 4 + 4) / 3 and 36
        assert [info.extras["samples_moved"] for info in infos] == [4, 0]

    def test_shares(self):
        assert shares_of(torch.tensor([1, 4, 3]), torch.tensor([0, 1, 0])).tolist() == [
            [0.25, 0, 0.75],
            [0, 1, 0],
        ]

    def test_one_cluster_is_all(self, pull, play):
        net, work = pull([8, 6, 2], clusters=[4, 4, 4]), SGD(lr=0.1, momentum=0.9, keep=True)
        one, all_ = (play(Central(work, by=by), net, START, 3) for by in ("cluster", "all"))
        assert torch.equal(one[0][-1].beliefs["weight"], all_[0][-1].beliefs["weight"])
        assert torch.equal(one[1][-1].weights, all_[1][-1].weights)

    def test_is_central_of_each_cluster_by_itself(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        start, work = stack([belief_of(module)]), SGD(batch=100, momentum=0.9, keep=True)
        clients = [Client(**{**c.__dict__, "cluster": i % 2}) for i, c in enumerate(crowd((5, 9, 14, 6)))]
        both, _ = play(Central(work, by="cluster"), net_of(module, clients), start, 3)
        for cluster in (0, 1):
            alone, _ = play(Central(work), net_of(module, clients[cluster::2]), start, 3)
            for name, tensor in alone[-1].beliefs.items():
                torch.testing.assert_close(both[-1].beliefs[name][cluster], tensor[0], rtol=0, atol=1e-6)

    def test_without_clusters(self, pull, play, refused):
        message = (
            "client 'c0' has no cluster, which central by cluster needs: use a split that makes clusters"
        )
        with refused(BadData, message):
            play(Central(by="cluster"), pull([8, 4]), START, 1)

    def test_an_unknown_word(self, refused):
        with refused(UnknownName, "unknown by 'clusters': did you mean cluster?"):
            Central(by="clusters")


@pytest.mark.parametrize("name", ["local", "central"])
def test_any_number_of_clients_and_rounds_will_do(name):
    method = METHODS.make(name)
    for clients in (1, 500):
        assert method.check([f"c{i}" for i in range(clients)], 1) is None
