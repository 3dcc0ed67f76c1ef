"""FedPer (Arivazhagan, Aggarwal, Singh and Choudhary, 2019, "Federated learning with personalization layers",
Algorithms 1 and 2): some layers are shared, the others stay at home.

    (u_k, v_k) ← LocalWork(u, v_k)     for each client k of the round's sample
    u ← Σ p_k u_k                      v_k stays at client k

v_k are the tensors that `home` names, the last layer if it names none; p_k are FedAvg's weights. v_k is sent
to nobody. With batch norms at home this is FedBN (`methods/server/norms.py`): the mechanism is the same, and
so is the state, with layers as its `norms`.

A model of one layer has nothing left to share if that stays at home, and is refused; home=*bias keeps only
its biases, so that all have the same slopes and each its own level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS
from coterie.core.options import bounded, check_options
from coterie.kernels.sgd import SGD
from coterie.methods.personal.at_home import names_at_home
from coterie.methods.server import fedavg
from coterie.methods.server.norms import parted_by


@METHODS.register("fedper")
@dataclass(frozen=True)
class FedPer:
    """FedAvg on some layers; each client keeps its own of the others, usually the last."""

    chooses: ClassVar[Partners] = Partners(shares="part")

    local: Trainer = SGD()
    """The work of a client in a round."""
    home: str = ""
    """Which tensors stay at home, by patterns with + between (head.*, *bias); none: the last layer."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return (f"stays at home: {', '.join(names_at_home(self.home, start))}",)

    def init(self, start: Held, net: Net) -> fedavg.State:
        names = names_at_home(self.home, start.like)
        return fedavg.State(*parted_by(names, start, net), len(net.roster))

    def round(self, state: fedavg.State, net: Net, key: Key) -> tuple[fedavg.State, Info]:
        return self.averaging.round(state, net, key)

    @property
    def averaging(self) -> fedavg.FedAvg:
        return fedavg.FedAvg(self.local, self.weighted, self.sample)

    def models(self, state: fedavg.State) -> Models:
        return self.averaging.models(state)

    def reveals(self) -> Reveals:
        return self.averaging.reveals()
