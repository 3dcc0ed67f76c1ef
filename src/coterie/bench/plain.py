"""The plain PyTorch loop, as research code has it: module, DataLoader, torch.optim, state dicts.

Written as most public programs for federated averaging are, in torch's usual style and with its default
threads; nothing here is slow on purpose.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from coterie.bench.gossip import mixing
from coterie.bench.workloads import Workload, hosts_of
from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam


class Plain:
    """One run of a workload; `rows` counts the samples that went through a model in the last one."""

    def __init__(self, workload: Workload, clients: Sequence[Client]) -> None:
        local = workload.local
        self.workload, self.rows = workload, 0
        self.loaders = [
            DataLoader(TensorDataset(c.train.x, c.train.y), batch_size=local.batch, shuffle=local.shuffle)
            for c in clients
        ]
        self.first = workload.module().train()
        self.criterion = nn.CrossEntropyLoss()

    def __call__(self, key: Key) -> Beliefs:
        self.rows = 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key.integer())
            return self.gossip(key) if self.workload.peers else self.federated_averaging(key)

    def federated_averaging(self, key: Key) -> Beliefs:
        sizes, rounds = self.workload.sizes, self.workload.rounds
        model, server = copy.deepcopy(self.first), copy.deepcopy(self.first.state_dict())
        for r in range(1, rounds + 1):
            hosts = hosts_of(self.workload, key.at_round(r, rounds))
            total = sum(sizes[host] for host in hosts)
            states = []
            for host in hosts:
                model.load_state_dict(server)
                self.train(model, self.loaders[host])
                states.append(copy.deepcopy(model.state_dict()))
            server = average(states, [sizes[host] / total for host in hosts])
        return tree.stack([server])

    def gossip(self, key: Key) -> Beliefs:
        rounds = self.workload.rounds
        models = [copy.deepcopy(self.first) for _ in self.loaders]
        for r in range(1, rounds + 1):
            for model, loader in zip(models, self.loaders, strict=True):
                self.train(model, loader)
            states = [copy.deepcopy(model.state_dict()) for model in models]
            weights = mixing(len(models), self.workload.peers, key.at_round(r, rounds)).tolist()
            for model, shares in zip(models, weights, strict=True):
                senders = [j for j, share in enumerate(shares) if share]
                model.load_state_dict(average([states[j] for j in senders], [shares[j] for j in senders]))
        return tree.stack([model.state_dict() for model in models])

    def train(self, model: nn.Module, loader: DataLoader[Any]) -> None:
        optimizer = make_optimizer(model, self.workload.local)
        for x, y in batches(loader, self.workload.local.epochs, self.workload.local.steps):
            optimizer.zero_grad()
            loss = self.criterion(model(x), y)
            loss.backward()
            optimizer.step()
            self.rows += len(y)


def make_optimizer(model: nn.Module, local: SGD | Adam) -> optim.Optimizer:
    if isinstance(local, SGD):
        return optim.SGD(
            model.parameters(),
            lr=local.lr,
            momentum=local.momentum,
            nesterov=local.nesterov,
            weight_decay=local.weight_decay,
        )
    kind = optim.AdamW if local.decoupled else optim.Adam
    betas = (local.beta1, local.beta2)
    return kind(model.parameters(), lr=local.lr, betas=betas, eps=local.eps, weight_decay=local.weight_decay)


def batches(loader: DataLoader[Any], epochs: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """So many epochs, or so many batches, going round the data as long as it takes."""
    if steps:
        return itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), steps)
    return itertools.chain.from_iterable(itertools.repeat(loader, epochs))


def average(states: Sequence[dict[str, Tensor]], shares: Sequence[float]) -> dict[str, Tensor]:
    """Σ share · state, name by name."""
    mean = {name: shares[0] * tensor for name, tensor in states[0].items()}
    for state, share in zip(states[1:], shares[1:], strict=True):
        for name, tensor in state.items():
            mean[name] += share * tensor
    return mean
