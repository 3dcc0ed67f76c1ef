"""makni-2022: tables, verdicts and pictures of made-up runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadRun
from coterie.kernels.calibrate import Tallied
from coterie.metrics.calibration import calibration
from coterie.papers.base import Asked
from coterie.papers.makni_2022 import cancer_report as cancers
from coterie.papers.makni_2022 import claims, figures, published, report
from coterie.papers.makni_2022 import paper as m
from coterie.papers.makni_2022 import results as said
from coterie.papers.makni_2022.why import PARTS

ORIGIN = {"commit": "c0ffee", "versions": {"coterie": "0"}}


def scored(accuracy, ece=0.05, brier=0.3, nll=0.4):
    return {"accuracy": accuracy, "ece": ece, "brier": brier, "nll": nll}


def exchange(**more):
    """Clients of 80, 81, ..., 89 %, and everything made of them at 85 %, but for what is said."""
    rows = {f"client {i + 1}": scored(0.8 + i / 100) for i in range(10)}
    rows |= {row: scored(0.85) for row in ("FL-SWAG, mean", "FL-SWAG", "low rank 2", *said.AVERAGES)}
    return rows | {"FL-SWAG, T = 10": scored(0.85), said.SERVER: {"accuracy": 0.85}} | more


def results(cells, cancer=None):
    """Figures by cell and seed as if they had been computed."""
    found = {
        cell: {s: said.Found(rows, {}, np.ones((10, 10), dtype=int), ORIGIN) for s, rows in enumerate(seeds)}
        for cell, seeds in cells.items()
    }
    return said.Results(found, cancer or {})


def claim(text):
    everything = (*claims.CLAIMS, *claims.QUESTIONS, *claims.REASONS)
    (found,) = [c for c in everything if c.text.startswith(text)]
    return found


def fl_swag(accuracy):
    return exchange(**{"FL-SWAG, mean": scored(accuracy)})


class TestClaims:
    @pytest.mark.parametrize(
        ("text", "cell", "good", "bad"),
        [
            ("logistic regression: FL-SWAG is above most", "logistic/mnist", fl_swag(0.855), fl_swag(0.835)),
            ("logistic regression: FL-SWAG is near", "logistic/mnist", fl_swag(0.84), fl_swag(0.82)),
            ("logistic regression: FL-SWAG is near", "logistic/mnist", fl_swag(0.86), fl_swag(0.88)),
            ("logistic regression: FedAvg is above", "logistic/mnist", fl_swag(0.84), fl_swag(0.86)),
            (
                "logistic regression: averages by size",
                "logistic/fashion-mnist",
                exchange(wFedAvg=scored(0.86)),
                exchange(wFedAvg=scored(0.84)),
            ),
            ("after the server's training FL-SWAG is near", "lenet/mnist", fl_swag(0.84), fl_swag(0.82)),
            ("after the server's training FL-SWAG is above", "resnet/cifar10", fl_swag(0.9), fl_swag(0.88)),
            ("FL-SWAG is above what the server had", "lenet/digits", fl_swag(0.86), fl_swag(0.84)),
            (
                "low rank (2) helps",
                "lenet/mnist",
                exchange(**{"low rank 2": scored(0.85, nll=0.3)}),
                exchange(**{"low rank 2": scored(0.85, nll=0.5)}),
            ),
            (
                "a temperature of 10 helps",
                "logistic/mnist",
                exchange(**{"FL-SWAG, T = 10": scored(0.85, nll=0.3)}),
                exchange(**{"FL-SWAG, T = 10": scored(0.85, nll=0.5)}),
            ),
            *(
                (
                    text,
                    "logistic/mnist",
                    exchange(**{row: scored(0.86), **more}),
                    exchange(**{row: scored(0.84), **more}),
                )
                for text, row, more in [
                    ("levels do little harm", "levels alone", {}),
                    ("which parameters", "coordinates shuffled", {"coordinates alone": scored(0.85)}),
                    ("it has the wrong sign", "by variance", {}),
                    ("by variance is above FedAvg", "by variance", {}),
                ]
            ),
        ],
    )
    def test_holds_fails_or_is_undecided(self, text, cell, good, bad):
        check = claim(text).check
        assert check(results({cell: [good] * 3})).word == "holds"
        assert check(results({cell: [bad] * 3})).word == "fails"
        assert check(results({cell: [good]})).word == "undecided"
        assert check(results({})) == ("undecided", "not run")

    def test_numbers_are_points_and_their_interval(self):
        # 1, 2 and 3 points; Student's 4.303 with two degrees, times 1 / √3
        found = claim("logistic regression: FedAvg is above").check(
            results({"logistic/mnist": [fl_swag(a) for a in (0.84, 0.83, 0.82)]})
        )
        assert found == ("undecided", "MNIST +2.00 ± 2.48")

    def test_one_data_set_is_enough_to_fail(self):
        found = claim("after the server's training FL-SWAG is above").check(
            results({"lenet/mnist": [fl_swag(0.9)] * 2, "lenet/fashion-mnist": [fl_swag(0.88)] * 2})
        )
        assert found == ("fails", "lenet MNIST +1.00 ± 0.00; lenet FashionMNIST -1.00 ± 0.00")

    def test_kinds_on_the_same_data_are_told_apart(self):
        better = exchange(**{"low rank 2": scored(0.85, nll=0.3)})
        worse = exchange(**{"low rank 2": scored(0.85, nll=0.5)})
        found = claim("low rank (2) helps").check(
            results({"logistic/mnist": [worse] * 2, "lenet/mnist": [better] * 2})
        )
        assert found == ("fails", "logistic MNIST -1.0000 ± 0.0000; lenet MNIST +1.0000 ± 0.0000")

    def test_calibration_against_both_samplers_seed_by_seed(self):
        check = claim("FL-SWAG's ECE is below").check

        def cells(sgld, psgld):
            ours = [exchange(**{"FL-SWAG": scored(0.85, ece=e)}) for e in (0.01, 0.02, 0.03)]
            theirs = {"sgld": sgld, "psgld": psgld}
            others = {
                f"{kind}/mnist": [{kind: scored(0.8, ece=e)} for e in values]
                for kind, values in theirs.items()
            }
            return results({"lenet/mnist": ours, **others})

        assert check(cells([0.02, 0.03, 0.04], [0.03, 0.04, 0.05])) == (
            "holds",
            "lenet MNIST SGLD +1.00 ± 0.00; pSGLD +2.00 ± 0.00",
        )
        assert check(cells([0.02, 0.03, 0.04], [0.0, 0.01, 0.02])).word == "fails"
        # a seed that the sampler has not run says nothing
        assert check(cells([0.02, 0.03], [0.03, 0.04])).word == "holds"
        assert check(cells([], [0.03, 0.04])).word == "undecided"


def line_of(table, *first):
    (found,) = [line for line in table.splitlines() if line.startswith("| " + " | ".join(first) + " |")]
    return found


class TestTables:
    def test_accuracies_beside_the_papers(self):
        found = results(
            {
                "logistic/mnist": [fl_swag(0.84), fl_swag(0.86)],
                "logistic/digits": [exchange()],
                "common/mnist": [{"common": scored(0.925)}],
            }
        )
        table = report.accuracy_table(found, "logistic")
        lines = table.splitlines()
        assert lines[0] == "| model | MNIST, paper | ours | digits, paper | ours |"
        assert len(lines) == 2 + 10 + 2 + 4 + 1
        assert line_of(table, "client 3") == "| client 3 | 87.75 | 82.00 ± 0.00 | – | 82.00 |"
        # ±1 around 85 with two seeds: 12.706 · √2 / √2
        mine = line_of(table, "FL-SWAG, its mean model")
        assert mine == "| FL-SWAG, its mean model | 90.96 | 85.00 ± 12.71 | – | 85.00 |"
        assert line_of(table, "FL-SWAG, 30 draws averaged").split(" | ")[1] == "–"
        assert line_of(table, "all data in one place") == "| all data in one place | 92 | 92.50 | – | – |"

    def test_networks_have_the_server_instead(self):
        table = report.accuracy_table(results({"resnet/cifar10": [exchange()]}), "resnet")
        assert line_of(table, "the server alone") == "| the server alone | – | 85.00 |"
        assert line_of(table, "wBayAvg") == "| wBayAvg | 70.45 | 85.00 |"
        assert "all data" not in table

    def test_every_row_and_column_of_the_paper_is_asked_for(self):
        printed = {line[:16].strip() for line in published.ACCURACIES.strip().splitlines()}
        for kind in ("logistic", "lenet", "resnet"):
            cells = [c for c in published.COLUMNS if c.startswith(f"{kind}/")]
            table = report.accuracy_table(results({c: [exchange()] for c in cells}), kind)
            for row in printed - ({"common"} if kind != "logistic" else set()):
                for cell in cells:
                    assert published.accuracy(cell, row) in line_of(table, report.named(row))

    def test_calibration_beside_the_papers(self):
        ours = exchange(**{"FL-SWAG": scored(0.97, ece=0.0123, brier=0.05, nll=0.09)})
        found = results(
            {"lenet/mnist": [ours], "psgld/mnist": [{"psgld": scored(0.9)}], "resnet/cifar10": [ours]}
        )
        table = report.calibration_table(found)
        assert line_of(table, "MNIST", "FL-SWAG, 30 draws") == (
            "| MNIST | FL-SWAG, 30 draws | 97.41 | 97.00 | 0.77 | 1.23 | 0.41 | 0.50 | 0.86 | 0.90 |"
        )
        sgld = line_of(table, "MNIST", "SGLD")
        assert sgld == "| MNIST | SGLD | 97.61 | – | 1.22 | – | 0.38 | – | 0.89 | – |"
        assert " 90.00 | 1.97 | 5.00 | 0.45 | 3.00 | 1.58 | 4.00 |" in line_of(table, "MNIST", "pSGLD")
        assert " 13.84 | – |" in line_of(table, "CIFAR-10", "pSGLD")
        assert len(table.splitlines()) == 2 + 6

    def test_the_open_question(self):
        rows = exchange(**{"low rank 2, mean": scored(0.5), "FL-SWAG, T = 10": scored(0.8, 0.1, 0.2, 0.3)})
        table = report.question_table(results({"lenet/mnist": [rows]}), "lenet")
        shown = [line.split(" | ")[1] for line in table.splitlines()[2:]]
        assert shown == ["FL-SWAG, mean", "FL-SWAG", "low rank 2", "wFedAvg", "wBayAvg", "FL-SWAG, T = 10"]
        hot = line_of(table, "MNIST", "FL-SWAG, T = 10")
        assert hot == "| MNIST | FL-SWAG, T = 10 | 80.00 | 10.00 | 2.00 | 3.00 |"

    def test_other_weights_of_the_same_means(self):
        rows = exchange(**{"by variance": scored(0.9, nll=0.2)})
        table = report.why_table(results({"lenet/mnist": [rows], "logistic/mnist": [exchange()]}))
        header, _, *lines = table.splitlines()
        wanted = ["mean model", "logistic MNIST, accuracy", "NLL x 10", "lenet MNIST, accuracy", "NLL x 10"]
        assert header == f"| {' | '.join(wanted)} |"
        assert [line.split(" | ")[0][2:] for line in lines] == ["FL-SWAG, mean", *PARTS, "FedAvg", "wFedAvg"]
        assert line_of(table, "by variance") == "| by variance | – | – | 90.00 | 2.00 |"

    def test_rows_for_a_spreadsheet(self):
        found = results(
            {"logistic/mnist": [{"FedAvg": scored(0.9)}, {"FedAvg": scored(0.8)}]}, {3: tumours()}
        )
        lines = report.rows({"as-run": found}, "full")
        again = "coterie reproduce makni-2022 --cells logistic/mnist --preset as-run --scale full --seeds 2"
        assert lines[1] == {
            "preset": "as-run",
            "scale": "full",
            "cell": "logistic/mnist",
            "seed": 1,
            "commit": "c0ffee",
            "command": again,
            "model": "FedAvg",
            "accuracy": 0.8,
            "ece": 0.05,
            "brier": 0.3,
            "nll": 0.4,
        }
        assert len(lines) == 2 + len(cancers.ROWS)
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
    return report.page(m.PAPER, asked, {name.replace("_", "-"): found for name, found in presets.items()})


class TestPage:
    @pytest.mark.parametrize(
        ("cell", "titles"),
        [
            ("logistic/mnist", ["### Section 7.1: logistic", "### Low rank and temperature: logistic"]),
            (
                "lenet/fashion-mnist",
                ["### Section 8.3: LeNet", "### Calibration", "### Low rank and temperature: LeNet"],
            ),
            (
                "resnet/cifar10",
                ["### Section 8.3: ResNet-18", "### Calibration", "### Low rank and temperature: ResNet-18"],
            ),
            ("sgld/mnist", []),
            ("common/mnist", []),
        ],
    )
    def test_cells_that_are_missing_are_missed_by_nobody(self, cell, titles):
        kind = cell.partition("/")[0]
        rows = exchange() if kind in m.EXCHANGES else {kind: scored(0.9)}
        text = page(text=results({cell: [rows]}))
        found = [line for line in text.splitlines() if line.startswith("### ")]
        titles = [*titles, *(["### Other weights"] if titles else [])]
        assert len(found) == len(titles)
        assert all(line.startswith(title) for line, title in zip(found, titles, strict=True))
        assert "nan" not in text
        named = "resnet" if kind == "resnet" else cell  # its only one
        assert f"coterie reproduce makni-2022 --cells {named} --preset text --scale full --seeds 1" in text
        assert "- commit: c0ffee" in text
        assert "## Section 6" not in text

    def test_section_6_alone(self):
        text = page(text=results({}, {0: tumours()}))
        assert "## Section 6: SWAG beside HMC" in text
        assert "--cells cancer --preset text --scale full --seeds 1" in text
        assert "Of section 6:" in text
        assert text.count("**undecided** (not run)") == len(claims.CLAIMS) + len(claims.QUESTIONS) + len(
            claims.REASONS
        )

    def test_both_presets_side_by_side(self):
        text = page(
            text=results({"logistic/mnist": [fl_swag(0.84)] * 2}),
            as_run=results({"logistic/mnist": [fl_swag(0.86)] * 2}),
        )
        assert "| claim | where | text | as-run |" in text
        (line,) = [x for x in text.splitlines() if x.startswith("| logistic regression: FedAvg is above")]
        assert line.endswith("| **holds** (MNIST +1.00 ± 0.00) | **fails** (MNIST -1.00 ± 0.00) |")
        assert text.count("### Low rank and temperature") == 1

    def test_the_question_is_not_asked_as_run(self):
        text = page(as_run=results({"logistic/mnist": [exchange()]}))
        assert text.partition("## Does low rank")[2].partition("## Why")[0].endswith("Not run.\n\n")
        assert "### Low rank" not in text

    def test_nothing_finished_nothing_written(self, tmp_path, refused):
        asked = Asked(("text",), "tiny", ("logistic/digits",), 1, tmp_path)
        with refused(BadRun, f"{tmp_path} has no finished runs of makni-2022: run some cells first"):
            m.PAPER.write(asked)
        assert list(tmp_path.iterdir()) == []


def flat(p, right):
    """Tallies of samples with confidences p > ½ in two classes, of which some are right."""
    p = torch.tensor(p, dtype=torch.float64)
    logits, y = torch.stack([1 - p, p], dim=1).log(), torch.tensor(right, dtype=torch.int64)
    numbers = Tallied().measure("classification", logits, torch.zeros(len(p)), y)
    return [numbers[str(i)] for i in range(len(numbers))], calibration(logits, y)


class TestFigures:
    @given(st.lists(st.tuples(st.floats(0.51, 0.999), st.booleans()), min_size=1, max_size=30))
    def test_unpacking_undoes_the_flattening(self, samples):
        p, right = zip(*samples, strict=True)
        numbers, wanted = flat(p, right)
        found = figures.unpacked(numbers)
        for a, b in zip(found, wanted, strict=True):
            for part, whole in zip(a, b, strict=True):
                torch.testing.assert_close(part.double(), whole, rtol=1e-6, atol=1e-5)

    def test_nothing_is_drawn_of_nothing(self):
        counts = np.ones((10, 10), dtype=int)
        assert figures.draw("text", {}, said.NAMES) == {}
        assert figures.draw("text", {"common/mnist": ({}, counts)}, said.NAMES) == {}
        assert figures.draw("text", {"lenet/mnist": ({}, counts)}, said.NAMES) == {}

    def test_names(self):
        counts, (tallies, _) = np.ones((10, 10), dtype=int), flat([0.8] * 12, [1] * 12)
        seen = {
            "logistic/mnist": ({"FL-SWAG": tallies}, counts),
            "lenet/fashion-mnist": ({"FL-SWAG": tallies}, counts),
            "sgld/fashion-mnist": ({"sgld": tallies}, counts),
            "psgld/cifar10": ({"psgld": tallies}, counts),
        }
        drawn = figures.draw("as-run", seen, said.NAMES)
        assert set(drawn) == {
            "split-labels-mnist-as-run",
            "split-sizes-mnist-as-run",
            "calibration-fashion-mnist-as-run",
            "calibration-cifar10-as-run",
        }
        lines = drawn["calibration-fashion-mnist-as-run"].axes[0].get_lines()
        assert [x.get_label() for x in lines][:2] == ["FL-SWAG", "SGLD"]

    def test_accuracy_less_confidence_where_there_are_ten_samples(self):
        # 12 at .75 with 9 right, 12 at .88 with 6 right, and 5 at .62, too few
        tallies, _ = flat([0.75] * 12 + [0.88] * 12 + [0.62] * 5, [1] * 9 + [0] * 3 + [1, 0] * 6 + [1] * 5)
        left, right = figures.calibration("MNIST", {"FL-SWAG": tallies}).axes
        x, y = left.get_lines()[0].get_data()
        np.testing.assert_allclose([x, y], [[0.75, 0.88], [0, -0.38]], atol=1e-6)
        x, y = right.get_lines()[0].get_data()
        above = dict(zip(np.round(x, 2), y, strict=True))
        # all 29: 20 right; from .65 on 24 of them, 15 right; from .8 on 12; above .88 nobody
        assert above[0.0] == pytest.approx((20 - 9 - 10.56 - 3.1) / 29, abs=1e-6)
        assert above[0.65] == pytest.approx((15 - 9 - 10.56) / 24, abs=1e-6)
        assert above[0.85] == pytest.approx(-0.38, abs=1e-6)
        assert max(above) == 0.85
