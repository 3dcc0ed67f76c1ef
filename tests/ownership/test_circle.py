"""Who is kept out of whose sums, what is summed without them, and that nobody gets in by another way."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_sums import FULL, KEY, at_sites, flat, table

from coterie.core.errors import BadInput, Refused, UnknownName
from coterie.core.held import hold
from coterie.core.method import common
from coterie.core.net import Net, to_own
from coterie.core.seeds import Key
from coterie.features.judgement.wrapper import Circle
from coterie.features.ownership.shown import withdrawals
from coterie.features.ownership.wrapper import Ownership
from coterie.features.ranking.shown import sentences
from coterie.methods import DPSGD, METHODS, Ndoye, WeightErosion
from coterie.nets import wrapped as in_wrappers
from coterie.nets.ground import admit, check_wraps
from coterie.nets.offers import written
from coterie.runs.builder import prepare
from coterie.runs.hooks import around
from coterie.runs.loop import run
from coterie.runs.settings import Settings

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))
from table import method_of, net_for, play, start_of


def wrapped(net, wraps):
    """As a run has it: in the wrappers that were asked for, and in those that these need."""
    return around(in_wrappers(net, wraps), DPSGD())


def first(value=0.0):
    return hold({"weight": table(value).reshape(1, 1, 1)}, torch.tensor([-1]))


# by hand


def test_a_sum_without_who_is_kept_out_and_others_untouched(pull):
    plain, weights = pull(0, 0, 0), table([0.5, 0.3, 0.2], [0.1, 0.7, 0.2], [1 / 3, 1 / 3, 1 / 3])
    net = wrapped(plain, ["circle:of=c0,among=c2"])
    before = flat(plain.mix(weights, at_sites(1, 2, 4), torch.arange(3)))
    after = flat(net.mix(weights, at_sites(1, 2, 4), torch.arange(3)))
    assert after[0] == pytest.approx((0.5 * 1 + 0.2 * 4) / 0.7)
    assert after[1:] == before[1:]  # to the last bit
    assert net.figures() == {"kept_out": [{"site": "c1", "receiver": "c0"}]}
    assert net.figures() == {}


def test_vetoes_and_circles_add_up(pull):
    net = wrapped(
        pull(0, 0, 0, 0), ["circle:of=c0,among=c1+c2", "circle:of=c0,without=c2", "circle:of=c3,among=c3"]
    )
    quarter = torch.full((4, 4), 0.25).double()
    assert flat(net.mix(quarter, at_sites(1, 2, 4, 9), torch.arange(4))) == [1.5, 4, 4, 9]
    turn = net.mix(quarter[:1], at_sites(1, 2, 4, 9), torch.tensor([0]), in_turn=True)
    assert flat(turn) == [1.5]


def test_a_round_of_gossip_says_what_it_mixed(pull):
    """All begin at 0 and go half of the way to 2, 4 and 8; then each averages with all."""
    net, method = wrapped(pull(2, 4, 8), ["circle:of=c1,without=c0"]), DPSGD(FULL)
    after, info = method.round(method.init(first(), net), net, KEY)
    assert flat(after.beliefs) == pytest.approx([7 / 3, 3, 7 / 3])
    rows = table([1 / 3, 1 / 3, 1 / 3], [0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3])
    torch.testing.assert_close(net.as_mixed(info.weights, info.mixed), rows)


def test_a_round_of_weight_erosion(pull):
    """c0's replies are 1, 2 and 4, apart by 0, 1 and 3 of its own length: α = 1, 0.95 and 0.85."""
    method = WeightErosion(FULL, requester="c0", p_d=0.05)
    net = wrapped(pull(2, 4, 8), ["circle:of=c0,among=c1"])
    after, info = method.round(method.init(first(), net), net, KEY)
    assert info.weights[0].tolist() == pytest.approx([1 / 2.8, 0.95 / 2.8, 0.85 / 2.8])
    assert net.as_mixed(info.weights, info.mixed)[0].tolist() == pytest.approx([1 / 1.95, 0.95 / 1.95, 0])
    assert flat(after.beliefs) == [pytest.approx((1 + 0.95 * 2) / 1.95)]


def test_a_published_circle_is_the_approved_one_at_most(pull):
    """All are alike, so that each is in each circle with a third."""
    net = wrapped(pull(1, 1, 1), ["circle:of=c0,among=c1"])
    method = Ndoye(FULL, folds=0, best=0, threshold=1e9, bar="none")
    ranked, info = method.round(method.init(first(), net), net, KEY)
    circles = [[0.5, 0.5, 0.0], *[[pytest.approx(1 / 3)] * 3] * 2]
    assert net.as_mixed(info.weights, info.mixed).tolist() == circles
    assert net.figures() == {"kept_out": [{"site": "c2", "receiver": "c0"}]}
    _, trained = method.round(ranked, net, Key(0).at_round(2, 3))
    assert net.as_mixed(trained.weights, trained.mixed).tolist() == circles
    assert net.figures() == {}  # it is not in these sums any more


def test_who_is_kept_out_is_not_asked_and_others_are_told_of_what_will_be(pull):
    """Without c2, c1 makes up half of c0's sum, which is more than its bound."""
    net = wrapped(pull(0, 0, 0), ["circle:of=c0,without=c2", "ownership:share_at_most=0.4,sites=c1+c2"])
    mixed = net.mix(table([1 / 3, 1 / 3, 1 / 3]), at_sites(1, 2, 4), torch.tensor([0]))
    assert flat(mixed) == [1]
    told = net.figures()
    assert [(w["site"], w["share"], w["others"]) for w in told["withdrawals"]] == [("c1", 0.5, 0)]
    assert told["kept_out"] == [{"site": "c2", "receiver": "c0"}]


@settings(max_examples=25)
@given(
    st.integers(2, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n),
            st.integers(0, n - 1),
            st.sets(st.integers(0, n - 1)),
        )
    )
)
def test_weights_add_up_to_one_and_who_is_out_has_none(drawn):
    rows, of, among = drawn
    n = len(rows)
    raw = table(*rows) + torch.eye(n)
    weights = raw / raw.sum(dim=1, keepdim=True)

    class Sites(Net):
        roster = type("R", (), {"names": [f"c{i}" for i in range(n)], "members": ()})()

        def mix(self, weights, beliefs, at, in_turn=False):
            return hold({"weight": weights}, at)  # what it would sum by

    spec = f"circle:of=c{of},among={written([f'c{i}' for i in sorted(among | {of})])}"
    found = wrapped(Sites(), [spec]).mix(weights, at_sites(*range(n)), torch.arange(n)).tensors["weight"]
    out = [i for i in range(n) if i not in among | {of}]
    torch.testing.assert_close(found.sum(dim=1), torch.ones(n).double())
    assert not found[of, out].any()
    keep = [i for i in range(n) if i not in out]
    torch.testing.assert_close(found[of, keep], weights[of, keep] / weights[of, keep].sum())
    others = [i for i in range(n) if i != of]
    assert torch.equal(found[others], weights[others])


# no other way


def test_no_whole_model_and_none_beside_its_work(pull):
    net = wrapped(pull(0, 0, 0), ["circle:of=c0,without=c1"])
    held = at_sites(1, 2, 4)
    net.deliver(held, torch.tensor([1, 2]), torch.tensor([2, 0]))
    net.visit(FULL, held, to_own(3), KEY, beside={"anchor": held})
    turned = held.rows(torch.tensor([2, 1, 0]))
    net.visit(FULL, held, to_own(3), KEY, beside={"anchor": turned})
    for ways in (
        lambda: net.deliver(held, torch.tensor([1]), torch.tensor([0])),
        lambda: net.share(held, torch.tensor([0])),
        lambda: net.visit(FULL, held, to_own(3), KEY, beside={"anchor": held.rows(torch.tensor([1]))}),
        lambda: net.visit(FULL, held, to_own(3), KEY, beside={"a": held.rows(torch.tensor([1, 0, 2]))}),
    ):
        with pytest.raises(Refused, match=r"c1 would hand its whole model to c0, out of whose circle"):
            ways()


@pytest.mark.parametrize("row", [*METHODS, "pens in turn, stopping", "random by a rule"])
def test_no_method_takes_in_who_is_kept_out(row):
    """It is refused before it begins, or its record has nothing of the pair."""
    method, start = method_of(row), start_of("dropout", torch.float64)
    inner, wraps = net_for("loop", "dropout", torch.float64, 0.3), ["circle:of=c3,without=c1+c2"]
    if common(method) or method.reveals().opened or not method.reveals().sites:
        with pytest.raises(BadInput, match=r"leave c1, c2 out of the run \(--wrap without:names=c1\+c2\)"):
            admit(wraps, method, inner.roster)
        return
    admit(wraps, method, inner.roster)
    sums, over = list[dict](), Ownership.keep

    def keep(self, live, round):
        sums.append(dict(self.notes.sums))
        over(self, live, round)
        self.notes.sums = {}

    net = wrapped(inner, wraps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ownership, "keep", keep)
        infos = play(method, net, start, rounds=2).infos
    for info, some in zip(infos, sums[-len(infos) :], strict=True):
        net.notes.sums = some
        weights = net.as_mixed(info.weights, info.mixed)
        assert not weights[3, [1, 2]].any()
        assert float(weights[3].sum()) == pytest.approx(1) or not weights[3].any()


def test_a_record_that_has_them_in_it_all_the_same_is_refused(pull):
    """Whatever a method of somebody's own may do with models."""
    net = wrapped(pull(0, 0), ["circle:of=c0,without=c1"])
    with pytest.raises(Refused, match="the model of c0 has taken in c1, who is kept out of its circle"):
        net.as_mixed(table([0.5, 0.5], [0.5, 0.5]), mixed=False)


# runs


def played(wrap, method="pens", **more):
    asked = Settings(
        data="breast-cancer", clients=4, method=method, rounds=3, wrap=wrap, validation=0.2, **more
    )
    experiment = prepare(asked, None)
    try:
        outcome = run(experiment, None, method)
        return experiment.net.peek(outcome.models.beliefs), outcome.record
    finally:
        experiment.net.close()


OTHERS = "client-0+client-1+client-3"


def test_a_circle_of_everybody_changes_no_bit():
    one, plain = played(())
    other, same = played((f"circle:of=client-2,among={OTHERS}",))
    assert all(torch.equal(one[name], t) for name, t in other.items())
    assert [m["scores"] for m in plain.metrics] == [m["scores"] for m in same.metrics]


def test_sealed_and_with_some_who_are_absent():
    wrap, method = "circle:of=client-2,among=client-0", "weight-erosion"
    clear, one = played(("absent=0.3", wrap), method)
    sealed, other = played((wrap, "absent=0.3", "sealed=1"), method)
    told = [[m["extras"].get("kept_out", []) for m in r.metrics] for r in (one, other)]
    assert told[0] == told[1]
    assert {(t["site"], t["receiver"]) for some in told[0] for t in some} == {
        ("client-1", "client-2"),
        ("client-3", "client-2"),
    }
    for r, weights in one.weights.items():
        assert not weights[2, [1, 3]].any()
        np.testing.assert_allclose(other.weights[r], weights, atol=1e-5)
    for name, t in clear.items():
        torch.testing.assert_close(sealed[name], t, rtol=0, atol=1e-5)


def test_a_ranking_says_who_was_kept_out():
    options = {"ndoye": {"folds": 2, "passes": 1, "best": 0, "bar": "none"}}
    _, record = played(("circle:of=client-2,among=client-0",), "ndoye", options=options)
    assert withdrawals(record) == [
        "client-1, client-3 were kept out of what client-2 mixes in 1 of 3 rounds (1), as was decided"
    ]
    assert sentences(record)["client-2"].startswith("client-0; because")
    _, record = played(("circle:of=client-2,among=client-2",), "ndoye", options=options)
    said = sentences(record)["client-2"]
    assert said.startswith("nobody; because client-")
    assert said.endswith("are kept out of the circle of client-2, as was decided")


# mistakes


@pytest.mark.parametrize(
    ("wraps", "words"),
    [
        (["circle"], "circle needs whose it is and who is in it"),
        (["circle=a"], "circle needs whose it is and who is in it"),
        (["circle:of=a+b,among=c"], "names several: write a circle for each"),
        (["ownership=0.5", "circle:of=a,among=b"], "write --wrap circle:... ownership"),
    ],
)
def test_mistakes_are_said_before_anything_runs(wraps, words):
    with pytest.raises(BadInput, match=words.replace("...", r"\.\.\.")):
        check_wraps(wraps)


def test_names_are_known_and_one_is_not_without_itself(pull):
    for spec in ("circle:of=x,among=c1", "circle:of=c0,among=x", "circle:of=c0,without=x"):
        with pytest.raises(UnknownName, match="unknown client 'x'"):
            wrapped(pull(0, 0), [spec])
    with pytest.raises(BadInput, match="cannot be without c0 itself"):
        Circle(pull(0, 0), of="c0", without="c0")
