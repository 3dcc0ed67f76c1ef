"""Coterie: personalised collaborative learning.

import coterie
clients = [coterie.Client.from_arrays(X, y, name="hospital-a", test=0.3), ...]
result = coterie.train(model, clients, method="finetune", rounds=30, seed=0)
result.models["hospital-a"]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie import watching
    from coterie.api.advise import advise
    from coterie.api.check import Checked, check
    from coterie.api.compare import compare
    from coterie.api.estimator import CoterieClassifier, CoterieRegressor
    from coterie.api.result import Result
    from coterie.api.similar import similar
    from coterie.api.train import train
    from coterie.core.errors import CoterieError, CoterieWarning
    from coterie.data.clients import Client
    from coterie.data.clients_from import clients_from
    from coterie.kernels import SGD, Adam
    from coterie.use import load

__version__ = "0.1.0"

_HOMES = {
    "Adam": "coterie.kernels",
    "Checked": "coterie.api.check",
    "Client": "coterie.data.clients",
    "CoterieClassifier": "coterie.api.estimator",
    "CoterieError": "coterie.core.errors",
    "CoterieRegressor": "coterie.api.estimator",
    "CoterieWarning": "coterie.core.errors",
    "Result": "coterie.api.result",
    "SGD": "coterie.kernels",
    "advise": "coterie.api.advise",
    "check": "coterie.api.check",
    "clients_from": "coterie.data.clients_from",
    "compare": "coterie.api.compare",
    "load": "coterie.use",
    "similar": "coterie.api.similar",
    "train": "coterie.api.train",
}

__all__ = [
    "SGD",
    "Adam",
    "Checked",
    "Client",
    "CoterieClassifier",
    "CoterieError",
    "CoterieRegressor",
    "CoterieWarning",
    "Result",
    "advise",
    "check",
    "clients_from",
    "compare",
    "load",
    "similar",
    "train",
    "watching",
]


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used, so that `import coterie` is quick."""
    import importlib

    if name == "watching":
        return importlib.import_module("coterie.watching")
    if name not in _HOMES:
        raise AttributeError(f"module 'coterie' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
