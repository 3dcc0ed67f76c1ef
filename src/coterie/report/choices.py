"""Why somebody was chosen to train with, and why nobody was: in words, from a ranking's numbers.

Of each pair there is one reason, the first that holds of those in REASONS: it says what speaks against the
pair, or that nothing does. A requester's line gathers its pairs by reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from coterie.report import views
from coterie.report.ranked import Ranked, is_ranking, ranked
from coterie.runs.record import Record

LISTED = 6  # names in a line
LINES = 12  # of those who train alone


class Reason(NamedTuple):
    """`holds` of a ranking, a requester and another; `said` of one or several others at once, with blanks for
    them, the requester and the form of the verb; `figures` of one pair.
    """

    holds: Callable[[Ranked, int, int], bool]
    said: str
    figures: Callable[[Ranked, int, int], str] = lambda found, r, j: ""


def number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def beside_own(found: Ranked, r: int, j: int) -> str:
    own = found.there[r, j] - found.above[r, j]
    return f"loss {number(found.there[r, j])}, own {number(own)}, standard error {number(found.spread[r, j])}"


def valued(found: Ranked, r: int, j: int) -> str:
    value, error = found.value[r, j], found.error[r, j]
    said = f"{found.name} {number(value)}"
    return f"{said}, standard error {number(error)}" if math.isfinite(error) else said


def beyond(found: Ranked, r: int, j: int) -> bool:
    """Whether a pair passes the threshold."""
    value = found.value[r, j]
    return bool(value > found.threshold if found.high else value < found.threshold)


def by_chance(found: Ranked, r: int, j: int) -> bool:
    """Whether it passes by less than a standard error, where there is one."""
    return bool(found.value[r, j] - found.error[r, j] <= found.threshold)


def clears(found: Ranked, r: int, j: int) -> bool:
    above, spread = found.above[r, j], found.spread[r, j]
    return found.bar == "none" or bool(above < -spread if found.bar == "better" else above <= spread)


REASONS = {
    "first": Reason(
        lambda f, r, j: bool(f.chosen[r, j]) and f.bar == "none",
        "{names} {come} first for {at}, and no bar was set",
        valued,
    ),
    "helps": Reason(
        lambda f, r, j: bool(f.chosen[r, j]) and math.isfinite(f.error[r, j]),
        "with {names} the average does better on the rows of {at}, by more than a standard error",
        valued,
    ),
    "better": Reason(
        lambda f, r, j: bool(f.chosen[r, j]) and f.bar == "better",
        "{models} {do} better on the rows of {at} than its own model by more than a standard error",
        beside_own,
    ),
    "suits": Reason(
        lambda f, r, j: bool(f.chosen[r, j]),
        "{models} {do} about as well on the rows of {at} as its own model, or better",
        beside_own,
    ),
    "few": Reason(
        lambda f, r, j: f.bar != "none" and not math.isfinite(f.spread[r, j]),
        "{at} has too few rows to tell",
    ),
    "guess": Reason(
        lambda f, r, j: not clears(f, r, j) and bool(f.there[r, j] > f.guess[r]),
        "{models} {do} worse on the rows of {at} than guessing from its class shares",
        lambda f, r, j: f"loss {number(f.there[r, j])}, guessing {number(f.guess[r])}",
    ),
    "even": Reason(
        lambda f, r, j: not clears(f, r, j) and bool(f.above[r, j] <= f.spread[r, j]),
        "{models} {are} not better on the rows of {at} than its own model by more than a standard error",
        beside_own,
    ),
    "own": Reason(
        lambda f, r, j: not clears(f, r, j),
        "{models} {do} worse on the rows of {at} than its own model by more than a standard error",
        beside_own,
    ),
    "harms": Reason(
        lambda f, r, j: f.high and f.threshold == 0 and not beyond(f, r, j),
        "with {names} the average does no better on the rows of {at}",
        valued,
    ),
    "threshold": Reason(
        lambda f, r, j: not beyond(f, r, j),
        "{names} {do} not pass the threshold for {at}",
        lambda f, r, j: f"{valued(f, r, j)}, threshold {f.threshold:g}",
    ),
    "chance": Reason(
        by_chance,
        "with {names} the average does better on the rows of {at} by less than a standard error",
        valued,
    ),
    "later": Reason(
        lambda f, r, j: f.best > 0 and open_to(f, r).index(j) >= f.best,
        "others come before {names} for {at}",
        lambda f, r, j: f"best={f.best}",
    ),
    "withdrew": Reason(
        lambda f, r, j: (f.clients[j], f.clients[r]) in f.withdrew, "{names} withdrew from the circle of {at}"
    ),
    "kept": Reason(
        lambda f, r, j: (f.clients[j], f.clients[r]) in f.kept_out,
        "{names} {are} kept out of the circle of {at}, as was decided",
    ),
    "other": Reason(lambda f, r, j: True, "{names} {are} not chosen for {at}", valued),
}
"""In the order in which they are asked."""
IN = ("first", "helps", "better", "suits")  # why somebody is in
JUDGED = frozenset(("guess", "even", "own", "harms", "threshold", "chance"))  # not good enough, by figures


def open_to(found: Ranked, r: int) -> list[int]:
    """Who might be chosen for r, the best first."""
    tests = [REASONS[name].holds for name in ("few", "own", "threshold", "chance")]
    return [j for j in found.order(r) if not any(holds(found, r, j) for holds in tests)]


def reason(found: Ranked, r: int, j: int) -> str:
    """The name of the first that holds."""
    return next(name for name, why in REASONS.items() if why.holds(found, r, j))


def why(found: Ranked, r: int, j: int) -> str:
    """Of one pair, with its figures."""
    told = REASONS[reason(found, r, j)]
    figures = told.figures(found, r, j)
    said = filled(told.said, [found.clients[j]], found.clients[r])
    return f"{said} ({figures})" if figures else said


def filled(said: str, names: Sequence[str], at: str) -> str:
    one = len(names) == 1
    return said.format(
        names=listed(names),
        models=f"the model{'s' * (not one)} of {listed(names)}",
        do="does" if one else "do",
        come="comes" if one else "come",
        are="is" if one else "are",
        at=at,
    )


def listed(names: Sequence[str]) -> str:
    """a, b and c; of many the first."""
    if len(names) > LISTED:
        return f"{', '.join(names[:LISTED])} and {len(names) - LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def sentence(found: Ranked, r: int) -> str:
    """Who is chosen, or nobody, and because of what: each reason once, of all whom it is of."""
    by_reason: dict[str, list[str]] = {}
    chosen = []
    for j in found.order(r):
        name = reason(found, r, j)
        by_reason.setdefault(name, []).append(found.clients[j])
        chosen += [found.clients[j]] if name in IN else []
    told = [name for name in by_reason if name in IN] or list(by_reason)
    because = "; ".join(filled(REASONS[name].said, by_reason[name], found.clients[r]) for name in told)
    return f"{listed(chosen) if chosen else 'nobody'}; because {because}"


def sentences(record: Record) -> dict[str, str]:
    """By requester; nothing of a run that has not ranked."""
    if not is_ranking(record):
        return {}
    found = ranked(record)
    return {found.clients[r]: sentence(found, r) for r in found.requesters}


def alone(record: Record) -> dict[str, str]:
    """Those who train alone because nobody was worth it, and why."""
    if not is_ranking(record):
        return {}
    found = ranked(record)
    others = ~np.eye(len(found.clients), dtype=bool)
    return {
        found.clients[r]: sentence(found, r)
        for r in found.requesters
        if not (found.chosen[r] & others[r]).any()
    }


def alone_by_seed(runs: Sequence[Record]) -> dict[str, dict[int, str]]:
    """The same of several runs: by client, then by seed."""
    found: dict[str, dict[int, str]] = {}
    for record in runs:
        for name, said in alone(record).items():
            found.setdefault(name, {})[views.seed(record)] = said
    return found


def alone_lines(by_label: views.Groups) -> list[str]:
    """Who trains alone because nobody was worth it, in how many seeds, and why in the first of them."""
    lines = []
    for label, runs in by_label.items():
        for name, why in alone_by_seed(runs).items():
            seeds = f" in {len(why)} of {len(runs)} seeds (here: seed {min(why)})" if len(runs) > 1 else ""
            lines.append(f"{label}: {name} trains alone{seeds}: {why[min(why)]}")
    more = len(lines) - LINES
    return lines if more <= 0 else [*lines[:LINES], f"{more} more that train alone are not listed"]


def why_alone(runs: Sequence[Record], client: str) -> str:
    """Why a client trains alone, in short, from the reasons of all seeds in which it does."""
    names = set[str]()
    for record in runs:
        if client in alone(record):
            found = ranked(record)
            r = found.clients.index(client)
            names |= {reason(found, r, j) for j in found.order(r)}
    if names == {"few"}:
        return "too few rows to tell who is worth it for"
    return "nobody was worth it for" if names <= JUDGED else "nobody was chosen for"


def alone_in_short(by_label: views.Groups) -> list[str]:
    """A line for each method and kind of reason: who trains alone, and in how many seeds. A single run says
    why in full.
    """
    if all(len(runs) == 1 for runs in by_label.values()) and len(by_label) == 1:
        return alone_lines(by_label)
    lines = []
    for label, runs in by_label.items():
        by_reason: dict[str, list[str]] = {}
        for name, why in alone_by_seed(runs).items():
            said = f"{name} ({len(why)} of {len(runs)} seeds)" if len(runs) > 1 else name
            by_reason.setdefault(why_alone(runs, name), []).append(said)
        lines += [
            f"{label}: {because} {listed(who)}: alone then; the report says why"
            for because, who in by_reason.items()
        ]
    return lines
