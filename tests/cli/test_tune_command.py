"""coterie tune, as one would type it."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.features.tuning.report import tried_plot
from coterie.features.tuning.tuning import Trial, Tuned, Tuning
from coterie.runs.settings import Settings
from coterie.show.inks import inks

DATA = ("--data", "breast-cancer", "--clients", "2", "--engine", "loop")
QUICK = (*DATA, "--rounds", "2", "--trials", "3", "--folds", "2")
SEARCH = ("--search", "sgd.lr=0.01..1.0:log", "finetune.weighted=true|false")
TUNE = ("tune", *QUICK, "--methods", "local", "finetune", "--finetune.tune", "1", *SEARCH)


@pytest.fixture
def done(coterie):
    """Runs a command that must succeed; returns what it printed."""

    def run(*words: str) -> str:
        code, printed, said = coterie(*words)
        assert code == 0, said
        return printed

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a tuning that is over."""
    home = tmp_path_factory.mktemp("tuned")
    with contextlib.chdir(home), contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([*TUNE, "--out", "here"]) == 0
    return home / "here", printed.getvalue()


@pytest.fixture
def here(finished, tmp_path, monkeypatch):
    """The same folder, one's own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished[0], "here")


def trials(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path, "trials.jsonl").read_text().splitlines()]


class Page(HTMLParser):
    """Attributes that could load something, and the JSON beside the figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.data: dict[str, dict] = {}
        self._key: str | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.loads += [given[name] for name in ("src", "href", "action") if given.get(name)]
        self._key = given.get("id") if given.get("type") == "application/json" else None

    def handle_data(self, data):
        if self._key:
            self.data[self._key] = json.loads(data)
            self._key = None


def test_a_tuning(finished, here):
    printed = finished[1]
    assert {p.name for p in Path("here").iterdir()} == {
        ".lock",
        "best",
        "best.toml",
        "report.html",
        "run.json",
        "trials.jsonl",
        "tune.toml",
    }
    made = trials("here")
    assert [(t["method"], t["number"]) for t in made] == [
        (m, i) for m in ("local", "finetune") for i in (1, 2, 3)
    ]
    for method in ("local", "finetune"):
        mine = [t for t in made if t["method"] == method]
        best = max(mine, key=lambda t: t["value"])
        (line,) = [text for text in printed.splitlines() if text.startswith(f"{method} ")]
        assert f"{100 * best['value']:.1f} ±" in line
        assert f"sgd.lr {best['options']['sgd.lr']}" in line
        assert line.split()[-2:] == ["3", "0"]
        assert mine[0]["options"]["sgd.lr"] == 0.1
    assert printed.splitlines()[-3:] == [
        "best: here/best.toml, deal = 0: no seed is tested on rows of a trial",
        "compare: coterie compare --config here/best.toml",
        "report: here/report.html",
    ]


def test_its_files_are_configs_of_run_and_compare(done, here):
    done("run", "--config", "here/best/finetune.toml", "--out", "one")
    done("compare", "--config", "here/best.toml", "--seeds", "1", "--out", "all")
    specs = tomllib.loads(Path("here/best.toml").read_text())["methods"]
    best = {
        m: max((t for t in trials("here") if t["method"] == m), key=lambda t: t["value"])["options"]
        for m in ("local", "finetune")
    }
    assert specs[0] == f"local:sgd.lr={best['local']['sgd.lr']}"
    assert len(specs) == 2
    cells = {p.parent.parent.name: p for p in Path("all").glob("*/seed-0/config.toml")}
    assert len(cells) == 3
    del cells["nothing"]
    for place in cells.values():
        config = tomllib.loads(place.read_text())
        wanted = best[config["method"]]
        assert config["sgd"]["lr"] == wanted["sgd.lr"]
        if config["method"] == "finetune":
            assert config["finetune"] == {
                "tune": 1,
                "weighted": wanted["finetune.weighted"],
                "sample": 1.0,
                "norm": "average",
            }
            for name in ("config.toml", "metrics.jsonl"):
                assert (place.parent / name).read_bytes() == Path("one", name).read_bytes()


def test_the_page_shows_what_was_tried_and_loads_nothing(here):
    text = Path("here/report.html").read_text()
    assert "default-src 'none'" in text
    page = Page(text)
    assert all(value.startswith(("#", "data:")) for value in page.loads)
    lr, weighted = page.data["tried-plot"]["choices"]
    assert (lr["name"], weighted["name"]) == ("sgd.lr", "finetune.weighted")
    assert lr["layout"]["xaxis"]["type"] == "log"
    assert weighted["layout"]["xaxis"]["type"] == "category"
    by_method = {trace["name"]: trace for trace in lr["data"]}
    for method in ("local", "finetune"):
        mine = [t for t in trials("here") if t["method"] == method]
        assert by_method[method]["x"] == [t["options"]["sgd.lr"] for t in mine]
        assert by_method[method]["y"] == pytest.approx([100 * t["value"] for t in mine], rel=1e-3)
        largest = max(range(3), key=lambda i: by_method[method]["marker"]["size"][i])
        assert mine[largest]["value"] == max(t["value"] for t in mine)
    assert [trace["name"] for trace in weighted["data"]] == ["finetune"]
    assert set(weighted["data"][0]["x"]) <= {"true", "false"}
    assert "coterie compare --config here/best.toml" in text
    assert "No trial trained or was scored on test rows" in text


def test_trials_that_fail_are_shown(coterie):
    """Rates at which a network of two layers leaves the finite numbers in its first steps."""
    words = ("tune", *QUICK, "--model", "mlp", "--methods", "local", "--sgd.lr", "1e20")
    code, printed, said = coterie(*words, "--search", "sgd.lr=1e20|2e20", "--trials", "2", "--out", "here")
    assert code == 2
    last = said.splitlines()[-1]
    assert last.startswith("coterie: every trial of local failed, the last with: ")
    assert "lower the learning rate" in last
    assert [t["value"] for t in trials("here")] == [None, None]
    assert not Path("here/best.toml").exists()
    (line,) = [text for text in printed.splitlines() if text.startswith("local ")]
    assert line.split()[-2:] == ["2", "2"]
    page = Page(Path("here/report.html").read_text())
    traces = page.data["tried-plot"]["choices"][0]["data"]
    assert [(t["name"], t["x"]) for t in traces] == [("local", []), ("local, failed", ["1e+20", "2e+20"])]


def test_errors_that_nearly_diverged_do_not_hide_the_others():
    tuning = Tuning(Settings(data="diabetes"), ("local",), ("sgd.lr=0.01..1:log",))
    for metric, values, scale in [
        ("rmse", (50.0, 60.0), "linear"),
        ("rmse", (50.0, 5001.0), "log"),
        ("accuracy", (0.001, 0.9), "linear"),
    ]:
        trials = tuple(Trial("local", i, {"sgd.lr": 0.1}, v, [v, v]) for i, v in enumerate(values))
        (choice,) = tried_plot(Tuned(tuning, metric, {}, trials), inks(["local"]))["choices"]
        assert choice["layout"]["yaxis"]["type"] == scale


def test_ctrl_c_and_going_on(coterie, done, here, monkeypatch):
    def watcher(bar):
        def watch(step):
            if step.done == 14:  # in the fourth of 6 trials of 4 rounds
                raise KeyboardInterrupt

        return watch

    with monkeypatch.context() as patched:
        patched.setattr("coterie.features.tuning.command.watcher", watcher)
        code, _, said = coterie(*TUNE, "--out", "mine")
    assert code == 130
    assert said.splitlines()[-1] == (
        "coterie: stopped; every finished trial is saved: go on with 'coterie resume mine'"
    )
    assert len(trials("mine")) == 3
    assert done("resume", "mine").splitlines()[-1] == "report: mine/report.html"
    for name in ("trials.jsonl", "best.toml", "tune.toml", "best/local.toml"):
        assert Path("mine", name).read_bytes() == Path("here", name).read_bytes()


def test_a_tuning_from_its_own_file(done, here):
    done("tune", "--config", "here/tune.toml", "--out", "two")
    for name in ("trials.jsonl", "tune.toml", "best.toml"):
        assert Path("here", name).read_bytes() == Path("two", name).read_bytes()


def test_a_folder_below_runs_and_the_best_so_far_on_the_bar(coterie):
    code, _, said = coterie("tune", *QUICK, "--methods", "local", "--trials", "2")
    assert code == 0
    assert re.search(r"local trial 2, best accuracy,\s% \d\d\.\d", said)
    assert [p.name for p in Path("runs").iterdir()] == ["tune-breast-cancer-iid"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--search", "sgd.lrr=1..2"], "unknown option of search of sgd 'lrr': did you mean lr?"),
        (["--search", "adam.lr=1..2"], "'adam' is not tuned here: name an option of sgd, local, finetune"),
        (["--search", "finetune.tune=1..9"], "tune=9 leaves none of 2 rounds"),
        (["--folds", "1000"], "folds=1000 exceeds the "),
        (["--methods", "locl"], "unknown method 'locl': did you mean local?"),
        (["--metric", "speed"], "invalid choice 'speed'"),
    ],
)
def test_refused_in_one_line(refused, words, said):
    assert said in refused(*TUNE, "--out", "here", *words)
