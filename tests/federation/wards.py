"""Tables and kits for tests of a whole federation: four small sites, a recipe for all, a lead and a viewer."""

from __future__ import annotations

import csv
import random
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from coterie.federation.kits import found

COTERIE = [sys.executable, "-m", "coterie"]
SITES = ("east", "north", "south", "west")
COLUMNS = ("age", "dose", "weight")
RECIPE = """
target = "ill"
missing = "median"
scale = "shared"
absent = "flag"

[sites]
{sites}

[columns.age]
use = "number"
[columns.dose]
use = "number"
[columns.weight]
use = "number"
[columns.ill]
use = "flag"
values = ["no", "yes"]
"""


def write_tables(folder: Path, sites: Sequence[str] = SITES, rows: int = 36) -> Path:
    """Ragged tables that differ a little, one a site, with some cells missing; the recipe's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, site in enumerate(sites):
        draws = random.Random(i)
        with (folder / f"{site}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*COLUMNS, "ill"])
            for row in range(rows + 5 * i):
                values = [draws.gauss(i / 4, 1 + i / 8) for _ in COLUMNS]
                ill = values[0] - values[1] * (-1) ** i + draws.gauss(0, 0.5) > i / 4
                cells = ["" if draws.random() < 0.04 else f"{v:.3f}" for v in values]
                writer.writerow([*cells, ("yes" if row % 2 else "no") if row < 8 else "yes" if ill else "no"])
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(sites="\n".join(f'{site} = "{site}.csv"' for site in sites)))
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def write_kits(folder: Path, sites: Sequence[str] = SITES) -> int:
    """Kits below this folder, for sites, the people lead, mate and anna (who may only look); their port."""
    port = free_port()
    found(folder, list(sites), ["lead", "mate", "anna:viewer"], port=port)
    return port
