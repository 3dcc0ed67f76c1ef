"""The sites of a federation as a run meets them: who is there, what they have, how their rows become inputs.

Numbers of sites are places in the roster. A site that is named but not there yet is in it without rows; it
comes in when it connects (`net.py`), fitted by what those told who began.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coterie.core.errors import BadData, BadInput, BadRun, CoterieError, Gone, Refused, Several, shown
from coterie.core.roster import Member, Roster
from coterie.core.wire import pack, unpack
from coterie.data.columns import forbidden_note
from coterie.federation import meeting
from coterie.federation.asked_columns import unrecorded, without
from coterie.federation.headers import printable
from coterie.federation.party import read_kit
from coterie.federation.policy import from_told
from coterie.federation.post import Missing, Post
from coterie.federation.told import COUNT, common_of, facts_of, hello_of
from coterie.nets.site import ERRORS

log = logging.getLogger("coterie")

TICK = 0.05
HELLO = 60.0  # seconds that a site may take to look at its rows

Told = dict[str, Any]


class Lines:
    """A person's line to the coordinator, one for this process, and questions to sites in plain JSON."""

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
        packed = {name: pack(message, {}) for name, message in messages.items()}
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


@dataclass(frozen=True)
class Rule:
    """How rows are set aside, and what is chosen of them: columns that are no inputs, and columns that a site
    must record; `ground` is its name at the sites.
    """

    test: float
    validation: float
    deal: int
    one_class: bool
    forbid: tuple[str, ...] = ()
    require: tuple[str, ...] = ()

    @property
    def ground(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


@dataclass(eq=False)
class Met:
    """Sites that have met, by their numbers in the roster.

    agreed        how columns become inputs: gaps, and what follows from everybody's sums (`told.py`)
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

    def told(self) -> Told:
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
        sizes = every(self.lines, dict.fromkeys(names, ask))
        members = tuple(resized(m, sizes[m.name]) if m.train else m for m in self.roster.members)
        return replace(self, roster=replace(self.roster, members=members), fold=told, members={})

    def enter(self, number: int, boot: str) -> Member:
        """A site that begins, or comes back: its rows become inputs as those of all; what it says of them.

        A process that has done so already need not do it again.
        """
        name = self.roster.names[number]
        if self.boots.get(name) == boot:
            return self.members[name]
        hello = self._one(name, {"do": "hello"})
        mine = without(hello_of(hello.get("hello"), name), self.rule.forbid)
        if lacks := unrecorded(mine, self.rule.require):
            raise Refused(f"site {name!r}: {lacks}")
        if differs := meeting.differences(mine.common, mine.absent, common_of(self.common)):
            raise Refused(f"site {name!r}: {'; '.join(differs[:20])}: change its recipe")
        known = self.digests if name in self.digests else self.latecomers
        if known.setdefault(name, mine.digest) != mine.digest:
            raise Refused(f"site {name!r} has other rows than when the run began: start the run anew")
        self.policies[name] = policy_in(hello, name)
        self._one(name, deal_message(self.rule, self.common, number))
        late = name not in self.digests
        facts = self._one(name, {"do": "fit", "ground": self.rule.ground, **self.agreed, "late": late})
        member = meeting.member(name, facts_of(facts, name), self.roster.outputs)
        if self.fold is not None:
            ask = {"do": "fold", "ground": self.rule.ground, "fold": self.fold}
            member = resized(member, self._one(name, ask))
        self.boots[name], self.members[name] = boot, member
        return member

    def _one(self, name: str, message: Told) -> Told:
        answers, failed = self.lines.ask({name: message})
        if failed:
            raise failed[name]
        return answers[name]


def resized(member: Member, told: Told) -> Member:
    """With the rows that a fold leaves it."""
    parts: list[Any] = [told.get(part) for part in ("train", "validation", "test")]
    if not all(map(COUNT.fits, parts)):
        raise BadData(f"site {member.name}: a fold of {shown(parts)} rows: is it of another version?")
    train, validation, test = parts
    return replace(member, train=train, validation=validation, test=test, labels=None)


def policy_in(hello: Told, name: str) -> Told:
    """What a site says that it takes part in; one that says nothing has the usual policy."""
    policy = hello.get("policy") or {}
    if not isinstance(policy, Mapping):
        raise BadData(f"site {name}: its policy is {shown(policy)}, no table: is it of another version?")
    try:
        from_told(policy)
    except BadData as error:
        raise BadData(f"site {name}: {error}") from None
    return dict(policy)


def deal_message(rule: Rule, common: Told, number: int) -> Told:
    told: Told = {
        "test": rule.test,
        "validation": rule.validation,
        "deal": rule.deal,
        "one_class": rule.one_class,
    }
    told |= {"forbid": list(rule.forbid)} if rule.forbid else {}
    return {"do": "deal", "ground": rule.ground, "common": common, "number": number, **told}


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
        raise Several([trouble_of(name, error) for name, error in failed.items()])
    said_of_rows = {name: told.get("hello") for name, told in hellos.items()}
    found = meeting.match(said_of_rows, rule.forbid, rule.require)
    gone = {n: trouble_of(n, error) for n, error in failed.items() if isinstance(error, Gone)}
    refused = {n: f"site {n}: {error}" for n, error in failed.items() if n not in gone} | dict(found.refused)
    leave_out(lines, refused, names, say)
    refuse_few(found.sites, least, rule.require)
    order = [n for n in names if n not in refused] if names else list(found.sites)
    place = {name: i for i, name in enumerate(order)}
    common = found.told()
    dealt = every(lines, {n: deal_message(rule, common, place[n]) for n in found.sites})
    lacks = [dealt[n].get("lacks") for n in found.sites]
    agreed, tells = agreement(lines, rule, found, lacks)
    fit = {"do": "fit", "ground": rule.ground, **agreed, "late": False}
    fits = every(lines, dict.fromkeys(found.sites, fit))
    roster = with_late(meeting.roster(found, fits), order)
    late = [n for n in order if n not in found.sites]
    said = [*refused.values(), *(why for n, why in gone.items() if n not in late)]
    said = [*map(forbidden_note, dict.fromkeys(rule.forbid)), *said]
    not_yet = {n: gone.get(n, f"site {n} is not there yet") for n in late}
    for why in gone.values():
        say(f"{why}; the run begins without it")
    notes = (*said, *(f"{why}: it joins when it comes" for why in not_yet.values()))
    return Met(
        lines,
        rule,
        common,
        roster,
        notes,
        {n: policy_in(hellos[n], n) for n in found.sites},
        agreed,
        tells,
        {n: found.hellos[n].digest for n in found.sites},
        {n: boots[n] for n in found.sites if n in boots},
    )


def leave_out(
    lines: Lines, refused: Mapping[str, str], names: Sequence[str], say: Callable[[str], None]
) -> None:
    """Sites that do not fit hear why; those that were asked for by name end the run before it begins."""
    lines.ask({name: {"do": "left-out", "why": why} for name, why in refused.items()})
    if named := [why for name, why in refused.items() if name in names]:
        raise Several(named)
    for why in refused.values():
        say(f"{why}; it is left out of the run")


def refuse_few(sites: Sequence[str], least: int, require: Sequence[str]) -> None:
    """Where a required column has left too few."""
    if require and len(sites) < least:
        raise BadRun(
            f"{len(sites)} site(s) record {', '.join(require)}, {least} are needed: require less, or lower "
            "--federation.least"
        )


def agreement(lines: Lines, rule: Rule, found: meeting.Meeting, lacks: Sequence[Any]) -> tuple[Told, bool]:
    """What sites need to make inputs of their columns, from what each tells of its own; and whether any had
    to tell sums. Nobody else gets those.
    """
    if not found.common.columns:
        return {"gaps": {}, "agreed": []}, False
    gaps = meeting.gaps_from(found.common, list(lacks))
    ask = {"do": "sums", "ground": rule.ground, "gaps": gaps}
    told = every(lines, dict.fromkeys(found.sites, ask))
    sums = [told[name].get("sums") for name in found.sites]
    agreed, tells = meeting.agreed_from(found.common, list(lacks), sums)
    return {"gaps": gaps, "agreed": agreed}, tells


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
        text = (
            f"waiting for {', '.join(missing)}"
            if missing
            else f"{len(here)} of at least {least} sites are there"
        )
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


def every(lines: Lines, messages: Mapping[str, Told]) -> dict[str, Told]:
    """All of them are needed: before a run begins, a site that goes or refuses is said and nothing runs."""
    answers, failed = lines.ask(messages)
    if failed:
        raise Several([trouble_of(name, error) for name, error in failed.items()])
    return answers


def trouble_of(name: str, error: CoterieError) -> str:
    """In one line; who is connected and does not answer is not away."""
    return f"site {name}: {error.why.get(name, error) if isinstance(error, Gone) else error}"


def with_late(roster: Roster, order: Sequence[str]) -> Roster:
    """The roster with those who are not there yet, without rows."""
    known = {m.name: replace(m, digest="") for m in roster.members}
    return replace(roster, members=tuple(known.get(n) or Member(n, 0, 0, 0) for n in order))
