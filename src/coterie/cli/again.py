"""coterie again"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from coterie.cli import screen
from coterie.cli.command import Flags, command_with
from coterie.cli.run import played
from coterie.core.errors import BadInput, BadRun
from coterie.methods.baselines import NOTHING
from coterie.runs.about import command_line
from coterie.runs.compare import is_comparison, read_records, slug
from coterie.runs.deciding import place_of
from coterie.runs.experiment import prepare
from coterie.runs.folder import read_record, refuse_full
from coterie.runs.judged import judged
from coterie.runs.settings import Settings, digest, from_table
from coterie.storage import decided
from coterie.storage.paths import fresh_path, given_folder, given_path
from coterie.use.cut import Cut
from coterie.use.cuts import write_cut

HELP = """Does a run again, with what a client's people decided of it since.

Partners that were left out take no part, forbidden columns are not learned from, required ones are required,
and in the sums of the client are only those of the circle that it approved; vetoes of others hold as well.
All else is as it was, the seed too. A ranking becomes a run that trains with the approved circle.

examples:
  coterie again runs/breast-cancer-iid-pens-seed0 --client client-0
  coterie again runs/rank-heart-disease-silos-ndoye-seed0 --client cleveland --rounds 20
"""


@dataclass(frozen=True)
class Again:
    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN", help="The folder of a run.")]
    client: Annotated[str, tyro.conf.arg(help="Whose decisions count; vetoes of all do.")]
    rounds: Annotated[int, tyro.conf.arg(help="Rounds; 0: as before, for a ranking as for any run.")] = 0
    out: Annotated[str, tyro.conf.arg(help="The folder of the new run; by default one beside RUN.")] = ""


@command_with(Flags(Again, "again", HELP))
def again(asked: Again) -> int:
    path, out = given_path(asked.run), None if not asked.out else given_folder(asked.out)
    if asked.rounds < 0:
        raise BadInput(f"rounds={asked.rounds} must be at least 0, which is as before: try 30")
    refuse_comparison(path)
    record, place = read_record(path), place_of(path)
    cut, lines = place.of(asked.client).cut, place.lines()
    if "given" in record.config:
        raise BadRun(f"{path} was started from Python: call coterie.train with what was decided, same seed")
    before = from_table(record.config, str(path / "config.toml"))
    settings, said = judged(before, record.clients, lines, asked.client, asked.rounds)
    beside = place.also[0] if place.also else path
    out = out or fresh_path(beside.with_name(f"{beside.name}-again"))
    told = {"run": str(path), "config": digest(record.config), "client": asked.client, "decided": said}
    notes = [f"the run {path} again, with what was decided", *(f"{line}, as was decided" for line in said)]

    def begin(config: Mapping[str, Any]) -> None:
        """Written down at once, as the run may be killed and go on later. The new model goes by the threshold
        as well.
        """
        decided.add(path, asked.client, "again", {"out": str(out)})
        if cut is not None:
            write_cut(out, asked.client, Cut(*cut[:2]), by=cut[2])

    return anew(settings, out, told, notes, begin)


def refuse_comparison(path: Path) -> None:
    if is_comparison(path):
        first = next(r for r in read_records(path) if r.label != NOTHING)
        place = path / slug(first.label) / f"seed-{first.config['seed']}"
        raise BadRun(f"{path} is a comparison, and one run is done again: name one of its runs, try {place}")


def anew(
    settings: Settings,
    out: Path,
    told: Mapping[str, Any],
    notes: Sequence[str],
    begin: Callable[[Mapping[str, Any]], None] = lambda config: None,
) -> int:
    """A run again with other settings, into a folder that says so: `told` is in its run.json, `notes` are in
    its record. `begin` may put into the folder what the run goes on from; it is given the run's config.
    """
    refuse_full(out)
    experiment = prepare(settings, command_line())
    about = {**experiment.about, "notes": [*experiment.about["notes"], *notes], "again": dict(told)}
    screen.say_notes(about)
    experiment = dataclasses.replace(experiment, about=about)
    return played(experiment, settings, out, lambda: begin(experiment.config))
