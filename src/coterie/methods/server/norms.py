"""Batch norm among clients: averaged like everything else, or at home with each client (FedBN).

Li, Jiang, Zhang, Kamp and Dou, "FedBN: Federated learning on non-IID features via local batch
normalization", 2021, arXiv:2102.07623, algorithm 1.

    w_k = (u, v_k)                    v_k is all that client k's batch norms hold, u the rest of the model
    (u_k, v_k) ← LocalWork(u, v_k)    for each client k of the round
    u ← Σ p_k u_k                     v_k stays at client k; who was not in the round keeps its last one

u is `shared` [1, ...], at the coordinator; v is `own` [client, ...], at home. Where norms are averaged, v is
None and u the whole model. v holds a layer's scale and shift, its running mean and variance and its counter
of batches. A method is given tensors by name, so a batch norm is known by its running mean: one that keeps no
statistics is averaged, and an instance norm that does keep them stays at home too.

With v at home there is no model for everybody: u alone cannot be run. v is sent to nobody. Any other tensors
may be v by their names (`parted_by`): `methods/personal/fedper.py` keeps layers at home in this way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import torch
from torch import Tensor

from coterie.core.belief import Beliefs, Weights
from coterie.core.errors import BadInput
from coterie.core.held import Held, side_by_side
from coterie.core.method import Models, first_of, handed_out
from coterie.core.net import SERVER, Net, Replies, from_server, settle

Norm = Literal["average", "local"]
STATISTIC = "running_mean"
HELD = ("weight", "bias", STATISTIC, "running_var", "num_batches_tracked")


def check_has_norms(norm: Norm, names: Iterable[str]) -> None:
    if norm == "local" and not norm_names(names):
        raise BadInput(
            "norm=local keeps each client's batch norm at home, but the model has none with running "
            "statistics: set norm=average, or take a model that has (resnet18 with norm batch)"
        )


def norm_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of v: whatever belongs to a layer with a running mean."""
    names = tuple(names)
    layers = [name.removesuffix(STATISTIC) for name in names if name.rpartition(".")[2] == STATISTIC]
    held = {layer + part for layer in layers for part in HELD}
    return tuple(name for name in names if name in held)


def trained_names(like: Beliefs) -> tuple[str, ...]:
    """The names of numbers that gradients may move: all but integers and batch norm's statistics."""
    counted = {name for name in norm_names(like) if name.rpartition(".")[2] not in HELD[:2]}
    return tuple(n for n, t in like.items() if t.is_floating_point() and n not in counted)


def parted(norm: Norm, start: Held, net: Net) -> tuple[Held, Held | None]:
    """(u, v) at the start, v being batch norms, or nothing."""
    if norm == "average":
        return first_of(start), None
    check_has_norms(norm, start.names)
    return parted_by(norm_names(start.names), start, net)


def parted_by(names: Collection[str], start: Held, net: Net) -> tuple[Held, Held]:
    """(u, v) with v of these names: u from the first of the initial beliefs, v from each client's own."""
    return first_of(start).without(names), handed_out(start.only(names), net)


def calls(shared: Held, own: Held | None, hosts: Tensor) -> tuple[Held, Tensor]:
    """What visits these hosts, and on which edges: the one model, or for each host its own (u, v_k)."""
    if own is None:
        return shared, from_server(hosts)
    return side_by_side(shared, own), torch.stack([hosts, hosts], dim=1)


def gathered(net: Net, weights: Weights, replies: Replies, own: Held | None) -> tuple[Held, Held | None]:
    """(u, v) after a round: u mixed by weights [1, reply], the v_k of those that answered as they left it."""
    if own is None:
        return net.mix(weights, replies.beliefs, SERVER), None
    return net.mix(weights, replies.beliefs.without(own.names), SERVER), settle(net, own, replies)


def models_of(shared: Held, own: Held | None, clients: int) -> Models:
    """Everybody has the shared model; with norms at home each has its own, and there is no shared one."""
    if own is None:
        return Models(shared, of=torch.zeros(clients, dtype=torch.int64), shared=shared)
    return Models(side_by_side(shared, own), of=torch.arange(clients))
