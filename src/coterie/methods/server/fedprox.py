"""FedProx: federated averaging in which nobody goes far from the model of the round.

Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, 2020, "Federated optimization in heterogeneous networks"
(MLSys), algorithm 2.

    w_k ≈ argmin_v  F_k(v) + μ/2 ‖v - w‖²     for each client k of the round's sample S
    w   ← Σ_{k∈S} p_k w_k

μ is `mu`; what "≈" means is local work's business, whose gradients get μ (v - w) added (the kernel
`tethered`). With mu=0 it is `fedavg`, bit for bit.

Deviations. The paper draws S with probabilities p_k and averages with equal weights; here S is drawn evenly
and the average weighed, as in `fedavg` and as in the authors' program (litian96/FedProx,
flearn/trainers/fedbase.py). Clients with too little time for all their work are not simulated. With
norm=local a client's own norms are held near what they were at the start of its visit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coterie.core.kernel import Trainer
from coterie.core.method import METHODS
from coterie.core.options import bounded
from coterie.kernels.proximal import Tethered
from coterie.methods.server.fedavg import FedAvg


@METHODS.register("fedprox")
@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg with local work that is pulled back towards the shared model."""

    mu: float = bounded(0.01, "be at least 0 and finite", "try 0.01")
    """How strong the pull is; 0 is fedavg."""

    searched: ClassVar[tuple[str, ...]] = ("mu=0.001..10:log",)

    @property
    def work(self) -> Trainer:
        return Tethered(self.local, self.mu)
