from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.core.kernel import scores
from coterie.core.method import Facts, survey
from coterie.core.net import edges_of
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.kernels.score import Score
from coterie.methods import METHODS
from coterie.methods.peers import (
    DAC,
    DPSGD,
    PENS,
    EpsilonGreedy,
    Gossip,
    Greedy,
    Oracle,
    Random,
    RandomWeighted,
    stopping,
)
from coterie.methods.peers.d_psgd import links_of, metropolis
from coterie.methods.peers.dac import draw_by, two_hops
from coterie.methods.peers.epsilon_greedy import number_of_swaps, swap, swap_chance
from coterie.methods.peers.gossip import arrivals
from coterie.methods.peers.oracle import kin_of
from coterie.methods.peers.pens import expected_count, neighbours_of
from coterie.methods.peers.picks import alike, counts, draw_from, draw_others, effective, highest
from coterie.methods.peers.random_weighted import by_accuracy
from coterie.methods.peers.rounds import Peers
from coterie.metrics.collaboration import neighbours_found
from coterie.nets import Absent
from coterie.runs import checkpoint

NAN = math.nan
ORDERS = ("thesis", "program", "at-once")
HALF = SGD(lr=0.25, batch=1000)  # with x = 1, one step takes w to (w + y) / 2
EVERYONE = (Random, Greedy, EpsilonGreedy, RandomWeighted, PENS, Oracle, Gossip, DPSGD, DAC)


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def whole(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def lists(tensors) -> list[list[int]]:
    return [t.tolist() for t in tensors]


def close(found, wanted, tolerance=1e-12):
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        torch.as_tensor(wanted, dtype=torch.float64),
        rtol=0,
        atol=tolerance,
        equal_nan=True,
    )


def start(*values: float) -> dict[str, torch.Tensor]:
    return {"weight": numbers(*values).reshape(-1, 1, 1)}


def w(state) -> list[float]:
    return state.beliefs["weight"].flatten().tolist()


def known(n: int, validation: int = 5) -> list[Facts]:
    return [Facts(f"c{i}", "classification", 20, validation, i % 2) for i in range(n)]


def turn_order(n: int, round: int = 1, rounds: int = 1, seed: int = 0) -> list[int]:
    return torch.randperm(n, generator=Key(seed).at_round(round, rounds).at("order").torch()).tolist()


@dataclass(frozen=True)
class Told(Peers):
    """Everybody asks whom it is told to."""

    local: SGD = HALF
    whom: tuple[tuple[int, ...], ...] = ()

    def ask(self, net, notes, key):
        return [[whole(*others)] for others in self.whom]


@dataclass(frozen=True, eq=False)
class Counting(Absent):
    """A net in which all answer, and that remembers who was sent where."""

    chance: float = 0.0
    scored: list = field(default_factory=list)
    trained: list = field(default_factory=list)

    def visit(self, kernel, beliefs, edges, key, memory=None):
        (self.scored if scores(kernel) else self.trained).append([tuple(e) for e in edges.tolist()])
        return super().visit(kernel, beliefs, edges, key, memory)


@pytest.fixture
def tug(client_of, net_of):
    """Clients that pull one number, each to its own target, in double precision."""

    def make(targets, validation=None):
        clients = []
        for i, y in enumerate(targets):
            one = torch.ones(1, 1).double()
            held = (one, numbers(validation[i])) if validation else None
            clients.append(client_of(one, numbers(y), name=f"c{i}", validation=held))
        return net_of(nn.Linear(1, 1, bias=False).double(), clients)

    return make


@pytest.fixture
def two_kinds(client_of, net_of):
    """Clients in two clusters that call the same points by opposite names."""

    def make(n=8, rows=24, engine="loop"):
        clients = []
        for i in range(n):
            generator = torch.Generator().manual_seed(i)

            def part(rows, generator=generator, flip=i % 2):
                x = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
                return x, ((x[:, 0] > 0).long() + flip) % 2

            clients.append(
                client_of(*part(rows), name=f"c{i}", validation=part(6), test=part(6), cluster=i % 2)
            )
        return net_of(nn.Linear(3, 2).double(), clients, engine)

    return make


def first(net):
    return stack([belief_of(net.learner.scoring)])


class TestAveraging:
    def test_alike(self):
        close(alike(1, whole(0, 3), 4), [1 / 3, 1 / 3, 0, 1 / 3])
        close(alike(1, whole(), 3), [0, 1, 0])

    def test_effective_by_hand(self):
        weights = numbers(0.5, 0.5, 0, 0, 0.5, 0.5, 0.5, 0, 0.5).reshape(3, 3)
        # 2 takes half of the old 0; 0 half of the old 1; 1 half of the new 2, which is half 0 and half 2
        close(effective(weights, [2, 0, 1]), [[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0.5, 0, 0.5]])
        # 0 first; 1 sees the old 2; 2 sees the new 0
        close(effective(weights, [0, 1, 2]), [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.25, 0.25, 0.5]])

    def test_who_does_not_average_keeps_its_own(self):
        weights = torch.full((2, 2), 0.5, dtype=torch.float64)
        close(effective(weights, [1]), [[1, 0], [0.5, 0.5]])

    @given(st.integers(1, 7), st.integers(0, 10**6))
    def test_effective_is_averaging_one_after_the_other(self, n, seed):
        draws = torch.Generator().manual_seed(seed)
        weights = torch.rand(n, n, generator=draws, dtype=torch.float64)
        weights = weights * (torch.rand(n, n, generator=draws) < 0.5) + torch.eye(n)
        weights = weights / weights.sum(dim=1, keepdim=True)
        order = torch.randperm(n, generator=draws)[: 1 + seed % n].tolist()
        models = torch.randn(n, 3, generator=draws, dtype=torch.float64)
        one_by_one = models.clone()
        for k in order:
            one_by_one[k] = weights[k] @ one_by_one
        mixing = effective(weights, order)
        close(mixing @ models, one_by_one, 1e-10)
        close(mixing.sum(dim=1), torch.ones(n), 1e-12)


class TestDrawing:
    @given(st.integers(2, 9), st.integers(0, 10**6), st.data())
    def test_others_are_different_ones_and_never_oneself(self, n, seed, data):
        me, size = data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, n - 1))
        drawn = draw_others(n, me, size, torch.Generator().manual_seed(seed)).tolist()
        assert len(set(drawn)) == size
        assert set(drawn) <= set(range(n)) - {me}

    def test_draw_from_takes_all_there_are(self):
        assert sorted(draw_from(whole(4, 2, 9), 20, torch.Generator()).tolist()) == [2, 4, 9]
        assert len(draw_from(whole(4, 2, 9), 2, torch.Generator())) == 2
        assert draw_from(whole(), 3, torch.Generator()).tolist() == []

    def test_highest(self):
        merit = numbers(0.1, 0.9, 0.5, 0.7, 0.6)
        assert highest(whole(0, 2, 3), merit, 2).tolist() == [3, 2]
        assert highest(whole(0, 2), merit, 5).tolist() == [2, 0]

    def test_of_equals_the_first_drawn(self):
        merit = numbers(0.5, 0.5, 0.5, 0.9)
        assert highest(whole(2, 0, 3, 1), merit, 3).tolist() == [3, 2, 0]

    def test_counts(self):
        asked = [[whole(1), whole(1, 2)], [], [whole(0)]]
        assert counts(asked, 3).tolist() == [[0, 2, 1], [0, 0, 0], [1, 0, 0]]


class TestSelectors:
    def test_greedy_picks_of_every_sampling(self):
        merit = numbers(NAN, 0.2, 0.8, 0.5, 0.9)
        picked = Greedy(selected=2, sampled=3).pick([whole(1, 2, 3), whole(4, 3, 1)], merit, Key(0))
        assert lists(picked) == [[2, 3], [4, 3]]

    def test_random_averages_with_whom_it_drew(self):
        assert lists(Random().pick([whole(3, 1)], numbers(NAN, NAN, NAN, NAN), Key(0))) == [[3, 1]]

    def test_chance_of_a_swap(self):
        assert swap_chance(1.0, 0.99, 2) == pytest.approx(0.9801)
        assert swap_chance(0.5, 1.0, 100) == 0.5

    def test_number_of_swaps_from_given_numbers(self, monkeypatch):
        monkeypatch.setattr(torch, "rand", lambda size, **_: numbers(0.1, 0.3, 0.19, 0.2)[:size])
        assert number_of_swaps(4, 0.2, torch.Generator()) == 2
        assert number_of_swaps(3, 0.0, torch.Generator()) == 0
        assert number_of_swaps(3, 1.0, torch.Generator()) == 3

    def test_swap_from_given_orders(self, monkeypatch):
        orders = iter([whole(2, 0, 1), whole(1, 3, 0, 2)])
        monkeypatch.setattr(torch, "randperm", lambda size, **_: next(orders))
        # picked 7 8 9 shuffled to 9 7 8: 9 and 7 go; of 4 5 9 7 come numbers 1 and 3
        assert swap(whole(7, 4, 8, 5, 9), whole(7, 8, 9), 2, torch.Generator()).tolist() == [8, 5, 7]

    @given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 6))
    def test_a_swap_keeps_the_number_and_draws_only_the_sampled(self, seed, picked, swaps):
        sampled = draw_others(9, 4, 6, torch.Generator().manual_seed(seed))
        after = swap(sampled, sampled[:picked], min(swaps, picked), torch.Generator().manual_seed(seed + 1))
        assert len(set(after.tolist())) == picked
        assert set(after.tolist()) <= set(sampled.tolist())

    def test_epsilon_of_0_is_greedy(self):
        merit, asked = numbers(NAN, 0.2, 0.8, 0.5, 0.9), [whole(1, 2, 3)]
        calm = EpsilonGreedy(selected=2, sampled=3, epsilon=0.0).pick(asked, merit, Key(0))
        assert sorted(calm[0].tolist()) == [2, 3]

    def test_by_accuracy(self):
        close(by_accuracy(0, whole(1, 3), numbers(0.5, 0.2, NAN, 0.3)), [0.5, 0.2, 0, 0.3])
        close(by_accuracy(2, whole(0), numbers(0.25, NAN, 0.75)), [0.25, 0, 0.75])

    def test_by_accuracy_where_all_are_0(self):
        close(by_accuracy(0, whole(2), numbers(0, NAN, 0)), [0.5, 0, 0.5])

    def test_kin(self):
        assert lists(kin_of([0, 1, 0, 0, 1])) == [[2, 3], [4], [0, 3], [0, 2], [1]]

    def test_arrivals(self):
        assert lists(arrivals(whole(1, 2, 1))) == [[], [0, 2], [1]]


class TestThreshold:
    def test_expected_count_is_that_of_the_text(self):
        # 4 picked in each of 10 samplings of 20 rounds, 201 clients: 4 · 20 · 10 / 200
        assert expected_count(whole(800), 201).tolist() == [4]

    def test_at_above_and_below_equality(self):
        history = torch.tensor([[0, 1, 2, 3, 2]])  # 8 picks of 4 others: 2 each by chance
        threshold = expected_count(history.sum(dim=1), 5)
        assert threshold.tolist() == [2]
        assert lists(neighbours_of(history, threshold)) == [[3]]

    def test_another_threshold(self):
        @dataclass(frozen=True)
        class AsRun(PENS):
            def threshold(self, picks, clients):
                return super().threshold(picks, clients) - 1

        history = torch.zeros(5, 5, dtype=torch.int64)
        history[0] = whole(0, 1, 2, 3, 2)
        assert lists(AsRun().circles({"history": history}))[0] == [2, 3, 4]  # above 1
        assert lists(PENS().circles({"history": history}))[:2] == [[3], []]


class TestGraphs:
    def test_metropolis(self):
        close(metropolis(0, whole(1), whole(1, 2, 1)), [2 / 3, 1 / 3, 0])
        close(metropolis(1, whole(0, 2), whole(1, 2, 1)), [1 / 3, 1 / 3, 1 / 3])
        close(metropolis(1, whole(2), whole(1, 2, 1)), [0, 2 / 3, 1 / 3])  # 0 is gone

    @pytest.mark.parametrize("graph", ["ring", "torus", "erdos-renyi"])
    @pytest.mark.parametrize("n", [2, 5, 6, 9])
    def test_weights_add_up_in_rows_and_columns(self, graph, n):
        links = links_of(graph, n, 0.5, 3)
        assert torch.equal(links, links.T)
        assert not bool(links.diagonal().any())
        rows = [metropolis(k, links[k].nonzero().flatten(), links.sum(dim=1)) for k in range(n)]
        close(torch.stack(rows).sum(dim=0), torch.ones(n))
        close(torch.stack(rows).sum(dim=1), torch.ones(n))

    def test_a_ring_and_a_torus(self):
        assert links_of("ring", 4, 0, 0).long().tolist() == [
            [0, 1, 0, 1],
            [1, 0, 1, 0],
            [0, 1, 0, 1],
            [1, 0, 1, 0],
        ]
        # 3 by 3, in rows: the middle one touches those above, below, left and right of it
        assert links_of("torus", 9, 0, 0)[4].nonzero().flatten().tolist() == [1, 3, 5, 7]
        assert links_of("torus", 9, 0, 0).sum(dim=1).tolist() == [4] * 9

    def test_a_graph_in_pieces_is_said(self, tug, play):
        net = tug([0.0, 4.0, 8.0])
        states, infos = play(DPSGD(HALF, graph="erdos-renyi", edge_chance=0.0), net, start(0), 1)
        assert infos[0].extras["pieces"] == 3
        assert w(states[-1]) == [0, 2, 4]
        _, infos = play(DPSGD(HALF, graph="ring"), net, start(0), 1)
        assert infos[0].extras["pieces"] == 1

    def test_the_mean_stays_and_the_graph_too(self, tug, play):
        net = tug([0.0, 4.0, 8.0, 0.0, 8.0])
        states, infos = play(DPSGD(HALF, graph="erdos-renyi"), net, start(0), 2)
        assert sum(w(states[1])) / 5 == pytest.approx(2)  # of (0, 2, 4, 0, 4)
        assert torch.equal(infos[0].weights, infos[1].weights)


class TestDAC:
    def test_two_hops_by_hand(self):
        similarity = numbers(0, 2, 3, 0, 9, 0, 5, 7, 8, 6, 0, 4, 0, 0, 0, 0).reshape(4, 4)
        tried = similarity > 0
        sampled = torch.zeros(4, 4, dtype=torch.bool)
        sampled[0, [1, 2]] = True
        # 0 asked 1 and 2 of 3: 2 is more alike to it (3 > 2) and says 4; what 0 tried itself stays
        found = two_hops(similarity, tried, sampled)
        assert found[0].tolist() == [0, 2, 3, 4]
        assert torch.equal(found[1:], similarity[1:])

    def test_draws_follow_the_softmax(self):
        draws = torch.Generator().manual_seed(0)
        logits = numbers(5, math.log(3), 0, -50)
        drawn = Counter(int(draw_by(logits, 0, 1, draws)[0]) for _ in range(2000))
        assert drawn.keys() == {1, 2}
        assert drawn[1] / 2000 == pytest.approx(0.75, abs=0.04)

    def test_similarity_is_one_over_the_loss_there(self, tug, play):
        # trained (0, 2, 4): w_j on D_k has the loss (w_j - y_k)²
        states, infos = play(DAC(HALF, selected=2), tug([0.0, 4.0, 8.0]), start(0), 1)
        close(infos[0].matrices["loss"], [[NAN, 4, 16], [16, NAN, 0], [64, 36, NAN]])
        close(states[1].notes["similarity"], [[0, 1 / 4, 1 / 16], [1 / 16, 0, 1e6], [1 / 64, 1 / 36, 0]])

    def test_learns_its_own_kind(self, two_kinds, play):
        net = two_kinds()
        _, infos = play(DAC(SGD(lr=1.0), selected=2), net, first(net), 12)
        late = torch.stack([i.weights for i in infos[6:]])
        assert sum(neighbours_found(r, net.clusters).mean_precision for r in late) / len(late) > 0.9


class TestOrders:
    WHOM = ((1,), (2,), (0,))

    def test_thesis(self, tug, play):
        states, infos = play(Told(whom=self.WHOM), tug([0.0, 4.0, 8.0]), start(0), 2, total=2)
        model, targets = [0.0, 0.0, 0.0], [0.0, 4.0, 8.0]
        for r in (1, 2):
            model = [(m + y) / 2 for m, y in zip(model, targets, strict=True)]
            for k in turn_order(3, r, 2):
                model[k] = (model[k] + model[self.WHOM[k][0]]) / 2
            close(w(states[r]), model)
        close(infos[0].weights, [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
        assert turn_order(3, 1, 2) != turn_order(3, 2, 2) or turn_order(4, 1, 2) != turn_order(4, 2, 2)

    def test_at_once(self, tug, play):
        states, _ = play(Told(order="at-once", whom=self.WHOM), tug([0.0, 4.0, 8.0]), start(0), 1)
        assert w(states[1]) == [1, 3, 2]  # of trained 0, 2, 4

    def test_program_averages_before_it_trains(self, tug, play):
        model, targets = [8.0, 0.0, 2.0], [0.0, 4.0, 8.0]
        states, infos = play(Told(order="program", whom=self.WHOM), tug(targets), start(*model), 1)
        for k in turn_order(3):
            model[k] = ((model[k] + model[self.WHOM[k][0]]) / 2 + targets[k]) / 2
        close(w(states[1]), model)
        assert infos[0].loss.shape == (3,)
        assert not bool(infos[0].loss.isnan().any())

    def test_the_thesis_trains_all_in_one_visit_and_the_program_one_by_one(self, tug, play):
        for order, visits in (
            ("thesis", [[(0, 0), (1, 1), (2, 2)]]),
            ("program", [[(k, k)] for k in turn_order(3)]),
        ):
            net = Counting(tug([0.0, 4.0, 8.0]))
            play(Told(order=order, whom=self.WHOM), net, start(0), 1)
            assert net.trained == visits
        assert net.scored == [[(0, 0), (1, 1), (2, 2)]]  # who is there: only the program has to ask

    @pytest.mark.parametrize("order", ORDERS)
    def test_an_optimiser_s_memory_lasts(self, tug, play, order):
        def last(keep):
            work = SGD(lr=0.05, batch=9, momentum=0.9, keep=keep)
            return w(play(Told(work, order, whom=self.WHOM), tug([0.0, 4.0, 8.0]), start(0), 2)[0][-1])

        assert last(True) != last(False)

    def test_scores_are_taken_before_the_averaging(self, two_kinds, play):
        # in the program, a client that comes first is scored with the model it began with
        net = two_kinds()
        begin = first(net)
        _, infos = play(RandomWeighted(order="program", own="train"), net, begin, 1)
        k = turn_order(8)[0]
        wanted = net.visit(Score("train"), begin, edges_of([(0, k)]), Key(0)).numbers["accuracy"]
        assert infos[0].matrices["accuracy"][k, k] == wanted


class TestScoring:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("direction", ["mine-on-theirs", "theirs-on-mine"])
    def test_no_pair_is_scored_twice_in_a_round(self, two_kinds, play, order, direction):
        net = Counting(two_kinds(n=5))
        method = PENS(order=order, direction=direction, sampled=3, samplings=4)
        play(method, net, first(net.net), 1)
        others = [e for visit in net.scored for e in visit if e[0] != e[1]]
        assert others
        assert max(Counter(others).values()) == 1
        if order != "program":
            assert len(net.scored) == 1  # all of them in one visit

    def test_mine_on_theirs_and_theirs_on_mine(self, tug, play):
        net = tug([0.0, 4.0, 8.0])  # trained (0, 2, 4)
        _, infos = play(Greedy(HALF, "at-once", sampled=2), net, start(0), 1)
        close(infos[0].matrices["loss"], [[NAN, 16, 64], [4, NAN, 36], [16, 0, NAN]])
        assert infos[0].weights.gt(0).long().tolist() == [[1, 1, 0], [1, 1, 0], [0, 1, 1]]
        _, infos = play(Greedy(HALF, "at-once", sampled=2, direction="theirs-on-mine"), net, start(0), 1)
        close(infos[0].matrices["loss"], [[NAN, 4, 16], [16, NAN, 0], [64, 36, NAN]])
        assert infos[0].weights.gt(0).long().tolist() == [[1, 1, 0], [0, 1, 1], [0, 1, 1]]

    def test_nobody_is_picked_that_was_not_asked(self, two_kinds, play):
        net = two_kinds()
        for method in (
            Greedy(selected=2),
            EpsilonGreedy(selected=2, epsilon=0.7),
            PENS(selected=2, samplings=2),
        ):
            _, infos = play(method, net, first(net), 3)
            for info in infos:
                others = (info.weights > 0) & ~torch.eye(8, dtype=torch.bool)
                assert bool((info.matrices["accuracy"].isnan() & others).sum() == 0)
                assert others.sum(dim=1).tolist() == [2] * 8

    def test_random_weighted_weighs_by_accuracy(self, two_kinds, play):
        net = two_kinds()
        _, infos = play(RandomWeighted(selected=7), net, first(net), 1)
        accuracy = infos[0].matrices["accuracy"]
        close(infos[0].weights, accuracy / accuracy.sum(dim=1, keepdim=True))


class TestCounts:
    def test_random(self, tug, play):
        _, infos = play(Random(HALF, selected=2), tug([0.0, 1.0, 2.0, 3.0]), start(0), 1)
        assert infos[0].received.tolist() == [2] * 4
        taken = infos[0].weights > 0
        assert infos[0].sent.tolist() == (taken.sum(dim=0) - 1).tolist()
        assert infos[0].extras["neighbours"] == [2] * 4

    def test_requests_count_with_their_repeats(self, tug, play):
        # all 3 others asked in each of 2 samplings: 6 sent, 6 received, and the picked models
        _, infos = play(PENS(HALF, sampled=3, samplings=2), tug([0.0, 1.0, 2.0, 3.0]), start(0), 1)
        picked = ((infos[0].weights > 0).sum(dim=0) - 1).tolist()
        assert infos[0].sent.tolist() == [6 + p for p in picked]
        assert infos[0].received.tolist() == [7] * 4
        assert infos[0].extras["repeated_requests"] == 12

    @pytest.mark.parametrize(("order", "received"), [("thesis", 4), ("program", 3), ("at-once", 3)])
    def test_a_model_that_came_to_be_scored_is_not_sent_again(self, tug, play, order, received):
        method = Greedy(HALF, order, direction="theirs-on-mine")
        _, infos = play(method, tug([0.0, 1.0, 2.0, 3.0]), start(0), 1)
        assert infos[0].received.tolist() == [received] * 4
        assert int(infos[0].sent.sum()) == 4 * received

    def test_gossip_sends_one_model_each(self, tug, play):
        _, infos = play(Gossip(HALF), tug([0.0, 1.0, 2.0, 3.0]), start(0), 1)
        assert infos[0].sent.tolist() == [1] * 4


class TestPENS:
    @pytest.mark.parametrize("direction", ["mine-on-theirs", "theirs-on-mine"])
    def test_finds_its_own_kind(self, two_kinds, play, direction):
        net = two_kinds()
        # of 7 others 4 are of the other kind: 5 sampled ones always include one's own, so that scores decide
        method = PENS(SGD(lr=1.0), direction=direction, sampled=5, samplings=6, rounds_step1=3)
        _, infos = play(method, net, first(net), 5)
        found = neighbours_found(infos[-1].weights, net.clusters)
        assert found.mean_precision > 0.95
        assert found.mean_recall > 0.5
        assert [i.extras["step"] for i in infos] == [1, 1, 1, 2, 2]
        assert infos[-1].extras["neighbours"] == infos[-1].extras["circles"]

    def test_all_picks_enter_the_history_and_the_last_are_averaged_with(self, two_kinds, play):
        net = two_kinds()
        _, infos = play(PENS(selected=2, samplings=4, rounds_step1=2), net, first(net), 3)
        assert infos[0].matrices["history"].sum(dim=1).tolist() == [8] * 8
        assert infos[1].matrices["history"].sum(dim=1).tolist() == [16] * 8
        assert "history" not in infos[2].matrices
        assert infos[0].extras["neighbours"] == [2] * 8
        assert bool((infos[0].matrices["history"][infos[0].weights == 1 / 3].sum()) > 0)

    def test_work_of_its_own_in_each_step(self, tug, play):
        # alone by a history that singles nobody out: each epoch halves the way to y
        method = PENS(HALF, selected=1, sampled=1, samplings=1, rounds_step1=1, epochs1=2, epochs2=3)
        assert (method.work(Key(0).at_round(1, 2)).epochs, method.work(Key(0).at_round(2, 2)).epochs) == (
            2,
            3,
        )
        assert PENS(HALF).work(Key(0).at_round(1, 2)) is HALF
        states, _ = play(method, tug([8.0, 8.0]), start(0), 2)
        assert w(states[1]) == [6, 6]
        assert w(states[2]) == [7.75, 7.75]

    def test_a_run_cut_off_in_either_step_ends_with_the_same_numbers(self, two_kinds, play, tmp_path):
        net = two_kinds(n=5)
        method = PENS(samplings=2, rounds_step1=2, patience=1, window=2)
        states, _ = play(method, net, first(net), 5)
        for cut in (1, 2, 3, 4):
            path = tmp_path / str(cut)
            checkpoint.save(path, states[cut], checkpoint.Stamp(cut, "x"))
            state = checkpoint.load(path, type(states[cut]), "x")[0]
            for r in range(cut + 1, 6):
                state, _ = method.round(state, net, Key(0).at_round(r, 5))
            assert all(torch.equal(t, states[-1].beliefs[name]) for name, t in state.beliefs.items())

    def test_early_stopping_waits_for_step_2(self, two_kinds, play):
        net = two_kinds(n=5)
        method = PENS(samplings=1, rounds_step1=4, patience=1, window=1)
        _, infos = play(method, net, first(net), 9)
        assert [i.extras["stopped"] for i in infos[:5]] == [0] * 5
        assert infos[-1].extras["stopped"] > 0


class TestStopping:
    def test_by_hand(self):
        watch, seen = stopping.begin(2, 2), []
        # moving averages .5 .55 .5 .35: it rises twice, then waits; the second client is away in round 2
        for scores_now in ((0.5, 0.1), (0.6, NAN), (0.4, 0.2), (0.3, 0.3)):
            watch, better = stopping.watch(watch, numbers(*scores_now), patience=2)
            seen.append((better.tolist(), watch["waited"].tolist(), watch["stopped"].tolist()))
        assert seen == [
            ([True, True], [0, 0], [False, False]),
            ([True, False], [0, 0], [False, False]),
            ([False, True], [1, 0], [False, False]),
            ([False, True], [2, 0], [True, False]),
        ]
        close(watch["high"], [0.55, 0.25])
        close(watch["best"], [0.6, 0.3])
        close(watch["recent"], [[0.4, 0.3], [0.2, 0.3]])

    @pytest.mark.parametrize("order", ORDERS)
    def test_who_stops_goes_back_to_its_best_and_still_serves(self, tug, play, order):
        # client 0 trains 4 → 2, 1, 0.5 and is judged by its distance to 2: best in round 1, stops after 3;
        # client 1 comes closer to 100 in every round
        net = tug([0.0, 100.0], validation=[2.0, 100.0])
        method = Told(order=order, patience=2, window=1, whom=((), (0,)))
        states, infos = play(method, net, start(4), 6)
        assert [w(s)[0] for s in states] == [4, 2, 1, 2, 2, 2, 2]
        assert [i.extras["stopped"] for i in infos[:4]] == [0, 0, 1, 1]
        assert infos[3].weights.tolist() == [[1, 0], [0.5, 0.5]]
        assert math.isnan(infos[3].loss[0])
        before = w(states[3])[1]
        after = ((before + 100) / 2 + 2) / 2 if order != "program" else ((before + 2) / 2 + 100) / 2
        assert w(states[4])[1] == after

    def test_who_has_stopped_and_is_gone_does_not_serve(self, tug, play, without):
        net = without(tug([0.0, 8.0], validation=[2.0, 8.0]), {4: (0,)})
        _, infos = play(Told(patience=2, window=1, whom=((), (0,))), net, start(4), 4)
        assert infos[3].weights.tolist() == [[0, 0], [0, 1]]

    @pytest.mark.parametrize("order", ORDERS)
    def test_without_validation_samples(self, tug, play, refused, order):
        message = (
            "client 'c0' has no validation samples, which patience=3 needs: "
            "hold some out (validation=0.2), or set patience=0"
        )
        with refused(BadInput, message):
            play(Random(HALF, order, patience=3), tug([0.0, 4.0]), start(0), 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", EVERYONE)
class TestEveryone:
    def test_rows_add_up_and_models_sent_are_received(self, two_kinds, play, kind, order):
        net = two_kinds(n=6)
        _, infos = play(kind(order=order), net, first(net), 2)
        for info in infos:
            close(info.weights.sum(dim=1), torch.ones(6))
            assert bool((info.weights.diagonal() > 0).all())
            assert bool((info.weights >= 0).all())
            assert int(info.sent.sum()) == int(info.received.sum())

    def test_who_is_gone_keeps_its_model_and_is_not_listened_to(self, two_kinds, play, without, kind, order):
        net = without(two_kinds(n=6), {2: (1, 4)})
        states, infos = play(kind(order=order), net, first(net.net), 2)
        gone, here = [1, 4], [0, 2, 3, 5]
        info, before, after = infos[1], states[1].beliefs["weight"], states[2].beliefs["weight"]
        assert torch.equal(before[gone], after[gone])
        assert not any(torch.equal(before[k], after[k]) for k in here)
        assert float(info.weights[gone].abs().sum() + info.weights[:, gone].abs().sum()) == 0
        close(info.weights[here].sum(dim=1), torch.ones(4))
        assert info.sent[gone].tolist() == info.received[gone].tolist() == [0, 0]
        assert bool(info.loss[gone].isnan().all())

    def test_nobody_there_changes_nothing(self, two_kinds, play, kind, order):
        net = Absent(two_kinds(n=5), 1.0)
        states, infos = play(kind(order=order), net, first(net.net), 1)
        assert torch.equal(states[0].beliefs["weight"], states[1].beliefs["weight"])
        assert float(infos[0].weights.abs().sum()) == 0

    def test_beliefs_of_their_own_at_first(self, two_kinds, kind, order):
        own = {"weight": torch.arange(6.0).reshape(6, 1)}
        state = kind(order=order).init(own, 6)
        assert torch.equal(kind().models(state, 6).beliefs["weight"], own["weight"])


def test_oracle_listens_to_its_own_kind_only(two_kinds, play):
    net = two_kinds(n=7)
    _, infos = play(Oracle(selected=3), net, first(net), 2)
    for info in infos:
        assert neighbours_found(info.weights, net.clusters).mean_precision == 1
        assert info.extras["neighbours"] == [3, 2, 3, 2, 3, 2, 3]  # clusters of 4 and of 3


class TestRefusals:
    def test_more_peers_than_there_are(self, refused):
        names = ["a", "b", "c", "d"]
        others = "must lie between 1 and 3, the other clients: lower it or add clients"
        for kind in (Random, RandomWeighted, Oracle, DAC):
            with refused(BadInput, f"selected=4 {others}"):
                kind(selected=4).check(names, 1)
        for kind in (Greedy, EpsilonGreedy, PENS):
            with refused(BadInput, f"sampled=4 {others}"):
                kind(sampled=4).check(names, 1)
            for few in ({"sampled": 2}, {}):
                of = few.get("sampled", 3)  # three, if nothing is said
                message = f"selected={of + 1} must lie between 1 and {of}, those sampled"
                with refused(BadInput, f"{message}: lower it or raise sampled"):
                    kind(selected=of + 1, **few).check([*names, "e"], 1)
        with refused(BadInput, f"neighbours=4 {others}"):
            PENS(neighbours=4).check(names, 1)
        assert PENS(neighbours=3, sampled=3).check(names, 1) is None

    @pytest.mark.parametrize("kind", EVERYONE)
    def test_the_defaults_do_for_two_clients(self, kind, two_kinds, play):
        net = two_kinds(n=2)
        states, infos = play(kind(), net, first(net), 2)
        assert not torch.equal(states[0].beliefs["weight"], states[-1].beliefs["weight"])
        assert bool((infos[-1].weights.diagonal() > 0).all())

    def test_a_default_that_is_more_than_there_are_is_said(self):
        said = "sampled: all 2 others, fewer than the 3 of the default"
        for kind in (Greedy, EpsilonGreedy, PENS):
            assert said in kind().look(known(3), Key(0, rounds=30))
            assert kind().look(known(4), Key(0, rounds=30)) == []
            assert kind(sampled=2).look(known(3), Key(0, rounds=30)) == []
        assert Greedy().to_ask(3) == 2

    def test_no_rounds_for_step_2_are_said(self):
        said = ["rounds=5 leave none for step 2 of pens: rounds_step1=5"]
        assert PENS(rounds_step1=5).look(known(9), Key(0, rounds=5)) == said
        assert PENS(rounds_step1=4).look(known(9), Key(0, rounds=5)) == []

    @pytest.mark.parametrize("kind", EVERYONE)
    def test_one_client(self, kind, refused):
        with refused(BadInput, "peers need at least 2 clients; got 1: add some or use local"):
            kind().check(["a"], 1)

    @pytest.mark.parametrize(
        ("kind", "options", "message"),
        [
            (Random, {"patience": -1}, "patience=-1 must be at least 0: 0 never stops early"),
            (Random, {"window": 0}, "window=0 must be at least 1: try 5"),
            (EpsilonGreedy, {"epsilon": 1.5}, "epsilon=1.5 must lie between 0 and 1: try 0.2"),
            (EpsilonGreedy, {"decay": -0.1}, "decay=-0.1 must lie between 0 and 1: try 1"),
            (EpsilonGreedy, {"epsilon": NAN}, "epsilon=nan must lie between 0 and 1: try 0.2"),
            (PENS, {"samplings": 0}, "samplings=0 must be at least 1: try 1"),
            (PENS, {"rounds_step1": 0}, "rounds_step1=0 must be at least 1: try 1"),
            (PENS, {"neighbours": -1}, "neighbours=-1 must be at least 0: try 0"),
            (PENS, {"epochs2": -1}, "epochs2=-1 must be at least 0: try 0"),
            (
                PENS,
                {"epochs1": 2, "local": SGD(steps=3)},
                "epochs1 and epochs2 need local work in epochs: set steps=0, or both to 0",
            ),
            (DPSGD, {"edge_chance": 2.0}, "edge_chance=2.0 must lie between 0 and 1: try 0.5"),
            (DAC, {"tau": math.inf}, "tau=inf must be at least 0 and finite: try 30"),
        ],
    )
    def test_bounds(self, kind, options, message, refused):
        with refused(BadInput, message):
            kind(**options)

    @pytest.mark.parametrize(
        ("kind", "options"),
        [
            (Random, {"order": "later"}),
            (Greedy, {"direction": "both"}),
            (RandomWeighted, {"own": "test"}),
            (DPSGD, {"graph": "star"}),
        ],
    )
    def test_unknown_words(self, kind, options):
        ((option, value),) = options.items()
        with pytest.raises(UnknownName, match=f"unknown {option} '{value}'"):
            kind(**options)

    def test_no_clusters_for_oracle(self, tug, play, refused):
        message = "client 'c0' has no cluster, which oracle needs: use a split that makes clusters"
        with refused(BadData, message):
            play(Oracle(HALF), tug([0.0, 1.0]), start(0), 1)

    def test_random_weighted_needs_accuracies_and_validation_samples(self, tug, crowd, net_of, play, refused):
        message = "random-weighted weighs by accuracy, which a regression has not: use random or greedy"
        with refused(BadData, message):
            play(RandomWeighted(HALF, own="train"), tug([0.0, 1.0]), start(0), 1)
        net = net_of(nn.Linear(4, 3), crowd())
        message = (
            "client 'c0' has no validation samples, which random-weighted needs: "
            "hold some out (validation=0.2), or set own=train"
        )
        with refused(BadInput, message):
            play(RandomWeighted(), net, first(net), 1)

    @pytest.mark.parametrize("kind", EVERYONE)
    def test_early_stopping_without_validation_samples(self, kind, refused):
        clients = [*known(3), known(4, validation=0)[3]]
        message = (
            "client 'c3' has no validation samples, which patience=2 needs: "
            "hold some out (validation=0.2), or set patience=0"
        )
        options = {"own": "train"} if kind is RandomWeighted else {}
        with refused(BadInput, message):
            kind(patience=2, **options).look(clients, Key(0, rounds=30))
        assert kind(**options).look(clients, Key(0, rounds=30)) == []


class TestSaid:
    def test_a_cluster_of_one_trains_alone(self, two_kinds, play):
        net = two_kinds(n=3)  # clusters 0, 1, 0
        states, infos = play(Oracle(), net, first(net), 1)
        assert infos[0].weights.tolist() == [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
        assert not torch.equal(states[0].beliefs["weight"][1], states[1].beliefs["weight"][1])
        said = survey(Oracle(), net.clients, Key(0))
        assert said == ["alone in a cluster, and so training alone: c1"]
        assert survey(Oracle(), two_kinds(n=4).clients, Key(0)) == []

    def test_a_graph_in_pieces(self):
        apart = DPSGD(graph="erdos-renyi", edge_chance=0.0)
        said = ["the erdos-renyi graph is in 4 pieces, each of which learns for itself"]
        assert apart.look(known(4), Key(0)) == said
        assert DPSGD().look(known(4), Key(0)) == []

    def test_methods_with_nothing_to_say(self, two_kinds):
        assert survey(METHODS.make("fedavg"), two_kinds(n=3).clients, Key(0)) == []


def test_they_are_registered():
    names = {kind.name for kind in EVERYONE}
    assert names <= set(METHODS)
    assert METHODS.make("pens", sampled=5) == dataclasses.replace(PENS(), sampled=5)
