"""coterie audit: every attack that applies, in words and figures, and its files.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.cli.report import read_sections
from coterie.core.errors import BadInput, CoterieError, Gathered, UnknownName, lines_of
from coterie.engines.threads import narrow
from coterie.features.audit import canaries, inversion, membership, mixes
from coterie.features.audit.shown import FILE, PAGE, render_audit, sentences
from coterie.features.audit.subject import Subject, check_run, read_subject
from coterie.report.page import write_report
from coterie.runs.folder import is_run
from coterie.storage.atomic import readable_errors
from coterie.storage.paths import given_folder, given_path

PICTURES = "audit"
VERSION = 1
DIGITS = 6


class _Attack(NamedTuple):
    """An attack by name: why it does not apply to a run, if so; and what it found."""

    why_not: Callable[[Subject], str]
    attack: Callable[[Subject], dict[str, Any]]
    needs_rows: bool = True


ATTACKS: Mapping[str, _Attack] = {
    "membership": _Attack(lambda subject: "", membership.attack),
    "canaries": _Attack(canaries.why_not, canaries.attack),
    "inversion": _Attack(inversion.why_not, inversion.attack),
    "mixes": _Attack(mixes.why_not, mixes.attack, needs_rows=False),
}


def _audited(subject: Subject, attacks: Sequence[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What was found, as audit.json has it, and pictures by file name."""
    found, skipped, files = dict[str, Any](), dict[str, str](), dict[str, bytes]()
    for name in attacks:
        screen.err.print(f"[dim]· {name}[/dim]", soft_wrap=True)
        attack, why = ATTACKS[name], ""
        if attack.needs_rows and subject.ground is None:
            why = subject.why
        elif attack.needs_rows and subject.learner.couples:
            why = f"it looks at single rows, and in a {subject.learner.task} a row has no loss of its own"
        if why := why or attack.why_not(subject):
            skipped[name] = why
            continue
        found[name] = attack.attack(subject)
        files |= found[name].pop("files", {})
    record, config = subject.record, subject.record.config
    named = ("data", "split", "model", "method", "kernel", "rounds", "seed", "wrap", "net")
    run = {"label": record.label, "clients": len(record.clients)}
    table = {
        "version": VERSION,
        "coterie": record.about.get("coterie", ""),
        "run": run | {k: config[k] for k in named if k in config},
        "seed": subject.key.seed,
        "client": subject.target,
        "asked": list(attacks),
        "skipped": skipped,
        **found,
    }
    return plain(table), files


def plain(value: Any) -> Any:
    """As JSON holds it: numbers to six digits, what is not finite as null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def _write(folder: Path, table: Mapping[str, Any], files: Mapping[str, bytes], page: str) -> None:
    """All of it or nothing: what was there before is replaced when everything new is written."""
    written = {FILE: (json.dumps(table, indent=1) + "\n").encode(), PAGE: page.encode()}
    written |= {f"{PICTURES}/{name}": data for name, data in files.items()}
    folder_was_there = folder.exists()
    try:
        with readable_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".audit.", dir=folder, ignore_cleanup_errors=True) as at:
                draft = Path(at)
                if files:
                    (draft / PICTURES).mkdir(mode=0o700)
                for name, data in written.items():
                    (draft / name).touch(mode=0o600)
                    (draft / name).write_bytes(data)
                _move(draft, folder)
    except CoterieError:
        if not folder_was_there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _move(draft: Path, folder: Path) -> None:
    if (folder / PICTURES).is_dir():
        shutil.rmtree(folder / PICTURES)
    for place in sorted(draft.iterdir()):  # audit, audit.html, audit.json: what counts comes last
        place.replace(folder / place.name)


COMMANDS = {
    "audit": ("privacy", 20, "attack a finished run: what could be learned about a client's patients"),
}
HELP = """Audits a finished run: what could be learned about a client's patients from what left it?

membership   was a row trained on? by the loss of the client's models
canaries     the run's training once more with planted rows: a lower bound on epsilon
inversion    rows from the steps that a client sends
mixes        single replies from the sums that receivers got

Writes audit.json and audit.html into the run's folder, and a part of its report. They show rows of the client
that is looked at. A success proves a leak; a failed attack proves nothing.

examples:
  coterie audit runs/digits-shift-fedavg-seed0
  coterie audit runs/ours --client north --attacks membership inversion
  coterie audit runs/ours --canaries 1000 --seed 1 --out audit-of-ours
"""
CLIENT = (
    "Look at this client alone; by default at all, and for single rows and canaries at the one with the "
    "fewest training rows."
)


@dataclass(frozen=True)
class _Audit:
    run: str = word("The folder of a finished run, or one of a comparison's.", "RUN")
    attacks: tuple[str, ...] = flag(
        tuple(ATTACKS), f"Which: {', '.join(ATTACKS)}; by default all that apply."
    )
    client: str = flag("", CLIENT)
    canaries: int = flag(200, "How many planted rows: more give sharper bounds.")
    seed: int = flag(0, "Where the audit's own random numbers come from.")
    out: str = flag("", "A folder to write into; by default that of the run.")


@command_with(Flags(_Audit, "audit", HELP))
@narrow()
def audit(asked: _Audit) -> int:
    path, out, attacks = _checked(asked)
    table, files = _audited(read_subject(path, asked.client, asked.seed, asked.canaries), attacks)
    _write(out, table, files, render_audit(table, files))
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("attack", "what it found"):
        grid.add_column(heading, overflow="fold")
    for name, sentence in sentences(table):
        grid.add_row(escape(name), escape(sentence))
    screen.out.print(grid)
    print("A failed attack proves nothing.")
    print(f"audit: {out / FILE}")
    print(f"page: {out / PAGE}")
    if out.resolve() == path.resolve():
        print(f"report: {write_report(path / 'report.html', read_sections(path))}")
    return 0


def _checked(asked: _Audit) -> tuple[Path, Path, tuple[str, ...]]:
    """The run's folder, the one to write, and the attacks; all that is wrong is said at once."""
    wrong, path, attacks = Gathered(), Path(), tuple[str, ...]()
    with wrong.one():
        for name in asked.attacks:
            if name not in ATTACKS:
                raise UnknownName("attack", name, ATTACKS)
        attacks = tuple(name for name in ATTACKS if name in asked.attacks)
    if asked.canaries < 10:
        wrong.add(f"canaries={asked.canaries} must be at least 10: try 200")
    if asked.canaries > 10_000:
        wrong.add(f"canaries={asked.canaries} must be at most 10000: try 200")
    if not 0 <= asked.seed < 2**63:
        wrong.add(f"seed={asked.seed} must lie between 0 and 2^63: try 0")
    try:
        path = given_path(asked.run)
        check_run(path, asked.client)
    except CoterieError as error:
        wrong.found += [BadInput(line) for line in lines_of(error)]
    out = path
    with wrong.one():
        if asked.out:
            out = given_folder(asked.out)
            if is_run(out) and out.resolve() != path.resolve():
                wrong.add(f"out={asked.out} holds another run: choose another --out")
    wrong.refuse()
    return path, out, attacks
