"""All that can be made of what ten clients sent once, scored on one test set (makni-2022, sections 7.1, 8.3).

The clients of one run are trained once; from their means μ_i, variances and deviations come, in `scores`:

    client 1 ... b                         each mean model by itself
    FL-SWAG, mean; FL-SWAG                 the mean of the product of diagonal Gaussians; 30 draws averaged
    FedAvg, wFedAvg, BayAvg, wBayAvg       of the same means
    low rank K                             the product of ½ Σ_diag + D Dᵀ / (2(K-1)), last K deviations
    T = ...                                the product's covariance times T; its mean stays (text alone)
    levels alone ...                       other weights of the same means, see `why.py`

Preset as-run draws as the program did: the noise is variance · z instead of its square root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.held import at_coordinator, hold
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.kernels import Calibrate, Crowd, Tallied
from coterie.kernels.posterior import Collected
from coterie.posteriors import Gaussian, diagonal, from_collected, mean, product, sample, variances
from coterie.studies.base import Preset
from coterie.studies.makni_2022.why import taken_apart

FLOOR = 1e-6
SAMPLES = 30
COLUMNS = (2, 20)
TEMPERATURES = (0.1, 10.0, 1e3, 1e5)
FL_SWAG = "FL-SWAG"
MEAN = ", mean"

Figures = dict[str, float]


@dataclass(frozen=True, eq=False)
class _Scores:
    """By name: accuracy, ECE, Brier score and NLL; and samples by confidence of those in the figure."""

    figures: Mapping[str, Figures]
    tallies: Mapping[str, Sequence[float]]


def posterior_of(found: Collected, columns: int) -> Gaussian:
    """A client's Gaussian with so many of its last deviations; diagonal with none."""
    if not columns:
        return from_collected(found.mean, found.variance, {}, found.count, "diagonal", FLOOR)
    last = {name: d[-columns:] for name, d in found.deviations.items()}
    return from_collected(found.mean, found.variance, last, found.count, "low-rank", FLOOR)


def products(sent: Sequence[Collected]) -> dict[str, Gaussian]:
    """The joint posterior by name: FL-SWAG as the paper has it, and with deviations."""
    joint = {FL_SWAG: product([posterior_of(found, 0) for found in sent])}
    have = min(tree.count(found.deviations) if found.deviations else 0 for found in sent)
    for columns in COLUMNS:
        if columns <= have:
            joint[f"low rank {columns}"] = product([posterior_of(found, columns) for found in sent])
    return joint


def drawn(posterior: Gaussian, preset: Preset, key: Key) -> Beliefs:
    """Models to average."""
    if preset == "as-run":
        squared = {name: v.square() for name, v in variances(posterior).items()}
        posterior = diagonal(mean(posterior), squared)
    return sample(posterior, SAMPLES, key)


def score(net: Net, found: Sequence[Collected], sizes: Tensor, preset: Preset, key: Key) -> _Scores:
    """What each client collected, and its number of rows [client]; the net's first site has the test set."""
    still = {name: t for name, t in found[0].mean.items() if name not in found[0].variance}
    judge = _Judge(net, still, key)
    means = tree.stack([{name: f.mean[name] for name in f.variance} for f in found])
    b = len(found)
    alike, by_size = torch.full((b,), 1 / b, dtype=torch.float64), sizes.double() / sizes.sum()
    for i in range(b):
        judge.score(f"client {i + 1}", tree.rows(means, torch.tensor([i])))
    joint = products(found)
    for name, posterior in joint.items():
        judge.score(name + MEAN, tree.stack([mean(posterior)]))
        judge.score(name, drawn(posterior, preset, key.at(name)))
    for T in TEMPERATURES if preset == "text" else ():
        for name, posterior in joint.items():
            judge.score(f"{name}, T = {T:g}", drawn(posterior * (1 / T), preset, key.at(name, str(T))))
    for name, model in taken_apart([posterior_of(f, 0) for f in found], key.at("shuffled")).items():
        judge.score(name, tree.stack([model]))
    judge.score("FedAvg", tree.mix(alike.unsqueeze(0), means))
    judge.score("wFedAvg", tree.mix(by_size.unsqueeze(0), means))
    judge.score("BayAvg", means, alike)
    judge.score("wBayAvg", means, by_size)
    return _Scores(judge.figures, judge.tallies)


class _Judge:
    """Scores models on one test set and keeps the figures by name."""

    def __init__(self, net: Net, still: Beliefs, key: Key) -> None:
        self.net, self.still, self.key = net, still, key
        self.figures: dict[str, Figures] = {}
        self.tallies: dict[str, list[float]] = {}

    def score(self, name: str, beliefs: Beliefs, shares: Tensor | None = None) -> None:
        n = tree.count(beliefs)
        rest = {k: t.expand(n, *t.shape) for k, t in self.still.items()}
        edges = torch.stack([torch.arange(n), torch.zeros(n, dtype=torch.int64)], dim=1)
        held = hold({**beliefs, **rest}, at_coordinator(n))
        beside = {} if shares is None else {"share": hold({"share": shares}, at_coordinator(n))}
        numbers = self.net.visit(Crowd(Calibrate("test")), held, edges, self.key, beside=beside).numbers
        self.figures[name] = {m: float(numbers[m]) for m in ("accuracy", "ece", "brier", "nll")}
        if name == FL_SWAG:
            tallied = self.net.visit(Crowd(Tallied()), held, edges, self.key, beside=beside).numbers
            self.tallies[name] = [float(tallied[str(i)]) for i in range(len(tallied))]
