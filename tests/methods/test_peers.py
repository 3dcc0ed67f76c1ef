from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from coterie.core.belief import in_turn
from coterie.core.errors import BadData, BadInput
from coterie.core.held import handles_in
from coterie.core.kernel import scores
from coterie.core.net import edges_of
from coterie.core.roster import Member, Roster
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.kernels.score import Score
from coterie.methods import (
    DAC,
    DPSGD,
    PENS,
    EpsilonGreedy,
    Gossip,
    Greedy,
    Oracle,
    Random,
    RandomWeighted,
)
from coterie.methods.peers.d_psgd import links_of, metropolis
from coterie.methods.peers.dac import draw_by, two_hops
from coterie.methods.peers.epsilon_greedy import number_of_swaps, swap, swap_chance
from coterie.methods.peers.gossip import arrivals
from coterie.methods.peers.oracle import kin_of
from coterie.methods.peers.pens import expected_count, neighbours_of
from coterie.methods.peers.picks import alike, counts, draw_from, draw_others, highest
from coterie.methods.peers.random_weighted import by_accuracy
from coterie.methods.peers.rounds import Choices, Peers
from coterie.methods.peers.rounds import play as play_round
from coterie.methods.peers.turns import first_watch, next_watch
from coterie.metrics.collaboration import neighbours_found
from coterie.nets.wrapped import Wrapped
from coterie.storage import checkpoint

NAN = math.nan
ORDERS = ("thesis", "trained", "program", "at-once")
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
    return state.beliefs.tensors["weight"].flatten().tolist()


def known(n: int, validation: int = 5) -> Roster:
    members = [Member(f"c{i}", 20, validation, 5, cluster=i % 2) for i in range(n)]
    return Roster(tuple(members), "classification", (3,), 2)


def turn_order(n: int, round: int = 1, rounds: int = 1, seed: int = 0) -> list[int]:
    return torch.randperm(n, generator=Key(seed).at_round(round, rounds).at("order").torch()).tolist()


@dataclass(frozen=True)
class Told(Peers):
    """Everybody asks whom it is told to."""

    local: SGD = HALF
    whom: tuple[tuple[int, ...], ...] = ()

    def round(self, state, net, key):
        return play_round(self, state, net, key, Choices([[whole(*others)] for others in self.whom]))


@dataclass(frozen=True, eq=False)
class Seen(Wrapped):
    """A net that remembers who was scored where."""

    scored: list = field(default_factory=list)

    def visit(self, kernel, beliefs, edges, *args, **more):
        if scores(kernel):
            self.scored.append([tuple(e) for e in edges.tolist()])
        return super().visit(kernel, beliefs, edges, *args, **more)


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
    return net.learner.scoring


class TestAveraging:
    def test_alike(self):
        close(alike(1, whole(0, 3), 4), [1 / 3, 1 / 3, 0, 1 / 3])
        close(alike(1, whole(), 3), [0, 1, 0])

    @given(st.integers(1, 7), st.integers(0, 10**6))
    def test_in_turn_is_averaging_one_after_the_other(self, n, seed):
        draws = torch.Generator().manual_seed(seed)
        weights = torch.rand(n, n, generator=draws, dtype=torch.float64)
        weights = weights * (torch.rand(n, n, generator=draws) < 0.5) + torch.eye(n)
        order = torch.randperm(n, generator=draws)[: 1 + seed % n].tolist()
        models = torch.randn(n, 3, generator=draws, dtype=torch.float64)
        one_by_one = models.clone()
        for k in order:
            one_by_one[k] = weights[k] @ one_by_one
        close(in_turn(weights[order], order)[0] @ models, one_by_one[order], 1e-9)


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
        merit = numbers(0.5, 0.5, 0.5, 0.9)  # of equals the first drawn
        assert highest(whole(2, 0, 3, 1), merit, 3).tolist() == [3, 2, 0]

    def test_counts(self):
        asked = [[whole(1), whole(1, 2)], [], [whole(0)]]
        assert counts(asked, 3).tolist() == [[0, 2, 1], [0, 0, 0], [1, 0, 0]]


class TestSelectors:
    def test_greedy_picks_of_every_sampling(self):
        merit = numbers(NAN, 0.2, 0.8, 0.5, 0.9)
        picked = Greedy(selected=2, sampled=3).pick([whole(1, 2, 3), whole(4, 3, 1)], merit, Key(0))
        assert lists(picked) == [[2, 3], [4, 3]]

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

    def test_by_accuracy(self):
        close(by_accuracy(0, whole(1, 3), numbers(0.5, 0.2, NAN, 0.3)), [0.5, 0.2, 0, 0.3])
        close(by_accuracy(2, whole(0), numbers(0.25, NAN, 0.75)), [0.25, 0, 0.75])
        close(by_accuracy(0, whole(2), numbers(0, NAN, 0)), [0.5, 0, 0.5])

    def test_kin_and_arrivals(self):
        assert lists(kin_of([0, 1, 0, 0, 1])) == [[2, 3], [4], [0, 3], [0, 2], [1]]
        assert lists(arrivals(whole(1, 2, 1))) == [[], [0, 2], [1]]


class TestThreshold:
    def test_at_above_and_below_equality(self):
        history = torch.tensor([[0, 1, 2, 3, 2]])  # 8 picks of 4 others: 2 each by chance
        threshold = expected_count(history.sum(dim=1), 5)
        assert threshold.tolist() == [2]
        # as in the text: 4 picked in each of 10 samplings of 20 rounds, 201 clients: 4 · 20 · 10 / 200
        assert expected_count(whole(800), 201).tolist() == [4]
        assert lists(neighbours_of(history, threshold)) == [[3]]


class TestGraphs:
    def test_metropolis(self):
        close(metropolis(0, whole(1), whole(1, 2, 1)), [2 / 3, 1 / 3, 0])
        close(metropolis(1, whole(0, 2), whole(1, 2, 1)), [1 / 3, 1 / 3, 1 / 3])
        close(metropolis(1, whole(2), whole(1, 2, 1)), [0, 2 / 3, 1 / 3])  # 0 is gone

    @pytest.mark.parametrize("graph", ["ring", "torus", "erdos-renyi"])
    @pytest.mark.parametrize("n", [2, 6, 9])
    def test_weights_add_up_in_rows_and_columns(self, graph, n):
        links = links_of(graph, n, 0.5, 3)
        assert torch.equal(links, links.T)
        assert not bool(links.diagonal().any())
        rows = [metropolis(k, links[k].nonzero().flatten(), links.sum(dim=1)) for k in range(n)]
        close(torch.stack(rows).sum(dim=0), torch.ones(n))
        close(torch.stack(rows).sum(dim=1), torch.ones(n))

    def test_a_ring_and_a_torus(self):
        ring = links_of("ring", 4, 0, 0)
        assert [row.nonzero().flatten().tolist() for row in ring] == [[1, 3], [0, 2], [1, 3], [0, 2]]
        # 3 by 3, in rows: the middle one touches those above, below, left and right of it
        assert links_of("torus", 9, 0, 0)[4].nonzero().flatten().tolist() == [1, 3, 5, 7]
        assert links_of("torus", 9, 0, 0).sum(dim=1).tolist() == [4] * 9

    def test_a_graph_in_pieces(self, pull, play):
        apart = DPSGD(HALF, graph="erdos-renyi", edge_chance=0.0)
        (_, state), (info,) = play(apart, pull([0, 4, 8]), start(0), 1)
        assert info.extras["pieces"] == 3
        assert w(state) == [0, 2, 4]
        said = ["the erdos-renyi graph is in 4 pieces, each of which learns for itself"]
        assert apart.check(known(4), start(0), Key(0)) == said
        assert DPSGD().check(known(4), start(0), Key(0)) == []

    def test_the_mean_stays_and_the_graph_too(self, pull, play):
        net = pull([0.0, 4.0, 8.0, 0.0, 8.0])
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

    def test_similarity_is_one_over_the_loss_there(self, pull, play):
        # trained (0, 2, 4): w_j on D_k has the loss (w_j - y_k)²
        states, infos = play(DAC(HALF, selected=2), pull([0.0, 4.0, 8.0]), start(0), 1)
        close(infos[0].matrices["loss"], [[NAN, 4, 16], [16, NAN, 0], [64, 36, NAN]])
        close(states[1].notes["similarity"], [[0, 1 / 4, 1 / 16], [1 / 16, 0, 1e6], [1 / 64, 1 / 36, 0]])

    def test_learns_its_own_kind(self, two_kinds, play):
        net = two_kinds()
        _, infos = play(DAC(SGD(lr=1.0), selected=2), net, first(net), 10)
        late = [neighbours_found(i.weights, net.roster.clusters).mean_precision for i in infos[6:]]
        assert sum(late) / len(late) > 0.9


class TestOrders:
    WHOM = ((1,), (2,), (0,))

    def test_thesis(self, pull, play):
        states, infos = play(Told(whom=self.WHOM), pull([0.0, 4.0, 8.0]), start(0), 2, total=2)
        model, targets = [0.0, 0.0, 0.0], [0.0, 4.0, 8.0]
        for r in (1, 2):
            model = [(m + y) / 2 for m, y in zip(model, targets, strict=True)]
            for k in turn_order(3, r, 2):
                model[k] = (model[k] + model[self.WHOM[k][0]]) / 2
            close(w(states[r]), model)
        close(infos[0].weights, [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
        assert turn_order(3, 1, 2) != turn_order(3, 2, 2) or turn_order(4, 1, 2) != turn_order(4, 2, 2)

    def test_at_once(self, pull, play):
        states, _ = play(Told(order="at-once", whom=self.WHOM), pull([0.0, 4.0, 8.0]), start(0), 1)
        assert w(states[1]) == [1, 3, 2]  # of trained 0, 2, 4

    def test_program_averages_before_it_trains(self, pull, play):
        model, targets = [8.0, 0.0, 2.0], [0.0, 4.0, 8.0]
        states, infos = play(Told(order="program", whom=self.WHOM), pull(targets), start(*model), 1)
        for k in turn_order(3):
            model[k] = ((model[k] + model[self.WHOM[k][0]]) / 2 + targets[k]) / 2
        close(w(states[1]), model)
        assert infos[0].loss.shape == (3,)
        assert not bool(infos[0].loss.isnan().any())

    def test_trained_trains_first_and_ends_every_round_with_it(self, pull, play):
        # round 1, the training before algorithm 1's first round: half of the way from 8, 0, 2 to 0, 4, 8
        targets, model = [0.0, 4.0, 8.0], [4.0, 2.0, 5.0]
        told = Told(order="trained", whom=self.WHOM)
        states, infos = play(told, pull(targets), start(8, 0, 2), 3, total=3)
        assert w(states[1]) == model
        assert infos[0].weights.tolist() == torch.eye(3).tolist()
        for r in (2, 3):
            for k in turn_order(3, r, 3):
                model[k] = (model[k] + model[self.WHOM[k][0]]) / 2
            model = [(m + y) / 2 for m, y in zip(model, targets, strict=True)]
            close(w(states[r]), model)
            close(infos[r - 1].weights, [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
        assert not any(bool(info.loss.isnan().any()) for info in infos)

    @pytest.mark.parametrize("direction", ["mine-on-theirs", "theirs-on-mine"])
    def test_trained_scores_the_models_trained_last(self, pull, play, direction):
        # trained (0, 2, 4) in round 1, and scored so in round 2, before anything else happens to them
        method = Greedy(HALF, "trained", sampled=2, direction=direction)
        _, infos = play(method, pull([0, 4, 8]), start(0), 2, total=2)
        assert infos[0].matrices == {}
        assert "repeated_requests" not in infos[0].extras
        mine, theirs = (
            [[NAN, 16, 64], [4, NAN, 36], [16, 0, NAN]],
            [[NAN, 4, 16], [16, NAN, 0], [64, 36, NAN]],
        )
        close(infos[1].matrices["loss"], mine if direction == "mine-on-theirs" else theirs)

    @pytest.mark.parametrize("order", ORDERS)
    def test_an_optimiser_s_memory_lasts(self, pull, play, order):
        # v = -16, w = 4; v = -8 - 8, w = 8
        work = SGD(lr=0.25, momentum=0.5, keep=True)
        states, _ = play(Told(work, order, whom=((), ())), pull([8, 8]), start(0), 2)
        assert [w(s) for s in states[1:]] == [[4, 4], [8, 8]]

    def test_scores_are_taken_before_the_averaging(self, two_kinds, play, start_of):
        # in the program, a client that comes first is scored with the model it began with
        net = two_kinds()
        _, infos = play(RandomWeighted(order="program", own="train"), net, first(net), 1)
        k, begin = turn_order(8)[0], start_of(first(net))
        wanted = net.visit(Score("train"), begin, edges_of([(0, k)]), Key(0)).numbers["accuracy"]
        assert infos[0].matrices["accuracy"][k, k] == wanted


class TestScoring:
    @pytest.mark.parametrize("direction", ["mine-on-theirs", "theirs-on-mine"])
    def test_no_pair_is_scored_twice_in_a_round(self, two_kinds, play, direction):
        net = Seen(two_kinds(n=5))
        _, infos = play(PENS(direction=direction, sampled=3, samplings=4), net, first(net.net), 1)
        (pairs,) = net.scored  # all of them in one visit
        assert max(Counter(pairs).values()) == 1
        asked = (~next(iter(infos[0].matrices.values())).isnan()).nonzero().tolist()
        assert sorted(pairs) == sorted((k, j) if direction == "mine-on-theirs" else (j, k) for k, j in asked)
        # 12 requests of each of the 5
        assert infos[0].extras["repeated_requests"] == 60 - len(pairs)

    def test_mine_on_theirs_and_theirs_on_mine(self, pull, play):
        net = pull([0, 4, 8])  # trained (0, 2, 4)
        _, infos = play(Greedy(HALF, "at-once", sampled=2), net, start(0), 1)
        close(infos[0].matrices["loss"], [[NAN, 16, 64], [4, NAN, 36], [16, 0, NAN]])
        assert infos[0].weights.gt(0).long().tolist() == [[1, 1, 0], [1, 1, 0], [0, 1, 1]]
        _, infos = play(Greedy(HALF, "at-once", sampled=2, direction="theirs-on-mine"), net, start(0), 1)
        close(infos[0].matrices["loss"], [[NAN, 4, 16], [16, NAN, 0], [64, 36, NAN]])
        assert infos[0].weights.gt(0).long().tolist() == [[1, 1, 0], [0, 1, 1], [0, 1, 1]]

    def test_nobody_is_picked_that_was_not_asked(self, two_kinds, play):
        net = two_kinds()
        for kind, options in ((Greedy, {}), (EpsilonGreedy, {"epsilon": 0.7}), (PENS, {"samplings": 2})):
            (info,) = play(kind(selected=2, **options), net, first(net), 1)[1]
            others = (info.weights > 0) & ~torch.eye(8, dtype=torch.bool)
            scored = info.matrices["loss" if kind is PENS else "accuracy"]
            assert not bool((scored.isnan() & others).any())
            assert others.sum(dim=1).tolist() == [2] * 8

    def test_random_weighted_weighs_by_accuracy(self, two_kinds, play):
        net = two_kinds()
        _, infos = play(RandomWeighted(selected=7), net, first(net), 1)
        accuracy = infos[0].matrices["accuracy"]
        close(infos[0].weights, accuracy / accuracy.sum(dim=1, keepdim=True))


class TestPENS:
    @pytest.mark.parametrize("direction", ["mine-on-theirs", "theirs-on-mine"])
    def test_finds_its_own_kind(self, two_kinds, play, direction):
        net = two_kinds()
        # of 7 others 4 are of the other kind: 5 sampled ones always include one's own, so that scores decide
        method = PENS(SGD(lr=1.0), direction=direction, sampled=5, samplings=6, rounds_step1=3)
        _, infos = play(method, net, first(net), 5)
        found = neighbours_found(infos[-1].weights, net.roster.clusters)
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

    def test_defaults_by_clients_and_rounds(self):
        method, trained = PENS(), PENS(order="trained")
        asked = {n: method.to_ask(n) for n in (2, 3, 4, 5, 6, 8, 20, 31, 50, 1000)}
        assert asked == {2: 1, 3: 2, 4: 3, 5: 3, 6: 4, 8: 5, 20: 13, 31: 20, 50: 20, 1000: 20}
        rounds = (1, 2, 3, 8, 30, 40, 353)
        assert [method.step_1(Key(0, rounds=r)) for r in rounds] == [1, 1, 1, 4, 15, 20, 20]
        assert [trained.step_1(Key(0, rounds=r)) for r in rounds] == [2, 2, 2, 4, 15, 20, 20]
        said = PENS(rounds_step1=20, sampled=5)
        assert (said.to_ask(50), said.step_1(Key(0, rounds=8))) == (5, 20)

    def test_trained_picks_from_the_second_round_on(self, two_kinds, play):
        net = two_kinds()
        method = PENS(order="trained", selected=2, samplings=4, rounds_step1=3)
        _, infos = play(method, net, first(net), 5)
        # 4 samplings of 2 in each of two rounds
        assert [int(i.matrices["history"].sum()) for i in infos[:3]] == [0, 8 * 8, 8 * 16]
        assert [i.extras["step"] for i in infos] == [1, 1, 1, 2, 2]
        assert infos[2].extras["circles"] == infos[4].extras["neighbours"] != [0] * 8

    def test_all_others_are_asked_once_a_round(self, pull, play):
        # trained 0, 2, 4: on 0, 4 and 8, models 1, 2 and 1 lose least, whoever is drawn first
        net = Seen(pull([0, 4, 8]))
        method = PENS(HALF, "at-once", sampled=2, samplings=10, rounds_step1=1)
        _, (info, after) = play(method, net, start(0), 2)
        assert info.matrices["history"].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
        assert info.extras["repeated_requests"] == 0
        assert info.extras["circles"] == [1, 1, 1]
        assert after.weights.gt(0).long().tolist() == [[1, 1, 0], [0, 1, 1], [0, 1, 1]]
        assert [len(pairs) for pairs in net.scored] == [6]
        assert PENS(sampled=2).times(3) == 1
        assert PENS(sampled=2).times(4) == PENS().samplings

    @given(st.integers(2, 9), st.integers(1, 12), st.integers(0, 10**6), st.data())
    def test_of_all_others_one_sampling_finds_the_circles_of_many(self, n, samplings, seed, data):
        """Without equals, that is: c and T are so many times as high."""
        selected = data.draw(st.integers(1, n - 1))
        method, draws = PENS(selected=selected, sampled=n - 1), torch.Generator().manual_seed(seed)
        once, often = (torch.zeros(n, n, dtype=torch.int64) for _ in range(2))
        for _ in range(3):  # rounds
            merit = torch.stack([torch.randperm(n, generator=draws) for _ in range(n)]).double()
            for history, times in ((once, method.times(n)), (often, samplings)):
                asked = method.draw(n, draws, times)
                history += counts([method.pick(asked[k], merit[k], Key(0)) for k in range(n)], n)
        assert torch.equal(samplings * once, often)
        assert lists(method.circles({"history": once})) == lists(method.circles({"history": often}))

    def test_work_of_its_own_in_each_step(self, pull, play):
        # alone by a history that singles nobody out: each epoch halves the way to y
        method = PENS(HALF, selected=1, sampled=1, samplings=1, rounds_step1=1, epochs1=2, epochs2=3)
        states, _ = play(method, pull([8.0, 8.0]), start(0), 2)
        assert w(states[1]) == [6, 6]
        assert w(states[2]) == [7.75, 7.75]

    def test_a_run_cut_off_after_every_round_ends_with_the_same_numbers(
        self, two_kinds, play, start_of, tmp_path
    ):
        work = SGD(momentum=0.5, keep=True)
        method = PENS(work, samplings=2, rounds_step1=2, patience=1, window=2)
        net = two_kinds(n=5)
        module = first(net)
        (*_, last), _ = play(method, net, module, 5)
        net = two_kinds(n=5)
        state = method.init(start_of(module), net)
        for r in range(1, 6):
            state, _ = method.round(state, net, Key(0).at_round(r, 5))
            kept = net.kept(handles_in(state), r)
            checkpoint.save(tmp_path / "state", state, checkpoint.Stamp(r, "x"), kept)
            saved, net = checkpoint.load(tmp_path / "state", type(state), "x"), two_kinds(n=5)
            state = saved.state
            net.restore(saved.kept, handles_in(state), r)
        assert all(torch.equal(t, last.beliefs.tensors[name]) for name, t in state.beliefs.tensors.items())

    def test_early_stopping_waits_for_step_2(self, two_kinds, play):
        net = two_kinds(n=5)
        method = PENS(samplings=1, rounds_step1=4, patience=1, window=1)
        _, infos = play(method, net, first(net), 8)
        assert [i.extras["stopped"] for i in infos[:5]] == [0] * 5
        assert infos[-1].extras["stopped"] > 0


class TestStopping:
    def test_by_hand(self):
        watch, seen = first_watch(2, 2), []
        # moving averages .5 .55 .5 .35: it rises twice, then waits; the second client is away in round 2
        for scores_now in ((0.5, 0.1), (0.6, NAN), (0.4, 0.2), (0.3, 0.3)):
            watch, better = next_watch(watch, numbers(*scores_now), patience=2)
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
    def test_who_stops_goes_back_to_its_best_and_still_serves(self, pull, play, order):
        # client 0 trains 4 → 2, 1, 0.5 and is judged by its distance to 2: best in round 1, stops after 3;
        # client 1 comes closer to 100 in every round
        net = pull([0.0, 100.0], validation=[2.0, 100.0])
        method = Told(order=order, patience=2, window=1, whom=((), (0,)))
        states, infos = play(method, net, start(4), 6)
        assert [w(s)[0] for s in states] == [4, 2, 1, 2, 2, 2, 2]
        assert [i.extras["stopped"] for i in infos[:4]] == [0, 0, 1, 1]
        assert infos[3].weights.tolist() == [[1, 0], [0.5, 0.5]]
        assert math.isnan(infos[3].loss[0])
        before = w(states[3])[1]
        after = (
            ((before + 100) / 2 + 2) / 2 if order in ("thesis", "at-once") else ((before + 2) / 2 + 100) / 2
        )
        assert w(states[4])[1] == after

    def test_who_has_stopped_and_is_gone_does_not_serve(self, pull, play, without):
        net = without(pull([0.0, 8.0], validation=[2.0, 8.0]), {4: (0,)})
        _, infos = play(Told(patience=2, window=1, whom=((), (0,))), net, start(4), 4)
        assert infos[3].weights.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", EVERYONE)
def test_who_is_gone_keeps_its_model_and_is_not_listened_to(two_kinds, play, without, kind, order):
    gone, here = [1, 4], [0, 2, 3, 5]
    net = two_kinds(n=6)
    states, infos = play(kind(order=order), without(net, {2: gone, 3: range(6)}), first(net), 3)
    weights, (_, before, after, at_last) = infos[1].weights, [s.beliefs.tensors["weight"] for s in states]
    close(infos[0].weights.sum(dim=1), torch.ones(6))
    assert bool((infos[0].weights.diagonal() > 0).all())
    assert bool((infos[0].weights >= 0).all())
    assert torch.equal(before[gone], after[gone])
    assert not any(torch.equal(before[k], after[k]) for k in here)
    assert float(weights[gone].abs().sum() + weights[:, gone].abs().sum()) == 0
    close(weights[here].sum(dim=1), torch.ones(4))
    assert bool(infos[1].loss[gone].isnan().all())
    # then nobody is there, and nothing changes
    assert torch.equal(after, at_last)
    assert float(infos[2].weights.abs().sum()) == 0


@pytest.mark.parametrize("kind", EVERYONE)
def test_the_defaults_do_for_two_clients_with_beliefs_of_their_own(kind, two_kinds, play):
    own = {"weight": torch.randn(2, 2, 3).double(), "bias": torch.zeros(2, 2).double()}
    (begun, after), infos = play(kind(), two_kinds(n=2), own, 1)
    assert torch.equal(kind().models(begun).beliefs.tensors["weight"], own["weight"])
    assert not torch.equal(after.beliefs.tensors["weight"], own["weight"])
    close(infos[0].weights.sum(dim=1), torch.ones(2))


class TestRefusals:
    @pytest.mark.parametrize(
        ("kinds", "options", "message"),
        [
            ((Random, RandomWeighted, Oracle, DAC), {"selected": 5}, "selected=5 must lie between 1 and 4"),
            ((Greedy, EpsilonGreedy, PENS), {"sampled": 5}, "sampled=5 must lie between 1 and 4"),
            ((Greedy, PENS), {"selected": 3, "sampled": 2}, "selected=3 must .* 1 and 2, those sampled"),
            ((Greedy, PENS), {"selected": 4}, "selected=4 must .* 1 and 3, those sampled"),
            ((PENS,), {"neighbours": 5}, "neighbours=5 must lie between 1 and 4"),
        ],
    )
    def test_more_peers_than_there_are(self, kinds, options, message):
        for kind in kinds:
            with pytest.raises(BadInput, match=message):
                kind(**options).check(known(5), start(0), Key(0, rounds=30))
        all_others = PENS(neighbours=4, sampled=4, selected=4, rounds_step1=20)
        (said,) = all_others.check(known(5), start(0), Key(0, rounds=30))
        assert said.startswith("pens picks all others in every round, so nobody more often than by chance")

    def test_what_is_said(self):
        key, said = Key(0, rounds=30), "sampled: all 2 others, fewer than the 3 of the default"
        for kind in (Greedy, EpsilonGreedy):
            assert kind().check(known(3), start(0), key) == [said]
            assert kind().check(known(4), start(0), key) == []
            assert kind(sampled=2).check(known(3), start(0), key) == []
        assert Greedy().to_ask(3) == 2
        few = "pens asks 2 of 2 others, and step 1 takes 15 of 30 rounds"
        assert PENS().check(known(3), start(0), key) == [said, few]
        most = "pens asks 5 of 8 others, and step 1 takes 15 of 30 rounds"
        assert PENS(sampled=5).check(known(9), start(0), key) == [most]
        none_left = ["rounds=30 leave none for step 2 of pens: rounds_step1=30"]
        assert PENS(sampled=5, rounds_step1=30).check(known(9), start(0), key) == none_left
        assert PENS(sampled=5, rounds_step1=29).check(known(9), start(0), key) == []

    def test_step_1_needs_a_round_to_pick_in(self):
        with pytest.raises(BadInput, match=r"rounds_step1=1 leaves no round to pick in.*: set at least 2"):
            PENS(order="trained", rounds_step1=1).check(known(4), start(0), Key(0, rounds=30))
        assert PENS(sampled=2, rounds_step1=1).check(known(4), start(0), Key(0, rounds=30)) == []

    @pytest.mark.parametrize("kind", EVERYONE)
    def test_too_few_clients_or_validation_samples(self, kind):
        said = {RandomWeighted: {"own": "train"}, PENS: {"sampled": 1, "rounds_step1": 20}}
        key, options = Key(0, rounds=30), said.get(kind, {})
        with pytest.raises(BadInput, match="at least 2 clients; got 1"):
            kind(**options).check(known(1), start(0), key)
        clients = Roster((*known(3).members, known(4, validation=0).members[3]), "classification", (3,), 2)
        with pytest.raises(BadInput, match=r"client 'c3' has no validation samples.*or set patience=0"):
            kind(patience=2, **options).check(clients, start(0), key)
        assert kind(**options).check(clients, start(0), key) == []

    @pytest.mark.parametrize(
        ("kind", "options", "message"),
        [
            (Random, {"patience": -1}, "patience=-1 must be at least 0"),
            (Random, {"window": 0}, "window=0 must be at least 1"),
            (EpsilonGreedy, {"epsilon": NAN}, "epsilon=nan must lie between 0 and 1"),
            (EpsilonGreedy, {"decay": -0.1}, "decay=-0.1 must lie between 0 and 1"),
            (PENS, {"samplings": 0}, "samplings=0 must be at least 1"),
            (PENS, {"rounds_step1": -1}, "rounds_step1=-1 must be at least 0"),
            (PENS, {"neighbours": -1}, "neighbours=-1 must be at least 0"),
            (PENS, {"epochs2": -1}, "epochs2=-1 must be at least 0"),
            (PENS, {"epochs1": 2, "local": SGD(steps=3)}, "need local work in epochs: set steps=0"),
            (DPSGD, {"edge_chance": 2.0}, "edge_chance=2.0 must lie between 0 and 1"),
            (DAC, {"tau": math.inf}, "tau=inf must be at least 0 and finite"),
            (Random, {"order": "later"}, "unknown order 'later'"),
            (Greedy, {"direction": "both"}, "unknown direction 'both'"),
            (RandomWeighted, {"own": "test"}, "unknown own 'test'"),
            (DPSGD, {"graph": "star"}, "unknown graph 'star'"),
        ],
    )
    def test_options(self, kind, options, message):
        with pytest.raises(BadInput, match=message):
            kind(**options)

    def test_oracle_needs_clusters_and_random_weighted_accuracies_and_validation_samples(self, pull):
        regression, key = pull([0, 1]).roster, Key(0, rounds=30)
        with pytest.raises(BadData, match="client 'c0' has no cluster, which oracle needs"):
            Oracle().check(regression, start(0), key)
        with pytest.raises(BadData, match="accuracy, which a regression does not have: use random or greedy"):
            RandomWeighted(own="train").check(regression, start(0), key)
        with pytest.raises(BadInput, match=r"client 'c0' has no validation samples.*or set own=train"):
            RandomWeighted().check(known(3, validation=0), start(0), key)


def test_a_cluster_of_one_trains_alone(two_kinds, play):
    net = two_kinds(n=3)  # clusters 0, 1, 0
    states, infos = play(Oracle(), net, first(net), 1)
    assert infos[0].weights.tolist() == [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
    assert not torch.equal(*(s.beliefs.tensors["weight"][1] for s in states))
    said = Oracle().check(net.roster, start(0), Key(0))
    assert said == ["alone in a cluster, and so training alone: c1"]
    assert Oracle().check(known(4), start(0), Key(0)) == []
