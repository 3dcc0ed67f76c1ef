"""grimberg-2020: what the program did otherwise by hand, the protocol, short runs and verdicts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from coterie.api.play import rounds
from coterie.core.errors import BadData, BadInput
from coterie.core.seeds import Key
from coterie.data.partition import AgeStrict
from coterie.data.sources.heart_disease import HeartDisease
from coterie.kernels import SGD
from coterie.methods import FedAvg, Local, WeightErosion
from coterie.studies import grimberg_2020 as g
from coterie.studies.base import Asked, run_jobs
from coterie.studies.grimberg_2020 import wrong_average
from coterie.studies.grimberg_2020.report import CLAIMS, REPORT, Results, accuracy_rows, one_row_decides


class TestAsRun:
    def test_the_wrong_average(self):
        # 1, then 9 + 1 = 10, 90 + 1 = 91, 819 + 1 = 820; a bias of two: 1, 3, 7, 15; both over 4
        assert torch.equal(wrong_average(torch.ones(4, 2, 9)), torch.full((2, 9), 205.0))
        assert torch.equal(wrong_average(torch.ones(4, 2)), torch.full((2,), 3.75))
        # [1, 2] adds up to 3; 3 + [10, 20] = [13, 23]; over 2
        assert wrong_average(torch.tensor([[[1.0, 2.0]], [[10.0, 20.0]]])).tolist() == [[6.5, 11.5]]

    def test_a_round_of_global_adds_the_wrong_average(self, client_of):
        # one step at rate 0.25 takes the weights from 0 by 0.5 y x: [4, 0] for y = 8 and [2, 4] for y = 4
        module = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(module.weight)
        clients = [
            client_of(torch.tensor([[1.0, 0.0]]), torch.tensor([8.0]), name="a"),
            client_of(torch.tensor([[1.0, 2.0]]), torch.tensor([4.0]), name="b"),
        ]
        _, (_, models, info) = rounds(module, clients, g.WrongAxis(SGD(lr=0.25, batch=100)), rounds=1)
        # (4 + [2, 4]) / 2
        assert models["a"]["weight"].tolist() == models["b"]["weight"].tolist() == [[3.0, 4.0]]
        assert info.weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]

    def test_completed_epochs_count_a_short_batch_as_a_round_and_the_text_samples(self):
        # 248 rows are two batches of 161, 476 are three, 100 are one
        way, sizes = g.CompletedEpochs(SGD(steps=1, batch=161)), torch.tensor([248, 476, 100])
        found = [way.passes(torch.full((3,), r), sizes).tolist() for r in range(5)]
        assert found == [[0, 0, 0], [0, 0, 1], [1, 0, 2], [1, 1, 3], [2, 1, 4]]
        # 3 · 161 = 483 rows are one pass over 248 and over 476
        way = WeightErosion(SGD(steps=1, batch=161), p_s=0.2)
        assert way.passes(torch.tensor([3, 3]), sizes[:2]).tolist() == [1, 1]

    def test_a_single_row_has_as_much_say_as_a_whole_batch(self):
        right = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
        assert g.by_batches(right, 3) == pytest.approx((2 / 3 + 1) / 2)
        assert g.by_batches(right, 4) == g.by_batches(right, 100) == 0.75

    def test_its_test_set_has_one_row_more_than_half_and_the_text_halves_each_class(self):
        rows, y = np.arange(100, 110), np.array([0] * 8 + [1] * 4)
        held, kept = g.halves(np.zeros(110), rows, "as-run", np.random.default_rng(0))
        assert (len(held), sorted([*held, *kept])) == (6, rows.tolist())
        held, kept = g.halves(y, np.arange(12), "text", np.random.default_rng(0))
        assert np.bincount(y[held]).tolist() == np.bincount(y[kept]).tolist() == [4, 2]


def test_half_the_rate_and_twice_the_decay_are_the_papers_loss(client_of):
    """θ - 3 ∇(mean over all N x 2 entries of -onehot · log p, plus 1e-3 / 2 |θ|²)."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 5, generator=generator).double(), torch.randint(2, (20,), generator=generator)
    module = nn.Linear(5, 2).double()
    entries = nn.functional.one_hot(y, 2) * nn.functional.log_softmax(module(x), dim=1)
    loss = -entries.mean() + 1e-3 / 2 * sum(p.square().sum() for p in module.parameters())
    slopes = torch.autograd.grad(loss, [*module.parameters()])
    method = Local(SGD(lr=g.RATE, batch=100, weight_decay=g.DECAY))
    _, (_, models, _) = rounds(module, [client_of(x, y)], method, rounds=1)
    for (name, p), d in zip(module.named_parameters(), slopes, strict=True):
        assert torch.allclose(models["a"][name], p - 3.0 * d, atol=1e-12)


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
        text, as_run = ([g.method_of(m, p, 161, "u") for m in g.METHODS] for p in ("text", "as-run"))
        assert [type(m) for m in text] == [FedAvg, WeightErosion, Local]
        assert [(m.local.lr, m.local.shuffle) for m in text] == [(1.5, True)] * 3
        assert [type(m) for m in as_run] == [g.WrongAxis, g.CompletedEpochs, Local]
        assert [(m.local.lr, m.local.shuffle) for m in as_run] == [(0.035, False), (1.5, False), (1.5, False)]

    def test_without_the_hospitals_the_rest_runs_and_says_so(self, monkeypatch):
        def fetch(self):
            raise BadData("no network")

        monkeypatch.setattr(HeartDisease, "fetch", fetch)
        cells, notes = g.PAPER.usual("full")
        assert len(cells) == 8
        assert notes == ("the four hospitals are left out: no network",)

    def test_hospitals_go_with_the_text_alone(self, tmp_path):
        both = asked(tmp_path, cells=("heart/va",), presets=("text", "as-run"))
        assert [job.label for job in g.PAPER.jobs(both)] == ["text heart/va"]
        with pytest.raises(BadInput, match="go with preset text only"):
            g.PAPER.jobs(asked(tmp_path, cells=("heart/va",)))


def asked(out, cells=("age-strict/2",), seeds=2, presets=("as-run",), figures="none"):
    return Asked(presets, "full", cells, seeds, out, figures)


class TestRuns:
    @pytest.fixture(autouse=True)
    def three_rounds(self, monkeypatch):
        monkeypatch.setattr(g, "ROUNDS", 3)

    def run(self, out, **more):
        return run_jobs(g.PAPER.jobs(asked(out, **more)), lambda done, said: None)

    def test_a_cell_is_done_once_for_its_settings(self, tmp_path, monkeypatch):
        assert [self.run(tmp_path), self.run(tmp_path)] == [1, 0]
        file = g.cell_file(tmp_path, "as-run", "age-strict", "2")
        found = [trace for _, trace in sorted(file.read().items())]
        assert [(t.method, t.seed) for t in found] == [(m, s) for m in sorted(g.METHODS) for s in (0, 1)]
        assert all(len(t.accuracy) == len(t.by_batches) == 4 for t in found)
        assert np.array(found[-1].alpha).shape == (3, 4)
        assert all(t.alpha is None for t in found if t.method != "weight-erosion")
        monkeypatch.setattr(g, "P_D", 0.02)
        assert g.cell_file(tmp_path, "as-run", "age-strict", "2").read() == {}
        assert not g.PAPER.jobs(asked(tmp_path))[0].finished

    def test_more_seeds_add_to_those_that_are_there_and_a_kill_loses_one_run(self, tmp_path):
        self.run(tmp_path, seeds=1)
        assert g.PAPER.jobs(asked(tmp_path))[0].cost == 3
        self.run(tmp_path)
        self.run(tmp_path / "at once")
        path, other = (
            g.cell_file(out, "as-run", "age-strict", "2").path for out in (tmp_path, tmp_path / "at once")
        )
        whole = path.read_text()
        assert whole == other.read_text()
        path.write_text(whole[: whole.rindex("accuracy")])  # in the middle of a line
        assert g.PAPER.jobs(asked(tmp_path))[0].cost == 1
        self.run(tmp_path)
        assert path.read_text() == whole
        first = json.loads(whole.splitlines()[0])
        assert first["method"] == "global"
        assert set(first["origin"]) == {"coterie", "commit", "versions"}

    def test_tables_claims_and_figures(self, tmp_path):
        more = {"cells": ("age-strict/0", "age-some/1"), "presets": ("text", "as-run"), "seeds": 1}
        self.run(tmp_path, **more)
        written = {p.name for p in g.PAPER.write(asked(tmp_path, **more, figures="svg"))}
        assert written == {"results.md", "results.csv"} | {
            f"figure-{n}-{preset}.svg" for n in (6, 7, 9) for preset in ("text", "as-run")
        }
        page = (tmp_path / "results.md").read_text()
        again = "coterie reproduce grimberg-2020 --cells age-strict/0,age-some/1 --preset as-run --seeds 1"
        assert "| age-strict/0 (age 0-20) |" in page
        assert again in page
        assert page.count("\n| AGE_STRICT:") + page.count("\n| AGE_SOME:") + 1 == len(CLAIMS)
        assert str(tmp_path) not in page
        for results in (
            Results("text", {}),
            REPORT.read(asked(tmp_path), g.PAPER)["as-run"],
        ):  # one seed decides nothing
            assert {claim.check(results).word for claim in CLAIMS} == {"undecided"}


def made(final, seed=0, alpha=None, batched=None, weights=None):
    """A run as if it had been computed."""
    return g.Trace(
        method="",
        seed=seed,
        accuracy=[0.5, final],
        by_batches=[0.5, final if batched is None else batched],
        weights=weights or [[0.0] * 10, [0.0] * 10],
        always=0.6,
        names=["a", "b", "c", "d"],
        features=["male", "age", "fare", "minor", "alone", "port C", "port Q", "class 1", "class 2", "bias"],
        alpha=alpha,
    )


def seeds(n, final=0.8, step=0.0, **more):
    return {s: made(final + s * step, s, **more) for s in range(n)}


def verdict(text, runs, preset="text"):
    (found,) = [c for c in CLAIMS if c.text.startswith(text)]
    return found.check(Results(preset, runs))


class TestClaims:
    def test_better_than_global_for_every_user(self):
        # 2, 2.1 and 1.9 points for each of four users
        others = {s: made(0.78 + d, s) for s, d in enumerate((0, -0.001, 0.001))}
        runs = {("age-strict", user, "weight-erosion"): seeds(3) for user in range(4)}
        runs |= {("age-strict", user, "global"): others for user in range(4)}
        better = "AGE_STRICT: Weight Erosion is better than Global"
        # 4.303 √(1/3 + 1) 0.1, for the user tests on as many rows as it trains on
        assert verdict(better, runs) == ("holds", "; ".join(f"{user} +2.0 ± 0.5" for user in range(4)))
        runs["age-strict", 3, "global"] = seeds(3, 0.9, 0.001)
        assert verdict(better, runs).word == "fails"
        del runs["age-strict", 3, "global"]
        assert verdict(better, runs).word == "undecided"

    def test_each_preset_has_its_own_measure(self):
        runs = {("age-strict", 2, m): seeds(3, 0.8, 0.001, batched=0.95) for m in ("weight-erosion", "local")}
        assert verdict("AGE_STRICT: agent 2 is right", runs, "as-run").word == "holds"
        assert verdict("AGE_STRICT: agent 2 is right", runs).word == "fails"

    def test_weights_are_means_over_rounds(self):
        # agent 1: 0.9 and 0.7, a mean of 0.8; the next, agent 3, has 0.6
        alpha = [[1.0, 0.9, 0.5, 0.7], [1.0, 0.7, 0.3, 0.5]]
        runs = {("age-some", 0, "weight-erosion"): seeds(2, alpha=alpha)}
        runs["age-some", 1, "weight-erosion"] = seeds(2, alpha=[[0.4, 1.0, 0.5, 0.7]])
        wanted = ("fails", "user 0 +0.20 ± 0.00; user 1 -0.30 ± 0.00")
        assert verdict("AGE_SOME: agents 0 and 1", runs) == wanted

    def test_features_count_in_log_odds(self):
        # alone is the fifth: second output less first, -0.5 - 0.25
        first, second = [0.0] * 10, [0.0] * 10
        first[4], second[4] = 0.25, -0.5
        runs = {("age-strict", 0, m): seeds(2, weights=[first, second]) for m in ("weight-erosion", "local")}
        found = verdict("AGE_STRICT: for agent 0, travelling alone", runs)
        assert found == ("holds", "Weight Erosion +0.75 ± 0.00; Local +0.75 ± 0.00")


def test_a_line_of_the_table_by_hand():
    known = {"global": 0.70, "weight-erosion": 0.75, "local": 0.76}
    runs = {("age-strict", 1, method): {0: made(final)} for method, final in known.items()}
    assert accuracy_rows(Results("text", runs), "age-strict") == [
        ["age-strict/1 (b)", "60.0", "70.0", "75.0", "76.0", "5.0", "-1.0"]
    ]


def test_why_agent_2_is_exceptional_is_told_with_its_numbers():
    runs = {0: made(0.8, batched=0.9), 1: made(0.8, 1, batched=0.4)}
    said = one_row_decides(Results("as-run", {("age-strict", 2, "local"): runs}))
    assert "(1 of 2 seeds) its accuracy by batches is 90.0 %, else 40.0 %" in said
    assert one_row_decides(Results("as-run", {})) == ""
