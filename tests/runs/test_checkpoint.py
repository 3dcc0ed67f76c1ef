"""A method's state as one file: what goes in comes out, and nothing else is taken for it."""

from __future__ import annotations

import hashlib
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from coterie.core.errors import BadRun
from coterie.core.held import at_coordinator, fresh_ids, hold, side_by_side
from coterie.runs.checkpoint import SCHEMA, Stamp, load, save
from coterie.storage.tensors import read_tensors, write_tensors


@dataclass(frozen=True, eq=False)
class State:
    beliefs: dict[str, Any]
    rest: Any = None


STAMP = Stamp(3, "abc")


@pytest.fixture
def through(tmp_path):
    """A state, saved and loaded again."""

    def go(state: State) -> State:
        save(tmp_path / "state", state, STAMP)
        again = load(tmp_path / "state", State, "abc")
        assert again.stamp == STAMP
        assert type(again.state) is State
        return again.state

    return go


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(7),
        torch.tensor([True, False]),
        torch.zeros(0, 4),
        torch.tensor([float("nan"), float("inf"), -0.0]),
        torch.arange(3).to(torch.bfloat16),
        torch.arange(12.0).reshape(3, 4).T,
        torch.ones(1, 4).expand(3, 4),
    ],
    ids=lambda t: f"{str(t.dtype)[6:]}{list(t.shape)}",
)
def test_every_kind_of_tensor_comes_back(through, tensor):
    again = through(State({"w": tensor})).beliefs["w"]
    assert (again.dtype, again.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(again.nan_to_num(9), tensor.nan_to_num(9))


@pytest.mark.parametrize(
    "value",
    [None, 2**60, 0.1, True, "grüße/1", (), {}, (1, "two", None, [3.0, {"four": (4,)}]), {"a": {"b": None}}],
)
def test_every_plain_value_comes_back(through, value):
    again = through(State({}, value)).rest
    assert again == value
    assert type(again) is type(value)


def test_tensors_at_any_depth(through):
    w, b = torch.randn(2, 3), torch.tensor(4)
    state = State({"layer.0/velocity": w}, {"t": b, "past": ({"w": w + 1}, None, (w + 2, 5))})
    again = through(state)
    assert torch.equal(again.beliefs["layer.0/velocity"], w)
    assert torch.equal(again.rest["t"], b)
    first, none, (third, five) = again.rest["past"]
    assert (none, five) == (None, 5)
    assert torch.equal(first["w"], w + 1)
    assert torch.equal(third, w + 2)


def test_one_tensor_in_two_places(through):
    w = torch.randn(3)
    again = through(State({"w": w}, {"w": w, "view": w[1:]}))
    assert torch.equal(again.beliefs["w"], w)
    assert torch.equal(again.rest["view"], w[1:])
    again.beliefs["w"].zero_()
    assert torch.equal(again.rest["w"], w)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(np.zeros(2), "ndarray"), ({1}, "set"), (b"x", "bytes")],
)
def test_refuses_what_it_would_not_find_again(tmp_path, value, kind):
    with pytest.raises(TypeError, match=f"/rest/deep is a {kind}"):
        save(tmp_path / "state", State({}, {"deep": value}), STAMP)
    assert list(tmp_path.iterdir()) == []


PAIR = namedtuple("PAIR", "mean variance")


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(State({}, {1: "one"}), id="number as a key"),
        pytest.param(State({}, PAIR(1, 2)), id="namedtuple"),
        pytest.param(State({"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}}), id="two tensors, one path"),
    ],
)
def test_refuses_what_would_come_back_as_another(tmp_path, state):
    with pytest.raises(TypeError):
        save(tmp_path / "state", state, STAMP)


def test_the_same_state_gives_the_same_bytes(tmp_path):
    w = {f"layer{i}": torch.arange(i + 1.0) for i in range(20)}
    save(tmp_path / "one", State(w, {"b": 1, "a": 2}), STAMP)
    save(tmp_path / "two", State(dict(reversed(w.items())), {"a": 2, "b": 1}), STAMP)
    one, two = (hashlib.sha256((tmp_path / n).read_bytes()).hexdigest() for n in ("one", "two"))
    assert one == two


def test_the_file_is_replaced_in_one_move(tmp_path):
    path = tmp_path / "state"
    save(path, State({"w": torch.zeros(2)}), STAMP)
    with pytest.raises(TypeError):
        save(path, State({"w": torch.ones(2)}, object()), STAMP)
    assert load(path, State, "abc").state.beliefs["w"].tolist() == [0, 0]
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_handles_come_back_with_their_places_and_no_id_is_given_twice(through):
    body, norms = (
        hold({"w": torch.randn(1, 2)}, at_coordinator(1)),
        hold({"n": torch.randn(3, 1)}, torch.arange(3)),
    )
    whole = side_by_side(body, norms)
    again = through(State({}, {"own": whole, "elsewhere": hold(whole.like, torch.arange(3))})).rest
    assert again["own"].names == ("w", "n")
    for one, two in zip(again["own"].parts, whole.parts, strict=True):
        assert torch.equal(one.ids, two.ids)
        assert torch.equal(one.places, two.places)
        assert all(torch.equal(t, two.tensors[name]) for name, t in one.tensors.items())
    assert {n: (t.shape, t.device.type) for n, t in again["elsewhere"].tensors.items()} == {
        n: (t.shape, "meta") for n, t in whole.tensors.items()
    }
    assert fresh_ids(1) > max(int(p.ids.max()) for p in again["elsewhere"].parts)


def test_what_the_net_kept_is_apart_from_the_state(tmp_path):
    kept = {"own|'sgd'|3|w": torch.randn(2), "state/beliefs/w": torch.ones(1)}
    save(tmp_path / "state", State({"w": torch.zeros(1)}), STAMP, kept)
    again = load(tmp_path / "state", State, "abc")
    assert again.kept.keys() == kept.keys()
    assert all(torch.equal(t, kept[name]) for name, t in again.kept.items())
    assert again.state.beliefs["w"].tolist() == [0]


def test_another_config_and_another_schema_are_refused(refused, tmp_path):
    path = tmp_path / "state"
    save(path, State({}), STAMP)
    with refused(BadRun, f"{path} belongs to another config (abc, not xyz): start anew with another --out"):
        load(path, State, "xyz")
    began = "go on with the version that began it, or start anew with another --out"
    # as the first version wrote it, with the package's version and without a number of its own
    write_tensors(
        path, {}, {"stamp": {"round": 3, "config": "abc", "version": "0.1.0"}, "state": {"fields": {}}}
    )
    with refused(BadRun, f"{path} has schema 1, this version of Coterie reads {SCHEMA}: {began}"):
        load(path, State, "abc")
    save(path, State({}), Stamp(3, "abc", SCHEMA + 1))
    with refused(BadRun, f"{path} has schema {SCHEMA + 1}, this version of Coterie reads {SCHEMA}: {began}"):
        load(path, State, "abc")


def test_damaged_files(tmp_path):
    path = tmp_path / "state"
    save(path, State({"w": torch.zeros(100)}), STAMP)
    whole = path.read_bytes()
    for cut in (0, 7, 100, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(BadRun, match=r"state is damaged \(.*\): delete it to start this run anew"):
            load(path, State, "abc")


def test_a_file_of_another_make(tmp_path):
    path = tmp_path / "state"
    save_file({"w": torch.zeros(1)}, path)
    with pytest.raises(BadRun, match="is damaged"):
        load(path, State, "abc")
    write_tensors(path, {"w": torch.zeros(1)}, {"clients": ["a"]})
    with pytest.raises(BadRun, match="is damaged"):
        load(path, State, "abc")


def test_named_tensors_and_a_header(tmp_path):
    write_tensors(tmp_path / "t", {"b": torch.ones(2), "a": torch.zeros(1)}, {"of": [0, 1], "x": None})
    tensors, header = read_tensors(tmp_path / "t")
    assert header == {"of": [0, 1], "x": None}
    assert {n: t.tolist() for n, t in tensors.items()} == {"a": [0.0], "b": [1.0, 1.0]}
