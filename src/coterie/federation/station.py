"""A site's process: what it answers to those who lead runs, within its policy.

    ping      nothing: whether it is free, and if not, with whose question it is busy
    hello     what its rows are, and what it takes part in
    deal      rows are set aside for testing, as the site of some number; sums and fit make inputs of them
    fold      for a tuning, how many rows a fold leaves
    check     what a check of its data finds, in counts and quantiles (`quality.py`)
    begin     a run, by its id: a model to train; the messages of `nets/site.py` then name the run
    finish    the model that a run ends with here: it is written down, to be used
    end       nothing of a run is needed any more
    cancel    what is being computed for the run ends
    ledger    entries of a run's ledger are signed (`witness.py`); what the site is shown is kept (`seen.py`)

Everything is said in a line, and written into asked.jsonl with who asked and what came of it. What work took
is kept for the site alone (`energy.py`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import coterie
from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.core.errors import BadRun, CoterieError, Refused, lines_of, shown
from coterie.core.wire import message_in, pack, payload
from coterie.federation.budgets import Purse
from coterie.federation.budgets import check_rows as check_budget_rows
from coterie.federation.certificates import Card
from coterie.federation.connected import CardOf, Company
from coterie.federation.consent import Consent
from coterie.federation.dealing import Dealing, Message
from coterie.federation.diary import Diary
from coterie.federation.energy import Effort
from coterie.federation.guard import who_asks
from coterie.federation.headers import printable
from coterie.federation.parcels import Parcels
from coterie.federation.parts import Seat
from coterie.federation.party import Kit
from coterie.federation.plans import PlanGuard
from coterie.federation.policy import STAYS, check_begin, check_rows, check_size, told
from coterie.federation.policy_keys import Policy
from coterie.federation.rows import PARTS, Holding
from coterie.federation.run_folders import forget_old_runs, home_of, make_home, run_of
from coterie.federation.says import asked, sent
from coterie.federation.sealed_begin import sealed_limits, sealed_site
from coterie.federation.seen import Seen
from coterie.federation.session import Letters, Session
from coterie.federation.site_plans import SitePlans
from coterie.federation.turns import Turns
from coterie.federation.witness import Signer
from coterie.nets.site import ERRORS
from coterie.sites.leaning import leaning, look_first

log = logging.getLogger("coterie")

MOST_SAID = 2_000  # letters of a line on the screen
Keep = Callable[[Session, Mapping[str, Any], Belief], str]


class Station(Dealing):
    """`letters` sends to another party; `keep` writes a run's model down, and says where; `say` is for
    people; `card_of` knows who is connected; `kit` has the key that signs.
    """

    def __init__(
        self,
        name: str,
        holding: Holding,
        policy: Policy,
        state: Path,
        letters: Letters,
        keep: Keep,
        say: Callable[[str], None],
        card_of: CardOf | None = None,
        kit: Kit | None = None,
    ) -> None:
        self.card_of, self.kit = card_of, kit
        super().__init__(name, holding, policy, state, lambda line: say(printable(line, MOST_SAID)))
        self.diary = Diary(state, self.say)
        self.letters, self.keep = letters, keep
        self.visited: dict[str, int] = {}  # models that earlier runs have tried here
        self.turns = Turns()
        self.session: Session | None = None
        self.parcels, self.purse = Parcels(policy.max_bytes), Purse(state, policy)
        self.signer, self.effort = Signer(state, kit), Effort(state)
        self.consent = Consent(state, name, policy.circles)
        self.plans = SitePlans(state, name, policy, self.say)
        self.asker: Card | None = None  # whose message is answered at present
        self.seen = Seen(state, policy.max_rounds)
        self.run = self.leader = ""
        self.heard = 0.0  # when the session was last asked something
        forget_old_runs(state)
        self.outcome, self.does = "done", ""  # of what it is asked at present, for who reads of it later
        self.calls = {"ping": self._ping, "cancel": self._cancel}
        self.orders = {
            "hello": self._hello,
            "deal": self._deal,
            "sums": self._sums,
            "fit": self._fit,
            "fold": self._fold,
            "check": self._check,
            "begin": self._begin,
            "finish": self._finish,
            "end": self._end,
            "left-out": self._left_out,
            "ledger": self._ledger,
        }

    # the post

    def answer(self, sender: Card, header: Mapping[str, Any], body: bytes) -> bytes:
        """An answer to whoever leads; a refusal is one too, and so is a mishap."""
        message: dict[str, Any] = {}
        try:
            message = message_in(body)
            check_size(self.policy, len(body))
            if (call := self.calls.get(str(message.get("do")))) is not None:  # while work goes on
                return call(sender.name, message)
            with self.turns.alone(sender.name, str(message.get("do"))):
                self.outcome, self.does, self.asker = "done", "", sender
                found = self._answer(sender.name, message, body)
                outcome, does = self.outcome, self.does
            self.diary.write(sender.name, message, outcome, does)
        except CoterieError as error:
            text = "; ".join(lines_of(error))
            self._note(sender.name, message, f"refused: {text}")
            kind = next((name for name, cls in ERRORS.items() if isinstance(error, cls)), "BadRun")
            return pack({"error": kind, "text": text}, {})
        except Exception as error:  # whatever a message that fits nothing may do: the process goes on
            log.debug("a message could not be done", exc_info=True)
            text = f"{shown(message.get('do'))} could not be done ({type(error).__name__})"
            why = f"failed: {text}: {str(error)[:200]}"  # which may name a row's value, and stays here
            self._note(sender.name, message, " ".join(why.split()))
            return pack({"error": "BadRun", "text": text}, {})
        return found

    def call(self, sender: Card, header: Mapping[str, Any], body: bytes) -> bytes:
        """What a lead asks while work goes on, its own as well: only what does not wait for that."""
        if message_in(body).get("do") not in self.calls:
            raise Refused(f"only {', '.join(self.calls)} can be asked while work goes on: ask instead")
        return self.answer(sender, header, body)

    def _ping(self, leader: str, message: Mapping[str, Any]) -> bytes:
        """Whether it is free within a moment, and if not, why."""
        self._known(leader)
        self._note(leader, message, "done")
        busy = self.turns.wait()
        return pack({"busy": busy} if busy else {}, {})

    def take_letter(self, sender: Card, header: Mapping[str, Any], body: bytes) -> None:
        try:
            check_size(self.policy, len(body))
            if sender.role == "helper":
                self._session(header).take_from_helper(sender.name, header, body)
                return
            if sender.role != "site":
                raise Refused(f"a letter of {shown(sender.name)}, who is a {sender.role}: sites send letters")
            self._session(header).take_letter(sender.name, body)
        except CoterieError as error:
            self._note(sender.name, {**header, "do": "letter"}, f"refused: {'; '.join(lines_of(error))}")
            raise
        self.say(f"{sender.name} sends models, {len(body):,} bytes")

    # what it is asked

    def _answer(self, leader: str, message: dict[str, Any], body: bytes) -> bytes:
        do = self.orders.get(str(message.get("do")))
        self.say(f"{leader} asks: {asked(message)}")
        if do is not None:
            self._known(leader)
            return pack(*do(leader, message, body))
        session = self._session(message, leader)
        if session.company is not None and message.get("do") not in STAYS:
            session.company.check(self.policy.min_sites)
            if message.get("do") == "letters":
                session.company.refuse_no_sites(str(order["to"]) for order in message["orders"])
        try:
            with self.effort.of(self.run, leader):
                found = session.obey(body)
        finally:
            self.heard = time.monotonic()
        if message["do"] == "keep":
            self.effort.write()
        if leaves := sent(message, message_in(found), payload(found)):
            self.say(f"{leaves} to {leader}")
        for line in session.withdrew:
            self.say(line)
        self.outcome, session.withdrew = "; ".join(session.withdrew) or "done", []
        self.does = session.does
        return found

    def _known(self, leader: str) -> None:
        if self.policy.requesters is not None and leader not in self.policy.requesters:
            raise Refused(f"{shown(leader)} is not among the policy's requesters: add it to requesters")

    def _hello(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        return {
            "hello": {**self.holding.hello(), "digest": self._mark_of()},
            "policy": {**told(self.policy), "vetoes": self.consent.vetoes()},
            "version": coterie.__version__,
        }, {}

    def look_at(self, client: Client) -> None:
        if line := look_first(leaning([client])):  # it does not leave the site
            self.say(line)

    def _begin(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        run, holding = run_of(message), self._ground(leader, message)
        if self.session is not None and self.run == run and leader != self.leader:
            raise Refused(f"this run is led by {self.leader}, not by {shown(leader)}")
        if self.session is None or self.run != run:
            self._free_for(leader)
            way = hashlib.sha256(json.dumps([message.get("ground"), message.get("fold")]).encode())
            begun = f"{run}-{way.hexdigest()[:8]}"
            check_begin(self.policy, message["work"], leader, self._today(begun))
            company = Company(self.name, message["sites"], self.card_of, self.kit)
            if len(company.others) + 1 != message["work"]["sites"]:
                said = (
                    f"a run of {shown(message['work']['sites'])} sites that names {len(company.others) + 1}"
                )
                raise Refused(f"{said}: is it of another version?")
            company.check(self.policy.min_sites)
            client, home = holding.part(message.get("fold")), home_of(self.state, run, leader)
            sizes = {part: len(getattr(client, part)) for part in PARTS}
            check_rows(self.policy, sizes)
            check_budget_rows(self.policy, sizes)
            plan = self._planned(message, run, home, sizes)
            places = holding.places(message.get("fold"))
            for rows in places.values():  # what the run is about, so that it is not refused in its middle
                self.guard.tell(rows, who_asks(leader, run))
            session = Session(
                client,
                int(message["number"]),
                home,
                self.policy,
                leader,
                company.others,
                self.letters,
                self.parcels,
                self.purse,
                self.consent,
                self.guard,
                places,
            )
            session.company, session.plan = company, plan
            if message.get("helpers") is not None:
                card_of = self.card_of or (lambda name: None)
                session.sealed = sealed_site(
                    self.name, message["helpers"], card_of, sealed_limits(self.policy)
                )
            session.recipe = holding.data.recipe
            session.cancels = self._person_cancels
            session.visits = max(self.visited.get(run, 0), self.guard.tried(run))
            blank = session.began(message)
            self._count(begun)
            make_home(home, leader, plan.digest)  # one that was refused leaves nothing
            self.seen.let_go()
            self.parcels.clear()
            self.session, self.run, self.leader = session, run, leader
        else:  # the same again, from a lead that was started anew
            assert self.session.home is not None
            sizes = {part: len(getattr(self.session.client, part)) for part in PARTS}
            self._planned(message, run, self.session.home, sizes)
            blank = self.session.began(message)
        self.heard = time.monotonic()
        return {"blank": blank}, {}

    def _planned(
        self, message: Mapping[str, Any], run: str, home: Path, sizes: Mapping[str, int]
    ) -> PlanGuard:
        assert self.asker is not None
        return self.plans.admit(message, self.asker, run, home, sizes)

    def _finish(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        session = self._session(message, leader)
        message, tensors = self.parcels.unpack(leader, body, learns=True)
        if not session.kept.exists():  # who leads may have been ended before it knew
            where = self.keep(session, message, session.final(message, tensors))
            session.kept.touch()
            self.say(f"the run's model for this site is in {where}")
            try:
                self.seen.model(self.run, where)
            except (CoterieError, OSError) as error:  # it is there all the same
                self._odd("where it is was", f"not noted: {error}")
        return {}, {}

    def _end(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        if self.session is not None and self.run == run_of(message):
            self._session(message, leader).over()
            self._remember_visits()
            self.seen.let_go()
            self.effort.write()
            self.session, self.run, self.leader = None, "", ""
        return {}, {}

    def _cancel(self, leader: str, message: Mapping[str, Any]) -> bytes:
        """Whoever leads a run may end what it asked for."""
        self._session(message, leader)
        self.cancel(f"cancelled by {leader}, who leads the run")
        self._note(leader, message, "done")
        return pack({}, {})

    def cancel(self, why: str) -> None:
        """What is computed here at present ends, with that reason, and the run may go on."""
        session = self.session
        if session is not None and session.net is not None:
            session.net.learner.watch.end(why)

    def _person_cancels(self) -> str:
        """Somebody at this site has said so (`coterie site cancel`), in another process, since work began."""
        path, session = self.state / CANCEL, self.session
        try:
            if session is None or path.stat().st_mtime < session.since:
                return ""
        except OSError:
            return ""
        path.unlink(missing_ok=True)
        return "ended by a person at this site: ask there"

    def _left_out(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        self.say(f"{leader} leaves this site out of a run: {str(message['why'])[:2000]}")
        return {}, {}

    def _ledger(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        session, found = self._session(message, leader), dict[str, Any]()
        if message["entries"] or "shown" not in message:
            found = self.signer.sign(run_of(message), message["first"], message["entries"])
        if "refused" in found:
            self._odd(f"the ledger of {leader}'s run is", f"not signed: {found['refused']}")
        if "shown" in message:
            found["seen"] = self._shown(session, message["shown"])
        return found, {}

    def _shown(self, session: Session, told: Any) -> int | str | None:
        """Up to which round this site has its part of the record; whatever is odd about it ends nothing."""
        rows = session.rows_mark()[:16]
        seat = Seat(self.run, self.leader, self.name, session.number, session.others, rows)
        try:
            return self.seen.take(seat, told)
        except CoterieError as error:
            why = "; ".join(lines_of(error))
        except Exception as error:  # as in `answer`
            log.debug("a part of a record could not be kept", exc_info=True)
            why = f"it cannot be read ({type(error).__name__})"
        self._odd(f"what {self.leader} shows of its run is", f"not kept: {why}")
        return "not kept"

    def _odd(self, what: str, outcome: str) -> None:
        self.say(f"{what} {outcome}")
        self.outcome = outcome if self.outcome == "done" else f"{self.outcome}; {outcome}"

    # what it has

    def _session(self, message: Mapping[str, Any], leader: str | None = None) -> Session:
        if self.session is None or message.get("run") != self.run:
            raise BadRun(f"site {self.name!r} is not in that run: start it anew, or resume it")
        if leader is not None and leader != self.leader:
            raise Refused(f"this run is led by {self.leader}, not by {shown(leader)}")
        return self.session

    def _free_for(self, leader: str) -> None:
        """One run at a time; one that nobody has asked anything of for a while may be set aside."""
        quiet = time.monotonic() - self.heard
        if self.session is not None and self.leader != leader and quiet < IDLE:
            raise BadRun(f"site {self.name!r} is in a run led by {self.leader}: try again when it is over")
        self._remember_visits()

    def _remember_visits(self) -> None:
        """A run that is begun again, after its end too, has those that it had."""
        if self.session is not None:
            self.visited[self.run] = self.session.visits
            while len(self.visited) > MOST_RUNS:
                del self.visited[next(iter(self.visited))]

    def _today(self, run: str) -> int:
        """How many other runs began here within a day."""
        return len(self.days.since(BEGUN) - {run})

    def _count(self, run: str) -> None:
        """One that was refused did not begin."""
        self.days.append(BEGUN, run)

    # what it says

    def _note(self, leader: str, message: Mapping[str, Any], outcome: str) -> None:
        self.say(f"{leader} asks: {asked(message)} · {outcome}")
        self.diary.write(leader, message, outcome)


BEGUN, CANCEL = "begun.txt", "cancel"
IDLE = 900.0  # seconds without a question after which a run may be set aside for another lead's
MOST_RUNS = 1000  # whose visits are remembered
