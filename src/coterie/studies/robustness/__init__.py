"""What liars do to rules and to personal methods: a study of our own.

Every method trains once with nobody lying and once for each way of lying (`coterie.features.liars`) and each
share of liars, all in their usual strength, with the same clients, rows, first weights and batches for a
seed. Looked at are the honest clients alone: their mean accuracy and the worst of them on their own test
rows, and both less what the very same clients have when nobody lies. Liars are drawn anew for each seed. Who
has to guess how many lie is left with its default (`f = auto`), as a user would.

    digits      10 clients, Dirichlet alpha = 1 over classes, logistic regression
    mnist       the same with 2,000 training and 2,000 test pictures and a small network
    hospitals   the four of heart disease, as they are: one of four lies

`losses` go with wrong labels, as telling wrong losses alone hurts nobody: that cell is label-flip and losses
together. Methods run with their defaults, but for the rounds and the rate of the local work, which are the
study's.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from coterie.api.folders import digest
from coterie.api.train import train
from coterie.core.client import Client
from coterie.core.errors import CoterieWarning
from coterie.core.method import METHODS, Method
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition import Silos, Split
from coterie.data.partition.dirichlet import Dirichlet
from coterie.data.sources import SOURCES
from coterie.kernels import SGD
from coterie.models import MODELS
from coterie.studies.base import Asked, CellFile, Job, LineStudy, Scale, cut, first_model

NONE, BOTH = "none", "losses"
KINDS = (
    "label-flip", "backdoor", "sign-flip", "gaussian", "alie", "ipm", "mimic", "scaling", "free-rider",
    "stale", "not-a-number", "nonsense", BOTH,
)  # fmt: skip
SHARES = (0.2, 0.3)
TEST = 0.3  # of a client's rows, where no test set is published


@dataclass(frozen=True)
class Study:
    """Whose rows, what learns, how long; rows are all, or so many to learn from and to test on."""

    data: str
    split: Split
    clients: int | None
    model: str
    options: dict[str, Any]
    rounds: int
    rate: float
    rows: tuple[int, int] | None = None
    shares: tuple[float, ...] = SHARES

    @property
    def overlap(self) -> float:
        """Test rows over those trained on, where every seed sets some aside anew; 0 for a published test set,
        which is cut to so many rows.
        """
        return 0.0 if self.rows else TEST / (1 - TEST)


STUDIES: dict[str, Study] = {
    "digits": Study("digits", Dirichlet(alpha=1.0), 10, "logistic", {}, 30, 0.3),
    "mnist": Study("mnist", Dirichlet(alpha=1.0), 10, "mlp", {"hidden": (32,)}, 20, 0.1, (2000, 2000)),
    "hospitals": Study("heart-disease", Silos(), None, "logistic", {}, 30, 0.1, shares=(0.25,)),
}
SMALL: dict[Scale, dict[str, Any]] = {"tiny": {"rounds": 2, "kinds": ("sign-flip", "nonsense"), "shares": 1}}

RULES = (
    "krum", "nnm+krum", "geometric-median", "nnm+geometric-median", "centred-clipping", "minimum-diameter",
    "norm-bound", "median", "trimmed-mean", "meamed", "bulyan",
)  # fmt: skip
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "mean": ("fedavg", {}),
    **{rule: ("robust", {"rule": rule}) for rule in RULES},
    "monna": ("robust-personal", {"rule": "monna"}),
    "fltrust": ("robust-personal", {"rule": "fltrust"}),
    "weight-erosion": ("weight-erosion", {}),
    "pens": ("pens", {}),
    "influence": ("influence", {"bar": "none"}),
    "ndoye": ("ndoye", {"bar": "none"}),
    "local": ("local", {}),
}
"""Methods by what the table calls them: one model for all up to bulyan, then a model for each."""


@dataclass(frozen=True)
class Trace:
    """What is kept of a run: each scored client's accuracy in the end, how often the trigger worked, and who
    was left out for a reply that cannot be.
    """

    kind: str
    share: float
    seed: int
    accuracy: dict[str, float]
    fooled: float | None = None
    left_out: list[str] = field(default_factory=list)
    settings: str = ""
    origin: dict[str, Any] = field(default_factory=dict)


def wraps_of(kind: str, share: float) -> list[str]:
    """The wrappers of a run; of two, the same clients lie in both ways."""
    if kind == NONE:
        return []
    kinds = ("label-flip", BOTH) if kind == BOTH else (kind,)
    return [f"liars:kind={one},fraction={share}" for one in kinds]


@cache
def _clients_of(name: str, seed: int) -> tuple[Client, ...]:
    study = STUDIES[name]
    data = cut(SOURCES.make(study.data).load(), study.rows, np.random.default_rng(0))
    key = Key(seed).at("data")
    return deal_clients(data, study.split, study.clients, key, test=TEST, one_class=True).clients


def _trace(name: str, way: str, kind: str, share: float, seed: int, rounds: int) -> Trace:
    study, clients = STUDIES[name], _clients_of(name, seed)
    module = first_model(MODELS.make(study.model, **study.options), clients[0], seed)
    called, options = WAYS[way]
    method: Method = METHODS.make(called, local=SGD(lr=study.rate, batch=16, epochs=1), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoterieWarning)  # models that liars ruin are looked for
        record = train(
            module, list(clients), method, rounds=rounds, seed=seed,
            wrap=wraps_of(kind, share), evaluate=rounds, one_class="allow", progress=False,
        ).record  # fmt: skip
    last = record.metrics[-1]
    found = zip(record.clients, last["scores"]["own/test"]["accuracy"], strict=True)
    lied = last["extras"].get("liars", [])
    return Trace(
        kind,
        share,
        seed,
        {client: value for client, value in found if value is not None},
        next((entry["fooled"] for entry in lied if "fooled" in entry), None),
        sorted(last["extras"].get("left_out", {})),
    )


def cases(study: Study, scale: Scale) -> list[tuple[str, float]]:
    """(kind, share) of the runs of a cell; the first has no liars."""
    small = SMALL.get(scale, {})
    shares = study.shares[-small.get("shares", len(study.shares)) :]
    return [(NONE, 0.0), *((kind, share) for share in shares for kind in small.get("kinds", KINDS))]


def _rounds_of(study: Study, scale: Scale) -> int:
    return int(SMALL.get(scale, {}).get("rounds", study.rounds))


class _Robustness(LineStudy[Trace]):
    """Cells are study/method: digits/krum, hospitals/pens, ..."""

    name = "robustness"
    citation = "Rules and personal methods against thirteen ways of lying, a study of Coterie's own"
    nothing = "no results of {}"
    sources: ClassVar[dict[str, str]] = {name: study.data for name, study in STUDIES.items()}
    ways = tuple(WAYS)

    def file(self, out: Path, scale: Scale, study: str, way: str) -> CellFile[Trace]:
        """The fingerprint has all that decides a run but its seed and liars."""
        rounds = _rounds_of(STUDIES[study], scale)
        settings = digest({"study": str(STUDIES[study]), "way": repr(WAYS[way]), "rounds": rounds})
        path = out / "text" / scale / study / f"{way}.jsonl"
        return CellFile(path, settings, Trace, lambda trace: (trace.kind, trace.share, trace.seed))

    def job(self, asked: Asked, study: str, way: str) -> Job:
        """All liars and seeds of a cell."""
        rounds = _rounds_of(STUDIES[study], asked.scale)
        liars = cases(STUDIES[study], asked.scale)

        def compute(case: tuple[str, float, int]) -> list[Trace]:
            return [_trace(study, way, *case, rounds)]

        return self.file(asked.out, asked.scale, study, way).job(
            f"{study}/{way}",
            [(*case, seed) for seed in range(asked.seeds) for case in liars],
            compute,
            lambda case: f"{case[0]} seed {case[2]}",
        )


PAPER = _Robustness()
