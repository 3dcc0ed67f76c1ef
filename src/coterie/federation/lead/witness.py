"""Who leads a run has its sites sign the head of its ledger (`site/ledger_signer.py`), and shows each its own
part of the record, in the same messages (`site/views.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.features.ledger import heads
from coterie.federation.messages import printable
from coterie.federation.site.ledger_signer import RESUMED
from coterie.nets.courier import Message
from coterie.storage import chain
from coterie.storage.chain import entry_of

if TYPE_CHECKING:
    from coterie.federation.lead.net import Federated

AT_ONCE = 256  # entries in a message
LONG = 2000  # letters of what a site says


class Witness:
    """Of one run. `signed` is the last entry that each site has signed, as far as is known here."""

    def __init__(self, net: Federated) -> None:
        self.net = net
        self.signed: dict[str, int] | None = None
        self.certified: dict[str, str] = {}  # with which certificate
        self.unsigned: dict[str, str] = {}  # why a site did not, as people know
        self.unseen: set[int] = set()  # who does not keep what it is shown, as people know

    def ask(self, folder: Path, shows: Any) -> list[dict[str, Any]]:
        """Shows all who are there what they have not signed, and their parts of the record; lines for
        signatures.jsonl. Who is away signs, and is shown, when it is back. `shows` has what sites, by number,
        are shown next, and hears what they say to it (`runs/site_view.py`).
        """
        lines, run = (folder / chain.FILE).read_text().splitlines(), self.net.post.transport.run
        notes: list[dict[str, Any]] = []
        if self.signed is None:
            before = heads.read(folder / heads.SIGNATURES)
            self.signed = {one.site: one.index for one in before if one.run == run}
            self.certified = {one.site: one.certificate for one in before}
        names, here = self.net.roster.names, set(self.net.here())
        signing = set(here)
        shows.begin()
        while orders := self._orders(lines, here, signing, shows):
            answers, silent = self.net.post.try_to_ask(orders, quiet=True)
            here -= silent.keys()
            for site, (answer, _) in answers.items():
                order = orders[site][0]
                if "shown" in order and not shows.answered(site, order["shown"], answer.get("seen")):
                    if site not in self.unseen:
                        self.net.tell("unseen", names[site], "its own screen says why")
                    self.unseen.add(site)
                note = self._signature(site, lines, order, answer) if order["entries"] else None
                if note is None:
                    continue
                why = note.get("refused")
                if why is not None:  # it is shown the same again after the next round, and says the same
                    signing.discard(site)
                    earlier, self.unsigned[names[site]] = self.unsigned.get(names[site]), why
                    if earlier == why:
                        continue
                    self.net.tell("unsigned", names[site], why)
                notes.append(note)
        return notes

    def _orders(
        self, lines: Sequence[str], here: set[int], signing: set[int], shows: Any
    ) -> dict[int, Message]:
        """By site, what it has not signed and what it has not been shown; nothing for who is up to date."""
        assert self.signed is not None
        orders: dict[int, Message] = {}
        for site in sorted(here):
            first = self.signed.get(self.net.roster.names[site], -1) + 1
            entries = batch(lines, first) if site in signing else []
            told = shows.order(site)
            if entries or told is not None:
                also = {} if told is None else {"shown": told}
                orders[site] = ({"do": "ledger", "first": first, "entries": list(entries), **also}, {})
        return orders

    def _signature(
        self, site: int, lines: Sequence[str], order: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """What comes of asking a site to sign, for signatures.jsonl; None if it is to be shown more."""
        assert self.signed is not None
        name, run, have = self.net.roster.names[site], self.net.post.transport.run, answer.get("have")
        last = order["first"] + len(order["entries"]) - 1
        if type(have) is int and -1 <= have < order["first"] - 1:
            self.signed[name] = have  # it has lost some of what it had, or signed less than we know
            return None
        one, why = heads.signed_of(answer.get("signed")), ""
        if one is None:
            why = printable(str(answer.get("refused", "it did not sign")), LONG)
        elif (one.site, one.run, one.index, one.head) != (name, run, last, entry_of(lines[last]).hash):
            why = "it signed something else"
        else:
            why = heads.trouble(one, self.net.met.lines.kit.ca_pem)
        if one is None or why:
            return {"site": name, "run": run, "index": last, "refused": why}
        self.signed[name] = one.index
        told: dict[str, Any] = dict(one.as_dict)
        if self.certified.get(name) == one.certificate:  # it is in signatures.jsonl already
            told.pop("certificate", None)
        self.certified[name] = one.certificate
        return told


def batch(lines: Sequence[str], first: int) -> Sequence[str]:
    """Entries for one message: what says that a run goes on is not the last of them."""
    last = min(first + AT_ONCE, len(lines))
    while last < len(lines) and entry_of(lines[last - 1]).content.get("kind") == RESUMED:
        last += 1
    return lines[first:last]
