"""What a network gives for rows, so that it does not depend on what other rows there are.

A product of matrices adds up in another order where more rows come together, and where a row begins elsewhere
in memory: the last bits of an output differ. So rows go through in blocks of one size, from the same place,
the last one filled up, and what a linear layer gets has each row begin where the processor reads from, as
some processors add up in another order elsewhere. Whether a row's place in its block and its neighbours leave
no trace is tried on a few rows first; where they do, or rows are large, as pictures are, each row goes by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from coterie.core.errors import BadInput
from coterie.engines.threads import one_thread_each
from coterie.metrics.calibration import probabilities

BLOCK = 256  # rows
WIDEST = 2**12  # numbers of a row that goes in a block
MOVES = (1, 5, 131)  # by which rows that are tried go to other places
LINE = 64  # bytes that a processor reads at once


def outputs_of(model: nn.Module, x: Tensor) -> Tensor:
    """[n, output] of inputs [n, ...], in the model's own precision."""
    precision = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    with even_rows(model):
        return _row_by_row(model, x.to(precision))


@contextmanager
def even_rows(model: nn.Module) -> Iterator[None]:
    """Inside, rows that come to linear layers lie a whole number of lines apart."""
    with ExitStack() as ends:
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                ends.callback(layer.register_forward_pre_hook(_lay_evenly).remove)
        yield


def _lay_evenly(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same numbers [row, column]; between rows there may be room."""
    x, *others = inputs
    line = LINE // x.element_size()
    if x.dim() != 2 or x.shape[1] % line == 0:
        return inputs
    room = x.new_zeros(len(x), -(-x.shape[1] // line) * line)
    return room[:, : x.shape[1]].copy_(x), *others


def probabilities_of(outputs: Tensor) -> Tensor:
    """[n, class] in float64, each row by itself."""
    return _row_by_row(probabilities, outputs) if len(outputs) else outputs.double()


def _row_by_row(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A function of rows [n, ...], with the bits that each would have alone."""
    with one_thread_each(), torch.no_grad():
        size = block_of(function, x)
        place, found = x.new_zeros(size, *x.shape[1:]), list[Tensor]()
        for rows in torch.split(x, size) if len(x) else ():
            place[: len(rows)] = rows
            place[len(rows) :] = 0.0
            found.append(function(place)[: len(rows)].clone())
    return torch.cat(found) if found else x.new_empty(0, 0)


def block_of(function: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """How many rows may go together: it depends on their shape and on the function, never on the rows."""
    if not 0 < x.shape[1:].numel() <= WIDEST:
        return 1
    draw, shape = torch.Generator().manual_seed(0), (BLOCK, *x.shape[1:])
    tried = torch.randn(shape, generator=draw, dtype=torch.float64).to(x.dtype)
    place = tried.clone()
    try:
        out = function(place).clone()
        for by in MOVES:
            place.copy_(tried.roll(by, 0))
            if not _alike(function(place), out.roll(by, 0)):
                return 1
        place.copy_(tried)
        place[1::2] = 0.0
        return BLOCK if _alike(function(place)[::2], out[::2]) else 1
    except (RuntimeError, ValueError, IndexError):  # a module that takes no other number of rows
        return 1


def _alike(one: Tensor, other: Tensor) -> bool:
    """To the last bit; what is no number counts as one."""
    return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())


def finite_rows(outputs: Tensor) -> Tensor:
    """[n] whether a model says anything of a row; one that overflows does not."""
    finite = torch.isfinite(outputs)
    return finite.flatten(1).all(dim=1) if finite.dim() > 1 else finite


def refuse_not_finite(outputs: Tensor, whose: str) -> None:
    if not bool((finite := finite_rows(outputs)).all()):
        row = int((~finite).nonzero()[0])
        raise BadInput(f"{whose} gives no finite number for row {row + 1}: look for a value that is far off")
