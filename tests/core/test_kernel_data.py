"""Kernels as data: name and options are all that crosses a wire, and only what is registered comes back."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from coterie.core.errors import BadInput, UnknownName
from coterie.core.kernel import KERNELS, WORK, kernel_of, kernel_to_dict
from coterie.core.options import table_of
from coterie.kernels import SGD, SGLD, SWAG, Adam, Calibrate, Crowd, Draws, Fold, Gather, Proximal, Score

NESTED = [
    Fold(Proximal(SGD(lr=9.0)), folds=3, fold=2),
    Proximal(Fold(Adam(beta1=0.5)), strength=2.0),
    Gather(SWAG(per="epoch", rank=2)),
    Fold(Gather(SGLD(prior=3.0))),
    Crowd(Calibrate("validation")),
    Score("train", ("loss", "accuracy")),
    Draws((("weight", "float32", (2, 3)), ("bias", "float64", ())), 3, 0.5, 0.25, 2**61),
]


@pytest.mark.parametrize("kernel", [*(cls() for _, cls in KERNELS.items()), *NESTED], ids=lambda k: k.name)
def test_there_and_back_as_json(kernel):
    back = kernel_of(json.loads(json.dumps(kernel_to_dict(kernel))))
    assert back == kernel
    assert hash(back) == hash(kernel)


def test_inner_kernels_are_told_with_their_names():
    table = table_of(Fold(SGD(lr=9.0)))
    assert (table["inner"]["name"], table["inner"]["lr"], table["folds"]) == ("sgd", 9.0, 0)
    data = kernel_to_dict(NESTED[0])
    assert [data["name"], data["inner"]["name"], data["inner"]["inner"]["name"]] == [
        "fold",
        "proximal",
        "sgd",
    ]


def test_work_for_people_is_among_all_kernels():
    assert set(WORK) < set(KERNELS)
    assert "score" not in WORK
    assert all(KERNELS[name] is cls for name, cls in WORK.items())


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        ({"name": "sgdd"}, UnknownName, "unknown kernel 'sgdd': did you mean sgd?"),
        ({"lr": 0.1}, UnknownName, "unknown kernel ''"),
        ({"name": "fold", "inner": {"name": "os.system"}}, UnknownName, "unknown kernel 'os.system'"),
        ({"name": "fold", "outer": {"name": "sgd"}}, BadInput, "has no option 'outer'"),
        ({"name": "fold", "inner": {"name": "sgd", "lrr": 1.0}}, UnknownName, "'lrr': did you mean lr?"),
        ({"name": "sgd", "lr": "fast"}, BadInput, "lr must be a number; got 'fast'"),
        ({"name": "sgd", "lr": -1.0}, BadInput, "lr=-1.0 must be above 0"),
    ],
)
def test_what_is_refused(data, kind, said):
    with pytest.raises(kind) as refusal:
        kernel_of(data)
    assert said in str(refusal.value)


def test_a_kernel_without_a_name_of_its_own_cannot_be_sent():
    @dataclass(frozen=True)
    class Mine(SGD):
        """Has the name of what it derives from."""

    with pytest.raises(BadInput, match="Mine has no name to be sent by: register it in KERNELS"):
        kernel_to_dict(Mine())
