"""What is told of a run while it goes on, and those who write it down elsewhere.

    coterie.train(model, clients, watch=lambda seen: print(seen.round, seen.metrics["accuracy"]))
    coterie.compare(model, clients, watch=coterie.watching.tensorboard("boards"))

`watch` is called with a `Round` after each round that was scored, and before training, with round 0.
To stop a run, raise an error: it ends there, and what its folder has so far stays, to go on from.

`tensorboard`, `mlflow` and `wandb` need the package of that name, which is imported when one is made. All
three write into a folder of this machine; nothing is sent to another host unless asked for.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.checks import FOLDER, SWITCH, TEXT, checked, or_none
from coterie.core.errors import BadInput, UnknownName
from coterie.metrics.summary import mean_over_clients
from coterie.runs.loop import Watch
from coterie.runs.record import Record

Watcher = Callable[["Round"], object]


@dataclass(frozen=True, eq=False)
class Round:
    """A run after one of its rounds.

    label      what the run is called: its method, with the options that its spec names
    seed       of the run
    round      which one it is, 0 before training; `rounds` is the last
    clients    their names
    metrics    each client's own model on its own test rows, the mean over clients, by metric
    each       the same by metric, then by client; NaN where a client has none
    loss       in training, by client; NaN for one that did not train in this round
    away       who did not answer, and why
    models     that have passed from one to another since the beginning; `bytes` is their size
    seconds    of training since the beginning
    config     the settings of the run, with all options
    """

    label: str
    seed: int
    round: int
    rounds: int
    clients: tuple[str, ...]
    metrics: Mapping[str, float]
    each: Mapping[str, Mapping[str, float]]
    loss: Mapping[str, float]
    away: Mapping[str, str]
    models: float
    bytes: float
    seconds: float
    config: Mapping[str, Any]
    _weights: Mapping[int, np.ndarray] = field(repr=False)

    @cached_property
    def weights(self) -> np.ndarray | None:
        """[receiver, sender] who listened to whom in this round; None of round 0."""
        return np.asarray(self._weights[self.round]) if self.round in set(self._weights) else None

    @property
    def last(self) -> bool:
        return self.round >= self.rounds

    def scalars(self, each: bool = True) -> dict[str, float]:
        """All figures by a name in words and slashes: test/accuracy, test/accuracy/north, train/loss, ..."""
        means = {"test/" + m: v for m, v in self.metrics.items()}
        means["train/loss"] = _mean_of(self.loss.values())
        cost = {"cost/models": self.models, "cost/bytes": self.bytes, "cost/seconds": self.seconds}
        own = {f"test/{m}/{_named(c)}": v for m, by in self.each.items() for c, v in by.items()}
        own |= {f"train/loss/{_named(c)}": v for c, v in self.loss.items()}
        found = {f"{spelled(k)}": v for k, v in {**means, **cost, **(own if each else {})}.items()}
        return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def _round_of(record: Record) -> Round:
    entry, clients, traffic = record.metrics[-1], record.clients, record.traffic()
    own = (entry["scores"] or {}).get("own/test", {})

    def by_client(values: Any) -> dict[str, float]:
        return {c: np.nan if v is None else float(v) for c, v in zip(clients, values, strict=True)}

    return Round(
        label=record.label,
        seed=record.settings.seed,
        round=record.done,
        rounds=record.settings.rounds,
        clients=tuple(clients),
        metrics={metric: _mean_of(values) for metric, values in own.items()},
        each={metric: by_client(values) for metric, values in own.items()},
        loss=by_client(entry["train_loss"]),
        away=dict(entry.get("away") or {}),
        models=traffic["models"],
        bytes=traffic["bytes"],
        seconds=traffic["seconds"],
        config=record.config,
        _weights=record.weights,
    )


def _mean_of(values: Any) -> float:
    known = [float(v) for v in values if v is not None and np.isfinite(v)]
    return mean_over_clients(known) if known else np.nan


def nobody(seen: Round) -> None:
    """Who watches unless somebody does."""


def called_after_rounds(watch: Watcher) -> Watch:
    """What a runner calls after each round, of a function that wants to know of those that were scored."""
    if watch is nobody:
        return lambda record: None

    def after(record: Record) -> None:
        if record.metrics[-1]["scores"] is not None or getattr(watch, "every", False):
            watch(_round_of(record))

    return after


def every_round(watch: Watcher) -> Watcher:
    """Who also wants to know of rounds that were not scored; these have no metrics."""
    watch.every = True  # type: ignore[attr-defined]
    return watch


def both(first: Watch, second: Watch) -> Watch:
    def after(record: Record) -> None:
        first(record)
        second(record)

    return after


# those who write it down


@dataclass(frozen=True)
class _Book:
    """Opens one log for each run, by what it is called and its seed, and closes it after its last round."""

    open: Callable[[Round], Any]
    write: Callable[[Any, Round], None]
    close: Callable[[Any], None]
    logs: dict[tuple[str, int], Any] = field(default_factory=dict)

    def __call__(self, seen: Round) -> None:
        key = seen.label, seen.seed
        if key not in self.logs:
            self.logs[key] = self.open(seen)
        self.write(self.logs[key], seen)
        if seen.last:
            self.close(self.logs.pop(key))


@checked(folder=FOLDER, each=SWITCH)
def tensorboard(folder: str | Path = "tensorboard", each: bool = True) -> Watcher:
    """Event files for TensorBoard, a folder for each run: `tensorboard --logdir FOLDER` shows them. Without
    `each`, means over clients alone.
    """
    library = _imported("torch.utils.tensorboard", "tensorboard")

    def begin(seen: Round) -> Any:
        return library.SummaryWriter(str(Path(folder) / _run_name(seen)))

    def write(log: Any, seen: Round) -> None:
        for name, value in seen.scalars(each).items():
            log.add_scalar(name, value, seen.round)
        log.flush()

    return _Book(begin, write, lambda log: log.close())


@checked(experiment=TEXT, folder=FOLDER, uri=or_none(TEXT), each=SWITCH)
def mlflow(
    experiment: str = "coterie", folder: str | Path = "mlruns", uri: str | None = None, each: bool = True
) -> Watcher:
    """Runs of an experiment of MLflow, with all settings as parameters: into a database in a folder, which
    `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db` shows, or to the server that `uri` names.
    """
    library = _imported("mlflow", "mlflow")

    def begin(seen: Round) -> Any:
        place = Path(folder).absolute()
        if not uri:
            place.mkdir(parents=True, exist_ok=True)
        client = library.MlflowClient(tracking_uri=uri or f"sqlite:///{place / 'mlflow.db'}")
        there = client.get_experiment_by_name(experiment)
        files = None if uri else place.as_uri()
        number = client.create_experiment(experiment, files) if there is None else there.experiment_id
        run = client.create_run(number, run_name=_run_name(seen)).info.run_id
        for name, value in _settings_of(seen).items():
            client.log_param(run, name, value)
        return client, run

    def write(log: Any, seen: Round) -> None:
        client, run = log
        for name, value in seen.scalars(each).items():
            client.log_metric(run, name, value, step=seen.round)

    return _Book(begin, write, lambda log: log[0].set_terminated(log[1]))


@checked(project=TEXT, folder=FOLDER, mode=TEXT, each=SWITCH)
def wandb(
    project: str = "coterie", folder: str | Path = "wandb-runs", mode: str = "offline", each: bool = True
) -> Watcher:
    """Runs of a project of Weights & Biases, with all settings as its config. They stay in the folder, for
    `wandb sync`; with mode="online" they go to its server as they are made.
    """
    if mode not in ("offline", "online", "disabled"):
        raise UnknownName("mode", mode, ("offline", "online", "disabled"))

    library = _imported("wandb", "wandb")

    def begin(seen: Round) -> Any:
        Path(folder).mkdir(parents=True, exist_ok=True)
        quiet = library.Settings(silent=True, console="off", disable_git=True, save_code=False)
        return library.init(
            project=project,
            name=_run_name(seen),
            group=seen.label,
            dir=str(folder),
            mode=mode,
            config=_settings_of(seen),
            reinit="create_new",
            settings=quiet,
        )

    def write(log: Any, seen: Round) -> None:
        log.log(seen.scalars(each), step=seen.round)

    return _Book(begin, write, lambda log: log.finish())


WATCHERS: dict[str, Callable[..., Watcher]] = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}


def watcher_of(text: str) -> Watcher:
    """Of a text as typed: tensorboard:FOLDER, mlflow:EXPERIMENT, wandb:PROJECT, or the name alone; nobody of
    an empty one.
    """
    name, _, where = text.partition(":")
    if not text:
        return nobody
    if name not in WATCHERS:
        raise UnknownName("watcher", name, WATCHERS)
    return WATCHERS[name](where) if where else WATCHERS[name]()


def _imported(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadInput(f"{extra} is not installed: install it with pip install 'coterie[{extra}]'") from None


def _run_name(seen: Round) -> str:
    """fedprox-mu-0.1-seed-3"""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{seen.label}-seed-{seen.seed}").strip("-")


def _settings_of(seen: Round) -> dict[str, str | int | float | bool]:
    """By dotted name: rounds, sgd.lr, ..., and `spec` for what the run is called."""
    found: dict[str, Any] = {"spec": seen.label}
    for key, value in seen.config.items():
        inner = {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {key: value}
        found |= {k: v if isinstance(v, str | int | float | bool) else str(v) for k, v in inner.items()}
    return {spelled(name): value for name, value in found.items()}


def _named(client: str) -> str:
    """A client's name as one piece of a longer one."""
    return client.replace("/", "_2f_")


def spelled(name: str) -> str:
    """A name of letters, digits and / _ - . and spaces alone; any other sign by its number, so that two names
    stay two.
    """
    return re.sub(r"[^\w/\-. ]", lambda sign: f"_{ord(sign[0]):x}_", name)
