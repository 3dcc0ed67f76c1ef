"""The end of a file that somebody else writes: new lines, lines cut short, lines that were dropped."""

from __future__ import annotations

import json

from coterie.storage.atomic import append_line, keep_lines
from coterie.storage.tail import BLOCK, Tail, last_lines


def lines(*numbers: int) -> str:
    return "".join(json.dumps({"round": n}) + "\n" for n in numbers)


def rounds(entries) -> list[int]:
    return [entry["round"] for entry in entries]


def test_last_lines(tmp_path):
    path = tmp_path / "some.jsonl"
    assert last_lines(path, 3) == []
    path.write_text("")
    assert last_lines(path, 3) == []
    path.write_text(lines(0, 1) + '{"rou')  # a kill cut the last one short
    assert rounds(last_lines(path, 3)) == [0, 1]
    assert rounds(last_lines(path, 1)) == [1]
    path.write_text(lines(*range(5 * BLOCK // 10)))
    last = 5 * BLOCK // 10 - 1
    assert rounds(last_lines(path, 2)) == [last - 1, last]
    assert rounds(last_lines(path, 10**6)) == list(range(last + 1))
    path.write_text(json.dumps({"round": 0, "long": "x" * 3 * BLOCK}) + "\n" + lines(1))
    assert rounds(last_lines(path, 2)) == [0, 1]


def test_a_tail_tells_what_is_new(tmp_path):
    path = tmp_path / "some.jsonl"
    tail = Tail(path)
    assert tail.lines() == (False, [])
    path.write_text(lines(0, 1))
    assert tail.lines() == (False, [{"round": 0}, {"round": 1}])
    assert tail.lines() == (False, [])
    with path.open("a") as file:
        file.write('{"round"')
        file.flush()
        assert tail.lines() == (False, [])
        file.write(": 2}\n")
    assert tail.lines() == (False, [{"round": 2}])
    append_line(path, {"round": 3})
    assert tail.lines() == (False, [{"round": 3}])


def test_a_tail_notices_lines_that_count_no_more(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text(lines(0, 1, 2))
    tail = Tail(path)
    tail.lines()
    keep_lines(path, lambda entry: entry["round"] <= 1)  # as a resumed run does
    append_line(path, {"round": 2})
    assert tail.lines() == (True, [{"round": 0}, {"round": 1}, {"round": 2}])
    path.write_text(lines(0))  # the same file, shorter
    assert tail.lines() == (True, [{"round": 0}])
    path.write_text(lines(7, 8))  # longer, with other lines
    assert tail.lines() == (True, [{"round": 7}, {"round": 8}])
    path.unlink()
    assert tail.lines() == (True, [])
    assert tail.lines() == (False, [])
    path.write_text(lines(0))
    assert tail.lines() == (False, [{"round": 0}])


def test_nothing_counts_after_a_line_that_is_none(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text(lines(0) + "[1]\n" + lines(2))
    tail = Tail(path)
    assert tail.lines() == (False, [{"round": 0}])
    assert tail.lines() == (False, [])
