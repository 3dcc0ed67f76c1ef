"""Whole changes, clipped and hidden: by hand, alike on every engine, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, hold
from coterie.core.kernel import kernel_of, kernel_to_dict
from coterie.core.net import from_server
from coterie.core.seeds import Key
from coterie.kernels import DP, SGD, SWAG, Bounded, Gather, Proximal
from coterie.kernels.around import charges_of
from coterie.kernels.bounded import clipped


def visited(net_of, client_of, module, work, engine="loop", sizes=(5, 9, 7)):
    generator = torch.Generator().manual_seed(3)
    clients = [
        client_of(torch.randn(n, 4, generator=generator).double(), torch.arange(n) % 3, name=str(i))
        for i, n in enumerate(sizes)
    ]
    start = hold(stack([belief_of(module)]), at_coordinator(1))
    return net_of(module, clients, engine).visit(work, start, from_server(torch.arange(len(sizes))), Key(0))


def model():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


class TestClipped:
    def test_one_norm_over_all(self):
        # a change of (3, 4) has length 5
        found = clipped([torch.tensor([3.0]), torch.tensor([4.0])], 1.0)
        assert [float(t) for t in found] == pytest.approx([0.6, 0.8])

    def test_a_short_change_stays(self):
        assert clipped([torch.tensor([0.3])], 1.0)[0].item() == pytest.approx(0.3)

    def test_one_that_is_not_finite_is_none(self):
        assert clipped([torch.tensor([torch.nan, 1.0])], 1.0)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("inner", [SGD(lr=0.5, batch=4, momentum=0.5), SWAG(lr=0.5, batch=4)])
def test_engines_agree(inner, net_of, client_of):
    module, work = model(), Bounded(inner, clip=0.2, sigma=0.1)
    wanted = visited(net_of, client_of, module, work)
    for engine in ("stacked", "pool"):
        found = visited(net_of, client_of, module, work, engine)
        assert found.numbers.keys() == wanted.numbers.keys() == {"samples"}
        for n, t in wanted.beliefs.tensors.items():
            torch.testing.assert_close(found.beliefs.tensors[n], t, rtol=1e-10, atol=1e-10)


def test_noise_is_twice_the_clip_and_differs_from_client_to_client(net_of, client_of):
    module = nn.Linear(4, 3000, bias=False).double()
    found = visited(net_of, client_of, module, Bounded(SGD(batch=4), clip=1e-6, sigma=0.5)).beliefs.tensors
    noise = (found["weight"] - module.weight.detach()) / (2 * 1e-6 * 0.5)
    n = noise[0].numel()
    for row in noise:
        assert abs(float(row.square().sum()) - n) < 6 * math.sqrt(2 * n)
    assert abs(float((noise[0] * noise[1]).sum())) < 6 * math.sqrt(n)


def test_charges():
    assert Bounded(SGD(), sigma=3.0).charges(10) == (Charge(3.0, rows=10, unit="client"),)
    assert charges_of(Proximal(Bounded()), 10) == (Charge(1.0, rows=10, unit="client"),)


def test_it_crosses_a_wire_as_data():
    work = Bounded(SGD(lr=0.2), clip=0.3)
    assert kernel_of(kernel_to_dict(work)) == work


class TestRefused:
    def test_batch_norm(self, net_of, client_of, refused):
        module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
        with refused(
            BadInput,
            "bounded cannot hide rows in a model with batch norm (BatchNorm1d '1'), which mixes them: take a "
            "model without, or group norm instead",
        ):
            visited(net_of, client_of, module, Bounded())

    def test_a_part_that_is_not_trained(self, net_of, client_of, refused):
        module = model()
        module[0].weight.requires_grad_(False)
        with refused(
            BadInput,
            "bounded hides trained parameters, and '0.weight' is none: train all of the model, or use dp",
        ):
            visited(net_of, client_of, module, Bounded())

    def test_what_was_collected_does_not_go_home(self):
        with pytest.raises(BadInput, match="gather needs work that collects"):
            Gather(Bounded(SWAG()))

    def test_noise_around_noise(self, refused):
        with refused(BadInput, "bounded(dp(...)): bounded goes around plain work: try bounded(sgd)"):
            Bounded(DP())
