"""Handles: rows are picked and put together without a number moving, and ids stay with content."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from coterie.core.errors import BadInput
from coterie.core.held import (
    COORDINATOR,
    Held,
    at_coordinator,
    fresh_ids,
    handles_in,
    hold,
    reserve,
    side_by_side,
    together,
)


def some(*values: float, places=None, **more) -> Held:
    """Rows with a body of two numbers and a head of one."""
    head = torch.tensor(values)
    tensors = {"body": torch.stack([head, head + 0.5], dim=1), "head": head.unsqueeze(1), **more}
    return hold(tensors, torch.arange(len(values)) if places is None else torch.tensor(places))


def heads(held: Held) -> list[float]:
    return held.tensors["head"].flatten().tolist()


def ids(held: Held, part: int = 0) -> list[int]:
    return held.parts[part].ids.tolist()


def test_new_content_has_new_ids_at_its_places():
    a, b = some(1, 2), some(1, 2, places=[COORDINATOR, 5])
    assert len({*ids(a), *ids(b)}) == 4
    assert (len(b), b.names, b.places.tolist()) == (2, ("body", "head"), [-1, 5])
    assert at_coordinator(2).tolist() == [COORDINATOR] * 2
    assert {n: (t.device.type, t.shape) for n, t in a.like.items()} == {
        "body": ("meta", (2, 2)),
        "head": ("meta", (2, 1)),
    }


def test_rows_keep_id_and_place_of_their_content():
    held = some(1, 2, 4, places=[3, 7, COORDINATOR])
    picked = held.rows(torch.tensor([2, 0, 2]))
    assert (heads(picked), picked.places.tolist()) == ([4, 1, 4], [COORDINATOR, 3, COORDINATOR])
    assert ids(picked) == [ids(held)[i] for i in (2, 0, 2)]
    assert len(held.rows(torch.tensor([], dtype=torch.int64))) == 0


def test_only_and_without():
    held = some(1, 2)
    assert held.only(["head"]).names == held.without(["body"]).names == ("head",)
    assert ids(held.only(["head"])) == ids(held)
    nothing = held.only([])
    assert (nothing.names, len(nothing)) == ((), 2)
    both = side_by_side(held.only(["head"]), some(5, 6).only(["body"]))
    assert len(both.only(["body"]).parts) == 1


def test_put_replaces_content_ids_and_places():
    held, new = some(1, 2, 4), some(8, 9, places=[6, 5], extra=torch.zeros(2))
    after = held.put(torch.tensor([2, 0]), new)
    assert (heads(after), after.places.tolist(), after.names) == ([9, 2, 8], [5, 1, 6], ("body", "head"))
    assert ids(after) == [ids(new)[1], ids(held)[1], ids(new)[0]]
    assert (heads(held), held.places.tolist()) == ([1, 2, 4], [0, 1, 2])
    assert held.put(torch.tensor([], dtype=torch.int64), new) is held


def test_together_one_after_the_other():
    a, b = some(1, 2), some(4, places=[COORDINATOR])
    both = together([a, b])
    assert (heads(both), both.places.tolist(), ids(both)) == ([1, 2, 4], [0, 1, -1], ids(a) + ids(b))
    assert together([a]) is a


class TestSideBySide:
    def both(self):
        body, head = some(7, places=[COORDINATOR]).only(["body"]), some(1, 2).only(["head"])
        return side_by_side(body, head), body, head

    def test_one_row_goes_with_every_row_and_is_held_once(self):
        both, body, head = self.both()
        assert (len(both), both.names) == (2, ("body", "head"))
        assert both.tensors["body"].tolist() == [[7, 7.5], [7, 7.5]]
        assert both.tensors["body"].data_ptr() == body.tensors["body"].data_ptr()
        assert (ids(both, 0), ids(both, 1)) == (ids(body) * 2, ids(head))
        assert [p.places.tolist() for p in both.parts] == [[-1, -1], [0, 1]]

    def test_has_no_single_place(self):
        both, _, _ = self.both()
        with pytest.raises(BadInput, match="look at one part with only"):
            _ = both.places
        assert both.only(["head"]).places.tolist() == [0, 1]

    def test_rows_put_and_together_work_on_all_parts(self):
        both, body, _ = self.both()
        new = some(9, places=[4])
        after = both.put(torch.tensor([1]), new)
        assert after.tensors["body"].tolist() == [[7, 7.5], [9, 9.5]]
        assert ids(after, 0) == [*ids(body), *ids(new)]
        twice = together([after, both]).rows(torch.tensor([3, 1]))
        assert (heads(twice), [p.places.tolist() for p in twice.parts]) == ([2, 9], [[-1, 4], [1, 4]])


@dataclass(frozen=True)
class State:
    own: Held
    more: dict
    none: Held | None
    count: int


def test_handles_in_a_state():
    a, b, c = some(1), some(2), some(3)
    state = State(a, {"x": [b, (c, torch.zeros(2))], "y": "text"}, None, 3)
    assert list(handles_in(state)) == [a, b, c]
    assert list(handles_in([1, None, {}])) == []


def test_reserved_ids_are_not_given_out():
    last = int(fresh_ids(1))
    reserve([last + 10, 3])
    assert fresh_ids(2).tolist() == [last + 11, last + 12]
    reserve([])
    reserve([0])
    assert int(fresh_ids(1)) == last + 13


def test_rows_without_numbers_can_be_put_among_rows_with_them():
    held, far = some(1, 2), some(8, places=[5])
    far = Held((far.parts[0]._replace(tensors=far.like),))
    for after, wanted in (
        (held.put(torch.tensor([1]), far), [0, 5]),
        (far.put(torch.tensor([0]), held.rows(torch.tensor([1]))), [1]),
    ):
        assert {t.device.type for t in after.tensors.values()} == {"meta"}
        assert after.places.tolist() == wanted
