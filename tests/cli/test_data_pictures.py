"""coterie data show, with pictures."""

from __future__ import annotations

import sys
from pathlib import Path

WORDS = ("data", "show", "digits", "--split", "interests", "--clients", "5", "--figures")


def written(said: str) -> list[str]:
    return [line.partition(": ")[2] for line in said.splitlines() if line.startswith("figure: ")]


def test_sizes_labels_and_shares_are_written(coterie):
    code, said, _ = coterie(*WORDS, "svg", "--out", "pictures")
    assert code == 0
    assert written(said) == [f"pictures/{name}.svg" for name in ("sizes", "labels", "shares")]
    contents = [Path(name).read_bytes() for name in written(said)]
    assert all(c.startswith(b"<?xml") for c in contents)
    coterie(*WORDS, "svg", "--out", "again")
    assert [Path("again", Path(name).name).read_bytes() for name in written(said)] == contents


def test_numbers_to_predict_have_sizes_alone(coterie):
    _, said, _ = coterie("data", "show", "diabetes", "--clients", "4", "--figures", "svg")
    assert written(said) == ["sizes.svg"]


def test_without_the_flag_nothing_is_written(coterie, tmp_path):
    code, said, _ = coterie(*WORDS[:-1])
    assert (code, written(said), list(tmp_path.iterdir())) == (0, [], [])


def test_a_format_that_is_not_known(refused):
    assert "invalid choice 'pdf'" in refused(*WORDS, "pdf")


def test_without_matplotlib(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "figures need matplotlib: pip install 'coterie[figures]'" in refused(*WORDS, "svg")
