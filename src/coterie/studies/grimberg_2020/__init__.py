"""Grimberg, "Privacy-preserving and personalized federated machine learning for medical data", EPFL, 2020.

Section 5: who survives the Titanic, told by nine features, is learned by four agents (AGE_STRICT: ages 0-20,
21-35, 36+ and unknown; AGE_SOME: two agents share 0-35). Each agent is the user once. The user's rows are cut
into halves to train and to test on; the others train on all of theirs. Three schemes, 30 rounds, one batch a
round and agent: Global (everybody's gradients alike), Weight Erosion, Local (the user's alone). The study is
repeated on four real hospitals, which the paper does not have, with the preset `text` alone.

The paper's constants: p_d = 0.01, p_s = 0.2, server step 1, learning rate 3, batches of 161 (AGE_STRICT) and
132 (AGE_SOME), a loss of half the cross-entropy plus 0.5e-3 |θ|². With cross-entropy itself the same steps
have half the rate and twice the decay:

    θ - 3 (½ ∇CE + 1e-3 θ)  =  θ - 1.5 (∇CE + 2e-3 θ)          RATE, DECAY

The four hospitals have batches of 62, half of the smallest. Seeds draw the first model, the halves and the
order of rows; the paper has one seed, 278, of another generator.

`text`: a batch is drawn anew each round; halves keep the classes' shares; one learning rate for all schemes;
a passenger of unknown age is an adult.

`as-run`, what the author's program did otherwise (that the other agents' rows are shuffled as the user's are,
and that AGE_SOME has the learning rates of AGE_STRICT, is our reading):
    batches come in a fixed order, which is drawn once                             shuffle=False
    the test set is the first 1 + ⌊n/2⌋ of the user's shuffled rows                halves
    ⌊(r-1) b / |S_i|⌋ are the completed epochs: rounds over batches, short ones whole   CompletedEpochs
    Global has learning rate 0.07 and adds up along a wrong axis                   wrong_average
    a passenger of unknown age is a minor by 0.2009                                Titanic("share")
    accuracy is the mean of those of the test set's batches, however short         by_batches

The last makes agent 2 of AGE_STRICT shine: its 162 test rows are a batch of 161 and one of 1, which alone
decides half of its accuracy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.api.folders import digest
from coterie.api.play import rounds
from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.method import Info, Method
from coterie.core.net import SERVER, Net, from_server
from coterie.core.seeds import Key
from coterie.data.dataset import Dataset, hold_out, samples
from coterie.data.partition import AgeSome, AgeStrict, Deal, Silos, Split
from coterie.data.sources import SOURCES
from coterie.data.sources.heart_disease import HOSPITALS
from coterie.data.sources.titanic import Titanic
from coterie.kernels import SGD
from coterie.methods import FedAvg, Local, WeightErosion
from coterie.methods.server import fedavg
from coterie.models.linear import Logistic
from coterie.studies.base import Asked, CellFile, Job, Paper, Preset, Scale

ROUNDS, P_D, P_S = 30, 0.01, 0.2
RATE, DECAY, GLOBAL_RATE = 3.0 / 2, 2e-3, 0.07 / 2
EROSION = "weight-erosion"
METHODS = ("global", EROSION, "local")
OVERLAP = 1.0  # the user's test rows over those it trains on: halves, drawn anew by every seed


@dataclass(frozen=True)
class Study:
    """Whose rows, how they are split, and how many make a batch."""

    title: str
    data: str
    split: Split
    batch: int
    users: tuple[str, ...]


STUDIES = {
    "age-strict": Study("Titanic, AGE_STRICT", "titanic", AgeStrict(), 161, ("0", "1", "2", "3")),
    "age-some": Study("Titanic, AGE_SOME", "titanic", AgeSome(), 132, ("0", "1", "2", "3")),
    "heart": Study("heart disease, four hospitals", "heart-disease", Silos(), 62, HOSPITALS),
}


@dataclass(frozen=True)
class Trace:
    """What is kept of a run, round 0 first.

    accuracy     on all of the user's test rows
    by_batches   the mean of the accuracies of its batches, as the author's program has it
    alpha        [round from 1, agent], for Weight Erosion
    weights      [output, feature and bias last] of the last model
    always       accuracy of always naming the first class; 1 - always is that of the second
    """

    method: str
    seed: int
    accuracy: list[float]
    by_batches: list[float]
    weights: list[list[float]]
    always: float
    names: list[str]
    features: list[str]
    alpha: list[list[float]] | None = None
    settings: str = ""
    origin: dict[str, Any] = field(default_factory=dict)


# what the program did otherwise


@dataclass(frozen=True)
class CompletedEpochs(WeightErosion):
    """as-run: the size penalty counts whole epochs, in which a short last batch is a round like any other."""

    def passes(self, rounds: Tensor, sizes: Tensor) -> Tensor:
        batch: int = self.local.batch  # type: ignore[attr-defined]
        return rounds // -(-sizes // batch)


@dataclass(frozen=True)
class WrongAxis(FedAvg):
    """as-run: Global with its wrong average."""

    def round(self, state: fedavg.State, net: Net, key: Key) -> tuple[fedavg.State, Info]:
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, from_server(torch.arange(n)), key)
        before = net.open(state.beliefs)
        updates = {name: t - before[name] for name, t in net.open(replies.beliefs).items()}
        after = {name: before[name] + wrong_average(u) for name, u in updates.items()}
        shares = fedavg.averaging_weights(net.roster.sizes, weighted=False)
        return fedavg.State(hold(after, SERVER), None, n), fedavg.server_info(n, replies, shares)


def wrong_average(updates: Tensor) -> Tensor:
    """(Σ(Σ(Σ(u_0) + u_1) + u_2) + u_3) / 4 with Σ over the last axis, that of the features.

    Worked out from what is known of it: it adds up along a wrong axis, and four updates of ones for nine
    features give (1 + 9 + 81 + 729) / 4 = 205.
    """
    total = updates[0]
    for update in updates[1:]:
        total = total.sum(dim=-1, keepdim=True) + update
    return total / len(updates)


def by_batches(right: Tensor, batch: int) -> float:
    """The mean of the batches' accuracies; the last counts as much as the others."""
    return float(torch.stack([part.mean() for part in torch.split(right, batch)]).mean())


def halves(
    y: np.ndarray, rows: np.ndarray, preset: Preset, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(test, train): halves with the classes' shares, or 1 + ⌊n/2⌋ shuffled rows and the rest."""
    if preset == "text":
        kept, held = hold_out(y[rows], 0.5, rng, "the user")
        return rows[held], rows[kept]
    order = rng.permutation(rows)
    first = 1 + len(rows) // 2
    return order[:first], order[first:]


# cells


def method_of(name: str, preset: Preset, batch: int, user: str) -> Method:
    as_run = preset == "as-run"
    rate = GLOBAL_RATE if as_run and name == "global" else RATE
    work = SGD(lr=rate, steps=1, batch=batch, shuffle=not as_run, weight_decay=DECAY)
    if name == "local":
        return Local(work, requester=user)
    if name == "global":
        return WrongAxis(work) if as_run else FedAvg(work, weighted=False)
    erosion = CompletedEpochs if as_run else WeightErosion
    return erosion(work, requester=user, p_d=P_D, p_s=P_S)


def agents(data: Dataset, deal: Deal, user: int, preset: Preset, key: Key) -> list[Client]:
    """The user tests on half of its rows; the others train on all of theirs and are not tested."""
    made = []
    for i, name in enumerate(deal.names):
        rows, rng = np.flatnonzero(deal.owner == i), key.at("rows", i).numpy()
        held = rows[:0]
        if i == user:
            held, rows = halves(data.train.y, rows, preset, rng)
        rng.shuffle(rows)
        pools = [data.train.take(part) for part in (rows, rows[:0], held)]
        if data.prepare is not None:
            pools, _ = data.prepare(*pools)
        train, validation, test = (samples(p.x, p.y) for p in pools)
        made.append(Client(name, train, test, validation, data.features, data.classes))
    return made


@cache
def loaded(name: str, preset: Preset) -> Dataset:
    as_run = name == "titanic" and preset == "as-run"
    return (Titanic("share") if as_run else SOURCES.make(name)).load()


def _trace(study: Study, preset: Preset, user: int, seed: int, methods: Sequence[str]) -> Iterator[Trace]:
    """Each method on the same agents, from the same first model, scored on the user's test rows after each
    round. Nothing is saved in between: a run takes a tenth of a second.
    """
    data, key = loaded(study.data, preset), Key(seed)
    deal = study.split.deal(data, data.train, None, key.at("data"))
    clients = agents(data, deal, user, preset, key.at("data"))
    model = Logistic().build((len(data.features),), len(data.classes), key.at("model", 0).integer())
    learner, me = Learner(model, "classification"), clients[user]
    for name in methods:
        method = method_of(name, preset, study.batch, me.name)
        accuracy, batched, alpha = [], [], []
        own: Belief = {}
        for _, models, info in rounds(model, clients, method, rounds=ROUNDS, seed=seed):
            own = models[me.name]
            if info is not None and "alpha" in info.matrices:
                alpha.append(info.matrices["alpha"][user].tolist())
            with torch.no_grad():
                right = (learner.outputs(own, me.test.x).argmax(dim=1) == me.test.y).double()
            accuracy.append(float(right.mean()))
            batched.append(by_batches(right, study.batch))
        yield Trace(
            method=name,
            seed=seed,
            accuracy=accuracy,
            by_batches=batched,
            weights=torch.cat([own["head.weight"], own["head.bias"].unsqueeze(1)], dim=1).tolist(),
            always=float((me.test.y == 0).double().mean()),
            names=[c.name for c in clients],
            features=[*data.features, "bias"],
            alpha=alpha or None,
        )


def cell_file(out: Path, preset: Preset, study: str, user: str) -> CellFile[Trace]:
    """The fingerprint has all that decides a run but its seed: results of other settings do not count."""
    given = STUDIES[study]
    facts = {"rounds": ROUNDS, "p": [P_D, P_S], "rates": [RATE, GLOBAL_RATE, DECAY], "preset": preset}
    settings = digest({**facts, "batch": given.batch, "data": given.data, "split": str(given.split)})
    path = out / preset / "full" / study / f"{user}.jsonl"
    return CellFile(path, settings, Trace, lambda trace: (trace.method, trace.seed))


def log_odds(trace: Trace) -> list[float]:
    """What the prediction depends on: the second output's weights less the first's."""
    first, second = np.array(trace.weights)
    return [float(v) for v in second - first]


@dataclass(frozen=True)
class Results:
    """The runs of one preset, by study, user's number and method."""

    preset: Preset
    runs: Mapping[tuple[str, int, str], Mapping[int, Trace]]

    def of(self, study: str, user: int, method: str) -> Mapping[int, Trace]:
        """By seed."""
        return self.runs.get((study, user, method), {})

    def curve(self, trace: Trace) -> list[float]:
        """Accuracy by round, as the preset measures it."""
        return trace.by_batches if self.preset == "as-run" else trace.accuracy

    def final(self, study: str, user: int, method: str) -> list[float]:
        return [self.curve(t)[-1] for t in self.of(study, user, method).values()]

    def gain(self, study: str, user: int, method: str, over: str) -> list[float]:
        """Points by which a method's last accuracy is above another's, seed by seed."""
        a, b = self.of(study, user, method), self.of(study, user, over)
        return [100 * (self.curve(a[s])[-1] - self.curve(b[s])[-1]) for s in a if s in b]

    def feature(self, study: str, user: int, method: str, name: str) -> dict[int, float]:
        """A feature's weight in the log-odds of the second class, by seed."""
        return {s: log_odds(t)[t.features.index(name)] for s, t in self.of(study, user, method).items()}

    def alpha(self, study: str, user: int) -> np.ndarray:
        """Mean over rounds of each agent's weight: [seed, agent]."""
        found = [np.mean(t.alpha or [], axis=0) for t in self.of(study, user, EROSION).values()]
        return np.array(found).reshape(-1, 4)


class _Grimberg(Paper):
    """Cells are study/user: age-strict/0 to 3, age-some/0 to 3, heart/cleveland, ..."""

    name = "grimberg-2020"
    citation = (
        "Grimberg: Privacy-preserving and personalized federated machine learning for medical data. "
        "EPFL, 2020"
    )
    presets = ("text", "as-run")
    seeds = 20
    scales = ("full",)
    nothing = "no results of {}"

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{name}/{user}" for name, study in STUDIES.items() for user in study.users)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        try:
            SOURCES.make("heart-disease").fetch()
        except BadData as error:
            few = tuple(c for c in self.cells(scale) if not c.startswith("heart/"))
            return few, (f"the four hospitals are left out: {error}",)
        return self.cells(scale), ()

    def jobs(self, asked: Asked) -> list[Job]:
        """One for each preset and cell: all its methods and seeds."""
        cells = itertools.product(asked.presets, asked.cells)
        some = [(preset, cell) for preset, cell in cells if preset == "text" or not cell.startswith("heart/")]
        if not some:
            raise BadInput("the four hospitals, which the paper does not have, go with preset text only")
        return [_job_of(asked, preset, *cell.split("/")) for preset, cell in some]


def _job_of(asked: Asked, preset: Preset, study: str, user: str) -> Job:
    file = cell_file(asked.out, preset, study, user)
    have = file.read()
    methods = {s: tuple(m for m in METHODS if (m, s) not in have) for s in range(asked.seeds)}
    left = [(seed, some) for seed, some in methods.items() if some]

    def compute(case: tuple[int, tuple[str, ...]]) -> Iterator[Trace]:
        return _trace(STUDIES[study], preset, STUDIES[study].users.index(user), *case)

    cost = float(sum(map(len, methods.values())))
    return file.job(f"{preset} {study}/{user}", left, compute, lambda case: f"seed {case[0]}", cost)


PAPER = _Grimberg()
