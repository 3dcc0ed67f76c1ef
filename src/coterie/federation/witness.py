"""Heads of a run's ledger are signed at the sites (`Signer`), and asked for by who leads it (`witness`). The
same messages carry what each site is shown of the run's record (`seen.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from coterie.core.errors import BadData, BadInput, Refused, shown
from coterie.federation.certificates import authority_mark
from coterie.federation.headers import printable
from coterie.federation.party import Kit
from coterie.ledger import chain, heads
from coterie.ledger.chain import Head, continued, entry_of
from coterie.nets.courier import Message
from coterie.storage.atomic import read_lines, readable_errors

if TYPE_CHECKING:
    from coterie.federation.net import Federated

AT_ONCE = 256  # entries in a message
LONG = 2000  # letters of what a site says
NAMES = ("run", "federation", "authority")
ENDS = "ends"  # in a line of a site's heads: the entry is the end of its run
RESUMED = "resumed"


class Shows(Protocol):
    """What sites, by number, are shown next, and what they say to it (`runs/showing.py`)."""

    def begin(self) -> None: ...

    def order(self, number: int) -> dict[str, Any] | None: ...

    def answered(self, number: int, order: Mapping[str, Any], answer: Any) -> bool: ...


class Signer:
    """A site's part: it keeps the heads that it has signed in heads.jsonl of its folder, for ever."""

    def __init__(self, state: Path, kit: Kit | None) -> None:
        self.path, self.kit = state / heads.HEADS, kit
        self.kept: dict[str, Head] | None = None
        self.certificate = ""  # the last in the file
        self.ended: set[str] = set()  # runs of which the head is an end

    def head(self, run: str) -> Head | None:
        if self.kept is None:
            before = heads.read(self.path)
            self.kept = {one.run: Head(one.index, one.head) for one in before}
            self.certificate = before[-1].certificate if before else ""
            last = {told.get("run"): told for told in read_lines(self.path)}
            self.ended = {str(run) for run, told in last.items() if told.get(ENDS)}
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
            refuse_other_run(self.kit, run, lines, begins=first == 0)
            new = [entry_of(line).content for line in lines[have + 1 - first :]]
            refuse_out_of_place(new, begins=kept is None, ended=run in self.ended)
        except (BadInput, Refused) as error:  # what was kept cannot be read, or is not continued
            return {"refused": str(error)}
        one = heads.signed(self.kit, run, last.index, last.hash)
        told = one.told
        if kept is not None and one.certificate == self.certificate:
            del told["certificate"]  # it is in an earlier line
        ends = last.content.get("kind") == "end"
        with readable_errors(self.path):
            heads.write(self.path, [{**told, **({ENDS: True} if ends else {})}])
        assert self.kept is not None
        (self.ended.add if ends else self.ended.discard)(run)
        self.kept[run], self.certificate = Head(last.index, last.hash), one.certificate
        return {"signed": one.told}


def bound_to(kit: Kit, run: str) -> dict[str, str]:
    """What entries name a run by, so that no other can be passed off as it."""
    return {"run": run, "federation": kit.federation, "authority": authority_mark(kit.ca_pem)}


def refuse_other_run(kit: Kit, run: str, lines: Sequence[str], begins: bool) -> None:
    """A site signs entries alone that name its federation, this run, and if they begin one, the site itself.
    A run that began anew under another id names both, this one last.
    """
    contents = [entry_of(line).content for line in lines]
    named = [{k: said.get(k) for k in NAMES} for said in contents if any(k in said for k in NAMES)]
    if begins and not named:
        raise Refused("entry 0 does not name the run and its federation: who leads it has an earlier version")
    clients = contents[0].get("clients")
    if begins and not (isinstance(clients, list) and kit.name in clients):
        raise Refused(f"entry 0 does not name {kit.name} among the sites of the run")
    if named and (mine := bound_to(kit, run)) != named[-1]:
        which = next(k for k in NAMES if named[-1][k] != mine[k])
        raise Refused(f"the ledger names {which} {shown(named[-1][which])}, and this is {mine[which]}")


def refuse_out_of_place(new: Sequence[Mapping[str, Any]], begins: bool, ended: bool) -> None:
    """What a site has not signed yet, where no honest run has it: rounds before the first that it is shown, a
    word that the run goes on without what comes next, and after an end anything but rounds.
    """
    if begins and new[0].get("after"):
        raise Refused("entry 0 is of a run that has rounds already, of which this site has signed nothing")
    for said in new:
        kind = said.get("kind")
        if kind == "end" and ended:
            raise Refused("the run has ended as it was signed here: after that it can but do rounds again")
        ended = kind == "end" or (ended and kind != "round")
    if new and new[-1].get("kind") == RESUMED:
        raise Refused("the run goes on, and what comes next is not shown")


def witness(net: Federated, folder: Path, shows: Shows) -> list[dict[str, Any]]:
    """Shows all who are there what they have not signed, and their parts of the record; lines for
    signatures.jsonl. Who is away signs, and is shown, when it is back.
    """
    lines, run = (folder / chain.FILE).read_text().splitlines(), net.post.transport.run
    notes: list[dict[str, Any]] = []
    if net.signed is None:
        before = heads.read(folder / heads.SIGNATURES)
        net.signed = {one.site: one.index for one in before if one.run == run}
        net.certified = {one.site: one.certificate for one in before}
    names, here = net.roster.names, set(net.here())
    signing = set(here)
    shows.begin()
    while orders := orders_for(net, lines, here, signing, shows):
        answers, silent = net.post.try_to_ask(orders, quiet=True)
        here -= silent.keys()
        for site, (answer, _) in answers.items():
            order = orders[site][0]
            if "shown" in order and not shows.answered(site, order["shown"], answer.get("seen")):
                if site not in net.unseen:
                    net.tell("unseen", names[site], "its own screen says why")
                net.unseen.add(site)
            note = signature(net, site, lines, order, answer) if order["entries"] else None
            if note is not None and "refused" in note:
                signing.discard(site)
            if note is not None and is_new(net, note):
                notes.append(note)
    return notes


def orders_for(
    net: Federated, lines: Sequence[str], here: set[int], signing: set[int], shows: Shows
) -> dict[int, Message]:
    """By site, what it has not signed yet and what it has not been shown; nothing for who is up to date."""
    assert net.signed is not None
    orders: dict[int, Message] = {}
    for site in sorted(here):
        first = net.signed.get(net.roster.names[site], -1) + 1
        entries = batch(lines, first) if site in signing else []
        told = shows.order(site)
        if entries or told is not None:
            also = {} if told is None else {"shown": told}
            orders[site] = ({"do": "ledger", "first": first, "entries": list(entries), **also}, {})
    return orders


def batch(lines: Sequence[str], first: int) -> Sequence[str]:
    """Entries for one message: what says that a run goes on is not the last of them."""
    last = min(first + AT_ONCE, len(lines))
    while last < len(lines) and entry_of(lines[last - 1]).content.get("kind") == RESUMED:
        last += 1
    return lines[first:last]


def signature(
    net: Federated, site: int, lines: Sequence[str], order: Mapping[str, Any], answer: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What comes of asking a site to sign, as a line for signatures.jsonl; None if it is to be shown more."""
    assert net.signed is not None
    name, run, have = net.roster.names[site], net.post.transport.run, answer.get("have")
    last = order["first"] + len(order["entries"]) - 1
    if type(have) is int and -1 <= have < order["first"] - 1:
        net.signed[name] = have  # it has lost some of what it had, or signed less than we know
        return None
    one, why = heads.signed_of(answer.get("signed")), ""
    if one is None:
        why = printable(str(answer.get("refused", "it did not sign")), LONG)
    elif (one.site, one.run, one.index, one.head) != (name, run, last, entry_of(lines[last]).hash):
        why = "it signed something else"
    else:
        why = heads.trouble(one, net.met.lines.kit.ca_pem)
    if one is None or why:
        return {"site": name, "run": run, "index": last, "refused": why}
    net.signed[name] = one.index
    return short(one, net.certified)


def is_new(net: Federated, note: Mapping[str, Any]) -> bool:
    """A site that does not sign is shown the same again after the next round, and says the same."""
    if "refused" not in note:
        return True
    name, why = str(note["site"]), str(note["refused"])
    before, net.unsigned[name] = net.unsigned.get(name), why
    if before != why:
        net.tell("unsigned", name, why)
    return before != why


def short(one: heads.Signed, certified: dict[str, str]) -> dict[str, Any]:
    """A line for signatures.jsonl, with a certificate that is not there yet."""
    told: Mapping[str, Any] = one.told
    if certified.get(one.site) == one.certificate:
        return {k: v for k, v in told.items() if k != "certificate"}
    certified[one.site] = one.certificate
    return dict(told)
