"""Cells, and what each of them runs; the facts are in the package's own text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from coterie.api.folders import digest, origin
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
from coterie.papers.base import Asked, Job, Preset, Scale, Step
from coterie.papers.rows import at_hand, cut
from coterie.storage.atomic import append_line, keep_lines, read_lines

NONE, BOTH = "none", "losses"
KINDS = (
    "label-flip",
    "backdoor",
    "sign-flip",
    "gaussian",
    "alie",
    "ipm",
    "mimic",
    "scaling",
    "free-rider",
    "stale",
    "not-a-number",
    "nonsense",
    BOTH,
)
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

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "mean": ("fedavg", {}),
    "krum": ("robust", {"rule": "krum"}),
    "nnm+krum": ("robust", {"rule": "nnm+krum"}),
    "geometric-median": ("robust", {"rule": "geometric-median"}),
    "nnm+geometric-median": ("robust", {"rule": "nnm+geometric-median"}),
    "centred-clipping": ("robust", {"rule": "centred-clipping"}),
    "minimum-diameter": ("robust", {"rule": "minimum-diameter"}),
    "norm-bound": ("robust", {"rule": "norm-bound"}),
    "median": ("robust", {"rule": "median"}),
    "trimmed-mean": ("robust", {"rule": "trimmed-mean"}),
    "meamed": ("robust", {"rule": "meamed"}),
    "bulyan": ("robust", {"rule": "bulyan"}),
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


def method_of(way: str, rate: float) -> Method:
    name, options = WAYS[way]
    made: Method = METHODS.make(name, local=SGD(lr=rate, batch=16, epochs=1), **options)
    return made


def wraps_of(kind: str, share: float) -> list[str]:
    """The wrappers of a run; of two, the same clients lie in both ways."""
    if kind == NONE:
        return []
    kinds = ("label-flip", BOTH) if kind == BOTH else (kind,)
    return [f"liars:kind={one},fraction={share}" for one in kinds]


@cache
def clients_of(name: str, seed: int) -> tuple[Client, ...]:
    study = STUDIES[name]
    data = cut(SOURCES.make(study.data).load(), study.rows, np.random.default_rng(0))
    key = Key(seed).at("data")
    return deal_clients(data, study.split, study.clients, key, test=TEST, one_class=True).clients


def trace(name: str, way: str, kind: str, share: float, seed: int, rounds: int) -> Trace:
    study, clients = STUDIES[name], clients_of(name, seed)
    shape, outputs = tuple(clients[0].train.x.shape[1:]), len(clients[0].classes)
    module = MODELS.make(study.model, **study.options).build(shape, outputs, Key(seed).at("model").integer())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoterieWarning)  # models that liars ruin are looked for
        result = train(
            module,
            list(clients),
            method_of(way, study.rate),
            rounds=rounds,
            seed=seed,
            wrap=wraps_of(kind, share),
            evaluate=rounds,
            one_class="allow",
            progress=False,
        )
    last, record = result.record.metrics[-1], result.record
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


def rounds_of(study: Study, scale: Scale) -> int:
    return int(SMALL.get(scale, {}).get("rounds", study.rounds))


def settings_of(name: str, way: str, scale: Scale) -> str:
    """A fingerprint of all that decides a run but its seed and liars: others' results do not count."""
    study = STUDIES[name]
    return digest({"study": str(study), "way": repr(WAYS[way]), "rounds": rounds_of(study, scale)})


def place(out: Path, scale: Scale, name: str, way: str) -> Path:
    return out / "text" / scale / name / f"{way}.jsonl"


def kept(out: Path, scale: Scale, name: str, way: str) -> list[Trace]:
    """The finished runs of a cell, each once."""
    wanted = settings_of(name, way, scale)
    lines = [e for e in read_lines(place(out, scale, name, way)) if e["settings"] == wanted]
    return list({(e["kind"], e["share"], e["seed"]): Trace(**e) for e in lines}.values())


@dataclass(frozen=True)
class Robustness:
    """Cells are study/method: digits/krum, hospitals/pens, ..."""

    name: str = "robustness"
    citation: str = "Rules and personal methods against thirteen ways of lying, a study of Coterie's own"
    presets: tuple[Preset, ...] = ("text",)
    seeds: int = 5
    scales: tuple[Scale, ...] = ("full", "tiny")

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{name}/{way}" for name in STUDIES for way in WAYS)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return at_hand(self.cells(scale), {name: study.data for name, study in STUDIES.items()})

    def jobs(self, asked: Asked) -> list[Job]:
        said = cache(origin)
        return [job_of(asked, cell, said) for cell in asked.cells]

    def write(self, asked: Asked) -> list[Path]:
        from coterie.papers.robustness.report import write_all

        return write_all(self, asked)


def job_of(asked: Asked, cell: str, said: Callable[[], dict[str, Any]]) -> Job:
    """All liars and seeds of a cell; each run is kept as soon as it is finished."""
    name, _, way = cell.partition("/")
    study, settings = STUDIES[name], settings_of(name, way, asked.scale)
    path, rounds = place(asked.out, asked.scale, name, way), rounds_of(study, asked.scale)
    have = {(t.kind, t.share, t.seed) for t in kept(asked.out, asked.scale, name, way)}
    wanted = [(*case, seed) for seed in range(asked.seeds) for case in cases(study, asked.scale)]
    left: Sequence[tuple[str, float, int]] = [case for case in wanted if case not in have]

    def run(step: Step) -> None:
        keep_lines(path, lambda entry: entry["settings"] == settings)  # and no half line that a kill left
        for done, (kind, share, seed) in enumerate(left, start=1):
            found = trace(name, way, kind, share, seed, rounds)
            append_line(path, {**asdict(found), "settings": settings, "origin": said()})
            step(done / len(left), f"{kind} seed {seed}")

    return Job(cell, float(len(left)), not left, run)


PAPER = Robustness()
