"""What guiding an average costs beside training: python benchmarks/layer_metrics.py [--batches N]

For a ResNet-18 and four clients: the seconds of each low-rank metric on all of its layers, the server's
work of a round, beside the seconds of one local epoch over 12,500 pictures of 3x32x32, a client's share of
CIFAR-10. Both are measured in the same process on the same threads. The epoch is extrapolated from a few
batches of 64 after one to warm up, as it takes minutes: seconds a picture times 12,500. Batches are large
enough for its cost to grow with the pictures alone. The weights are those of four clients after these
steps.
"""

from __future__ import annotations

import argparse
import time

import torch

from coterie.core.belief import belief_of, stack
from coterie.core.client import Client, Samples
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.net import SERVER, from_server
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import Adam
from coterie.methods.server.guided import Guided, scored
from coterie.models import MODELS
from coterie.nets import InProcess

CLIENTS, PICTURES, BATCH = 4, 12_500, 64
METRICS = ("stable-rank", "knowledge-gain", "uniqueness")


def client_of(i: int, pictures: int) -> Client:
    generator = torch.Generator().manual_seed(i)
    x = torch.randn(pictures, 3, 32, 32, generator=generator)
    part = Samples(x, torch.randint(10, (pictures,), generator=generator))
    return Client(f"c{i}", part, part, part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=2, help="timed batches of 64 for each client")
    batches = parser.parse_args().batches
    module = MODELS.make("resnet18").build((3, 32, 32), 10, seed=0)
    clients = tuple(client_of(i, BATCH) for i in range(CLIENTS))
    net = InProcess(ENGINES.make("loop"), Learner(module, "classification"), clients)
    start, edges = hold(stack([belief_of(module)]), SERVER), from_server(torch.arange(CLIENTS))
    net.visit(Adam(batch=BATCH, steps=1), start, edges[:1], Key(0).at("warm"))
    begin = time.perf_counter()
    replies = net.visit(Adam(batch=BATCH, steps=batches), start, edges, Key(0))
    epoch = (time.perf_counter() - begin) / (CLIENTS * batches * BATCH) * PICTURES
    print(f"threads {torch.get_num_threads()}; a local epoch of {PICTURES:,} pictures: {epoch:.0f} s, from")
    print(f"{CLIENTS * batches} batches of {BATCH}")
    opened, nothing = net.open(replies.beliefs), torch.full((CLIENTS,), float("nan"))
    for metric in METRICS:
        method = Guided(metric=metric)
        state = method.init(start, net)
        layers = scored(opened, state.names, method.linear)
        begin = time.perf_counter()
        method.measure(state, layers, opened, start.tensors, torch.arange(CLIENTS), nothing)
        took = time.perf_counter() - begin
        print(
            f"{metric:>16}: {took:5.1f} s for {len(layers)} layers, {100 * took / epoch:.2f} % of the epoch"
        )


if __name__ == "__main__":
    main()
