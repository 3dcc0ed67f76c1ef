"""Whose heads a ledger agrees with. Nothing that lies beside it counts by itself: whoever has the run's
folder can write it all anew, but for signatures of keys that are elsewhere.

    which run it is      entry 0 says so, and every head after it is over entry 0; a ledger of an earlier
                         version does not: it is the run whose heads reach furthest into the chain
    who must have signed every site whose heads somebody brings along, up to where the ledger says that it
                         answered; one that was away in all rounds, with no figure in any, has nothing to
                         show, and neither has one that entry 0 does not name
    which heads count    those of that run, by certificates of sites that the authority has signed and has not
                         revoked; signatures from the run's folder only by the same certificates
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from coterie.features.ledger import heads
from coterie.features.ledger.heads import Signed
from coterie.storage.chain import Entry

FEW = 4  # names, or whatever else, that a line lists
Present = Mapping[int, Mapping[str, bool]]
"""By entry, the sites that took part in what it tells of, and whether there are scores of theirs."""
Kept = Mapping[str, Sequence[Signed]]
"""Heads that sites have kept, by the file that they are from."""


class Authority(NamedTuple):
    """Whose certificates count, if that is known, and which of them do no more (serial numbers)."""

    pem: bytes | None = None
    revoked: frozenset[int] = frozenset()


@dataclass
class Proof:
    """What is wrong, and by site the last entry that a head of its stands for."""

    wrong: list[str] = field(default_factory=list)
    reach: dict[str, int] = field(default_factory=dict)
    unbound: bool = False  # some of the heads are of an earlier version
    outside: list[str] = field(default_factory=list)  # who brought heads, and is no site of this run

    @staticmethod
    def of(
        found: Sequence[Entry], beside: Sequence[Signed], kept: Kept, authority: Authority, present: Present
    ) -> Proof:
        """`beside` are signatures from the run's folder, `kept` what sites have brought along."""
        proof = Proof()
        brought = [one for some in kept.values() for one in some]
        runs = _runs_of(found, brought if kept else beside)
        pems, twice = {one.certificate for one in brought}, set(brought)
        known = authority.pem is not None or not kept
        vouched = [one for one in beside if one not in twice and (known or one.certificate in pems)]
        links = list(_wrong_heads(proof, brought, runs, found, authority))
        unsigned = list(_missed_rounds(found, proof.reach, present))
        links += _wrong_heads(proof, vouched, runs, found, authority)
        wrong = [line for _, line in sorted(links)] or unsigned
        if authority.pem is not None and "authority" in found[0].content:
            from coterie.federation.kits.certificates import authority_mark

            if found[0].content["authority"] != authority_mark(authority.pem):
                wrong.append("entry 0 names another federation than the one whose authority was given")
        wrong += _files_of_other_runs(found, kept, runs, present, proof)
        if others := sorted({one.site for one in beside if one.run not in runs}):
            wrong.append(f"signatures of {few(others)} beside the ledger are of another run than it names")
        reach, last = max(proof.reach.values(), default=-1), len(found) - 1
        if kept and not wrong and reach < last:
            these = f"entry {last} is" if reach == last - 1 else f"entries {reach + 1} to {last} are"
            wrong.append(f"{these} signed by nobody whose heads were given: anybody could have written that")
        proof.wrong = list(dict.fromkeys(wrong))
        return proof


def _runs_of(found: Sequence[Entry], some: Iterable[Signed]) -> set[str]:
    """The ids of the run: one, but for a run that lost all its states and began anew."""
    if named := {str(entry.content["run"]) for entry in found if "run" in entry.content}:
        return named
    reach = dict[str, int]()
    for one in some:
        if 0 <= one.index < len(found) and found[one.index].hash == one.head:
            reach[one.run] = max(one.index, reach.get(one.run, 0))
    return {run for run, index in reach.items() if index == max(reach.values())}


def _files_of_other_runs(
    found: Sequence[Entry], kept: Kept, runs: set[str], present: Present, proof: Proof
) -> Iterable[str]:
    """Files without a head of this run: it is another run, or it was written anew under another name. A site
    that never answered in it has none, if others have, and neither has one that it does not name: that is
    noted.
    """
    without = [file for file, some in kept.items() if not any(one.run in runs for one in some)]
    if len(without) < len(kept):
        sites, names = {f: {one.site for one in kept[f]} for f in without}, set(clients_of(found))
        if names:
            outside = [file for file in without if not sites[file] & names]
            proof.outside = sorted({site for file in outside for site in sites[file]})
            without = [file for file in without if file not in outside]
        without = [file for file in without if not _was_away(found, sites[file], present)]
    if without:
        what = f"run {min(runs)[:8]}, which this ledger names" if runs else "this ledger"
        yield f"no head of {what}, in {few(without)}: it is another run's, or was written anew"


def _was_away(found: Sequence[Entry], sites: set[str], present: Present) -> bool:
    """Whether the ledger names these sites, has rounds from the first on, says of every one that they were
    away, and has no figure of theirs.
    """
    away = [entry.content.get("away", {}) for entry in found if entry.content["kind"] == "round"]
    all_told = bool(away) and not found[0].content.get("after")
    named = sites <= set(clients_of(found)) and all(sites <= set(some) for some in away)
    return all_told and named and not any(sites & some.keys() for some in present.values())


def _missed_rounds(found: Sequence[Entry], reach: Mapping[str, int], present: Present) -> Iterable[str]:
    """Sites that took part in rounds that they have not signed: whoever answers signs, unless it goes before
    it is shown the round: then it has no scores of that, which come last, and has answered in no other since.
    Nor has it gone so where it has signed an end.
    """
    for site, last in reach.items():
        since = [e for e in found[last + 1 :] if site in present.get(e.index, ())]
        went = found[last].content["kind"] != "end" and not any(present[e.index][site] for e in since)
        if len(since) > went:
            yield (
                f"entry {since[-1].index} says that {site} answered, which signed nothing after entry "
                f"{last}: its file of heads is an old copy, or it was not shown what follows"
            )


def clients_of(found: Sequence[Entry]) -> list[str]:
    return [str(name) for name in found[0].content.get("clients", ())]


def _wrong_heads(
    proof: Proof, some: Iterable[Signed], runs: set[str], found: Sequence[Entry], authority: Authority
) -> Iterable[tuple[int, str]]:
    """Of each site's heads of the run: the first that is wrong, by its entry; how far those reach that are
    not goes into the proof. A head whose certificate was revoked is not missed where a later one stands for
    it.
    """
    mine = sorted((one for one in some if one.run in runs), key=lambda one: (one.site, one.index))
    for site, signed in groupby(mine, key=lambda one: one.site):
        wrong, revoked, last = list[tuple[int, str]](), list[tuple[int, str]](), len(found) - 1
        for one in signed:
            why = heads.trouble(one, *authority) or _other_place(one, found)
            if why:
                line = f"entry {one.index}: the signature of {site} does not count: {why}"
                (revoked if why == heads.REVOKED else wrong).append((one.index, line))
            elif one.index > last:
                line = f"entry {last} is the last, and {site} signed entry {one.index}: the chain was cut off"
                wrong.append((one.index, line))
            elif one.index < 0 or found[one.index].hash != one.head:
                line = f"entry {one.index}: {site} signed another head for it: the chain was forked"
                wrong.append((one.index, line))
            else:
                proof.reach[site] = max(one.index, proof.reach.get(site, -1))
                proof.unbound |= not one.bound
                revoked = []
        yield from (wrong or revoked)[:1]


def _other_place(one: Signed, found: Sequence[Entry]) -> str:
    """Why a head is none of a site of this ledger."""
    if one.site not in clients_of(found):
        return "it is none of the sites that entry 0 names"
    there = found[0].content.get("authority", one.authority)
    return "it was signed for another federation" if one.bound and one.authority != there else ""


def few(names: Sequence[str]) -> str:
    more = len(names) - FEW
    return ", ".join(names[:FEW]) + (f" and {more} more" if more > 0 else "")
