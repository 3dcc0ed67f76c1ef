"""What FL-SWAG is held against: one exchange of plain models (Makni, 2022, section 7.1; Guha et al., 2019).

    w_i ← LocalWork(w_i)                    for each client i of b, alone, in every round
    FedAvg     p(y|x, Σ_i a_i w_i)          a_i = 1/b        `one-shot-fedavg`
    wFedAvg    the same                     a_i = n_i / Σ n  `one-shot-wfedavg`
    BayAvg     Σ_i a_i p(y|x, w_i)          a_i = 1/b        `bayavg`
    wBayAvg    the same                     a_i = n_i / Σ n  `wbayavg`

n_i are the net's `sizes`, a_i comes from `averaging_weights`. Before the last round a client's model is its
own. With the kernel swag the models are its means, as in the paper, of the last round. BayAvg sends every
model to everyone; the paper lets clients exchange predictions instead, for each question anew. Who does not
answer in the last round is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.kernel import Trainer
from coterie.core.method import METHODS, Info, Models
from coterie.core.net import Net, Replies, to_own
from coterie.core.seeds import Key
from coterie.kernels.sgd import SGD
from coterie.methods.baselines.local import by_oneself
from coterie.methods.one_shot.alone import plainly
from coterie.methods.server.fedavg import averaging_weights, server_info


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...] and memory; after the exchange, shares [client] and average."""

    own: Beliefs
    memory: Beliefs | None = None
    shares: Tensor | None = None
    joint: Beliefs | None = None


@METHODS.register("one-shot-fedavg")
@dataclass(frozen=True)
class OneShotFedAvg:
    """One exchange: the average of models that were trained alone."""

    local: Trainer = SGD()
    """The work of a client in a round."""
    weighted: bool = False
    """Weigh clients by their number of training samples, or all alike."""

    def check(self, names: Sequence[str], rounds: int) -> None:
        """Works for any number of clients and rounds."""

    def init(self, beliefs: Beliefs, clients: int) -> State:
        return State(tree.repeat(beliefs, clients))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.names)
        plain, memory = plainly(self.local), state.memory
        if key.round == key.rounds and plain != self.local:
            plain, memory = self.local, None  # what is averaged is collected in the last round alone
        replies = net.visit(plain, state.own, to_own(n), key, memory)
        own = net.settle(state.own, replies)
        if key.round < key.rounds or len(replies) == 0:
            return State(own, replies.memory), by_oneself(n, replies)
        shares = averaging_weights(net.sizes[replies.hosts], self.weighted)
        info = server_info(n, replies, shares)
        joint = self.joined(net, shares, replies)
        return State(own, replies.memory, info.weights[0].clone(), joint), self.counted(info)

    def joined(self, net: Net, shares: Tensor, replies: Replies) -> Beliefs | None:
        return net.mix(shares.unsqueeze(0), replies)

    def counted(self, info: Info) -> Info:
        """The server sends the average to everyone."""
        return replace(info, received=torch.ones_like(info.received))

    def models(self, state: State, clients: int) -> Models:
        if state.joint is None:
            return Models(state.own, of=torch.arange(clients))
        return Models(state.joint, of=torch.zeros(clients, dtype=torch.int64), shared=0)


@METHODS.register("one-shot-wfedavg")
@dataclass(frozen=True)
class OneShotWFedAvg(OneShotFedAvg):
    """One exchange: the average, by numbers of samples, of models that were trained alone."""

    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""


@METHODS.register("bayavg")
@dataclass(frozen=True)
class BayAvg(OneShotFedAvg):
    """One exchange: the average prediction of models that were trained alone."""

    def joined(self, net: Net, shares: Tensor, replies: Replies) -> None:
        """All models stay what they are."""

    def counted(self, info: Info) -> Info:
        """Everyone gets the models of all that answered but its own."""
        others = info.sent.sum() - info.sent
        return replace(info, sent=info.sent * (len(info.sent) - 1), received=others)

    def models(self, state: State, clients: int) -> Models:
        of = torch.arange(clients)
        if state.shares is None:
            return Models(state.own, of=of)
        crowd = of.expand(clients, clients)
        return Models(state.own, of=of, crowd=crowd, shares=state.shares.expand(clients, clients))


@METHODS.register("wbayavg")
@dataclass(frozen=True)
class WBayAvg(BayAvg):
    """One exchange: the average prediction, by numbers of samples, of models that were trained alone."""

    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
