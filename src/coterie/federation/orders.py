"""The coordinator's post to sites that may go, refuse or answer nonsense.

A site that does not answer is silent, and the others go on. What is wrong with a site's answer makes that
site silent too: other shapes, numbers that are none, an answer to something else, a refusal. It takes no
part any more, while a mishap, such as a full disk, may be over when the next round begins. What diverged ends
the run, as on one machine.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import BadRun, CoterieError, Diverged, Gone, shown
from coterie.core.held import COORDINATOR
from coterie.core.kernel import Kernel, scores
from coterie.core.roster import Roster
from coterie.core.wire import pack
from coterie.federation.blame import Kind, Pair, blamed, kind_of
from coterie.federation.headers import MOST_BODY, printable
from coterie.federation.parcels import Parcels
from coterie.federation.post import Missing, Waits
from coterie.federation.sites import Met
from coterie.nets.courier import Content, Courier, Letter, Message, Silence, named
from coterie.nets.packing import WHOLE

log = logging.getLogger("coterie")

LARGE = 2**20  # bytes of models from which it matters how fast the line is
SLOW = 50e6  # bytes a second below which packing takes less time than it saves (benchmarks/packing.py)
FROM_OTHERS = {"visit", "mix", "copy", "distances"}  # what may need others' models
CANCELLED = 5.0  # seconds for a site to hear that work is not waited for
MOST_NUMBERS = 10_000  # that a site tells of one visit


@dataclass(frozen=True)
class Bounds:
    """How long a run waits, in seconds, and for how many sites; how models are squeezed."""

    deadline: float
    patience: float
    wait: float
    least: int
    squeeze: str = "none"


class Transport:
    """Messages to sites by their numbers in the roster."""

    def __init__(self, met: Met, run: str, bounds: Bounds, waits: Waits = lambda names: None) -> None:
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

    def letters(self, letters: Sequence[Letter]) -> list[bytes | Silence | int]:
        raise AssertionError("sites send their letters themselves")

    def close(self) -> None:
        """The line stays, for the next run."""


class Orders(Courier):
    """Every message names the run; sites send letters to each other when they are told to.

    silent   sites that do not answer, and why
    barred   those of them that take no part any more
    used     sites that have done something in this round
    broken   whether something of this round was lost with a site
    lost     the sites that it was lost with
    posted   {receiver: {id: its sender, and by name what it is like}} of this round's letters
    trouble  how many letters have failed that a site had part in
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
        self.parcels, self.squeeze = Parcels(MOST_BODY), transport.bounds.squeeze
        self.slow, self.came = False, 0  # the line, as of the last large models; bytes of models just now

    def try_to_ask(
        self,
        messages: Mapping[int, Message],
        counted: Mapping[int, Mapping[str, Tensor]] | None = None,
        quiet: bool = False,
    ) -> tuple[dict[int, Message], dict[int, Silence]]:
        told = {s: ({**m, "run": self.transport.run}, t) for s, (m, t) in messages.items()}
        answers, silent = super().try_to_ask(told, counted, quiet)
        lost = [s for s, silence in silent.items() if silence.why.endswith(WHOLE)]
        if lost:  # an end was started anew: whole models, from which changes can be told again
            for s in lost:
                self.parcels.forget(self.name_of(s))
            again = {s: ({**told[s][0], "whole": True}, told[s][1]) for s in lost}
            more, still = super().try_to_ask(again, counted, quiet)
            answers, silent = answers | more, {s: w for s, w in silent.items() if s not in lost} | still
        for s in answers:
            self.parcels.taken(self.name_of(s))
        self._dispute({s for s in silent if messages[s][0]["do"] in FROM_OTHERS})
        self.fall_silent(silent)
        self.used |= answers.keys()
        return answers, silent

    def _dispute(self, silent: set[int]) -> None:
        """Sites that fail at something after letters came are asked what they lack: it may be the senders'
        fault.
        """
        failing, self.failing = self.failing & silent & self.posted.keys(), set()
        asked: dict[int, Message] = {}
        for s in failing:
            like = {str(id): kinds for id, (_, kinds) in self.posted[s].items()}
            asked[s] = ({"do": "lacks", "like": like, "run": self.transport.run}, {})
        failed: dict[Pair, str] = {}
        for s, (answer, _) in (super().try_to_ask(asked, quiet=True)[0] if asked else {}).items():
            lacks = answer.get("lacks")
            for id in lacks if isinstance(lacks, list) else []:
                if type(id) is int and id in self.posted[s]:
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
        squeeze = self.squeeze_for(sum(t.nbytes for t in tensors.values()))
        return self.parcels.pack(self.name_of(site), {**message, "squeeze": squeeze}, tensors, squeeze, True)

    def opened(self, site: int, data: bytes) -> Message:
        return self.parcels.unpack(self.name_of(site), data, False)

    def squeeze_for(self, size: int) -> str:
        """As asked for; by itself, exact changes where the line is slow or there is little to pack."""
        if self.squeeze != "auto":
            return self.squeeze
        return "delta" if self.slow or size < LARGE else "none"

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

    def carry(self, letters: Mapping[tuple[int, int], Sequence[Content]], why: str) -> None:
        """Letters of one sender are one order to it."""
        orders, receivers = dict[int, list[dict[str, Any]]](), dict[int, list[int]]()
        for (place, to), some in letters.items():
            if to != COORDINATOR:
                rows, new = named(some)
                order = {"to": self.name_of(to), "rows": rows, "new": new, "why": why}
                orders.setdefault(place, []).append(order)
                receivers.setdefault(place, []).append(to)
                kinds = {id: (place, {n: kind_of(t) for n, t in like.items()}) for id, like in some}
                self.posted.setdefault(to, {}).update(kinds)
        asked: dict[int, Message] = {}
        bounds = self.transport.bounds
        for s, mine in orders.items():  # a receiver that is late must not make its senders late
            last = {"deadline": bounds.deadline / 2 / len(mine), "patience": bounds.patience}
            asked[s] = ({"do": "letters", "orders": mine, **last}, {})
        failed: dict[Pair, str] = {}
        for place, (answer, _) in self.ask(asked).items():
            sent = answer.get("sent")
            if not isinstance(sent, list) or len(sent) != len(receivers[place]) or not are_sizes(sent):
                self.need({place: Silence("its answer is not to what it was asked", lasting=True)})
                continue
            for to, size in zip(receivers[place], sent, strict=True):
                if isinstance(size, str):
                    failed[place, to] = size[:2000]
                else:
                    self.passed(place, to, size)
        self._blame(failed)
        self.came, before = 0, time.monotonic()
        super().carry({pair: some for pair, some in letters.items() if pair[1] == COORDINATOR}, why)
        if self.came >= LARGE:
            self.slow = self.came < SLOW * (time.monotonic() - before)

    def check(self, place: int, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
        if why := unlike(tensors, like):
            self.need({place: Silence(why, lasting=True)})

    def check_rows(self, place: int, rows: Mapping[str, Tensor]) -> None:
        if why := odd_rows(rows, self.roster, place):
            self.need({place: Silence(why, lasting=True)})


def are_sizes(sent: Sequence[Any]) -> bool:
    """Bytes of models in each letter, or why one did not arrive."""
    return all(isinstance(n, str) or (type(n) is int and 0 <= n < 2**63) for n in sent)


def unlike(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> str:
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


def odd_rows(rows: Mapping[str, Tensor], roster: Roster, site: int) -> str:
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
    return unlike(rows, like)


def unsound(
    kernel: Kernel, sent: Mapping[str, Tensor], answers: Mapping[int, Message], visits: Mapping[int, int]
) -> dict[int, Silence]:
    """Sites whose answers to a visit cannot be; `visits` are how many each had.

    A reply is made as the belief that was `sent` [row, ...], or as most replies are; where neither decides,
    nobody is believed.
    """
    together, measures = bool(getattr(kernel, "together", False)), scores(kernel)
    sizes: Mapping[str, int] | None = getattr(kernel, "sizes", None)
    found = {
        s: odd_numbers(a, t, 1 if together else visits[s], measures, sizes) for s, (a, t) in answers.items()
    }
    shapes = {s: repr(sorted_like(a)) for s, (a, _) in answers.items() if not found[s]}
    own = repr({n: (_kind(t), tuple(t.shape[1:])) for n, t in sorted(sent.items())})
    first, *others = [*Counter(shapes.values()).most_common(2), ("", 0)]
    tied = bool(others) and others[0][1] == first[1]
    usual = own if own in shapes.values() else "" if tied else first[0]
    for site, shape in shapes.items():
        if shape != usual or (shape == repr({})) != measures:
            found[site] = "its reply is made of other tensors than those of others"
    return {site: Silence(why, lasting=True) for site, why in found.items() if why}


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


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
    names = answer.get("numbers")
    if not isinstance(names, list) or len(names) > MOST_NUMBERS or not all(isinstance(n, str) for n in names):
        return "its answer is not to what it was asked"
    if sorted_like(answer) is None or set(names) != tensors.keys():
        return "its answer is not to what it was asked"
    for name in names:
        if tensors[name].is_complex():
            return f"it tells {shown(name)} in complex numbers"
        like = (visits,) if sizes is None else (visits, sizes.get(name, 0))
        if tensors[name].shape != like:
            return f"it tells {shown(name)} of shape {list(tensors[name].shape)}, not {list(like)}"
        if name == "loss" and not measures and not bool(torch.isfinite(tensors[name]).all()):
            return "it tells a loss that is no number"
    if sizes is not None and not (set(names) == sizes.keys() and all_finite(tensors)):
        return "it tells other figures of its rows than it was asked for"
    return ""


def all_finite(tensors: Mapping[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(t).all()) for t in tensors.values())


def sorted_like(answer: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]] | None:
    """What a reply is made of, in order; None if that cannot be."""
    like = answer.get("like")
    if not isinstance(like, Mapping):
        return None
    try:
        found = {str(n): (str(kind), tuple(shape)) for n, (kind, shape) in sorted(like.items())}
    except (TypeError, ValueError):
        return None
    fits = all(k in KINDS and all(type(n) is int and 0 <= n < 2**40 for n in s) for k, s in found.values())
    return found if fits else None


KINDS = {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
