"""CPU seconds and bytes of a run, what they may come to, and what a tracker said of it."""

from __future__ import annotations

from coterie.features.energy.energy import energy_of
from coterie.features.energy.option import FILE, read_tracked
from coterie.runs.record import Kept

KEPT = {"tracked": Kept(FILE, read_tracked)}
VIEWS = {"energy": energy_of}
