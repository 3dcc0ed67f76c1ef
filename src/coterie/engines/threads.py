"""How many threads an operation may split into."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

SMALL = 2**19  # numbers in a batch below which waiting for a second thread costs more than it brings


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Inside, operations do not split."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(numbers: int) -> contextlib.AbstractContextManager[None]:
    """One thread for operations on so few numbers, else as many as there are."""
    return one_thread_each() if numbers < SMALL else contextlib.nullcontext()
