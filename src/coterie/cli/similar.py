"""coterie similar"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.flags import SPENDING, Given, SettingsFlags
from coterie.cli.run import OUT, fresh, out_of, title
from coterie.core.options import Option
from coterie.report import similarity_words as told
from coterie.report.ranking import need_matplotlib
from coterie.report.similarity_page import found_in, write_figures, write_page, write_tables
from coterie.report.terminal import fitting
from coterie.runs.about import command_line
from coterie.runs.alike import Similarity
from coterie.runs.experiment import prepare
from coterie.runs.rank import rank
from coterie.runs.settings import Settings
from coterie.runs.similar import options_for, refuse_unknown

HELP = """Says how alike the sites are, two by two, and in which columns they differ, before any training.

By quantiles (19 numbers of each column), by transport (mean and covariance of each class) and by the adapted
Ndoye factor (models trained alone and exchanged); beside them, as a control, the other's number of rows. Test
rows are never looked at, and nothing else leaves a site. With --epsilon sketches have noise, and nothing that
has none leaves.

examples:
  coterie similar --data heart-disease
  coterie similar --data heart-disease --requester cleveland --measures quantiles
  coterie similar --recipe recipe.toml --epsilon 3
  coterie similar --net federation --federation.kit ward/people/lead --measures quantiles transport
"""

MEASURES = Option(
    "measures",
    tuple[str, ...],
    (),
    "What to compare by: quantiles, transport, ndoye; by default all, with noise all but ndoye.",
)
REQUESTER = Option("requester", str, "all", "The site that wants to know; by default each of them.")
EPSILON = Option("epsilon", float, 0.0, "Differential privacy of the sketches; 0 adds no noise.")
DELTA = Option("delta", float, 1e-5, "The delta of that; below 1 / rows of every site.")
FIGURES = Option("figures", Literal["none", "png", "svg"], "none", "Figures for a paper to write.")
PAIRS, NEAREST = 40, 3  # above so many pairs, so many of each site are printed
OPTIONS = [MEASURES, REQUESTER, EPSILON, DELTA, FIGURES, OUT]


@command_with(SettingsFlags("similar", HELP, OPTIONS, methods=lambda words: ["similar"], without=SPENDING))
def similar(given: Given) -> int:
    settings, extra, _ = given
    asked = options_for(extra["measures"] or None, extra["epsilon"], extra["delta"])
    settings = as_look(settings, {**asked, "requester": extra["requester"]}).resolved()
    out = out_of(extra)
    if extra["figures"] != "none":
        need_matplotlib()
    experiment = prepare(settings, command_line())
    screen.say_notes(experiment.about)
    path = out or fresh(f"similar-{settings.data}-{settings.split}-seed{settings.seed}")
    record = rank(experiment, path, check=refuse_unknown)
    found = found_in(record)
    screen.out.print(f"\n[bold]{escape(title(record))}[/bold]")
    show(found)
    for file in (*write_tables(path, found), *write_figures(path, found, extra["figures"])):
        print(f"{'table' if file.suffix == '.csv' else 'figure'}: {file}")
    print(f"report: {write_page(path / 'report.html', record)}")
    return 0


def as_look(settings: Settings, asked: dict[str, object]) -> Settings:
    """These settings for one round that measures."""
    own = {**settings.options.get("similar", {}), **asked}
    return replace(
        settings, method="similar", rounds=1, one_class="allow", options={**settings.options, "similar": own}
    )


def show(found: Similarity) -> None:
    """Pairs, columns, sentences, and what to know before trusting them."""
    width = screen.out.width
    many = len(found.asking()) * (len(found.sites) - 1) > PAIRS
    screen.out.print(fitting(*told.pair_cells(found, NEAREST if many else 0), "", "", width))
    if many:
        screen.out.print(f"[dim]the {NEAREST} nearest of each; all are in pairs.csv[/dim]")
    if found.terms.shape[2]:
        header, rows = told.column_cells(found)
        screen.out.print("\n[bold]columns that differ most[/bold], in deviations")
        screen.out.print(fitting(header, rows[:10], "", "", width))
    screen.out.print()
    for line in told.sentences(found):
        screen.out.print(f"· {escape(line)}", soft_wrap=True)
    screen.out.print(f"[dim]{escape(told.CONTROL)}[/dim]", soft_wrap=True)
    for line in told.warnings(found):
        screen.err.print(f"warning: {escape(line)}", soft_wrap=True)
