"""Batch norm among clients: averaged like everything else, or at home with each client (FedBN).

Li, Jiang, Zhang, Kamp and Dou, "FedBN: Federated learning on non-IID features via local batch
normalization", 2021, arXiv:2102.07623, algorithm 1.

    w_k = (u, v_k)                    v_k is all that client k's batch norms hold, u the rest of the model
    (u_k, v_k) ← LocalWork(u, v_k)    for each client k of the round
    u ← Σ p_k u_k                     v_k stays at client k; who was not in the round keeps its last one

u is `shared` [1, ...], v is `own` [client, ...]; where norms are averaged, v is None and u the whole model.
v holds a layer's scale and shift, its running mean and variance and its counter of batches. A method is given
tensors by name, so a batch norm is known by its running mean: one that keeps no statistics is averaged, and
an instance norm that does keep them stays at home too.

With v at home there is no model for everybody: u alone cannot be run. v is sent to nobody, yet models sent
are counted as whole ones.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs, Weights
from coterie.core.errors import BadInput, UnknownName
from coterie.core.method import Models
from coterie.core.net import Net, Replies, from_server

Norm = Literal["average", "local"]
STATISTIC = "running_mean"
HELD = ("weight", "bias", STATISTIC, "running_var", "num_batches_tracked")


def check_norm(norm: str) -> None:
    if norm not in get_args(Norm):
        raise UnknownName("norm", str(norm), get_args(Norm))


def norm_names(beliefs: Beliefs) -> tuple[str, ...]:
    """The names of v: whatever belongs to a layer with a running mean."""
    layers = [name.removesuffix(STATISTIC) for name in beliefs if name.rpartition(".")[2] == STATISTIC]
    held = {layer + part for layer in layers for part in HELD}
    return tuple(name for name in beliefs if name in held)


def parted(norm: Norm, beliefs: Beliefs, clients: int) -> tuple[Beliefs, Beliefs | None]:
    """(u, v) at the start: u from the first of the initial beliefs, v from each client's own."""
    first = tree.rows(beliefs, torch.tensor([0]))
    if norm == "average":
        return first, None
    names = norm_names(beliefs)
    if not names:
        raise BadInput(
            "norm=local keeps each client's batch norm at home, but the model has none with running "
            "statistics: set norm=average, or take a model that has (resnet18 with norm batch)"
        )
    return _without(first, names), tree.repeat({name: beliefs[name] for name in names}, clients)


def joined(shared: Beliefs, own: Beliefs) -> Beliefs:
    """Each client's whole model (u, v_k): [client, ...]; of u there is only one in memory."""
    n = tree.count(own)
    return {**{name: t.expand(n, *t.shape[1:]) for name, t in shared.items()}, **own}


def calls(shared: Beliefs, own: Beliefs | None, hosts: Tensor) -> tuple[Beliefs, Tensor]:
    """What visits these hosts, and on which edges: the one model, or for each host its own."""
    if own is None:
        return shared, from_server(hosts)
    return joined(shared, own), torch.stack([hosts, hosts], dim=1)


def gathered(
    net: Net, weights: Weights, replies: Replies, own: Beliefs | None
) -> tuple[Beliefs, Beliefs | None]:
    """(u, v) after a round: u mixed by weights [1, reply], the v_k of those that answered as they left it."""
    mixed = net.mix(weights, replies)
    if own is None:
        return mixed, None
    return _without(mixed, own), net.settle(own, replies)


def models_of(shared: Beliefs, own: Beliefs | None, clients: int) -> Models:
    """Everybody has the shared model; with norms at home each has its own, and there is no shared one."""
    if own is None:
        return Models(shared, of=torch.zeros(clients, dtype=torch.int64), shared=0)
    return Models(joined(shared, own), of=torch.arange(clients))


def _without(beliefs: Beliefs, names: Beliefs | tuple[str, ...]) -> Beliefs:
    return {name: t for name, t in beliefs.items() if name not in names}
