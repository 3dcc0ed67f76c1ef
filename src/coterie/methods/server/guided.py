"""Federated averaging in which a measure of each client's layers sets the weights, layer by layer.

Yang and Elkoushy, 2023, "Guiding federated learning with low rank metrics", Algorithm 1. For client i of
those S that answer in round t, and each layer l that is a matrix:

    W_i ← LocalWork(W)
    α_il ← max{floor, β α_il + ζ M(Ŵ_il)},   α_il = 1 at first        lines 10, 11   smoothed
    ᾱ_il = N_i α_il / Σ_k N_k α_kl                                    lines 12, 14   shares_of
    W_l ← Σ_i ᾱ_il W_il                                               line 15

M is the `metric` (see `metrics/layers.py`), or a product of several; β is `beta`, ζ is `zeta`, N_i the
net's sizes. A layer is a tensor by its name. Convolutions have a score of their own; what else there is has
the α of the last one before it (line 7: 1 before the first). In a model without convolutions, or with
`linear="own"`, so have matrices of linear layers. FedKG is the metric knowledge-gain, FedUnique is
uniqueness.

Left open by the paper, and deviations. The floor holds for α itself, so that a client below it can come
back at once; it also lifts values between 0 and 1e-3. A client that does not answer keeps its α and the
metric's memory and leaves the sums; if nobody answers, nothing changes. Batch norm's statistics stand by
their module, as in torch's state dicts. As all α of a layer may be scaled alike, they are divided by the
greatest: where all are equal, this is federated averaging bit for bit. Replies are looked at in the clear.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Replies, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.method import METHODS, check_validation, scatter
from coterie.core.options import bounded, check_options, chosen
from coterie.core.partners import WEIGHTS, Partners
from coterie.kernels.around import numbers_of
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.methods.server.fedavg import averaging_weights, sample_clients, server_info
from coterie.methods.server.norms import Norm, calls, check_has_norms, gathered, models_of, parted
from coterie.metrics.layers import Layer, asked, chained, wants

Linear = Literal["inherit", "own"]
LAYERS = "layer_weights"  # in a round's extras: for each layer, each client's weight


@dataclass(frozen=True, eq=False)
class State:
    """The server's belief [1, ...], and what is known of each client.

    names    of all tensors in the model's order, which no belief promises to keep
    alpha    [layer, client] smoothed scores, 1 at first
    past     by metric, [layer, client] what it remembers, NaN before a client's first round
    norms    [client, ...] each client's own batch norms, where they stay at home
    """

    beliefs: Held
    names: tuple[str, ...]
    alpha: Tensor
    past: Mapping[str, Tensor]
    norms: Held | None = None


@METHODS.register("guided")
@dataclass(frozen=True)
class Guided:
    """One model for all: in each layer, those weigh more whose layer scores higher on a metric."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        words={
            "en": "One common model, layer by layer: whoever's layer has the higher score counts more, "
            "for all alike.",
            "fr": "Un modèle commun, couche par couche : celui dont la couche a le meilleur score "
            "compte davantage, pour tous de la même façon.",
            "de": "Ein gemeinsames Modell, Schicht für Schicht: Wessen Schicht höher bewertet ist, "
            "zählt mehr, für alle gleich.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    metric: str = "stable-rank"
    """What a client's layer is measured by; several are multiplied: "stable-rank*update-norm"."""
    beta: float = bounded(0.8, "lie between 0 and 1", "try 0.8")
    """How much of the last smoothed score stays, from 0 (no memory) to 1."""
    zeta: float = 1.0
    """How much of the new score is added; below 0, those with low scores weigh more."""
    floor: float = bounded(1e-3, "be above 0 and finite", "try 0.001")
    """The least smoothed score, above 0."""
    weighted: bool = True
    """Multiply scores by numbers of training samples."""
    linear: Linear = chosen("inherit", Linear)
    """Beside convolutions, linear layers inherit the score of the last one before, or have their own."""
    raw: bool = False
    """Stable rank, knowledge gain and uniqueness of weights as they are, not of their low-rank part."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""
    norm: Norm = chosen("average", Norm)
    """Average batch norm like all else, or leave it local: each client keeps its own (FedBN)."""

    def __post_init__(self) -> None:
        check_options(self)
        chained(self.metric)
        if not math.isfinite(self.zeta):
            raise BadInput(f"zeta={self.zeta} must be finite: try 1")

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_has_norms(self.norm, start)
        if wants(chained(self.metric)):
            check_validation(roster, f"metric {self.metric!r}", "take another metric")
        if not scored(start, tuple(start), self.linear):
            raise BadInput(
                "the model has no matrix (a linear or convolutional weight), so there is no layer to "
                "measure: use fedavg"
            )
        return ()

    def init(self, start: Held, net: Net) -> State:
        shared, norms = parted(self.norm, start, net)
        layers = len(scored(start.like, start.names, self.linear))
        nothing = torch.full((layers, len(net.roster)), math.nan, dtype=torch.float64)
        past = dict.fromkeys(chained(self.metric), nothing)
        return State(shared, start.names, torch.ones_like(nothing), past, norms)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, sizes = len(net.roster), net.roster.sizes
        hosts = sample_clients(n, self.sample, key.at("sample"))
        beliefs, edges = calls(state.beliefs, state.norms, hosts)
        replies = net.visit(self.local, beliefs, edges, key)
        if len(replies) == 0:
            return state, server_info(n, replies)
        of_all = replies.beliefs.only(state.beliefs.names)  # norms that stay at home are not shown either
        here, opened, before = replies.hosts, net.open(of_all), net.open(state.beliefs)
        layers = scored(opened, state.names, self.linear)
        losses = self.losses(net, replies, key)
        scores, past = self.measure(state, layers, opened, before, here, losses)
        alpha = smoothed(state.alpha[:, here], scores, self.beta, self.zeta, self.floor)
        shares = shares_of(alpha, sizes[here], self.weighted)
        plain = averaging_weights(sizes[here], self.weighted)
        rows = dict(zip(layers, shares, strict=True))
        leaders = led_by(state.names, layers)
        by_name = {name: plain if leader is None else rows[leader] for name, leader in leaders.items()}
        weights = {name: w.unsqueeze(0) for name, w in by_name.items()}
        shared, norms = gathered(net, weights, replies, state.norms)
        laid_out = [scatter(row, here, n).tolist() for row in shares]
        # None for those that did not answer: what JSON can hold
        shown = [[None if math.isnan(v) else v for v in row] for row in laid_out]
        info = server_info(n, replies, _mean_share(by_name, shared.like))
        info = replace(info, extras={LAYERS: dict(zip(layers, shown, strict=True))})
        alpha = state.alpha.index_copy(1, here, alpha)
        return State(shared, state.names, alpha, past, norms), info

    def measure(
        self,
        state: State,
        layers: Sequence[str],
        opened: Beliefs,
        before: Beliefs,
        here: Tensor,
        losses: Tensor,
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Scores [layer, reply], the product of all metrics, and what the metrics remember."""
        metrics, past = chained(self.metric), {name: t.clone() for name, t in state.past.items()}
        scores = torch.ones(len(layers), len(here), dtype=torch.float64)
        for i, name in enumerate(layers):
            layer = Layer(name, opened[name].cpu(), before[name][0].cpu(), losses, self.raw)
            for called, metric in metrics.items():
                found, past[called][i, here] = asked(called, metric, layer, state.past[called][i, here])
                scores[i] *= found
        return scores, past

    def losses(self, net: Net, replies: Replies, key: Key) -> Tensor:
        """[reply] on its own client's validation data, if a metric wants it; infinite for who left since."""
        n = len(replies)
        if not wants(chained(self.metric)):
            return torch.full((n,), math.nan, dtype=torch.float64)
        edges = torch.stack([torch.arange(n), replies.hosts], dim=1)
        found = net.visit(Score("validation", ("loss",)), replies.beliefs, edges, key.at("score"))
        return scatter(found.numbers.get("loss", torch.zeros(0)), found.guests, n, empty=math.inf)

    def models(self, state: State) -> Models:
        return models_of(state.beliefs, state.norms, state.alpha.shape[1])

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, opened=True, numbers=numbers_of(self.local))


@METHODS.register("fedkg")
@dataclass(frozen=True)
class FedKG(Guided):
    """Metric-guided averaging by knowledge gain: those weigh more whose layers grow in stable rank."""

    metric: str = "knowledge-gain"
    """What a client's layer is measured by: knowledge-gain makes this FedKG."""


@METHODS.register("fedunique")
@dataclass(frozen=True)
class FedUnique(Guided):
    """Metric-guided averaging by uniqueness: those weigh more whose layers are unlike the others'."""

    metric: str = "uniqueness"
    """What a client's layer is measured by: uniqueness makes this FedUnique."""


def smoothed(alpha: Tensor, scores: Tensor, beta: float, zeta: float, floor: float) -> Tensor:
    """max{floor, β α + ζ M}."""
    return (beta * alpha + zeta * scores).clamp(min=floor)


def shares_of(alpha: Tensor, sizes: Tensor, weighted: bool) -> Tensor:
    """N_i α_i / Σ_k N_k α_k in each row, or α_i / Σ_k α_k; equal α are exactly 1 by their greatest."""
    parts = alpha / alpha.amax(dim=1, keepdim=True) * (sizes.double() if weighted else 1.0)
    return parts / parts.sum(dim=1, keepdim=True)


def scored(beliefs: Beliefs, names: Sequence[str], linear: Linear) -> list[str]:
    """Of these names, the layers that have a score, in their order: beliefs are [belief, ...]."""
    there = [name for name in names if name in beliefs and beliefs[name].is_floating_point()]
    axes = {name: beliefs[name].ndim - 1 for name in there}
    convolves = any(n > 2 for n in axes.values())
    least = 3 if convolves and linear == "inherit" else 2
    return [name for name, n in axes.items() if n >= least]


def led_by(names: Sequence[str], layers: Sequence[str]) -> dict[str, str | None]:
    """For each tensor, the scored layer that it is or that comes last before it; None before the first.

    A belief has parameters first and then buffers: these move to the parameters of their module.
    """
    place: dict[str, int] = {}
    for i, name in enumerate(names):
        place.setdefault(name.rpartition(".")[0], i)
    last, leaders = None, dict[str, str | None]()
    for name in sorted(names, key=lambda name: place[name.rpartition(".")[0]]):
        last = name if name in layers else last
        leaders[name] = last
    return leaders


def _mean_share(by_name: Mapping[str, Tensor], beliefs: Beliefs) -> Tensor:
    """The shares [reply] of the average number in the model, which tensors make by their size."""
    sizes = {n: beliefs[n].numel() for n in by_name if n in beliefs and beliefs[n].is_floating_point()}
    total = torch.stack([size * by_name[name] for name, size in sizes.items()]).sum(dim=0)
    return total / sum(sizes.values())
