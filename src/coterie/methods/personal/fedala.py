"""FedALA: everybody takes over as much of the average as helps it, number by number.

Zhang, Hua, Wang, Song, Xue, Ma and Guan, 2023, "FedALA: Adaptive local aggregation for personalized federated
learning", AAAI 37(9), arXiv:2212.01197, algorithm 1.

    θ̂_i = θ_i + (θ - θ_i) ⊙ W_i             at client i, W_i learnt on some of its rows: kernels/ala.py
    θ_i ← LocalWork(θ̂_i)
    θ   ← Σ_i p_i θ_i,   p_i = n_i / Σ n     at the coordinator

θ is `shared`, θ_i is `own`, at home, and client i's model. W_i stays with the client; it is learnt in the
last p layers (`top`) on s % of the rows (`rows`) at rate η (`eta`): in a client's second round over and over
until its loss has settled, afterwards in one pass a round. In its first round a client takes θ as it is.

Info's `weights` are those of what a client began its round with: with ω the mean of W_i over all trained
parameters, ω p of the last average and 1 - ω of its own; a client in its first round has heard nobody. ω is
in the extras under `taken`.

Deviations. A visit is planned before it begins: the second round has `passes` passes at most, after settling
W rests. Rows are drawn at random, where the authors' program takes a stretch of them, and a last short batch
counts. `top` counts layers, a batch norm being one, where their program counts tensors. What is not trained,
as a norm's statistics, comes with θ. Who is away is not in θ and keeps θ_i and W_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.facts import kernel_fact
from coterie.core.held import together
from coterie.core.method import METHODS, first_of, handed_out, losses_of, scatter
from coterie.core.net import SERVER, settle, to_own
from coterie.core.options import bounded, check_options
from coterie.core.partners import WEIGHTS
from coterie.kernels.ala import ALA, SHARED, TAKEN, layers_of
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.server.fedavg import averaging_weights


@dataclass(frozen=True, eq=False)
class State:
    """What is carried on.

    shared    [1, ...] the average, at the coordinator
    own       [client, ...] each client's model, at home
    shares    [client] who had which part in the average
    rounds    [client] rounds in which a client has trained
    """

    shared: Held
    own: Held
    shares: Tensor
    rounds: Tensor


@METHODS.register("fedala")
@dataclass(frozen=True)
class FedALA:
    """Everybody's own model, begun anew from a learnt mix of it and the average."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        words={
            "en": "What is chosen is how much of the average each takes over, not of whom.",
            "fr": "Ce qui est choisi, c'est combien chacun reprend de la moyenne, et non de qui.",
            "de": "Gewählt wird, wie viel jeder vom Durchschnitt übernimmt, nicht von wem.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    eta: float = bounded(1.0, "be above 0 and finite", "try 1")
    """Learning rate of the mix."""
    rows: float = bounded(0.8, "lie above 0 and up to 1", "try 0.8")
    """Share of a client's training rows that the mix is learnt from in a round."""
    top: int = bounded(1, "be at least 0", "1 is the last layer, 0 all layers")
    """In how many layers, counted from the output, the mix is learnt; 0: in all. Others are the average's."""
    passes: int = bounded(20, "be at least 1", "try 20")
    """How often a client goes over these rows in its second round, at most; later once."""
    settled: float = bounded(0.1, "be at least 0 and finite", "try 0.1")
    """In that round the mix rests once the losses of ten passes have a standard deviation below this."""

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        layers = len(layers_of(list(start)))
        if self.top > layers:
            raise BadInput(
                f"top={self.top} must be at most {layers}, the model's layers: lower it, or 0 for all"
            )
        return ()

    def init(self, start: Held, net: Net) -> State:
        n = len(net.roster)
        nobody = torch.zeros(n, dtype=torch.float64)
        return State(first_of(start), handed_out(start, net), nobody, torch.zeros(n, dtype=torch.int64))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        begun, ready, taken = self.begun(state, net, key)
        replies = net.visit(self.local, begun, to_own(n)[ready], key)
        here, loss = replies.hosts, losses_of(replies, n)
        if len(here) == 0:
            return state, Info(torch.zeros(n, n, dtype=torch.float64), loss)
        shares = averaging_weights(net.roster.sizes[here], weighted=True)
        weights = heard(taken, state.shares)
        # the last average is there with no weight: what to go on with if all sites withdraw from the sum
        summed = torch.cat([shares, shares.new_zeros(1)]).unsqueeze(0)
        after = State(
            net.mix(summed, together([replies.beliefs.only(state.shared.names), state.shared]), SERVER),
            settle(net, state.own, replies),
            scatter(shares, here, n, empty=0),
            state.rounds.index_add(0, here, torch.ones_like(here)),
        )
        told = {net.roster.names[i]: float(taken[i]) for i in here.tolist() if state.rounds[i] > 0}
        reached = torch.zeros(n, 1, dtype=torch.float64).index_fill_(0, here, 1)
        return after, Info(weights * reached, loss, extras={TAKEN: told}, mixed=False)

    def begun(self, state: State, net: Net, key: Key) -> tuple[Held, Tensor, Tensor]:
        """θ̂ [client, ...], who has one [client], and ω [client]: newcomers have θ, and have heard nobody."""
        new = (state.rounds == 0).nonzero().flatten()
        begun, ready = state.own, state.rounds == 0
        taken = torch.zeros(len(state.own), dtype=torch.float64)
        if len(new):
            begun = begun.put(new, net.deliver(state.shared, torch.zeros_like(new), new))
        for who, passes in ((state.rounds == 1, self.passes), (state.rounds > 1, 1)):
            edges = to_own(len(state.own))[who]
            if len(edges) == 0:
                continue
            batch = int(kernel_fact(self.local, "batch")) or 32
            kernel = ALA(self.eta, self.rows, self.top, batch, passes, self.settled)
            beside = {SHARED: state.shared}
            replies = net.visit(kernel, state.own, edges, key.at("mix"), slot="mix", beside=beside)
            if len(replies):
                begun = settle(net, begun, replies)
                ready = ready.index_fill(0, replies.hosts, True)
                taken = taken.index_copy(0, replies.hosts, replies.numbers[TAKEN].double())
        return begun, ready, taken

    def models(self, state: State) -> Models:
        return Models(state.own, of=torch.arange(len(state.own)), shared=state.shared)

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, numbers=(*numbers_of(self.local), TAKEN))


def heard(taken: Tensor, shares: Tensor) -> Tensor:
    """[receiver, sender] ω_i p_j, and 1 - ω_i more of one's own."""
    return taken.unsqueeze(1) * shares + torch.diag(1 - taken)
