"""A chain in which nothing changes unseen, and what its entries say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadRun, Refused
from coterie.features.ledger import entries
from coterie.storage import chain
from coterie.storage.chain import FIRST, Broken, Entry, Head, after, checked, continued

CONTENTS = [
    {"kind": "begin", "clients": ["a", "é"]},
    {"kind": "round", "round": 1, "x": 0.1},
    {"kind": "end"},
]


def made(contents=CONTENTS):
    found, last = [], None
    for content in contents:
        last = after(last, content)
        found.append(last)
    return found


ENTRIES = made()
LINES = [entry.line for entry in ENTRIES]


def write(folder, lines, end="\n"):
    (folder / chain.FILE).write_bytes("\n".join(lines).encode() + end.encode())


def test_a_hash_by_hand(tmp_path):
    text = '{"content":{"kind":"end"},"index":0,"previous":"' + "0" * 64 + '"}'
    entry = after(None, {"kind": "end"})
    assert entry.hash == chain.sha256(text)
    assert (
        entry.line == f'{{"content":{{"kind":"end"}},"hash":"{entry.hash}","index":0,"previous":"{FIRST}"}}'
    )
    assert after(entry, {}).previous == entry.hash
    chain.append(tmp_path, entry)
    chain.append(tmp_path, after(entry, {"x": float("nan")}))
    assert chain.read(tmp_path) == [entry, after(entry, {"x": None})]
    assert chain.last_of(tmp_path) == after(entry, {"x": None})


def test_any_byte_that_changes_is_found():
    """Every position of every line, by every kind of change."""
    for i, line in enumerate(LINES):
        data = line.encode()
        for at in range(len(data)):
            for other in (data[at] ^ 1, data[at] ^ 32, 0x20, 0x30):
                if other == data[at]:
                    continue
                changed = data[:at] + bytes([other]) + data[at + 1 :]
                found = checked([*LINES[:i], changed, *LINES[i + 1 :]])
                assert isinstance(found, Broken), changed
                assert found.index == i
                assert found.what.startswith(("it was changed", "entry", "it does not follow"))


@given(st.integers(0, 2), st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3))
def test_any_bytes_in_any_place_are_found(i, at, put, cut):
    data = LINES[i].encode()
    changed = data[:at] + put + data[at + cut :]
    if changed == data:
        return
    found = checked([*LINES[:i], changed, *LINES[i + 1 :]])
    assert isinstance(found, Broken)
    assert found.index == i


@pytest.mark.parametrize(
    ("order", "index", "what"),
    [
        ([0, 2], 1, "entry 2 is in its place: entries are missing, doubled or moved"),
        ([1, 2], 0, "entry 1 is in its place: entries are missing, doubled or moved"),
        ([0, 2, 1], 1, "entry 2 is in its place: entries are missing, doubled or moved"),
        ([0, 1, 1, 2], 2, "entry 1 is in its place: entries are missing, doubled or moved"),
    ],
)
def test_entries_that_are_missing_moved_or_doubled(order, index, what):
    assert checked([LINES[i] for i in order]) == Broken(index, what)


def test_a_chain_that_was_written_anew_from_some_entry_on():
    other = made([CONTENTS[0], {"kind": "round", "round": 1, "x": 0.2}, CONTENTS[2]])
    assert checked([e.line for e in other]) == other  # by itself nothing is wrong with it
    mended = Entry(1, FIRST, CONTENTS[1], chain.hash_of(1, FIRST, CONTENTS[1]))
    assert checked([LINES[0], mended.line]) == Broken(
        1, "it does not follow entry 0: one of the two was written anew"
    )
    assert checked([LINES[0], other[1].line, LINES[2]]).index == 2


def test_what_a_kill_cut_short_is_dropped_and_told(tmp_path):
    write(tmp_path, [*LINES[:2], LINES[2][:40]], end="")
    assert chain.read(tmp_path) == Broken(2, "its line is cut short")
    assert chain.last_of(tmp_path) == ENTRIES[1]
    assert chain.read(tmp_path) == ENTRIES[:2]
    write(tmp_path, [LINES[0], "nonsense"])
    with pytest.raises(BadRun, match="is no entry of a ledger"):
        chain.last_of(tmp_path)
    (tmp_path / chain.FILE).unlink()
    assert chain.last_of(tmp_path) is None
    assert chain.read(tmp_path) == []


# what a site signs


HEAD = Head(1, ENTRIES[1].hash)


@pytest.mark.parametrize(
    ("kept", "first", "lines", "last"),
    [
        (None, 0, LINES, 2),
        (HEAD, 2, LINES[2:], 2),
        (HEAD, 0, LINES, 2),
        (HEAD, 1, LINES[1:2], 1),
        (HEAD, 0, LINES[:2], 1),
    ],
)
def test_what_continues_a_head(kept, first, lines, last):
    assert continued(kept, first, lines) == ENTRIES[last]


FORK = [e.line for e in made([CONTENTS[0], {"kind": "round", "round": 1, "x": 0.2}, CONTENTS[2]])]


@pytest.mark.parametrize(
    ("kept", "first", "lines", "why"),
    [
        (None, 1, LINES[1:], "entries from 1 on, where 0 is due"),
        (None, 0, LINES[1:], "entry 1 is in its place"),
        (None, 0, [], "it was cut off"),
        (HEAD, 3, [], "entries from 3 on, where 2 is due"),
        (HEAD, 0, LINES[:1], "the ledger ends before entry 1, which was signed here: it was cut off"),
        (HEAD, 2, FORK[2:], "does not continue entry 1 as it was signed here: it was forked"),
        (HEAD, 0, FORK, "does not continue entry 1 as it was signed here: it was forked"),
        (HEAD, 2, [LINES[2].replace("end", "and")], "entry 2 of the ledger: it was changed"),
        (HEAD, -1, LINES, "entries from -1 on"),
    ],
)
def test_what_does_not(kept, first, lines, why):
    with pytest.raises(Refused, match=why):
        continued(kept, first, lines)


# what entries say


@given(st.sets(st.integers(0, 40)))
def test_numbers_are_written_in_few_letters(numbers):
    assert entries.numbers_in(entries.numbered(sorted(numbers))) == sorted(numbers)
    assert entries.numbered([0, 1, 2, 3, 7]) == "0-3 7"


def test_shares_by_hand():
    weights = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0], [0.25, 0, 0.75]], dtype=np.float32)
    assert entries.shares_of(weights) == [["0-1", "0-1", 0.5], ["3", "0 2", [0.25, 0.75]]]


def test_thousands_that_listen_alike_take_few_letters_and_too_much_is_a_digest():
    alike = np.full((3000, 3000), 1 / 3000, dtype=np.float32)
    line = {"round": 1, "numbers": [1] * 3000, "extras": {}}
    assert len(json.dumps(entries.round_of(line, alike))) < 400
    told = entries.round_of({**line, "extras": {"contributions": "x" * 300_000}}, np.random.rand(200, 200))
    assert told["shares"] is None
    assert list(told["contributions"]) == ["sha256"]


def test_a_round_says_what_happened_and_no_more():
    line = {"round": 2, "numbers": [3, 0, 1], "away": {"b": "not there"}, "scores": {"own/test": {}}}
    line["extras"] = {
        "withdrawals": [{"site": "c"}],
        "left_out": {},
        "contributions": {"a": float("nan")},
        "sealed": {"bytes": 1},
    }
    told = entries.round_of(line, np.eye(3))
    assert told.keys() == {
        "kind",
        "round",
        "answered",
        "shares",
        "weights",
        "metrics",
        "withdrawals",
        "contributions",
        "away",
    }
    assert told["answered"] == "0 2"
    assert told["shares"] == [["0", "0", 1.0], ["1", "1", 1.0], ["2", "2", 1.0]]
    assert after(None, told).content["contributions"] == {"a": None}
