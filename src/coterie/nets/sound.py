"""What cannot be a reply: numbers that are not finite, tensors of another kind than everybody else's.

Such a reply ends its client's part in the round, and nobody else's: whoever asked goes on as if the client
had not answered, and the record says who and why. Only if there is no other reply has training diverged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import Diverged

REMEDY = "lower the learning rate or scale the inputs"
Kind = tuple[tuple[str, str, tuple[int, ...]], ...]


def not_finite(beliefs: Beliefs, numbers: Mapping[str, Tensor]) -> dict[int, str]:
    """{reply: what is wrong with it} of replies [reply, ...] and the losses that came with them."""
    some = next(iter(beliefs.values()))
    loss = numbers.get("loss", torch.zeros(len(some)))  # work with noise does not tell it
    # a sum is finite only if all its terms are; that it may overflow costs no more than a closer look
    if all(math.isfinite(float(t.sum())) for t in (loss, *beliefs.values())):
        return {}
    fine = torch.isfinite(loss).cpu()
    for t in beliefs.values():
        if t.is_floating_point():
            fine &= torch.isfinite(t).reshape(len(t), -1).all(dim=1).cpu()
    wrong = {}
    for i in (~fine).nonzero().flatten().tolist():
        name, value = tree.first_not_finite(tree.row(beliefs, i)), float(loss[i])
        told = f" (loss {value:.4g})" if "loss" in numbers else ""
        wrong[i] = f"the loss is {value}" if name is None else f"{name} is no longer finite{told}"
    return wrong


def diverged(round: int, client: str, why: str) -> Diverged:
    return Diverged(f"round {round}, client {client!r}: {why}: {REMEDY}", why)


def misshapen(replies: Sequence[Belief], sent: Belief) -> dict[int, str]:
    """{reply: what is wrong with it}. Replies are made as what was sent, or as most of them are; where
    neither decides, nobody is believed.
    """
    kinds = [kind_of(reply) for reply in replies]
    (first, many), *others = Counter(kinds).most_common(2)
    usual = kind_of(sent)
    if usual not in kinds:
        usual = () if others and others[0][1] == many else first
    return {i: difference(kind, usual) for i, kind in enumerate(kinds) if kind != usual}


def kind_of(belief: Belief) -> Kind:
    return tuple(sorted((n, str(t.dtype), tuple(t.shape)) for n, t in belief.items()))


def difference(kind: Kind, usual: Kind) -> str:
    """The first tensor that others do not have so."""
    name, _, shape = next(iter(sorted(set(kind) - set(usual))), ("", "", ()))
    return f"{name} has shape {list(shape)}, unlike others'" if name else "it lacks tensors that others have"
