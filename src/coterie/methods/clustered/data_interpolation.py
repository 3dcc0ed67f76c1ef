"""Data interpolation: each client learns from its own rows and, to a chosen part, from everybody's.

Mansour, Mohri, Ro and Suresh, 2020, "Three Approaches for Personalization with Applications to Federated
Learning", section 4 (DAPPER). Client i wants the model that is best for the mixture λ D_i + (1 - λ) C of its
own rows D_i and all clients' rows C:

    w_i = argmin_w  λ L_i(w) + (1 - λ) Σ_j p_j L_j(w),   p_j = n_j / Σ n

and takes the λ, of some, that does best on rows of its own which it has held out. λ is `lam`, those to try
are `grid`. Rows stay where they are: in each round w_i visits its own client and others, which train it, and

    w_i ← (λ + (1 - λ) p_i) w_ii + (1 - λ) (1 - p_i) Σ_{j∈S_i} n_j w_ij / Σ_{j∈S_i} n_j       interpolated

with w_ij = LocalWork_j(w_i), summed up at client i. S_i are `others` clients, drawn anew in each round: a
sample of everybody's rows, as DAPPER takes one; 0 asks all. With one step of plain SGD on all rows and
everybody asked, this is a step down the gradient of the mixed loss. λ = 1 is training alone.

With lam=auto each client has a model for every λ of the grid; in each round it tries them on its validation
rows and tells which it takes (`chosen`), no loss.

Deviations. DAPPER sends a sample of the others' rows to each client, which trains there: here models go to
the rows instead, one for each client and λ, and more than one local step makes an average of ways, not of
gradients. DAPPER begins with a model that was trained on all rows; here everybody begins with the run's
first one. C is everybody, not a cluster. Who does not answer leaves the sum to those of S_i who do; a client
that is away itself keeps its models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.method import METHODS, check_validation, handed_out, scatter
from coterie.core.method import loss_by_reply as told_losses
from coterie.core.options import bounded, check_options
from coterie.core.partners import WEIGHTS
from coterie.kernels.around import numbers_of
from coterie.kernels.choice import CHOSEN, Choice
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD

HELD_OUT = Choice(Score("validation", ("loss",)))


@dataclass(frozen=True, eq=False)
class State:
    """The models of all clients [client · λ, ...], at home, and which λ each takes at present [client]."""

    beliefs: Held
    taken: Tensor


@METHODS.register("data-interpolation")
@dataclass(frozen=True)
class DataInterpolation:
    """A model for each client, trained on its own rows and to a chosen part on those of others."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        words={
            "en": "What is chosen is how much everybody's rows count beside your own, not whose.",
            "fr": "Ce qui est choisi, c'est combien comptent les lignes de tous à côté des vôtres, et "
            "non lesquelles.",
            "de": "Gewählt wird, wie viel die Zeilen aller neben Ihren eigenen zählen, nicht wessen.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round; steps=1 makes the sum a step down the gradient of the mixed loss."""
    lam: float | Literal["auto"] = bounded(0.5, "lie between 0 and 1", "try 0.5 or auto", besides="auto")
    """How much its own rows count, from 0 (as everybody's) to 1 (alone); auto: by validation rows."""
    grid: tuple[float, ...] = (0.0, 0.5, 1.0)
    """With lam=auto, the values to try; each costs as much as one run."""
    others: int = bounded(2, "be at least 0", "try 2, or 0 for all")
    """How many others train a client's model in a round, drawn anew each time; 0: all of them."""

    def __post_init__(self) -> None:
        check_options(self)
        if len(set(self.grid)) < max(2, len(self.grid)) or not all(0 <= value <= 1 for value in self.grid):
            raise BadInput(f"grid={self.grid} must be two or more different values from 0 to 1: try 0 0.5 1")
        if self.local.keeps:
            raise BadInput(
                "keep=true does not go with data-interpolation, as a client trains models of several: "
                "set keep=false"
            )

    @property
    def lambdas(self) -> Tensor:
        """[λ] the values that models are made for."""
        return torch.tensor(self.grid if self.lam == "auto" else (self.lam,), dtype=torch.float64)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        if len(roster) < 2:
            raise BadInput(f"data-interpolation needs at least 2 clients; got {len(roster)}: use local")
        if self.others >= len(roster):
            raise BadInput(
                f"others={self.others} must be below {len(roster)}, the number of clients: try 0 for all"
            )
        if self.lam == "auto":
            check_validation(roster, "lam=auto", "set lam to a number")
        return ()

    def init(self, start: Held, net: Net) -> State:
        n, each = len(net.roster), len(self.lambdas)
        own = handed_out(start, net).rows(torch.arange(n).repeat_interleave(each))
        return State(own, torch.full((n,), each // 2))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, lambdas = len(net.roster), self.lambdas
        asked = others_of(n, self.others or n - 1, key.at("others"))
        replies = net.visit(self.local, state.beliefs, edges_to(asked, lambdas), key)
        guests, heard = replies.guests, torch.zeros(n * len(lambdas), n, dtype=torch.bool)
        heard[guests, replies.hosts] = True
        owners = torch.arange(n).repeat_interleave(len(lambdas))
        home = heard[torch.arange(len(heard)), owners].nonzero().flatten()  # models whose own client answered
        weights = interpolated(heard, owners, lambdas.repeat(n), net.roster.sizes)
        beliefs, taken = state.beliefs, state.taken
        if len(home):
            rows = torch.where(home.unsqueeze(1) == guests, weights[home][:, replies.hosts], 0.0)
            beliefs = beliefs.put(home, net.mix(rows, replies.beliefs, owners[home]))
            taken = self.choose(beliefs, taken, net, key)
        after = State(beliefs, taken)
        mine, own = self.models(after).of, (replies.hosts == owners[guests]).nonzero().flatten()
        own = own[guests[own] == mine[replies.hosts[own]]]
        return after, Info(
            torch.where(torch.isin(mine, home).unsqueeze(1), weights[mine], 0.0),
            scatter(told_losses(replies)[own], replies.hosts[own], n),
            extras={"lambda": dict(zip(net.roster.names, lambdas[taken].tolist(), strict=True))},
        )

    def choose(self, beliefs: Held, before: Tensor, net: Net, key: Key) -> Tensor:
        """[client] the λ whose model does best on its validation rows."""
        if self.lam != "auto":
            return before
        n, each = len(before), len(self.lambdas)
        edges = torch.stack([torch.arange(n * each), torch.arange(n).repeat_interleave(each)], dim=1)
        told = net.visit(HELD_OUT, beliefs, edges, key.at("choose"))
        if len(told) == 0:
            return before
        best = told.edges[told.numbers[CHOSEN] > 0]
        return before.index_copy(0, best[:, 1], best[:, 0] % each)

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.taken)) * len(self.lambdas) + state.taken)

    def reveals(self) -> Reveals:
        chosen = (CHOSEN,) if self.lam == "auto" else ()
        return Reveals(sites=True, numbers=(*numbers_of(self.local), *chosen))


def others_of(n: int, some: int, key: Key) -> Tensor:
    """[client, n] S_i: so many others of each, drawn without repeats."""
    drawn = torch.rand(n, n, generator=key.torch(), dtype=torch.float64).fill_diagonal_(math.inf)
    first = drawn.argsort(dim=1)[:, :some]
    return torch.zeros(n, n, dtype=torch.bool).scatter_(1, first, True)


def edges_to(asked: Tensor, lambdas: Tensor) -> Tensor:
    """(model, host): each client's models go to itself and, unless λ = 1, to those that it asks."""
    own = torch.eye(len(asked), dtype=torch.bool)
    going = (asked.unsqueeze(1) & (lambdas < 1).unsqueeze(1)) | own.unsqueeze(1)
    return going.flatten(0, 1).nonzero()


def interpolated(heard: Tensor, owners: Tensor, lambdas: Tensor, sizes: Tensor) -> Tensor:
    """[model, host] weights of w_ij in the next w_i, adding up to 1, over the hosts that are `heard`."""
    p = sizes.double()[owners] / sizes.double().sum()
    own = torch.arange(heard.shape[1]) == owners.unsqueeze(1)
    others = torch.where(heard & ~own, sizes.double(), 0.0)
    total = others.sum(dim=1)
    far = torch.where(total > 0, (1 - lambdas) * (1 - p), 0.0)
    shares = others / total.clamp(min=1).unsqueeze(1) * far.unsqueeze(1)
    return shares + own * (1 - far).unsqueeze(1)
