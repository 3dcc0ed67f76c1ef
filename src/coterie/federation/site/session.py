"""One run at a site: its model, what it holds, and the policy that every message is held against."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Client
from coterie.core.errors import BadData, BadRun, Refused, shown
from coterie.core.facts import kernel_fact
from coterie.core.kernel import Kernel
from coterie.core.seeds import Key
from coterie.core.wire import pack
from coterie.data.tables.recipe import Recipe
from coterie.federation.messages import check_order
from coterie.federation.plans.plan import BEGIN, PlanGuard
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import check_message, check_promised, objection_to
from coterie.federation.site.bounded_site import BoundedSite
from coterie.federation.site.bounds import PEER_SECONDS, Effects, refuse_many
from coterie.federation.site.budget import SiteBudget, content_of
from coterie.federation.site.connected_sites import ConnectedSites
from coterie.federation.site.consent import Consent
from coterie.federation.site.model_origins import Bond, Origins
from coterie.federation.site.rows import RowGuard
from coterie.federation.transport.compression import FROM, TO, Compression
from coterie.nets.packing import WHOLE
from coterie.nets.site import PARTS, Answer, ids_in, lacking, rows_of
from coterie.privacy.accounting import repeated

_FIGURES = frozenset({"loss", "acceptance", "step"})  # of local work, that its rows can be told from
_LOSS_TOLD = re.compile(r" \(loss [^)]*\)")
SendToPeer = Callable[..., None]  # as `Post.send_to_peer`
MOST_STORED = 16  # rounds whose models lie on the disk
_MOST_PROMISED = 100_000  # (receiver, id) in a round
_MOST_LINES = 20  # of what it withdrew from, that people are told at once


class Session(BoundedSite):
    """A site in one run, which a person leads; `others` are the sites that take part beside it."""

    def __init__(
        self,
        client: Client,
        number: int,
        home: Path,
        policy: Policy,
        leader: str,
        others: frozenset[str],
        send_to_peer: SendToPeer,
        compression: Compression,
        budget: SiteBudget | None = None,
        consent: Consent | None = None,
        guard: RowGuard | None = None,
        places: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(client, number, home, policy, leader)
        self.folder, self.guard, self.places = home, guard, places or {}
        self.budget = budget  # from which visits with noise are paid
        self.origins = Origins(client.name)
        self.origins.load(home)
        known = frozenset(self.origins.of)  # of what an earlier process stored, all that it knew of
        self.on_disk = dict.fromkeys(self._stored(), known)  # ids, by round
        self.in_peer_messages: dict[str, frozenset[str]] = {}  # whose models were in those to other sites
        self.does = ""  # what the last visit did, for people
        self.consent = consent  # what people here say of others' circles
        self.others, self.send_to_peer, self.compression = others, send_to_peer, compression
        self.visits = 0
        self.asked: dict[str, Any] = {}  # how it began
        self.company: ConnectedSites | None = None  # who of the others is connected
        self.plan: PlanGuard | None = None  # what it said that it would ask
        self.sealed: Any = None  # its part with helpers, if the run is sealed (`sealing/site.py`)
        self.recipe: Recipe | None = None  # how its rows are read, as the run has their columns
        self.limits = policy.limits
        self.promised: set[tuple[str, int]] = set()  # (receiver, id) of sums that it stays in, in this round
        self.withdrew: list[str] = []  # what is still to be said
        self.lock = threading.Lock()

    def began(self, message: Mapping[str, Any]) -> bool:
        """Builds the model; whether nothing of an earlier process of ours is in memory."""
        told = {k: message[k] for k in BEGIN}
        if self.net is not None and self.asked == told:
            return False
        self.check_build(told)
        self.do_begin(told, {})
        self._shapes = {}
        self.asked = told
        return True

    def obey(self, data: bytes) -> bytes:
        """What it is asked within the run."""
        with self.lock:
            message, tensors = self.compression.unpack(self.leader, data, learns=True)
        check_order(message)
        self.check_orders(message)
        if self.plan is not None:
            self.plan.check(message, len(data))
        if (apart := {"letters": self.do_letters, "seal": self.do_seal}.get(message["do"])) is not None:
            with self.timed():  # they take the lock when they need it
                return pack(*apart(message, tensors))
        if message["do"] == "lacks":
            return pack({"lacks": lacking(self.held, message["like"])}, {})
        with self.lock:
            self.visits = check_message(self.policy, message, len(data), self.visits, self.origins.whole)
            self.origins.check(message)
            if message["do"] == "give":
                check_promised(self.limits, self.promised, "", message["rows"], message.get("why"))
            self.check_ids(message)
            self.check_room(message, tensors)
            keeps = message["do"] == "visit" and kernel_fact(self.kernel(message["kernel"]), "keeps")
            self.origins.mark_made(message, tensors, keeps)
            found, models = self._do(message, tensors)
            how = "none" if message.get("whole") else str(message.get("squeeze", "none"))
            answer = self.compression.pack(self.leader, found, models, how, learns=False)
            self.compression.taken(self.leader)
            return answer

    def _do(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        """Within the policy's bounds; of a visit, without figures that would be of few rows, or of rows that
        differ from visit to visit.
        """
        do: Callable[..., Answer] = getattr(self, f"do_{message['do']}")
        visit = message["do"] == "visit"
        with self.bounded():
            effects = self.weighed(message, tensors) if visit else Effects()
            found, models = do(message, tensors)
        self.does = effects.words() if visit else ""
        if visit and (effects.drawn or effects.later < self.policy.min_rows) and "numbers" in found:
            names = [name for name in found["numbers"] if name not in _FIGURES]
            found, models = {**found, "numbers": names}, {name: models[name] for name in names}
        if "diverged" in found:  # of which rows a loss is that is told with it, nobody has checked
            found["diverged"] = _LOSS_TOLD.sub("", str(found["diverged"]))
        return found, models

    def admitted(
        self,
        kernel: Kernel,
        key: Key,
        called: list[tuple[int, int]],
        message: Mapping[str, Any],
        beliefs: Beliefs,
        beside: Mapping[str, Beliefs],
    ) -> tuple[Key, list[tuple[int, int]]]:
        """A visit with noise is paid for, and has noise that nobody else knows; guests go by their places, as
        two of the same number would have the same.
        """
        sizes = {part: len(getattr(self.client, part)) for part in PARTS}
        cost = () if self.budget is None else self.budget.cost(kernel, sizes)
        if self.budget is None or not cost:
            return key, called
        facts = {name: message[name] for name in ("run", "kernel", "key", "slot", "rows")}
        facts |= {"leader": self.leader, "model": self.asked, "number": self.number}
        facts["data"] = self.rows_mark
        keeps = bool(kernel_fact(kernel, "keeps"))
        memory = self._net().slots.before(message["slot"], key.round) if keeps else None
        own, mark = self.budget.secret_key(content_of(facts, beliefs, beside, memory), key)
        visits = 1 if kernel_fact(kernel, "together") else len(called)
        self.budget.spend(self.leader, str(message["run"]), message["kernel"], repeated(cost, visits), mark)
        return own, [(i, self.number) for i in range(len(called))]

    @cached_property
    def rows_mark(self) -> str:
        """The rows that this run has here, in few letters."""
        return hashlib.sha256(pack({}, rows_of(self.client))).hexdigest()

    def do_offer(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        """Sums that models of ours would be in, or circles: from which we withdraw, and why."""
        found, circle = list[list[Any]](), bool(message["circle"])
        noted, lines = list[tuple[Mapping[str, Any], str]](), list[str]()
        objection = cache(self.consent.objection) if self.consent is not None else None  # read from a file
        for i, told in enumerate(message["sums"]):
            self._net().learner.watch.check()
            to = str(told["to"])
            pairs = {(to, int(id)) for id in told["ids"]}
            told = told if self.company is None else self.company.bounded(told)
            why = objection_to(self.limits, told)
            if objection is not None and to in self.others:
                why = why or objection(to)
                noted += [(told, why)] if circle or objection(to) else []
            if why:
                self.promised -= pairs
                found.append([i, why])
                what = "circle" if circle else "sum"
                lines.append(f"withdrew from the {what} of {shown(to or self.leader)[1:-1]}: {why}")
            else:
                self.promised |= pairs
                refuse_many(len(self.promised), "models promised in a round", _MOST_PROMISED)
        self.withdrew += lines[:_MOST_LINES]
        if len(lines) > _MOST_LINES:
            self.withdrew.append(f"and from {len(lines) - _MOST_LINES} more")
        if self.consent is not None:
            try:
                self.consent.note(str(message.get("run")), self.leader, noted, again=circle)
            except BadRun as error:  # a full disk is said, and ends nothing
                self.withdrew.append(str(error))
        return {"withdraws": found}, {}

    def check_leaves(self, to: str, rows: Sequence[Any], why: Any) -> None:
        """Models of ours are to go to another site, for a sum or for something else."""
        check_promised(self.limits, self.promised, to, rows, why)
        if self.consent is not None:
            self.consent.check(to, why)

    def do_seal(self, message: Mapping[str, Any], tensors: dict[str, Tensor]) -> Answer:
        """Replies go to both servers, masked."""
        with self.lock:
            check_message(self.policy, message, 0, self.visits, self.origins.whole)
            self.origins.check({**message, "do": "seal"})
            if message.get("to") is not None:  # for a sum there, and not to be measured
                rows = [order["row"] for order in message["orders"]]
                self.check_leaves(str(message["to"]), rows, "mix")
            self._take(tensors)
            sealed = self._sealed()
            rows = [order[key] for order in message["orders"] for key in ("row", "less") if order.get(key)]
            here = {json.dumps(row): self._belief(row) for row in rows}  # as it is now
        send = partial(self._post, message)
        return {"sent": sealed.seal(message, lambda row: here[json.dumps(row)], send)}, {}

    def do_unseal(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        """A sum of sealed replies arrives in two shares, and is kept under new ids."""
        factors = {n.removeprefix("factor/"): t for n, t in tensors.items() if n.startswith("factor/")}
        self._take({n: t for n, t in tensors.items() if not n.startswith("factor/")})
        made = self._sealed().unseal(message, factors, self._belief)
        self.held |= {int(id): dict(b) for id, b in zip(message["new"], made, strict=True)}
        return {}, {}

    def do_keep(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        if self.sealed is not None:
            self.sealed.forget()
        self.promised = set()
        found = super().do_keep(message, tensors)
        for round in self.on_disk.keys() - self._stored().keys():
            del self.on_disk[round]
        self.origins.keep({*self.held, *(id for ids in self.on_disk.values() for id in ids)})
        return found

    def do_fetch(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        self.promised = set()
        return super().do_fetch(message, tensors)

    def _sealed(self) -> Any:
        if self.sealed is None:
            raise Refused("this run did not begin as a sealed one: start it anew")
        return self.sealed

    def do_letters(self, message: Mapping[str, Any], tensors: dict[str, Tensor]) -> Answer:
        """Contents for other sites, each sealed for its receiver; how much went, or why it was not taken."""
        sent, exact = list[int | str](), message.get("squeeze", "none") in ("none", "delta")
        answers = {} if self.consent is None else self.consent.answers()
        vetoes = [name for name, line in answers.items() if line.get("allow") is not True]
        bond = Bond.of(self.policy, vetoes)  # what this site demands of others for its own models
        for order in message["orders"]:
            self._net().learner.watch.check()
            to = str(order["to"])
            if to not in self.others:
                whom = f"a peer message to {shown(to)}, who takes no part in this run"
                raise Refused(f"{whom}: start the run anew")
            with self.lock:
                check_message(self.policy, {**order, "do": "letter"}, 0, self.visits, self.origins.whole)
                named = {"new": order["new"], "rows": order["rows"]}
                self.check_ids(named)
                self.check_room(named, {})
                self.origins.check_peer_message(to, order["rows"])
                self.check_leaves(to, order["rows"], order.get("why"))
                head, models = self.do_letter(order, {})
                had = self.in_peer_messages.get(to, frozenset())
                before = frozenset() if exact else had  # of what is there, something may be left
                bonds = self.origins.header(order["rows"], order["new"], bond, before)
                self.in_peer_messages[to] = had | self.origins.within(order["rows"])
            try:
                self._send(message, to, {**head, **bonds}, models)
                sent.append(sum(t.nbytes for t in models.values()))
            except BadRun as error:
                sent.append(str(error))
        return {"sent": sent}, {}

    def _send(
        self, message: Mapping[str, Any], to: str, head: Mapping[str, Any], models: Mapping[str, Tensor]
    ) -> None:
        """In changes, or whole if the receiver has lost what they are of."""
        way = TO + to
        for how in (str(message.get("squeeze", "none")), "none"):
            with self.lock:
                letter = self.compression.pack(way, head, models, how, learns=True)
            try:
                self._post(message, to, {"run": message["run"]}, letter)
                self.compression.taken(way)
                return
            except (BadRun, Refused) as error:
                self.compression.forget(way)
                if how == "none" or not str(error).endswith(WHOLE):
                    raise

    def _post(self, message: Mapping[str, Any], to: str, header: dict[str, Any], letter: bytes) -> None:
        """All letters of a message together take no longer than work may, and are cancelled as work is."""
        watch = self._net().learner.watch
        watch.check()
        deadline, patience = (min(message[k], PEER_SECONDS) for k in ("deadline", "patience"))
        self.send_to_peer(to, header, letter, min(deadline, watch.left()), patience, watch.check)

    def do_store(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        """With whose models they are: a process that is started anew has to know."""
        stored = self._stored()
        if int(message["round"]) not in stored and len(stored) >= MOST_STORED:
            raise Refused(f"{len(stored)} rounds are written down here, and none was let go: keep first")
        found = super().do_store(message, tensors)
        self.on_disk[int(message["round"])] = frozenset(self.held.keys() & set(message["live"]))
        self.origins.store(self.folder)
        return found

    def take_peer_message(self, sender: str, data: bytes) -> None:
        """Contents of another site. What this site made itself stays as it is."""
        if sender not in self.others:
            raise Refused(f"a peer message of {shown(sender)}, who takes no part in this run")
        with self.lock:
            head, tensors = self.compression.unpack(FROM + sender, data, learns=True)
        ids = set(ids_in(tensors).values())
        with self.lock:
            if ids & (self.held.keys() - self.copies):
                raise Refused(f"a peer message of {shown(sender)} has the names of what is ours")
            for name, t in tensors.items():
                if t.is_floating_point() and not bool(torch.isfinite(t.sum()) or torch.isfinite(t).all()):
                    raise BadData(
                        f"{shown(name)} from {sender} is not finite: leave that site out, or lower lr"
                    )
            self.check_room({}, tensors)
            self._take(tensors)
            self.origins.came(sender, ids, head)

    def take_from_helper(self, sender: str, header: Mapping[str, Any], data: bytes) -> None:
        """Seeds of masks, or a share of a sum."""
        with self.lock:
            self._sealed().take(sender, header, data)

    def final(self, message: Mapping[str, Any], tensors: dict[str, Tensor]) -> Belief:
        """The model that the run ends with here."""
        with self.lock:
            self._take(tensors)
            return dict(self._belief(message["row"]))

    @property
    def kept(self) -> Path:
        """A file that says that the run's model has been written down."""
        return self.folder / "kept"
