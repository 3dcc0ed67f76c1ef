"""The sites of a federation as a run meets them: who is there, what they have, how their rows become inputs.

Numbers of sites are places in the roster. A site that is named but not there yet is in it without rows; it
comes in when it connects (`net.py`), fitted by what those told who began.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coterie.core.errors import BadData, BadInput, BadRun, CoterieError, Gone, Refused, Several, shown
from coterie.core.roster import Member, Roster
from coterie.core.wire import pack, unpack
from coterie.data.forbidden import forbidden_note
from coterie.federation.data import agreement
from coterie.federation.data.messages import COUNT, Common, Facts, Hello
from coterie.federation.kits.kit import read_kit
from coterie.federation.messages import SCHEMA, printable
from coterie.federation.policy.rules import policy_from
from coterie.federation.transport.post import Missing, Post
from coterie.nets.ground import Rule
from coterie.nets.site import ERRORS

log = logging.getLogger("coterie")

TICK = 0.05
HELLO = 60.0  # seconds that a site may take to look at its rows
LONGEST = 3  # 8 rounds for which a site is left out

Told = dict[str, Any]


class Lines:
    """A person's line to the relay, one for this process, and questions to sites in plain JSON."""

    def __init__(self, kit: Path, say: Callable[[str], None]) -> None:
        self.kit = read_kit(kit)
        if self.kit.role != "lead":
            raise BadInput(
                f"{kit} is the kit of {self.kit.name}, a {self.kit.role}; runs are led by a lead: give "
                "--federation.kit DIR/people/lead"
            )
        self.post = Post(self.kit, say=say)
        self.post.start()

    def there(self) -> dict[str, str]:
        """Sites that are connected, each with what tells its process from a later one."""
        members = self.post.members().items()
        return {name: m.boot for name, m in members if m.card.role == "site"}

    def ask(
        self, messages: Mapping[str, Told], deadline: float = HELLO, patience: float = 10.0
    ) -> tuple[dict[str, Told], dict[str, CoterieError]]:
        """Answers by site, and why there is none; a refusal is no answer."""
        packed = {name: pack({**message, "schema": SCHEMA}, {}) for name, message in messages.items()}
        answers, failed = dict[str, Told](), dict[str, CoterieError]()
        for name, data in self.post.ask(packed, deadline, patience).items():
            try:
                if isinstance(data, Missing):
                    raise Gone({name: data.text})
                answers[name] = plain_answer(data)
            except CoterieError as error:
                failed[name] = error
        return answers, failed


def plain_answer(data: bytes) -> Told:
    answer, _ = unpack(data)
    if not isinstance(answer, dict):
        raise BadData("an answer that is no table: is it of another version?")
    if "error" in answer:
        raise ERRORS.get(str(answer["error"]), BadRun)(printable(answer.get("text", ""), 2000))
    return answer


OPEN: dict[Path, Lines] = {}
_lock = threading.Lock()


def lines_of_kit(kit: str, say: Callable[[str], None]) -> Lines:
    """One line for all runs of this process."""
    path = Path(kit).resolve()
    with _lock:
        if path not in OPEN:
            OPEN[path] = Lines(path, say)
        return OPEN[path]


def hang_up() -> None:
    """Ends all lines of this process."""
    with _lock:
        while OPEN:
            OPEN.popitem()[1].post.close()


@dataclass(eq=False)
class Met:
    """Sites that have met, by their numbers in the roster.

    agreed        how columns become inputs: gaps, and what follows from everybody's sums (`data/messages.py`)
    sums          whether sites had to tell sums of their columns for that
    digests       {site: of its rows}, so that a site that comes back has the same
    boots         {site: the process that has made inputs of them}
    fold          of a tuning's trial: which rows are left out
    members       {site: what it says of its rows}, also of latecomers, whose digests are apart
    """

    lines: Lines
    rule: Rule
    common: Told
    roster: Roster
    notes: tuple[str, ...]
    policies: dict[str, Told]
    agreed: Told
    sums: bool
    digests: dict[str, str] = field(default_factory=dict)
    boots: dict[str, str] = field(default_factory=dict)
    fold: Told | None = None
    members: dict[str, Member] = field(default_factory=dict)
    latecomers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members = {m.name: m for m in self.roster.members if m.train} | self.members

    def to_dict(self) -> Told:
        """What a run that goes on later must find again."""
        return {"common": self.common, "agreed": self.agreed, "digests": self.digests}

    def as_it_was(self, told: Told) -> Met:
        """As when the run began: sites make inputs of their rows by what was agreed on then."""
        return replace(self, **told, boots={})

    def without(self, folds: int, fold: int, seed: int) -> Met:
        """The same sites, each without one of so many folds of its training rows, and tested on that; without
        a fold already, they leave one of what that left.
        """
        told: Told = {"folds": folds, "fold": fold, "seed": seed}
        told |= {} if self.fold is None else {"within": self.fold}
        names = [m.name for m in self.roster.members if m.train]
        ask = {"do": "fold", "ground": self.rule.ground, "fold": told}
        sizes = _every(self.lines, dict.fromkeys(names, ask))
        members = tuple(_resized(m, sizes[m.name]) if m.train else m for m in self.roster.members)
        return replace(self, roster=replace(self.roster, members=members), fold=told, members={})

    def enter(self, number: int, boot: str) -> Member:
        """A site that begins, or comes back: its rows become inputs as those of all; what it says of them.

        A process that has done so already need not do it again.
        """
        name = self.roster.names[number]
        if self.boots.get(name) == boot:
            return self.members[name]
        hello = self._one(name, {"do": "hello"})
        mine = Hello.of(hello.get("hello"), name).without(self.rule.forbid)
        if lacks := mine.unrecorded(self.rule.require):
            raise Refused(f"site {name!r}: {lacks}")
        if differs := agreement.differences(mine.common, mine.absent, Common.of(self.common)):
            raise Refused(f"site {name!r}: {'; '.join(differs[:20])}: change its recipe")
        known = self.digests if name in self.digests else self.latecomers
        if known.setdefault(name, mine.digest) != mine.digest:
            raise Refused(f"site {name!r} has other rows than when the run began: start the run anew")
        self.policies[name] = _policy_in(hello, name)
        self._one(name, deal_message(self.rule, self.common, number))
        late = name not in self.digests
        facts = self._one(name, {"do": "fit", "ground": self.rule.ground, **self.agreed, "late": late})
        member = Facts.of(facts, name).member(name, self.roster.outputs)
        if self.fold is not None:
            ask = {"do": "fold", "ground": self.rule.ground, "fold": self.fold}
            member = _resized(member, self._one(name, ask))
        self.boots[name], self.members[name] = boot, member
        return member

    def _one(self, name: str, message: Told) -> Told:
        answers, failed = self.lines.ask({name: message})
        if failed:
            raise failed[name]
        return answers[name]


def _resized(member: Member, told: Told) -> Member:
    """With the rows that a fold leaves it."""
    parts: dict[str, Any] = {part: told.get(part) for part in ("train", "validation", "test")}
    if not all(map(COUNT.fits, parts.values())):
        why = f"a fold of {shown(list(parts.values()))} rows"
        raise BadData(f"site {member.name}: {why}: is it of another version?")
    return replace(member, labels=None, **parts)


def _policy_in(hello: Told, name: str) -> Told:
    """What a site says that it takes part in; one that says nothing has the usual policy."""
    policy = hello.get("policy") or {}
    if not isinstance(policy, Mapping):
        raise BadData(f"site {name}: its policy is {shown(policy)}, no table: is it of another version?")
    try:
        policy_from(policy)
    except BadData as error:
        raise BadData(f"site {name}: {error}") from None
    return dict(policy)


def deal_message(rule: Rule, common: Told, number: int) -> Told:
    told: Told = {"do": "deal", "ground": rule.ground, "common": common, "number": number}
    told |= {what: getattr(rule, what) for what in ("test", "validation", "deal", "one_class")}
    return told | ({"forbid": list(rule.forbid)} if rule.forbid else {})


def meet(
    lines: Lines, rule: Rule, names: Sequence[str], least: int, wait: float, say: Callable[[str], None]
) -> Met:
    """Sites say hello, are matched by name, set rows aside and make inputs of them.

    Named sites are waited for, and have the numbers in which they are named, so that a run that goes on
    without some of them has the same; without names, those who are there take part.
    """
    there = gathered(lines, names, least, wait, say)
    boots = lines.there()
    hellos, failed = lines.ask({name: {"do": "hello"} for name in there})
    if failed and not hellos:
        raise Several([_trouble_of(name, error) for name, error in failed.items()])
    said_of_rows = {name: told.get("hello") for name, told in hellos.items()}
    found = agreement.match(said_of_rows, rule.forbid, rule.require)
    gone = {n: _trouble_of(n, error) for n, error in failed.items() if isinstance(error, Gone)}
    refused = {n: f"site {n}: {error}" for n, error in failed.items() if n not in gone} | dict(found.refused)
    # sites that do not fit hear why; those that were asked for by name end the run before it begins
    lines.ask({name: {"do": "left-out", "why": why} for name, why in refused.items()})
    if named := [why for name, why in refused.items() if name in names]:
        raise Several(named)
    for why in refused.values():
        say(f"{why}; it is left out of the run")
    if rule.require and len(found.sites) < least:
        raise BadRun(
            f"{len(found.sites)} site(s) record {', '.join(rule.require)}, {least} are needed: require less, "
            "or lower --federation.least"
        )
    order = [n for n in names if n not in refused] if names else list(found.sites)
    place = {name: i for i, name in enumerate(order)}
    common = found.common.to_dict()
    dealt = _every(lines, {n: deal_message(rule, common, place[n]) for n in found.sites})
    agreed, tells = dict[str, Any](gaps={}, agreed=[]), False
    if found.common.columns:  # what sites need to make inputs of these; nobody else gets the sums
        lacks = [dealt[n].get("lacks") for n in found.sites]
        agreed["gaps"] = found.common.gaps(lacks)
        ask = {"do": "sums", "ground": rule.ground, "gaps": agreed["gaps"]}
        told = _every(lines, dict.fromkeys(found.sites, ask))
        agreed["agreed"], tells = found.common.agreed(lacks, [told[n].get("sums") for n in found.sites])
    fit = {"do": "fit", "ground": rule.ground, **agreed, "late": False}
    fits = _every(lines, dict.fromkeys(found.sites, fit))
    roster = found.roster(fits)
    known = {m.name: replace(m, digest="") for m in roster.members}  # who is not there yet has no rows
    roster = replace(roster, members=tuple(known.get(n) or Member(n, 0, 0, 0) for n in order))
    late = [n for n in order if n not in found.sites]
    said = [*refused.values(), *(why for n, why in gone.items() if n not in late)]
    said = [*map(forbidden_note, dict.fromkeys(rule.forbid)), *said]
    not_yet = {n: gone.get(n, f"site {n} is not there yet") for n in late}
    for why in gone.values():
        say(f"{why}; the run begins without it")
    notes = (*said, *(f"{why}: it joins when it comes" for why in not_yet.values()))
    policies = {n: _policy_in(hellos[n], n) for n in found.sites}
    digests = {n: found.hellos[n].digest for n in found.sites}
    boots = {n: boots[n] for n in found.sites if n in boots}
    return Met(lines, rule, common, roster, notes, policies, agreed, tells, digests, boots)


def gathered(
    lines: Lines, names: Sequence[str], least: int, wait: float, say: Callable[[str], None]
) -> list[str]:
    """Those who are there: all that are named, or as many as are needed, within so many seconds."""
    if names and len(names) < least:
        raise BadInput(
            f"{len(names)} site(s) named ({', '.join(names)}), at least {least} are needed: name more, or "
            "lower --federation.least"
        )
    end, said = time.monotonic() + wait, ""
    while True:
        there = lines.there()
        here = [n for n in (names or there) if n in there]
        missing = [n for n in names if n not in there]
        if not missing and len(here) >= least:
            return here
        if time.monotonic() > end:
            break
        text = f"waiting for {', '.join(missing)}"
        text = text if missing else f"{len(here)} of at least {least} sites are there"
        if text != said:
            say(text)
            said = text
        time.sleep(TICK)
    if len(here) < least:
        named = f" of {', '.join(names)}" if names else ""
        raise BadRun(
            f"{len(here)} site(s){named} are there, {least} are needed; connected are "
            f"{', '.join(there) or 'none'}: start coterie site at others, or lower --federation.least"
        )
    return here


def _every(lines: Lines, messages: Mapping[str, Told]) -> dict[str, Told]:
    """All of them are needed: before a run begins, a site that goes or refuses is said and nothing runs."""
    answers, failed = lines.ask(messages)
    if failed:
        raise Several([_trouble_of(name, error) for name, error in failed.items()])
    return answers


def _trouble_of(name: str, error: CoterieError) -> str:
    """In one line; who is connected and does not answer is not away."""
    return f"site {name}: {error.why.get(name, error) if isinstance(error, Gone) else error}"


class Backoff:
    """Who is left out of a round for a while, though it may be connected: processes, by their sites and what
    tells each from a later one.

    A round that is lost with a site is done again without it, even if it is there again: else it could be
    lost with it for ever. Whose process breaks several rounds is left out for longer each time, as with a
    disk that is full; one that went and came back, or was started anew, is welcome at once.
    """

    def __init__(self) -> None:
        self.broke = Counter[tuple[int, str]]()
        self.until: dict[tuple[int, str], int] = {}
        self.called = 0  # how often all were called back in this round

    def begin(self, sites: Iterable[int], boots: Mapping[int, str], stored: int) -> None:
        """The round after the one that is written down was lost with some sites."""
        for site in sites:
            who = (site, boots.get(site, ""))
            self.broke[who] += 1
            self.until[who] = stored + 2 ** min(self.broke[who] - 1, LONGEST)

    def resting(self, site: int, boot: str) -> bool:
        return (site, boot) in self.until

    def end(self, site: int) -> None:
        """It is not connected."""
        self.until = {who: round for who, round in self.until.items() if who[0] != site}

    def call(self, waited: float) -> None:
        """Too few are there: all are asked back, after 1, 2, 4, ... seconds."""
        if self.until and waited > 2**self.called:
            self.until, self.called = {}, self.called + 1

    def over(self, round: int) -> None:
        """A round is written down."""
        self.until = {who: until for who, until in self.until.items() if until > round}
        self.called = 0
