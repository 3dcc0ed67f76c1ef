"""Only choices leave: a host ranks the models that visit it at once, and tells which it likes best.

    chosen = 1 for the `keep` visitors of lowest loss, 0 for the others

No loss leaves the host. A choice alone is no bound on what it tells of a row: with noise in the losses that
are ranked, `choice(noisy(score))`, it is one, and costs what those losses cost. Of equals, who comes first is
chosen. Without losses it goes by the highest accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.contract import Charge, Key, Scorer
from coterie.core.errors import BadInput
from coterie.core.facts import kernel_fact
from coterie.core.kernel import KERNELS
from coterie.kernels.score import AroundScorer, Score

CHOSEN = "chosen"
USUAL = Score("train", ("loss",))


@KERNELS.register("choice")
@dataclass(frozen=True)
class Choice(AroundScorer):
    """Which of the models that visit a client at once do best there."""

    inner: Scorer = USUAL
    """What measures the loss by which they are ranked."""
    keep: int = 1
    """How many are chosen."""

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise BadInput(f"choice: keep={self.keep} must be at least 1: try 1")
        if kernel_fact(self.inner, "together"):
            raise BadInput("choice: models that predict together cannot be ranked: take choice(score)")

    def charges(self, samples: int) -> tuple[Charge, ...] | None:
        charges = kernel_fact(self.inner, "charges")
        return None if charges is None else charges(samples)

    def tell(
        self, figures: Mapping[str, Tensor], hosts: Sequence[int], keys: Sequence[Key]
    ) -> dict[str, Tensor]:
        """1 or 0 for each edge."""
        tell = kernel_fact(self.inner, "tell")
        found = figures if tell is None else tell(figures, hosts, keys)
        costs = found["loss"] if "loss" in found else -found["accuracy"]
        return {CHOSEN: lowest(costs, torch.tensor(list(hosts)), self.keep)}


def lowest(costs: Tensor, hosts: Tensor, keep: int) -> Tensor:
    """1 for the `keep` lowest costs [edge] of each host, else 0; what is no number comes last."""
    chosen = torch.zeros(len(costs), dtype=torch.float64)
    for host in torch.unique(hosts).tolist():
        mine = (hosts == host).nonzero().flatten()
        order = costs[mine].nan_to_num(nan=float("inf")).argsort(stable=True)
        chosen[mine[order[:keep]]] = 1
    return chosen
