"""coterie posterior add | remove | show | predict"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, subcommands, word
from coterie.core.errors import BadData, BadInput
from coterie.features.posteriors.command_predict import counted, predict
from coterie.posteriors.gaussian import Gaussian, isotropic, mean
from coterie.posteriors.meaning import own_scales, some_names
from coterie.posteriors.online import joint
from coterie.posteriors.pools import (
    SavedPool,
    change,
    join,
    leave,
    read_pool,
    refuse_empty,
    renew,
    with_prior,
)
from coterie.posteriors.slots import size
from coterie.posteriors.store import Saved, read
from coterie.show import numbers as wording

COMMANDS = {"posterior": ("partners", 80, "join posteriors saved apart, let clients come and go, predict")}
HELP = """Joins posteriors that clients saved by themselves; who comes or goes later costs one sum.

usage: coterie posterior add POOL FILE [FILE ...] [--update] [--prior PRECISION]
       coterie posterior remove POOL CLIENT [CLIENT ...]
       coterie posterior show POOL
       coterie posterior predict POOL RUN_OR_FILE [--client NAME] [--samples 30] [--out FILE]

examples:
  coterie posterior add all.safetensors north.safetensors south.safetensors
  coterie posterior predict all.safetensors runs/digits-shift-fl-swag-seed0
"""

ADD = """Multiplies posteriors into a pool, which is made if it is not there.

A run of fl-swag leaves one posterior for each client; naming its folder adds them all.

examples:
  coterie posterior add all.safetensors north.safetensors south.safetensors
  coterie posterior add all.safetensors runs/digits-shift-fl-swag-seed0
  coterie posterior add all.safetensors north-in-may.safetensors --update
"""

REMOVE = """Divides clients' posteriors out of a pool; nobody else is asked, nothing is trained.

example:
  coterie posterior remove all.safetensors north
"""

SHOW = """Shows who is in a pool, and how much narrower the joint posterior is than each one's own.

example:
  coterie posterior show all.safetensors
"""


@dataclass(frozen=True)
class _Add:
    pool: str = word("The file of the pool.", "POOL")
    files: tuple[str, ...] = word("Saved posteriors, or folders of runs that saved some.", "FILE")
    update: bool = flag(False, "Take the new posterior of a client that is in the pool already.")
    prior: float = flag(
        0.0,
        "For a new pool: precision of a Gaussian prior that every client has counted, to count it "
        "once; 0 for none.",
    )


@dataclass(frozen=True)
class _Remove:
    pool: str = word("The file of the pool.", "POOL")
    clients: tuple[str, ...] = word("Who leaves.", "CLIENT")


@dataclass(frozen=True)
class Show:
    pool: str = word("The file of the pool.", "POOL")


@command_with(Flags(_Add, "posterior add", ADD))
def add(asked: _Add) -> None:
    path = Path(asked.pool)
    if not 0 <= asked.prior < math.inf:
        raise BadInput(f"prior={asked.prior} must be at least 0 and finite: try 1, or 0 for none")
    sent = _read_all(asked.files)
    there: set[str] = set()

    def joined(pool: SavedPool) -> SavedPool:
        there.update(pool.members)
        if asked.prior:
            if pool.total is not None:
                raise BadInput(f"prior={asked.prior:g} comes too late for {path}: make a new pool with it")
            pool = with_prior(isotropic(mean(sent[0].posterior), 1 / asked.prior))
        for saved in sent:
            if saved.client in there:
                if not asked.update:
                    raise BadInput(f"client {saved.client!r} is in {path} already: replace it with --update")
                pool = renew(pool, saved)
        return join(pool, *(saved for saved in sent if saved.client not in there))

    after = change(path, joined, new=True)
    for what, some in (("added", False), ("updated", True)):
        if names := [s.client for s in sent if (s.client in there) == some]:
            print(f"{what}: {', '.join(names)}")
    print(f"pool: {path}, {counted(after)}")
    if columns := own_scales(after.members.values()):
        note = (
            "columns that clients scale each by its own numbers, so that weights count per deviation of each"
        )
        screen.err.print(f"[dim]· {escape(f'{note}: {some_names(columns)}')}[/dim]", soft_wrap=True)


def _read_all(places: Sequence[str]) -> list[Saved]:
    """The posteriors in files and in folders of runs; each client once."""
    if not places:
        raise BadInput("no posteriors to add: name at least one file or folder of a run")
    found: dict[str, tuple[Path, Saved]] = {}
    for place in map(Path, places):
        files = [place]
        if place.is_dir():
            files = sorted((place / "posteriors").glob("*.safetensors"))
            if not files:
                raise BadData(f"{place} holds no posteriors: name a finished run of fl-swag, or files")
        for file in files:
            saved = read(file)
            if saved.client in found:
                other, _ = found[saved.client]
                raise BadInput(f"client {saved.client!r} is both in {other} and in {file}: give one of them")
            found[saved.client] = (file, saved)
    return [saved for _, saved in found.values()]


@command_with(Flags(_Remove, "posterior remove", REMOVE))
def remove(asked: _Remove) -> None:
    path, names = Path(asked.pool), list(dict.fromkeys(asked.clients))
    if not names:
        raise BadInput("nobody to remove: name at least one client")

    def left(pool: SavedPool) -> SavedPool:
        refuse_empty(pool, path)
        for name in names:
            pool = leave(pool, name)
        return pool

    after = change(path, left)
    print(f"removed: {', '.join(names)}")
    print(f"pool: {path}, {counted(after)}")


@command_with(Flags(Show, "posterior show", SHOW))
def show(asked: Show) -> None:
    path = Path(asked.pool)
    pool = refuse_empty(read_pool(path), path)
    together = joint(pool.pool)
    model = pool.model  # as far as the file says
    sizes = f"inputs {model.get('shape')}, outputs {model.get('outputs')}"
    network = f" ({model['name']}, {sizes})" if "name" in model else ""
    screen.out.print(
        f"\n[bold]{escape(str(path))}[/bold]: {counted(pool)}, "
        f"{wording.several(size(together.slots), 'parameter')}{escape(network)}",
        soft_wrap=True,
    )
    table = Table("client", box=None, header_style="bold")
    for column in ("rows", "form", "spread", "joint / own"):
        table.add_column(column, justify="left" if column == "form" else "right")
    width = spread(together)
    for name, saved in pool.members.items():
        own = spread(saved.posterior)
        cells = [wording.whole(saved.samples), saved.posterior.form, wording.number(own)]
        table.add_row(escape(name), *cells, wording.number(width / own))
    if pool.prior is not None:
        table.add_row("prior", "", pool.prior.form, wording.number(spread(pool.prior)), "", style="dim")
    table.add_row("joint", "", together.form, wording.number(width), "", style="bold")
    screen.out.print(table)
    screen.out.print("[dim]spread: geometric mean of the standard deviations of all parameters[/dim]")


KINDS = {"add": add, "remove": remove, "show": show, "predict": predict}
posterior = subcommands("posterior", HELP, KINDS)


def spread(posterior: Gaussian) -> float:
    """(Π_j σ_j)^(1/p), σ_j² the j-th entry of Σ's diagonal."""
    return math.exp(float(posterior.precision.root.variances().log().mean()) / 2)
