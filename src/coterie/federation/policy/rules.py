"""What a site takes part in: its own word, in a TOML file beside its rows, that nobody else can change.

A policy is asked three times. `objections` is for who starts a run: a site's hello has its policy (`told`),
so that a run that would be refused ends before it begins. `check_begin` is for the site, when a run begins:
the same objections, by the policy itself. `check_message` is for the site again, at every message of the run:
what it does not know is refused. Objections say what was asked, what the policy says and which key it is.

What a site can see, it holds to: what is done with its rows, what leaves it, to whom, how often. What others
do with what they got, it cannot see: `open` asks whether a method means to look at single models, and whoever
mixes them could look all the same. A site that must rule that out says `to_coordinator = false`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from coterie.core.errors import BadData, BadInput, Gathered, Refused, UnknownName, lines_of, shown
from coterie.core.kernel import KERNELS, looks, makes
from coterie.core.method import Reveals
from coterie.core.options import coerced
from coterie.federation.policy.keys import (
    ENTRIES,
    UNSEALED,
    Policy,
    Work,
    above,
    not_listed,
    objections,
    tells_sums,
)
from coterie.federation.site.consent import TRIED
from coterie.kernels import Moments, Quantiles
from coterie.nets.offers import ALONE, Limits
from coterie.storage.paths import read_given_toml

_SKETCHES = frozenset({*Quantiles().sizes, *Moments().sizes})  # numbers that tell of columns
# what these make stays at the site
STAYS = frozenset({"mix", "copy", "take", "keep", "store", "fetch", "unseal", "offer"})


def read_policy(path: str | Path | None) -> Policy:
    """The file's, or the usual one without a file; all that is wrong with it is said at once."""
    if path is None:
        return Policy()
    return policy_of(read_given_toml(path), str(path))


def policy_of(table: Mapping[str, Any], where: str = "policy") -> Policy:
    """From a table; a name that this Coterie does not have is refused too, so that no typing error stays."""
    values, wrong = dict[str, Any](), Gathered()
    for key, value in table.items():
        with wrong.one():
            values |= coerced(Policy, {key: value}, where)
    for key, entry in ENTRIES.items():
        if entry.known is None:
            continue
        for name in values.get(key) or ():
            if name not in entry.known:
                wrong.add(f"{where}: {UnknownName(key[:-1], name, entry.known)}")
    try:
        policy = Policy(**values)
    except BadInput as error:
        for line in lines_of(error):
            wrong.add(f"{where}: {line}")
    wrong.refuse()
    return policy


def to_dict(record: Policy | Work) -> dict[str, Any]:
    """As JSON holds it: a policy for a site's hello, the work of a run for `check_begin`."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(record).items()}


def policy_from(table: Mapping[str, Any]) -> Policy:
    """What another site told. A key of a later version is passed over: that site refuses by itself."""
    known = {f.name for f in fields(Policy)}
    try:
        return Policy(**coerced(Policy, {k: v for k, v in table.items() if k in known}, "policy"))
    except BadInput as error:
        raise BadData(f"a site's policy cannot be read: {'; '.join(lines_of(error))}") from None


def work_for(
    reveals: Reveals,
    kernels: Iterable[str | Mapping[str, Any]],
    model: str,
    rounds: int,
    sites: int,
    **more: Any,
) -> Work:
    names = tuple(dict.fromkeys(n for k in kernels for n in ([k] if isinstance(k, str) else names_in(k))))
    shows = {"coordinator": reveals.coordinator, "opened": reveals.opened, "peers": reveals.sites}
    shows["distances"] = "distances" in reveals.numbers or "slopes" in names
    more["sums"] = bool(more.get("sums")) or not _SKETCHES.isdisjoint(reveals.numbers)
    return Work(model, kernels=names, rounds=rounds, sites=sites, rows=reveals.rows, **shows, **more)


def check_begin(policy: Policy, asked: Mapping[str, Any], requester: str, today: int = 0) -> None:
    """A run begins, asked for by this person; `today` runs began here within 24 hours. What it says of itself
    must have every key, so that nothing is left open by leaving it out.
    """
    needed = [f.name for f in fields(Work)]
    missing = [name for name in needed if name not in asked]
    if missing:
        raise Refused(f"a run must say {', '.join(missing)} before it begins: is it of another version?")
    try:
        work = Work(**coerced(Work, {name: asked[name] for name in needed}, "a run"))
    except BadInput as error:
        raise Refused("; ".join(lines_of(error))) from None
    lines = objections(policy, work, requester)
    if today >= policy.runs_a_day:
        lines.append(f"{today} runs began within 24 hours, all that runs_a_day allows: wait, or raise it")
    refuse("; ".join(lines))


def check_message(
    policy: Policy, message: Mapping[str, Any], size: int, visits: int = 0, foreign: Collection[int] = ()
) -> int:
    """Any message that a site may be asked to act on (`nets/site.py`), of `size` bytes.

    `visits` is how many models the run has tried here so far; how many it has after this one is returned.
    `foreign` are ids of what came from other sites and is as it came (`site/model_origins.py`).
    """
    check_size(policy, size)
    what: Any = message.get("do") if isinstance(message, Mapping) else message
    try:
        if (rule := _RULES.get(what)) is None:
            raise Refused(f"{shown(what)} is nothing that a site can be asked: is it of another version?")
        return visits + (rule(policy, message, visits, foreign) or 0)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        raise Refused(f"a message {shown(what)} that lacks something: is it of another version?") from None


def _rule_of_visits(policy: Policy, message: Mapping[str, Any], visits: int, foreign: Collection[int]) -> int:
    rows = [*message["beliefs"], *(row for some in message["beside"].values() for row in some)]
    tried, round = len(message["rows"]), int(message["key"]["round"])
    check_visit(policy, message["kernel"], visits, tried, round, _any_part_of(rows, foreign))
    return tried


def _rule_of_models(
    policy: Policy, message: Mapping[str, Any], visits: int, foreign: Collection[int]
) -> None:
    """Models leave; a letter to nobody goes to who asks for it. Those of other sites are theirs to give."""
    if policy.sealed:
        raise Refused(f"{UNSEALED}: run with --wrap sealed, or set sealed = false")
    if message["do"] == "letter" and message.get("to") is not None:
        check_may(policy, "to_peers")
        return
    came = _any_part_of(message["rows"], foreign)
    check_may(policy, "open" if message.get("why") == "open" else "to_coordinator")
    if came:
        raise Refused("a model that came from another site is not given away: ask that site for it")


_RULES: dict[str, Callable[[Policy, Mapping[str, Any], int, Collection[int]], int | None]] = {
    "begin": lambda policy, message, *_: check_model(policy, message["model"]),
    "visit": _rule_of_visits,
    "letter": _rule_of_models,
    "give": _rule_of_models,
    "rows": lambda policy, *_: check_may(policy, "rows"),
    "distances": lambda policy, *_: check_may(policy, "distances"),
    **dict.fromkeys(("seal", *STAYS), lambda *_: None),
}
"""What a policy has to say to each message, and how many models the message tries here."""


def objection_to(limits: Limits, told: Mapping[str, Any]) -> str:
    """Why a site withdraws from a sum with these figures; nothing if it stays."""
    share, others, leverage = told["share"], told["others"], told["leverage"]
    shares = all(type(x) in (int, float) and 0 <= x <= 1 + 1e-6 for x in (share, leverage))
    if not shares or type(others) is not int or others < 0:
        raise Refused(f"an offer of {shown(dict(told))}, which is none: is it of another version?")
    return limits.objection(float(share), others, float(leverage))


def check_promised(
    limits: Limits, promised: Collection[tuple[str, int]], to: str, rows: Sequence[Any], why: Any
) -> None:
    """Models of ours leave for a sum only if the site has been offered that sum, and stays in it.

    What is to be tried or measured elsewhere is another matter: `to_peers` and `distances` rule it out. Who
    asks may say that it is for that, and sum it all the same: a site cannot see it.
    """
    if not limits or why in TRIED:
        return
    whom = shown(to)[1:-1] or "who leads the run"
    if why == "copy" and (objection := limits.objection(*ALONE)):
        raise Refused(f"a whole model for {whom} to keep ({objection}): choose a method that mixes")
    if why != "copy" and not all((to, part[0]) in promised for row in rows for part in row):
        what = f"a model for a sum of {whom} that this site was not offered, or withdrew from"
        raise Refused(f"{what}: ask it before, and mix without it")


def check_rows(policy: Policy, sizes: Mapping[str, int]) -> None:
    """Rows of each part: figures of a few rows would tell them."""
    for part, many in sizes.items():
        if 0 < many < policy.min_rows:
            few = f"{many} rows for {part}, below the policy's {policy.min_rows}"
            raise Refused(f"{few}: take other shares, or lower min_rows")


def check_deals(policy: Policy, today: int, checks: bool = False) -> None:
    """One more way to set rows aside, or one more check of the data, after so many within a day."""
    line, remedy = f"rows were set aside in {today} ways", "take one --deal for all seeds, wait, or raise it"
    if checks:
        line, remedy = f"the data were checked {today} times", "wait, or raise it"
    if today >= policy.deals_a_day:
        raise Refused(f"{line} within 24 hours, all that deals_a_day allows: {remedy}")


def check_size(policy: Policy, size: int) -> None:
    """Any message, of a lead or of another site."""
    refuse(above(size, "bytes in a message", policy.max_bytes, "max_bytes"))


def check_model(policy: Policy, name: str, parameters: int = 0) -> None:
    """A model by name, and by its numbers as the site counts them, best before they take up memory."""
    refuse(not_listed("model", name, policy.models))
    refuse(above(parameters, "parameters", policy.max_parameters, "max_parameters"))


def check_visit(
    policy: Policy,
    kernel: Mapping[str, Any],
    visits: int,
    tried: int = 1,
    round: int = 0,
    foreign: bool = False,
) -> None:
    """A kernel told as data, for `tried` models, after so many visits of the run; `foreign` says that a model
    among them is as it came from another site.
    """
    names = names_in(kernel)
    for name in names:
        if name not in KERNELS:
            raise Refused(str(UnknownName("kernel", name, KERNELS)))
        refuse(not_listed("kernel", name, policy.kernels))
    refuse(above(visits + tried, "models tried here in a run", policy.max_visits, "max_visits"))
    refuse(above(round, "rounds", policy.max_rounds, "max_rounds"))
    if looks(KERNELS[names[0]]):
        check_may(policy, "sums")
        # figures of a class of few rows would tell them; how few, whoever leads the run may ask for less
        least = kernel.get("least", policy.min_rows)
        if least < policy.min_rows:
            few = f"classes of {shown(least)} rows would be told of, below the policy's {policy.min_rows}"
            raise Refused(f"{few}: run with --similar.least {policy.min_rows}, or lower min_rows")
    if not policy.sealed and tells_sums(names):
        check_may(policy, "sums")
    if "slopes" in names:  # towards chosen models they tell the one that visits, as distances do
        check_may(policy, "distances")
    sees = not makes(KERNELS[names[0]])  # a maker looks at no row
    if foreign and sees and policy.scores == "own":
        line = "a model of another site would be tried on our rows, where the policy's scores are own"
        raise Refused(f'{line}: choose another method, or set scores = "all"')


def check_may(policy: Policy, key: str) -> None:
    """Whatever `MAY` lists, by its key."""
    refuse(policy.rules_out(key))


def refuse(line: str) -> None:
    if line:
        raise Refused(line)


def names_in(kernel: Mapping[str, Any]) -> list[str]:
    """The names of a kernel told as data and of all kernels inside of it, the outermost first."""
    names, left = list[str](), [kernel]
    while left:
        now = left.pop()
        names.append(str(now.get("name", "")))
        left += [value for value in now.values() if isinstance(value, Mapping)]
    return names


def _any_part_of(rows: Sequence[Any], ids: Collection[int]) -> bool:
    """Whether any of these beliefs, each in parts [id, names], has a part with one of these ids."""
    return any(part[0] in ids for row in rows for part in row)
