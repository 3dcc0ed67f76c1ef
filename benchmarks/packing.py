"""What packing models saves, and what it costs: python benchmarks/packing.py

    rounds   FedAvg on digits, ten clients whose labels are shifted, an MLP: bytes that cross in a round, and
             the accuracy in the end, for each squeeze. Models cross in this process, in both directions: the
             server's to the sites as a change of the last one they got, a site's back as a change of the one
             it began with; with error feedback both ways.
    hops     a model of a few sizes, exactly: how small a change becomes (from a server, from a site), the
             seconds that packing, unpacking and both digests take, and the line on which they cost as much as
             they save. Faster lines lose time, slower ones gain.

Bytes are those of data and of meta as JSON. Nothing else runs on the machine, please.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
import tyro
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.client import Client
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.net import SERVER, from_server
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES
from coterie.engines import ENGINES
from coterie.kernels import SGD
from coterie.kernels.score import Score
from coterie.methods.server.fedavg import averaging_weights
from coterie.models import MODELS
from coterie.nets import InProcess
from coterie.nets.lossy import Memory, Squeeze, squeeze_of, unpack
from coterie.nets.packing import Reference, pack
from coterie.nets.packing import unpack as unpack_exactly
from coterie.studies.bench.command import say_busy

T = TypeVar("T")
Model = Mapping[str, Tensor]
HOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": ("logistic", {}),
    "MLP, one layer of 64": ("mlp", {"hidden": (64,)}),
    "CNN": ("erosion-cnn", {}),
    "MLP of 10 MB": ("mlp", {"hidden": (1400, 1400, 400)}),
}


@dataclass(frozen=True)
class Asked:
    what: tyro.conf.Positional[Literal["rounds", "hops"]] = "rounds"
    """Which table."""
    squeezes: tuple[str, ...] = ("none", "delta", "fp16", "int8", "topk=0.1", "topk=0.01")
    """How models cross, of rounds."""
    hidden: tuple[int, ...] = (200, 200)
    """Units of the MLP's layers, of rounds."""
    rounds: int = 30
    """Rounds of FedAvg."""
    lr: float = 0.1
    """Step size of a site's SGD: one epoch, batches of 32."""
    seeds: int = 5
    """Runs of each squeeze."""
    feedback: bool = True
    """What was not sent is sent later."""


class World:
    """Ten clients of digits, and a net around them."""

    def __init__(self, model: str, options: Mapping[str, Any], lr: float, seed: int) -> None:
        data = SOURCES.make("digits").load()
        split = SPLITS.make("shift", distribution="F")
        self.clients: tuple[Client, ...] = deal_clients(data, split, 10, Key(seed), one_class=True).clients
        module = MODELS.make(model, **options).build(self.clients[0].train.x.shape[1:], 10, seed=seed)
        self.start: Model = tree.belief_of(module)
        self.net = InProcess(ENGINES.make("auto"), Learner(module, "classification"), self.clients)
        self.edges = from_server(torch.arange(10))
        self.shares = averaging_weights(self.net.roster.sizes, True)
        self.work, self.key = SGD(lr=lr, epochs=1, batch=32), Key(seed, ("benchmark", "packing"))

    def replies(self, model: Model, round: int, rounds: int) -> list[Model]:
        """What each client makes of a model."""
        held, key = hold(tree.stack([model]), SERVER), self.key.at_round(round, rounds)
        beliefs = self.net.open(self.net.visit(self.work, held, self.edges, key).beliefs)
        return [tree.row(beliefs, k) for k in range(10)]

    def average(self, replies: list[Model]) -> Model:
        return tree.row(tree.mix(self.shares.unsqueeze(0), tree.stack(replies)), 0)

    def accuracy(self, model: Model) -> float:
        """Mean over the clients' test rows of their own."""
        held = hold(tree.stack([model]), SERVER)
        figures = self.net.visit(Score(), held, self.edges, self.key).numbers
        return float(figures["accuracy"].double().mean())


def crossed(
    squeeze: Squeeze, model: Model, reference: Reference | None, memory: Memory | None
) -> tuple[Reference, Memory | None, int]:
    """What the receiver has then, what the sender owes, and the bytes between them."""
    meta, data, memory = squeeze.pack(model, reference, memory)
    return Reference.of(unpack(meta, data, reference)), memory, len(data) + len(json.dumps(meta))


def fedavg(world: World, squeeze: Squeeze, rounds: int, feedback: bool) -> tuple[float, float, float]:
    """Bytes down and up, of a site in a round after the first, and the accuracy in the end."""
    model, there, owed, down, up = world.start, None, None, 0, 0
    memories: list[Memory | None] = [None] * 10
    for round in range(1, rounds + 1):
        there, new, size = crossed(squeeze, model, there, owed)
        owed = new if feedback else None
        down += size if round > 1 else 0
        arrived = []
        for k, reply in enumerate(world.replies(there.tensors, round, rounds)):
            got, new, size = crossed(squeeze, reply, there, memories[k])
            memories[k] = new if feedback else None
            up += size if round > 1 else 0
            arrived.append(got.tensors)
        model = world.average(arrived)
    return down / (rounds - 1), up / (rounds - 1) / 10, world.accuracy(model)


def print_rounds(asked: Asked) -> None:
    print("| squeeze | KB down | KB up | of plain bytes | accuracy | worst and best seed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in asked.squeezes:
        squeeze, runs, plain = squeeze_of(name), [], 0
        for seed in range(asked.seeds):
            world = World("mlp", {"hidden": asked.hidden}, asked.lr, seed)
            plain = 2 * tree.size_in_bytes(world.start)
            runs.append(fedavg(world, squeeze, asked.rounds, asked.feedback))
        down, up, accuracy = (sum(values) / len(runs) for values in zip(*runs, strict=True))
        scores = [run[2] for run in runs]
        print(
            f"| `{name}` | {down / 1e3:.1f} | {up / 1e3:.1f} | {(down + up) / plain:.3f} | {accuracy:.3f} "
            f"| {min(scores):.3f} to {max(scores):.3f} |",
            flush=True,
        )


def print_hops(asked: Asked) -> None:
    print(
        "| model | hop | bytes | packed by | of plain | pack ms | unpack ms | digests ms | worth it below |"
    )
    print("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (model, options) in HOPS.items():
        world = World(model, options, asked.lr, 0)
        rounds = 3 if "10 MB" in name else 10
        before, now = world.start, world.start
        for round in range(1, rounds + 1):
            replies = world.replies(now, round, rounds)
            before, now = now, world.average(replies)
        hops: list[tuple[str, Model, Model | None]] = [("first", world.start, None)]
        hops += [("down", now, before), ("up", replies[0], before)]
        for hop, sent, earlier in hops:
            print(f"| {name} | {hop} | {row_of(sent, earlier)} |", flush=True)


def row_of(sent: Model, earlier: Model | None) -> str:
    reference = None if earlier is None else Reference.of(earlier)
    digest = best(lambda: Reference.of(sent))[0] * 2  # each end names its next reference
    packing, (meta, data) = best(lambda: pack(sent, reference))
    unpacking, back = best(lambda: unpack_exactly(meta, data, reference))
    assert all(torch.equal(back[n], t) for n, t in sent.items())
    size = tree.size_in_bytes(sent)
    line = 8 * (size - len(data)) / (packing + unpacking + digest) / 1e6
    times = " | ".join(f"{1e3 * seconds:.2f}" for seconds in (packing, unpacking, digest))
    worth = f"{line:.0f} Mbit/s" if len(data) < size else "-"
    return f"{size:,} | {meta['how']} | {len(data) / size:.3f} | {times} | {worth}"


def best(do: Callable[[], T], repeats: int = 7) -> tuple[float, T]:
    """The seconds of the fastest of several, and what it made."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        made = do()
        seconds.append(time.perf_counter() - started)
    return min(seconds), made


def main() -> None:
    asked = tyro.cli(Asked, description=__doc__)
    say_busy()
    (print_rounds if asked.what == "rounds" else print_hops)(asked)


if __name__ == "__main__":
    main()
