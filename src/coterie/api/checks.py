"""What the arguments of `train`, `compare` and `rounds` must be; see `core/checks.py`.

Every setting of a run that is not of data by name is a keyword of `train` and `compare`: these are made of
fields of `Settings` (`settings_as_keywords`). Options of methods and local work are checked by the options
themselves (`core/options.py`).
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from numbers import Real
from typing import Any, ParamSpec, TypeVar, get_origin

from torch import nn

from coterie.core.checks import (
    FILE,
    FOLDER,
    FUNCTION,
    SWITCH,
    TEXT,
    Kind,
    is_list,
    list_of,
    or_none,
    whole,
)
from coterie.core.client import Client
from coterie.core.options import Option, coerced, options_of
from coterie.kernels import WORK
from coterie.runs.settings import FACTS, Settings
from coterie.sites.features import Features

P = ParamSpec("P")
R = TypeVar("R")


def _is_object_with(value: Any, *names: str) -> bool:
    """An object, not its class, that has all of these."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_function(value: Any) -> bool:
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
METHOD = Kind(
    "a method's name, or a frozen dataclass with round: try 'fedavg'",
    lambda v: isinstance(v, str) or (dataclasses.is_dataclass(v) and _is_object_with(v, "round")),
)
KERNEL = Kind(
    f"the name of local work ({', '.join(WORK)}) or an object such as coterie.SGD(lr=0.1), not an optimiser "
    "of torch: try 'adamw', or write your own as docs/own-parts.md shows",
    lambda v: v is None or isinstance(v, str) or _is_object_with(v, "plan", "start", "step", "finish"),
)
LOSS = Kind(
    "a function of outputs [n, ...] and y [n] that gives one number for each row [n], or None for the usual "
    "loss: see docs/own-parts.md",
    lambda v: v is None or _is_function(v),
)
METRICS = Kind(
    "functions by name: try {'f1': my_f1}",
    lambda v: (
        v is None
        or (isinstance(v, Mapping) and all(map(TEXT.fits, v)) and all(map(_is_function, v.values())))
    ),
)
LOWER = Kind(
    "names of your metrics of which less is better: try ['cost']",
    lambda v: (is_list(v) or isinstance(v, set | frozenset)) and all(map(TEXT.fits, v)),
)


def _is_specs(value: Any) -> bool:
    """{"fedprox": {"mu": [0.01, 0.1]}}"""
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(options, Mapping) and all(map(TEXT.fits, options))
        for name, options in value.items()
    )


SPECS = Kind(
    "a list of names of methods: try ['local', 'fedavg', 'finetune']",
    lambda v: _is_specs(v) or (is_list(v) and all(isinstance(s, str) or _is_specs(s) for s in v)),
)
GRID = Kind(
    "values of options for all methods: try {'lr': [0.03, 0.1]}",
    lambda v: all(map(TEXT.fits, v)) if isinstance(v, Mapping) or is_list(v) else False,
)
TRANSFORM = Kind(
    "a function of x [n, ...] that gives x as changed [n, ...], or None: see docs/own-parts.md",
    lambda v: v is None or _is_function(v),
)


def _kind_of(option: Option) -> Kind:
    """What a setting must be, by its field."""
    facts, hint = FACTS[option.name], option.hint
    if hint in (int, int | None):
        least = 0 if facts.least is None else facts.least
        number = whole(least, least if option.default is None else option.default)
        return number if hint is int else or_none(number)
    if hint is float:
        return Kind(f"a number: try {option.default:g}", _is_number)
    if get_origin(hint) is tuple:
        return list_of("texts", TEXT.fits, _EXAMPLES.get(option.name, "['a']"))
    return TEXT


_EXAMPLES = {"wrap": "['absent=0.3']", "plugins": "['my_methods.py']"}
KEYWORDS = {
    option.name: option
    for option in options_of(Settings)
    if not FACTS[option.name].source and option.name not in ("model", "method", "kernel")
}
"""The settings of a run that are keywords, by name; those of data are none, as clients have their rows."""
STUDY = {"model": MODEL, "clients": CLIENTS, "seed": _kind_of(KEYWORDS["seed"])}
WAY = {"kernel": KERNEL, "engine": TEXT, "rounds": _kind_of(KEYWORDS["rounds"])}
RUN = {
    **STUDY,
    **WAY,
    "loss": LOSS,
    "metrics": METRICS,
    "lower": LOWER,
    "transform": TRANSFORM,
    **{name: _kind_of(option) for name, option in KEYWORDS.items() if name not in (*STUDY, *WAY)},
    "budget": Kind(
        "amounts by kind, or texts: try {'steps': 20000} or ['bytes=50M']",
        lambda v: (
            (isinstance(v, Mapping) and all(map(TEXT.fits, v)) and all(map(_is_number, v.values())))
            or (is_list(v) and all(map(TEXT.fits, v)))
        ),
    ),
    "power": Kind("a number of watts: try 12", _is_number),
    "features": or_none(
        Kind("options of the server: try {'aside': 0.2}", lambda v: isinstance(v, Features | Mapping))
    ),
    "out": or_none(FOLDER),
    "resume": SWITCH,
    "watch": FUNCTION,
    "progress": or_none(SWITCH),
}
TRAIN = {**RUN, "method": METHOD}
COMPARE = {**RUN, "methods": SPECS, "grid": GRID, "seeds": whole(1, 3)}
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


def settings_as_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Adds every setting that is not among a function's own arguments to its signature and its help. The
    function finds them in its `options` (`split_settings`).
    """
    signature = inspect.signature(function)
    *own, options = signature.parameters.values()
    others = [option for name, option in KEYWORDS.items() if name not in signature.parameters]
    added = [Parameter(o.name, Parameter.KEYWORD_ONLY, default=o.default, annotation=o.hint) for o in others]
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *added, options])
    lines = [
        textwrap.fill(f"{o.name:<11}{o.help}", 105, initial_indent=" " * 4, subsequent_indent=" " * 15)
        for o in others
    ]
    above = [f"{function.__doc__}", "    Settings of a run, which the shell has as flags:", ""]
    function.__doc__ = "\n".join([*above, *lines])
    return function


def split_settings(
    options: Mapping[str, Any],
    where: str,
    *,
    init: str = "given",
    budget: Sequence[str] = (),
    features: Features | Mapping[str, Any] | None = None,
) -> tuple[Settings, dict[str, Any]]:
    """The settings of a call's keywords, and its other options."""
    named = {name: value for name, value in options.items() if name in KEYWORDS}
    settings = Settings(**coerced(Settings, {**named, "budget": budget}, where))
    start: Any = init  # the module's weights as they are, too
    settings = dataclasses.replace(settings, init=start, features=Features.of(features))
    return settings, {name: value for name, value in options.items() if name not in KEYWORDS}
