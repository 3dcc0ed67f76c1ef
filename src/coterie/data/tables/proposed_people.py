"""What `inspect` proposes about persons: who a row is about, what is left out for it, how to get that back.

`patient` names one column for each site: several columns of one site are one name for a person, as surname
and date of birth are.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coterie.data.tables.kinds import Found
from coterie.data.tables.match import Group
from coterie.data.tables.merged import Merged
from coterie.data.tables.names import (
    PERSONAL,
    names_age,
    names_birth,
    names_identifier,
    names_numbering,
    names_person,
    words_in,
)
from coterie.data.tables.people import (
    CHANGES,
    SURE,
    Evidence,
    Kept,
    Site,
    determines,
    evidence_of,
    joins_persons,
)
from coterie.data.tables.read import Table
from coterie.data.tables.texts import same, some

FEW_EACH = 0.2  # identifiers to a row, at least: with fewer it tells wards or doctors, not patients
MOST_PARTS = 8  # columns that are tried in pairs

Pairs = Sequence[tuple[Group, Merged]]


@dataclass(frozen=True, eq=False)
class Proposal:
    """Columns that tell persons; `by_name` where the name says so and nobody has to be asked."""

    evidence: Evidence
    by_name: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return self.evidence.columns


def find_people(
    pairs: Pairs,
    looks: Mapping[str, Mapping[str, Found]],
    tables: Mapping[str, Table],
    goals: Collection[str],
) -> tuple[str, ...]:
    """The columns for `patient`; they are no inputs, and what is not certain is asked. A goal is never one,
    but persons keep it as they keep other columns.
    """
    merged = {g.name: m for g, m in pairs if g.name not in goals}
    headers = {s: {g.name: g.headers[s] for g, _ in pairs if s in g.headers} for s in tables}
    sites = {s: Site(t, headers[s], looks[s]) for s, t in tables.items()}
    found = ordered(proposals(merged, sites), sites)
    having = {s: [p for p in found if set(p.columns) <= here.headers.keys()] for s, here in sites.items()}
    people = [p for p in found if any(mine[:1] == [p] for mine in having.values())]
    for proposal in people:
        propose(proposal, merged, sites)
        others = [s for s, mine in having.items() if proposal in mine[1:]]
        for site, name in itertools.product({*others, *proposal.evidence.against}, proposal.columns):
            absent_at(merged[name], site)
    for proposal in found:
        if proposal not in people and people and not proposal.by_name:
            leave_out_finer(proposal, people[0], merged, sites)
    whole = [p.columns[0] for p in people if len(p.columns) == 1]
    for name, m in merged.items():
        if name in whole or m.kind == "identifier":
            ask_several(name, m, sites)
    return tuple(n for n in merged if any(n in p.columns for p in people))


def proposals(merged: Mapping[str, Merged], sites: Mapping[str, Site]) -> list[Proposal]:
    """All columns that tell persons, by name or by structure; pairs of columns where no single one does."""
    found = []
    for name, m in merged.items():
        if not any(name in s.headers and s.may_tell(name) for s in sites.values()):
            continue
        evidence = evidence_of([name], sites, names_person(name))
        said = m.kind == "identifier" and not words_in(name) & PERSONAL
        often = evidence.values >= FEW_EACH * evidence.rows and not evidence.changed and not evidence.against
        if said and evidence.again and (names_person(name) or (often and not evidence.speaks)):
            found.append(Proposal(evidence, True))
        elif evidence.speaks and evidence.again:
            found.append(Proposal(evidence, False))
    return found or joined_proposals(merged, sites)


def joined_proposals(merged: Mapping[str, Merged], sites: Mapping[str, Site]) -> list[Proposal]:
    """Two columns that tell persons together: a family and a number in it, a surname and a date of birth."""
    parts = [n for n in merged if names_birth(n) or part_of_name(n)][:MOST_PARTS]
    tried = (evidence_of(pair, sites) for pair in itertools.combinations(parts, 2))
    fits = (e for e in tried if e.speaks and e.again and any(k.personal for k in e.steady))
    return [Proposal(evidence, False) for evidence in fits][:1]


def part_of_name(name: str) -> bool:
    known = {"family", "member", "household", "familie", "famille", "haushalt", *PERSONAL}
    return names_identifier(name) or names_numbering(name) or bool(words_in(name) & known)


def ordered(found: Sequence[Proposal], sites: Mapping[str, Site]) -> list[Proposal]:
    """The best first: what names say; then, from fine to coarse, the last that still keeps persons apart: a
    person has several visits, but a height several persons.
    """
    named = [p for p in found if p.by_name and names_person(p.columns[0])]
    others = sorted((p for p in found if p not in named), key=lambda p: -p.evidence.values)
    best = others[:1]
    for coarser in others[1:]:
        if len(coarser.columns) == 1 and joins_persons(best[0].evidence, coarser.columns[0], sites):
            best = [coarser]
    return [*named, *best, *(p for p in others if p not in best)]


def propose(proposal: Proposal, merged: Mapping[str, Merged], sites: Mapping[str, Site]) -> None:
    evidence, columns = proposal.evidence, proposal.columns
    first = merged[columns[0]]
    if proposal.by_name:
        first.says.append(
            f"{evidence.again} of {evidence.values} stand in several rows: rows of one are all for training "
            "or all for testing"
        )
        if evidence.changed:
            first.asks.append("rows of one differ in what a person keeps: does it tell who a row is about?")
    else:
        together = f"with {columns[1]!r} " if len(columns) > 1 else ""
        words = ", ".join(f'"{c}"' for c in columns)
        first.asks.append(
            f"does it {together}tell who a row is about? {evidence.told()}. Proposed: patient = [{words}], "
            f"no input; if not, take it out of patient and write use = {back(first)}"
        )
    for name in columns:
        m = merged[name]
        m.kind = "identifier" if proposal.by_name else "person"
        if not proposal.by_name:
            why = f"person: {evidence.told()}"
            m.rule = replace(m.rule, use="leave-out", why=(why, "left out: it tells who a row is"))


def ask_several(name: str, merged: Merged, sites: Mapping[str, Site]) -> None:
    """The same person at two sites would be trained on at one and tested on at the other."""
    count, where = at_several(name, sites)
    if count:
        merged.asks.append(
            f"{count} of them stand at several sites ({some(where)}), and agree in what persons keep: are "
            "they the same persons? Rows of one are kept together within a site only"
        )


def at_several(column: str, sites: Mapping[str, Site]) -> tuple[int, list[str]]:
    """How many values stand at several sites, and at which, if they are of one person there by all that
    persons keep; numbers from 1 on are at every site, of others.
    """
    first = {name: site.first_rows(column) for name, site in sites.items() if column in site.headers}
    shared, where, kept = set[str](), set[str](), list[Kept]()
    for a, b in itertools.combinations(first, 2):
        both = sorted(first[a].keys() & first[b].keys())
        shared |= set(both)
        where |= {a, b} if both else set()
        lasting = (f for f in sites[a].features if f.personal and not f.wide)
        for feature in (f for f in lasting if f.name in sites[b].headers):
            texts = [sites[s].cells(feature.name).each(same) for s in (a, b)]
            alike = sum(texts[0][first[a][c]] == texts[1][first[b][c]] for c in both)
            kept.append(Kept(feature.name, alike / max(len(both), 1), len(both), feature.chance, True))
    kept = [k for k in kept if k.tells and not names_age(k.name)]
    one_person = all(k.share >= CHANGES for k in kept) and sum(k.evidence for k in kept) >= SURE
    return (len(shared), sorted(where)) if one_person else (0, [])


def back(merged: Merged) -> str:
    """What a column is used as again."""
    return '"number"' if merged.numeric else '"category", with values'


def absent_at(merged: Merged, site: str) -> None:
    """A column that tells persons elsewhere is not looked at where it tells something else."""
    here = replace(merged.rule.here(site), absent=True)
    merged.rule = replace(merged.rule, at={**merged.rule.at, site: here})


def leave_out_finer(
    proposal: Proposal, person: Proposal, merged: Mapping[str, Merged], sites: Mapping[str, Site]
) -> None:
    """A column of which a person has several values, as of visits; one that a person keeps is an input."""
    (name, *more), (who, *_) = proposal.columns, person.columns
    m = merged[name]
    if more or not m.rule.read or determines(who, name, sites):
        return
    m.asks.append(
        f"does it tell visits or cases? {proposal.evidence.told()}, and each is of one {who!r} only. It is "
        f"left out; to use it, write use = {back(m)}"
    )
    m.kind, m.rule = "identifier", replace(m.rule, use="leave-out")


def say_left_out(pairs: Pairs) -> None:
    """Nothing is left out without a word: why, and how to get it back."""
    for _, m in pairs:
        told = any("write use =" in ask for ask in m.asks)
        if m.kind in KIND_WORDS and not m.rule.read and not told:
            why = m.rule.why[0].partition(": ")[2]
            m.says.append(f"left out as {KIND_WORDS[m.kind]} ({why}); to use it, write use = {back(m)}")


KIND_WORDS = {"identifier": "an identifier", "text": "free text", "code": "a code"}
