"""Messages and what a site does with them: nothing that arrives is run, and a refusal is an answer."""

from __future__ import annotations

import json
import socket

import pytest
import torch
from safetensors.torch import load, save

from coterie.core import wire
from coterie.core.errors import BadData
from coterie.core.seeds import Key
from coterie.core.wire import message_in, pack, payload, unpack
from coterie.nets.site import Site, receive, send

KEY = Key(3, ("round", 2), round=2, rounds=5).to_dict()
BEGIN = {"do": "begin", "model": "logistic", "options": {}, "shape": [2], "outputs": 2}
BEGIN |= {"precision": "float32", "engine": {"name": "loop"}}


@pytest.fixture
def site(client_of):
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    made = Site(client_of(x, torch.tensor([0, 1, 1]), name="north"), number=4)
    assert asked(made, BEGIN) == ({}, {})
    return made


def asked(site, message, tensors=None):
    return unpack(site.answer(pack(message, tensors or {})))


def visit(**more):
    row = [[7, ["head.weight", "head.bias"]]]
    usual = {
        "do": "visit",
        "kernel": {"name": "sgd", "lr": 1.0, "batch": 9},
        "key": KEY,
        "slot": "",
        "beside": {},
    }
    return {**usual, "beliefs": [row], "rows": [0], "guests": [0], "replies": [8], **more}


ZEROS = {"7/head.weight": torch.zeros(2, 2), "7/head.bias": torch.zeros(2)}


def test_a_message_comes_back_as_it_went_and_says_how_large_its_tensors_are():
    tensors = {
        "a": torch.arange(6).view(2, 3),
        "b": torch.tensor(0.5, dtype=torch.float64),
        "c": torch.zeros(0),
    }
    data = pack({"do": "visit", "n": [1, "ü"], "inf": float("inf")}, tensors)
    message, back = unpack(data)
    assert message == {"do": "visit", "n": [1, "ü"], "inf": float("inf")}
    assert all(torch.equal(back[n], t) and back[n].dtype == t.dtype for n, t in tensors.items())
    assert payload(data) == 6 * 8 + 8
    assert data == pack({"do": "visit", "n": [1, "ü"], "inf": float("inf")}, tensors)
    assert Key.of(KEY) == Key(3, ("round", 2), round=2, rounds=5)


@pytest.mark.parametrize("data", [b"", b"nonsense", pack({}, {})[:-1] + b"!", b"\x80\x04]."], ids=repr)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(BadData, match="cannot be read"):
        unpack(data)


def told(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("tensors", "size"),
    [
        ({"a": told(shape=[2])}, 4),  # larger than its place
        ({"a": told(), "b": told()}, 4),  # two in one place
        ({"a": told(), "b": told(offsets=(8, 12))}, 12),  # a hole
        ({"a": told()}, 8),  # bytes of nobody
        ({"a": told(offsets=(0, 8), shape=[2])}, 4),  # cut short
        ({"a": told(shape=[-1, -1])}, 4),
        ({"a": told(shape=[1.0])}, 4),
        ({"a": told(shape=[1] * 100)}, 4),
        ({"a": told(shape=[2**70, 0], offsets=(0, 0))}, 0),
        ({"a": told(shape=[0, 2**40], offsets=(0, 0))}, 0),  # nothing now, and much in what is made like it
        ({"a": told(shape=[2**33, 2**33, 0], offsets=(0, 0))}, 0),
        ({"a": told(shape=[2**40], offsets=(0, 2**42))}, 4),
        ({"a": told(dtype="F31")}, 4),
        ({"a": 3}, 0),
        ({"a": {}}, 0),
    ],
    ids=str,
)
def test_tensors_that_are_not_as_they_are_told_are_refused(tensors, size):
    header = json.dumps({"__metadata__": {"coterie": "{}"}, **tensors}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(size)
    assert message_in(data) == {}
    with pytest.raises(BadData, match="cannot be read"):
        unpack(data)


def framed(header, body=b""):
    return len(header).to_bytes(8, "little") + header + body


def test_a_header_is_bounded_before_it_is_read(monkeypatch):
    """JSON of empty lists takes twenty times its bytes once it is read."""
    inside = json.dumps({"coterie": json.dumps({"x": [[]] * 1000})})
    whole = framed(f'{{"__metadata__": {inside}}}'.encode())
    assert len(message_in(whole)["x"]) == 1000
    monkeypatch.setattr(wire, "MOST_HEADER", len(whole) - 9)
    for reads in (message_in, unpack):
        with pytest.raises(BadData, match=r"its header has .* of at most"):
            reads(whole)
        with pytest.raises(BadData, match="its header should be 1152921504606846976 bytes long"):
            reads((2**60).to_bytes(8, "little") + b"{}")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "9" * 10_000, '"' + "x" * 99, "NaN"])
def test_no_json_of_others_ends_a_reader(text):
    with pytest.raises(BadData, match="cannot be read"):
        message_in(framed(json.dumps({"__metadata__": {"coterie": text}}).encode()))
    with pytest.raises(BadData, match="cannot be read"):
        message_in(framed(text.encode()))


def test_switches_are_true_or_false():
    header = json.dumps({"__metadata__": {"coterie": "{}"}, "a": told("BOOL", [3], [0, 3])}).encode()
    assert unpack(framed(header, b"\0\1\0"))[1]["a"].tolist() == [False, True, False]
    with pytest.raises(BadData, match="neither true nor false"):
        unpack(framed(header, b"\0\2\0"))


def test_messages_are_files_of_safetensors():
    expanded, turned = torch.ones(1).expand(3), torch.randn(3, 4).T
    tensors = {"é/a": expanded, "b": turned, "c": torch.tensor([True, False]), "d": torch.ones(3).bfloat16()}
    data = pack({"do": "ü"}, tensors)
    for found in (
        load(data),
        unpack(save({n: t.contiguous() for n, t in tensors.items()}, {"coterie": "{}"}))[1],
    ):
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[n], t) and found[n].dtype == t.dtype for n, t in tensors.items())
    assert all(t.data_ptr() % 64 == 0 for t in unpack(data)[1].values())


def test_frames_end_where_the_other_side_hangs_up():
    left, right = socket.socketpair()
    send(left, b"one")
    send(left, b"")
    left.sendall((9).to_bytes(8, "big") + b"cut")
    left.close()
    assert [receive(right) for _ in range(3)] == [b"one", b"", None]
    right.close()


def test_a_frame_takes_memory_as_it_comes(monkeypatch):
    monkeypatch.setattr("coterie.nets.site.BUFFER", 10)
    left, right = socket.socketpair()
    body = bytes(range(256)) * 5
    send(left, body)
    left.sendall((1 << 62).to_bytes(8, "big") + b"no more than this")
    left.close()
    assert [receive(right), receive(right)] == [body, None]
    right.close()


def test_no_message_makes_a_site_run_a_file(site, tmp_path):
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    asked(site, {**BEGIN, "plugins": [str(tmp_path / "code.py")]})
    assert not (tmp_path / "ran").exists()


def test_a_visit_leaves_its_reply_at_the_site_and_tells_numbers_alone(site):
    answer, numbers = asked(site, visit(), ZEROS)
    assert numbers.keys() == {"loss", "samples"}
    assert float(numbers["loss"]) == pytest.approx(0.6931472)
    assert answer["like"]["head.weight"] == ["float32", [2, 2]]
    # the gradient of the mean loss at 0 is (p - y) xᵀ / 3, with p = 1/2: by hand
    _, given = asked(site, {"do": "give", "rows": [[[8, ["head.weight"]]]], "new": [0]})
    wanted = torch.tensor([[0.0, -1 / 3], [0.0, 1 / 3]])
    torch.testing.assert_close(given["0/head.weight"], wanted)
    again, _ = asked(site, visit(), ZEROS)  # a message that is sent twice does the same twice
    assert again == answer


@pytest.mark.parametrize(
    ("message", "tensors", "said"),
    [
        (visit(kernel={"name": "os.system", "command": "true"}), ZEROS, "unknown kernel"),
        (visit(kernel={"name": "sgd", "lr": -1.0}), ZEROS, "must be above 0"),
        (visit(kernel={"name": "fold", "inner": {"name": "nobody"}}), ZEROS, "unknown kernel"),
        (visit(), {}, "does not hold"),
        ({**BEGIN, "model": "../../secret"}, {}, "unknown model"),
        ({"do": "give", "rows": [[[99, ["x"]]]], "new": [0]}, {}, "does not hold"),
        ({"do": "fetch", "live": [99], "round": 1, "fresh": False}, {}, "does not hold"),
        ({"do": "store", "live": [], "round": 1}, {}, "has no folder"),
        ({"do": "eval", "code": "1"}, {}, "cannot do 'eval'"),
        ({"nothing": 1}, {}, "cannot do"),
    ],
)
def test_a_refusal_is_an_answer_in_one_line(site, message, tensors, said):
    answer, _ = asked(site, message, tensors)
    assert said in answer["text"]
    assert "\n" not in answer["text"]


def test_copies_last_for_a_round_and_own_models_as_long_as_they_are_named(site):
    asked(site, visit(), ZEROS)
    assert site.held.keys() == {7, 8}
    asked(site, {"do": "keep", "live": [7, 8], "round": 1})
    assert site.held.keys() == {8}  # 7 was a copy of what the coordinator has
    asked(site, {"do": "keep", "live": [], "round": 1})
    assert not site.held


def test_a_site_keeps_what_is_its_own_in_its_folder(site, client_of, tmp_path):
    keeping = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "keep": True}
    site.home = tmp_path
    asked(site, visit(kernel=keeping), ZEROS)
    asked(site, {"do": "store", "live": [8], "round": 2})
    other = Site(site.client, number=4, home=tmp_path)
    asked(other, BEGIN)
    assert asked(other, {"do": "fetch", "live": [8], "round": 2, "fresh": True}) == ({}, {})
    next_round = {**KEY, "round": 3}
    message = visit(
        kernel=keeping, key=next_round, beliefs=[[[8, ["head.weight", "head.bias"]]]], replies=[9]
    )
    for where in (site, other):
        asked(where, message)
    assert all(torch.equal(t, other.held[9][n]) for n, t in site.held[9].items())
    asked(site, {"do": "keep", "live": [], "round": 3})
    assert not list(tmp_path.glob("*.safetensors"))
