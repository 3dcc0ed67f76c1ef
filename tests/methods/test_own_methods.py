"""What somebody meets who writes a method of their own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import coterie
from coterie.cli.main import main
from coterie.core.errors import BadInput
from coterie.core.held import COORDINATOR, hold
from coterie.core.method import METHODS, Info
from coterie.core.net import SERVER, from_server
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import Local
from coterie.nets import Counting

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-method.md"


def clients():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(20, 3)) + shift for shift in (0, 1)]
    return [
        coterie.Client.from_arrays(x, (x.sum(axis=1) > 1) * 1, name=f"c{i}") for i, x in enumerate(tables)
    ]


def test_extras_that_no_file_can_hold_are_named():
    class Told(Local):
        def round(self, state, net, key):
            state, info = super().round(state, net, key)
            return state, Info(info.weights, info.loss, extras={"eta": torch.ones(2)})

    with pytest.raises(BadInput, match=r"extras 'eta' of a round cannot be written down .* float\(x\)"):
        coterie.train("logistic", clients(), Told(), rounds=1)


def test_one_place_may_be_a_number_or_the_server(pull):
    """Three clients of one row each draw w = 0 to 1, 2 and 3 halves of their targets."""
    net = Counting(pull([2.0, 4.0, 6.0]))
    start = hold({"weight": torch.zeros(1, 1, 1, dtype=torch.float64)}, SERVER)
    replies = net.visit(SGD(lr=0.25), start, from_server(torch.arange(3)), Key(0).at_round(1, 1))
    for at in (COORDINATOR, SERVER):
        assert net.distances(replies, torch.arange(3), at).lengths.tolist() == [1.0, 2.0, 3.0]
        mean = net.mix(torch.full((1, 3), 1 / 3, dtype=torch.float64), replies.beliefs, at)
        assert net.open(mean)["weight"].item() == pytest.approx(2.0)


def test_methods_explains_a_plugin(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
    text = re.search(r"^```python file=halfway.py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert text is not None
    (tmp_path / "halfway.py").write_text(text[1])
    assert main(["methods", "halfway", "--plugins", str(tmp_path / "halfway.py")]) == 0
    said = capsys.readouterr().out
    assert "at other clients: yes" in said
    assert "--halfway.share (default: 0.5)" in said
