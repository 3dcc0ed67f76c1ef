"""Whose models are in what a site holds, and what these sites demand of whoever holds a part of them.

A model that leaves a site for another takes along what its policy says of it: whether it may go on to whoever
leads the run, or be measured against others. Whatever is made of it (a sum, a copy, what training made of it,
over however many sites) has the same bonds: a site answers for its own policy, and for those of all whose
parts it holds. As it came, it does not go on to a site that its own has said no to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coterie.core.checks import is_whole
from coterie.core.errors import BadRun, Refused, shown
from coterie.core.facts import kernel_fact
from coterie.core.kernel import KERNELS, makes
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import names_in
from coterie.storage.atomic import brought_back, readable_errors, replace_quickly
from coterie.storage.checkpoint import SITE_FILE

_ORIGINS = "origins.json"
_MOST_SITES = 1_000
_Names = frozenset[str]
_NOBODY: _Names = frozenset()
_MadeOf = tuple[_Names, bool]  # whose models are in a belief, and whether it is as it came
_MOST_MARKED = 100_000  # ids


@dataclass(frozen=True)
class Bond:
    """What a site demands of others for its models: as its policy has it for itself. Nothing, unless said."""

    coordinator: bool = False
    open: bool = False
    distances: bool = False
    vetoes: tuple[str, ...] = ()

    @classmethod
    def of(cls, policy: Policy, vetoes: Iterable[str]) -> Bond:
        may = policy.to_coordinator and not policy.sealed
        return cls(may, policy.open and may, policy.distances, tuple(sorted(vetoes)))

    @classmethod
    def told(cls, told: Any) -> Bond:
        """As another site says it; what makes no sense demands everything."""
        if not isinstance(told, Mapping):
            return cls()
        flags = {name: told.get(name) is True for name in ("coordinator", "open", "distances")}
        vetoes = told.get("vetoes")
        known = isinstance(vetoes, list) and all(isinstance(name, str) for name in vetoes)
        return cls(**flags, vetoes=tuple(vetoes[:_MOST_SITES]) if known and vetoes else ())

    def and_also(self, other: Bond) -> Bond:
        """What both demand."""
        may = {k: getattr(self, k) and getattr(other, k) for k in ("coordinator", "open", "distances")}
        return Bond(**may, vetoes=tuple(sorted({*self.vetoes, *other.vetoes})))


@dataclass(eq=False)
class Origins:
    """At the site of that name: by id whose models are in it, and which are as they came from one site."""

    name: str
    of: dict[int, _Names] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    bonds: dict[str, Bond] = field(default_factory=dict)
    slots: dict[str, _Names] = field(default_factory=dict)  # whose are in what work remembers, by its name
    stored: str = ""  # as it was written last

    # what comes and goes

    def came(self, sender: str, ids: Iterable[int], header: Mapping[str, Any]) -> None:
        """Contents of another site, which says whose are in them; its own at least. What a site demands, it
        says itself; others can only demand more in its name.
        """
        bonds, origins = header.get("bonds"), header.get("origins")
        told = bonds if isinstance(bonds, Mapping) else {}
        some = origins if isinstance(origins, Mapping) else {}
        for site, said in [*told.items()][:_MOST_SITES]:
            if isinstance(site, str) and site != self.name:
                bond, known = Bond.told(said), self.bonds.get(site)
                self.bonds[site] = bond if site == sender or known is None else bond.and_also(known)
        for id in ids:
            within = some.get(str(id))
            names = {str(name) for name in within[:_MOST_SITES]} if isinstance(within, list) else set()
            self._mark(id, frozenset(names | {sender}) - {self.name}, whole=True)

    def header(
        self, rows: Sequence[Any], new: Sequence[int], own: Bond, before: _Names = _NOBODY
    ) -> dict[str, Any]:
        """What goes along with contents; `before`: whose models the receiver has already, and may add to."""
        origins = {str(id): sorted(self.within([row]) | before) for row, id in zip(rows, new, strict=True)}
        sites = sorted({name for names in origins.values() for name in names})
        bonds = {site: asdict(self.bonds.get(site, Bond())) for site in sites} | {self.name: asdict(own)}
        return {"bonds": bonds, "origins": {k: v for k, v in origins.items() if v}}

    # what is made of what is here

    def mark_made(
        self, message: Mapping[str, Any], tensors: Mapping[str, Tensor], keeps: bool = False
    ) -> None:
        """Marks what a message is going to make, before it does, as one that fails may have made a part of
        it. A mark is added to those that an id has. `keeps` says whether a visit's work remembers something
        for its next.
        """
        do = message["do"]
        if do == "copy":
            for row, new in zip(message["rows"], message["new"], strict=True):
                self._marked(new, [self._of([row])])
        elif do == "mix":
            within = [self._of([row]) for row in message["rows"]]
            for i, new in enumerate(message["new"]):
                counts = torch.zeros(len(within), dtype=torch.bool)  # which of the senders count in the sum
                for weights in (t[i] for name, t in tensors.items() if name.startswith("weights/")):
                    counts |= weights != 0
                    counts[weights.argmax()] = True  # what is not averaged comes from the heaviest
                self._marked(new, [within[sender] for sender in counts.nonzero().flatten().tolist()])
        elif do == "visit":  # replies have in them what came, what lay beside it, and what work remembered
            beside = [row for some in message["beside"].values() for row in some]
            same = makes(KERNELS[str(message["kernel"]["name"])])
            slot, before = str(message.get("slot", "")), _NOBODY
            if keeps:
                before = self.slots.get(slot, _NOBODY)
                if names := before | self.within([*message["beliefs"], *beside]):
                    self.slots[slot] = names
            near, came = self._of(beside), [self._of([row]) for row in message["beliefs"]]
            for guest, new in zip(message["rows"], message["replies"], strict=False):
                self._marked(new, [came[guest], near], same, before)
        elif do == "unseal":
            told = message["told"]
            rows = [*told["near"], *told["bases"], *(row for some in told["taken"].values() for row in some)]
            made_of = [self._of(rows)]
            for new in message["new"]:
                self._marked(new, made_of, as_it_came=False)

    def keep(self, ids: Iterable[int]) -> None:
        """Only these are here, or on the disk."""
        left = set(ids)
        self.of = {id: names for id, names in self.of.items() if id in left}
        self.whole &= left

    def _of(self, rows: Sequence[Any]) -> _MadeOf:
        """Whose models are in beliefs, and whether all parts are as they came; asked once, for many."""
        return self.within(rows), all(part[0] in self.whole for row in rows for part in row)

    def _marked(
        self, new: int, made_of: Sequence[_MadeOf], as_it_came: bool = True, before: _Names = _NOBODY
    ) -> None:
        if names := before.union(*(within for within, _ in made_of)):
            whole = as_it_came and len(names) == 1 and all(came for _, came in made_of)
            self._mark(new, names, whole)

    def _mark(self, id: int, names: _Names, whole: bool) -> None:
        if len(self.of) >= _MOST_MARKED and id not in self.of:
            raise Refused(f"{len(self.of)} models with parts of others are here: let some of them go first")
        self.of[id] = self.of.get(id, _NOBODY) | names
        if whole:
            self.whole.add(id)

    def within(self, rows: Iterable[Any]) -> _Names:
        return _NOBODY.union(*(self.of.get(part[0], _NOBODY) for row in rows for part in row))

    # what may be done with it

    def check(self, message: Mapping[str, Any]) -> None:
        """Refuses what sites demand of us whose models are in what is asked for."""
        do = message["do"]
        if do == "give" and message.get("why") == "open":
            self._refuse(message["rows"], "open", "open")
        elif do == "give":
            self._refuse(message["rows"], "to_coordinator", "coordinator")
        elif do == "seal":
            rows = [order[key] for order in message["orders"] for key in ("row", "less") if order.get(key)]
            self._refuse(rows, "to_coordinator", "coordinator")
        elif do == "distances":
            self._refuse([*message["replies"], *message["origin"]], "distances", "distances")
        elif do == "visit" and any(kernel_fact(KERNELS[k], "compares") for k in names_in(message["kernel"])):
            beside = [row for some in message["beside"].values() for row in some]
            self._refuse([*message["beliefs"], *beside], "distances", "distances")

    def check_peer_message(self, to: str, rows: Sequence[Any]) -> None:
        """A model that is as it came does not go on to whom its site has said no; what is made of it may."""
        mine = [row for row in rows if {part[0] for part in row} & self.whole]
        for site in sorted(self.within(mine) - {to}):
            if to.casefold() in self.bonds.get(site, Bond()).vetoes:
                line = (
                    f"a model of {shown(site)[1:-1]} would go to {shown(to)}, to whom that site has said no"
                )
                raise Refused(f"{line}: mix without it")

    def _refuse(self, rows: Iterable[Any], key: str, demand: str) -> None:
        for site in sorted(self.within(rows)):
            if not getattr(self.bonds.get(site, Bond()), demand):
                whose = f"a model that has one of {shown(site)[1:-1]}'s in it, whose policy has {key} = false"
                raise Refused(f"{whose}: choose another way, or ask that site")

    # on the disk

    def store(self, folder: Path) -> None:
        """Where something has come from others."""
        told: dict[str, Any] = {
            **SITE_FILE.headed({}),
            "of": {str(id): sorted(names) for id, names in self.of.items()},
            "whole": sorted(self.whole),
            "bonds": {site: asdict(bond) for site, bond in self.bonds.items()},
            "slots": {slot: sorted(names) for slot, names in self.slots.items()},
        }
        if self.bonds and (text := json.dumps(told)) != self.stored:
            with readable_errors(folder / _ORIGINS):
                replace_quickly(folder / _ORIGINS, lambda path: path.write_text(text))
            self.stored = text

    def load(self, folder: Path) -> None:
        """What an earlier process of this site knew of the run."""
        path = brought_back(folder / _ORIGINS)
        if not path.exists():
            return
        try:
            with readable_errors(path):
                told = json.loads(path.read_text())
            SITE_FILE.check(told, path)
            self.of |= {int(id): frozenset(map(str, names)) for id, names in told["of"].items()}
            self.whole |= {id for id in told["whole"] if is_whole(id)}
            self.bonds |= {str(site): Bond.told(bond) for site, bond in told["bonds"].items()}
            self.slots |= {str(slot): frozenset(map(str, names)) for slot, names in told["slots"].items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            raise BadRun(f"{path} is damaged: start the run anew") from None
