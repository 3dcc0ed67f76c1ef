"""makni-2022: tables, verdicts and pictures of made-up runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from coterie.core.errors import BadRun
from coterie.core.groups import Groups
from coterie.kernels.calibrate import Tallied
from coterie.metrics.calibration import calibration
from coterie.studies import makni_2022 as m
from coterie.studies.base import Asked
from coterie.studies.makni_2022 import cancer_report as cancers
from coterie.studies.makni_2022 import claims, published, report
from coterie.studies.makni_2022 import claims as said
from coterie.studies.makni_2022.why import PARTS

ORIGIN = {"commit": "c0ffee", "versions": {"coterie": "0"}}
LOGISTIC, MEAN = "logistic/mnist", "FL-SWAG, mean"
EVERYTHING = (*claims.CLAIMS, *claims.QUESTIONS, *claims.REASONS)


def scored(accuracy, ece=0.05, brier=0.3, nll=0.4):
    return {"accuracy": accuracy, "ece": ece, "brier": brier, "nll": nll}


def exchange(more=(), **rows):
    """Clients of 80, 81, ..., 89 %, and everything made of them at 85 %, but for what is said."""
    found = {f"client {i + 1}": scored(0.8 + i / 100) for i in range(10)}
    found |= {row: scored(0.85) for row in ("FL-SWAG, mean", "FL-SWAG", "low rank 2", *said.AVERAGES)}
    return found | {"FL-SWAG, T = 10": scored(0.85), said.SERVER: {"accuracy": 0.85}} | dict(more) | rows


def fl_swag(accuracy):
    return exchange({MEAN: scored(accuracy)})


def results(cells, cancer=None):
    """Figures by cell and seed as if they had been computed."""
    found = {
        cell: {s: said.Found(rows, {}, np.ones((10, 10), dtype=int), ORIGIN) for s, rows in enumerate(seeds)}
        for cell, seeds in cells.items()
    }
    return said.Results(found, cancer or {})


def verdict(text, cells):
    (found,) = [c for c in EVERYTHING if c.text.startswith(text)]
    return found.check(results(cells))


class TestClaims:
    @pytest.mark.parametrize(
        ("text", "cell", "row", "good", "bad"),
        [
            ("logistic regression: FL-SWAG is above most", LOGISTIC, MEAN, 0.855, 0.835),
            ("logistic regression: FL-SWAG is near", LOGISTIC, MEAN, 0.84, 0.82),
            ("logistic regression: FL-SWAG is near", LOGISTIC, MEAN, 0.86, 0.88),
            ("logistic regression: FedAvg is above", LOGISTIC, MEAN, 0.84, 0.86),
            ("logistic regression: averages by size", "logistic/fashion-mnist", "wFedAvg", 0.86, 0.84),
            ("after the server's training FL-SWAG is near", "lenet/mnist", MEAN, 0.84, 0.82),
            ("after the server's training FL-SWAG is above", "resnet/cifar10", MEAN, 0.9, 0.88),
            ("FL-SWAG is above what the server had", "lenet/digits", MEAN, 0.86, 0.84),
            ("levels do little harm", LOGISTIC, "levels alone", 0.86, 0.84),
            ("which parameters", LOGISTIC, "coordinates shuffled", 0.86, 0.84),
            ("it has the wrong sign", LOGISTIC, "by variance", 0.86, 0.84),
            ("by variance is above FedAvg", LOGISTIC, "by variance", 0.86, 0.84),
            ("low rank (2) helps", "lenet/mnist", "low rank 2", -0.3, -0.5),  # by likelihood
            ("a temperature of 10 helps", LOGISTIC, "FL-SWAG, T = 10", -0.3, -0.5),
        ],
    )
    def test_holds_fails_or_is_undecided(self, text, cell, row, good, bad):
        good, bad = (
            exchange({"coordinates alone": scored(0.85), row: scored(v) if v > 0 else scored(0.85, nll=-v)})
            for v in (good, bad)
        )
        assert verdict(text, {cell: [good] * 3}).word == "holds"
        assert verdict(text, {cell: [bad] * 3}).word == "fails"
        assert verdict(text, {cell: [good]}).word == "undecided"
        assert verdict(text, {}) == ("undecided", "not run")

    def test_numbers_are_points_and_their_interval(self):
        # 1, 2 and 3 points; Student's 4.303 with two degrees, times 1 / √3
        seeds = [fl_swag(a) for a in (0.84, 0.83, 0.82)]
        found = verdict("logistic regression: FedAvg is above", {LOGISTIC: seeds})
        assert found == ("undecided", "MNIST +2.00 ± 2.48")
        # one data set is enough to fail
        cells = {"lenet/mnist": [fl_swag(0.9)] * 2, "lenet/fashion-mnist": [fl_swag(0.88)] * 2}
        found = verdict("after the server's training FL-SWAG is above", cells)
        assert found == ("fails", "lenet MNIST +1.00 ± 0.00; lenet FashionMNIST -1.00 ± 0.00")
        good, bad = (exchange({"low rank 2": scored(0.85, nll=nll)}) for nll in (0.3, 0.5))
        found = verdict("low rank (2) helps", {LOGISTIC: [bad] * 2, "lenet/mnist": [good] * 2})
        assert found == ("fails", "logistic MNIST -1.0000 ± 0.0000; lenet MNIST +1.0000 ± 0.0000")

    @pytest.mark.parametrize(
        ("sgld", "psgld", "word"),
        [
            ([0.02, 0.03, 0.04], [0.03, 0.04, 0.05], "holds"),
            ([0.02, 0.03, 0.04], [0.0, 0.01, 0.02], "fails"),
            ([0.02, 0.03], [0.03, 0.04], "holds"),  # a seed that the sampler has not run says nothing
            ([], [0.03, 0.04], "undecided"),
        ],
    )
    def test_calibration_against_both_samplers_seed_by_seed(self, sgld, psgld, word):
        cells = {"lenet/mnist": [exchange({"FL-SWAG": scored(0.85, ece=e)}) for e in (0.01, 0.02, 0.03)]}
        cells["sgld/mnist"] = [{"sgld": scored(0.8, ece=e)} for e in sgld]
        cells["psgld/mnist"] = [{"psgld": scored(0.8, ece=e)} for e in psgld]
        found = verdict("FL-SWAG's ECE is below", cells)
        assert found.word == word
        assert word != "holds" or found.why == "lenet MNIST SGLD +1.00 ± 0.00; pSGLD +2.00 ± 0.00"


def line_of(table, *first):
    (found,) = [line for line in table.splitlines() if line.startswith("| " + " | ".join(first) + " |")]
    return found


class TestTables:
    def test_accuracies_beside_the_papers(self):
        cells = {LOGISTIC: [fl_swag(0.84), fl_swag(0.86)], "logistic/digits": [exchange()]}
        cells["common/mnist"] = [{"common": scored(0.925)}]
        table = report.accuracy_table(results(cells), "logistic")
        lines = table.splitlines()
        assert lines[0] == "| model | MNIST, paper | ours | digits, paper | ours |"
        assert len(lines) == 2 + 10 + 2 + 4 + 1
        assert line_of(table, "client 3") == "| client 3 | 87.75 | 82.00 ± 0.00 | – | 82.00 |"
        # ±1 around 85 with two seeds: 12.706 · √2 / √2
        mine = line_of(table, "FL-SWAG, its mean model")
        assert mine == "| FL-SWAG, its mean model | 90.96 | 85.00 ± 12.71 | – | 85.00 |"
        assert line_of(table, "FL-SWAG, 30 draws averaged").split(" | ")[1] == "–"
        assert line_of(table, "all data in one place") == "| all data in one place | 92 | 92.50 | – | – |"
        table = report.accuracy_table(results({"resnet/cifar10": [exchange()]}), "resnet")
        assert line_of(table, "the server alone") == "| the server alone | – | 85.00 |"
        assert "all data" not in table

    @pytest.mark.parametrize("kind", ["logistic", "lenet", "resnet"])
    def test_every_row_and_column_of_the_paper_is_asked_for(self, kind):
        printed = set(published.ACCURACIES)
        cells = [c for c in published.ACCURACIES["FedAvg"] if c.startswith(f"{kind}/")]
        table = report.accuracy_table(results({c: [exchange()] for c in cells}), kind)
        for row in printed - ({"common"} if kind != "logistic" else set()):
            for cell in cells:
                assert published.accuracy(cell, row) in line_of(table, report.named(row))

    def test_calibration_beside_the_papers(self):
        ours = exchange({"FL-SWAG": scored(0.97, ece=0.0123, brier=0.05, nll=0.09)})
        cells = {"lenet/mnist": [ours], "psgld/mnist": [{"psgld": scored(0.9)}], "resnet/cifar10": [ours]}
        table = report.calibration_table(results(cells))
        mine = "| MNIST | FL-SWAG, 30 draws | 97.41 | 97.00 | 0.77 | 1.23 | 0.41 | 0.50 | 0.86 | 0.90 |"
        assert line_of(table, "MNIST", "FL-SWAG, 30 draws") == mine
        sgld = line_of(table, "MNIST", "SGLD")
        assert sgld == "| MNIST | SGLD | 97.61 | – | 1.22 | – | 0.38 | – | 0.89 | – |"
        assert " 90.00 | 1.97 | 5.00 | 0.45 | 3.00 | 1.58 | 4.00 |" in line_of(table, "MNIST", "pSGLD")
        assert " 13.84 | – |" in line_of(table, "CIFAR-10", "pSGLD")
        assert len(table.splitlines()) == 2 + 6

    def test_the_open_question_and_other_weights_of_the_same_means(self):
        rows = exchange({"low rank 2, mean": scored(0.5), "FL-SWAG, T = 10": scored(0.8, 0.1, 0.2, 0.3)})
        table = report.question_table(results({"lenet/mnist": [rows]}), "lenet")
        shown = [line.split(" | ")[1] for line in table.splitlines()[2:]]
        assert shown == ["FL-SWAG, mean", "FL-SWAG", "low rank 2", "wFedAvg", "wBayAvg", "FL-SWAG, T = 10"]
        hot = line_of(table, "MNIST", "FL-SWAG, T = 10")
        assert hot == "| MNIST | FL-SWAG, T = 10 | 80.00 | 10.00 | 2.00 | 3.00 |"
        rows = exchange({"by variance": scored(0.9, nll=0.2)})
        table = report.why_table(results({"lenet/mnist": [rows], LOGISTIC: [exchange()]}))
        header, _, *lines = table.splitlines()
        wanted = ["mean model", "logistic MNIST, accuracy", "NLL x 10", "lenet MNIST, accuracy", "NLL x 10"]
        assert header == f"| {' | '.join(wanted)} |"
        assert [line.split(" | ")[0][2:] for line in lines] == ["FL-SWAG, mean", *PARTS, "FedAvg", "wFedAvg"]
        assert line_of(table, "by variance") == "| by variance | – | – | 90.00 | 2.00 |"

    def test_rows_for_a_spreadsheet(self):
        found = results({LOGISTIC: [{"FedAvg": scored(0.9)}, {"FedAvg": scored(0.8)}]}, {3: tumours()})
        lines = report.REPORT.rows(Asked(("as-run",), "full", (), 1, Path()), {"as-run": found})
        again = f"coterie reproduce makni-2022 --cells {LOGISTIC} --preset as-run --scale full --seeds 2"
        known = {"preset": "as-run", "scale": "full", "cell": LOGISTIC, "seed": 1, "commit": "c0ffee"}
        assert lines[1] == known | {"command": again, "model": "FedAvg"} | scored(0.8)
        assert {(r["cell"], r["seed"], r["value"]) for r in lines[2:]} == {("cancer/wisconsin", 3, 0.5)}
        assert [r["model"] for r in lines[2:]] == list(cancers.ROWS)


def tumours():
    """A result of section 6 in which every number is ½."""
    found: dict = {"origin": ORIGIN}
    for path in cancers.ROWS.values():
        inner = found
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = 0.5
    return found


def page(**presets):
    asked = Asked(("text",), "full", (), 1, Path("nowhere"))
    return report.REPORT.page(
        m.PAPER, asked, {name.replace("_", "-"): found for name, found in presets.items()}
    )


class TestPage:
    @pytest.mark.parametrize(
        ("cell", "section", "name"),
        [
            (LOGISTIC, "7.1", "logistic"),
            ("lenet/fashion-mnist", "8.3", "LeNet"),
            ("resnet/cifar10", "8.3", "ResNet-18"),
            ("sgld/mnist", "", ""),
            ("common/mnist", "", ""),
        ],
    )
    def test_cells_that_are_missing_are_missed_by_nobody(self, cell, section, name):
        kind = cell.partition("/")[0]
        rows = exchange() if section else {kind: scored(0.9)}
        text = page(text=results({cell: [rows]}))
        titles = [f"### Section {section}: {name}"] + ["### Calibration"] * (section == "8.3")
        titles += [f"### Low rank and temperature: {name}", "### Other weights"]
        found = [line for line in text.splitlines() if line.startswith("### ")]
        assert len(found) == (len(titles) if section else 0)
        assert all(line.startswith(title) for line, title in zip(found, titles, strict=False))
        assert "nan" not in text
        named = "resnet" if kind == "resnet" else cell  # its only one
        assert f"coterie reproduce makni-2022 --cells {named} --preset text --scale full --seeds 1" in text
        assert "- commit: c0ffee" in text
        assert "## Section 6" not in text

    def test_section_6_alone(self):
        text = page(text=results({}, {0: tumours()}))
        assert "## Section 6: SWAG beside HMC" in text
        assert "--cells cancer --preset text --scale full --seeds 1" in text
        assert text.count("**undecided** (not run)") == len(EVERYTHING)

    def test_both_presets_side_by_side_and_the_question_is_not_asked_as_run(self):
        both = {"text": [fl_swag(0.84)] * 2, "as_run": [fl_swag(0.86)] * 2}
        text = page(**{preset: results({LOGISTIC: rows}) for preset, rows in both.items()})
        assert "| claim | where | text | as-run |" in text
        (line,) = [x for x in text.splitlines() if x.startswith("| logistic regression: FedAvg is above")]
        assert line.endswith("| **holds** (MNIST +1.00 ± 0.00) | **fails** (MNIST -1.00 ± 0.00) |")
        assert text.count("### Low rank and temperature") == 1
        text = page(as_run=results({LOGISTIC: [exchange()]}))
        assert text.partition("## Does low rank")[2].partition("## Why")[0].endswith("Not run.\n\n")
        assert "### Low rank" not in text

    def test_nothing_finished_nothing_written(self, tmp_path):
        with pytest.raises(BadRun, match="has no finished runs of makni-2022: run some cells first"):
            m.PAPER.write(Asked(("text",), "tiny", ("logistic/digits",), 1, tmp_path))
        assert list(tmp_path.iterdir()) == []


def flat(p, right):
    """Tallies of samples with confidences p > ½ in two classes, of which some are right."""
    p = torch.tensor(p, dtype=torch.float64)
    logits, y = torch.stack([1 - p, p], dim=1).log(), torch.tensor(right, dtype=torch.int64)
    numbers = Tallied().measure("classification", logits, torch.zeros(len(p)), y, Groups.one(len(p)))
    return [float(numbers[str(i)]) for i in range(len(numbers))], calibration(logits, y)


class TestFigures:
    def test_names(self):
        counts, (tallies, _) = np.ones((10, 10), dtype=int), flat([0.8] * 12, [1] * 12)
        for cells in ((), ("common/mnist",), ("lenet/mnist",)):  # nothing is drawn of nothing
            assert report.draw_cells("text", {cell: ({}, counts) for cell in cells}, said.NAMES) == {}
        seen = {
            LOGISTIC: ({"FL-SWAG": tallies}, counts),
            "lenet/fashion-mnist": ({"FL-SWAG": tallies}, counts),
            "sgld/fashion-mnist": ({"sgld": tallies}, counts),
            "psgld/cifar10": ({"psgld": tallies}, counts),
        }
        drawn = report.draw_cells("as-run", seen, said.NAMES)
        names = "split-labels-mnist", "split-sizes-mnist", "calibration-fashion-mnist"
        assert set(drawn) == {f"{name}-as-run" for name in (*names, "calibration-cifar10")}
        lines = drawn["calibration-fashion-mnist-as-run"].axes[0].get_lines()
        assert [x.get_label() for x in lines][:2] == ["FL-SWAG", "SGLD"]

    def test_accuracy_less_confidence_where_there_are_ten_samples(self):
        # 12 at .75 with 9 right, 12 at .88 with 6 right, and 5 at .62, too few
        right = [1] * 9 + [0] * 3 + [1, 0] * 6 + [1] * 5
        tallies, wanted = flat([0.75] * 12 + [0.88] * 12 + [0.62] * 5, right)
        for a, b in zip(report.unpacked(tallies), wanted, strict=True):
            for part, whole in zip(a, b, strict=True):
                torch.testing.assert_close(part.double(), whole[0], rtol=1e-6, atol=1e-5)
        left, above = report.calibration("MNIST", {"FL-SWAG": tallies}).axes
        x, y = left.get_lines()[0].get_data()
        np.testing.assert_allclose([x, y], [[0.75, 0.88], [0, -0.38]], atol=1e-6)
        x, y = above.get_lines()[0].get_data()
        found = dict(zip(np.round(x, 2), y, strict=True))
        # all 29: 20 right; from .65 on 24 of them, 15 right; from .8 on 12; above .88 nobody
        assert found[0.0] == pytest.approx((20 - 9 - 10.56 - 3.1) / 29, abs=1e-6)
        assert found[0.65] == pytest.approx((15 - 9 - 10.56) / 24, abs=1e-6)
        assert found[0.85] == pytest.approx(-0.38, abs=1e-6)
        assert max(found) == 0.85
