"""Folders that models are in: of a run, or exported, and whose model is meant."""

from __future__ import annotations

from pathlib import Path

from coterie.core.errors import BadInput, BadRun, option
from coterie.runs.compare import is_comparison
from coterie.runs.folder import is_run, read_record
from coterie.runs.record import Record

BUNDLE = "bundle.json"


def is_exported(path: Path) -> bool:
    return (path / BUNDLE).is_file()


def record_in(path: Path) -> Record:
    """Of a run whose models are in use where its folder is."""
    refuse_no_run(path)
    record = read_record(path)
    if record.settings.connector.meets:
        raise BadRun(
            f"{path} is a run of a federation, whose sites make inputs of their rows: use the model at a "
            "site, in KIT/state/models"
        )
    return record


def refuse_no_run(path: Path) -> None:
    if is_comparison(path):
        below = sorted(str(p.parent) for p in path.glob("*/*/models.safetensors"))
        named = f"name one of its runs: {', '.join(below[:5])}" if below else "none of its runs is over yet"
        raise BadInput(f"{path} is a comparison of several runs: {named}{', ...' if len(below) > 5 else ''}")
    if not is_run(path):
        raise BadRun(f"{path} is no run and no exported model: check the path")


def one_of(client: str, having: list[str], known: list[str], where: str) -> str:
    """The client that is meant, if it has a model."""
    listed = ", ".join(having[:20]) + (f" and {len(having) - 20} more" if len(having) > 20 else "")
    if not client and len(having) == 1:
        return having[0]
    if not client:
        raise BadInput(
            f"{where} has models of {len(having)} clients ({listed}): say whose, such as "
            f"{option('client', having[0])}"
        )
    if client not in having:
        why = "has no model of its own in" if client in known else "is not in"
        raise BadInput(f"client {client!r} {why} {where}: take one of {listed}")
    return client
