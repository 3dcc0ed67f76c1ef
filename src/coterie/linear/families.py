"""Likelihoods of linear models: for coefficients of several problems at once, loss, slope and curvature.

    η_i = Θ x_i                     x_i ends with a 1 where there is an intercept; Θ is [output, input]
    gaussian       ½ (η - y)²
    binary         log(1 + e^η) - y η
    multinomial    log Σ_c e^{η_c} - η_y
    cox            the negative partial likelihood, ties as in Breslow, 1974: see `core/survival.py`

All are sums over rows, not means, so that a penalty is the precision of a prior, whatever the number of rows.
Axes: p problem, n row, k output, d input. A problem is a pair of coefficients and of rows that count, `mask`
[p, n] being 1 for these and 0 for others: folds and strengths of one site are solved side by side.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from coterie.core.client import Task

AT_ONCE = 2**23  # numbers of rows x inputs x problems in one operation


class Point(NamedTuple):
    """Of each problem: the loss [p], its slope [p, k·d] and, if asked for, its curvature [p, k·d, k·d]."""

    loss: Tensor
    slope: Tensor
    curvature: Tensor


class Family(Protocol):
    """`outputs` is k; `intercept` says whether rows get a 1 behind their inputs."""

    @property
    def outputs(self) -> int: ...

    @property
    def intercept(self) -> bool: ...

    def at(self, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Point:
        """Around theta [p, k·d], of rows x [n, d] and y [n]."""
        ...

    def loss(self, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        """[p] alone."""
        ...


def family_of(task: Task, outputs: int) -> Family:
    """The likelihood of a task whose models have so many outputs."""
    if task == "regression":
        return Rowwise("gaussian", 1)
    if task == "survival":
        return Cox()
    return Rowwise("binary", 1) if outputs == 2 else Rowwise("multinomial", outputs)


@dataclass(frozen=True)
class Rowwise:
    """A likelihood to which each row gives a term of its own."""

    kind: str
    outputs: int
    intercept: bool = True

    def at(self, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Point:
        size = theta.shape[0] * theta.shape[1]
        parts = (self._some(theta, x[rows], y[rows], mask[:, rows]) for rows in _blocks(len(x), size))
        return functools.reduce(_added, parts)  # one after the other, so that two are in memory at most

    def _some(self, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Point:
        each, residual, weight = getattr(self, f"_{self.kind}")(_outputs_of(theta, x, self.outputs), y)
        slope = torch.matmul((residual * mask.unsqueeze(-1)).transpose(1, 2), x)
        return Point((each * mask).sum(1), slope.flatten(1), self._curved(weight, x, mask))

    def loss(self, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        total = theta.new_zeros(len(theta))
        for rows in _blocks(len(x), theta.numel()):
            total += (self.losses(theta, x[rows], y[rows]) * mask[:, rows]).sum(1)
        return total

    def losses(self, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """[p, n] of each row."""
        each: Tensor = getattr(self, f"_{self.kind}")(_outputs_of(theta, x, self.outputs), y)[0]
        return each

    def _curved(self, weight: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Σ_i C_i ⊗ x_i x_i' from weights [p, n] or, of several outputs, probabilities [p, n, k]."""
        d, p = x.shape[1], len(weight)
        if weight.ndim == 2:
            return torch.matmul((x.T * (weight * mask).unsqueeze(1)), x)
        blocks = x.new_empty(p, self.outputs, d, self.outputs, d)
        for k in range(self.outputs):
            for j in range(k + 1):
                mine = weight[..., k] * ((1.0 if j == k else 0.0) - weight[..., j]) * mask
                found = torch.matmul(x.T * mine.unsqueeze(1), x)
                blocks[:, k, :, j, :] = blocks[:, j, :, k, :] = found
        return blocks.reshape(p, self.outputs * d, self.outputs * d)

    @staticmethod
    def _gaussian(eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        off = eta.squeeze(-1) - y
        return off.square() / 2, off.unsqueeze(-1), torch.ones_like(off)

    @staticmethod
    def _binary(eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        one = eta.squeeze(-1)
        p = one.sigmoid()
        return F.softplus(one) - y * one, (p - y).unsqueeze(-1), p * (1 - p)

    @staticmethod
    def _multinomial(eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_p = eta.log_softmax(-1)
        label = y.long().expand(eta.shape[:2]).unsqueeze(-1)
        p = log_p.exp()
        return -log_p.gather(-1, label).squeeze(-1), p.scatter_add(-1, label, -torch.ones_like(p)), p


@dataclass(frozen=True)
class Cox:
    """The partial likelihood: each event against all rows that were watched until then; y has signed times.

    With s_i = e^{η_i}, S_e = Σ_{j: t_j ≥ t_e} s_j and x̄_e = Σ_{j: t_j ≥ t_e} s_j x_j / S_e the curvature is
    Σ_i s_i (Σ_{e: t_e ≤ t_i} 1/S_e) x_i x_i'  -  Σ_e x̄_e x̄_e'.
    """

    outputs: int = 1
    intercept: bool = False

    def at(self, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Point:
        size = max(1, AT_ONCE // max(1, x.numel()))
        found = [
            self._some(theta[i : i + size], x, y, mask[i : i + size]) for i in range(0, len(theta), size)
        ]
        return Point(*(torch.cat(part) for part in zip(*found, strict=True)))

    def loss(self, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        order, last, _ = _risk_sets(y)
        eta = (theta @ x.T)[:, order]
        here = mask[:, order]
        sums = torch.where(here > 0, eta, -torch.inf).logcumsumexp(1)[:, last]
        events = (y[order] > 0) * here
        return torch.where(events > 0, sums - eta, 0.0).sum(1)

    @staticmethod
    def _some(theta: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Point:
        order, last, first = _risk_sets(y)
        x, mask, seen = x[order], mask[:, order], (y[order] > 0)
        eta = theta @ x.T
        top = eta.amax(1, keepdim=True)
        s = (eta - top).exp() * mask
        event = seen * mask
        sums = s.cumsum(1)[:, last].clamp(min=torch.finfo(x.dtype).tiny)
        means = (s.unsqueeze(2) * x).cumsum(1)[:, last] / sums.unsqueeze(2)
        # Σ over events no later than row i: rows are in the order of falling times, so from i's tie on
        late = (event / sums).flip(1).cumsum(1).flip(1)[:, first]
        loss = (event * (sums.log() + top - eta)).sum(1)
        slope = (event.unsqueeze(2) * (means - x)).sum(1)
        whole = (x.T * (s * late).unsqueeze(1)) @ x
        return Point(loss, slope, whole - (means * event.unsqueeze(2)).transpose(1, 2) @ means)


def _risk_sets(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows in the order of falling times; of each, the last and the first place of its tie in that order."""
    time = y.abs()
    order = time.argsort(descending=True, stable=True)
    falling = -time[order]
    return order, torch.searchsorted(falling, falling, right=True) - 1, torch.searchsorted(falling, falling)


def _added(one: Point, other: Point) -> Point:
    """Of some rows and of others."""
    return Point(*(a + b for a, b in zip(one, other, strict=True)))


def _outputs_of(theta: Tensor, x: Tensor, outputs: int) -> Tensor:
    """η [p, n, k] of coefficients [p, k·d]."""
    return torch.einsum("nd,pkd->pnk", x, theta.view(len(theta), outputs, x.shape[1]))


def _blocks(rows: int, each: int) -> Iterator[slice]:
    """Stretches of rows such that no operation on one is too large."""
    size = max(1, AT_ONCE // max(1, each))
    for first in range(0, max(1, rows), size):
        yield slice(first, min(rows, first + size))
