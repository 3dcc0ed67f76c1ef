"""What engines in one process share: clients in memory, replies in the clear."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs, Weights
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput, Diverged
from coterie.core.kernel import Part, Reply, Scorer, Trainer, scores
from coterie.core.learner import Learner
from coterie.core.net import Net, Replies
from coterie.core.registry import Registry
from coterie.core.seeds import Key
from coterie.engines.allocator import keep_freed_memory
from coterie.engines.bank import Bank, adjoined
from coterie.engines.scoring import score, score_crowds
from coterie.engines.traits import Traits, traits_of

CPU = torch.device("cpu")
PARTS: tuple[Part, ...] = ("train", "validation", "test")


class Answers(NamedTuple):
    """Replies of all edges, stacked [edge, ...], in the order of the edges."""

    beliefs: Beliefs
    memory: Beliefs
    numbers: Mapping[str, Tensor]


class Engine(Protocol):
    """How trainers run."""

    def train(
        self, net: InProcess, kernel: Trainer, beliefs: Beliefs, edges: Tensor, key: Key, memory: Beliefs
    ) -> Answers: ...


ENGINES: Registry[Engine] = Registry("engine")


@dataclass(frozen=True, eq=False)
class InProcess:
    """A net whose clients are in this process. The engine decides only how trainers run.

    The clients' samples are moved into one bank for each part, so that they are held once, on the device
    where the beliefs are to visit them. `memory` is what an engine may use at once: see `memory.py`.
    """

    engine: Engine
    learner: Learner
    clients: tuple[Client, ...]
    device: torch.device = CPU
    memory: str = "half"
    names: Sequence[str] = field(init=False, repr=False)
    banks: Mapping[Part, Bank] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        keep_freed_memory()
        banks = {part: Bank.of([getattr(c, part) for c in self.clients], self.device) for part in PARTS}
        clients = tuple(
            replace(
                c,
                train=banks["train"].part(i),
                validation=banks["validation"].part(i),
                test=banks["test"].part(i),
            )
            for i, c in enumerate(self.clients)
        )
        object.__setattr__(self, "banks", banks)
        object.__setattr__(self, "clients", clients)
        object.__setattr__(self, "names", [c.name for c in clients])

    @property
    def sizes(self) -> Tensor:
        return self.banks["train"].sizes

    @property
    def clusters(self) -> Sequence[int | None]:
        return [c.cluster for c in self.clients]

    def traits(self, beliefs: Beliefs) -> Traits:
        """What engines have to know of the model."""
        return traits_of(self.learner, beliefs, self.clients[0].train)

    def visit(
        self,
        kernel: Trainer | Scorer,
        beliefs: Beliefs,
        edges: Tensor,
        key: Key,
        memory: Beliefs | None = None,
    ) -> Replies:
        if scores(kernel):
            return score(self, cast(Scorer, kernel), beliefs, edges, key)
        return self._train(cast(Trainer, kernel), beliefs, edges, key, memory)

    def confer(
        self, kernel: Scorer, beliefs: Beliefs, crowd: Tensor, shares: Tensor | None, key: Key
    ) -> Replies:
        """Scores what each client predicts with several models: see `score_crowds`."""
        return score_crowds(self, kernel, beliefs, crowd, shares, key)

    def _train(
        self, kernel: Trainer, beliefs: Beliefs, edges: Tensor, key: Key, memory: Beliefs | None
    ) -> Replies:
        hosts = edges[:, 1]
        if kernel.keeps and len(torch.unique(hosts)) < len(hosts):
            raise BadInput("keep=true needs at most one visit to each client in a round: set keep=false")
        if len(edges) == 0:
            return Replies(edges, {}, memory, None)
        if memory is None:
            memory = tree.stack([kernel.fresh(self.learner, tree.row(beliefs, 0))])
            if kernel.keeps:
                memory = tree.repeat(memory, len(self.clients))
        answers = self.engine.train(self, kernel, beliefs, edges, key, memory)
        self._refuse_not_finite(answers, hosts, key)
        numbers = {n: v.cpu() for n, v in answers.numbers.items()}
        kept = tree.put(memory, hosts, answers.memory) if kernel.keeps else None
        return Replies(edges, numbers, kept, answers.beliefs)

    def _refuse_not_finite(self, answers: Answers, hosts: Tensor, key: Key) -> None:
        # a sum is finite only if all its terms are; that it may overflow costs no more than a closer look
        if all(math.isfinite(float(t.sum())) for t in (answers.numbers["loss"], *answers.beliefs.values())):
            return
        fine = torch.isfinite(answers.numbers["loss"]).cpu()
        for t in answers.beliefs.values():
            if t.is_floating_point():
                fine &= torch.isfinite(t).flatten(1).all(dim=1).cpu()
        if bool(fine.all()):
            return
        edge = int((~fine).nonzero()[0])
        name, loss = (
            tree.first_not_finite(tree.row(answers.beliefs, edge)),
            float(answers.numbers["loss"][edge]),
        )
        what = f"the loss is {loss}" if name is None else f"{name} is no longer finite (loss {loss:.4g})"
        raise Diverged(
            f"round {key.round}, client {self.clients[int(hosts[edge])].name!r}: {what}: "
            "lower the learning rate or scale the inputs"
        )

    def mix(self, weights: Weights, replies: Replies) -> Beliefs:
        return tree.mix(weights, replies.sealed)

    def settle(self, beliefs: Beliefs, replies: Replies) -> Beliefs:
        if len(torch.unique(replies.guests)) < len(replies):
            raise BadInput("a belief came home from several clients: mix its replies instead")
        return tree.put(beliefs, replies.guests, replies.sealed) if len(replies) else beliefs

    def distances(
        self, replies: Replies, to: Replies | Beliefs, importance: Mapping[str, float] | None = None
    ) -> Tensor:
        others = to.sealed if isinstance(to, Replies) else to
        return tree.distances(replies.sealed, others, self.learner.trainable, importance)

    def open(self, replies: Replies) -> Beliefs:
        beliefs: Beliefs = replies.sealed
        return beliefs

    def pool(self, groups: Sequence[Sequence[int]]) -> Net:
        return replace(self, clients=tuple(pooled([self.clients[i] for i in g]) for g in groups))


def pooled(clients: Sequence[Client]) -> Client:
    """Several clients as one."""

    def joined(part: str) -> Samples:
        parts: list[Samples] = [getattr(c, part) for c in clients]
        return Samples(adjoined([p.x for p in parts]), adjoined([p.y for p in parts]))

    return replace(
        clients[0],
        name="+".join(c.name for c in clients),
        train=joined("train"),
        validation=joined("validation"),
        test=joined("test"),
    )


def memory_of(kernel: Trainer, memory: Beliefs, hosts: Tensor) -> Beliefs:
    """What these hosts remember, [host, ...]; where nothing is kept, one fresh memory serves all."""
    return tree.rows(memory, hosts if kernel.keeps else torch.zeros_like(hosts))


def stacked_replies(kernel: Trainer, replies: Sequence[Reply]) -> Answers:
    """Replies of one edge each, as one; memory that is not kept is not carried either."""
    numbers = {n: torch.stack([r.numbers[n] for r in replies]) for n in replies[0].numbers}
    memory = tree.stack([r.memory for r in replies]) if kernel.keeps else {}
    return Answers(tree.stack([r.belief for r in replies]), memory, numbers)
