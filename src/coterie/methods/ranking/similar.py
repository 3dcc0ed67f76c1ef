"""Similarity before training: others ranked by how alike their rows are, from a few numbers of each site.

    C_ij = d_ij - E d_ij            by quantiles or transport: the distance beyond what chance alone makes
    C_ij = -n_j                     by size: the control
    U_i = {i} ∪ {the k others of lowest C_ij}  and/or  {i} ∪ {j : C_ij < θ};  then FedAvg within U_i

`quantiles`: 19 quantiles of each column leave a site, and d_ij is their mean distance in deviations
(`metrics/alike.py`). `transport`: mean and covariance of each class leave it, and d_ij is what it takes to
carry one site's classes to the other's (`metrics/transport.py`). Both look at training rows alone, as the
model gets them. `size` needs nothing that the roster does not have: a measure that ranks no better than it
has seen no similarity, only that much data is worth having. k is `best`, θ is `threshold`.

`also` measures more without ranking by it: the other sketch, and the adapted Ndoye factor (`ndoye.py`), for
which models are trained and exchanged. A class that has fewer than `least` rows at a site is not told of. How
many rows of each class there are is taken from the roster where sites make it public; otherwise all classes
that a site tells of count alike.

With `epsilon` > 0 sketches have noise (`kernels/sketches.py`): σ is the least that keeps all sketches of a
run together within (ε, δ) at each site, by the analytic Gaussian mechanism (`privacy/accounting.py`); of m
sketches each gets √m σ. What noise is expected to add to a distance is taken off with what chance adds. A
site is called drowned if noise alone is expected to make half of its distances or more.

The first round ranks and leaves the beliefs alone; from the second on the circles train (`circles`). The
comparison of columns is common; that it says who helps is not: see docs/similarity.md, where it is tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput, Gathered, UnknownName
from coterie.core.facts import ALL
from coterie.core.method import METHODS, asking, handed_out, only_for
from coterie.core.net import to_own
from coterie.core.options import bounded, check_options
from coterie.kernels.score import Here
from coterie.kernels.sgd import SGD
from coterie.kernels.sketches import Moments, Quantiles, column_count, column_names
from coterie.methods.ranking import circles
from coterie.methods.ranking.circles import Ranking, State
from coterie.methods.ranking.ndoye import Ndoye
from coterie.methods.ranking.sketched import (
    NDOYE,
    SKETCHES,
    Measured,
    drowned,
    matrices_of,
    size_of,
    sketch_distances,
    sketch_told,
    told_by,
)
from coterie.privacy.accounting import check_budget, check_delta, sigma_of

By = Literal["quantiles", "transport", "size"]
COST = "dissimilarity"


@METHODS.register("similar")
@dataclass(frozen=True)
class Similar:
    """Ranks others by how alike their rows are, then trains with the nearest of them."""

    chooses: ClassVar[Partners] = Partners(
        by={"dissimilarity": "low"},
        shares="model",
        ranks=True,
        words={
            "en": "A circle of those whose rows look most like yours.",
            "fr": "Un cercle de ceux dont les lignes ressemblent le plus aux vôtres.",
            "de": "Ein Kreis derer, deren Zeilen Ihren am ähnlichsten sind.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    requester: str = ALL
    """The client that wants a ranking and a circle, or all; whoever does not ask trains alone."""
    by: By = "quantiles"
    """What to rank by: quantiles of columns, transport between classes, or size alone, as a control."""
    best: int = bounded(2, "be at least 0", "0 sets no bound")
    """How many others to choose at most, the first of the ranking; 0 sets no bound."""
    threshold: float = math.inf
    """Choose only others whose distance beyond chance lies below this; inf sets no bound."""
    also: tuple[str, ...] = ()
    """What else to measure, without ranking by it: quantiles, transport, ndoye."""
    epsilon: float = 0.0
    """Differential privacy of all sketches of a run together; 0 adds no noise."""
    delta: float = 1e-5
    """The delta of that; below 1 / rows of every site."""
    reach: float = 4.0
    """With noise, values are counted between minus this and this, in the model's inputs."""
    least: int = 5
    """A class with fewer rows at a site is not told of; a site's policy may ask for more (min_rows)."""
    train: bool = True
    """Train in the circles from the second round on; false only measures, and nobody gets a model."""

    def __post_init__(self) -> None:
        wrong = Gathered()
        with wrong.one():
            check_options(self)
            circles.check_choice(self.threshold)
        if self.by not in get_args(By):
            wrong.found.append(UnknownName("measure", self.by, get_args(By)))
        for name in self.also:
            if name not in (*SKETCHES, "ndoye"):
                wrong.found.append(UnknownName("measure", name, (*SKETCHES, "ndoye")))
        if self.epsilon:
            with wrong.one():
                check_budget(self.epsilon, self.delta)
            if "ndoye" in self.also:
                wrong.add(
                    f"epsilon={self.epsilon:g} holds for sketches, and ndoye sends models: leave ndoye out"
                )
        with wrong.one():
            Moments(least=self.least)
        if not 0 < self.reach < math.inf:
            wrong.add(f"reach={self.reach} must lie above 0 and be finite: try 4")
        wrong.refuse()

    @property
    def visits(self) -> int:
        """Times that everybody trains for a ranking: only ndoye does."""
        return self.ndoye.visits if "ndoye" in self.also else 0

    @property
    def ndoye(self) -> Ndoye:
        return Ndoye(self.local, self.requester)

    @property
    def sketches(self) -> tuple[str, ...]:
        """Those that are made in a run."""
        return tuple(name for name in SKETCHES if name in (self.by, *self.also))

    @property
    def sigma(self) -> float:
        """Noise of one sketch."""
        many = len(self.sketches)
        return math.sqrt(many) * sigma_of(self.epsilon, self.delta) if self.epsilon and many else 0.0

    @property
    def works(self) -> bool:
        """Whether anybody trains."""
        return self.train or "ndoye" in self.also

    @property
    def hides(self) -> bool:
        """Whether it asks for figures with noise, which sites account for."""
        return self.sigma > 0

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        if len(roster) < 2:
            raise BadInput(
                f"a ranking needs at least 2 clients; got {len(roster)}: add clients, or use local"
            )
        asking(self.requester, roster.names)
        if not self.train and key.rounds > 1:
            raise BadInput(f"rounds={key.rounds}: train=false only measures, in one round: take rounds=1")
        if "ndoye" in self.also:
            self.ndoye.check(roster, start, key)
        if self.epsilon:
            largest = max(roster.members, key=lambda member: member.train)
            check_delta(self.delta, largest.train, repr(largest.name))
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if state.costs is not None:
            return circles.train(self.local, state, self.weights(state.costs, net), net, key)
        found, told = self.measured(state.beliefs, net, key)
        costs = self.costs(found, net.roster)
        ranking = Ranking(
            costs, {COST: costs, **matrices_of(found)}, told.pop("loss"), "nothing: sketches of training rows"
        )
        state, info = circles.conclude(state, ranking, self.weights(costs, net), net, key)
        return state, replace(info, extras={**info.extras, "similar": told})

    def weights(self, costs: Tensor, net: Net) -> Tensor:
        if not self.train:  # nobody is chosen, and no circle is published
            return torch.eye(len(costs), dtype=torch.float64)
        return circles.circle_weights(circles.choose(costs, self.best, self.threshold), net.roster.sizes)

    def costs(self, found: Mapping[str, Measured], roster: Roster) -> Tensor:
        """C_ij of whoever asks, NaN for oneself, for others who ask not, and for who did not answer."""
        mine = found[self.by]
        costs = -mine.distance if self.by == "size" else mine.distance - mine.chance
        asks = torch.isin(torch.arange(len(roster)), asking(self.requester, roster.names))
        return costs.where(asks.unsqueeze(1), torch.nan).fill_diagonal_(torch.nan)

    def measured(self, beliefs: Held, net: Net, key: Key) -> tuple[dict[str, Measured], dict[str, Any]]:
        """All measures by name, and what else there is to tell of them."""
        n, own, roster = len(net.roster), to_own(len(net.roster)), net.roster
        asked = self.kernels(roster)
        found, told = dict[str, Measured](), dict[str, Any]()
        here = net.visit(Here(), beliefs, own, key.at("here"))
        found["size"] = Measured(size_of(roster.sizes, here.hosts), *(torch.zeros(n, n).double(),) * 2)
        told["columns"] = column_names(roster.shape, roster.features)
        for name, kernel in asked.items():
            replies = net.visit(kernel, beliefs, own, key.at(name))
            found[name] = sketch_distances(replies, kernel, roster)
            if isinstance(kernel, Quantiles) and len(replies):
                told["quantiles"] = sketch_told(replies, kernel, roster)
        told["loss"] = torch.full((n,), torch.nan, dtype=torch.float64)
        if "ndoye" in self.also:
            ranked = self.ndoye.rank(beliefs, net, key.at("ndoye"))
            found["ndoye"] = Measured(ranked.matrices[NDOYE], *(torch.zeros(n, n).double(),) * 2)
            told["loss"] = ranked.loss
        if self.hides:
            told |= {"epsilon": self.epsilon, "delta": self.delta, "sigma": self.sigma}
            told["drowned"] = {
                name: [roster.names[i] for i in drowned(found[name]).nonzero().flatten().tolist()]
                for name in asked
            }
        return found, told

    def kernels(self, roster: Roster) -> dict[str, Quantiles | Moments]:
        """What looks at rows, by measure."""
        columns = column_count(roster.shape)
        classes = roster.outputs if roster.task == "classification" else 0
        made: dict[str, Quantiles | Moments] = {
            "quantiles": Quantiles(columns, self.sigma, self.reach),
            "transport": Moments(columns, classes, self.least, self.sigma),
        }
        return {name: made[name] for name in self.sketches}

    def models(self, state: State) -> Models:
        models = Models(state.beliefs, of=torch.arange(len(state.beliefs)))
        return models if self.train else only_for(models, torch.zeros(len(models.of), dtype=torch.bool))

    def reveals(self) -> Reveals:
        """Circles that train exchange models and tell losses; sketches tell numbers alone."""
        told = [name for sketch in self.sketches for name in told_by(sketch)]
        return Reveals(
            sites=self.works, numbers=(*told, *(circles.revealed_numbers(self.local) if self.works else ()))
        )
