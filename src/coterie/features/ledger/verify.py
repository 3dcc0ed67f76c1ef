"""Holds a run's ledger against itself, against the run's other files, and against heads that sites signed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.features.ledger import entries, heads
from coterie.features.ledger.proof import Authority, Kept, Proof, clients_of, few
from coterie.storage import chain
from coterie.storage.chain import Broken, Entry, finite
from coterie.storage.rounds import MATRICES

NOBODY = "nobody signed: whoever has the folder could have written it anew"
NO_AUTHORITY = "certificates were held against no authority (give --authority ca.crt)"
TEXTS = (
    *("config", "about", "remarks", "metrics", "weights", "passed", "run", "federation", "authority"),
    *("answered", "method", "version", "diverged"),
)
TYPES = {
    **dict.fromkeys(("after", "round", "rounds"), int),
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(("models", "results", "away"), dict),
    "clients": list,
}
NEEDED = {"begin": (), "round": ("round",), "resumed": ("after",), "end": ("models",)}
ODD = (KeyError, TypeError, ValueError, AttributeError, IndexError)  # of a file that somebody wrote
EARLIER = "some heads are of an earlier version: only their certificates say of which federation"


class _Verdict(NamedTuple):
    """What is wrong, the first first; nothing if all is well. `said` is the line for that."""

    wrong: list[str]
    said: str


def verify(
    folder: Path, record: Any, kept: Kept | None = None, authority: Authority | None = None
) -> _Verdict:
    """The chain of a run whose record is at hand; `kept` are heads that sites have brought along."""
    found = chain.read(folder)
    if isinstance(found, Broken):
        return _Verdict([f"entry {found.index}: {found.what}"], "")
    if not found:
        return _Verdict(["there is no entry: the ledger was removed, or never begun"], "")
    if odd := [f"entry {entry.index}: a run has no such entry" for entry in found if not _is_sound(entry)]:
        return _Verdict(odd, "")
    beside, kept, authority = heads.read(folder / heads.SIGNATURES), kept or {}, authority or Authority()
    known = authority.pem is not None
    proof = Proof.of(found, beside, kept, authority, _present(found, record))
    strict = known or bool(kept)  # somebody relies on it
    wrong = [*proof.wrong, *_in_order(found, strict), *_by_files(found, folder, record, strict)]
    for note in heads.refusals(folder / heads.SIGNATURES):
        index, site, why = (note.get(name) for name in ("index", "site", "refused"))
        wrong.append(f"entry {index}: {site} would not sign it: {why}")
    return _Verdict(list(dict.fromkeys(wrong)), _verdict_line(found, proof, known, bool(kept)))


def _verdict_line(found: Sequence[Entry], proof: Proof, known: bool, brought: bool) -> str:
    """Who stands for a ledger with which nothing is wrong."""
    many, last = f"{len(found)} entries", len(found) - 1
    if _end_of(found) is None:
        many += f", the run did not end (it is cut off after round {max(_rounds_of(found), default=0)})"
    elif "diverged" in found[-1].content:
        many += ", the run has no result, as training diverged"
    outside = [f"none of the sites of this run: {few(proof.outside)}"] if proof.outside else []
    if not proof.reach:
        return "; ".join([many, NOBODY, *outside])
    now = sorted(site for site, index in proof.reach.items() if index == last)
    if not (known or brought):  # certificates and all else are from the folder
        return f"{many}, said to be signed by {len(now)} sites: {NO_AUTHORITY}"
    reach = {name: f"{name} (up to entry {index})" for name, index in proof.reach.items()}
    behind = [reach.get(name, name) for name in clients_of(found) if name not in now]
    parts = [f"{many}, {len(now)} sites signed the last head"]
    parts += [f"not signed by {few(behind)}"] if behind else []
    parts += [] if known else [NO_AUTHORITY]
    return "; ".join([*parts, *([EARLIER] if proof.unbound else []), *outside])


def _is_sound(entry: Entry) -> bool:
    """Whether an entry has what those of its kind have, each of the kind that it should be."""
    said, kind = entry.content, entry.content.get("kind")
    there = [(said[name], wanted) for name, wanted in TYPES.items() if name in said]
    if not all(type(value) is wanted for value, wanted in there):
        return False
    if any(wanted is int and value < 0 for value, wanted in there):
        return False
    if not all(isinstance(name, str) for name in said.get("clients", [])):
        return False
    try:
        entries.numbers_in(said.get("answered", ""))
    except ValueError:
        return False
    if "metrics" in said and (kind == "end" or (kind == "resumed" and said.get("after"))):
        return False  # figures of earlier rounds are in entries of their own
    begins = (kind == "begin") is (entry.index == 0)
    return kind in NEEDED and begins and all(name in said for name in NEEDED[kind])


def _end_of(found: Sequence[Entry]) -> Entry | None:
    """The entry with which the run ended, if it did, and no round was done since."""
    after = [e for e in found if e.content["kind"] in ("end", "round")]
    return after[-1] if after and after[-1].content["kind"] == "end" else None


def _rounds_of(found: Sequence[Entry]) -> dict[int, Entry]:
    """By round its entry: of a round that was done again, the last."""
    rounds = dict[int, Entry]()
    for entry in found:
        if entry.content["kind"] == "resumed":
            rounds = {r: e for r, e in rounds.items() if r <= entry.content["after"]}
        elif entry.content["kind"] == "round":
            rounds[entry.content["round"]] = entry
    return rounds


def _start_of(found: Sequence[Entry]) -> Entry:
    """The entry that tells of the lines before the first round."""
    anew = [e for e in found[1:] if e.content["kind"] == "resumed" and "metrics" in e.content]
    return anew[-1] if anew else found[0]


def _present(found: Sequence[Entry], record: Any) -> dict[int, dict[str, bool]]:
    """By entry, the sites that it says took part: who answered, or has figures in the lines that it is of,
    and whether scores are among them.
    """
    names = clients_of(found)
    start, rounds = _start_of(found), _rounds_of(found)
    there = {e.index: dict.fromkeys(entries.numbers_in(e.content.get("answered", "")), False) for e in found}
    for line in record.metrics:
        mine = there[rounds.get(line["round"], start).index]
        with suppress(*ODD):  # losses of training, and scores, the last of a round: a client alone tells them
            scores = [values for figures in (line["scores"] or {}).values() for values in figures.values()]
            losses = line.get("train_loss") or []
            told = {i: False for i, value in enumerate(losses) if value is not None}
            mine |= told | {i: True for some in scores for i, value in enumerate(some) if value is not None}
    return {index: {names[i]: s for i, s in some.items() if i < len(names)} for index, some in there.items()}


def _in_order(found: Sequence[Entry], strict: bool) -> Iterable[str]:
    """Rounds that do not follow each other, and what follows an end that is none."""
    last, ended = found[0].content.get("after", 0), None
    for entry in found[1:]:
        told = entry.content
        if told["kind"] == "resumed":
            if told["after"] > last:
                yield f"entry {entry.index}: it goes on after a round that was not there"
            last = told["after"]
        elif told["kind"] == "round":
            if told["round"] != last + 1:
                yield f"entry {entry.index}: round {told['round']} after round {last}"
            last, ended = told["round"], None
        elif told["kind"] == "end":
            if told.get("rounds", last) != last:
                yield f"entry {entry.index}: an end after {told['rounds']} rounds, where there were {last}"
            if ended is not None and strict and told != ended.content:
                yield f"entry {entry.index}: another end than entry {ended.index}, with no round since"
            ended = entry
    if found[-1].content["kind"] == "resumed":
        yield (
            f"entry {len(found) - 1} says that the run goes on, and nothing follows: the chain was cut off, "
            "or the run was (coterie resume goes on with it)"
        )


def _by_files(found: Sequence[Entry], folder: Path, record: Any, strict: bool) -> Iterable[str]:
    """What the run's other files say that the chain does not; of what an earlier version did not write down,
    nothing.
    """
    yield from _of_begin(found[0].content, record)
    end = _end_of(found)
    if [line["round"] for line in record.metrics] != list(range(len(record.metrics))):
        yield "metrics.jsonl: its rounds do not follow each other: lines are missing, doubled or moved"
        return
    yield from _of_rounds(found, folder, record, strict)
    if end is not None:
        yield from _of_end(end, folder, record)
    elif there := list(entries.digests(folder, (*entries.MODELS, *entries.RESULTS))):
        yield (
            f"entry {len(found) - 1} is the last, and no end, but there is {few(there)}: the chain was cut "
            "off, or the run was killed in its last moment"
        )


def _of_begin(first: Mapping[str, Any], record: Any) -> Iterable[str]:
    """config.toml, and run.json but for what differs each time a run is repeated."""
    about = record.about
    odd = not isinstance(about.get("again", {}), Mapping)
    now = entries.begin(record.config, {**about, "again": {}} if odd else about, (), {})
    needed = {
        "config": "config.toml is not what entry 0 says: it was changed",
        "method": "config.toml has another method than entry 0: one of the two was changed",
        "clients": "run.json has other clients than entry 0: one of the two was changed",
    }
    yield from (what for name, what in needed.items() if now[name] != first.get(name))
    told = {"about": "clients and columns", "remarks": "notes and remarks"}
    told["version"] = f"the version, {first.get('version')}"
    for name, what in told.items():
        if name in first and now[name] != first[name]:
            yield f"run.json is not what entry 0 says of {what}: it was changed"
    same = {"again"} & now.keys() == {"again"} & first.keys() and now.get("again") == first.get("again")
    if "about" in first and (odd or not same):
        yield "run.json is not what entry 0 says of which run it does again: it was changed"


def _of_rounds(found: Sequence[Entry], folder: Path, record: Any, strict: bool) -> Iterable[str]:
    """metrics.jsonl and collaboration.jsonl; rounds before the first entry are in `begin`. A run that was
    killed may have written a line and no entry, or have dropped lines to do them again: where somebody relies
    on it, it has to go on first, as anybody could have written or dropped them.
    """
    start, rounds = _start_of(found), _rounds_of(found)
    before = start.content.get("after", 0)
    told = start.content.get("metrics")
    if told is not None and entries.lines_digest(record.metrics[: before + 1]) != told:
        which = f"rounds 0 to {before}, are" if before else "round 0, is"
        yield f"metrics.jsonl, {which} not what entry {start.index} says: it was changed"
    lines = {line["round"]: line for line in record.metrics if line["round"] > before}
    over, last = _end_of(found) is not None, max(rounds, default=before)
    killed = "" if over else ", or the run was killed (coterie resume goes on with it)"
    for r in sorted(lines.keys() - rounds.keys()):
        if over or r != last + 1:
            yield f"metrics.jsonl has round {r}, of which there is no entry: the chain was cut off"
        elif strict:
            yield f"metrics.jsonl has round {r}, of which there is no entry: it was added{killed}"
    for r in sorted(rounds.keys() - lines.keys()) if over or strict else ():
        lacks = f"metrics.jsonl lacks round {r}, of which entry {rounds[r].index} tells"
        yield f"{lacks}: it was dropped{killed}" if killed else lacks
    if rounds and not (folder / MATRICES).exists():
        yield f"{MATRICES} is missing, of which entry {rounds[min(rounds)].index} and others tell"
        return
    kept = set(record.weights)
    for r, entry in sorted(rounds.items()):
        if r in kept or r in lines:
            yield from _of_round(entry, lines.get(r), r in kept, record)
        if r not in kept and (over or strict):
            yield f"{MATRICES} lacks round {r}, of which entry {entry.index} tells"


def _of_round(entry: Entry, line: Mapping[str, Any] | None, kept: bool, record: Any) -> Iterable[str]:
    """One round: digests of its files, and what the entry says beside them of the same."""
    said, r = entry.content, entry.content["round"]
    weights = record.weights[r] if kept else None
    passed = record.passed[r] if kept and "passed" in said and r in set(record.passed) else None
    if line is not None and entries.lines_digest([line]) != said.get("metrics"):
        yield f"metrics.jsonl, round {r}, is not what entry {entry.index} says: it was changed"
        return
    if weights is not None and entries.array_digest(weights, np.float32) != said.get("weights"):
        yield f"collaboration.jsonl, round {r}, is not what entry {entry.index} says: it was changed"
        return
    if line is None or weights is None:
        return
    try:
        told = finite(entries.round_of(line, weights, passed))
    except ODD:
        yield f"metrics.jsonl, round {r}, is no line of a run"
        return
    if "passed" in said and told.get("passed") != said["passed"]:
        which = f"collaboration.jsonl, round {r}, is not what entry {entry.index} says"
        yield f"{which} of what passed: it was changed"
    elif other := sorted(k for k in told.keys() | said.keys() if told.get(k) != said.get(k)):
        yield f"entry {entry.index} says otherwise than round {r} of the record of {few(other)}"


def _of_end(end: Entry, folder: Path, record: Any) -> Iterable[str]:
    """Models and further files that a run writes at its end, which comes after all its rounds, when a budget
    is spent, or because training diverged.
    """
    told: Mapping[str, str] = {**end.content["models"], **end.content.get("results", {})}
    patterns = (*entries.MODELS, *(entries.RESULTS if "results" in end.content else ()))
    there = entries.digests(folder, patterns)
    for name in sorted(told.keys() | there.keys()):
        if name not in there:
            yield f"{name} is missing, of which entry {end.index} tells"
        elif told.get(name) != there[name]:
            yield f"{name} is not what entry {end.index} says: it was changed"
    rounds, diverged = int(record.config["rounds"]), "diverged" in end.content
    if record.done > rounds:
        yield f"metrics.jsonl has round {record.done}, and config.toml says {rounds} rounds"
    if not diverged and not record.finished:
        yield f"entry {end.index}: an end after round {record.done} of {rounds}, and no budget was spent"
    if diverged and not record.diverged():
        yield (
            f"events.jsonl does not end with training that diverged, as entry {end.index} does: it was "
            "changed, or the run went on since (coterie resume)"
        )
