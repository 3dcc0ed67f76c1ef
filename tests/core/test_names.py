"""Registry and the errors that name what is nearest."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from coterie.core import errors
from coterie.core.errors import CoterieError, UnknownName
from coterie.core.registry import Registry


def animals() -> Registry:
    registry = Registry("animal")

    @registry.register("zebra")
    @dataclass(frozen=True)
    class Zebra:
        stripes: int = 40
        speed: float = 65.0

    @registry.register("ant")
    @dataclass(frozen=True)
    class Ant:
        pass

    return registry


def test_makes_by_name_with_options():
    zebra = animals().make("zebra", stripes=3)
    assert (zebra.stripes, zebra.speed, zebra.name) == (3, 65.0, "zebra")


def test_lists_names_in_order():
    registry = animals()
    assert list(registry) == ["ant", "zebra"]
    assert [name for name, _ in registry.items()] == ["ant", "zebra"]
    assert "ant" in registry
    assert "cat" not in registry
    assert registry["zebra"]().stripes == 40


def test_an_unknown_name_gets_the_nearest(refused):
    with refused(UnknownName, "unknown animal 'zebr': did you mean zebra?"):
        animals()["zebr"]
    with refused(UnknownName, "unknown animal 'ZEBRA': did you mean zebra?"):
        animals().make("ZEBRA")


def test_a_name_like_nothing_gets_the_list(refused):
    with refused(UnknownName, "unknown animal 'quux': known are ant, zebra"):
        animals()["quux"]


def test_an_unknown_option_gets_the_nearest(refused):
    with refused(UnknownName, "unknown option of animal zebra 'stripe': did you mean stripes?"):
        animals().make("zebra", stripe=3)


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="animal 'ant' is registered twice"):
        animals().register("ant")(dataclass(frozen=True)(type("Other", (), {})))


def test_only_a_frozen_dataclass_is_registered():
    with pytest.raises(TypeError, match="frozen dataclass"):
        animals().register("cat")(type("Cat", (), {}))
    with pytest.raises(TypeError, match="frozen dataclass"):
        animals().register("cat")(dataclass(type("Cat", (), {})))


def test_the_unknown_name_carries_its_parts():
    error = UnknownName("method", "fedavgg", ["local", "fedavg"])
    assert (error.kind, error.name, error.known) == ("method", "fedavgg", ("fedavg", "local"))


@pytest.mark.parametrize("name", ["BadInput", "UnknownName", "BadData", "BadRun", "Diverged", "Refused"])
def test_every_error_is_one_of_ours(name):
    assert issubclass(getattr(errors, name), CoterieError)
    assert name in errors.__doc__
