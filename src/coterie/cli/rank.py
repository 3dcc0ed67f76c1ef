"""coterie rank"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.flags import SPENDING, Given, SettingsFlags, config_of, peek
from coterie.cli.run import OUT, fresh, out_of, title
from coterie.core.errors import BadInput, UnknownName
from coterie.core.options import Option
from coterie.methods import METHODS, ranks_by
from coterie.report.choices import sentences
from coterie.report.ranked import ranked
from coterie.report.ranking import need_matplotlib, screen_table, write_ranking
from coterie.runs import rank as ranker
from coterie.runs.about import command_line
from coterie.runs.experiment import prepare
from coterie.runs.record import Record
from coterie.runs.settings import Settings

HELP = """Ranks the others for one client or for all, before anything is trained together, and draws it.

By ndoye (transfer loss: how much worse a model of theirs does on one's own rows than at home) or by
influence (how much each lowers one's held-out loss). Whoever is chosen has to do about as well on one's own
rows as one's own model; if none does, the answer is nobody, and why. By similar (how alike rows are) no model
is tried, so there is no such bar. Test rows are never looked at.
`coterie run` with the same options and --method ndoye or influence ranks in its first round and trains with
the chosen in the rest; whoever has nobody trains alone.

examples:
  coterie rank --data heart-disease --by ndoye --requester cleveland
  coterie rank --data digits --by influence --influence.estimate first-order
  coterie run --data heart-disease --method ndoye --ndoye.requester cleveland --ndoye.best 1
"""

BY = Option("by", Literal["ndoye", "influence", "similar"], "ndoye", "What to rank by.")
REQUESTER = Option("requester", str, "", "The client that wants to know; by default each of them.")
FIGURES = Option("figures", Literal["none", "png", "svg"], "svg", "The picture to write.")
OWN = (BY, REQUESTER, FIGURES, OUT)


@command_with(SettingsFlags("rank", HELP, OWN, methods=lambda words: [kind_of(words)], without=SPENDING))
def rank(given: Given) -> int:
    settings, extra, _ = given
    by = extra["by"]
    settings = as_ranking(settings, by, extra["requester"]).resolved()
    out = out_of(extra)
    if extra["figures"] != "none":
        need_matplotlib()
    experiment = prepare(settings, command_line())
    screen.say_notes(experiment.about)
    name = f"rank-{settings.data}-{settings.split}-{by}-seed{settings.seed}"
    path = out or fresh(name)
    visits: int = experiment.method.visits  # type: ignore[attr-defined]
    with screen.progress(visits, f"ranking by {by}", "visits") as bar:

        def tick() -> None:
            bar.start()
            bar.advance(bar.task_ids[0])

        record = ranker.rank(experiment, path, tick)
    show(record)
    for file in write_ranking(path, record, extra["figures"]):
        print(f"{'table' if file.suffix == '.csv' else 'figure'}: {file}")
    return 0


def kind_of(words: Sequence[str]) -> str:
    """What to rank by, from the flags or the file, before anything is parsed."""
    by = str(peek(words, "by") or config_of(words).get("by") or BY.default)
    if ranks_by(by) is None:
        raise UnknownName("ranking", by, [name for name in METHODS if ranks_by(name)])
    if peek(words, "rounds") not in (None, "1"):
        raise BadInput(
            f"rounds={peek(words, 'rounds')}: a ranking takes one round: leave it out, or train with the "
            f"chosen by 'coterie run --method {by}'"
        )
    return by


def as_ranking(settings: Settings, by: str, requester: str) -> Settings:
    """These settings for one round of this method."""
    own = dict(settings.options.get(by, {}))
    if requester:
        own["requester"] = requester
    return replace(settings, method=by, rounds=1, options={**settings.options, by: own})


def show(record: Record) -> None:
    """The table, what its numbers rest on, and what it comes to for each requester."""
    found = ranked(record)
    rests = record.metrics[-1]["extras"]["held_out"]
    better = "higher" if found.high else "lower"
    screen.out.print(f"\n[bold]{escape(title(record))}, by {found.name}[/bold] ({better} is better)")
    screen.out.print(screen_table(record, screen.out.width))
    screen.out.print(f"[dim]held out: {rests}[/dim]\n")
    for requester, said in sentences(record).items():
        screen.out.print(f"[bold]{escape(requester)}[/bold]: {escape(said)}")
