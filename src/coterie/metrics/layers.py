"""Measures of clients' layers that can steer an average: pure functions of what all clients made of one
layer.

Yang and Elkoushy, 2023, "Guiding federated learning with low rank metrics". W is a layer's weight [client,
...], Ŵ its low-rank part (see `low_rank.py`), n the shorter side of Ŵ, t the round:

    s(Ŵ) = Σ_k σ_k²(Ŵ) / (n σ_1²(Ŵ))                     (7)   stable_rank
    KG(Ŵ_i) = s(Ŵ_i at t+1) - s(Ŵ_i at t)                (8)   KnowledgeGain
    Sim(w_j, w_k) = w_j·w_k / (‖w_j‖ ‖w_k‖)              (9)   similarities
    U(Ŵ_i) = Σ_k 1 - Sim(ŵ_i, ŵ_k)                       (10)  uniqueness

A convolution's weight [out, in, ...] is unfolded along its output and along its input channels, both are
measured and averaged; a linear weight is a matrix itself. n is the shorter side either way.

Left open by the paper. Rank 0 gives s = 0; with it, Sim is 1, so that a layer in which nothing stands out
of its noise is nothing unique. In a client's first round KG compares with the model that it began from.

A metric of one's own is a function of a `Layer`:

    @layer_metric("spread")
    def spread(layer):
        "How far a layer's weights lie apart."
        return layer.weights.flatten(1).std(dim=1)

or, if it remembers a number for each client from round to round, a frozen dataclass with `score`,
registered in `LAYER_METRICS`. Higher scores weigh more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.registry import Registry
from coterie.metrics import low_rank

AT_ONCE = 2**24  # numbers that are held in float64 at a time


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of all clients that answered.

    name      of its weight in the model
    weights   [client, ...] what each client made of it
    start     [...] what all of them began from
    losses    [client] of each client's model on its own validation data; NaN unless a metric `wants` them
    raw       measure weights as they are instead of their low-rank part
    """

    name: str
    weights: Tensor
    start: Tensor
    losses: Tensor
    raw: bool = False

    @property
    def updates(self) -> Tensor:
        """[client, number] how far each client moved it."""
        return (self.weights.double() - self.start.double()).flatten(1)


class _LayerMetric(Protocol):
    """`memory` [client] is what `score` returned for the same layer the last time, NaN before the first.

    A metric may also say of itself, both False unless it does:
    signed   scores below 0 for everybody are as they should be
    wants    it needs `layer.losses`
    """

    def score(self, layer: Layer, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Scores [client] and the new memory [client]."""
        ...


LAYER_METRICS: Registry[_LayerMetric] = Registry("layer metric")
Rule = Callable[[Layer], Tensor]


def layer_metric(name: str, signed: bool = False, wants: bool = False) -> Callable[[Rule], Rule]:
    """A decorator: registers a function of a layer as a metric without memory."""

    def keep(rule: Rule) -> Rule:
        def score(self: object, layer: Layer, memory: Tensor) -> tuple[Tensor, Tensor]:
            return rule(layer), memory

        parts = {"score": score, "signed": signed, "wants": wants, "__doc__": rule.__doc__}
        LAYER_METRICS.register(name)(make_dataclass(rule.__name__, (), namespace=parts, frozen=True))
        return rule

    return keep


def chained(names: str) -> dict[str, _LayerMetric]:
    """Metrics by name, from `a*b`."""
    each = [name.strip() for name in names.split("*")]
    if len(set(each)) < len(each):
        raise BadInput(f"metric={names!r} names one twice: multiply different ones")
    return {name: LAYER_METRICS.make(name) for name in each}


def wants(metrics: Mapping[str, _LayerMetric]) -> bool:
    """Whether any of them needs losses on validation data."""
    return any(getattr(metric, "wants", False) for metric in metrics.values())


def asked(name: str, metric: _LayerMetric, layer: Layer, memory: Tensor) -> tuple[Tensor, Tensor]:
    """What a metric says of a layer, scores and memory as they should be, or a refusal that names both."""
    where, clients = f"layer metric {name!r}, layer {layer.name!r}", len(layer.weights)
    answer = metric.score(layer, memory)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise BadInput(f"{where}: got a {type(answer).__name__}: return (scores, memory)")
    for what, given in zip(("scores", "memory"), answer, strict=True):
        if not isinstance(given, Tensor):
            raise BadInput(f"{where}: got a {type(given).__name__} as {what}: return a tensor [client]")
        if given.shape != (clients,):
            raise BadInput(
                f"{where}: got {what} of shape {list(given.shape)} for {clients} clients: return [{clients}]"
            )
    scores, memory = (given.detach().cpu().double() for given in answer)
    if not bool(torch.isfinite(scores).all()):
        bad = float(scores[~torch.isfinite(scores)][0])
        raise BadInput(f"{where}: got a score of {bad}: return finite numbers, 0 where there is none")
    if bool((scores < 0).all()) and not getattr(metric, "signed", False):
        raise BadInput(
            f"{where}: got negative scores only, the highest {float(scores.max()):.4g}: turn the sign, or "
            "say signed=True if it is meant"
        )
    return scores, memory


@layer_metric("stable-rank")
def _evenness(layer: Layer) -> Tensor:
    """(7): how evenly a layer uses the directions it has, from 0 to 1."""
    return stable_ranks(layer.weights, layer.raw)


@LAYER_METRICS.register("knowledge-gain")
@dataclass(frozen=True)
class KnowledgeGain:
    """(8): the growth of a client's stable rank since it was last there, from -1 to 1."""

    signed: ClassVar[bool] = True

    def score(self, layer: Layer, memory: Tensor) -> tuple[Tensor, Tensor]:
        now = stable_ranks(layer.weights, layer.raw)
        if bool(memory.isnan().any()):
            memory = torch.where(memory.isnan(), stable_ranks(layer.start.unsqueeze(0), layer.raw), memory)
        return now - memory, now


@layer_metric("uniqueness")
def _unlike_others(layer: Layer) -> Tensor:
    """(10): how little a layer's low-rank part points where the others' do."""
    parts = [m if layer.raw else _in_pieces(low_rank.low_rank_parts, m) for m in unfoldings(layer.weights)]
    return torch.stack([uniqueness(similarities(p.flatten(1))) for p in parts]).mean(dim=0)


@layer_metric("update-norm")
def _update_norm(layer: Layer) -> Tensor:
    """How far a client moved the layer: ‖W_i - W‖."""
    lengths: Tensor = layer.updates.norm(dim=1)
    return lengths


@layer_metric("gradient-alignment", signed=True)
def _gradient_alignment(layer: Layer) -> Tensor:
    """The cosine between a client's update and the mean of all; 0 where one of them is 0."""
    moved, mean = layer.updates, layer.updates.mean(dim=0)
    lengths = moved.norm(dim=1) * mean.norm()
    return moved @ mean / torch.where(lengths > 0, lengths, 1.0)


@layer_metric("validation-loss", wants=True)
def _low_loss(layer: Layer) -> Tensor:
    """1 / (1 + a client's loss on its own validation data), the same for all layers."""
    return 1 / (1 + layer.losses)


@layer_metric("constant")
def _constant(layer: Layer) -> Tensor:
    """1 for everybody: federated averaging."""
    return torch.ones(len(layer.weights), dtype=torch.float64)


def unfoldings(weights: Tensor) -> Sequence[Tensor]:
    """[client, row, column]: a linear weight itself, a convolution's by output and by input channels."""
    if weights.ndim == 3:
        return [weights]
    return [weights.flatten(2), weights.transpose(1, 2).flatten(2)]


def stable_ranks(weights: Tensor, raw: bool = False) -> Tensor:
    """(7) of each client's layer [client, ...], the mean over its unfoldings: [client]."""

    def values(matrices: Tensor) -> Tensor:
        return low_rank.singular_values(matrices) if raw else low_rank.spectra(matrices).S

    return torch.stack([stable_rank(_in_pieces(values, m)) for m in unfoldings(weights)]).mean(dim=0)


def stable_rank(values: Tensor) -> Tensor:
    """(7) Σ σ² / (n σ_1²) of singular values [..., n], falling, 0 where none is kept; 0 if all are."""
    squares = (values / torch.where(values[..., :1] > 0, values[..., :1], 1.0)).square()
    return squares.sum(dim=-1) / values.shape[-1]


def similarities(vectors: Tensor) -> Tensor:
    """(9) cosines [client, client] of vectors [client, number]; 1 where one of the two is 0."""
    lengths = vectors.double().norm(dim=1, keepdim=True)
    units = vectors.double() / torch.where(lengths > 0, lengths, 1.0)
    there = (lengths > 0).flatten()
    return torch.where(there.unsqueeze(1) & there, units @ units.mT, 1.0)


def uniqueness(similarity: Tensor) -> Tensor:
    """(10) Σ_k 1 - Sim(i, k): [client]; what rounding takes below 0 is 0."""
    return (1 - similarity).clamp(min=0).fill_diagonal_(0).sum(dim=1)


def _in_pieces(measure: Callable[[Tensor], Tensor], matrices: Tensor) -> Tensor:
    """`measure` on some clients' matrices at a time, as float64 doubles them."""
    some = max(1, AT_ONCE // max(1, matrices[0].numel()))
    return torch.cat([measure(part) for part in torch.split(matrices, some)])
