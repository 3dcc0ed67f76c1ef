"""The contract: every method on every engine and net, against `loop`, and what holds for every method.

Methods and engines come from their registries: a new one is in the table as soon as it is registered.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json

import pytest
import torch
from table import (
    COPIES,
    NORMED,
    PAIRS,
    PRIVATE,
    ROUNDS,
    ROWS,
    SEED,
    SIZES,
    TOLERANCE,
    assert_same,
    clients_of,
    method_of,
    model_for,
    model_of,
    net_for,
    opened,
    play,
    played,
    remote_of,
    start_of,
    tensors_in,
)

from coterie.core.belief import belief_of, stack
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, handles_in, hold
from coterie.core.kernel import KERNELS
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.features.absence.wrapper import Absent
from coterie.kernels import SGD, Adam
from coterie.methods import METHODS
from coterie.nets import Counting, InProcess
from coterie.storage import checkpoint

NORMAL = ("fedavg", "pens", "fl-swag", "weight-erosion", "scaffold", "apfl", "fedala", *NORMED)
SINGLE = ("fedavg", "pens", "fl-swag", "weight-erosion", "scaffold")
# what batch norm does behind messages or on an engine is the same for methods of one kind: some do
SOME = [(row, model) for row, model in PAIRS if model != "batchnorm" or row in NORMAL]


def daily_but_copies(*told):
    """What sites and engines have to do for a copy, they do for the row that it is one of."""
    return pytest.param(*told, marks=[pytest.mark.slow] * (told[0] in COPIES))


def test_the_table_has_every_method():
    assert {"fedavg", "local", "central", "finetune", "pens", "fl-swag"} <= set(METHODS) <= set(ROWS)
    assert {"loop", "stacked", "pool", "auto"} <= set(ENGINES)


@pytest.mark.parametrize(
    ("row", "model", "engine"),
    [daily_but_copies(row, model, engine) for row, model in SOME for engine in ("stacked", "pool")],
)
def test_every_engine_gives_the_numbers_of_loop(row, model, engine):
    """With some away; for some rows in lockstep also with all there, in float32."""
    gives_the_numbers_of_loop(row, model, engine, torch.float64, 0.4)
    if model == "dropout" and row in SINGLE and engine == "stacked":
        gives_the_numbers_of_loop(row, model, engine, torch.float32, 0.0)


def gives_the_numbers_of_loop(row, model, engine, dtype, absent):
    if engine == "stacked" and model == "batchnorm":
        with pytest.raises(BadInput, match="engine stacked cannot train a model with batch norm"):
            play(method_of(row), net_for(engine, model, dtype), start_of(model, dtype))
        return
    reference = played(row, "loop", model, dtype, absent)
    other = play(method_of(row), net_for(engine, model, dtype, absent), start_of(model, dtype))
    assert_same(other.models, reference.models, TOLERANCE[dtype])
    assert_same(other.infos, reference.infos, TOLERANCE[dtype])
    # and something happened: a table of equal nothings would agree too
    assert any(bool(info.weights.any()) for info in reference.infos)
    told = any(bool((info.loss >= 0).any()) for info in reference.infos)
    assert told != (row in PRIVATE or row == "nothing")  # work with noise, and none, do not tell a loss


@pytest.mark.parametrize(("row", "model"), [daily_but_copies(*pair) for pair in SOME])
def test_sites_in_processes_give_the_numbers_of_loop_and_live_on_without_a_coordinator(
    row, model, processes, tmp_path
):
    """Three rounds; the coordinator is gone after the second, and another goes on from its checkpoint."""
    dtype, method = torch.float64, method_of(row)
    reference = played(row, "loop", model, dtype, 0.4)
    remote = remote_of(processes, model, dtype)
    net, path = Counting(Absent(remote, 0.4)), tmp_path / "state"
    state = method.init(start_of(model, dtype), net)
    for r in (1, 2):
        state, info = method.round(state, net, Key(SEED).at_round(r, ROUNDS))
        assert_same(info, reference.infos[r - 1])
        if r == 1:
            net.keep(handles_in(state), r)
    checkpoint.save(path, state, checkpoint.Stamp(2, "x"), net.kept(handles_in(state), 2))
    method.round(state, net, Key(SEED).at_round(3, ROUNDS))  # begun, and lost with the coordinator
    counted, measured = net.book.read(), remote.post.measured
    assert (counted.models == measured.models).all()
    assert (counted.bytes == measured.bytes).all()
    assert (counted.numbers == measured.numbers).all()
    assert (counted.rows == measured.rows).all()

    saved = checkpoint.load(path, type(state), "x")
    net = Absent(remote_of(processes, model, dtype, takes_over=True), 0.4)
    net.restore(saved.kept, handles_in(saved.state), 2)
    state, info = method.round(saved.state, net, Key(SEED).at_round(3, ROUNDS))
    assert_same(info, reference.infos[2])
    assert_same(opened(method, state, net), reference.models[3])


KERNELS_ALSO = {
    "adam": Adam(lr=0.01, batch=8, keep=True, weight_decay=0.01),
    "adamw in steps": Adam(lr=0.01, batch=8, steps=3, weight_decay=0.1, decoupled=True),
    "nesterov in order": SGD(batch=8, epochs=2, momentum=0.9, nesterov=True, shuffle=False),
    "plain, full batch": SGD(batch=100, weight_decay=0.01),
}


@pytest.mark.parametrize("work", KERNELS_ALSO)
def test_every_engine_runs_every_kind_of_local_work(work):
    for row, engines in (("local", ("stacked",)), ("fedavg", ("stacked", "pool", "auto"))):
        reference = played(row, "loop", "dropout", torch.float64, 0.4, KERNELS_ALSO[work])
        for engine in engines:
            other = played(row, engine, "dropout", torch.float64, 0.4, KERNELS_ALSO[work])
            assert_same(other.models, reference.models, 1e-10)
            assert_same(other.infos, reference.infos, 1e-10)


@pytest.mark.parametrize("row", ROWS)
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(row):
    """With `loop`, that the same seed gives the same is what the next test holds of every row, bit by bit."""
    engine = "auto" if row in ("fedavg", "pens") else "loop"

    model = model_for(row)

    def run(seed):
        net = net_for(engine, model, torch.float32, 0.4)
        return play(method_of(row), net, start_of(model, torch.float32), seed=seed)

    torch.manual_seed(1)
    first = played(row, engine, model, torch.float32, 0.4)
    torch.manual_seed(2)
    state_of_torch = torch.random.get_rng_state()
    other = run(SEED + 1)
    assert torch.equal(torch.random.get_rng_state(), state_of_torch), "the global generator was used"
    one, two = (tensors_in(some.models[-1]["tensors"]) for some in (first, other))
    differ = any(t.shape != two[n].shape or not torch.equal(t, two[n]) for n, t in one.items())
    assert differ != (row == "nothing")  # which draws nothing
    if engine == "auto":
        second = run(SEED)
        assert_same(first.models, second.models)
        assert_same(first.infos, second.infos)


@pytest.mark.parametrize(
    ("row", "model", "absent"),
    [
        (
            daily_but_copies(row, model, absent)
            if absent == 1 or model == "batchnorm"
            else (row, model, absent)
        )
        for row, model in PAIRS
        for absent in (0.4, 1.0)
        if model != "batchnorm" or row in NORMED or absent < 1
    ],
)
def test_what_holds_for_every_round(row, model, absent, tmp_path):
    """A round changes nothing given to it; Info and models are of the right make; states survive a file."""
    n, dtype = len(SIZES), torch.float32
    net, start, method = net_for("loop", model, dtype, absent), start_of(model, dtype), method_of(row)
    template, given = belief_of(model_of(model, dtype)), copy.deepcopy(start)
    state = method.init(start, net)
    for r in range(1, ROUNDS + 1):
        before = copy.deepcopy(state)
        after, info = method.round(state, net, Key(SEED).at_round(r, ROUNDS))
        assert_same(state, before)
        assert info.weights.shape == (n, n)
        assert all((m.shape, m.dtype) == ((n, n), torch.float64) for m in info.matrices.values())
        sums = info.weights.sum(dim=1)
        assert bool((((sums - 1).abs() < 1e-6) | (sums == 0)).all())
        assert info.loss.shape == (n,)
        assert not bool(torch.isinf(info.loss).any())
        assert json.loads(json.dumps(info.extras)) == dict(info.extras)
        models = method.models(after)
        tensors = net.open(models.beliefs)
        assert models.of.shape == (n,)
        assert bool(((models.of >= 0) & (models.of < len(models.beliefs))).all())
        assert tensors.keys() == template.keys()
        for key, tensor in template.items():
            assert tensors[key].dtype == tensor.dtype
            assert tensors[key].shape == (len(models.beliefs), *tensor.shape)
            assert bool(torch.isfinite(tensors[key].double()).all())
        checkpoint.save(tmp_path / "state", after, checkpoint.Stamp(r, "x"), net.kept(handles_in(after), r))
        saved = checkpoint.load(tmp_path / "state", type(after), "x")
        assert_same(saved.state, after)
        again = net_for("loop", model, dtype, absent)  # another process, which has the file alone
        again.restore(saved.kept, handles_in(saved.state), r)
        state, net = saved.state, again
    assert_same(start, given)
    assert_same(list(net.net.clients), list(clients_of(dtype)))
    assert_same(opened(method, state, net), played(row, "loop", model, dtype, absent).models[-1])


@pytest.mark.parametrize("row", ROWS)
def test_one_client_is_enough_or_is_refused_before_anything_runs(row):
    method, model, refused = method_of(row), model_for(row), True
    start, learner = start_of(model, torch.float32), Learner(model_of(model, torch.float32), "classification")
    net = InProcess(ENGINES.make("loop"), learner, clients_of(torch.float32)[3:4])
    with contextlib.suppress(BadInput):
        method.check(net.roster, start.tensors, Key(0, rounds=ROUNDS))
        refused = False
    if refused:
        return
    run = play(method, net, start)
    assert run.models[-1]["of"].shape == (1,)
    assert run.infos[-1].weights.shape == (1, 1)


@pytest.mark.parametrize("row", ROWS)
def test_clients_may_begin_from_beliefs_of_their_own(row):
    modules = [torch.nn.Linear(4, 3) for _ in SIZES]
    net = InProcess(ENGINES.make("loop"), Learner(modules[0], "classification"), clients_of(torch.float32))
    start = hold(stack([belief_of(m) for m in modules]), at_coordinator(len(SIZES)))
    after = play(method_of(row), net, start).models[-1]["tensors"]["weight"]
    assert bool(torch.isfinite(after).all())


@pytest.mark.parametrize("kind", [METHODS, ENGINES, KERNELS], ids=lambda r: r.kind)
def test_what_is_registered_is_frozen_and_can_be_made_from_its_name_alone(kind):
    for name, cls in kind.items():
        made = kind.make(name)
        assert made == cls()
        assert hash(made) == hash(cls())
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.name = "other"
