"""The sum of a batch's gradients in which each row counts for no more than a bound.

    Σ_i w_i min(1, C / ‖g_i‖) g_i,    g_i = ∇ ℓ(θ; x_i, y_i)

C is `clip`, w_i the batch's weight, and the norm is that over all trained parameters. A row whose gradient is
not finite counts for nothing.

Where a model's trained parameters are those of linear layers and convolutions (`_Taps`), one pass forward
and one back give all norms and then the sum, and no linear layer's gradient of a row is ever written down
(Goodfellow, 2015, "Efficient per-example gradient computations"). Any other model goes row by row, each a
batch of its own. Which it is, is tried once for a model: on a few rows both have to give the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from coterie.core.belief import Belief
from coterie.core.learner import Batch, Learner, _Gradient, dropout_of

FEW = 3  # rows on which a model is tried
CLOSE = 1e-3  # of a gradient's length, far above rounding and far below any other gradient
ROOM = 2**26  # numbers of rows' gradients at once, where they have to be written down
APART = 0x9E3779B97F4A7C15 - 2**64  # between the seeds of two rows

_known: weakref.WeakKeyDictionary[nn.Module, dict[Any, list[_Use] | None]] = weakref.WeakKeyDictionary()


def clipped_sum(
    learner: Learner, belief: Belief, batch: Batch, seed: Tensor, clip: float
) -> dict[str, Tensor]:
    """By the name of each trained parameter. No rows give 0."""
    moving = [belief[n] for n in learner.trainable]
    if not len(batch.x):
        return dict(zip(learner.trainable, map(torch.zeros_like, moving), strict=True))
    still = {n: t for n, t in belief.items() if n not in learner.trainable}
    tensors = (seed, *batch, *still.values(), *moving)
    found = _Clipped.apply(learner, tuple(still), clip, *tensors)  # type: ignore[no-untyped-call]
    return dict(zip(learner.trainable, found, strict=True))


class _Clipped(torch.autograd.Function):
    """The sums of one edge; under vmap those of all edges at once."""

    @staticmethod
    def forward(
        learner: Learner, names: Sequence[str], clip: float, seed: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        found = _sums(learner, names, clip, seed.unsqueeze(0), [t.unsqueeze(0) for t in tensors], _alone)
        return tuple(t.squeeze(0) for t in found)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any,
        in_dims: Sequence[int | None],
        learner: Learner,
        names: Sequence[str],
        clip: float,
        *tensors: Tensor,
    ) -> tuple[tuple[Tensor, ...], int]:
        n: int = info.batch_size
        seed, *each = (
            t.expand(n, *t.shape) if at is None else t.movedim(at, 0) if at else t
            for t, at in zip(tensors, in_dims[3:], strict=True)
        )
        return tuple(_sums(learner, names, clip, seed, each, vmap)), 0


def _alone(function: Any) -> Any:
    """A function of one edge, for tensors [1, ...]."""

    def stacked(*tensors: Any) -> Any:
        found = function(*torch.utils._pytree.tree_map(lambda t: t.squeeze(0), tensors))
        return torch.utils._pytree.tree_map(lambda t: t.unsqueeze(0), found)

    return stacked


def _sums(
    learner: Learner, names: Sequence[str], clip: float, seed: Tensor, tensors: Sequence[Tensor], over: Any
) -> list[Tensor]:
    """[edge, ...] for each trained parameter."""
    split = 3 + len(names)
    batch, still, moving = Batch(*tensors[:3]), list(tensors[3:split]), list(tensors[split:])
    known, key = _known.setdefault(learner.training, {}), (learner.trainable, batch.x.shape[2:])
    if key not in known:
        known[key] = _tried(learner, names, seed[0], [t[0] for t in (*batch, *still, *moving)])
    uses = known[key]
    if uses is None:
        return _row_by_row(learner, names, clip, seed, batch, still, moving)
    return _tapped(learner, uses, names, clip, seed, batch, still, moving, over)


def _tapped(
    learner: Learner,
    uses: Sequence[_Use],
    names: Sequence[str],
    clip: float,
    seed: Tensor,
    batch: Batch,
    still: list[Tensor],
    moving: list[Tensor],
    over: Any,
) -> list[Tensor]:
    """One pass forward and one back; both look at all rows."""

    def loss(
        seed: Tensor, rows: Any, still: Any, moving: Any, taps: Any
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        belief = dict(zip((*names, *learner.trainable), (*still, *moving), strict=True))
        with dropout_of(learner, seed), _Taps([belief[u.weight] for u in uses], taps) as tapped:
            out = functional_call(learner.training, belief, (rows[0],))
        return (learner.losses_of_step(out, rows[1], rows[2]) * rows[2]).sum(), tuple(tapped.inputs)

    edges, rows = batch.x.shape[:2]
    with torch.enable_grad():
        taps = [moving[0].new_zeros(edges, rows, *u.shape).requires_grad_() for u in uses]
        value, inputs = over(loss)(seed, tuple(batch), still, moving, taps)
        slopes = torch.autograd.grad(value.sum(), taps, allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        each = [(u, a.detach(), d) for u, a, d in zip(uses, inputs, slopes, strict=True)]
        found = [_squares(*part) for part in each]
        factors, fine = _clip_factors(torch.stack([s for s, _ in found]).sum(0), clip)
        total: dict[str, Tensor] = {}
        for (use, given, slope), (_, outer) in zip(each, found, strict=True):
            kept = None if outer is None else _only(fine, outer)
            total |= _layer_sums(use, _only(fine, given), _only(fine, slope), kept, factors)
    return [total[n].view(t.shape) for n, t in zip(learner.trainable, moving, strict=True)]


def _row_by_row(
    learner: Learner,
    names: Sequence[str],
    clip: float,
    seed: Tensor,
    batch: Batch,
    still: list[Tensor],
    moving: list[Tensor],
) -> list[Tensor]:
    """Every row's gradient, written down, some rows at a time."""
    edges, rows = batch.x.shape[:2]
    at_once = max(1, ROOM // max(1, sum(t[0].numel() for t in moving)))
    total = [torch.zeros_like(t) for t in moving]
    for first in range(0, rows, at_once):
        part = [t[:, first : first + at_once] for t in batch]
        n = part[0].shape[1]
        places = torch.arange(first, first + n, device=seed.device)
        seeds = (seed.unsqueeze(1) + places * APART).flatten()
        single = [t.flatten(0, 1).unsqueeze(1) for t in part]
        held = [t.unsqueeze(1).expand(edges, n, *t.shape[1:]).flatten(0, 1) for t in (*still, *moving)]
        _, *grads = _Gradient._found(learner, names, seeds, [*single, *held], vmap)
        flat = [g.reshape(edges, n, -1) * part[2].unsqueeze(-1) for g in grads[: len(moving)]]
        factors, fine = _clip_factors(torch.stack([g.square().sum(-1) for g in flat]).sum(0), clip)
        for k, g in enumerate(flat):
            row = factors.unsqueeze(1) @ _only(fine, g)
            total[k] = total[k] + row.view(total[k].shape)
    return total


def _clip_factors(square: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """min(1, C / ‖g_i‖) from ‖g_i‖²; and which rows are finite, the others' factor being 0."""
    fine = torch.isfinite(square)
    return (clip / square.sqrt()).clamp(max=1).masked_fill(~fine, 0.0), fine


def _only(fine: Tensor, values: Tensor) -> Tensor:
    """Values [..., row, ...] of those rows, 0 for others."""
    return values.masked_fill(~fine.view(*fine.shape, *[1] * (values.ndim - fine.ndim)), 0.0)


def _tried(
    learner: Learner, names: Sequence[str], seed: Tensor, tensors: Sequence[Tensor]
) -> list[_Use] | None:
    """Where the model's trained parameters are used, if that can be tapped."""
    split = 3 + len(names)
    x, y, still, moving = tensors[0], tensors[1], list(tensors[3:split]), list(tensors[split:])
    belief = dict(zip((*names, *learner.trainable), (*still, *moving), strict=True))
    others = x[:1].flip(list(range(1, x.ndim)))
    few = torch.cat([x[:1], others, others])
    with torch.no_grad(), dropout_of(learner, seed):
        whose = {id(belief[n]): n for n in learner.trainable}
        with _Uses(whose, FEW) as uses:
            functional_call(learner.training, belief, (few,))
    named = [n for u in uses.found for n in (u.weight, u.bias) if n]
    if not uses.known or sorted(named) != sorted(learner.trainable):
        return None
    # the first row beside others that count for nothing, and by itself: masks of dropout are the same
    first = torch.tensor([1.0, 0.0, 0.0], dtype=x.dtype, device=x.device)
    batch = Batch(few.unsqueeze(0), y[:1].expand(FEW, *y.shape[1:]).unsqueeze(0), first.unsqueeze(0))
    one = [[t.unsqueeze(0) for t in part] for part in (still, moving)]
    found = _tapped(learner, uses.found, names, torch.inf, seed.unsqueeze(0), batch, one[0], one[1], _alone)
    # the model's own gradient, whatever terms this learner adds to it
    wanted = Learner.gradient(learner, belief, Batch(x[:1], y[:1], first[:1]), seed).grads
    length = torch.stack([g.square().sum() for g in wanted.values()]).sum().sqrt()
    apart = [(a.squeeze(0) - b).square().sum() for a, b in zip(found, wanted.values(), strict=True)]
    return uses.found if bool(torch.stack(apart).sum().sqrt() <= CLOSE * length) else None


# Where a model's trained parameters meet its rows. If all that a forward pass does with them is calls of
# linear layers and convolutions, one each, then the gradient of a row is known from what went into them and
# from the slope of the row's loss along what came out of them.


class _Use(NamedTuple):
    """One call of a layer: the names of its weight and bias, the shape of what it gives for a row, and for a
    convolution its kernel's size and how it moves.
    """

    weight: str
    bias: str | None
    shape: tuple[int, ...]
    moves: dict[str, Any] | None


class _Uses(TorchFunctionMode):
    """Inside, notes what happens to the tensors that `names` knows by id; `known` says whether it was calls
    of these layers alone.
    """

    def __init__(self, names: Mapping[int, str], rows: int) -> None:
        super().__init__()
        self._names, self._rows = names, rows
        self.found: list[_Use] = []
        self.known = True

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if any(id(leaf) in self._names for leaf in pytree.tree_leaves((args, kwargs))):
            use = self._use(out, *args, **kwargs) if func in (F.linear, F.conv2d) else None
            self.known &= use is not None
            self.found += [use] if use else []
        return out

    def _use(
        self,
        out: Tensor,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> _Use | None:
        name = self._names.get(id(weight))
        convolves = weight.ndim == 4
        if name is None or len(input) != self._rows or isinstance(padding, str) or groups != 1:
            return None
        if input.ndim != (4 if convolves else 2):
            return None
        moves = {"kernel_size": tuple(weight.shape[2:]), "dilation": dilation, "padding": padding}
        shape = tuple(out.shape[1:])
        return _Use(
            name,
            self._names.get(id(bias)),
            shape,
            {**moves, "stride": 1 if stride is None else stride} if convolves else None,
        )


class _Taps(TorchFunctionMode):
    """Inside, adds a tap to what each layer gives, in the order of their calls, and keeps what went in."""

    def __init__(self, weights: Sequence[Tensor], taps: Sequence[Tensor]) -> None:
        super().__init__()
        self._weights = {id(w) for w in weights}
        self._taps = list(taps)
        self.inputs: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (F.linear, F.conv2d):
            given = (args + tuple((kwargs or {}).values()))[:2]
            if id(given[1]) in self._weights:
                self.inputs.append(given[0])
                return out + self._taps[len(self.inputs) - 1]
        return out


def _squares(use: _Use, given: Tensor, slope: Tensor) -> tuple[Tensor, Tensor | None]:
    """‖g_i‖² of each row's gradient by one layer's parameters [..., row], and for a convolution that gradient
    of its weight [..., row, out, in · positions].

    A linear layer's is an outer product, δ_i a_iᵀ, whose norm needs no product: ‖δ_i‖ ‖a_i‖.
    """
    if use.moves is None:
        along = slope.square().sum(-1)
        found = along * given.square().sum(-1)
        return (found + along if use.bias else found), None
    # of a convolution it is δ_i U_iᵀ, with the patches U_i of its input
    patches = F.unfold(given.flatten(0, -4), **use.moves)
    outer = torch.bmm(slope.flatten(-2).flatten(0, -3), patches.transpose(1, 2))
    outer = outer.view(*given.shape[:-3], *outer.shape[1:])
    found = outer.flatten(-2).square().sum(-1)
    return (found + slope.flatten(-2).sum(-1).square().sum(-1) if use.bias else found), outer


def _layer_sums(
    use: _Use, given: Tensor, slope: Tensor, outer: Tensor | None, factors: Tensor
) -> dict[str, Tensor]:
    """Σ_i f_i g_i by one layer's parameters, as they lie in memory: [..., number]."""
    if use.moves is None or outer is None:
        scaled = factors.unsqueeze(-1) * slope
        found = {use.weight: (scaled.transpose(-1, -2) @ given).flatten(-2)}
        return found | ({use.bias: scaled.sum(-2)} if use.bias else {})
    row = factors.unsqueeze(-2)
    found = {use.weight: (row @ outer.flatten(-2)).squeeze(-2)}
    return found | ({use.bias: (row @ slope.flatten(-2).sum(-1)).squeeze(-2)} if use.bias else {})
