"""coterie withdraw"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from coterie.cli.again import anew
from coterie.cli.command import Flags, command_with
from coterie.core.errors import BadInput, BadRun
from coterie.nets.offers import written
from coterie.report.words import several
from coterie.runs.again import begun, kept_before
from coterie.runs.folder import POSTERIORS, file_name, read_record, refuse_full
from coterie.runs.record import Record, spans
from coterie.runs.settings import digest, from_table
from coterie.runs.touched import Touched, seconds, touched, visits
from coterie.storage.paths import fresh_path, given_folder, given_path

HELP = """Says what a client's withdrawal from a run means: what its replies are in, and what can be done.

What was mixed cannot be taken back. With --retrain, the run is done again without the client.

examples:
  coterie withdraw runs/titanic-age-strict-fedavg-seed0 18-30
  coterie withdraw runs/titanic-age-strict-fedavg-seed0 18-30 --retrain --out runs/without-18-30
"""
FEW = 12  # receivers that are listed


@dataclass(frozen=True)
class Withdraw:
    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN", help="The folder of a run.")]
    client: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CLIENT", help="Who withdraws.")]
    retrain: Annotated[bool, tyro.conf.arg(help="Do the run again without the client.")] = False
    out: Annotated[str, tyro.conf.arg(help="The folder of that run; by default one beside the first.")] = ""


@command_with(Flags(Withdraw, "withdraw", HELP))
def withdraw(asked: Withdraw) -> int:
    path = given_path(asked.run)
    record = read_record(path)
    found = touched(record, asked.client)
    if asked.out and not asked.retrain:
        raise BadInput(f"--out {asked.out} is where a run without {asked.client} goes: add --retrain")
    out = given_folder(asked.out) if asked.out else fresh_path(path.with_name(f"{path.name}-without"))
    if asked.retrain:
        refuse_unfit(record, path)
        refuse_full(out)
    for line in [*told(record, found, asked.client), *ways(record, found, path, asked.client)]:
        print(line)
    return retrained(record, found, path, asked.client, out) if asked.retrain else 0


def told(record: Record, found: Touched, client: str) -> list[str]:
    """What the client's replies have gone into."""
    if found.joined is None:
        return [f"nobody else's model has taken in a reply of {client} in {several(record.done, 'round')}"]
    lines = [f"what was mixed cannot be taken back: replies of {client} are in models of others"]
    some = sorted(found.shares.items(), key=lambda pair: -pair[1])
    for name, share in some[:FEW]:
        rounds = found.rounds[name]
        lines.append(
            f"  {name}: in {several(len(rounds), 'round')} ({spans(rounds)}), shares add up to {share:.3g}"
        )
    if len(some) > FEW:
        lines.append(f"  and {len(some) - FEW} more")
    if found.later:
        names = ", ".join(found.later[:FEW]) + (", ..." if len(found.later) > FEW else "")
        lines.append(f"  and through them, later: {names}")
    return lines


def ways(record: Record, found: Touched, path: Path, client: str) -> list[str]:
    """What can be done."""
    lines = []
    if (path / POSTERIORS / f"{file_name(client)}.safetensors").exists():
        lines.append(
            f"{record.config['method']} joins posteriors: coterie posterior remove POOL {client} divides it "
            "out of a pool, and nothing is trained"
        )
    if found.joined is None:
        return lines
    if record.config.get("net") == "federation":
        others = [name for name in record.clients if name != client]
        return [
            *lines,
            "the rows are at the sites: each deletes the models that the run left there, and whoever leads "
            f"it runs again with --federation.sites {' '.join(others)}",
        ]
    kept, same = kept_before(path, record, found.joined), found.joined - 1
    left = range(kept + 1 if kept else 0, record.done + 1)
    rounds = several(record.done - kept, "round")
    cost = f"{rounds}, {visits(record, left)} visits, {seconds(record, left):.1f} s"
    where = (
        f"goes on after round {kept}" if kept else "starts over, as no earlier state was kept (--history 1)"
    )
    again = f"; rounds up to {same} come out as they were" if same > kept else ""
    return [
        *lines,
        f"it joined in round {found.joined}; a run without it {where}: {cost}, as this run took{again}",
        f"to do so: coterie withdraw {shlex.quote(str(path))} {shlex.quote(client)} --retrain",
    ]


def refuse_unfit(record: Record, path: Path) -> None:
    if "given" in record.config:
        raise BadRun(f"{path} was started from Python: call coterie.train without that client, same seed")
    if record.config.get("net") == "federation":
        raise BadRun(f"{path} is of a federation, whose rows are at the sites: run with --federation.sites")


def retrained(record: Record, found: Touched, path: Path, client: str, out: Path) -> int:
    """The same settings and seed, with the client left out of everything."""
    kept = kept_before(path, record, found.joined or 1)
    settings = from_table(record.config, str(path / "config.toml"))
    settings = dataclasses.replace(settings, wrap=(f"without:names={written([client])}", *settings.wrap))
    told = {"run": str(path), "config": digest(record.config), "without": [client], "after": kept}

    def begin(config: Mapping[str, Any]) -> None:
        if kept:
            begun(out, path, kept, config, record.clients.index(client))

    note = f"the run {path} again, without {client}, who withdrew from it"
    return anew(settings, out, told, [note], begin)
