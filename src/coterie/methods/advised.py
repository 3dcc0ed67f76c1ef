"""Advised: each client follows the way of training that served it best where it could be tried.

    s_cf     what candidate c scored on fold f of one's own training rows, trained without that fold
    g_c    = mean over f of s_cf - s_0f                             its gain over training alone (c = 0)
    SE_c   = sqrt((1/K + 1/(K - 1)) var_f(s_cf - s_0f))             folds share rows: `trials/gains.py`
    I_c      its interval, of 1 - 0.05 / C for C candidates         `features/advice/judge.py`
    choice = argmax {g_c : g_c > κ SE_c, I_c > 0}, alone if there is none

K is `folds`, κ `sure`; where lower is better, signs are turned. I_c is as wide as a choice of the best of C
asks for (Bonferroni). The standard error is that of Nadeau and
Bengio, 2003, "Inference for the Generalization Error", whose correction for rows that trainings share is
n_test / n_train = 1/(K - 1) here. That alone is kept unless another is better by more than a standard error
is the rule of Breiman et al., 1984, "Classification and Regression Trees", section 3.4.3, for the simplest of
several models. That nobody is sent to others on a gain whose interval holds 0 is ours.

The trials come first, each a run of its own on what a fold leaves (`features/trials`): test rows are in none.
Their outcome is `choice`, what each client follows, which is written into the run's config. The run itself
then plays those candidates that anybody follows, side by side, each as if it were alone: a client's model
is that of the way it follows, and others may take part in a way that they do not follow themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Any, ClassVar, get_type_hints

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Replies, Reveals, Roster, Trainer
from coterie.core.errors import BadData, BadInput, Gathered, shown
from coterie.core.facts import ALL, kernel_fact
from coterie.core.held import together
from coterie.core.kernel import WORK, Kernel
from coterie.core.method import METHODS, NOBODYS, Method, asking, common, paced
from coterie.core.net import Beside
from coterie.core.options import coerced, options_of, read_pairs
from coterie.core.partners import WEIGHTS, Partners
from coterie.kernels.natural import AUTO, natural_work, with_local
from coterie.kernels.sgd import SGD
from coterie.methods.baselines import NOTHING
from coterie.metrics.table import METRICS

ALONE = "local"
CANDIDATES = ("fedavg", "finetune", "weight-erosion", "pens", "dac", "ndoye", "influence", "similar")
"""What is tried beside training alone, unless somebody says otherwise: with everybody, with everybody and
then alone, ways that weigh or pick others while they train, circles from rankings before it."""
SOLVED = ("partial", "pooled", "recalibrated", "ndoye", "similar")
"""The same where linear models are solved: around a common mean, one of all, one of all put right at home,
circles by how models do elsewhere and by how rows look. Few, as every other one makes it harder to be sure of
any."""
MEASURES = tuple(name for name, metric in METRICS.items() if metric.judges)


@METHODS.register("advised")
@dataclass(frozen=True)
class Advised:
    """Tries several ways on each client's own training rows, and follows the one that served it best."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        follows="choice",
        words={
            "en": "Each follows the way that did best on held-out parts of its own training rows.",
            "fr": "Chacun suit la méthode qui a le mieux réussi sur des parties mises de côté de ses "
            "propres lignes d'entraînement.",
            "de": "Jeder folgt dem Weg, der auf zurückgehaltenen Teilen der eigenen Trainingszeilen am "
            "besten abschnitt.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    candidates: tuple[str, ...] = ()
    """What to try beside training alone: methods, with options if wanted (ndoye:best=1); by default the usual
    ones for the local work."""
    requester: str = ALL
    """The client that asks, or all; whoever does not ask follows nothing and is left out of results."""
    measure: str = "auto"
    """What to choose by, on held-out rows; auto: accuracy, or NLL (log loss) where one class is so common
    that accuracy is blind; RMSE or concordance where there are no classes."""
    specificity: float = 0.9
    """With measure=sensitivity: the specificity at which it is read."""
    folds: int = 5
    """Into how many parts each client's training rows are cut; each is held out once."""
    sure: float = 1.0
    """How many standard errors a gain over training alone must exceed."""
    choice: tuple[str, ...] = ()
    """What each client follows, in their order; empty: the trials decide."""

    def __post_init__(self) -> None:
        wrong = Gathered()
        for spec in self.candidates:
            with wrong.one():
                _made(spec, self.local, ALL)
            if self.candidates.count(spec) > 1:
                wrong.add(f"candidate {spec!r} is named twice: name each once")
        if self.measure != "auto" and self.measure not in MEASURES:
            wrong.add(f"measure {shown(self.measure)} is none of these: auto, {', '.join(MEASURES)}")
        if not 0 < self.specificity < 1:
            wrong.add(f"specificity={self.specificity} must lie between 0 and 1: try 0.9")
        if not 2 <= self.folds <= 1000:
            wrong.add(f"folds={self.folds} must lie in [2, 1000]: try 5")
        if not 0 <= self.sure < math.inf:
            wrong.add(f"sure={self.sure} must be at least 0, and finite: try 1")
        wrong.refuse()

    @property
    def undecided(self) -> bool:
        """Whether trials have to come first."""
        return not self.choice

    @property
    def tried(self) -> tuple[str, ...]:
        """The candidates: those given, or the usual ones."""
        return self.candidates or (SOLVED if kernel_fact(self.local, "solves") else CANDIDATES)

    @functools.cached_property
    def ways(self) -> dict[str, Method]:
        """Every candidate by its spec, training alone first."""
        return {spec: _made(spec, self.local, self.requester) for spec in (ALONE, *self.tried)}

    @functools.cached_property
    def followed(self) -> dict[str, Method]:
        """Those that anybody follows."""
        return {spec: way for spec, way in self.ways.items() if spec in self.choice}

    @property
    def paced(self) -> str:
        """What any way that is followed does."""
        return "; ".join(
            f"follows {spec}, which {why}" for spec, way in self.followed.items() if (why := paced(way))
        )

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        asking(self.requester, roster.names)
        if self.choice and len(self.choice) != len(roster):
            raise BadInput(
                f"choice names {len(self.choice)} ways for {len(roster)} clients: name one for each"
            )
        for spec in self.choice:
            if spec not in self.ways:
                raise BadInput(f"choice names {spec!r}, which is no candidate: add it to candidates")
        said = list[str]()
        for spec, way in self.followed.items() if self.choice else self.able([roster], start, key)[0].items():
            said += [f"{spec}: {note}" for note in way.check(roster, start, key)]
        return said

    def able(
        self, rosters: Sequence[Roster], start: Beliefs, key: Key
    ) -> tuple[dict[str, Method], list[str]]:
        """The candidates that go with these sites, whole and without folds, and why others do not; one that
        was asked for by name has to.
        """
        fit, left = dict[str, Method](), list[str]()
        for spec, way in self.ways.items():
            if way.reveals().rows:
                raise BadInput(f"candidate {spec!r} moves rows, which no client can follow: leave it out")
            try:
                for roster in rosters:
                    way.check(roster, start, key)
                fit[spec] = way
            except (BadInput, BadData) as error:
                if self.candidates or spec == ALONE:
                    raise
                left.append(f"{spec} is not tried: {error}")
        return fit, left

    def state_type(self) -> type:
        """Of the states of all ways that anybody follows."""
        return _state_type(tuple(get_type_hints(type(way).init)["return"] for way in self.followed.values()))

    def init(self, start: Held, net: Net) -> Any:
        if self.undecided:
            raise BadInput(
                "advised has not tried anything yet: run it by 'coterie run' or coterie.train, or name a "
                "choice for each client"
            )
        states = [way.init(start, _Apart(net, spec)) for spec, way in self.followed.items()]
        for spec, way, state in zip(self.followed, self.followed.values(), states, strict=True):
            if way.models(state).crowd is not None:
                raise BadInput(f"candidate {spec!r} makes several models for a client: leave it out")
        return self.state_type()(*states)

    def round(self, state: Any, net: Net, key: Key) -> tuple[Any, Info]:
        n = len(net.roster)
        weights, loss = (
            torch.zeros(n, n, dtype=torch.float64),
            torch.full((n,), math.nan, dtype=torch.float64),
        )
        after = list[Any]()
        for spec, way, now in zip(self.followed, self.followed.values(), _states_in(state), strict=True):
            then, info = way.round(now, _Apart(net, spec), key)
            after.append(then)
            mine = self.followers(spec)
            loss[mine] = info.loss[mine]
            if info.mixed:
                weights[mine] = info.weights[mine].double()
        return self.state_type()(*after), Info(weights, loss, {"follows": list(self.choice)})

    def models(self, state: Any) -> Models:
        of, held, rows = torch.full((len(self.choice),), NOBODYS), list[Held](), 0
        for spec, way, now in zip(self.followed, self.followed.values(), _states_in(state), strict=True):
            models, mine = way.models(now), self.followers(spec)
            held.append(models.beliefs.rows(models.of[mine]))
            of[mine] = rows + torch.arange(len(mine))
            rows += len(mine)
        if len({len(some.parts) for some in held}) > 1:
            raise BadInput("candidates keep batch norm in different places: use norm=average for all")
        return Models(together(held), of)

    def followers(self, spec: str) -> Tensor:
        """The numbers of the clients that follow a candidate."""
        return torch.tensor([i for i, follows in enumerate(self.choice) if follows == spec])

    @property
    def common(self) -> bool:
        """Whether any of the ways that are followed makes one model of all."""
        return any(common(way) for way in (self.followed if self.choice else self.ways).values())

    def reveals(self) -> Reveals:
        """What the ways that are followed reveal together; before the trials, what any candidate does."""
        each = [way.reveals() for way in (self.followed if self.choice else self.ways).values()]
        return Reveals(
            coordinator=any(r.coordinator for r in each),
            opened=any(r.opened for r in each),
            sites=any(r.sites for r in each),
            numbers=tuple(dict.fromkeys(name for r in each for name in r.numbers)),
            rows=any(r.rows for r in each),
        )


def _made(spec: str, local: Trainer, requester: str) -> Method:
    """A candidate from its spec; one that can be asked for by a single client is."""
    name, _, tail = spec.partition(":")
    if name == "advised":
        raise BadInput("advised cannot be a candidate of itself: leave it out")
    if name == NOTHING:
        raise BadInput("candidate 'nothing' is tried beside all others, and nobody follows it: leave it out")
    cls = METHODS[name]
    own = coerced(cls, read_pairs(tail, f"candidate {spec!r}"), f"method {name}")
    if kernel_fact(local, "solves"):  # each way does what is natural for it
        kernel, usual, _ = natural_work(cls, True, AUTO)
        local = WORK.make(kernel, **usual)
    known = {o.name for o in options_of(cls)}
    whose = {"requester": requester} if "requester" in known else {}
    return METHODS.make(name, **with_local(cls, local), **{**whose, **own})


@dataclass(frozen=True)
class _Apart:
    """A net on which several methods work side by side: each has slots of its own at the sites."""

    net: Net
    spec: str

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        return self.net.visit(kernel, beliefs, edges, key, f"{self.spec} {slot}", beside)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self.net, verb)


@functools.cache
def _state_type(kinds: tuple[type, ...]) -> type:
    """A frozen dataclass with a state of each kind, so that a checkpoint knows what it reads."""
    fields = [(f"way{i}", kind, field()) for i, kind in enumerate(kinds)]
    return make_dataclass("State", fields, frozen=True, eq=False)


def _states_in(state: Any) -> list[Any]:
    return list(vars(state).values())
