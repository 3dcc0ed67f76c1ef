"""coterie similar"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.flags import SPENDING, Given, SettingsFlags
from coterie.cli.run import LANGUAGE, OUT, fresh, out_of, title
from coterie.core.options import Option
from coterie.features.ranking.ranking import rank
from coterie.features.similarity.record import Similarity, options_for, refuse_unknown, similarity_of
from coterie.features.similarity.shown import (
    column_table,
    pair_table,
    sentences,
    warnings,
    write_files,
    write_page,
)
from coterie.runs.about import command_line
from coterie.runs.builder import prepare
from coterie.show.blocks import Table
from coterie.show.figures import need_matplotlib
from coterie.show.terminal import fitting
from coterie.show.words import say, speaking

COMMANDS = {
    "similar": ("partners", 10, "say how alike sites are, and in which columns they differ, before training"),
}
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
COLUMNS = 10  # that are printed
OPTIONS = [MEASURES, REQUESTER, EPSILON, DELTA, FIGURES, OUT, LANGUAGE]


@command_with(SettingsFlags("similar", HELP, OPTIONS, methods=lambda words: ["similar"], without=SPENDING))
def similar(given: Given) -> int:
    settings, extra, _ = given
    asked = options_for(extra["measures"] or None, extra["epsilon"], extra["delta"])
    own = {**settings.options.get("similar", {}), **asked, "requester": extra["requester"]}
    options = {**settings.options, "similar": own}
    settings = replace(settings, method="similar", rounds=1, one_class="allow", options=options).resolved()
    out = out_of(extra)
    if extra["figures"] != "none":
        need_matplotlib()
    experiment = prepare(settings, command_line())
    screen.say_notes(experiment.about)
    path = out or fresh(f"similar-{settings.data}-{settings.split}-seed{settings.seed}")
    record = rank(experiment, path, check=refuse_unknown)
    found = similarity_of(record)
    assert found is not None, "refused before it was kept"
    with speaking(extra["language"]):
        screen.out.print(f"\n[bold]{escape(say.again(title(record)))}[/bold]")
        _show(found)
        for file in write_files(path, found, extra["figures"]):
            print(f"{'table' if file.suffix == '.csv' else 'figure'}: {file}")
        print(f"report: {write_page(path / 'report.html', record)}")
    return 0


def _show(found: Similarity) -> None:
    """Pairs, columns, sentences, and what to know before trusting them."""

    def put(table: Table) -> None:
        rows = [[say.again(cell) for cell in row] for row in table.rows]
        screen.out.print(fitting([*map(say.again, table.header)], rows, "", "", screen.out.width))

    many = len(found.asking()) * (len(found.sites) - 1) > PAIRS
    put(pair_table(found, NEAREST if many else 0))
    if many:
        screen.out.print(f"[dim]{say('similar.screen.nearest', n=NEAREST)}[/dim]")
    if found.terms.shape[2]:
        screen.out.print(f"\n[bold]{say('similar.screen.columns')}[/bold], {say('similar.screen.unit')}")
        put(column_table(found, COLUMNS))
    screen.out.print()
    for line in sentences(found):
        screen.out.print(f"· {escape(say.again(line))}", soft_wrap=True)
    screen.out.print(f"[dim]{escape(say('similar.control'))}[/dim]", soft_wrap=True)
    for line in warnings(found):
        screen.err.print(f"warning: {escape(say.again(line))}", soft_wrap=True)
