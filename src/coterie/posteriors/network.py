"""The network that a pool's posteriors are of, built anew from its name, options, input shape and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.learner import Learner
from coterie.core.options import coerced
from coterie.models import MODELS
from coterie.posteriors.gaussian import mean
from coterie.posteriors.online import joint
from coterie.posteriors.pools import REMEDY, SavedPool
from coterie.posteriors.store import intact

ROWS = 512  # samples of one forward pass


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier for inputs of this shape; `buffers` are its tensors outside the posterior."""

    learner: Learner
    shape: tuple[int, ...]
    classes: int
    dtype: torch.dtype
    buffers: Belief

    def outputs(self, belief: Belief, x: Tensor) -> Tensor:
        """Logits [n, class] of a draw, for `ensemble.predict`."""
        whole = {**self.buffers, **belief}
        return torch.cat([self.learner.outputs(whole, part.to(self.dtype)) for part in torch.split(x, ROWS)])


def network_of(pool: SavedPool, path: Path) -> Network:
    """The network of the pool at `path`; refused if that pool does not know it, or if it is no classifier."""
    posterior, model = joint(pool.pool), pool.model
    if "name" not in model:
        raise BadInput(
            f"{path} does not say how to build its network: predict from Python with "
            "coterie.posteriors.ensemble.predict"
        )
    with intact(path, "pool", REMEDY):
        name, options = str(model["name"]), dict(model.get("options", {}))
        shape, outputs = tuple(int(n) for n in model["shape"]), int(model["outputs"])
    if outputs < 2:
        raise BadInput(
            f"the network of {path} has {outputs} output: predictions need a classifier of at least 2 classes"
        )
    kind = MODELS[name]
    module = kind(**coerced(kind, options, f"model {name}")).build(shape, outputs, seed=0)
    buffers = pool.buffers
    tree.load(module, {**buffers, **mean(posterior)})  # refuses tensors that are not this network's
    return Network(Learner(module, "classification"), shape, outputs, posterior.slots[0].dtype, buffers)
