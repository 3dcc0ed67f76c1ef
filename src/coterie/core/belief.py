"""A belief: a tree of tensors that travels. Here, its maths.

A `Belief` maps names to tensors: a model's parameters and buffers, or a posterior's moments. `Beliefs`
are many of one kind, stacked: every tensor has one more axis in front, [belief, ...]. Nothing here
changes a dtype or a shape, and nothing is changed in place.

Only floating-point tensors are averaged. An integer or boolean tensor (batch norm's counter of batches,
a mask) has no mean of its own kind: a mix takes it from the heaviest sender, the first of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from coterie.core.devices import widest
from coterie.core.errors import BadInput

Belief = Mapping[str, Tensor]
Beliefs = Mapping[str, Tensor]
Weights = Tensor | Mapping[str, Tensor]


def belief_of(module: nn.Module) -> Belief:
    """A module's parameters and buffers, copied."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: t.detach().clone() for name, t in tensors.items()}


def fits(module: nn.Module, belief: Belief) -> dict[str, Tensor]:
    """The tensors of a module, if a belief has the same names and shapes; refused otherwise."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if tensors.keys() != belief.keys():
        strange = sorted(tensors.keys() ^ belief.keys())
        raise BadInput(f"belief and module differ in {strange[0]!r}: use the module it was made from")
    for name, tensor in tensors.items():
        if tensor.shape != belief[name].shape:
            raise BadInput(
                f"belief and module differ in {name!r}: shapes {list(belief[name].shape)} and "
                f"{list(tensor.shape)}: use the module it was made from"
            )
    return tensors


def load(module: nn.Module, belief: Belief) -> nn.Module:
    """Writes a belief into a module of the same make, and returns it."""
    with torch.no_grad():
        for name, tensor in fits(module, belief).items():
            tensor.copy_(belief[name])
    return module


def stack(beliefs: Sequence[Belief]) -> Beliefs:
    """[belief] as one stacked tree."""
    return {name: torch.stack([b[name] for b in beliefs]) for name in beliefs[0]}


def row(beliefs: Beliefs, i: int) -> Belief:
    """The i-th of many."""
    return {name: t[i] for name, t in beliefs.items()}


def rows(beliefs: Beliefs, index: Tensor) -> Beliefs:
    """Some of many, in the given order, repeats allowed."""
    return {name: t.index_select(0, index.to(t.device)) for name, t in beliefs.items()}


def put(beliefs: Beliefs, index: Tensor, new: Beliefs) -> Beliefs:
    """Many, with those at `index` replaced."""
    return {
        name: t.index_copy(0, index.to(t.device), new[name].to(t.device, t.dtype))
        for name, t in beliefs.items()
    }


def repeat(beliefs: Beliefs, n: int) -> Beliefs:
    """One stacked belief as n equal ones; n stacked beliefs as they are."""
    have = count(beliefs)
    if have == n:
        return beliefs
    if have != 1:
        raise BadInput(f"{have} initial beliefs for {n} clients: give one, or one for each")
    return {name: t.expand(n, *t.shape[1:]).contiguous() for name, t in beliefs.items()}


def count(beliefs: Beliefs) -> int:
    return len(next(iter(beliefs.values())))


def size_in_bytes(belief: Belief) -> int:
    return sum(t.numel() * t.element_size() for t in belief.values())


def first_not_finite(belief: Belief) -> str | None:
    """The name of a tensor that holds NaN or infinity, if there is one."""
    for name, t in belief.items():
        if t.is_floating_point() and not bool(torch.isfinite(t).all()):
            return name
    return None


def mix(weights: Weights, beliefs: Beliefs, sources: Tensor | None = None) -> Beliefs:
    """Weighted sums: out[receiver] = Σ_sender weights[receiver, sender] · beliefs[sender].

    `weights` is one matrix [receiver, sender] for all tensors, or one for each name (per layer). Tensors that
    are not averaged come from the heaviest sender, or from `sources` [receiver].
    """
    mixed: dict[str, Tensor] = {}
    for name, t in beliefs.items():
        w = weights if isinstance(weights, Tensor) else weights[name]
        if w.ndim != 2 or w.shape[1] != len(t):
            raise BadInput(f"weights of shape {list(w.shape)} for {len(t)} senders: need [receiver, sender]")
        if t.is_floating_point() or t.is_complex():
            flat = w.to(device=t.device, dtype=t.dtype) @ t.reshape(len(t), -1)
            mixed[name] = flat.reshape(len(w), *t.shape[1:])
        else:
            heaviest = w.argmax(dim=1) if sources is None else sources
            mixed[name] = t.index_select(0, heaviest.to(t.device))
    return mixed


def in_turn(weights: Tensor, own: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What sums made one after the other are of the senders' first beliefs: weights [receiver, sender], and
    the sender [receiver] of what is not averaged.

    Receiver i's sum takes the place of sender own[i] for those after it.
    """
    mixing = torch.eye(weights.shape[1], dtype=weights.dtype)
    source = torch.arange(weights.shape[1])
    for row, k in zip(weights, own, strict=True):
        senders = row.nonzero().flatten()
        mixing[k] = row[senders] @ mixing[senders]
        source[k] = source[row.argmax()]
    return mixing[list(own)], source[list(own)]


def distances(
    a: Beliefs, b: Beliefs, names: Iterable[str], importance: Mapping[str, float] | None = None
) -> Tensor:
    """Euclidean norms of differences over the named tensors: out[i, j] = ‖a[i] - b[j]‖, in float64.

    With `importance`, the squares of each tensor count so many times (1 where not named).
    """
    importance = importance or {}
    squares = torch.zeros(count(a), count(b), dtype=torch.float64)
    for name in names:
        left, right = (t[name].reshape(count(t), -1).to(widest(t[name].device)) for t in (a, b))
        weight = importance.get(name, 1.0)
        for j in range(len(right)):
            squares[:, j] += weight * (left - right[j]).square().sum(dim=1).cpu()
    return squares.sqrt()


ROUNDING = 1e-4  # of a sum of weights that is meant to be 1


def everybody(weights: Weights) -> Tensor:
    """[receiver, column] nobody withdraws."""
    one = weights if isinstance(weights, Tensor) else next(iter(weights.values()))
    return torch.ones(one.shape, dtype=torch.bool)


def without(weights: Tensor, stays: Tensor) -> Tensor:
    """Weights [receiver, column] of who stays. A row that adds up to 1 is an average, and stays one over
    those who are left; another is a sum, and loses terms. Where nobody is left, a row is 0; where nobody
    leaves, it is as it was.
    """
    left = weights * stays
    before, now = weights.sum(dim=1, keepdim=True), left.sum(dim=1, keepdim=True)
    averages = ((before - 1).abs() < ROUNDING) & (now.abs() > ROUNDING)
    averages &= (left != weights).any(dim=1, keepdim=True)
    return torch.where(averages, left / torch.where(averages, now, torch.ones_like(now)), left)
