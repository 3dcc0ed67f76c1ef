"""coterie ledger verify | show"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.cli.command import Flags, command_with, flag, subcommands, word
from coterie.core.errors import BadInput, BadRun, Refused
from coterie.features.ledger import heads
from coterie.features.ledger.entries import numbers_in
from coterie.features.ledger.proof import FEW, Authority, few
from coterie.features.ledger.verify import NOBODY, verify
from coterie.runs.folder import is_run, read_record
from coterie.storage import chain
from coterie.storage.chain import Broken, Entry
from coterie.storage.paths import given_path

COMMANDS = {
    "ledger": ("privacy", 40, "check or show what sites signed of a run: rounds, shares, withdrawals"),
}
HELP = """Shows or checks the ledger of a run: a chain of rounds, shares and withdrawals, which sites sign.

usage: coterie ledger verify RUN [--heads FILE ...] [--authority FILE]
       coterie ledger show RUN

examples:
  coterie ledger verify runs/digits-shift-fedavg-seed0
  coterie ledger verify runs/together --heads north/heads.jsonl south/heads.jsonl --authority north/ca.crt
"""

VERIFY = """Finds the first broken link of a run's ledger, and says what is wrong; exit code 2 if anything is.

Heads that sites have kept tell what nobody else can: that the ledger was cut off or written anew. Nothing in
the run's folder decides which of them count; the authority's certificate is that of a kit that you trust.

example:
  coterie ledger verify runs/together --heads north/heads.jsonl --authority federation/authority/ca.crt
"""

SHOW = """Prints a run's ledger, a line for each entry.

example:
  coterie ledger show runs/digits-shift-fedavg-seed0
"""
AUTHORITY = "The authority's certificate, ca.crt of a kit that you trust; revoked.json beside it counts."
MOST = 8  # lines of what is wrong


@dataclass(frozen=True)
class _Verify:
    run: str = word("The folder of a run.", "RUN")
    heads: tuple[str, ...] = flag((), "Files of heads that sites have kept (heads.jsonl).")
    authority: str = flag("", AUTHORITY)


@dataclass(frozen=True)
class _Show:
    run: str = word("The folder of a run.", "RUN")


def _run_at(text: str) -> Path:
    folder = given_path(text)
    if not is_run(folder):
        raise BadRun(f"{folder} is not a run folder: it has no config.toml and run.json")
    return folder


@command_with(Flags(_Verify, "ledger verify", VERIFY))
def _verify(asked: _Verify) -> int:
    folder = _run_at(asked.run)
    record = read_record(folder)
    kept = dict[str, list[heads.Signed]]()
    for name in asked.heads:
        path = given_path(name, "--heads")
        kept[name] = heads.read(path) if path.is_file() else []
        if not kept[name]:
            lacks = "has no head" if path.is_file() else "is no file"
            raise BadInput(f"--heads {path} {lacks}: give a site's {heads.HEADS}")
    verdict = verify(folder, record, kept, _authority_of(asked.authority))
    for line in verdict.wrong[:MOST]:
        print(_clean(line))
    if len(verdict.wrong) > MOST:
        print(f"and {len(verdict.wrong) - MOST} more of the kind")
    if not verdict.wrong:
        print(_clean(verdict.said))
    return 2 if verdict.wrong else 0


def _authority_of(told: str) -> Authority:
    """Of the certificate that was given, with the list of revoked ones beside it. What a run's settings say
    of a kit is of no use: whoever wrote the run wrote them.
    """
    if not told:
        return Authority()
    path = given_path(told, "--authority")
    if not path.is_file() or b"BEGIN CERTIFICATE" not in path.read_bytes():
        raise BadInput(f"--authority {path} is no certificate: give ca.crt of a kit")
    from coterie.federation.kits.certificates import federation_of
    from coterie.federation.kits.kit import REVOKED, revoked_of

    pem, revoked = path.read_bytes(), path.with_name(REVOKED)
    try:
        federation_of(pem)
        serials = revoked_of(revoked.read_bytes(), pem).serials if revoked.is_file() else frozenset()
        return Authority(pem, serials)
    except Refused as error:
        raise BadInput(f"--authority {path}: {error}") from None


@command_with(Flags(_Show, "ledger show", SHOW))
def _show(asked: _Show) -> None:
    folder = _run_at(asked.run)
    found = chain.read(folder)
    if isinstance(found, Broken):
        raise BadRun(f"entry {found.index} of {folder / chain.FILE}: {found.what}: see coterie ledger verify")
    if not found:
        raise BadRun(f"{folder} has no ledger: it was written by an earlier version, or the file was removed")
    names = [str(name) for name in found[0].content.get("clients", ())]
    for entry in found:
        print(_clean(f"{entry.index:>4}  {entry.hash[:12]}  {_entry_text(entry, names)}"))
    last, signed = found[-1], heads.read(folder / heads.SIGNATURES)
    now = sorted({one.site for one in signed if one.index == last.index})
    said = f"signed, it is said, by {', '.join(now)}: coterie ledger verify holds it against their heads"
    print(_clean(said if now else NOBODY))


ledger = subcommands("ledger", HELP, {"verify": _verify, "show": _show})


def _entry_text(entry: Entry, names: Sequence[str]) -> str:
    """An entry in a line."""
    said = entry.content
    try:
        match said.get("kind"):
            case "begin":
                return _begin(said, names)
            case "round":
                return _round(said, names)
            case "resumed":
                return f"goes on after round {said['after']}"
            case "end" if "diverged" in said:
                return f"ends after {said['rounds']} rounds, without a result: {said['diverged']}"
            case "end":
                return f"ends after {said['rounds']} rounds, {len(said['models'])} file(s) of models"
    except (KeyError, IndexError, TypeError, ValueError):
        return "an entry that lacks something"
    return "nothing that a run has"


def _begin(said: Mapping[str, Any], names: Sequence[str]) -> str:
    told = [f"begins: {said['method']}, {len(names)} clients, Coterie {said['version']}"]
    told += [f"run {said['run']} of federation {said['federation']}"] if "run" in said else []
    again = said.get("again", {})
    told += [f"again without {few(again['without'])}"] if "without" in again else []
    told += [f"again, decided: {few(again['decided'])}"] if "decided" in again else []
    return "; ".join(told)


def _round(said: Mapping[str, Any], names: Sequence[str]) -> str:
    parts = [f"round {said['round']}: {len(numbers_in(said['answered']))} answered"]
    shares = said["shares"]
    if shares is None:
        parts.append("shares by their digest")
    elif len(shares) > FEW:
        parts.append(f"{len(shares)} ways of listening")
    else:
        parts += [_listens(row, names) for row in shares]
    if "published" in said:
        parts.append(f"{said['published']} circles published")
    if isinstance(said.get("withdrawals"), list):
        who = dict.fromkeys(f"{w['site']} from {w['receiver']}" for w in said["withdrawals"])
        parts.append(f"withdrew: {few(list(who))}")
    if isinstance(said.get("kept_out"), list):
        kept = [f"{k['site']} from {k['receiver']}" for k in said["kept_out"]]
        parts.append(f"kept out: {few(kept)}")
    for name in ("left_out", "away"):
        if name in said:
            parts.append(f"{name.replace('_', ' ')}: {few(list(said[name]))}")
    return "; ".join([*parts, *(["contributions"] if "contributions" in said else [])])


def _listens(row: Sequence[Any], names: Sequence[str]) -> str:
    receivers, senders = ([names[i] for i in numbers_in(text)] for text in row[:2])
    shares = row[2] if isinstance(row[2], list) else [row[2]] * len(senders)
    whom = "all" if len(receivers) == len(names) else few(receivers)
    from_whom = [f"{name} {share:.2g}" for name, share in zip(senders, shares, strict=True)]
    return f"{whom} ← {few(from_whom)}"


def _clean(line: str) -> str:
    """What a file says, on a screen: nothing that would move its cursor."""
    return "".join(c if c.isprintable() else "?" for c in line)
