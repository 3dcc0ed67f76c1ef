"""What a run is going to ask of a site, and lines that refuse it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from coterie.core.errors import shown
from coterie.core.facts import kernel_fact
from coterie.core.kernel import KERNELS

_LISTED = 8  # names that a refusal lists


@dataclass(frozen=True)
class Work:
    """What a run is going to ask of a site, as it is told before it begins."""

    model: str = ""
    parameters: int = 0
    kernels: tuple[str, ...] = ()
    rounds: int = 0
    sites: int = 0
    deal: int | None = None  # the seed by which rows are held out
    coordinator: bool = False  # this and the next three as in `Reveals`
    opened: bool = False
    peers: bool = False
    rows: bool = False
    distances: bool = False  # whether distances between models are told
    sums: bool = False  # whether sums of columns are needed
    bounded: bool = False  # whether local work has noise, and a bound on what it tells of a row
    clear_scores: bool = True  # whether scores of models are told without noise
    sealed: bool = False  # whether replies are sealed: they reach whoever leads the run in sums alone


def not_listed(kind: str, name: str, known: Collection[str] | None) -> str:
    if known is None or name in known:
        return ""
    some = ", ".join(sorted(known)[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
    return f"{kind} {shown(name)} is not in the policy's list ({some or 'empty'}): add it to {kind}s"


def above(asked: int, what: str, most: int, key: str) -> str:
    line = f"{shown(asked)} {what}, above the policy's {most}: ask for fewer, or raise {key}"
    return line if asked > most else ""


def tells_sums(names: Iterable[str]) -> bool:
    """Whether one of these kernels replies with sums of columns. Sealed, nobody sees those of a site."""
    return any(kernel_fact(KERNELS[name], "sums") is True for name in names if name in KERNELS)
