"""Why a party cannot connect, found by trying: a line for each thing that is wrong."""

from __future__ import annotations

import threading

from coterie.core.errors import Refused
from coterie.federation.flare import new_line
from coterie.federation.party import Kit

CLOCKS = 60.0  # seconds by which two clocks may differ
WAIT = 20.0


def reasons(kit: Kit) -> list[str]:
    """What keeps this kit from connecting, or that all is well; it connects for a moment to find out.

    The first that fails of: its certificate, the name's address, the port, TLS, what the coordinator says.
    """
    try:
        _ = kit.card
    except Refused as error:
        return [str(error)]
    why, gap = _greeted(kit)
    if why:
        return [why, *_clocks(gap)]
    return _clocks(gap) or [f"all is well: {kit.host}:{kit.port} lets {kit.name} in"]


def _greeted(kit: Kit) -> tuple[str, float]:
    """Why the coordinator does not let this kit in ("" if it does), and how far its clock is ahead."""
    told = threading.Event()
    said: list[str] = []

    def changed(connected: bool, why: str) -> None:
        if not told.is_set():
            said.append(why)
            told.set()

    line = new_line(kit, lambda header, body: None, changed)
    try:
        line.start()
        told.wait(WAIT)
    finally:
        line.close()
    return (said[0] if said else f"the coordinator does not greet within {WAIT:g} s: try again"), line.gap


def _clocks(gap: float) -> list[str]:
    if abs(gap) <= CLOCKS:
        return []
    ahead = "ahead of" if gap > 0 else "behind"
    return [f"the coordinator's clock is {abs(gap):.0f} s {ahead} this machine's: set whichever is wrong"]
