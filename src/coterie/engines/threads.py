"""How many threads an operation may split into.

One, unless it is large: a second thread on a few hundred numbers costs more than it brings, and on a busy
machine an operation that takes microseconds waits milliseconds for it. So commands and the functions of the
Python interface run `narrow`, and the few places that work on large tensors say so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

SMALL = 2**19  # numbers in a batch below which waiting for a second thread costs more than it brings
_many: int | None = None  # for large operations, while narrow


def many() -> int:
    """Threads of large operations."""
    return torch.get_num_threads() if _many is None else _many


def use(threads: int) -> None:
    """So many for large operations from now on."""
    global _many
    if _many is None:
        torch.set_num_threads(threads)
    else:
        _many = threads


@contextlib.contextmanager
def narrow() -> Iterator[None]:
    """Inside, operations do not split but where they are large."""
    global _many
    if _many is not None:
        yield
        return
    _many = torch.get_num_threads()
    try:
        with _threads(1):
            yield
    finally:
        _many = None


def one_thread_each() -> contextlib._GeneratorContextManager[None]:
    """Inside, operations do not split."""
    return _threads(1)


def all_threads() -> contextlib.AbstractContextManager[None]:
    """Inside, operations split as far as they may."""
    return _threads(many())


def threads_for(numbers: int) -> contextlib.AbstractContextManager[None]:
    """One thread for operations on so few numbers, else as many as there are."""
    return one_thread_each() if numbers < SMALL else all_threads()


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
