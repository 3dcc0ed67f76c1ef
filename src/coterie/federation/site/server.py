"""A site's process: what it answers to those who lead runs, within its policy. One run at a time.

    ping      nothing: whether it is free, and if not, with whose question it is busy
    hello     what its rows are, and what it takes part in
    deal      rows are set aside for testing, as the site of some number; sums and fit make inputs of them
    fold      for a tuning, how many rows a fold leaves
    check     what a check of its data finds, in counts and quantiles (`data/quality.py`)
    begin     a run, by its id: a model to train; the messages of `nets/site.py` then name the run
    finish    the model that a run ends with here: it is written down, to be used
    end       nothing of a run is needed any more
    cancel    what is being computed for the run ends
    ledger    ledger entries are signed (`ledger_signer.py`), its view of the run is kept (`views.py`)

What is asked of rows before a run begins is in `rows.py`, what a run asks while it lasts is for its
`Session`; here is what a site has whatever runs come and go. Everything is said in a line, and written into
asked.jsonl with who asked and what came of it; what work took is kept for the site alone (`request_log.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import coterie
from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.core.errors import BadRun, CoterieError, Refused, lines_of, shown
from coterie.core.wire import message_in, pack, payload
from coterie.federation.data.site_data import SiteData
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit
from coterie.federation.messages import check_order, printable
from coterie.federation.plans.at_site import SitePlans
from coterie.federation.plans.plan import PlanGuard
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import STAYS, check_begin, check_rows, check_size, to_dict
from coterie.federation.sealing.site import SealedSite
from coterie.federation.site.budget import SiteBudget
from coterie.federation.site.connected_sites import CardOf, ConnectedSites
from coterie.federation.site.consent import Consent
from coterie.federation.site.ledger_signer import Signer
from coterie.federation.site.request_log import CpuTime, RequestLog, words_for, words_for_answer
from coterie.federation.site.rows import Message, RowRequests
from coterie.federation.site.session import SendToPeer, Session
from coterie.federation.site.state_folders import RunFolders, run_of
from coterie.federation.site.views import Seat, ViewStore
from coterie.federation.transport.compression import Compression
from coterie.nets.site import ERRORS, PARTS

log = logging.getLogger("coterie")

MOMENT = 1.0  # seconds for which a site may be at work before it is busy
_BEGUN, CANCEL = "begun.txt", "cancel"
_MOST_SAID = 2_000  # letters of a line on the screen
_IDLE = 900.0  # seconds without a question after which a run may be set aside for another lead's
_MOST_RUNS = 1000  # whose visits are remembered
_Keep = Callable[[Session, Mapping[str, Any], Belief], str]


class _Turns:
    """Whose turn it is: leads are several, the site is one, and who waits can hear for whom."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._now: tuple[str, str, float] | None = None  # for whom, what is done, and since when

    @contextlib.contextmanager
    def alone(self, leader: str, what: str) -> Iterator[None]:
        with self.lock:
            self._now = (leader, what[:20], time.monotonic())
            try:
                yield
            finally:
                self._now = None

    def busy(self) -> tuple[str, str]:
        """Whose question is worked at, and that in words; nothing if none is."""
        if (now := self._now) is None:
            return "", ""
        leader, what, since = now
        return leader, f"busy: a {what} of {leader} since {time.monotonic() - since:.0f} s"

    def wait(self) -> str:
        """Nothing if it is free within a moment; else with what it is busy."""
        if self.lock.acquire(timeout=MOMENT):
            self.lock.release()
            return ""
        return self.busy()[1] or "busy"


class SiteServer(RowRequests):
    """What a site's line is connected to. `send_to_peer` sends to another party; `keep` writes a run's model
    down, and says where; `say` is for people; `card_of` knows who is connected; `kit` has the key that signs.
    """

    def __init__(
        self,
        name: str,
        holding: SiteData,
        policy: Policy,
        state: Path,
        send_to_peer: SendToPeer,
        keep: _Keep,
        say: Callable[[str], None],
        card_of: CardOf | None = None,
        kit: Kit | None = None,
    ) -> None:
        super().__init__(name, holding, policy, state, lambda line: say(printable(line, _MOST_SAID)))
        self.card_of, self.kit, self.send_to_peer, self.keep = card_of, kit, send_to_peer, keep
        self.log, self.turns = RequestLog(state, self.say), _Turns()
        self.visited: dict[str, int] = {}  # models that earlier runs have tried here
        self.session: Session | None = None
        self.compression, self.budget = Compression(policy.max_bytes), SiteBudget(state, policy)
        self.signer, self.cpu_time = Signer(state, kit), CpuTime(state)
        self.consent = Consent(state, name, policy.circles)
        self.plans = SitePlans(state, name, policy, self.say)
        self.asker: Card | None = None  # whose message is answered at present
        self.views = ViewStore(state, policy.max_rounds)
        self.run = self.leader = ""
        self.heard = 0.0  # when the session was last asked something
        self.runs = RunFolders(state)
        self.outcome, self.does = "done", ""  # of what it is asked at present, for who reads of it later

    # messages of all kinds

    def answer(self, sender: Card, header: Mapping[str, Any], body: bytes) -> bytes:
        """An answer to whoever leads; a refusal is one too, and so is a mishap."""
        message: dict[str, Any] = {}
        try:
            message = message_in(body)
            check_size(self.policy, len(body))
            do = str(message.get("do"))
            if do in (*CALLS, *ORDERS):
                check_order(message)
            if (call := CALLS.get(do)) is not None:  # while work goes on
                return call(self, sender.name, message)
            with self.turns.alone(sender.name, do):
                self.outcome, self.does, self.asker = "done", "", sender
                found = self._answer(sender.name, message, body)
                outcome, does = self.outcome, self.does
            self.log.write(sender.name, message, outcome, does)
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
        if message_in(body).get("do") not in CALLS:
            raise Refused(f"only {', '.join(CALLS)} can be asked while work goes on: ask instead")
        return self.answer(sender, header, body)

    def take_peer_message(self, sender: Card, header: Mapping[str, Any], body: bytes) -> None:
        try:
            check_size(self.policy, len(body))
            if sender.role == "helper":
                self._session(header).take_from_helper(sender.name, header, body)
                return
            if sender.role != "site":
                whose = f"a peer message of {shown(sender.name)}, who is a {sender.role}"
                raise Refused(f"{whose}: sites send them")
            self._session(header).take_peer_message(sender.name, body)
        except CoterieError as error:
            self._note(sender.name, {**header, "do": "letter"}, f"refused: {'; '.join(lines_of(error))}")
            raise
        self.say(f"{sender.name} sends models, {len(body):,} bytes")

    def _answer(self, leader: str, message: dict[str, Any], body: bytes) -> bytes:
        do = ORDERS.get(str(message.get("do")))
        self.say(f"{leader} asks: {words_for(message)}")
        if do is not None:
            self._known(leader)
            return pack(*do(self, leader, message, body))
        session = self._session(message, leader)
        if session.company is not None and message.get("do") not in STAYS:
            session.company.check(self.policy.min_sites)
            if message.get("do") == "letters":
                session.company.refuse_no_sites(str(order["to"]) for order in message["orders"])
        try:
            with self.cpu_time.of(self.run, leader):
                found = session.obey(body)
        finally:
            self.heard = time.monotonic()
        if message["do"] == "keep":
            self.cpu_time.write()
        if leaves := words_for_answer(message, message_in(found), payload(found)):
            self.say(f"{leaves} to {leader}")
        for line in session.withdrew:
            self.say(line)
        self.outcome, session.withdrew = "; ".join(session.withdrew) or "done", []
        self.does = session.does
        return found

    def _known(self, leader: str) -> None:
        if self.policy.requesters is not None and leader not in self.policy.requesters:
            raise Refused(f"{shown(leader)} is not among the policy's requesters: add it to requesters")

    def _note(self, leader: str, message: Mapping[str, Any], outcome: str) -> None:
        self.say(f"{leader} asks: {words_for(message)} · {outcome}")
        self.log.write(leader, message, outcome)

    # what may be asked at any time

    def _ping(self, leader: str, message: Mapping[str, Any]) -> bytes:
        """Whether it is free within a moment, and if not, why."""
        self._known(leader)
        self._note(leader, message, "done")
        busy = self.turns.wait()
        return pack({"busy": busy} if busy else {}, {})

    def _cancel(self, leader: str, message: Mapping[str, Any]) -> bytes:
        """Whoever leads a run may end what it asked for."""
        self._session(message, leader)
        self.cancel(f"cancelled by {leader}, who leads the run")
        self._note(leader, message, "done")
        return pack({}, {})

    def cancel(self, why: str) -> None:
        """What is computed here at present ends, with that reason, and the run may go on."""
        if self.session is not None and self.session.net is not None:
            self.session.net.learner.watch.end(why)

    def _hello(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        return {
            "hello": {**self.holding.hello(), "digest": self._mark_of()},
            "policy": {**to_dict(self.policy), "vetoes": self.consent.vetoes()},
            "version": coterie.__version__,
        }, {}

    def _left_out(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        self.say(f"{leader} leaves this site out of a run: {str(message['why'])[:2000]}")
        return {}, {}

    # a run

    def _begin(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        run, data = run_of(message), self._ground(leader, message)
        if self.session is None or self.run != run:
            blank = self._begin_anew(run, leader, message, data)
        else:  # the same again, from a lead that was started anew
            session = self._session(message, leader)
            self._admit(message, run, session.folder, session.client)
            blank = session.began(message)
        self.heard = time.monotonic()
        return {"blank": blank}, {}

    def _begin_anew(self, run: str, leader: str, message: Mapping[str, Any], data: SiteData) -> bool:
        """A run of which nothing is in memory, if all that may object to it does not. One run at a time; one
        that nobody has asked anything of for a while may be set aside.
        """
        if self.session is not None and self.leader != leader and time.monotonic() - self.heard < _IDLE:
            raise BadRun(f"site {self.name!r} is in a run led by {self.leader}: try again when it is over")
        self._remember_visits()
        way = json.dumps([message.get("ground"), message.get("fold")]).encode()
        begun = f"{run}-{hashlib.sha256(way).hexdigest()[:8]}"
        check_begin(self.policy, message["work"], leader, len(self._today(_BEGUN) - {begun}))
        company = ConnectedSites(self.name, message["sites"], self.card_of, self.kit)
        if (many := len(company.others) + 1) != message["work"]["sites"]:
            named = f"a run of {shown(message['work']['sites'])} sites that names {many}"
            raise Refused(f"{named}: is it of another version?")
        company.check(self.policy.min_sites)
        (client, places), home = data.folded(message.get("fold")), self.runs.of(run, leader)
        plan = self._admit(message, run, home, client)
        for rows in places.values():  # what the run is about, so that it is not refused in its middle
            self.guard.tell(rows, leader, run)
        tools = (self.send_to_peer, self.compression, self.budget, self.consent, self.guard)
        session = Session(
            client, int(message["number"]), home, self.policy, leader, company.others, *tools, places
        )
        session.company, session.plan, session.recipe = company, plan, data.data.recipe
        if message.get("helpers") is not None:
            card_of, limits = self.card_of or (lambda name: None), SealedSite.limits_under(self.policy)
            session.sealed = SealedSite(self.name, message["helpers"], card_of, limits)
        session.cancels = self._person_cancels
        session.visits = max(self.visited.get(run, 0), self.guard.tried[run])
        blank = session.began(message)
        self._count_today(_BEGUN, begun)  # one that was refused did not begin, and leaves nothing
        self.runs.make(home, leader, plan.digest)
        self.views.let_go()
        self.compression.clear()
        self.session, self.run, self.leader = session, run, leader
        return blank

    def _admit(self, message: Mapping[str, Any], run: str, home: Path, client: Client) -> PlanGuard:
        """Rows and plan of a run are as the policy has them, and as people here say."""
        assert self.asker is not None
        sizes = {part: len(getattr(client, part)) for part in PARTS}
        check_rows(self.policy, sizes)
        self.budget.check_rows(sizes)
        return self.plans.admit(message, self.asker, run, home, sizes)

    def _finish(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        session = self._session(message, leader)
        message, tensors = self.compression.unpack(leader, body, learns=True)
        if not session.kept.exists():  # who leads may have been ended before it knew
            where = self.keep(session, message, session.final(message, tensors))
            session.kept.touch()
            self.say(f"the run's model for this site is in {where}")
            try:
                self.views.model(self.run, where)
            except (CoterieError, OSError) as error:  # it is there all the same
                self._odd("where it is was", f"not noted: {error}")
        return {}, {}

    def _end(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        if self.session is not None and self.run == run_of(message):
            shutil.rmtree(self._session(message, leader).folder, ignore_errors=True)
            self._remember_visits()
            self.views.let_go()
            self.cpu_time.write()
            self.session, self.run, self.leader = None, "", ""
        return {}, {}

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

    def _ledger(self, leader: str, message: dict[str, Any], body: bytes) -> Message:
        session, found = self._session(message, leader), dict[str, Any]()
        if message["entries"] or "shown" not in message:
            found = self.signer.sign(self.run, message["first"], message["entries"])
        if "refused" in found:
            self._odd(f"the ledger of {leader}'s run is", f"not signed: {found['refused']}")
        if "shown" in message:  # up to which round this site has its part of the record
            rows = session.rows_mark[:16]
            seat = Seat(self.run, self.leader, self.name, session.number, session.others, rows)
            try:
                found["seen"] = self.views.take(seat, message["shown"])
            except Exception as error:  # as in `answer`: whatever is odd about it ends nothing
                log.debug("a part of a record could not be kept", exc_info=True)
                known = isinstance(error, CoterieError)
                why = "; ".join(lines_of(error)) if known else f"it cannot be read ({type(error).__name__})"
                self._odd(f"what {self.leader} shows of its run is", f"not kept: {why}")
                found["seen"] = "not kept"
        return found, {}

    def _odd(self, what: str, outcome: str) -> None:
        self.say(f"{what} {outcome}")
        self.outcome = outcome if self.outcome == "done" else f"{self.outcome}; {outcome}"

    def _session(self, message: Mapping[str, Any], leader: str | None = None) -> Session:
        if self.session is None or message.get("run") != self.run:
            raise BadRun(f"site {self.name!r} is not in that run: start it anew, or resume it")
        if leader is not None and leader != self.leader:
            raise Refused(f"this run is led by {self.leader}, not by {shown(leader)}")
        return self.session

    def _remember_visits(self) -> None:
        """A run that is begun again, after its end too, has those that it had."""
        if self.session is not None:
            self.visited[self.run] = self.session.visits
            while len(self.visited) > _MOST_RUNS:
                del self.visited[next(iter(self.visited))]


CALLS = {"ping": SiteServer._ping, "cancel": SiteServer._cancel}  # while work goes on
ORDERS = {
    "hello": SiteServer._hello,
    "deal": SiteServer._deal,
    "sums": SiteServer._sums,
    "fit": SiteServer._fit,
    "fold": SiteServer._fold,
    "check": SiteServer._check,
    "begin": SiteServer._begin,
    "finish": SiteServer._finish,
    "end": SiteServer._end,
    "left-out": SiteServer._left_out,
    "ledger": SiteServer._ledger,
}
