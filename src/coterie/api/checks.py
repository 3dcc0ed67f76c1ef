"""What the arguments of `train`, `compare` and `rounds` must be; see `core/checks.py`.

Options of methods and local work are checked by the options themselves (`core/options.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from numbers import Real
from typing import Any

from torch import nn

from coterie.core.checks import (
    FILE,
    FOLDER,
    FUNCTION,
    SEED,
    SWITCH,
    TEXT,
    Kind,
    is_list,
    list_of,
    or_none,
    refuse_wrong,
    whole,
)
from coterie.core.client import Client
from coterie.kernels import WORK
from coterie.sites.features import Features


def is_method(value: Any) -> bool:
    made = dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "round")
    return isinstance(value, str) or made


def is_work(value: Any) -> bool:
    """A trainer of ours, or one of one's own; an optimiser of torch is none."""
    own = all(hasattr(value, name) for name in ("plan", "start", "step", "finish"))
    return isinstance(value, str) or (own and not isinstance(value, type))


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def is_function(value: Any) -> bool:
    """Or an object that can be called; a class makes an object instead of a figure."""
    return callable(value) and not isinstance(value, type)


MODEL = Kind(
    "a torch module or the name of a model: try 'logistic'",
    lambda v: isinstance(v, str | nn.Module),
)
CLIENTS = Kind(
    "a list of clients: make each with Client.from_arrays(X, y, name=...), or all with clients_from",
    lambda v: is_list(v) and all(isinstance(c, Client) for c in v),
)
METHOD = Kind("a method's name, or a frozen dataclass with round: try 'fedavg'", is_method)
KERNEL = Kind(
    f"the name of local work ({', '.join(WORK)}) or an object such as coterie.SGD(lr=0.1), not an optimiser "
    "of torch: try 'adamw', or write your own as docs/own-parts.md shows",
    lambda v: v is None or is_work(v),
)
LOSS = Kind(
    "a function of outputs [n, ...] and y [n] that gives one number for each row [n], or None for the usual "
    "loss: see docs/own-parts.md",
    lambda v: v is None or is_function(v),
)
METRICS = Kind(
    "functions by name: try {'f1': my_f1}",
    lambda v: (
        v is None or (isinstance(v, Mapping) and all(map(TEXT.fits, v)) and all(map(is_function, v.values())))
    ),
)
LOWER = Kind(
    "names of your metrics of which less is better: try ['cost']",
    lambda v: (is_list(v) or isinstance(v, set | frozenset)) and all(map(TEXT.fits, v)),
)


def is_specs(value: Any) -> bool:
    """{"fedprox": {"mu": [0.01, 0.1]}}"""
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(options, Mapping) and all(map(TEXT.fits, options))
        for name, options in value.items()
    )


SPECS = Kind(
    "a list of names of methods: try ['local', 'fedavg', 'finetune']",
    lambda v: is_specs(v) or (is_list(v) and all(isinstance(s, str) or is_specs(s) for s in v)),
)
GRID = Kind(
    "values of options for all methods: try {'lr': [0.03, 0.1]}",
    lambda v: all(map(TEXT.fits, v)) if isinstance(v, Mapping) or is_list(v) else False,
)
TRANSFORM = Kind(
    "a function of x [n, ...] that gives x as changed [n, ...], or None: see docs/own-parts.md",
    lambda v: v is None or is_function(v),
)
STUDY = {"model": MODEL, "clients": CLIENTS, "seed": SEED}
WAY = {"kernel": KERNEL, "engine": TEXT, "rounds": whole(1, 30)}
RUN = {
    **STUDY,
    **WAY,
    "loss": LOSS,
    "metrics": METRICS,
    "lower": LOWER,
    "transform": TRANSFORM,
    "device": TEXT,
    "memory": TEXT,
    "init": TEXT,
    "net": TEXT,
    "wrap": list_of("texts", TEXT.fits, "['absent=0.3']"),
    "budget": Kind(
        "amounts by kind, or texts: try {'steps': 20000} or ['bytes=50M']",
        lambda v: (
            (isinstance(v, Mapping) and all(map(TEXT.fits, v)) and all(map(is_number, v.values())))
            or (is_list(v) and all(map(TEXT.fits, v)))
        ),
    ),
    "power": Kind("a number of watts: try 12", is_number),
    "evaluate": whole(1, 1),
    "checkpoint": whole(1, 1),
    "one_class": TEXT,
    "features": or_none(
        Kind("options of the server: try {'aside': 0.2}", lambda v: isinstance(v, Features | Mapping))
    ),
    "out": or_none(FOLDER),
    "resume": SWITCH,
    "watch": FUNCTION,
    "progress": or_none(SWITCH),
}
TRAIN = {**RUN, "method": METHOD}
COMPARE = {
    **{k: v for k, v in RUN.items() if k in (*STUDY, "out", "resume", "progress")},
    "methods": SPECS,
    "grid": GRID,
    "seeds": whole(1, 3),
}
ADVISE = {
    **{k: v for k, v in RUN.items() if k in (*STUDY, "rounds", "progress")},
    "requester": TEXT,
    "measure": TEXT,
    "candidates": list_of("names of methods", TEXT.fits, "['fedavg', 'finetune']"),
    "folds": whole(2, 5),
    "inner": whole(0, 3),
}
MODULE = Kind("a torch module: try nn.Linear(4, 2)", lambda v: isinstance(v, nn.Module))
ROUNDS = {**STUDY, **WAY, "model": MODULE, "method": METHOD}
PAGE = {"path": FILE}


def check_keywords(given: Mapping[str, Any]) -> None:
    """Keywords of `train` that `compare` passes on."""
    refuse_wrong({k: v for k, v in RUN.items() if k in given}, given)
