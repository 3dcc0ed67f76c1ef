"""A site's rows: how they are set aside for a run, what is told of them before it begins, and a guard that
knows all that was told of them, to whoever led a run, and what may be told next.

One guard for the site, whatever runs come and go: row sets (`row_sets.py`), and models that were tried here
within a day.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from torch import Tensor

from coterie.core.errors import BadRun, Refused, shown
from coterie.core.options import plain
from coterie.data.build import units_of
from coterie.data.dataset import Dataset
from coterie.federation.data.site_data import FEWEST, SiteData, digest_of_rows
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import check_deals, check_may, check_rows
from coterie.federation.site.bounds import Effects
from coterie.federation.site.budget import secret_at
from coterie.federation.site.row_sets import ROW_SETS, Counts, RowSets, numbered_marks
from coterie.federation.site.state import marks_in
from coterie.federation.site.state_folders import kin_of, marks_key, one_at_a_time
from coterie.nets.site import PARTS
from coterie.sites.leaks import leaning, look_first
from coterie.storage.atomic import readable_errors, write_whole

_ANSWERED = "answered.txt"
_A_DAY = 24 * 3600
_MOST_GROUNDS = 16  # ways to set rows aside that are kept in memory
_DEALT, _CHECKED = "dealt.txt", "checked.txt"
Message = tuple[dict[str, Any], dict[str, Tensor]]


class RowGuard:
    """`places` of rows are those in the site's table: see `SiteData.folded`. What other processes tell of the
    same rows, under other names (`state_folders.py`), counts here as it comes.
    """

    def __init__(self, state: Path, data: Dataset, policy: Policy) -> None:
        self.policy, self.state, self.path = policy, state, state / _ANSWERED
        key = secret_at(marks_key(state))
        self.marks = numbered_marks(mark for p in data.pools for mark in marks_in(p.x, key))
        units = [units_of(p, data.together, np.arange(len(p))) for p in data.pools]
        apart = np.cumsum([0, *(len(p) for p in data.pools)])
        self.persons = np.concatenate([u + first for u, first in zip(units, apart[:-1], strict=True)])
        self._file: IO[str] | None = None  # of answers, open while this process lasts
        if self.path.exists():  # lines that are older than a day go
            lines = _answers_in(self.path)
            with readable_errors(self.path):
                write_whole(self.path, "".join(f"{w:.0f} {many} {run}\n" for w, many, run in lines))
        self._open()

    def tell(self, places: Counts, leader: str, run: Any, topic: str = "") -> None:
        """A figure of these rows leaves; of models, or of what the topic is."""
        with self._up_to_date():
            if len(places):
                self.row_sets.admit(places, _who_asks(leader, run), topic)

    def visit(
        self, effects: Effects, places: Mapping[str, Counts], answers: int, leader: str, run: Any
    ) -> None:
        """A visit that asks for so many answers, whose effects are within the policy by themselves."""
        if not effects.part or not effects.of:
            return
        who = _who_asks(leader, run)
        with self._up_to_date():
            self._count(answers, who["run"])
            mine = places[effects.part]
            mine = mine if effects.rows is None else mine[effects.rows.numpy()]
            if not effects.drawn and len(mine):  # of what is drawn no figure is told
                self.row_sets.admit(mine, who)

    def _count(self, guests: int, run: str) -> None:
        now = time.time()
        while self._answers and self._answers[0][0] < now - _A_DAY:
            self._answers.popleft()
        today = sum(many for _, many in self._answers)
        if today + guests > (most := self.policy.answers_a_day):
            tried = f"{today} models were tried here within 24 hours, and {guests} more"
            raise Refused(f"{tried} are above the policy's {most}: wait, or raise answers_a_day")
        self._note(now, guests, run)
        with readable_errors(self.path):
            if self._file is None or not self.path.exists():
                self._file = self.path.open("a", buffering=1)
            self._file.write(f"{now:.0f} {guests} {run}\n")

    def _note(self, when: float, many: int, run: str) -> None:
        """By the minute."""
        self.tried[run] += many
        if self._answers and self._answers[-1][0] > when - 60:
            many += self._answers.pop()[1]
        self._answers.append((when, many))

    # what others tell of the same rows

    def _kin_sizes(self) -> dict[Path, int]:
        paths = [folder / name for folder in kin_of(self.state) for name in (ROW_SETS, _ANSWERED)]
        return {path: path.stat().st_size for path in paths if path.exists()}

    @contextmanager
    def _up_to_date(self) -> Iterator[None]:
        if not kin_of(self.state):
            yield
            return
        with one_at_a_time(self.state):
            if self._kin_sizes() != self._sizes:
                self._open()
            yield

    def _open(self) -> None:
        """What is kept is read; `tried` are models within a day, by run."""
        least, leverage = self.policy.min_rows, self.policy.row_leverage
        self.row_sets = RowSets(self.state, self.marks, self.persons, least, leverage)
        self._answers, self.tried = deque[tuple[float, int]](), Counter[str]()
        paths = [folder / _ANSWERED for folder in (self.state, *kin_of(self.state))]
        for when, many, run in sorted(line for path in paths for line in _answers_in(path)):
            self._note(when, many, run)
        self._sizes = self._kin_sizes()


def _answers_in(path: Path) -> list[tuple[float, int, str]]:
    """Of the last day: when, how many, in which run."""
    if not path.exists():
        return []
    since = time.time() - _A_DAY
    with readable_errors(path):
        words = [line.split(" ") for line in path.read_text().splitlines()]
    told = [(float(w[0]), int(w[1]), w[2]) for w in words if len(w) == 3 and (w[0] + w[1]).isdecimal()]
    return [line for line in told if line[0] > since]


def _who_asks(leader: str, run: Any) -> dict[str, str]:
    return {"by": leader, "run": str(run)[:64]}


class RowRequests:
    """The part of a site server that has its rows."""

    def __init__(
        self, name: str, holding: SiteData, policy: Policy, state: Path, say: Callable[[str], None]
    ) -> None:
        self.name, self.holding, self.policy, self.state, self.say = name, holding, policy, state, say
        self.guard = RowGuard(state, holding.data, policy)
        self.rows = digest_of_rows(holding.data)
        self.grounds: OrderedDict[tuple[str, str], SiteData] = OrderedDict()

    def _deal(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        if self.policy.deal is not None and message["deal"] != self.policy.deal:
            have = f"rows held out by seed {shown(message['deal'])}, where the policy has {self.policy.deal}"
            raise Refused(f"{have}: run with --deal {self.policy.deal}")
        shares, forbid = ("test", "validation", "deal", "number", "one_class"), message.get("forbid", [])
        way = {k: message[k] for k in ("common", *shares)} | {"forbid": forbid}
        mark = hashlib.sha256(json.dumps(way, sort_keys=True).encode()).hexdigest()[:16]
        before = self._today(_DEALT)
        if mark not in before:  # by many ways, their sums and scores would tell single rows
            check_deals(self.policy, len(before))
            self._count_today(_DEALT, mark)
        holding = self.holding.without(forbid).joined(message["common"])
        found = holding.deal(*(message[k] for k in shares))
        check_rows(self.policy, {part: found[part] for part in PARTS})
        self.grounds[leader, str(message["ground"])[:64]] = holding
        while len(self.grounds) > _MOST_GROUNDS:
            self.grounds.popitem(last=False)
        return found, {}

    def _sums(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        holding = self._ground(leader, message)
        found = holding.sums(message["gaps"], max(FEWEST, self.policy.min_rows))
        if any(s is not None for s in found):
            check_may(self.policy, "sums")
            places, known = holding.summed_places(message["gaps"])
            self.guard.tell(places, leader, "sums")  # models can be asked for the same sums
            for name, numbers, rows in zip(holding.names, found, known, strict=True):
                if numbers is not None:
                    self.guard.tell(rows, leader, "sums", f"sums of {name}")
        return {"sums": found}, {}

    def _fit(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        holding = self._ground(leader, message)
        client = holding.fit(message["gaps"], message["agreed"], late=bool(message["late"]))
        if line := look_first(leaning([client])):  # for people here, before anything is trained
            self.say(line)
        facts = {**holding.facts(), "digest": self._mark_of(holding)}
        if self.policy.sums:  # what was fitted is in them
            self.guard.tell(holding.left["train"], leader, "notes")
            facts["notes"] = list(client.notes)
        if self.policy.label_counts:
            for rows in holding.left.values():
                self.guard.tell(rows, leader, "labels")
            facts["labels"] = holding.labels()
        return plain(facts), {}

    def _mark_of(self, holding: SiteData | None = None) -> str:
        """What tells the site's rows again, and how they were set aside, as long as its secret is the same.
        Nobody else can try which rows would have it, and it does not follow from how inputs are made of them,
        which whoever leads a run can choose.
        """
        mark = hmac.new(secret_at(marks_key(self.state)), self.rows.encode(), hashlib.sha256)
        for part, places in ({} if holding is None else holding.dealt_places).items():
            mark.update(f"{part} {len(places)} ".encode())
            mark.update(np.ascontiguousarray(places, dtype="<i8").tobytes())
        return mark.hexdigest()[:16]

    def _fold(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        client, _ = self._ground(leader, message).folded(message["fold"])
        sizes = {part: len(getattr(client, part)) for part in PARTS}
        check_rows(self.policy, sizes)
        return sizes, {}

    def _check(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        """Loaded where it is asked for alone."""
        from coterie.federation.data.quality import check_at_site

        policy, rows = self.policy, sum(map(len, self.holding.data.pools))
        check_may(policy, "quality")  # quantiles of columns and counts of findings, which have no noise
        if policy.epsilon is not None:
            have = f"quantiles without noise, where the policy has epsilon = {policy.epsilon:g}"
            raise Refused(f"{have}: look at home with coterie check, or leave epsilon out")
        if rows < policy.min_rows:
            raise Refused(f"{rows} rows to check, below the policy's {policy.min_rows}: lower min_rows")
        # one may take long, and nothing ends it
        check_deals(self.policy, len(self._today(_CHECKED)), checks=True)
        self._count_today(_CHECKED, secrets.token_hex(8))
        told, where = check_at_site(self.holding, message.get("checks"), self.state)
        self.say(f"counts and quantiles of columns go to {leader}; what was found here is in {where}")
        return told, {}

    def _ground(self, leader: str, message: Mapping[str, Any]) -> SiteData:
        found = self.grounds.get((leader, str(message.get("ground"))[:64]))
        if found is None:
            raise BadRun(f"site {self.name!r} has not set rows aside for this: start the run anew")
        return found

    def _today(self, name: str) -> set[str]:
        """What was written into a file within a day, of these rows under any name."""
        paths = [folder / name for folder in (self.state, *kin_of(self.state))]
        lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
        told, since = [line.partition(" ") for line in lines], time.time() - _A_DAY
        return {mark for when, _, mark in told if float(when) > since}

    def _count_today(self, name: str, mark: str) -> None:
        with readable_errors(self.state / name), (self.state / name).open("a") as file:
            file.write(f"{time.time():.0f} {mark}\n")
