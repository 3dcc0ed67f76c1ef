"""Adaptive federated optimisation: the server takes the average's change for a gradient, and its step is that
of an optimiser.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar and McMahan, 2021, "Adaptive federated optimization"
(ICLR), algorithm 2; `fedavgm` is of Hsu, Qi and Brown, 2019, "Measuring the effects of non-identical data
distribution for federated visual classification" (arXiv:1909.06335).

    x̄  ← FedAvg(x),  Δ ← x̄ - x
    m  ← β₁ m + (1 - β₁) Δ
    v  ← v + Δ²                                  fedadagrad
    v  ← v - (1 - β₂) Δ² sign(v - Δ²)            fedyogi
    v  ← β₂ v + (1 - β₂) Δ²                      fedadam
    x  ← x + η m / (√v + τ)

    m  ← β m + Δ,  x ← x + η m                   fedavgm

η is `server_lr`, β₁ and β₂ are `beta1` and `beta2`, τ is `tau`, β is `momentum`; in the state m is `mean`, at
first 0, and v is `square`, at first τ². Both are at the coordinator, as is x. Nobody's own model is looked
at: the server works on the sum. There is no correction for the first rounds, as in the paper.

Deviations. Δ is weighed by rows, or not, as in `fedavg`; the paper's algorithm has equal weights, its
experiments weighed ones. Batch norm's statistics are averaged. If nobody answers, nothing moves. FLamby's
program (owkin/FLamby, flamby/strategies/fed_opt.py) begins with v = 0, which differs by what τ² is
beside Δ².
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.held import hold
from coterie.core.method import METHODS
from coterie.core.net import SERVER
from coterie.core.options import bounded, check_options, chosen
from coterie.core.partners import NOBODY
from coterie.kernels.sgd import SGD
from coterie.methods.server import fedavg
from coterie.methods.server.norms import Norm, trained_names


@dataclass(frozen=True, eq=False)
class State:
    """What averaging has, its belief being x; m and, for all but fedavgm, v [1, ...], at the coordinator."""

    shared: fedavg.State
    mean: Held
    square: Held | None


@dataclass(frozen=True)
class FedOpt(ABC):
    """Options of every server's optimiser; each adds its step."""

    chooses: ClassVar[Partners] = NOBODY

    local: Trainer = SGD()
    """The work of a client in a round."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""
    norm: Norm = chosen("average", Norm)
    """Average batch norm like all else, or leave it local: each client keeps its own (FedBN)."""
    server_lr: float = bounded(0.1, "be above 0 and finite", "try 0.1")
    """Learning rate of the server."""

    scales_targets: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def averaging(self) -> fedavg.FedAvg:
        return fedavg.FedAvg(self.local, self.weighted, self.sample, self.norm)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return self.averaging.check(roster, start, key)

    @abstractmethod
    def first(self) -> float | None:
        """What v is at first; None: there is none."""

    @abstractmethod
    def step(
        self, delta: Tensor, mean: Tensor, square: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """By how much x moves, and m and v after it."""

    def init(self, start: Held, net: Net) -> State:
        shared, first = self.averaging.init(start, net), self.first()
        like = shared.beliefs.like
        zeros = {n: torch.zeros_like(like[n], device="cpu") for n in trained_names(like)}
        square = None if first is None else {n: t + first for n, t in zeros.items()}
        return State(shared, hold(zeros, SERVER), None if square is None else hold(square, SERVER))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        averaged, info = self.averaging.round(state.shared, net, key)
        if averaged is state.shared:  # nobody answered
            return state, info
        x, mean = net.open(state.shared.beliefs), net.open(state.mean)
        new = dict(net.open(averaged.beliefs))
        square = None if state.square is None else net.open(state.square)
        m, v = dict[str, Tensor](), dict[str, Tensor]()
        for n in mean:
            move, m[n], after = self.step(new[n] - x[n], mean[n], None if square is None else square[n])
            new[n] = x[n] + move
            if after is not None:
                v[n] = after
        shared = replace(averaged, beliefs=hold(new, SERVER))
        return State(shared, hold(m, SERVER), hold(v, SERVER) if v else None), info

    def models(self, state: State) -> Models:
        return self.averaging.models(state.shared)

    def reveals(self) -> Reveals:
        return self.averaging.reveals()


@dataclass(frozen=True)
class Adaptive(FedOpt):
    """Steps that are shorter where changes have been large."""

    beta1: float = bounded(0.9, "lie in [0, 1)", "try 0.9")
    """Decay of the mean of changes."""
    tau: float = bounded(1e-3, "be above 0 and finite", "try 0.001")
    """Keeps the division away from 0: the smaller, the more adaptive."""

    def first(self) -> float:
        return self.tau**2

    @abstractmethod
    def spread(self, square: Tensor, delta: Tensor) -> Tensor:
        """v after a change."""

    def step(
        self, delta: Tensor, mean: Tensor, square: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        assert square is not None
        m, v = decayed(mean, delta, self.beta1), self.spread(square, delta)
        return adaptive_step(m, v, self.server_lr, self.tau), m, v


@METHODS.register("fedadagrad")
@dataclass(frozen=True)
class FedAdagrad(Adaptive):
    """FedAvg whose average is a gradient for the server's Adagrad."""

    beta1: float = 0.0
    """Decay of the mean of changes."""

    def spread(self, square: Tensor, delta: Tensor) -> Tensor:
        return square + delta.square()


@METHODS.register("fedyogi")
@dataclass(frozen=True)
class FedYogi(Adaptive):
    """FedAvg whose average is a gradient for the server's Yogi."""

    beta2: float = bounded(0.99, "lie in [0, 1)", "try 0.9")
    """Decay of the mean of squared changes."""

    def spread(self, square: Tensor, delta: Tensor) -> Tensor:
        return yogi(square, delta, self.beta2)


@METHODS.register("fedadam")
@dataclass(frozen=True)
class FedAdam(Adaptive):
    """FedAvg whose average is a gradient for the server's Adam."""

    beta2: float = bounded(0.99, "lie in [0, 1)", "try 0.9")
    """Decay of the mean of squared changes."""

    def spread(self, square: Tensor, delta: Tensor) -> Tensor:
        return decayed(square, delta.square(), self.beta2)


@METHODS.register("fedavgm")
@dataclass(frozen=True)
class FedAvgM(FedOpt):
    """FedAvg with momentum at the server."""

    server_lr: float = 1.0
    """Learning rate of the server."""
    momentum: float = bounded(0.9, "lie in [0, 1)", "try 0.9")
    """Share of the last move that goes on, from 0 to below 1; 0 is fedavg."""

    def first(self) -> None:
        return None

    def step(
        self, delta: Tensor, mean: Tensor, square: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        m = self.momentum * mean + delta
        return self.server_lr * m, m, None


def decayed(old: Tensor, new: Tensor, beta: float) -> Tensor:
    """β old + (1 - β) new."""
    return beta * old + (1 - beta) * new


def yogi(square: Tensor, delta: Tensor, beta2: float) -> Tensor:
    """v - (1 - β₂) Δ² sign(v - Δ²): it grows and falls by as much as Δ² is, however far v is from it."""
    return square - (1 - beta2) * delta.square() * torch.sign(square - delta.square())


def adaptive_step(mean: Tensor, square: Tensor, rate: float, tau: float) -> Tensor:
    """η m / (√v + τ)."""
    return rate * mean / (square.sqrt() + tau)
