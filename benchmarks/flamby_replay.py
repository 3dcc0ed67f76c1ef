"""FLamby's program written again in plain PyTorch, with its own order of batches: does it give FLamby's
figures?

    python benchmarks/flamby_replay.py             # heart disease; --federation brca

What it does is read off owkin/FLamby (flamby/benchmarks/fed_benchmark.py, flamby/strategies); the code is
ours. A client's batches are dealt by torch's DataLoader from the global generator, seeded before each
training; in rounds an epoch goes on where the last round left it. Rows, first weights and scores are those of
`coterie reproduce flamby`, so that what is left to differ between that and this are batches alone. Printed is
the largest difference of a mean over the five seeds from the published one, in points, for each way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from coterie.core.learner import cross_entropy
from coterie.core.survival import cox
from coterie.studies.flamby import FIRST_SEED, PUBLISHED_WAYS, UPDATES
from coterie.studies.flamby.federations import FEDERATIONS, POOLED, model_of, rows_of, score
from coterie.studies.flamby.published import PUBLISHED

Batches = Iterator[list[Tensor]]
LOSS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"heart": cross_entropy, "brca": cox}


def loader(rows, batch: int) -> DataLoader:
    return DataLoader(TensorDataset(rows.x, rows.y), batch_size=batch, shuffle=True)


def endless(batches: DataLoader) -> Batches:
    """One epoch after the other; the first order is drawn when the first batch is asked for."""
    return chain.from_iterable(repeat(batches))


def updated(
    name: str, model: nn.Module, batches: Batches, updates: int, optimiser, term=lambda m: 0.0
) -> None:
    for _ in range(updates):
        x, y = next(batches)
        optimiser.zero_grad()
        (LOSS[name](model(x), y).mean() + term(model)).backward()
        optimiser.step()


def vector(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def load(model: nn.Module, values: Tensor) -> nn.Module:
    nn.utils.vector_to_parameters(values.clone(), model.parameters())
    return model


def single(name: str, rows, seed: int) -> nn.Module:
    """Pooled, or alone: Adam."""
    study, model = FEDERATIONS[name], model_of(name, seed)
    batches = loader(rows, study.batch)
    torch.manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=study.rate)
    for _ in range(study.epochs):
        updated(name, model, iter(batches), len(batches), optimiser)
    return model


def federated(name: str, way: str, seed: int) -> nn.Module:
    study, clients = FEDERATIONS[name], rows_of(name).clients
    rate, options = PUBLISHED_WAYS[way][name]
    loaders = [endless(loader(c.train, study.batch)) for c in clients]
    sizes = torch.tensor([len(c.train) for c in clients], dtype=torch.float32)
    x, model = vector(model_of(name, seed)), model_of(name, seed)
    corrections = [torch.zeros_like(x) for _ in clients]
    m, v = torch.zeros_like(x), torch.zeros_like(x)
    torch.manual_seed(seed)
    for _ in range(study.rounds):
        ends = []
        for batches, correction in zip(loaders, corrections, strict=True):
            load(model, x)
            start, mu = x, options.get("mu", 0.0)

            def term(m: nn.Module, correction=correction, start=start, mu=mu) -> Tensor | float:
                now = nn.utils.parameters_to_vector(m.parameters())
                if way == "fedprox":
                    return mu / 2 * (now - start).square().sum()
                return -(correction @ now) if way == "scaffold" else 0.0

            updated(name, model, batches, UPDATES, torch.optim.SGD(model.parameters(), lr=rate), term)
            ends.append(vector(model))
        delta = ((torch.stack(ends) - x) * sizes[:, None]).sum(dim=0) / sizes.sum()
        if way in ("fedavg", "fedprox", "scaffold"):
            move = delta
        else:
            m = 0.9 * m + 0.1 * delta
            v = {
                "fedadam": 0.999 * v + 0.001 * delta**2,
                "fedyogi": v - 0.001 * delta**2 * torch.sign(v - delta**2),
                "fedadagrad": v + delta**2,
            }[way]
            move = options["server_lr"] * m / (v.sqrt() + 1e-8)
        x = x + move
        corrections = [c + (x - end) / (rate * UPDATES) for c, end in zip(corrections, ends, strict=True)]
    return load(model, x)


def cycled(name: str, seed: int) -> nn.Module:
    """Everybody's own model, one client a round; the first client's is returned."""
    study, clients = FEDERATIONS[name], rows_of(name).clients
    rate, _ = PUBLISHED_WAYS["cyclic"][name]
    rng = np.random.default_rng(seed)
    loaders = [endless(loader(c.train, study.batch)) for c in clients]
    models = [model_of(name, seed) for _ in clients]
    order: list[int] = []
    while len(order) < study.rounds:
        order += rng.permutation(len(clients)).tolist()
    torch.manual_seed(seed)
    for i in order[: study.rounds]:
        updated(name, models[i], loaders[i], UPDATES, torch.optim.SGD(models[i].parameters(), lr=rate))
    return models[0]


def scores_of(name: str, way: str, seed: int) -> dict[str, float]:
    rows = rows_of(name)
    if way == "alone":
        return {c.name: score(name, single(name, c.train, seed), c.test) for c in rows.clients}
    if way == "pooled":
        model = single(name, rows.pooled.train, seed)
    else:
        model = cycled(name, seed) if way == "cyclic" else federated(name, way, seed)
    return {test: score(name, model, r) for test, r in rows.tests.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--federation", choices=list(FEDERATIONS), default="heart")
    parser.add_argument("--ways", nargs="*", help="all that are published, if none is named")
    parser.add_argument("--seeds", type=int, default=5)
    told = parser.parse_args()
    torch.set_num_threads(1)
    name = told.federation
    tests = (*FEDERATIONS[name].clients, POOLED)
    print("| way | largest difference of a mean, points | " + " | ".join(tests) + " |")
    print("| --- |" + " ---: |" * (len(tests) + 1))
    for way in told.ways or PUBLISHED[name]:
        theirs = PUBLISHED[name][way]
        found = [scores_of(name, way, FIRST_SEED + s) for s in range(told.seeds)]
        means = {test: float(np.mean([f[test] for f in found])) for test in theirs}
        apart = {test: 100 * (means[test] - theirs[test][0]) for test in theirs}
        cells = [f"{apart[test]:+.1f}" if test in apart else "–" for test in tests]
        print(f"| `{way}` | {max(map(abs, apart.values())):.1f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
