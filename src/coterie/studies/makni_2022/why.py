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

from collections.abc import Sequence

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.seeds import Key
from coterie.posteriors import Gaussian, mean
from coterie.posteriors.slots import Slots, flat, size, tree

PARTS = ("levels alone", "coordinates alone", "coordinates shuffled", "by variance")


def taken_apart(posteriors: Sequence[Gaussian], key: Key) -> dict[str, Belief]:
    """Mean models by name, of the clients' diagonal Gaussians."""
    slots = posteriors[0].slots
    means = torch.stack([flat(slots, mean(p)) for p in posteriors])
    precisions = torch.stack([p.precision.entries() for p in posteriors])
    shares = (precisions / precisions.sum(dim=0)).mean(dim=1)
    levels = shares.unsqueeze(1).expand_as(precisions)
    alone = precisions / levels
    weights = dict(zip(PARTS, (levels, alone, shuffled(alone, slots, key), 1 / precisions), strict=True))
    return {name: tree(slots, (w * means).sum(dim=0) / w.sum(dim=0)) for name, w in weights.items()}


def shuffled(weights: Tensor, slots: Slots, key: Key) -> Tensor:
    """[client, parameter] with the clients in another order for each parameter."""
    drawn = [key.at(slot.name).numpy().random((len(weights), size((slot,)))) for slot in slots]
    order = torch.cat([torch.from_numpy(numbers) for numbers in drawn], dim=1).argsort(dim=0)
    return weights.gather(0, order)
