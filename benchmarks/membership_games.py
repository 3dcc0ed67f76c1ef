"""Games of membership at the sites of the demo, with honest and with chosen models: see `membership.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from membership_attackers import (
    SCORE,
    Game,
    Told,
    flat,
    games,
    hindsight,
    knows_list,
    knows_others,
    knows_population,
)

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client, Samples
from coterie.core.held import COORDINATOR, hold
from coterie.core.kernel import Scorer
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.federation.demo.ward import Study
from coterie.kernels.sgd import SGD
from coterie.methods.server.fedavg import FedAvg
from coterie.models import MODELS
from coterie.nets.in_process import InProcess
from coterie.runs.builder import Builder
from coterie.runs.settings import Settings

STEEP = 1e6  # slope of a plane's outputs: losses are 0 or far above any bound
HAIR = 1e-4  # how far planes are from a target, where columns have deviation 1


@dataclass(frozen=True)
class Size:
    """How much is played: targets of a site, lists of people, draws from each; runs and rounds of honest
    models; games of chosen ones, with the usual noise and within a budget.
    """

    targets: int = 60
    lists: int = 4
    draws: int = 60
    runs: int = 50
    rounds: int = 20
    games: int = 240
    budgeted: int = 1000


class Place(NamedTuple):
    """A site of the demo: all its rows, and the sites that train without it."""

    name: str
    rows: Samples
    others: tuple[Client, ...]
    learner: Learner


def places(data: Study, names: Sequence[str]) -> list[Place]:
    """Sites as their recipe prepares them, scaled and filled by their own training rows."""
    with tempfile.TemporaryDirectory() as folder:
        for site in data.sites:
            Path(folder, f"{site}.csv").write_text(data.table(site))
        recipe = Path(folder, "recipe.toml")
        recipe.write_text(data.recipe({site: f"{site}.csv" for site in data.sites}))
        settings = Settings(data="table", options={"table": {"recipe": str(recipe)}}).resolved()
        setup = Builder().setup(settings, lambda *_: ())
    learner = Learner(setup.model, setup.roster.task)
    found = []
    for client in setup.clients:
        if client.name in names:
            x, y = (torch.cat([getattr(s, part) for s in (client.train, client.test)]) for part in "xy")
            others = tuple(c for c in setup.clients if c is not client)
            found.append(Place(client.name, Samples(x, y), others, learner))
    return found


def answers(
    place: Place, sites: Sequence[np.ndarray], kernel: Scorer, models: Beliefs, edges: torch.Tensor, key: Key
) -> np.ndarray:
    """[edge, 2] loss and accuracy of models at sites that have these of the place's rows."""
    empty = Samples(place.rows.x[:0], place.rows.y[:0])
    clients = tuple(
        Client(str(i), Samples(place.rows.x[rows], place.rows.y[rows]), empty, empty)
        for i, rows in enumerate(sites)
    )
    net = InProcess(ENGINES["auto"](), place.learner, clients)
    held = hold(models, torch.full((tree.count(models),), COORDINATOR))
    numbers = net.visit(kernel, held, edges, key).numbers
    return torch.stack([numbers["loss"], numbers["accuracy"]], dim=1).double().numpy()


def answers_of_all(
    place: Place, sites: Sequence[np.ndarray], kernel: Scorer, models: Beliefs, key: Key
) -> np.ndarray:
    """[site, model, 2]: every model at every site."""
    many = tree.count(models), len(sites)
    edges = torch.cartesian_prod(torch.arange(many[0]), torch.arange(many[1]))
    return answers(place, sites, kernel, models, edges, key).reshape(*many, 2).swapaxes(0, 1)


def honest_models(place: Place, size: Size, key: Key) -> Beliefs:
    """Global models of every round of runs that differ in seed, rate and local epochs, in mixed order."""
    net, found = InProcess(ENGINES["auto"](), place.learner, place.others), []
    shape = tuple(place.rows.x.shape[1:])
    for run in range(size.runs):
        own = key.at("run", run)
        rng = own.numpy()
        work = SGD(lr=float(10 ** rng.uniform(-2, 0)), batch=16, epochs=int(rng.integers(1, 6)))
        module = MODELS["logistic"]().build(shape, 2, int(rng.integers(2**31)))
        start = {name: t.detach()[None] for name, t in module.state_dict().items()}
        method = FedAvg(work)
        state = method.init(hold(start, torch.tensor([COORDINATOR])), net)
        for turn in range(size.rounds):
            state, _ = method.round(state, net, own.at_round(turn + 1, size.rounds))
            shared = method.models(state).shared
            assert shared is not None
            found.append(tree.row(shared.tensors, 0))
    return tree.stack([found[i] for i in key.at("order").numpy().permutation(len(found))])


# honest models


class Said(NamedTuple):
    """What was said, [game, target], and what was true."""

    said_in: np.ndarray
    true: np.ndarray

    def errors(self) -> np.ndarray:
        """[2, target]: out said of who is in, in said of who is out."""
        wrong = self.said_in != self.true
        return np.stack([(wrong & w).sum(axis=0) / w.sum(axis=0) for w in (self.true, ~self.true)])


def games_of(place: Place, size: Size, key: Key) -> list[Game]:
    targets = min(size.targets, len(place.rows) // 3)
    return games(len(place.rows), targets, size.lists, size.draws, key.at("games").numpy())


def honest(
    place: Place, models: Beliefs, told: Told, size: Size, grid: Sequence[int], key: Key
) -> dict[str, list[Said]]:
    """What each kind of attacker says after so many answers of the grid."""
    models = tree.rows(models, torch.arange(grid[-1]))
    single = [np.array([i]) for i in range(len(place.rows))]
    rows = told.cut(answers_of_all(place, single, SCORE, models, key))
    found: dict[str, list[list[np.ndarray]]] = {"others": [], "list": [], "population": []}
    truth = []
    for i, game in enumerate(games_of(place, size, key)):
        many, own = min(size.targets, game.rows), key.at("list", i)
        heard = answers_of_all(place, game.sites, told.kernel, models, own)
        truth.append(game.inside[:, :many])
        found["others"].append(list(knows_others(told, game, heard, rows, many, grid, own)))
        for name, attack in (("list", knows_list), ("population", knows_population)):
            found[name].append([attack(told, game, flat(heard, k), flat(rows, k), many) for k in grid])
    true, said = np.concatenate(truth), dict[str, list[Said]]()
    for name, lists in found.items():
        each = [np.concatenate(parts) for parts in zip(*lists, strict=True)]
        said[name] = [Said((hindsight(x, true) if name == "population" else x) > 0, true) for x in each]
    return said


# chosen models


def plane(w: np.ndarray, t: float) -> dict[str, torch.Tensor]:
    """A logistic model that says class 1 where w·x > t, and is sure of it."""
    half = torch.tensor(STEEP / 2 * w, dtype=torch.float32)
    middle = torch.tensor(STEEP / 2 * t, dtype=torch.float32)
    return {"head.weight": torch.stack([-half, half]), "head.bias": torch.stack([middle, -middle])}


def between(
    place: Place, one: int, other: int, rest: np.ndarray, rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """A model that is right about one row and wrong about another, and about the rest as nearly half and half
    as 200 planes by chance have it, so that noise seldom meets a bound.
    """
    x, y = place.rows.x.double().numpy(), place.rows.y.numpy()
    w = rng.normal(size=(200, x.shape[1]))
    middle = (x[one] + x[other]) / 2 if y[one] == y[other] else x[rng.choice(rest, len(w))]
    t = (w * middle).sum(axis=1)
    right = (np.einsum("ri,pi->rp", x, w) > t) == y[:, None].astype(bool)
    turn = np.where(right[one], 1, -1)  # the same plane the other way round is right about the others
    fits = right[one] != right[other]
    off = np.abs(right[rest].mean(axis=0) - 0.5)
    best = int(np.where(fits, off, np.inf).argmin())
    if not fits[best]:  # the same row twice, or one class for all parts them better
        return plane(np.zeros(x.shape[1]), -1.0 if y[one] else 1.0)
    return plane(turn[best] * w[best], float(turn[best] * t[best]))


def around(place: Place, row: int, rng: np.random.Generator) -> list[dict[str, torch.Tensor]]:
    """Two models that agree on everybody but whoever is within a hair of a plane through the row: the first
    is right about it.
    """
    x, one = place.rows.x[row].double().numpy(), bool(place.rows.y[row])
    w = rng.normal(size=len(x))
    w /= np.linalg.norm(w)
    return [plane(w, float(w @ x) + (-side if one else side)) for side in (HAIR, -HAIR)]


def clear_planes(place: Place, size: Size, key: Key) -> list[Said]:
    """Two, four and six exact answers for each target, and no knowledge of anybody else."""
    parts = []
    for i, game in enumerate(games_of(place, size, key)):
        many, rng = min(size.targets, game.rows), key.at("planes", i).numpy()
        models = tree.stack([m for t in game.people[:many] for _ in range(3) for m in around(place, t, rng)])
        heard = answers_of_all(place, game.sites, SCORE, models, key.at("list", i))[..., 1] * game.rows
        pairs = heard.reshape(len(heard), many, 3, 2)
        contrast = pairs[..., 0] - pairs[..., 1]  # 1 of the target, and of others whatever is there
        parts.append((np.round(contrast), game.inside[:, :many]))
    counted, true = (np.concatenate(p) for p in zip(*parts, strict=True))
    return [Said(counted[:, :, : j + 1].mean(axis=2) > 0.5, true) for j in range(3)]


def chosen(place: Place, told: Told, knows: str, number: int, grid: Sequence[int], key: Key) -> list[Said]:
    """Games of a target each, in which the same one or two models are asked about again and again, with one
    bit changed each time, so that noise is drawn anew.
    """
    rng, n = key.numpy(), len(place.rows) // 3
    true, sites, models, pairs = np.arange(number) % 2 == 0, [], [], []
    for inside in true:
        target, other, *rest = rng.permutation(len(place.rows))[: n + 1]
        sites.append(np.array([target if inside else other, *rest]))
        models += (
            [between(place, other, target, np.array(rest), rng)]
            if knows == "others"
            else around(place, target, rng)
        )
        pairs.append((target, other))
    each = len(models) // number
    heard = repeated(place, sites, told, tree.stack(models), each, grid[-1] // each, key)
    if knows == "others":
        worlds = [np.array([who, *s[1:]]) for s, pair in zip(sites, pairs, strict=True) for who in pair]
        found = ratios(place, told, worlds, tree.stack(models), heard[:, :, 0], key)[:, [k - 1 for k in grid]]
    else:
        found = np.array([[contrast(told, a[: k // 2], n) for k in grid] for a in heard])
    return [Said(found[:, [j]] > 0, true[:, None]) for j in range(len(grid))]


def ratios(
    place: Place, told: Told, worlds: Sequence[np.ndarray], models: Beliefs, heard: np.ndarray, key: Key
) -> np.ndarray:
    """[game, copy] log of the ratio of likelihoods of all answers so far; `worlds` are the rows of each game
    with its target, then without.
    """
    copies, found = heard.shape[1], []
    people = [np.union1d(*worlds[2 * i : 2 * i + 2]) for i in range(len(heard))]
    edges = torch.tensor([(i, row) for i, rows in enumerate(people) for row in rows.tolist()])
    single = [np.array([i]) for i in range(len(place.rows))]
    parts = np.split(
        answers(place, single, SCORE, models, edges, key), np.cumsum([len(p) for p in people])[:-1]
    )
    for i, (a, rows, figures) in enumerate(zip(heard, people, parts, strict=True)):
        one, two = (
            np.tile(told.cut(figures[np.searchsorted(rows, world)]).mean(axis=0), copies)
            for world in worlds[2 * i : 2 * i + 2]
        )
        ratio = told.log_ratio(a.reshape(-1), one, two, len(worlds[0]))
        found.append(ratio.reshape(copies, 2).sum(axis=1).cumsum())
    return np.array(found)


def repeated(
    place: Place, sites: Sequence[np.ndarray], told: Told, models: Beliefs, each: int, copies: int, key: Key
) -> np.ndarray:
    """[game, copy, models of a game, 2], some hundred copies in a visit."""
    found, number = [], len(sites)
    hosts = torch.arange(number).repeat_interleave(each)
    for begin in range(0, copies, 100):
        many = min(100, copies - begin)
        guests = torch.arange(number * each).repeat(many)
        edges = torch.stack([torch.arange(len(guests)), hosts.repeat(many)], dim=1)
        got = answers(place, sites, told.kernel, tree.rows(models, guests), edges, key.at("copies", begin))
        found.append(got.reshape(many, number, each, 2).swapaxes(0, 1))
    return np.concatenate(found, axis=1)


def contrast(told: Told, heard: np.ndarray, n: int) -> float:
    """How much more than half of what one row can change two models differ by, [copy, model, 2] of them."""
    means = heard.mean(axis=0)
    slope = told.moments(means.mean(axis=0), n)[1]
    differ = (
        (means[0] - means[1]) * n / told.most(2) * [-1, 1]
    )  # the first is right: less loss, more accuracy
    return float((differ - slope / 2).sum())
