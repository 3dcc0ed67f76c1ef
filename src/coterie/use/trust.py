"""How far what a model says of new rows may be trusted: a line for each row, and a few for all of them.

    refused       there is no prediction: a value cannot be read or cannot be, or nothing stands in for a gap
    filled        a missing value, and what was taken in its place
    outside       a value below or above all of the client's own training rows
    implausible   a value that a body rarely has, by the bounds of `coterie check`
    unseen        a category that none of the client's own training rows had
    apart         a column that as a whole does not look like training's (see `signs.py`)

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
from coterie.data.quality.ranges import Ranges
from coterie.data.tables.texts import some
from coterie.use.bounds import Bounds, bounds_of, figure
from coterie.use.signs import Sign, sign_of

Kind = Literal["filled", "outside", "implausible", "unseen", "apart"]
KINDS: dict[Kind, str] = {
    "filled": "missing values filled",
    "outside": "values outside training's range",
    "implausible": "values that are rarely seen",
    "unseen": "a category that no training row had",
    "apart": "a column that lies apart from training's",
}
USUAL, NOT_RECORDED, REFUSED = "as in training", "training's range is not recorded", "refused: "
FEW = 5  # skipped rows that a person is told on the screen


class Remark(NamedTuple):
    row: int
    kind: Kind
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
    remarks: tuple[Remark, ...] = ()
    signs: tuple[Sign, ...] = ()
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
            *(f"{self.named(rows)}: {KINDS[kind]}" for kind, rows in self.by_kind().items()),
        ]
        if not self.recorded:
            notes.append(f"{NOT_RECORDED} with this model, so rows are not held against it")
        skipped = [f"{self.word} {self.lines[i]} is skipped: {'; '.join(refused[i])}" for i in refused]
        if len(skipped) > FEW:
            more = len(skipped) - FEW
            verb = "is" if more == 1 else "are"
            skipped = [*skipped[:FEW], f"{more} more {verb} skipped: see trust in the table"]
        return [*notes, *skipped]

    def by_kind(self) -> dict[Kind, list[int]]:
        """{kind: its rows}, of those that are predicted."""
        refused, found = self.refused, dict[Kind, dict[int, None]]()
        for remark in self.remarks:
            if remark.row not in refused:
                found.setdefault(remark.kind, {})[remark.row] = None
        return {kind: sorted(found[kind]) for kind in KINDS if kind in found}

    def named(self, rows: Sequence[int]) -> str:
        """3 of 10 rows (lines 2, 5, 9), or all of them."""
        if len(rows) == len(self.lines) > 1:
            return f"all {len(rows)} rows"
        where = some([str(self.lines[i]) for i in rows])
        return f"{len(rows)} of {len(self.lines)} rows ({self.word} {where})"

    def summary(self) -> str:
        """In one line; empty where all rows are as in training."""
        found = [f"{len(rows)} with {KINDS[kind]}" for kind, rows in self.by_kind().items()]
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
        remarks, signs = list[Remark](), list[Sign]()
        for i, bounds in self.known.items():
            values = raw[:, i]
            name = bounds.column.name
            unread = [r.row for r in refusals if r.column in ("", name) and not np.isfinite(values[r.row])]
            sign = sign_of(bounds, np.delete(values, unread))
            remarks += self._remarks(bounds, values, hints=sign is None or not sign.of_unit)
            if sign is not None:
                signs.append(sign)
                if sign.mark:
                    remarks += [
                        Remark(int(r), "apart", sign.mark) for r in np.flatnonzero(np.isfinite(values))
                    ]
        return Trust(lines, word, tuple(refusals), tuple(remarks), tuple(signs), self.recorded)

    def _remarks(self, bounds: Bounds, values: Array, hints: bool) -> Iterator[Remark]:
        """Of one column; what another unit would make of a value is said with `hints`."""
        column, training, fill = bounds.column, bounds.training, bounds.part.fill
        if fill is not None:
            says = f"{column.name} missing, taken as {column.text(fill)}"
            yield from (Remark(int(row), "filled", says) for row in np.flatnonzero(np.isnan(values)))
        if training is not None and training.quantiles:
            span = f"training's {figure(training.lowest)} to {figure(training.highest)}"
            for row in outside(values, (training.lowest, training.highest)):
                value = float(values[row])
                side = "below" if value < training.lowest else "above"
                hint = bounds.in_another_unit(value) if hints else ""
                yield Remark(int(row), "outside", f"{bounds.written(value)} {side} {span}{hint}")
        elif training is not None:
            for row in np.flatnonzero(~np.isnan(values) & ~np.isin(values, training.codes)):
                text = column.text(float(values[row]))
                yield Remark(int(row), "unseen", f"{column.name} {text} in no training row")
        if bounds.body is not None:
            for row in outside(values, bounds.body.range.plausible):
                says = f"{bounds.written(float(values[row]))} rarely seen ({bounds.limits(possible=False)})"
                yield Remark(int(row), "implausible", says)


def outside(values: Array, span: tuple[float, float]) -> Array:
    """Rows whose value is below or above, as far as the model can tell numbers apart."""
    with np.errstate(over="ignore"):
        low, high, close = np.float32(span[0]), np.float32(span[1]), values.astype(np.float32)
    return np.flatnonzero(((close < low) | (close > high)) & np.isfinite(values))
