"""Estimates on games: worked out by hand, then what holds for every game."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.features.contributions import GTG, ExactShapley, Game, LeaveOneOut, Shapley
from coterie.features.contributions.game import arrivals
from coterie.features.contributions.walks import AGAIN, freedom, walk

RNG = np.random.default_rng

# the glove game: a left glove (player 0) is worth something with a right one (1 or 2)
GLOVES = {frozenset(s): float({0} < set(s)) for n in range(4) for s in combinations(range(3), n)}
# an airport: each pays for a runway as long as the longest that is needed
RUNWAYS = (1.0, 2.0, 4.0)
# a majority of 3 out of weights 2, 1, 1
VOTES = (2, 1, 1)

HAND = {
    # orders: 0 adds 1 in all but the 2 in which it is first; 1 and 2 in one of 6 each
    "gloves": (GLOVES.__getitem__, [4 / 6, 1 / 6, 1 / 6], [1, 0, 0]),
    # the first length is shared by 3, the next by 2, and the last 2 of 4 are one's own
    "airport": (lambda s: max((RUNWAYS[i] for i in s), default=0.0), [1 / 3, 5 / 6, 17 / 6], [0, 0, 2]),
    # 0 is decisive in 4 of 6 orders
    "votes": (lambda s: float(sum(VOTES[i] for i in s) >= 3), [4 / 6, 1 / 6, 1 / 6], [1, 0, 0]),
    "each for itself": (lambda s: sum((1.5, -2.0, 0.25)[i] for i in s), [1.5, -2.0, 0.25], [1.5, -2.0, 0.25]),
}  # fmt: skip


@pytest.mark.parametrize("name", HAND)
def test_three_players_by_hand(make_game, name):
    values, shapley, left_out = HAND[name]
    assert ExactShapley()(make_game(3, values), RNG(0)).value[0] == pytest.approx(shapley)
    assert LeaveOneOut()(make_game(3, values), RNG(0)).value[0] == pytest.approx(left_out)


def test_how_many_orders_have_a_set_before_a_player():
    assert [arrivals(3, before) for before in range(3)] == [2 / 6, 1 / 6, 2 / 6]


tables = st.lists(st.floats(-8, 8), min_size=16, max_size=16)


def by_mask(table):
    return lambda s: table[sum(1 << i for i in s)]


def exact(values, players=4):
    ask = lambda some: np.array([[values(s)] for s in some], dtype=float)  # noqa: E731
    return ExactShapley()(Game(players, ask), RNG(0)).value[0]


@settings(max_examples=40)
@given(tables, tables, st.floats(-3, 3))
def test_shapley_values_are_efficient_and_linear(one, other, factor):
    a, b = exact(by_mask(one)), exact(by_mask(other))
    assert a.sum() == pytest.approx(one[15] - one[0], abs=1e-9)
    both = exact(lambda s: by_mask(one)(s) + factor * by_mask(other)(s))
    assert both == pytest.approx(a + factor * b, abs=1e-9)


@settings(max_examples=25)
@given(tables)
def test_players_that_add_the_same_get_the_same_and_one_that_adds_nothing_gets_nothing(table):
    def values(s):  # 1 and 2 are told apart by nobody, 3 is not looked at
        return table[sum(1 << i for i in s & {0}) + 2 * len(s & {1, 2})]

    found = exact(values)
    assert found[1] == pytest.approx(found[2], abs=1e-9)
    assert found[3] == pytest.approx(0, abs=1e-9)
    for estimate in (Shapley(permutations=16), GTG(permutations=16)):
        ask = lambda some: np.array([[values(s)] for s in some], dtype=float)  # noqa: E731
        drawn = estimate(Game(4, ask), RNG(1))
        assert drawn.value[0, 3] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("estimate", [Shapley(permutations=16), GTG(permutations=16)], ids=["shapley", "gtg"])
@pytest.mark.parametrize("players", [1, 3, 5])
def test_ends_are_exact(make_game, estimate, players):
    """Whoever comes first adds 1, whoever comes last 5, or -5 for a second judge: nothing is left to draw."""
    found = estimate(
        make_game(players, lambda s: [bool(s) + k * (len(s) == players) for k in (5, -5)]), RNG(0)
    )
    assert found.value == pytest.approx(np.array([[6 / players] * players, [-4 / players] * players]))
    assert not found.variance.any()


def test_two_players_need_no_drawing(make_game):
    values = {frozenset(): 0.0, frozenset([0]): 3.0, frozenset([1]): 1.0, frozenset([0, 1]): 10.0}
    for estimate in (Shapley(), GTG(), ExactShapley()):
        found = estimate(make_game(2, values.__getitem__), RNG(0))
        assert found.value[0] == pytest.approx([6, 4])
        assert not found.variance.any()
        assert not found.hidden.any()


def test_no_value_is_worked_out_twice(make_game):
    asked = []

    def values(s):
        asked.append(s)
        return float(len(s) ** 2)

    game = make_game(5, values)
    Shapley(permutations=64)(game, RNG(0))
    ExactShapley()(game, RNG(0))
    assert len(asked) == len(set(asked)) == game.asked == 32


def test_the_same_seed_draws_the_same(make_game):
    values = by_mask(RNG(5).normal(size=32))
    for estimate in (Shapley(permutations=32), GTG(permutations=32)):
        one, two, other = (estimate(make_game(5, values), RNG(seed)) for seed in (1, 1, 2))
        assert (one.value == two.value).all()
        assert (one.variance == two.variance).all()
        assert (one.value != other.value).any()


def test_every_player_is_first_in_as_many_guided_orders(make_game, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "coterie.features.contributions.walks.valued", lambda game, blocks, *_: seen.extend(blocks)
    )
    GTG(permutations=32)(make_game(4, lambda s: float(len(s))), RNG(0))
    assert len(seen) == 8
    assert all([order[0] for order in block] == [0, 1, 2, 3] for block in seen)
    assert all(sorted(order) == [0, 1, 2, 3] for block in seen for order in block)


def test_a_round_that_changed_little_is_valued_by_its_ends(make_game):
    """Two that cancel out: 0 adds 1 at first and 0.5 at last, 1 the reverse of it."""
    values = {frozenset(): 10.0, frozenset([0]): 11.0, frozenset([1]): 9.5, frozenset([2]): 10.0}
    values |= {frozenset([0, 1]): 10.0, frozenset([0, 2]): 11.0, frozenset([1, 2]): 9.5}
    game = make_game(3, lambda s: values.get(s, 10.0))
    found = GTG(skip=0.001)(game, RNG(0))
    assert found.said == {"skipped": 1}
    assert found.value[0] == pytest.approx([(1 + 0.5) / 2, (-0.5 - 1) / 2, 0])
    assert found.hidden[0] == pytest.approx([0.25, 0.25, 0])
    assert "skipped" not in GTG(skip=0.0)(make_game(3, lambda s: float(len(s))), RNG(0)).said


def test_a_walk_is_cut_where_nothing_is_left_to_add(make_game):
    """All there is to add comes with player 0."""
    game = make_game(6, lambda s: float(0 in s))
    found = walk(game, [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]], 0.01, RNG(3))
    assert not found.added[0].any()
    assert found.tolerated == pytest.approx([0.01])
    goes_on = RNG(3).random(2) < 1 / AGAIN
    assert found.unseen[0].tolist() == [False, *([not goes_on[0]] * 4), False]
    assert not found.unseen[1].any()


def test_cuts_do_not_bias(make_game):
    """v comes near v(N) by chance and leaves it again: the paper's rule would never see what 1 to 4 add."""

    def values(s):
        return 1.0 * (0 in s) + (0.4 if len(s) in (2, 3, 4) else 0.0) * (0 in s and 1 in s)

    truth = ExactShapley()(make_game(6, values), RNG(0)).value[0]
    found = [Shapley(permutations=64)(make_game(6, values), RNG(seed)) for seed in range(40)]
    assert any(f.said["cut"] for f in found)
    assert np.mean([f.value[0] for f in found], axis=0) == pytest.approx(truth, abs=0.03)


def test_freedom_falls_with_kurtosis():
    """A fair coin has an excess of -2, which counts as 0; one in 10 has 5.1."""
    assert freedom(np.array([0.0, 1.0] * 5)) == pytest.approx(9)
    rare = np.array([0.0] * 9 + [1.0])
    p = 0.1
    excess = (1 - 6 * p * (1 - p)) / (p * (1 - p))
    assert freedom(rare) == pytest.approx(2 / (2 / 9 + excess / 10))
