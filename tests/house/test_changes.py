"""A stranger's changes, as the docs tell them: few files are touched, and each works as a user meets it."""

import base64
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|toml|diff) file=(src/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOUCHED = {
    "adding-a-metric": ["metrics/table.py"],
    "adding-a-wrapper": ["features/shifts/"],
    "adding-a-feature": ["features/patience/", "runs/settings.py"],
    "adding-a-command": ["cli/losses.py"],
    "adding-a-net": ["core/net.py", "nets/threaded.py"],
    "adding-a-policy-key": ["federation/policy/keys.py"],
}
"""What each change touches: files, and folders that are new. Cards, kinds of columns and methods have such
tests in `tests/page/test_card_folders.py`, `tests/data/test_column_kinds.py` and `tests/docs`.
"""


def page(name):
    return (ROOT / "docs" / f"{name}.md").read_text()


def blocks(name):
    return [(kind, file.removeprefix("src/coterie/"), text) for kind, file, text in BLOCK.findall(page(name))]


def change(package, kind, file, text):
    """Writes a new file; or lines with a + into one, where the lines without it stand."""
    path = package / file
    if kind == "diff":
        lines = text.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        old = path.read_text()
        assert old.count(before) == 1, f"{file} has this {old.count(before)} times: {before}"
        text = old.replace(before, "".join(line[1:] for line in lines))
        path.unlink()  # a link to the file of the original
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """The program with all changes, links to what did not change; beside it what commands of pages said."""
    home = tmp_path_factory.mktemp("changed")
    package = home / "src" / "coterie"
    shutil.copytree(ROOT / "src" / "coterie", package, copy_function=os.symlink)
    for name in TOUCHED:
        for block in blocks(name):
            change(package, *block)
    commands = {
        name: [shlex.split(line)[1:] for sh in SHELL.findall(page(name)) for line in sh.splitlines()]
        for name in TOUCHED
    }
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("changed.py")), str(home)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return home, environment


def said_on(page, changed):
    """What each command printed; all of them have to work."""
    results = json.loads((changed[0] / f"{page}.json").read_text())
    for code, text in results:
        assert code == 0, text
    return [text for _, text in results]


def lines(file):
    return [json.loads(line) for line in file.open()]


@pytest.mark.parametrize("name", TOUCHED)
def test_few_files_are_touched(name):
    places = {file if kind == "diff" else new_place(file) for kind, file, _ in blocks(name)}
    assert sorted(places) == TOUCHED[name]


@pytest.mark.parametrize("name", ["adding-a-command", "adding-a-policy-key"])
def test_python_on_the_page_runs(name):
    for text in re.findall(r"^```python\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL):
        exec(text, {})


def new_place(file):
    """A file in a folder that is there, or the folder."""
    folder = Path(file).parent
    return file if (ROOT / "src" / "coterie" / folder).is_dir() else f"{folder}/"


def test_a_metric_is_everywhere(changed):
    *_, tuned = said_on("adding-a-metric", changed)
    home = changed[0] / "adding-a-metric" / "runs"
    (summary,) = csv.DictReader((home / "tried" / "summary.csv").open())
    assert 0 < float(summary["top2"]) <= 1
    assert "top2_half" in summary
    report = (home / "tried" / "report.html").read_text()
    assert "top-2 accuracy" in report
    assert "one of the two to which the model gave" in report  # its sentence in the glossary
    assert "top-2 accuracy" in (home / "tuned" / "report.html").read_text()
    assert "top-2" in tuned


def test_a_wrapper_is_known_by_its_name(changed):
    said_on("adding-a-wrapper", changed)
    home = changed[0] / "adding-a-wrapper" / "runs"
    each = zip(*(line["train_loss"] for line in lines(home / "tried" / "metrics.jsonl")), strict=True)
    assert all(sum(loss is not None for loss in losses) == 1 for losses in each)
    assert "shifts:many=2" in (home / "behind" / "config.toml").read_text()


def test_a_feature_ends_a_run_and_says_so(changed):
    run, _, help = said_on("adding-a-feature", changed)
    home = changed[0] / "adding-a-feature" / "runs" / "tried"
    last = lines(home / "metrics.jsonl")[-1]
    assert last["ended"] == "patience"
    assert last["round"] < 30
    assert "ended early" in run
    assert "--patience" in help
    assert "endete früher" in (home / "report.html").read_text()


def test_a_command_is_found_with_its_flags(changed):
    _, losses, help, completion = said_on("adding-a-command", changed)
    assert re.fullmatch(r"(client-\d+: \d+\.\d{5}\n)+", losses)
    assert "losses" in help.partition("After a run:")[2]
    packed = re.search(r"b64decode\('([^']*)'\)", completion)[1]
    offered = zlib.decompress(base64.b64decode(packed)).decode()
    assert '"losses"' in offered
    assert '"--digits"' in offered
    assert '"--patience"' in offered


def test_a_net_ends_with_the_same_figures(changed):
    said_on("adding-a-net", changed)
    home = changed[0] / "adding-a-net" / "runs"
    files = [home / name / "metrics.jsonl" for name in ("threads", "here")]
    threads, here = ([line["scores"]["own/test"]["accuracy"] for line in lines(file)] for file in files)
    assert threads == here


def test_a_key_of_a_policy_refuses_runs(changed):
    asked = "from coterie.federation.policy.keys import Policy, Work, objections\n"
    asked += "print(objections(Policy(max_sites=3), Work(sites=4)))\n"
    asked += "from coterie.federation.policy.pages import _page_table, _example_file\n"
    asked += "print(_page_table(), _example_file())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, env=changed[1])
    assert "4 sites, above the policy's 3: ask for fewer, or raise max_sites" in done.stdout, done.stderr
    assert "| `max_sites` | 1000 | sites of a run, this one among them |" in done.stdout
    assert "\nmax_sites = 1000\n" in done.stdout
