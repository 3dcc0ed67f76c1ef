"""Data quality over a federation: what leaves a site, what stays, who may refuse, and who is believed."""

from __future__ import annotations

import copy
import json

import pytest
from room import Room

from coterie.cli.main import main
from coterie.core.errors import BadData, Several
from coterie.core.wire import pack, unpack
from coterie.federation.data import quality
from coterie.federation.data.quality import ask_sites, home_of, in_common
from coterie.federation.lead.connector import Federation
from coterie.federation.policy.keys import Policy

NAMES = ("ranges", "units", "constant", "duplicates", "missing", "differs")
NET = Federation(least=1, wait=0.0)


@pytest.fixture
def room(tmp_path):
    """Sites a, b, c, whose ages are drawn about 0, so that half of them cannot be."""
    return lambda **policies: Room(tmp_path, policies, names=("a", "b", "c"), rows=70)


def test_counts_and_quantiles_leave_and_rows_stay(room):
    here = room()
    found = ask_sites(NET, NAMES, here.lines)
    assert [s.site for s in found.sketches] == ["a", "b", "c"]
    ages = {f.site: f.rows for f in found.findings if (f.kind, f.column) == ("ranges", "age")}
    assert set(ages) == {"a", "b", "c"}
    assert all(f.lines == () for f in found.findings)
    for name in here.names:
        own = json.loads((here.states[name] / "quality.json").read_text())
        mine = next(f for f in own["findings"] if (f["kind"], f["column"]) == ("ranges", "age"))
        assert len(mine["lines"]) == mine["rows"] == ages[name]
        assert (here.states[name] / "quality.json").stat().st_mode & 0o077 == 0
        assert here.diary(name)[-1]["asked"].startswith("quantiles of columns")
    (answer,) = [unpack(here.stations["a"].answer(here.kits["lead"].card, {}, pack(message(), {})))[0]]
    assert answer.keys() == {"rows", "columns", "found"}
    assert {k for c in answer["columns"] for k in c} == set(quality.COLUMN)
    assert {k for f in answer["found"] for k in f} == set(quality.FOUND)
    assert all(len(c["quantiles"]) in (0, 19) for c in answer["columns"])


def message(checks=NAMES):
    return {"do": "check", "checks": list(checks)}


def test_the_findings_across_sites_are_those_of_one_process(room):
    from coterie.core.seeds import Key
    from coterie.data.partition.silos import Silos
    from coterie.data.quality.checks import checked
    from coterie.data.quality.ranges import shipped
    from coterie.data.quality.site_rows import dealt_rows
    from coterie.data.sources.table import TableFile

    here = room()
    sites, _ = dealt_rows(TableFile(recipe=str(here.recipe)).load(), Silos(), None, Key(0))
    together = checked(sites, shipped(), NAMES)
    found = ask_sites(NET, NAMES, here.lines)
    assert found.sketches == together.sketches

    def mark(f):
        return f.site, f.column, f.kind, f.severity, f.rows

    assert list(map(mark, found.findings)) == list(map(mark, together.findings))


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (
            Policy(quality=False),
            "would be told, which the policy rules out: choose another way, or set quality",
        ),
        (Policy(epsilon=1.0), "quantiles without noise, where the policy has epsilon = 1"),
        (Policy(min_rows=71), "70 rows to check, below the policy's 71"),
        (Policy(requesters=("anna",)), "'lead' is not among the policy's requesters"),
    ],
)
def test_a_site_may_refuse_and_the_others_go_on(room, policy, why):
    here = room(b=policy)
    found = ask_sites(NET, NAMES, here.lines)
    assert [s.site for s in found.sketches] == ["a", "c"]
    assert any(note.startswith("site b: ") and why in note for note in found.notes)
    assert not (here.states["b"] / "quality.json").exists()
    assert "refused" in here.diary("b")[-1]["outcome"]


def test_if_all_refuse_nothing_is_shown(room):
    here = room(**dict.fromkeys("abc", Policy(quality=False)))
    with pytest.raises(Several, match="no site tells"):
        ask_sites(NET, NAMES, here.lines)


@pytest.mark.parametrize("checks", [None, "units", ["uni"], [3], ["units"] * 99])
def test_odd_questions_are_refused(room, checks):
    here = room()
    body = pack({"do": "check", "checks": checks}, {})
    assert "error" in unpack(here.stations["a"].answer(here.kits["lead"].card, {}, body))[0]


def test_checks_are_counted_by_the_day_as_nothing_ends_one(room):
    here = room(a=Policy(deals_a_day=2))

    def ask():
        body = pack(message(), {})
        return unpack(here.stations["a"].answer(here.kits["lead"].card, {}, body))[0]

    assert [ask().keys() for _ in range(2)] == [{"rows", "columns", "found"}] * 2
    assert "checked 2 times within 24 hours, all that deals_a_day allows" in ask()["text"]


# what strangers say

COLUMN = {
    "name": "age",
    "kind": "number",
    "unit": "years",
    "known": 70,
    "missing": 10,
    "quantiles": [float(i) for i in range(19)],
}
SAID = {
    "rows": 80,
    "columns": [COLUMN],
    "found": [{"column": "age", "kind": "ranges", "severity": "look", "rows": 3}],
}
ODD = {
    "no table": lambda s: [],
    "rows": lambda s: {**s, "rows": -1},
    "more rows than there are": lambda s: {**s, "rows": 79},
    "a kind nobody knows": lambda s: changed(s, "found", kind="order"),
    "more found than rows": lambda s: changed(s, "found", rows=81),
    "a column that is not there": lambda s: changed(s, "found", column="bmi"),
    "18 quantiles": lambda s: changed(s, "columns", quantiles=[0.0] * 18),
    "out of order": lambda s: changed(s, "columns", quantiles=[3.0, *range(18)]),
    "not finite": lambda s: changed(s, "columns", quantiles=[float("nan")] * 19),
    "quantiles of a few": lambda s: changed(s, "columns", known=20, missing=60),
    "a name of two lines": lambda s: changed(s, "columns", name="a\nb"),
    "twice": lambda s: {**s, "columns": [COLUMN, {**COLUMN, "name": " AGE"}]},
    "no severity": lambda s: changed(s, "found", severity="terrible"),
}


def changed(said, part, **fields):
    made = copy.deepcopy(said)
    made[part][0].update(fields)
    return made


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_answer_that_cannot_be_is_refused_in_one_line(odd):
    home_of(SAID, "a")
    with pytest.raises(BadData) as refused:
        home_of(odd(SAID), "a\x1b[31m")
    assert len(str(refused.value).splitlines()) == 1
    assert "\x1b" not in str(refused.value)


def test_a_site_that_lies_is_left_out_and_said(room):
    here = room()
    here.change = lambda name, message, answer: pack({"rows": 1}, {}) if name == "b" else answer
    found = ask_sites(NET, NAMES, here.lines)
    assert [s.site for s in found.sketches] == ["a", "c"]
    assert any("site b: what site 'b' says of a check" in note for note in found.notes)


def test_columns_of_other_spelling_and_unit_are_made_comparable():
    weights = {"a": ("weight", "kg", 70.0), "b": ("Weight ", "lb", 154.3), "c": ("weight", "stone", 11.0)}
    homes = [
        home_of(changed(SAID, "columns", name=n, unit=u, quantiles=[q] * 19) | {"found": []}, site)
        for site, (n, u, q) in weights.items()
    ]
    alike, notes = in_common(homes)
    assert [h.sketch.columns[0].name for h in alike] == ["weight"] * 3
    assert [h.sketch.columns[0].quantiles[:1] for h in alike] == [(70.0,), (69.99,), ()]
    assert ["converted to kg" in notes[0], "is not compared" in notes[1]] == [True, True]


def test_from_the_shell(room, monkeypatch, capsys, tmp_path):
    here = room()
    monkeypatch.setattr(quality, "lines_of_kit", lambda kit, say: here.lines)
    words = [
        "--net",
        "federation",
        "--federation.kit",
        str(here.kits["lead"].folder),
        "--federation.wait",
        "0",
    ]
    out = tmp_path / "out"
    assert main(["check", *words, "--checks", *NAMES, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "ask the site, whose quality.json says which" in " ".join(printed.split())
    assert json.loads((out / "quality.json").read_text())["about"]["net"] == "federation"


def test_a_site_tells_its_own_people_what_a_model_will_lean_on(room, monkeypatch, tmp_path):
    """And nobody else: who leads has no rows to look at, and is told nothing of it."""
    here, asked_for = room(), list[str]()
    leak = {"column": "age", "tells": "the target", "measure": "AUC", "score": 0.996, "rows": 40}

    def looked(clients):
        (client,) = clients
        asked_for.append(client.name)
        return ({**leak, "site": client.name},) if client.name == "b" else ()

    monkeypatch.setattr("coterie.federation.site.rows.leaning", looked)
    record = here.play(monkeypatch, tmp_path / "run", method="fedavg", rounds=1)
    assert sorted(set(asked_for)) == list(here.names)
    line = "Look at `age` first: alone it tells the outcome (AUC 0.996 on b's 40 training rows)"
    assert [line in " ".join(here.said[name]) for name in here.names] == [n == "b" for n in here.names]
    assert record.about["leaks"] == []
