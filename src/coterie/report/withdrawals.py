"""Who withdrew from sums and circles, and who was kept out of them, in a line for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.runs.record import Record, spans

LISTED = 8


def withdrawals(record: Record) -> list[str]:
    """north withdrew from 12 sums in 5 of 30 rounds (1 to 5): share 0.62 above 0.5"""
    rounds, counts, why = dict[str, list[int]](), dict[str, dict[str, int]](), dict[str, str]()
    for m in record.metrics:
        for told in (m.get("extras") or {}).get("withdrawals", ()):
            site, kind = str(told["site"]), str(told.get("of", "sum"))
            mine = rounds.setdefault(site, [])
            if m["round"] not in mine:
                mine.append(m["round"])
            each = counts.setdefault(site, {})
            each[kind], why[site] = each.get(kind, 0) + 1, str(told["why"])
    lines = []
    for site, some in rounds.items():
        when = f"in {len(some)} of {record.done} rounds ({spans(some)})"
        lines.append(f"{site} withdrew from {counted(counts[site])} {when}: {why[site]}")
    more = len(lines) - LISTED
    lines = lines if more <= 0 else [*lines[:LISTED], f"{more} more sites withdrew: see metrics.jsonl"]
    return [*lines, *kept_out(record)]


def kept_out(record: Record) -> list[str]:
    """east, west were kept out of what north mixes in 30 of 30 rounds (1 to 30), as was decided"""
    rounds, sites = dict[str, list[int]](), dict[str, dict[str, None]]()
    for m in record.metrics:
        for told in (m.get("extras") or {}).get("kept_out", ()):
            mine = rounds.setdefault(str(told["receiver"]), [])
            if m["round"] not in mine:
                mine.append(m["round"])
            sites.setdefault(str(told["receiver"]), {})[str(told["site"])] = None
    lines = []
    for receiver, some in rounds.items():
        who, when = list(sites[receiver]), f"in {len(some)} of {record.done} rounds ({spans(some)})"
        names = ", ".join(who[:LISTED]) + (", ..." if len(who) > LISTED else "")
        were = "was" if len(who) == 1 else "were"
        lines.append(f"{names} {were} kept out of what {receiver} mixes {when}, as was decided")
    return lines


def counted(each: Mapping[str, Any]) -> str:
    """1 circle and 3 sums"""
    return " and ".join(f"{n} {kind}{'s' * (n != 1)}" for kind, n in sorted(each.items()))
