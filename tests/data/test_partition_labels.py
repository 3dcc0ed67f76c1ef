"""Splits by label: iid, dirichlet, shift, interests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Arrays, Dataset, label_counts
from coterie.data.partition import Deal, Dirichlet, Iid, Interests, Shift, Split
from coterie.data.partition.dirichlet import draw, log_gamma_draws, repair
from coterie.data.partition.interests import draw_sizes, statistics
from coterie.data.partition.shift import DISTRIBUTIONS, rebinned, shifted

LABEL_SPLITS: list[Split] = [
    Iid(),
    Dirichlet(alpha=0.0001, minimum=2),
    Dirichlet(alpha=0.3, minimum=2),
    Dirichlet(alpha=0.0001, minimum=2, balance=True),
    Dirichlet(alpha=1e9, minimum=2),
    Shift("A"),
    Shift("G", order="file"),
    Interests(minimum=2),
    Interests(p=1, sizes="exponential", minimum=2),
]


def pool(y: np.ndarray) -> Arrays:
    return Arrays(np.zeros((len(y), 1)), y.astype(np.int64))


def balanced(rows: int, classes: int = 10, test: int = 0) -> Dataset:
    """Each class equally often, one after another."""
    names = tuple(map(str, range(classes)))
    held = pool(np.arange(test) % classes) if test else None
    return Dataset("toy", "classification", pool(np.arange(rows) % classes), held, classes=names)


def random_dataset(seed: int, rows: int, classes: int) -> Dataset:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(classes))
    train, test = (pool(rng.choice(classes, n, p=weights)) for n in (rows, max(rows // 5, 1)))
    return Dataset("toy", "classification", train, test, classes=tuple(map(str, range(classes))))


def table(deal: Deal, rows: Arrays, classes: int = 10) -> np.ndarray:
    return label_counts(rows.y, deal.owner, len(deal.names), classes)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    split=st.sampled_from(LABEL_SPLITS),
    clients=st.integers(1, 12),
    classes=st.integers(2, 12),
    rows=st.integers(120, 400),
)
def test_nothing_is_lost_or_dealt_twice(
    seed: int, split: Split, clients: int, classes: int, rows: int
) -> None:
    data = random_dataset(seed, rows, classes)
    for part in data.pools:
        try:
            deal = split.deal(data, part, clients, Key(seed))
        except BadInput:
            refused = part is data.train and isinstance(split, Shift)  # its few classes are too rare here
            if not refused:
                raise
            return
        again = split.deal(data, part, clients, Key(seed))
        assert (deal.owner == again.owner).all()
        assert deal.notes == again.notes
        assert len(deal.owner) == len(part)
        assert deal.owner.min() >= -1
        assert deal.owner.max() < clients == len(set(deal.names))
        counts = table(deal, part, classes)
        nobody = int((deal.owner < 0).sum())
        assert counts.sum() + nobody == len(part)
        assert (counts.sum(axis=0) <= np.bincount(part.y, minlength=classes)).all()
        said = " ".join(deal.notes)
        assert (f"rows that no client gets: {nobody} of {len(part)}" in said) == (nobody > 0)
        assert ("clients that get none" in said) == bool((counts.sum(axis=1) == 0).any())
        if part is data.train:
            assert counts.sum(axis=1).min() >= 2
            if not isinstance(split, Shift):
                assert nobody == 0


@pytest.mark.parametrize("split", [s for s in LABEL_SPLITS if getattr(s, "order", "") != "file"], ids=repr)
def test_the_seed_decides(split: Split) -> None:
    data = balanced(400)
    deals = [split.deal(data, data.train, 8, Key(seed)).owner for seed in (0, 0, 1)]
    assert (deals[0] == deals[1]).all()
    assert (deals[0] != deals[2]).any()


# iid


@given(st.integers(2, 300), st.integers(1, 40))
def test_iid_sizes_differ_by_at_most_one(rows: int, clients: int) -> None:
    data = balanced(max(rows, 2 * clients))
    sizes = np.bincount(Iid().deal(data, data.train, clients, Key(0)).owner, minlength=clients)
    assert sizes.max() - sizes.min() <= 1


def test_iid_by_default_has_ten_clients_and_says_when_test_rows_run_out() -> None:
    data = balanced(40, test=7)
    assert Iid().deal(data, data.train, None, Key(0)).names[-1] == "client-9"
    assert data.test is not None
    assert Iid().deal(data, data.test, None, Key(0)).notes == ("clients that get none of 7 rows: 3 of 10",)


# dirichlet


def test_gamma_draws_have_the_right_mean_and_do_not_underflow() -> None:
    rng = np.random.default_rng(0)
    for alpha in (0.1, 2.0, 50.0):
        assert np.exp(log_gamma_draws(alpha, 50_000, rng)).mean() == pytest.approx(alpha, rel=0.03)
    tiny = log_gamma_draws(1e-8, 1000, rng)
    assert np.isfinite(tiny).all()
    assert len(np.unique(tiny)) == 1000


def test_shares_have_the_variance_of_a_dirichlet() -> None:
    # Var of one share is (1/N)(1 - 1/N) / (N alpha + 1)
    supply, rng = np.full(4000, 1000), np.random.default_rng(0)
    shares = draw(supply, 5, 0.4, False, rng) / 1000
    assert shares.mean() == pytest.approx(0.2)
    assert shares.var() == pytest.approx(0.2 * 0.8 / (5 * 0.4 + 1), rel=0.05)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    alpha=st.sampled_from([0.3, 0.0001]),
    classes=st.integers(2, 60),
    each=st.integers(10, 30),
)
def test_four_clients_at_the_papers_alphas_have_data_to_train_and_test_on(
    seed: int, alpha: float, classes: int, each: int
) -> None:
    data = balanced(each * classes + 40, classes, test=4 * classes)
    assert data.test is not None
    split = Dirichlet(alpha)
    train, test = (table(split.deal(data, p, 4, Key(seed)), p, classes) for p in data.pools)
    assert train.sum() == len(data.train)
    assert test.sum() == len(data.test)
    assert train.sum(axis=1).min() >= 10
    assert test.sum(axis=1).min() >= 1
    if alpha == 0.0001 and classes >= 8:  # enough for one of the draws, as it is, to give everybody some
        whole = (train > 0).sum(axis=0) == 1
        assert (~whole).sum() <= 3  # a class is shared about once in a thousand
        assert ((test > 0) == (train > 0))[:, whole].all()
    dealt = deal_clients(data, split, 4, Key(seed))  # single classes are what the split aims at
    assert [len(c.train) for c in dealt.clients] == train.sum(axis=1).tolist()
    assert [len(c.test) for c in dealt.clients] == test.sum(axis=1).tolist()


def test_ten_clients_and_ten_classes_are_repaired_by_moving_whole_classes() -> None:
    data = balanced(1000, test=200)
    deal = Dirichlet(alpha=0.0001).deal(data, data.train, 10, Key(0))
    counts = table(deal, data.train)
    assert sorted(counts.max(axis=1)) == [100] * 10
    assert ((counts > 0).sum(axis=1) == 1).all()
    assert "none of 50 Dirichlet draws with alpha=0.0001 gave each of 10 clients 10" in deal.notes[0]
    assert data.test is not None
    tested = Dirichlet(alpha=0.0001).deal(data, data.test, 10, Key(0))
    assert (table(tested, data.test) * 5 == counts).all()
    assert tested.notes == ()


def test_repair_by_hand() -> None:
    # client 2 takes the smaller spare class of client 0; client 3 half of what is then the largest holding
    counts = np.array([[40, 30], [0, 80], [0, 0], [0, 0]])
    fixed, whole, halves, singles = repair(counts, 10)
    assert fixed.tolist() == [[40, 0], [0, 40], [0, 30], [0, 40]]
    assert (whole, halves, singles) == (1, 1, 0)
    fixed, whole, halves, singles = repair(np.array([[6, 6], [0, 0]]), 5)
    assert fixed.tolist() == [[0, 6], [6, 0]]
    fixed, whole, halves, singles = repair(np.array([[3, 3, 2], [0, 0, 0]]), 4)
    # no holding has 4 rows: a single row first, then a holding of 3 can go
    assert fixed.tolist() == [[2, 0, 2], [1, 3, 0]]
    assert (whole, halves, singles) == (1, 0, 1)


def test_a_huge_alpha_is_nearly_iid() -> None:
    data = balanced(1000)
    counts = table(Dirichlet(alpha=1e12).deal(data, data.train, 10, Key(0)), data.train)
    assert np.abs(counts - 10).max() <= 1


def test_balance_keeps_sizes_near_each_other() -> None:
    data = balanced(2000)
    sizes = {
        balance: table(Dirichlet(0.1, balance=balance).deal(data, data.train, 5, Key(3)), data.train).sum(
            axis=1
        )
        for balance in (False, True)
    }
    assert sizes[True].max() <= 400 + 200  # below an equal part before its last class came
    assert np.ptp(sizes[True]) < np.ptp(sizes[False])


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from([0.0001, 0.1, 1.0, 100.0]), st.integers(1, 10))
def test_test_rows_follow_each_clients_training_rows(seed: int, alpha: float, clients: int) -> None:
    data = random_dataset(seed, 300, 5)
    assert data.test is not None
    split = Dirichlet(alpha, minimum=5)
    train = table(split.deal(data, data.train, clients, Key(seed)), data.train, 5)
    deal = split.deal(data, data.test, clients, Key(seed))
    test = table(deal, data.test, 5)
    quota = test.sum(axis=0) * train / np.maximum(train.sum(axis=0), 1)
    off = np.abs(test - quota)
    topped_up = any("were given" in note for note in deal.notes)
    assert (off < 1).all() or topped_up
    assert (test.sum(axis=1) > 0).all() or any("clients that get none" in note for note in deal.notes)


def test_dirichlet_refuses_what_cannot_be() -> None:
    for alpha in (0.0, -1.0, 1e-9, float("inf"), float("nan")):
        with pytest.raises(BadInput, match=r"alpha=.* must lie between 1e-08 and 1e\+12: try 0\.3"):
            Dirichlet(alpha=alpha)
    with pytest.raises(BadInput, match="minimum=1 must be at least 2"):
        Dirichlet(minimum=1)
    data = balanced(90)
    with pytest.raises(BadInput, match=r"10 clients need 100 .* at most 9 client\(s\) or for minimum=9"):
        Dirichlet().deal(data, data.train, 10, Key(0))


# shift


def test_the_papers_table_adds_up_and_c_is_a_quarter_each() -> None:
    assert all(len(d) == 10 and abs(sum(d) - 1) < 1e-9 for d in DISTRIBUTIONS.values())
    assert DISTRIBUTIONS["C"] == (0.25,) * 4 + (0.0,) * 6


def test_b_starts_at_four_five_six_and_moves_left() -> None:
    data = balanced(1000)
    deal = Shift("B").deal(data, data.train, 10, Key(0))
    counts = table(deal, data.train)
    assert counts[0].tolist() == [0, 0, 0, 0, 20, 60, 20, 0, 0, 0]
    assert counts[1].tolist() == [0, 0, 0, 20, 60, 20, 0, 0, 0, 0]
    assert counts[9].tolist() == [0, 0, 0, 0, 0, 20, 60, 20, 0, 0]
    assert deal.notes == ()
    assert deal.one_class


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("agents", [10, 50])
def test_the_papers_agents_share_out_every_row_in_equal_sizes(distribution: str, agents: int) -> None:
    data = balanced(60_00, test=1000)
    for part in data.pools:
        deal = Shift(distribution).deal(data, part, agents, Key(0))
        counts = table(deal, part)
        each = len(part) / agents
        assert deal.owner.min() == 0
        assert np.abs(counts.sum(axis=1) - each).max() <= 1
        quota = each * shifted(np.array(DISTRIBUTIONS[distribution]), agents)
        assert np.abs(counts - quota).max() <= 1


def test_with_few_agents_the_distribution_is_kept_and_the_surplus_counted() -> None:
    data = balanced(1000)
    deal = Shift("B").deal(data, data.train, 4, Key(0))
    counts = table(deal, data.train)
    assert counts[0].tolist() == [0, 0, 0, 0, 20, 60, 20, 0, 0, 0]
    assert counts[3].tolist() == [0, 20, 60, 20, 0, 0, 0, 0, 0, 0]
    assert deal.notes == ("rows that no client gets: 600 of 1000, as no client's share covers them",)


def test_file_order_gives_the_first_rows_to_the_first_agents() -> None:
    data = balanced(100, classes=2)
    deal = Shift(shares=(0.5, 0.5), order="file").deal(data, data.train, 2, Key(0))
    assert deal.owner.tolist() == [0] * 50 + [1] * 50


def test_own_shares_and_other_numbers_of_classes() -> None:
    data = balanced(300, classes=3)
    counts = table(Shift(shares=(0.7, 0.2, 0.1)).deal(data, data.train, 3, Key(0)), data.train, 3)
    assert counts.tolist() == [[70, 20, 10], [20, 10, 70], [10, 70, 20]]
    assert rebinned(np.array(DISTRIBUTIONS["B"]), 2) == pytest.approx([0.2, 0.8])
    assert rebinned(np.array(DISTRIBUTIONS["A"]), 7) == pytest.approx([1 / 7] * 7)
    assert rebinned(np.array(DISTRIBUTIONS["E"]), 20).sum() == pytest.approx(1)
    assert "was rebinned to 3" in Shift("B").deal(data, data.train, 3, Key(0)).notes[0]


def test_shift_refuses_what_it_cannot_do() -> None:
    with pytest.raises(UnknownName, match="unknown distribution 'H': known are A, B"):
        Shift("H")
    with pytest.raises(UnknownName, match="did you mean file"):
        Shift(order="files")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"add up to 1, not 0\.9"):
        Shift(shares=(0.5, 0.4))
    with pytest.raises(BadInput, match="must be at least 0"):
        Shift(shares=(1.5, -0.5))
    data = balanced(100)
    with pytest.raises(BadInput, match="2 shares for 10 classes"):
        Shift(shares=(0.5, 0.5)).deal(data, data.train, 2, Key(0))
    lonely = Dataset("toy", "classification", pool(np.zeros(50)), classes=tuple("0123456789"))
    with pytest.raises(BadInput, match="client-0 of 4 would get 0 training rows, at least 2 are needed"):
        Shift("B").deal(lonely, lonely.train, 4, Key(0))


# interests


def test_statistics_by_hand() -> None:
    # sizes 1 and 3, two classes, p = 1/2: columns [1, 1.5] and [.5, 3], normalised
    expected = [[1 / 2.5, 0.5 / 3.5], [1.5 / 2.5, 3 / 3.5]]
    assert statistics(np.array([1.0, 3.0]), 2, 0.5) == pytest.approx(np.array(expected))
    # favourites go round
    assert statistics(np.ones(12), 10, 0.25).argmax(axis=1).tolist() == [*range(10), 0, 1]


@pytest.mark.parametrize("kind", ["uniform", "exponential", "equal"])
def test_sizes_are_sorted_and_above_zero(kind: str) -> None:
    sizes = draw_sizes(kind, 50, np.random.default_rng(0))
    assert (np.diff(sizes) >= 0).all()
    assert sizes[0] > 0


def test_interests_follow_the_statistics_in_both_pools() -> None:
    data = balanced(40_000, test=20_000)
    key = Key(5)
    shares = statistics(draw_sizes("uniform", 10, key.at("clients").numpy()), 10, 0.25)
    for part in data.pools:
        found = table(Interests().deal(data, part, 10, key), part) / (len(part) / 10)
        assert np.abs(found - shares).max() < 5 * np.sqrt(0.25 / (len(part) / 10))


def test_small_clients_are_given_rows_and_a_note_says_so() -> None:
    data = balanced(1000)
    deal = Interests().deal(data, data.train, 80, Key(0))
    assert np.bincount(deal.owner, minlength=80).min() == 10
    assert "clients that were given others' rows, as they would have had fewer than 10 of" in deal.notes[0]


def test_interests_refuse_mistakes() -> None:
    for p in (0.0, 1.01, float("nan")):
        with pytest.raises(BadInput, match=r"p=.* must lie above 0 and be at most 1: try 0\.25"):
            Interests(p=p)
    with pytest.raises(UnknownName, match="did you mean uniform"):
        Interests(sizes="unifrom")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="minimum=0 must be at least 2"):
        Interests(minimum=0)
