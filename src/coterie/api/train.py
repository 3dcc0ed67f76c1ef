"""Training from Python, on one's own data with one's own module."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from coterie.api import checks
from coterie.api.checks import settings_as_keywords, split_settings
from coterie.api.result import Result, result_of
from coterie.core.checks import checked, refuse_wrong
from coterie.core.client import Client
from coterie.core.errors import BadInput, BadRun, CoterieWarning, UnknownName
from coterie.core.kernel import Trainer
from coterie.core.learner import Loss
from coterie.core.method import Method
from coterie.core.options import coerced, options_of
from coterie.data.intake import anew
from coterie.engines.threads import narrow
from coterie.kernels import WORK, nested
from coterie.kernels.natural import (
    Natural,
    natural_work,
    only_work,
    refuse_other_than,
    with_local,
    work_of_options,
)
from coterie.methods import METHODS
from coterie.methods.baselines.local import Local
from coterie.metrics.own import Transform, own_of
from coterie.report.clients import leaks_line
from coterie.report.progress import watched
from coterie.runs.budget import specs_of
from coterie.runs.builder import Builder, Handed
from coterie.runs.experiment import Experiment, for_use
from coterie.runs.folder import is_run
from coterie.runs.loop import run_in
from coterie.runs.settings import Settings
from coterie.runs.target_scales import AUTO, SCALED, takes_scale
from coterie.sites.features import Features
from coterie.storage.paths import given_folder
from coterie.watching import Watcher, called_after_rounds, nobody


@checked(**checks.TRAIN)
@settings_as_keywords
@narrow()
def train(
    model: nn.Module | str,
    clients: Sequence[Client],
    method: str | Method = "fedavg",
    *,
    kernel: str | Trainer | None = None,
    loss: Loss | None = None,
    metrics: Mapping[str, Callable[[Tensor, Tensor], Any]] | None = None,
    lower: Collection[str] = (),
    transform: Transform | None = None,
    init: Literal["given", "common", "independent"] = "given",
    budget: Sequence[str] | Mapping[str, float] = (),
    features: Features | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watcher = nobody,
    progress: bool | None = None,
    **options: Any,
) -> Result:
    """Trains a model for each client and returns them, with the whole history.

    model      any module that maps inputs to logits [n, class], or to [n, 1] for a regression; or the name
               of one of Coterie's models
    clients    at least one, with the same columns and classes
    method     a name, or a method of your own; its options, and those of the local work (lr, epochs,
               batch, ...), are keywords: train(model, clients, "finetune", tune=3, lr=0.05)
    kernel     the local work by name ("sgd", "dp(sgd)"), or an object such as coterie.SGD(lr=0.1), or one of
               your own
    loss       a function of your own (outputs [n, ...], y [n]) -> [n], one number for each row, in operations
               of torch; otherwise the cross-entropy, or the squared error of a regression
    metrics    functions of your own by name: (probabilities [n, class] or predictions [n], y [n]) -> number,
               on each client's rows; higher is better, but for those named in `lower`
    transform  a function of your own x [n, ...] -> [n, ...] that training batches go through at each step,
               drawn anew each time (noise, flips, crops); test and validation rows stay as they are
    init       start from the module's weights as given, or draw them anew from the seed, the same for all
               clients (common) or for each its own (independent)
    budget     what may be spent: {"steps": 20000}, or ["steps=20000", "bytes=50M"]; the run ends after the
               round that reaches the first of them, after `rounds` at the latest (seconds and kwh too)
    features   a server first trains the model on rows set aside for it, then clients train its last layer
               only: options such as dict(aside=0.2, epochs=20), or {} for the usual ones; from
               init="given" the server starts from your module's weights, else from weights of its own
    out        a folder to write the run into; with resume=True a run cut off there goes on
    watch      called with a `coterie.watching.Round` after each round that was scored, and before the first
    progress   a bar: True, False, or None for one in a terminal or a notebook
    """
    path = None if out is None else given_folder(str(out), "out")
    refuse_other_contents(path, resume)
    given, options = split_settings(options, "train", init=init, budget=specs_of(budget), features=features)
    handed = Handed(model, clients, own_of(loss, metrics, lower, anew(clients, transform)))
    settings, way = asked_for(handed, given, method, kernel, options)

    def ready() -> Experiment:
        return for_use(Builder(handed).prepare(settings, method=way))

    with watched(settings.rounds, progress, called_after_rounds(watch)) as watch_of:
        result = run_in(path, ready, settings.method, watch_of(settings.method, 0), result_of)
    warn_of_leaks(result)
    return result


def warn_of_leaks(result: Result) -> None:
    """Where whoever called the function that calls this wrote it."""
    if said := leaks_line([result.record]):
        warnings.warn(said, CoterieWarning, stacklevel=5)


def asked_for(
    handed: Handed,
    settings: Settings,
    method: str | Method = "fedavg",
    kernel: str | Trainer | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Settings, Method]:
    """The settings of a run on what was handed over, and its method; `options` are of it and its work."""
    natural = natural_for(handed, method)
    work, way = parts_of(
        kernel or natural.kernel, method, dict(options or {}), kernel, natural.unless(kernel)
    )
    if kernel is None and isinstance(method, str) and settings.features is None:
        settings = _with_targets(settings, handed.model, natural, work)
    return handed.settings(settings, work, way), way


def refuse_other_contents(path: Path | None, resume: bool) -> None:
    """A folder of a run is empty, or has one that is to go on."""
    if path is None or (resume and is_run(path)) or not path.is_dir() or not any(path.iterdir()):
        return
    held = "holds a run: pass resume=True to go on, or" if is_run(path) else "is not empty:"
    raise BadRun(f"output folder {path} {held} choose another out")


# which local work is natural for clients given as such, and which of a call's keywords goes where


def natural_for(handed: Handed, method: Any) -> Natural:
    """The local work of a method on these clients: linear models of tables are solved."""
    own, named = handed.own, handed.model if isinstance(handed.model, str) else ""
    plain = own.loss is None and own.transform is None and all(c.train.x.ndim == 2 for c in handed.clients)
    return natural_work(METHODS[method] if isinstance(method, str) else method, plain, named)


def _with_targets(settings: Settings, model: nn.Module | str, natural: Natural, work: Any) -> Settings:
    """Settings that scale targets where natural work, if it is what is done, needs that."""
    fits = isinstance(model, str) and takes_scale(model) and settings.targets == AUTO
    wanted = natural.scaled and getattr(work, "name", "") == natural.kernel
    return dataclasses.replace(settings, targets=SCALED) if fits and wanted else settings


def parts_of(
    kernel: str | Trainer | None,
    method: str | Method,
    options: dict[str, Any],
    asked: str | Trainer | None = None,
    natural: Mapping[str, Any] | None = None,
) -> tuple[Trainer, Method]:
    """The local work and the method; each keyword goes to whichever has such an option: if both have, to the
    method, and "sgd.momentum" to the work. Options of sgd mean sgd, if no work was `asked` for; `natural` are
    those that the kernel has if nobody says otherwise.
    """
    meant = kernel if asked is not None else work_of_options(options) or kernel
    usual = dict(natural or {}) if meant == kernel else {}
    kernel = meant
    refuse_wrong({"kernel": checks.KERNEL}, {"kernel": asked})
    if not isinstance(method, str):
        if not hasattr(method, "round") or not dataclasses.is_dataclass(method):
            raise BadInput(
                f"method must be a name or a frozen dataclass with round; got {type(method).__name__}"
            )
        if asked is not None or options:
            named = "kernel" if asked is not None else next(iter(options))
            raise BadInput(
                f"a method given as an object brings its own options and local work; {named} goes there"
            )
        return getattr(method, "local", None), method
    if only := only_work(METHODS[method]):
        refuse_other_than(only, method, only if asked is None else str(getattr(asked, "name", asked)))
        kernel = only
    kernel = "sgd" if kernel is None else kernel
    way_type, for_work = METHODS[method], set() if only else options_of_work(kernel)
    for_way = {o.name for o in options_of(way_type)}
    inside = nested.names_in(kernel) if isinstance(kernel, str) and not only else ()
    full = {f"{n}.{o.name}" for n in inside for o in options_of(WORK[n])}
    for option in options:
        if option not in for_work | for_way | full:
            raise UnknownName("option", option, for_work | for_way)
    work = kernel
    if isinstance(kernel, str):
        its = {k: v for k, v in options.items() if k not in for_way}
        work = nested.made(kernel, {n: _options_for(n, {**usual, **its}) for n in nested.names_in(kernel)})
    mine = {k: v for k, v in options.items() if k in for_way}
    mine = coerced(way_type, mine, f"method {method}") | with_local(way_type, work)
    return work, METHODS.make(method, **mine)  # type: ignore[return-value]


def _options_for(work: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are of local work by its name, as momentum or as sgd.momentum."""
    names = {o.name for o in options_of(WORK[work])}
    full = {f"{work}.{name}": name for name in names}
    plain = {k: v for k, v in options.items() if k in names}
    return plain | {full[k]: v for k, v in options.items() if k in full}


def options_of_work(kernel: str | Trainer | None) -> set[str]:
    """What local work that is given by name takes: its own options, and those of the work inside it."""
    if kernel is not None and not isinstance(kernel, str):
        return set()
    return {o.name for name in nested.names_in(kernel or "sgd") for o in options_of(WORK[name])}


def alone(
    handed: Handed, kernel: str | Trainer | None, method: str | Method, options: dict[str, Any]
) -> tuple[Local, str]:
    """What a single site does, which has nobody to learn with by a method; and how targets are learnt."""
    natural = natural_for(handed, "local")
    work, _ = parts_of(kernel or natural.kernel, method, options, kernel, natural.unless(kernel))
    settings = Settings() if kernel is not None else _with_targets(Settings(), handed.model, natural, work)
    return Local(work), settings.targets
