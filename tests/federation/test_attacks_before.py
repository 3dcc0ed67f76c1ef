"""A lead who means harm, before any run begins: what sites say while rows are set aside and scaled."""

from __future__ import annotations

import contextlib
import copy
import csv
import json

import numpy as np
import pytest
import room as rooms
from hostile import Hostile
from room import Room
from ward import write_tables

from coterie.core.errors import CoterieError, Refused
from coterie.federation.data.site_data import digest_of_rows
from coterie.federation.lead.sites import Rule, deal_message
from coterie.federation.policy.keys import Policy

CLOSED = {
    "to_coordinator": False,
    "to_peers": False,
    "rows": False,
    "distances": False,
    "quality": False,
    "label_counts": False,
    "scores": "own",
}
CAREFUL = Policy(**CLOSED, min_rows=5, deals_a_day=1000)
ROWS = 40
FAR = (-1000.0, 1e90)  # a mean and a deviation by which every value becomes 0


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path, dict.fromkeys(("a", "b"), CAREFUL), ("a", "b"), rows=ROWS)


def table(room):
    return room.stations["a"].holding.data.train.x


def dealt(lead, met, deal, spell=lambda name: name):
    """Rows set aside by another seed, with columns spelled in another way; the name of it."""
    common = copy.deepcopy(met.common)
    for column in common["columns"]:
        column["name"] = spell(column["name"])
    message = deal_message(Rule(0.2, 0.0, deal, True), common, 0)
    lead.ask("a", **message)
    return message["ground"]


def summed(lead, met, ground):
    """What is told of the first column, or nothing."""
    try:
        return lead.ask("a", "sums", ground=ground, gaps=met.agreed["gaps"])[0]["sums"][0]
    except Refused:
        return None


def places_in(room, ground):
    kept = room.stations["a"].grounds["lead", ground].share.places["train"]
    return np.isin(np.arange(ROWS), kept).astype(float)


def leverage(sets):
    known = np.array(sets)
    return (np.linalg.pinv(known) @ known).diagonal().max()


def test_a_column_is_the_same_however_its_name_is_spelled(room):
    """With a spelling of its own for each few deals, sums of a column would tell every value of it."""
    lead, sets, sums = Hostile(room), [], []
    met = lead.meet()
    for deal in range(60):
        spell = str.upper if deal % 2 else str.title
        ground = dealt(lead, met, deal, spell)
        if (told := summed(lead, met, ground)) is not None:
            sets.append(places_in(room, ground))
            sums.append(told[0] * told[1])
    guess = np.linalg.lstsq(np.array(sets), np.array(sums), rcond=None)[0]
    assert (np.abs(guess - table(room)[:, 0]) < 5e-4).sum() <= 1  # by chance
    assert leverage(sets) <= CAREFUL.row_leverage + 1e-6


def test_sums_of_columns_and_figures_of_models_do_not_add_up_to_a_row(room):
    """Chosen models tell sums of columns as well: those of other rows than the sums that sites tell."""
    lead, sets = Hostile(room), []
    met = lead.meet()
    for deal in range(30):  # sums alone
        ground = dealt(lead, met, deal)
        if summed(lead, met, ground) is not None:
            sets.append(places_in(room, ground))
    for deal in range(1000, 1020):  # and inputs, of which models tell the same
        ground = dealt(lead, met, deal)
        with contextlib.suppress(CoterieError):
            lead.ask("a", "fit", ground=ground, **met.agreed, late=False)
            sets.append(places_in(room, ground))
    assert leverage(sets) <= CAREFUL.row_leverage + 1e-6


def test_rows_with_a_gap_that_is_said_not_to_count_are_other_rows(tmp_path, monkeypatch):
    """Rows with gaps are left out. A lead says that another site lacks the column with the only gap."""

    def written(folder, names, rows):
        path = write_tables(folder, names, rows=rows)
        path.write_text('missing = "drop"\nabsent = "common"\n' + path.read_text())
        with (folder / "a.csv").open() as file:
            lines = list(csv.reader(file))
        for line in lines[1:40]:
            line[1] = "" if line is lines[7] else line[1]
        with (folder / "a.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        return path

    monkeypatch.setattr(rooms, "write_tables", written)
    room = Room(tmp_path, dict.fromkeys(("a", "b"), CAREFUL), ("a", "b"), rows=ROWS)
    lead = Hostile(room)
    met = next(met for deal in range(9) if 6 in aside_in(room, met := lead.meet(deal=deal)))
    gaps = {"some": [False, True, False], "every": [False] * 3}
    with pytest.raises(Refused, match="rows that differ by 1 "):
        lead.ask("a", "sums", ground=met.rule.ground, gaps=gaps)


def aside_in(room, met):
    """Rows for training, by their places in the table."""
    return room.stations["a"].grounds["lead", met.rule.ground].share.places["train"]


def fitted(lead, met, scales):
    """What a site says once its columns are scaled so: by a mean and a deviation each."""
    agreed = [[False, [200, mean, deviation], [0.0]] for mean, deviation in scales]
    asked = {"ground": met.rule.ground, "gaps": met.agreed["gaps"], "agreed": agreed, "late": False}
    try:
        return json.dumps(lead.ask("a", "fit", **asked)[0])
    except CoterieError as error:
        return str(error)


@pytest.mark.parametrize("least", [2.0**-150, float(np.finfo(np.float32).max)], ids=["nothing", "infinite"])
def test_no_scale_that_a_lead_makes_up_tells_a_value(room, least):
    """By a scale at which only values beyond a bound become something, or infinite, an answer that says so
    tells the largest value, and one that names the row tells that row: a bit for each question.
    """
    lead = Hostile(room)
    met = lead.meet()
    said = {fitted(lead, met, [(-1000.0, bound / least), FAR, FAR]) for bound in np.linspace(990, 1010, 12)}
    assert len(said) == 1
    assert "digest" in said.pop()


def test_nobody_can_try_which_rows_a_site_has(room):
    """Whoever knows all rows but one would try what that one is, without asking for anything."""
    lead = Hostile(room)
    met = lead.meet()
    data, hello = room.stations["a"].holding.data, lead.ask("a", "hello")[0]["hello"]
    assert hello["digest"] != digest_of_rows(data)
    room.open("a")
    assert lead.ask("a", "hello")[0]["hello"] == hello  # and it is known again
    assert met.digests["a"] == hello["digest"]
