"""The owner's veto: what people at a site say of others that would have its models in theirs.

A person says yes or no to a requester, the site at whose place sums are made (kind `veto` of decisions.jsonl
in the site's state folder). The file is read at each offer, so that a word counts from then on:

    no               the site withdraws from circles and sums of that requester, and sends no model for one
    yes, or nothing  it takes part, within its policy
    circles = "ask"  of the policy: without a yes it withdraws, and the offer waits for an answer

Offers of circles, and all that wait for an answer, are in offers.jsonl: one line for each requester and run,
for people to look at. A file of decisions that is damaged is a no to all, until it is mended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from coterie.core.errors import BadRun, Refused, shown
from coterie.federation.state_folders import ABOUT, STATE, kin_of, read_about, state_of_kit
from coterie.storage.atomic import read_lines, write_whole
from coterie.storage.decided import decided, instant, now
from coterie.storage.toml import read_given

OFFERS = "offers.jsonl"
MOST = 500  # lines of it; older ones go
Circles = Literal["allow", "ask"]
TRIED = ("visit", "distances", "open")  # what models leave for beside sums, as who asks says


class Consent:
    """Of one site; `circles` as its policy has it."""

    def __init__(self, state: Path, site: str, circles: Circles = "allow") -> None:
        self.state, self.site, self.circles = state, site, circles
        self.noted: set[tuple[str, str, str]] = set()  # requester, run and outcome, of this process

    def answers(self) -> dict[str, Mapping[str, Any]]:
        """{requester: the last that was said}; of the same rows under other names, every no counts too."""
        lines = [line for line in decided(self.state) if line["kind"] == "veto"]
        if kin := kin_of(self.state):
            vetoes = (line for folder in kin for line in decided(folder) if line["kind"] == "veto")
            lines = sorted([*(line for line in vetoes if line.get("allow") is not True), *lines], key=instant)
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
            said = self.answers().get(requester.casefold())
        except BadRun as error:
            return f"nobody knows what people at {self.site} decided: {error}"
        if said is not None and said.get("allow") is not True:
            return f"a person at {self.site} said no ({said['by']}, {said['time']})"
        if said is None and self.circles == "ask":
            return f"nobody at {self.site} has said yes yet: it is on its page"
        return ""

    def check(self, requester: str, why: Any) -> None:
        """A model would leave for a requester, whether it asked before or not."""
        if why not in TRIED and (said := self.objection(requester)):
            raise Refused(f"a model for {shown(requester)[1:-1]}: {said}: leave one of the two out")

    def note(self, run: str, lead: str, offers: Sequence[tuple[Mapping[str, Any], str]], again: bool) -> None:
        """Offers, and why the site withdrew from each or nothing; those that are noted already only if
        `again`.
        """
        new = {(str(told["to"]), run, why): told for told, why in offers}
        if not again:
            new = {key: told for key, told in new.items() if key not in self.noted}
        if not new:
            return
        lines = {(line.get("requester"), line.get("run")): line for line in read_lines(self.state / OFFERS)}
        for (requester, _, why), told in new.items():
            first = lines.pop((requester, run), {}).get("first", now())
            figures = {name: told[name] for name in ("share", "others", "leverage")}
            said = {"outcome": why or "joined", "first": first, "last": now()}
            lines[requester, run] = {
                "requester": requester, "run": run, "lead": lead, "site": self.site, **figures, **said
            }  # fmt: skip
        kept = list(lines.values())[-MOST:]
        write_whole(self.state / OFFERS, "".join(json.dumps(line) + "\n" for line in kept))
        self.noted |= set(new)


def site_at(path: Path) -> tuple[Path, str] | None:
    """The folder of a site's state, and its name, of a kit or of that folder; None of any other."""
    for kit, state in ((path, path / STATE), (path.absolute().parent, path)):
        if (kit / "kit.toml").is_file() and state.name == STATE:
            table = read_given(kit / "kit.toml")
            if table.get("role") != "site":
                raise BadRun(f"{kit} is the kit of a {table.get('role')}: give that of a site")
            return state_of_kit(kit), str(table.get("name"))
    if (path / ABOUT).is_file():
        return path, str(read_about(path)["site"])
    names = {str(line.get("site")) for line in read_lines(path / OFFERS)}
    return (path, names.pop()) if len(names) == 1 else None
