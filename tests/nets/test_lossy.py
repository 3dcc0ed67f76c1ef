"""Models that lose a little on the way: how much, what is owed, and what never loses anything."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadData, BadInput, CoterieError, UnknownName
from coterie.nets.lossy import SQUEEZES, Half, Int8, TopK, squeeze_of, unpack
from coterie.nets.packing import Layout, LostReference, Reference

zstandard = pytest.importorskip("zstandard")

NAMES = ("none", "delta", "fp16", "int8", "topk=0.1")


def a_model(seed=0, dtype=torch.float32, shift=0.0):
    draws = torch.Generator().manual_seed(seed)
    return {
        "w": torch.randn(60, 50, generator=draws, dtype=dtype) + shift,
        "b": torch.randn(50, generator=draws, dtype=dtype) + shift,
        "s": torch.tensor(0.5, dtype=dtype),
        "count": torch.tensor([3, 2**53 + 1]),
        "mask": torch.tensor([True, False]),
        "half": torch.tensor([0.1, 0.2]).bfloat16(),
        "empty": torch.zeros(0, 2, dtype=dtype),
    }


def worked(model, seed, step=0.01):
    """A model after some work: floats moved, the counter counted."""
    draws = torch.Generator().manual_seed(seed)
    new = {
        n: t + step * torch.randn(t.shape, generator=draws, dtype=t.dtype) if n in "wbs" else t
        for n, t in model.items()
    }
    return {**new, "count": model["count"] + 1}


def crossed(squeeze, model, reference=None, memory=None):
    meta, data, memory = squeeze.pack(model, reference, memory)
    back = unpack(json.loads(json.dumps(meta)), memoryview(data), reference)
    assert Layout.of(back) == Layout.of(model)
    assert list(back) == list(model)
    return back, memory, len(data)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("name", "most", "error"),
    [
        ("none", 1.0, 0.0),
        ("delta", 1.0, 0.0),
        ("fp16", 0.51, 3e-5),
        ("int8", 0.26, 2e-4),
        ("topk=0.1", 0.2, 0.05),
    ],
)
def test_bytes_and_errors_of_a_change(name, most, error, dtype):
    old = a_model(dtype=dtype)
    new = worked(old, 1)
    back, _, size = crossed(squeeze_of(name), new, Reference.of(old))
    assert size <= most * Layout.of(new).size + 50
    for n in ("w", "b", "s"):
        assert float((back[n] - new[n]).abs().max()) <= error
    for n in ("count", "mask", "half", "empty"):
        assert torch.equal(back[n], new[n])


@pytest.mark.parametrize(("name", "error"), [("fp16", 2e-3), ("int8", 0.02), ("topk", 0.0)])
def test_without_a_reference_the_tensors_themselves_are_sent(name, error):
    model = a_model()
    for reference in (None, Reference.of({"other": torch.ones(3)})):
        back, _, _ = crossed(squeeze_of(name), model, reference)
        assert all(float((back[n] - model[n]).abs().max()) <= error for n in ("w", "b", "s"))


def test_int8_has_127_steps_either_way():
    old, new = {"w": torch.zeros(4)}, {"w": torch.tensor([127.0, -63.4, 0.4, -127.0])}
    back, memory, _ = crossed(Int8(), new, Reference.of(old))
    assert torch.allclose(back["w"], torch.tensor([127.0, -63.0, 0.0, -127.0]))
    assert torch.allclose(memory["w"], torch.tensor([0.0, -0.4, 0.4, 0.0]), atol=1e-5)


def test_topk_sends_the_largest_changes_and_owes_the_others():
    old, new = {"w": torch.ones(6)}, {"w": torch.tensor([1.5, 1.0, -8.0, 1.25, 1.0, 5.0])}
    back, memory, _ = crossed(TopK(0.3), new, Reference.of(old))
    assert back["w"].tolist() == [1, 1, -8, 1, 1, 5]
    assert memory["w"].tolist() == [0.5, 0, 0, 0.25, 0, 0]
    again, memory, _ = crossed(TopK(0.3), back, Reference.of(back), memory)  # no change but what is owed
    assert again["w"].tolist() == new["w"].tolist()
    assert not memory["w"].any()


@pytest.mark.parametrize("squeeze", [Half(), Int8(), TopK(0.05)], ids=lambda s: s.name)
def test_with_memory_all_work_arrives_in_the_end(squeeze):
    """A site works on what the other end has; what has arrived and what is owed are all of its work."""
    there, memory = {"w": torch.zeros(400, dtype=torch.float64)}, None
    work, total = torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64), 0.0
    for _ in range(60):
        reference = Reference.of(there)
        there, memory, _ = crossed(squeeze, {"w": there["w"] + work}, reference, memory)
        total = total + work
        assert torch.allclose(there["w"] + memory["w"], total, rtol=1e-6)
    assert float((there["w"] - total).norm() / total.norm()) < 0.4


def test_without_memory_most_work_never_arrives():
    there, work = {"w": torch.zeros(400)}, torch.linspace(1, 2, 400)
    for _ in range(60):
        there, _, _ = crossed(TopK(0.05), {"w": there["w"] + work}, Reference.of(there))
    assert int((there["w"] == 0).sum()) == 380


def test_a_sender_with_a_model_of_its_own_needs_no_memory():
    mine, there = a_model(1), a_model(2)
    for _ in range(30):
        there, _, _ = crossed(TopK(0.1), mine, Reference.of(there))
    assert all(torch.allclose(there[n], mine[n], atol=1e-6) for n in ("w", "b", "s"))


@pytest.mark.parametrize("squeeze", [Half(), Int8(), TopK(0.5)], ids=lambda s: s.name)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e301])
@pytest.mark.parametrize("where", ["new", "old", "both"])
def test_what_is_not_finite_or_too_large_goes_exactly(squeeze, value, where):
    old, new = a_model(dtype=torch.float64), worked(a_model(dtype=torch.float64), 1)
    for model in {"new": [new], "old": [old], "both": [old, new]}[where]:
        model["b"][3] = value
    back, memory, _ = crossed(squeeze, new, Reference.of(old))
    if not (where == "both" and value == 1e301):  # which is no change
        assert torch.equal(back["b"].view(torch.int64), new["b"].view(torch.int64))
        assert "b" not in memory
    assert not torch.equal(back["w"], new["w"])


@pytest.mark.parametrize("tiny", [0.0, 1e-45, 1e-40])
def test_int8_of_next_to_nothing_is_next_to_nothing(tiny):
    back, _, _ = crossed(Int8(), {"w": torch.full((5,), tiny)}, Reference.of({"w": torch.zeros(5)}))
    assert torch.allclose(back["w"], torch.full((5,), tiny), atol=1e-45)


def test_a_memory_of_another_model_is_not_used():
    old, new = {"w": torch.zeros(4)}, {"w": torch.ones(4)}
    for memory in ({"w": torch.ones(5)}, {"v": torch.ones(4)}, {"w": torch.ones(4, dtype=torch.float64)}, {}):
        back, _, _ = crossed(TopK(1.0), new, Reference.of(old), memory)
        assert torch.equal(back["w"], new["w"])


@pytest.mark.parametrize("name", NAMES)
def test_squeezes_by_name(name):
    squeeze = squeeze_of(name)
    assert squeeze == SQUEEZES.make(squeeze.name, **({"share": 0.1} if squeeze.name == "topk" else {}))
    meta, data, _ = squeeze.pack(a_model())
    assert list(unpack(meta, data)) == list(a_model())


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("zip", UnknownName, "unknown squeeze"),
        ("zip=3", UnknownName, "unknown squeeze"),
        ("fp16=3", BadInput, "no options"),
        *(
            (f"topk={v}", BadInput, "above 0 and up to 1: try 0.01")
            for v in ("0", "-1", "1.5", "nan", "x", "")
        ),
    ],
)
def test_a_squeeze_that_cannot_be(text, error, match):
    with pytest.raises(error, match=match):
        squeeze_of(text)


OLD = Reference.of(a_model())
REAL = [squeeze_of(n).pack(worked(a_model(), 1), OLD)[:2] for n in NAMES[2:]]
REAL += [squeeze_of(n).pack(a_model())[:2] for n in NAMES[2:4]]
REAL += [Int8().pack({"w": ODD, "v": torch.ones(3)})[:2] for ODD in [torch.tensor([float("nan"), 1.0])]]
FP16, INT8, TOPK = (meta for meta, _ in REAL[:3])


def topk_parts(gaps, n=10):
    """A message of topk with these gaps, in a tensor of n numbers."""
    share = len(gaps) / n
    reference = Reference.of({"w": torch.zeros(n)})
    meta = {"how": "topk", "options": {"share": share}, "packed": False, "reference": reference.digest}
    whole = torch.tensor(gaps, dtype=torch.int32).view(torch.uint8).tolist() + [0] * 4 * len(gaps)
    return meta, bytes(whole), reference


@pytest.mark.parametrize("gaps", [[-1, 3], [3, 0], [3, -1], [0, 10], [2**31 - 1, 2**31 - 1]])
def test_places_that_are_none_are_refused(gaps):
    unpack(*topk_parts([0, 9]))
    with pytest.raises(BadData, match="must rise within a tensor of 10 numbers"):
        unpack(*topk_parts(gaps))


@pytest.mark.parametrize(
    ("meta", "error", "match"),
    [
        (FP16 | {"options": {"share": 1}}, BadData, "fp16 has no options"),
        (FP16 | {"options": []}, BadData, "a table of options"),
        (TOPK | {"options": {"share": 7}}, BadData, "up to 1"),
        (TOPK | {"options": {"share": "all"}}, BadData, "must be a number"),
        (TOPK | {"options": {"sha": 1}}, BadData, "did you mean share"),
        (TOPK | {"options": {"share": 1.0}, "packed": False}, BadData, "came in"),
        ({"how": "topk", "packed": True, "tensors": [["w", "float32", [3]]]}, BadData, "by a text"),
        (INT8 | {"reference": "0" * 16}, LostReference, "send it whole"),
        (INT8 | {"packed": 1}, BadData, "packed or not"),
        (INT8 | {"exact": ["else"]}, BadData, "names of the model's"),
        (INT8 | {"exact": "w"}, BadData, "names of the model's"),
        (INT8 | {"exact": ["w"]}, BadData, "came in"),
        ({"how": "int8", "packed": True, "tensors": [["w", "float32", [2**40]]]}, BadData, "times as large"),
    ],
)
def test_what_is_no_squeezed_model_is_refused(meta, error, match):
    data = next(d for m, d in REAL[:3] if m["how"] == meta["how"])
    with pytest.raises(error, match=match) as caught:
        unpack(meta, data, OLD)
    assert "\n" not in str(caught.value)


def opens_or_refuses(meta, data):
    """Tensors or a refusal in one line, nothing else."""
    said = ""
    try:
        unpack(meta, data, OLD)
    except CoterieError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=300), real=st.sampled_from(REAL), packed=st.booleans())
def test_random_bytes_do_no_harm(data, real, packed):
    opens_or_refuses({**real[0], "packed": packed}, data)


JSON = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.builds(list)
    | st.builds(dict)
)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), real=st.sampled_from(REAL))
def test_squeezed_models_with_something_changed_do_no_harm(data, real):
    meta, packed = copy.deepcopy(real[0]), bytearray(real[1])
    if data.draw(st.booleans()):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        key = data.draw(st.sampled_from(["how", "options", "packed", "reference", "tensors", "exact"]))
        meta[key] = data.draw(JSON | st.lists(st.sampled_from(["w", "b", "mask", "?"]), max_size=3))
    if "options" in meta and isinstance(meta["options"], dict) and data.draw(st.booleans()):
        meta["options"][data.draw(st.sampled_from(["share", "self", "x"]))] = data.draw(JSON)
    opens_or_refuses(meta, bytes(packed))
