"""Who takes part: the plain loop, the lean loop, and every engine by name."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.errors import BadInput, UnknownName
from coterie.core.held import at_coordinator, handles_in, hold
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.engines.threads import narrow
from coterie.kernels import SGD
from coterie.nets import InProcess
from coterie.studies.bench.workloads import Workload, hosts_of, mixing

Run = Callable[[Key], Beliefs]
"""All rounds of a workload with the random numbers of that key; the beliefs at the end, [model, ...]."""


class Plain:
    """The plain PyTorch loop, as research code has it: module, DataLoader, torch.optim, state dicts.

    Written as most public programs for federated averaging are, in torch's usual style and with its default
    threads; nothing here is slow on purpose. `rows` counts the samples that went through a model in the last
    run of the workload.
    """

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
            server = _average(states, [sizes[host] / total for host in hosts])
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
                model.load_state_dict(_average([states[j] for j in senders], [shares[j] for j in senders]))
        return tree.stack([model.state_dict() for model in models])

    def train(self, model: nn.Module, loader: DataLoader[Any]) -> None:
        """So many epochs, or so many batches, going round the data as long as it takes."""
        local = self.workload.local
        shared: dict[str, Any] = {"lr": local.lr, "weight_decay": local.weight_decay}
        optimizer: optim.Optimizer
        if isinstance(local, SGD):
            shared |= {"momentum": local.momentum, "nesterov": local.nesterov}
            optimizer = optim.SGD(model.parameters(), **shared)
        else:
            kind = optim.AdamW if local.decoupled else optim.Adam
            betas = (local.beta1, local.beta2)
            optimizer = kind(model.parameters(), **shared, betas=betas, eps=local.eps)
        passes = itertools.repeat(loader) if local.steps else itertools.repeat(loader, local.epochs)
        batches = itertools.islice(itertools.chain.from_iterable(passes), local.steps or None)
        for x, y in batches:
            optimizer.zero_grad()
            loss = self.criterion(model(x), y)
            loss.backward()
            optimizer.step()
            self.rows += len(y)


def _average(states: Sequence[dict[str, Tensor]], shares: Sequence[float]) -> dict[str, Tensor]:
    """Σ share · state, name by name."""
    mean = {name: shares[0] * tensor for name, tensor in states[0].items()}
    for state, share in zip(states[1:], shares[1:], strict=True):
        for name, tensor in state.items():
            mean[name] += share * tensor
    return mean


class Lean:
    """A lean loop: what a careful programmer gets from PyTorch without batching clients.

    No DataLoader but index tensors; one module for all clients, whose parameters are views of one flat
    vector, and so are their gradients: a belief is loaded, stepped and averaged in one operation each.
    Default threads. `rows` counts as the plain loop's do.
    """

    def __init__(self, workload: Workload, clients: Sequence[Client]) -> None:
        local = workload.local
        if local.weight_decay or (isinstance(local, SGD) and local.momentum):
            raise BadInput("the lean loop has no momentum and no weight decay: leave them out of a workload")
        self.workload, self.clients, self.rows = workload, clients, 0
        self.model = workload.module().train()
        self.flat, self.grad = _flatten(self.model)
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
            order = (
                torch.randperm(len(y), generator=self.generator) if local.shuffle else torch.arange(len(y))
            )
            for rows in torch.split(order, batch)[:left]:
                t, left = t + 1, left - 1
                self.grad.zero_()
                torch.autograd.backward(F.cross_entropy(self.model(x[rows]), y[rows]))
                self.step(moments, t)
                self.rows += len(rows)

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
        named = dict(self.model.named_parameters())
        pieces = torch.split(beliefs, [p.numel() for p in named.values()], dim=1)
        shaped = zip(named.items(), pieces, strict=True)
        return {name: piece.reshape(len(beliefs), *p.shape).clone() for (name, p), piece in shaped}


def _flatten(model: nn.Module) -> tuple[Tensor, Tensor]:
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


class OnEngine:
    """The workload's method on one of our engines; the net is made once, as in a run."""

    def __init__(self, name: str, workload: Workload, clients: Sequence[Client]) -> None:
        module = workload.module()
        self.workload, self.method = workload, workload.method
        self.first = tree.stack([tree.belief_of(module)])
        self.net = InProcess(ENGINES.make(name), Learner(module, "classification"), tuple(clients))
        self.method.check(self.net.roster, self.first, Key(0, rounds=workload.rounds))

    @narrow()
    def __call__(self, key: Key) -> Beliefs:
        rounds = self.workload.rounds
        state = self.method.init(hold(self.first, at_coordinator(1)), self.net)
        for r in range(1, rounds + 1):
            state, _ = self.method.round(state, self.net, key.at_round(r, rounds))
            self.net.keep(handles_in(state), r)
        return self.net.open(self.method.models(state).beliefs)


LOOPS: dict[str, Callable[[Workload, Sequence[Client]], Run]] = {"plain": Plain, "lean": Lean}


def prepare(name: str, workload: Workload, clients: Sequence[Client]) -> Run:
    """The contender of that name, ready to run; what it does here is not timed."""
    if name in LOOPS:
        return LOOPS[name](workload, clients)
    if name not in ENGINES:
        raise UnknownName("contender", name, [*LOOPS, *ENGINES])
    return OnEngine(name, workload, clients)


def engines_to_run(asked: Sequence[str]) -> tuple[str, ...]:
    """Those asked for; otherwise all but the reference, unless there is no other."""
    for name in asked:
        ENGINES[name]  # refuses an unknown one, with the nearest right name
    return tuple(asked) or tuple(n for n in ENGINES if n != "loop") or ("loop",)
