"""Which of the sites that a run names are there: counted by certificates, as names are what a lead writes.

A site counts if its own certificate is connected, as a site of this federation, with a key that no other has.
`min_sites` is held against that number when a run begins, and whenever rows are used or something leaves in
it: with too few, a site waits for them (BadRun, which a lead may try again), and the run goes on when they
are back. Who is named and not there yet may come later, if enough are there without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.core.errors import BadRun, Refused, shown
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit
from coterie.federation.messages import AGAIN
from coterie.federation.site.bounds import refuse_many

CardOf = Callable[[str], Card | None]
_MOST_SITES = 10_000


class ConnectedSites:
    """The sites of one run as one of them, `name`, sees it. Without `card_of` there is no line that could
    tell who is connected, and all who are named count.
    """

    def __init__(self, name: str, sites: Any, card_of: CardOf | None, kit: Kit | None) -> None:
        if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
            raise Refused(f"sites {shown(sites)} that are no list of names: {AGAIN}")
        refuse_many(len(sites), "sites of a run", _MOST_SITES)
        if len({site.casefold() for site in sites}) < len(sites):  # whatever the case of its letters
            raise Refused(f"a run that names a site twice ({shown(sites)}): {AGAIN}")
        if name not in sites:
            raise Refused(f"a run that does not name {shown(name)}, which it asks: {AGAIN}")
        self.name, self.card_of, self.kit = name, card_of, kit
        self.others = frozenset(sites) - {name}
        self.were_here: set[str] = set()  # at some time of the run
        self.refuse_no_sites(self.others)
        self.here()

    def refuse_no_sites(self, names: Iterable[str]) -> None:
        """A person or a helper that is named as a site would get what is for sites alone."""
        for name in names:
            card = None if self.card_of is None else self.card_of(name)
            if card is not None and card.role != "site":
                line = f"{shown(name)} is a {card.role}, and this run has it among its sites"
                raise Refused(f"{line}: {AGAIN}")

    def here(self, enough: int | None = None) -> set[str]:
        """Other sites that are connected; no more than are enough."""
        if self.card_of is None:
            return set(self.others)
        kit, found = self.kit, set[str]()
        keys = set() if kit is None else {kit.card.public_key.public_numbers()}
        for name in sorted(self.others):
            if len(found) == enough:
                break
            card = self.card_of(name)
            if card is None or card.role != "site" or card.name != name:
                continue
            key = card.public_key.public_numbers()
            if key not in keys and (kit is None or card.federation == kit.federation):
                keys.add(key)
                found.add(name)
        self.were_here |= found
        return found

    def check(self, least: int) -> None:
        """Whether so many are there, this one among them."""
        here = len(self.here(least - 1)) + 1
        if here < least:
            named = f"{here} of the {len(self.others) + 1} sites that this run names are connected"
            raise BadRun(f"{named}, below the policy's {least}: wait for more, or lower min_sites")

    def bounded(self, offer: Mapping[str, Any]) -> dict[str, Any]:
        """An offer whose other sites are no more than those that were ever here, without who gets the sum."""
        most, told = len((self.here() | self.were_here) - {str(offer["to"])}), offer["others"]
        return {**offer, "others": min(told, most) if type(told) is int else told}
