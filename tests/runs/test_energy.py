"""Energy of a run: numbers by hand, ranges, and what is said where only a part is known."""

from __future__ import annotations

import json
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import coterie
from coterie.core.errors import UnknownName
from coterie.features.energy.record import Energy, asked_country, countries, cpu_seconds, factor, grid
from coterie.runs import budget
from coterie.runs.record import Record


def ran(rounds=2, cpu=1800.0, looking=None, size=10**9, looked=0, **config):
    """Round 0 and so many after it: CPU seconds of training and scoring, and bytes, of each but round 0."""
    lines, timings = [], []
    for r in range(rounds + 1):
        lines.append(
            {"round": r, "spent": {"steps": 0, "bytes": size if r else 0}, "scoring": {"bytes": looked}}
        )
        timing = {"round": r, "seconds": 1.0}
        timing |= {} if cpu is None else {"cpu_seconds": cpu if r else 0.0}
        timing |= {} if looking is None else {"evaluate_cpu_seconds": looking if r else 0.0}
        timings.append(timing)
    about = {"clients": [{"name": name} for name in "abc"]}
    return Record("fedavg", {"rounds": rounds, **config}, about, lines, timings)


def test_an_hour_and_two_gigabytes_by_hand():
    found = ran().energy()
    assert (found.cpu_seconds, found.bytes) == (3600.0, 2 * 10**9)
    assert found.compute.kwh == pytest.approx((0.0038, 0.012 * 1.56, 0.0238 * 2))
    assert found.network.kwh == pytest.approx((0.008, 0.06, 0.28))
    assert found.compute.co2 == pytest.approx((0.0038 * 30, 0.012 * 1.56 * 480, 0.0238 * 2 * 713))
    assert found.network.co2 == pytest.approx((0.24, 28.8, 0.28 * 713))


def test_no_byte_left_the_machine_so_the_run_took_what_it_computed():
    found = ran().energy()
    assert (found.kwh, found.co2) == (found.compute.kwh, found.compute.co2)
    assert not found.passed


def test_scoring_is_spent_too_and_told_apart():
    found = ran(looking=900.0, looked=10).energy()
    assert (found.cpu_seconds, found.scoring, found.cpu) == (5400.0, 1800.0, (3600.0, 1800.0))
    assert (found.bytes, found.moved) == (2 * 10**9 + 30, (2 * 10**9, 30))
    assert ran().energy().scoring is None  # earlier versions did not measure it


@pytest.mark.parametrize(("code", "mean"), [("FR", 56.0), ("pl", 662.0)])
def test_a_country_has_a_grid_of_its_own(code, mean):
    found = ran().energy(code)
    assert found.co2 == pytest.approx([a * b * mean for a, b in zip(found.kwh, (0.5, 1, 1.5), strict=True)])


def test_an_unknown_country_is_refused_with_those_known():
    with pytest.raises(UnknownName, match=r"^unknown country 'XX': known are AT, AU, .* US, ZA$"):
        ran().energy("XX")


def test_ranges_are_in_order_and_have_sources():
    for one in (*map(factor, ("watts", "pue", "network")), grid(), *map(grid, countries())):
        assert 0 < one.low <= one.usual <= one.high, one.name
        assert one.unit, one.name
        assert one.source, one.name
        assert one.about, one.name
    means = [grid(code).usual for code in countries()]
    assert (grid().low, grid().high) == (min(means), max(means))
    assert all(low < usual < high for low, usual, high in (ran().energy().kwh, ran().energy().co2))


def test_watts_are_those_of_budgets():
    watts = factor("watts")
    assert (watts.usual, watts.low, watts.high) == (12.0, 3.8, 23.8)
    assert watts.usual == budget.WATTS
    assert ran().energy().compute.kwh.usual == pytest.approx(1.56 * budget.kwh(3600))


def test_watts_that_somebody_gave_have_no_range():
    found = ran(power=7.5).energy()
    assert found.kwh == pytest.approx((0.0075, 0.0075 * 1.56, 0.015))
    assert "--power" in found.factors[0].source


@pytest.mark.parametrize("timings", [[], [{"seconds": 1.0}], [{"cpu_seconds": 1.0}, {"seconds": 1.0}]])
def test_what_an_earlier_version_did_not_measure_is_not_known(timings):
    assert cpu_seconds(timings)[0] is None


def test_a_run_of_an_earlier_version_has_bytes_and_no_energy():
    found = ran(cpu=None).energy()
    assert (found.cpu_seconds, found.compute, found.kwh, found.co2) == (None,) * 4
    assert found.bytes == 2 * 10**9
    assert found.table()["parts"]["compute"] is None


@pytest.mark.parametrize(
    ("config", "passed", "where", "missing"),
    [
        ({"net": "federation"}, True, "the lead's process alone", "what the 3 sites computed"),
        ({"net": "processes"}, False, "the coordinator's process alone", "what the 3 sites computed"),
        ({"device": "cuda:0"}, False, "the processor alone", "what cuda:0 computed"),
    ],
)
def test_a_part_is_never_given_as_the_whole(config, passed, where, missing):
    found = ran(**config).energy()
    assert (found.kwh, found.co2, found.whole, found.passed) == (None, None, False, passed)
    assert found.compute.kwh == ran().energy().compute.kwh  # of this part
    assert found.where == where
    assert found.not_counted[0].startswith(missing)


def test_the_table_is_plain():
    found = ran().energy("FR").table()
    assert json.loads(json.dumps(found)) == found
    assert found["kwh"]["usual"] == pytest.approx(0.01872)
    assert found["parts"]["network"]["co2_g"]["usual"] == pytest.approx(0.06 * 56)
    assert [f["name"] for f in found["factors"]] == ["watts", "pue", "network", "grid of FR"]


def test_nothing_spent_is_nothing_and_nothing_known_is_not():
    assert Energy(0.0, 0).kwh == (0.0, 0.0, 0.0)
    assert Energy(None, None).kwh is None


def test_the_country_of_the_environment(monkeypatch):
    monkeypatch.setenv("COTERIE_COUNTRY", "SE")
    assert grid(asked_country()).usual == 41.0


def test_factors_are_part_of_the_package():
    home = Path(coterie.__file__).parents[2]
    listed = tomllib.loads((home / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert any(fnmatch("features/energy/energy.toml", glob) for glob in listed["coterie"])
