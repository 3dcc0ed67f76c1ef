"""Where and on what a run was computed."""

import json
import os
import shlex
import subprocess
from dataclasses import replace

import torch

import coterie
from coterie.core.client import Client, Samples
from coterie.core.roster import roster_of
from coterie.runs import about
from coterie.runs.about import command_line, commit, fingerprint


def test_facts_of_a_run(tiny):
    said = tiny().about
    assert said["coterie"] == coterie.__version__
    assert torch.__version__.startswith(said["versions"]["torch"].partition("+")[0])
    assert said["machine"]["cores"] == os.cpu_count()
    assert said["machine"]["threads"] == torch.get_num_threads()
    assert (said["task"], said["classes"]) == ("regression", [])
    assert (said["parameters"], said["belief_bytes"]) == (1, 4)
    large = "clients with fewer training rows than batch=32, so that a step takes all: a, b"
    assert said["notes"] == ["a note", large]
    sizes = {"train": 4, "validation": 0, "test": 2}
    assert said["clients"][1] == {"name": "b", **sizes, "labels": None, "cluster": None, "notes": []}
    assert json.loads(json.dumps(said)) == said


def test_labels_are_counted_by_part():
    x = torch.zeros(6, 1)
    train, test = Samples(x, torch.tensor([0, 0, 2, 2, 2, 1])), Samples(x[:2], torch.tensor([3, 0]))
    client = Client("a", train, test, Samples(x[:0], train.y[:0]), cluster=1, notes=("cleaned",))
    said = about.about_run(roster_of([client]), {"w": torch.zeros(1, 5)}, [], "coterie run")
    assert said["classes"] == ["0", "1", "2", "3"]
    assert said["clients"][0]["labels"] == [[2, 1, 3, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    assert (said["clients"][0]["cluster"], said["clients"][0]["notes"]) == (1, ["cleaned"])
    assert (said["command"], said["parameters"]) == ("coterie run", 5)


def test_the_fingerprint_tells_data_and_first_weights_apart(two_clients):
    a, b = two_clients()
    nothing = {"w": torch.zeros(1, 2)}

    def of(clients, weights=nothing):
        return fingerprint(roster_of(clients, digests=True), weights)

    prints = [
        of([a, b]),
        of([b, a]),
        of([a]),
        of([replace(a, name="c"), b]),
        of([replace(a, train=Samples(a.train.x.clone(), a.train.y + 1)), b]),
        of([replace(a, train=Samples(a.train.x + 1e-6, a.train.y)), b]),
        of([replace(a, test=a.train), b]),
        of([replace(a, validation=a.test), b]),
        of([a, b], {"w": torch.ones(1, 2)}),
        of([a, b], {"v": torch.zeros(1, 2)}),
    ]
    assert len(set(prints)) == len(prints)
    assert prints[0] == of(two_clients())


def test_the_commit_of_a_checkout_with_a_mark_if_changed(tmp_path, monkeypatch):
    def git(*words):
        mail = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *mail, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr(coterie, "__file__", str(tmp_path / "__init__.py"))
    assert commit() is None
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    head = git("rev-parse", "--short=12", "HEAD")
    assert commit() == head
    (tmp_path / "__init__.py").write_text("changed")
    assert commit() == f"{head}+"
    monkeypatch.setenv("PATH", "")
    assert commit() is None


def test_the_command_as_typed_can_be_typed_again(monkeypatch):
    words = ["run", "--seed", "3", "--out", "my runs/one", "--plugins", "a;b.py"]
    monkeypatch.setattr("sys.argv", ["/somewhere/coterie", *words])
    assert command_line().startswith("coterie run --seed 3 ")
    assert shlex.split(command_line()) == ["coterie", *words]
