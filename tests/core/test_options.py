from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import Literal

import pytest
import tomli_w

from coterie.core.errors import BadInput, UnknownName
from coterie.core.options import bounded, check_options, chosen, coerced, options_of, table_of


@dataclass(frozen=True)
class Base:
    lr: float = 0.1
    """How fast.

    In more words.
    """
    batch: int = 32


@dataclass(frozen=True)
class Work(Base):
    batch: int = 8
    """Samples at a time."""
    shuffle: bool = True
    mode: Literal["slow", "fast"] = "slow"
    """Which way."""
    layers: tuple[int, ...] = (3, 4)
    limits: tuple[float, float] = (0.0, 1.0)
    label: str | None = None
    inner: Base = field(default_factory=Base)


def test_plain_fields_are_options_in_order_with_their_help():
    options = options_of(Work)
    assert [o.name for o in options] == ["lr", "batch", "shuffle", "mode", "layers", "limits", "label"]
    by_name = {o.name: o for o in options}
    assert by_name["lr"].default == 0.1
    assert by_name["lr"].help == "How fast.\n\nIn more words."
    assert (by_name["batch"].default, by_name["batch"].help) == (8, "Samples at a time.")
    assert by_name["mode"].help == "Which way."
    assert by_name["shuffle"].help == ""


@dataclass(frozen=True)
class Lines:
    """Lines of a class docstring speak for its fields.

    alpha     how concentrated
    bands     names of the bands,
              from the lowest up
    nothing   of a field that is not there

    A closing remark on alpha.
    """

    alpha: float = 0.5
    bands: tuple[str, ...] = ()
    gamma: int = 1
    """How often."""


@dataclass(frozen=True)
class MoreLines(Lines):
    """Says more of some of them.

    alpha   how concentrated here
    """

    gamma: int = 2
    delta: float = field(default_factory=lambda: 0.25)


def test_help_is_inherited_unless_told_anew():
    told = {o.name: (o.default, o.help) for o in options_of(MoreLines)}
    assert told == {
        "alpha": (0.5, "how concentrated here"),
        "bands": ((), "names of the bands, from the lowest up"),
        "gamma": (2, "How often."),
        "delta": (0.25, ""),
    }


def test_values_become_the_options_own_types():
    table = {"lr": 1, "layers": [5], "limits": [0, 2], "label": "x", "mode": "fast", "shuffle": False}
    values = coerced(Work, table, "work")
    assert values == {
        "lr": 1.0,
        "layers": (5,),
        "limits": (0.0, 2.0),
        "label": "x",
        "mode": "fast",
        "shuffle": False,
    }
    assert type(values["lr"]) is float
    assert Work(**values).limits == (0.0, 2.0)


def test_dashes_will_do():
    @dataclass(frozen=True)
    class Two:
        weight_decay: float = 0.0

    assert coerced(Two, {"weight-decay": 0.5}, "two") == {"weight_decay": 0.5}


def test_a_table_and_back():
    work = Work(lr=0.5, layers=(1, 2, 3))
    table = table_of(work)
    assert table["layers"] == [1, 2, 3]
    assert "label" not in table
    assert "inner" not in table
    assert Work(**coerced(Work, table, "work")) == work
    assert tomllib.loads(tomli_w.dumps(table)) == table


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch", 2.5, "work: batch must be a whole number; got 2.5"),
        ("batch", True, "work: batch must be a whole number; got True"),
        ("lr", "fast", "work: lr must be a number; got 'fast'"),
        ("lr", True, "work: lr must be a number; got True"),
        ("shuffle", 1, "work: shuffle must be true or false; got 1"),
        ("layers", [1, 2.5], "work: layers must be a whole number; got 2.5"),
        ("layers", 3, "work: layers must be a list of whole numbers; got 3"),
        ("limits", [1.0], "work: limits needs 2 values; got 1"),
        ("label", 3, "work: label must be a text; got 3"),
        ("limits", [0.0, 1.0, 2.0], "work: limits needs 2 values; got 3"),
        ("limits", "01", "work: limits must be a list of numbers; got '01'"),
        ("mode", None, "unknown value for work: mode, 'None': known are fast, slow"),
        ("lr", None, "work: lr must be a number; got None"),
    ],
)
def test_refuses_another_type(name, value, message, refused):
    with refused(UnknownName if message.startswith("unknown") else BadInput, message):
        coerced(Work, {name: value}, "work")


def test_of_several_types_the_first_that_fits():
    @dataclass(frozen=True)
    class Either:
        size: int | float | None = None
        parts: tuple[int, ...] | str = ""

    assert coerced(Either, {"size": 2, "parts": [1, 2]}, "either") == {"size": 2, "parts": (1, 2)}
    assert coerced(Either, {"size": 0.5, "parts": "all"}, "either") == {"size": 0.5, "parts": "all"}


def test_names_the_nearest(refused):
    with refused(UnknownName, "unknown option of work 'batches': did you mean batch?"):
        coerced(Work, {"batches": 1}, "work")
    with refused(UnknownName, "unknown value for work: mode, 'fastt': did you mean fast?"):
        coerced(Work, {"mode": "fastt"}, "work")


def test_what_has_no_options(refused):
    @dataclass(frozen=True)
    class Nothing:
        pass

    with refused(BadInput, "nothing has no options; got 'lr': leave it out"):
        coerced(Nothing, {"lr": 1.0}, "nothing")
    assert options_of(Nothing) == []


def test_an_option_needs_a_default():
    @dataclass(frozen=True)
    class Bare:
        lr: float

    with pytest.raises(TypeError, match="option 'lr' needs a default"):
        options_of(Bare)


class TestDeclared:
    @dataclass(frozen=True)
    class Step:
        size: float | Literal["auto"] = bounded("auto", "be above 0 and finite", "try 1", besides="auto")
        mode: Literal["slow", "fast"] = chosen("slow", Literal["slow", "fast"])

        def __post_init__(self):
            check_options(self)

    @dataclass(frozen=True)
    class Other(Step):
        size: float = 2.0

    def test_an_option_is_as_declared_also_where_its_default_is_another(self, refused):
        for kind in (self.Step, self.Other):
            assert kind(size=0.5, mode="fast").size == 0.5
            for wrong in (0.0, float("inf"), float("nan"), "big"):
                with refused(BadInput, f"size={wrong} must be above 0 and finite: try 1"):
                    kind(size=wrong)
            with refused(UnknownName, "unknown mode 'fas': did you mean fast?"):
                kind(mode="fas")
        assert self.Step().size == "auto"
