"""The protocol between its parties: small cases by hand, shares that say nothing, liars, what is refused."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
import pytest
from scipy import stats

from coterie.core.errors import BadData, BadInput, Refused
from coterie.features.sealed.parties import Dealer, Once, Server, Terms, directions, masked, refuse_long
from coterie.features.sealed.ring import decoded, encoded, masks, room_for_distances

BITS = 24
WHOLE = [(0, 3)]


class Table:
    """A dealer, two servers and hosts with replies [host, word]."""

    def __init__(self, x, room=None, bound=1.0, projections=16, forged=None):
        self.x = np.asarray(x, dtype=np.float64)
        self.names = [f"m{i}" for i in range(len(self.x))]
        self.terms = Terms(BITS, room_for_distances() if room is None else room, self.x.shape[1])
        self.dealer, self.a, self.b = (
            Dealer(),
            Server("a", bound, projections),
            Server("b", bound, projections),
        )
        self.seeds = self.dealer.deal(self.names, self.terms.words)
        self.a.take_seeds({n: s[0] for n, s in self.seeds.items()})
        self.b.take_seeds({n: s[1] for n, s in self.seeds.items()})
        self.sent = []
        for i, name in enumerate(self.names):
            refuse_long(self.x[i], self.terms, f"host{i}")
            words = masked(self.x[i], self.seeds[name], self.terms)
            words = words if forged is None else words + forged[i]
            self.sent.append(words)
            for server in (self.a, self.b):
                server.take(name, words, self.terms, f"host{i}", "r")

    def liars(self):
        coin = hashlib.sha256(secrets.token_bytes(32)).digest()
        mine, theirs = self.a.project(self.names, coin), self.b.project(self.names, coin)
        found = self.a.judge(self.names, mine, theirs)
        assert found == self.b.judge(self.names, theirs, mine)
        return found

    def mix(self, weights, receiver="lead"):
        whole, blind = {"w": np.asarray(weights)}, secrets.token_bytes(32)
        told = (self.names, whole, {"w": (0, self.terms.words)}, receiver, blind)
        return self.a.mix(*told) + self.b.mix(*told)

    def squares(self, wanted):
        pairs = sorted({(i, i) for pair in wanted for i in pair} | set(wanted))
        groups, blind = [[(0, self.terms.words)]], secrets.token_bytes(32)
        first, second = self.dealer.products(pairs, groups)
        words = self.a.distances(pairs, wanted, groups, first, blind)
        words = words + self.b.distances(pairs, wanted, groups, second, blind)
        return decoded(words, 2 * BITS)[:, 0]


def test_a_small_case_by_hand():
    table = Table([[1.0, 2.0, -2.0], [0.5, 0.0, 1.0]])
    assert table.liars() == []
    assert decoded(table.mix([[2, -1]]), BITS).tolist() == [[1.5, 4.0, -5.0]]
    # |x_0|^2 = 9, |x_1|^2 = 1.25, |x_0 - x_1|^2 = 0.25 + 4 + 9
    assert table.squares([("m0", "m0"), ("m1", "m1"), ("m0", "m1")]).tolist() == [9.0, 1.25, 13.25]


def test_equal_replies_are_exactly_0_apart():
    x = np.random.default_rng(0).normal(size=100)
    table = Table([x, x])
    table.liars()
    assert table.squares([("m0", "m1")]).tolist() == [0.0]


def test_shares_add_up_and_each_by_itself_says_nothing():
    """What each party has is uniform, whatever the replies: chi-squared of its bytes; and no two replies'
    words agree more often than by chance.
    """
    table = Table(np.zeros((4, 20_000)))
    by_party = {
        "E, on its way": np.concatenate(table.sent),
        "A's share": np.concatenate([table.a._of(n).share for n in table.names]),
        "B's share": np.concatenate([table.b._of(n).share for n in table.names]),
    }
    for party, words in by_party.items():
        counts = np.bincount(words.view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6, party
    total = table.a._of("m0").share + table.b._of("m0").share
    assert not total.any()  # together they are the reply, which is 0
    table.liars()
    answers = (
        table.mix([[1, 1, 1, 1]]),
        table.a.mix(
            table.names,
            {"w": np.ones((1, 4), dtype=np.int64)},
            {"w": (0, 20_000)},
            "lead",
            secrets.token_bytes(32),
        ),
    )
    assert not answers[0].any()
    counts = np.bincount(answers[1].view(np.uint8).ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_the_test_of_uniformity_can_fail():
    words = encoded(np.random.default_rng(0).normal(size=20_000), BITS)
    counts = np.bincount(words.view(np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue < 1e-6


def test_liars_in_the_ring_are_found_and_honest_hosts_are_not():
    """Ten words moved by 2^63 leave every distance as it is; of 60 pairs the liar is found, the other not."""
    draws = np.random.default_rng(1)
    found, accused = 0, 0
    for _ in range(60):
        x, forged = draws.normal(size=(2, 400)), np.zeros((2, 400), dtype=np.uint64)
        forged[1, draws.choice(400, size=10, replace=False)] = 2**63
        table = Table(x, forged=forged)
        liars = table.liars()
        found, accused = found + ("m1" in liars), accused + ("m0" in liars)
    assert (found, accused) == (60, 0)


def test_a_liar_would_have_moved_the_sum_and_no_distance():
    x, forged = np.ones((2, 16)), np.zeros((2, 16), dtype=np.uint64)
    forged[1, :10] = 2**63
    honest, lied = Table(x, projections=0), Table(x, forged=forged, projections=0)
    assert lied.squares([("m1", "m1"), ("m0", "m1")]).tolist() == [16.0, 0.0]
    moved = decoded(lied.mix([[1, 1]]), BITS) - decoded(honest.mix([[1, 1]]), BITS)
    assert np.abs(moved).max() == 2.0 ** (63 - BITS)


def test_the_longest_honest_reply_along_a_projection_is_not_accused():
    """The bound is Cauchy and Schwarz's, so that nobody honest can be beyond it."""
    coin, words = secrets.token_bytes(32), 64
    p = directions(coin, words, 3).view(np.int64).astype(float)
    table = Table([p / np.linalg.norm(p) * 2.0 ** (room_for_distances() - BITS) * (1 - 1e-12)])
    mine, theirs = table.a.project(["m0"], coin), table.b.project(["m0"], coin)
    assert table.a.judge(["m0"], mine, theirs) == []


def test_what_has_not_been_looked_at_is_not_used():
    table = Table(np.ones((2, 3)))
    with pytest.raises(Refused, match="has not been looked at for overflows"):
        table.mix([[1, 1]])


def test_overflows_are_refused_before_they_happen():
    with pytest.raises(BadInput, match=r"the reply of host0 has length 91, above the 90\.51 .* at 24 bits"):
        Table([[91.0, 0.0, 0.0]])
    Table([[90.0, 0.0, 0.0]])
    table = Table(np.ones((2, 3)), room=48.0)
    table.liars()
    with pytest.raises(BadInput, match=r"weights that add up to .* overflow with replies of up to 2\^48"):
        table.mix([[2**14, 1]])
    for bad in (np.nan, np.inf):
        with pytest.raises(BadInput, match="the reply of host0"):
            Table([[bad, 0.0, 0.0]])


def test_no_mask_serves_twice():
    once, seed = Once(), secrets.token_bytes(32)
    once.use(seed)
    with pytest.raises(Refused, match="a mask would be used twice"):
        once.use(seed)
    table = Table(np.ones((2, 3)))
    with pytest.raises(Refused, match="dealt already"):
        table.dealer.deal(["m0"], 3)
    with pytest.raises(Refused, match="used twice"):
        table.a.take_seeds({"again": table.seeds["m0"][0]})
    with pytest.raises(BadInput, match="no mask was dealt for 'm0'"):  # its seed is used up
        table.a.take("m0", table.sent[0], table.terms, "host0", "r")
    table.liars()
    blind = secrets.token_bytes(32)
    told = (table.names, {"w": np.ones((1, 2), dtype=np.int64)}, {"w": (0, 3)}, "lead", blind)
    table.a.mix(*told)
    with pytest.raises(Refused, match="used twice"):
        table.a.mix(*told)


def test_two_replies_under_one_mask_would_give_their_difference():
    """Why masks are used once."""
    seeds, terms = (secrets.token_bytes(32), secrets.token_bytes(32)), Terms(BITS, 30.0, 3)
    one, other = np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, 1.0])
    apart = masked(one, seeds, terms) - masked(other, seeds, terms)
    assert decoded(apart, BITS).tolist() == [0.5, 0.0, 2.0]


def test_nobody_alone_has_the_masks_seeds_come_from_the_system():
    """Two deals have nothing in common, and the servers get one seed of each two."""
    dealer = Dealer()
    one, other = dealer.deal(["x"], 4)["x"], dealer.deal(["y"], 4)["y"]
    assert len({*one, *other}) == 4
    table = Table(np.ones((1, 3)))
    assert table.a._of("m0").mask.tolist() == masks(table.seeds["m0"][0], 3).tolist()
    assert table.b._of("m0").mask.tolist() == masks(table.seeds["m0"][1], 3).tolist()


def test_words_that_do_not_fit():
    table = Table(np.ones((1, 3)))
    table.a.take_seeds({"n": secrets.token_bytes(32)})
    with pytest.raises(BadData, match="has 2 words, not 3"):
        table.a.take("n", np.zeros(2, dtype=np.uint64), table.terms, "host0", "r")
    with pytest.raises(BadInput, match="no reply called 'n'"):
        table.a.project(["n"], bytes(32))
    with pytest.raises(BadInput, match="no masks were dealt for 'z'"):
        table.dealer.products([("z", "z")], [WHOLE])


def test_servers_refuse_what_gives_a_reply_away():
    table = Table(np.eye(4), bound=0.75)
    table.liars()
    table.mix([[1, 1, 1, 1]], "host0")
    with pytest.raises(Refused, match="of the reply of host"):
        table.mix([[0, 1, 0, 0]], "host0")
