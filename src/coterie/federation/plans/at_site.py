"""Plans at a site: each is verified, shown and written down, and a person may have to say yes before.

Plans that came are in plans.jsonl of the site's state folder, one line for each, in words; what people say of
them is in decisions.jsonl beside it (kind `plan`), by the digest that stands for what a plan asks:

    no                such a plan is refused, whatever the policy says
    yes, or nothing   it is taken, within the policy
    plans = "ask"     of the policy: without a yes it is refused, and waits for an answer

A file of decisions that is damaged is a no to all, until it is mended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun, CoterieError, Refused, shown
from coterie.core.kernel import looks, makes, scores
from coterie.federation.kits.certificates import Card
from coterie.federation.plans.plan import (
    PLAIN,
    Plan,
    PlanGuard,
    PlannedVisit,
)
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import check_visit
from coterie.federation.site.bounds import Effects
from coterie.federation.site.consent import PLANS, answers_of, note_last
from coterie.federation.site.state_folders import BEGAN
from coterie.kernels import kernel_of
from coterie.kernels.around import numbers_of

_MOST = 200  # lines of plans.jsonl; older ones go
_MOST_RUNS = 1000  # whose counts are remembered
_SHORT = 12  # letters of a digest, in earlier versions
_LONG = 200  # letters of a kernel
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


class SitePlans:
    """Of one site, with its policy."""

    def __init__(self, state: Path, site: str, policy: Policy, say: Callable[[str], None]) -> None:
        self.state, self.site, self.policy, self.say = state, site, policy, say
        self.guards: OrderedDict[str, PlanGuard] = OrderedDict()
        self.shown: set[tuple[str, str]] = set()  # (run, digest) of plans that people here have been told

    def admit(
        self, begin: Mapping[str, Any], lead: Card, run: str, home: Path, sizes: Mapping[str, int]
    ) -> PlanGuard:
        """The guard of a run that may begin; else Refused. People here are told its plan, once. A run has one
        plan, and its guard goes on counting when the run goes on.
        """
        plan = Plan.verified(begin.get("plan"), lead, run)
        plan.check_begin(begin)
        digest, guard, began = plan.digest(lead.name), self.guards.get(run), home / BEGAN
        before = guard.digest if guard is not None else began.read_text() if began.exists() else ""
        if before not in ("", digest):
            raise Refused(f"plan {digest} of a run that began with plan {before}: start it anew")
        words = plan_words(plan, lead.name, sizes, self.policy)
        called = f"plan {digest} of {lead.name} ({_one_line(plan)})"
        why = "; ".join(plan_objections(plan, sizes, self.policy)) or self.objection(digest, called)
        noted: dict[str, Any] = {"plan": digest, "lead": lead.name, "site": self.site, "run": run}
        noted |= {"outcome": why[:LONGEST] or "begun", "words": words}
        note_last(self.state / PLANS, ("plan",), [noted], _MOST)
        for line in () if (run, digest) in self.shown else words:
            self.say(line)
        self.shown.add((run, digest))
        if why:
            raise Refused(why)
        if guard is None:
            guard = self.guards[run] = PlanGuard(plan, digest)
            while len(self.guards) > _MOST_RUNS:
                self.guards.popitem(last=False)
        return guard

    def objection(self, digest: str, called: str) -> str:
        """Why a run of such a plan may not begin; nothing if it may."""
        try:
            mine, noes = answers_of(self.state, "plan")
        except BadRun as error:
            return f"nobody knows what people at {self.site} decided: {error}"
        answers = {str(line.get("plan")): line for line in [*mine, *noes]}
        before = answers.get(digest[:_SHORT])  # of which a yes could be to another plan
        answer = answers.get(digest) or (None if before and before.get("allow") is True else before)
        if answer is not None and answer.get("allow") is not True:
            return f"{called}: a person at {self.site} said no ({answer['by']}, {answer['time']})"
        if answer is None and self.policy.plans == "ask":
            how = f"on its page, or by coterie decide KIT --allow-plan {digest}"
            return f"{called}: nobody at {self.site} has said yes yet: a person there does so {how}"
        return ""


# in words that a person at the hospital can read


def plan_objections(plan: Plan, sizes: Mapping[str, int], policy: Policy) -> list[str]:
    """What the policy does not allow of what a plan's visits do here, and orders that no words say."""
    unknown = [order for order in plan.orders if order not in ORDERS and order not in PLAIN]
    lines = [f"{shown(order)} is no order that is known here: is it of another version?" for order in unknown]
    for visit in plan.visits:
        try:
            _planned_effects(visit, sizes, plan, policy)
        except Refused as error:
            lines.append(f"{visit.words[:_LONG]}: {error}")
        except CoterieError:  # said when it is visited: fewer rows than a batch, say
            continue
    return lines


def plan_words(plan: Plan, lead: str, sizes: Mapping[str, int], policy: Policy) -> list[str]:
    """What a run will ask of a site with so many rows of each part, in a few lines."""
    lines = [f"plan {plan.digest(lead)} of {lead}: {_one_line(plan)}"]
    # sgd(lr=0.05): trains on 112 of 112 rows in 4 steps; 1 model(s) a visit, 1 a round
    for visit in plan.visits:
        ways = f", on rows chosen in {visit.dealings} ways" if visit.dealings > 1 else ""
        often = f"up to {visit.guests} model(s) a visit, {visit.a_round} a round"
        try:
            does = _planned_effects(visit, sizes, plan, policy).words()
        except CoterieError as error:
            does = f"cannot be done here: {error}"
        lines.append(f"· {visit.words[:_LONG]}: {does}{ways}; {often}")
    moves = [ORDERS[order].format(lead=lead) for order in plan.orders if order in ORDERS]
    if plan.sealed:
        moves.append("models trained here go to helpers, sealed: sums of them are all that anybody sees")
    lines += [f"· {line}" for line in moves or ["no model trained here leaves"]]
    told = [*map(str, plan.reveals.get("numbers", ()))]
    for kernel in (kernel_of(visit.kernel) for visit in plan.visits):  # whatever a plan says of itself
        if looks(kernel):
            told += kernel.sizes
        elif not scores(kernel) and not makes(kernel):
            told += numbers_of(kernel)
    numbers = ", ".join(dict.fromkeys(told))
    lines.append(f"· {lead} is told {numbers or 'no numbers'}, and scores of models")
    size = f"{plan.bytes:,} bytes of models at most in a message"
    lines.append(f"· {size}, {plan.seconds:g} s at most for an answer")
    return [line if len(line) <= LONGEST else f"{line[:LONGEST]} ..." for line in lines]


def _one_line(plan: Plan) -> str:
    wraps = f" with {', '.join(plan.wraps)}" if plan.wraps else ""
    model = f"{plan.begin.get('model')} of {plan.parameters:,} numbers"
    return f"{plan.method}{wraps}, {plan.rounds} round(s), {plan.sites} sites, {model}"


def _planned_effects(visit: PlannedVisit, sizes: Mapping[str, int], plan: Plan, policy: Policy) -> Effects:
    """What such a visit does here; refused if the policy does not allow it."""
    check_visit(policy, visit.kernel, 0)
    effects = Effects.of_visit(kernel_of(visit.kernel), sizes, visit.guests, visit.guests, plan.parameters)
    effects.check(policy)
    return effects
