"""Columns that a run forbids or requires, held against what sites say of theirs.

Sites leave a forbidden column out themselves, before they make inputs (`Holding.without`); a site that does
not would have a column that is not common, and is refused. Who records nothing of a required column takes no
part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coterie.core.errors import BadInput, Gathered, UnknownName
from coterie.data.columns import NO_COLUMNS
from coterie.data.tables.texts import plain
from coterie.federation.told import Hello


def check_columns(hellos: Mapping[str, Hello], forbid: Sequence[str], require: Sequence[str]) -> None:
    """Refuses names that are no column of any site, all at once."""
    if not forbid and not require:
        return
    wrong, told = Gathered(), [hello.common for hello in hellos.values()]
    known = {plain(column.name): column.name for common in told for column in common.columns}
    goals = {goal for common in told for goal in plain(common.target).split(" until ")}
    if not known:
        raise BadInput(f"inputs of the sites {NO_COLUMNS}")
    for name in (*forbid, *require):
        if plain(name) in known:
            continue
        if plain(name) in goals:
            wrong.add(f"column {name!r} is what is predicted, and is never an input: leave it out")
        else:
            with wrong.one():
                raise UnknownName("column of the sites", name, known.values())
    if known.keys() <= set(map(plain, forbid)):
        wrong.add(f"forbidding {', '.join(forbid)} leaves the sites no input: forbid fewer columns")
    wrong.refuse()


def without(hello: Hello, forbid: Sequence[str]) -> Hello:
    """As a site would say it that has none of these columns."""
    keys = set(map(plain, forbid))
    columns = tuple(c for c in hello.common.columns if plain(c.name) not in keys)
    absent = frozenset(name for name in hello.absent if plain(name) not in keys)
    return replace(hello, common=replace(hello.common, columns=columns), absent=absent)


def unrecorded(hello: Hello, require: Sequence[str]) -> str:
    """Why a site takes no part, if it has no value of a required column."""
    has = {plain(c.name) for c in hello.common.columns if c.name not in hello.absent}
    gone = [name for name in require if plain(name) not in has]
    return f"it does not record {', '.join(gone)}, which is required" if gone else ""
