"""Heads of a run's ledger are signed at the sites (`Signer`), and asked for by who leads it (`witness`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.core.errors import BadData, BadInput, Refused
from coterie.federation.headers import printable
from coterie.federation.party import Kit
from coterie.ledger import chain, heads
from coterie.ledger.chain import Head, continued, entry_of
from coterie.nets.courier import Message
from coterie.storage.atomic import readable_errors

if TYPE_CHECKING:
    from coterie.federation.net import Federated

AT_ONCE = 256  # entries in a message
LONG = 2000  # letters of what a site says


class Signer:
    """A site's part: it keeps the heads that it has signed in heads.jsonl of its folder, for ever."""

    def __init__(self, state: Path, kit: Kit | None) -> None:
        self.path, self.kit = state / heads.HEADS, kit
        self.kept: dict[str, Head] | None = None

    def head(self, run: str) -> Head | None:
        if self.kept is None:
            self.kept = {one.run: Head(one.index, one.head) for one in heads.read(self.path)}
        return self.kept.get(run)

    def sign(self, run: str, first: Any, lines: Any) -> dict[str, Any]:
        """New entries of a run, from number `first` on: signed, if they continue what was signed before."""
        texts = isinstance(lines, list) and all(isinstance(line, str) for line in lines)
        if type(first) is not int or not texts:
            raise BadData("entries of a ledger that are none: is it of another version?")
        if self.kit is None:
            return {"refused": "this site has no key to sign with"}
        try:
            kept = self.head(run)
            have = -1 if kept is None else kept.index
            if first > have + 1:
                return {"have": have}
            last = continued(kept, first, lines)
        except (BadInput, Refused) as error:  # what was kept cannot be read, or is not continued
            return {"refused": str(error)}
        one = heads.signed(self.kit, run, last.index, last.hash)
        told = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **one.told}
        if kept is not None:
            del told["certificate"]  # it is in the first line of the run
        with readable_errors(self.path):
            heads.write(self.path, [told])
        assert self.kept is not None
        self.kept[run] = Head(last.index, last.hash)
        return {"signed": one.told}


def witness(net: Federated, folder: Path) -> list[dict[str, Any]]:
    """Shows all who are there what they have not signed; lines for signatures.jsonl. Who is away signs when
    it is back.
    """
    lines, run, notes = (folder / chain.FILE).read_text().splitlines(), net.post.transport.run, []
    if net.signed is None:
        before = heads.read(folder / heads.SIGNATURES)
        net.signed = {one.site: one.index for one in before if one.run == run}
        net.certified = {one.site: one.certificate for one in before}
    signed, here = net.signed, {net.roster.names[s]: s for s in net.here()}
    while behind := {n: s for n, s in here.items() if signed.get(n, -1) < len(lines) - 1}:
        orders: dict[int, Message] = {}
        for name, site in behind.items():
            first = signed.get(name, -1) + 1
            told = {"first": first, "entries": lines[first : first + AT_ONCE]}
            orders[site] = ({"do": "ledger", **told}, {})
        answers, silent = net.post.try_to_ask(orders, quiet=True)
        for site in silent:
            del here[net.roster.names[site]]
        for site, (answer, _) in answers.items():
            name, order = net.roster.names[site], orders[site][0]
            have, last = answer.get("have"), order["first"] + len(order["entries"]) - 1
            if type(have) is int and -1 <= have < order["first"] - 1:
                signed[name] = have  # it has lost some of what it had, or signed less than we know
                continue
            one, why = heads.signed_of(answer.get("signed")), ""
            if one is None:
                why = printable(str(answer.get("refused", "it did not sign")), LONG)
            elif (one.site, one.run, one.index, one.head) != (name, run, last, entry_of(lines[last]).hash):
                why = "it signed something else"
            else:
                why = heads.trouble(one, net.met.lines.kit.ca_pem)
            if one is None or why:
                if net.unsigned.get(name) != why:  # it is shown the same again after the next round
                    notes.append({"site": name, "run": run, "index": last, "refused": why})
                    net.say(f"{name} does not sign the ledger: {why}")
                net.unsigned[name] = why
                del here[name]
                continue
            notes.append(short(one, net.certified))
            signed[name] = one.index
    return notes


def short(one: heads.Signed, certified: dict[str, str]) -> dict[str, Any]:
    """A line for signatures.jsonl, with a certificate that is not there yet."""
    told: Mapping[str, Any] = one.told
    if certified.get(one.site) == one.certificate:
        return {k: v for k, v in told.items() if k != "certificate"}
    certified[one.site] = one.certificate
    return dict(told)
