"""Models come out of a packing bit by bit as they went in; what is no packed model is refused in one line."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadData, BadInput, CoterieError
from coterie.nets import packing
from coterie.nets.packing import LEAST, WIDTHS, Layout, LostReference, Reference, pack, unpack

zstandard = pytest.importorskip("zstandard")


def bits(t):
    return t.resolve_conj().contiguous().reshape(-1).view(torch.uint8).tolist() if t.numel() else []


def same(one, other):
    """Bit by bit: NaN is what it was, and -0.0 is not 0.0."""
    assert list(one) == list(other)
    for name, t in one.items():
        assert (t.dtype, t.shape) == (other[name].dtype, other[name].shape), name
        assert bits(t) == bits(other[name]), name
    return True


def random_of(kind, shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    count = torch.empty(shape).numel() * torch.empty(0, dtype=getattr(torch, kind)).element_size()
    raw = torch.randint(0, 2 if kind == "bool" else 256, (count,), dtype=torch.uint8, generator=draws)
    return raw.view(getattr(torch, kind)).reshape(shape)


def a_model(seed=0, rows=90):
    draws = torch.Generator().manual_seed(seed)
    return {
        "w": torch.rand(rows, 50, generator=draws) / 7,
        "b": torch.randn(50, dtype=torch.float64, generator=draws),
        "count": torch.tensor(7),
        "mask": torch.rand(9, generator=draws) > 0.5,
        "empty": torch.zeros(0, 3),
        "half": torch.randn(8, generator=draws).bfloat16(),
    }


def moved(model, step=1e-3):
    return {
        n: t + step * torch.randn(t.shape).to(t.dtype) if t.is_floating_point() else t
        for n, t in model.items()
    }


ODD = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-45, 3.4e38])
MODELS = {
    **{kind: {"t": random_of(kind, (5, 7))} for kind in WIDTHS},
    "odd floats": {
        "t": ODD,
        "other NaN": torch.tensor([0x7FC00001, -1], dtype=torch.int32).view(torch.float32),
    },
    "scalars": {"a": torch.tensor(1.5), "b": torch.tensor(True), "c": torch.tensor(1 + 2j)},
    "empty": {"a": torch.zeros(0), "b": torch.zeros(3, 0, 2, dtype=torch.int64)},
    "nothing": {},
    "all kinds": {kind: random_of(kind, (33,), seed=1) for kind in reversed(WIDTHS)},
    "views": {
        "t": torch.arange(12.0).view(3, 4).t(),
        "u": torch.ones(1).expand(5),
        "v": torch.ones(2, dtype=torch.complex64).conj(),
    },
    "names": {"8/head.weight": torch.ones(3), "ü": torch.ones(2), "a b": torch.zeros(1)},
}


@pytest.mark.parametrize("least", [0, LEAST], ids=["packed", "plain"])
@pytest.mark.parametrize("name", MODELS)
def test_every_bit_comes_back(name, least):
    model = MODELS[name]
    earlier = {n: torch.zeros(t.shape, dtype=t.dtype) for n, t in model.items()}
    for reference in (None, Reference.of(earlier), Reference.of(model)):
        meta, data = pack(model, reference, least)
        assert same(unpack(json.loads(json.dumps(meta)), memoryview(data), reference), model)


@pytest.mark.parametrize(
    ("model", "earlier", "how", "most"),
    [
        ("model", "moved", "delta", 0.8),
        ("model", "model", "delta", 0.01),
        ("model", None, "planes", 0.95),
        ("random", "moved", "plain", 1.0),  # another layout, so no reference, and nothing to gain
        ("zeros", None, "plain", 1.0),  # smaller by so much that it could be a trap
        ("zeros", "zeros", "delta", 0.01),
        ("small", "small", "plain", 1.0),
    ],
)
def test_it_is_packed_by_what_pays(model, earlier, how, most):
    w = a_model()
    models = {"model": w, "moved": moved(w), "random": {"t": random_of("int32", (400_000,))}}
    models |= {"zeros": {"t": torch.zeros(100_000)}, "small": {"t": torch.zeros(LEAST // 4 - 1)}}
    reference = None if earlier is None else Reference.of(models[earlier])
    meta, data = pack(models[model], reference)
    assert meta["how"] == how
    assert len(data) <= most * Layout.of(models[model]).size
    assert same(unpack(meta, data, reference), models[model])


def test_large_models_that_do_not_pay_are_not_packed_at_all(monkeypatch):
    seen = []
    monkeypatch.setattr(packing, "planes", lambda whole, layout: seen.append(len(whole)) or whole)
    noise = random_of("int32", (1_000_000,))
    assert pack({"t": noise})[0]["how"] == "plain"
    assert seen == []
    pack({"t": torch.cat([noise, torch.zeros(1_000_000, dtype=torch.int32)])})
    assert seen == [8_000_000]


def test_a_digest_names_a_model_whatever_its_order():
    w = a_model()
    digest = Reference.of(w).digest
    assert len(digest) == 16
    assert int(digest, 16) >= 0
    assert Reference.of(dict(reversed(w.items()))).digest == digest
    others = [{**w, "w": w["w"].T}, {**w, "w": w["w"].view(torch.int32)}, {**w, "w": w["w"] + 1}]
    others += [{"x" if n == "w" else n: t for n, t in w.items()}]
    assert len({digest, *(Reference.of(o).digest for o in others)}) == 5


def test_the_order_of_the_receivers_reference_does_not_matter():
    w = a_model()
    new = moved(w)
    meta, data = pack(new, Reference.of(w))
    back = unpack(meta, data, Reference.of(dict(reversed(w.items()))))
    assert same({n: back[n] for n in new}, new)


def test_who_has_lost_the_reference_says_which():
    w = a_model()
    meta, data = pack(moved(w), Reference.of(w))
    for other in (None, Reference.of(moved(w))):
        with pytest.raises(LostReference, match="send it whole") as error:
            unpack(meta, data, other)
        assert error.value.digest == Reference.of(w).digest


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(BadInput, match="dtype float8_e4m3fnuz cannot be sent"):
        pack({"t": torch.zeros(2, dtype=torch.float8_e4m3fnuz)})


def frame(size, told=True):
    return zstandard.ZstdCompressor(level=1, write_content_size=told).compress(bytes(size))


# the head of a frame that says that it holds 2^40 bytes, and one empty block
TRAP = bytes.fromhex("28b52ffd e0") + (2**40).to_bytes(8, "little") + b"\1\0\0"
PLAIN = {"how": "plain", "tensors": [["t", "float32", [2]]]}
ZEROS = {"t": torch.zeros(20_000)}


@pytest.mark.parametrize(
    ("meta", "data", "match"),
    [
        ([], b"", "says by what it was packed"),
        ({}, b"", "says by what it was packed"),
        ({"how": ["plain"]}, b"", "says by what it was packed"),
        ({"how": "pickle"}, b"", "same version"),
        ({"how": "plain"}, b"", "lists its tensors"),
        (PLAIN, bytes(7), "8 bytes came in 7"),
        (PLAIN, bytes(9), "8 bytes came in 9"),
        *(
            ({"how": "plain", "tensors": [entry]}, bytes(8), "name, a dtype and a shape")
            for entry in (None, [], ["t", "float32"], [7, "float32", [2]], ["", "float32", [2]])
        ),
        ({"how": "plain", "tensors": [["a\nb", "float32", [2]]]}, bytes(8), "name, a dtype and a shape"),
        ({"how": "plain", "tensors": [["a" * 513, "float32", [2]]]}, bytes(8), "name, a dtype and a shape"),
        ({"how": "plain", "tensors": [["t", "float32", [1]]] * 2}, bytes(8), "twice"),
        *(
            ({"how": "plain", "tensors": [["t", kind, [2]]]}, bytes(8), "is of dtype")
            for kind in ("object", "Tensor", "__class__", 4, None)
        ),
        *(
            ({"how": "plain", "tensors": [["t", "float32", shape]]}, bytes(8), "cannot have the shape")
            for shape in (2, [-1], [2.0], [True], ["2"], [1] * 17, [2**49], [0, 2**40, 2**40], None)
        ),
        ({"how": "plain", "tensors": [["t", "bool", [2]]]}, b"\1\2", "neither true nor false"),
        ({"how": "plain", "tensors": [["t", "float32", [2**40]]]}, bytes(8), "times as large"),
        ({"how": "planes", "tensors": [["t", "float32", [2**40]]]}, frame(2**20), "times as large"),
        (
            {"how": "planes", "tensors": [["t", "float32", [2]]]},
            frame(2**20),
            "expand to 1048576 instead of 8",
        ),
        ({"how": "planes", "tensors": [["t", "float32", [2]]]}, frame(8, told=False), "instead of 8"),
        ({"how": "planes", "tensors": [["t", "float32", [2]]]}, frame(8) + b"more", "cannot be read"),
        ({"how": "planes", "tensors": [["t", "float32", [2]]]}, b"nonsense", "cannot be read"),
        ({"how": "planes", "tensors": [["t", "float32", [2]]]}, TRAP, "expand to 1099511627776 instead of 8"),
        ({"how": "delta", "reference": Reference.of(ZEROS).digest}, frame(2**20), "instead of 80000"),
        ({"how": "delta", "reference": 5}, frame(80_000), "names its model by a text"),
        ({"how": "delta"}, frame(80_000), "names its model by a text"),
    ],
)
def test_what_is_no_packed_model_is_refused(meta, data, match):
    with pytest.raises(BadData, match=match) as error:
        unpack(meta, data, Reference.of(ZEROS))
    assert "\n" not in str(error.value)


BEFORE = Reference.of(a_model())
REAL = [
    pack(a_model()),
    pack(a_model(), least=2**40),
    pack(moved(a_model()), BEFORE),
    pack(MODELS["all kinds"], least=0),
]


def opens_or_refuses(meta, data):
    """Tensors or a refusal in one line, nothing else."""
    said = ""
    try:
        for t in unpack(meta, data, BEFORE).values():
            assert t.nbytes <= packing.MOST_TIMES * len(data) + BEFORE.layout.size
    except CoterieError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=300), real=st.sampled_from(REAL))
def test_random_bytes_do_no_harm(data, real):
    opens_or_refuses(real[0], data)


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
def test_packed_models_with_something_changed_do_no_harm(data, real):
    meta, packed = copy.deepcopy(real[0]), bytearray(real[1])
    if data.draw(st.booleans()):
        packed[data.draw(st.integers(0, min(len(packed), 400) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del packed[data.draw(st.integers(0, len(packed))) :]
    if data.draw(st.booleans()):
        place = meta
        while isinstance(place, dict | list) and place:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
                place[key] = data.draw(JSON)
                break
            place = place[key]
    opens_or_refuses(meta, bytes(packed))
