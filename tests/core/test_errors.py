"""Messages name options as whoever reads them writes them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from coterie.core.errors import BadInput, Several, naming_flags_of, option, spelled_for_shell


@dataclass(frozen=True)
class Inner:
    keep: bool = False

    name = "sgd"


@dataclass(frozen=True)
class Part:
    minimum: int = 10
    p_s: float = 0.0
    edges: tuple[float, ...] = ()
    inner: Inner = Inner()

    name = "silos"


LINES = {
    "minimum=1 must be at least 2: try minimum=10": "minimum=1 must be at least 2: try --silos.minimum 10",
    "p_s needs epochs: set p_s=0": "p_s needs epochs: set --silos.p-s 0",
    "too few: lower minimum to 3": "too few: lower --silos.minimum to 3",
    "for instance edges=20,35": "for instance --silos.edges 20 35",
    "keep=true is not for all: set keep=false": "keep=true is not for all: set --sgd.no-keep",
    "the.minimum=3, at_minimum=4 and minimum==5": "the.minimum=3, at_minimum=4 and minimum==5",
    "lower minimums": "lower minimums",
}


@pytest.mark.parametrize(("python", "shell"), LINES.items())
def test_a_part_says_it_once_and_is_read_at_both_doors(python, shell):
    for error in (BadInput(python), Several([python, "another"])):
        with pytest.raises(type(error)) as raised, naming_flags_of(Part()):
            raise error
        assert str(raised.value).split("\n")[0] == python
        with spelled_for_shell(), pytest.raises(type(error)) as raised, naming_flags_of(Part()):
            raise error
        assert str(raised.value).split("\n")[0] == shell
    assert error.lines == (shell, "another")


def test_an_option_with_its_value():
    assert option("keep", False, "sgd") == "keep=False"
    with spelled_for_shell():
        assert option("keep", False, "sgd") == "--sgd.no-keep"
        assert option("keep", True, "sgd") == "--sgd.keep"
        assert option("one_class", "allow") == "--one-class allow"
