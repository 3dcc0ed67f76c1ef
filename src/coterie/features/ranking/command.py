"""coterie rank"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.flags import SPENDING, Given, SettingsFlags, config_of, peek
from coterie.cli.run import LANGUAGE, OUT, fresh, out_of, title
from coterie.core.errors import BadInput, UnknownName
from coterie.core.options import Option
from coterie.features.ranking import ranking
from coterie.features.ranking.shown import draw_ranking, ranking_frame, screen_table, sentences
from coterie.methods import METHODS, ranks_by
from coterie.runs.about import command_line
from coterie.runs.builder import prepare
from coterie.runs.record import Record
from coterie.show import figures
from coterie.show.words import known, said, say, speaking
from coterie.storage.atomic import write_whole

COMMANDS = {"rank": ("partners", 20, "rank the others for one client or all, before training together")}
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
OWN = (BY, REQUESTER, FIGURES, OUT, LANGUAGE)


@command_with(SettingsFlags("rank", HELP, OWN, methods=lambda words: [_kind_of(words)], without=SPENDING))
def rank(given: Given) -> int:
    settings, extra, _ = given
    by = extra["by"]
    asked = {"requester": extra["requester"]} if extra["requester"] else {}
    options = {**settings.options, by: {**settings.options.get(by, {}), **asked}}
    settings = replace(settings, method=by, rounds=1, options=options).resolved()
    out = out_of(extra)
    if extra["figures"] != "none":
        figures.need_matplotlib()
    experiment = prepare(settings, command_line())
    screen.say_notes(experiment.about)
    path = out or fresh(f"rank-{settings.data}-{settings.split}-{by}-seed{settings.seed}")
    visits: int = experiment.method.visits  # type: ignore[attr-defined]
    with screen.progress(visits, f"ranking by {by}", "visits") as bar:

        def tick() -> None:
            bar.start()
            bar.advance(bar.task_ids[0])

        record = ranking.rank(experiment, path, tick)
    with speaking(extra["language"]):
        _show(record)
    print(f"table: {write_whole(path / 'ranking.csv', ranking_frame(record).to_csv(index=False))}")
    for file in figures.write(path, lambda: {"ranking": draw_ranking(record)}, extra["figures"]):
        print(f"figure: {file}")
    return 0


def _kind_of(words: Sequence[str]) -> str:
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


def _show(record: Record) -> None:
    """The table, what its numbers rest on, and what it comes to for each requester."""
    found = ranking.ranked(record)
    name = say.again(known("number_called", found.name))
    better = say("ranking.higher" if found.high else "ranking.lower")
    screen.out.print(
        f"\n[bold]{escape(say('ranking.by', title=say.again(title(record)), name=name))}[/bold] ({better})"
    )
    screen.out.print(screen_table(record, screen.out.width))
    what = str(record.metrics[-1]["extras"]["held_out"])  # a file has it in English
    folds = said("ranking.folds", n=what.partition("-")[0])
    rows = say.again(folds if folds == what else known("ranking.rows", what))
    screen.out.print(f"[dim]{say('ranking.held_out', what=rows)}[/dim]\n")
    for requester, line in sentences(record).items():
        screen.out.print(f"[bold]{escape(requester)}[/bold]: {escape(say.again(line))}")
