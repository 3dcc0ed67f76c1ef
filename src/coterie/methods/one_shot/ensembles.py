"""What FL-SWAG is held against: one exchange of plain models (Makni, 2022, section 7.1; Guha et al., 2019).

    w_i ← LocalWork(w_i)                    for each client i of b, alone, in every round
    FedAvg     p(y|x, Σ_i a_i w_i)          a_i = 1/b        `one-shot-fedavg`
    wFedAvg    the same                     a_i = n_i / Σ n  `one-shot-wfedavg`
    BayAvg     Σ_i a_i p(y|x, w_i)          a_i = 1/b        `bayavg`
    wBayAvg    the same                     a_i = n_i / Σ n  `wbayavg`

n_i are the roster's `sizes`, a_i comes from `averaging_weights`. Before the last round a client's model is
its own. With the kernel swag the models are its means, as in the paper, of the last round. In that round
everybody sends its model to everybody, who averages models or, with BayAvg, keeps them to average what they
predict; the paper lets clients exchange predictions instead, for each question anew. Nothing passes by the
coordinator. Who does not answer in the last round is left out, and stays with its own model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS, handed_out
from coterie.core.net import settle, to_own
from coterie.core.partners import NOBODY
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.baselines.local import by_oneself
from coterie.methods.one_shot.alone import plainly
from coterie.methods.server.fedavg import averaging_weights, server_info


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], at home; after the exchange, the shares [client]."""

    own: Held
    shares: Tensor | None = None


@METHODS.register("one-shot-fedavg")
@dataclass(frozen=True)
class OneShotFedAvg:
    """One exchange: the average of models that were trained alone."""

    chooses: ClassVar[Partners] = Partners(shares="model")

    local: Trainer = SGD()
    """The work of a client in a round."""
    weighted: bool = False
    """Weigh clients by their number of training samples, or all alike."""

    paced: ClassVar[str] = "exchanges models in its last round"

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, plain, slot = len(net.roster), plainly(self.local), ""
        if key.round == key.rounds and plain != self.local:
            plain, slot = self.local, "collect"  # what is averaged is collected in the last round alone
        replies = net.visit(plain, state.own, to_own(n), key, slot)
        own = settle(net, state.own, replies)
        if key.round < key.rounds or len(replies) == 0:
            return State(own), by_oneself(n, replies)
        here = replies.hosts
        shares = averaging_weights(net.roster.sizes[here], self.weighted)
        everyone = server_info(n, replies, shares)
        away = torch.ones(n, 1, dtype=torch.bool).index_fill_(0, here, False)
        info = replace(everyone, weights=everyone.weights.masked_fill(away, 0))
        return State(self.exchanged(own, here, shares, net), everyone.weights[0].clone()), info

    def exchanged(self, own: Held, here: Tensor, shares: Tensor, net: Net) -> Held:
        """Everybody's model after it: Σ a_i w_i for those who answered."""
        return own.put(here, net.mix(shares.expand(len(here), -1), own.rows(here), here))

    def models(self, state: State) -> Models:
        return Models(state.own, of=torch.arange(len(state.own)))

    def reveals(self) -> Reveals:
        return Reveals(sites=True, numbers=numbers_of(self.local))


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

    chooses: ClassVar[Partners] = NOBODY

    common: ClassVar[bool] = True

    def exchanged(self, own: Held, here: Tensor, shares: Tensor, net: Net) -> Held:
        """All models stay what they are, and everybody has them."""
        net.share(own.rows(here), here)
        return own

    def models(self, state: State) -> Models:
        n = len(state.own)
        of = torch.arange(n)
        if state.shares is None:
            return Models(state.own, of=of)
        # who was away has its own model alone
        away = state.shares == 0
        crowd = torch.where(away.unsqueeze(1), of.unsqueeze(1), of.expand(n, n))
        shares = torch.where(away.unsqueeze(1), torch.eye(n, dtype=torch.float64), state.shares.expand(n, n))
        return Models(state.own, of=of, crowd=crowd, shares=shares)


@METHODS.register("wbayavg")
@dataclass(frozen=True)
class WBayAvg(BayAvg):
    """One exchange: the average prediction, by numbers of samples, of models that were trained alone."""

    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
