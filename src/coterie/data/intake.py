"""From whatever a user has to arrays, or a one-line refusal that names the client; and torch datasets.

A dataset whose items are drawn at random, as pictures are by torchvision's transforms, gives its rows anew at
each epoch. A client holds the rows as they were read first, and by them it is known which item of the dataset
a row of a batch is. Before each step these items are read again, with all generators (torch's, NumPy's,
Python's) set by the run's seed: the same run reads the same rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput

Array = npt.NDArray[Any]
TaskChoice = Literal["auto", "classification", "regression", "survival"]


def as_array(values: Any, name: str, what: str) -> Array:
    try:
        return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise BadData(f"client {name!r}: {what} make no array ({reason}): give all rows one shape") from None


def read_pairs(dataset: torch.utils.data.Dataset[Any], name: str) -> tuple[Array, Array]:
    try:
        rows = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise BadData(
            f"client {name!r}: a dataset without a length cannot be read once: give a map-style one"
        ) from None
    if rows == 0:
        raise BadData(f"client {name!r} is empty: add samples or leave it out")
    try:
        pairs = [(np.asarray(x), np.asarray(y)) for x, y in (dataset[i] for i in range(rows))]
        return np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])
    except (ValueError, TypeError, LookupError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise BadData(
            f"client {name!r}: dataset must give (input, target) pairs of one shape ({reason})"
        ) from None


TWICE = 64  # rows that are read twice, to see whether they are drawn at random


@dataclass(frozen=True, eq=False)
class _Reread:
    """A dataset, and where in it each row is, by the row's bytes."""

    dataset: Any
    places: Mapping[bytes, int]


@dataclass(frozen=True, eq=False)
class _Anew:
    """A transform: rows of any of these clients become their items as read now, then go through `after`."""

    sources: Sequence[_Reread]
    after: Callable[[Tensor], Tensor] | None = None
    __name__: str = field(default="every_epoch")

    def __call__(self, x: Tensor) -> Tensor:
        # by torch's own generator: so engines know that rows cannot be read on several threads at once
        seed = int(torch.empty((), dtype=torch.int64).random_(2**31))
        kept = random.getstate(), np.random.get_state()
        try:
            made = torch.stack([self.item(row, seed + i) for i, row in enumerate(x.cpu().float())]).to(x)
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
        return made if self.after is None else self.after(made)

    def item(self, row: Tensor, seed: int) -> Tensor:
        """As the dataset gives it now."""
        key = _key_of(row)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        for source in self.sources:
            if key in source.places:
                read = torch.as_tensor(np.asarray(source.dataset[source.places[key]][0]), dtype=torch.float32)
                if read.shape != row.shape:
                    raise BadData(
                        f"a dataset gave an item of shape {list(read.shape)} that had {list(row.shape)} "
                        "before: give all one shape"
                    )
                return read
        raise BadInput(
            "every_epoch: a row of a batch is none that the datasets gave, as something changed rows after "
            "they were read: leave out every_epoch, or what changes them"
        )


def _key_of(row: Tensor) -> bytes:
    return row.contiguous().numpy().tobytes()


def reread_of(dataset: Any, x: Tensor) -> _Reread:
    """The places of rows x, in the order of the dataset, as a client holds them."""
    return _Reread(dataset, {_key_of(row): i for i, row in enumerate(x)})


def anew(clients: Sequence[Client], after: Callable[[Tensor], Tensor] | None) -> Any:
    """The transform that reads rows of these clients again before it does the given one; that one alone, or
    None, where no client is read again.
    """
    sources = [c.again for c in clients if c.again is not None]
    if not sources:
        return after
    if len(sources) < len(clients):
        others = next(c.name for c in clients if c.again is None)
        raise BadInput(
            f"client {others!r} is not read at every epoch and others are: make all of them with "
            "from_dataset(..., every_epoch=True), or none"
        )
    called = "" if after is None else f"+{getattr(after, '__name__', type(after).__name__)}"
    return _Anew(sources, after, f"every_epoch{called}")


def _same(a: Any, b: Any) -> bool:
    """What is missing both times counts as the same: it is for others to refuse."""
    return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")


def is_random(dataset: Any, x: Any, y: Any) -> bool:
    """Whether the first rows come out otherwise when they are read once more."""
    for i in range(min(TWICE, len(x))):
        now_x, now_y = (np.asarray(part) for part in dataset[i])
        if not (_same(now_x, x[i]) and _same(now_y, y[i])):
            return True
    return False
