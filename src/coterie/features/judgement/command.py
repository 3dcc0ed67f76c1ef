"""What people decide of a run, and the run again: coterie decide, again and withdraw."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.cli import screen
from coterie.cli.command import REQUIRED, Flags, command_with, flag, word
from coterie.cli.run import played
from coterie.core.errors import BadInput, BadRun
from coterie.features.judgement.decisions import Asked, Place, decide_and_cut, folded, joined_names, place_of
from coterie.features.judgement.next_run import settings_as_decided
from coterie.features.judgement.withdrawal import begun, kept_before, refuse_unfit, said_of, touched, ways
from coterie.federation.messages import printable
from coterie.methods.baselines import NOTHING
from coterie.nets.offers import written
from coterie.runs.about import command_line
from coterie.runs.builder import prepare
from coterie.runs.compare import is_comparison, read_records, slug
from coterie.runs.folder import read_record, refuse_full
from coterie.runs.record import Record
from coterie.runs.settings import Settings, digest, from_table
from coterie.storage import decisions
from coterie.storage.paths import fresh_path, given_folder, given_path
from coterie.use.cut import Cut, write_cut

COMMANDS = {
    "decide": ("after", 70, "record what people decide: a partner left out, a column, a circle, a no"),
    "again": ("after", 80, "do a run again, with what was decided of it"),
    "withdraw": ("privacy", 30, "say what a client's withdrawal from a run means; train without it"),
}
LONGEST = 2_000  # letters of a line
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
class Decide:
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


@command_with(Flags(Decide, "decide", _DECIDE))
def decide(told: Decide) -> int:
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


def _asked(told: Decide) -> Iterator[Asked]:
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
    if client:
        found = place.of(client).words()
    else:
        lines = place.lines()
        found = [word for name in place.clients for word in folded(lines, name).words()]
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
        refuse_unfit(record, path)
        refuse_full(out)
    for line in [*said_of(record, found, asked.client), *ways(record, found, path, asked.client)]:
        print(line)
    return _retrained(record, found.joined, path, asked.client, out) if asked.retrain else 0


def _retrained(record: Record, joined: int | None, path: Path, client: str, out: Path) -> int:
    """The same settings and seed, with the client left out of everything."""
    kept = kept_before(path, record, joined or 1)
    settings = from_table(record.config, str(path / "config.toml"))
    settings = dataclasses.replace(settings, wrap=(f"without:names={written([client])}", *settings.wrap))
    told = {"run": str(path), "config": digest(record.config), "without": [client], "after": kept}

    def begin(config: Mapping[str, Any]) -> None:
        if kept:
            begun(out, path, kept, config, record.clients.index(client))

    note = f"the run {path} again, without {client}, who withdrew from it"
    return _anew(settings, out, told, [note], begin)
