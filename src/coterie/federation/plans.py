"""The plan of a run: what it will ask of a site, signed by who leads it, told before it begins, and held to.

The lead plays the run beforehand (`runs/planning.py`) and writes down which kernels reached sites, with their
options, how many models at once and in a round, and by which orders models moved. A plan comes with `begin`:

    {"plan": the plan in its only spelling, "signature": over SAID, federation, lead, run and that text}

A site verifies it by the certificate of whoever sent it, shows it (`plan_words.py`), and holds every message
of the run against it (`PlanGuard`): what is outside is refused. Options that differ from visit to visit in
any run are named by kernels themselves, and left out of a plan: those that follow from what others told
(`varies`: how far downhill), and those that choose rows (`deals`: which fold), of which a plan says how many
there are. Rounds are done again when sites go, so that counts are bounded by AGAIN times what was planned.
What a plan asks for is the policy's to allow: a plan allows nothing by itself.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

from coterie.core.errors import CoterieError, Refused, shown
from coterie.core.kernel import KERNELS, kernel_of
from coterie.core.kernel import told as told_kernel
from coterie.federation.certificates import Card
from coterie.federation.named import refuse_many
from coterie.federation.party import Kit
from coterie.ledger.chain import canonical

SAID = b"coterie, plan of a run:\n"  # no other signature of a party's is over something that begins so
AGAIN = 4  # times that what is planned may be asked: rounds are done again when sites go
LARGEST = 1 << 20  # bytes of a plan
MOST_VISITS = 500  # kinds of them, which people are to read
DIGEST = 32  # letters: 2**64 plans would have to be tried to find two with the same
HEADER = 1 << 20  # bytes of a message beside its models
PLAIN = frozenset({"mix", "copy", "take", "distances", "rows"})  # orders that a plan has by their verb alone
SEALING = frozenset({"seal", "unseal"})
FREE = frozenset({"offer", "keep", "store", "fetch", "lacks"})  # that every run has, and that tell nothing
BEGIN = ("model", "options", "shape", "outputs", "precision", "engine")
SAYS_AGAIN = "is it of another version?"
OFF: tuple[Any, ...] = (False, 0, "", [], None)
UNREADABLE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class PlannedVisit:
    """A kernel that visits sites, told as data without what varies.

    guests    the most models of one visit
    a_round   the most models of one round
    dealings  in how many ways it chooses rows, all in all
    """

    kernel: Mapping[str, Any]
    guests: int
    a_round: int
    dealings: int


@dataclass(frozen=True)
class Plan:
    """What a run will ask.

    begin     the model, and how it is computed, as `begin` tells it
    orders    by which models and figures move: "give mix" is a model for the lead, to be mixed
    reveals   what the method shows to whom, as it says itself
    bytes     the most bytes of models in one message
    seconds   how long an answer is waited for
    """

    method: str
    options: Mapping[str, Any]
    wraps: tuple[str, ...]
    begin: Mapping[str, Any]
    parameters: int
    rounds: int
    sites: int
    visits: tuple[PlannedVisit, ...]
    orders: tuple[str, ...]
    reveals: Mapping[str, Any]
    sealed: bool
    bytes: int
    seconds: float

    @property
    def text(self) -> str:
        """Its only spelling."""
        return canonical(asdict(self))

    def digest(self, lead: str) -> str:
        """What a plan of this lead is known by, whatever the run and however long it waits for answers. Of
        two with the same digest, which a lead could find if it were short, people would allow one.
        """
        return hashlib.sha256(f"{lead}\n{replace(self, seconds=0.0).text}".encode()).hexdigest()[:DIGEST]


def plan_of(text: str) -> Plan:
    """The inverse of `Plan.text`; what is no plan is refused."""
    try:
        table = json.loads(text)
        visits = tuple(PlannedVisit(**_typed(PlannedVisit, one)) for one in table["visits"])
        plan = Plan(**_typed(Plan, {**table, "visits": visits}))
        refuse_many(len(plan.visits), "kinds of visits in a plan", MOST_VISITS)
        if not plan.visits or any(min(v.guests, v.a_round, v.dealings) < 1 for v in plan.visits):
            raise ValueError
        for visit in plan.visits:
            kernel_of(visit.kernel)
        if plan.text != text:
            raise ValueError
    except CoterieError as error:
        raise Refused(f"a plan that cannot be read: {error}") from None
    except UNREADABLE:
        raise Refused(f"a plan that cannot be read: {SAYS_AGAIN}") from None
    return plan


KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,), "bool": (bool,), "int": (int,), "float": (int, float), "Mapping[str, Any]": (dict,),
    "tuple[str, ...]": (list,), "tuple[PlannedVisit, ...]": (tuple,),
}  # fmt: skip


def _typed(cls: type, table: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {name: KINDS[str(kind)] for name, kind in cls.__annotations__.items()}
    if table.keys() != kinds.keys() or any(type(table[name]) not in kind for name, kind in kinds.items()):
        raise ValueError
    lists = {name: tuple(value) for name, value in table.items() if type(value) is list}
    if not all(type(word) is str for words in lists.values() for word in words):
        raise ValueError
    return {**table, **lists}


# what is signed


def _message(federation: str, lead: str, run: str, text: str) -> bytes:
    return SAID + canonical({"federation": federation, "lead": lead, "plan": text, "run": run}).encode()


def signed_plan(kit: Kit, run: str, plan: Plan) -> dict[str, str]:
    """A plan for one run, by the lead's kit."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    text = plan.text
    signature = kit.key.sign(_message(kit.federation, kit.name, run, text), ec.ECDSA(hashes.SHA256()))
    return {"plan": text, "signature": b64encode(signature).decode()}


def verified_plan(told: Any, lead: Card, run: str) -> Plan:
    """The plan of this run, if this lead has signed it; else Refused."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    if told is None:
        raise Refused(f"a run without a plan of what it will ask: {SAYS_AGAIN}")
    texts = isinstance(told, Mapping) and all(isinstance(told.get(k), str) for k in ("plan", "signature"))
    if not texts or len(told["plan"]) > LARGEST:
        raise Refused(f"a plan that cannot be read: {SAYS_AGAIN}")
    said_so = _message(lead.federation, lead.name, run, told["plan"])
    try:
        signature = b64decode(told["signature"], validate=True)
        lead.public_key.verify(signature, said_so, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        raise Refused(
            f"a plan that {shown(lead.name)[1:-1]} has not signed for this run: start the run anew"
        ) from None
    return plan_of(told["plan"])


def check_as_planned(plan: Plan, begin: Mapping[str, Any]) -> None:
    """What a run says when it begins is what its plan says."""
    sites = len(set(map(str, begin["sites"])))
    if sites != plan.sites:
        raise Refused(f"a run of {sites} sites, where its plan has {plan.sites}: start it anew")
    for name in BEGIN:
        if begin[name] != plan.begin.get(name):
            raise Refused(
                f"{name} {shown(begin[name])}, where the run's plan has {shown(plan.begin.get(name))}: start "
                "it anew"
            )


# what is held to


def steady(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel as data, without the options that differ from visit to visit."""
    cls = KERNELS[str(kernel.get("name", ""))]
    left = {*getattr(cls, "varies", ()), *getattr(cls, "deals", ())}
    return {
        name: steady(value) if isinstance(value, Mapping) else value
        for name, value in kernel.items()
        if name not in left
    }


def dealing(kernel: Mapping[str, Any]) -> list[Any]:
    """By which options a kernel as data, and those inside of it, choose rows."""
    mine = [kernel.get(name) for name in getattr(KERNELS[str(kernel.get("name", ""))], "deals", ())]
    return mine + [dealing(value) for value in kernel.values() if isinstance(value, Mapping)]


def whole(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel as data with every option, whoever left some out, in the only spelling of each."""
    return json.loads(canonical(told_kernel(kernel_of(kernel))))  # type: ignore[no-any-return]


def short(kernel: Mapping[str, Any]) -> str:
    """A kernel as data in words, without options that are switched off: sgd(lr=0.1, epochs=1, batch=32)"""
    names = [f.name for f in fields(KERNELS[str(kernel["name"])])]
    told = [
        short(value) if isinstance(value, Mapping) else f"{name}={value}"
        for name, value in ((name, kernel.get(name)) for name in names)
        if value not in OFF
    ]
    return f"{kernel['name']}({', '.join(told)})"


@lru_cache(maxsize=256)
def _read(text: str) -> tuple[str, str, str]:
    """Of a kernel as data: which one it is in a plan, how it chooses rows, and what it is called."""
    told = whole(json.loads(text))
    return canonical(steady(told)), canonical(dealing(told)), short(told)


class PlanGuard:
    """Holds the messages of one run against its plan, at one site."""

    def __init__(self, plan: Plan, digest: str) -> None:
        self.plan, self.digest = plan, digest
        self.visits = {canonical(visit.kernel): visit for visit in plan.visits}
        self.tried, self.dealt = Counter[str](), dict[str, set[str]]()

    def check(self, message: Mapping[str, Any], size: int = 0) -> None:
        """Refuses what is outside of the plan."""
        do = message.get("do")
        most = AGAIN * self.plan.bytes + HEADER
        if size > most:
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
        except UNREADABLE:
            raise Refused(f"a message {shown(do)} that lacks something: {SAYS_AGAIN}") from None

    def _visit(self, message: Mapping[str, Any]) -> None:
        mark, chosen, what = _read(canonical(message["kernel"]))
        planned, plan = self.visits.get(mark), self.plan
        if planned is None:
            self._refuse(what, ", ".join(short(v.kernel) for v in plan.visits))
            return
        models, round = len(message["rows"]), int(message["key"]["round"])
        if round > plan.rounds:
            self._refuse(f"{what} in round {round}", f"{plan.rounds} rounds")
        if models > AGAIN * max(planned.guests, plan.sites):
            self._refuse(f"{what} on {models} models at once", f"{planned.guests}")
        tried = self.tried[mark] + models
        if tried > AGAIN * max(planned.a_round, plan.sites) * (plan.rounds + 2):
            self._refuse(
                f"{what} on {tried} models in the run", f"{planned.a_round} a round, in {plan.rounds}"
            )
        dealt = self.dealt.get(mark, set()) | {chosen}
        if len(dealt) > AGAIN * planned.dealings:
            self._refuse(f"{short(planned.kernel)} on rows dealt in {len(dealt)} ways", f"{planned.dealings}")
        self.tried[mark], self.dealt[mark] = tried, dealt

    def _order(self, order: str) -> None:
        if order not in self.plan.orders:
            self._refuse(shown(order)[1:-1], ", ".join(self.plan.orders))

    def _refuse(self, what: str, has: str) -> None:
        raise Refused(
            f"{what[:200]} is outside of the run's plan {self.digest}, which has {has[:400]}: start a run "
            "whose plan says so"
        )
