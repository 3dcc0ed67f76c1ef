"""Methods sealed against methods in the clear; what is refused; what the record says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.core.errors import BadInput, Refused
from coterie.core.held import hold
from coterie.core.seeds import Key
from coterie.features.sealed.wrapper import Sealed, innermost
from coterie.kernels import SGD
from coterie.runs.builder import prepare
from coterie.runs.loop import run
from coterie.runs.settings import Settings

ROUNDS = 15


def played(method, model="logistic", wrap=(), rounds=ROUNDS, lr=0.1, **more):
    kernel = "swag" if method == "fl-swag" else "sgd"
    options = {kernel: {"lr": lr}, "mlp": {"hidden": [16]}, method: more.pop("options", {})}
    used = {k: v for k, v in options.items() if v and (k != "mlp" or model == "mlp")}
    settings = Settings(
        data="digits",
        clients=more.pop("clients", 6),
        model=model,
        method=method,
        kernel=kernel,
        rounds=rounds,
        evaluate=rounds,
        wrap=tuple(wrap),
        options=used,
        **more,
    )
    experiment = prepare(settings, None)
    outcome = run(experiment, None, method)
    tensors = experiment.net.peek(outcome.models.beliefs)
    return {n: t.double() for n, t in tensors.items()}, outcome.record


def apart(left, right):
    return max(float((left[n] - right[n]).abs().max()) for n in left)


@pytest.mark.parametrize(
    ("others", "model"), [((), "logistic"), (("absent=0.3",), "mlp")], ids=["all", "30-percent-away"]
)
@pytest.mark.parametrize("method", ["weight-erosion", "fedavg", "fl-swag", "robust"])
def test_sealed_ends_where_clear_does(method, others, model):
    """Within 1e-5 after 15 rounds, with dropouts."""
    clear, _ = played(method, model, others)
    sealed, record = played(method, model, (*others, "sealed=1"))
    assert apart(clear, sealed) < 1e-5
    told = [m["extras"]["sealed"] for m in record.metrics[1:]]
    assert sum(t["replies"] for t in told) > 0
    assert sum(t["bytes"] for t in told) > 0
    if method != "weight-erosion":  # there, requesters send theirs out to be trained
        assert sum(m["sent"][0] for m in record.metrics) == 0  # no model of a client reached anybody


REST = [
    "d-psgd",
    "finetune",
    "one-shot-fedavg",
    "one-shot-wfedavg",
    "pens",
    "random",
    "gossip",
    "dac",
    "ndoye",
]
REST += ["greedy", "epsilon-greedy", "influence", "local", "bayes-local", "ifca", "cfl", "data-interpolation"]
REST += ["fedprox", "fedadam", "scaffold"]


# what sites do for these, they do for one-shot-fedavg and greedy
COPIES = ("one-shot-wfedavg", "epsilon-greedy")


@pytest.mark.parametrize("method", [pytest.param(m, marks=[pytest.mark.slow] * (m in COPIES)) for m in REST])
def test_every_method_that_opens_nothing_runs_sealed(method):
    options = {"tune": 1} if method == "finetune" else {}
    clear, _ = played(method, rounds=3, options=options)
    sealed, _ = played(method, wrap=("sealed=1",), rounds=3, options=options)
    assert apart(clear, sealed) < 1e-6


def test_batch_norm_and_its_counters():
    """Statistics are averaged, sealed; counters are whole numbers, which come from one sender as they are."""
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(40, 4)) + shift for name, shift in [("a", 0), ("b", 1), ("c", 0.5)]}
    clients = [
        coterie.Client.from_arrays(x, (x.sum(1) > x.sum(1).mean()).astype(int), name=name)
        for name, x in tables.items()
    ]
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))
    found = [coterie.train(model, clients, rounds=3, wrap=wrap).models["a"] for wrap in ((), ("sealed",))]
    clear, sealed = (dict(m.state_dict()) for m in found)
    assert clear["1.num_batches_tracked"] > 0
    for name, t in clear.items():
        assert sealed[name].dtype == t.dtype
        assert torch.allclose(sealed[name].double(), t.double(), atol=1e-6), name


@pytest.mark.parametrize(
    ("method", "wrap", "said"),
    [
        ("guided", "sealed", "guided looks at single models (open), which --wrap sealed rules out"),
        ("fedkg", "sealed", "fedkg looks at single models (open)"),
        ("central", "sealed", "central moves rows, which --wrap sealed rules out"),
        ("bayavg", "sealed", "share: the reply of client-0 would be seen by client-1"),
        ("influence", "sealed", "1.00 of the reply of"),
        ("gossip", "sealed", "1.00 of the reply of"),
        ("pens", "sealed:strict=true,leverage=1", "visit: the reply of client-"),
        ("fedavg", "sealed:bits=40", "bits=40 must lie between 8 and 30"),
        ("fedavg", "sealed=0", "leverage=0.0 must lie above 0"),
        ("fedavg", "sealed:projections=99", "projections=99 must lie between 0 and 64"),
        ("fedavg", "sealed:a=x,b=x,dealer=y", "are not three parties"),
        ("fedavg", "sealed:a=x", "name all three of a, b and dealer"),
        ("fedavg", "sealed:a=x,b=y,dealer=z", "helpers have names in a federation alone"),
        ("fedavg", "sealde", "unknown wrapper 'sealde': did you mean sealed?"),
    ],
)
def test_refusals(method, wrap, said):
    with pytest.raises((BadInput, Refused)) as refused:
        played(method, wrap=(wrap,), rounds=2)
    assert said in str(refused.value)


def test_sites_in_processes_have_no_helpers():
    with pytest.raises(BadInput, match="have no helpers to seal for"):
        played("fedavg", wrap=("sealed",), net="processes", rounds=1, clients=2)


def test_models_that_sites_try_are_counted_as_shown():
    _, record = played("pens", wrap=("sealed=1",), rounds=3, options={"rounds_step1": 2})
    shown = [m["extras"]["sealed"]["shown"] for m in record.metrics[1:]]
    assert shown[0] > 0
    assert shown[2] == 0


def test_what_is_a_reply_is_known_after_a_resume():
    def net():
        return prepare(Settings(data="digits", clients=3, rounds=1, wrap=("sealed",)), None).net.net

    first, again = net(), net()
    start = innermost(first).learner.training.state_dict()
    beliefs = hold({n: torch.stack([t] * 3) for n, t in start.items()}, torch.arange(3))
    edges = torch.tensor([[0, 0], [1, 1], [2, 2]])
    trained = first.visit(SGD(), beliefs, edges, Key(0).at_round(1, 1)).beliefs
    again.restore(first.kept([trained], 1), [trained], 1)
    with pytest.raises(Refused, match="share: the reply of client-0 would be seen by client-1"):
        again.share(trained, torch.arange(3))


def test_long_updates_are_refused_with_the_bound():
    with pytest.raises(BadInput, match=r"has length .* above the 1\.414 that the ring holds at 30 bits"):
        played("weight-erosion", wrap=("sealed:leverage=1,bits=30",), rounds=3, lr=5.0)


def test_who_cannot_seal_its_reply_is_left_out_of_the_round_and_named():
    far = ("liars:kind=scaling,names=client-1+client-4,strength=1e7", "sealed=1")
    none = ("liars:kind=not-a-number,names=client-1+client-4",)
    sealed, record = played("robust", wrap=far, rounds=3)
    clear, _ = played("robust", wrap=none, rounds=3)
    assert apart(clear, sealed) < 1e-5
    for line in record.metrics[1:]:
        assert line["extras"]["left_out"].keys() == {"client-1", "client-4"}
        assert "above the 22.63 that the ring holds" in line["extras"]["left_out"]["client-1"]


def test_distances_to_different_beliefs_are_refused():
    settings = Settings(data="digits", clients=3, rounds=1, wrap=("sealed",))
    net = prepare(settings, None).net.net
    assert isinstance(net, Sealed)
    assert innermost(net) is not net
    start = innermost(net).learner.training.state_dict()
    beliefs = hold({n: torch.stack([t] * 3) for n, t in start.items()}, torch.arange(3))
    edges = torch.tensor([[0, 0], [1, 1], [2, 2]])
    replies = net.visit(SGD(), beliefs, edges, Key(0).at_round(1, 1))
    with pytest.raises(Refused, match="distances between answers to different beliefs"):
        net.distances(replies, torch.tensor([0]), 0)
