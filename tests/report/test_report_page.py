from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from coterie.core.errors import BadInput, BadRun
from coterie.report.page import render_page, write_report
from coterie.show.parts import Runs as Section

PARTS = [
    "summary",
    "rounds",
    "costs",
    "clients",
    "matrix",
    "collected",
    "contributions",
    "data",
    "cost",
    "notes",
    "repeat",
]
VOID = {"meta", "link", "input", "br"}
CHOOSE = """
for (const menu of document.querySelectorAll("figure select")) {
  menu.value = menu.options[menu.options.length - 1].value;
  menu.dispatchEvent(new Event("change"));
}
const drawn = {};
for (const figure of document.querySelectorAll("figure"))
  drawn[figure.dataset.plot] = figure.querySelector(".canvas").data.map((trace) => trace.name);
const said = document.createElement("p");
said.textContent = "DRAW" + "N" + JSON.stringify(drawn) + "DRAW" + "N";
document.body.append(said);
"""


class Page(HTMLParser):
    """Tags with their attributes; fails on tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.data: dict[str, dict] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            attributes = self.tags[-1][1]
            if attributes.get("type") == "application/json":
                self.data[attributes["id"]] = json.loads(data)
        elif self.open and self.open[-1] != "style":
            within = self.tags and self.tags[-1][1].get("class") == "term"  # a link inside of a sentence
            if within and self.texts:
                self.texts[-1] += data
            else:
                self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts).replace("\u00a0", " ")

    @property
    def ids(self) -> list[str]:
        return [a["id"] for _, a in self.tags if a.get("id")]


def page(records, title: str = "digits") -> Page:
    return Page(render_page([Section(title, records)]))


def test_every_part_is_there(make_likely):
    records = [make_likely(label, seed) for label in ("local", "fedavg") for seed in (0, 1)]
    made = page(records)
    assert [i for i in made.ids if i.startswith("s0-") and not i.endswith("plot")] == [
        f"s0-{p}" for p in PARTS
    ]
    plots_there = {"rounds", "costs", "clients", "matrix", "collected", "contributions", "sizes", "labels"}
    assert set(made.data) == {f"s0-{p}-plot" for p in plots_there}
    for text in (
        "Over 10 clients and 2 seeds, fedavg reaches",
        "95 % interval over splits of the same rows, corrected for the rows they share",
        "pixels divided by 16",
        "coterie compare --data digits",
        "abc1234",
        "torch 2.6.0",
        "fedavg.sample",
    ):
        assert text in made.text, text


def test_close_ups_are_there_where_there_is_something_to_see(make_likely, telling):
    records = [telling(make_likely(label, classes=2)) for label in ("local", "greedy")]
    records[0].matrices = {}
    made = page(records)
    parts = [i for i in made.ids if i.startswith("s0-") and not i.endswith("plot")]
    assert parts == [f"s0-{p}" for p in [*PARTS[:6], "traces", "features", *PARTS[6:]]]
    assert {"s0-traces-plot", "s0-features-plot"} < set(made.data)
    options = [made.texts[i + 1] for i, text in enumerate(made.texts) if text.strip() == "Show"]
    shown = [
        "what is left of a sender's weight (alpha)",
        "how far astray a sender's update goes (relative distance)",
    ]
    assert shown[0] in options
    assert [run["name"] for run in made.data["s0-traces-plot"]["runs"]] == shown
    assert [m["label"] for m in made.data["s0-features-plot"]["methods"]] == ["local", "greedy"]
    assert "log-odds of 1 against 0" in made.text


def test_a_matrix_is_named_with_its_method_if_several_have_some(make_likely, telling):
    records = [telling(make_likely(label, classes=3)) for label in ("greedy", "weight-erosion")]
    text = page(records).text
    assert "greedy: what is left of a sender's weight (alpha)" in text
    assert "weight-erosion: how far astray a sender's update goes (relative distance)" in text
    assert "logit of the class, against the mean of all classes" in text


def test_nothing_is_loaded_from_elsewhere(make_likely, telling):
    text = render_page([Section("digits", [telling(make_likely("fedavg"))])])
    made = Page(text)
    for tag, attributes in made.tags:
        for name in ("src", "href", "action", "poster", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value)
    assert "default-src 'none'" in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert text.count("plotly.js v") <= 2
    # plotly would offer to upload a figure
    assert "showSendToCloud: false" in text


def test_one_seed_says_what_its_band_is_and_has_no_error_bars(make_likely):
    records = [make_likely("fedavg")]
    assert render_page([Section("x", records)]) == render_page([Section("x", records)])
    made = page(records, title="")
    assert "not an interval: there is one seed" in made.text
    assert all("error_y" not in t for t in made.data["s0-clients-plot"]["choices"][0]["data"])


def test_names_are_shown_as_they_are(make_known, telling):
    names = ["<b>x</b>", "</script><script>alert(1)</script>", "a & \"b\" 'c'"]
    values = {"accuracy": [0.5, 0.6, 0.7]}
    runs = [make_known(values, label, names=names, command="run <it>") for label in ("local", "<i>me</i>")]
    runs[1] = telling(runs[1])
    runs[1].matrices = {"<q>": runs[1].matrices["alpha"]}
    runs[0].models = runs[1].models
    for run in runs:
        run.about |= {"parameters": 4, "features": ["<tt>", "b"], "classes": ["<p>", "</script>"]}
    for run in runs:
        run.about["clients"][0]["notes"] = ["a <u>note</u>"]
        run.about["notes"].append("<s>all</s>")
    made = Page(render_page([Section("<em>title</em>", runs)], title="<h1>"))
    assert {"b", "i", "u", "s", "em", "q", "tt"} & {tag for tag, _ in made.tags} <= {"b", "i"}
    assert sum(tag == "script" for tag, _ in made.tags) == 2 + len(made.data)
    for name in [
        *names,
        "<i>me</i>",
        "<q>",
        "log-odds of </script> against <p>",
        "a <u>note</u>",
        "<s>all</s>",
        "<em>title</em>",
        "run <it>",
    ]:
        assert name in made.text, name
    # plotly reads tags in names, so these are escaped once more
    assert made.data["s0-clients-plot"]["choices"][0]["data"][0]["x"][0] == "&lt;b&gt;x&lt;/b&gt;"
    assert made.data["s0-features-plot"]["features"] == ["&lt;tt&gt;", "b"]
    # and these by the page, which also puts them into menus
    assert made.data["s0-traces-plot"]["names"] == names


def test_sections(make_likely):
    sections = [
        Section("titanic", [make_likely("fedavg", classes=2)]),
        Section("digits", [make_likely("fedavg")]),
    ]
    made = Page(render_page(sections, title="Demo"))
    assert "s0-matrix-plot" in made.data
    assert "s1-matrix-plot" in made.data
    assert ("a", {"href": "#s1"}) in made.tags
    targets = {a["href"][1:] for tag, a in made.tags if tag == "a"}
    assert targets <= set(made.ids)
    assert len(made.ids) == len(set(made.ids))
    with pytest.raises(BadInput, match="at least one section"):
        render_page([])


def test_regression_has_sizes_and_no_labels(make_likely):
    made = page([make_likely(label, task="regression") for label in ("local", "fedavg")])
    assert "s0-labels-plot" not in made.data
    assert "s0-sizes-plot" in made.data
    assert "an RMSE of" in made.text
    assert made.data["s0-rounds-plot"]["choices"][0]["name"] == "test RMSE"


def test_gaps_unfinished_runs_and_rounds_without_scores(make_known):
    runs = [
        make_known(
            {"accuracy": [0.5, None], "auc": [None, None], "loss": [float("nan"), 0.2]},
            "local",
            every=5,
            rounds=11,
        ),
        make_known({"accuracy": [0.6, 0.7], "loss": [0.1, 0.2]}, "fedavg", every=5, rounds=11, done=8),
    ]
    made = page(runs)
    assert "stopped after round 8 of 11" in made.text
    rounds = made.data["s0-rounds-plot"]["choices"][0]["data"]
    assert [t["x"] for t in rounds if "name" in t] == [[0, 5, 10, 11], [0, 5]]
    bars = made.data["s0-clients-plot"]["choices"][0]["data"]
    assert bars[0]["y"] == [50.0, None]


def test_a_run_before_its_first_round(make_known):
    run = make_known({"accuracy": [0.5, 0.6]}, done=0)
    assert "No round has finished yet" in page([run]).text
    run.metrics.clear()
    made = page([run])
    assert "Nothing was scored yet" in made.text
    assert "no test score yet" in made.text


def test_many_clients_and_rounds_stay_small(make_likely, telling, tmp_path):
    records = [
        make_likely(label, clients=120, rounds=150) for label in ("local", "fedavg", "greedy", "central")
    ]
    telling(records[2])
    path = write_report(tmp_path / "report.html", [Section("big", records)])
    assert path.stat().st_size < 9.5e6
    made = Page(path.read_text(encoding="utf-8"))
    runs = made.data["s0-matrix-plot"]["runs"]
    assert all(len(run["rounds"]) <= 40 and run["rounds"][-1] == 150 for run in runs)
    assert f"{len(runs[0]['rounds'])} of 150 rounds" in made.text
    # 300 000 numbers for two matrices of 60 rounds and 120 senders
    assert "20 of 120 clients, 60 of 150 rounds are here, evenly chosen" in made.text
    assert made.data["s0-clients-plot"]["choices"][0]["data"][0]["type"] == "scatter"


def test_notes_are_said_once(make_known):
    runs = [make_known({"accuracy": [0.5] * 7}, seed=s, names=list("abcdefg")) for s in (0, 1)]
    for run in runs:
        for client in run.about["clients"]:
            client["notes"] = ["rows left out: 2 of 12"]
        run.about["clients"][0]["notes"] = [f"rows left out: {run.config['seed']} <u>of</u> 12"]
        run.about["clients"][1]["notes"].append("nothing else")
    text = page(runs).text
    assert [text.count(f"rows left out: {n}") for n in ("2 of 12", "0", "1")] == [1, 1, 1]
    grouped = "<details><summary>rows left out: <b>7 sites, 2 seeds</b></summary><ul>"
    notes = render_page([Section("x", runs)])
    assert f"<li>{grouped}<li>a: rows left out: 0 &lt;u&gt;of&lt;/u&gt; 12</li>" in notes
    assert "<li>b, c, d, e, f, g: rows left out: 2 of 12</li>" in notes
    assert "<li>nothing else <b>(b, 2 seeds)</b></li>" in notes
    runs[0].about["notes"].clear()
    for client in runs[0].about["clients"]:
        client["notes"] = []
    assert "Nothing was changed" in page(runs[:1]).text


def test_what_was_given_away_is_told_by_sender(make_known):
    """In two rounds each of seven clients sent the coordinator a model with two numbers, and got one back."""
    names = ["<u>a</u>", *"bcdefg"]
    runs = [make_known({"accuracy": [0.5] * 7}, label, names=names) for label in ("local", "fedavg")]
    text = render_page([Section("x", runs)])
    made = Page(text)
    table = text[text.index("What was given away") :]
    table = table[: table.index("</table>")]
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
    assert cells[0] == ["method", "from", "to", "models", "traffic", "numbers"]
    assert len(cells) == 1 + 7 + 1  # nobody gives anything where all are alone
    assert [c.replace("\u00a0", " ") for c in cells[1][1:]] == [
        "&lt;u&gt;a&lt;/u&gt;", "coordinator", "2", "5.2 kB", "4"
    ]  # fmt: skip
    assert [c.replace("\u00a0", " ") for c in cells[-1][1:]] == [
        "coordinator", "&lt;u&gt;a&lt;/u&gt;, b, c, d, e and 2 more", "14", "36.4 kB", "0"
    ]  # fmt: skip
    assert "without first models and scoring" in made.text
    assert "What was given away" not in page(runs[:1]).text


def test_who_was_away_in_the_end_is_told(make_known):
    run = make_known({"accuracy": [0.5, 0.6]}, names=["<u>a</u>", "b"], seed=3)
    assert "away when models" not in page([run]).text
    run.metrics[2]["scores"]["own/test"]["accuracy"] = [None, 0.6]
    made = page([run])
    assert "away when models were scored last" in made.text
    assert "an earlier round: <u>a</u> (round 1)" in made.text
    assert "fedavg, seed 3" in made.text
    assert "u" not in {tag for tag, _ in made.tags}
    assert made.data["s0-clients-plot"]["choices"][0]["data"][0]["y"] == [50.0, 60.0]


def test_a_run_from_python_has_no_command(make_known):
    run = make_known({"accuracy": [0.5, 0.6]}, command=None, commit=None)
    text = page([run]).text
    assert "Started from Python" in text
    assert "unknown" in text


def test_pooled_samples_are_told(make_known):
    run = make_known({"accuracy": [0.5, 0.6]}, "central")
    run.metrics[1]["extras"]["samples_moved"] = 30
    assert "central moved 30 samples to one place instead" in page([run]).text


def test_writing_is_whole_or_not_at_all(make_known, tmp_path, monkeypatch):
    target = tmp_path / "deep" / "report.html"
    sections = [Section("x", [make_known({"accuracy": [0.5, 0.6]})])]
    assert write_report(target, sections) == target
    before = target.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(BadRun, match="No space left on device"):
        write_report(target, sections, title="other")
    assert target.read_bytes() == before
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]
    with pytest.raises(BadRun, match="cannot write"):
        write_report(tmp_path, sections)


def test_thousands_of_rounds_and_hundreds_of_clients_are_thinned(make_known, make_likely):
    long = make_known({"accuracy": [0.5, 0.6]}, rounds=1000)
    made = page([long])
    assert "At most 300 evenly chosen rounds" in made.text
    line = made.data["s0-rounds-plot"]["choices"][0]["data"][-1]
    assert (len(line["x"]), line["x"][-1]) == (300, 1000)
    wide = page([make_likely("greedy", clients=300, rounds=2)])
    assert "300 clients are drawn as 150 groups of neighbours" in wide.text


def test_seeds_that_were_split_differently_say_so(make_known):
    runs = [make_known({"accuracy": [0.5, 0.6]}, seed=s) for s in (0, 1)]
    runs[1].about["clients"][0]["train"] = 99
    assert "Other seeds were split differently; this is seed 0" in page(runs).text


def test_settings_are_flat_and_readable(make_known):
    run = make_known({"accuracy": [0.5, 0.6]})
    run.config |= {"sgd": {"lr": 0.1, "nesterov": False, "layers": [8, 4]}, "device": None}
    text = page([run]).text
    for part in ("sgd.lr", "0.1", "sgd.nesterov", "false", "[8, 4]", "device"):
        assert part in text, part


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_figure(make_likely, telling, tmp_path):
    records = [telling(make_likely("local", classes=3)), telling(make_likely("greedy", classes=3))]
    del records[0].matrices["alpha"]
    records[1].metrics[1]["measures"] = {"recall": [0.5] * 10, "drift": [1.0] * 10}
    path = write_report(tmp_path / "report.html", [Section("x", records)])
    # then somebody chooses the last of each menu, and what is drawn then is written below the page
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", f"<script>{CHOOSE}</script></body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options += ["--no-first-run", f"--user-data-dir={tmp_path / 'profile'}"]
    options += ["--virtual-time-budget=8000", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(["chromium", *options, path.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.stdout.count('class="plot-container') == 9
    assert "CONSOLE" not in done.stderr
    drawn = json.loads(done.stdout.split("DRAWN")[1])
    lines, bars = drawn["s0-traces-plot"], drawn["s0-features-plot"]
    # of the last client, agent 9, greedy's distance to nine others, and none to itself
    assert lines[:3] == ["local", "greedy", "always its commonest class"]
    assert lines[3:] == [f"agent {i}" for i in range(9)]
    assert bars == ["local", "greedy"]
    assert drawn["s0-measures-plot"] == ["greedy"]
