"""What a table must be once its cells are read: types, allowed values, bounds, no target missing.

pandera checks the whole table against a schema made from the recipe, and tells every cell that does not fit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from coterie.data.intake import Array
from coterie.data.tables.rules import Rule
from coterie.data.tables.texts import plain


def schema_of(rules: Sequence[Rule], needed: Collection[str] = ()) -> Any:
    """What a tidy table must be: types, allowed values and bounds; a target is `needed` in every row."""
    import pandera.pandas as pa

    columns = {}
    for rule in rules:
        need = plain(rule.name) not in map(plain, needed)
        if rule.use in ("number", "date"):
            bounds = [pa.Check.ge(rule.lowest)] if rule.lowest is not None else []
            bounds += [pa.Check.le(rule.highest)] if rule.highest is not None else []
            columns[rule.name] = pa.Column(float, bounds, nullable=need)
        else:
            columns[rule.name] = pa.Column(None, pa.Check.isin(rule.values), nullable=need)
    return pa.DataFrameSchema(columns)


def failures(schema: Any, tidy: Mapping[str, Array]) -> list[tuple[str, str, int]]:
    """[(column, check, row)] of the cells that do not fit."""
    import pandas as pd
    import pandera.errors as pe

    if not tidy:
        return []
    frame = pd.DataFrame({n: pd.Series(c, dtype=c.dtype) for n, c in tidy.items()})
    try:
        schema.validate(frame, lazy=True)
    except pe.SchemaErrors as error:
        cases = error.failure_cases
        cases = cases[cases["index"].notna()]
        return [
            (str(column), str(check), int(row))
            for column, check, row in zip(cases["column"], cases["check"], cases["index"], strict=True)
        ]
    return []
