"""Why FL-SWAG's mean falls behind plain averages: the weights that it gives to clients, taken apart.

With λ_ij = 1 / Σ_ij the precision of parameter j at client i, and s_i its share of all, the mean over j of
λ_ij / Σ_k λ_kj, each of these is a mean model Σ_i w_ij μ_ij / Σ_i w_ij:

    FL-SWAG, mean           w_ij = λ_ij            what the product has
    levels alone            w_ij = s_i             how much a client counts, in all parameters alike
    coordinates alone       w_ij = λ_ij / s_i      which parameters it counts in, all clients alike
    coordinates shuffled    the same numbers, for each parameter dealt anew among the clients
    by variance             w_ij = 1 / λ_ij        it counts where its parameters move, not where they rest
"""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.seeds import Key

PARTS = ("levels alone", "coordinates alone", "coordinates shuffled", "by variance")


def taken_apart(means: Beliefs, precisions: Beliefs, key: Key) -> dict[str, Beliefs]:
    """Mean models [1, ...] by name, of means and precisions [client, ...]."""
    share = shares(precisions)

    def alone(t: Tensor) -> Tensor:
        return t / share.reshape(-1, *[1] * (t.ndim - 1))

    weights: dict[str, Beliefs] = {
        "levels alone": {
            n: share.reshape(-1, *[1] * (t.ndim - 1)).expand_as(t) for n, t in precisions.items()
        },
        "coordinates alone": {n: alone(t) for n, t in precisions.items()},
        "coordinates shuffled": {n: shuffled(alone(t), key.at(n)) for n, t in precisions.items()},
        "by variance": {n: 1 / t for n, t in precisions.items()},
    }
    return {name: weighted(means, by) for name, by in weights.items()}


def shares(precisions: Beliefs) -> Tensor:
    """s_i [client], adding up to 1."""
    flat = torch.cat([t.double().flatten(1) for t in precisions.values()], dim=1)
    return (flat / flat.sum(dim=0)).mean(dim=1)


def shuffled(weights: Tensor, key: Key) -> Tensor:
    """[client, ...] with the clients in another order for each parameter."""
    order = torch.from_numpy(key.numpy().random(tuple(weights.shape))).argsort(dim=0)
    return weights.gather(0, order)


def weighted(means: Beliefs, weights: Beliefs) -> Beliefs:
    """Σ_i w_ij μ_ij / Σ_i w_ij: [1, ...]."""
    found = {n: (weights[n] * t.double()).sum(0, True) / weights[n].sum(0, True) for n, t in means.items()}
    return {n: t.to(means[n].dtype) for n, t in found.items()}
