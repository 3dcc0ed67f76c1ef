"""What `inspect` proposes about persons: who a row is about, what is left out for it, how to get that back.

`patient` names one column for each site: several columns of one site are one name for a person, as surname
and date of birth are.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coterie.data.kinds import KINDS
from coterie.data.tables.draft import Draft
from coterie.data.tables.names import (
    PERSONAL,
    names_age,
    names_birth,
    names_identifier,
    names_numbering,
    names_person,
    words_in,
)
from coterie.data.tables.people import CHANGES, SURE, Evidence, Kept, Site
from coterie.data.tables.profile import Profile
from coterie.data.tables.read import Table
from coterie.data.tables.texts import same, some

FEW_EACH = 0.2  # identifiers to a row, at least: with fewer it tells wards or doctors, not patients
MOST_PARTS = 8  # columns that are tried in pairs


@dataclass(frozen=True, eq=False)
class _Proposal:
    """Columns that tell persons; `by_name` where the name says so and nobody has to be asked."""

    evidence: Evidence
    by_name: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return self.evidence.columns


def find_people(
    drafts: Sequence[Draft],
    profiles: Mapping[str, Mapping[str, Profile]],
    tables: Mapping[str, Table],
    goals: Collection[str],
) -> tuple[str, ...]:
    """The columns for `patient`; they are no inputs, and what is not certain is asked. A goal is never one,
    but persons keep it as they keep other columns.
    """
    draft = {d.name: d for d in drafts if d.name not in goals}
    headers = {s: {d.name: d.group.headers[s] for d in drafts if s in d.group.headers} for s in tables}
    sites = {s: Site(t, headers[s], profiles[s]) for s, t in tables.items()}
    found = _ordered(_proposals(draft, sites), sites)
    having = {s: [p for p in found if set(p.columns) <= here.headers.keys()] for s, here in sites.items()}
    people = [p for p in found if any(mine[:1] == [p] for mine in having.values())]
    for proposal in people:
        _propose(proposal, draft, sites)
        others = [s for s, mine in having.items() if proposal in mine[1:]]
        for site, name in itertools.product({*others, *proposal.evidence.against}, proposal.columns):
            rule = draft[name].rule  # not looked at where it tells something else
            at = {**rule.at, site: replace(rule.here(site), absent=True)}
            draft[name].rule = replace(rule, at=at)
    for proposal in found:
        if proposal not in people and people and not proposal.by_name:
            _leave_out_finer(proposal, people[0], draft, sites)
    whole = [p.columns[0] for p in people if len(p.columns) == 1]
    for name, m in draft.items():
        if name in whole or m.kind == "identifier":
            count, where = _at_several(name, sites)
            if count:  # the same person at two sites would be trained on at one and tested on at the other
                m.asks.append(
                    f"{count} of them stand at several sites ({some(where)}), and agree in what persons "
                    "keep: are they the same persons? Rows of one are kept together within a site only"
                )
    return tuple(n for n in draft if any(n in p.columns for p in people))


def _proposals(draft: Mapping[str, Draft], sites: Mapping[str, Site]) -> list[_Proposal]:
    """All columns that tell persons, by name or by structure; pairs of columns where no single one does."""
    found = []
    for name, m in draft.items():
        if not any(name in s.headers and s.may_tell(name) for s in sites.values()):
            continue
        evidence = Evidence.of([name], sites, names_person(name))
        said = m.kind == "identifier" and not words_in(name) & PERSONAL
        often = evidence.values >= FEW_EACH * evidence.rows and not evidence.changed and not evidence.against
        if said and evidence.again and (names_person(name) or (often and not evidence.speaks)):
            found.append(_Proposal(evidence, True))
        elif evidence.speaks and evidence.again:
            found.append(_Proposal(evidence, False))
    if found:
        return found
    # two that tell persons together: a family and a number in it, a surname and a date of birth
    known = {"family", "member", "household", "familie", "famille", "haushalt", *PERSONAL}
    tests = names_birth, names_identifier, names_numbering
    parts = [n for n in draft if any(test(n) for test in tests) or words_in(n) & known][:MOST_PARTS]
    tried = (Evidence.of(pair, sites) for pair in itertools.combinations(parts, 2))
    fits = (e for e in tried if e.speaks and e.again and any(k.personal for k in e.steady))
    return [_Proposal(evidence, False) for evidence in fits][:1]


def _ordered(found: Sequence[_Proposal], sites: Mapping[str, Site]) -> list[_Proposal]:
    """The best first: what names say; then, from fine to coarse, the last that still keeps persons apart: a
    person has several visits, but a height several persons.
    """
    named = [p for p in found if p.by_name and names_person(p.columns[0])]
    others = sorted((p for p in found if p not in named), key=lambda p: -p.evidence.values)
    best = others[:1]
    for coarser in others[1:]:
        if len(coarser.columns) == 1 and best[0].evidence.joins(coarser.columns[0], sites):
            best = [coarser]
    return [*named, *best, *(p for p in others if p not in best)]


def _propose(proposal: _Proposal, draft: Mapping[str, Draft], sites: Mapping[str, Site]) -> None:
    evidence, columns = proposal.evidence, proposal.columns
    first = draft[columns[0]]
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
            f"does it {together}tell who a row is about? {evidence.in_words()}. Proposed: "
            f"patient = [{words}], no input; if not, take it out of patient and write use = {_back(first)}"
        )
    for name in columns:
        m = draft[name]
        m.kind = "identifier" if proposal.by_name else "person"
        if not proposal.by_name:
            why = f"person: {evidence.in_words()}"
            m.rule = replace(m.rule, use="leave-out", why=(why, "left out: it tells who a row is"))


def _at_several(column: str, sites: Mapping[str, Site]) -> tuple[int, list[str]]:
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


def _back(draft: Draft) -> str:
    """What a column is used as again."""
    return '"number"' if draft.pooled.numeric else '"category", with values'


def _leave_out_finer(
    proposal: _Proposal, person: _Proposal, draft: Mapping[str, Draft], sites: Mapping[str, Site]
) -> None:
    """A column of which a person has several values, as of visits; one that a person keeps is an input."""
    (name, *more), (who, *_) = proposal.columns, person.columns
    m = draft[name]
    if more or not m.rule.read:
        return
    having = [s for s in sites.values() if who in s.headers and name in s.headers]
    if all(s.one_each(who, name) for s in having):
        return
    m.asks.append(
        f"does it tell visits or cases? {proposal.evidence.in_words()}, and each is of one {who!r} only. "
        f"It is left out; to use it, write use = {_back(m)}"
    )
    m.kind, m.rule = "identifier", replace(m.rule, use="leave-out")


def say_left_out(drafts: Sequence[Draft]) -> None:
    """Nothing is left out without a word: why, and how to get it back."""
    for m in drafts:
        told = any("write use =" in ask for ask in m.asks)
        noun = KINDS[m.kind].noun if m.kind in KINDS else ""  # "likely leak" and "person" are no kinds
        if noun and not m.rule.read and not told:
            why = m.rule.why[0].partition(": ")[2]
            m.says.append(f"left out as {noun} ({why}); to use it, write use = {_back(m)}")
