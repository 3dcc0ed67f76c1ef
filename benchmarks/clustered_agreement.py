"""IFCA, clustered federated learning and data interpolation beside the authors' update rules, in plain NumPy.

    python benchmarks/clustered_agreement.py

Ten clients with linear regressions of two kinds; every step is on all rows, so that both sides see the same
batches. No package has these methods, so the rules are written here anew, from the authors' programs as read:

- IFCA, github.com/jichan3751/ifca (97db9d1): mnist/train_cluster_mnist.py averages models of τ steps over
  the clients of a cluster, all alike; synthetic/train_cluster.py adds up gradients and divides by all
  clients.
- CFL, github.com/felisat/clustered-federated-learning (0981a20): fl_devices.py and its notebook part a
  cluster of more than two clients when its mean update is shorter than EPS_1 and its longest longer than
  EPS_2, by complete linkage, and average all alike. The program lowers the learning rate by 1 % in each
  round; here it stays.
- Data interpolation: there is no program of the authors; the yardstick is gradient descent on the mixed loss
  λ L_i + (1 - λ) Σ p_j L_j of all rows in one place.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.cluster import AgglomerativeClustering

from coterie.core.client import Client, Samples
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import SGD
from coterie.methods import CFL, IFCA, DataInterpolation
from coterie.methods.clustered.cfl import bipartition
from coterie.nets import InProcess

CLIENTS, AXES, RATE, TAU = 10, 5, 0.05, 3
EPS = (0.05, 0.2)
WAIT, LAMBDA = 20, 0.3
Rows = list[tuple[np.ndarray, np.ndarray]]


def rows_of(draws: np.random.Generator) -> Rows:
    """Clients of two kinds: y = x·θ and a little noise, with θ or -θ/2."""
    theta = draws.normal(size=AXES)
    rows = []
    for i in range(CLIENTS):
        x = draws.normal(size=(20 + 4 * i, AXES))
        rows.append((x, x @ (theta if i % 2 else -theta / 2) + 0.1 * draws.normal(size=len(x))))
    return rows


def loss(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((x @ w - y) ** 2))


def gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 2 * x.T @ (x @ w - y) / len(x)


def worked(w: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        w = w - RATE * gradient(w, x, y)
    return w


def ifca_models(rows: Rows, first: np.ndarray, rounds: int) -> np.ndarray:
    models = [w.copy() for w in first]
    for _ in range(rounds):
        taken = [int(np.argmin([loss(w, *own) for w in models])) for own in rows]
        made: list[list[np.ndarray]] = [[] for _ in models]
        for own, j in zip(rows, taken, strict=True):
            made[j].append(worked(models[j], *own, TAU))
        models = [np.mean(some, axis=0) if some else w for some, w in zip(made, models, strict=True)]
    return np.stack(models)


def ifca_gradients(rows: Rows, first: np.ndarray, rounds: int) -> np.ndarray:
    models = first.copy()
    for _ in range(rounds):
        taken = [int(np.argmin([loss(w, *own) for w in models])) for own in rows]
        total = np.zeros_like(models)
        for own, j in zip(rows, taken, strict=True):
            total[j] += gradient(models[j], *own)
        models = models - RATE * total / len(rows)
    return models


def cfl(rows: Rows, first: np.ndarray, rounds: int) -> np.ndarray:
    """[client] the model of its cluster at the end."""
    clusters, own = [np.arange(len(rows))], np.repeat(first, len(rows), axis=0)
    for r in range(1, rounds + 1):
        updates = np.stack([worked(w, *mine, TAU) - w for w, mine in zip(own, rows, strict=True)])
        lengths = np.linalg.norm(updates, axis=1)
        cosines = updates @ updates.T / (np.outer(lengths, lengths) + 1e-12)
        after = []
        for c in clusters:
            small = np.linalg.norm(updates[c].mean(axis=0)) < EPS[0] and lengths[c].max() > EPS[1]
            if small and len(c) > 2 and r > WAIT:
                half = complete_linkage(cosines[np.ix_(c, c)])
                after += [c[half == 0], c[half == 1]]
            else:
                after.append(c)
        clusters = after
        for c in clusters:
            own[c] += updates[c].mean(axis=0)
    return own


def complete_linkage(cosines: np.ndarray) -> np.ndarray:
    found = AgglomerativeClustering(metric="precomputed", linkage="complete").fit(-cosines)
    labels: np.ndarray = found.labels_
    return labels


def interpolation(rows: Rows, first: np.ndarray, rounds: int) -> np.ndarray:
    """[client] gradient descent on its mixed loss."""
    sizes = np.array([len(y) for _, y in rows])
    own = np.repeat(first, len(rows), axis=0)
    for _ in range(rounds):
        for i in range(len(rows)):
            slopes = np.stack([gradient(own[i], *mine) for mine in rows])
            own[i] -= RATE * (LAMBDA * slopes[i] + (1 - LAMBDA) * sizes @ slopes / sizes.sum())
    return own


def ours(method: Any, rows: Rows, first: np.ndarray, rounds: int) -> tuple[Any, np.ndarray]:
    """The last state, and all models."""
    module = torch.nn.Linear(AXES, 1, bias=False).double()
    samples = [Samples(torch.from_numpy(x), torch.from_numpy(y)) for x, y in rows]
    clients = tuple(Client(f"c{i}", s, s, Samples(s.x[:0], s.y[:0])) for i, s in enumerate(samples))
    net = InProcess(ENGINES.make("auto"), Learner(module, "regression"), clients)
    start = hold({"weight": torch.from_numpy(first).unsqueeze(1)}, at_coordinator(len(first)))
    method.check(net.roster, start.tensors, Key(0, rounds=rounds))
    state = method.init(start, net)
    for r in range(1, rounds + 1):
        state, _ = method.round(state, net, Key(0).at_round(r, rounds))
    return method.models(state), net.open(method.models(state).beliefs)["weight"].squeeze(1).numpy()


def work(steps: int) -> SGD:
    return SGD(lr=RATE, batch=10**6, steps=steps)


PAIRS: dict[str, tuple[Any, Callable[[Rows, np.ndarray, int], np.ndarray], bool]] = {
    "ifca, models": (IFCA(work(TAU), weighted=False), ifca_models, False),
    "ifca, gradients": (IFCA(work(1), weighted=False, average="gradients"), ifca_gradients, False),
    "cfl": (
        CFL(work(TAU), eps1=EPS[0], eps2=EPS[1], gamma=0.0, wait=WAIT, weighted=False),
        cfl,
        True,
    ),
    "data-interpolation": (DataInterpolation(work(1), lam=LAMBDA, others=0), interpolation, True),
}
"""(our method, theirs, whether theirs gives a model for each client)"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Largest differences from the authors' rules.")
    parser.add_argument("--draws", type=int, default=10, help="Random sets of clients.")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{asked.draws} sets of {CLIENTS} clients, {asked.rounds} rounds, seed {asked.seed}, float64\n")
    print(
        "| method | largest difference in a model | sets with more than one cluster |\n| --- | ---: | ---: |"
    )
    for name, (method, theirs, by_client) in PAIRS.items():
        worst, several = 0.0, 0
        for draw in range(asked.draws):
            draws = np.random.default_rng([asked.seed, draw])
            rows, first = rows_of(draws), draws.normal(size=(1 if by_client else 2, AXES))
            found, models = ours(method, rows, first, asked.rounds)
            mine = models[found.of.numpy()] if by_client else models
            worst = max(worst, float(np.abs(mine - theirs(rows, first, asked.rounds)).max()))
            several += len(torch.unique(found.of)) > 1
        told = f"{several} of {asked.draws}" if name != "data-interpolation" else "one model each"
        print(f"| `{name}` | {worst:.1e} | {told} |")
    apart = 0
    draws = np.random.default_rng(asked.seed)
    for _ in range(1000):
        x = draws.normal(size=(8, AXES))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        program, text = complete_linkage(x @ x.T), bipartition(torch.from_numpy(x @ x.T)).numpy()
        apart += bool((program != program[0]).tolist() != text.tolist())
    print(f"\nOf 1000 sets of 8 random directions, complete linkage parts {apart} otherwise than the text.")


if __name__ == "__main__":
    main()
