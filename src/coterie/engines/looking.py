"""Looks at rows: what a host measures of its own training data, whoever asks, and without any model."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.kernel import Look
from coterie.engines.base import Ground
from coterie.engines.threads import one_thread_each


def look_at(net: Ground, kernel: Look, hosts: Tensor) -> dict[str, Tensor]:
    """Figures [edge, number] of each of these hosts' rows."""
    found: dict[int, dict[str, Tensor]] = {}
    with one_thread_each():  # so that sums round alike wherever they are made
        for host in torch.unique(hosts).tolist():
            rows = getattr(net.clients[host], kernel.part)
            if not len(rows):
                raise BadInput(f"client {net.clients[host].name!r} has no {kernel.part} rows to look at")
            try:
                found[host] = kernel.look(net.learner.task, rows.x.cpu(), rows.y.cpu())
            except BadInput as error:
                raise BadInput(f"client {net.clients[host].name!r}: {error}") from None
        names = next(iter(found.values()))
        return {name: torch.stack([found[h][name] for h in hosts.tolist()]) for name in names}
