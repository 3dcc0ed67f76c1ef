"""Columns that a run forbids or requires, over a federation: who takes part, and what a site checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from room import Room, told_scores
from test_meeting import ALIKE, hello

from coterie.core.errors import BadInput, BadRun, Several
from coterie.core.wire import pack, unpack
from coterie.federation.data.agreement import match
from coterie.federation.lead.sites import Rule, meet
from coterie.runs.builder import prepare
from coterie.runs.loop import run
from coterie.runs.settings import Settings

LACKS = "it does not record chol, which is required"


def names(meeting):
    return [c.name for c in meeting.common.columns]


def test_a_forbidden_column_keeps_no_site_apart():
    """Half have no sex, and one another way of writing it: all fit once nobody has it."""
    hellos = {**ALIKE, "b": hello(sex=None), "d": hello(sex=None)}
    with pytest.raises(Several, match="column 'sex' is at a, c, not at b, d"):
        match(hellos)
    found = match({**hellos, "e": hello(sex={"values": ["w", "m"]})}, forbid=(" SEX",))
    assert found.sites == ("a", "b", "c", "d", "e")
    assert names(found) == ["age", "chol", "thal"]
    assert found.refused == {}


def test_who_does_not_record_a_required_column_has_no_say():
    """Two lack it and count in minutes; the others agree without them."""
    strange = {"rules": {"absent": "mask"}}
    hellos = {**ALIKE, "b": hello(absent=["chol"], **strange), "d": hello(chol=None, **strange)}
    found = match(hellos, require=("chol",))
    assert found.sites == ("a", "c")
    assert found.refused == {"b": f"site 'b': {LACKS}", "d": f"site 'd': {LACKS}"}


@pytest.mark.parametrize(
    ("hellos", "asked", "said"),
    [
        (ALIKE, {"forbid": ("sexx",)}, "unknown column of the sites 'sexx': did you mean sex?"),
        (ALIKE, {"require": ("q",)}, "unknown column of the sites 'q': known are age, chol, sex, thal"),
        (ALIKE, {"forbid": ("Ill",)}, "column 'Ill' is what is predicted, and is never an input"),
        (ALIKE, {"forbid": ("age", "chol", "sex", "thal")}, "leaves the sites no input: forbid fewer"),
        (
            {n: hello(columns=[], shape=[1, 8, 8]) for n in "ab"},
            {"forbid": ("sex",)},
            "inputs of the sites are not columns that have names: leave forbid and require out",
        ),
        (
            {n: hello(target="days until dead", task="survival", classes=[]) for n in "ab"},
            {"forbid": ("dead",)},
            "column 'dead' is what is predicted",
        ),
    ],
)
def test_what_no_site_has_is_refused(hellos, asked, said):
    with pytest.raises(BadInput) as error:
        match(hellos, **asked)
    assert said in str(error.value)


def test_nobody_records_it():
    with pytest.raises(Several, match="no site is left: require less, nothing runs"):
        match({n: hello(absent=["chol"]) for n in "ab"}, require=("chol",))


@pytest.fixture
def room(tmp_path):
    """Four sites, of which c has no weight."""
    made = Room(tmp_path, rows=40)
    made.recipe.write_text(
        made.recipe.read_text().replace("[columns.weight]\n", "[columns.weight]\nat.c = { absent = true }\n")
    )
    made.open("c")
    made.wanted = ()
    return made


def on_one_machine(room, **more):
    options = {"table": {"recipe": str(room.recipe)}}
    settings = Settings(data="table", kernel="sgd", engine="loop", rounds=3, options=options, **more)
    return run(prepare(settings, None), None, "run").record


def test_a_site_is_left_out_and_the_others_have_the_numbers_of_one_machine(
    room, monkeypatch, tmp_path, capsys
):
    asked = {"forbid": ("pulse",), "require": ("weight",), "validation": 0.2}
    far, near = room.play(monkeypatch, tmp_path / "run", **asked), on_one_machine(room, **asked)
    assert far.clients == near.clients == ["a", "b", "d"]
    assert far.about["features"] == near.about["features"] == ["age", "weight"]
    assert [told_scores(m) for m in far.metrics] == [told_scores(m) for m in near.metrics]
    assert all(np.array_equal(far.weights[r], w) for r, w in near.weights.items())
    why = "site 'c': it does not record weight, which is required"
    assert far.about["notes"][:2] == ["column pulse is forbidden: it is no input of any model", why]
    assert f"{why}; it is left out of the run" in capsys.readouterr().out
    assert any(why in line for line in room.said["c"])
    assert (far.config["forbid"], far.config["require"]) == (["pulse"], ["weight"])
    assert {tuple(m["forbid"]) for m in room.asked("a", "deal")} == {("pulse",)}
    assert not room.asked("c", "deal")


def test_nothing_is_said_of_columns_where_nothing_is_asked(room, monkeypatch):
    room.play(monkeypatch, rounds=1)
    assert not [m for _, m in room.seen if "forbid" in m]


def test_a_site_that_was_asked_for_ends_the_run_before_it_begins(room, monkeypatch):
    room.wanted = room.names
    with pytest.raises(Several, match="site 'c': it does not record weight, which is required"):
        room.play(monkeypatch, require=("weight",))


def test_one_site_of_two_that_are_needed_is_left(room):
    for name in ("a", "b"):  # of whom no row has a weight
        path = room.recipe.parent / f"{name}.csv"
        table = pd.read_csv(path)
        table.assign(weight=None).to_csv(path, index=False)
        room.open(name)
    rule = Rule(0.3, 0.0, 0, True, require=("weight",))
    with pytest.raises(BadRun, match=r"1 site\(s\) record weight, 2 are needed: require less"):
        meet(room.lines, rule, (), 2, 0.0, print)


def test_a_site_that_comes_late_must_record_it_too(room, monkeypatch):
    room.wanted, room.gone = room.names, {"c"}

    def watch(record):
        room.gone = set()

    record = room.play(monkeypatch, watch=watch, rounds=3, require=("weight",), forbid=("pulse",))
    assert all("c" in m["away"] for m in record.metrics[1:])
    assert not room.asked("c", "fit")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A site that is asked, and who asks."""
    room = Room(tmp_path_factory.mktemp("ready"), names=("a",), rows=40)
    return room.stations["a"], room.kits["lead"].card


@pytest.mark.parametrize(
    ("forbid", "keeps", "said"),
    [
        ("pulse", (), "Expected `array`, got `str` - at `$.forbid`"),
        (["pulse", 3], (), "Expected `str`, got `int` - at `$.forbid[1]`"),
        ([""], (), "but must be a list"),
        (["pulse"], ("pulse",), "does not have what is said to be common: column 'pulse' is missing"),
        ([], (), "column 'pulse' is one that the others do not have"),
        (["age", "pulse", "weight"], (), "leaves recipe no input"),
    ],
)
def test_a_site_checks_what_it_is_told_to_leave_out(ready, forbid, keeps, said):
    station, lead = ready
    common = station.holding.hello()
    common["columns"] = [c for c in common["columns"] if c["name"] != "pulse" or "pulse" in keeps]
    message = {"do": "deal", "ground": "g", "common": common, "number": 0, "forbid": forbid}
    message |= {"test": 0.3, "validation": 0.0, "deal": 0, "one_class": True}
    answer, _ = unpack(station.answer(lead, {}, pack(message, {})))
    assert said in answer["text"]
