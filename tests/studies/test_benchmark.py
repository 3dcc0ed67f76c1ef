"""The benchmark: how a cell is made, what is kept, and what the tables say of it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from coterie.cli.main import main
from coterie.features.tuning.tuning import Tuning
from coterie.methods import METHODS
from coterie.studies.benchmark import PAPER, SETTINGS, WAYS
from coterie.studies.benchmark.report import body, costs, figures
from coterie.studies.benchmark.standings import by_kind, cells, gains, harmful, harmless, standing

RESULTS = Path(__file__).parents[2] / "docs" / "results"
OVERLAP = 3 / 7  # three tenths of the rows are for testing


def test_enough_of_each_and_every_search_can_be_made():
    assert len(SETTINGS) >= 8
    assert sum(not way.yardstick for way in WAYS.values()) >= 20
    for setting in SETTINGS.values():
        for way in WAYS.values():
            mine = way.on(setting.run.model)
            assert mine.spec.partition(":")[0] in METHODS
            shared = dataclasses.replace(setting.run, **mine.settings)
            shared = dataclasses.replace(shared, options={**shared.options, **mine.options})
            Tuning(shared, (mine.spec,), mine.searches, 2, 2)  # refuses what is not there


def table(**by_method):
    """Lines of a CSV: figures of one setting by seed, for each method."""
    return pd.DataFrame(
        {"setting": setting, "method": way, "seed": seed, "mean": value, "worst": value / 2}
        for way, by_setting in by_method.items()
        for setting, values in by_setting.items()
        for seed, value in enumerate(values)
    )


def test_the_best_and_its_ties_by_hand():
    """finetune is above fedavg by 0.1 in each seed, so no tie; local is above and below it, which is one."""
    frame = table(
        local={"titanic": [0.9, 0.5]}, fedavg={"titanic": [0.7, 0.7]}, finetune={"titanic": [0.8, 0.8]}
    )
    found = cells(frame, "titanic", "mean")
    assert [(found[w].best, found[w].tied) for w in ("local", "fedavg", "finetune")] == [
        (False, True),
        (False, False),
        (True, False),
    ]
    assert "| finetune | **80.0 ± 0.0** |" in figures(frame, "mean")
    # t of one degree is 12.706, s = 0.4/√2, and √(1/2 + 3/7) for splits that share rows
    assert found["local"].found.half == pytest.approx(
        12.706 * 0.4 / 2**0.5 * (1 / 2 + OVERLAP) ** 0.5, rel=1e-4
    )


def test_a_yardstick_is_never_the_best_nor_ranked():
    frame = table(
        central={"titanic": [0.99], "digits-shift": [0.99]},
        local={"titanic": [0.7], "digits-shift": [0.6]},
        fedavg={"titanic": [0.6], "digits-shift": [0.7]},
    )
    assert not cells(frame, "titanic", "mean")["central"].best
    found = standing(frame, "mean")
    assert found is not None
    assert found.ranks == {"local": 1.5, "fedavg": 1.5}


def test_gains_and_what_harms_nobody():
    frame = table(
        local={"titanic": [0.5, 0.5, 0.5]},
        fedavg={"titanic": [0.4, 0.4, 0.4]},
        finetune={"titanic": [0.6, 0.6, 0.6]},
        ditto={"titanic": [0.9, 0.1, 0.5]},
    )
    over = gains(frame, "local", "mean")
    assert over["finetune"]["titanic"].side == 1
    assert over["fedavg"]["titanic"].side == -1
    said = harmless(over)
    assert said.endswith(": finetune (1).")  # ditto gains nowhere clearly
    assert harmful(over).endswith(": fedavg (1).")


def test_by_kind_names_what_gains_most_where():
    one = {"heart-disease": [0.5], "tcga-brca": [0.5], "titanic": [0.5]}
    frame = table(
        local=one,
        fedavg={name: [0.4] for name in one},
        finetune={"heart-disease": [0.6], "tcga-brca": [0.5], "titanic": [0.55]},
    )
    (said,) = by_kind(gains(frame, "local", "mean"))  # of two kinds there is no setting
    assert said.startswith("Tables of real sites (heart-disease, tcga-brca, titanic)")
    assert "finetune +5.0, fedavg −10.0; one average for all −10.0" in said


def test_the_page_of_the_docs_is_made_of_its_csv():
    frame, page = pd.read_csv(RESULTS / "benchmark.csv"), (RESULTS / "benchmark.md").read_text()
    assert body(frame, "full") in page
    assert len(frame) == 5 * len(WAYS) * len(SETTINGS)  # complete, at five seeds
    assert set(frame["seed"]) == set(range(5))
    for name in re.findall(r"\]\((benchmark-[^)]*)\)", page):
        assert (RESULTS / name).exists()


def test_costs_are_ratios_to_fedavg():
    lines = [("fedavg", 10, 100, 1.0), ("local", 10, 0, 0.5), ("ditto", 20, 100, 2.0)]
    frame = pd.DataFrame(
        {"setting": "titanic", "method": w, "seed": 0, "steps": s, "bytes": b, "seconds": t}
        for w, s, b, t in lines
    )
    assert "| ditto | 2 | 1 | 2 |" in costs(frame)
    assert "| local | 1 | 0 | 0.5 |" in costs(frame)


def test_a_cell_is_searched_run_and_kept_and_not_run_again(tmp_path, capsys):
    """Side by side in two processes, then again, when nothing is left to do."""
    words = ["reproduce", "benchmark", "--scale", "tiny", "--seeds", "1", "--figures", "none"]
    words += ["--cells", "titanic/fedavg,titanic/local", "--out", str(tmp_path)]
    assert main([*words, "--jobs", "2"]) == 0
    (found,) = PAPER.file(tmp_path, "tiny", "titanic", "fedavg").read().values()
    assert set(found.found) == {"sgd.lr"}
    assert set(found.headline) == set(found.loss)
    assert len(found.headline) == 4
    assert found.steps > 0
    assert found.bytes > 0
    text = (tmp_path / "results.md").read_text()
    assert "2 trials on 2 folds of the training rows" in text
    before = (tmp_path / "text/tiny/titanic/fedavg.jsonl").read_text()
    assert main(words) == 0
    assert "all of it was finished before" in capsys.readouterr().err
    assert (tmp_path / "text/tiny/titanic/fedavg.jsonl").read_text() == before
    entry = json.loads(before)
    assert (
        entry["settings"]
        == PAPER.file(tmp_path, "tiny", "titanic", "fedavg").settings
        != PAPER.file(tmp_path, "tiny", "titanic", "local").settings
    )


@pytest.mark.parametrize("jobs", ["0", "65"])
def test_odd_numbers_of_processes_are_refused(jobs, capsys):
    assert main(["reproduce", "benchmark", "--jobs", jobs]) == 2
    assert f"jobs={jobs} must lie between 1 and 64" in capsys.readouterr().err
