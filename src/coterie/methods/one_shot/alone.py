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
from typing import Any, ClassVar

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.contract import Beliefs, Held, Key, Net, Replies, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.facts import called, kernel_fact
from coterie.core.net import settle, to_own
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.around import innermost, numbers_of, reworked
from coterie.kernels.bayes import Collecting, Collector, Gather, collects
from coterie.kernels.posterior import enough
from coterie.kernels.refresh import Refresh
from coterie.kernels.sgd import SGD
from coterie.kernels.swag import SWAG
from coterie.methods.server.norms import norm_names
from coterie.posteriors.gaussian import FULL
from coterie.posteriors.precision import Form

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # of batch norm: no parameters
ROOM = 2**33  # bytes of models that draws may take


@dataclass(frozen=True)
class Alone:
    """Options of training alone towards a posterior, and that training."""

    local: Trainer = SGD()
    """The work of a client in a round; sgd becomes swag, which collects once an epoch."""
    warm: float = bounded(0.5, "lie from 0 to below 1", "try 0.5")
    """Share of the rounds before collecting begins."""
    form: Form = chosen("diagonal", Form)
    """Covariance of a client's Gaussian: diagonal, low-rank (a diagonal and the last deviations) or full."""
    floor: float = 1e-6
    """Smallest variance of a weight; those below are raised to it. 0 refuses them."""
    temperature: float = bounded(1.0, "be above 0 and finite", "try 1, or samples=0")
    """Factor of the Gaussian's covariance: below 1 draws stay closer to its mean."""
    samples: int = bounded(30, "be at least 0", "try 30")
    """Draws whose predictions are averaged; 0 predicts with the mean."""

    paced: ClassVar[str] = "exchanges models in its last round"
    solved_by: ClassVar[str] = ""
    small_steps: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 <= self.floor < math.inf:
            raise BadInput(f"floor={self.floor} must be at least 0 and finite: try {type(self).floor:g}")

    @property
    def work(self) -> Collector:
        """The work that collects; columns only where the form has a use for them."""
        made = collector(self.local)
        return of_rank(made, 0) if self.form == "diagonal" else made

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        """Refuses clients that would collect too few states, and more draws than memory has room for."""
        self.check_states([(m.name, m.train) for m in roster.members], key)
        self.check_room(start, len(roster))
        return []

    def check_states(self, clients: Sequence[tuple[str, int]], key: Key) -> None:
        """Clients by name and number of training rows."""
        work, rounds = self.work, key.rounds - self.plain(key.rounds)
        if self.form != "diagonal" and (rank := rank_of(work)) < 2:
            raise BadInput(f"rank={rank} keeps too few deviations for {self.form}, at least 2: try 20")
        for name, rows in clients:
            count, columns = states(work, rows, rounds, key)
            if not enough(self.form, count, columns):
                found, what = (count, "states") if self.form == "diagonal" else (columns, "deviations")
                raise BadInput(
                    f"client {name!r} would collect {found} {what} in {rounds} rounds, {self.form} "
                    "needs at least 2: take more rounds, or a smaller every, burn or warm"
                )

    def fit(self, told: Replies) -> Tensor:
        """Which replies come from clients that collected enough; who was away may have less than others."""
        pairs = zip(told.numbers["count"].tolist(), told.numbers["columns"].tolist(), strict=True)
        return torch.tensor([i for i, (n, k) in enumerate(pairs) if enough(self.form, int(n), int(k))]).long()

    def plain(self, rounds: int) -> int:
        """⌊warm R⌋, the rounds before collecting begins: not all of them."""
        return min(int(self.warm * rounds + 1e-9), rounds - 1)  # 0.29 x 100 is 28.999999999999996

    def train(self, net: Net, own: Held, key: Key) -> Replies:
        """Each client's visit in a round; those of the last round bring home what was collected."""
        now = key.round > self.plain(key.rounds)
        kernel: Trainer = self.work if now else plainly(self.local)
        if key.round == key.rounds:
            kernel = Gather(self.work)
        return net.visit(kernel, own, to_own(len(own)), key, slot="collect" if now else "")

    def check_room(self, start: Beliefs, sets: int) -> None:
        """Refuses more draws than memory has room for, before anything runs: `sets` of mean and draws; and a
        full covariance of more parameters than there may be.
        """
        template = tree.rows(start, torch.tensor([0]))
        weights = sum(t.numel() for name, t in template.items() if name.rpartition(".")[2] not in STATISTICS)
        if self.form == "full" and weights > FULL:
            raise BadInput(f"a full covariance of {weights} parameters, at most {FULL}: use form=low-rank")
        size = sets * (1 + self.samples) * tree.size_in_bytes(template)
        if size > ROOM:
            raise BadInput(
                f"samples={self.samples} makes {size / 2**30:.0f} GB of models for {sets} posteriors, "
                f"at most {ROOM / 2**30:.0f}: lower samples"
            )

    def renewed(self, net: Net, drawn: Held, hosts: Tensor, key: Key) -> Held:
        """Models that no forward pass has seen, with batch norm's statistics of their hosts' data.

        Without batch norm nothing is to be done.
        """
        if not norm_names(drawn.names):
            return drawn
        edges = torch.stack([torch.arange(len(drawn)), hosts], dim=1)
        replies = net.visit(Refresh(kernel_fact(self.local, "batch") or 32), drawn, edges, key)
        return settle(net, drawn, replies)

    def reveals(self) -> Reveals:
        return Reveals(numbers=(*numbers_of(self.work), "count", "columns"))


def rank_of(work: Collector) -> int:
    return int(innermost(work).rank)


def of_rank(work: Collector, rank: int) -> Collector:
    """The same work that keeps so many columns."""
    made: Collector = reworked(work, lambda inner: replace(inner, rank=rank))
    return made


def plainly(local: Trainer) -> Trainer:
    """The same work where nothing is collected: it replies with its last state."""
    made: Trainer = reworked(
        local, lambda work: replace(work, rank=0, average=False) if isinstance(work, Collecting) else work
    )
    return made


def collector(local: Trainer) -> Collector:
    """Work that collects: sgd becomes swag, once an epoch, or once a round where steps are given.

    Its memory lasts, and its reply is the last state.
    """
    made: Collector = reworked(local, _collecting)
    if not collects(made):
        name = called(local)
        raise BadInput(f"kernel {name} brings no posterior home: use swag, sgld, psgld, hmc or dp(swag)")
    return made


def _collecting(work: Any) -> Any:
    """The innermost work, if it collects."""
    if type(work) is SGD:
        options: dict[str, Any] = {f.name: getattr(work, f.name) for f in dataclasses.fields(SGD)}
        work = SWAG(**options, **({"every": work.steps} if work.steps else {"per": "epoch"}))
    if not isinstance(work, Collecting):
        raise BadInput(
            f"kernel {type(work).__name__.lower()} collects no posterior: use swag, sgld, psgld or hmc "
            "(sgd becomes swag)"
        )
    changed: Any = work
    return replace(changed, keep=True, average=False)


def states(work: Collector, samples: int, rounds: int, key: Key) -> tuple[int, int]:
    """How many states enter the moments in so many rounds, and how many of them make a column."""
    marks, options = work.plan(samples, key).marks, vars(innermost(work))
    assert marks is not None
    due = rounds * int(marks.sum()) - options["burn"]
    return max(0, due) + int(options.get("origin", False) and due >= 0), min(max(0, due), options["rank"])
