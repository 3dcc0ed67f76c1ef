"""Maps, trees, sentences and the page of similarity."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import coterie
from coterie.features.similarity import shown as words
from coterie.features.similarity.plots import scaled, symmetric, tree
from coterie.features.similarity.shown import draw
from coterie.show.words import said as saying

NAMES = ("north", "<b>west</b>", "south")
MOVED = {"south": 1.5}


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    clients = []
    for name in NAMES:
        x = rng.normal(size=(120, 3)) + np.array([0, 0, MOVED.get(name, 0)])
        clients.append(
            coterie.Client.from_arrays(
                x, (x[:, 0] > 0).astype(int), name=name, features=["age", "bp", "chol"]
            )
        )
    return coterie.similar(clients)


def test_points_on_a_plane_keep_their_distances():
    """A triangle with sides 3, 4 and 5."""
    sides = np.array([[0, 3, 5], [3, 0, 4], [5, 4, 0]], dtype=float)
    places, kept = scaled(sides)
    for i, j in itertools.combinations(range(3), 2):
        assert np.linalg.norm(places[i] - places[j]) == pytest.approx(sides[i, j])
    assert kept == pytest.approx(1)
    assert scaled(np.zeros((2, 2))).places.tolist() == [[0, 0], [0, 0]]


def test_a_tree_joins_at_mean_distances():
    """1 and 2 join at 2; 0 joins them at (6 + 8) / 2."""
    made = tree(np.array([[0, 6, 8], [6, 0, 2], [8, 2, 0]], dtype=float))
    assert sorted(max(heights) for _, heights in made.lines) == [2, 7]
    assert sorted(made.order) == [0, 1, 2]
    assert tree(np.zeros((1, 1))) == ([], [0])


def test_of_two_directions_the_mean_and_who_is_away_is_left_out():
    nan = np.nan
    both, here = symmetric(np.array([[nan, 1, nan], [3, nan, nan], [nan, nan, nan]]))
    assert (both.tolist(), here) == ([[0, 2], [2, 0]], [0, 1])
    below, _ = symmetric(np.array([[nan, -1.0, 2], [-1, nan, 0], [2, 0, nan]]))
    assert below.tolist() == [[0, 0, 3], [0, 0, 1], [3, 1, 0]]
    one_asks, here = symmetric(np.array([[nan, 1, 2], [nan] * 3, [nan] * 3]))
    assert len(here) == len(one_asks) == 2  # between the other two nothing is known


def test_frames_and_matrices(found):
    assert found.pairs.columns.tolist() == [
        "site",
        "other",
        "quantile distance",
        "quantile distance by chance",
        "transport distance",
        "transport distance by chance",
        "transfer loss",
        "rows of the other",
    ]
    assert len(found.pairs) == 6
    first = found.columns.groupby(["site", "other"]).head(1).set_index(["site", "other"])
    assert first.loc[("north", "south"), "column"] == "chol"
    assert float(first.loc[("north", "south"), "difference"]) > 0.9
    assert set(found.matrices) == {"quantiles", "transport", "ndoye"}
    assert repr(found).startswith(
        "Similar(3 sites, by quantiles, transport, ndoye: Nearest to north is <b>west</b>"
    )


def test_sentences_name_what_is_alike_and_what_is_not(found):
    said = words.of_pair(found.found, 0, 2)
    assert re.fullmatch(
        r"north and south measure (age and bp|bp and age) alike; "
        r"they differ most in chol \(1\.\d\d deviations\)\.",
        said,
    )
    assert words.of_pair(found.found, 0, 1) == (
        "north and <b>west</b> measure every column as alike as two samples of the same rows."
    )
    assert re.fullmatch(
        r"Nearest to north is <b>west</b> \(0\.\d\d; by chance 0\.\d\d\), .*", found.sentences[0]
    )
    by_chance = replace(found.found, chance={"quantiles": np.full((3, 3), 0.5)})
    assert (
        "0.50: no more than two samples of the same rows), farthest is south" in words.sentences(by_chance)[0]
    )


def test_the_page_has_all_of_it_and_no_tag_of_a_name(found, tmp_path):
    text = found.report(tmp_path / "page.html").read_text()
    assert "<b>west</b>" not in text.split("<script>")[0]
    plots = {
        key: json.loads(data)
        for key, data in re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', text)
    }
    kinds = {
        key.removeprefix("similarity-").removesuffix("-plot"): plot["choices"] for key, plot in plots.items()
    }
    assert [c["name"] for c in kinds["heat"]][-1] == "size alone: rows of the other"
    for kind in ("heat", "map", "tree"):
        assert [c["name"] for c in kinds[kind]][:3] == [
            "quantile distance",
            "transport distance",
            "transfer loss",
        ]
    assert kinds["map"][0]["data"][0]["text"][1] == "&lt;b&gt;west&lt;/b&gt;"
    assert kinds["columns"][0]["data"][0]["y"][0] == "chol"
    assert saying("similar.control").split(".")[0] in text


def test_figures_for_a_paper(found):
    assert set(draw(found.found)) == {"distances", "map", "tree", "columns"}


def test_a_run_that_trains_has_the_section_too(tmp_path):
    rng = np.random.default_rng(1)
    clients = [
        coterie.Client.from_arrays(x, (x[:, 0] > 0).astype(int), name=f"s{i}")
        for i, x in enumerate(rng.normal(size=(3, 40, 2)))
    ]
    run = coterie.train("logistic", clients, "similar", rounds=2, best=1)
    text = run.report(tmp_path / "page.html").read_text()
    assert 'id="s0-similarity"' in text
    for method, options in (
        ("local", {}),
        ("similar", {"by": "size"}),
    ):  # nothing but sizes is nothing to show
        plain = coterie.train("logistic", clients, method, rounds=1, **options)
        assert 'id="s0-similarity"' not in plain.report(tmp_path / "plain.html").read_text()
    ranked = coterie.similar(clients, measures=["ndoye"])
    assert set(ranked.matrices) == {"ndoye"}
    assert "Columns in figures" not in ranked.report(tmp_path / "ndoye.html").read_text()


def test_refusals_and_warnings_in_python(tmp_path):
    rng = np.random.default_rng(2)
    clients = [
        coterie.Client.from_arrays(x, (x[:, 0] > 0).astype(int), name=f"s{i}")
        for i, x in enumerate(rng.normal(size=(2, 60, 2)))
    ]
    with pytest.warns(coterie.CoterieWarning, match="noise drowns the quantile distance of s0 and s1"):
        noisy = coterie.similar(clients, epsilon=0.5, measures=["quantiles"])
    assert noisy.notes
    assert set(noisy.matrices) == {"quantiles"}
    for options, line in (
        ({"measures": []}, "measures=\\(\\) measures nothing"),
        ({"measures": ["x"]}, "unknown measure 'x'"),
        ({"requester": "s9"}, "unknown requester 's9'"),
        ({"epsilon": 3.0, "measures": ["ndoye"]}, "ndoye sends models"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(coterie.CoterieError, match=line):
            coterie.similar(clients, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    with pytest.raises(coterie.CoterieError, match="a ranking needs at least 2 clients"):
        coterie.similar(clients[:1])


def test_a_folder_is_written_once_and_not_where_nobody_answers(tmp_path):
    rng = np.random.default_rng(3)
    clients = [
        coterie.Client.from_arrays(x, (x[:, 0] > 0).astype(int), name=f"s{i}")
        for i, x in enumerate(rng.normal(size=(2, 30, 2)))
    ]
    coterie.similar(clients, measures=["quantiles"], out=tmp_path / "one")
    assert (tmp_path / "one" / "metrics.jsonl").exists()
    with pytest.raises(coterie.CoterieError, match="one"):
        coterie.similar(clients, measures=["quantiles"], out=tmp_path / "one")
    with pytest.raises(coterie.CoterieError, match=r"compared \(fewer than two answered.*ask for less"):
        coterie.similar(clients, measures=["quantiles"], wrap=["absent=0.99"], out=tmp_path / "two")
    assert not (tmp_path / "two").exists()
    with pytest.raises(coterie.CoterieError, match="wrap"):
        coterie.similar(clients, wrap="absent=0.3")


def planted(terms, expected, rows=(10, 10)) -> SimpleNamespace:
    """Two sites and the columns that `terms` and `expected` are of, in deviations."""
    columns = [f"x{c}" for c in range(len(terms))]
    tables = [np.broadcast_to(np.array(of), (2, 2, len(columns))) for of in (terms, expected)]
    return SimpleNamespace(
        sites=["a", "b"], rows=np.array(rows), columns=columns, terms=tables[0], expected=tables[1]
    )


@pytest.mark.parametrize(
    ("terms", "expected", "said"),
    [
        (
            [0.682, 0.3],
            [0.35, 0.3],
            "a and b: these rows (10 and 10) cannot tell them apart",
        ),
        (
            [0.03, 0.02],
            [0.35, 0.3],
            "a and b: these rows (10 and 10) cannot tell them apart",
        ),
        ([0.1, 0.05], [0.05, 0.05], "a and b measure every column as alike as two samples of the same rows."),
        ([2.0, 0.3], [0.35, 0.4], "a and b differ most in x0 (2.00 deviations); in other columns these rows"),
        ([2.0, 0.3], [0.35, 0.1], "a and b measure x1 alike; they differ most in x0 (2.00 deviations)."),
    ],
)
def test_few_rows_do_not_make_sites_alike(terms, expected, said):
    """Three times what chance makes is clear: above a deviation, nothing is called alike."""
    assert words.of_pair(planted(terms, expected), 0, 1).startswith(said)
