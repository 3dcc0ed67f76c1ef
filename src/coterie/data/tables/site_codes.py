"""Codes that may mean different things at different sites: 0 and 1 here, 1 and 2 there.

A word says what it means wherever it stands; a code does not. Where sites have few values and neither has all
of the other's, what one site lacks is asked about: of an input where it would hardly be lacking by chance, of
a target always.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from coterie.data.tables.kinds import Found
from coterie.data.tables.merged import Merged
from coterie.data.tables.texts import number_of, same

FEW_CODES = 6  # more are counts, or classes of which a site may well lack some
BY_CHANCE = 1e-3  # that a site has no row of what others have


def ask_codes(merged: Merged, looks: Mapping[str, Found], target: bool) -> None:
    """Asks about codes of sites that differ; flags are no and yes, however they are written."""
    if merged.kind == "flag" or not merged.rule.read or (target and not merged.rule.values):
        return
    if any(f.values.different(FEW_CODES) > FEW_CODES for f in looks.values()):
        return
    counts = {s: values_of(f) for s, f in looks.items() if f.values}
    if not target and not all(coded(c) for c in counts.values()):
        return
    sites = {values: [s for s in counts if frozenset(counts[s]) == values] for values in sets_of(counts)}
    usual = max(sites, key=lambda v: sum(counts[s].total() for s in sites[v]), default=frozenset[str]())
    odd = [
        v for v in sites if v != usual and differ([counts[s] for s in sites[usual]], counts, sites[v], target)
    ]
    if odd:
        told = "; ".join(f"{listed(v)} at {', '.join(sites[v])}" for v in (usual, *odd))
        where = ", ".join(f"at.{s}.spellings" for v in odd for s in sites[v])
        merged.asks.append(
            f"{told}: do they mean the same? If not, say which is which under {where}"
            + (f", and write values = {quoted(usual)}" if merged.rule.values else "")
        )


def values_of(found: Found) -> Counter[str]:
    counts = Counter[str]()
    for cell, n in found.values.items():
        counts[same(cell)] += n
    return counts


def sets_of(counts: Mapping[str, Counter[str]]) -> list[frozenset[str]]:
    return list(dict.fromkeys(frozenset(c) for c in counts.values()))


def coded(counts: Counter[str]) -> bool:
    """Whole numbers."""
    numbers = [number_of(c) for c in counts]
    return all(v is not None and v % 1 == 0 for v in numbers)


def differ(
    usual: Sequence[Counter[str]], counts: Mapping[str, Counter[str]], sites: Sequence[str], target: bool
) -> bool:
    """Whether neither these sites nor the usual ones have all of the others' values, and not by chance."""
    here, there = sum((counts[s] for s in sites), Counter[str]()), sum(usual, Counter[str]())
    return all(
        any(
            target or (1 - n / one.total()) ** other.total() < BY_CHANCE
            for v, n in one.items()
            if v not in other
        )
        for one, other in itertools.permutations((here, there))
    )


def listed(values: frozenset[str]) -> str:
    return ", ".join(in_order(values))


def quoted(values: frozenset[str]) -> str:
    return f"[{', '.join(f'{chr(34)}{v}{chr(34)}' for v in in_order(values))}]"


def in_order(values: frozenset[str]) -> list[str]:
    return sorted(values, key=lambda v: (number_of(v) is None, number_of(v) or 0.0, v))
