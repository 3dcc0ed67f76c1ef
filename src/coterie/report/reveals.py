"""What each method shows to whom, in words and as a page, from what the methods themselves say."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.core.method import Reveals
from coterie.methods import METHODS
from coterie.show.words import said, texts, translated

PAGE = """# What methods reveal
What reaches whom in a run, beyond the roster (names, numbers of rows, columns, classes, label counts) and
the scores that a run asks every client for. Nobody but its client sees a row, unless the table says that
rows move. The tests play a curious coordinator that notes all that reaches it on a net of messages, and
hold its notes against this table, for every method. `coterie methods NAME` says the same of one method;
options may change it: scores by loss instead of accuracy, early stopping, local work with noise (`dp(sgd)`),
which tells no loss. `pens`, `greedy` and `epsilon-greedy` with `tell = "choices"` reveal choices in the place
of scores: 1 for whom a client would average with, 0 for whom not.

| method | models at the coordinator | models at other clients | numbers at the coordinator | rows |
| --- | --- | --- | --- | --- |
{rows}

*Mixed*: models that clients trained go to the coordinator, which averages them and keeps the average.
*Opened*: it looks at each of them. At other clients, models arrive to be averaged, scored or measured; they
pass the coordinator's process unread.
`loss` is a mean over a client's training rows (for `fedfomo` over its validation rows too), `samples` their
number; `taken` is the share of an average that a client took over, `alpha` that of its own model in a
mixture, `chosen` which of several it took, `share` how much of its model comes from its own rows; a slope is
a number for each other client, distances are norms of differences of models; quantiles are 19 numbers of each
column of the training rows ([similarity](similarity.md) tells of other sketches, too). What `pooled`,
`partial` and `recalibrated` have mixed are no models but [sums over rows](privacy.md#sums-over-rows).

With nothing opened and no rows moved, all methods work but `central`, `bayes-central` (yardsticks that need
all rows in one place) and `guided`, `fedkg`, `fedunique` (their metrics look at layers). `oracle` is no
option where nobody knows the true clusters.
"""


def reveals_page() -> str:
    """docs/reveals.md"""
    rows = "\n".join(f"| `{name}` | {' | '.join(_cells(cls().reveals()))} |" for name, cls in METHODS.items())
    return PAGE.format(rows=rows)


def _cells(told: Reveals) -> tuple[str, str, str, str]:
    """Who sees models, and which numbers; whether rows move."""
    none = said("reveals.none")
    at_coordinator = (
        said("reveals.opened") if told.opened else said("reveals.mixed") if told.coordinator else none
    )
    names = said("list.plain", names=numbers_called(told.numbers)) if told.numbers else none
    rows = said("reveals.move" if told.rows else "reveals.stay")
    return at_coordinator, said("reveals.yes") if told.sites else none, names, rows


def numbers_called(names: Sequence[str]) -> list[str]:
    """Single numbers: in English as the method calls them."""
    known = ((name, texts().get(f"number.{name.replace(' ', '-')}", {})) for name in dict.fromkeys(names))
    return [translated({**words, "en": name}) for name, words in known]


def in_words(told: Reveals) -> str:
    """For a person at a site."""
    coordinator, sites, numbers, rows = _cells(told)
    blanks = {"coordinator": coordinator, "sites": sites, "numbers": numbers, "rows": rows}
    return said("reveals.line", **blanks)
