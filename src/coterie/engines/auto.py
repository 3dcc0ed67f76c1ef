"""The engine that fits: lockstep for many small dense models, threads for the rest.

The rule, measured on two cores with batches of 32 (2, and the bounds below: MLPs of 8,000 to 800,000 weights,
2 to 60 clients, where the wrong choice costs up to five times and the bounds lie where both are alike):

1. a model that cannot go in lockstep (batch norm, random layers)  -> pool
2. convolutions                                                     -> pool
3. a single edge of more than `TINY` parameters                     -> pool, which runs it with all threads
4. else, up to `SMALL` parameters                                   -> stacked
5. up to `LARGE` parameters, and up to `CACHED` in all edges        -> stacked
6. else, one model fills a core and all of them fall out of caches  -> pool
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.kernel import Trainer
from coterie.engines.base import ENGINES, Answers, Engine, Ground, Visit
from coterie.engines.pool import Pool
from coterie.engines.stacked import Stacked

TINY, SMALL, LARGE, CACHED = 20_000, 160_000, 500_000, 2_200_000
log = logging.getLogger("coterie")


@ENGINES.register("auto")
@dataclass(frozen=True)
class Auto(Engine):
    """Picks stacked or pool by model and edges; -v tells which."""

    workers: int = 0
    """How many threads; 0 takes one for each core."""

    def __post_init__(self) -> None:
        Pool(self.workers)

    def train(self, net: Ground, kernel: Trainer, visit: Visit) -> Answers:
        name, why = choose(net, visit.beliefs, len(visit.edges))
        if visit.keys[0].round <= 1:
            log.info("engine %s for %d edge(s): %s", name, len(visit.edges), why)
        engine = Stacked() if name == "stacked" else Pool(self.workers)
        return engine.train(net, kernel, visit)


def choose(net: Ground, beliefs: Beliefs, edges: int) -> tuple[str, str]:
    """The engine's name, and why."""
    traits = net.traits(beliefs)
    if traits.lockless:
        return "pool", f"the model has {traits.lockless}"
    if traits.convolves:
        return "pool", "convolutions gain little from lockstep"
    size = sum(t.numel() for t in tree.row(beliefs, 0).values())
    if edges == 1 and size > TINY:
        return "pool", "there is a single edge, so nothing to batch"
    if size <= SMALL or (size <= LARGE and size * edges <= CACHED):
        return "stacked", f"{size} parameters, {edges} edges"
    return "pool", f"{size} parameters, {edges} edges: one model fills a core"
