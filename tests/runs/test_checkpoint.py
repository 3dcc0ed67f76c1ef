"""A method's state as one file: what goes in comes out, and nothing else is taken for it."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from coterie.core.errors import BadRun
from coterie.core.held import at_coordinator, fresh_ids, hold, side_by_side
from coterie.storage.checkpoint import SCHEMA, Stamp, Unsavable, load, save
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
    [
        None,
        2**60,
        0.1,
        True,
        "grüße/1",
        "\ud800",
        (),
        {},
        (1, "two", None, [3.0, {"four": (4,)}]),
        {"a": {"b": None}},
        float("-inf"),
        -0.0,
        torch.Size([2, 3]),
        OrderedDict(b=1, a=2),
        np.float64(0.1),
        np.float32(0.1),
        np.int64(7),
        np.bool_(True),
    ],
)
def test_every_plain_value_comes_back(through, value):
    again = through(State({}, value)).rest
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_no_number_comes_back_as_none(through):
    assert math.isnan(through(State({}, float("nan"))).rest)


def test_maps_come_back_in_their_order(through):
    names = ["weight", "bias", "a", "Z", "10", "9"]
    again = through(State({n: torch.zeros(1) for n in names}, {"deep": [{n: n for n in names}]}))
    assert list(again.beliefs) == names
    assert list(again.rest["deep"][0]) == names


def test_beliefs_of_handles_and_what_the_net_kept_come_back_in_their_order(tmp_path):
    names = ["z", "m", "a"]
    held = hold({n: torch.randn(2, 1) for n in names}, torch.arange(2))
    save(tmp_path / "state", State({}, held), STAMP, {n: torch.zeros(1) for n in names})
    again = load(tmp_path / "state", State, "abc")
    assert again.state.rest.names == ("z", "m", "a")
    assert list(again.kept) == names


def test_a_transposed_tensor_adds_up_as_before(through):
    w = torch.randn(300, 500, generator=torch.Generator().manual_seed(0)).T
    again = through(State({"w": w, "images": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)}))
    assert again.beliefs["w"].stride() == w.stride()
    assert torch.equal(again.beliefs["w"].sum(), w.sum())
    assert again.beliefs["images"].is_contiguous(memory_format=torch.channels_last)


def test_parameters_and_gradients_wanted_come_back(through):
    leaf = torch.ones(2, requires_grad=True)
    again = through(State({"p": nn.Parameter(torch.ones(2)), "leaf": leaf, "plain": torch.ones(2)})).beliefs
    assert type(again["p"]) is nn.Parameter
    assert [t.requires_grad for t in again.values()] == [True, True, False]


@dataclass(frozen=True)
class Inner:
    at: int
    twice: int = field(init=False, default=0)

    def __post_init__(self):
        object.__setattr__(self, "twice", 2 * self.at)


@dataclass(frozen=True)
class Other:
    at: int


@dataclass(frozen=True)
class Nested:
    one: Inner
    maybe: Inner | None
    many: list[Inner | Other]
    by_name: dict[str, tuple[Inner, ...]]
    any: Any = None


def test_dataclasses_in_a_state_come_back_wherever_its_annotations_name_them(tmp_path):
    state = Nested(Inner(1), None, [Other(2), Inner(3)], {"b": (Inner(4),), "a": ()})
    save(tmp_path / "state", state, STAMP)
    assert load(tmp_path / "state", Nested, "abc").state == state


def test_a_dataclass_that_nothing_names_is_refused_when_it_is_saved(tmp_path):
    @dataclass(frozen=True)
    class Stranger:
        at: int

    with pytest.raises(
        Unsavable, match="state/any is a Stranger, which a checkpoint does not find again: name"
    ):
        save(tmp_path / "state", Nested(Inner(1), None, [], {}, Stranger(1)), STAMP)
    with pytest.raises(
        Unsavable, match="the state is a Other, but init says Inner: name in init's signature"
    ):
        save(tmp_path / "state", Other(1), STAMP, kind=Inner)


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


class Level(IntEnum):
    HIGH = 1


class Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.zeros(2), "ndarray: keep torch.from_numpy"),
        ({1}, "set: keep sorted"),
        (b"x", "bytes"),
        (defaultdict(int, a=1), "defaultdict: keep dict"),
        (Counter("a"), "Counter: keep dict"),
        (Level.HIGH, "Level: keep int"),
        (Word("a"), "Word: keep str"),
        (1j, "complex"),
        (np.datetime64("2020-01-01"), "datetime64"),
        (int, "type"),
    ],
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
        pytest.param(State({}, {Word("a"): 1}), id="another text as a key"),
        pytest.param(State({}, PAIR(1, 2)), id="namedtuple"),
        pytest.param(State({"w": torch.ones(1, requires_grad=True) * 2}), id="on the way to a gradient"),
        pytest.param(State({"w": torch.eye(2).to_sparse()}), id="sparse"),
        pytest.param(State({"w": torch.zeros(1, dtype=torch.complex128)}), id="a kind no file has"),
        pytest.param(State({"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}}), id="two tensors, one path"),
    ],
)
def test_refuses_what_would_come_back_as_another(tmp_path, state):
    with pytest.raises(TypeError):
        save(tmp_path / "state", state, STAMP)


def test_the_same_state_gives_the_same_bytes_and_another_order_is_another_state(tmp_path):
    w = {f"layer{i}": torch.arange(i + 1.0) for i in range(20)}
    save(tmp_path / "one", State(w, {"b": 1, "a": 2}), STAMP)
    save(tmp_path / "two", State({n: t.clone() for n, t in w.items()}, {"b": 1, "a": 2}), STAMP)
    save(tmp_path / "other", State(dict(reversed(w.items())), {"b": 1, "a": 2}), STAMP)
    one, two, other = (
        hashlib.sha256((tmp_path / n).read_bytes()).hexdigest() for n in ("one", "two", "other")
    )
    assert one == two != other


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


def test_a_file_whose_maps_were_sorted_is_refused(refused, tmp_path):
    path = tmp_path / "state"
    maps = {"map": {"bias": {"tensor": "state/beliefs/bias"}, "weight": {"tensor": "state/beliefs/weight"}}}
    write_tensors(
        path,
        {f"state/beliefs/{n}": torch.zeros(1) for n in ("bias", "weight")},
        {"stamp": {"round": 3, "config": "abc", "schema": 2}, "state": {"fields": {"beliefs": maps}}},
    )
    with pytest.raises(BadRun, match="has schema 2, this version of Coterie reads 3: go on with the version"):
        load(path, State, "abc")


@dataclass(frozen=True)
class Box:
    inside: Any


@dataclass(frozen=True)
class Whole:
    content: Box | Any


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NUMPY = st.builds(np.float32, st.floats(width=32)) | st.builds(np.int8, st.integers(-128, 127))


def tensor_of(shape: list[int], kind: torch.dtype, turned: bool) -> torch.Tensor:
    made = torch.arange(math.prod(shape)).reshape(shape).to(kind)
    return made.permute(tuple(reversed(range(made.ndim)))) if turned else made


TENSORS = st.builds(
    tensor_of,
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16]),
    st.booleans(),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"))
STATES = st.recursive(
    PLAIN | NUMPY | TENSORS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(NAMES, inner, max_size=4)
        | st.dictionaries(NAMES, inner, max_size=4).map(OrderedDict)
        | st.builds(Box, inner)
    ),
    max_leaves=8,
)


def alike(one: Any, two: Any) -> bool:
    """The same to the last bit, in type, order and layout."""
    if type(one) is not type(two):
        return False
    if isinstance(one, torch.Tensor):
        wide = [i for i, n in enumerate(one.shape) if n > 1 and one.numel()]  # strides of others say nothing
        same = (one.dtype, one.shape, *(one.stride(i) for i in wide))
        return same == (two.dtype, two.shape, *(two.stride(i) for i in wide)) and torch.equal(one, two)
    if isinstance(one, dict):
        return list(one) == list(two) and all(alike(one[k], two[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(alike, one, two))
    if isinstance(one, Box):
        return alike(one.inside, two.inside)
    return repr(one) == repr(two)


@given(STATES)
@settings(max_examples=150, deadline=None)
def test_what_comes_back_is_what_went_in_and_the_same_state_is_the_same_file(content):
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("one", "two")]
        save(paths[0], Whole(content), STAMP)
        again = load(paths[0], Whole, "abc").state
        assert alike(again.content, content)
        save(paths[1], again, STAMP)
        assert paths[0].read_bytes() == paths[1].read_bytes()


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
    assert list(tensors) == ["b", "a"]
