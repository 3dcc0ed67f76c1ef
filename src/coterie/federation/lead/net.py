"""The net `federation`: sites on hosts of their own, which come and go.

A round has those who are there when it begins. Who is silent at a visit before it did anything in the round
is left out of it, as one who is absent; who goes after that is left out by doing the round again without it
(`Gone`), from what was there before: visits are pure functions, and sites go back to that round. At the end
of a round sites write down what is theirs before the round counts. Who comes back, or late, is brought up to
date when a round begins: it builds the model, finds its own on its disk, and takes what it was due.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from coterie.core.errors import BadInput, BadRun, CoterieError, Gone
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import Kernel
from coterie.core.learner import Learner
from coterie.core.observer import What, said
from coterie.core.wire import pack
from coterie.engines.base import Engine
from coterie.federation.lead.orders import Orders, Transport, limited, unsound, withdrawing
from coterie.federation.lead.sites import TICK, Backoff, Met
from coterie.federation.lead.witness import Witness
from coterie.federation.messages import printable
from coterie.federation.plans.plan import Plan, plan_of, signed_plan
from coterie.federation.site.ledger_signer import bound_to
from coterie.nets.courier import Message, Silence, Wanted
from coterie.nets.offers import Offer
from coterie.nets.remote import Pooled, Remote
from coterie.storage.checkpoint import as_tensor, by_name, bytes_in, named, taken

if TYPE_CHECKING:
    from coterie.federation.lead.connector import Federation

PING = 2.0  # seconds in which who was silent must answer something small


class Federated(Remote):
    """The lead's side. `begin` is what sites are told when a run begins, `plan` what it will ask of
    them; `say` is for people.

    boots    of the sites' processes that have come in
    last     [site] the last round that it has written down, -1 for none
    saved    the same, as of the last checkpoint
    stored   the last round that was written down
    due      for who is away: new ids, and the message that makes them
    """

    courier = Orders
    post: Orders

    def __init__(
        self,
        met: Met,
        learner: Learner,
        engine: Engine,
        begin: Mapping[str, Any],
        bounds: Federation,
        say: Callable[[str], None],
        plan: Plan,
    ) -> None:
        self.met, self.bounds, self.say, self.begin, self.plan = met, bounds, say, begin, plan
        transport = Transport(met, secrets.token_hex(16), bounds, self.waits)
        super().__init__(transport, met.roster, learner, engine, None)
        self.boots: dict[int, str] = {}
        self.last = [-1] * len(met.roster)
        self.saved = list(self.last)
        self.stored = -1
        self.due: dict[int, list[tuple[set[int], bytes]]] = {}
        self.backoff, self.begun = Backoff(), False  # whether a round has begun that is not written down
        self.told: set[str] = set()  # who is left out, as people know
        self.limits: dict[str, tuple[Any, bool]] = {}  # by site, its policy, and whether that has limits
        self.withdrew: set[int] = set()  # who has withdrawn from sums, as people know
        self.witnesses = Witness(self)
        self.conductor: Any = None  # of helpers, if replies are sealed

    def sealing(self, options: Any) -> Any:
        """Replies are sealed from now on: who conducts it (`sealing/lead.py`)."""
        from coterie.federation.sealing.lead import Sealing

        self.conductor = Sealing(self, options)
        return self.conductor

    # who is there, and what people are told

    def tell(self, what: What, who: str | None, why: str = "", line: str = "") -> None:
        """On the screen, in these words or the usual ones, and to who looks on."""
        self.say(line or said(what, who, why))
        self.observer.happened(what, who, why)

    def waits(self, asked: Collection[str] = ()) -> None:
        """Who looks on is told whose answers are still to come; if nobody's, who is there."""
        self.observer.asked(asked)
        if not asked:
            self.observer.sees([self.roster.names[s] for s in self.here()], self.away())

    def here(self) -> list[int]:
        return [s for s in range(len(self.roster)) if s in self.boots and s not in self.post.silent]

    def present(self) -> Tensor:
        return torch.isin(torch.arange(len(self.roster)), torch.tensor(self.here(), dtype=torch.int64))

    def away(self) -> Mapping[str, str]:
        here, why = set(self.here()), self.post.silent
        return {n: why.get(s, "not there yet") for s, n in enumerate(self.roster.names) if s not in here}

    def unsound(
        self, kernel: Kernel, beliefs: Held, answers: Mapping[int, Message], visits: Mapping[int, int]
    ) -> dict[int, Silence]:
        found = unsound(kernel, beliefs.tensors, answers, visits)
        self.post.fall_silent(found)
        return found

    def missed(self, silent: Mapping[int, Silence]) -> None:
        """A site that did something in this round is needed; one that did not is left out, and so is one that
        goes when the round is written down and only scores are missing.
        """
        if self.begun and self.post.used & silent.keys():
            self.post.need(silent)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        ids, begun, told = self.post.ids(live), time.monotonic(), False
        self.now, self.post.known, self.post.posted, self.odd = round + 1, set(), {}, {}
        self.backoff.begin(self.post.lost, self.boots, self.stored)
        while self.post.broken:  # what was begun of the round does not count
            self.post.broken = False
            # who cannot go back to the last round that it has written down is silent
            for site in self.here():
                try:
                    self._fetch(site, ids[site], fresh=False)
                except Gone:
                    self.post.broken = False
        with contextlib.ExitStack() as waiting:
            while not self._enough(ids):
                why, waited = "; ".join(f"{n}: {w}" for n, w in self.away().items()), time.monotonic() - begun
                if len(self.post.barred) == len(self.roster):
                    raise BadRun(f"no site takes part any more ({why})")
                if waited > self.bounds.wait:
                    remedy = "go on with coterie resume when they are back"
                    raise BadRun(f"too few sites are there ({why}): {remedy}")
                if not told:
                    told = True
                    waiting.enter_context(self.observer.doing("waiting"))
                    self.tell("waiting", None, why, f"waiting for sites ({why})")
                self.backoff.call(waited)
                time.sleep(TICK)
        out = {n: why for n, why in self.away().items() if self.roster.names.index(n) in self.boots}
        for name in out.keys() - self.told:  # who was in and is not any more
            self.tell("left-out", name, out[name])
        self.told, self.begun = set(out), True

    def _enough(self, ids: Mapping[int, set[int]]) -> bool:
        """Whether so many are there, after who came has come in, that a round may begin."""
        self._welcome(ids)
        self.post.used, self.post.lost = set(), set()
        self.waits()
        there, names, policies = self.met.lines.there(), self.roster.names, self.met.policies
        connected = sum(name in there for name in names)
        # of those who are here, for whose policies enough sites are connected: others would refuse
        willing = [s for s in self.here() if policies.get(names[s], {}).get("min_sites", 1) <= connected]
        return len(willing) >= min(self.bounds.least, len(names))

    def _welcome(self, ids: Mapping[int, set[int]]) -> None:
        """Who is connected comes in, if it is not in; who is not is silent."""
        there, back = self.met.lines.there(), dict[int, str]()
        for site, name in enumerate(self.roster.names):
            if site in self.post.barred:
                continue
            if name not in there:
                self.backoff.end(site)
                if site in self.boots:
                    self.post.silent.setdefault(site, "not connected")
            elif site in self.post.silent or self.boots.get(site) != there[name]:
                back[site] = there[name]
        back = {site: boot for site, boot in back.items() if not self.backoff.resting(site, boot)}
        for site in back.keys() - self._asleep(list(back)):
            self._enter(site, back[site], ids)

    def _asleep(self, sites: Sequence[int]) -> set[int]:
        """Who was silent and still is, or is busy for another lead: it is not waited for a second time."""
        names = {self.roster.names[site]: site for site in sites}
        answers, failed = self.met.lines.ask({name: {"do": "ping"} for name in names}, PING, PING)
        busy = {names[name]: printable(told["busy"]) for name, told in answers.items() if "busy" in told}
        self.post.silent.update(busy)
        return {names[name] for name, error in failed.items() if isinstance(error, Gone)} | busy.keys()

    def _enter(self, site: int, boot: str, ids: Mapping[int, set[int]]) -> None:
        """A site comes in: for the first time, back, or late."""
        name, known = self.roster.names[site], self.boots.get(site) is not None or self.stored >= 0
        self.post.silent.pop(site, None)
        try:
            member = self.met.enter(site, boot)
            if not self.roster.members[site].train:
                members = (*self.roster.members[:site], member, *self.roster.members[site + 1 :])
                self.post.roster = replace(self.roster, members=members)
            begin = {**self.begin, "do": "begin", "ground": self.met.rule.ground, "number": site}
            begin["fold"] = self.met.fold
            begin["plan"] = signed_plan(self.met.lines.kit, self.post.transport.run, self.plan)
            answer, _ = self.post.ask({site: (begin, {})}, quiet=True)[site]
            due = self.due.get(site, [])
            if self.last[site] >= 0:
                own = ids[site] - {id for new, _ in due for id in new}
                self._fetch(site, own, bool(answer.get("blank")))
            for _, data in due:
                self.post.send(site, data)
            self.due.pop(site, None)
        except CoterieError as error:
            self.post.broken = False  # it had no part in the round
            self.met.boots.pop(name, None)
            lasting = site in self.post.barred or not isinstance(error, Gone | BadRun)
            why = error.why.get(name, str(error)) if isinstance(error, Gone) else str(error)
            self.post.fall_silent({site: Silence(why, lasting)})
            if lasting:
                self.tell("no-part", name, why)
                self.told.add(name)
            return
        self.boots[site] = boot
        if known:
            self.tell("back" if self.last[site] >= 0 else "joins", name)

    def _fetch(self, site: int, live: set[int], fresh: bool) -> None:
        round = max(0, self.last[site])
        message = {"do": "fetch", "live": sorted(live), "round": round, "fresh": fresh}
        self.post.ask({site: (message, {})}, quiet=True)

    # who withdraws, and what sites sign

    withdraws = True
    signs = True

    @property
    def asks(self) -> bool:
        return bool(limited(self))

    def withdrawing(self, offers: Sequence[Offer], circle: bool) -> dict[int, str]:
        return withdrawing(self, offers, circle)

    def run_identity(self) -> dict[str, str]:
        """What the run's ledger names it by."""
        return bound_to(self.met.lines.kit, self.post.transport.run)

    def witness(self, folder: Path, shows: Any) -> list[dict[str, Any]]:
        """Sites sign the head of the run's ledger, and are shown what is theirs: lines to keep beside it."""
        return self.witnesses.ask(folder, shows)

    # verbs that reach who is away

    def bring(self, wanted: Mapping[int, Wanted], why: str = "mix") -> dict[int, dict[str, Tensor]]:
        here = {COORDINATOR, *self.here()}
        away = {to for to in wanted if to not in here}
        for to, some in wanted.items():
            places = {int(p.places[r]) for held, rows in some for p in held.parts for r in rows}
            lost = {place for place in places - {to} if place not in here}
            if lost and to in here:
                self.post.need({place: Silence(self.post.silent.get(place, "not there")) for place in lost})
            if to not in here and places - {COORDINATOR, to}:
                raise BadInput(
                    f"a method sums others' models at {self.roster.names[to]}, which is away: leave out "
                    "who did not answer"
                )
        # each message to come is complete by itself
        self.post.known = {entry for entry in self.post.known if entry[1] not in away}
        brought = super().bring(wanted, why)
        self.post.known = {entry for entry in self.post.known if entry[1] not in away}
        return brought

    def order(self, messages: Mapping[int, Message], counted: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Who is away gets its orders when it comes."""
        here = set(self.here())
        for site in messages.keys() - here:
            message, tensors = messages[site]
            data = pack({**message, "run": self.post.transport.run}, tensors)
            self.due.setdefault(site, []).append((set(message["new"]), data))
        super().order({s: m for s, m in messages.items() if s in here}, counted)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Pooled:
        """Rows of all of them are needed: without one, doing the round again would not help."""
        needed, away = {site for group in groups for site in group} - set(self.here()), self.away()
        if needed and tuple(map(tuple, groups)) not in self.pools:
            names = [self.roster.names[s] for s in sorted(needed)]
            why = "; ".join(f"{name}: {away[name]}" for name in names)
            raise BadRun(f"rows of all sites are needed ({why}): leave it out with --federation.sites")
        return super().in_one_place(groups)

    # the end of a round, and of a run

    def keep(self, live: Iterable[Held], round: int) -> None:
        """Sites write down what is theirs; one that fails to makes the round be done again."""
        ids, first, here = self.post.ids(live), self.stored != self.now, self.here()
        also = {"store": self.now} if first else {}
        messages = dict[int, Message]()
        for s in here:
            oldest = self._needed(s, round)
            messages[s] = ({"do": "keep", "live": sorted(ids[s]), "round": oldest, **also}, {})
        _, silent = self.post.try_to_ask(messages, quiet=True)
        if first:
            self.post.need(silent)
            self.last = [self.now if s in here else r for s, r in enumerate(self.last)]
            self.stored = self.now
            self.backoff.over(self.now)
            self.begun = False
        self.post.store = {id: t for id, t in self.post.store.items() if id in ids[COORDINATOR]}
        self.post.known, self.post.used = set(), set()
        for site, due in self.due.items():
            self.due[site] = [(new, data) for new, data in due if new & ids[site]]
        for net in self.pools.values():
            net.keep((), round)

    def _needed(self, site: int, round: int) -> int:
        """The oldest round that it may have to go back to: one that is lost, or resumed, does not count."""
        return min([round, *(r for r in (self.last[site], self.saved[site]) if r >= 0)])

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        own, self.saved = self.kept_here(self.post.ids(live)[COORDINATOR]), list(self.last)
        run = {"id": as_tensor(bytes.fromhex(self.post.transport.run)), "last": torch.tensor(self.last)}
        run |= {"plan": as_tensor(self.plan.text), "met": as_tensor(json.dumps(self.met.to_dict()))}
        own |= named("run", run)
        for site, due in self.due.items():
            own |= named("due", named(site, {str(i): as_tensor(data) for i, (_, data) in enumerate(due)}))
            news = {str(i): torch.tensor(sorted(new)) for i, (new, _) in enumerate(due)}
            own |= named("new", named(site, news))
        return own

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        run, others = taken("run", kept)
        due, others = taken("due", others)
        new, others = taken("new", others)
        self.post.transport.run = bytes_in(run["id"]).hex()
        if "plan" in run:  # sites hold a run to the plan that it began with
            self.plan = plan_of(bytes_in(run["plan"]).decode())
        self.met = self.met.as_it_was(json.loads(bytes_in(run["met"])))
        self.last, self.stored, self.now = run["last"].tolist(), round, round
        self.saved = list(self.last)
        for site, orders in by_name(due).items():
            for i, data in sorted(orders.items(), key=lambda item: int(item[0])):
                ids = set(new[f"{site}|{i}"].tolist())
                self.due.setdefault(int(site), []).append((ids, bytes_in(data)))
        self.restore_here(others, round)

    def keep_at(self, folder: str) -> None:
        """Sites keep what is theirs in folders of their own, until the run is over."""
        self.stores = True

    def save(self, beliefs: Held, paths: Mapping[int, str]) -> None:
        """Rows at the lead go into files; those at sites stay there."""
        here = {i: p for i, p in paths.items() if all(int(part.places[i]) < 0 for part in beliefs.parts)}
        super().save(beliefs, here)

    def finish(self, beliefs: Held, of: Mapping[int, int], facts: Mapping[int, Mapping[str, Any]]) -> None:
        messages, silent = dict[int, Message](), dict[int, Silence]()
        for site, row in {site: of[site] for site in self.here() if site in of}.items():
            try:
                brought = self.post.bring({site: [(beliefs, [row])]}, why="visit")[site]
            except Gone as gone:
                silent[site] = Silence(str(gone))
                continue
            told = {"do": "finish", "row": self.post.row(beliefs, row), "facts": dict(facts[site])}
            messages[site] = (told, brought)
        silent |= self.post.try_to_ask(messages, quiet=True)[1]
        for site, silence in silent.items():
            self.tell("no-model", self.roster.names[site], silence.why)
        self.stores = False  # nobody has to go on with it

    def close(self) -> None:
        """A run that is over, or that nobody can go on with, is forgotten."""
        if self.stores:
            return
        if self.conductor is not None:
            self.conductor.end()
        if self.here():
            self.post.try_to_ask({site: ({"do": "end"}, {}) for site in self.here()}, quiet=True)
        self.boots = {}
