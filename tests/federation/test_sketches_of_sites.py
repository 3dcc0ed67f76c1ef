"""Sketches over a federation: the numbers of one machine, what a policy keeps, whose noise it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from room import Room

from coterie.cli.main import main
from coterie.core.charge import Charge
from coterie.core.errors import BadData, Refused
from coterie.features.similarity.record import similarity_of
from coterie.features.similarity.shown import blocks_of, sentences
from coterie.federation.lead import connector
from coterie.federation.lead.orders import odd_numbers
from coterie.federation.lead.sites import meet
from coterie.federation.policy.keys import Policy, objections
from coterie.federation.policy.rules import check_visit, work_for
from coterie.federation.site.budget import LEDGER, SiteBudget
from coterie.kernels import Moments, Quantiles, kernel_to_dict
from coterie.methods import Similar
from coterie.runs.builder import prepare
from coterie.runs.folder import read_record
from coterie.runs.loop import run
from coterie.runs.settings import Settings
from coterie.show import html

LOOK = {"also": ("quantiles", "transport"), "train": False}
DISTANCES = ("quantile distance", "transport distance")


def far(room, monkeypatch, **options):
    return room.play(monkeypatch, rounds=1, method="similar", options={"similar": {**LOOK, **options}})


def near(room, **options):
    tables = {"table": {"recipe": str(room.recipe)}, "similar": {**LOOK, **options}}
    settings = Settings(data="table", engine="loop", method="similar", rounds=1, options=tables)
    return run(prepare(settings, None), None, "run").record


def test_the_numbers_of_one_machine_and_nothing_else_leaves(tmp_path, monkeypatch):
    room = Room(tmp_path, dict.fromkeys("abcd", Policy(label_counts=True)))
    there, here = far(room, monkeypatch), near(room)
    for name, by_round in here.matrices.items():
        np.testing.assert_array_equal(there.matrices[name][1], by_round[1])
    asked = [message["kernel"]["name"] for message in room.asked("a", "visit")]
    assert asked == ["here", "quantiles", "moments"]
    assert not room.asked("a", "give")
    assert [m["scores"] for m in there.metrics] == [None, None]


def test_a_site_is_shown_how_far_its_columns_lie_from_others_and_not_their_quantiles(tmp_path, monkeypatch):
    room = Room(tmp_path, names=("a", "b", "c"))
    options = {"similar": {**LOOK, "also": ("quantiles",)}}
    lead = similarity_of(
        room.play(monkeypatch, tmp_path / "run", rounds=1, method="similar", options=options)
    )
    (folder,) = (room.states["b"] / "shown").iterdir()
    record = read_record(folder)
    assert list(record.metrics[-1]["extras"]["similar"]["quantiles"]) == ["b"]
    mine = similarity_of(record)
    assert (mine.columns, mine.asking()) == (lead.columns, [1])
    np.testing.assert_allclose(mine.terms[1][[0, 2]], lead.terms[1][[0, 2]], rtol=0.006)
    np.testing.assert_allclose(mine.expected[1][[0, 2]], lead.expected[1][[0, 2]], rtol=0.006)
    assert np.isnan(mine.terms[[0, 2]]).all()
    assert np.isnan(mine.terms[1, 1]).all()
    assert sentences(mine)[0] == sentences(lead)[1]  # of b itself, and of nobody else
    assert len(sentences(mine)) == 3
    page = str(html.blocks_to_html(blocks_of(mine, "alike")))
    assert "alike-columns" in page
    assert "alike-map" not in page  # of one site alone there is none


def test_from_the_shell_as_on_one_machine(tmp_path, monkeypatch, capsys):
    room = Room(tmp_path, names=("a", "b", "c"))
    monkeypatch.setattr(
        connector.Federation, "meet", lambda net, rule: meet(room.lines, rule, room.names, 1, 0.0, print)
    )
    monkeypatch.chdir(tmp_path)
    words = ["similar", "--net", "federation", "--federation.kit", str(room.kits["lead"].folder)]
    assert main([*words, "--measures", "quantiles", "--requester", "b", "--out", "here"]) == 0
    assert "Nearest to b is" in capsys.readouterr().out
    assert {m["kernel"]["name"] for m in room.asked("a", "visit")} == {"here", "quantiles"}
    assert (tmp_path / "here" / "report.html").exists()


def test_with_noise_a_site_draws_its_own_and_writes_the_cost_down(tmp_path, monkeypatch):
    room = Room(tmp_path, {"a": Policy(epsilon=4.0)})
    there, here = far(room, monkeypatch, epsilon=3.0), near(room, epsilon=3.0)
    assert not np.allclose(*(r.matrices[DISTANCES[0]][1][0, 1:] for r in (there, here)))  # other noise
    entries = [json.loads(line) for line in (room.states["a"] / LEDGER).read_text().splitlines()]
    assert [entry["kernel"].split(" ")[0].split("(")[0] for entry in entries] == ["quantiles", "moments"]
    sigma = Similar(epsilon=3.0, also=LOOK["also"]).sigma
    assert [entry["charges"][0]["sigma"] for entry in entries] == [pytest.approx(sigma)] * 2
    # another look would exceed what the policy gives
    again = far(room, monkeypatch, epsilon=3.0, reach=3.0)
    assert np.isnan(again.matrices[DISTANCES[0]][1][0]).all()


def test_a_site_that_keeps_sums_to_itself_is_not_sketched(tmp_path, monkeypatch):
    room = Room(tmp_path, {"b": Policy(sums=False)})
    with pytest.raises(BadData, match=r"site b.*deviations or quantiles of columns would be told"):
        far(room, monkeypatch)
    shows = Similar(train=False).reveals()
    assert objections(Policy(sums=False), work_for(shows, (), "logistic", 1, 3)) != []
    with pytest.raises(Refused, match="set sums = true"):
        check_visit(Policy(sums=False), kernel_to_dict(Quantiles(2)), 0)
    check_visit(Policy(), kernel_to_dict(Quantiles(2)), 0)
    check_visit(Policy(min_rows=8), kernel_to_dict(Moments(2, 2, least=8)), 0)
    with pytest.raises(Refused, match=r"classes of 2 rows would be told of, below the policy's 5.*least 5"):
        check_visit(Policy(), kernel_to_dict(Moments(2, 2, least=2)), 0)


def test_a_budget_takes_no_sketch_without_noise(tmp_path):
    rows = {"train": 40, "validation": 0, "test": 20}
    budget = SiteBudget(tmp_path, Policy(epsilon=1.0, clear_scores=True))
    with pytest.raises(Refused, match=r"moments gives no bound.*set the method's epsilon"):
        budget.cost(Moments(2, 2), rows)
    assert budget.cost(Quantiles(2, sigma=9.0), rows) == (Charge(9.0),)


@pytest.mark.parametrize(
    ("tensors", "line"),
    [
        ({"quantiles": torch.zeros(1, 38)}, ""),
        ({"quantiles": torch.zeros(1, 37)}, "it tells 'quantiles' of shape [1, 37], not [1, 38]"),
        (
            {"quantiles": torch.full((1, 38), torch.nan)},
            "it tells other figures of its rows than it was asked",
        ),
        ({}, "it tells other figures of its rows than it was asked for"),
    ],
)
def test_sketches_that_cannot_be(tensors, line):
    answer = {"numbers": list(tensors), "like": {}}
    assert odd_numbers(answer, tensors, 1, True, Quantiles(2).sizes).startswith(line)
    assert bool(odd_numbers(answer, tensors, 1, True, Quantiles(2).sizes)) == bool(line)
