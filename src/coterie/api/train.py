"""Training from Python, on one's own data with one's own module."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from coterie.api import checks
from coterie.api.natural import natural_for, parts_of, with_targets
from coterie.api.result import Result, result_of
from coterie.core import belief as tree
from coterie.core.checks import checked
from coterie.core.client import Client, class_count
from coterie.core.errors import BadInput, BadRun, CoterieWarning, UnknownName
from coterie.core.kernel import Trainer
from coterie.core.learner import Loss
from coterie.core.method import Method
from coterie.core.options import coerced, table_of
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.data.fit_together import check_clients
from coterie.data.rereading import anew
from coterie.engines import ENGINES
from coterie.engines.threads import narrow
from coterie.kernels import nested
from coterie.metrics.own import NOTHING, Own, own_of
from coterie.metrics.transform import Transform
from coterie.models import MODELS
from coterie.nets import Made
from coterie.report import leaks
from coterie.report.progress import watched
from coterie.runs.about import fingerprint
from coterie.runs.budget import WATTS, specs_of
from coterie.runs.experiment import Experiment, experiment_of
from coterie.runs.folder import Folder, is_run, read_record
from coterie.runs.recalibrating import for_use
from coterie.runs.recalibration import Asked
from coterie.runs.runner import Outcome, Watch, run, same_threads
from coterie.runs.settings import Settings, digest
from coterie.runs.target_scales import note_on_scale, options_with_scale
from coterie.sites.features import Features
from coterie.sites.footing import Check, Footing, grounded, precision_of, reinitialised
from coterie.sites.last_layer import Body
from coterie.storage.paths import given_folder
from coterie.watching import Watcher, nobody, told

GIVEN = "given in Python"


@checked(**checks.TRAIN)
@narrow()
def train(
    model: nn.Module | str,
    clients: Sequence[Client],
    method: str | Method = "fedavg",
    *,
    rounds: int = 30,
    seed: int = 0,
    kernel: str | Trainer | None = None,
    loss: Loss | None = None,
    metrics: Mapping[str, Callable[[Tensor, Tensor], Any]] | None = None,
    lower: Collection[str] = (),
    transform: Transform | None = None,
    engine: str = "auto",
    device: str = "cpu",
    memory: str = "half",
    init: Literal["given", "common", "independent"] = "given",
    net: str = "in-process",
    wrap: Sequence[str] = (),
    budget: Sequence[str] | Mapping[str, float] = (),
    power: float = WATTS,
    evaluate: int = 1,
    checkpoint: int = 1,
    one_class: Literal["refuse", "allow"] = "refuse",
    calibrate: Asked = "auto",
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
    device     where models and data are while they train: cpu, cuda, mps; results come back to the CPU
    memory     what engines may use at once: half of what is free, or an amount such as 4G
    net        where the sites are: in-process, or processes for one of its own for each
    wrap       what is around the net: ["absent=0.3"] leaves each site out of a round by that chance
    budget     what may be spent: {"steps": 20000}, or ["steps=20000", "bytes=50M"]; the run ends after the
               round that reaches the first of them, after `rounds` at the latest (seconds and kwh too)
    power      watts of a busy core, by which kWh are estimated
    calibrate  what recalibrates the probabilities of models in use (`predictor`, `export`): "validation"
               rows, "folds" of training rows (five more runs), "auto" for what there is, "none"; scores are
               of the models themselves
    features   a server first trains the model on rows set aside for it, then clients train its last layer
               only: options such as dict(aside=0.2, epochs=20), or {} for the usual ones; from
               init="given" the server starts from your module's weights, else from weights of its own
    out        a folder to write the run into; with resume=True a run cut off there goes on
    watch      called with a `coterie.watching.Round` after each round that was scored, and before the first
    progress   a bar: True, False, or None for one in a terminal or a notebook
    """
    given: dict[str, Any] = dict(rounds=rounds, seed=seed, evaluate=evaluate, checkpoint=checkpoint)  # noqa: C408
    given |= dict(device=device, memory=memory, one_class=one_class, net=net, wrap=tuple(wrap))  # noqa: C408
    given |= dict(budget=specs_of(budget), power=power, calibrate=calibrate)  # noqa: C408
    path = None if out is None else given_folder(str(out), "out")
    if features is not None and resume and path is not None and is_run(path):
        same_threads(read_record(path))  # before the server trains, should the cache be gone
    own = own_of(loss, metrics, lower, anew(clients, transform))
    experiment = ready(model, clients, method, kernel, options, engine, init, features, own=own, **given)
    experiment = for_use(experiment)
    with watched(experiment.rounds, progress, told(watch)) as watch_of:
        return finished(experiment, path, resume, watch_of(str(experiment.config["method"]), 0))


def finished(experiment: Experiment, out: Path | None, resume: bool, watch: Watch, label: str = "") -> Result:
    """Runs an experiment and gives its models, each in a module of its own that takes raw inputs."""
    try:
        outcome = run_in(experiment, out, resume, watch, label)
        result = result_of(outcome.record, experiment.model, outcome.models, experiment.net)
    finally:
        experiment.net.close()
    if said := leaks.line([result.record]):
        warnings.warn(said, CoterieWarning, stacklevel=5)
    result = dataclasses.replace(result, origin=experiment.origin)
    return result if experiment.body is None else _whole(result, experiment.body)


def ready(
    model: nn.Module | str,
    clients: Sequence[Client],
    method: str | Method = "fedavg",
    kernel: str | Trainer | None = None,
    options: Mapping[str, Any] | None = None,
    engine: str = "auto",
    init: Literal["given", "common", "independent"] = "given",
    features: Features | Mapping[str, Any] | None = None,
    tested: bool = True,
    own: Own = NOTHING,
    **given: Any,
) -> Experiment:
    """All that `train` needs to begin, checked; `given` are settings such as rounds and seed.

    Clients that are not `tested` may lack test rows, and are then not scored.
    """
    settings = Settings(**coerced(Settings, given, "train"))
    natural = natural_for(model, clients, method, own)
    work, way = parts_of(
        kernel or natural.kernel, method, dict(options or {}), kernel, natural.unless(kernel)
    )
    if kernel is None and isinstance(method, str) and features is None:
        settings = with_targets(settings, model, [(natural, work)])
    key = Key(settings.seed, rounds=settings.rounds)
    footing = footing_of(
        model, clients, settings, init, features, lambda r, start: way.check(r, start, key), tested, own
    )
    config = given_config(footing, model, settings, work, way, engine, init, features, own)
    return given_experiment(footing, config, settings, way, own)


def footing_of(
    model: nn.Module | str,
    clients: Sequence[Client],
    settings: Settings,
    init: str,
    features: Features | Mapping[str, Any] | None,
    check: Check,
    tested: bool = True,
    own: Own = NOTHING,
) -> Footing:
    """What methods are tried on: these clients and this model."""
    if own.transform is not None and features is not None:
        raise BadInput(
            "with features clients train on what the server's layers make of their rows, and a transform is "
            "of the rows themselves: leave one of them out"
        )
    allow = settings.one_class == "allow"
    notes = check_clients(clients, allow_one_class=allow, allow_untested=not tested)
    scale = options_with_scale(
        settings.targets, clients[0].task, model if isinstance(model, str) else "", {}, clients
    )
    module, beliefs = _start(model, clients, init, settings.seed, scale)
    as_given = isinstance(model, nn.Module) and init == "given"

    def all_checks(roster: Roster, start: tree.Beliefs) -> None:
        check(roster, start)
        own.check(module, [c.cast(precision_of(start)) for c in clients] if own else ())

    footing = grounded(
        clients,
        module,
        beliefs,
        (*notes, *note_on_scale(scale)),
        all_checks,
        made=Made(model, scale) if isinstance(model, str) else None,
        features=Features.of(features),
        key=Key(settings.seed, rounds=settings.rounds),
        server=lambda drawn: module if as_given else reinitialised(module, drawn),
        called=called(model),
        device=settings.device,
        one_class=allow,
        recipe=_recipe_of(clients),
    )
    if footing.body is None:  # otherwise it was checked before the server trained
        own.check(footing.model, footing.clients)
    return footing


def _recipe_of(clients: Sequence[Client]) -> Any:
    """The one by which all were read; None if some were not."""
    first = clients[0].recipe
    return first if all(c.recipe == first for c in clients) else None


def called(model: nn.Module | str) -> str:
    return model if isinstance(model, str) else type(model).__name__


def given_experiment(
    footing: Footing, config: Mapping[str, Any], settings: Settings, way: Method, own: Own
) -> Experiment:
    """A method on what was given, with a config that says so (`given_config`)."""
    parts: dict[str, Any] = {"connector": settings.made("net"), "engine": ENGINES.make(config["engine"])}
    return experiment_of(footing, config, way, command=None, own=own, **parts)


def given_config(
    footing: Footing,
    model: nn.Module | str,
    settings: Settings,
    work: Trainer | None,
    way: Method,
    engine: str,
    init: str,
    features: Features | Mapping[str, Any] | None,
    own: Own = NOTHING,
) -> dict[str, Any]:
    """What a record says of a run: all of it but the data."""
    shown = {"rounds", "seed", "device", "memory", "evaluate", "checkpoint", "net", "wrap", "budget", "power"}
    shown |= {"calibrate"}
    config = {
        **{k: v for k, v in settings.table().items() if k in shown},
        "data": GIVEN,
        "split": GIVEN,
        "given": fingerprint(footing.roster, footing.beliefs),
        "clients": len(footing.roster),
        "model": called(model),
        "method": getattr(way, "name", type(way).__name__),
        "engine": engine,
        "init": init,
        **own.table(),
    }
    if footing.made is not None and footing.made.options:
        config |= {"targets": settings.targets, footing.made.name: dict(footing.made.options)}
    table = table_of(way)
    if work is not None:
        table.pop("local", None)
        config["kernel"], tables = nested.tables_of(work)
        config |= tables
    config[config["method"]] = table
    pretraining = Features.of(features)
    if pretraining is not None:
        config["features"] = table_of(pretraining)
    return config


def _whole(result: Result, body: Body) -> Result:
    """With models that take raw inputs: the frozen layers, then the client's own last one."""
    shared = None if result.shared is None else body.with_last(result.shared)
    own = {name: body.with_last(model) for name, model in result.models.items()}
    return dataclasses.replace(result, models=own, shared=shared)


def run_in(experiment: Experiment, out: Path | None, resume: bool, watch: Watch, label: str = "") -> Outcome:
    """Runs it, in a folder if one is given; with resume, a run that was cut off there goes on."""
    label = label or str(experiment.config["method"])
    if out is None:
        return run(experiment, None, label, watch)
    if not (resume and is_run(out)) and out.is_dir() and any(out.iterdir()):
        held = "holds a run: pass resume=True to go on, or" if is_run(out) else "is not empty:"
        raise BadRun(f"output folder {out} {held} choose another out")
    if is_run(out):
        past = read_record(out)
        if digest(past.config) != digest(experiment.config):
            raise BadRun(f"{out} belongs to another config, model or data: start anew with another out")
        same_threads(past)
        folder = Folder(out)
    else:
        folder = Folder.create(out, experiment.config, experiment.about)
    try:
        return run(experiment, folder, label, watch)
    finally:
        folder.close()


def refuse_nothing(module: nn.Module) -> None:
    if not any(True for _ in module.parameters()):
        raise BadInput("the model has no parameters, so there is nothing to train: give one that has")


def _start(
    model: nn.Module | str, clients: Sequence[Client], init: str, seed: int, options: Mapping[str, Any]
) -> tuple[nn.Module, tree.Beliefs]:
    if init not in ("given", "common", "independent"):
        raise UnknownName("init", init, ("given", "common", "independent"))
    seeds = [Key(seed, ("model", i)).integer() for i in range(len(clients))]
    shape = tuple(clients[0].train.x.shape[1:])
    if isinstance(model, str):
        module = MODELS.make(model, **options).build(shape, class_count(clients), seeds[0])
    elif isinstance(model, nn.Module):
        if any(nn.parameter.is_lazy(p) for p in model.parameters()):
            raise BadInput("the model has layers without a shape yet: run one batch through it first")
        module = model if init == "given" else reinitialised(model, seeds[0])
    else:
        raise BadInput(f"model must be a torch module or a name; got {type(model).__name__}")
    refuse_nothing(module)
    others = seeds[1:] if init == "independent" else []
    modules = [module, *(reinitialised(module, s) for s in others)]
    return module, tree.stack([tree.belief_of(m) for m in modules])
