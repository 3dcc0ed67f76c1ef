"""What methods of one exchange share: everybody trains alone, and for some rounds collects on the way.

In round r of R client k's work goes on from where its last round ended, w_k ← LocalWork(w_k), and nothing is
sent. The first ⌊warm R⌋ rounds are plain; from then on the work collects, and its memory lasts, so that the
moments of the last round are those of all collecting rounds. Momentum starts afresh where collecting begins.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput, UnknownName
from coterie.core.kernel import Trainer
from coterie.core.method import Facts
from coterie.core.net import Net, Replies, to_own
from coterie.core.seeds import Key
from coterie.kernels.bayes import Collecting, Collector, Gather
from coterie.kernels.posterior import collected
from coterie.kernels.refresh import Refresh
from coterie.kernels.sgd import SGD
from coterie.kernels.swag import SWAG
from coterie.methods.server.norms import norm_names
from coterie.posteriors import Gaussian, from_collected
from coterie.posteriors.precision import Form

ROOM = 2**33  # bytes of models that draws may take


@dataclass(frozen=True)
class Alone:
    """Options of training alone towards a posterior, and that training."""

    local: Trainer = SGD()
    """The work of a client in a round; sgd becomes swag, which collects once an epoch."""
    warm: float = 0.5
    """Share of the rounds before collecting begins."""
    form: Form = "diagonal"
    """Covariance of a client's Gaussian: diagonal, low-rank (a diagonal and the last deviations) or full."""
    floor: float = 1e-6
    """Smallest variance of a weight; those below are raised to it. 0 refuses them."""
    temperature: float = 1.0
    """Factor of the Gaussian's covariance: below 1 draws stay closer to its mean."""
    samples: int = 30
    """Draws whose predictions are averaged; 0 predicts with the mean."""

    def __post_init__(self) -> None:
        if not 0 <= self.warm < 1:
            raise BadInput(f"warm={self.warm} must lie from 0 to below 1: try 0.5")
        if self.form not in get_args(Form):
            raise UnknownName("form", str(self.form), get_args(Form))
        if not 0 <= self.floor < math.inf:
            raise BadInput(f"floor={self.floor} must be at least 0 and finite: try 1e-6")
        if not 0 < self.temperature < math.inf:
            raise BadInput(f"temperature={self.temperature} must be above 0 and finite: try 1, or samples=0")
        if self.samples < 0:
            raise BadInput(f"samples={self.samples} must be at least 0: try 30")

    @property
    def work(self) -> Collector:
        """The work that collects; columns only where the form has a use for them."""
        made = collector(self.local)
        return replace(made, rank=0) if self.form == "diagonal" else made  # type: ignore[type-var]

    def check(self, names: Sequence[str], rounds: int) -> None:
        _ = self.work

    def look(self, clients: Sequence[Facts], key: Key) -> Sequence[str]:
        """Refuses clients that would collect too few states, before anything runs."""
        work, rounds = self.work, key.rounds - self.plain(key.rounds)
        if self.form != "diagonal" and (rank := vars(work)["rank"]) < 2:
            raise BadInput(f"rank={rank} keeps too few deviations for {self.form}, at least 2: try 20")
        for client in clients:
            count, columns = states(work, client.train, rounds, key)
            if not self.enough(count, columns):
                found, what = (count, "states") if self.form == "diagonal" else (columns, "deviations")
                raise BadInput(
                    f"client {client.name!r} would collect {found} {what} in {rounds} rounds, {self.form} "
                    "needs at least 2: take more rounds, or a smaller every, burn or warm"
                )
        return ()

    def enough(self, count: int, columns: int) -> bool:
        """Whether so many states and columns make a Gaussian; one who was away may have fewer than others."""
        return count >= 2 and (self.form == "diagonal" or columns >= 2)

    def plain(self, rounds: int) -> int:
        """⌊warm R⌋, the rounds before collecting begins: not all of them."""
        return min(int(self.warm * rounds + 1e-9), rounds - 1)  # 0.29 x 100 is 28.999999999999996

    def train(self, net: Net, own: Beliefs, memory: Beliefs | None, key: Key) -> Replies:
        """Each client's visit in a round; those of the last round bring home what was collected."""
        first = self.plain(key.rounds) + 1
        kernel = plainly(self.local) if key.round < first else self.work
        if key.round == key.rounds:
            kernel = Gather(self.work)
        return net.visit(kernel, own, to_own(len(net.names)), key, None if key.round == first else memory)

    def gaussian(self, reply: Belief, name: str) -> Gaussian:
        """The posterior of one that `Gather` brought home; columns of a sampler are draws less their mean."""
        found = collected(reply)
        columns = found.deviations or {n: d - found.mean[n] for n, d in found.draws.items()}
        try:
            return from_collected(found.mean, found.variance, columns, found.count, self.form, self.floor)
        except BadInput as error:
            raise BadInput(f"client {name!r}: {error}") from None

    def check_room(self, beliefs: Beliefs, sets: int) -> None:
        """Refuses more draws than memory has room for, before anything runs: `sets` of mean and draws."""
        size = sets * (1 + self.samples) * tree.size_in_bytes(tree.rows(beliefs, torch.tensor([0])))
        if size > ROOM:
            raise BadInput(
                f"samples={self.samples} makes {size / 2**30:.0f} GB of models for {sets} posteriors, "
                f"at most {ROOM / 2**30:.0f}: lower samples"
            )

    def renewed(self, net: Net, beliefs: Beliefs, key: Key) -> Beliefs:
        """Each client's mean and draws [client · (1 + S), ...], with batch norm's statistics of its data.

        They are weights that no forward pass has seen. Without batch norm nothing is to be done.
        """
        if not norm_names(beliefs):
            return beliefs
        guests = torch.arange(tree.count(beliefs))
        edges = torch.stack([guests, guests // (1 + self.samples)], dim=1)
        replies = net.visit(Refresh(getattr(self.local, "batch", 32)), beliefs, edges, key)
        return net.settle(beliefs, replies)


def plainly(local: Trainer) -> Trainer:
    """The same work where nothing is collected: it replies with its last state."""
    work: Any = local
    return replace(work, rank=0, average=False) if isinstance(local, Collecting) else local


def collector(local: Trainer) -> Collector:
    """Work that collects: sgd becomes swag, once an epoch, or once a round where steps are given.

    Its memory lasts, and its reply is the last state.
    """
    if type(local) is SGD:
        options: dict[str, Any] = {f.name: getattr(local, f.name) for f in dataclasses.fields(SGD)}
        local = SWAG(**options, **({"every": local.steps} if local.steps else {"per": "epoch"}))
    if not isinstance(local, Collecting):
        raise BadInput(
            f"kernel {type(local).__name__.lower()} collects no posterior: use swag, sgld, psgld or hmc "
            "(sgd becomes swag)"
        )
    work: Any = local
    made: Collector = replace(work, keep=True, average=False)
    return made


def states(work: Collector, samples: int, rounds: int, key: Key) -> tuple[int, int]:
    """How many states enter the moments in so many rounds, and how many of them make a column."""
    marks, options = work.plan(samples, key).marks, vars(work)
    assert marks is not None
    due = rounds * int(marks.sum()) - options["burn"]
    return max(0, due) + int(options.get("origin", False) and due >= 0), min(max(0, due), options["rank"])
