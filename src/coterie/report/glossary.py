"""The field's terms in plain words: one catalogue for a page's glossary, its hovers and links, and the docs.

A term stands where it is shown: behind plain words, or as a link to its sentence. A page has the sentences of
the terms that occur on it.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from coterie.metrics.table import METRICS


@dataclass(frozen=True)
class Term:
    """`name` is the field's, `plain` what one might say instead, `said` a sentence; `also` are other ways in
    which it is written, each a whole word.
    """

    name: str
    plain: str
    said: str
    also: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        slugs = (re.sub(r"[^a-z0-9]+", "-", way.lower()).strip("-") for way in (self.name, *self.also))
        return "term-" + next(slug for slug in slugs if slug)

    @property
    def written(self) -> re.Pattern[str]:
        """Where it occurs in a text: as a whole word, capitals at its beginning or not."""
        ways = "|".join(re.escape(way) for way in sorted((self.name, *self.also), key=len, reverse=True))
        return re.compile(rf"(?<![\w-])(?:{ways})(?![\w-])", 0 if self.name.isupper() else re.IGNORECASE)


TERMS = (
    *(Term(m.label, m.plain, m.explained, m.also) for m in METRICS.values() if m.explained),
    Term(
        "threshold probability",
        "from which probability on one acts",
        "The probability t from which on a row is called positive. Acting from 20 % on says that one case "
        "found is worth four false alarms.",
    ),
    Term(
        "MCE",
        "largest gap between sure and right",
        "Maximum calibration error: the same gap, where it is largest.",
        ("maximum calibration error",),
    ),
    Term(
        "calibration",
        "whether its confidence can be trusted",
        "A model is calibrated if it is right in nine of ten cases in which it says that it is 90 % sure.",
    ),
    Term(
        "confidence",
        "how sure it says it is",
        "The probability that a model gives to the class it names.",
    ),
    Term(
        "entropy",
        "uncertainty",
        "How spread a model's probabilities are: 0 if it is certain, the greatest (the log of the number of "
        "classes) if all classes are equally likely to it.",
        ("nats",),
    ),
    Term(
        "τ",
        "how sure it must be to answer",
        "A bound on confidence: below it the model keeps silent and leaves the case to a person.",
        ("tau",),
    ),
    Term(
        "log-odds",
        "pull towards a class",
        "The log of p / (1 − p): 0 is a coin's toss, 1 makes it 73 %, −1 makes it 27 %.",
        ("logit",),
    ),
    Term(
        "partial pooling",
        "each its own, but not far from all",
        "Each client's model lies around a common one; how far apart they may lie is learnt from all rows.",
    ),
    Term(
        "penalty",
        "how firmly coefficients are held",
        "What a large coefficient costs when a linear model is solved: a strong one leaves little more than "
        "the mean, and keeps a model of few rows from learning chance.",
    ),
    Term(
        "drift",
        "distance to the average model",
        "How far a client's model is from the mean of all clients' models, as a straight line between their "
        "parameters.",
        ("distance to the mean model",),
    ),
    Term(
        "alpha",
        "what is left of a sender's weight",
        "α of Weight Erosion: it goes from 1 down to 0 as a sender's updates go astray.",
        ("α",),
    ),
    Term(
        "Dirichlet split",
        "labels that are skewed by chance",
        "Each client gets its own mix of labels. Its α says how far they are skewed: 0.1 is very uneven, 100 "
        "nearly even.",
        ("dirichlet",),
    ),
    Term(
        "relative distance",
        "how far astray a sender's update goes",
        "The distance of a sender's update to one's own, divided by the length of one's own.",
    ),
    Term(
        "transfer loss",
        "what is lost by the move",
        "How much worse a client's model does on the requester's rows than at home; lower is better.",
    ),
    Term(
        "influence",
        "help",
        "How much worse everybody's average would do on the requester's rows without this client; above 0 it "
        "helps.",
    ),
    Term(
        "standard error",
        "what chance alone may do",
        "How much a mean would typically move if it were taken on other rows of the same kind.",
    ),
    Term(
        "interval",
        "range that covers chance",
        "The 95 % interval of a mean: made again and again, 95 of 100 such ranges would hold the true value.",
        ("intervals",),
    ),
    Term(
        "seed",
        "a throw of the dice",
        "Where a run's random numbers come from; runs of other seeds differ by chance alone.",
        ("seeds",),
    ),
    Term(
        "precision",
        "how many of the chosen are right",
        "Of those whom a client chose, the share that is of its own kind.",
    ),
    Term(
        "recall",
        "how many of the right are chosen",
        "Of those of a client's own kind, the share that it chose.",
    ),
    Term(
        "epsilon",
        "privacy spent",
        "A bound on what all answers of a site tell of any one row (differential privacy): 0 tells nothing, "
        "1 little, 10 much.",
        ("ε",),
    ),
    Term(
        "delta",
        "chance that the bound fails",
        "The small probability that is left aside in a bound by epsilon.",
        ("δ",),
    ),
    Term(
        "leverage",
        "how much of one reply a sum gives away",
        "1 gives away all of a single reply, 0 nothing.",
    ),
    Term(
        "Shapley value",
        "fair share of what all gained together",
        "What a client adds to the others, the mean over all orders in which they might have joined.",
    ),
)
"""In the order of the glossary."""
BY_NAME = {term.name: term for term in TERMS}


def behind(name: str) -> str:
    """Plain words, and the field's term behind them: uncertainty (entropy). A name that is no term stays."""
    return f"{BY_NAME[name].plain} ({name})" if name in BY_NAME else name


def linked(text: str) -> str:
    """A text as HTML, with a link at the first place of each term, and its sentence to hover over."""
    places = [(*place.span(), term) for term in TERMS if (place := term.written.search(text))]
    found: dict[int, tuple[int, Term]] = {}
    for start, end, term in sorted(places, key=lambda p: p[0] - p[1]):  # the longest: log loss before loss
        if not any(a < end and start < b for a, (b, _) in found.items()):
            found[start] = (end, term)
    made, at = "", 0
    for start, (end, term) in sorted(found.items()):
        made += html.escape(text[at:start])
        title = html.escape(f"{term.plain}: {term.said}")
        made += f'<a class="term" href="#{term.anchor}" title="{title}">{html.escape(text[start:end])}</a>'
        at = end
    return made + html.escape(text[at:])


def part(body: str) -> str:
    """The glossary of a page, of the terms that this HTML has links to."""
    terms = [term for term in TERMS if f'href="#{term.anchor}"' in body]
    lines = "".join(
        f'<dt id="{term.anchor}">{html.escape(term.name)}</dt>'
        f"<dd><b>{html.escape(term.plain)}.</b> {html.escape(term.said)}</dd>"
        for term in terms
    )
    return f'<dl class="glossary">{lines}</dl>' if lines else ""


def as_markdown() -> str:
    """The catalogue as a table, for the docs."""
    rows = [f"| {term.name} | {term.plain} | {term.said} |" for term in TERMS]
    return "\n".join(["| term | in plain words | what it is |", "| --- | --- | --- |", *rows])
