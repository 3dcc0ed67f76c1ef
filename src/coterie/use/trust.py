"""How far what a model says of new rows may be trusted: a line for each row, and a few for all of them.

    refused       there is no prediction: a value cannot be read or cannot be, or nothing stands in for a gap
    filled        a missing value, and what was taken in its place
    outside       a value below or above all of the client's own training rows
    implausible   a value that a body rarely has, by the bounds of `coterie check`
    unseen        a category that none of the client's own training rows had
    apart         a column that as a whole does not look like training's

A column's median is held against training's, in spreads s of training's rows (1.35 s lie between their
quartiles), on the scale of the logarithm where all values are above 0. It lies apart where the distance d is
large (d > 2) or it lies outside of training's range; it looks like another unit where a conversion brings
the medians together (below d / 3, and below 1.2 s). Nothing is converted: a person decides. Of one or two
rows nothing is said as a whole; each is held against training's range by itself.

Where training's range is not recorded, as in folders of earlier versions, that is said, and nothing else is
claimed of it. Values are compared in the model's precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from coterie.data.intake import Array
from coterie.data.preparation import Preparation
from coterie.data.quality.check import number, percent
from coterie.data.quality.ranges import Ranges
from coterie.data.quality.units import BETTER, CLOSE, FEWEST_ROWS, LOG, PLAIN, Scale, scale_of
from coterie.data.tables.names import Known
from coterie.data.tables.texts import some
from coterie.use.bounds import Bounds, bounds_of, unit_word, value_text

RemarkKind = Literal["filled", "outside", "implausible", "unseen", "apart"]
REMARKS: dict[RemarkKind, str] = {
    "filled": "missing values filled",
    "outside": "values outside training's range",
    "implausible": "values that are rarely seen",
    "unseen": "a category that no training row had",
    "apart": "a column that lies apart from training's",
}
USUAL, NOT_RECORDED, REFUSED = "as in training", "training's range is not recorded", "refused: "
FEW = 5  # skipped rows that a person is told on the screen


class _Remark(NamedTuple):
    row: int
    kind: RemarkKind
    says: str


class Refusal(NamedTuple):
    """Why a row gets no prediction: in a few words, and in a line that says where and what to do."""

    row: int
    column: str
    says: str
    line: str


@dataclass(frozen=True, eq=False)
class Trust:
    """Of the rows at `lines`, which are called by `word`; `recorded` where training's ranges are known."""

    lines: Sequence[int]
    word: str = "row"
    refusals: tuple[Refusal, ...] = ()
    remarks: tuple[_Remark, ...] = ()
    signs: tuple[_Sign, ...] = ()
    recorded: bool = True

    @cached_property
    def refused(self) -> dict[int, list[str]]:
        """{row: why}, in the order of rows."""
        found = dict[int, list[str]]()
        for refusal in sorted(self.refusals, key=lambda r: r.row):
            found.setdefault(refusal.row, []).append(refusal.says)
        return found

    def texts(self) -> list[str]:
        """[row] all that there is to say of it."""
        found = dict[int, list[str]]()
        for remark in self.remarks:
            found.setdefault(remark.row, []).append(remark.says)
        texts = [USUAL if self.recorded else NOT_RECORDED] * len(self.lines)
        for row, said in found.items():
            texts[row] = "; ".join(said if self.recorded else [*said, NOT_RECORDED])
        for row, why in self.refused.items():
            texts[row] = REFUSED + "; ".join(why)
        return texts

    def notes(self) -> list[str]:
        """For the screen: columns, how many rows of each kind, and the first that are skipped."""
        refused = self.refused
        notes = [
            *(sign.says for sign in self.signs),
            *(f"{self.named(rows)}: {REMARKS[kind]}" for kind, rows in self.by_kind().items()),
        ]
        if not self.recorded:
            notes.append(f"{NOT_RECORDED} with this model, so rows are not held against it")
        skipped = [f"{self.word} {self.lines[i]} is skipped: {'; '.join(refused[i])}" for i in refused]
        if len(skipped) > FEW:
            more = len(skipped) - FEW
            verb = "is" if more == 1 else "are"
            skipped = [*skipped[:FEW], f"{more} more {verb} skipped: see trust in the table"]
        return [*notes, *skipped]

    def by_kind(self) -> dict[RemarkKind, list[int]]:
        """{kind: its rows}, of those that are predicted."""
        refused, found = self.refused, dict[RemarkKind, dict[int, None]]()
        for remark in self.remarks:
            if remark.row not in refused:
                found.setdefault(remark.kind, {})[remark.row] = None
        return {kind: sorted(found[kind]) for kind in REMARKS if kind in found}

    def named(self, rows: Sequence[int]) -> str:
        """3 of 10 rows (lines 2, 5, 9), or all of them."""
        if len(rows) == len(self.lines) > 1:
            return f"all {len(rows)} rows"
        where = some([str(self.lines[i]) for i in rows])
        return f"{len(rows)} of {len(self.lines)} rows ({self.word} {where})"

    def summary(self) -> str:
        """In one line; empty where all rows are as in training."""
        found = [f"{len(rows)} with {REMARKS[kind]}" for kind, rows in self.by_kind().items()]
        return ", ".join([f"{len(self.refused)} refused"] * bool(self.refusals) + found)


@dataclass(frozen=True, eq=False)
class Judge:
    """Holds rows against a client's preparation, with the bounds of `ranges`."""

    way: Preparation
    ranges: Ranges
    known: Mapping[int, Bounds] = field(init=False)

    def __post_init__(self) -> None:
        read = {i: bounds_of(p, self.ranges) for i, p in enumerate(self.way.parts) if p.read}
        object.__setattr__(self, "known", read)

    @property
    def recorded(self) -> bool:
        return all(b.training is not None for b in self.known.values())

    def impossible(self, raw: Array) -> Iterator[tuple[int, str, str]]:
        """(row, column, what is wrong) of values that cannot be."""
        for i, bounds in self.known.items():
            if bounds.body is not None:
                for row in outside(raw[:, i], bounds.body.range.possible):
                    value = float(raw[row, i])
                    hint = bounds.in_another_unit(value)
                    says = f"{bounds.written(value)} cannot be ({bounds.limits(possible=True)}{hint})"
                    yield int(row), bounds.column.name, says

    def trust(self, raw: Array, lines: Sequence[int], word: str, refusals: Sequence[Refusal]) -> Trust:
        """`raw` [row, column] holds NaN for what is missing or could not be read."""
        remarks, signs = list[_Remark](), list[_Sign]()
        for i, bounds in self.known.items():
            values = raw[:, i]
            name = bounds.column.name
            unread = [r.row for r in refusals if r.column in ("", name) and not np.isfinite(values[r.row])]
            sign = _sign_of(bounds, np.delete(values, unread))
            remarks += self._remarks(bounds, values, hints=sign is None or not sign.of_unit)
            if sign is not None:
                signs.append(sign)
                if sign.mark:
                    remarks += [
                        _Remark(int(r), "apart", sign.mark) for r in np.flatnonzero(np.isfinite(values))
                    ]
        return Trust(lines, word, tuple(refusals), tuple(remarks), tuple(signs), self.recorded)

    def _remarks(self, bounds: Bounds, values: Array, hints: bool) -> Iterator[_Remark]:
        """Of one column; what another unit would make of a value is said with `hints`."""
        column, training, fill = bounds.column, bounds.training, bounds.part.fill
        if fill is not None:
            says = f"{column.name} missing, taken as {column.text(fill)}"
            yield from (_Remark(int(row), "filled", says) for row in np.flatnonzero(np.isnan(values)))
        if training is not None and training.quantiles:
            span = (
                f"training's {value_text(column, training.lowest)} to {value_text(column, training.highest)}"
            )
            for row in outside(values, (training.lowest, training.highest)):
                value = float(values[row])
                side = "below" if value < training.lowest else "above"
                hint = bounds.in_another_unit(value) if hints else ""
                yield _Remark(int(row), "outside", f"{bounds.written(value)} {side} {span}{hint}")
        elif training is not None:
            for row in np.flatnonzero(~np.isnan(values) & ~np.isin(values, training.codes)):
                text = column.text(float(values[row]))
                yield _Remark(int(row), "unseen", f"{column.name} {text} in no training row")
        if bounds.body is not None:
            for row in outside(values, bounds.body.range.plausible):
                says = f"{bounds.written(float(values[row]))} rarely seen ({bounds.limits(possible=False)})"
                yield _Remark(int(row), "implausible", says)


def outside(values: Array, span: tuple[float, float]) -> Array:
    """Rows whose value is below or above, as far as the model can tell numbers apart."""
    with np.errstate(over="ignore"):
        low, high, close = np.float32(span[0]), np.float32(span[1]), values.astype(np.float32)
    return np.flatnonzero(((close < low) | (close > high)) & np.isfinite(values))


# a column as a whole


APART = 2.0  # spreads between training's rows and new ones
BETWEEN_QUARTILES = 1.349  # spreads


class _Sign(NamedTuple):
    """Of one column: what is said once, what each row with a value in it gets, and whether it is a unit."""

    says: str
    mark: str = ""
    of_unit: bool = False


def _sign_of(bounds: Bounds, values: Array) -> _Sign | None:
    known = values[np.isfinite(values)]
    if 2 * len(known) <= len(values):
        return _sign_of_gaps(bounds, len(known), len(values))
    training = bounds.training
    if len(known) < FEWEST_ROWS or not bounds.column.scaled or training is None or not training.quantiles:
        return None
    before = _distance(bounds, known, PLAIN if min(known.min(), training.lowest) <= 0 else LOG)
    if before <= APART and training.lowest <= np.median(known) <= training.highest:
        return None
    if (sign := _sign_of_unit(bounds, known)) is not None:
        return sign
    return _Sign(
        f"{_against(bounds, float(np.median(known)))}: another unit, or other patients?",
        f"{bounds.column.name} apart from training as a whole column",
    )


def _sign_of_gaps(bounds: Bounds, known: int, rows: int) -> _Sign | None:
    """Of a column with a value in no row, or in at most half of them, where training had more."""
    name, fill, training = bounds.column.name, bounds.part.fill, bounds.training
    taken = "" if fill is None else f": taken as {bounds.column.text(fill)}"
    if not known:
        where = "the row" if rows == 1 else f"any of {rows} rows"
        return _Sign(f"{name} has no value in {where}{taken}")
    share = 1 - known / rows
    if training is None or training.missing > share / 2:
        return None
    usual = percent(training.missing)
    return _Sign(f"{name} is missing in {rows - known} of {rows} rows, in training in {usual}{taken}")


def _sign_of_unit(bounds: Bounds, known: Array) -> _Sign | None:
    """Of a column that lies as training's did once it is converted from another unit."""
    tried = list[tuple[float, Known]]()
    for unit in bounds.units:
        scale, converted = scale_of(unit.by), unit.by.factor * known + unit.by.offset
        before, after = (_distance(bounds, values, scale) for values in (known, converted))
        if after < CLOSE and after < BETTER * before:
            tried.append((after, unit))
    if not tried:
        return None
    _, unit = min(tried, key=lambda pair: pair[0])
    word, median = unit_word(unit.there), float(np.median(known))
    then = f"{unit.by(median):.4g} {unit.here}"
    return _Sign(
        f"{_against(bounds, median)}: in {word}? That would be {then}: if so, convert the column",
        f"{bounds.column.name} in {word}, by the whole column?",
        of_unit=True,
    )


def _against(bounds: Bounds, median: float) -> str:
    """A column's median and training's, and how many times as much it is."""
    training = bounds.training
    assert training is not None
    times = median / training.median if min(median, training.median) > 0 else 0.0
    ratio = f", {number(float(f'{times:.2g}'))} times as much" if times else ""
    return f"{bounds.column.name} has a median of {median:.4g}, training's is {training.median:.4g}{ratio}"


def _distance(bounds: Bounds, values: Array, scale: Scale) -> float:
    """Of the median of values from training's, in spreads of the latter; infinite without a logarithm, and 0
    where half of training's values are one: then its range alone tells.
    """
    assert bounds.training is not None
    levels = np.array([*bounds.training.quantiles[1:4], np.median(values)])
    if scale is LOG and levels.min() <= 0:
        return float("inf")
    low, middle, high, median = scale.of(levels)
    spread, apart = float(high - low) / BETWEEN_QUARTILES, float(abs(median - middle))
    return apart / spread if spread else 0.0
