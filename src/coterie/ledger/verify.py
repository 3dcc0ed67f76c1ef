"""Holds a run's ledger against itself, against the run's other files, and against heads that sites signed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coterie.ledger import chain, entries, heads
from coterie.ledger.chain import Broken, Entry
from coterie.ledger.proof import Authority, Kept, Proof, clients_of, few, proof_of

NOBODY = "nobody signed: whoever has the folder could have written it anew"
NO_AUTHORITY = "certificates were held against no authority (give --authority ca.crt)"
TEXTS = ("config", "about", "metrics", "weights", "run", "federation", "authority", "answered")
EARLIER = "some heads are of an earlier version: only their certificates say of which federation"


class Verdict(NamedTuple):
    """What is wrong, the first first; nothing if all is well. `said` is the line for that."""

    wrong: list[str]
    said: str


def verify(
    folder: Path, record: Any, kept: Kept | None = None, authority: Authority | None = None
) -> Verdict:
    """The chain of a run whose record is at hand; `kept` are heads that sites have brought along."""
    found = chain.read(folder)
    if isinstance(found, Broken):
        return Verdict([f"entry {found.index}: {found.what}"], "")
    if not found:
        return Verdict(["there is no entry: the ledger was removed, or never begun"], "")
    if odd := [f"entry {entry.index}: a run has no such entry" for entry in found if not is_sound(entry)]:
        return Verdict(odd, "")
    beside, kept, authority = heads.read(folder / heads.SIGNATURES), kept or {}, authority or Authority()
    proof = proof_of(found, beside, kept, authority)
    wrong = [*proof.wrong, *in_order(found), *by_files(found, folder, record)]
    for note in heads.refusals(folder / heads.SIGNATURES):
        wrong.append(
            f"entry {note.get('index')}: {note.get('site')} would not sign it: {note.get('refused')}"
        )
    known = authority.pem is not None
    return Verdict(list(dict.fromkeys(wrong)), verdict_line(found, proof, known, bool(kept)))


def verdict_line(found: Sequence[Entry], proof: Proof, known: bool, brought: bool) -> str:
    """Who stands for a ledger with which nothing is wrong."""
    many, last = f"{len(found)} entries", len(found) - 1
    if not proof.reach:
        return f"{many}; {NOBODY}"
    now = sorted(site for site, index in proof.reach.items() if index == last)
    if not (known or brought):  # certificates and all else are from the folder
        return f"{many}, said to be signed by {len(now)} sites: {NO_AUTHORITY}"
    behind = [
        f"{name} (up to entry {proof.reach[name]})" if name in proof.reach else name
        for name in clients_of(found)
        if name not in now
    ]
    parts = [f"{many}, {len(now)} sites signed the last head"]
    parts += [f"not signed by {few(behind)}"] if behind else []
    parts += [] if known else [NO_AUTHORITY]
    return "; ".join([*parts, *([EARLIER] if proof.unbound else [])])


def is_sound(entry: Entry) -> bool:
    """Whether an entry has what those of its kind have, each of the kind that it should be."""
    said, first = entry.content, entry.index == 0
    whole = [said[name] for name in ("after", "round", "rounds") if name in said]
    texts = [said[name] for name in TEXTS if name in said]
    if not all(type(n) is int and n >= 0 for n in whole) or not all(isinstance(t, str) for t in texts):
        return False
    tables = [said[name] for name in ("models", "results", "away") if name in said]
    if not all(isinstance(table, dict) for table in tables):
        return False
    clients = said.get("clients", [])
    if not isinstance(clients, list) or not all(isinstance(name, str) for name in clients):
        return False
    try:
        entries.numbers_in(said.get("answered", ""))
    except ValueError:
        return False
    needed = {"begin": (), "round": ("round",), "resumed": ("after",), "end": ("models",)}
    kind = said.get("kind")
    return kind in needed and (kind == "begin") is first and all(name in said for name in needed[kind])


def in_order(found: Sequence[Entry]) -> Iterable[str]:
    """Rounds that do not follow each other."""
    last = found[0].content.get("after", 0)
    for entry in found[1:]:
        told = entry.content
        if told["kind"] == "resumed":
            if told["after"] > last:
                yield f"entry {entry.index}: it goes on after a round that was not there"
            last = told["after"]
        elif told["kind"] == "round":
            if told["round"] != last + 1:
                yield f"entry {entry.index}: round {told['round']} after round {last}"
            last = told["round"]


def by_files(found: Sequence[Entry], folder: Path, record: Any) -> Iterable[str]:
    """What the run's other files say that the chain does not; of what an earlier version did not write down,
    nothing.
    """
    first = found[0].content
    if entries.config_digest(record.config) != first.get("config"):
        yield "config.toml is not what entry 0 says: it was changed"
    if "about" in first and entries.about_digest(record.about) != first["about"]:
        yield "run.json is not what entry 0 says of clients and columns: it was changed"
    if [line["round"] for line in record.metrics] != list(range(len(record.metrics))):
        yield "metrics.jsonl: its rounds do not follow each other: lines are missing, doubled or moved"
        return
    yield from of_rounds(found, record)
    if found[-1].content["kind"] == "end":
        yield from of_results(found[-1], folder)
    elif record.finished and entries.model_digests(folder):
        yield (
            f"entry {len(found) - 1} is the last, and the run is over, with models: the chain was cut off, "
            "or the run was killed in its last moment"
        )


def of_rounds(found: Sequence[Entry], record: Any) -> Iterable[str]:
    """metrics.jsonl and the weights of collaboration.jsonl; rounds before the first entry are in `begin`."""
    start = [e for e in found if e.content["kind"] != "round" and "metrics" in e.content]
    before = start[-1].content.get("after", 0) if start else found[0].content.get("after", 0)
    if start and entries.lines_digest(record.metrics[: before + 1]) != start[-1].content["metrics"]:
        which = f"rounds 0 to {before}, are" if before else "round 0, is"
        yield f"metrics.jsonl, {which} not what entry {start[-1].index} says: it was changed"
    rounds = {e.content["round"]: e for e in found if e.content["kind"] == "round"}
    lines = {line["round"]: line for line in record.metrics if line["round"] > before}
    over, last = found[-1].content["kind"] == "end", max(rounds, default=before)
    for r in sorted(lines.keys() - rounds.keys()):
        if over or r != last + 1:  # a run that was killed may have written a line and no entry
            yield f"metrics.jsonl has round {r}, of which there is no entry: the chain was cut off"
    for r in sorted(rounds.keys() - lines.keys()) if over else ():
        yield f"metrics.jsonl lacks round {r}, of which entry {rounds[r].index} tells"
    kept = set(record.weights)
    for r, entry in sorted(rounds.items()):
        if r in lines and entries.line_digest(lines[r]) != entry.content.get("metrics"):
            yield f"metrics.jsonl, round {r}, is not what entry {entry.index} says: it was changed"
        if r in kept and entries.weights_digest(record.weights[r]) != entry.content.get("weights"):
            yield f"collaboration.jsonl, round {r}, is not what entry {entry.index} says: it was changed"
        elif kept and r not in kept and over:
            yield f"collaboration.jsonl lacks round {r}, of which entry {entry.index} tells"


def of_results(entry: Entry, folder: Path) -> Iterable[str]:
    """Models and further files that a run writes at its end."""
    told: Mapping[str, str] = {**entry.content["models"], **entry.content.get("results", {})}
    there = entries.model_digests(folder)
    if "results" in entry.content:
        there |= entries.result_digests(folder)
    for name in sorted(told.keys() | there.keys()):
        if name not in there:
            yield f"{name} is missing, of which entry {entry.index} tells"
        elif told.get(name) != there[name]:
            yield f"{name} is not what entry {entry.index} says: it was changed"
