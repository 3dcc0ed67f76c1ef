"""What is written is read again, in every form; a file cut short or of another kind is refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from coterie.core.errors import BadData, BadInput
from coterie.data.preparation import Column, Part, Preparation
from coterie.data.tables.recipe import plain_recipe
from coterie.posteriors import (
    Saved,
    covariance,
    densified,
    isotropic,
    low_rank,
    mean,
    read,
    write,
)


def low():
    mu = {"a": torch.arange(3.0), "b": torch.tensor(7.0).double()}
    var = {name: torch.ones_like(t) for name, t in mu.items()}
    return low_rank(mu, var, {name: torch.stack([t, -t, t]) for name, t in mu.items()})


POSTERIORS = {
    "diagonal": lambda: isotropic({"a": torch.zeros(2, 3)}, 2.0),
    "low-rank": low,
    "full": lambda: densified(low()),
}


@pytest.mark.parametrize("form", POSTERIORS)
def test_round_trip(form, tmp_path):
    posterior = POSTERIORS[form]()
    found = read(write(tmp_path / "new" / "north.safetensors", Saved("north", 120, posterior)))
    assert (found.client, found.samples, found.posterior.form) == ("north", 120, form)
    assert found.posterior.slots == posterior.slots
    assert torch.equal(covariance(found.posterior), covariance(posterior))
    for name, t in mean(posterior).items():
        assert torch.equal(mean(found.posterior)[name], t)
        assert mean(found.posterior)[name].dtype == t.dtype
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["north.safetensors"]


def test_the_network_and_its_buffers_come_back(tmp_path):
    network = {"name": "mlp", "options": {"hidden": (3, 2)}, "shape": (4,), "outputs": 2}
    buffers = {
        "norm.mean": torch.tensor([1.5, -2.0]),
        "norm.batches": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "half": torch.tensor([0.25], dtype=torch.bfloat16),
    }
    found = read(write(tmp_path / "f", Saved("a", 3, low(), network, buffers)))
    assert found.model == {"name": "mlp", "options": {"hidden": [3, 2]}, "shape": [4], "outputs": 2}
    assert found.buffers.keys() == buffers.keys()
    for name, t in buffers.items():
        assert torch.equal(found.buffers[name], t)
        assert found.buffers[name].dtype == t.dtype
    assert torch.equal(covariance(found.posterior), covariance(low()))


def test_a_file_of_an_earlier_version(tmp_path, refused):
    """Whose columns nobody knows."""
    tensors = {"shift": torch.tensor([1.0, 2.0]).double(), "diagonal": torch.tensor([1.0, 4.0]).double()}
    header = {"kind": "posterior 1", "client": "a", "samples": 9, "form": "diagonal", "scales": []}
    header["model"] = [["w", [2], "float32"]]
    path = tmp_path / "old"
    save_file(tensors, path, metadata={"coterie": json.dumps(header)})
    said = "is of an earlier version, which kept no names of columns: ask its client to save it anew"
    with refused(BadData, f"{path} {said}"):
        read(path)


def test_columns_classes_and_preparation_come_back(tmp_path):
    """To the last bit of a mean."""
    parts = (
        Part(Column("age", unit="years", center=1 / 3, spread=0.1), fill=50.5),
        Part(Column("sex", "category", ("f", "m"), (0.0, 1.0)), instead=(0.5, 0.5), told=True),
    )
    way = Preparation(parts)
    recipe = plain_recipe([p.column for p in parts])
    saved = Saved("a", 3, low(), {}, {}, way.features, ("well", "ill"), way, recipe)
    found = read(write(tmp_path / "f", saved))
    assert found.features == ("age", "sex=f", "sex=m", "sex not recorded")
    assert found.classes == ("well", "ill")
    assert found.preparation == way
    assert found.recipe == recipe


def test_the_header_names_the_model(tmp_path):
    path = write(tmp_path / "f", Saved("ä", 3, low()))
    size = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]["coterie"])
    assert header["model"] == [["a", [3], "float32"], ["b", [], "float64"]]
    assert (header["client"], header["samples"], header["form"]) == ("ä", 3, "low-rank")


@pytest.mark.parametrize("keep", [0, 4, 100, -8])
def test_cut_short(keep, tmp_path):
    path = write(tmp_path / "f", Saved("a", 1, low()))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadData, match=r"is damaged or no posterior \(.*\): ask its client to save it anew$"):
        read(path)


@pytest.mark.parametrize(
    ("tensors", "header", "reason"),
    [
        ({}, None, "no 'coterie'"),
        ({}, {}, "no 'kind'"),
        ({}, {"kind": "state"}, "its kind is 'state', not 'posterior 2'"),
        ({"shift": torch.zeros(3).double()}, {}, "shift is torch.float64 [3]"),
        ({"diagonal": torch.ones(2)}, {}, "diagonal is torch.float32 [2]"),
        ({"factor/0": torch.tensor(1.0).double()}, {}, "factor/0 is torch.float64 []"),
        ({"dense": torch.eye(2).double()}, {"scales": [1]}, "no 'factor/0'"),
        (
            {"shift": torch.zeros(2).double()},
            {"model": [["w", [2], "load"]]},
            "its model has a dtype that is no kind of real number",
        ),
        ({"shift": torch.full((2,), torch.nan).double()}, {}, "shift is not finite"),
        (
            {"diagonal": torch.ones(2).double()},
            {"form": "full"},
            "its form is full, its tensors make diagonal",
        ),
        ({"shift": torch.zeros(2).double()}, {"samples": 0}, "samples is 0"),
        ({"shift": torch.zeros(2).double()}, {"client": ""}, "client is ''"),
        ({"shift": torch.zeros(2).double()}, {"client": "a\x1b[2J"}, "client is 'a\\x1b[2J'"),
        (
            {"shift": torch.zeros(2).double()},
            {"model": [["w", [1], "float32"], ["v", [1], "float32"]]},
            "its model's tensors are not in the order of their names",
        ),
        ({"buffer/mean": torch.tensor([torch.inf])}, {}, "buffer/mean is not finite"),
        (
            {"factor/0": torch.ones(2, 1).double()},
            {"scales": [float("nan")], "form": "low-rank"},
            "a scale is not finite",
        ),
        ({"shift": torch.zeros(2).double()}, {"preparation": {"drops": False}}, "no 'columns'"),
        (
            {"shift": torch.zeros(2).double()},
            {"recipe": {"columns": {"age": {"use": "guess"}}}},
            "its recipe cannot be read, recipe: columns.age.use: must be one of number, flag, category, "
            "ordered, date, leave-out; got 'guess'",
        ),
    ],
)
def test_something_else(tensors, header, reason, tmp_path, refused):
    path = tmp_path / "f"
    whole = {"kind": "posterior 2", "client": "a", "samples": 1, "form": "diagonal", "scales": []}
    whole |= {
        "model": [["w", [2], "float32"]],
        "features": [],
        "classes": [],
        "preparation": None,
        "recipe": None,
    }
    if tensors:
        tensors = {"shift": torch.zeros(2).double(), "diagonal": torch.ones(2).double(), **tensors}
        header = {**whole, **header}
    save_file(tensors, path, metadata=None if header is None else {"coterie": json.dumps(header)})
    with refused(BadData, f"{path} is damaged or no posterior ({reason}): ask its client to save it anew"):
        read(path)


def test_no_gaussian(tmp_path, refused):
    """Precision -1: a file that its client cannot have meant."""
    path = write(tmp_path / "f", Saved("a", 1, isotropic({"w": torch.zeros(2)}, 1.0) * -1.0))
    with refused(
        BadInput,
        f"the posterior in {path} has precision -1 at w[0], must be above 0: ask its client to save it anew",
    ):
        read(path)


def test_no_file(tmp_path, refused):
    with refused(BadData, f"no posterior at {tmp_path / 'f'}: check the path"):
        read(tmp_path / "f")
