"""Gengler, Beaussart and Yuan, "Personalized Federated Image classification using Weight Erosion", 2020.

MNIST is dealt to 10, 20, 50 or 100 agents by seven label distributions, A to G, each agent's shifted by one
digit (see the split `shift`). Agent 0 asks for a model: by Weight Erosion, by federated averaging, by
training alone. SGD, rate 0.1, batches of 32, an epoch a round, 30 rounds; p_d = 0.1 / N, p_s = 2; averages
are unweighted. A figure of Table II is agent 0's best test accuracy of all rounds: chosen by the test set it
is measured on, it is too high, by the more the noisier the curve. The last round's stands beside it.

Agent 0 is tested on int(s(d) n_d) of the n_d published test images of each digit d, s being its own shares:
922 to 1,038 images, for any number of agents. The others share what is left by their own distributions;
nothing here depends on them.

`text`: rows are shuffled and each is dealt at most once; agent 0's test images are drawn; the size penalty
counts how often each sample has been used on average, which is how Grimberg, 2020, defines its term: r - 1
times before round r, as a round is an epoch.

Equation 2 has ⌊(r-1) 32 / |S_i|⌋ for that, with the batch size for b. To the letter (AsStated) a round would
be one batch: the term is then 0 in all rounds for 6,000 samples an agent, and 1 from round 20 on for 600.
B/100 is run with this reading too, as a remark.

`as-run`, what the authors' program did otherwise:
    each digit is cut, in file order, into chunks of ⌊n_d / 99⌋ images, of which the first 100 are dealt; an
    agent with a share of c chunks takes ⌈c⌉, and the next one begins ⌊c⌋ further: where c is no whole
    number, neighbours have a chunk in common                                          deal_chunks
    agent 0's test images are the first of each digit                                  tested
    in the size penalty, |S_i| is the number of batches: ⌊(r-1) 32 / batches⌋          BatchesForSamples

The rule for chunks is worked out from counts: it gives the 59,907 images that are dealt once where all c are
whole, and 602 duplicates for each pair of neighbours where they are not (4,214 for C/20, 23,478 for C/100,
11,438 for G/20, 29,498 for G/50, 59,598 for G/100).

Scale `small`: the digits of scikit-learn, standardised, the last 500 to test on, 10 or 20 agents, batches of
8, 15 rounds. It shows that everything runs; its figures have nothing to do with the paper's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
from torch import Tensor

from coterie.api.folders import is_finished
from coterie.core.client import Client
from coterie.core.method import Method
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset, samples
from coterie.data.partition.counts import client_names, deal_table, round_shares, tally
from coterie.data.partition.shift import DISTRIBUTIONS, Shift, shifted
from coterie.data.sources import SOURCES
from coterie.kernels import SGD
from coterie.methods import FedAvg, Local, WeightErosion
from coterie.studies.base import (
    Asked,
    Job,
    Paper,
    Preset,
    Scale,
    Step,
    fetch,
    place,
    printed,
    train_in,
    with_test,
)

METHODS = ("weight-erosion", "fedavg", "local")
LITERAL = "weight-erosion-literal"  # beside them, as a remark, and if it is asked for
AGENTS = {"full": (10, 20, 50, 100), "small": (10, 20)}
ROUNDS = {"full": 30, "small": 15}
USUAL = {
    "full": ("A/10", "A/100", "B/10", "B/100", "C/10", "C/100", "F/10", "F/100"),
    "small": ("A/10", "B/10", "B/20"),
}
REMARKED = "B/100"  # the cell whose outcome hangs on how often samples are taken to be used
CHUNKS = 100
HELD = 500  # of the small digits, to test on
RATE, P_S, BATCH = 0.1, 2.0, {"full": 32, "small": 8}

# Table II: best accuracies of Weight Erosion, federated averaging, local training, by number of agents
_TABLE_II = """
   10                    20                    50                    100
A  0.9900 0.9910 0.9719  0.9819 0.9869 0.9568  0.9759 0.9769 0.9277  0.9649 0.9709 0.8896
B  0.9913 0.9707 0.9902  0.9935 0.9707 0.9881  0.9859 0.9544 0.9772  0.9848 0.9176 0.9685
C  0.9981 0.9894 0.9923  0.9952 0.9875 0.9894  0.9952 0.9798 0.9855  0.9933 0.9701 0.9798
D  0.9901 0.9752 0.9891  0.9940 0.9653 0.9831  0.9881 0.9514 0.9722  0.9762 0.9236 0.9653
E  0.9915 0.9820 0.9873  0.9915 0.9746 0.9789  0.9789 0.9672 0.9567  0.9683 0.9514 0.9376
F  0.9876 0.9855 0.9731  0.9835 0.9793 0.9607  0.9669 0.9762 0.9287  0.9545 0.9597 0.8936
G  0.9980 0.9939 0.9929  0.9959 0.9928 0.9898  0.9959 0.9939 0.9898  0.9939 0.9887 0.9857
"""
TABLE_II = {
    f"{letter}/{agents}": tuple(float(word) for word in words.split())
    for letter, row in printed(_TABLE_II).items()
    for agents, words in row.items()
}


@dataclass(frozen=True)
class AsStated(WeightErosion):
    """The remark: equation 2 to the letter counts a round as one batch, however many it has."""

    name: ClassVar[str] = "weight-erosion, a batch a round"

    def passes(self, rounds: Tensor, sizes: Tensor) -> Tensor:
        batch: int = self.local.batch  # type: ignore[attr-defined]
        return rounds * batch // sizes


@dataclass(frozen=True)
class BatchesForSamples(WeightErosion):
    """as-run: in the size penalty, a client's size is its number of batches."""

    name: ClassVar[str] = "weight-erosion, sizes in batches"

    def passes(self, rounds: Tensor, sizes: Tensor) -> Tensor:
        batch: int = self.local.batch  # type: ignore[attr-defined]
        return rounds * batch // -(-sizes // batch)


def method_of(name: str, preset: Preset, scale: Scale, requester: str) -> Method:
    work = SGD(lr=RATE, batch=BATCH[scale])
    if name == "local":
        return Local(work)
    if name == "fedavg":
        return FedAvg(work, weighted=False)
    kinds = {"text": WeightErosion, "as-run": BatchesForSamples}
    erosion = AsStated if name == LITERAL else kinds[preset]
    return erosion(work, requester=requester, p_d="auto", p_s=P_S, per_step=False)


def methods_of(preset: Preset, cell: str) -> tuple[str, ...]:
    """The three of Table II; for B/100 as in the text also the other reading of its size penalty."""
    return (*METHODS, LITERAL) if (preset, cell) == ("text", REMARKED) else METHODS


def deal_chunks(y: np.ndarray, first: Sequence[float], agents: int) -> list[np.ndarray]:
    """as-run: rows [agent], some of them twice."""
    share = shifted(np.array(first), agents) * CHUNKS * len(first) / agents  # in chunks: [agent, digit]
    share = np.where(np.isclose(share, np.rint(share)), np.rint(share), share)
    mine: list[list[np.ndarray]] = [[] for _ in range(agents)]
    for digit in range(len(first)):
        rows = np.flatnonzero(y == digit)
        size, begin = len(rows) // (CHUNKS - 1), 0
        for agent in range(agents):
            end = min(begin + math.ceil(share[agent, digit]), CHUNKS)
            mine[agent].append(rows[begin * size : end * size])
            begin += math.floor(share[agent, digit])
    return [np.concatenate(parts) for parts in mine]


def tested(y: np.ndarray, first: Sequence[float], rng: np.random.Generator | None) -> np.ndarray:
    """Agent 0's test rows: int(s(d) n_d) of each digit, the first ones or, with rng, any."""
    chosen = []
    for digit, share in enumerate(first):
        rows = np.flatnonzero(y == digit)
        rows = rows if rng is None else rng.permutation(rows)
        chosen.append(rows[: int(share * len(rows))])
    return np.sort(np.concatenate(chosen))


def others_tested(pool: Arrays, taken: np.ndarray, first: Sequence[float], agents: int) -> list[np.ndarray]:
    """The other agents' test rows, from what agent 0 leaves: [agent from 1]."""
    left = np.setdiff1d(np.arange(len(pool)), taken)
    parts = shifted(np.array(first), agents)[1:]
    parts /= parts.sum(axis=0).max()
    counts = round_shares(tally(pool.y[left], len(first)), parts)
    owner, _ = deal_table(pool.take(left), counts, parts, 1, None)
    return [left[owner == k] for k in range(agents - 1)]


@cache
def _pictures(scale: Scale) -> Dataset:
    if scale == "full":
        return SOURCES.make("mnist").load()
    data = with_test(SOURCES.make("digits").load(), HELD)
    assert data.test is not None
    learn, test = data.train, data.test
    mean, deviation = learn.x.mean(), learn.x.std()
    learn, test = (replace(pool, x=(pool.x - mean) / deviation) for pool in (learn, test))
    return replace(data, train=learn, test=test)


@lru_cache(maxsize=1)
def agents_of(preset: Preset, scale: Scale, cell: str, seed: int) -> tuple[Client, ...]:
    """The agents of a cell; as-run has them the same for every seed."""
    letter, number = cell.split("/")
    first, n, data, key = DISTRIBUTIONS[letter], int(number), _pictures(scale), Key(seed).at("data")
    assert data.test is not None
    if preset == "as-run":
        trained = deal_chunks(data.train.y, first, n)
    else:
        owner = Shift(letter).deal(data, data.train, n, key).owner
        trained = [np.flatnonzero(owner == k) for k in range(n)]
    judged = tested(data.test.y, first, None if preset == "as-run" else key.at("tested").numpy())
    held = [judged, *others_tested(data.test, judged, first, n)]
    made = []
    for k, name in enumerate(client_names(n)):
        pools = [data.train.take(trained[k]), data.train.take(trained[k][:0]), data.test.take(held[k])]
        if data.prepare is not None:
            pools, _ = data.prepare(*pools)
        learn, validate, test = (samples(p.x, p.y) for p in pools)
        made.append(Client(name, learn, test, validate, data.features, data.classes))
    return tuple(made)


def name_of(cell: str, method: str) -> str:
    """The folder of a cell's method."""
    return f"{cell.replace('/', '-')}/{method}"


class Gengler(Paper):
    """Cells are distribution/agents: A/10 to G/100."""

    name = "gengler-2020"
    citation = (
        "Gengler, Beaussart, Yuan: Personalized Federated Image classification using Weight Erosion. "
        "EPFL, 2020"
    )
    seeds = 1
    scales = ("full", "small")

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{letter}/{n}" for letter in DISTRIBUTIONS for n in AGENTS[scale])

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return USUAL[scale], ()

    def jobs(self, asked: Asked) -> list[Job]:
        runs = itertools.product(asked.presets, asked.cells, range(asked.seeds))
        jobs = [
            _job_of(asked, preset, cell, method, seed)
            for preset, cell, seed in runs
            for method in methods_of(preset, cell)
        ]
        if asked.scale == "full":
            fetch(["mnist"], jobs, "small")
        return jobs


def _job_of(asked: Asked, preset: Preset, cell: str, method: str, seed: int) -> Job:
    scale, cost = asked.scale, 1.0 / int(cell.split("/")[1]) if method == "local" else 1.0
    path = place(asked.out, preset, scale, name_of(cell, method), seed)

    def run(step: Step) -> None:
        clients = agents_of(preset, scale, cell, seed)
        asks, some = clients[0].name, clients[:1] if method == "local" else clients
        train_in(
            path, step, "erosion-cnn", some, method_of(method, preset, scale, asks),
            rounds=ROUNDS[scale], seed=seed, one_class="allow",
            accuracy=lambda seen: seen.each["accuracy"][asks],
        )  # fmt: skip

    return Job(f"{preset} {cell} {method} seed {seed}", cost, is_finished(path), run)


PAPER = Gengler()
