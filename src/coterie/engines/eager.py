"""A learner that runs its module as any PyTorch program does: for one thread, and for large layers.

Beliefs are swapped into a module of its own, and gradients come from autograd without functional
transforms; all trained parameters are one vector. The same numbers as `Learner` up to the order of sums, with
less work around each operation.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn

from coterie.core.belief import Belief, belief_of
from coterie.core.errors import BadInput
from coterie.core.learner import Batch, Gradient, Learner, curved, dropout_of

ALL = "*"


class EagerLearner(Learner):
    """A `Learner` for one thread at a time, of beliefs that its `layout` has packed."""

    def __init__(self, learner: Learner) -> None:
        self.task, self.rule, self.scoring = learner.task, learner.rule, learner.scoring
        self.transform, self.watch, self.scale = learner.transform, learner.watch, learner.scale
        self.training = copy.deepcopy(learner.training)
        self.buffers, self.drops = learner.buffers, learner.drops
        self.layout = _Layout(learner.trainable, belief_of(learner.training))
        self.trainable = (ALL,)
        params = dict(self.training.named_parameters())
        self._moving = [params[n] for n in learner.trainable]
        self._still = {n: p for n, p in params.items() if n not in learner.trainable}
        self._homes = []  # the submodule that holds a buffer, and its name there
        for name in self.buffers:
            path, _, leaf = name.rpartition(".")
            self._homes.append((self.training.get_submodule(path), leaf, name))
        self._named = copy.copy(learner)
        self._named.training = self.training
        self._pictures = any(isinstance(m, nn.Conv2d) for m in self.training.modules())

    def only(self, names: Collection[str]) -> Learner:
        """Itself: the engine made it for the names that its kernel trains."""
        if not set(self.layout.names) <= set(names):
            raise BadInput("this learner trains other parameters than the kernel does: make one for it")
        return self

    def gradient(self, belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
        self.watch.check()
        buffers = self._placed(belief)
        with torch.enable_grad(), dropout_of(self, seed):
            loss = self._loss(batch)
            grads = torch.autograd.grad(loss, self._moving, allow_unused=True, materialize_grads=True)
        return Gradient(loss.detach(), {ALL: torch.cat([g.reshape(-1) for g in grads])}, buffers)

    def hessian_vector_product(
        self, belief: Belief, batch: Batch, seed: Tensor, along: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        self._placed(belief)
        with torch.enable_grad(), dropout_of(self, seed):
            found = curved(self._loss(batch), self._moving, self.layout.pieces(along[ALL]))
        return {ALL: torch.cat([h.reshape(-1) for h in found])}

    def _placed(self, belief: Belief) -> dict[str, Tensor]:
        """The belief's tensors in the module; its buffers, which a forward pass writes."""
        for param, values in zip(self._moving, self.layout.pieces(belief[ALL]), strict=True):
            param.data = values
        for name, param in self._still.items():
            param.data = belief[name]
        # batch norm writes its statistics in place: give it copies
        buffers = {name: belief[name].clone() for name in self.buffers}
        for owner, leaf, name in self._homes:
            owner._buffers[leaf] = buffers[name]
        return buffers

    def _loss(self, batch: Batch) -> Tensor:
        x = channels_last(batch.x) if self._pictures else batch.x
        try:
            out = self.training(x)
        except ValueError as error:
            raise BadInput(self.explained(error)) from None
        losses = self.losses_of_step(out, batch.y, batch.weight)
        return (losses * batch.weight).sum() / batch.weight.sum().clamp(min=1)

    def clipped(self, belief: Belief, batch: Batch, seed: Tensor, clip: float) -> dict[str, Tensor]:
        x = channels_last(batch.x) if self._pictures else batch.x
        found = self._named.clipped(self.layout.unpack(belief), batch._replace(x=x), seed, clip)
        return {ALL: torch.cat([t.reshape(-1) for t in found.values()])}


def channels_last(x: Tensor) -> Tensor:
    """The same pictures [n, channel, height, width], each pixel's channels side by side, as convolutions and
    pooling on a processor like them best.

    With one channel both orders are the same bytes, and only the strides tell torch which one is meant.
    """
    if x.ndim != 4:
        return x
    if x.shape[1] == 1 and x.is_contiguous():
        height, width = x.shape[2:]
        return x.as_strided(x.shape, (height * width, 1, width, 1))
    return x.contiguous(memory_format=torch.channels_last)


class _Layout:
    """All trained parameters as one vector, so that an optimiser's step is a few operations instead of a few
    for each layer; and where each lies in it.

    A kernel's `update` treats every number of a tensor alike, so it gives the same numbers for one long
    vector as for its pieces. Whatever has a tensor for each trained parameter (the belief itself, a momentum)
    becomes one vector named `ALL`; everything else stays as it is.
    """

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
