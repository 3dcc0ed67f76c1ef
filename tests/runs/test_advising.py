"""Advice: trials never see what they must not, a question goes on where it was cut off, and all ways to ask
give the same answers.
"""

from __future__ import annotations

import functools
import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import coterie
from coterie.cli.main import main
from coterie.core.client import Samples
from coterie.core.errors import Diverged
from coterie.core.seeds import Key
from coterie.features.advice.answers import Gift
from coterie.features.advice.question import Question, advise, bench_of, read_question
from coterie.features.advice.report import render_advice
from coterie.features.advice.sentences import cells, cost_of_asking, legend, sentences
from coterie.features.trials import bench as trying
from coterie.features.trials.gains import interval_over_folds
from coterie.features.trials.measure import Outcome
from coterie.metrics.summary import Interval
from coterie.runs.builder import Builder
from coterie.runs.loop import run
from coterie.runs.settings import Settings
from coterie.show.words import Words, say, speaking, texts
from coterie.sites.folds import folds_of

CANDIDATES = ("fedavg", "finetune:tune=1")
WORDS = ["advise", "--data", "titanic", "--rounds", "3", "--candidates", *CANDIDATES, "--folds", "3"]
WORDS += ["--inner", "2", "--sgd.lr", "0.5", "--engine", "loop"]


def question(**more) -> Question:
    asked = {"candidates": CANDIDATES, "folds": 3, **more}
    options = {"sgd": {"lr": 0.5}, "advised": asked}
    return Question(Settings(data="titanic", method="advised", rounds=3, engine="loop", options=options), 2)


def shifted(clients):
    """The same clients with other test rows."""
    return [replace(c, test=Samples(c.test.x + 100, 1 - c.test.y)) for c in clients]


def made(rows=50):
    draws, found = np.random.default_rng(3), []
    for name in ("a", "b", "c"):
        x = draws.normal(size=(rows, 4))
        y = (x[:, 0] + 0.5 * draws.normal(size=rows) > 0).astype(int)
        found.append(coterie.Client.from_arrays(x, y, name=name))
    return found


def test_test_rows_change_nothing():
    clients, asked = made(), {"candidates": CANDIDATES, "folds": 3, "inner": 2, "rounds": 3, "lr": 0.5}
    one, other = (coterie.advise("logistic", c, **asked) for c in (clients, shifted(clients)))
    told = [replace(a, seconds=0.0) for a in one.advice.answers]
    assert told == [replace(a, seconds=0.0) for a in other.advice.answers]
    assert repr(one).count("\n") == 2


def test_inner_folds_lie_within_what_an_outer_one_leaves():
    bench, _ = bench_of(question(), Builder())
    key = Key(0)
    for client, whole in enumerate(bench.setup.clients):
        seen = torch.cat([fold.clients[client].test.x for fold in bench.outer])
        assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, whole.train.x.tolist()))
        for outer, fold in enumerate(bench.outer):
            left = fold.clients[client]
            assert len(left.train) + len(left.test) == len(whole.train)
            for inner in bench.within(outer):
                inside = inner.clients[client]
                rows = torch.cat([inside.train.x, inside.test.x])
                assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, left.train.x.tolist()))
    again = folds_of(bench.setup, 3, key)
    assert all(
        torch.equal(a.clients[0].test.x, b.clients[0].test.x) for a, b in zip(bench.outer, again, strict=True)
    )


def test_a_question_goes_on_where_it_was_cut_off(tmp_path):
    """As after a kill: some trials are there, one only as a draft."""
    whole = advise(question(folds=2), tmp_path / "whole", jobs=2)
    parts = advise(question(folds=2), tmp_path / "parts")
    files = sorted((tmp_path / "parts" / "trials").rglob("*.json"))
    assert len(files) == len(sorted((tmp_path / "whole" / "trials").rglob("*.json"))) == 3 * (2 + 4) + 2 + 2
    for file in files[::2]:
        file.unlink()
    (tmp_path / "parts" / "advice.json").unlink()
    again = advise(read_question(tmp_path / "parts"), tmp_path / "parts")
    for advice in (parts, again):
        assert [replace(a, seconds=0) for a in advice.answers] == [
            replace(a, seconds=0) for a in whole.answers
        ]
    assert json.loads((tmp_path / "parts" / "advice.json").read_text())["choice"] == list(whole.choice)


def test_the_command_answers_and_its_run_follows(tmp_path, capsys):
    assert main([*WORDS, "--requester", "age 36+", "--measure", "auc", "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    assert "age 36+" in said
    assert "You would give" in said
    assert "\nage 0-20\n" not in said  # who did not ask has no answer
    page = (tmp_path / "a" / "report.html").read_text()
    assert "What is given away" in page
    assert main(["resume", str(tmp_path / "a")]) == 0
    assert main(["run", "--config", str(tmp_path / "a" / "follow.toml"), "--out", str(tmp_path / "run")]) == 0
    config = (tmp_path / "run" / "config.toml").read_text()
    assert "choice = [" in config


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requester", "nobody"], "nobody"),
        (["--inner", "1"], "inner=1"),
        (["--measure", "f1"], "is none of these"),
        (["--measure", "rmse"], "rmse"),
        (["--candidates", "central"], "moves rows"),
        (["--advised.folds", "9"], "give --folds"),
        (["--folds", "500"], "folds=500"),
        (["--jobs", "99"], "jobs=99"),
    ],
)
def test_mistakes_get_a_line_and_leave_nothing(tmp_path, capsys, words, said):
    assert main([*WORDS, *words, "--out", str(tmp_path / "a")]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert not (tmp_path / "a").exists()


def test_names_are_escaped_and_each_client_has_its_words(tmp_path):
    clients = [replace(c, name=f"<b>{c.name}") for c in made()]
    asked = coterie.advise("logistic", clients, candidates=CANDIDATES, folds=2, inner=0, rounds=2)
    page = render_advice(asked.advice)
    assert "<b>a" not in page
    assert "&lt;b&gt;a" in page
    assert sentences(asked.advice).keys() == {"<b>a", "<b>b", "<b>c"}
    assert all(a.expected is None for a in asked.answers.values())
    table = asked.table()
    assert set(table["way"]) == set(CANDIDATES)
    assert asked.report(tmp_path / "page.html").exists()


def rare(rows=60):
    """One row in twenty is ill, whatever its columns."""
    draws, found = np.random.default_rng(4), []
    for name in ("a", "b", "c"):
        y = (np.arange(rows) % 20 == 3).astype(int)
        found.append(coterie.Client.from_arrays(draws.normal(size=(rows, 4)), y, name=name))
    return found


def test_a_rare_outcome_from_python_and_as_a_method():
    asked = {"candidates": ("fedavg",), "folds": 2, "rounds": 2}
    found = coterie.advise("logistic", rare(), inner=2, **asked)
    assert found.advice.metric == "nll"
    assert json.loads(json.dumps(found.advice.table()))["measured"] == found.advice.measured != ""
    for client in "abc":
        said = " ".join(found.words(client))
        assert "by always saying so, so ways are compared by log loss (NLL)" in said
        assert "always saying the shares of the classes 0.1" in said
        assert "quite" not in said
    given = coterie.advise("logistic", rare(), inner=0, measure="accuracy", **asked)
    assert given.advice.metric == "accuracy"
    assert "can hardly tell ways apart" in " ".join(given.words("a"))
    trained = coterie.train("logistic", rare(), "advised", **asked)
    assert any("compared by log loss" in note for note in trained.record.about["notes"])


def test_trials_that_were_kept_for_another_measure_are_made_again(tmp_path):
    path = tmp_path / "a"
    first = advise(question(folds=2), path)
    for file in (path / "trials").rglob("*.json"):
        trial = json.loads(file.read_text())
        trial["scores"].pop("accuracy")
        trial["scores"]["other"] = [0.0] * 4
        file.write_text(json.dumps(trial))
    again = advise(read_question(path), path)
    assert [replace(a, seconds=0) for a in again.answers] == [replace(a, seconds=0) for a in first.answers]


def test_targets_that_nothing_can_be_learnt_of_send_nobody_to_others():
    """Six sites whose targets are drawn by chance, with inner folds and as a method, which has none."""
    draws, clients = np.random.default_rng(1), []
    for i in range(6):
        x, y = draws.normal(size=(40, 5)), draws.permutation(np.arange(40) % 2)
        clients.append(coterie.Client.from_arrays(x, y, name=f"s{i}"))
    asked = {"candidates": CANDIDATES, "folds": 4, "rounds": 3, "lr": 0.5}
    found = coterie.advise("logistic", clients, inner=2, **asked)
    assert set(found.choice) == {"local"}
    looked = [a for a in found.answers.values() if a.best != "local"]
    assert looked  # by chance: what used to send them to others
    for answer in looked:
        first, said = found.words(answer.client)[:2]
        assert first.startswith("Is there anything to learn here? No: no model beats")
        assert said.startswith("Neither others nor a model of your own for now")
    assert set(coterie.advise("logistic", clients, inner=0, **asked).choice) == {"local"}


def test_many_small_sites_that_are_alike_are_told_to_join():
    """Each has as many columns as rows to train on, all have the same plane between classes."""
    draws, clients = np.random.default_rng(2), []
    plane = draws.normal(size=80)
    for i in range(10):
        x = draws.normal(size=(120, 80))
        clients.append(coterie.Client.from_arrays(x, (x @ plane > 0).astype(int), name=f"s{i}"))
    asked = {"candidates": ("fedavg",), "folds": 4, "rounds": 10, "lr": 0.5}
    for inner in (2, 0):
        choice = coterie.advise("logistic", clients, inner=inner, **asked).choice
        assert sum(way == "fedavg" for way in choice) >= 7, choice


def test_an_interval_over_folds_by_hand():
    """Of 0.1, 0, 0.3: t with 2 degrees of freedom is 4.3027, the error sqrt(5/6 · 0.07/3)."""
    found = interval_over_folds(np.array([0.1, 0.0, np.nan, 0.3]))
    assert found.mean == pytest.approx(0.4 / 3)
    assert found.half == pytest.approx(4.302653 * (5 / 6 * 0.07 / 3) ** 0.5, rel=1e-5)


def test_a_candidate_that_diverges_is_left_behind_and_said(monkeypatch):
    def diverges(experiment, folder, label):
        if label == "fedavg":
            raise Diverged("the loss is not finite: lower the learning rate")
        return run(experiment, folder, label)

    monkeypatch.setattr(trying, "run", diverges)
    found = coterie.advise("logistic", made(), candidates=CANDIDATES, folds=2, inner=0, rounds=2)
    assert found.advice.failed.keys() == {"fedavg"}
    assert all(np.isnan(a.gains["fedavg"].mean) for a in found.answers.values())
    assert "fedavg" not in found.choice
    assert "lower the learning rate" in render_advice(found.advice)


def test_who_is_away_in_the_end_has_no_figure_and_not_that_of_an_untrained_model():
    asked = {"candidates": ("fedavg",), "folds": 2, "inner": 0, "rounds": 2, "lr": 0.5}
    found = coterie.advise("logistic", made(), wrap=["absent=1.0"], **asked)
    for answer in found.answers.values():
        assert answer.choice == "local"
        assert np.isnan(answer.gains["fedavg"].mean)
        assert np.isnan(answer.level["local"])
        assert found.words(answer.client)[0].startswith("Is there anything to learn here? Not known")
        assert "could be measured" in found.words(answer.client)[1]


@functools.cache
def answers_of_all_kinds():
    """Advice in which others are better, worse, better by chance, or cannot be measured at all."""
    asked = {"candidates": ("fedavg", "ndoye"), "folds": 2, "inner": 2, "rounds": 2}
    advice = coterie.advise("logistic", rare(), **asked).advice
    first, sure = advice.answers[0], Interval(0.1, 0.05, 2, 0.05, 0.15)
    gains, worse, none = (
        dict.fromkeys(first.gains, g)
        for g in (sure, sure._replace(mean=-0.1, low=-0.15, high=-0.05), Interval(np.nan, np.nan, 0))
    )
    gifts = (*(Gift("a", to, 2, 1000, 3) for to in ("coordinator", "b")), Gift("b", "a", 2, 1000, 0))
    more = {"learnt": first.learnt._replace(verdict="yes"), "trees": sure._replace(mean=0.5), "epsilon": 2.0}
    base = replace(first, **more, without=1, gifts=gifts, client="a", choice="local", best="local")
    held = replace(base, best="fedavg", gains=gains, no_model=0.5)
    joined = replace(held, choice="fedavg", partners=dict.fromkeys("bcdefghi", 0.1))
    trust = {"ece": (0.1, 0.2), "auc": (0.5, 0.6)}
    kinds = [
        replace(first, client="a"),
        replace(base, gains=worse),
        replace(held, expected=None, level={"local": 0.3, "fedavg": 0.1, "ndoye": 0.9}),
        replace(held, level={"local": 0.3, "fedavg": 0.9, "ndoye": 0.9}),
        replace(base, gains=none),
        replace(base, repeats={}, outcome=Outcome("well", "other than well", 2, 60)),
        replace(joined, expected=sure, repeats={"fedavg": 2}, trust=trust),
        replace(joined, expected=None, partners={}, repeats={"local": 2, "fedavg": 1}),
        replace(joined, expected=sure._replace(mean=0.0), repeats={"fedavg": 1, "ndoye": 1}),
    ]
    return [replace(advice, answers=(answer,)) for answer in kinds]


@pytest.mark.parametrize("language", ["fr", "de"])
def test_advice_is_told_in_the_language_asked_for(language):
    """No piece of an English text, of three words or more, is left on the screen or in the report."""
    own = [words["en"] for key, words in texts().items() if key.startswith(("advise.", "trials.", "learn"))]
    pieces = {piece.strip(" .,:;()") for text in own for piece in re.split(r"\{\w+\}", text)}
    pieces = {piece for piece in pieces if len(piece.split()) > 2}
    met = set()
    for advice in answers_of_all_kinds():
        (lines,) = sentences(advice).values()
        met |= {piece for piece in pieces if piece in "\n".join(lines)}
        with speaking(language):
            header, rows = cells(advice)
            told = [*lines, *header, *rows[0], legend(advice), cost_of_asking(advice)]
            shown, page = "\n".join(map(say.again, told)), render_advice(advice, Path("folder"))
        assert f'<html lang="{language}">' in page
        assert f"<title>{Words(language)('advise.title')}</title>" in page
        page = re.sub(r"<[^>]*>", "", re.sub(r"(?s)<(script|style|dl).*?</\1>", "", page))
        assert not {piece for piece in pieces if piece in shown or piece in html.unescape(page)}
        for word in ("training rows", "numbers (", "alone", "advised", "coordinator "):
            assert word not in shown
    assert len(met) > 40


def test_what_the_trials_moved_is_that_of_all_of_them():
    """FedAvg among three: six models a round, two rounds, on two outer folds and two inner ones of each."""
    asked = {"candidates": ("fedavg",), "folds": 2, "rounds": 2}
    for inner, trials in ((0, 2), (2, 2 + 4)):
        spent = coterie.advise("logistic", made(), inner=inner, **asked).advice.spent
        assert spent["runs"] == 2 * trials + 2  # always the same answer, on the outer folds
        assert spent["models"] == trials * 6 * 2
