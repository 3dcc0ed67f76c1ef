"""Heart disease of four hospitals by nine methods, each a loop over clients as its paper has it.

python plain_hospitals.py OUT.csv --data hospitals.npz

The file with the clients is one that `coterie bench whole --out FOLDER` leaves behind.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from plain_common import (  # type: ignore[import-not-found]
    Args,
    Client,
    State,
    average,
    central,
    fedavg,
    finetune,
    loader_of,
    local,
    run_study,
    train,
)
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

FOLDS = 5


def _weight_erosion(
    clients: list[Client], start: nn.Module, args: Args, p_d: float = 0.05
) -> Iterator[list[list[nn.Module]]]:
    """Grimberg, 2020: a model for each client, in which others lose weight as their updates part from its."""
    loaders = [loader_of(c.train_x, c.train_y, args) for c in clients]
    models = [copy.deepcopy(start) for _ in clients]
    alpha = [[1.0] * len(clients) for _ in clients]
    for _ in range(args.rounds):
        for k, model in enumerate(models):
            asked = [j for j, weight in enumerate(alpha[k]) if weight > 0]
            states, updates = {}, {}
            for j in asked:
                other = copy.deepcopy(model)
                train(other, loaders[j], args)
                states[j] = other.state_dict()
                updates[j] = (_flat(other) - _flat(model)) / len(loaders[j])  # for each of its steps
            for j in asked:
                distance = (updates[j] - updates[k]).norm() / updates[k].norm()
                alpha[k][j] = max(0.0, alpha[k][j] - p_d * float(distance))
            total = sum(alpha[k][j] for j in asked)
            model.load_state_dict(average([states[j] for j in asked], [alpha[k][j] / total for j in asked]))
        yield [[model] for model in models]


def _pens(
    clients: list[Client],
    start: nn.Module,
    args: Args,
    rounds_step1: int = 20,
    samplings: int = 10,
    sampled: int = 3,
    selected: int = 1,
    neighbours: int = 20,
) -> Iterator[list[list[nn.Module]]]:
    """Karlsson and Onoszko, 2021: average with those on whose data one's model does well."""
    n = len(clients)
    loaders = [loader_of(c.train_x, c.train_y, args) for c in clients]
    models = [copy.deepcopy(start) for _ in clients]
    history = np.zeros((n, n), dtype=int)
    for r in range(1, args.rounds + 1):
        for model, loader in zip(models, loaders, strict=True):
            train(model, loader, args)
        partners = []
        for k, model in enumerate(models):
            others = [j for j in range(n) if j != k]
            if r > rounds_step1:
                threshold = history[k].sum() / (n - 1)
                circle = [j for j in others if history[k, j] > threshold]
                partners.append(random.sample(circle, min(neighbours, len(circle))))
                continue
            scores = {j: _accuracy(model, clients[j].train_x, clients[j].train_y) for j in others}
            picked: list[int] = []
            for _ in range(samplings):
                drawn = random.sample(others, min(sampled, len(others)))
                picked = sorted(drawn, key=lambda j: scores[j], reverse=True)[:selected]
                for j in picked:
                    history[k, j] += 1
            partners.append(picked)
        for k in random.sample(range(n), n):  # one after the other: those after it see its new model
            group = [k, *partners[k]]
            models[k].load_state_dict(
                average([models[j].state_dict() for j in group], [1 / len(group)] * len(group))
            )
        yield [[model] for model in models]


def _ndoye(
    clients: list[Client], start: nn.Module, args: Args, best: int = 2, passes: int = 5
) -> Iterator[list[list[nn.Module]]]:
    """Grimberg, 2020: train with those whose models lose least by the move to one's own data."""
    n = len(clients)
    alone, home = [], []
    for c in clients:
        alone.append(_trained(start, c.train_x, c.train_y, args, passes))
        total = 0.0
        for kept, held in _folds(len(c.train_y)):
            model = _trained(start, c.train_x[kept], c.train_y[kept], args, passes)
            total += _loss_of(model, c.train_x[held], c.train_y[held]) * len(held)
        home.append(total / len(c.train_y))
    circles = []
    for k, c in enumerate(clients):
        others = [j for j in range(n) if j != k]
        transfer = {j: _loss_of(alone[j], c.train_x, c.train_y) - home[j] for j in others}
        circles.append([k, *sorted(others, key=lambda j: transfer[j])[:best]])
    yield from _ranked(clients, start, args, circles)


def _influence(clients: list[Client], start: nn.Module, args: Args) -> Iterator[list[list[nn.Module]]]:
    """Grimberg, 2020, section 6: train with those without whom the average would do worse on one's data."""
    n, sizes = len(clients), [len(c.train_y) for c in clients]
    gain = np.zeros((n, n))
    dealt = [_folds(size) for size in sizes]
    for fold in range(FOLDS):
        states = []
        for c, parts in zip(clients, dealt, strict=True):
            kept, _ = parts[fold]
            states.append(_trained(start, c.train_x[kept], c.train_y[kept], args).state_dict())
        for k, c in enumerate(clients):
            _, held = dealt[k][fold]
            x, y = c.train_x[held], c.train_y[held]
            everyone = _loss_of(_averaged(start, states, sizes), x, y)
            for j in range(n):
                rest = [i for i in range(n) if i != j]
                without = _averaged(start, [states[i] for i in rest], [sizes[i] for i in rest])
                gain[k, j] += (_loss_of(without, x, y) - everyone) * len(held)
    circles = [[k, *(j for j in range(n) if j != k and gain[k, j] > 0)] for k in range(n)]
    yield from _ranked(clients, start, args, circles)


def _fl_swag(
    clients: list[Client], start: nn.Module, args: Args, draws: int = 30, floor: float = 1e-3
) -> Iterator[list[list[nn.Module]]]:
    """Makni, 2022: each client alone collects moments of its path; in the end their Gaussians multiply.

    Of a weight that hardly moved a client knows nothing: its precision fades below the floor.
    """
    loaders = [loader_of(c.train_x, c.train_y, args) for c in clients]
    models = [copy.deepcopy(start) for _ in clients]
    paths: list[list[Tensor]] = [[] for _ in clients]
    warm = args.rounds // 2
    for r in range(1, args.rounds + 1):
        for model, loader, path in zip(models, loaders, paths, strict=True):
            if r == warm + 1:
                path.append(_flat(model))
            train(model, loader, args)
            if r > warm:
                path.append(_flat(model))
        if r < args.rounds:
            yield [[model] for model in models]
    precision, shift = 0.0 * paths[0][0], 0.0 * paths[0][0]
    for path in paths:
        states = torch.stack(path)
        variance = states.var(dim=0, unbiased=False)
        moved = variance / (variance + floor)  # what did not move says nothing
        mine = moved / (variance + floor) + (1 - moved) / len(clients)
        precision, shift = precision + mine, shift + mine * states.mean(dim=0)
    crowd = []
    for _ in range(draws):
        model = copy.deepcopy(start)
        drawn = shift / precision + torch.randn_like(shift) / precision.sqrt()
        vector_to_parameters(drawn.float(), model.parameters())
        crowd.append(model)
    yield [crowd for _ in clients]


def _ranked(
    clients: list[Client], start: nn.Module, args: Args, circles: Sequence[Sequence[int]]
) -> Iterator[list[list[nn.Module]]]:
    """The first round went into the ranking; from the second on FedAvg within each client's circle."""
    loaders = [loader_of(c.train_x, c.train_y, args) for c in clients]
    models = [copy.deepcopy(start) for _ in clients]
    yield [[model] for model in models]
    for _ in range(args.rounds - 1):
        for model, circle in zip(models, circles, strict=True):
            states = []
            for j in circle:
                other = copy.deepcopy(model)
                train(other, loaders[j], args)
                states.append(other.state_dict())
            total = sum(len(clients[j].train_y) for j in circle)
            model.load_state_dict(average(states, [len(clients[j].train_y) / total for j in circle]))
        yield [[model] for model in models]


def _trained(start: nn.Module, x: Tensor, y: Tensor, args: Args, passes: int = 1) -> nn.Module:
    model, loader = copy.deepcopy(start), loader_of(x, y, args)
    for _ in range(passes):
        train(model, loader, args)
    return model


def _averaged(start: nn.Module, states: Sequence[State], sizes: Sequence[int]) -> nn.Module:
    model = copy.deepcopy(start)
    model.load_state_dict(average(states, [size / sum(sizes) for size in sizes]))
    return model


def _folds(rows: int) -> list[tuple[Tensor, Tensor]]:
    """For each fold, the rows that are kept and those that are held out."""
    parts = torch.randperm(rows).chunk(FOLDS)
    return [(torch.cat([p for i, p in enumerate(parts) if i != k]), held) for k, held in enumerate(parts)]


def _flat(model: nn.Module) -> Tensor:
    return parameters_to_vector(model.parameters()).detach().double()


def _loss_of(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return float(F.cross_entropy(model(x), y))


def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return float((model(x).argmax(dim=1) == y).float().mean())


METHODS = {
    "local": local,
    "fedavg": fedavg,
    "finetune": finetune,
    "weight-erosion": _weight_erosion,
    "pens": _pens,
    "ndoye": _ndoye,
    "influence": _influence,
    "fl-swag": _fl_swag,
    "central": central,
}

if __name__ == "__main__":
    run_study(METHODS, data="hospitals.npz", lr=0.1, seeds=3)
