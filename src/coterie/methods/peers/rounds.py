"""The round that all methods without a server share. A method says whom to ask, whom to pick, what to learn.

    w_k ← LocalWork(w_k)
    w_k ← Σ_j W_kj w_j,   W_kj > 0 for oneself and the picked,   Σ_j W_kj = 1

Karlsson and Onoszko, 2021, "PENS: Leveraging Data Heterogeneity in Federated Learning",
algorithms 1 to 5, section 3.4.
W is Info's `weights`. When the averaging happens is the `order`:

thesis      all train; then clients average one after the other, in a random order drawn for each round, and
            see the new models of those before them. Averages are linear in the trained models, so that one
            mix is enough: E_k = Σ_j W_kj (E_j if j came before k, else the j-th unit vector)   effective
program     one client after the other, in random order, averages and then trains at once; those after it
            see its new model. Nobody trains before its first averaging.
at-once     all train, then all average the trained models at the same moment.

Scores are those of the models before the averaging: of all trained ones, or, in `program`, of the models as
they are when the client's turn comes. A pair of model and data is scored once in a round.

Deviations. Whoever is gone keeps its model, is not picked and not averaged with. Whoever has stopped early
neither trains nor averages, yet serves others. Integers (batch norm's counters) come from the heaviest
sender of E. Models go from peer to peer in the clear, so averages need no sealed replies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput, UnknownName
from coterie.core.kernel import Part, Trainer
from coterie.core.method import Facts, Info, Models, check_validation, scatter
from coterie.core.net import Net, edges_of, to_own
from coterie.core.seeds import Key
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.methods.peers import stopping
from coterie.methods.peers.picks import Asked, alike, counts, distinct, effective, last_of
from coterie.methods.peers.turns import (
    Scores,
    State,
    Turns,
    among,
    going_on,
    merits,
    nothing_scored,
    present,
    put_rows,
    reached,
    write,
)

Order = Literal["thesis", "program", "at-once"]
Direction = Literal["mine-on-theirs", "theirs-on-mine"]
Shown = tuple[dict[str, Any], dict[str, Tensor]]


@dataclass(frozen=True)
class Peers(ABC):
    """Everybody with a model of its own, averaged with those of some others; a method says whose."""

    local: Trainer = SGD()
    """The work of a client in a round."""
    order: Order = "thesis"
    """All train and then average in turn (thesis), each averages and trains in turn (program), or at-once."""
    patience: int = 0
    """Stop a client after so many rounds without a better validation accuracy; 0: never."""
    window: int = 5
    """Rounds over which early stopping averages the validation accuracy."""

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            raise UnknownName("order", str(self.order), get_args(Order))
        if self.patience < 0:
            raise BadInput(f"patience={self.patience} must be at least 0: 0 never stops early")
        if self.window < 1:
            raise BadInput(f"window={self.window} must be at least 1: try 5")

    def check(self, names: Sequence[str], rounds: int) -> None:
        if len(names) < 2:
            raise BadInput(f"peers need at least 2 clients; got {len(names)}: add some or use local")

    def look(self, clients: Sequence[Facts], key: Key) -> list[str]:
        """Refuses what these clients lack; what is worth saying of them."""
        if self.patience:
            check_validation(clients, f"patience={self.patience}", "set patience=0")
        return []

    # what a method is made of: only `ask` has to be given

    def begin(self, clients: int) -> Mapping[str, Tensor]:
        """The first notes."""
        return {}

    @abstractmethod
    def ask(self, net: Net, notes: Mapping[str, Tensor], key: Key) -> Asked:
        """The others that each client turns to, for each of its samplings."""

    def scoring(self, key: Key) -> Direction | None:
        """Whose model is scored on whose training data in this round, if any."""
        return None

    def own_part(self) -> Part | None:
        """On which of its own data a client scores its own model too."""
        return None

    def pick(self, asked: Sequence[Tensor], merit: Tensor, key: Key) -> list[Tensor]:
        """Whom a client picks of each sampling, by merit [client]; the last ones are averaged with."""
        return list(asked)

    def weigh(self, me: int, picked: Tensor, merit: Tensor, key: Key) -> Tensor:
        """A row of W [client]: all alike."""
        return alike(me, picked, len(merit))

    def learn(self, notes: Mapping[str, Tensor], turns: Turns, key: Key) -> Mapping[str, Tensor]:
        return notes

    def work(self, key: Key) -> Trainer:
        return self.local

    def show(self, turns: Turns, notes: Mapping[str, Tensor], key: Key) -> Shown:
        """Further extras and matrices."""
        return {}, {}

    def watching(self, key: Key) -> bool:
        """Whether early stopping, if wanted, looks at this round."""
        return True

    # the shared round

    def init(self, beliefs: Beliefs, clients: int) -> State:
        own = tree.repeat(beliefs, clients)
        if not self.patience:
            return State(own, self.begin(clients), {})
        return State(own, self.begin(clients), stopping.begin(clients, self.window), own)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.names)
        asked = self.ask(net, state.notes, key)
        order = torch.randperm(n, generator=key.at("order").torch()).tolist()
        play = self.one_by_one if self.order == "program" else self.together
        turns = play(state, net, key, asked, order)
        notes = self.learn(state.notes, turns, key)
        state = self.settle(state, turns, notes, net, key)
        return state, self.info(turns, state, key)

    def models(self, state: State, clients: int) -> Models:
        return Models(state.beliefs, of=torch.arange(clients))

    def together(self, state: State, net: Net, key: Key, asked: Asked, order: Sequence[int]) -> Turns:
        """All train, all score, all average: in one visit, one visit and one mix."""
        n, going = len(net.names), going_on(state)
        replies = net.visit(self.work(key), state.beliefs, to_own(n)[going], key, state.memory)
        trained = net.settle(state.beliefs, replies)
        who, acting = replies.hosts, among(replies.hosts, n)
        here = acting | present(net, trained, ~going, key)
        asked = reached(asked, acting, here)
        scores = self.score(net, trained, asked, who.tolist(), key)
        weights = torch.diag((here & ~going).double())
        picked: Asked = [[] for _ in range(n)]
        for k in who.tolist():
            weights[k], picked[k] = self.choose(k, asked[k], scores.merit[k], key)
        in_turn = [k for k in order if acting[k]]
        mixing = effective(weights, in_turn) if self.order == "thesis" else weights
        beliefs = tree.put(trained, who, tree.mix(mixing[who], trained)) if len(who) else trained
        loss = scatter(replies.numbers.get("loss", torch.zeros(0)), who, n)
        return Turns(beliefs, replies.memory, here, asked, picked, weights, scores, loss)

    def one_by_one(self, state: State, net: Net, key: Key, asked: Asked, order: Sequence[int]) -> Turns:
        """Each in turn scores, averages and trains; those after it see its new model."""
        n, going, memory = len(net.names), going_on(state), state.memory
        here = present(net, state.beliefs, torch.ones(n, dtype=torch.bool), key)
        asked = reached(asked, here & going, here)
        own = {name: t.clone() for name, t in state.beliefs.items()}  # ours to write into, row by row
        scores = nothing_scored(n)
        weights = torch.diag((here & ~going).double())
        picked: Asked = [[] for _ in range(n)]
        loss = torch.full((n,), math.nan, dtype=torch.float64)
        for k in (k for k in order if here[k] and going[k]):
            found = self.score(net, own, asked, [k], key)
            scores.merit[k] = found.merit[k]
            scores = Scores(scores.merit, max(scores.by, found.by))  # loss, as soon as anybody goes by it
            weights[k], picked[k] = self.choose(k, asked[k], found.merit[k], key)
            senders = weights[k].nonzero().flatten()
            write(own, k, tree.mix(weights[k, senders].unsqueeze(0), tree.rows(own, senders)))
            replies = net.visit(self.work(key), own, edges_of([(k, k)]), key, memory)
            if len(replies):
                write(own, k, net.mix(torch.ones(1, 1), replies))
                memory, loss[k] = replies.memory, replies.numbers["loss"][0]
        return Turns(own, memory, here, asked, picked, weights, scores, loss)

    def choose(
        self, me: int, asked: Sequence[Tensor], merit: Tensor, key: Key
    ) -> tuple[Tensor, list[Tensor]]:
        """A client's row of W, and whom it picked of each sampling; only who answered can be picked."""
        known = [s[~merit[s].isnan()] for s in asked] if self.scoring(key) else asked
        picked = self.pick(known, merit, key.at("pick", me))
        return self.weigh(me, last_of(picked), merit, key), picked

    def score(self, net: Net, beliefs: Beliefs, asked: Asked, who: Sequence[int], key: Key) -> Scores:
        """Merits of those that the clients in `who` asked, each pair once; their own on the diagonal."""
        scores, direction, own = nothing_scored(len(net.names)), self.scoring(key), self.own_part()
        if direction:
            pairs = edges_of([(k, j) for k in who for j in distinct(asked[k])])
            edges = pairs if direction == "mine-on-theirs" else pairs.flip(1)
            replies = net.visit(Score("train"), beliefs, edges, key.at("score"))
            answered = replies.edges if direction == "mine-on-theirs" else replies.edges.flip(1)
            merit, by = merits(replies, by_loss=direction == "theirs-on-mine")
            scores.merit[answered[:, 0], answered[:, 1]] = merit
            scores = Scores(scores.merit, by)
        if own:
            replies = net.visit(Score(own), beliefs, to_own(len(net.names))[list(who)], key.at("own"))
            merit, by = merits(replies)
            scores.merit[replies.hosts, replies.hosts] = merit
            scores = Scores(scores.merit, by)
        return scores

    def settle(self, state: State, turns: Turns, notes: Mapping[str, Tensor], net: Net, key: Key) -> State:
        """The state after the round; with early stopping, who stops goes back to its best model."""
        if state.best is None or not self.watching(key):
            return State(turns.beliefs, notes, state.watch, state.best, turns.memory)
        n, updated = len(net.names), turns.here & going_on(state)
        replies = net.visit(Score("validation"), turns.beliefs, to_own(n)[updated], key.at("validation"))
        watched, better = stopping.watch(
            state.watch, scatter(merits(replies)[0], replies.hosts, n), self.patience
        )
        best = put_rows(state.best, better, turns.beliefs)
        ends = watched["stopped"] & ~state.watch["stopped"]
        return State(put_rows(turns.beliefs, ends, best), notes, watched, best, turns.memory)

    def info(self, turns: Turns, state: State, key: Key) -> Info:
        direction = self.scoring(key)
        n = len(turns.here)
        requests, taken = counts(turns.asked, n), counts([[last_of(p)] for p in turns.picked], n)
        if not direction:
            to, back = torch.zeros_like(requests), taken
        elif direction == "mine-on-theirs":
            to, back = requests, taken
        else:  # models come to be scored; only in the thesis' order may a newer one be averaged with
            to, back = torch.zeros_like(requests), requests + (taken if self.order == "thesis" else 0)
        extras, matrices = self.show(turns, state.notes, key)
        if direction:
            matrices = {turns.scores.by: turns.scores.shown, **matrices}
            repeated = int((requests - 1).clamp(min=0).sum())
            extras = {"repeated_requests": repeated, **extras}
        if self.patience:
            extras = {"stopped": int(state.watch["stopped"].sum()), **extras}
        return Info(
            weights=turns.weights,
            sent=to.sum(dim=1) + back.sum(dim=0),
            received=to.sum(dim=0) + back.sum(dim=1),
            loss=turns.loss,
            extras={"neighbours": taken.sum(dim=1).tolist(), **extras},
            matrices=matrices,
        )
