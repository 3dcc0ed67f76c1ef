"""Contributions over a real federation: a relay, four sites and three helpers, each a process."""

from __future__ import annotations

import hosts
import numpy as np
import pytest
from ward import COTERIE

from coterie.runs.folder import read_record

HELPERS = ("ada", "ben", "tom")
WORDS = ["--validation", "0.2", "--sgd.lr", "0.1", "--rounds", "2", "--method"]
CLEAR = "contributions:by=first-order+leave-one-out+gtg,permutations=16"


@pytest.fixture(scope="module")
def ward(ward):
    """With helpers, of whom nothing is left."""
    before = hosts.look()
    for name in HELPERS:
        ward.open_helper(name)
    for name in HELPERS:
        ward.connected(name)
    yield ward
    ward.settle()
    for name in HELPERS:
        ward.sites.pop(name).stop()
    assert not [line for line in hosts.left_behind(before) if "coterie site" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "weight-erosion"])
@pytest.mark.parametrize("wraps", [[CLEAR], ["sealed=1", "contributions"]], ids=["clear", "sealed"])
def test_values_are_those_of_one_machine(ward, method, wraps):
    out = f"far-{method}-{len(wraps)}"
    driver = ward.run(out, *WORDS, method, "--wrap", *wraps)
    assert driver.wait(150) == 0, driver.lines[-5:]
    start = [*COTERIE, "run", "--data", "table", "--table.recipe", ward.recipe, "--engine", "loop"]
    near = ward.start(
        "lead", [*start, "--out", ward.folder / f"{out}-near", *WORDS, method, "--wrap", wraps[-1]]
    )
    assert near.wait(120) == 0, near.lines[-5:]
    one, two = (read_record(ward.folder / name).contributions() for name in (out, f"{out}-near"))
    assert one.estimates.keys() == two.estimates.keys() != set()
    for name, found in one.estimates.items():
        bound = 1e-5 * np.nanmax(np.abs(two.estimates[name].value))
        assert found.value == pytest.approx(two.estimates[name].value, abs=bound), name
