"""One thread for what is small, all for what is large, and as found afterwards."""

from __future__ import annotations

import pytest
import torch

from coterie.engines.threads import SMALL, all_threads, many, narrow, one_thread_each, threads_for, use


@pytest.fixture(autouse=True)
def two():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def inside(manager) -> int:
    with manager:
        return torch.get_num_threads()


def test_large_operations_alone_split_while_narrow():
    with narrow(), narrow():
        assert torch.get_num_threads() == 1
        assert many() == 2
        assert inside(threads_for(SMALL - 1)) == inside(one_thread_each()) == 1
        assert inside(threads_for(SMALL)) == inside(all_threads()) == 2
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == many() == 2


def test_without_it_threads_are_as_they_are():
    assert inside(threads_for(SMALL - 1)) == 1
    assert inside(threads_for(SMALL)) == 2
    use(3)
    assert torch.get_num_threads() == many() == 3


def test_what_is_set_while_narrow_is_for_large_operations_and_ends_with_it():
    with narrow():
        use(3)
        assert torch.get_num_threads() == 1
        assert inside(all_threads()) == 3
    assert torch.get_num_threads() == 2


def test_an_error_gives_threads_back():
    with pytest.raises(ZeroDivisionError), narrow():
        raise ZeroDivisionError
    assert torch.get_num_threads() == many() == 2
