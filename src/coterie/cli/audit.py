"""coterie audit"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from coterie.audit.subject import check_canaries, check_run, read_subject
from coterie.audit.whole import ATTACKS, FILE, PAGE, audited, check_attacks, write
from coterie.cli import screen
from coterie.cli.command import Flags, command_with
from coterie.cli.report import read_sections
from coterie.core.errors import BadInput, CoterieError, Gathered, lines_of
from coterie.engines.threads import narrow
from coterie.report.audit import render_audit
from coterie.report.audit_words import sentences
from coterie.report.page import write_report
from coterie.runs.folder import is_run
from coterie.storage.paths import given_folder, given_path

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


@dataclass(frozen=True)
class Audit:
    run: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="RUN", help="The folder of a finished run, or one of a comparison's."),
    ]
    attacks: Annotated[
        tuple[str, ...], tyro.conf.arg(help=f"Which: {', '.join(ATTACKS)}; by default all that apply.")
    ] = tuple(ATTACKS)
    client: Annotated[
        str,
        tyro.conf.arg(
            help="Look at this client alone; by default at all, and for single rows and canaries at the one "
            "with the fewest training rows."
        ),
    ] = ""
    canaries: Annotated[int, tyro.conf.arg(help="How many planted rows: more give sharper bounds.")] = 200
    seed: Annotated[int, tyro.conf.arg(help="Where the audit's own random numbers come from.")] = 0
    out: Annotated[str, tyro.conf.arg(help="A folder to write into; by default that of the run.")] = ""


@command_with(Flags(Audit, "audit", HELP))
@narrow()
def audit(asked: Audit) -> int:
    path, out, attacks = checked(asked)
    subject = read_subject(path, asked.client, asked.seed, asked.canaries)
    table, files = audited(
        subject, attacks, lambda name: screen.err.print(f"[dim]· {name}[/dim]", soft_wrap=True)
    )
    write(out, table, files, render_audit(table, files))
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


def checked(asked: Audit) -> tuple[Path, Path, tuple[str, ...]]:
    """The run's folder, the one to write, and the attacks; all that is wrong is said at once."""
    wrong, path, attacks = Gathered(), Path(), tuple[str, ...]()
    with wrong.one():
        attacks = check_attacks(asked.attacks)
    with wrong.one():
        check_canaries(asked.canaries)
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
