"""What people decide of a run, and the run again: coterie decide, again and withdraw."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.cli import screen
from coterie.cli.command import REQUIRED, Flags, command_with, flag, word
from coterie.cli.run import played
from coterie.core.errors import BadInput, BadRun, UnknownName
from coterie.features.judgement.decisions import Asked, Place, decide_and_cut, folded, joined_names, place_of
from coterie.features.judgement.next_run import settings_as_decided
from coterie.federation.messages import printable
from coterie.methods.baselines import NOTHING
from coterie.nets.offers import written
from coterie.runs.about import command_line
from coterie.runs.builder import prepare
from coterie.runs.compare import is_comparison, read_records, slug
from coterie.runs.folder import CHECKPOINTS, POSTERIORS, file_name, read_record, refuse_full
from coterie.runs.record import Record, spans
from coterie.runs.settings import Settings, digest, from_table
from coterie.show.numbers import several
from coterie.storage import decisions
from coterie.storage.atomic import read_lines, write_whole
from coterie.storage.checkpoint import copy_as
from coterie.storage.paths import fresh_path, given_folder, given_path
from coterie.storage.rounds import LINES, METRICS
from coterie.use.cut import Cut, write_cut

COMMANDS = {
    "decide": ("after", 70, "record what people decide: a partner left out, a column, a circle, a no"),
    "again": ("after", 80, "do a run again, with what was decided of it"),
    "withdraw": ("privacy", 30, "say what a client's withdrawal from a run means; train without it"),
}
LONGEST = 2_000  # letters of a line
FEW = 12  # receivers that are listed
Begin = Callable[[Mapping[str, Any]], None]

# decide

_DECIDE = """Writes down what a client's people decided of a run, or says what they decided.

Nothing is trained: coterie again does the run again with it. What a person decides is recorded with who and
when in decisions.jsonl of the folder, and no line of it is ever changed; of two that contradict each other
the last counts. Of a site's kit, --refuse and --allow answer to others that want it in their circles, and
--refuse-plan and --allow-plan to runs that say beforehand what they will ask (KIT/state/plans.jsonl).

examples:
  coterie decide runs/breast-cancer-iid-pens-seed0
  coterie decide runs/breast-cancer-iid-pens-seed0 --client client-0 --leave-out client-3
  coterie decide runs/breast-cancer-iid-pens-seed0 --client client-0 --circle client-1 client-2
  coterie decide ward/sites/south --refuse north
  coterie decide ward/sites/south --allow-plan 3f2a91c04d7e5b8866f01d9a4c23b7e1
"""


@dataclass(frozen=True)
class _Decide:
    place: str = word("The folder of a run or a comparison, or a site's kit.", "PLACE")
    client: str = flag("", "Whose decision it is; of a site's kit, that site's.")
    leave_out: tuple[str, ...] = flag((), "Partners that are to take no part.")
    take_in: tuple[str, ...] = flag((), "Partners that are to take part after all.")
    circle: tuple[str, ...] = flag((), "The only others to train with.")
    alone: bool = flag(False, "A circle of nobody.")
    forbid: tuple[str, ...] = flag((), "Columns that no model may learn from.")
    require: tuple[str, ...] = flag((), "Columns that every client must record.")
    free: tuple[str, ...] = flag((), "Columns that are neither any more.")
    threshold: str = flag("", "CLASS=AT, from which probability on it is said.")
    refuse: tuple[str, ...] = flag((), "Who may not have the client in a circle.")
    allow: tuple[str, ...] = flag((), "Who may.")
    refuse_plan: tuple[str, ...] = flag((), "Plans of runs that a site takes no part in.")
    allow_plan: tuple[str, ...] = flag((), "Plans of runs that it takes part in.")
    by: str = flag("", "Who decides; by default who is logged in.")


@command_with(Flags(_Decide, "decide", _DECIDE))
def decide(told: _Decide) -> int:
    path = given_path(told.place)
    place, wanted = place_of(path), list(_asked(told))
    client = told.client or (place.clients[0] if place.site else "")
    if not wanted:
        return _show(place, client)
    if not client:
        raise BadInput(f"whose decision is it? name a --client, such as {place.clients[0]}")
    decide_and_cut(path, client, wanted, told.by)
    for line in folded(place.lines(), client).words():
        print(printable(line, LONGEST))
    return 0


def _asked(told: _Decide) -> Iterator[Asked]:
    """The flags as decisions, in the order in which they count."""
    for name, within in [*((n, False) for n in told.leave_out), *((n, True) for n in told.take_in)]:
        yield "partner", {"name": name, "in": within}
    for rule in ("forbid", "require", "free"):
        for name in getattr(told, rule):
            yield "column", {"name": name, "rule": rule}
    if told.circle and told.alone:
        raise BadInput(f"--circle {' '.join(told.circle)} and --alone are two circles: give one of them")
    if told.circle or told.alone:
        yield "circle", {"among": list(told.circle), "approved": True}
    if told.threshold:
        cut = Cut.read(told.threshold)
        yield "threshold", {"class": cut.of, "at": cut.at}
    for name, allow in [*((n, False) for n in told.refuse), *((n, True) for n in told.allow)]:
        yield "veto", {"requester": name, "allow": allow}
    for plan, allow in [*((p, False) for p in told.refuse_plan), *((p, True) for p in told.allow_plan)]:
        yield "plan", {"plan": plan, "allow": allow}


def _show(place: Place, client: str) -> int:
    """All that counts, of one client or of all."""
    found = [word for name in ([client] if client else place.clients) for word in place.of(name).words()]
    for line in found or [f"nothing was decided for {client or joined_names(place.clients)} yet"]:
        print(printable(line, LONGEST))
    return 0


# again

_AGAIN = """Does a run again, with what a client's people decided of it since.

Partners that were left out take no part, forbidden columns are not learned from, required ones are required,
and in the sums of the client are only those of the circle that it approved; vetoes of others hold as well.
All else is as it was, the seed too. A ranking becomes a run that trains with the approved circle.

examples:
  coterie again runs/breast-cancer-iid-pens-seed0 --client client-0
  coterie again runs/rank-heart-disease-silos-ndoye-seed0 --client cleveland --rounds 20
"""


@dataclass(frozen=True)
class _Again:
    run: str = word("The folder of a run.", "RUN")
    client: str = flag(REQUIRED, "Whose decisions count; vetoes of all do.")
    rounds: int = flag(0, "Rounds; 0: as before, for a ranking as for any run.")
    out: str = flag("", "The folder of the new run; by default one beside RUN.")


@command_with(Flags(_Again, "again", _AGAIN))
def again(asked: _Again) -> int:
    path, out = given_path(asked.run), None if not asked.out else given_folder(asked.out)
    if asked.rounds < 0:
        raise BadInput(f"rounds={asked.rounds} must be at least 0, which is as before: try 30")
    if is_comparison(path):
        first = next(r for r in read_records(path) if r.label != NOTHING)
        place = path / slug(first.label) / f"seed-{first.settings.seed}"
        raise BadRun(f"{path} is a comparison, and one run is done again: name one of its runs, try {place}")
    record, decided = read_record(path), place_of(path)
    cut, lines = decided.of(asked.client).cut, decided.lines()
    if "given" in record.config:
        raise BadRun(f"{path} was started from Python: call coterie.train with what was decided, same seed")
    before = from_table(record.config, str(path / "config.toml"))
    settings, said = settings_as_decided(before, record.clients, lines, asked.client, asked.rounds)
    beside = decided.also[0] if decided.also else path
    out = out or fresh_path(beside.with_name(f"{beside.name}-again"))
    told = {"run": str(path), "config": digest(record.config), "client": asked.client, "decided": said}
    notes = [f"the run {path} again, with what was decided", *(f"{line}, as was decided" for line in said)]

    def begin(config: Mapping[str, Any]) -> None:
        """Written down at once, as the run may be killed and go on later. The new model goes by the threshold
        as well.
        """
        decisions.add(path, asked.client, "again", {"out": str(out)})
        if cut is not None:
            write_cut(out, asked.client, Cut(*cut[:2]), by=cut[2])

    return _anew(settings, out, told, notes, begin)


def _anew(settings: Settings, out: Path, told: Mapping[str, Any], notes: Sequence[str], begin: Begin) -> int:
    """A run again with other settings, into a folder that says so: `told` is in its run.json, `notes` are in
    its record. `begin` may put into the folder what the run goes on from; it is given the run's config.
    """
    refuse_full(out)
    experiment = prepare(settings, command_line())
    about = {**experiment.about, "notes": [*experiment.about["notes"], *notes], "again": dict(told)}
    screen.say_notes(about)
    experiment = dataclasses.replace(experiment, about=about)
    return played(experiment, settings, out, lambda: begin(experiment.config))


# withdraw

_WITHDRAW = """\
Says what a client's withdrawal from a run means: what its replies are in, and what can be done.

What was mixed cannot be taken back. With --retrain, the run is done again without the client.

examples:
  coterie withdraw runs/titanic-age-strict-fedavg-seed0 18-30
  coterie withdraw runs/titanic-age-strict-fedavg-seed0 18-30 --retrain --out runs/without-18-30
"""


@dataclass(frozen=True)
class _Withdraw:
    run: str = word("The folder of a run.", "RUN")
    client: str = word("Who withdraws.", "CLIENT")
    retrain: bool = flag(False, "Do the run again without the client.")
    out: str = flag("", "The folder of that run; by default one beside the first.")


@command_with(Flags(_Withdraw, "withdraw", _WITHDRAW))
def withdraw(asked: _Withdraw) -> int:
    path = given_path(asked.run)
    record = read_record(path)
    found = touched(record, asked.client)
    if asked.out and not asked.retrain:
        raise BadInput(f"--out {asked.out} is where a run without {asked.client} goes: add --retrain")
    out = given_folder(asked.out) if asked.out else fresh_path(path.with_name(f"{path.name}-without"))
    if asked.retrain:
        if "given" in record.config:
            raise BadRun(f"{path} was started from Python: call coterie.train without that client, same seed")
        if record.settings.connector.meets:
            why = "whose rows are at the sites: run with --federation.sites"
            raise BadRun(f"{path} is of a federation, {why}")
        refuse_full(out)
    for line in [*_told(record, found, asked.client), *_ways(record, found, path, asked.client)]:
        print(line)
    return _retrained(record, found.joined, path, asked.client, out) if asked.retrain else 0


def _retrained(record: Record, joined: int | None, path: Path, client: str, out: Path) -> int:
    """The same settings and seed, with the client left out of everything: from the last round before it
    joined whose state was kept.
    """
    kept = _kept_before(path, record, joined or 1)
    settings = from_table(record.config, str(path / "config.toml"))
    settings = dataclasses.replace(settings, wrap=(f"without:names={written([client])}", *settings.wrap))
    told = {"run": str(path), "config": digest(record.config), "without": [client], "after": kept}

    def begin(config: Mapping[str, Any]) -> None:
        if kept:
            _go_on_from(out, path, kept, config, record.clients.index(client))

    note = f"the run {path} again, without {client}, who withdrew from it"
    return _anew(settings, out, told, [note], begin)


class _Touched(NamedTuple):
    """What a client's replies have gone into.

    joined     the first round in which anybody else listened to the client; None if nobody ever did
    rounds     {receiver: rounds in which it listened}
    shares     {receiver: its weights for the client, summed over rounds}
    later      who listened afterwards to models that had taken it in, and did not listen to it itself
    """

    joined: int | None
    rounds: Mapping[str, list[int]]
    shares: Mapping[str, float]
    later: list[str]


def touched(record: Record, client: str) -> _Touched:
    names = record.clients
    if client not in names:
        raise UnknownName("client", client, names)
    me, rounds, shares = names.index(client), dict[str, list[int]](), dict[str, float]()
    reached = np.zeros(len(names), dtype=bool)
    # weights of a ranking are of rounds to come, not of sums that were made
    ranked = {m["round"] for m in record.metrics if "ranked_pairs" in (m.get("extras") or {})}
    for r in sorted(set(record.weights) - ranked):
        weights = np.nan_to_num(np.asarray(record.weights[r]))
        heard = weights[:, me] > 0
        heard[me] = False
        for i in np.flatnonzero(heard).tolist():
            rounds.setdefault(names[i], []).append(int(r))
            shares[names[i]] = shares.get(names[i], 0.0) + float(weights[i, me])
        through = (weights[:, reached] > 0).any(axis=1)
        reached |= heard | through
    joined = min((some[0] for some in rounds.values()), default=None)
    reached[me] = False
    later = [name for name, so in zip(names, reached, strict=True) if so and name not in rounds]
    return _Touched(joined, rounds, shares, later)


def _told(record: Record, found: _Touched, client: str) -> list[str]:
    """What the client's replies have gone into."""
    if found.joined is None:
        return [f"nobody else's model has taken in a reply of {client} in {several(record.done, 'round')}"]
    lines = [f"what was mixed cannot be taken back: replies of {client} are in models of others"]
    some = sorted(found.shares.items(), key=lambda pair: -pair[1])
    for name, share in some[:FEW]:
        rounds = f"{several(len(found.rounds[name]), 'round')} ({spans(found.rounds[name])})"
        lines.append(f"  {name}: in {rounds}, shares add up to {share:.3g}")
    if len(some) > FEW:
        lines.append(f"  and {len(some) - FEW} more")
    if found.later:
        names = ", ".join(found.later[:FEW]) + (", ..." if len(found.later) > FEW else "")
        lines.append(f"  and through them, later: {names}")
    return lines


def _ways(record: Record, found: _Touched, path: Path, client: str) -> list[str]:
    """What can be done."""
    lines = []
    if (path / POSTERIORS / f"{file_name(client)}.safetensors").exists():
        lines.append(
            f"{record.settings.method} joins posteriors: coterie posterior remove POOL {client} divides it "
            "out of a pool, and nothing is trained"
        )
    if found.joined is None:
        return lines
    if record.settings.connector.meets:
        others = [name for name in record.clients if name != client]
        return [
            *lines,
            "the rows are at the sites: each deletes the models that the run left there, and whoever leads "
            f"it runs again with --federation.sites {' '.join(others)}",
        ]
    kept, same = _kept_before(path, record, found.joined), found.joined - 1
    left = range(kept + 1 if kept else 0, record.done + 1)
    losses = (m["train_loss"] for m in record.metrics if m["round"] in left)
    visits = sum(loss is not None for some in losses for loss in some)  # as far as clients told
    timings = (t for t in record.timings if t["round"] in left)
    seconds = float(sum(t["seconds"] + t.get("evaluate_seconds", 0.0) for t in timings))
    cost = f"{several(record.done - kept, 'round')}, {visits} visits, {seconds:.1f} s"
    over = "starts over, as no earlier state was kept (--history 1)"
    where = f"goes on after round {kept}" if kept else over
    again = f"; rounds up to {same} come out as they were" if same > kept else ""
    return [
        *lines,
        f"it joined in round {found.joined}; a run without it {where}: {cost}, as this run took{again}",
        f"to do so: coterie withdraw {shlex.quote(str(path))} {shlex.quote(client)} --retrain",
    ]


def _kept_before(path: Path, record: Record, round: int) -> int:
    """The last round before this one whose state the folder has; 0 if there is none, or if sites that are
    elsewhere have theirs.
    """
    if not record.settings.connector.here:
        return 0
    found = [int(file.stem) for file in (path / CHECKPOINTS).glob("*.safetensors") if file.stem.isdecimal()]
    return max((r for r in found if r < round), default=0)


def _go_on_from(new: Path, old: Path, round: int, config: Mapping[str, Any], client: int) -> None:
    """What a new folder has, to go on after a round of another: its lines up to there, in which the client
    has no figures, and its state.
    """
    for name in LINES:
        lines = [entry for entry in read_lines(old / name) if entry.get("round", round + 1) <= round]
        if name == METRICS:
            lines = [_without(entry, client) for entry in lines]
        write_whole(new / name, "".join(json.dumps(entry) + "\n" for entry in lines))
    state = old / CHECKPOINTS / f"{round:05d}.safetensors"
    copy_as(state, new / "checkpoint.safetensors", round, digest(config))


def _without(line: Mapping[str, Any], client: int) -> dict[str, Any]:
    """A line of metrics.jsonl in which a client has neither scores nor a loss."""

    def blank(values: list[Any]) -> list[Any]:
        return [None if i == client else v for i, v in enumerate(values)]

    scores = line["scores"] and {
        name: {metric: blank(values) for metric, values in figures.items()}
        for name, figures in line["scores"].items()
    }
    measures = {name: blank(values) for name, values in line.get("measures", {}).items()}
    told = {**line, "scores": scores, "train_loss": blank(line["train_loss"])}
    return {**told, "measures": measures} if "measures" in line else told
