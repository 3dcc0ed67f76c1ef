"""The benchmark of real tables: rows dealt and prepared as it says, verdicts worked by hand."""

from __future__ import annotations

import importlib
import math
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import coterie

ROOT = Path(__file__).parents[2]
PARTS = ("catalogue", "reading", "splitting", "scoring", "peers", "ours", "judging", "page")


@pytest.fixture(scope="module")
def bench():
    """Its modules by their names, and `tables` itself."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        found = {part: importlib.import_module(f"site_tables.{part}") for part in PARTS}
        spec = importlib.util.spec_from_file_location("tables_study", ROOT / "benchmarks" / "tables.py")
        found["tables"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found["tables"])
        yield SimpleNamespace(**found)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def table_of(bench, **changed):
    given = {"task": "regression", "file": "", "rows": 0, "sites": "", "site": "where", "target": "y"}
    given |= {"cited": "", "numbers": ("a",), "minimum": 1}
    return bench.catalogue.Table("made", **{**given, **changed})


def rows_of(bench, frame, **changed):
    return bench.reading.tidy(table_of(bench, **changed), pd.DataFrame(frame))


# rows


def test_rows_that_are_left_out_are_counted(bench):
    frame = {"where": ["n"] * 4 + ["s"] * 2 + ["w"] * 4 + [None], "a": range(11)}
    frame["y"] = [0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1]
    found = rows_of(bench, frame, task="classification", minimum=3)
    assert found.notes == (
        "1 of 11 rows without site or target are left out",
        "1 of 3 sites, 2 rows, have fewer than 3 rows and are left out",
        "2 of 3 sites, 8 rows, have fewer than 3 rows of a second class, or events and are left out",
    )
    assert not len(found.frame)


def test_site_numbers_of_a_column_with_gaps_are_whole(bench):
    found = rows_of(bench, {"where": [1.0, 12.0, math.nan], "y": [1, 2, 3], "a": [1, 2, 3]})
    assert list(found.frame["site"]) == ["1", "12"]


def test_a_pickle_with_another_checksum_is_not_opened(bench, tmp_path, monkeypatch):
    place = tmp_path / "packaged_tables"
    place.mkdir()
    (place / "__init__.py").write_text("raise SystemExit('imported')")
    opened = tmp_path / "opened"
    (place / "some.compress").write_bytes(pickle.dumps(Opens(str(opened))))
    monkeypatch.syspath_prepend(str(tmp_path))
    table = table_of(bench, package="packaged_tables==1", file="some.compress", sha256="0")
    with pytest.raises(bench.reading.Absent, match=r"pip install --no-deps .* packaged_tables==1"):
        bench.reading.read(table)
    assert not opened.exists()


class Opens:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


def test_every_table_says_where_it_comes_from(bench):
    tables = bench.catalogue.TABLES
    assert len(tables) >= 14
    assert {t.task for t in tables.values()} == {"regression", "classification", "survival"}
    for table in tables.values():
        assert table.cited
        assert (len(table.sha256) == 64 and "==" in table.package) or table.package == bench.catalogue.OWN
        used = {table.site, table.target, table.event, table.person}
        assert not used & {*table.numbers, *table.categories}, table.name


# splits


def test_classes_are_held_out_in_proportion_and_persons_stay_together(bench):
    n = 40
    frame = {
        "where": ["n"] * n + ["s"] * n,
        "y": ([0] * 30 + [1] * 10) * 2,
        "a": np.arange(2 * n) * 1.0,
        "who": np.arange(2 * n) // 2,
    }
    rows = rows_of(bench, frame, task="classification", person="who")
    dealt = [bench.splitting.split(rows, k) for k in (0, 0, 1)]
    for site in dealt[0].sites:
        assert (len(site.train), len(site.test)) == (28, 12)
        assert np.bincount(site.test.y).tolist() in ([10, 2], [8, 4])  # 7.5 and 2.5 persons of 15 and 5
        assert not set(site.train.person) & set(site.test.person)
    x, again, other = ([s.test.x.tolist() for s in d.sites] for d in dealt)
    assert x == again
    assert x != other
    assert dealt[0].overlap == pytest.approx(24 / 56)


def test_inputs_are_fitted_on_training_rows(bench):
    frame = {
        "where": ["n", "n", "n", "s", "s", "s"],
        "y": [1.0] * 6,
        "a": [1.0, 3.0, math.nan, 5.0, 7.0, 100.0],
        "b": [math.nan] * 3 + [2.0, 4.0, 3.0],
        "same": [1.0] * 5 + [2.0],
        "c": ["x", "x", None, "y", "x", "z"],
    }
    rows = rows_of(bench, frame, numbers=("a", "b", "same"), categories=("c",))
    training = np.array([True, True, False, True, True, False])
    x, names = bench.splitting.inputs(rows.frame, rows, training)
    assert names == ("a", "b", "b is absent", "c=x", "c=y")
    spread = math.sqrt(5)  # of 1, 3, 5, 7, whose mean is 4
    a = [-3 / spread, -1 / spread, -2 / spread, 1 / spread, 3 / spread, 96 / spread]
    assert x[:, 0] == pytest.approx(a)  # the third is its site's median, 2
    assert x[:, 1] == pytest.approx([0, 0, 0, -1, 1, 0])
    assert x[:, 2].tolist() == [1, 1, 1, 0, 0, 0]
    assert x[:, 3].tolist() == [1, 1, 1, 0, 1, 0]
    assert x[:, 4].tolist() == [0, 0, 0, 1, 0, 0]


def test_all_rows_together_with_the_site(bench):
    frame = {"where": ["n"] * 10 + ["s"] * 10, "y": np.arange(20.0), "a": np.arange(20.0)}
    dealt = bench.splitting.split(rows_of(bench, frame), 0)
    train, tests = bench.splitting.together(dealt, with_site=True)
    assert train.x.shape == (14, 3)
    assert train.x[:, 1:].tolist() == [[1, 0]] * 7 + [[0, 1]] * 7
    assert tests[1].x[:, 1:].tolist() == [[0, 1]] * 3


# figures


def test_cox_loss_and_concordance_by_hand(bench):
    part = bench.splitting.Part(np.zeros((3, 1)), np.array([1.0, 2.0, 2.0]), np.array([True, True, False]))
    risk = np.array([0.0, math.log(2), math.log(3)])
    # risk sets {1, 2, 3} and {2, 3}: log 6 - 0, log 5 - log 2
    assert bench.scoring.cox_loss(risk, part) == pytest.approx((math.log(6) + math.log(2.5)) / 3)
    # pairs (1, 2), (1, 3), (2, 3): none in order
    assert bench.scoring.concordance(risk, part) == 0
    assert bench.scoring.concordance(np.array([2.0, 1.0, 1.0]), part) == pytest.approx(2.5 / 3)


@pytest.mark.parametrize("task", ["classification", "regression", "survival"])
def test_figures_are_those_of_coterie(bench, task):
    rng = np.random.default_rng(0)
    sites = []
    for name in ("north", "south"):
        x = rng.normal(size=(60, 2))
        y = rng.exponential(np.exp(-x[:, 0])).round(1) + 0.1
        y = {"classification": (y > 1).astype(int), "regression": y, "survival": y}[task]
        event = rng.random(60) < 0.7 if task == "survival" else None
        part = bench.splitting.Part(x, y, event)
        sites.append(bench.splitting.Site(name, part.take(np.arange(40)), part.take(np.arange(40, 60))))
    classes = ("0", "1") if task == "classification" else ()
    dealt = bench.splitting.Split(task, sites, ("a", "b"), classes)
    found = bench.ours.figures("local", dealt, 3)
    clients = [bench.ours.client_of(s.name, s.train, s.test, dealt) for s in sites]
    models = coterie.compare(bench.ours.MODELS[task], clients, ["local"], seeds=1, seed=3, progress=False)
    for site, client, ours in zip(sites, clients, found, strict=True):
        said = models.results["local"][0].models[client.name](client.test.x).detach().double()
        predicted = (said.softmax(1) if task == "classification" else said[:, 0]).numpy()
        figures = bench.scoring.figures(task, predicted, site.test)
        assert {k: ours[k] for k in figures} == pytest.approx(figures, rel=1e-4)


def test_a_class_that_a_site_lacks_gets_one_row_s_chance(bench):
    part = bench.splitting.Part(np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 2, 2, 2, 2]))
    chances = bench.peers.linear("classification", part, 3)(part.x)
    assert chances[:, 1] == pytest.approx(1 / 11)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert bench.peers.trivial("classification", part, 3)(part.x)[0] == pytest.approx(
        [5 / 11, 1 / 11, 5 / 11]
    )


def test_folds_shrink_with_the_rarest_class_or_with_events(bench):
    def many(labels):
        part = bench.splitting.Part(np.zeros((len(labels), 1)), np.array(labels))
        return len(bench.peers.folds(part, "classification"))

    events = np.array([True] * 9 + [False])
    part = bench.splitting.Part(np.zeros((10, 1)), np.arange(10.0), events)
    assert all(events[held].any() for _, held in bench.peers.folds(part, "survival"))
    assert len(bench.peers.folds(part, "survival")) == 5  # one censored row limits nothing
    assert [many(y) for y in ([0] * 9 + [1] * 9, [0] * 9 + [1] * 3, [0] * 9 + [1], [0] * 9)] == [5, 3, 0, 0]


# verdicts


def csv_of(values, measure="rmse", task="regression", failed=()):
    """A row for each contender and split; 14 training and 7 test rows."""
    rows = [
        {"table": "made", "task": task, "split": i, "contender": name, "measure": measure, "mean": value}
        for name, figures in values.items()
        for i, value in enumerate(figures)
    ]
    rows += [{"table": "made", "task": task, "split": 0, "contender": c, "said": "diverged"} for c in failed]
    return (
        pd.DataFrame(rows)
        .assign(train_rows=14, test_rows=7)
        .reindex(
            columns=[
                "table",
                "task",
                "split",
                "contender",
                "measure",
                "mean",
                "train_rows",
                "test_rows",
                "said",
            ]
        )
    )


def test_a_paired_difference_by_hand(bench):
    figures = bench.judging.Figures(csv_of({"local": [4, 6, 8], "linear alone": [5, 8, 11]}))
    pair = figures.pair("made", "local", "linear alone")
    assert pair.difference.mean == 2  # 1, 2, 3: lower is better
    # t of 2 degrees is 4.30265, the standard deviation 1, 1/3 + 7/14
    assert pair.difference.half == pytest.approx(4.30265 * math.sqrt(5 / 6), rel=1e-5)
    assert pair.verdict == "within noise"
    assert (pair.first_mean, pair.second_mean) == (6, 8)


def test_the_side_of_a_difference(bench):
    low = {"local": [1.0, 1.1, 1.0], "linear alone": [2.0, 2.1, 2.1]}
    assert bench.judging.Figures(csv_of(low)).pair("made", "local", "linear alone").verdict == "better"
    high = bench.judging.Figures(csv_of(low, "concordance", "survival"))
    assert high.pair("made", "local", "linear alone").verdict == "worse"
    assert high.best("made", ["local", "linear alone"]) == "linear alone"
    one = bench.judging.Figures(csv_of({"local": [1.0], "linear alone": [2.0]}))
    assert one.pair("made", "local", "linear alone").verdict == "unknown"


def test_who_failed_is_not_passed_over(bench):
    figures = bench.judging.Figures(csv_of({"linear alone": [2.0, 2.1]}, failed=["local"]))
    found = bench.judging.statements(figures)["alone"]
    assert [(p.first, p.verdict) for p in found.pairs] == [("local", "failed")]
    partly = csv_of({"local": [1.0, 1.1], "linear alone": [2.0, 2.1, 2.2]}, failed=["local"])
    assert bench.judging.Figures(partly).pair("made", "local", "linear alone").verdict == "failed"


def test_the_page_says_what_the_csv_has(bench):
    values = {"trivial alone": [3.0, 3.1], "linear alone": [2.0, 2.1], "local": [2.5, 2.2]}
    rows = csv_of(values).assign(table="rice", sites=6, inputs=21, commit="abc")
    text = bench.page.page(rows, "the command")
    assert "| linear alone | **2.05** |" in text
    assert "| `local` | 2.35 |" in text
    # -0.5 and -0.1 lie 0.28284 apart in deviation, t of one degree is 12.7062, 1/2 + 7/14 is 1
    assert "| rice | RMSE | local 2.35 | linear alone 2.05 | -0.3 ± 3.594 | within noise |" in text
    assert "within noise on 1 of 1 tables" in text
    assert "1005 rows without target or site, or of small sites" in text  # 21 of 1026 are used
    assert "Not run: nothing, fedavg" in text


# running


def test_a_run_goes_on_where_it_was_cut(bench, tmp_path):
    path = tmp_path / "tables.csv"
    shared = {"table": "lung", "split": 0, "measure": "concordance"}
    kept = [{**shared, "contender": "local", "mean": 0.5}, {**shared, "contender": "fedavg", "said": "no"}]
    path.write_text(bench.tables.as_csv([*kept, {**shared, "contender": "pens", "mean": 0.5}]))
    with path.open("a") as file:
        file.write("lung,survival,1,local,concor")
    rows = bench.tables.kept_rows(path, again=["pens"])
    assert [row["contender"] for row in rows] == ["local"]
    left = bench.tables.left_to_do(["lung"], range(2), ["local", "fedavg"], rows)
    assert list(left) == [("lung", 0, "fedavg"), ("lung", 1, "local"), ("lung", 1, "fedavg")]
