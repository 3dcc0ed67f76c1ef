"""The lead's post to sites that may go, refuse or answer nonsense.

A site that does not answer is silent, and the others go on. What is wrong with a site's answer makes that
site silent too: other shapes, numbers that are none, an answer to something else, a refusal. It takes no
part any more, while a mishap, such as a full disk, may be over when the next round begins. What diverged ends
the run, as on one machine.

Sites say when they join whether they have limits (`share_at_most`, `others_at_least`, `leverage` of their
policies), ask a person (`circles`), or have said no to anybody: only those are asked before a sum, so that
nothing becomes slower for others. A circle that is published is told to everybody in it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from coterie.core.errors import BadRun, CoterieError, Diverged, Gone, shown
from coterie.core.facts import kernel_fact
from coterie.core.held import COORDINATOR
from coterie.core.kernel import Kernel, scores
from coterie.core.roster import Roster
from coterie.core.wire import pack
from coterie.federation.lead.sites import Met
from coterie.federation.messages import (
    SCHEMA,
    LacksAnswer,
    OfferAnswer,
    SendModelsAnswer,
    VisitAnswer,
    fits,
    printable,
)
from coterie.federation.policy.rules import policy_from
from coterie.federation.transport.assembly import MOST_BODY
from coterie.federation.transport.compression import Compression
from coterie.federation.transport.post import Missing, Waits
from coterie.nets.courier import Content, Courier, Message, Silence, named
from coterie.nets.offers import Offer
from coterie.nets.packing import WHOLE
from coterie.nets.site import Kind, kind_of

if TYPE_CHECKING:
    from coterie.federation.lead.connector import Federation
    from coterie.federation.lead.net import Federated

log = logging.getLogger("coterie")

LARGE = 2**20  # bytes of models from which it matters how fast the line is
SLOW = 50e6  # bytes a second below which packing takes less time than it saves (benchmarks/packing.py)
FROM_OTHERS = {"visit", "mix", "copy", "distances"}  # what may need others' models
CANCELLED = 5.0  # seconds for a site to hear that work is not waited for
NO_ANSWER = "its answer is not to what it was asked"
Pair = tuple[int, int]  # sender and receiver of a peer message


class Transport:
    """Messages to sites by their numbers in the roster; `bounds` say how long a run waits for them."""

    def __init__(self, met: Met, run: str, bounds: Federation, waits: Waits = lambda names: None) -> None:
        self.met, self.run, self.bounds, self.waits = met, run, bounds, waits

    def ask(self, messages: Mapping[int, bytes]) -> dict[int, bytes | Silence]:
        names, post = self.met.roster.names, self.met.lines.post
        packed = {names[site]: data for site, data in messages.items()}
        try:
            found = post.ask(packed, self.bounds.deadline, self.bounds.patience, waits=self.waits)
        except KeyboardInterrupt:
            self.cancel(list(packed))
            raise
        self.cancel([name for name, f in found.items() if isinstance(f, Missing) and f.why == "late"])
        by_number = {site: found[names[site]] for site in messages}
        return {s: Silence(f.text, f.lasting) if isinstance(f, Missing) else f for s, f in by_number.items()}

    def cancel(self, names: Sequence[str]) -> None:
        """What these sites compute for the run is not waited for any more: they may end it."""
        if names:
            told = pack({"do": "cancel", "run": self.run}, {})
            with contextlib.suppress(CoterieError):
                self.met.lines.post.call(dict.fromkeys(names, told), CANCELLED, 0.0)

    def close(self) -> None:
        """The line stays, for the next run."""


class Orders(Courier):
    """Every message names the run; sites send peer messages to each other when they are told to.

    silent   sites that do not answer, and why
    barred   those of them that take no part any more
    used     sites that have done something in this round
    broken   whether something of this round was lost with a site
    lost     the sites that it was lost with
    posted   {receiver: {id: its sender, and by name what it is like}} of this round's peer messages
    trouble  how many peer messages have failed that a site had part in
    """

    transport: Transport

    def __init__(self, transport: Transport, roster: Roster) -> None:
        super().__init__(transport, roster)
        self.silent: dict[int, str] = {}
        self.barred: dict[int, str] = {}
        self.used: set[int] = set()
        self.broken, self.lost = False, set[int]()
        self.posted: dict[int, dict[int, tuple[int, dict[str, Kind]]]] = {}
        self.trouble, self.failing = Counter[int](), set[int]()
        self.compression, self.squeeze = Compression(MOST_BODY), transport.bounds.squeeze
        self.slow, self.came = False, 0  # the line, as of the last large models; bytes of models just now

    def try_to_ask(
        self,
        messages: Mapping[int, Message],
        counted: Mapping[int, Mapping[str, Tensor]] | None = None,
        quiet: bool = False,
    ) -> tuple[dict[int, Message], dict[int, Silence]]:
        run = {"run": self.transport.run, "schema": SCHEMA}
        told = {s: ({**m, **run}, t) for s, (m, t) in messages.items()}
        answers, silent = super().try_to_ask(told, counted, quiet)
        lost = [s for s, silence in silent.items() if silence.why.endswith(WHOLE)]
        if lost:  # an end was started anew: whole models, from which changes can be told again
            for s in lost:
                self.compression.forget(self.name_of(s))
            again = {s: ({**told[s][0], "whole": True}, told[s][1]) for s in lost}
            more, still = super().try_to_ask(again, counted, quiet)
            answers, silent = answers | more, {s: w for s, w in silent.items() if s not in lost} | still
        for s in answers:
            self.compression.taken(self.name_of(s))
        self._dispute({s for s in silent if messages[s][0]["do"] in FROM_OTHERS})
        self.fall_silent(silent)
        self.used |= answers.keys()
        return answers, silent

    def send(self, site: int, data: bytes) -> None:
        """A message as it was packed, earlier; its site is needed."""
        found = self.transport.ask({site: data})[site]
        answer = found if isinstance(found, Silence) else self.answer(site, found)
        self.need({site: answer} if isinstance(answer, Silence) else {})

    def _dispute(self, silent: set[int]) -> None:
        """Sites that fail after peer messages came are asked what they lack: it may be the senders' fault."""
        failing, self.failing = self.failing & silent & self.posted.keys(), set()
        asked, failed = dict[int, Message](), dict[Pair, str]()
        for s in failing:
            like = {str(id): kinds for id, (_, kinds) in self.posted[s].items()}
            asked[s] = ({"do": "lacks", "like": like, "run": self.transport.run}, {})
        for s, (answer, _) in (super().try_to_ask(asked, quiet=True)[0] if asked else {}).items():
            told = fits(LacksAnswer, answer)
            for id in told.lacks if told is not None else []:
                if id in self.posted[s]:
                    place = self.posted[s][id][0]
                    failed[place, s] = f"what {self.name_of(place)} sent to {self.name_of(s)} is not there"
        self._blame(failed)

    def _blame(self, failed: Mapping[Pair, str]) -> None:
        found = blamed(failed, self.trouble)
        self.trouble.update(site for pair in failed for site in pair)
        self.need({site: Silence(why) for site, why in found.items()})

    def said(self, text: Any) -> str:
        return printable(text)

    def packed(self, site: int, message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
        squeeze = self.squeeze
        if squeeze == "auto":  # exact changes where the line is slow or there is little to pack
            little = sum(t.nbytes for t in tensors.values()) < LARGE
            squeeze = "delta" if self.slow or little else "none"
        told = {**message, "squeeze": squeeze}
        return self.compression.pack(self.name_of(site), told, tensors, squeeze, True)

    def opened(self, site: int, data: bytes) -> Message:
        return self.compression.unpack(self.name_of(site), data, False)

    def passed(self, place: int, to: int, size: int) -> None:
        super().passed(place, to, size)
        self.came += size

    def answer(self, site: int, data: bytes) -> Message | Silence:
        try:
            return super().answer(site, data)
        except Diverged as error:
            raise Diverged(printable(error, 2000)) from None
        except CoterieError as error:
            if isinstance(error, BadRun):
                self.failing.add(site)
            return Silence(printable(error, 2000), lasting=not isinstance(error, BadRun))

    def fall_silent(self, silent: Mapping[int, Silence]) -> None:
        for site, (why, lasting) in silent.items():
            self.silent[site] = why
            if lasting:
                self.barred[site] = why
            log.info("%s is silent: %s", self.name_of(site), why)
        if silent:
            self.transport.waits(())

    def need(self, silent: Mapping[int, Silence]) -> None:
        self.fall_silent(silent)
        if silent:
            self.broken = True
            self.lost |= silent.keys()
            raise Gone({self.name_of(site): silence.why for site, silence in silent.items()})

    def carry(self, peer_messages: Mapping[tuple[int, int], Sequence[Content]], why: str) -> None:
        """Peer messages of one sender are one order to it."""
        orders, receivers = dict[int, list[dict[str, Any]]](), dict[int, list[int]]()
        for (place, to), some in peer_messages.items():
            if to != COORDINATOR:
                rows, new = named(some)
                order = {"to": self.name_of(to), "rows": rows, "new": new, "why": why}
                orders.setdefault(place, []).append(order)
                receivers.setdefault(place, []).append(to)
                kinds = {id: (place, {n: kind_of(t) for n, t in like.items()}) for id, like in some}
                self.posted.setdefault(to, {}).update(kinds)
        asked, bounds = dict[int, Message](), self.transport.bounds
        for s, mine in orders.items():  # a receiver that is late must not make its senders late
            last = {"deadline": bounds.deadline / 2 / len(mine), "patience": bounds.patience}
            asked[s] = ({"do": "letters", "orders": mine, **last}, {})
        failed: dict[Pair, str] = {}
        for place, (answer, _) in self.ask(asked).items():
            told = fits(SendModelsAnswer, answer)
            if told is None or len(told.sent) != len(receivers[place]):
                self.need({place: Silence(NO_ANSWER, lasting=True)})
                continue
            for to, size in zip(receivers[place], told.sent, strict=True):
                if isinstance(size, str):
                    failed[place, to] = size[:2000]
                else:
                    self.passed(place, to, size)
        self._blame(failed)
        self.came, before = 0, time.monotonic()
        super().carry({pair: some for pair, some in peer_messages.items() if pair[1] == COORDINATOR}, why)
        if self.came >= LARGE:
            self.slow = self.came < SLOW * (time.monotonic() - before)

    def check(self, place: int, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
        if why := _unlike(tensors, like):
            self.need({place: Silence(why, lasting=True)})

    def check_rows(self, place: int, rows: Mapping[str, Tensor]) -> None:
        if why := _odd_rows(rows, self.roster, place):
            self.need({place: Silence(why, lasting=True)})


def blamed(failed: Mapping[Pair, str], before: Counter[int]) -> dict[int, str]:
    """Sites without which no peer message would have failed, and why: who has part in most of them; then
    who had in earlier ones; then the sender. The lead sees none of these messages, and has the word of the
    sender and that of the receiver: one that lies is in many disputes, those with it in one each.
    """
    found, left = dict[int, str](), dict(failed)
    while left:
        counts = Counter(site for pair in left for site in pair)
        site = max(counts, key=lambda s: (counts[s], before[s]))
        found[site] = next(why for pair, why in left.items() if site in pair)
        left = {pair: why for pair, why in left.items() if site not in pair}
    return found


def _unlike(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> str:
    """Why tensors are not what was asked for; nothing if they are."""
    if tensors.keys() != like.keys():
        strange = sorted(tensors.keys() ^ like.keys())
        return f"it gives other tensors than it was asked for ({shown(strange[0])})"
    for name, t in tensors.items():
        if (t.shape, t.dtype) != (like[name].shape, like[name].dtype):
            return f"it gives {shown(name)} of shape {list(t.shape)}, not {list(like[name].shape)}"
        if t.is_floating_point() and not bool(torch.isfinite(t.sum()) or torch.isfinite(t).all()):
            return f"it gives {shown(name)} with numbers that are not finite"
    return ""


def _odd_rows(rows: Mapping[str, Tensor], roster: Roster, site: int) -> str:
    """Why rows cannot be a site's; nothing if they can."""
    member, like = roster.members[site], dict[str, Tensor]()
    for part in ("train", "validation", "test"):
        x, y, many = rows.get(f"{part}.x"), rows.get(f"{part}.y"), getattr(member, part)
        if x is None or y is None:
            return f"it gives no rows for {part}"
        like[f"{part}.x"] = torch.empty((many, *roster.shape), dtype=x.dtype, device="meta")
        like[f"{part}.y"] = torch.empty((many,), dtype=y.dtype, device="meta")
        whole = y.dtype == torch.int64
        if whole != (roster.task == "classification") or x.is_complex() or y.is_complex():
            return f"it gives rows for {part} of another kind"
        if whole and not bool(((y >= 0) & (y < roster.outputs)).all()):
            return f"it gives rows for {part} of classes that there are not"
    return _unlike(rows, like)


def unsound(
    kernel: Kernel, sent: Mapping[str, Tensor], answers: Mapping[int, Message], visits: Mapping[int, int]
) -> dict[int, Silence]:
    """Sites whose answers to a visit cannot be; `visits` are how many each had.

    A reply is made as the belief that was `sent` [row, ...], or as most replies are; where neither decides,
    nobody is believed.
    """
    together, measures = bool(kernel_fact(kernel, "together")), scores(kernel)
    sizes: Mapping[str, int] | None = kernel_fact(kernel, "sizes")
    found = {
        s: odd_numbers(a, t, 1 if together else visits[s], measures, sizes) for s, (a, t) in answers.items()
    }
    shapes = {s: repr(sorted(a["like"].items())) for s, (a, _) in answers.items() if not found[s]}
    own = repr(sorted((n, kind_of(t[0])) for n, t in sent.items()))
    first, *others = [*Counter(shapes.values()).most_common(2), ("", 0)]
    tied = bool(others) and others[0][1] == first[1]
    usual = own if own in shapes.values() else "" if tied else first[0]
    for site, shape in shapes.items():
        if shape != usual or (shape == repr([])) != measures:
            found[site] = "its reply is made of other tensors than those of others"
    return {site: Silence(why, lasting=True) for site, why in found.items() if why}


def odd_numbers(
    answer: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    visits: int,
    measures: bool,
    sizes: Mapping[str, int] | None = None,
) -> str:
    """Why the numbers of an answer cannot be; nothing if they can. `sizes`: how many of each name a look at
    rows tells, where one number is usual.
    """
    told = fits(VisitAnswer, answer)
    if told is None or set(told.numbers) != tensors.keys():
        return NO_ANSWER
    for name in told.numbers:
        if tensors[name].is_complex():
            return f"it tells {shown(name)} in complex numbers"
        like = (visits,) if sizes is None else (visits, sizes.get(name, 0))
        if tensors[name].shape != like:
            return f"it tells {shown(name)} of shape {list(tensors[name].shape)}, not {list(like)}"
        if name == "loss" and not measures and not bool(torch.isfinite(tensors[name]).all()):
            return "it tells a loss that is no number"
    if sizes is not None:
        finite = all(bool(torch.isfinite(t).all()) for t in tensors.values())
        if not finite or set(told.numbers) != sizes.keys():
            return "it tells other figures of its rows than it was asked for"
    return ""


# ownership: sites are asked before sums are made of their models


def limited(net: Federated) -> set[int]:
    """Sites that want to be asked."""
    for name, policy in net.met.policies.items():
        if name not in net.limits or net.limits[name][0] is not policy:  # it came, or came back
            own = policy_from(policy)
            wants = bool(own.limits) or own.circles == "ask" or policy.get("vetoes") is True
            net.limits[name] = policy, wants
    return {s for s, name in enumerate(net.roster.names) if net.limits.get(name, ({}, False))[1]}


def withdrawing(net: Federated, offers: Sequence[Offer], circle: bool) -> dict[int, str]:
    """From which of these offers, by number, their sites withdraw, and why. One that does not answer, or not
    to this, is away as with any other order.
    """
    wanted = (set(range(len(net.roster))) if circle else limited(net)) & set(net.here())
    mine: dict[int, list[int]] = {}
    for i, offer in enumerate(offers):
        if offer.site in wanted:
            mine.setdefault(offer.site, []).append(i)
    orders, found = dict[int, Message](), dict[int, str]()
    for site, some in mine.items():
        sums = []
        for offer in (offers[i] for i in some):
            to = "" if offer.receiver == COORDINATOR else net.roster.names[offer.receiver]
            figures = {"share": offer.share, "others": offer.others, "leverage": offer.leverage}
            sums.append({"to": to, "ids": list(offer.contents), **figures})
        orders[site] = ({"do": "offer", "circle": circle, "sums": sums}, {})
    for site, (answer, _) in net.post.ask(orders, quiet=True).items():
        out = withdrawn(answer, len(mine[site]))
        if out is None:
            net.post.need({site: Silence(NO_ANSWER, lasting=True)})
            continue
        found |= {mine[site][k]: why for k, why in out.items()}
        if out and site not in net.withdrew:
            net.withdrew.add(site)
            k, why = next(iter(out.items()))
            where = net.post.name_of(offers[mine[site][k]].receiver)
            name, what = net.roster.names[site], f"from the {'circle' if circle else 'sum'} of {where}: {why}"
            net.tell("withdrew", name, what, f"{name} withdraws {what}; the round goes on without it")
    return found


def withdrawn(answer: Any, offers: int) -> dict[int, str] | None:
    """From which of so many offers a site withdraws, and why, as it says; None if that is nonsense."""
    told = fits(OfferAnswer, answer)
    if told is None or len(told.withdraws) > offers or not all(k < offers for k, _ in told.withdraws):
        return None
    return {k: printable(why, 200) for k, why in told.withdraws}
