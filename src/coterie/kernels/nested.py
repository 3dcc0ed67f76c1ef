"""Local work as people write it: "sgd", or work around work, "dp(sgd)", with options for each name.

    kernel = "dp(sgd)"
    [dp]
    sigma = 1.1
    [sgd]
    lr = 0.5

Work that goes around other work and stands alone is around what it would have by default: "dp" is "dp(sgd)".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from coterie.core.errors import BadInput, Gathered, naming_flags_of, shown
from coterie.core.facts import called
from coterie.core.kernel import WORK, Trainer
from coterie.core.options import coerced, table_of
from coterie.kernels.around import Around


def names_in(text: str) -> tuple[str, ...]:
    """The names in "dp(sgd)", the outermost first; what is left open is filled in."""
    found = [name.strip() for name in text.rstrip(") ").split("(")]
    if text.count(")") != len(found) - 1 or (len(found) > 1 and not all(found)):
        inside = [name for name in re.split(r"[()\s]+", text) if name]
        raise BadInput(f"kernel {shown(text)}: brackets do not match: write {spelled(inside) or 'dp(sgd)'}")
    around = [name for name in WORK if _goes_around(name)]
    for outer, inner in pairwise(found):
        if not _goes_around(outer):
            said = f"kernel {shown(text)}: {outer} goes around nothing, {' and '.join(around)} do"
            raise BadInput(f"{said}: write {inner}, or {around[-1]}({outer})")
    if _goes_around(found[-1]):
        usual = next(f.default for f in dataclasses.fields(WORK[found[-1]]) if f.name == "inner")
        found.append(called(usual))
    return tuple(found)


def spelled(names: Sequence[str]) -> str:
    """The inverse of `names_in`."""
    return "(".join(names) + ")" * (len(names) - 1)


def _goes_around(name: str) -> bool:
    return issubclass(WORK[name], Around)


def made(text: str, options: Mapping[str, Mapping[str, Any]]) -> Trainer:
    """The work with its options, one table for each name; all that is wrong with them is said at once."""
    names, wrong, values = names_in(text), Gathered(), dict[str, dict[str, Any]]()
    for name in names:
        with wrong.one():
            values[name] = coerced(WORK[name], options.get(name, {}), f"kernel {name}")
    wrong.refuse()
    work: Any = None
    for name in reversed(names):
        with naming_flags_of(work, WORK[name]):
            work = WORK[name](**values[name], **({} if work is None else {"inner": work}))
    found: Trainer = work
    return found


def tables_of(work: Any) -> tuple[str, dict[str, dict[str, Any]]]:
    """How work is spelled, and by each name in it its options."""
    names, tables = list[str](), dict[str, dict[str, Any]]()
    while True:
        name = called(work)
        names.append(name)
        tables[name] = {option: v for option, v in table_of(work).items() if not isinstance(v, Mapping)}
        if not isinstance(work, Around):
            return spelled(names), tables
        work = work.inner
