"""karlsson-2021: settings and data by hand, verdicts on made-up runs, and a few whole tiny runs."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch

import coterie
from coterie.api.folders import read_record
from coterie.core.belief import belief_of, stack
from coterie.core.roster import Member, Roster
from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam
from coterie.methods import Local
from coterie.studies import karlsson_2021 as k
from coterie.studies.base import Asked, place
from coterie.studies.command import reproduce
from coterie.studies.karlsson_2021 import cell_of, claims, method_of, report


class TestSettings:
    @pytest.mark.parametrize(("n", "text", "as_run"), [(50, 2, 2), (200, 10, 11), (1000, 50, 51)])
    def test_epochs_of_step_1_are_those_of_table_3_3_and_of_the_program(self, n, text, as_run):
        cell, size = cell_of(f"common-{n}/pens", "full"), k.SETTINGS["full"].sizes[n]
        assert method_of(cell, "text", "full").epochs1 == text
        assert method_of(cell, "as-run", "full").epochs1 == as_run
        assert n * (size.train + size.validation) == 50_000
        # step 1 is on top at full scale, and within elsewhere
        other = cell_of(f"common-{n}/random", "full")
        assert k.rounds_of(cell, "full") == 353 == 20 + k.rounds_of(other, "full")
        assert k.rounds_of(cell_of("common-16/pens", "small"), "small") == 12

    def test_presets_differ_in_optimiser_order_and_threshold(self):
        cell = cell_of("common-200/pens", "full")
        text, as_run = method_of(cell, "text", "full"), method_of(cell, "as-run", "full")
        assert text.local == SGD(lr=1e-3, batch=8, epochs=3)
        assert as_run.local == Adam(lr=1e-3, batch=8, epochs=3)
        assert (text.order, as_run.order) == ("thesis", "program")
        # 4 picked of 20, 10 samplings, 20 rounds: 800 picks of 199 others
        found = [way.threshold(torch.tensor([800]), 200).item() for way in (text, as_run)]
        assert found == pytest.approx([4.0201005, 3.0201005])

    @pytest.mark.parametrize("scale", ["full", "small", "tiny"])
    @pytest.mark.parametrize("preset", ["text", "as-run"])
    def test_nothing_of_pens_is_left_to_a_default(self, preset, scale):
        for n, size in k.SETTINGS[scale].sizes.items():
            method = method_of(cell_of(f"common-{n}/pens", scale), preset, scale)
            assert (method.samplings, method.direction) == (10, "mine-on-theirs")
            assert method.rounds_step1 == k.SETTINGS[scale].step1
            assert (method.sampled, method.selected, method.neighbours) == (
                size.sampled,
                size.selected,
                size.others,
            )
            assert method.times(n) == 10

    def test_figure_4_1_changes_one_option(self):
        usual = method_of(cell_of("iid-200/random", "full"), "text", "full")
        few, long, fast = (
            method_of(cell_of(cell, "full"), "text", "full")
            for cell in ("selected/5", "epochs/10", "rate/10")
        )
        assert few == dataclasses.replace(usual, selected=5)
        assert long == dataclasses.replace(usual, local=SGD(lr=1e-3, batch=8, epochs=10))
        assert fast == dataclasses.replace(usual, local=SGD(lr=1e-3 * 10, batch=8, epochs=3))

    @pytest.mark.parametrize("scale", ["full", "small", "tiny"])
    @pytest.mark.parametrize("preset", ["text", "as-run"])
    def test_every_cell_can_work(self, scale, preset):
        start = stack([belief_of(torch.nn.Linear(1, 1))])
        for cell in k.PAPER.cells(scale):
            taken = cell_of(cell, scale)
            some = range(1 if taken.method in k.ONE else taken.clients)
            roster = Roster(
                tuple(Member(f"c{i}", 9, 9, 9, cluster=0) for i in some), "classification", (1,), 10
            )
            key = Key(0, rounds=k.rounds_of(taken, scale))
            assert not method_of(taken, preset, scale).check(roster, start, key)

    def test_tables_of_the_thesis_name_our_cells(self):
        known = k.PAPER.cells("full")
        assert all(f"iid-200/{m}" in known for m in claims.TABLE_41)
        assert set(claims.TABLE_42) == {*k.MAIN, *k.ONE}
        for init in k.INITS:
            assert all({init, f"{init}, models"} <= set(row) for row in claims.TABLE_42.values())
            assert all(f"{init}-200/{m}" in known for m in k.MAIN)
        assert all(f"{group}/pens" in known for group in claims.TABLE_43)


class TestData:
    def test_two_clusters_no_row_twice_one_test_set_each(self):
        clients = k.dealt("text", "tiny", 8, False, 3)
        assert [c.cluster for c in clients] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert {(len(c.train), len(c.validation), len(c.test)) for c in clients} == {(80, 20, 297)}
        assert len({c.test.x.data_ptr() for c in clients}) == 2
        assert torch.equal(clients[-1].test.x, torch.flip(clients[0].test.x, (2, 3)))
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

    def test_as_run_flips_and_iid_data_stay_as_they_are(self):
        flipped, iid = k.dealt("as-run", "tiny", 8, False, 0), k.dealt("text", "tiny", 16, True, 0)
        assert torch.equal(flipped[-1].test.x, torch.flip(flipped[0].test.x, (2,)))
        assert {c.cluster for c in iid} == {0}
        assert torch.equal(iid[-1].test.x, iid[0].test.x)

    @pytest.mark.parametrize(
        ("cell", "wanted"),
        [
            ("common-16/central-half", [(8 * 40, 297, None)]),
            ("common-16/central-all", [(16 * 40, 2 * 297, None)]),
            ("iid-16/central-half", [(16 * 40, 297, None)]),
            ("common-16/local", [(40, 297, 0), (40, 297, 1)]),
        ],
    )
    def test_central_training_has_all_data_and_local_one_client_of_each_cluster(self, cell, wanted):
        chosen = k.clients_of(cell_of(cell, "tiny"), "text", "tiny", 0)
        assert [(len(c.train), len(c.test), c.cluster) for c in chosen] == wanted


def test_alone_is_local_training():
    clients = k.dealt("text", "tiny", 8, False, 0)[:2]
    work = SGD(lr=0.1, batch=20)
    found = [coterie.train("mlp", clients, way, rounds=2, seed=1) for way in (k.Alone(work), Local(work))]
    np.testing.assert_array_equal(*(f.record.curve("loss")[1] for f in found))


def made(*accuracy, finished=True, **more):
    known = {"cost": 1.0, "precision": None, "recall": None, "collected": None, "origin": {}} | more
    return claims.Run({10 * i: a for i, a in enumerate(accuracy)}, finished=finished, **known)


class TestVerdicts:
    def test_unfinished_runs_are_compared_in_the_last_round_that_both_have(self):
        cells = {"common-50/pens": {0: made(0.1, 0.5, 0.6)}, "common-50/random": {0: made(0.1, 0.4)}}
        assert claims.gain(cells, "common-50/pens", "common-50/random") == pytest.approx([20])
        cells = {
            "common-50/pens": {0: made(0.1, 0.5, 0.6, finished=False), 1: made(0.1, finished=False)},
            "common-50/random": {0: made(0.1, 0.4, finished=False), 1: made(0.1, 0.4, finished=False)},
        }
        assert claims.gain(cells, "common-50/pens", "common-50/random") == pytest.approx([10])

    def test_pens_above_random_looks_at_all_but_the_most_clients(self):
        known = {(50, "pens"): 0.5, (50, "random"): 0.4, (1000, "pens"): 0.2, (1000, "random"): 0.3}
        cells = {
            f"common-{n}/{m}": {s: made(0.1, a + s / 100) for s in range(3)} for (n, m), a in known.items()
        }
        assert claims.pens_above_random(cells).word == claims.not_with_most(cells).word == "holds"
        assert "1000" not in claims.pens_above_random(cells).why

    @pytest.mark.parametrize(("gap", "word"), [(0.02, "holds"), (0.04, "fails")])
    def test_near_oracle_within_three_points_and_precise(self, gap, word):
        pens = {s: made(0.1, 0.5 - gap, precision=0.9, recall=0.6 + s / 100) for s in range(3)}
        cells = {"common-50/pens": pens, "common-50/oracle": {s: made(0.1, 0.5) for s in range(3)}}
        assert claims.pens_near_oracle(cells).word == word
        assert claims.precise(cells).word == "holds"
        assert all(claim.check({}).word == "undecided" for claim in claims.CLAIMS)


CELLS = ("common-8/pens", "common-8/random", "common-8/local")


def run_all(out, *more):
    words = ["--scale", "tiny", "--cells", ",".join(CELLS), "--seeds", "1", "--out", str(out)]
    assert reproduce(["karlsson-2021", *words, *more]) == 0


@pytest.fixture(scope="class")
def whole(tmp_path_factory):
    """Three rounds of one epoch, of which two are PENS's step 1, from the shell."""
    out = tmp_path_factory.mktemp("karlsson")
    short = dataclasses.replace(k.SETTINGS["tiny"], rounds=3, step1=2, epochs=1, passes=0, evaluate=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(k.SETTINGS, "tiny", short)
        run_all(out, "--preset", "both")
        yield out


@pytest.mark.usefixtures("whole")
class TestTinyRuns:
    def test_a_page_and_figures(self, whole):
        page = (whole / "results.md").read_text()
        assert "### Figure 4.3: 8 clients, common initialisation" in page
        assert "| PENS is above random" in page
        assert {p.name for p in (whole / "figures").iterdir()} == {
            f"figure-4-{i}-{preset}-tiny.svg" for i in (2, 3) for preset in ("text", "as-run")
        }

    def test_stopped_in_time_it_goes_on_to_the_same(self, whole, tmp_path):
        with pytest.raises(Exception, match="no scored round"):
            run_all(tmp_path, "--minutes", "1e-9")  # stops after round 0, with nothing to show
        run_all(tmp_path, "--figures", "none")
        for cell in CELLS:
            path = place(tmp_path, "text", "tiny", cell, 0).relative_to(tmp_path) / "metrics.jsonl"
            assert (tmp_path / path).read_bytes() == (whole / path).read_bytes()

    def test_what_the_page_says_comes_from_the_runs(self, whole):
        asked = Asked(("text",), "tiny", CELLS, 1, whole)
        cells = report.REPORT.read(asked, k.PAPER)["text"]
        run, record = cells[CELLS[0]][0], read_record(place(whole, "text", "tiny", CELLS[0], 0))
        assert run.accuracy[3] == pytest.approx(np.mean(record.final("accuracy")))
        # two rounds of 10 samplings of 3 and one pick, then neighbours; sent by one, received by another
        last = (record.weights[3] > 0).sum() - 8
        assert run.cost == pytest.approx(2 * (2 * (10 * 3 + 1) + last / 8))
        assert cells["common-8/random"][0].cost == 2 * 3 * 3
        assert cells["common-8/local"][0].cost == 0
        history = record.matrices["history"][2]
        circle = history > history.sum(axis=1, keepdims=True) / 7
        kin = np.equal.outer(np.arange(8) // 4, np.arange(8) // 4) & ~np.eye(8, dtype=bool)
        found = [(c & own).sum() / c.sum() for c, own in zip(circle, kin, strict=True) if c.any()]
        assert run.precision == pytest.approx(np.mean(found))
        assert run.recall == pytest.approx(((circle & kin).sum(axis=1) / 3).mean())
        collected = sum((w > 0) & ~np.eye(8, dtype=bool) for w in record.weights.values())
        np.testing.assert_array_equal(run.collected, collected)

    def test_a_run_without_a_round_is_left_out(self, tmp_path):
        def stop(share, said):
            raise KeyboardInterrupt

        asked = Asked(("text",), "tiny", (CELLS[0], CELLS[2]), 1, tmp_path)
        pens, local = k.PAPER.jobs(asked)
        with pytest.raises(KeyboardInterrupt):
            pens.run(stop)
        local.run(lambda share, said: None)
        assert set(report.REPORT.read(asked, k.PAPER)["text"]) == {CELLS[2]}
