"""A whole audit: every attack that applies, in words and figures, and its files.

audit.json      what was found: the same bytes each time for the same run, seed and options
audit.html      the same for people, with rows side by side
audit/*.png     pictures, original and recovered

audit.json, audit.html and the pictures show rows of a client as they are: only their owner may read them.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coterie.audit import canaries, inversion, membership, mixes
from coterie.audit.subject import Subject
from coterie.core.errors import CoterieError, UnknownName
from coterie.storage.atomic import readable_errors

FILE, PAGE, PICTURES = "audit.json", "audit.html", "audit"
VERSION = 1
DIGITS = 6


class Attack(NamedTuple):
    """An attack by name: why it does not apply to a run, if so; and what it found."""

    why_not: Callable[[Subject], str]
    attack: Callable[[Subject], dict[str, Any]]
    needs_rows: bool = True


ATTACKS: Mapping[str, Attack] = {
    "membership": Attack(lambda subject: "", membership.attack),
    "canaries": Attack(canaries.why_not, canaries.attack),
    "inversion": Attack(inversion.why_not, inversion.attack),
    "mixes": Attack(mixes.why_not, mixes.attack, needs_rows=False),
}


def check_attacks(names: Sequence[str]) -> tuple[str, ...]:
    """The attacks that are meant, each once and in the usual order."""
    for name in names:
        if name not in ATTACKS:
            raise UnknownName("attack", name, ATTACKS)
    return tuple(name for name in ATTACKS if name in names)


def audited(
    subject: Subject, attacks: Sequence[str], watch: Callable[[str], None] = lambda name: None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What was found, as audit.json has it, and pictures by file name. `watch` is told what begins."""
    found: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for name in attacks:
        watch(name)
        why = reason(subject, name)
        if why:
            skipped[name] = why
            continue
        told = ATTACKS[name].attack(subject)
        files |= told.pop("files", {})
        found[name] = told
    config = subject.record.config
    named = ("data", "split", "model", "method", "kernel", "rounds", "seed", "wrap", "net")
    table = {
        "version": VERSION,
        "coterie": subject.record.about.get("coterie", ""),
        "run": {
            "label": subject.record.label,
            "clients": len(subject.record.clients),
            **{k: config[k] for k in named if k in config},
        },
        "seed": subject.key.seed,
        "client": subject.target,
        "asked": list(attacks),
        "skipped": skipped,
        **found,
    }
    return plain(table), files


def reason(subject: Subject, name: str) -> str:
    """Why an attack is left out of an audit; nothing if it is not."""
    known = ATTACKS[name]
    if subject.ground is None and known.needs_rows:
        return subject.why
    if known.needs_rows and subject.learner.couples:
        return f"it looks at single rows, and in a {subject.learner.task} a row has no loss of its own"
    return known.why_not(subject)


def plain(value: Any) -> Any:
    """As JSON holds it: numbers to six digits, what is not finite as null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def write(folder: Path, table: Mapping[str, Any], files: Mapping[str, bytes], page: str) -> None:
    """All of it or nothing: what was there before is replaced when everything new is written."""
    folder_was_there = folder.exists()
    with readable_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with readable_errors(folder):
            draft = Path(tempfile.mkdtemp(prefix=".audit.", dir=folder))
            try:
                _fill(draft, table, files, page)
                _move(draft, folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except CoterieError:
        if not folder_was_there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill(draft: Path, table: Mapping[str, Any], files: Mapping[str, bytes], page: str) -> None:
    written = {FILE: (json.dumps(table, indent=1) + "\n").encode(), PAGE: page.encode()}
    for name, data in written.items():
        (draft / name).touch(mode=0o600)
        (draft / name).write_bytes(data)
    if files:
        (draft / PICTURES).mkdir(mode=0o700)
        for name, data in files.items():
            (draft / PICTURES / name).touch(mode=0o600)
            (draft / PICTURES / name).write_bytes(data)


def _move(draft: Path, folder: Path) -> None:
    if (folder / PICTURES).is_dir():
        shutil.rmtree(folder / PICTURES)
    for place in sorted(draft.iterdir()):  # audit, audit.html, audit.json: what counts comes last
        place.replace(folder / place.name)
