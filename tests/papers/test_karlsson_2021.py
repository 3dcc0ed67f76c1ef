"""karlsson-2021: settings and data by hand, verdicts on made-up runs, and a few whole tiny runs."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch

from coterie.api.train import train
from coterie.cli.reproduce import reproduce
from coterie.core.errors import BadData
from coterie.data.sources.cifar10 import Cifar10
from coterie.kernels import SGD, Adam
from coterie.methods import Local
from coterie.papers.base import Asked
from coterie.papers.karlsson_2021 import claims, report
from coterie.papers.karlsson_2021 import paper as k
from coterie.papers.karlsson_2021.paper import cell_of, method_of
from coterie.runs.folder import read_record


class TestSettings:
    def test_the_whole_training_set_is_dealt(self):
        for n, size in k.SETTINGS["full"].sizes.items():
            assert n * (size.train + size.validation) == 50_000

    @pytest.mark.parametrize(("n", "text", "as_run"), [(50, 2, 2), (200, 10, 11), (1000, 50, 51)])
    def test_epochs_of_step_1_are_those_of_table_3_3_and_of_the_program(self, n, text, as_run):
        cell = cell_of(f"common-{n}/pens", "full")
        assert method_of(cell, "text", "full").epochs1 == text
        assert method_of(cell, "as-run", "full").epochs1 == as_run

    def test_presets_differ_in_optimiser_order_and_threshold(self):
        cell = cell_of("common-200/pens", "full")
        text, as_run = method_of(cell, "text", "full"), method_of(cell, "as-run", "full")
        assert text.local == SGD(lr=1e-3, batch=8, epochs=3)
        assert as_run.local == Adam(lr=1e-3, batch=8, epochs=3)
        assert (text.order, as_run.order) == ("thesis", "program")
        # 4 picked of 20, 10 samplings, 20 rounds: 800 picks of 199 others
        picks = torch.tensor([800])
        assert text.threshold(picks, 200).item() == pytest.approx(4.0201005)
        assert as_run.threshold(picks, 200).item() == pytest.approx(3.0201005)

    def test_step_1_is_on_top_at_full_scale_and_within_elsewhere(self):
        assert k.rounds_of(cell_of("common-50/pens", "full"), "full") == 353
        assert k.rounds_of(cell_of("common-50/random", "full"), "full") == 333
        assert k.rounds_of(cell_of("common-16/pens", "small"), "small") == 12

    def test_figure_4_1_changes_one_option(self):
        usual = method_of(cell_of("iid-200/random", "full"), "text", "full")
        few = method_of(cell_of("selected/5", "full"), "text", "full")
        assert few == dataclasses.replace(usual, selected=5)
        long = method_of(cell_of("epochs/10", "full"), "text", "full")
        assert long == dataclasses.replace(usual, local=SGD(lr=1e-3, batch=8, epochs=10))
        fast = method_of(cell_of("rate/10", "full"), "text", "full")
        assert fast.local.lr == pytest.approx(1e-2)

    @pytest.mark.parametrize("scale", ["full", "small", "tiny"])
    @pytest.mark.parametrize("preset", ["text", "as-run"])
    def test_every_cell_can_work(self, scale, preset):
        for cell in k.PAPER.cells(scale):
            taken = cell_of(cell, scale)
            names = [f"c{i}" for i in range(1 if taken.method in k.ONE else taken.clients)]
            method_of(taken, preset, scale).check(names, k.rounds_of(taken, scale))

    def test_tables_of_the_thesis_name_our_cells(self):
        known = k.PAPER.cells("full")
        assert all(f"iid-200/{m}" in known for m in claims.TABLE_41)
        for init, methods in claims.TABLE_42.items():
            assert set(methods) == {*k.MAIN, *k.ONE}
            assert all(f"{init}-200/{m}" in known for m in k.MAIN)
        assert all(f"{group}/pens" in known for group in claims.TABLE_43)


class TestData:
    def test_two_clusters_no_row_twice_one_test_set_each(self):
        clients = k.dealt("text", "tiny", 8, False, 3)
        assert [c.cluster for c in clients] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert {(len(c.train), len(c.validation), len(c.test)) for c in clients} == {(80, 20, 297)}
        assert len({c.test.x.data_ptr() for c in clients}) == 2
        turned = torch.flip(clients[0].test.x, (2, 3))
        assert torch.equal(clients[-1].test.x, turned)
        assert torch.equal(clients[-1].test.y, clients[0].test.y)
        whole = k.numbers(k.pictures("tiny"), k.pictures("tiny").train, "identity")
        source = Counter(row.numpy().tobytes() for row in whole.x)
        dealt = Counter(
            (torch.flip(row, (1, 2)) if c.cluster else row).numpy().tobytes()
            for c in clients
            for part in (c.train, c.validation)
            for row in part.x
        )
        assert dealt.total() == 800
        assert dealt <= source

    def test_as_run_flips_instead_of_turning(self):
        clients = k.dealt("as-run", "tiny", 8, False, 0)
        assert torch.equal(clients[-1].test.x, torch.flip(clients[0].test.x, (2,)))

    def test_iid_data_has_one_cluster(self):
        clients = k.dealt("text", "tiny", 16, True, 0)
        assert {c.cluster for c in clients} == {0}
        assert torch.equal(clients[-1].test.x, clients[0].test.x)

    @pytest.mark.parametrize(
        ("cell", "train", "test"),
        [
            ("common-16/central-half", 8 * 40, 297),
            ("common-16/central-all", 16 * 40, 2 * 297),
            ("iid-16/central-half", 16 * 40, 297),
        ],
    )
    def test_central_training_has_the_data_of_all(self, cell, train, test):
        (one,) = k.clients_of(cell_of(cell, "tiny"), "text", "tiny", 0)
        assert (len(one.train), len(one.test)) == (train, test)

    def test_local_training_is_that_of_one_client_of_each_cluster(self):
        chosen = k.clients_of(cell_of("common-16/local", "tiny"), "text", "tiny", 0)
        assert [c.cluster for c in chosen] == [0, 1]


def test_alone_is_local_training():
    clients = k.dealt("text", "tiny", 8, False, 0)[:2]
    work = SGD(lr=0.1, batch=8, epochs=2)
    found = [train("mlp", clients, method, rounds=2, seed=1) for method in (k.Alone(work), Local(work))]
    curves = [f.record.curve("loss")[1] for f in found]
    np.testing.assert_array_equal(*curves)


def made(*accuracy, finished=True, every=10, **more):
    known = {"cost": 1.0, "precision": None, "recall": None, "collected": None, "origin": {}} | more
    return claims.Run({every * i: a for i, a in enumerate(accuracy)}, finished=finished, **known)


class TestVerdicts:
    def test_finished_runs_are_compared_in_the_end(self):
        cells = {"common-50/pens": {0: made(0.1, 0.5, 0.6)}, "common-50/random": {0: made(0.1, 0.4)}}
        assert claims.gain(cells, "common-50/pens", "common-50/random") == pytest.approx([20])

    def test_unfinished_ones_in_the_last_round_that_both_have(self):
        cells = {
            "common-50/pens": {0: made(0.1, 0.5, 0.6, finished=False), 1: made(0.1, finished=False)},
            "common-50/random": {0: made(0.1, 0.4, finished=False), 1: made(0.1, 0.4, finished=False)},
        }
        assert claims.gain(cells, "common-50/pens", "common-50/random") == pytest.approx([10])

    def test_pens_above_random_looks_at_all_but_the_most_clients(self):
        cells = {
            f"common-{n}/{m}": {s: made(0.1, a + s / 100) for s in range(3)}
            for n, m, a in [
                (50, "pens", 0.5),
                (50, "random", 0.4),
                (1000, "pens", 0.2),
                (1000, "random", 0.3),
            ]
        }
        assert claims.pens_above_random(cells).word == "holds"
        assert claims.not_with_most(cells).word == "holds"
        assert "1000" not in claims.pens_above_random(cells).why

    def test_near_oracle_within_three_points(self):
        def cells(gap):
            return {
                "common-50/pens": {s: made(0.1, 0.5 - gap) for s in range(3)},
                "common-50/oracle": {s: made(0.1, 0.5) for s in range(3)},
            }

        assert claims.pens_near_oracle(cells(0.02)).word == "holds"
        assert claims.pens_near_oracle(cells(0.04)).word == "fails"

    def test_precision_against_recall(self):
        runs = {s: made(0.1, 0.5, precision=0.9, recall=0.6 + s / 100) for s in range(3)}
        assert claims.precise({"common-50/pens": runs}).word == "holds"

    def test_nothing_run_nothing_decided(self):
        assert all(claim.check({}).word == "undecided" for claim in claims.CLAIMS)


CELLS = "common-8/pens,common-8/random,common-8/local"


def words(*more):
    return ["karlsson-2021", "--scale", "tiny", "--cells", CELLS, "--seeds", "1", *more]


def test_a_whole_tiny_run_stopped_in_time_and_gone_on_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert reproduce(words("--out", "whole", "--preset", "both")) == 0
    page = (tmp_path / "whole/results.md").read_text()
    assert "### Figure 4.3: 8 clients, common initialisation" in page
    assert "| PENS is above random" in page
    assert {p.name for p in (tmp_path / "whole/figures").iterdir()} == {
        f"figure-4-{i}-{preset}-tiny.svg" for i in (2, 3) for preset in ("text", "as-run")
    }
    with pytest.raises(Exception, match="no scored round"):
        reproduce(words("--out", "cut", "--minutes", "1e-9"))  # stops after round 0, with nothing to show
    assert reproduce(words("--out", "cut")) == 0
    for cell in CELLS.split(","):
        path = f"text/tiny/{cell}/seed-0/metrics.jsonl"
        assert (tmp_path / "cut" / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()
    capsys.readouterr()


def test_what_the_page_says_comes_from_the_runs(tmp_path):
    asked = Asked(("text",), "tiny", ("common-8/pens",), 1, tmp_path)
    (job,) = k.PAPER.jobs(asked)
    job.run(lambda share, said: None)
    run = report.read(asked, k.PAPER)["text"]["common-8/pens"][0]
    record = read_record(k.place(tmp_path, "text", "tiny", "common-8/pens", 0))
    assert run.accuracy[8] == pytest.approx(np.mean(record.final("accuracy")))
    moved = np.array([np.add(m["sent"], m["received"]) for m in record.metrics]).sum(axis=0)
    assert run.cost == pytest.approx(moved.mean())
    history = record.matrices["history"][4]
    circle = history > history.sum(axis=1, keepdims=True) / 7
    kin = np.equal.outer(np.arange(8) // 4, np.arange(8) // 4) & ~np.eye(8, dtype=bool)
    found = [(c & own).sum() / c.sum() for c, own in zip(circle, kin, strict=True) if c.any()]
    assert run.precision == pytest.approx(np.mean(found))
    assert run.recall == pytest.approx(((circle & kin).sum(axis=1) / 3).mean())
    collected = sum((w > 0) & ~np.eye(8, dtype=bool) for w in record.weights.values())
    np.testing.assert_array_equal(run.collected, collected)


def test_a_run_without_a_round_is_left_out(tmp_path):
    class Stop(Exception):
        pass

    def stop(share, said):
        raise Stop

    asked = Asked(("text",), "tiny", ("common-8/pens", "common-8/local"), 1, tmp_path)
    pens, local = k.PAPER.jobs(asked)
    with pytest.raises(Stop):
        pens.run(stop)
    local.run(lambda share, said: None)
    assert set(report.read(asked, k.PAPER)["text"]) == {"common-8/local"}


def test_without_cifar_it_says_what_runs(monkeypatch, refused, tmp_path):
    def absent(self):
        raise BadData("no cifar10 here: fetch it")

    monkeypatch.setattr(Cifar10, "fetch", absent)
    asked = Asked(("text",), "small", ("common-16/pens",), 1, tmp_path)
    with refused(BadData, "no cifar10 here: fetch it; or see it run with --scale tiny"):
        k.PAPER.jobs(asked)
