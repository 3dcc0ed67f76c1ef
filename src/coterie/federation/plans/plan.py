"""The plan of a run: what it will ask of a site, signed by who leads it, told before it begins, and held to.

The lead plays the run beforehand (`dry_run.py`) and writes down which kernels reached sites, with their
options, how many models at once and in a round, and by which orders models moved. A plan comes with `begin`:

    {"plan": the plan in its only spelling, "signature": over SAID, federation, lead, run and that text}

A site verifies it by the certificate of whoever sent it, shows it (`at_site.py`), and holds every message of
the run against it: what is outside of the plan is refused (`PlanGuard`). What a plan asks for is the policy's
to allow: a plan allows nothing by itself.

Options that differ from visit to visit in any run are named by kernels themselves, and left out of a plan:
those that follow from what others told (`varies`: how far downhill), and those that choose rows (`deals`:
which fold), of which a plan says how many there are. Rounds are done again when sites go, so that counts are
bounded by _MOST_TIMES times what was planned.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta, Struct

from coterie.core.errors import CoterieError, Refused, shown
from coterie.core.facts import kernel_fact
from coterie.core.kernel import KERNELS, kernel_of
from coterie.core.kernel import kernel_to_dict as told_kernel
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit
from coterie.federation.messages import AGAIN
from coterie.federation.site.bounds import refuse_many
from coterie.storage.chain import canonical

_SAID = b"coterie, plan of a run:\n"  # no other signature of a party's is over something that begins so
_LARGEST = 1 << 20  # bytes of a plan
_MOST_VISITS = 500  # kinds of them, which people are to read
_Many = Annotated[int, Meta(ge=1)]
_DIGEST = 32  # letters: 2**64 plans would have to be tried to find two with the same
BEGIN = ("model", "options", "shape", "outputs", "precision", "engine")
_UNREADABLE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
_MOST_TIMES = 4  # times that what is planned may be asked: rounds are done again when sites go
_HEADER = 1 << 20  # bytes of a message beside its models
PLAIN = frozenset({"mix", "copy", "take", "distances", "rows"})  # orders that a plan has by their verb alone
SEALING = frozenset({"seal", "unseal"})
_OFF: tuple[Any, ...] = (False, 0, "", [], None)


class PlannedVisit(Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel that visits sites, told as data without what varies.

    guests    the most models of one visit
    a_round   the most models of one round
    dealings  in how many ways it chooses rows, all in all
    """

    kernel: dict[str, Any]
    guests: _Many
    a_round: _Many
    dealings: _Many

    @property
    def words(self) -> str:
        """Its kernel: sgd(lr=0.1, epochs=1, batch=32)"""
        return _in_words(self.kernel)


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """What a run will ask.

    begin     the model, and how it is computed, as `begin` tells it
    orders    by which models and figures move: "give mix" is a model for the lead, to be mixed
    reveals   what the method shows to whom, as it says itself
    bytes     the most bytes of models in one message
    seconds   how long an answer is waited for
    """

    method: str
    options: dict[str, Any]
    wraps: tuple[str, ...]
    begin: dict[str, Any]
    parameters: int
    rounds: int
    sites: int
    visits: Annotated[tuple[PlannedVisit, ...], Meta(min_length=1)]
    orders: tuple[str, ...]
    reveals: dict[str, Any]
    sealed: bool
    bytes: int
    seconds: int | float

    @property
    def text(self) -> str:
        """Its only spelling."""
        return canonical(msgspec.to_builtins(self))

    def digest(self, lead: str) -> str:
        """What a plan of this lead is known by, whatever the run and however long it waits for answers. Of
        two with the same digest, which a lead could find if it were short, people would allow one.
        """
        text = msgspec.structs.replace(self, seconds=0.0).text
        return hashlib.sha256(f"{lead}\n{text}".encode()).hexdigest()[:_DIGEST]

    @classmethod
    def verified(cls, told: Any, lead: Card, run: str) -> Plan:
        """The plan of this run, if this lead has signed it; else Refused."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        if told is None:
            raise Refused(f"a run without a plan of what it will ask: {AGAIN}")
        texts = isinstance(told, Mapping) and all(isinstance(told.get(k), str) for k in ("plan", "signature"))
        if not texts or len(told["plan"]) > _LARGEST:
            raise Refused(f"a plan that cannot be read: {AGAIN}")
        said_so = _message(lead.federation, lead.name, run, told["plan"])
        try:
            signature = b64decode(told["signature"], validate=True)
            lead.public_key.verify(signature, said_so, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            line = f"a plan that {shown(lead.name)[1:-1]} has not signed for this run"
            raise Refused(f"{line}: start the run anew") from None
        return plan_of(told["plan"])

    def check_begin(self, begin: Mapping[str, Any]) -> None:
        """What a run says when it begins is what its plan says."""
        sites = len(set(map(str, begin["sites"])))
        if sites != self.sites:
            raise Refused(f"a run of {sites} sites, where its plan has {self.sites}: start it anew")
        for name in BEGIN:
            if begin[name] != (planned := self.begin.get(name)):
                have = f"{name} {shown(begin[name])}, where the run's plan has {shown(planned)}"
                raise Refused(f"{have}: start it anew")


def plan_of(text: str) -> Plan:
    """The inverse of `Plan.text`; what is no plan is refused."""
    try:
        plan = msgspec.convert(json.loads(text), Plan)
        refuse_many(len(plan.visits), "kinds of visits in a plan", _MOST_VISITS)
        for visit in plan.visits:
            kernel_of(visit.kernel)
        if plan.text != text:
            raise ValueError
    except CoterieError as error:
        raise Refused(f"a plan that cannot be read: {error}") from None
    except (*_UNREADABLE, msgspec.ValidationError):
        raise Refused(f"a plan that cannot be read: {AGAIN}") from None
    return plan


# what is signed


def _message(federation: str, lead: str, run: str, text: str) -> bytes:
    return _SAID + canonical({"federation": federation, "lead": lead, "plan": text, "run": run}).encode()


def signed_plan(kit: Kit, run: str, plan: Plan) -> dict[str, str]:
    """A plan for one run, by the lead's kit."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    text = plan.text
    signature = kit.key.sign(_message(kit.federation, kit.name, run, text), ec.ECDSA(hashes.SHA256()))
    return {"plan": text, "signature": b64encode(signature).decode()}


# what is held against it


def fixed_options(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel as data, without the options that differ from visit to visit."""
    cls = KERNELS[str(kernel.get("name", ""))]
    left = {*kernel_fact(cls, "varies"), *kernel_fact(cls, "deals")}
    return {
        name: fixed_options(value) if isinstance(value, Mapping) else value
        for name, value in kernel.items()
        if name not in left
    }


def _row_choices(kernel: Mapping[str, Any]) -> list[Any]:
    """By which options a kernel as data, and those inside of it, choose rows."""
    mine = [kernel.get(name) for name in kernel_fact(KERNELS[str(kernel.get("name", ""))], "deals")]
    return mine + [_row_choices(value) for value in kernel.values() if isinstance(value, Mapping)]


def with_all_options(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel as data with every option, whoever left some out, in the only spelling of each."""
    return json.loads(canonical(told_kernel(kernel_of(kernel))))  # type: ignore[no-any-return]


def _in_words(kernel: Mapping[str, Any]) -> str:
    """A kernel as data in words, without options that are switched off: sgd(lr=0.1, epochs=1, batch=32)"""
    options = {f.name: kernel.get(f.name) for f in fields(KERNELS[str(kernel["name"])])}
    words = [
        _in_words(value) if isinstance(value, Mapping) else f"{name}={value}"
        for name, value in options.items()
        if value not in _OFF
    ]
    return f"{kernel['name']}({', '.join(words)})"


@lru_cache(maxsize=256)
def identity_of(text: str) -> tuple[str, str, str]:
    """Of a kernel as data: which one it is in a plan, how it chooses rows, and what it is called."""
    told = with_all_options(json.loads(text))
    return canonical(fixed_options(told)), canonical(_row_choices(told)), _in_words(told)


class PlanGuard:
    """Holds the messages of one run against its plan, at one site."""

    def __init__(self, plan: Plan, digest: str) -> None:
        self.plan, self.digest = plan, digest
        self.visits = {canonical(visit.kernel): visit for visit in plan.visits}
        self.tried, self.dealt = Counter[str](), dict[str, set[str]]()

    def check(self, message: Mapping[str, Any], size: int = 0) -> None:
        """Refuses what is outside of the plan."""
        do = message.get("do")
        if size > _MOST_TIMES * self.plan.bytes + _HEADER:
            self._refuse(f"a message of {size:,} bytes", f"up to {self.plan.bytes:,} of models")
        try:
            if do == "visit":
                self._visit(message)
            elif do == "letters":
                for order in message["orders"]:
                    self._order(f"letter {order.get('why')}")
            elif do == "give":
                self._order(f"give {message.get('why')}")
            elif do in SEALING and not self.plan.sealed:
                self._refuse(str(do), "nothing sealed")
            elif do in PLAIN:
                self._order(str(do))
        except _UNREADABLE:
            raise Refused(f"a message {shown(do)} that lacks something: {AGAIN}") from None

    def _visit(self, message: Mapping[str, Any]) -> None:
        mark, chosen, what = identity_of(canonical(message["kernel"]))
        planned, plan = self.visits.get(mark), self.plan
        if planned is None:
            self._refuse(what, ", ".join(v.words for v in plan.visits))
        models, round = len(message["rows"]), int(message["key"]["round"])
        if round > plan.rounds:
            self._refuse(f"{what} in round {round}", f"{plan.rounds} rounds")
        if models > _MOST_TIMES * max(planned.guests, plan.sites):
            self._refuse(f"{what} on {models} models at once", f"{planned.guests}")
        tried = self.tried[mark] + models
        if tried > _MOST_TIMES * max(planned.a_round, plan.sites) * (plan.rounds + 2):
            has = f"{planned.a_round} a round, in {plan.rounds}"
            self._refuse(f"{what} on {tried} models in the run", has)
        dealt = self.dealt.get(mark, set()) | {chosen}
        if len(dealt) > _MOST_TIMES * planned.dealings:
            self._refuse(f"{planned.words} on rows dealt in {len(dealt)} ways", f"{planned.dealings}")
        self.tried[mark], self.dealt[mark] = tried, dealt

    def _order(self, order: str) -> None:
        if order not in self.plan.orders:
            self._refuse(shown(order)[1:-1], ", ".join(self.plan.orders))

    def _refuse(self, what: str, has: str) -> NoReturn:
        outside = f"{what[:200]} is outside of the run's plan {self.digest}, which has {has[:400]}"
        raise Refused(f"{outside}: start a run whose plan says so")
