"""README and docs/results say what their CSV files say: tables number by number, sentences by working their
figures out again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coterie.metrics.summary import intervals

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results"
FIGURE = re.compile(r"\(?(-?\d+\.?\d*) ± (\d+\.?\d*)\)?(?:e(-?\d+))?")
ORIGIN = ("seed", "commit", "command", "scale", "round", "finished", "table_ii")
FACTORS = (1, 10, 100)


def kinds(frame: pd.DataFrame) -> dict[tuple[str, ...], pd.DataFrame]:
    """Figures [seed, name] of each kind of run."""
    figures = [c for c in frame if c not in ORIGIN and pd.api.types.is_float_dtype(frame[c])]
    names = [c for c in frame if c not in (*ORIGIN, *figures)]
    return {
        tuple(word for part in key for word in str(part).split("/")): group.set_index("seed")[figures]
        for key, group in frame.groupby(names, dropna=False)
        if group["seed"].is_unique
    }


def known_intervals(frame: pd.DataFrame, pairs: bool) -> np.ndarray:
    """[figure, (mean, half)] of all kinds of runs and, if wanted, of two that differ in one word."""
    by = kinds(frame)
    found = list(by.values())
    if pairs:
        found += [
            one - other
            for (a, one), (b, other) in permutations(by.items(), 2)
            if len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1
        ]
    rows = [part[c].to_numpy() for part in found for c in part]
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    mean, half, _ = intervals(table[~np.isnan(table).all(axis=1)])
    return np.stack([mean, half], axis=1)


def is_known(shown: re.Match[str], known: np.ndarray) -> bool:
    mean, half, power = shown.groups()
    unit = 10.0 ** int(power or 0)
    least = unit * 0.5000001 * 10.0 ** -len(mean.partition(".")[2])  # rounding
    wanted = unit * np.array([float(mean), float(half)])
    return any((np.abs(factor * known - wanted) <= least).all(axis=1).any() for factor in FACTORS)


def sections(page: str) -> Iterator[tuple[str, str]]:
    """(preset, text) of each, without a name where it holds both; claims and verdicts are sentences."""
    for part in re.split(r"^## ", page, flags=re.MULTILINE):
        head, _, body = part.partition("\n")
        if head != "Claims":
            yield next((p for p in ("text", "as-run") if head.endswith(p)), ""), body


@pytest.mark.parametrize("csv", sorted(RESULTS.glob("*-20*.csv")), ids=lambda p: p.stem)
def test_every_figure_of_a_page_is_in_its_csv(csv):
    frame, page = pd.read_csv(csv), csv.with_suffix(".md").read_text()
    checked = 0
    for preset, text in sections(page):
        mine = frame[frame["preset"] == preset] if preset and "preset" in frame else frame
        lines = [line for line in text.splitlines() if line.startswith("|") and "**" not in line]
        shown = [f for line in lines for f in FIGURE.finditer(line)]
        if shown:
            known = known_intervals(mine, pairs="makni" not in csv.stem)
            assert not [f[0] for f in shown if not is_known(f, known)]
            checked += len(shown)
    assert checked or frame["seed"].nunique() == 1
    commits = re.search(r"^- commit: ([^(\n]*)", page, re.MULTILINE)
    assert commits is not None
    assert {c.strip() for c in commits[1].split(",")} == set(frame["commit"])


def test_the_check_can_fail():
    known = np.array([[0.7123, 0.0456]])
    assert is_known(FIGURE.search("| 71.2 ± 4.6 |"), known)
    assert not is_known(FIGURE.search("| 71.3 ± 4.6 |"), known)
    assert not is_known(FIGURE.search("| 71.2 ± 4.5 |"), known)
