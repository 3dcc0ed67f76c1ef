"""One honest table: personal, clustered, decentralised, Bayesian and classical methods, each tuned alike, on
the same clients. A study of Coterie's own.

Four settings are tables or small pictures whose test rows are set aside, four have published tests. What is
searched for a method is always the learning rate, and at most one option more, around its paper's own values.
How a cell is made, for each seed: rows are dealt, the method's options are searched on training rows alone
by cross-validation (`features/tuning`, as many trials and folds for every method, the same range of
learning rates), the method is trained once more on all training rows with the best of them, and scored on
test rows that no trial has seen. Where a test set is published, options are searched once, with rows that
are dealt by a seed of its own, and stay for all seeds; where none is, test rows of one seed are training rows
of another, so every seed searches for itself.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from coterie.api.folders import digest
from coterie.api.tuning import Builder, Settings, Tuning, run_once, tune
from coterie.core.errors import BadRun, CoterieWarning
from coterie.metrics.table import headline
from coterie.studies.base import Asked, CellFile, Job, LineStudy, Scale

COSTS = ("steps", "bytes", "seconds")
TUNING_SEED = 1000  # deals the rows of a search that serves all seeds, as no seed of the table does
RATES = "sgd.lr=0.01..1.0:log"
SHALLOW = ("logistic", "linear")


# settings


@dataclass(frozen=True)
class Setting:
    """`run` is what all methods share; `published` says that test rows come with the data."""

    about: str
    run: Settings
    published: bool = False

    @property
    def overlap(self) -> float:
        """Test rows over those trained on, where every seed sets some aside anew."""
        return 0.0 if self.published else self.run.test / (1 - self.run.test)

    def scaled(self, scale: Scale) -> Setting:
        if scale == "full":
            return self
        return replace(self, run=replace(self.run, rounds=9))


def _shared(data: str, rounds: int, **more: Any) -> Settings:
    """A run of batches of 16, one pass a round, scored in the end."""
    options = {"sgd": {"batch": 16}, **more.pop("options", {})}
    return Settings(data=data, rounds=rounds, evaluate=rounds, checkpoint=rounds, options=options, **more)


def _pictures(data: str, split: str, **options: Any) -> Settings:
    """1,500 of them for ten clients, and a network with one hidden layer."""
    tables = {**HIDDEN, **({split: options} if options else {})}
    return _shared(data, 15, rows=1500, split=split, clients=10, model="mlp", options=tables)


HIDDEN = {"mlp": {"hidden": (32,)}}
SETTINGS: dict[str, Setting] = {
    "heart-disease": Setting("four hospitals, logistic", _shared("heart-disease", 20, model="logistic")),
    "tcga-brca": Setting("six regions, Cox regression", _shared("tcga-brca", 20, model="linear")),
    "titanic": Setting("four groups by age, logistic", _shared("titanic", 20, model="logistic")),
    "digits-shift": Setting(
        "ten clients, three digits each, shifting (F), one hidden layer",
        _shared("digits", 20, split="shift", model="mlp", options={**HIDDEN, "shift": {"distribution": "F"}}),
    ),
    "mnist-clusters": Setting(
        "1,500 digits, ten clients, half of them with pictures turned upside down, one hidden layer",
        _pictures("mnist", "clusters"),
        published=True,
    ),
    "mnist-dirichlet": Setting(
        "1,500 digits, ten clients, labels by Dirichlet 0.1, one hidden layer",
        _pictures("mnist", "dirichlet", alpha=0.1),
        published=True,
    ),
    "fashion-interests": Setting(
        "1,500 clothes, ten clients of different sizes with one favourite class each, one hidden layer",
        _pictures("fashion-mnist", "interests"),
        published=True,
    ),
    "cifar10-clusters": Setting(
        "800 photographs, eight clients, half of them with pictures turned upside down, one hidden layer",
        _shared("cifar10", 10, rows=800, split="clusters", clients=8, model="mlp", options=HIDDEN),
        published=True,
    ),
}

KINDS = {
    "tables of real sites": ("heart-disease", "tcga-brca", "titanic"),
    "labels that are dealt unevenly": ("digits-shift", "mnist-dirichlet", "fashion-interests"),
    "two kinds of clients, one with its pictures upside down": ("mnist-clusters", "cifar10-clusters"),
}
"""In what clients differ."""


# methods


@dataclass(frozen=True)
class Way:
    """A method as it is run: its spec, what is searched beside the rate, further settings and options, the
    spec for a model of a single layer if that is another, and whether it knows what nobody in a federation
    does (all rows in one place), so that it stands beside the ranks.
    """

    spec: str
    search: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    shallow: str = ""
    yardstick: bool = False

    def on(self, model: str) -> Way:
        """As it is run with a model of that name."""
        return replace(self, spec=self.shallow) if self.shallow and model in SHALLOW else self

    @property
    def searches(self) -> tuple[str, ...]:
        return (RATES, self.search) if self.search else (RATES,)


ADVISED = {"advised": {"candidates": ("fedavg", "finetune:tune=3", "ifca"), "folds": 3}}
FAMILIES: dict[str, dict[str, Way]] = {
    "yardsticks": {
        "central": Way("central", yardstick=True),
    },
    "alone, and one model for all": {
        "local": Way("local"),
        "fedavg": Way("fedavg"),
        "fedprox": Way("fedprox", "fedprox.mu=0.001..1.0:log"),
        "scaffold": Way("scaffold", "scaffold.server_step=0.3..1.0"),
        "fedadam": Way("fedadam", "fedadam.server_lr=0.003..0.3:log"),
        "fedyogi": Way("fedyogi", "fedyogi.server_lr=0.003..0.3:log"),
        "fedadagrad": Way("fedadagrad", "fedadagrad.server_lr=0.01..1.0:log"),
        "cyclic": Way("cyclic"),
        "fedkg": Way("fedkg"),
    },
    "personal": {
        "finetune": Way("finetune", "finetune.tune=1..8"),
        "ditto": Way("ditto", "ditto.pull=0.01..3.0:log"),
        "pfedme": Way("pfedme", "pfedme.pull=0.3..4.0:log"),
        "apfl": Way("apfl", "apfl.alpha=0.1..0.9"),
        "fedper": Way("fedper", shallow="fedper:home=*bias"),
        "fedrep": Way("fedrep", "fedrep.head_epochs=1..5", shallow="fedrep:home=*bias"),
        "per-fedavg": Way("per-fedavg", "per-fedavg.adapt_lr=0.003..0.3:log"),
        "fedfomo": Way("fedfomo", "fedfomo.others=1..5", settings={"validation": 0.2}),
        "fedamp": Way("fedamp", "fedamp.pull=0.03..3.0:log"),
        "fedala": Way("fedala", "fedala.eta=0.1..3.0:log"),
        "pfedgraph": Way("pfedgraph", "pfedgraph.alpha=0.1..3.0:log"),
        "weight-erosion": Way("weight-erosion", "weight-erosion.p_d=0.001..0.1:log"),
        "ndoye": Way("ndoye"),
        "advised": Way("advised", options=ADVISED),
    },
    "clustered": {
        "ifca": Way("ifca", "ifca.k=2..4"),
        "cfl": Way("cfl", "cfl.gamma=0.0..0.9"),
        "data-interpolation": Way("data-interpolation", "data-interpolation.lam=0.1..0.9"),
    },
    "without a server": {
        "d-psgd": Way("d-psgd"),
        "pens": Way("pens", "pens.selected=1..3"),
        "dac": Way("dac", "dac.tau=1.0..30.0:log"),
    },
    "Bayesian": {
        "fl-swag": Way("fl-swag"),
        "bayes-local": Way("bayes-local"),
    },
}
WAYS: dict[str, Way] = {name: way for family in FAMILIES.values() for name, way in family.items()}


# cells


class _Search(NamedTuple):
    """How many options are tried for each method, and on how many folds each."""

    trials: int
    folds: int


SEARCHES: dict[Scale, _Search] = {"full": _Search(6, 2), "tiny": _Search(2, 2)}


@dataclass(frozen=True)
class Trace:
    """What is kept of one seed of a cell: the options that were found, and figures of each client.

    headline    accuracy or concordance by client;  `loss`, `ece` likewise, without `ece` for a survival
    found       the options with which it ran; `expected` is their figure on held-out training rows
    failed      trials of the search that diverged or were refused
    steps       gradient steps of all clients;  `bytes`: that moved;  `seconds`: of training
    """

    seed: int
    headline: dict[str, float]
    loss: dict[str, float]
    ece: dict[str, float]
    found: dict[str, Any]
    expected: float
    failed: int
    steps: int
    bytes: int
    seconds: float
    settings: str = ""
    origin: dict[str, Any] = field(default_factory=dict)


class _Found(NamedTuple):
    """What a search brought: the settings to run with, the options among them, and how they did."""

    settings: Settings
    options: dict[str, Any]
    expected: float
    failed: int


def _searched(way: Way, shared: Settings, search: _Search, builder: Builder) -> _Found:
    """The best options of a method for these settings, by cross-validation on training rows."""
    mine = replace(shared, **way.settings, options={**shared.options, **way.options})
    tuning = Tuning(mine, (way.spec,), way.searches, search.trials, search.folds)
    tuned = tune(tuning, builder=builder)
    best = tuned.best(way.spec)
    if best is None or best.value is None:
        errors = sorted({t.error for t in tuned.trials if t.error})
        raise BadRun(f"{way.spec}: no trial of its search came to an end: {'; '.join(errors)}")
    failed = sum(t.value is None for t in tuned.trials)
    return _Found(tuned.settings(way.spec), dict(best.options), best.value, failed)


def _trace(found: _Found, settings: Settings, builder: Builder) -> Trace:
    """One run on all training rows, scored on test rows."""
    record = run_once(settings, builder)
    names, metric, spent = record.clients, headline(record.about["task"]), record.spent()

    def by_client(figure: str) -> dict[str, float]:
        if figure not in record.metrics[-1]["scores"]["own/test"]:
            return {}
        return {n: v for n, v in zip(names, record.final(figure), strict=True) if v == v}

    return Trace(
        seed=settings.seed,
        headline=by_client(metric),
        loss=by_client("loss"),
        ece=by_client("ece"),
        found=found.options,
        expected=found.expected,
        failed=found.failed,
        steps=int(spent["steps"][-1]),
        bytes=int(spent["bytes"][-1]),
        seconds=float(spent["seconds"][-1]),
    )


class _Benchmark(LineStudy[Trace]):
    """Cells are setting/method: heart-disease/ditto, mnist-clusters/ifca, ..."""

    name = "benchmark"
    citation = "Thirty methods in eight settings, each tuned alike, a study of Coterie's own"
    nothing = "no results of {}"
    sources: ClassVar[dict[str, str]] = {name: setting.run.data for name, setting in SETTINGS.items()}
    ways = tuple(WAYS)

    def file(self, out: Path, scale: Scale, study: str, way: str) -> CellFile[Trace]:
        """The fingerprint has all that decides a run but its seed."""
        told = {"setting": str(SETTINGS[study].scaled(scale)), "way": str(WAYS[way])}
        settings = digest({**told, "search": str(SEARCHES[scale])})
        path = out / "text" / scale / study / f"{way}.jsonl"
        return CellFile(path, settings, Trace, lambda trace: trace.seed)

    def jobs(self, asked: Asked) -> list[Job]:
        self.builders = cache(lambda name: Builder())
        return super().jobs(asked)

    def job(self, asked: Asked, study: str, way: str) -> Job:
        """All seeds of a cell."""
        setting, builders = SETTINGS[study].scaled(asked.scale), self.builders

        @cache
        def look(seed: int) -> _Found:
            mine, settings = WAYS[way].on(setting.run.model), replace(setting.run, seed=seed)
            return _searched(mine, settings, SEARCHES[asked.scale], builders(study))

        def compute(seed: int) -> list[Trace]:
            once = look(TUNING_SEED) if setting.published else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoterieWarning)  # of trials with a rate that is too high
                found = once or look(seed)
                return [_trace(found, replace(found.settings, seed=seed, deal=None), builders(study))]

        file = self.file(asked.out, asked.scale, study, way)
        return file.job(f"{study}/{way}", range(asked.seeds), compute, lambda seed: f"seed {seed}")


PAPER = _Benchmark()
