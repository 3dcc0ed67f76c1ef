"""Coterie's personal methods beside other programs, on the same batches: the largest difference of each.

Ditto, FedPer and FedRep run beside fluke 0.8.1 (https://github.com/makgyver/fluke), whose clients' `fit` is
called and whose models are averaged here. It wants packages of its own, so it gets an environment of its own:

    python -m venv fluke-env
    fluke-env/bin/pip install -c constraints.txt . fluke-fl==0.8.1
    fluke-env/bin/python benchmarks/personal_agreement.py

Without fluke these lines say so and the others go on. fluke's pFedMe hands its optimiser the personal model
as the anchor, so that nothing pulls; its APFL trains a copy of the mixture, so that no gradient reaches the
personal model; its Per-FedAvg makes the second step from w̃ and not from w. Those three are therefore held
against the authors' rules, written here in NumPy for a softmax regression, with the gradient and the Hessian
worked out by hand:

    pFedMe       CharlieDinh/pFedMe, FLAlgorithms/users/userpFedMe.py, servers/serverbase.py; without its
                 weight decay of 0.001
    APFL         MLOPTPSU/FedTorch, fedtorch/comms/trainings/federated/centered/apfl.py, with a fixed α; with
                 a learnt one the paper's text, from which the program differs (`methods/personal/apfl.py`).
                 The program mixes outputs, which for one linear layer is to mix weights
    Per-FedAvg   CharlieDinh/pFedMe, FLAlgorithms/users/userperavg.py, which is FO; with second derivatives
                 Algorithm 1 of the paper: no program of its authors was found

Three clients of 12, 18 and 24 rows, three rounds, batches in order, float64, equal weights.
"""

from __future__ import annotations

import copy
import importlib.machinery
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.client import Client, Samples
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import SGD
from coterie.methods import APFL, Ditto, FedPer, FedRep, PerFedAvg, PFedMe
from coterie.nets import InProcess

SIZES, FEATURES, CLASSES, ROUNDS, LR, BATCH = (12, 18, 24), 4, 3, 3, 0.2, 6
Array = np.ndarray
Models = list[dict[str, Array]]


def rows() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(n, FEATURES)), rng.integers(CLASSES, size=n)) for n in SIZES]


def two_layers() -> nn.Module:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh())
    return nn.Sequential(OrderedDict(body=body, head=nn.Linear(5, CLASSES))).double()


def one_layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, CLASSES, bias=False).double()


def ours(method: Any, module: nn.Module) -> Models:
    """The clients' own models after all rounds, and last the shared one, if there is one."""
    clients = []
    for i, (x, y) in enumerate(rows()):
        part = Samples(torch.as_tensor(x), torch.as_tensor(y))
        clients.append(Client(f"c{i}", part, Samples(part.x[:0], part.y[:0]), part))
    net = InProcess(ENGINES.make("loop"), Learner(module, "classification"), tuple(clients))
    state = method.init(hold(stack([belief_of(module)]), at_coordinator(1)), net)
    for r in range(1, ROUNDS + 1):
        state, _ = method.round(state, net, Key(0).at_round(r, ROUNDS))
    models = method.models(state)
    all_rows = [{n: t[i].numpy() for n, t in models.beliefs.tensors.items()} for i in models.of.tolist()]
    if models.shared is not None:
        all_rows.append({n: t[0].numpy() for n, t in models.shared.tensors.items()})
    return all_rows


def apart(a: Models, b: Models) -> float:
    if len(a) != len(b) or any(x.keys() != y.keys() for x, y in zip(a, b, strict=True)):
        raise SystemExit("the two sides have other models: nothing to compare")
    return max(float(np.abs(x[n] - y[n]).max()) for x, y in zip(a, b, strict=True) for n in x)


# fluke


def fluke_parts() -> Any:
    """Its clients; torchvision, which metrics that are not used here want, is stood in for if missing."""
    try:
        import torchvision.transforms  # noqa: F401
    except ImportError:
        for name in ("torchvision", "torchvision.transforms", "torchvision.models", "torchvision.datasets"):
            shell = types.ModuleType(name)
            shell.__path__, shell.__spec__ = [], importlib.machinery.ModuleSpec(name, None)  # type: ignore
            shell.__getattr__ = nothing_of  # type: ignore[method-assign]
            sys.modules[name] = shell
    try:
        from fluke.algorithms import ditto, fedper, fedrep
        from fluke.config import OptimizerConfigurator
        from fluke.data import FastDataLoader
        from fluke.nets import EncoderHeadNet
    except ImportError:
        return None
    return types.SimpleNamespace(
        ditto=ditto, fedper=fedper, fedrep=fedrep, optimiser=OptimizerConfigurator,
        loader=FastDataLoader, net=EncoderHeadNet,
    )  # fmt: skip


def nothing_of(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


def fluke_client(fluke: Any, kind: Any, i: int, model: Any, **options: Any) -> Any:
    x, y = (torch.as_tensor(v) for v in rows()[i])
    return kind(
        index=i,
        model=model,
        train_set=fluke.loader(x, y, num_labels=CLASSES, batch_size=BATCH),
        test_set=None,
        optimizer_cfg=fluke.optimiser({"name": torch.optim.SGD, "lr": LR}),
        loss_fn=nn.CrossEntropyLoss(),
        **options,
    )


def mean_of(states: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {n: torch.stack([s[n] for s in states]).mean(dim=0) for n in states[0]}


def fluke_ditto(fluke: Any) -> Models:
    shared = two_layers()
    kind = fluke.ditto.DittoClient
    clients = [
        fluke_client(fluke, kind, i, two_layers(), local_epochs=1, tau=2, lam=0.5) for i in range(len(SIZES))
    ]
    for client in clients:
        # the personal model's optimiser takes a rate and a strength, and no name
        client._optimizer_cfg.optimizer_cfg = {"lr": LR}
    for _ in range(ROUNDS):
        states = []
        for client in clients:
            client.model, client.optimizer = copy.deepcopy(shared), None
            client.fit()
            states.append(client.model.state_dict())
        shared.load_state_dict(mean_of(states))
    return [numbers(c.personalized_model) for c in clients] + [numbers(shared)]


def fluke_layers(fluke: Any, name: str, **options: Any) -> Models:
    """FedPer's and FedRep's clients: bodies are averaged here, heads stay."""

    def whole() -> Any:
        parts = two_layers()
        return fluke.net(parts.body, parts.head)

    kind = {"fedper": fluke.fedper.FedPerClient, "fedrep": fluke.fedrep.FedRepClient}[name]
    clients = [fluke_client(fluke, kind, i, whole(), **options) for i in range(len(SIZES))]
    for _ in range(ROUNDS):
        for client in clients:
            client.fit()
        body = mean_of([c.model.get_global().state_dict() for c in clients])
        for client in clients:
            client.model.get_global().load_state_dict(body)
    return [
        {**numbers(c.model.get_global(), "body."), **numbers(c.model.get_local(), "head.")} for c in clients
    ]


def numbers(module: nn.Module, prefix: str = "") -> dict[str, Array]:
    return {prefix + n: t.detach().numpy() for n, t in module.named_parameters()}


# the authors' rules, for a softmax regression with weights w [class, feature]


def probabilities(w: Array, x: Array) -> Array:
    z = x @ w.T
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def slope(w: Array, batch: tuple[Array, Array]) -> Array:
    x, y = batch
    return (probabilities(w, x) - np.eye(CLASSES)[y]).T @ x / len(x)


def bent(w: Array, batch: tuple[Array, Array], d: Array) -> Array:
    """The Hessian times d: Σ_rows (diag p - p pᵀ) (d x) xᵀ / n."""
    x, _ = batch
    p, dz = probabilities(w, x), x @ d.T
    return (p * dz - p * (p * dz).sum(axis=1, keepdims=True)).T @ x / len(x)


def batches(i: int, size: int) -> list[tuple[Array, Array]]:
    x, y = rows()[i]
    return [(x[s : s + size], y[s : s + size]) for s in range(0, len(x), size)]


def first() -> Array:
    return one_layer().weight.detach().numpy().copy()


def pfedme(pull: float, K: int, eta: float, beta: float) -> Models:
    w = first()
    for _ in range(ROUNDS):
        replies, own = [], []
        for i in range(len(SIZES)):
            theta, local = w.copy(), w.copy()
            for batch in batches(i, BATCH):
                for _ in range(K):
                    theta = theta - LR * (slope(theta, batch) + pull * (theta - local))
                local = local - pull * eta * (local - theta)
            replies.append(local)
            own.append(theta)
        w = (1 - beta) * w + beta * np.mean(replies, axis=0)
    return [{"weight": m} for m in (*own, w)]


def apfl(alpha: float, rate: float) -> Models:
    w, vs, alphas = first(), [first() for _ in SIZES], [alpha] * len(SIZES)
    for _ in range(ROUNDS):
        replies, own = [], []
        for i in range(len(SIZES)):
            local, v, a = w.copy(), vs[i], alphas[i]
            for batch in batches(i, BATCH):
                local = local - LR * slope(local, batch)
                g = slope(a * v + (1 - a) * local, batch)
                now = min(1.0, max(0.0, a - rate * float(((v - local) * g).sum())))
                v, a = v - LR * a * g, now
            vs[i], alphas[i] = v, a
            replies.append(local)
            own.append(a * v + (1 - a) * local)
        w = np.mean(replies, axis=0)
    return [{"weight": m} for m in (*own, w)]


def per_fedavg(ahead: float, second: bool) -> Models:
    parts, w = (3 if second else 2), first()
    for _ in range(ROUNDS):
        replies = []
        for i in range(len(SIZES)):
            local = w.copy()
            for x, y in batches(i, BATCH):
                D = [(x[p::parts], y[p::parts]) for p in range(parts)]
                g = slope(local - ahead * slope(local, D[0]), D[1])
                local = local - LR * (g - ahead * bent(local, D[2], g) if second else g)
            replies.append(local)
        w = np.mean(replies, axis=0)
    own = [w - ahead * slope(w, rows()[i]) for i in range(len(SIZES))]
    return [{"weight": m} for m in (*own, w)]


def main() -> None:
    torch.set_num_threads(1)
    work = SGD(lr=LR, batch=BATCH, shuffle=False)
    fluke = fluke_parts()
    whole, plain = two_layers(), one_layer()
    half, third = SGD(lr=LR, batch=BATCH // 2, shuffle=False), SGD(lr=LR, batch=BATCH // 3, shuffle=False)
    named, rule, text = "fluke 0.8.1", "authors' rule", "the paper's text"
    per = FedPer(work, weighted=False), whole
    rep = FedRep(work, head_epochs=2, weighted=False), whole
    found: list[tuple[str, str, tuple[Any, nn.Module], Callable[[], Models] | None]] = [
        ("ditto", named, (Ditto(work, 0.5, 2, weighted=False), whole), fluke and partial(fluke_ditto, fluke)),
        ("fedper", named, per, fluke and partial(fluke_layers, fluke, "fedper", local_epochs=1)),
        ("fedrep", named, rep, fluke and partial(fluke_layers, fluke, "fedrep", local_epochs=2, tau=1)),
    ]
    for beta in (1.0, 1.5):
        mine = PFedMe(work, 2.0, 3, 0.25, beta, weighted=False)
        found.append((f"pfedme, β = {beta}", rule, (mine, plain), partial(pfedme, 2.0, 3, 0.25, beta)))
    for rate, said in ((0.0, rule), (0.5, text)):
        mixing = APFL(work, 0.4, rate, weighted=False)
        found.append((f"apfl, η_α = {rate}", said, (mixing, plain), partial(apfl, 0.4, rate)))
    for hessian, some, said in (
        ("none", half, "pFedMe's authors' rule"),
        ("exact", third, text),
        ("difference", third, text),
    ):
        ahead = PerFedAvg(some, 0.3, hessian=hessian, weighted=False)
        theirs = partial(per_fedavg, 0.3, hessian != "none")
        found.append((f"per-fedavg, hessian = {hessian}", said, (ahead, plain), theirs))
    print("| method | against | largest difference |\n| --- | --- | ---: |")
    for name, against, (method, module), theirs in found:
        far = f"{apart(ours(method, module), theirs()):.1e}" if theirs else "fluke is not installed here"
        print(f"| {name} | {against} | {far} |")


if __name__ == "__main__":
    main()
