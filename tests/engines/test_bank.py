"""Samples by row number, joined or where they are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.client import Samples
from coterie.engines import bank as bank_module
from coterie.engines.bank import Bank, Rows

sizes = st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(any)


def parts_of(lengths):
    total = sum(lengths)
    whole = torch.arange(total * 2.0).reshape(total, 2)
    return whole, [t.clone() for t in torch.split(whole, lengths)]


@pytest.fixture
def apart(monkeypatch):
    """Nothing is joined by a copy."""
    monkeypatch.setattr(bank_module, "ROOM", 0)


@given(sizes, st.data())
def test_rows_that_are_not_joined_are_the_same(lengths, data):
    whole, parts = parts_of(lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bank_module, "ROOM", 0)
        rows = Rows(parts, "cpu")
    assert (rows.whole is None) == (sum(map(bool, lengths)) > 1)
    assert len(rows) == len(whole)
    ends = st.integers(0, len(whole))
    cut = slice(*sorted((data.draw(ends), data.draw(ends))))
    assert torch.equal(rows[cut], whole[cut])
    index = torch.tensor(data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=9)), dtype=torch.int64)
    assert torch.equal(rows[index], whole[index])


def test_what_lies_in_one_piece_is_not_copied_and_what_does_not_is_where_it_was(apart):
    whole, parts = parts_of([3, 2, 4])
    views = Rows(torch.split(whole, [3, 2, 4]), "cpu")
    assert views.whole.data_ptr() == whole.data_ptr()
    own = Bank.of([Samples(x, torch.zeros(len(x), dtype=torch.int64)) for x in parts])
    assert [own.part(i).x.data_ptr() for i in range(3)] == [x.data_ptr() for x in parts]


def test_some_clients_in_one_piece(apart):
    _, parts = parts_of([3, 2, 4])
    own = Bank.of([Samples(x, torch.full((len(x),), i)) for i, x in enumerate(parts)])
    samples, starts = own.with_rows_of(torch.tensor([2, 0, 2]))
    assert starts.tolist() == [3, 0, 3]
    assert torch.equal(samples.x, torch.cat([parts[0], parts[2]]))
    assert samples.y.tolist() == [0] * 3 + [2] * 4
