"""Rules by hand, beside plain programs on vectors, and what must hold whatever the replies."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadInput
from coterie.rules import RULES, chained, liars_of, with_fewer
from coterie.rules.chain import unguarded
from coterie.rules.fltrust import scaled_by_trust, trust
from coterie.rules.geometric_median import weiszfeld
from coterie.rules.identities import between_sums, to_sum
from coterie.rules.krum import krum_scores, shares_of_lowest

LINE = [0.0, 1, 3, 7, 100]


def points(*rows) -> torch.Tensor:
    """[point, axis], the last being what went out."""
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), -1)


def squares(x: torch.Tensor) -> torch.Tensor:
    return (x.unsqueeze(0) - x.unsqueeze(1)).square().sum(dim=2)


def weighed(rule: str, x: torch.Tensor, f: int, me: int | None = 0) -> torch.Tensor:
    return chained(rule).weights(squares(x), f, me)


def close(found, wanted, tolerance=1e-12):
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64).flatten(),
        torch.as_tensor(wanted, dtype=torch.float64).flatten(),
        rtol=0,
        atol=tolerance,
    )


class TestByHand:
    def test_krum(self):
        # the two nearest others (n - f - 2): 1+9, 1+4, 4+9, 16+36, 93²+97²
        close(krum_scores(squares(points(*LINE)), 2), [10, 5, 13, 52, 18058])
        close(weighed("krum", points(*LINE, 0), 1), [0.25] * 4 + [0, 0])  # the mean of 0, 1, 3, 7
        close(weighed("krum:m=2", points(*LINE, 0), 1), [0.5, 0.5, 0, 0, 0, 0])
        close(weighed("krum:m=1", points(*LINE, 0), 1), [0, 1, 0, 0, 0, 0])

    def test_equals_at_the_border_share_what_is_left(self):
        # one neighbour each: 0 and 1 are each other's nearest
        close(weighed("krum:m=1", points(0, 1, 5, 0), 0), [0.5, 0.5, 0, 0])
        close(shares_of_lowest(torch.tensor([4.0, 1, 4, 4, 9]), 3), [v / 9 for v in (2, 3, 2, 2, 0)])

    def test_nearest_neighbour_mixing(self):
        # of four nearest, oneself among them: 0, 1, 3, 7 all become 2.75; 100 becomes (100+7+3+1)/4
        close(weighed("nnm+krum", points(*LINE, 0), 1) @ points(*LINE, 0), 2.75)
        step = RULES.make("nnm").mixing(squares(points(*LINE, 50)), 1)
        close(step @ points(*LINE, 50), [2.75] * 4 + [27.75, 50])
        # of three: 4/3, 4/3, 4/3, 11/3, 110/3; the geometric median of these is 4/3
        close(weighed("nnm+geometric-median", points(*LINE, 0), 2) @ points(*LINE, 0), 4 / 3, 1e-4)

    def test_monna(self):
        close(weighed("monna", points(*LINE, 0), 2, me=3), [v / 3 for v in (0, 1, 1, 1, 0, 0)])
        close(weighed("monna", points(*LINE, 0), 2, me=4), [v / 3 for v in (0, 0, 1, 1, 1, 0)])

    def test_geometric_median(self):
        close(weighed("geometric-median", points(*LINE, 0), 2) @ points(*LINE, 0), 3, 1e-3)
        square = points((0, 0), (0, 2), (2, 2), (2, 0), (9, 9))
        close(weighed("geometric-median", square, 1), [0.25] * 4 + [0])
        # a step by hand: the mean of 0, 0, 3 is 1, at distances 1, 1, 2
        close(weiszfeld(squares(points(0, 0, 3)), 1, 1e-9), [0.4, 0.4, 0.2])
        close(weighed("geometric-median", points(5, 5, 5, 0), 1), [1 / 3] * 3 + [0])

    def test_centred_clipping(self):
        x = points(1, 2, 9, 0)
        # from 0 pulls of 1, 2, 3 lead to 2; from there pulls of -1, 0, 3 lead to 8/3
        close(weighed("centred-clipping:radius=3,steps=1", x, 1), [v / 9 for v in (3, 3, 1, 2)])
        close(weighed("centred-clipping:radius=3,steps=2", x, 1) @ x, 8 / 3)
        # auto: as long as the second of three ways, 2
        close(weighed("centred-clipping:steps=1", x, 1) @ x, 5 / 3)
        close(weighed("centred-clipping", x, 0), [1 / 3] * 3 + [0])

    def test_fltrust(self):
        # of length 1 as the root (1, 0): only (3, 3) points its way, at 45 degrees
        x, t = points((1, 0), (0, 2), (3, 3), (-1, 0), (0, 0), (0, 0)), 1 / math.sqrt(2)
        D = squares(x)
        close(trust(D[:5, 0], D[:5, 5], 0), [1, 0, t, 0, 0])
        close(weighed("fltrust", x, 1) @ x, [1.5 / (1 + t), 0.5 / (1 + t)])
        # a short reply is made longer: what went out has less than nothing
        close(scaled_by_trust(torch.ones(2).double(), torch.tensor([4.0, 1.0]).double(), 0), [0.5, 2, -1.5])
        close(weighed("fltrust", points(3, 5, 3), 0), [1, 0, 0])  # the root has nothing to learn

    def test_minimum_diameter(self):
        close(weighed("minimum-diameter", points(*LINE, 0), 2), [v / 3 for v in (1, 1, 1, 0, 0, 0)])
        close(weighed("minimum-diameter", points(0, 1, 2, 3, 9), 1) @ points(0, 1, 2, 3, 9), 1)

    def test_norm_bound(self):
        close(weighed("norm-bound", points(1, 2, 9, 0), 1) @ points(1, 2, 9, 0), 5 / 3)
        close(weighed("norm-bound:radius=0.5", points(1, 2, 9, 0), 1) @ points(1, 2, 9, 0), 0.5)
        close(weighed("norm-bound", points(4, 4, 4, 4), 1), [1 / 3] * 3 + [0])

    def test_mean(self):
        close(weighed("mean", points(*LINE, 0), 0), [0.2] * 5 + [0])

    @pytest.mark.parametrize(
        ("rule", "f", "wanted"),
        [
            ("median", 2, 3),
            ("trimmed-mean", 1, 11 / 3),
            ("trimmed-mean", 2, 3),
            ("meamed", 1, 2.75),  # distances from 3: 3, 2, 0, 4, 97
            ("nnm+trimmed-mean", 1, 2.75),
        ],
    )
    def test_number_by_number(self, rule, f, wanted):
        opened = {"w": points(*LINE), "seen": torch.tensor([5, 6, 7, 8, 9])}
        made, shares = chained(rule).summed(opened, squares(points(*LINE, 0)), f)
        close(made["w"], wanted)
        assert made["seen"] == 5  # batch norm's counter: of one sender, as in every mix
        close(shares.sum(), 1)

    def test_an_even_median_is_between_the_two_in_the_middle(self):
        made, _ = chained("median").summed({"w": points(0, 1, 3, 7)}, torch.zeros(5, 5), 1)
        close(made["w"], 2)

    def test_bulyan(self):
        # Krum's best of what is left, one by one: 2 (10, and 3 too), 3 (9), 1 (10), 4 (1), 0 (25)
        x = points(0, 1, 2, 3, 4, 5, 100)
        made, shares = chained("bulyan").summed({"w": x}, squares(points(0, 1, 2, 3, 4, 5, 100, 0)), 1)
        close(made["w"], 2)  # of 0, 1, 2, 3, 4 the three around 2
        close(shares, [0.2] * 5 + [0, 0])


# the same, said plainly on vectors


def plain_krum(x, out, f, me):
    n = len(x)
    scores = [sum(sorted(float((a - b).square().sum()) for b in x)[1 : n - f - 1]) for a in x]
    return x[sorted(range(n), key=scores.__getitem__)[: n - f]].mean(dim=0)


def plain_mixed(x, f):
    near = [sorted(range(len(x)), key=lambda j: float((x[j] - a).norm()))[: len(x) - f] for a in x]
    return torch.stack([x[some].mean(dim=0) for some in near])


def plain_monna(x, out, f, me):
    return x[sorted(range(len(x)), key=lambda j: float((x[j] - x[me]).norm()))[: len(x) - f]].mean(dim=0)


def plain_median(x, out, f, me):
    z, least = x.mean(dim=0), 1e-6 * float(squares(x).mean().sqrt())
    for _ in range(100):
        beta = 1 / (x - z).norm(dim=1).clamp(min=least)
        z = (beta.unsqueeze(1) * x).sum(dim=0) / beta.sum()
    return z


def plain_clipping(x, out, f, me):
    v = out
    for _ in range(3):
        ways = (x - v).norm(dim=1)
        tau = ways.sort().values[len(x) - f - 1]
        v = v + sum((a - v) * min(1.0, float(tau / w)) for a, w in zip(x, ways, strict=True)) / len(x)
    return v


def plain_trust(x, out, f, me):
    g, root = x - out, x[me] - out
    t = [max(0.0, float(torch.cosine_similarity(a, root, dim=0))) for a in g]
    return out + sum(s * root.norm() / a.norm() * a for s, a in zip(t, g, strict=True)) / sum(t)


def plain_diameter(x, out, f, me):
    def wide(some):
        return max(float((x[i] - x[j]).norm()) for i in some for j in some)

    return x[list(min(itertools.combinations(range(len(x)), len(x) - f), key=wide))].mean(dim=0)


def plain_bound(x, out, f, me):
    g = x - out
    most = g.norm(dim=1).quantile(0.5)
    return out + sum(a / max(1.0, float(a.norm() / most)) for a in g) / len(g)


PLAIN = {
    "krum": plain_krum,
    "nnm+krum": lambda x, out, f, me: plain_krum(plain_mixed(x, f), out, f, me),
    "monna": plain_monna,
    "nnm+monna": lambda x, out, f, me: plain_monna(plain_mixed(x, f), out, f, me),
    "geometric-median": plain_median,
    "centred-clipping": plain_clipping,
    "fltrust": plain_trust,
    "minimum-diameter": plain_diameter,
    "norm-bound": plain_bound,
    "mean": lambda x, out, f, me: x.mean(dim=0),
}
some_points = st.tuples(st.integers(0, 10**6), st.integers(5, 9), st.integers(2, 5))


def drawn(seed: int, n: int, axes: int) -> torch.Tensor:
    """[n+1, axis]"""
    return torch.randn(n + 1, axes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def liars(rule: str, n: int) -> int:
    return liars_of(chained(rule), "auto", n)


@pytest.mark.parametrize("rule", PLAIN)
@settings(max_examples=8, deadline=None)
@given(some=some_points)
def test_weights_from_distances_give_what_vectors_give(rule, some):
    x, n = drawn(*some), some[1]
    f = liars(rule, n)
    if rule == "nnm+krum" and len(torch.unique(plain_mixed(x[:n], f).round(decimals=9), dim=0)) < n:
        return  # equal points: which of them the plain program takes is chance
    w = weighed(rule, x, f, me=1)
    close(w.sum(), 1)
    close(w @ x, PLAIN[rule](x[:n], x[n], f, 1), 1e-7)


@pytest.mark.parametrize("rule", PLAIN)
@settings(max_examples=6, deadline=None)
@given(some=some_points, shift=st.floats(-10, 10))
def test_order_place_and_direction_do_not_matter(rule, some, shift):
    x, n = drawn(*some), some[1]
    f, w = liars(rule, n), weighed(rule, x, liars(rule, n), me=1)
    turn, _ = torch.linalg.qr(drawn(some[0] + 1, some[2] - 1, some[2]))
    close(weighed(rule, (x + shift) @ turn, f, me=1), w, 1e-6)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(some[0]))
    again = weighed(rule, torch.cat([x[order], x[n:]]), f, me=int((order == 1).nonzero()))
    if rule == "minimum-diameter":  # of equally tight sets the first is taken: it is as tight
        sets = x[:n][w[:n] > 0], x[:n][order][again[:n] > 0]
        close(*(squares(some).max() for some in sets))
        return
    close(again, torch.cat([w[order], w[n:]]), 1e-6)


EXACT = ["krum", "nnm+krum", "monna", "nnm+monna", "minimum-diameter", "nnm+minimum-diameter"]
OPENING = ["median", "trimmed-mean", "meamed", "bulyan", "nnm+median"]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 11), far=st.floats(1e-3, 1e6))
def test_honest_replies_that_agree_are_what_comes_out_whatever_liars_say(seed, n, far):
    x = far * drawn(seed, n, 3)
    for rule in (*EXACT, *OPENING):
        chain = chained(rule)
        f = with_fewer(chain, (n - 1) // 2, n)
        if f is None:
            continue
        x[f:n] = x[f]  # who is honest says the same
        if rule in OPENING:
            found = chain.summed({"w": x[:n]}, squares(x), f)[0]["w"]
        else:
            found = weighed(rule, x, f, me=n - 1) @ x
        close(found, x[f], 1e-9 * far)
    close(weighed("geometric-median", x, f) @ x, x[n - 1], 1e-3 * far)


@settings(max_examples=15, deadline=None)
@given(some=some_points)
def test_distances_of_sums(some):
    x = drawn(*some)
    W = drawn(some[0] + 7, 3, len(x))
    W = W + (1 - W.sum(dim=1, keepdim=True)) / len(x)
    close(W.sum(dim=1), torch.ones(4))
    close(between_sums(squares(x), W), squares(W @ x), 1e-8)
    close(to_sum(squares(x), W[0]), (x - W[0] @ x).square().sum(dim=1), 1e-8)


@pytest.mark.parametrize(
    ("rule", "n", "f", "said"),
    [
        ("krum", 5, 2, "krum needs n > 2f + 2; got n=5, f=2: lower f or add clients"),
        ("krum", 2, "auto", "krum needs n > 2f + 2; got n=2, f=0: add clients"),
        ("nnm+krum", 6, 3, "nnm needs n > 2f; got n=6, f=3: lower f or add clients"),
        ("monna", 4, 2, "monna needs n > 2f; got n=4, f=2"),
        ("geometric-median", 4, 2, "geometric-median needs n > 2f; got n=4, f=2"),
        ("centred-clipping", 4, 2, "centred-clipping needs n > 2f; got n=4, f=2"),
        ("fltrust", 4, 4, "fltrust needs n > f; got n=4, f=4"),
        ("minimum-diameter", 4, 2, "minimum-diameter needs n > 2f; got n=4, f=2"),
        (
            "minimum-diameter",
            30,
            9,
            "would look at 14307150 sets of 21 among n=30 replies, above 50000: lower f",
        ),
        ("norm-bound", 4, 2, "norm-bound needs n > 2f; got n=4, f=2"),
        ("median", 4, 2, "median needs n > 2f; got n=4, f=2"),
        ("trimmed-mean", 4, 2, "trimmed-mean needs n > 2f; got n=4, f=2"),
        ("meamed", 4, 2, "meamed needs n > 2f; got n=4, f=2"),
        ("bulyan", 10, 2, "bulyan needs n >= 4f + 3; got n=10, f=2: lower f or add clients"),
        ("mean", 10, 1, "mean needs f = 0; got n=10, f=1: lower f"),
        ("krum:m=9", 10, 3, "krum m=9 must lie between 1 and n - f = 7, or be 0: lower it"),
        ("monna", 10, -1, "f=-1 must be at least 0: try auto"),
    ],
)
def test_beyond_its_bound_a_rule_is_refused_in_one_line(rule, n, f, said):
    with pytest.raises(BadInput) as refused:
        liars_of(chained(rule), f, n)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("krumm", "unknown rule 'krumm': did you mean krum?"),
        ("", "unknown rule ''"),
        ("nnm", "nnm is a step before another: try nnm+krum"),
        ("krum+nnm", "krum is no step before another: try nnm+krum"),
        ("krum:k=3", "unknown option of rule krum 'k'"),
        ("krum:m", "needs the form option=value"),
        ("krum:m=-1", "krum m=-1 must be at least 0"),
        ("krum:m=many", "rule krum: m must be a whole number; got 'many'"),
        ("centred-clipping:radius=0", "radius=0.0 must be above 0 and finite: try 1 or auto"),
        ("centred-clipping:steps=0", "steps=0 must be at least 1"),
        ("norm-bound:radius=inf", "radius=inf must be above 0 and finite"),
        ("geometric-median:smoothing=0", "smoothing=0.0 must be above 0"),
        ("geometric-median:steps=0", "steps=0 must be at least 1"),
    ],
)
def test_texts_that_are_no_rule(text, said):
    with pytest.raises(BadInput) as refused:
        chained(text)
    assert said in str(refused.value)


def test_auto_reckons_with_less_than_a_third_and_fewer_answers_with_fewer_liars():
    assert [liars(rule, 10) for rule in ("krum", "bulyan", "mean", "fltrust")] == [3, 1, 0, 3]
    assert [liars("krum", n) for n in (3, 4, 5, 6, 7)] == [0, 0, 1, 1, 2]
    assert [with_fewer(chained("krum"), 3, n) for n in (10, 8, 7, 3, 2, 0)] == [3, 2, 2, 0, None, None]


@pytest.mark.parametrize(
    ("rule", "f", "n", "said"),
    [
        (
            "nnm+krum",
            "auto",
            4,
            "nnm+krum holds against no liar among 4 clients (krum needs n > 2f + 2, auto",
        ),
        ("monna", "auto", 3, "monna holds against no liar among 3 clients (monna needs n > 2f, auto"),
        ("nnm+krum", 0, 4, ""),
        ("nnm+geometric-median", "auto", 4, ""),
        ("mean", "auto", 9, ""),
    ],
)
def test_who_can_bear_no_liar_is_told_before_the_run(rule, f, n, said):
    found = unguarded(chained(rule), f, liars_of(chained(rule), f, n), n)
    assert [text[: len(said)] for text in found] == ([said] if said else [])
