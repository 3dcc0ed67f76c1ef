"""Local and central: everybody alone, and everything in one place."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam
from coterie.methods import Central, Local

FULL = SGD(lr=0.25, batch=100)
START = {"weight": torch.zeros(1, 1, 1).double()}


def flat(held):
    return held.tensors["weight"].flatten().tolist()


class TestLocal:
    def test_two_rounds_by_hand(self, pull, play):
        # w → (w + y) / 2
        states, infos = play(Local(FULL), pull([8, 4], sizes=[1, 3]), START, 2)
        assert [flat(s.beliefs) for s in states] == [[0, 0], [4, 2], [6, 3]]
        assert infos[1].weights.tolist() == [[1.0, 0.0], [0.0, 1.0]]
        assert infos[1].loss.tolist() == [16.0, 4.0]
        models = Local().models(states[2])
        assert (models.of.tolist(), models.shared) == ([0, 1], None)

    def test_neither_a_neighbours_data_nor_its_absence_changes_anything(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        method = Local(Adam(batch=4, keep=True))
        before, _ = play(method, net_of(module, crowd()), module, 3)
        after, _ = play(method, net_of(module, crowd(shift=[(1, 5.0)])), module, 3)
        alone, _ = play(replace(method, requester="c2"), net_of(module, crowd()), module, 3)
        for name, tensor in before[-1].beliefs.tensors.items():
            other, its = after[-1].beliefs.tensors[name], alone[-1].beliefs.tensors[name]
            assert torch.equal(tensor[[0, 2]], other[[0, 2]])
            assert not torch.equal(tensor[1], other[1])
            assert torch.equal(its[2], tensor[2])
            assert torch.equal(its[0], before[0].beliefs.tensors[name][0])

    def test_clients_may_begin_from_beliefs_of_their_own(self, pull, play, start_of):
        start = {"weight": torch.tensor([0.0, 100.0]).double().reshape(2, 1, 1)}
        states, _ = play(Local(FULL), pull([8, 4]), start, 1)
        assert flat(states[1].beliefs) == [4.0, 52.0]
        with pytest.raises(BadInput, match="2 initial beliefs for 3 clients: give one, or one for each"):
            Local().init(start_of(start), pull([1, 2, 3]))

    def test_a_client_that_is_gone_stays_where_it_was(self, pull, play, without):
        net = without(pull([8, 4]), {1: (0,), 2: (0, 1)})
        states, infos = play(Local(FULL), net, START, 3)
        assert [flat(s.beliefs) for s in states[1:]] == [[0, 2], [0, 2], [4, 3]]
        assert infos[0].weights.tolist() == [[0.0, 0.0], [0.0, 1.0]]
        assert infos[1].weights.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert infos[0].loss.isnan().tolist() == [True, False]

    def test_an_optimisers_state_survives_a_round_away(self, pull, play, without):
        # v = 0.5 v + 2 (w - y), at lr 0.25: w is 4 with v = -16, then -8 - 8 = -16
        net = without(pull([8, 8]), {2: (0,)})
        states, _ = play(Local(SGD(lr=0.25, momentum=0.5, keep=True)), net, START, 3)
        assert [flat(s.beliefs) for s in states[1:]] == [[4, 4], [4, 8], [8, 10]]

    def test_with_a_requester_the_others_keep_the_first_model(self, pull, play):
        net = pull([8, 4, 2])
        states, infos = play(Local(FULL, requester="c1"), net, START, 2)
        assert [flat(s.beliefs) for s in states] == [[0, 0, 0], [0, 2, 0], [0, 3, 0]]
        assert infos[0].weights.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
        assert infos[0].loss.isnan().tolist() == [True, False, True]
        with pytest.raises(UnknownName, match=r"unknown requester 'c11': did you mean c1?"):
            Local(requester="c11").check(net.roster, START, Key(0))


class TestCentral:
    def test_two_rounds_by_hand(self, pull, play):
        # the mean target of 8, 4, 4, 4 is 5: w → (w + 5) / 2
        states, infos = play(Central(FULL), pull([8, 4], sizes=[1, 3]), START, 2)
        assert [flat(s.beliefs) for s in states] == [[0.0], [2.5], [3.75]]
        assert infos[0].weights.tolist() == [[0.25, 0.75], [0.25, 0.75]]
        assert infos[0].loss.tolist() == [28.0, 28.0]  # (64 + 3 · 16) / 4
        assert [info.extras["samples_moved"] for info in infos] == [4, 0]

    def test_is_training_on_the_joined_data(self, crowd, client_of, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
        clients, kernel = crowd(), SGD(batch=6, momentum=0.9, keep=True)
        pooled, _ = play(Central(kernel), net_of(module, clients), module, 3)
        joined = client_of(torch.cat([c.train.x for c in clients]), torch.cat([c.train.y for c in clients]))
        alone, _ = play(Local(kernel), net_of(module, [joined]), module, 3)
        for name, tensor in alone[-1].beliefs.tensors.items():
            assert torch.equal(pooled[-1].beliefs.tensors[name], tensor)

    def test_everybody_uses_the_one_model(self, pull, start_of):
        models = Central().models(
            Central().init(start_of({"weight": torch.tensor([[1.0], [2.0]])}), pull([1, 2]))
        )
        assert flat(models.beliefs) == flat(models.shared) == [1.0]
        assert models.of.tolist() == [0, 0]


class TestCentralByCluster:
    def test_two_rounds_by_hand(self, pull, play):
        # cluster 7 pools the targets 8, 2, 2, 2 (mean 3.5), cluster 3 has 6: w → (w + mean) / 2 in each
        net, method = pull([8, 6, 2], sizes=[1, 1, 3], clusters=[7, 3, 7]), Central(FULL, by="cluster")
        states, infos = play(method, net, START, 2)
        models = [method.models(state) for state in states]
        assert [flat(m.beliefs.rows(m.of)) for m in models] == [[0] * 3, [1.75, 3, 1.75], [2.625, 4.5, 2.625]]
        assert [m.shared for m in models] == [None] * 3
        assert infos[0].weights.tolist() == [[0.25, 0, 0.75], [0, 1, 0], [0.25, 0, 0.75]]
        assert infos[0].loss.tolist() == [19.0, 36.0, 19.0]  # (64 + 4 + 4 + 4) / 4 and 36
        assert [info.extras["samples_moved"] for info in infos] == [5, 0]

    def test_is_central_of_each_cluster_by_itself(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        work = SGD(batch=100, momentum=0.9, keep=True)
        clients = [replace(c, cluster=i % 2) for i, c in enumerate(crowd((5, 9, 14, 6)))]
        both, _ = play(Central(work, by="cluster"), net_of(module, clients), module, 3)
        for cluster in (0, 1):
            alone, _ = play(Central(work), net_of(module, clients[cluster::2]), module, 3)
            for name, tensor in alone[-1].beliefs.tensors.items():
                found = both[-1].beliefs.tensors[name][cluster]
                torch.testing.assert_close(found, tensor[0], rtol=0, atol=1e-6)

    def test_refusals(self, pull):
        with pytest.raises(BadData, match=r"client 'c0' has no cluster.*use a split that makes clusters"):
            Central(by="cluster").check(pull([8, 4]).roster, START, Key(0))
        with pytest.raises(UnknownName, match=r"unknown by 'clusters': did you mean cluster?"):
            Central(by="clusters")
