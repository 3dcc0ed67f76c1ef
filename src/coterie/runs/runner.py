"""The loop over rounds, top to bottom."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import class_count
from coterie.core.errors import BadData, BadInput, Diverged
from coterie.core.kernel import Part, Scorer
from coterie.core.method import Info, Models
from coterie.kernels.calibrate import Calibrate, Tallied, unpacked
from coterie.metrics.calibration import Calibration
from coterie.models import MODELS
from coterie.posteriors import Saved
from coterie.runs.about import fingerprint
from coterie.runs.body import save_body
from coterie.runs.experiment import Experiment
from coterie.runs.folder import Folder, read_record
from coterie.runs.measures import measure
from coterie.runs.record import Record, line

Watch = Callable[[Record], None]
Scores = dict[str, list[float | None]]
KEPT = 2**24  # bytes of models that a run without a folder keeps for its report


@dataclass(frozen=True, eq=False)
class Outcome:
    record: Record
    models: Models


def run(
    experiment: Experiment, folder: Folder | None, label: str, watch: Watch = lambda record: None
) -> Outcome:
    """Runs what is left to run, writes every round down, and calls `watch` after each.

    With a folder, a run that was cut off goes on after its last saved round.
    """
    method, clients, rounds = experiment.method, len(experiment.clients), experiment.rounds
    state = method.init(experiment.beliefs, clients)
    saved = folder.restore(type(state), experiment.config) if folder else None
    record = Record(label, experiment.config, experiment.about)
    if folder:  # what is left of earlier rounds; matrices and models stay in the folder
        past = read_record(folder.path)
        record.metrics, record.timings = past.metrics, past.timings
        record.weights, record.matrices, record.models = past.weights, past.matrices, past.models
        record.calibration = past.calibration
    if saved is None:
        begin = time.perf_counter()
        first = method.models(state, clients)
        scores, told = evaluate(experiment, first), measured(experiment, None, first)
        timing = {"round": 0, "seconds": 0.0, "evaluate_seconds": time.perf_counter() - begin}
        nothing = [0] * clients
        entry = line(0, scores, [None] * clients, nothing, nothing, {}, told)
        _write(record, folder, entry, timing, None)
        done = 0
        if folder:
            folder.save(state, 0, experiment.config)
    else:
        state, done = saved
    watch(record)
    last_saved = done
    try:
        for r in range(done + 1, rounds + 1):
            begin = time.perf_counter()
            try:
                after, info = method.round(state, experiment.net, experiment.key.at_round(r, rounds))
            except Diverged as error:
                if folder and done > last_saved:
                    folder.save(state, done, experiment.config)
                kept = f"; {folder.path} keeps the state after round {r - 1}" if folder else ""
                raise Diverged(f"{error}{kept}") from None
            trained = time.perf_counter()
            due = experiment.due("evaluate", r)
            now = method.models(after, clients) if due else None
            figured = None if now is None else evaluate(experiment, now)
            told = measured(experiment, info, now)
            scored = time.perf_counter()
            state, done = after, r
            sent, received = info.sent.tolist(), info.received.tolist()
            entry = line(r, figured, figures(info.loss), sent, received, info.extras, told)
            timing = {"round": r, "seconds": trained - begin, "evaluate_seconds": scored - trained}
            _write(record, folder, entry, timing, info)
            if folder and experiment.due("checkpoint", r):
                folder.save(state, r, experiment.config)
                last_saved = r
            watch(record)
    except (BadInput, BadData):
        if folder and saved is None and done == 0:  # a mistake that only the first round could show
            folder.discard()
        raise
    except KeyboardInterrupt:
        if folder and done > last_saved and record.done == done:
            folder.save(state, done, experiment.config)
        raise
    models = method.models(state, clients)
    names = [c.name for c in experiment.clients]
    tallies = tallied(experiment, models)
    if folder:  # models last: with them a run counts as over
        if tallies is not None:
            folder.save_calibration(tallies)
        folder.save_posteriors(sent_posteriors(experiment, state))
        save_body(folder.path, experiment.body)
        folder.save_models(models, names)
    else:
        record.calibration = lambda: tallies
        if tree.size_in_bytes(tree.rows(models.beliefs, torch.unique(models.of))) <= KEPT:
            record.models = lambda: _by_name(models, names)
    return Outcome(record, models)


def evaluate(experiment: Experiment, models: Models) -> dict[str, Scores]:
    """Each client's own model on its own test set, and the shared one where there is one.

    Where a client averages the predictions of several models, that is its own model, and the one which
    stands for them is scored as `point`. A pair of model and client is scored once, however many names it
    goes by.
    """
    clients = len(experiment.clients)
    one = replace(models, crowd=None, shares=None)
    wanted: dict[str, tuple[Models, Part]] = {"own/test": (models, "test")}
    if models.crowd is not None:
        wanted["point/test"] = (one, "test")
    if models.shared is not None:
        wanted["shared/test"] = (replace(one, of=torch.full((clients,), models.shared)), "test")
    if all(len(c.validation) for c in experiment.clients):
        wanted["own/validation"] = (models, "validation")
    scores: dict[str, Scores] = {}
    known: dict[tuple[Any, ...], Scores] = {}
    for name, (some, part) in wanted.items():
        pairs = (part, some.crowd is None, *some.of.tolist())
        if pairs not in known:
            numbers = judged(experiment, Calibrate(part), some)
            known[pairs] = {m: figures(v) for m, v in numbers.items() if m != "samples"}
        scores[name] = known[pairs]
    return scores


def judged(experiment: Experiment, kernel: Scorer, models: Models) -> Mapping[str, Tensor]:
    """Figures of each client's own model on its own data: [client]."""
    judge, key = experiment.judge, experiment.key
    if models.crowd is not None:
        return judge.confer(kernel, models.beliefs, models.crowd, models.shares, key).numbers
    edges = torch.stack([models.of, torch.arange(len(models.of))], dim=1)
    return judge.visit(kernel, models.beliefs, edges, key).numbers


def tallied(experiment: Experiment, models: Models) -> Calibration | None:
    """How sure each client's own model is on its own test set, and how often right; None for a regression."""
    if experiment.judge.learner.task == "regression":
        return None
    return unpacked(judged(experiment, Tallied(), models))


def sent_posteriors(experiment: Experiment, state: Any) -> list[Saved]:
    """What clients sent for others to join later, if the method is of that kind."""
    posteriors = getattr(experiment.method, "posteriors", None)
    if posteriors is None:
        return []
    rows = {c.name: len(c.train) for c in experiment.clients}
    made = network(experiment)
    return [
        Saved(name, rows[name], posterior, made, buffers)
        for name, (posterior, buffers) in posteriors(state, list(rows)).items()
    ]


def network(experiment: Experiment) -> dict[str, Any]:
    """How to build the model, where it is one of ours and takes the data as it is; else what it stands on."""
    name = str(experiment.config.get("model"))
    if experiment.body is not None:
        return {"body": fingerprint([], tree.belief_of(experiment.body.network))}
    if name not in MODELS:
        return {}
    shape = list(experiment.clients[0].train.x.shape[1:])
    options = dict(experiment.config.get(name, {}))
    return {"name": name, "options": options, "shape": shape, "outputs": class_count(experiment.clients)}


def measured(
    experiment: Experiment, info: Info | None, models: Models | None
) -> dict[str, list[float | None]]:
    """Measures of collaboration by name, one value for each client; of a round without models, fewer."""
    clusters = [c.cluster for c in experiment.clients]
    told = measure(info, models, clusters, experiment.judge.learner.trainable)
    return {name: figures(values) for name, values in told.items()}


def figures(values: Tensor) -> list[float | None]:
    """Numbers as JSON holds them: what is not finite becomes null."""
    return [v if math.isfinite(v) else None for v in values.tolist()]


def _write(
    record: Record,
    folder: Folder | None,
    entry: dict[str, Any],
    timing: Mapping[str, float],
    info: Info | None,
) -> None:
    round = entry["round"]
    weights = None if info is None else info.weights.float().numpy()
    # copies, so that nothing a method holds on to can change what was written down
    matrices = {} if info is None else {k: m.double().numpy().copy() for k, m in info.matrices.items()}
    if folder:
        folder.write_round(entry, timing, weights, matrices)
    elif weights is not None:
        record.weights = {**record.weights, round: weights}
        past = record.matrices
        record.matrices = {**past, **{k: {**past.get(k, {}), round: m} for k, m in matrices.items()}}
    record.metrics.append(entry)
    record.timings.append(dict(timing))


def _by_name(models: Models, names: Sequence[str]) -> dict[str, Belief]:
    owners = zip(names, models.of.tolist(), strict=True)
    return {name: tree.row(models.beliefs, row) for name, row in owners}


def same_threads(record: Record) -> None:
    """The number of threads decides the order of sums: a resumed run takes the one it began with."""
    torch.set_num_threads(int(record.about["machine"]["threads"]))
