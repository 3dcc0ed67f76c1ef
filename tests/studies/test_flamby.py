"""FLamby's federations: rows by count, its program's cycle by hand, claims, a tiny run, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from coterie.cli.main import main
from coterie.core.learner import cross_entropy
from coterie.data.sources import SOURCES
from coterie.methods import METHODS
from coterie.studies import flamby as study
from coterie.studies.flamby import PUBLISHED_WAYS, WAYS, report, turns_of_first
from coterie.studies.flamby.federations import FEDERATIONS, OneLogit, model_of, rows_of, trained_on
from coterie.studies.flamby.published import PUBLISHED
from coterie.studies.flamby.report import gains, means

RESULTS = Path(__file__).parents[2] / "docs" / "results"
there = pytest.mark.skipif(
    not all(SOURCES.make(f.source).at_hand() for f in FEDERATIONS.values()), reason="tables are not at hand"
)


@there
def test_rows_are_flamby_s():
    """Its tables have 486 and 254 rows of heart disease, 866 and 222 of breast cancer."""
    heart, brca = rows_of("heart"), rows_of("brca")
    assert [len(c.test) for c in heart.clients] == [104, 89, 16, 45]
    assert (len(heart.pooled.train), len(heart.pooled.test)) == (486, 254)
    assert heart.clients[0].train.x.shape[1] == 13
    for client in (*heart.clients, heart.pooled):  # by one's own training rows; who has one value has 0
        torch.testing.assert_close(client.train.x.mean(dim=0), torch.zeros(13), atol=1e-5, rtol=0)
    assert bool((heart.clients[2].train.x[:, 3] == 0).all())  # Switzerland's cholesterol
    assert [(len(c.train), len(c.test)) for c in brca.clients] == [
        (248, 63), (156, 40), (164, 42), (129, 33), (129, 33), (40, 11),
    ]  # fmt: skip
    assert len(brca.pooled.train) == 866
    assert float(brca.pooled.train.x[:, 0].max()) == 90  # years


def test_classes_are_stratified_where_each_has_more_than_two():
    y = np.repeat([0, 1], [50, 50])
    assert y[trained_on(y)].sum() == 33
    assert len(trained_on(np.repeat([0, 1], [2, 48]))) == 33


def test_one_logit_has_the_logistic_loss():
    model, x, y = OneLogit(3), torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    z = model.linear(x).squeeze(1)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z, y.float(), reduction="none")
    torch.testing.assert_close(cross_entropy(model(x), y), expected)


def test_first_weights_are_those_of_the_seed():
    torch.manual_seed(42)
    expected = torch.nn.Linear(13, 1).weight
    before = torch.random.get_rng_state()
    assert torch.equal(model_of("heart", 42).linear.weight, expected)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_turns_of_the_first_client():
    assert turns_of_first(1, 5, 0) == 5
    assert turns_of_first(4, 16, 42) == 4  # four whole cycles
    assert {turns_of_first(4, 15, seed) for seed in range(20)} == {3, 4}
    assert {turns_of_first(6, 5, seed) for seed in range(20)} == {0, 1}


def test_what_is_published_has_a_way_here_and_personal_methods_are_registered():
    for name, federation in FEDERATIONS.items():
        assert set(PUBLISHED[name]) <= {"pooled", "alone", *PUBLISHED_WAYS}
        assert all(set(by) <= {*federation.clients, "pooled"} for by in PUBLISHED[name].values())
    assert set(PUBLISHED_WAYS) <= set(METHODS)
    called = {way.removesuffix("-0.01") for way in WAYS if way.endswith("-0.01")}
    assert called <= set(METHODS)


def made(way: str, seed: int, values) -> list[dict]:
    tests = dict(zip(FEDERATIONS["heart"].clients, values, strict=True))
    theirs = PUBLISHED["heart"].get(way, {})
    return [
        {
            "federation": "heart", "way": way, "seed": seed, "test": test, "ours": value, "refused": "",
            "published": theirs.get(test, (None, None))[0], "published_sd": theirs.get(test, (None, None))[1],
        }
        for test, value in tests.items()
    ]  # fmt: skip


def test_means_gains_and_differences_by_hand():
    runs = [
        made("fedavg", 42, [0.7, 0.7, 0.6, 0.6]),
        made("fedavg", 43, [0.8, 0.7, 0.6, 0.7]),
        made("finetune", 42, [0.8, 0.7, 0.7, 0.6]),
        made("finetune", 43, [0.8, 0.8, 0.6, 0.8]),
    ]
    frame = pd.DataFrame([line for run in runs for line in run])
    assert means(frame, "heart", "fedavg") == pytest.approx({42: 0.65, 43: 0.7})
    assert gains(frame, "heart", "finetune", "fedavg") == pytest.approx([0.05, 0.05])
    # Cleveland 0.75 against 0.731 ± 0.022 and so on: all within two deviations
    assert report.differences(frame).startswith("0 of 4 means")
    far = pd.DataFrame(made("fedavg", 42, [0.9, 0.719, 0.65, 0.64]))
    said = report.differences(far)
    assert said.startswith("1 of 4 means")
    assert "| heart | `fedavg` | cleveland | +16.9 |" in said


def test_what_a_method_refuses_is_kept_with_its_reason(monkeypatch):
    def refuses(*told):
        raise study.BadInput("needs validation rows: hold some out")

    monkeypatch.setattr(study, "run", refuses)
    found = study.trace("heart", "fedavg", 0, study.Length(1, 1, 1))
    assert (found.seed, found.scores) == (42, {})
    assert found.refused == "needs validation rows: hold some out"


@there
def test_a_tiny_study_goes_on_where_it_was(tmp_path, capsys):
    words = ["reproduce", "flamby", "--scale", "tiny", "--seeds", "1", "--figures", "none"]
    words += ["--out", str(tmp_path)]
    assert main([*words, "--cells", "heart/alone,heart/fedavg,brca/cyclic-as-run"]) == 0
    place = tmp_path / "text" / "tiny" / "heart" / "fedavg.jsonl"
    before = place.read_bytes()
    assert set(json.loads(before)["scores"]) == {*FEDERATIONS["heart"].clients, "pooled"}
    assert main([*words, "--cells", "heart/fedavg,heart/local-0.01,heart/finetune-0.01,brca/scaffold"]) == 0
    assert place.read_bytes() == before
    page = (tmp_path / "results.md").read_text()
    assert report.body(pd.read_csv(tmp_path / "results.csv")) in page
    assert "| `finetune` |" in page
    capsys.readouterr()


def test_the_page_of_the_docs_says_what_its_csv_says():
    frame, page = pd.read_csv(RESULTS / "flamby.csv"), (RESULTS / "flamby.md").read_text()
    assert report.body(frame) in page
    assert frame.groupby(["federation", "way"])["seed"].nunique().eq(5).all()
    for commit in set(frame["commit"]):
        assert commit in page
