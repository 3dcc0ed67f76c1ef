"""Holds a run's ledger against itself, against the run's other files, and against heads that sites signed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coterie.ledger import chain, entries, heads
from coterie.ledger.chain import Broken, Entry
from coterie.ledger.heads import Signed

NOBODY = "nobody signed: whoever has the folder could have written it anew"


class Verdict(NamedTuple):
    """What is wrong, the first first; nothing if all is well. `said` is the line for that."""

    wrong: list[str]
    said: str


def verify(
    folder: Path,
    record: Any,
    kept: Sequence[Signed] = (),
    ca_pem: bytes | None = None,
) -> Verdict:
    """The chain of a run whose record is at hand; `kept` are heads that sites have brought along."""
    found = chain.read(folder)
    if isinstance(found, Broken):
        return Verdict([f"entry {found.index}: {found.what}"], "")
    if not found:
        return Verdict(["there is no entry: the ledger was removed, or never begun"], "")
    signed = heads.read(folder / heads.SIGNATURES)
    wrong = [*by_heads(found, signed, ca_pem), *by_heads(found, kept, ca_pem)]
    wrong += [*in_order(found), *by_files(found, folder, record)]
    last, sites = found[-1], sorted({one.site for one in (*signed, *kept)})
    now = sorted({one.site for one in (*signed, *kept) if one.index == last.index})
    behind = [site for site in sites if site not in now]
    said = f"{len(found)} entries; {NOBODY}"
    if sites:
        said = f"{len(found)} entries, {len(now)} sites signed the last head"
        said += f"; not signed by {', '.join(behind)}" if behind else ""
        if ca_pem is None:
            said += "; certificates were held against no authority (give --authority ca.crt)"
    for note in heads.refusals(folder / heads.SIGNATURES):
        wrong.append(
            f"entry {note.get('index')}: {note.get('site')} would not sign it: {note.get('refused')}"
        )
    return Verdict(list(dict.fromkeys(wrong)), said)


def by_heads(found: Sequence[Entry], some: Iterable[Signed], ca_pem: bytes | None) -> Iterable[str]:
    """Heads that are not in the chain: it was cut, or forked; or that nobody has signed so."""
    for one in sorted(some, key=lambda one: one.index):
        if why := heads.trouble(one, ca_pem):
            yield f"entry {one.index}: the signature of {one.site} does not count: {why}"
        elif one.index >= len(found):
            last = len(found) - 1
            yield f"entry {last} is the last, and {one.site} signed entry {one.index}: the chain was cut off"
        elif one.index < 0 or found[one.index].hash != one.head:
            yield f"entry {one.index}: {one.site} signed another head for it: the chain was forked"


def in_order(found: Sequence[Entry]) -> Iterable[str]:
    """Rounds that do not follow each other."""
    last = found[0].content.get("after", 0)
    if found[0].content.get("kind") != "begin":
        yield "entry 0: a run begins otherwise"
    for entry in found[1:]:
        told = entry.content
        kind = told.get("kind")
        if kind == "resumed":
            if not isinstance(told.get("after"), int) or told["after"] > last:
                yield f"entry {entry.index}: it goes on after a round that was not there"
            last = told["after"]
        elif kind == "round":
            if told.get("round") != last + 1:
                yield f"entry {entry.index}: round {told.get('round')} after round {last}"
            last = told["round"]
        elif kind != "end":
            yield f"entry {entry.index}: a run has no such entry"


def by_files(found: Sequence[Entry], folder: Path, record: Any) -> Iterable[str]:
    """What the run's other files say that the chain does not."""
    if entries.config_digest(record.config) != found[0].content.get("config"):
        yield "config.toml is not what entry 0 says: it was changed"
    rounds = {e.content["round"]: e for e in found if e.content.get("kind") == "round"}
    before = found[0].content.get("after", 0)
    lines = {line["round"]: line for line in record.metrics if line["round"] > before}
    over = found[-1].content.get("kind") == "end"
    last = max(rounds, default=before)
    for r in sorted(lines.keys() - rounds.keys()):
        if over or r != last + 1:  # a run that was killed may have written a line and no entry
            yield f"metrics.jsonl has round {r}, of which there is no entry: the chain was cut off"
    for r in sorted(rounds.keys() - lines.keys()) if over else ():
        yield f"metrics.jsonl lacks round {r}, of which entry {rounds[r].index} tells"
    for r, entry in sorted(rounds.items()):
        if r in lines and entries.line_digest(lines[r]) != entry.content["metrics"]:
            yield f"metrics.jsonl, round {r}, is not what entry {entry.index} says: it was changed"
        if r in record.weights and entries.weights_digest(record.weights[r]) != entry.content["weights"]:
            yield f"collaboration.jsonl, round {r}, is not what entry {entry.index} says: it was changed"
    if over:
        yield from of_models(found[-1], folder)
    elif record.finished and entries.model_digests(folder):
        yield (
            f"entry {len(found) - 1} is the last, and the run is over, with models: the chain was cut off, "
            "or the run was killed in its last moment"
        )


def of_models(entry: Entry, folder: Path) -> Iterable[str]:
    told: Mapping[str, str] = entry.content["models"]
    there = entries.model_digests(folder)
    for name in sorted(told.keys() | there.keys()):
        if name not in there:
            yield f"{name} is missing, of which entry {entry.index} tells"
        elif told.get(name) != there[name]:
            yield f"{name} is not what entry {entry.index} says: it was changed"
