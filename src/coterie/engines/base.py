"""What engines in one process share: clients in memory, replies in the clear, scoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs, Weights
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput, Diverged
from coterie.core.kernel import Reply, Scorer, Trainer
from coterie.core.learner import Learner
from coterie.core.net import Net, Replies
from coterie.core.registry import Registry
from coterie.core.seeds import Key

CHUNK = 4096  # samples of one forward pass while scoring


class Engine(Protocol):
    """How trainers run: one reply for each edge, in the order of the edges."""

    def train(
        self, net: InProcess, kernel: Trainer, beliefs: Beliefs, edges: Tensor, key: Key, memory: Beliefs
    ) -> Iterable[Reply]: ...


ENGINES: Registry[Engine] = Registry("engine")


@dataclass(frozen=True, eq=False)
class InProcess:
    """A net whose clients are in this process. The engine decides only how trainers run."""

    engine: Engine
    learner: Learner
    clients: tuple[Client, ...]

    @property
    def names(self) -> Sequence[str]:
        return [c.name for c in self.clients]

    @property
    def sizes(self) -> Tensor:
        return torch.tensor([len(c.train) for c in self.clients])

    def visit(
        self,
        kernel: Trainer | Scorer,
        beliefs: Beliefs,
        edges: Tensor,
        key: Key,
        memory: Beliefs | None = None,
    ) -> Replies:
        if isinstance(kernel, Scorer):
            return self._score(kernel, beliefs, edges, key)
        hosts = edges[:, 1]
        if kernel.keeps and len(torch.unique(hosts)) < len(hosts):
            raise BadInput("keep=true needs at most one visit to each client in a round: set keep=false")
        if len(edges) == 0:
            return Replies(edges, {}, memory, None)
        if memory is None:
            one = tree.stack([kernel.fresh(self.learner, tree.row(beliefs, 0))])
            memory = tree.repeat(one, len(self.clients))
        answers = list(self.engine.train(self, kernel, beliefs, edges, key, memory))
        for host, answer in zip(hosts.tolist(), answers, strict=True):
            refuse_not_finite(answer, self.clients[host].name, key.round)
        numbers = {n: torch.stack([a.numbers[n] for a in answers]).cpu() for n in answers[0].numbers}
        kept = tree.put(memory, hosts, tree.stack([a.memory for a in answers])) if kernel.keeps else None
        return Replies(edges, numbers, kept, tree.stack([a.belief for a in answers]))

    def _score(self, kernel: Scorer, beliefs: Beliefs, edges: Tensor, key: Key) -> Replies:
        figures = []
        for guest, host in edges.tolist():
            data: Samples = getattr(self.clients[host], kernel.part)
            if len(data) == 0:
                raise BadInput(f"client {self.clients[host].name!r} has no {kernel.part} samples to score on")
            # what a module draws by itself comes from this edge's seed, as in training
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(key.at("score", kernel.part, guest, host).integer())
                belief = tree.row(beliefs, guest)
                outputs = torch.cat([self.learner.outputs(belief, x) for x in torch.split(data.x, CHUNK)])
                losses = self.learner.losses(outputs, data.y)
            figures.append(kernel.measure(self.learner.task, outputs, losses, data.y))
        names = figures[0] if figures else {}
        numbers = {n: torch.tensor([f[n] for f in figures], dtype=torch.float64) for n in names}
        return Replies(edges, numbers)

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
        return Samples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]))

    return replace(
        clients[0],
        name="+".join(c.name for c in clients),
        train=joined("train"),
        validation=joined("validation"),
        test=joined("test"),
    )


def refuse_not_finite(reply: Reply, client: str, round: int) -> None:
    loss = float(reply.numbers["loss"])
    name = tree.first_not_finite(reply.belief)
    if name is not None or loss != loss or abs(loss) == float("inf"):
        what = f"the loss is {loss}" if name is None else f"{name} is no longer finite (loss {loss:.4g})"
        raise Diverged(
            f"round {round}, client {client!r}: {what}: lower the learning rate or scale the inputs"
        )
