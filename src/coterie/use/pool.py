"""Predictions with a pool of posteriors: rows prepared as by one of its clients, models drawn from all.

    p(y|x) ≈ 1/S Σ_s p(y|x, θ_s),  θ_s ~ N(μ, T Σ)        S: samples, T: temperature; S = 0 takes μ alone

Where clients prepare rows each in its own way, whose way is meant must be said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.errors import BadInput, option
from coterie.core.seeds import Key
from coterie.data.intake import Array
from coterie.posteriors.gaussian import mean, sample
from coterie.posteriors.meaning import common_preparation, some_names
from coterie.posteriors.online import joint
from coterie.posteriors.pools import SavedPool, network_of, read_pool, refuse_empty
from coterie.posteriors.store import Saved
from coterie.use.forward import finite_rows, outputs_of, probabilities_of
from coterie.use.intake import Intake
from coterie.use.predictor import Predictor


@dataclass(frozen=True, eq=False)
class _Pooled(Predictor):
    """The network, drawn models [draw] with what is outside the posterior, and what to call after each."""

    draws: tuple[Belief, ...] = ()
    tick: Callable[[], None] = lambda: None

    @cached_property
    def intake(self) -> Intake:
        return replace(super().intake, in_python="coterie.use.pool.pooled(POOL)")

    @property
    def speaker(self) -> str:
        return "a drawn model"

    def answers(self, inputs: Array) -> Array:
        x = torch.from_numpy(np.ascontiguousarray(inputs))
        total = torch.zeros(len(x), len(self.classes), dtype=torch.float64)
        for draw in self.draws:
            out = outputs_of(tree.load(self.model, draw), x)
            p = probabilities_of(out).reshape(total.shape)
            total = total + p.where(finite_rows(out)[:, None], torch.nan)
            self.tick()
        return np.asarray((total / len(self.draws)).numpy())


def pooled(
    pool: SavedPool | Path | str,
    client: str = "",
    *,
    samples: int = 30,
    seed: int = 0,
    temperature: float = 1.0,
    threshold: float = 0.0,
    tick: Callable[[], None] = lambda: None,
    called: str = "the pool",
) -> _Pooled:
    """The predictor of a pool, or of the file it is in, for rows prepared as by `client`."""
    where = called if isinstance(pool, SavedPool) else str(pool)
    if not isinstance(pool, SavedPool):
        pool = refuse_empty(read_pool(Path(pool)), Path(pool))
    network, posterior = network_of(pool, Path(where)), joint(pool.pool) * (1 / temperature)
    drawn = [mean(posterior)]
    if samples:
        together = sample(posterior, samples, Key(seed).at("predict"))
        drawn = [tree.row(together, s) for s in range(samples)]
    whose = _whose_way(pool, client, where)
    return _Pooled(
        client=whose.client,
        task="classification",
        classes=classes_of(whose, network.classes),
        model=network.learner.scoring.to(network.dtype),
        shape=network.shape,
        features=whose.features,
        preparation=whose.preparation,
        recipe=whose.recipe,
        threshold=threshold,
        draws=tuple({**network.buffers, **belief} for belief in drawn),
        tick=tick,
    )


def _whose_way(pool: SavedPool, client: str, where: str) -> Saved:
    """The member that rows are read and prepared as by."""
    members = list(pool.members.values())
    if client and client not in pool.members:
        raise BadInput(
            f"client {client!r} is not in {where}: take one of {some_names(list(pool.members), 20)}"
        )
    if client:
        return pool.members[client]
    if not common_preparation(members):
        raise BadInput(
            f"the clients of {where} ({some_names(list(pool.members), 20)}) read or scale rows each in its "
            f"own way: say in whose, such as {option('client', members[0].client)}"
        )
    return members[0]


def classes_of(saved: Saved, outputs: int) -> tuple[str, ...]:
    """Names of all outputs; numbers where they have none."""
    return (*saved.classes, *map(str, range(len(saved.classes), outputs)))
