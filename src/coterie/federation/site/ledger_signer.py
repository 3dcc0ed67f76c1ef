"""A site signs heads of a run's ledger, and keeps what it has signed: heads.jsonl of its folder, for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.core.errors import BadData, BadInput, Refused, shown
from coterie.features.ledger import heads
from coterie.federation.kits.certificates import authority_mark
from coterie.federation.kits.kit import Kit
from coterie.storage.atomic import read_lines, readable_errors
from coterie.storage.chain import Head, continued, entry_of

NAMES = ("run", "federation", "authority")
ENDS = "ends"  # in a line of a site's heads: the entry is the end of its run
RESUMED = "resumed"


class Signer:
    """`kit` has the key that signs; without one, nothing is."""

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
            _refuse_other_run(self.kit, run, lines, begins=first == 0)
            new = [entry_of(line).content for line in lines[have + 1 - first :]]
            _refuse_out_of_place(new, begins=kept is None, ended=run in self.ended)
        except (BadInput, Refused) as error:  # what was kept cannot be read, or is not continued
            return {"refused": str(error)}
        one = heads.signed(self.kit, run, last.index, last.hash)
        told = one.as_dict
        if kept is not None and one.certificate == self.certificate:
            del told["certificate"]  # it is in an earlier line
        ends = last.content.get("kind") == "end"
        with readable_errors(self.path):
            heads.write(self.path, [{**told, **({ENDS: True} if ends else {})}])
        assert self.kept is not None
        (self.ended.add if ends else self.ended.discard)(run)
        self.kept[run], self.certificate = Head(last.index, last.hash), one.certificate
        return {"signed": one.as_dict}


def bound_to(kit: Kit, run: str) -> dict[str, str]:
    """What entries name a run by, so that no other can be passed off as it."""
    return {"run": run, "federation": kit.federation, "authority": authority_mark(kit.ca_pem)}


def _refuse_other_run(kit: Kit, run: str, lines: Sequence[str], begins: bool) -> None:
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


def _refuse_out_of_place(new: Sequence[Mapping[str, Any]], begins: bool, ended: bool) -> None:
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
