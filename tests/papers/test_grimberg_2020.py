"""grimberg-2020: its as-run parts by hand, its protocol on the real passengers, and a whole small run."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.errors import BadData, BadInput
from coterie.core.seeds import Key
from coterie.data.partition import AgeStrict
from coterie.data.sources.heart_disease import HeartDisease
from coterie.kernels import SGD
from coterie.methods import FedAvg, Local, WeightErosion
from coterie.papers.base import Asked, run_jobs
from coterie.papers.grimberg_2020 import paper as g
from coterie.papers.grimberg_2020.as_run import wrong_average
from coterie.papers.grimberg_2020.claims import CLAIMS, Results, read
from coterie.papers.grimberg_2020.report import accuracy_rows, one_row_decides


class TestAsRun:
    def test_four_updates_of_ones_average_to_205(self):
        # 1, then 9 + 1 = 10, 90 + 1 = 91, 819 + 1 = 820; a bias of two: 1, 3, 7, 15; both over 4
        assert torch.equal(wrong_average(torch.ones(4, 2, 9)), torch.full((2, 9), 205.0))
        assert torch.equal(wrong_average(torch.ones(4, 2)), torch.full((2,), 3.75))

    def test_the_wrong_average_of_two_by_hand(self):
        # [1, 2] adds up to 3; 3 + [10, 20] = [13, 23]; over 2
        updates = torch.tensor([[[1.0, 2.0]], [[10.0, 20.0]]])
        assert wrong_average(updates).tolist() == [[6.5, 11.5]]

    def test_a_round_of_global_adds_the_wrong_average(self, client_of, net_of):
        # one step at rate 0.25 takes the weights from 0 by 0.5 y x: [4, 0] for y = 8 and [2, 4] for y = 4
        module = nn.Linear(2, 1, bias=False)
        clients = [
            client_of(torch.tensor([[1.0, 0.0]]), torch.tensor([8.0]), name="a"),
            client_of(torch.tensor([[1.0, 2.0]]), torch.tensor([4.0]), name="b"),
        ]
        method = g.WrongAxis(SGD(lr=0.25, batch=100))
        state = method.init({"weight": torch.zeros(1, 1, 2)}, 2)
        state, info = method.round(state, net_of(module, clients), Key(0).at_round(1, 1))
        # (4 + [2, 4]) / 2
        assert state.beliefs["weight"].tolist() == [[[3.0, 4.0]]]
        assert info.weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]

    def test_completed_epochs_count_a_short_batch_as_a_round(self):
        # 248 rows are two batches of 161, 476 are three, 100 are one
        way = g.CompletedEpochs(SGD(steps=1, batch=161))
        sizes = torch.tensor([248, 476, 100])
        found = [way.passes(torch.full((3,), r), sizes).tolist() for r in range(5)]
        assert found == [[0, 0, 0], [0, 0, 1], [1, 0, 2], [1, 1, 3], [2, 1, 4]]

    def test_the_text_counts_samples(self):
        # 3 · 161 = 483 rows are one pass over 248 and over 476
        way = WeightErosion(SGD(steps=1, batch=161), p_s=0.2)
        assert way.passes(torch.tensor([3, 3]), torch.tensor([248, 476])).tolist() == [1, 1]

    def test_a_single_row_has_as_much_say_as_a_whole_batch(self):
        right = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
        assert g.by_batches(right, 3) == pytest.approx((2 / 3 + 1) / 2)
        assert g.by_batches(right, 4) == g.by_batches(right, 100) == 0.75

    def test_its_test_set_has_one_row_more_than_half(self):
        rows = np.arange(100, 110)
        held, kept = g.halves(np.zeros(110), rows, "as-run", np.random.default_rng(0))
        assert len(held) == 6
        assert sorted([*held, *kept]) == rows.tolist()

    def test_the_text_halves_each_class(self):
        y, rows = np.array([0] * 8 + [1] * 4), np.arange(12)
        held, kept = g.halves(y, rows, "text", np.random.default_rng(0))
        assert np.bincount(y[held]).tolist() == np.bincount(y[kept]).tolist() == [4, 2]


def test_half_the_rate_and_twice_the_decay_are_the_papers_loss(client_of, net_of):
    """θ - 3 ∇(mean over all N x 2 entries of -onehot · log p, plus 1e-3 / 2 |θ|²)."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 5, generator=generator).double(), torch.randint(2, (20,), generator=generator)
    module = nn.Linear(5, 2).double()
    entries = nn.functional.one_hot(y, 2) * nn.functional.log_softmax(module(x), dim=1)
    squares = sum(p.square().sum() for p in module.parameters())
    loss = -entries.mean() + 1e-3 / 2 * squares
    slopes = torch.autograd.grad(loss, [*module.parameters()])
    wanted = [p - 3.0 * d for p, d in zip(module.parameters(), slopes, strict=True)]
    method = Local(SGD(lr=g.RATE, batch=100, weight_decay=g.DECAY))
    state = method.init(stack([belief_of(module)]), 1)
    state, _ = method.round(state, net_of(module, [client_of(x, y)]), Key(0).at_round(1, 1))
    for name, by_hand in zip(("weight", "bias"), wanted, strict=True):
        assert torch.allclose(state.beliefs[name][0], by_hand, atol=1e-12)


class TestProtocol:
    def clients(self, preset, user):
        data = g.loaded("titanic", preset)
        deal = AgeStrict().deal(data, data.train, None, Key(0).at("data"))
        return g.agents(data, deal, user, preset, Key(0).at("data"))

    def test_the_user_halves_its_rows_and_the_others_train_on_all(self):
        found = self.clients("as-run", 2)
        assert [c.name for c in found] == ["age 0-20", "age 21-35", "age 36+", "age unknown"]
        assert [(len(c.train), len(c.test)) for c in found] == [(248, 0), (476, 0), (160, 162), (263, 0)]
        assert [(len(c.train), len(c.test)) for c in self.clients("text", 2)][2] == (161, 161)

    def test_only_as_run_gives_unknown_ages_a_share_of_minority(self):
        minor = g.loaded("titanic", "text").features.index("minor")
        assert set(self.clients("text", 0)[3].train.x[:, minor].tolist()) == {0.0}
        assert set(self.clients("as-run", 0)[3].train.x[:, minor].tolist()) == {np.float32(263 / 1309)}

    def test_fair_baselines_in_the_text_and_the_programs_own_as_run(self):
        text = {m: g.method_of(m, "text", 161, "u") for m in g.METHODS}
        as_run = {m: g.method_of(m, "as-run", 161, "u") for m in g.METHODS}
        assert {type(m) for m in text.values()} == {FedAvg, WeightErosion, Local}
        assert {m.local.lr for m in text.values()} == {1.5}
        assert all(m.local.shuffle for m in text.values())
        assert {type(m) for m in as_run.values()} == {g.WrongAxis, g.CompletedEpochs, Local}
        assert [as_run[m].local.lr for m in g.METHODS] == [0.035, 1.5, 1.5]
        assert not any(m.local.shuffle for m in as_run.values())

    def test_without_the_hospitals_the_rest_runs_and_says_so(self, monkeypatch):
        def fetch(self):
            raise BadData("no network")

        monkeypatch.setattr(HeartDisease, "fetch", fetch)
        cells, notes = g.PAPER.usual("full")
        assert len(cells) == 8
        assert notes == ("the four hospitals are left out: no network",)


@pytest.fixture
def three_rounds(monkeypatch):
    monkeypatch.setattr(g, "ROUNDS", 3)


def asked(out, cells=("age-strict/2",), seeds=2, presets=("as-run",), figures="none"):
    return Asked(presets, "full", cells, seeds, out, figures)


def quietly(done, said):
    pass


class TestRuns:
    def test_a_cell_is_done_once(self, three_rounds, tmp_path):
        assert run_jobs(g.PAPER.jobs(asked(tmp_path)), quietly) == 1
        assert run_jobs(g.PAPER.jobs(asked(tmp_path)), quietly) == 0
        found = g.kept(tmp_path, "as-run", "age-strict", "2")
        assert [(t.method, t.seed) for t in found] == [(m, s) for m in sorted(g.METHODS) for s in (0, 1)]
        assert all(len(t.accuracy) == len(t.by_batches) == 4 for t in found)
        assert np.array(found[-1].alpha).shape == (3, 4)
        assert all(t.alpha is None for t in found if t.method != "weight-erosion")

    def test_more_seeds_add_to_those_that_are_there(self, three_rounds, tmp_path):
        run_jobs(g.PAPER.jobs(asked(tmp_path, seeds=1)), quietly)
        (job,) = g.PAPER.jobs(asked(tmp_path, seeds=2))
        assert job.cost == 3
        run_jobs([job], quietly)
        together = g.kept(tmp_path, "as-run", "age-strict", "2")
        run_jobs(g.PAPER.jobs(asked(tmp_path / "at once")), quietly)
        assert together == g.kept(tmp_path / "at once", "as-run", "age-strict", "2")

    def test_a_kill_in_the_middle_of_a_line_loses_that_run_only(self, three_rounds, tmp_path):
        run_jobs(g.PAPER.jobs(asked(tmp_path)), quietly)
        path = g.place(tmp_path, "as-run", "age-strict", "2")
        whole = path.read_text()
        path.write_text(whole[: whole.rindex("accuracy")])
        (job,) = g.PAPER.jobs(asked(tmp_path))
        assert job.cost == 1
        run_jobs([job], quietly)
        assert path.read_text() == whole

    def test_runs_of_other_settings_do_not_count(self, three_rounds, tmp_path, monkeypatch):
        run_jobs(g.PAPER.jobs(asked(tmp_path, seeds=1)), quietly)
        monkeypatch.setattr(g, "P_D", 0.02)
        assert g.kept(tmp_path, "as-run", "age-strict", "2") == []
        assert not g.PAPER.jobs(asked(tmp_path, seeds=1))[0].finished

    def test_hospitals_are_no_matter_of_as_run(self, tmp_path):
        both = asked(tmp_path, cells=("heart/va",), presets=("text", "as-run"))
        assert [job.label for job in g.PAPER.jobs(both)] == ["text heart/va"]

    def test_hospitals_alone_as_run_are_refused(self, tmp_path, refused):
        said = "the four hospitals, which the paper does not have, go with preset text only"
        with refused(BadInput, said):
            g.PAPER.jobs(asked(tmp_path, cells=("heart/va",)))

    def test_tables_claims_and_figures(self, three_rounds, tmp_path):
        wanted = asked(
            tmp_path, cells=("age-strict/0", "age-some/1"), presets=("text", "as-run"), figures="svg"
        )
        run_jobs(g.PAPER.jobs(wanted), quietly)
        written = {p.name for p in g.PAPER.write(wanted)}
        assert written == {"results.md", "results.csv"} | {
            f"figure-{n}-{preset}.svg" for n in (6, 7, 9) for preset in ("text", "as-run")
        }
        page = (tmp_path / "results.md").read_text()
        assert "| age-strict/0 (age 0-20) |" in page
        assert (
            "coterie reproduce grimberg-2020 --cells age-strict/0,age-some/1 --preset as-run --seeds 2"
            in page
        )
        assert page.count("\n| AGE_STRICT:") + page.count("\n| AGE_SOME:") + 1 == len(CLAIMS)
        assert str(tmp_path) not in page


def made(method, final, *, seed=0, alpha=None, batched=None, weights=None):
    """A run as if it had been computed."""
    return g.Trace(
        method=method,
        seed=seed,
        accuracy=[0.5, final],
        by_batches=[0.5, final if batched is None else batched],
        weights=weights or [[0.0] * 10, [0.0] * 10],
        always=0.6,
        names=["a", "b", "c", "d"],
        features=["male", "age", "fare", "minor", "alone", "port C", "port Q", "class 1", "class 2", "bias"],
        alpha=alpha,
    )


def claim(text):
    (found,) = [c for c in CLAIMS if c.text.startswith(text)]
    return found.check


class TestClaims:
    def test_better_than_global_for_every_user(self):
        # 2, 2.1 and 1.9 points for each of four users
        runs = {}
        for user in range(4):
            runs["age-strict", user, "weight-erosion"] = {s: made("", 0.80, seed=s) for s in range(3)}
            runs["age-strict", user, "global"] = {
                s: made("", 0.78 + d, seed=s) for s, d in enumerate((0, -0.001, 0.001))
            }
        better = claim("AGE_STRICT: Weight Erosion is better than Global")
        assert better(Results("text", runs)) == (
            "holds", "0 +2.0 ± 0.2; 1 +2.0 ± 0.2; 2 +2.0 ± 0.2; 3 +2.0 ± 0.2",
        )  # fmt: skip
        runs["age-strict", 3, "global"] = {s: made("", 0.9 + s / 1000, seed=s) for s in range(3)}
        assert better(Results("text", runs)).word == "fails"
        del runs["age-strict", 3, "global"]
        assert better(Results("text", runs)).word == "undecided"

    def test_each_preset_has_its_own_measure(self):
        runs = {
            ("age-strict", 2, m): {
                s: made(m, 0.80 + s / 1000, seed=s, batched=0.95 + s / 1000) for s in range(3)
            }
            for m in ("weight-erosion", "local")
        }
        exceptional = claim("AGE_STRICT: agent 2 is right")
        assert exceptional(Results("as-run", runs)).word == "holds"
        assert exceptional(Results("text", runs)).word == "fails"

    def test_weights_are_means_over_rounds(self):
        # agent 1: 0.9 and 0.7, a mean of 0.8; the next, agent 3, has 0.6
        alpha = [[1.0, 0.9, 0.5, 0.7], [1.0, 0.7, 0.3, 0.5]]
        runs = {("age-some", 0, "weight-erosion"): {s: made("", 0.8, seed=s, alpha=alpha) for s in range(2)}}
        runs["age-some", 1, "weight-erosion"] = {
            s: made("", 0.8, seed=s, alpha=[[0.4, 1.0, 0.5, 0.7]]) for s in range(2)
        }
        found = claim("AGE_SOME: agents 0 and 1")(Results("text", runs))
        assert found == ("fails", "user 0 +0.20 ± 0.00; user 1 -0.30 ± 0.00")

    def test_features_count_in_log_odds(self):
        # alone is the fifth: second output less first, -0.5 - 0.25
        first, second = [0.0] * 10, [0.0] * 10
        first[4], second[4] = 0.25, -0.5
        runs = {
            ("age-strict", 0, m): {s: made(m, 0.8, seed=s, weights=[first, second]) for s in range(2)}
            for m in ("weight-erosion", "local")
        }
        found = claim("AGE_STRICT: for agent 0, travelling alone")(Results("text", runs))
        assert found == ("holds", "Weight Erosion +0.75 ± 0.00; Local +0.75 ± 0.00")

    def test_without_runs_nothing_is_decided(self):
        for each in CLAIMS:
            assert each.check(Results("text", {})).word == "undecided"

    def test_one_seed_decides_nothing(self, three_rounds, tmp_path):
        cells = tuple(f"age-strict/{u}" for u in range(4))
        run_jobs(g.PAPER.jobs(asked(tmp_path, cells=cells, seeds=1)), quietly)
        for each in CLAIMS:
            assert each.check(read(tmp_path)["as-run"]).word == "undecided"


def test_a_line_of_the_table_by_hand():
    runs = {
        ("age-strict", 1, "global"): {0: made("global", 0.70)},
        ("age-strict", 1, "weight-erosion"): {0: made("weight-erosion", 0.75)},
        ("age-strict", 1, "local"): {0: made("local", 0.76)},
    }
    assert accuracy_rows(Results("text", runs), "age-strict") == [
        ["age-strict/1 (b)", "60.0", "70.0", "75.0", "76.0", "5.0", "-1.0"]
    ]


def test_why_agent_2_is_exceptional_is_told_with_its_numbers():
    runs = {0: made("local", 0.8, seed=0, batched=0.9), 1: made("local", 0.8, seed=1, batched=0.4)}
    said = one_row_decides(Results("as-run", {("age-strict", 2, "local"): runs}))
    assert "(1 of 2 seeds) its accuracy by batches is 90.0 %, else 40.0 %" in said
    assert one_row_decides(Results("as-run", {})) == ""


def test_a_line_holds_what_it_says(three_rounds, tmp_path):
    run_jobs(g.PAPER.jobs(asked(tmp_path, seeds=1)), quietly)
    lines = g.place(tmp_path, "as-run", "age-strict", "2").read_text().splitlines()
    first = json.loads(lines[0])
    assert first["method"] == "global"
    assert set(first["origin"]) == {"coterie", "commit", "versions"}
