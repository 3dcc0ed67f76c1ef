"""A network cut before its last layer.

    f(x) = W φ(x) + b        W, b: the last layer, φ: everything before it

The last layer is the last `nn.Linear` of a forward pass, whatever the order in which layers were defined, and
its output must be the network's own. φ is the network with that layer replaced by one that passes on what it
is given, so any module can be cut whose forward calls the layer once and asks nothing else of it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coterie.core.errors import BadInput

ROWS = 1024  # samples of one forward pass: the same ones for the same bits


@dataclass(frozen=True, eq=False)
class Body:
    """φ, frozen.

    network   the module without its last layer, in eval mode
    last      where that layer was
    inputs    the shape of one sample
    width     how many features φ gives
    outputs   how many outputs the last layer gave
    """

    network: nn.Module
    last: str
    inputs: tuple[int, ...]
    width: int
    outputs: int

    def features(self, x: Tensor) -> Tensor:
        """φ(x) [n, width], some rows at a time, wherever the network is; on the CPU in the end."""
        if not len(x):
            return x.new_empty(0, self.width)
        device = next(self.network.parameters()).device
        with torch.no_grad():
            return torch.cat([self.network(rows.to(device)).cpu() for rows in torch.split(x, ROWS)])

    def with_last(self, layer: nn.Module) -> nn.Module:
        """The whole network again, for raw inputs, ending in this layer."""
        whole = copy.deepcopy(self.network)
        whole.set_submodule(self.last, copy.deepcopy(layer))
        return whole.eval()


def last_linear(model: nn.Module, x: Tensor, called: str) -> str:
    """The name of the layer whose output is the model's; `called` is what users call the model."""
    return _traced(model, x, called)[0]


def cut(model: nn.Module, x: Tensor, called: str) -> Body:
    """φ of a model, tried on a few inputs x; a refusal if nothing comes before the last layer."""
    name, seen = _traced(model, x, called)
    last = model.get_submodule(name)
    if len(list(model.parameters())) == len(list(last.parameters())):
        raise BadInput(
            f"model {called} is a single layer, so there is nothing to freeze: "
            "use one with hidden layers, such as mlp, or freeze=false"
        )
    body = headless(model, name, tuple(x.shape[1:]))
    try:
        same = torch.equal(body.features(x), seen)
    except Exception:  # whatever a module of one's own may raise
        same = False
    if not same:
        raise BadInput(
            f"model {called} does more with its last layer {name!r} than call it once: "
            "call it once, at the end, or use freeze=false"
        )
    return body


def headless(model: nn.Module, last: str, inputs: tuple[int, ...]) -> Body:
    """A copy of the model without the layer of that name."""
    network = copy.deepcopy(model).eval().requires_grad_(False)
    layer = network.get_submodule(last)
    assert isinstance(layer, nn.Linear)
    network.set_submodule(last, nn.Identity())
    return Body(network, last, inputs, layer.in_features, layer.out_features)


def _traced(model: nn.Module, x: Tensor, called: str) -> tuple[str, Tensor]:
    """One forward pass: the last linear layer's name and what it was given."""
    model, calls = copy.deepcopy(model).eval(), []
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda _, given, out, name=name: calls.append((name, given[0], out)))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        out = model(x)
    if not calls or calls[-1][2] is not out:
        raise BadInput(
            f"model {called} does not end with a linear layer, so it has no last layer to train by itself: "
            "let it return what an nn.Linear gives, or leave features out"
        )
    return calls[-1][0], calls[-1][1]
