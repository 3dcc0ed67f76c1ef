"""What a paper claims, checked: holds, fails, or undecided at this number of seeds.

A claim is put as numbers that must lie above zero (or near it), one for each seed. Their mean has a 95 %
interval over seeds: wholly on the right side the claim holds, wholly on the wrong side it fails, and else, as
with one seed, which has no interval, it is undecided. Where seeds split the same rows anew, `overlap`
corrects the interval for the rows they share; where test rows are the same for all, it is Student's t and
does not cover which test rows there are (`metrics/summary.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from coterie.metrics.summary import interval

R = TypeVar("R")
Word = Literal["holds", "fails", "undecided"]


class Verdict(NamedTuple):
    """`why` gives the numbers."""

    word: Word
    why: str


@dataclass(frozen=True)
class Claim(Generic[R]):
    """`text` in our words, `place` in the paper; `check` looks at all results of one preset."""

    text: str
    place: str
    check: Callable[[R], Verdict]


def above_zero(values: Sequence[float], digits: int = 1, overlap: float = 0.0) -> Verdict:
    """The mean lies above zero."""
    return _judged(values, digits, overlap, lambda low, high: (low > 0, high < 0))


def near_zero(values: Sequence[float], margin: float, digits: int = 1, overlap: float = 0.0) -> Verdict:
    """The mean lies within the margin around zero; outside of it the claim fails."""

    def sides(low: float, high: float) -> tuple[bool, bool]:
        return -margin < low and high < margin, low > margin or high < -margin

    return _judged(values, digits, overlap, sides)


def _judged(
    values: Sequence[float],
    digits: int,
    overlap: float,
    sides: Callable[[float, float], tuple[bool, bool]],
) -> Verdict:
    """`sides` says of the ends of an interval whether it holds, and whether it fails."""
    mean, half, seeds, *_ = interval(values, overlap=overlap)
    if seeds < 2:
        return Verdict("undecided", f"{mean:+.{digits}f}, one seed" if seeds else "not run")
    holds, fails = sides(mean - half, mean + half)
    word: Word = "holds" if holds else "fails" if fails else "undecided"
    return Verdict(word, f"{mean:+.{digits}f} ± {half:.{digits}f}")


def every(parts: Mapping[str, Verdict]) -> Verdict:
    """All parts hold; one that fails is enough to fail."""
    words = [v.word for v in parts.values()]
    word: Word = "fails" if "fails" in words else "undecided" if "undecided" in words else "holds"
    return Verdict(word if words else "undecided", _listed(parts))


def some(parts: Mapping[str, Verdict]) -> Verdict:
    """One part that holds is enough; if all fail, the claim does. Named are the parts that decide."""
    words = [v.word for v in parts.values()]
    word: Word = "holds" if "holds" in words else "undecided" if "undecided" in words else "fails"
    deciding = {name: v for name, v in parts.items() if v.word == word}
    return Verdict(word if words else "undecided", _listed(deciding))


def _listed(parts: Mapping[str, Verdict]) -> str:
    return "; ".join(f"{name} {v.why}" for name, v in parts.items()) or "not run"
