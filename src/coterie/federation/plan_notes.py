"""Plans of runs that came to a site, as it wrote them down (`site_plans.py`), for whoever reads there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.storage.atomic import read_lines

PLANS = "plans.jsonl"


def known_plans(state: Path) -> list[dict[str, Any]]:
    """One line for each, the last one that came first."""
    return [dict(line) for line in reversed(read_lines(state / PLANS)) if isinstance(line.get("plan"), str)]
