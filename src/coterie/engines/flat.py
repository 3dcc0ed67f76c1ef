"""All trained parameters as one vector, so that an optimiser's step is a few operations instead of a few for
each layer.

A kernel's `update` treats every number of a tensor alike, so it gives the same numbers for one long vector as
for its pieces. Whatever has a tensor for each trained parameter (the belief itself, a momentum) becomes one
vector named `ALL`; everything else stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from coterie.core.belief import Belief

ALL = "*"


class Layout:
    """Where each trained parameter lies in the vector."""

    def __init__(self, names: Sequence[str], belief: Mapping[str, Tensor]) -> None:
        self.names = tuple(names)
        self.shapes = [belief[n].shape for n in names]
        self.sizes = [shape.numel() for shape in self.shapes]

    def pack(self, tree: Belief, bare: bool = True) -> Belief:
        """Tensors named prefix + name, one for each name, as one vector prefix + ALL.

        A memory has no parameters without a prefix: there, a counter may have the name of one.
        """
        packed, left = {}, dict(tree)
        for entry in tree:
            prefix = entry.removesuffix(self.names[0])
            mine = [prefix + n for n in self.names]
            kind = prefix.endswith("/") if prefix else bare
            if kind and entry == mine[0] and all(m in left for m in mine):
                packed[prefix + ALL] = torch.cat([left.pop(m).reshape(-1) for m in mine])
        return {**packed, **left}

    def unpack(self, tree: Belief) -> Belief:
        """The inverse of `pack`; the pieces are views."""
        whole: dict[str, Tensor] = {}
        for entry, tensor in tree.items():
            if entry == ALL or entry.endswith(f"/{ALL}"):
                prefix = entry.removesuffix(ALL)
                whole |= {prefix + n: t for n, t in zip(self.names, self.pieces(tensor), strict=True)}
            else:
                whole[entry] = tensor
        return whole

    def pieces(self, vector: Tensor) -> list[Tensor]:
        """The parameters in a vector, as views."""
        return [t.view(s) for t, s in zip(torch.split(vector, self.sizes), self.shapes, strict=True)]
