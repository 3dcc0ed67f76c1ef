"""Predictions from posteriors: model averaging, and the one-shot baselines (Makni, 2022, sections 4.2, 7.1).

    p(y|x, D) ≈ 1/S Σ_s p(y|x, θ_s),  θ_s ~ N(μ, Σ)                     `predict`   (Algorithm 2)
    FedAvg     p(y|x, Σ_i w_i μ_i),      w_i = 1/b                      `fedavg`
    wFedAvg    the same,                 w_i = n_i / Σ_j n_j            `wfedavg`
    BayAvg     Σ_i w_i p(y|x, D_i),      w_i = 1/b                      `bayavg`
    wBayAvg    the same,                 w_i = n_i / Σ_j n_j            `wbayavg`

S is `samples`, n_i are `sizes`, the numbers of training rows. `samples=0` predicts with the mean μ alone, as
the paper describes BayAvg: each client's weights are used once. FL-SWAG is `predict` of the product.

`outputs` is any function of (belief, x) that gives logits [n, class], for instance `Learner.outputs`. A model
with buffers outside the posterior closes over them: `lambda b, x: learner.outputs({**buffers, **b}, x)`. All
return probabilities [n, class] in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from coterie.core.belief import Belief, row
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.metrics.calibration import probabilities
from coterie.posteriors.gaussian import Gaussian, mean, sample
from coterie.posteriors.slots import flat, tree

Outputs = Callable[[Belief, Tensor], Tensor]
Sizes = Sequence[float] | Tensor


def predict(outputs: Outputs, posterior: Gaussian, x: Tensor, samples: int, key: Key) -> Tensor:
    """The mean of the sampled models' probabilities; of the mean model's, for samples=0."""
    if samples == 0:
        return _probabilities(outputs, mean(posterior), x)
    drawn = sample(posterior, samples, key)
    total = _probabilities(outputs, row(drawn, 0), x)
    for s in range(1, samples):
        total = total + _probabilities(outputs, row(drawn, s), x)
    return total / samples


def fedavg(outputs: Outputs, posteriors: Sequence[Gaussian], x: Tensor) -> Tensor:
    return wfedavg(outputs, posteriors, x, [1] * len(posteriors))


def wfedavg(outputs: Outputs, posteriors: Sequence[Gaussian], x: Tensor, sizes: Sizes) -> Tensor:
    return _probabilities(outputs, average_model(posteriors, sizes), x)


def bayavg(outputs: Outputs, posteriors: Sequence[Gaussian], x: Tensor, samples: int, key: Key) -> Tensor:
    return wbayavg(outputs, posteriors, x, [1] * len(posteriors), samples, key)


def wbayavg(
    outputs: Outputs,
    posteriors: Sequence[Gaussian],
    x: Tensor,
    sizes: Sizes,
    samples: int,
    key: Key,
) -> Tensor:
    weights = _shares(posteriors, sizes)
    each = [predict(outputs, p, x, samples, key.at("client", i)) for i, p in enumerate(posteriors)]
    return torch.einsum("i,inc->nc", weights, torch.stack(each))


def average_model(posteriors: Sequence[Gaussian], sizes: Sizes) -> Belief:
    """Σ_i w_i μ_i."""
    weights, slots = _shares(posteriors, sizes), posteriors[0].slots
    means = torch.stack([flat(slots, mean(p)) for p in posteriors])
    return tree(slots, weights @ means)


def _shares(posteriors: Sequence[Gaussian], sizes: Sizes) -> Tensor:
    """w_i = n_i / Σ_j n_j: [client], adding up to 1."""
    if not posteriors:
        raise BadInput("an average of 0 posteriors: give at least 1")
    if len(sizes) != len(posteriors):
        raise BadInput(f"{len(sizes)} sizes for {len(posteriors)} posteriors: give one for each")
    n = torch.as_tensor(sizes, dtype=torch.float64)
    if not n.min() > 0:
        raise BadInput(f"size {n.min():g} must be above 0: leave that client out")
    return n / n.sum()


def _probabilities(outputs: Outputs, belief: Belief, x: Tensor) -> Tensor:
    with torch.no_grad():
        logits = outputs(belief, x)
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise BadInput(
            f"outputs of shape {list(logits.shape)}: averaging probabilities needs logits [n, class] of at "
            "least 2 classes"
        )
    return probabilities(logits)
