"""FedAMP, FedALA, FedFomo and pFedGraph beside other programs, on the same rows: the largest difference of
any parameter after some rounds.

FedAMP and FedALA are held against the classes of fluke 0.8.1 (https://github.com/makgyver/fluke), whose
clients and server are driven by hand. It wants packages of its own, so it gets an environment of its own;
without it those two rows are left out:

    python -m venv fluke-env
    fluke-env/bin/pip install -c constraints.txt .
    fluke-env/bin/pip install fluke-fl==0.8.1
    fluke-env/bin/python benchmarks/relations_agreement.py

FedFomo and pFedGraph are held against their authors' update rules, written here in NumPy after reading
NVlabs/FedFomo (client.py, federation.py; baseline first_model) and MediaBrain-SJTU/pFedGraph
(pytorch/pfedgraph_cosine.py and pfedgraph_cosine/utils.py). Their quadratic program is solved by scipy where
they use cvxpy.

Six clients of two kinds have 40 rows of 5 columns and 3 classes. Steps are along the whole gradient, so that
no program's dealing of rows matters. fluke takes the learning rate for the α of FedAMP's pull: its λ is set
to lr times our `pull`.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.client import Client, Samples
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import SGD
from coterie.methods import FedALA, FedAMP, FedFomo, PFedGraph
from coterie.nets import InProcess

CLIENTS, ROWS, COLUMNS, CLASSES = 6, 40, 5, 3
LR, STEPS = 0.5, 3
WORK = SGD(lr=LR, epochs=STEPS, batch=10**6)
SIGMA, ALPHA, PULL = 0.5, 0.05, 0.4
ETA, SETTLED = 2.0, 0.001
LAMBDA = 0.01

Array = np.ndarray


def clients_of(seed: int) -> list[Client]:
    """Of two kinds: the second has its classes turned by one."""
    made, shared = [], np.random.default_rng(seed).normal(size=(COLUMNS, CLASSES))
    for i in range(CLIENTS):
        rng = np.random.default_rng([seed, i])

        def part(rows: int, rng: Any = rng, turn: int = i % 2) -> Samples:
            x = rng.normal(size=(rows, COLUMNS))
            y = (np.argmax(x @ shared + rng.normal(size=(rows, CLASSES)), axis=1) + turn) % CLASSES
            return Samples(torch.from_numpy(x), torch.from_numpy(y))

        rows = ROWS + 5 * i
        made.append(Client(f"c{i}", part(rows), part(20), part(20)))
    return made


def ours(method: Any, model: nn.Module, clients: Sequence[Client], rounds: int) -> list[dict[str, Array]]:
    """[client] parameters of each client's model."""
    net = InProcess(ENGINES.make("loop"), Learner(model, "classification"), tuple(clients))
    start = hold(stack([belief_of(model)]), at_coordinator(1))
    method.check(net.roster, start.tensors, Key(0, rounds=rounds))
    state = method.init(start, net)
    for r in range(1, rounds + 1):
        state, _ = method.round(state, net, Key(0).at_round(r, rounds))
    tensors = net.open(method.models(state).beliefs)
    return [{n: t[i].numpy() for n, t in tensors.items()} for i in range(len(clients))]


def apart(one: Sequence[dict[str, Array]], other: Sequence[dict[str, Array]]) -> float:
    return max(float(np.abs(a[n] - b[n]).max()) for a, b in zip(one, other, strict=True) for n in a)


# softmax regression in NumPy: theta [class, column + 1]


def with_one(x: torch.Tensor) -> Array:
    return np.hstack([x.numpy(), np.ones((len(x), 1))])


def loss_and_slope(theta: Array, x: Array, y: Array) -> tuple[float, Array]:
    z = x @ theta.T
    z = z - z.max(axis=1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    hit = np.eye(CLASSES)[y]
    return float(-np.log((p * hit).sum(axis=1)).mean()), (p - hit).T @ x / len(x)


def descended(theta: Array, x: Array, y: Array, term: Callable[[Array], Array]) -> Array:
    for _ in range(STEPS):
        theta = theta - LR * (loss_and_slope(theta, x, y)[1] + term(theta))
    return theta


def nothing(theta: Array) -> Array:
    return np.zeros_like(theta)


def begun(model: nn.Module) -> Array:
    belief = belief_of(model)
    return np.hstack([belief["weight"].numpy(), belief["bias"].numpy()[:, None]])


def as_named(thetas: Sequence[Array]) -> list[dict[str, Array]]:
    return [{"weight": t[:, :-1], "bias": t[:, -1]} for t in thetas]


def fomo_of_its_authors(model: nn.Module, clients: Sequence[Client], rounds: int) -> list[dict[str, Array]]:
    """Everybody tries everybody: losses against that of the round's first model, over the distance to it."""
    data = [(with_one(c.train.x), c.train.y.numpy()) for c in clients]
    held = [(with_one(c.validation.x), c.validation.y.numpy()) for c in clients]
    thetas = [begun(model)] * len(clients)
    for _ in range(rounds):
        trained = [descended(t, *rows, nothing) for t, rows in zip(thetas, data, strict=True)]
        after = []
        for first, rows in zip(thetas, held, strict=True):
            base = loss_and_slope(first, *rows)[0]
            deltas = np.array(
                [(base - loss_and_slope(t, *rows)[0]) / np.linalg.norm(t - first) for t in trained]
            )
            positive = np.where(deltas > 0, deltas, 0)
            if positive.sum() > 0:
                shares = positive / positive.sum()
                first = first + sum(w * (t - first) for w, t in zip(shares, trained, strict=True))
            after.append(first)
        thetas = after
    return as_named(thetas)


def graph_of_its_authors(
    model: nn.Module, clients: Sequence[Client], rounds: int, strength: float
) -> list[dict[str, Array]]:
    """Rows of the graph by a solver; the local term as it stands in their program, sign included."""
    data = [(with_one(c.train.x), c.train.y.numpy()) for c in clients]
    p = np.array([len(c.train) for c in clients]) / sum(len(c.train) for c in clients)
    initial = begun(model)
    thetas, leads = [initial] * len(clients), [nothing(initial)] * len(clients)
    for r in range(rounds):

        def term(theta: Array, lead: Array, on: bool = r > 0) -> Array:
            size = np.linalg.norm(theta)
            slope = lead / size - (lead * theta).sum() * theta / size**3
            return strength * slope if on else nothing(theta)

        trained = [
            descended(t, *rows, lambda theta, lead=lead: term(theta, lead))
            for t, rows, lead in zip(thetas, data, leads, strict=True)
        ]
        changes = [t - initial for t in trained]
        cosine = np.array(
            [[(a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b) for b in changes] for a in changes]
        )
        rows_of_graph = [solved(-np.where(row > 0.9, 1.0, row), p, 0.8) for row in cosine]
        thetas = [sum(g * t for g, t in zip(row, trained, strict=True)) for row in rows_of_graph]
        leads = [
            sum(g * t / np.linalg.norm(t) for g, t in zip(row, trained, strict=True)) for row in rows_of_graph
        ]
    return as_named(thetas)


def solved(d: Array, p: Array, alpha: float) -> Array:
    """min α ‖x‖² + (d - 2 α p)ᵀ x with x of at least 0 that adds up to 1."""
    found = minimize(
        lambda x: alpha * (x @ x) + (d - 2 * alpha * p) @ x,
        p,
        jac=lambda x: 2 * alpha * x + d - 2 * alpha * p,
        bounds=[(0, 1)] * len(p),
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    x: Array = found.x
    return x


# fluke, driven by hand


class Unused(types.ModuleType):
    """Stands for a package that fluke imports for its datasets, models, figures and logs: unused here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def load_fluke() -> None:
    """Its clients and servers, without what they do not need where it is not installed."""
    for name in (
        "torchmetrics",
        "torchvision.transforms",
        "torchvision.datasets",
        "torchvision.models",
        "datasets",
        "wandb",
        "clearml",
    ):
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = Unused(name)


class Post:
    """A channel that keeps the last message to each receiver."""

    def __init__(self) -> None:
        self.boxes: dict[Any, Any] = {}

    def send(self, message: Any, to: Any) -> None:
        self.boxes[to] = message

    def receive(self, receiver: Any, sender: Any, msg_type: str) -> Any:
        if receiver not in self.boxes:
            raise ValueError("nothing there")
        return self.boxes[receiver]


def optimiser(model: nn.Module) -> tuple[Any, Any]:
    made = torch.optim.SGD(model.parameters(), lr=LR)
    return made, torch.optim.lr_scheduler.ConstantLR(made, factor=1.0)


def loader(client: Client) -> Any:
    from fluke.data import FastDataLoader

    return FastDataLoader(client.train.x, client.train.y, num_labels=CLASSES, batch_size=10**6)


def named(model: nn.Module) -> dict[str, Array]:
    return {n: p.detach().numpy() for n, p in model.named_parameters()}


def amp_of_fluke(model: nn.Module, clients: Sequence[Client], rounds: int) -> list[dict[str, Array]]:
    from fluke.algorithms.fedamp import FedAMPClient, FedAMPServer

    post, parties = Post(), []
    for i, client in enumerate(clients):
        words = (optimiser, nn.CrossEntropyLoss(), STEPS)
        party = FedAMPClient(i, copy.deepcopy(model), loader(client), None, *words, lam=PULL * LR)
        party.set_channel(post)
        party._load_from_cache()
        parties.append(party)
    server = FedAMPServer(copy.deepcopy(model), None, parties, sigma=SIGMA, alpha=ALPHA)
    server._channel = post
    for _ in range(rounds):
        for party in parties:
            party.receive_model()
            party.fit()
        server.aggregate(parties, [copy.deepcopy(party.model) for party in parties])
    return [named(party.model) for party in parties]


def ala_of_fluke(model: nn.Module, clients: Sequence[Client], rounds: int) -> list[dict[str, Array]]:
    """Its clients take over and train; the average by sizes is made here."""
    from fluke.algorithms.fedala import FedALAClient
    from fluke.nets import EncoderHeadNet

    class Net(EncoderHeadNet):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.encoder(x))
            return out

    parts = list(copy.deepcopy(model).children())
    shared, parties = Net(nn.Sequential(*parts[:-1]), parts[-1]), []
    for i, client in enumerate(clients):
        words = (optimiser, nn.CrossEntropyLoss(), STEPS)
        tuning = {"ala_sample_size": 1.0, "eta": ETA, "conergence_threshold": SETTLED}
        party = FedALAClient(i, loader(client), None, *words, **tuning)
        party.model = copy.deepcopy(shared)
        parties.append(party)
    sizes = np.array([len(c.train) for c in clients])
    for r in range(rounds):
        for party in parties:
            if r > 0:
                party.adaptive_local_aggregation(copy.deepcopy(shared))
            party.fit()
        with torch.no_grad():
            for name, p in shared.named_parameters():
                theirs = [dict(party.model.named_parameters())[name] for party in parties]
                p.copy_(sum(w * t for w, t in zip(sizes / sizes.sum(), theirs, strict=True)))
    names = dict(zip(named(parties[0].model), [n for n, _ in model.named_parameters()], strict=True))
    return [{names[n]: t for n, t in named(party.model).items()} for party in parties]


def main() -> None:
    parser = argparse.ArgumentParser(description="Largest differences to other programs.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    clients, rounds = clients_of(asked.seed), asked.rounds
    line = nn.Linear(COLUMNS, CLASSES).double()
    deep = nn.Sequential(nn.Linear(COLUMNS, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()
    graph = PFedGraph(WORK, strength=0.0)
    rows: list[tuple[str, str, float]] = []
    fomo = ours(FedFomo(WORK, others=CLIENTS), line, clients, rounds)
    rows.append(("fedfomo", "NVlabs/FedFomo", apart(fomo, fomo_of_its_authors(line, clients, rounds))))
    found = ours(graph, line, clients, rounds)
    theirs = graph_of_its_authors(line, clients, rounds, 0.0)
    rows.append(("pfedgraph, no pull", "MediaBrain-SJTU/pFedGraph", apart(found, theirs)))
    found = ours(replace(graph, strength=LAMBDA), line, clients, rounds)
    theirs = graph_of_its_authors(line, clients, rounds, LAMBDA)
    rows.append((f"pfedgraph, {LAMBDA}", "MediaBrain-SJTU/pFedGraph, its sign", apart(found, theirs)))
    if importlib.util.find_spec("fluke") is None:
        print("fluke is not installed here: fedamp and fedala are left out, see the top of this file\n")
    else:
        load_fluke()
        found = ours(FedAMP(WORK, sigma=SIGMA, alpha=ALPHA, pull=PULL), line, clients, rounds)
        rows.append(("fedamp", "fluke 0.8.1", apart(found, amp_of_fluke(line, clients, rounds))))
        ala = FedALA(WORK, eta=ETA, rows=1.0, passes=100, settled=SETTLED)
        found = ours(ala, deep, clients, rounds)
        rows.append(("fedala", "fluke 0.8.1", apart(found, ala_of_fluke(deep, clients, rounds))))
    print(
        f"{CLIENTS} clients, {rounds} rounds of {STEPS} steps, seed {asked.seed}, torch {torch.__version__}\n"
    )
    print("| method | against | largest difference |\n| --- | --- | ---: |")
    for method, against, far in rows:
        print(f"| `{method}` | {against} | {far:.1e} |")


if __name__ == "__main__":
    main()
