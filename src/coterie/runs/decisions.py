"""What a client's people decided of a run, read from the lines in which it is kept (`storage/decided.py`).

    kind        has                 what it says
    partner     name, in            whether a partner takes part at all
    column      name, rule          require, forbid or free
    threshold   class, at           from which probability on a class is said
    circle      among, approved     the only others that may be in one's sums
    veto        requester, allow    whether one's own models may be in the sums of that one
    plan        plan, allow         whether a site of a federation takes part in runs of that plan
    again       out                 a run was started again with what was decided so far

Of several lines about the same the last counts. `deciding.py` writes them; what a new run makes of them is in
`judged.py`, what a site of a federation makes of vetoes in `federation/consent.py` and of plans in
`federation/site_plans.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.core.errors import BadInput, BadRun, shown

KINDS: dict[str, dict[str, type]] = {
    "partner": {"name": str, "in": bool},
    "column": {"name": str, "rule": str},
    "threshold": {"class": str, "at": float},
    "circle": {"among": list, "approved": bool},
    "veto": {"requester": str, "allow": bool},
    "plan": {"plan": str, "allow": bool},
    "again": {"out": str},
}
"""What each has beside who decided, for which client and when."""
RULES = ("require", "forbid", "free")
WORDS = {str: "a text", bool: "true or false", float: "a number", list: "a list of names"}


@dataclass(frozen=True)
class Decisions:
    """All that one client has decided so far.

    left_out, taken_in      partners, as last decided
    require, forbid, free   columns, likewise
    cut                     a class, from which probability on it is said, and who decided so
    circle                  the others that were approved; None: no circle is
    vetoed, allowed         requesters
    refused, taken          plans of runs
    """

    client: str
    left_out: tuple[str, ...] = ()
    taken_in: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    cut: tuple[str, float, str] | None = None
    circle: tuple[str, ...] | None = None
    vetoed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """In plain English, for the record."""
        me = self.client
        said = [f"{me} leaves {name} out" for name in self.left_out]
        said += [f"{me} takes {name} in" for name in self.taken_in]
        said += [f"{me} requires column {name}" for name in self.require]
        said += [f"{me} forbids column {name}" for name in self.forbid]
        said += [f"{me} leaves column {name} free" for name in self.free]
        if self.circle is not None:
            said.append(f"{me} approves a circle of {listed(self.circle)}")
        if self.cut is not None:
            said.append(f"{me} says {self.cut[0]} from a probability of {self.cut[1]:g} on")
        said += [f"{me} is in no circle of {name}" for name in self.vetoed]
        said += [f"{me} may be in a circle of {name}" for name in self.allowed]
        said += [f"{me} takes no run of plan {plan}" for plan in self.refused]
        said += [f"{me} takes runs of plan {plan}" for plan in self.taken]
        return said


def listed(names: Sequence[str]) -> str:
    """a, b and c; or nobody"""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "nobody"


def check_fields(kind: str, told: Mapping[str, Any]) -> None:
    """Whether a decision has what its kind has, of the right types."""
    if told.keys() != KINDS[kind].keys():
        raise BadInput(f"a {kind} has {listed(list(KINDS[kind]))}; got {listed(list(told))}")
    for name, value in told.items():
        wanted = KINDS[kind][name]
        fits = type(value) is wanted or (wanted is float and type(value) is int)
        if not fits or (wanted is list and not all(isinstance(one, str) for one in value)):
            raise BadInput(f"{name} of a {kind} must be {WORDS[wanted]}; got {shown(value)}")


def folded(lines: Sequence[Mapping[str, Any]], client: str) -> Decisions:
    """The last word on each partner, column and requester, and on the rest."""
    last: dict[tuple[str, str], Any] = {}
    for line in lines:
        if line["client"] != client:
            continue
        kind = str(line["kind"])
        try:
            check_fields(kind, {name: line[name] for name in KINDS[kind]})
        except (BadInput, KeyError):
            raise BadRun(
                f"{shown(dict(line))} is no decision: mend or delete that line, or take the version of "
                "Coterie that wrote it"
            ) from None
        if kind in LAST:
            about, value = LAST[kind](line)
            last[kind, about] = value

    def those(kind: str, value: Any) -> tuple[str, ...]:
        return tuple(name for (about, name), said in last.items() if about == kind and said == value)

    require, forbid, free = (those("column", rule) for rule in RULES)
    return Decisions(
        client,
        those("partner", False),
        those("partner", True),
        require,
        forbid,
        free,
        last.get(("threshold", "")),
        last.get(("circle", "")),
        those("veto", False),
        those("veto", True),
        those("plan", False),
        those("plan", True),
    )


LAST: dict[str, Callable[[Mapping[str, Any]], tuple[str, Any]]] = {
    "partner": lambda line: (line["name"], line["in"]),
    "column": lambda line: (line["name"], line["rule"]),
    "threshold": lambda line: ("", (line["class"], float(line["at"]), line["by"])),
    "circle": lambda line: ("", tuple(line["among"])),
    "veto": lambda line: (line["requester"], line["allow"]),
    "plan": lambda line: (line["plan"], line["allow"]),
}
"""What a line is about, and what it says of it."""
