"""A site's rows by themselves become the client that one process with all rows would make of them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadData, BadInput, CoterieError, Refused, UnknownName
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition import Dirichlet, Iid, Shift, Silos
from coterie.data.preparation import Column, coded
from coterie.data.sources.table import TableFile
from coterie.data.tables.apply_recipe import rows_of
from coterie.data.tabular import TabularPrepare
from coterie.federation.data.agreement import match
from coterie.federation.data.site_data import SiteData

COLUMNS = (
    Column("age", unit="years", center=50, spread=10),
    Column("chol", unit="mg/dl", center=200, spread=40),
    Column("sex", "flag", ("f", "m"), (0.0, 1.0)),
    coded("cp", (1, 2, 3), ("typical", "other", "none")),
    coded("thal", (3, 6, 7)),
    Column("step", values=("low", "mid", "high"), codes=(0.0, 1.0, 2.0)),
)
SITES = ("b", "a", "10", "9")


def over_the_wire(value):
    """As a message brings it."""
    return json.loads(json.dumps(value, allow_nan=False))


def drawn(seed: int, gaps: float, patients: bool, regression: bool) -> dict[str, Arrays]:
    """Each site's rows: ages, blood, sexes, ... and what is to be predicted; some lack a column."""
    made = {}
    for number, site in enumerate(SITES):
        rng = np.random.default_rng([seed, number])
        n = int(rng.integers(12, 40))
        x = np.column_stack(
            [
                rng.normal(50 + 5 * number, 10, n),
                rng.normal(200, 40, n).round(1),
                rng.integers(0, 2, n),
                rng.choice([1.0, 2.0, 3.0], n),
                rng.choice([3.0, 6.0, 7.0], n),
                rng.integers(0, 3, n),
            ]
        )
        x[rng.random(x.shape) < gaps] = np.nan
        if number == 1:
            x[:, [1, 4]] = np.nan
        y = rng.normal(size=n) if regression else rng.integers(0, 2, n)
        y[:2] = (0, 1)  # both classes are there
        # the same numbers stand for other patients elsewhere
        who = rng.integers(0, max(6, n // 2), n).astype(object) if patients else np.arange(n).astype(object)
        who[rng.random(n) < 0.2] = None
        made[site] = Arrays(x, y, {"who": who})
    return made


def data_of(pools: dict[str, Arrays], prepare: TabularPrepare, patients: bool) -> Dataset:
    whose = np.concatenate([np.full(len(p), site, dtype=object) for site, p in pools.items()])
    who = np.concatenate([p.columns["who"] for p in pools.values()])
    y = np.concatenate([p.y for p in pools.values()])
    regression = y.dtype.kind == "f"
    return Dataset(
        "hearts",
        "regression" if regression else "classification",
        Arrays(np.concatenate([p.x for p in pools.values()]), y, {"site": whose, "who": who}),
        features=prepare.features,
        classes=() if regression else ("well", "ill"),
        prepare=prepare,
        silos="site",
        together=("who",) if patients else (),
        one_class=True,
    )


def by_themselves(holdings: dict[str, SiteData], seed: int, test=0.3, validation=0.0, forbid=(), require=()):
    """All steps, of which only messages pass from one site to another."""
    meeting = match({name: over_the_wire(h.hello()) for name, h in holdings.items()}, forbid, require)
    told = over_the_wire({"common": meeting.common.to_dict(), "forbid": list(forbid)})
    here = [holdings[name].without(told["forbid"]).joined(told["common"]) for name in meeting.sites]
    told = [over_the_wire(h.deal(test, validation, seed, i)) for i, h in enumerate(here)]
    lacks = [t["lacks"] for t in told]
    if meeting.common.columns:
        gaps = over_the_wire(meeting.common.gaps(lacks))
        sums = [over_the_wire(h.sums(gaps, fewest=0)) for h in here]
        agreed = over_the_wire(meeting.common.agreed(lacks, sums)[0])
    else:
        gaps, agreed = {}, []
    clients = [h.fit(gaps, agreed) for h in here]
    facts = {h.name: over_the_wire({**h.facts(), "labels": h.labels()}) for h in here}
    notes = {c.name: list(c.notes) for c in clients}
    return clients, meeting.roster({n: {**f, "notes": notes[n]} for n, f in facts.items()})


def assert_same(one, other):
    assert (one.name, one.features, one.classes) == (other.name, other.features, other.classes)
    assert (one.notes, one.cluster) == (other.notes, other.cluster)
    assert one.preparation == other.preparation
    assert (one.units is None) == (other.units is None)
    assert one.units is None or one.units.tolist() == other.units.tolist()
    for part in ("train", "validation", "test"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert torch.equal(mine.x, theirs.x)
        assert torch.equal(mine.y, theirs.y)
        assert (mine.x.dtype, mine.y.dtype) == (theirs.x.dtype, theirs.y.dtype)


def outcome(make):
    """What is made, or what is said instead."""
    try:
        return make(), ""
    except CoterieError as error:
        return None, str(error)


# every two rules meet once
RULES = [
    (missing, scale, absent)
    for i, missing in enumerate(("refuse", "drop", "median"))
    for j, absent in enumerate(("flag", "mask", "common", "refuse"))
    for scale in [("site", "shared", "constants")[(i + j) % 3]]
]


@pytest.mark.parametrize(("missing", "scale", "absent"), RULES)
@given(
    seed=st.integers(0, 2**32),
    gaps=st.sampled_from([0.0, 0.1]),
    patients=st.booleans(),
    regression=st.booleans(),
    validation=st.sampled_from([0.0, 0.25]),
)
@settings(max_examples=6, deadline=None)
def test_clients_are_those_of_one_process_to_the_last_bit(
    missing, scale, absent, seed, gaps, patients, regression, validation
):
    pools = drawn(seed, gaps, patients, regression)
    if absent == "refuse":
        pools["a"] = replace(pools["a"], x=np.where(np.isnan(pools["a"].x), 1.0, pools["a"].x))
        pools["a"].x[:, 4] = 3.0
    prepare = TabularPrepare(COLUMNS, missing, scale, absent)
    whole = data_of(pools, prepare, patients)
    split, key = Silos(minimum=2), Key(seed).at("data")
    dealt, refused = outcome(lambda: deal_clients(whole, split, None, key, validation=validation))
    holdings = {s: SiteData(data_of({s: p}, prepare, patients), s) for s, p in pools.items()}
    found, said = outcome(lambda: by_themselves(holdings, seed, validation=validation))
    assert said == refused
    if dealt is not None and found is not None:
        clients, members = found
        for mine, theirs in zip(clients, dealt.clients, strict=True):
            assert_same(mine, theirs)
        assert members == roster_of(dealt.clients, digests=True)


def hearts(seed=0, prepare=None, **rules):
    """Holdings by site, and the data of all in one place."""
    pools = drawn(seed, 0.1, False, False)
    prepare = prepare or TabularPrepare(COLUMNS, **{"missing": "median", "absent": "flag", **rules})
    alone = {s: SiteData(data_of({s: p}, prepare, False), s) for s, p in pools.items()}
    return alone, data_of(pools, prepare, False)


def test_columns_and_classes_in_another_order_are_put_into_the_common_one():
    holdings, _ = hearts(scale="shared")
    expected, _ = by_themselves(holdings, 3)
    other = holdings["9"].data
    order, turn = [5, 0, 3, 1, 4, 2], np.array([1, 0])
    prepare = replace(other.prepare, columns=tuple(COLUMNS[i] for i in order))
    train = Arrays(other.train.x[:, order], turn[other.train.y], other.train.columns)
    holdings["9"] = SiteData(replace(other, train=train, prepare=prepare, classes=("ill", "well")), "9")
    for mine, theirs in zip(by_themselves(holdings, 3)[0], expected, strict=True):
        assert_same(mine, theirs)


def test_a_column_without_any_value_is_described_as_the_others_have_it():
    holdings, _ = hearts(scale="shared")
    expected, _ = by_themselves(holdings, 3)
    lacking = holdings["a"].data
    columns = tuple(Column("thal") if c.name == "thal" else c for c in COLUMNS)
    holdings["a"] = SiteData(replace(lacking, prepare=replace(lacking.prepare, columns=columns)), "a")
    for mine, theirs in zip(by_themselves(holdings, 3)[0], expected, strict=True):
        assert_same(mine, theirs)


@pytest.mark.parametrize(
    ("forbid", "require"),
    [(("sex", "Thal"), ()), ((), ("chol",)), (("cp",), ("chol", "age")), (("chol", "thal"), ("age",))],
)
@pytest.mark.parametrize(
    "rules", [{"scale": "shared"}, {"missing": "drop"}, {"scale": "constants", "absent": "common"}]
)
def test_forbidden_and_required_columns_give_the_clients_of_one_process(rules, forbid, require):
    holdings, whole = hearts(5, **rules)
    asked = {"forbid": forbid, "require": require}
    dealt = deal_clients(whole, Silos(minimum=2), None, Key(3).at("data"), validation=0.2, **asked)
    clients, members = by_themselves(holdings, 3, validation=0.2, **asked)
    for mine, theirs in zip(clients, dealt.clients, strict=True):
        assert_same(mine, theirs)
    assert members == roster_of(dealt.clients, digests=True)
    assert ("a" in members.names) == ("chol" not in require)
    assert {*map(str.lower, forbid)}.isdisjoint(f.split("=")[0].split(" not")[0] for f in members.features)


@dataclass(frozen=True)
class Given:
    """A source that loads what it is given."""

    data: Dataset

    def load(self):
        return self.data


def pictures(rows=300, test=60):
    def pool(n, seed):
        rng = np.random.default_rng(seed)
        return Arrays(rng.random((n, 1, 4, 4), dtype=np.float32), rng.integers(0, 3, n))

    return Dataset("pictures", "classification", pool(rows, 0), pool(test, 1) if test else None)


@pytest.mark.parametrize(
    ("data", "split", "clients", "names"),
    [
        (pictures(), Iid(), 12, 12),
        (pictures(test=0), Dirichlet(), 5, 5),
        (pictures(), Shift(), 4, 4),
        (hearts(scale="shared")[1], Iid(), 11, 11),
        (hearts()[1], Silos(), None, 4),
    ],
)
def test_a_study_is_dealt_at_every_site_alike(data, split, clients, names):
    dealt = deal_clients(data, split, clients, Key(7).at("data"), validation=0.2, one_class=True)
    called = [c.name for c in dealt.clients]
    assert len(called) == names
    holdings = {n: SiteData.dealt(Given(data), split, clients, 7, n) for n in sorted(called)}
    for holding in holdings.values():
        holding.data = replace(holding.data, one_class=True)
    clients, members = by_themselves(holdings, 7, validation=0.2)
    for mine, theirs in zip(clients, dealt.clients, strict=True):
        assert_same(mine, theirs)
    assert members == roster_of(dealt.clients, digests=True)


def test_a_hello_has_no_value_of_any_row():
    holdings, _ = hearts()
    hello = over_the_wire(holdings["a"].hello())
    assert set(hello) == {
        *("task", "columns", "classes", "target", "rules", "shape"),
        *("absent", "rows", "patients", "digest", "place"),
    }
    assert hello["absent"] == ["chol", "thal"]
    assert [c["name"] for c in hello["columns"]] == [c.name for c in COLUMNS]
    age = {"name": "age", "kind": "number", "values": [], "codes": [], "unit": "years"}
    assert hello["columns"][0] == {**age, "center": 0.0, "spread": 1.0}  # constants where they count
    changed = replace(holdings["a"].data, train=replace(holdings["a"].data.train, x=np.ones((1, 6))))
    assert SiteData(changed, "a").hello()["digest"] != hello["digest"]


def test_what_a_roster_needs_has_labels_apart():
    holdings, _ = hearts()
    holding = holdings["b"]
    told = holding.deal(0.25, 0.25, 0, 0)
    assert told["train"] + told["validation"] + told["test"] == len(holding.data.train)
    lacks, common = [told["lacks"]], match({"b": holding.hello()}).common
    gaps = common.gaps(lacks)
    client = holding.fit(gaps, common.agreed(lacks, [holding.sums(gaps)])[0])
    assert "labels" not in holding.facts()
    assert [sum(part) for part in holding.labels()] == [
        len(client.train),
        len(client.validation),
        told["test"],
    ]


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=8,
)


class TestRefusals:
    """What a driver asks or passes on is not taken on trust."""

    def dealt(self, **rules):
        holdings, _ = hearts(**rules)
        one, other = holdings["a"], holdings["b"]
        common = match({n: h.hello() for n, h in holdings.items()}).common
        lacks = [h.deal(0.3, 0.0, 0, i)["lacks"] for i, h in enumerate((one, other))]
        gaps = common.gaps(lacks)
        return one, common, lacks, gaps, [h.sums(gaps) for h in (one, other)]

    def test_steps_out_of_turn(self):
        holding = hearts()[0]["a"]
        for step in (lambda: holding.sums([]), lambda: holding.fit([], []), holding.facts, holding.labels):
            with pytest.raises(BadInput, match=r"deal first|fit first"):
                step()

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            ((1.5, 0.0, 0, 0), "test=1.5 must lie"),
            ((0.3, float("nan"), 0, 0), "validation=nan must lie"),
            ((0.3, "0.2", 0, 0), "validation='0.2' must lie"),
            ((0.3, 0.0, -1, 0), "deal=-1 must be a whole number"),
            ((0.3, 0.0, 0, True), "number=True must be a whole number"),
        ],
    )
    def test_odd_deals(self, asked, said):
        with pytest.raises(BadInput, match=said):
            hearts()[0]["a"].deal(*asked)

    @pytest.mark.parametrize(
        "change",
        [
            lambda gaps: {**gaps, "some": [not s for s in gaps["some"]], "every": [False] * 6},
            lambda gaps: {**gaps, "every": [True] * 6},
            lambda gaps: {name: row[1:] for name, row in gaps.items()},
            lambda gaps: {**gaps, "some": [0] * len(gaps["some"])},
            lambda gaps: None,
        ],
    )
    def test_gaps_that_are_not_what_was_told(self, change):
        one, _, _, gaps, _ = self.dealt()
        with pytest.raises(BadData, match=r"lack"):
            one.sums(change(gaps))

    @pytest.mark.parametrize(
        ("of", "column", "told", "said"),
        [
            (1, 0, (3, 50.0), "3 finite numbers"),
            (1, 0, (3, 50.0, -1.0), "3 finite numbers"),
            (1, 0, (0, 50.0, 1.0), "3 finite numbers"),
            (1, 0, (3, float("inf"), 1.0), "3 finite numbers"),
            (1, 0, (3, 1e200, 1.0), "3 finite numbers"),
            (1, 0, (2.5, 50.0, 1.0), "3 finite numbers"),
            (1, 0, "abc", "3 finite numbers"),
            (0, 1, (3, 50.0, 1.0), "must be nothing"),
            (1, 2, (3, 4), "must be nothing"),
            (1, 4, (3, 4, -1), "3 finite numbers"),
        ],
    )
    def test_sums_that_nobody_can_have_told(self, of, column, told, said):
        _, common, lacks, _, sums = self.dealt(scale="shared")
        sums[of] = [told if i == column else s for i, s in enumerate(sums[of])]
        with pytest.raises(BadData, match=said):
            common.agreed(lacks, sums)

    @pytest.mark.parametrize(
        ("column", "told"),
        [
            (0, (False, (3, 50.0, -1.0), (0.0,))),
            (0, (False, (3, float("nan"), 1.0), (0.0,))),
            (0, (False, (3, 50.0), (0.0,))),
            (0, (True, (3, 50.0, 1.0), (0.0,))),
            (0, (False, (3, 50.0, 1.0), (0.0, 0.0))),
            (0, (False, (3, 50.0, 1.0), (float("inf"),))),
            (2, (False, (3, 50.0, 1.0), (0.0,))),
            (0, None),
        ],
    )
    def test_what_nobody_can_have_agreed_on(self, column, told):
        one, common, lacks, gaps, sums = self.dealt(scale="shared")
        agreed = common.agreed(lacks, sums)[0]
        assert one.fit(gaps, agreed)
        agreed[column] = told
        with pytest.raises(BadData, match="agreed on of column"):
            one.fit(gaps, agreed)

    @given(odd, st.integers(0, 5), st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_whatever_comes_is_refused_or_fits(self, told, column, whole):
        one, common, lacks, gaps, sums = self.dealt(scale="shared")
        agreed = common.agreed(lacks, sums)[0]
        sums[1] = told if whole else [told if i == column else s for i, s in enumerate(sums[1])]
        agreed = told if whole else [told if i == column else a for i, a in enumerate(agreed)]
        for asked in (
            lambda: common.agreed(lacks, sums),
            lambda: one.sums(told),
            lambda: one.fit(gaps, agreed),
            lambda: one.fit(told, agreed),
        ):
            with contextlib.suppress(BadData):
                asked()

    @pytest.mark.parametrize(("known", "scale"), [(1, "shared"), (2, "shared"), (3, "shared"), (1, "site")])
    def test_sums_of_so_few_values_that_they_would_tell_them(self, known, scale):
        holdings, _ = hearts(scale=scale)
        one = holdings["b"]
        gaps = match({"b": one.hello()}).common.gaps([one.deal(0.3, 0.0, 0, 0)["lacks"]])
        one.share.pools[0].x[known:, 1] = np.nan
        one.share.pools[0].x[:known, 1] = 200.0
        if known > 2 or scale == "site":
            assert one.sums(gaps)[1] == (None if scale == "site" else (known, 200.0, 0.0))
        else:
            with pytest.raises(Refused, match=rf"'chol' has {known} known.*fewer than 3"):
                one.sums(gaps)

    def test_a_common_order_of_something_else(self):
        holdings, _ = hearts()
        common = match({n: h.hello() for n, h in holdings.items()}).common.to_dict()
        for change in ({"rules": {**common["rules"], "scale": "constants"}}, {"classes": ["a", "b"]}):
            with pytest.raises(BadData, match=r"said to be common: (rule scale|classes)"):
                holdings["a"].joined({**common, **change})


RULES = 'target = "ill"\nmissing = "median"\nscale = "shared"\nabsent = "flag"\npatient = ["id"]\n'
COLUMNS_OF_FILES = """
[columns.id]
use = "leave-out"
[columns.age]
use = "number"
unit = "years"
[columns.chol]
use = "number"
unit = "mg/dl"
[columns.chol.at.south]
name = "cholesterol"
unit = "mmol/l"
factor = 38.67
[columns.thal]
use = "category"
values = ["normal", "fixed"]
[columns.thal.at.east]
absent = true
[columns.ill]
use = "flag"
values = ["no", "yes"]
"""
PLAIN = "\n".join(
    f"[columns.{name}]\nuse = {use}"
    for name, use in {
        "id": '"leave-out"',
        "age": '"number"',
        "chol": '"number"',
        "ill": '"flag"\nvalues = ["no", "yes"]',
    }.items()
)
FILES = '[sites]\neast = "east.csv"\nnorth = "north.csv"\nsouth = "south.csv"\n'


def frame_of(site, n=24):
    rng = np.random.default_rng(len(site) + n)
    frame = pd.DataFrame(
        {
            "id": rng.integers(0, n, n),
            "age": rng.integers(20, 90, n),
            "cholesterol" if site == "south" else "chol": rng.normal(5 if site == "south" else 200, 1, n),
            "thal": rng.choice(["normal", "fixed"], n),
            "ill": rng.choice(["no", "yes"], n),
        }
    )
    frame.loc[3, "age"] = None
    return frame.drop(columns="thal") if site == "east" else frame


@pytest.fixture
def folder(tmp_path):
    for i, site in enumerate(("north", "south", "east")):
        frame_of(site, 24 + 7 * i).to_csv(tmp_path / f"{site}.csv", index=False)
    (tmp_path / "hearts.toml").write_text(RULES + FILES + COLUMNS_OF_FILES)
    return tmp_path


def test_a_site_reads_its_own_file_of_a_recipe_for_all(folder, tmp_path_factory):
    data = TableFile(recipe=str(folder / "hearts.toml")).load()
    dealt = deal_clients(data, Silos(), None, Key(2).at("data"), validation=0.2)
    holdings = {}
    for site in ("south", "north", "east"):
        alone = tmp_path_factory.mktemp(site)  # the others' files are elsewhere
        for name in ("hearts.toml", f"{site}.csv"):
            (alone / name).write_text((folder / name).read_text())
        holdings[site] = SiteData.read(TableFile(recipe=str(alone / "hearts.toml")), site)
    clients, members = by_themselves(holdings, 2, validation=0.2)
    for mine, theirs in zip(clients, dealt.clients, strict=True):
        assert_same(mine, theirs)
    assert members.names == ["east", "north", "south"]
    assert "thal not recorded" in members.features


@pytest.mark.parametrize(
    ("files", "columns", "options", "name", "rows"),
    [
        (FILES, COLUMNS_OF_FILES, {}, "North", 24),
        ('[sites]\nnorth = "north.csv"\n', PLAIN, {}, "hospital-a", 24),
        ('file = "north.csv"\n', PLAIN, {}, "hospital-a", 24),
        ("", COLUMNS_OF_FILES, {"path": ("south.csv",)}, "south", 31),
        ("", COLUMNS_OF_FILES, {"path": ("east.csv",)}, "East", 38),
    ],
)
def test_whose_rows_a_recipe_reads(folder, monkeypatch, files, columns, options, name, rows):
    monkeypatch.chdir(folder)
    (folder / "own.toml").write_text(RULES + files + columns)
    hello = SiteData.read(TableFile(recipe="own.toml", **options), name).hello()
    assert (hello["rows"], hello["target"], hello["patients"]) == (rows, "ill", True)


def test_rows_of_other_sites_in_one_file_are_left_out(tmp_path):
    frame = pd.concat([frame_of("north").assign(ward=w) for w in ("A", "B")])
    frame.to_csv(tmp_path / "all.csv", index=False)
    source = TableFile((str(tmp_path / "all.csv"),), "ill", "ward", leave_out=("id",), missing="median")
    holding = SiteData.read(source, "b")
    assert holding.hello()["rows"] == 24
    assert holding.data.notes[-1] == "rows of other sites or of none, left out: 24"
    with pytest.raises(UnknownName, match=r"'c'.*A, B"):
        SiteData.read(source, "c")


def test_the_recipe_of_a_site_follows_the_common_order(folder):
    """A model that was trained on columns in that order is used by it."""
    head, *columns = (RULES + FILES + COLUMNS_OF_FILES).split("\n[columns.")
    moved = [columns[0], *columns[4:6], columns[1].replace("age", "Age"), *columns[2:4], *columns[6:]]
    (folder / "own.toml").write_text(
        "\n[columns.".join([head, *moved]).replace('["no", "yes"]', '["yes", "no"]')
    )
    holdings = {
        site: SiteData.read(TableFile(recipe=str(folder / recipe)), site)
        for site, recipe in (("north", "own.toml"), ("south", "hearts.toml"), ("east", "hearts.toml"))
    }
    assert holdings["north"].data.recipe.columns[0].name == "thal"
    meeting = match({n: h.hello() for n, h in holdings.items()})
    data = holdings["north"].joined(meeting.common.to_dict()).data
    assert [c.name for c in data.recipe.columns] == [c.name for c in data.prepare.columns]
    assert [c.name for c in data.recipe.columns] == ["age", "chol", "thal"]
    assert data.recipe.classes == data.classes == ("no", "yes")
    again = rows_of(data.recipe, folder / "north.csv", "north", with_target=True)
    assert np.array_equal(again.raw, data.train.x, equal_nan=True)
    assert np.array_equal(again.y, data.train.y)


def test_what_a_recipe_says_of_sites_elsewhere_is_not_looked_for_here(folder):
    frame_of("east").assign(ward="East").to_csv(folder / "all.csv", index=False)
    (folder / "own.toml").write_text(RULES + 'file = "all.csv"\nsite = "ward"\n' + COLUMNS_OF_FILES)
    holding = SiteData.read(TableFile(recipe=str(folder / "own.toml")), "hospital-a")
    assert holding.hello()["absent"] == ["thal"]
    assert set(holding.data.recipe.rule("chol").at) == set()
    assert set(holding.data.recipe.rule("thal").at) == {"east"}


def test_names_that_nobody_has_are_refused(folder):
    with pytest.raises(UnknownName, match=r"'west'.*did you mean east"):
        SiteData.read(TableFile(recipe=str(folder / "hearts.toml")), "west")
    with pytest.raises(BadInput, match="no table of a site's own"):
        SiteData.read(Given(pictures()), "a")
    with pytest.raises(UnknownName, match="client-7"):
        SiteData.dealt(Given(pictures()), Iid(), 3, 0, "client-7")
