"""Notes on the screen: one line for each thing done; all of them with -v."""

import logging

import pytest

from coterie.cli import screen
from coterie.runs.record import Record

FILLED = "missing values filled by this client's training median or mode"
SCALED = "standardised with this client's own training mean and deviation"
HOSPITALS = ("lakeview", "north", "south", "st-anne", "west")


def told(seed: int) -> Record:
    """Five hospitals, each with two notes of its own, as different by seed as real ones are."""
    clients = [
        {
            "name": name,
            "notes": [f"{FILLED}: chol ({10 * i + seed}, by {240 + seed})", f"{SCALED}: age, chol"],
        }
        for i, name in enumerate(HOSPITALS)
    ]
    clients[3]["notes"].append("columns without any value in training rows, 0 in all rows: oldpeak")
    notes = [
        "columns left out: slope, ca",
        f"rows dealt to clients: {800 + seed} of 920, the others left out",
    ]
    return Record("local", {"seed": seed}, {"notes": notes, "clients": clients})


@pytest.fixture
def quiet():
    """Without -v, whatever another test left behind."""
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.WARNING)
    yield
    logging.getLogger().setLevel(before)


def said(capsys) -> list[str]:
    return [line.removeprefix("· ") for line in capsys.readouterr().err.splitlines()]


def test_five_hospitals_and_three_seeds_take_a_few_lines(capsys, quiet):
    screen.say_gathered([told(seed) for seed in range(3)])
    assert said(capsys) == [
        "columns left out: slope, ca",
        "rows dealt to clients: 3 seeds; details with -v",
        f"{FILLED}: 5 sites, 3 seeds; details with -v",
        f"{SCALED}: age, chol (5 sites, 3 seeds)",
        "columns without any value in training rows, 0 in all rows: oldpeak (st-anne, 3 seeds)",
    ]


def test_of_one_run_seeds_are_not_counted(capsys, quiet):
    screen.say_notes(told(0).about)
    assert said(capsys)[:3] == [
        "columns left out: slope, ca",
        "rows dealt to clients: 800 of 920, the others left out",
        f"{FILLED}: 5 sites; details with -v",
    ]


def test_every_note_is_said_with_v(capsys, quiet):
    logging.getLogger().setLevel(logging.INFO)
    screen.say_gathered([told(seed) for seed in range(3)])
    lines = said(capsys)
    assert f"north: {FILLED}: chol (12, by 242)" in lines
    assert f"{', '.join(HOSPITALS)}: {SCALED}: age, chol" in lines
    assert sum(FILLED in line for line in lines) == 15
    assert "rows dealt to clients: 802 of 920, the others left out" in lines


def test_notes_are_no_markup(capsys, quiet):
    about = {"notes": ["[red]odd[/red]: [b]"], "clients": [{"name": "[i]", "notes": ["x [/]"]}]}
    screen.say_notes(about)
    assert said(capsys) == ["[red]odd[/red]: [b]", "x [/] ([i])"]


def test_clients_that_are_named_in_a_note_are_gathered(capsys, quiet):
    notes = [f"client '{name}' trains on one class only ({i})" for i, name in enumerate(HOSPITALS)]
    clients = [{"name": name, "notes": []} for name in HOSPITALS]
    screen.say_notes({"notes": notes, "clients": clients})
    assert said(capsys) == ["trains on one class only: 5 sites; details with -v"]
    screen.say_notes({"notes": notes[:1], "clients": clients})
    assert said(capsys) == ["trains on one class only (0) (lakeview)"]
