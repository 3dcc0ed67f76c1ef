"""A transform of one's own: what training batches go through at each step, and no other rows.

    transform(x [n, ...]) -> [n, ...]       in operations of torch, each row by itself

It is drawn anew for each batch, so each epoch sees other numbers. What it draws comes from the run's seed
(`core/draws.py`). Rows must not touch each other: short batches are filled up with rows that count nothing,
and a row that is hidden by noise must not be in another's gradient.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.devices import seeded
from coterie.core.draws import SeededDraws
from coterie.core.errors import BadInput

Transform = Callable[[Tensor], Tensor]
ROWS = 4  # that it is tried on


def _changed(transform: Transform, x: Tensor, seed: int) -> Any:
    """What it makes of rows, from one seed; they themselves stay as they are."""
    with torch.no_grad(), seeded(seed, x.device), SeededDraws(torch.tensor(seed, device=x.device)):
        return transform(x.clone())


def check_transform(transform: Transform, x: Tensor, called: str) -> None:
    """Refuses what training would stumble over, or be wrong with."""
    few = x[torch.arange(ROWS, device=x.device) % len(x)]
    whose = f"transform {called!r}"
    kept = random.getstate(), np.random.get_state()
    try:
        made = _changed(transform, few, 1)
        if not isinstance(made, Tensor) or made.shape != few.shape or made.dtype != few.dtype:
            found = f"{list(made.shape)} of {made.dtype}" if isinstance(made, Tensor) else type(made).__name__
            raise BadInput(
                f"{whose} gave {found} for x {list(few.shape)} of {few.dtype}: it must give as many rows of "
                "the same shape and kind"
            )
        if not bool(torch.isfinite(made).all()):
            raise BadInput(f"{whose} made numbers of rows that are not finite: keep them finite")
        if not torch.equal(made, _changed(transform, few, 1)):
            raise BadInput(
                f"{whose} gives other numbers when it is repeated from one seed, so no run could be: draw "
                "with torch.rand, torch.randn and their kin alone"
            )
        by_row = getattr(transform, "after", transform)  # what reads a dataset anew knows its own rows alone
        if by_row is None:
            return
        other, made = few.clone(), _changed(by_row, few, 1)
        other[0] = few[0] + torch.linspace(0.5, 1.5, few[0].numel(), device=x.device).view_as(few[0]).to(few)
        if not torch.equal(_changed(by_row, other, 1)[1:], made[1:]):
            raise BadInput(
                f"{whose} gives a row other numbers when another row changes: work on each row by itself"
            )
    except BadInput:
        raise
    except Exception as error:  # whatever a function of one's own may raise
        said = (str(error).splitlines() or [""])[0][:120]
        raise BadInput(
            f"{whose} failed on x {list(few.shape)} ({type(error).__name__}: {said}): it must give x as "
            f"changed, {list(few.shape)}"
        ) from None
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
