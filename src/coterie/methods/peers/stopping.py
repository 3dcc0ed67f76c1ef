"""Early stopping for each client by itself (Karlsson, 2021, section 3.4).

    m_t = mean(a_{t-W+1}, ..., a_t)          moving_average
    stop once m has not risen above its maximum for P rounds; w ← w_s with s = argmax a_s

a_t is the client's validation accuracy after its t-th round (minus the loss for a regression), W `window`,
P `patience`. The first rounds average what there is. Rounds in which a client is away do not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

Watch = Mapping[str, Tensor]


def begin(clients: int, window: int) -> Watch:
    """Nothing measured yet.

    recent      [client, window] the latest accuracies, the newest last; NaN where there is none
    high        [client] the highest moving average
    best        [client] the highest accuracy
    waited      [client] rounds since the moving average last rose
    stopped     [client]
    """
    return {
        "recent": torch.full((clients, window), math.nan, dtype=torch.float64),
        "high": torch.full((clients,), -math.inf, dtype=torch.float64),
        "best": torch.full((clients,), -math.inf, dtype=torch.float64),
        "waited": torch.zeros(clients, dtype=torch.int64),
        "stopped": torch.zeros(clients, dtype=torch.bool),
    }


def moving_average(recent: Tensor) -> Tensor:
    """[client] means of what has been measured."""
    return recent.nanmean(dim=1)


def watch(before: Watch, scores: Tensor, patience: int) -> tuple[Watch, Tensor]:
    """After one more round with these scores [client], NaN where none; and whose model is its best so far."""
    measured = ~scores.isnan()
    shifted = torch.cat([before["recent"][:, 1:], scores.unsqueeze(1)], dim=1)
    recent = torch.where(measured.unsqueeze(1), shifted, before["recent"])
    mean = moving_average(recent)
    rose, better = measured & (mean > before["high"]), measured & (scores > before["best"])
    waited = torch.where(rose, 0, before["waited"] + measured.long())
    after = {
        "recent": recent,
        "high": torch.where(rose, mean, before["high"]),
        "best": torch.where(better, scores, before["best"]),
        "waited": waited,
        "stopped": before["stopped"] | (waited >= patience),
    }
    return after, better
