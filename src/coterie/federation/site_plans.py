"""Plans at a site: each is verified, shown and written down, and a person may have to say yes before.

Plans that came are in plans.jsonl of the site's state folder, one line for each, in words; what people say of
them is in decisions.jsonl beside it (kind `plan`), by the digest that stands for what a plan asks:

    no                such a plan is refused, whatever the policy says
    yes, or nothing   it is taken, within the policy
    plans = "ask"     of the policy: without a yes it is refused, and waits for an answer

A file of decisions that is damaged is a no to all, until it is mended.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun, Refused
from coterie.federation.certificates import Card
from coterie.federation.plan_notes import PLANS
from coterie.federation.plan_words import LONGEST, one_line, plan_objections, plan_words
from coterie.federation.plans import PlanGuard, check_as_planned, verified_plan
from coterie.federation.policy_keys import Policy
from coterie.federation.state_folders import kin_of
from coterie.storage.atomic import read_lines, write_whole
from coterie.storage.decided import decided, now

BEGAN = "plan"  # in a run's folder: the plan that it began with
MOST = 200  # lines of plans.jsonl; older ones go
MOST_RUNS = 1000  # whose counts are remembered
SHORT = 12  # letters of a digest, in earlier versions


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
        plan = verified_plan(begin.get("plan"), lead, run)
        check_as_planned(plan, begin)
        digest = plan.digest(lead.name)
        guard = self.guards.get(run)
        before = began_with(home) if guard is None else guard.digest
        if before not in ("", digest):
            raise Refused(f"plan {digest} of a run that began with plan {before}: start it anew")
        words = plan_words(plan, lead.name, sizes, self.policy)
        called = f"plan {digest} of {lead.name} ({one_line(plan)})"
        why = "; ".join(plan_objections(plan, sizes, self.policy)) or self.objection(digest, called)
        self.note(digest, lead.name, run, why, words)
        for line in () if (run, digest) in self.shown else words:
            self.say(line)
        self.shown.add((run, digest))
        if why:
            raise Refused(why)
        if guard is None:
            guard = self.guards[run] = PlanGuard(plan, digest)
            while len(self.guards) > MOST_RUNS:
                self.guards.popitem(last=False)
        return guard

    def objection(self, digest: str, called: str) -> str:
        """Why a run of such a plan may not begin; nothing if it may."""
        try:
            lines = [line for line in decided(self.state) if line["kind"] == "plan"]
            others = [line for folder in kin_of(self.state) for line in decided(folder)]
            lines += [line for line in others if line["kind"] == "plan" and line.get("allow") is not True]
        except BadRun as error:
            return f"nobody knows what people at {self.site} decided: {error}"
        answers = {str(line.get("plan")): line for line in lines}
        said = answers.get(digest) or no_of_before(answers.get(digest[:SHORT]))
        if said is not None and said.get("allow") is not True:
            return f"{called}: a person at {self.site} said no ({said['by']}, {said['time']})"
        if said is None and self.policy.plans == "ask":
            how = f"on its page, or by coterie decide KIT --allow-plan {digest}"
            return f"{called}: nobody at {self.site} has said yes yet: a person there does so {how}"
        return ""

    def note(self, digest: str, lead: str, run: str, why: str, words: Sequence[str]) -> None:
        """One line for each plan, the last that came at the end."""
        lines = {line.get("plan"): line for line in read_lines(self.state / PLANS)}
        first = lines.pop(digest, {}).get("first", now())
        told = {
            "plan": digest,
            "lead": lead,
            "site": self.site,
            "run": run,
            "outcome": why[:LONGEST] or "begun",
        }
        lines[digest] = {**told, "first": first, "last": now(), "words": list(words)}
        kept = list(lines.values())[-MOST:]
        write_whole(self.state / PLANS, "".join(json.dumps(line) + "\n" for line in kept))


def no_of_before(line: dict[str, Any] | None) -> dict[str, Any] | None:
    """What was said by the short digest of earlier versions: a yes could be to another plan."""
    return None if line is None or line.get("allow") is True else line


def began_with(home: Path) -> str:
    """The digest of the plan with which a run began here, in this process or an earlier one."""
    path = home / BEGAN
    return path.read_text() if path.exists() else ""
