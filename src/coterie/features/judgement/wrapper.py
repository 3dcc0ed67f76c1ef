"""Who takes part, as people decided it: two wrappers of a net.

    circle:of=north,among=south+west     north's approved circle: nobody else is in its sums
    circle:of=north,without=south        an owner's veto: south is in none of north's sums
    without:names=east                   east, which has withdrawn, never answers, not even to be scored

A circle only says who is kept apart from whom (`Net.apart`). That they are taken out of sums and of
circles that rankings publish, and that the weights of the others make up for it, is the work of ownership,
which is around every net that keeps somebody apart. A client's own reply always counts.

What else would bring a model to a client that is to learn without it is refused: whole models that are handed
out, and models beside its work. Models that visit a site to be tried or measured there are used in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import BadInput, Refused
from coterie.core.facts import called, method_fact
from coterie.core.held import Held
from coterie.core.kernel import Kernel
from coterie.core.method import Method, common
from coterie.core.net import WRAPS, Beside, Net, Replies, edges_among
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.features.ownership.wrapper import INSTEAD, MIXES
from coterie.nets.offers import chosen, written
from coterie.nets.wrapped import Wrapped


@WRAPS.register("circle")
@dataclass(frozen=True, eq=False)
class Circle(Wrapped):
    """Keeps others out of one client's sums, and out of the circle that it publishes."""

    of: str = ""
    """Whose sums, by name."""
    among: str = ""
    """The only others that may be in them, by names as in a+b; by default all. Its own name: nobody else."""
    without: str = ""
    """Others that are in none of them."""

    pairs: frozenset[tuple[int, int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check(self.of, self.among, self.without)
        pairs = _kept_apart(self.net.roster.names, self.of, self.among, self.without)
        object.__setattr__(self, "pairs", pairs)

    @staticmethod
    def check(of: str = "", among: str = "", without: str = "") -> None:
        if not of or not (among or without):
            raise BadInput(
                "circle needs whose it is and who is in it, or not: write "
                "--wrap circle:of=north,among=south+west or circle:of=north,without=east"
            )
        if "+" in of:
            raise BadInput(f"circle of={of} names several: write a circle for each")

    @staticmethod
    def ordered(names: Sequence[str], **options: Any) -> None:
        """Refuses an order of wrappers in which whoever sums up would not know of the circle."""
        if "ownership" in names and "circle" in names[list(names).index("ownership") :]:
            raise BadInput("circle comes after ownership, which sums up: write --wrap circle:... ownership")

    @staticmethod
    def admit(method: Method, roster: Roster, of: str = "", among: str = "", without: str = "") -> None:
        """Refuses who is unknown, and a method whose sums are not made by those who get them."""
        out = sorted(roster.names[site] for _, site in _kept_apart(roster.names, of, among, without))
        reveals, name = method.reveals(), called(method)
        one = common(method) or reveals.opened
        if out and (one or not reveals.sites):
            why = "makes one model of all" if one else "mixes no models of others"
            raise BadInput(
                f"circle: {name} {why}, so that nobody has sums of its own: leave {', '.join(out)} out of "
                f"the run (--wrap without:names={written(out)}), or {MIXES}"
            )

    @property
    def apart(self) -> frozenset[tuple[int, int]]:
        return self.pairs | self.net.apart

    # ways to a client that are no sums

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        hosts = edges[:, 1].tolist()
        for held in (beside or {}).values():
            rows = range(len(hosts)) if len(held) == len(hosts) > 1 else [0] * len(hosts)
            self._refuse(held, zip(rows, hosts, strict=True))
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        self._refuse(beliefs, zip(rows.tolist(), at.tolist(), strict=True))
        return self.net.deliver(beliefs, rows, at)

    def share(self, beliefs: Held, to: Tensor) -> None:
        self._refuse(beliefs, ((row, place) for row in range(len(beliefs)) for place in to.tolist()))
        self.net.share(beliefs, to)

    def _refuse(self, beliefs: Held, ways: Iterable[tuple[int, int]]) -> None:
        places, names = [part.places.tolist() for part in beliefs.parts], self.roster.names
        for row, to in ways if self.pairs else ():
            for here in places:
                if (to, here[row]) in self.pairs:
                    raise Refused(
                        f"{names[here[row]]} would hand its whole model to {names[to]}, out of whose circle "
                        f"it is kept: {INSTEAD}"
                    )


def _kept_apart(names: Sequence[str], of: str, among: str, without: str) -> frozenset[tuple[int, int]]:
    """(receiver, site) of all who are in no sum of `of`."""
    (receiver,) = chosen(names, of)
    out = chosen(names, without) if without else frozenset[int]()
    if receiver in out:
        raise BadInput(f"circle of={of} cannot be without {of} itself: leave it out of without")
    if among:
        out |= frozenset(range(len(names))) - chosen(names, among) - {receiver}
    return frozenset((receiver, site) for site in out)


WHY = "left out of this run"


@WRAPS.register("without")
@dataclass(frozen=True, eq=False)
class Without(Wrapped):
    """Leaves clients out of a run; the others keep their numbers, and so their random numbers."""

    names: str = ""
    """Who is left out, by names as in a+b."""

    here: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check(self.names)
        here = torch.ones(len(self.net.roster), dtype=torch.bool)
        here[list(chosen(self.net.roster.names, self.names))] = False
        if not bool(here.any()):
            raise BadInput(f"without={self.names} leaves nobody: leave somebody in")
        object.__setattr__(self, "here", here)

    @staticmethod
    def check(names: str = "") -> None:
        if not names:
            raise BadInput("without names nobody to leave out: write --wrap without:names=a+b")

    @staticmethod
    def admit(method: Method, roster: Roster, **options: Any) -> None:
        asking = method_fact(method, "requester")
        gone = [roster.names[i] for i in sorted(chosen(roster.names, str(options.get("names", ""))))]
        if asking in gone:
            raise BadInput(f"requester={asking} is left out of the run: let somebody else ask")

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        edges, beside = edges_among(self.here, beliefs, edges, beside)
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        left = [[site for site in group if self.here[site]] for group in groups]
        if not all(left):
            raise BadInput("all clients of a group are left out, and their rows are needed: leave one in")
        return self.net.in_one_place(left)

    def away(self) -> Mapping[str, str]:
        here = zip(self.roster.names, self.here.tolist(), strict=True)
        return {**self.net.away(), **{name: WHY for name, stays in here if not stays}}
