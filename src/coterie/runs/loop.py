"""The loop over rounds, top to bottom: prepare, then round, score, write and checkpoint, and the end.

What else a run has hangs on it by hooks (`hooks.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.clock import CLOCK
from coterie.core.errors import BadData, BadInput, BadRun, Diverged, Refused
from coterie.core.held import Held, at_coordinator, handles_in, hold
from coterie.core.method import UNTRAINED, Info, Models, asked, only_for, state_type
from coterie.core.observer import NOBODY, Observer
from coterie.engines.threads import narrow, use
from coterie.runs.artifacts import facts_of, save_body, save_origin
from coterie.runs.experiment import Experiment
from coterie.runs.folder import Folder, is_run, read_record
from coterie.runs.hooks import Run, Turn, hooks, retry_look, retry_round
from coterie.runs.record import Record, line, triplets
from coterie.runs.scoring import evaluate, figures, measured, refuse_diverged
from coterie.runs.settings import digest
from coterie.storage.rounds import write_round

T = TypeVar("T")
Watch = Callable[[Record], None]
Around = Callable[[Path], AbstractContextManager[Any]]
"""What is entered while a run is played in a folder, such as a tracker of energy."""
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
    record = Record(label, experiment.config, experiment.about)
    start = hold(experiment.beliefs, at_coordinator(tree.count(experiment.beliefs)))
    going = Run(experiment, folder, record, start, hooks())
    try:
        with ExitStack() as stack:
            for hook in going.hooks:
                stack.enter_context(hook.inside(going))
            return _run_rounds(going, watch)
    except (BadInput, BadData, Refused):  # a mistake that only the work itself could show
        if folder and folder.rounds < 1:
            folder.discard()
        raise


def _run_rounds(run: Run, watch: Watch) -> Outcome:
    scored = _Scored()
    _prepare(run, scored)
    watch(run.record)
    try:
        for r in range(run.done + 1, run.experiment.rounds + 1) if not run.record.ended else ():
            turn, after = _play(run, r)
            _score(run, scored, turn, after)
            _write(run, turn)
            _checkpoint(run, turn)
            _watched(run, watch)
            if turn.ended:
                break
    except KeyboardInterrupt:
        if run.record.done == run.done:
            _save_unsaved(run)
        raise
    return _finish(run)


# prepare


def _prepare(run: Run, scored: _Scored) -> None:
    """What was saved is read back; of a new run the first models are made, scored and written."""
    experiment, folder = run.experiment, run.folder
    saved = folder.restore(state_type(experiment.method), experiment.config) if folder else None
    if folder:  # what is left of earlier rounds; matrices and models stay in the folder
        run.net.keep_at(str((folder.path / "sites").absolute()))
        run.net.observe(run.observer)
        past = read_record(folder.path)
        run.record.take_over(past)
    for hook in run.hooks:
        hook.start(run, None if saved is None else saved.stamp.round)
    if saved is not None:
        run.state = run.safe = saved.state
        run.done = run.saved = saved.stamp.round
        run.net.restore(saved.kept, handles_in(run.state), run.done)
    else:
        with CLOCK.part("training"), run.times.work():
            state = first_state(experiment, run.start, run.observer)
        turn = Turn(0, None, run.net.book.read())
        _score(run, scored, turn, state)
        _write(run, turn)
        run.safe, run.saved = state, 0
        if folder:
            _save(run)
        run.net.keep(handles_in(state), 0)
    for hook in run.hooks:
        hook.begin(run)


def first_state(experiment: Experiment, start: Held, observer: Observer = NOBODY) -> Any:
    def begin() -> Any:
        state = experiment.method.init(start, experiment.net)
        experiment.net.keep(handles_in(state), 0)
        return state

    return retry_round(experiment.net, (), -1, begin, observer)


# round


def _play(run: Run, r: int) -> tuple[Turn, Any]:
    """A round is trained: what passed, and the state after it."""
    for hook in run.hooks:
        hook.round(run, r)
    try:
        with CLOCK.part("training"), run.times.work():
            after, info = one_round(run.experiment, run.state, r, run.safe, run.saved, run.observer)
    except Diverged as error:
        _save_unsaved(run)
        raise _without_result(run, error) from None
    turn = Turn(r, info, run.net.book.read(), run.net.sealed_bytes)
    ends = [hook.trained(run, turn) for hook in run.hooks]
    turn.ended = next(filter(None, ends), "") if r < run.experiment.rounds else ""
    return turn, after


def one_round(
    experiment: Experiment, state: Any, r: int, safe: Any, saved: int, observer: Observer = NOBODY
) -> tuple[Any, Info]:
    """Round r from a state; a run may have to go on from `safe`, the state after round `saved`."""
    net = experiment.net

    def turn() -> tuple[Any, Info]:
        after, info = experiment.method.round(state, net, experiment.key.at_round(r, experiment.rounds))
        mixed = net.as_mixed(info.weights, info.mixed)
        info = info if mixed is info.weights else replace(info, weights=mixed)
        net.keep([*handles_in(after), *handles_in(safe)], saved)
        return after, info

    return retry_round(net, [*handles_in(state), *handles_in(safe)], r - 1, turn, observer)


# score


@dataclass(eq=False)
class _Scored:
    """The last figures, and the state that they are of: the same models are not scored twice."""

    state: Any = None
    figures: Mapping[str, Any] | None = None


def _score(run: Run, scored: _Scored, turn: Turn, after: Any) -> None:
    """The round's models are scored if that is due, and all that is said of it is put into its line."""
    experiment, net, r = run.experiment, run.net, turn.round
    names = net.roster.names
    who = asked(experiment.method, names)
    with CLOCK.part("scoring"), run.times.work("scoring"), run.observer.doing("scoring"):
        due = experiment.due("evaluate", r) or turn.ended or r == 0
        models = only_for(experiment.method.models(after), who) if due else None
        found = None
        if models is not None:
            live = [*handles_in(after), *(() if run.safe is None else handles_in(run.safe))]
            if (
                after is not scored.state or r == 0
            ):  # the same models have the same figures, at the same sites
                scored.figures = retry_look(net, live, r, partial(evaluate, experiment, models, r))
            varies = experiment.settings.wrap or net.away() or r == 0
            found, scored.state = scored.figures, _NOBODY if varies else after
        told = measured(experiment, turn.info, models)
    run.state, run.done = after, r
    loss: list[float | None] = [None] * len(names)
    extras: dict[str, Any] = {}
    if turn.info is not None:
        loss = figures(turn.info.loss.where(who, math.nan))
        extras = {**_plain_extras(turn.info.extras), **net.figures()}
        if turn.ended and not turn.info.mixed:
            extras |= {"note": UNTRAINED}
    turn.looked = net.book.read()
    turn.entry = line(r, found, loss, turn.moved, turn.looked, extras, told, net.away())
    for hook in run.hooks:
        turn.entry.update(hook.tell(run, turn))
    if turn.ended:
        turn.entry["ended"] = turn.ended


_NOBODY = object()


def _plain_extras(extras: Mapping[str, Any]) -> Mapping[str, Any]:
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


# write and checkpoint


def _write(run: Run, turn: Turn) -> None:
    record, info, r = run.record, turn.info, turn.round
    turn.timing = run.times.line(r)
    weights = None if info is None else info.weights.float().numpy()
    # copies, so that nothing a method holds on to can change what was written down
    matrices = {} if info is None else {k: m.double().numpy().copy() for k, m in info.matrices.items()}
    passed = triplets(turn.moved)
    if run.folder:
        with CLOCK.part("writing"):
            write_round(run.folder.path, turn.entry, turn.timing, weights, matrices, passed)
    elif weights is not None:
        record.weights = {**record.weights, r: weights}
        record.passed = {**record.passed, r: passed}
        past = record.matrices
        record.matrices = {**past, **{k: {**past.get(k, {}), r: m} for k, m in matrices.items()}}
    record.metrics.append(turn.entry)
    record.timings.append(dict(turn.timing))
    for hook in run.hooks:
        hook.written(run, turn)


def _checkpoint(run: Run, turn: Turn) -> None:
    if run.folder is None or run.experiment.due("checkpoint", turn.round) or turn.ended:
        if run.folder:
            _save(run)
        run.safe, run.saved = run.state, turn.round
    run.net.keep(run.live, run.saved)


def _save(run: Run) -> None:
    """A checkpoint, with what the net keeps beside the state."""
    assert run.folder is not None
    with CLOCK.part("writing"):
        kept = run.net.kept(handles_in(run.state), run.done)
        run.folder.save(run.state, run.done, run.experiment.config, kept)


def _save_unsaved(run: Run) -> None:
    if run.folder and run.done > run.saved:
        _save(run)


def _watched(run: Run, watch: Watch) -> None:
    try:
        watch(run.record)
    except Exception as error:
        _save_unsaved(run)
        if run.folder:
            error.add_note(f"{run.folder.path} keeps the run up to round {run.done}, to go on from")
        raise


# the end


def _finish(run: Run) -> Outcome:
    """The last models are judged, looked at and written; with them a run counts as over."""
    experiment, folder = run.experiment, run.folder
    with CLOCK.part("scoring"), run.observer.doing("scoring"):
        models = only_for(experiment.method.models(run.state), asked(experiment.method, run.net.roster.names))
        run.models = models
        try:
            run.at_sites(partial(refuse_diverged, experiment, models, run.start, run.record))
        except Diverged as error:
            raise _without_result(run, error) from None
        for hook in run.hooks:
            hook.look(run)
    run.net.book.read()
    if folder:
        with CLOCK.part("writing"), run.observer.doing("writing"):
            for hook in run.hooks:
                hook.save(run)
            save_body(folder.path, experiment.body)
            save_origin(folder.path, experiment.origin)
            folder.sync()
            _hand_out(run, folder, models)
    else:
        tensors = run.net.peek(models.beliefs.rows(torch.unique(models.of[models.owners])))
        if tensors is not None and tree.size_in_bytes(tensors) <= KEPT:
            run.record.models = lambda: _by_name(experiment, models)
    for hook in run.hooks:
        hook.over(run)
    return Outcome(run.record, models)


def _hand_out(run: Run, folder: Folder, models: Models) -> None:
    """Sites get their models, and the folder has them, last of all."""
    names = run.net.roster.names
    owners, used = _owned(models, names)
    facts = {i: facts_of(run.record, names[i]) for i in models.owners.tolist()}
    run.net.finish(models.beliefs, {i: int(models.of[i]) for i in facts}, facts)
    folder.save_models(replace(models, of=used), owners, run.net)


def _without_result(run: Run, error: Diverged) -> Diverged:
    """Hooks are told; the message also says where the last state is."""
    for hook in run.hooks:
        hook.diverged(run, str(error))
    place = f"; {run.folder.path} keeps the state after round {run.done}" if run.folder else ""
    return Diverged(f"{error}{place}")


def _by_name(experiment: Experiment, models: Models) -> dict[str, Belief]:
    tensors = experiment.net.peek(models.beliefs)
    assert tensors is not None
    owners, used = _owned(models, experiment.roster.names)
    return {name: tree.row(tensors, row) for name, row in zip(owners, used.tolist(), strict=True)}


def _owned(models: Models, names: Sequence[str]) -> tuple[list[str], Tensor]:
    """Who has a model of its own, by name, and in which rows they are."""
    return [names[i] for i in models.owners.tolist()], models.of[models.owners]


def same_threads(record: Record) -> None:
    """The number of threads decides the order of sums: a resumed run takes the one it began with."""
    use(int(record.about["machine"]["threads"]))


# in a folder: from its start, or on from where it was cut off; shell and Python come here


def beside_nothing(folder: Path) -> AbstractContextManager[Any]:
    return nullcontext()


def run_in(
    path: Path | None,
    prepare: Callable[[], Experiment],
    label: str,
    watch: Watch,
    made: Callable[[Experiment, Outcome], T],
    around: Around = beside_nothing,
    begin: Callable[[], None] = lambda: None,
) -> T:
    """Runs what `prepare` makes, in a folder if one is given, or what is left of it there. Gives what is
    `made` of it while its net is still open. `begin` may put into a new folder what the run goes on from.
    """
    past = read_record(path) if path is not None and is_run(path) else None
    if past is not None:
        same_threads(past)  # before a server trains: their number changes its bits
    experiment = prepare()
    with ExitStack() as inside:
        inside.callback(experiment.net.close)
        folder = None
        if past is not None and path is not None:
            _refuse_other(path, past, experiment)
            folder = inside.enter_context(closing(Folder(path)))
        elif path is not None:
            folder = inside.enter_context(closing(Folder.create(path, experiment.config, experiment.about)))
            begin()
        if path is not None:
            inside.enter_context(around(path))
        return made(experiment, run(experiment, folder, label, watch))


def _refuse_other(path: Path, past: Record, experiment: Experiment) -> None:
    if "given" in experiment.config and digest(past.config) != digest(experiment.config):
        raise BadRun(f"{path} belongs to another config, model or data: start anew with another out")
    if past.about["fingerprint"] != experiment.about["fingerprint"]:
        raise BadRun(f"{path}: the data or the first model differ from those it began with: start anew")
