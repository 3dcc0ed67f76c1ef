"""What is left of a run that was cut off or refused."""

from dataclasses import dataclass

import pytest
import torch

import coterie
from coterie.core.errors import BadInput
from coterie.core.method import state_type
from coterie.data.clients import Client
from coterie.methods import Local
from coterie.runs.folder import Folder


def test_a_resume_clears_whatever_was_half_written(tmp_path):
    folder = Folder.create(tmp_path / "run", {"method": "local", "rounds": 1}, {})
    for name in (".checkpoint.safetensors.x1", ".tmpRxU5cn"):
        (folder.path / name).write_text("half")
    (folder.path / "thesis.txt").write_text("mine")
    assert folder.restore(dict, {}) is None
    folder.close()
    left = sorted(str(p.relative_to(folder.path)) for p in folder.path.rglob("*"))
    assert left == [
        ".lock",
        "config.toml",
        "run.json",
        "thesis.txt",
    ]


@dataclass(frozen=True)
class Refusing(Local):
    """Refuses in the given round."""

    at: int = 1

    def round(self, state, net, key):
        if key.round == self.at:
            raise BadInput("seen too late")
        return super().round(state, net, key)


@pytest.mark.parametrize(("at", "left"), [(1, False), (2, True)])
def test_a_refusal_in_the_first_round_leaves_nothing_behind(tmp_path, refused, at, left):
    rows = torch.arange(20.0).reshape(10, 2)
    client = Client.from_arrays(rows, torch.arange(10) % 2, name="one")
    with refused(BadInput, "seen too late"):
        coterie.train(
            "logistic", [client], Refusing(at=at), rounds=3, one_class="allow", out=tmp_path / "run"
        )
    assert (tmp_path / "run").exists() == left


def test_a_checkpoint_that_a_kill_left_aside_comes_back(tmp_path, restless, run_in):
    path = tmp_path / "run"
    run_in(path, restless(), cut=3)
    (path / "checkpoint.safetensors").rename(path / ".checkpoint.safetensors.aside")
    folder = Folder(path)
    saved = folder.restore(state_type(restless().method), restless().config)
    folder.close()
    assert saved.stamp.round == 3
    assert not list(path.glob(".checkpoint*"))
