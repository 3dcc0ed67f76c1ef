"""A plan in words that a person at the hospital can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coterie.core.errors import CoterieError, Refused, shown
from coterie.core.kernel import looks, makes, scores
from coterie.federation.effects import Effects, Load, check_effects, effects_of
from coterie.federation.plans import PLAIN, Plan, PlannedVisit, short
from coterie.federation.policy import check_visit
from coterie.federation.policy_keys import Policy
from coterie.kernels import kernel_of
from coterie.kernels.around import numbers_of

LONG = 200  # letters of a kernel
LONGEST = 1_000  # letters of a line
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


def plan_objections(plan: Plan, sizes: Mapping[str, int], policy: Policy) -> list[str]:
    """What the policy does not allow of what a plan's visits do here, and orders that no words say."""
    unknown = [order for order in plan.orders if order not in ORDERS and order not in PLAIN]
    lines = [f"{shown(order)} is no order that is known here: is it of another version?" for order in unknown]
    for visit in plan.visits:
        try:
            planned_effects(visit, sizes, plan, policy)
        except Refused as error:
            lines.append(f"{short(visit.kernel)[:LONG]}: {error}")
        except CoterieError:  # said when it is visited: fewer rows than a batch, say
            continue
    return lines


def plan_words(plan: Plan, lead: str, sizes: Mapping[str, int], policy: Policy) -> list[str]:
    """What a run will ask of a site with so many rows of each part, in a few lines."""
    lines = [f"plan {plan.digest(lead)} of {lead}: {one_line(plan)}"]
    lines += [f"· {visit_words(visit, sizes, plan, policy)}" for visit in plan.visits]
    moves = [ORDERS[order].format(lead=lead) for order in plan.orders if order in ORDERS]
    if plan.sealed:
        moves.append("models trained here go to helpers, sealed: sums of them are all that anybody sees")
    lines += [f"· {line}" for line in moves or ["no model trained here leaves"]]
    numbers = ", ".join(dict.fromkeys([*map(str, plan.reveals.get("numbers", ())), *numbers_in(plan)]))
    lines.append(f"· {lead} is told {numbers or 'no numbers'}, and scores of models")
    size = f"{plan.bytes:,} bytes of models at most in a message"
    lines.append(f"· {size}, {plan.seconds:g} s at most for an answer")
    return [line if len(line) <= LONGEST else f"{line[:LONGEST]} ..." for line in lines]


def numbers_in(plan: Plan) -> Iterator[str]:
    """What the kernels of its visits tell, whatever a plan says of itself."""
    for visit in plan.visits:
        kernel = kernel_of(visit.kernel)
        if looks(kernel):
            yield from kernel.sizes
        elif not scores(kernel) and not makes(kernel):
            yield from numbers_of(kernel)


def one_line(plan: Plan) -> str:
    wraps = f" with {', '.join(plan.wraps)}" if plan.wraps else ""
    model = f"{plan.begin.get('model')} of {plan.parameters:,} numbers"
    return f"{plan.method}{wraps}, {plan.rounds} round(s), {plan.sites} sites, {model}"


def visit_words(visit: PlannedVisit, sizes: Mapping[str, int], plan: Plan, policy: Policy) -> str:
    """sgd(lr=0.05): trains on 112 of 112 rows in 4 steps; 1 model(s) a visit, 1 a round"""
    ways = f", on rows chosen in {visit.dealings} ways" if visit.dealings > 1 else ""
    often = f"up to {visit.guests} model(s) a visit, {visit.a_round} a round"
    try:
        does = planned_effects(visit, sizes, plan, policy).words()
    except CoterieError as error:
        does = f"cannot be done here: {error}"
    return f"{short(visit.kernel)[:LONG]}: {does}{ways}; {often}"


def planned_effects(visit: PlannedVisit, sizes: Mapping[str, int], plan: Plan, policy: Policy) -> Effects:
    """What such a visit does here; refused if the policy does not allow it."""
    check_visit(policy, visit.kernel, 0)
    effects = effects_of(kernel_of(visit.kernel), sizes, Load(visit.guests, visit.guests, plan.parameters))
    check_effects(policy, effects)
    return effects
