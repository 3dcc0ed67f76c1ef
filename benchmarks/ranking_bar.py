"""What a bar does for rankings: python benchmarks/ranking_bar.py --seeds 0 10

Ranks the clients of some studies once for each seed, chooses circles by several bars, trains 30 rounds of
averaging within each client's circle, and holds its test accuracy against 30 rounds alone, from the same
first model. d and e are `loss above own` and its standard error (coterie/methods/ranking/bar.py); none is the
paper's choice, d ≤ e the default (own), chosen on seeds 100 to 119 among these and others, d < −e is better.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import coterie
from coterie.core.belief import belief_of, stack
from coterie.core.held import Held, at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.method import handed_out
from coterie.core.net import Net, to_own
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import SGD, Score
from coterie.methods import METHODS
from coterie.methods.ranking import circles
from coterie.methods.ranking.bar import ABOVE, error_name
from coterie.nets import InProcess
from coterie.runs.about import commit
from coterie.runs.builder import Builder
from coterie.runs.settings import Settings

ROUNDS = 30


def made_up(weights: np.ndarray, rows: int, seed: int) -> list[coterie.Client]:
    """A client for each row of weights: its labels are the side of that plane, with noise."""
    rng, clients = np.random.default_rng(seed), []
    for i, w in enumerate(weights):
        x = rng.normal(size=(rows, len(w)))
        y = (x @ w + rng.normal(size=rows) > 0).astype(int)
        clients.append(coterie.Client.from_arrays(x, y, name=f"site-{i}"))
    return clients


def opposite(seed: int) -> list[coterie.Client]:
    """Three alike, and a fourth with the opposite pattern."""
    return made_up(np.array([[1.0] * 4] * 3 + [[-1.0] * 4]), 90, seed)


def unrelated(seed: int) -> list[coterie.Client]:
    """Four with patterns of their own."""
    return made_up(np.random.default_rng(1000 + seed).normal(size=(4, 6)), 80, seed)


STUDIES: dict[str, Settings | Callable[[int], list[coterie.Client]]] = {
    "heart disease, four hospitals": Settings(data="heart-disease"),
    "Titanic by age": Settings(data="titanic", split="age-strict", options={"sgd": {"lr": 0.5}}),
    "Titanic at random, 12 clients": Settings(
        data="titanic", split="iid", clients=12, options={"sgd": {"lr": 0.5}}
    ),
    "digits, half upside down": Settings(
        data="digits", split="clusters", clients=6, options={"sgd": {"lr": 0.5}}
    ),
    "digits, shifted labels": Settings(data="digits", split="shift", options={"sgd": {"lr": 0.5}}),
    "made up: one opposite of four": opposite,
    "made up: four unrelated": unrelated,
}
BARS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda d, e: torch.ones_like(d, dtype=torch.bool),
    "d ≤ e": lambda d, e: d <= e,
    "d ≤ 0": lambda d, e: d <= 0,
    "d < −e": lambda d, e: d < -e,
}


class Ground(NamedTuple):
    net: Net
    start: Held
    local: Any


@functools.cache
def builder_of(name: str) -> Builder:
    return Builder()


def ground_of(name: str, seed: int) -> Ground:
    """A study's clients, first model and local work."""
    study = STUDIES[name]
    if isinstance(study, Settings):
        made = builder_of(name).prepare(replace(study, method="local", seed=seed))
        return Ground(made.net, hold(made.beliefs, at_coordinator(1)), made.method.local)  # type: ignore[attr-defined]
    clients = study(seed)
    torch.manual_seed(seed)
    model = nn.Linear(clients[0].train.x.shape[1], 2)
    net = InProcess(ENGINES.make("stacked"), Learner(model, "classification"), tuple(clients))
    return Ground(net, hold(stack([belief_of(model)]), at_coordinator(1)), SGD(lr=0.5))


@dataclass(frozen=True, eq=False)
class Seen:
    """Of one seed, by client: gains over training alone on its test rows, and who has a circle."""

    gain: np.ndarray
    """In accuracy, in points."""
    less: np.ndarray
    """In loss: by how much it is lower."""
    circle: np.ndarray


def trained(ground: Ground, chosen: Tensor, seed: int) -> np.ndarray:
    """[accuracy and loss, client] on test rows, after averaging in these circles."""
    net, start, local = ground
    state = circles.State(handed_out(start, net))
    weights = circles.circle_weights(chosen, net.roster.sizes)
    for r in range(1, ROUNDS + 1):
        state, _ = circles.train(local, state, weights, net, Key(seed).at_round(r, ROUNDS))
    scorer, own = Score("test", ("accuracy", "loss")), to_own(len(net.roster))
    found = net.visit(scorer, state.beliefs, own, Key(seed).at("test"))
    return torch.stack([found.numbers[name].double() for name in ("accuracy", "loss")]).numpy()


def outcomes(name: str, seed: int) -> Iterator[tuple[tuple[str, str], Seen]]:
    """By ranking and bar."""
    ground = ground_of(name, seed)
    n = len(ground.net.roster)
    nobody = torch.zeros(n, n, dtype=torch.bool)
    known = {nobody.numpy().tobytes(): trained(ground, nobody, seed)}
    alone = next(iter(known.values()))
    for ranking in ("ndoye", "influence", "similar"):
        method: Any = METHODS.make(ranking, local=ground.local)
        value, high = method.chooses.foremost
        state = method.init(ground.start, ground.net)
        _, info = method.round(state, ground.net, Key(seed).at_round(1, ROUNDS + 1))
        costs, matrices = info.matrices[value] * (-1 if high else 1), info.matrices
        if ABOVE not in matrices:
            continue
        error = matrices.get(error_name(value), torch.zeros_like(costs))
        bound = -method.threshold if high else method.threshold
        for bar, clears in BARS.items():
            some = clears(matrices[ABOVE], matrices[error_name(ABOVE)])
            some &= (costs + error < bound) if bar != "none" else (costs < bound)
            chosen = circles.choose(costs.where(some, math.nan), method.best, math.inf)
            place = chosen.numpy().tobytes()
            if place not in known:
                known[place] = trained(ground, chosen, seed)
            gain, more = known[place] - alone
            yield (ranking, bar), Seen(100 * gain, -more, chosen.any(dim=1).numpy())


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--seeds", type=int, nargs=2, default=(0, 10), help="from, and up to but not")
    first, last = asked.parse_args().seeds
    torch.set_num_threads(1)
    print(f"commit {commit()}, seeds {first} to {last - 1}\n")
    print(
        "| study | ranking | bar | have a circle | lose by it | gain, points | worst client | gain in loss |"
    )
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in STUDIES:
        found: dict[tuple[str, str], list[Seen]] = {}
        for seed in range(first, last):
            for which, seen in outcomes(name, seed):
                found.setdefault(which, []).append(seen)
        for (ranking, bar), several in found.items():
            gain, less, circle = (
                np.stack([getattr(s, part) for s in several]) for part in ("gain", "less", "circle")
            )
            lose = 100 * np.mean((gain < 0) & circle)
            told = f"{100 * circle.mean():.0f} % | {lose:.0f} % | {gain.mean():+.1f}"
            told += f" | {gain.mean(axis=0).min():+.1f} | {less.mean():+.3f}"
            print(f"| {name} | `{ranking}` | {bar} | {told.replace('-', '−')} |", flush=True)


if __name__ == "__main__":
    main()
