"""Whole runs with the wrapper: figures worked out by hand, nothing changed by looking, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.core import belief as tree
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput, BadInputs
from coterie.core.options import table_of
from coterie.core.roster import roster_of
from coterie.engines import ENGINES
from coterie.kernels import SGD
from coterie.methods import METHODS
from coterie.nets import NETS
from coterie.nets.ground import check_wraps, shown_by
from coterie.runs.experiment import experiment_of
from coterie.runs.folder import Folder, read_record
from coterie.runs.loop import run
from coterie.runs.settings import recorded
from coterie.sites.setup import Setup

ALL = "contributions:by=first-order+leave-one-out+shapley+gtg+exact-shapley,permutations=16"


def part(*pairs) -> Samples:
    x, y = torch.tensor(pairs, dtype=torch.float32).reshape(-1, 2).T
    return Samples(x[:, None].contiguous(), y.contiguous())


def by_hand(method: str, by: str, **options):
    """Two clients and one weight, 0 at first: a has loss 2.5 (w - 2)² and replies 1, b (w - 1)² and 0.2."""
    a = Client("a", part((1, 2), (2, 4)), part((1, 2)), part())
    b = Client("b", part((1, 1), (-1, -1), (1, 1), (-1, -1)), part((1, 3)), part())
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    setup = Setup((a, b), roster_of([a, b]), model, tree.stack([tree.belief_of(model)]), ())
    way = METHODS.make(method, local=SGD(lr=0.1), **options)
    config = {"method": method, "rounds": 1, "seed": 0, "evaluate": 1, "checkpoint": 1}
    config |= {"wrap": [f"contributions:by={by}"], method: table_of(way)}
    made = experiment_of(
        setup,
        recorded(config),
        way,
        connector=NETS.make("in-process"),
        engine=ENGINES.make("loop"),
        command=None,
    )
    return run(made, None, method).record.contributions()


# w̄ = (2 · 1 + 4 · 0.2) / 6 = 7/15; worth to a of nobody -10, of a -2.5, of b -8.1, of both -2.5 (23/15)²
BOTH_A, BOTH_B = -2.5 * (23 / 15) ** 2, -((8 / 15) ** 2)
LEFT_OUT = [[BOTH_A + 8.1, BOTH_A + 2.5], [BOTH_B + 0.64, BOTH_B + 0]]
SHAPLEY = [
    [(7.5 + LEFT_OUT[0][0]) / 2, (1.9 + LEFT_OUT[0][1]) / 2],
    [(1.0 + LEFT_OUT[1][0]) / 2, (0.36 + LEFT_OUT[1][1]) / 2],
]
# slopes at 0: -10 and -2 to a and b; at a ⟨∇, a_j⟩ = -10, -2, their mean -14/3; at b -2, -0.4 and -14/15
FIRST = [[0.5 * (10 - 14 / 3), 2 * (2 - 14 / 3)], [0.5 * (2 - 14 / 15), 2 * (0.4 - 14 / 15)]]


@pytest.mark.parametrize(
    ("by", "values"),
    [("leave-one-out", LEFT_OUT), ("exact-shapley", SHAPLEY), ("shapley", SHAPLEY), ("first-order", FIRST)],
)
def test_two_clients_by_hand(by, values):
    """The same for one model of a server, and for one's own where all start alike and weigh by size."""
    found = by_hand("fedavg", by).estimates[by]
    own = by_hand("weight-erosion", by, p_d=0, beta="size").estimates[by]
    for estimate in (found, own):
        assert estimate.value == pytest.approx(np.array(values), rel=1e-5)
        assert estimate.given == pytest.approx([values[1][0], values[0][1]], rel=1e-5)
        assert estimate.rows == "train"
    assert not found.half.any()


def test_a_server_that_goes_half_way_keeps_its_old_model_in_every_sum():
    """v(S) = L((1 - s) · 0 + s · mean of S): worth to a of a alone with s = 0.5 is -2.5 · 1.5²."""
    found = by_hand("weight-erosion", "leave-one-out", p_d=0, beta="size", server_step=0.5)
    both = -2.5 * (2 - 7 / 30) ** 2
    expected = [both + 2.5 * 1.9**2, both + 2.5 * 1.5**2]
    assert found.estimates["leave-one-out"].value[0] == pytest.approx(expected, rel=1e-5)
    first = by_hand("weight-erosion", "first-order", p_d=0, beta="size", server_step=0.5)
    assert first.estimates["first-order"].value[0] == pytest.approx(np.array(FIRST[0]) / 2, rel=1e-5)


VALUED = {
    "fedavg": {},
    "weight-erosion": {},
    "d-psgd": {},
    "pens": {"order": "at-once"},
    "influence": {"folds": 2},
    "one-shot-fedavg": {},
}
NOT_VALUED = {
    "local": "no replies were summed up",
    "central": "no replies were summed up",
    "d-psgd": "had not been trained by their receiver",
    "fl-swag": "not trained in that round",
}


@pytest.mark.parametrize("method", VALUED)
def test_looking_changes_nothing(played, method):
    """Bit for bit, with absent sites too."""
    plain = played(method, ["absent=0.2"], options=VALUED[method])
    looked = played(method, ["absent=0.2", ALL], options=VALUED[method])
    assert len(plain.metrics) == len(looked.metrics)
    for one, two in zip(plain.metrics, looked.metrics, strict=True):
        extras = {k: v for k, v in two["extras"].items() if k != "contributions"}
        assert one == {**two, "extras": extras}
    for r in plain.weights:
        assert (np.asarray(plain.weights[r]) == np.asarray(looked.weights[r])).all()
    for name, model in plain.models().items():
        assert all(torch.equal(t, looked.models()[name][n]) for n, t in model.items())
    found = looked.contributions()
    assert set(found.estimates) == {"first-order", "leave-one-out", "shapley", "gtg", "exact-shapley"}
    looks = {"influence": "not trained in that round", "one-shot-fedavg": "no replies were summed up"}
    assert all(looks.get(method, "nothing") in why for why in found.unvalued)
    shapley, exact = found.estimates["shapley"], found.estimates["exact-shapley"]
    assert np.isfinite(exact.value).any()
    assert (np.isfinite(shapley.value) == np.isfinite(exact.value)).all()
    senders = np.isfinite(exact.value) & ~np.eye(5, dtype=bool)
    assert (found.times[senders] > 0).all()  # who was away, or not listened to, is no player


@pytest.mark.parametrize("method", NOT_VALUED)
def test_where_there_is_nothing_to_value_it_is_said(played, method):
    options = {"order": "program"} if method == "d-psgd" else None
    kernel = "swag" if method == "fl-swag" else "sgd"
    found = played(method, ["contributions=leave-one-out"], options=options, kernel=kernel).contributions()
    assert found.asked
    assert not found.estimates
    assert any(NOT_VALUED[method] in why for why in found.unvalued)


def test_shapley_values_of_a_requester_add_up_to_what_the_round_changed(played):
    """On the rows they were judged by: its validation loss before and after."""
    record = played("weight-erosion", ["contributions=exact-shapley"], rounds=1)
    before, after = (np.array(m["scores"]["own/validation"]["loss"]) for m in record.metrics)
    value = record.contributions().estimates["exact-shapley"].value
    assert value.sum(axis=1) == pytest.approx(before - after, abs=1e-5)


def test_rounds_between_are_left_out_and_the_last_is_not(played):
    record = played("fedavg", ["contributions:by=leave-one-out,every=2"], rounds=5)
    looked = [m["round"] for m in record.metrics if "contributions" in m["extras"]]
    assert looked == [2, 4, 5]
    assert record.contributions().estimates["leave-one-out"].rounds == 3


@pytest.mark.parametrize("method", ["fedavg", "weight-erosion"])
def test_first_order_is_the_same_sealed(played, method):
    clear = played(method, ["contributions"]).contributions().estimates["first-order"].value
    sealed = played(method, ["sealed", "contributions"])
    value = sealed.contributions().estimates["first-order"].value
    assert value == pytest.approx(clear, abs=1e-6 * np.nanmax(np.abs(clear)))
    assert all(m["extras"]["sealed"]["shown"] == 0 for m in sealed.metrics[1:])


def test_peers_are_not_valued_sealed(played):
    found = played("d-psgd", ["sealed:leverage=1", "contributions"]).contributions()
    assert list(found.unvalued) == ["first-order, sealed, takes answers to one belief alone"]


@pytest.mark.parametrize(
    ("wraps", "said"),
    [
        (
            ["contributions=nonsense"],
            "unknown estimate 'nonsense': known are exact-shapley, first-order, gtg",
        ),
        (["contributions:permutations=3"], "permutations=3 must be at least 16: try 256"),
        (["contributions:level=1"], "level=1.0 must lie between 0 and 1: try 0.999"),
        (["contributions:every=0"], "every=0 must be at least 1"),
        (["contributions:tolerance=2"], "tolerance=2.0 must be at least 0 and below 1"),
        (["sealed", "contributions=gtg"], "gtg sums replies up in so many ways .* take by=first-order"),
        (["contributions", "sealed"], "sealed comes after it: write --wrap sealed contributions"),
        (["contributions", "absent=0.1"], "absent comes after it: write --wrap absent contributions"),
        (
            ["private", "contributions"],
            "outside of any budget: leave the wrapper private or contributions out",
        ),
        (["ownership:share_at_most=0.5", "contributions"], "write --wrap contributions ownership"),
        (["contributions=gtg", "ownership:share_at_most=0.5"], "limits on sums: take by=first-order"),
    ],
)
def test_refused_in_one_line(wraps, said):
    with pytest.raises(BadInput, match=said) as error:
        check_wraps(wraps)
    assert "\n" not in str(error.value)


def test_mistakes_are_said_at_once():
    with pytest.raises(BadInputs) as error:
        check_wraps(["contributions:by=gtg+x,every=0,level=2"])
    assert len(error.value.lines) == 3


def test_work_with_noise_and_many_clients_are_refused_before_anything_runs(played):
    with pytest.raises(BadInput, match="outside of what the noise of the local work bounds"):
        played("fedavg", ["contributions"], kernel="dp(sgd)")
    with pytest.raises(BadInput, match=r"exact-shapley looks at all 2\^n sets of clients, n <= 12; got n=13"):
        played("fedavg", ["contributions=exact-shapley"], clients=13)


class Cut(Exception):
    """Stands for a kill."""


def test_a_run_that_was_cut_off_has_the_same_section(tmp_path):
    from coterie.runs.builder import prepare
    from coterie.runs.settings import Settings

    wrap = ("contributions:by=first-order+gtg,permutations=16",)
    settings = Settings(data="digits", clients=4, method="weight-erosion", rounds=2, wrap=wrap)

    def go(path, cut=None):
        experiment = prepare(settings, None)
        new = not path.exists()
        folder = Folder.create(path, experiment.config, experiment.about) if new else Folder(path)

        def watch(record):
            if cut is not None and record.done >= cut:
                raise Cut

        try:
            run(experiment, folder, "x", watch)
        except Cut:
            return None
        finally:
            folder.close()
        return read_record(path).contributions()

    whole = go(tmp_path / "whole")
    assert go(tmp_path / "cut", cut=1) is None
    again = go(tmp_path / "cut")
    assert (whole.weight == again.weight).all()
    for name, one in whole.estimates.items():
        two = again.estimates[name]
        for kind in ("value", "half", "given", "around"):
            assert np.array_equal(getattr(one, kind), getattr(two, kind), equal_nan=True), (name, kind)
        assert (one.looks, one.sent, one.rounds) == (two.looks, two.sent, two.rounds)


def test_python_has_it_as_a_table():
    rng = np.random.default_rng(0)
    clients = [
        coterie.Client.from_arrays(rng.normal(size=(40, 3)), rng.integers(0, 2, 40), name=name)
        for name in ("a", "b", "c")
    ]
    result = coterie.train(
        nn.Linear(3, 2), clients, method="fedavg", rounds=2, wrap=["contributions=leave-one-out"]
    )
    frame = result.contributions
    assert set(frame["by"]) == {"rounds", "weight", "leave-one-out"}
    pair = frame[(frame["by"] == "rounds") & (frame["receiver"] == "a") & (frame["sender"] == "b")]
    assert pair["value"].item() == 2
    assert frame[frame["by"] == "weight"].groupby("receiver")["value"].sum().tolist() == pytest.approx(
        [2] * 3
    )


def test_what_is_shown_besides_is_declared_to_sites():
    """A server's sums of some replies go to all who judge them; first order tells distances."""
    reveals, kernels = shown_by(["contributions=gtg"], METHODS.make("fedavg").reveals(), ())
    assert (reveals.sites, [k["name"] for k in kernels]) == (True, ["score"])
    reveals, kernels = shown_by(["contributions"], METHODS.make("fedavg").reveals(), ())
    assert not reveals.sites
    assert {"steepness", "distances"} <= set(reveals.numbers)
    assert [k["name"] for k in kernels] == ["downhill"]
