"""How a site sets rows aside for a run, and what it tells of them before it begins."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from coterie.core.client import Client
from coterie.core.errors import BadRun, Refused, shown
from coterie.core.options import plain
from coterie.federation.budgets import secret_at
from coterie.federation.days import Days
from coterie.federation.guard import Guard, who_asks
from coterie.federation.policy import check_checks, check_deals, check_may, check_quality, check_rows
from coterie.federation.policy_keys import Policy
from coterie.federation.rows import FEWEST, PARTS, Holding, digest_of_rows
from coterie.federation.state_folders import marks_key

MOST_GROUNDS = 16  # ways to set rows aside that are kept in memory
DEALT, CHECKED = "dealt.txt", "checked.txt"
Message = tuple[dict[str, Any], dict[str, Tensor]]


class Dealing:
    """The part of a station that has its rows."""

    def __init__(
        self, name: str, holding: Holding, policy: Policy, state: Path, say: Callable[[str], None]
    ) -> None:
        self.name, self.holding, self.policy, self.state, self.say = name, holding, policy, state, say
        self.guard, self.days = Guard(state, holding.data, policy), Days(state)
        self.rows = digest_of_rows(holding.data)
        self.grounds: OrderedDict[tuple[str, str], Holding] = OrderedDict()

    def _deal(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        if self.policy.deal is not None and message["deal"] != self.policy.deal:
            raise Refused(
                f"rows held out by seed {shown(message['deal'])}, where the policy has {self.policy.deal}: "
                f"run with --deal {self.policy.deal}"
            )
        self._dealt(leader, message)
        holding = self.holding.without(message.get("forbid", [])).joined(message["common"])
        found = holding.deal(
            message["test"],
            message["validation"],
            message["deal"],
            message["number"],
            bool(message["one_class"]),
        )
        check_rows(self.policy, {part: found[part] for part in PARTS})
        self.grounds[leader, str(message["ground"])[:64]] = holding
        while len(self.grounds) > MOST_GROUNDS:
            self.grounds.popitem(last=False)
        return found, {}

    def _sums(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        holding = self._ground(leader, message)
        found = holding.sums(message["gaps"], max(FEWEST, self.policy.min_rows))
        if any(s is not None for s in found):
            check_may(self.policy, "sums")
            places, known = holding.summed_places(message["gaps"])
            self.guard.tell(places, who_asks(leader, "sums"))  # models can be asked for the same sums
            for name, numbers, rows in zip(holding.names, found, known, strict=True):
                if numbers is not None:
                    self.guard.tell(rows, who_asks(leader, "sums"), f"sums of {name}")
        return {"sums": found}, {}

    def _fit(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        holding = self._ground(leader, message)
        client = holding.fit(message["gaps"], message["agreed"], late=bool(message["late"]))
        self.look_at(client)
        facts = {**holding.facts(), "digest": self._mark_of(holding)}
        if self.policy.sums:  # what was fitted is in them
            self.guard.tell(holding.places(None)["train"], who_asks(leader, "notes"))
            facts["notes"] = list(client.notes)
        if self.policy.label_counts:
            for rows in holding.places(None).values():
                self.guard.tell(rows, who_asks(leader, "labels"))
            facts["labels"] = holding.labels()
        return plain(facts), {}

    def _mark_of(self, holding: Holding | None = None) -> str:
        """What tells the site's rows again, and how they were set aside, as long as its secret is the same.
        Nobody else can try which rows would have it, and it does not follow from how inputs are made of them,
        which whoever leads a run can choose.
        """
        mark = hmac.new(secret_at(marks_key(self.state)), self.rows.encode(), hashlib.sha256)
        for part, places in ({} if holding is None else holding.dealt_places).items():
            mark.update(
                f"{part} {len(places)} ".encode() + np.ascontiguousarray(places, dtype="<i8").tobytes()
            )
        return mark.hexdigest()[:16]

    def look_at(self, client: Client) -> None:
        """For people here, before anything is trained."""

    def _fold(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        client = self._ground(leader, message).part(message["fold"])
        sizes = {part: len(getattr(client, part)) for part in PARTS}
        check_rows(self.policy, sizes)
        return sizes, {}

    def _check(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        """Loaded where it is asked for alone."""
        from coterie.federation.quality import answer

        check_quality(self.policy, sum(map(len, self.holding.data.pools)))
        check_checks(self.policy, len(self.days.since(CHECKED)))  # one may take long, and nothing ends it
        self.days.append(CHECKED, secrets.token_hex(8))
        told, where = answer(self.holding, message.get("checks"), self.state)
        self.say(f"counts and quantiles of columns go to {leader}; what was found here is in {where}")
        return told, {}

    def _dealt(self, leader: str, message: Mapping[str, Any]) -> None:
        """Counts ways to set rows aside: by many of them, their sums and scores would tell single rows."""
        told = {k: message[k] for k in ("common", "test", "validation", "deal", "number", "one_class")}
        told["forbid"] = message.get("forbid", [])
        mark = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        before = self.days.since(DEALT)
        if mark not in before:
            check_deals(self.policy, len(before))
            self.days.append(DEALT, mark)

    def _ground(self, leader: str, message: Mapping[str, Any]) -> Holding:
        found = self.grounds.get((leader, str(message.get("ground"))[:64]))
        if found is None:
            raise BadRun(f"site {self.name!r} has not set rows aside for this: start the run anew")
        return found
