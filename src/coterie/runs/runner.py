"""The loop over rounds, top to bottom."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, get_type_hints

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.clock import CLOCK
from coterie.core.errors import BadData, BadInput, Diverged, Gone, Refused
from coterie.core.held import Held, at_coordinator, handles_in, hold
from coterie.core.method import UNTRAINED, Info, Models, asked, only_for
from coterie.core.net import Net
from coterie.core.observer import NOBODY, Observer
from coterie.engines.threads import narrow, use
from coterie.models import MODELS
from coterie.nets.accounted import accounted
from coterie.nets.counting import Traffic
from coterie.nets.ownership import as_mixed
from coterie.posteriors import Saved
from coterie.runs.about import fingerprint
from coterie.runs.body import save_body
from coterie.runs.budget import bytes_of, meter_of, row_bytes
from coterie.runs.divergence import refuse_diverged
from coterie.runs.experiment import Experiment
from coterie.runs.facts import facts_of
from coterie.runs.folder import Folder, read_record
from coterie.runs.ledgered import Ledger
from coterie.runs.measures import measure
from coterie.runs.observing import Observing, observing
from coterie.runs.prepared import recipe_for, save_origin
from coterie.runs.recalibrating import recalibrated
from coterie.runs.recalibration import write_recalibration
from coterie.runs.record import Record, line, triplets
from coterie.runs.scoring import evaluate, figures, row_by_row, tallied
from coterie.runs.times import Times

log = logging.getLogger("coterie")

Watch = Callable[[Record], None]
KEPT = 2**24  # bytes of models that a run without a folder keeps for its report


@dataclass(frozen=True, eq=False)
class Outcome:
    record: Record
    models: Models


@narrow()
def run(
    experiment: Experiment, folder: Folder | None, label: str, watch: Watch = lambda record: None
) -> Outcome:
    """Runs what is left to run, writes every round down, and calls `watch` after each.

    With a folder, a run that was cut off goes on after its last saved round; one that is refused before its
    first round is over leaves none.
    """
    try:
        with observing(folder.path if folder else None, experiment.rounds) as seen:
            return _played(experiment, folder, label, watch, seen)
    except (BadInput, BadData, Refused):  # a mistake that only the work itself could show
        if folder and folder.rounds < 1:
            folder.discard()
        raise


def _played(
    experiment: Experiment, folder: Folder | None, label: str, watch: Watch, seen: Observing
) -> Outcome:
    method, net, rounds = experiment.method, experiment.net, experiment.rounds
    who = asked(method, net.roster.names)
    if folder:
        net.keep_at(str((folder.path / "sites").absolute()))
        net.observe(seen)
    start = hold(experiment.beliefs, at_coordinator(tree.count(experiment.beliefs)))
    saved = folder.restore(state_type(experiment), experiment.config) if folder else None
    record = Record(label, experiment.config, experiment.about)
    if folder:  # what is left of earlier rounds; matrices and models stay in the folder
        past = read_record(folder.path)
        record.metrics, record.timings = past.metrics, past.timings
        record.weights, record.matrices, record.models = past.weights, past.matrices, past.models
        record.calibration, record.outcomes, record.passed = past.calibration, past.outcomes, past.passed
        record.tracked = past.tracked
        record.probabilities, record.recalibration = past.probabilities, past.recalibration
    seen.begin(None if saved is None else saved.stamp.round, record.finished)
    times, a_row = Times(), row_bytes(experiment.roster, experiment.beliefs)
    meter = meter_of(experiment.config, {kind: float(s[-1]) for kind, s in record.spent().items() if len(s)})
    if saved is None:
        with CLOCK.part("training"), times.work():
            state = first_state(experiment, start, seen)
        moved = net.book.read()
        cost = bytes_of(moved, 0, a_row)
        with CLOCK.part("scoring"), times.work("scoring"), seen.doing("scoring"):
            first = only_for(method.models(state), who)
            scores = calmly(net, [*handles_in(state)], 0, partial(evaluate, experiment, first, 0))
            told = measured(experiment, None, first)
        looked = net.book.read()
        entry = line(0, scores, [None] * len(net.roster), moved, looked, {}, told, net.away(), cost)
        meter.add(**entry["spent"], **times.spent(meter.power))
        _write(record, folder, entry, times.line(0), None, moved)
        done = 0
        if folder:
            _save(folder, experiment, state, 0)
        net.keep(handles_in(state), 0)
    else:
        state, done = saved.state, saved.stamp.round
        net.restore(saved.kept, handles_in(state), done)
    ledger = Ledger(folder.path if folder else None, experiment, record)
    watch(record)
    safe, last_saved = state, done
    shown, scored_state = None, object()
    try:
        for r in range(done + 1, rounds + 1) if not record.ended else ():
            seen.round(r)
            try:
                with CLOCK.part("training"), times.work():
                    after, info = one_round(experiment, state, r, safe, last_saved, seen)
            except Diverged as error:
                if folder and done > last_saved:
                    _save(folder, experiment, state, done)
                ledger.diverged(done, str(error))
                raise _with_place(error, folder, done) from None
            moved = net.book.read()
            cost = bytes_of(moved, net.sealed_bytes, a_row)
            meter.add(steps=int(moved.steps.sum()), bytes=cost, **times.spent(meter.power))
            ended = meter.over() if r < rounds else ""
            with CLOCK.part("scoring"), times.work("scoring"), seen.doing("scoring"):
                scored = experiment.due("evaluate", r) or ended
                now = only_for(method.models(after), who) if scored else None
                live, figured = [*handles_in(after), *handles_in(safe)], None
                if now is not None:
                    if after is not scored_state:  # the same models have the same figures, at the same sites
                        shown = calmly(net, live, r, partial(evaluate, experiment, now, r))
                    varies = experiment.config.get("wrap") or net.away()
                    figured, scored_state = shown, None if varies else after
                told = measured(experiment, info, now)
            state, done = after, r
            loss = figures(info.loss.where(who, math.nan))
            extras = {**plain_extras(info.extras), **net.figures()}
            if ended and not info.mixed:
                extras |= {"note": UNTRAINED}
            looked = net.book.read()
            entry = line(r, figured, loss, moved, looked, extras, told, net.away(), cost, ended)
            _write(record, folder, entry, times.line(r), info, moved)
            ledger.round(entry, info, moved)
            if folder is None or experiment.due("checkpoint", r) or ended:
                if folder:
                    _save(folder, experiment, state, r)
                safe, last_saved = state, r
            net.keep([*handles_in(state), *handles_in(safe)], last_saved)
            try:
                watch(record)
            except Exception as error:
                if folder and done > last_saved:
                    _save(folder, experiment, state, done)
                if folder:
                    error.add_note(f"{folder.path} keeps the run up to round {done}, to go on from")
                raise
            if ended:
                break
    except KeyboardInterrupt:
        if folder and done > last_saved and record.done == done:
            _save(folder, experiment, state, done)
        raise
    with CLOCK.part("scoring"), seen.doing("scoring"):
        models = only_for(method.models(state), who)
        try:
            calmly(
                net, [*handles_in(state)], done, partial(refuse_diverged, experiment, models, start, record)
            )
        except Diverged as error:
            ledger.diverged(done, str(error))
            raise _with_place(error, folder, done) from None
        tallies = calmly(net, [*handles_in(state)], done, partial(tallied, experiment, models, done))
        came, likely = row_by_row(experiment, models, record)
        each = recalibrated(experiment, models, likely)
    net.book.read()
    spent = accounted(net)
    statement = None if spent is None else spent.statement()
    record.privacy = partial(_told, statement)
    if folder:  # models last: with them a run counts as over
        with CLOCK.part("writing"), seen.doing("writing"):
            if tallies is not None:
                folder.save_calibration(tallies)
            if came is not None:
                folder.save_outcomes(came)
            if likely is not None:
                folder.save_probabilities(likely)
            if each:
                write_recalibration(folder.path, each)
            if statement is not None:
                folder.save_privacy(statement)
            folder.save_posteriors(sent_posteriors(experiment, state))
            save_body(folder.path, experiment.body)
            save_origin(folder.path, experiment.origin)
            folder.sync()
            owners, used = owned(models, net.roster.names)
            told_each = {i: facts_of(record, net.roster.names[i]) for i in models.owners.tolist()}
            net.finish(models.beliefs, {i: int(models.of[i]) for i in told_each}, told_each)
            folder.save_models(replace(models, of=used), owners, net)
            ledger.end(done)
        seen.happened("finished", None, f"the budget of {record.ended} is spent" if record.ended else "")
    else:
        record.calibration, record.outcomes = lambda: tallies, lambda: came
        record.probabilities, record.recalibration = lambda: likely, partial(dict, each)
        tensors = net.peek(models.beliefs.rows(torch.unique(models.of[models.owners])))
        if tensors is not None and tree.size_in_bytes(tensors) <= KEPT:
            record.models = lambda: _by_name(experiment, models)
    return Outcome(record, models)


def _with_place(error: Diverged, folder: Folder | None, round: int) -> Diverged:
    """Which also says where the last state is."""
    return Diverged(f"{error}; {folder.path} keeps the state after round {round}" if folder else str(error))


def plain_extras(extras: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a method says of a round; refused by its name if a file cannot hold it."""
    for name, value in extras.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"extras {name!r} of a round cannot be written down ({error}): give plain numbers, texts or "
                "lists, float(x) of a tensor"
            ) from None
    return extras


def first_state(experiment: Experiment, start: Held, seen: Observer = NOBODY) -> Any:
    def begin() -> Any:
        state = experiment.method.init(start, experiment.net)
        experiment.net.keep(handles_in(state), 0)
        return state

    return steadily(experiment.net, (), -1, begin, seen)


def one_round(
    experiment: Experiment, state: Any, r: int, safe: Any, saved: int, seen: Observer = NOBODY
) -> tuple[Any, Info]:
    """Round r from a state; a run may have to go on from `safe`, the state after round `saved`."""
    net = experiment.net

    def turn() -> tuple[Any, Info]:
        after, info = experiment.method.round(state, net, experiment.key.at_round(r, experiment.rounds))
        info = as_mixed(net, info)
        net.keep([*handles_in(after), *handles_in(safe)], saved)
        return after, info

    return steadily(net, [*handles_in(state), *handles_in(safe)], r - 1, turn, seen)


T = TypeVar("T")


def steadily(net: Net, live: Sequence[Held], round: int, work: Callable[[], T], seen: Observer = NOBODY) -> T:
    """Does some work after a round with those who are there; again, if some of them go meanwhile."""
    while True:
        net.regroup(live, round)
        try:
            return work()
        except Gone as gone:
            log.info("round %d is done again: %s", round + 1, gone)
            for name, why in gone.why.items():
                seen.happened("round-again", name, why)


def calmly(net: Net, live: Sequence[Held], round: int, work: Callable[[], T]) -> T:
    """Looks at what a round has left, with who is there; from the start if some go who are needed for it."""
    try:
        return work()
    except Gone:
        return steadily(net, live, round, work)


def state_type(experiment: Experiment) -> type:
    """Of the method's state, as its `init` says; one that follows several others makes it."""
    if hasattr(experiment.method, "state_type"):
        return experiment.method.state_type()  # type: ignore[no-any-return]
    kind = get_type_hints(type(experiment.method).init).get("return")
    if not dataclasses.is_dataclass(kind):
        raise BadInput(f"method {type(experiment.method).__name__}: init must name the dataclass it returns")
    return kind  # type: ignore[return-value]


def sent_posteriors(experiment: Experiment, state: Any) -> list[Saved]:
    """What clients sent for others to join later, if the method is of that kind and the sites are here."""
    posteriors = getattr(experiment.method, "posteriors", None)
    if posteriors is None:
        return []
    rows = {m.name: m.train for m in experiment.roster.members}
    made, roster, origin = network(experiment), experiment.roster, experiment.origin
    return [
        Saved(
            name,
            rows[name],
            posterior,
            made,
            buffers,
            roster.features,
            roster.classes,
            origin.preparations.get(name),
            recipe_for(origin.recipe, name),
        )
        for name, (posterior, buffers) in posteriors(state, experiment.net.peek, list(rows)).items()
    ]


def network(experiment: Experiment) -> dict[str, Any]:
    """How to build the model, where it is one of ours and takes the data as it is; else what it stands on."""
    name, roster = str(experiment.config.get("model")), experiment.roster
    if experiment.body is not None:
        return {"body": fingerprint(replace(roster, members=()), tree.belief_of(experiment.body.network))}
    if name not in MODELS:
        return {}
    options = dict(experiment.config.get(name, {}))
    return {"name": name, "options": options, "shape": list(roster.shape), "outputs": roster.outputs}


def measured(
    experiment: Experiment, info: Info | None, models: Models | None
) -> dict[str, list[float | None]]:
    """Measures of collaboration by name, one value for each client; of a round without models, fewer. Who did
    not ask for a model has none of them.
    """
    seen = None if models is None else experiment.net.peek(models.beliefs)
    trained = [n for n, p in experiment.model.named_parameters() if p.requires_grad]
    told = measure(info, seen, None if models is None else models.of, experiment.roster.clusters, trained)
    who = asked(experiment.method, experiment.roster.names)
    return {name: figures(values.where(who, math.nan)) for name, values in told.items()}


def _told(statement: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """By name, so that a record can be handed to another process."""
    return statement


def _save(folder: Folder, experiment: Experiment, state: Any, round: int) -> None:
    """A checkpoint, with what the net keeps beside the state."""
    with CLOCK.part("writing"):
        folder.save(state, round, experiment.config, experiment.net.kept(handles_in(state), round))


def _write(
    record: Record,
    folder: Folder | None,
    entry: dict[str, Any],
    timing: Mapping[str, Any],
    info: Info | None,
    moved: Traffic,
) -> None:
    round = entry["round"]
    weights = None if info is None else info.weights.float().numpy()
    # copies, so that nothing a method holds on to can change what was written down
    matrices = {} if info is None else {k: m.double().numpy().copy() for k, m in info.matrices.items()}
    passed = triplets(moved)
    if folder:
        with CLOCK.part("writing"):
            folder.write_round(entry, timing, weights, matrices, passed)
    elif weights is not None:
        record.weights = {**record.weights, round: weights}
        record.passed = {**record.passed, round: passed}
        past = record.matrices
        record.matrices = {**past, **{k: {**past.get(k, {}), round: m} for k, m in matrices.items()}}
    record.metrics.append(entry)
    record.timings.append(dict(timing))


def _by_name(experiment: Experiment, models: Models) -> dict[str, Belief]:
    tensors = experiment.net.peek(models.beliefs)
    assert tensors is not None
    owners, used = owned(models, experiment.roster.names)
    return {name: tree.row(tensors, row) for name, row in zip(owners, used.tolist(), strict=True)}


def owned(models: Models, names: Sequence[str]) -> tuple[list[str], Tensor]:
    """Who has a model of its own, by name, and in which rows they are."""
    return [names[i] for i in models.owners.tolist()], models.of[models.owners]


def same_threads(record: Record) -> None:
    """The number of threads decides the order of sums: a resumed run takes the one it began with."""
    use(int(record.about["machine"]["threads"]))
