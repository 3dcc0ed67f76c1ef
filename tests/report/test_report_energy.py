"""Energy on the page and in the terminal: what is measured first, then ranges, and what is not known."""

from __future__ import annotations

import re

import pytest

from coterie.features.energy import shown as energy
from coterie.report.page import render_page
from coterie.show import numbers, views
from coterie.show.parts import Runs as Section


@pytest.fixture
def priced(make_known):
    """`priced("fedavg", cpu=1800)`: two rounds, each with so many CPU seconds and 10^9 bytes."""

    def make(label="fedavg", seed=0, cpu=1800.0, **config):
        record = make_known({"accuracy": [0.5, 0.5]}, label, seed)
        for line in record.metrics:
            line["spent"] = {"steps": 1, "bytes": 10**9 if line["round"] else 0}
        timing = {"seconds": 1.0, "evaluate_cpu_seconds": 0.0} | ({} if cpu is None else {"cpu_seconds": cpu})
        record.timings = [{"round": r, **timing} for r in (1, 2)]
        record.config = {**record.config, **config}
        return record

    return make


def page(records):
    made = render_page([Section("made", records)])
    shown = made[made.index("<h3>Energy</h3>") : made.index("Factors and sources")]
    return re.sub(r"<[^>]+>", "|", shown).replace(numbers.GAP, " ")


def test_the_page_has_cpu_time_and_bytes_and_then_ranges(priced):
    shown = page([priced()])
    assert "|60.0 min + 0.0 s|" in shown
    assert "|2.0 GB + 0 B|" in shown
    assert "|19 Wh (3.8 Wh to 48 Wh); 9 g (114 mg to 34 g) CO2e|" in shown
    assert "|60 Wh (8 Wh to 280 Wh); 29 g (240 mg to 200 g) CO2e|" in shown
    assert "network, were sites apart" in shown
    assert "Not counted: start-up" in shown


def test_seeds_are_meant_and_one_unknown_makes_the_mean_unknown(priced):
    runs = [priced(seed=0), priced(seed=1, cpu=600.0)]
    assert energy.mean_of(runs, "").cpu_seconds == 2400.0
    assert energy.mean_of([*runs, priced(seed=2, cpu=None)], "").cpu_seconds is None


def test_what_is_not_known_is_said(priced):
    assert "|not known + 0.0 s|" in page([priced(cpu=None)])
    _, rows = energy.guessed({"fedavg": priced(cpu=None).energy()})
    assert rows[0] == ["fedavg, computing", *["not known"] * 3]


def test_a_federation_says_what_is_not_counted(priced):
    shown = page([priced(net="federation")])
    assert "computing of the lead&#x27;s process alone" in shown
    assert "what the whole run took is not known" in shown
    assert "Not counted: what the 2 sites computed" in shown
    assert "network, were sites apart" not in shown


def test_a_country_of_the_environment(priced, monkeypatch):
    monkeypatch.setenv("COTERIE_COUNTRY", "FR")
    assert "19 Wh (3.8 Wh to 48 Wh); 1 g (106 mg to 4 g) CO2e" in page([priced()])
    monkeypatch.setenv("COTERIE_COUNTRY", "XX")
    shown = page([priced()])
    assert "COTERIE_COUNTRY: unknown country &#x27;XX&#x27;: known are AT" in shown
    assert "9 g (114 mg to 34 g) CO2e" in shown


TOLD = {
    "tracker": "codecarbon",
    "version": "3.3.2",
    "kwh": 2e-6,
    "co2_kg": 1e-9,
    "how": "cpu_load",
    "watts": 8,
}
TOLD |= {"cpu_model": "a <chip>", "tracking": "process", "grid": "grid of FR", "rounds": [0, 2]}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {},
            "codecarbon 3.3.2 says 2 mWh, 1 µg CO2e (cpu_load, 8 W, a <chip>; of the process; rounds 0 to 2",
        ),
        ({"rounds": [0, 1]}, "rounds 0 to 1 of 2 alone, grid of FR"),
        ({"kwh": None, "co2_kg": None}, "codecarbon 3.3.2 came to no figure (cpu_load, "),
    ],
)
def test_a_tracker_has_a_line(priced, told, said):
    record = priced()
    record.tracked = lambda: TOLD | told
    (line,) = energy.tracked(views.groups([record]))
    assert said in line.replace(numbers.GAP, " ")
    assert "<chip>" not in page([record])
    assert energy.tracked(views.groups([priced()])) == []
    (line,) = energy.tracked(views.groups([priced("local"), record]))
    assert line.startswith("fedavg: codecarbon")


def test_groups_of_several_methods(priced):
    by_label = views.groups([priced(), priced("pens", cpu=900.0)])
    found = {label: energy.mean_of(runs, "") for label, runs in by_label.items()}
    assert [row[:2] for row in energy.measured(found)[1]] == [
        ["fedavg", f"60.0{numbers.GAP}min"],
        ["pens", f"30.0{numbers.GAP}min"],
    ]


@pytest.mark.parametrize(
    ("co2", "said"), [(2e-7, "0.2 µg"), (0.012, "12 mg"), (3.0, "3 g"), (4200.0, "4.2 kg")]
)
def test_grams_in_a_unit_that_suits(co2, said):
    assert numbers.grams(co2).replace(numbers.GAP, " ") == said
