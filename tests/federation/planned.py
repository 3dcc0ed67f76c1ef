"""Plans for messages that tests make themselves: of a lead with a kit of its own, for what fedavg does."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.core.kernel import kernel_to_dict
from coterie.federation.kits.authority import found_federation
from coterie.federation.kits.kit import Kit
from coterie.federation.plans.plan import (
    BEGIN,
    Plan,
    PlannedVisit,
    fixed_options,
    signed_plan,
    with_all_options,
)
from coterie.kernels import SGD, Calibrate
from coterie.storage.chain import finite

WORK = (SGD(), Calibrate(), Calibrate("train"))


def lead_of(sites: Sequence[str]) -> Kit:
    """A lead's kit, of a federation of these."""
    kits = found_federation(Path(tempfile.mkdtemp()) / "kits", sites)
    return next(kit for kit in kits if kit.role == "lead")


def plan_for(begin: Mapping[str, Any], **other: Any) -> Plan:
    """Of a run that begins so and does as fedavg does."""
    visits = tuple(
        PlannedVisit(fixed_options(with_all_options(kernel_to_dict(kernel))), 1, 1, 1) for kernel in WORK
    )
    has = {
        "method": "fedavg", "options": {}, "wraps": (), "parameters": 8, "rounds": 3, "visits": visits,
        "sites": len(begin["sites"]), "orders": ("give mix",), "reveals": {"numbers": ["loss", "samples"]},
        "sealed": False, "bytes": 4096, "seconds": 600.0, "begin": {name: begin[name] for name in BEGIN},
    }  # fmt: skip
    return Plan(**finite_but_tuples({**has, **other}))


def finite_but_tuples(has: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, tuple) else finite(value) for name, value in has.items()}


def planned_begin(kit: Kit, begin: Mapping[str, Any], **other: Any) -> dict[str, Any]:
    """A message `begin` with a plan that fits it, signed by this kit."""
    return {**begin, "plan": signed_plan(kit, str(begin["run"]), plan_for(begin, **other))}
