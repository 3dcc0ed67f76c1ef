"""What waits at a site for an answer of its people, and what they answered.

offers.jsonl      who would have this site's models in its circle: one line for each requester and run
plans.jsonl       plans of runs that came: one line for each plan, in words (`plans/at_site.py`)
decisions.jsonl   what people said (`storage/decisions.py`)

The owner's veto (`Consent`): a person says yes or no to a requester, the site at whose place sums are made
(kind `veto`). The decisions are read at each offer, so that a word counts from then on:

    no               the site withdraws from circles and sums of that requester, and sends no model for one
    yes, or nothing  it takes part, within its policy
    circles = "ask"  of the policy: without a yes it withdraws, and the offer waits for an answer

Offers of circles, and all that wait for an answer, are kept for people to look at. A file of decisions that
is damaged is a no to all, until it is mended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from coterie.core.errors import BadRun, Refused, shown
from coterie.federation.site.state_folders import ABOUT, STATE, STATE_FILES, kin_of, read_about, state_of_kit
from coterie.storage.atomic import write_whole
from coterie.storage.decisions import instant, now, read_decisions
from coterie.storage.paths import read_given_toml

MOST = 500  # lines of offers.jsonl; older ones go
_FIGURES = ("share", "others", "leverage")
_Circles = Literal["allow", "ask"]
TRIED = ("visit", "distances", "open")  # what models leave for beside sums, as who asks says
OFFERS, PLANS = "offers.jsonl", "plans.jsonl"
_Line = dict[str, Any]


class Consent:
    """Of one site; `circles` as its policy has it."""

    def __init__(self, state: Path, site: str, circles: _Circles = "allow") -> None:
        self.state, self.site, self.circles = state, site, circles
        self.noted: set[tuple[str, str, str]] = set()  # requester, run and outcome, of this process

    def answers(self) -> dict[str, Mapping[str, Any]]:
        """{requester: the last that was said}; of the same rows under other names, every no counts too."""
        mine, noes = answers_of(self.state, "veto")
        lines = sorted([*noes, *mine], key=instant) if noes else mine
        return {str(line.get("requester")).casefold(): line for line in lines}

    def vetoes(self) -> bool:
        """Whether anybody got a no: the site then wants to be asked before sums."""
        try:
            return any(line.get("allow") is not True for line in self.answers().values())
        except BadRun:
            return True

    def objection(self, requester: str) -> str:
        """Why no model of ours may be in sums there; nothing if it may. A lead is no requester."""
        if not requester:
            return ""
        try:
            answer = self.answers().get(requester.casefold())
        except BadRun as error:
            return f"nobody knows what people at {self.site} decided: {error}"
        if answer is not None and answer.get("allow") is not True:
            return f"a person at {self.site} said no ({answer['by']}, {answer['time']})"
        if answer is None and self.circles == "ask":
            return f"nobody at {self.site} has said yes yet: it is on its page"
        return ""

    def check(self, requester: str, why: Any) -> None:
        """A model would leave for a requester, whether it asked before or not."""
        if why not in TRIED and (why_not := self.objection(requester)):
            raise Refused(f"a model for {shown(requester)[1:-1]}: {why_not}: leave one of the two out")

    def note(self, run: str, lead: str, offers: Sequence[tuple[Mapping[str, Any], str]], again: bool) -> None:
        """Offers, and why the site withdrew or nothing; those that are noted already only if `again`."""
        entries = list[dict[str, Any]]()
        for (requester, why), told in {(str(told["to"]), why): told for told, why in offers}.items():
            if again or (requester, run, why) not in self.noted:
                about = {"requester": requester, "run": run, "lead": lead, "site": self.site}
                entries.append(about | {k: told[k] for k in _FIGURES} | {"outcome": why or "joined"})
        if entries:
            note_last(self.state / OFFERS, ("requester", "run"), entries, MOST)
            self.noted |= {(str(told["to"]), run, why) for told, why in offers}


# what waits for an answer, and what people said


def known_offers(state: Path) -> list[_Line]:
    return STATE_FILES.lines(state / OFFERS)


def known_plans(state: Path) -> list[_Line]:
    """One line for each, the last one that came first."""
    return [line for line in reversed(STATE_FILES.lines(state / PLANS)) if isinstance(line.get("plan"), str)]


def note_last(path: Path, keys: tuple[str, ...], entries: Iterable[Mapping[str, Any]], most: int) -> None:
    """One line for each of the same keys, the last that came at the end; of many the older ones go."""
    lines = {tuple(map(line.get, keys)): line for line in STATE_FILES.lines(path)}
    for entry in entries:
        key = tuple(map(entry.get, keys))
        lines[key] = {**entry, "first": lines.pop(key, {}).get("first", now()), "last": now()}
    write_whole(path, "".join(json.dumps(line) + "\n" for line in list(lines.values())[-most:]))


def answers_of(state: Path, kind: str) -> tuple[list[_Line], list[_Line]]:
    """What people said here, and every no that was said of the same rows under other names."""
    mine = [line for line in read_decisions(state) if line["kind"] == kind]
    others = [line for folder in kin_of(state) for line in read_decisions(folder) if line["kind"] == kind]
    return mine, [line for line in others if line.get("allow") is not True]


def site_at(path: Path) -> tuple[Path, str] | None:
    """The folder of a site's state, and its name, of a kit or of that folder; None of any other."""
    for kit, state in ((path, path / STATE), (path.absolute().parent, path)):
        if (kit / "kit.toml").is_file() and state.name == STATE:
            table = read_given_toml(kit / "kit.toml")
            if table.get("role") != "site":
                raise BadRun(f"{kit} is the kit of a {table.get('role')}: give that of a site")
            return state_of_kit(kit), str(table.get("name"))
    if (path / ABOUT).is_file():
        return path, str(read_about(path)["site"])
    names = {str(line.get("site")) for line in known_offers(path)}
    return (path, names.pop()) if len(names) == 1 else None
