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
    mean, half, seeds, *_ = interval(values, overlap=overlap)
    if seeds < 2:
        return _without_interval(mean, seeds, digits)
    word: Word = "holds" if mean - half > 0 else "fails" if mean + half < 0 else "undecided"
    return Verdict(word, _number(mean, half, digits))


def near_zero(values: Sequence[float], margin: float, digits: int = 1, overlap: float = 0.0) -> Verdict:
    """The mean lies within the margin around zero; outside of it the claim fails."""
    mean, half, seeds, *_ = interval(values, overlap=overlap)
    if seeds < 2:
        return _without_interval(mean, seeds, digits)
    low, high = mean - half, mean + half
    inside, outside = -margin < low and high < margin, low > margin or high < -margin
    word: Word = "holds" if inside else "fails" if outside else "undecided"
    return Verdict(word, _number(mean, half, digits))


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


def _without_interval(mean: float, seeds: int, digits: int) -> Verdict:
    return Verdict("undecided", f"{mean:+.{digits}f}, one seed" if seeds else "not run")


def _number(mean: float, half: float, digits: int) -> str:
    return f"{mean:+.{digits}f} ± {half:.{digits}f}"


def _listed(parts: Mapping[str, Verdict]) -> str:
    return "; ".join(f"{name} {v.why}" for name, v in parts.items()) or "not run"
