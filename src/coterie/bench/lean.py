"""A lean loop: what a careful programmer gets from PyTorch without batching clients.

No DataLoader but index tensors; one module for all clients, whose parameters are views of one flat vector,
and so are their gradients: a belief is loaded, stepped and averaged in one operation each. Default threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coterie.bench.gossip import mixing
from coterie.bench.workloads import Workload, hosts_of
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.kernels import SGD


class Lean:
    """One run of a workload; `rows` counts the samples that went through the model in the last one."""

    def __init__(self, workload: Workload, clients: Sequence[Client]) -> None:
        local = workload.local
        if local.weight_decay or (isinstance(local, SGD) and local.momentum):
            raise BadInput("the lean loop has no momentum and no weight decay: leave them out of a workload")
        self.workload, self.clients, self.rows = workload, clients, 0
        self.model = workload.module().train()
        self.flat, self.grad = flatten(self.model)
        self.first = self.flat.clone()
        self.generator = torch.Generator()

    def __call__(self, key: Key) -> Beliefs:
        self.rows = 0
        self.generator.manual_seed(key.integer())
        return self.unflatten(self.gossip(key) if self.workload.peers else self.federated_averaging(key))

    def federated_averaging(self, key: Key) -> Tensor:
        sizes, rounds = self.workload.sizes, self.workload.rounds
        server, mean = self.first.clone(), torch.empty_like(self.first)
        for r in range(1, rounds + 1):
            hosts = hosts_of(self.workload, key.at_round(r, rounds))
            total = sum(sizes[host] for host in hosts)
            mean.zero_()
            for host in hosts:
                self.flat.copy_(server)
                self.train(self.clients[host])
                mean.add_(self.flat, alpha=sizes[host] / total)
            server, mean = mean, server
        return server.unsqueeze(0)

    def gossip(self, key: Key) -> Tensor:
        n, rounds = len(self.clients), self.workload.rounds
        beliefs = self.first.repeat(n, 1)
        for r in range(1, rounds + 1):
            for belief, client in zip(beliefs, self.clients, strict=True):
                self.flat.copy_(belief)
                self.train(client)
                belief.copy_(self.flat)
            beliefs = mixing(n, self.workload.peers, key.at_round(r, rounds)).float() @ beliefs
        return beliefs

    def train(self, client: Client) -> None:
        local, x, y = self.workload.local, client.train.x, client.train.y
        batch = min(local.batch, len(y))
        left = local.steps or local.epochs * math.ceil(len(y) / batch)
        moments = torch.zeros(0 if isinstance(local, SGD) else 2, len(self.flat))
        t = 0
        while left > 0:
            for rows in torch.split(self.deal(len(y)), batch)[:left]:
                t, left = t + 1, left - 1
                self.grad.zero_()
                torch.autograd.backward(F.cross_entropy(self.model(x[rows]), y[rows]))
                self.step(moments, t)
                self.rows += len(rows)

    def deal(self, rows: int) -> Tensor:
        if not self.workload.local.shuffle:
            return torch.arange(rows)
        return torch.randperm(rows, generator=self.generator)

    @torch.no_grad()
    def step(self, moments: Tensor, t: int) -> None:
        local = self.workload.local
        if isinstance(local, SGD):
            self.flat.sub_(self.grad, alpha=local.lr)
            return
        mean, square = moments
        mean.lerp_(self.grad, 1 - local.beta1)
        square.mul_(local.beta2).addcmul_(self.grad, self.grad, value=1 - local.beta2)
        spread = square.sqrt().div_(math.sqrt(1 - local.beta2**t)).add_(local.eps)
        self.flat.addcdiv_(mean, spread, value=-local.lr / (1 - local.beta1**t))

    def unflatten(self, beliefs: Tensor) -> Beliefs:
        named = list(self.model.named_parameters())
        pieces = torch.split(beliefs, [p.numel() for _, p in named], dim=1)
        return {
            name: t.reshape(len(beliefs), *p.shape).clone()
            for (name, p), t in zip(named, pieces, strict=True)
        }


def flatten(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Makes the parameters views of one vector and their gradients of another; returns the two."""
    if any(True for _ in model.buffers()):
        raise BadInput("the lean loop knows parameters only, no buffers: take a model without batch norm")
    params = list(model.parameters())
    flat = torch.cat([p.detach().reshape(-1) for p in params])
    grad = torch.zeros_like(flat)
    sizes = [p.numel() for p in params]
    for p, values, slopes in zip(params, torch.split(flat, sizes), torch.split(grad, sizes), strict=True):
        p.data = values.view_as(p)
        p.grad = slopes.view_as(p)
    return flat, grad
