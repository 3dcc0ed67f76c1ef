"""A plan in words that a person at the hospital can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.core.errors import CoterieError
from coterie.core.kernel import gradient_steps, kernel_of, looks, makes, scores
from coterie.core.seeds import Key
from coterie.federation.plans import Plan, PlannedVisit, short

MOST_COUNTED = 1_000_000  # steps of a visit up to which its plan is drawn to count them
LONG = 200  # letters of a kernel
ORDERS = {
    "give mix": "models trained here go to {lead}, to be mixed",
    "give open": "single models trained here go to {lead}, to be looked at",
    "give visit": "models trained here go through {lead} to other sites, to be tried",
    "give copy": "models trained here go to {lead}, to be kept",
    "give distances": "models trained here go to {lead}, to be compared",
    "letter mix": "models trained here go to other sites, to be mixed",
    "letter copy": "models trained here go to other sites, to be kept",
    "letter visit": "models trained here go to other sites, to be tried on their rows",
    "letter distances": "models trained here go to other sites, to be compared",
    "distances": "{lead} is told how far models are apart",
    "rows": "all rows go to {lead}",
}


def plan_words(plan: Plan, lead: str, sizes: Mapping[str, int]) -> list[str]:
    """What a run will ask of a site with so many rows of each part, in a few lines."""
    lines = [f"plan {plan.digest(lead)} of {lead}: {one_line(plan)}"]
    lines += [f"· {visit_words(visit, sizes)}" for visit in plan.visits]
    moves = [ORDERS[order].format(lead=lead) for order in plan.orders if order in ORDERS]
    if plan.sealed:
        moves.append("models trained here go to helpers, sealed: sums of them are all that anybody sees")
    lines += [f"· {line}" for line in moves or ["no model trained here leaves"]]
    numbers = ", ".join(str(name) for name in plan.reveals.get("numbers", ()))
    lines.append(f"· {lead} is told {numbers or 'no numbers'}, and scores of models")
    size = f"{plan.bytes:,} bytes of models at most in a message"
    lines.append(f"· {size}, {plan.seconds:g} s at most for an answer")
    return lines


def one_line(plan: Plan) -> str:
    wraps = f" with {', '.join(plan.wraps)}" if plan.wraps else ""
    model = f"{plan.begin.get('model')} of {plan.parameters:,} numbers"
    return f"{plan.method}{wraps}, {plan.rounds} round(s), {plan.sites} sites, {model}"


def visit_words(visit: PlannedVisit, sizes: Mapping[str, int]) -> str:
    """sgd(lr=0.05): trains on 112 of 112 rows in 4 steps; 1 model(s) a visit, 1 a round"""
    ways = f", on rows chosen in {visit.dealings} ways" if visit.dealings > 1 else ""
    often = f"up to {visit.guests} model(s) a visit, {visit.a_round} a round"
    return f"{short(visit.kernel)[:LONG]}: {touched(visit.kernel, sizes)}{ways}; {often}"


def touched(kernel: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
    """Which rows a kernel looks at, of those that the site has, and how often."""
    work: Any = kernel_of(kernel)
    train = sizes.get("train", 0)
    if makes(work):
        return "looks at no row"
    if looks(work):
        return f"tells of columns of {train} training rows"
    if scores(work):
        part = getattr(work, "part", None)
        inner = work
        while hasattr(inner, "inner"):
            inner = inner.inner
        folds = int(getattr(inner, "folds", 0))
        rows = sizes.get(part or "", 0)
        if part is None:
            return "looks at no row"
        return f"scores {rows // folds if folds > 1 else rows} of {rows} {part} rows"
    if large(kernel):
        return f"trains on up to {train} rows, in more steps than are counted here"
    try:
        chosen = work.plan(train, Key(0)).rows
        rows = len(set(chosen[chosen >= 0].tolist()))
        return f"trains on {rows} of {train} rows in {gradient_steps(work, train)} steps"
    except (CoterieError, RuntimeError, ValueError, OverflowError):
        return f"trains on up to {train} rows"


def large(kernel: Mapping[str, Any]) -> bool:
    """Whether the options of a kernel, or of one inside, may make more steps than one wants to draw."""
    total, left = 1.0, [kernel]
    while left:
        now = left.pop()
        total *= max([1.0, *(float(value) for value in now.values() if type(value) is int)])
        left += [value for value in now.values() if isinstance(value, Mapping)]
    return total > MOST_COUNTED
