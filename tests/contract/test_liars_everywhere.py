"""Every method goes on whatever liars answer, and liars behind messages lie as those of one process."""

from __future__ import annotations

import pytest
import torch
from table import Here, assert_same, clients_of, method_of, model_for, net_for, play, remote_of, start_of

from coterie.features.liars.wrapper import KINDS, Liars
from coterie.kernels import SGD
from coterie.methods import METHODS

F64 = torch.float64
WORK = SGD(lr=0.1, batch=100)  # one step: whether a reply is taken does not depend on how many there are
REPLYING = [name for name in METHODS if not method_of(name).reveals().rows]
# replies that are none for all; wrong numbers, and what takes knowing the others, where it matters most
HARD = [(name, "not-a-number") for name in REPLYING]
HARD += [(name, kind) for name in ("ndoye", "pens", "weight-erosion") for kind in ("losses", "alie")]


@pytest.mark.parametrize(("name", "kind"), HARD)
def test_every_method_ends_and_its_models_are_finite(name, kind):
    model = model_for(name)
    net = Liars(net_for("loop", model, F64), 0.4, kind)
    found = play(method_of(name, WORK), net, start_of(model, F64))
    assert all(torch.isfinite(t).all() for t in found.models[-1]["tensors"].values())
    liars = [i for i, c in enumerate(net.roster.names) if c in net.notes.names]
    assert len(liars) == 2
    if kind == "not-a-number" and name != "oracle":  # nobody listens to who did not answer
        others = [i for i in range(5) if i not in liars]
        assert float(found.infos[-1].weights[others][:, liars].abs().sum()) == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("fedavg", kind) for kind in KINDS] + [("pens", "stale"), ("pens", "mimic")]
)
def test_behind_messages_liars_lie_alike(name, kind):
    here = Liars(net_for("loop", "dropout", F64), 0.4, kind)
    away = Liars(remote_of(Here(clients_of(F64)), "dropout", F64), 0.4, kind)
    method = method_of(name, WORK)
    one, other = (play(method, net, start_of("dropout", F64)) for net in (here, away))
    assert_same(one.models, other.models)
    assert_same([i.weights for i in one.infos], [i.weights for i in other.infos])
    mine, theirs = ({k: v for k, v in net.figures().items() if k != "sealed"} for net in (here, away))
    assert mine["liars"][0]["names"] == theirs["liars"][0]["names"]
    assert mine.get("left_out", {}).keys() == theirs.get("left_out", {}).keys()
