"""Who withdrew from sums and circles, and who was kept out of them, in a line for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.runs.record import Record, spans
from coterie.show import views
from coterie.show.blocks import Block, Points, Sentence
from coterie.show.parts import Part, Runs
from coterie.show.words import said

LISTED = 8


def _notes_part(runs: Runs) -> list[Block]:
    lines = [
        Sentence(line, lead=said("notes.run", method=record.label, seed=views.seed(record)))
        for record in runs.records
        for line in withdrawals(record)
    ]
    return [Points(lines)] if lines else []


PARTS = (Part("withdrawals", "", 10, _notes_part, on="notes"),)


def withdrawals(record: Record) -> list[str]:
    """north withdrew from 12 sums in 5 of 30 rounds (1 to 5): share 0.62 above 0.5
    east, west were kept out of what north mixes in 30 of 30 rounds (1 to 30), as was decided
    """
    lines = []
    for site, notes in _notes_by(record, "withdrawals", "site").items():
        counts = Counter(str(note.get("of", "sum")) for _, note in notes)
        each = " and ".join(f"{n} {kind}{'s' * (n != 1)}" for kind, n in sorted(counts.items()))
        lines.append(f"{site} withdrew from {each} {_when(record, notes)}: {notes[-1][1]['why']}")
    more = len(lines) - LISTED
    lines = lines if more <= 0 else [*lines[:LISTED], f"{more} more sites withdrew: see metrics.jsonl"]
    for receiver, notes in _notes_by(record, "kept_out", "receiver").items():
        who = list(dict.fromkeys(str(note["site"]) for _, note in notes))
        names = ", ".join(who[:LISTED]) + (", ..." if len(who) > LISTED else "")
        were = "was" if len(who) == 1 else "were"
        what = f"what {receiver} mixes {_when(record, notes)}"
        lines.append(f"{names} {were} kept out of {what}, as was decided")
    return lines


def _notes_by(record: Record, what: str, whose: str) -> dict[str, list[tuple[int, Mapping[str, Any]]]]:
    """Notes of all rounds, by whose they are, each with its round."""
    notes = dict[str, list[tuple[int, Mapping[str, Any]]]]()
    for m in record.metrics:
        for note in (m.get("extras") or {}).get(what, ()):
            notes.setdefault(str(note[whose]), []).append((m["round"], note))
    return notes


def _when(record: Record, notes: Sequence[tuple[int, Any]]) -> str:
    rounds = list(dict.fromkeys(round for round, _ in notes))
    return f"in {len(rounds)} of {record.done} rounds ({spans(rounds)})"
