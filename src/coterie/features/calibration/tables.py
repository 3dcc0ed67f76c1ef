"""How sure models were and how often right, in a file of its own."""

from __future__ import annotations

from coterie.report.tables import calibration_frame

COLUMNS: dict[str, object] = {}
FRAMES = {"calibration.csv": calibration_frame}
