"""Where the runs of a reproduction lie: OUT/<preset>/<scale>/<cell>/seed-<seed>, and which are begun."""

from __future__ import annotations

from pathlib import Path

from coterie.api.folders import is_run
from coterie.papers.base import Preset, Scale


def place(out: Path, preset: Preset, scale: Scale, cell: str, seed: int) -> Path:
    return out / preset / scale / cell / f"seed-{seed}"


def begun(out: Path, preset: Preset, scale: Scale, cell: str) -> dict[int, Path]:
    """The runs of a cell that have a folder, by seed."""
    found = place(out, preset, scale, cell, 0).parent.glob("seed-[0-9]*")
    by_seed = {int(path.name.removeprefix("seed-")): path for path in found if is_run(path)}
    return dict(sorted(by_seed.items()))
