"""Where and on what a run was computed."""

import json
import os
import shlex
import subprocess
from dataclasses import replace

import torch

import coterie
from coterie.core.client import Client, Samples
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
    assert said["notes"] == [
        "a note",
        "batch=32 exceeds the training data of 2 client(s) (a, b): they use all of it",
    ]
    assert said["clients"][1] == {
        "name": "b",
        "train": 4,
        "validation": 0,
        "test": 2,
        "labels": None,
        "cluster": None,
        "notes": [],
    }
    assert json.loads(json.dumps(said)) == said


def test_labels_are_counted_by_part(tiny):
    x = torch.zeros(6, 1)
    train, test = Samples(x, torch.tensor([0, 0, 2, 2, 2, 1])), Samples(x[:2], torch.tensor([3, 0]))
    client = Client("a", train, test, Samples(x[:0], train.y[:0]), cluster=1, notes=("cleaned",))
    said = about.about_run([client], {"w": torch.zeros(1, 5)}, [], "coterie run")
    assert said["classes"] == ["0", "1", "2", "3"]
    assert said["clients"][0]["labels"] == [[2, 1, 3, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    assert (said["clients"][0]["cluster"], said["clients"][0]["notes"]) == (1, ["cleaned"])
    assert (said["command"], said["parameters"]) == ("coterie run", 5)


def test_the_fingerprint_tells_data_and_first_weights_apart(two_clients):
    a, b = two_clients()
    weights = {"w": torch.zeros(1, 2)}
    more = Samples(a.train.x.clone(), a.train.y + 1)
    moved = Samples(a.train.x + 1e-6, a.train.y)
    prints = [
        fingerprint([a, b], weights),
        fingerprint([b, a], weights),
        fingerprint([a], weights),
        fingerprint([replace(a, name="c"), b], weights),
        fingerprint([replace(a, train=more), b], weights),
        fingerprint([replace(a, train=moved), b], weights),
        fingerprint([replace(a, test=a.train), b], weights),
        fingerprint([replace(a, validation=a.test), b], weights),
        fingerprint([a, b], {"w": torch.ones(1, 2)}),
        fingerprint([a, b], {"v": torch.zeros(1, 2)}),
    ]
    assert len(set(prints)) == len(prints)
    assert prints[0] == fingerprint(two_clients(), {"w": torch.zeros(1, 2)})


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


def test_no_commit_without_git(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit() is None


def test_the_command_as_typed(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/coterie", "run", "--seed", "3"])
    assert command_line() == "coterie run --seed 3"


def test_the_command_can_be_typed_again(monkeypatch):
    words = ["run", "--out", "my runs/one", "--plugins", "a;b.py"]
    monkeypatch.setattr("sys.argv", ["coterie", *words])
    assert shlex.split(command_line()) == ["coterie", *words]
