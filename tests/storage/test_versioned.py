"""A file has a schema: an unknown version is refused in one line, and one without a number is the first."""

from __future__ import annotations

import re

import pytest
import torch

from coterie.core.errors import BadRun
from coterie.storage import checkpoint
from coterie.storage.atomic import append_line
from coterie.storage.tensors import read_tensors, write_tensors
from coterie.storage.versioned import Schema

TWO = Schema(2, "use a newer Coterie")


@pytest.mark.parametrize("found", [0, 3, -1, "2", 2.0, True, None, [1]])
def test_an_unknown_version_is_refused_with_value_bound_and_remedy(tmp_path, found):
    line = f"f has schema {found!r}, this version of Coterie reads 1 to 2: use a newer Coterie"
    with pytest.raises(BadRun, match=f"^{re.escape(line)}$"):
        TWO.check({"schema": found}, "f")


def test_a_file_without_a_number_is_of_the_first_version():
    TWO.check({}, "f")
    with pytest.raises(BadRun, match="f has schema 1, this version of Coterie reads 2: use a newer Coterie"):
        Schema(2, "use a newer Coterie", oldest=2).check({}, "f")


def test_lines_of_another_version_are_refused(tmp_path):
    path = tmp_path / "lines.jsonl"
    assert TWO.lines(path) == []
    for entry in ({"i": 0}, {"i": 1, "schema": 2}):
        append_line(path, entry)
    assert TWO.lines(path) == [{"i": 0}, {"i": 1, "schema": 2}]
    append_line(path, {"schema": 7})
    with pytest.raises(BadRun, match="has schema 7, this version of Coterie reads 1 to 2"):
        TWO.lines(path)


def test_a_round_of_a_site_has_a_version(tmp_path):
    path, held = tmp_path / "2.safetensors", {3: {"w": torch.ones(2)}, 1: {"a/b": torch.zeros(1)}}
    checkpoint.write_round(path, held, {"own|1|m": torch.ones(3)})
    assert read_tensors(path)[1] == {"schema": 1}
    found, slots = checkpoint.read_round(path)
    assert [*found] == [3, 1]
    assert found[1]["a/b"].tolist() == [0.0]
    assert [*slots] == ["own|1|m"]
    tensors, _ = read_tensors(path)
    write_tensors(path, tensors, {})  # as written before there were numbers
    assert [*checkpoint.read_round(path)[0]] == [3, 1]
    write_tensors(path, tensors, {"schema": 2})
    line = "has schema 2, this version of Coterie reads 1: go on with the version that began the run"
    with pytest.raises(BadRun, match=line):
        checkpoint.read_round(path)


def test_what_nets_keep_comes_back_by_its_names():
    inner = {"x": torch.ones(1), "y|z": torch.zeros(2)}
    kept = checkpoint.named("pool", checkpoint.named("0,1", inner)) | {"other|x": torch.ones(4)}
    mine, others = checkpoint.taken("pool", kept)
    assert [*others] == ["other|x"]
    assert [*checkpoint.by_name(mine)["0,1"]] == ["x", "y|z"]
    for content in (b"", b"\0\xff", "für".encode()):
        assert checkpoint.bytes_in(checkpoint.as_tensor(content)) == content
