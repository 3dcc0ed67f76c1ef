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

from coterie.metrics.summary import Interval, interval, intervals
from coterie.studies import pages
from coterie.studies.grimberg_2020 import OVERLAP as HALVES
from coterie.studies.makni_2022.cancer_report import OVERLAP as TUMOURS

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


def overlap_of(page: str, head: str) -> float:
    """By what a section's intervals are corrected, where seeds split the same rows anew."""
    if page == "grimberg-2020":
        return HALVES
    return TUMOURS if page == "makni-2022" and head.startswith("Section 6") else 0.0


def known_intervals(frame: pd.DataFrame, pairs: bool, overlap: float) -> np.ndarray:
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
    mean, half, _ = intervals(table[~np.isnan(table).all(axis=1)], overlap=overlap)
    return np.stack([mean, half], axis=1)


def is_known(shown: re.Match[str], known: np.ndarray) -> bool:
    mean, half, power = shown.groups()
    unit = 10.0 ** int(power or 0)
    least = unit * 0.5000001 * 10.0 ** -len(mean.partition(".")[2])  # rounding
    wanted = unit * np.array([float(mean), float(half)])
    return any((np.abs(factor * known - wanted) <= least).all(axis=1).any() for factor in FACTORS)


def sections(page: str) -> Iterator[tuple[str, str, str]]:
    """(title, preset, text) of each, without a preset where it holds both; claims and verdicts are
    sentences.
    """
    for part in re.split(r"^## ", page, flags=re.MULTILINE):
        head, _, body = part.partition("\n")
        if head != "Claims":
            yield head, next((p for p in ("text", "as-run") if head.endswith(p)), ""), body


@pytest.mark.parametrize("csv", sorted(RESULTS.glob("*-20*.csv")), ids=lambda p: p.stem)
def test_every_figure_of_a_page_is_in_its_csv(csv):
    frame, page = pd.read_csv(csv), csv.with_suffix(".md").read_text()
    checked = 0
    for head, preset, text in sections(page):
        mine = frame[frame["preset"] == preset] if preset and "preset" in frame else frame
        lines = [line for line in text.splitlines() if line.startswith("|") and "**" not in line]
        shown = [f for line in lines for f in FIGURE.finditer(line)]
        if shown:
            known = known_intervals(mine, "makni" not in csv.stem, overlap_of(csv.stem, head))
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


def gain(frame: pd.DataFrame, method: str, over: str, value: str, overlap: float = 0.0) -> Interval:
    """Points by which a method is above another, paired by seed."""
    by = frame.pivot(index="seed", columns="method", values=value)
    return interval(list(100 * (by[method] - by[over])), overlap=overlap)


def plus_minus(found: Interval, digits: int = 1) -> str:
    return f"{abs(found.mean):.{digits}f} ± {found.half:.{digits}f}"


def decided(gains: list[Interval]) -> list[Interval]:
    return [g for g in gains if abs(g.mean) > g.half]


def titanic(preset: str) -> list[Interval]:
    """Weight Erosion over Global, for each of the four users."""
    frame = pd.read_csv(RESULTS / "grimberg-2020.csv")
    frame = frame[(frame["preset"] == preset) & frame["cell"].str.startswith("age-strict")]
    value = "accuracy" if preset == "text" else "accuracy_by_batches"
    return [gain(f, "weight-erosion", "global", value, HALVES) for _, f in frame.groupby("cell")]


def pens(preset: str, over: str) -> dict[str, Interval]:
    """PENS over another method, in small, for each number of clients and initialisation."""
    frame = pd.read_csv(RESULTS / "karlsson-2021-small.csv")
    frame[["setting", "method"]] = frame["cell"].str.split("/", expand=True)
    frame = frame[(frame["preset"] == preset) & frame["setting"].str.match("common|independent")]
    return {str(s): gain(f, "pens", over, "accuracy") for s, f in frame.groupby("setting")}


def on_titanic() -> list[str]:
    fair, ran = titanic("text"), titanic("as-run")
    assert (len(fair), len(decided(fair)), len(decided(ran))) == (4, 0, 1)
    least, most = min(fair), max(fair)
    assert least.mean < 0
    return [
        f"{min(g.mean for g in ran):.1f} to {max(g.mean for g in ran):.1f} points",
        f"between −{plus_minus(least)} and {plus_minus(most)}",
    ]


def on_pens() -> list[str]:
    both = [g for preset in ("text", "as-run") for g in pens(preset, "random").values()]
    oracle = [g for preset in ("text", "as-run") for g in pens(preset, "oracle").values()]
    above = [g for g in oracle if g.mean > 0]
    assert all(g.mean > 0 for g in both)
    assert not decided(above)
    return [
        f"above random averaging in the mean of all {len(both)} settings, by more than chance in "
        f"{len(decided(both))}, and above the oracle in {len(above)}, by no more than chance"
    ]


def on_pens_in_detail() -> list[str]:
    ran, oracle = pens("as-run", "random").values(), pens("as-run", "oracle").values()
    below = sorted(-g.mean for g in oracle if g.mean < 0)
    over = [g.mean for g in oracle if g.mean > 0]
    common = pens("text", "random")
    assert abs(common["common-32"].mean - 4.4) < 0.0501  # 4.45, which rounding may take either way
    assert (len(below), len(over), len(decided(list(ran))), len(decided(list(oracle)))) == (3, 1, 2, 2)
    return [
        f"by {min(g.mean for g in ran):.1f} to {max(g.mean for g in ran):.1f} points, decided in two",
        f"{below[0]:.1f} to {below[-1]:.1f} points below Oracle in three, decided in two",
        f"and {over[0]:.1f} above it in the fourth",
        f"PENS is {common['common-16'].mean:.1f} and 4.4 points above random",
        f"{pens('text', 'oracle')['common-32'].mean:.1f} points above Oracle",
    ]


def on_yang() -> list[str]:
    frame = pd.read_csv(RESULTS / "yang-2023-small.csv")
    frame[["data", "method"]] = frame["cell"].str.split("/", expand=True)
    found = [
        gain(f, m, "fedavg", "best").mean for _, f in frame.groupby("data") for m in ("fedkg", "fedunique")
    ]
    assert max(map(abs, found)) < 1
    return [f"({min(found):.1f} to +{max(found):.1f})"]


def on_gengler() -> list[str]:
    frame = pd.read_csv(RESULTS / "gengler-2020.csv")
    ran = frame[frame["preset"] == "as-run"]
    off = (100 * (ran["best"] - ran["table_ii"])).abs()
    text = frame[(frame["preset"] == "text") & (frame["cell"] == "B/100")]
    best = interval(list(100 * text[text["method"] == "weight-erosion"]["best"]))
    alone = gain(text, "weight-erosion", "local", "best")
    return [
        f"{int((off <= 0.6 + 1e-9).sum())} of {len(ran)} figures",
        f"{plus_minus(best, 2)} %",
        f"{plus_minus(alone, 2)}",
    ]


def on_gengler_in_detail() -> list[str]:
    frame = pd.read_csv(RESULTS / "gengler-2020.csv")
    text = frame[(frame["preset"] == "text") & (frame["cell"] == "B/100")]
    (literal,) = 100 * text[text["method"] == "weight-erosion-literal"]["best"]
    together = gain(text, "weight-erosion", "fedavg", "best")
    return [f"{plus_minus(together, 2)} points above federated averaging", f"{literal:.2f} %"]


def on_demo() -> list[str]:
    """Lines of README's table, by what is in backquotes."""
    frame = pd.read_csv(RESULTS / "demo.csv")
    lines = []
    for method, rows in frame.groupby("method", sort=False):
        cells = []
        for study in ("titanic", "digits"):
            mine = rows[rows["study"] == study].to_dict("records")
            if not mine:
                cells += ["", ""]
                continue
            (row,) = mine
            spread = "" if np.isnan(row["accuracy_half"]) else f" ± {100 * row['accuracy_half']:.1f}"
            cells.append(f"{100 * row['accuracy']:.1f}{spread}")
            gained = f"{100 * row['gain']:+.1f} ± {100 * row['gain_half']:.1f}".replace("-", "−")
            cells.append("" if method == "local" else gained)
        lines.append(f"`{method}`" + (") | " if method in WORDED else " | ") + " | ".join(cells).rstrip())
    return [" ".join(line.split()) for line in lines]


def test_verdicts_that_changed_are_those_of_the_page_now():
    """Each line names a claim of the page in fewer words, in its order, with the words that it now has."""
    now = iter(pages.verdicts((RESULTS / "grimberg-2020.md").read_text()))
    text = (RESULTS / "README.md").read_text().partition("## Judged again")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if "→" in line]
    assert len(lines) == 12
    for claim, *words in lines:
        start, end = claim[:12], [w.rpartition("→")[2].strip() for w in words]
        found = next((v for v in now if v[0].startswith(start) and v[1:] == end), None)
        assert found is not None, claim


WORDED = (
    "nothing",
    "local",
    "fedavg",
    "finetune",
    "partial",
    "ndoye",
    "central",
)  # named behind words of README's


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("../README.md", on_demo),
        ("../README.md", on_titanic),
        ("../README.md", on_pens),
        ("../README.md", on_gengler),
        ("results/README.md", on_titanic),
        ("results/README.md", on_pens_in_detail),
        ("results/README.md", on_yang),
        ("results/README.md", on_gengler),
        ("results/README.md", on_gengler_in_detail),
    ],
)
def test_sentences_with_figures_are_what_the_files_give(page, said):
    text = " ".join((DOCS / page).read_text().split())
    assert [phrase for phrase in said() if phrase not in text] == []
