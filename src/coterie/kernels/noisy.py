"""Scores with noise: what they say of any single row is bounded, and paid for.

    loss       1/n Σ_i min(max(l_i, 0), b)  +  σ b/n ξ
    accuracy   1/n Σ_i [right_i]            +  σ /n ξ'          ξ, ξ' standard normal

b is `bound`, σ is `sigma`, n the number of rows, which is public. One row counts for b/n and for 1/n at the
most, so each of the two figures costs a Gaussian with noise σ (Dwork and Roth 2014, appendix A; for losses of
peers, Karlsson's PENS leaves them in the clear). AUC, balanced accuracy, calibration and counts have no such
bound that would leave something of them, and are withheld. What noise carries below 0, or above b or 1, is
told as that: methods weigh by it, and it costs nothing more.

The noise of a visit is its key's own, as every random number of a visit is: the same on every engine. A site
of its own puts a secret in the place of that key (`federation/site/budget.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coterie.core.contract import Charge, Groups, Key, Task
from coterie.core.errors import BadInput
from coterie.core.facts import called, kernel_fact
from coterie.core.kernel import KERNELS
from coterie.kernels.calibrate import Calibrate
from coterie.kernels.fold import HeldOut
from coterie.kernels.score import AroundScorer, Beside, Crowd, Score

FIGURES = ("loss", "accuracy")  # whose bound is known
NO_BOUND = "scores of a survival compare rows, so that no noise hides one: send them in the clear, or none"
BOUNDED = (Score, Calibrate, HeldOut, Crowd, Beside)  # whose figures of these names are means over rows


@KERNELS.register("noisy")
@dataclass(frozen=True)
class Noisy(AroundScorer):
    """Mean loss and accuracy with noise; other figures stay at the client."""

    bound: float = 4.0
    """Losses of single rows are cut off here."""
    sigma: float = 20.0
    """Standard deviation of the noise, in units of what one row can change."""

    def __post_init__(self) -> None:
        if not accountable(self.inner):
            raise BadInput(
                f"noisy({called(self.inner)}): its figures have no bound by row: take noisy(score)"
            )
        for name in ("bound", "sigma"):
            if not 0 < getattr(self, name) < float("inf"):
                raise BadInput(f"noisy: {name}={getattr(self, name)} must lie above 0 and be finite: try 4")

    @property
    def together(self) -> bool:
        return bool(kernel_fact(self.inner, "together"))

    def charges(self, samples: int) -> tuple[Charge, ...]:
        return (Charge(self.sigma, times=len(_figures_of(self.inner))),)

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        if task == "survival":
            raise BadInput(f"noisy({called(self.inner)}): {NO_BOUND}")
        cut_off = losses.nan_to_num(nan=self.bound).clamp(0, self.bound)  # what is no number as the bound
        found = self.inner.measure(task, outputs, cut_off, y, groups)
        told = {name: found[name] for name in _figures_of(self.inner) if name in found}
        return {**told, "samples": found.get("samples", groups.sizes.double())}

    def tell(
        self, figures: Mapping[str, Tensor], hosts: Sequence[int], keys: Sequence[Key]
    ) -> dict[str, Tensor]:
        """Figures [edge] as they leave, with the noise of each edge's key."""
        drawn = [torch.randn(2, generator=k.at("noise").torch(), dtype=torch.float64) for k in keys]
        noise, rows = dict(zip(FIGURES, torch.stack(drawn).T, strict=True)), figures["samples"].double()
        most = {"loss": self.bound, "accuracy": 1.0}
        told = {
            name: (values.double() + self.sigma * most[name] / rows * noise[name]).clamp(0, most[name])
            for name, values in figures.items()
            if name in FIGURES
        }
        named = kernel_fact(_innermost(self.inner), "numbers") or ()
        return told | ({"samples": figures["samples"]} if not named or "samples" in named else {})


def _innermost(scorer: Any) -> Any:
    """What measures in the end, inside of crowds and metrics of one's own."""
    return _innermost(scorer.inner) if isinstance(scorer, Crowd | Beside) else scorer


def accountable(scorer: Any) -> bool:
    """Whether its loss and accuracy are means over rows, and it tells one of them."""
    return (
        isinstance(scorer, BOUNDED) and isinstance(_innermost(scorer), BOUNDED) and bool(_figures_of(scorer))
    )


def _figures_of(scorer: Any) -> tuple[str, ...]:
    """Which of the two figures a scorer tells."""
    inner = _innermost(scorer)
    if isinstance(inner, HeldOut):
        return ("loss",)
    named = kernel_fact(inner, "numbers") or ()
    return tuple(name for name in FIGURES if not named or name in named)


def as_written(kernel: Any) -> str:
    """A kernel as people write it: fold(sgd)."""
    inner = kernel_fact(kernel, "inner")
    return called(kernel) if inner is None else f"{called(kernel)}({as_written(inner)})"
