"""Whether sites' rows fit together, from what strangers say of them."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadData
from coterie.federation.data.agreement import match
from coterie.federation.data.messages import Facts, Hello


def column(name, kind="number", values=(), unit="", **more):
    codes = list(range(len(values)))
    plain = {"name": name, "kind": kind, "values": list(values), "codes": codes, "unit": unit}
    return {**plain, "center": 0.0, "spread": 1.0, **more}


def hello(**changes):
    """Of a site that has all that the others have; columns are changed or left out by name."""
    told = {
        "task": "classification",
        "columns": [
            column("age", unit="years"),
            column("chol", unit="mg/dl"),
            column("sex", "flag", ("f", "m")),
            column("thal", "category", ("normal", "fixed", "reversible")),
        ],
        "classes": ["no", "yes"],
        "target": "ill",
        "rules": {"missing": "median", "scale": "shared", "absent": "flag"},
        "shape": [],
        "absent": [],
        "rows": 40,
        "patients": False,
        "digest": "0123abcd",
        "place": None,
    }
    columns = {c["name"]: c for c in told["columns"]}
    for name in ("age", "chol", "sex", "thal"):
        change = changes.pop(name, {})
        columns[name] = None if change is None else {**columns[name], **change}
    told["columns"] = [c for c in columns.values() if c] + changes.pop("more", [])
    rules = changes.pop("rules", {})
    return {**told, "rules": {**told["rules"], **rules}, **changes}


ALIKE = {name: hello() for name in ("c", "a")}


def test_columns_and_classes_are_matched_by_name():
    turned = hello(classes=["yes", "no"])
    turned["columns"] = [{**c, "name": f" {c['name'].upper()}"} for c in turned["columns"][::-1]]
    meeting = match({**ALIKE, "b": turned})
    assert meeting.sites == ("a", "b", "c")
    assert meeting.refused == {}
    assert [c.name for c in meeting.common.columns] == ["age", "chol", "sex", "thal"]
    assert meeting.common.classes == ("no", "yes")
    assert meeting.common.rules == {"missing": "median", "scale": "shared", "absent": "flag"}
    assert meeting.common.to_dict() == {k: v for k, v in hello().items() if k in meeting.common.to_dict()}


@pytest.mark.parametrize(
    ("names", "places", "order"),
    [
        (["10", "9", "b", "a"], None, ["9", "10", "a", "b"]),
        (["nan", "inf", "a", "7"], None, ["7", "a", "inf", "nan"]),
        (["client-10", "client-9"], [10, 9], ["client-9", "client-10"]),
        (["client-10", "client-9"], [3, 3], ["client-10", "client-9"]),
        (["b", "a"], [0, None], ["a", "b"]),
    ],
)
def test_the_order_of_sites(names, places, order):
    places = places or [None] * len(names)
    hellos = {n: hello(place=p) for n, p in zip(names, places, strict=True)}
    assert list(match(hellos).sites) == order


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            hello(chol={"unit": "mmol/l"}, thal=None, classes=["ill", "well"]),
            "site 'b': classes ill, well against no, yes; column 'chol' is in mmol/l, the others have mg/dl; "
            "column 'thal' is missing (absent = true, if there is none): change its recipe",
        ),
        (hello(chol={"unit": ""}), "column 'chol' is in none, the others have mg/dl"),
        (hello(more=[column("bmi")]), "column 'bmi' is one that the others do not have"),
        (hello(target="num"), "target 'num' against 'ill'"),
        (
            hello(task="regression", classes=[]),
            "a regression, the others have a classification; classes none",
        ),
        (hello(rules={"missing": "drop"}), "rule missing = drop, the others have median"),
        (hello(sex={"values": ["m", "f"]}), "column 'sex' has values m, f, the others have f, m"),
        (hello(thal={"codes": [3, 6, 7]}), "column 'thal' has codes 3, 6, 7, the others have 0, 1, 2"),
        (
            hello(thal={"kind": "number"}),
            "column 'thal' is a number, the others have category",
        ),
        (
            hello(age={"center": 50, "spread": 10}),
            "column 'age' has center and spread 50 and 10, the others have 0 and 1",
        ),
        (hello(columns=[], rules={}, shape=[1, 8, 8]), "inputs of shape 1 x 8 x 8 against none; rule absent"),
        (
            hello(columns=[column(f"c{i}") for i in range(30)]),
            "column 'c15' is one that the others do not have and 14 more: change its recipe",
        ),
        (hello(target="a\u202eb" * 90), r"target 'a\u202eba"),
        ({"task": "classification"}, "what site 'b' says of its rows: columns is None, but must be a list"),
        ([], "what site 'b' says of its rows is [], but must be a table of fields"),
    ],
)
def test_a_site_that_differs_is_refused_with_all_of_it_in_one_line(other, said):
    meeting = match({**ALIKE, "b": other})
    assert meeting.sites == ("a", "c")
    assert said in meeting.refused["b"]
    assert "\n" not in meeting.refused["b"]


@pytest.mark.parametrize(
    ("hellos", "said"),
    [
        (
            [hello(chol={"unit": "mmol/l"}), hello()],
            [
                "column 'chol', its unit: mmol/l at s0; mg/dl at s1",
                "1 question(s) on which no majority agrees",
            ],
        ),
        (
            [hello(thal=None), hello()],
            ["column 'thal' is at s1, not at s0: leave it out, or add it to the other recipes, with absent"],
        ),
        (
            [hello(target="x"), hello(target="y"), hello(target="z")],
            ["the target: x at s0; y at s1; z at s2"],
        ),
        (
            [hello(classes=["ill", "well"]), hello(), hello(rules={"scale": "site"})] * 2,
            ["classes ill, well against no, yes", "rule scale = site", "2 of 6 sites agree, more than half"],
        ),
        ([None, hello()], ["1 of 2 sites agree"]),
        ([None], ["is None, but must be", "no site says"]),
        ([], ["no site says"]),
    ],
)
def test_without_a_majority_nothing_runs_and_everything_is_said(hellos, said):
    with pytest.raises(BadData) as caught:
        match({f"s{i}": h for i, h in enumerate(hellos)})
    for line in said:
        assert line in str(caught.value)


CATEGORY = {"unit": "", "kind": "category", "values": ["low"], "codes": [0]}


@pytest.mark.parametrize("rule", ["flag", "mask", "common"])
def test_a_column_without_any_value_is_welcome_however_it_is_described(rule):
    rules = {"absent": rule}
    lacking = hello(rules=rules, absent=["chol"], chol=CATEGORY)
    meeting = match({"a": hello(rules=rules), "b": lacking, "c": lacking})
    assert meeting.sites == ("a", "b", "c")
    assert meeting.common.columns[1].unit == "mg/dl"


def test_a_column_without_any_value_is_refused_where_the_rule_is_to():
    rules = {"absent": "refuse"}
    hellos = {n: hello(rules=rules, absent=["chol"] if n == "b" else []) for n in "abc"}
    assert "column 'chol' has no value, and the rule is absent = refuse" in match(hellos).refused["b"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": -1}, "rows is -1, but must be a whole number"),
        ({"rows": True}, "rows is True"),
        ({"rows": 10**400}, "rows is 1000"),
        ({"task": "guess"}, "task is 'guess', but must be one of classification, regression, survival"),
        ({"classes": ["a", "a"]}, "a class is there twice"),
        ({"classes": "ab"}, "classes is 'ab'"),
        ({"classes": ["a" * 1001, "b"]}, "classes is"),
        ({"classes": ["a\nb", "b"]}, "classes is"),
        ({"target": "\ud800"}, "target is"),
        ({"task": "regression"}, "a regression has classes"),
        ({"rules": {"scale": "own"}}, "scale is 'own', but must be one of site"),
        ({"shape": [2]}, "columns and a shape, or neither"),
        ({"columns": []}, "columns and a shape, or neither"),
        ({"columns": [{}] * 100_001}, "at most 100,000 columns"),
        ({"absent": ["bmi"]}, "'bmi' is absent, but none of its columns"),
        ({"more": [column("AGE ")]}, "a column is there twice"),
        ({"age": {"kind": "text"}}, "column 1: kind is 'text'"),
        ({"age": {"spread": 0}}, "spread is 0, but must be a finite number above 0"),
        ({"age": {"center": float("nan")}}, "center is nan"),
        ({"age": {"center": 1e200}}, "center is 1e+200"),
        ({"thal": {"codes": [1, 2]}}, "3 values and 2 codes"),
        ({"thal": {"codes": [1, 1, 2]}}, "a value has one code of its own"),
        ({"thal": {"values": [], "codes": []}}, "a category has some"),
        ({"place": -1}, "place is -1"),
        ({"patients": 1}, "patients is 1, but must be true or false"),
    ],
)
def test_every_field_is_checked(change, said):
    with pytest.raises(BadData) as caught:
        Hello.of(hello(**change), "b")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


odd = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.just(10**400),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["classification", "number", "category", "site", "flag", "age", "\ud800", "a\x00b"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(list(hello())), inner, max_size=4)
    ),
    max_leaves=8,
)


def places_in(value, path=()):
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places_in(child, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    made = copy.copy(value)
    made[path[0]] = changed(value[path[0]], path[1:], new)
    return made


FACTS = {
    "train": 4,
    "validation": 0,
    "test": 2,
    "shape": [2],
    "outputs": 2,
    "features": ["age", "sex"],
    "cluster": None,
    "digest": "ab",
    "labels": [[1, 3], [], [2]],
    "notes": ["all well"],
}


@given(st.sampled_from(list(places_in(hello()))), odd, st.integers(1, 3))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_stranger_makes_no_other_trouble_than_being_refused(path, new, others):
    hellos = {"b": changed(hello(), path, new), **{f"a{i}": hello() for i in range(others)}}
    try:
        meeting = match(hellos)
        assert set(meeting.sites) | set(meeting.refused) == set(hellos)
        assert all("\n" not in line and line.isprintable() for line in meeting.refused.values())
        match(
            {
                "a": meeting.common.to_dict()
                | {k: hello()[k] for k in ("absent", "rows", "patients", "digest", "place")}
            }
        )
    except BadData:
        return


@given(st.sampled_from(list(places_in(FACTS))), odd)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_odd_facts_are_refused(path, new):
    meeting = match({"a": hello()})
    try:
        found = meeting.roster({"a": changed(FACTS, path, new)})
        assert found.outputs == 2
        assert sum(found.members[0].labels[0] if found.members[0].labels else [4]) == found.members[0].train
    except BadData:
        return


class TestRoster:
    meeting = match({**ALIKE, "b": hello()})

    def test_labels_and_notes_are_there_where_a_site_tells_them(self):
        silent = {k: v for k, v in FACTS.items() if k not in ("labels", "notes")}
        found = self.meeting.roster({"a": FACTS, "b": silent, "c": {**silent, "labels": None}})
        assert found.names == ["a", "b", "c"]
        assert [m.labels for m in found.members] == [((1, 3), (0, 0), (2, 0)), None, None]
        assert [m.notes for m in found.members] == [("all well",), (), ()]
        assert (found.shape, found.outputs, found.classes) == ((2,), 2, ("no", "yes"))
        assert found.sizes.tolist() == [4, 4, 4]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"shape": [3], "features": []}, "shapes 2 and 3, names age, sex"),
            ({"features": ["age", "bmi"]}, "names bmi, sex"),
            ({"features": ["age"]}, "1 names for inputs of shape"),
            ({"outputs": 9}, "9 outputs for 2 classes"),
            ({"labels": [[1, 2], [], [2]]}, "do not add up"),
            ({"labels": [[1, 2, 1], [], [2]]}, "do not add up"),
            ({"train": 0, "labels": None}, "0 training rows"),
            ({"notes": ["a\nb"]}, "notes is"),
        ],
    )
    def test_what_does_not_fit(self, change, said):
        with pytest.raises(BadData) as caught:
            self.meeting.roster({"a": FACTS, "b": {**FACTS, **change}, "c": FACTS})
        assert said in str(caught.value)

    def test_a_site_that_has_not_said(self):
        with pytest.raises(BadData, match="'c' has not said"):
            self.meeting.roster({"a": FACTS, "b": FACTS})

    def test_classes_by_number_are_as_many_as_any_site_has(self):
        told = hello(columns=[], rules={}, shape=[2], classes=[], target="")
        found = match({"a": told, "b": told}).roster({"a": FACTS, "b": {**FACTS, "outputs": 5}})
        assert found.outputs == 5
        assert found.members[0].labels[0] == (1, 3, 0, 0, 0)

    def test_facts_are_read_as_they_were_told(self):
        assert Facts.of(FACTS, "a").labels == ((1, 3), (), (2,))
