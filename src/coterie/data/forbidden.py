"""Columns that no model may be trained on (forbid), and columns that every client must record (require).

People name a column as their table does. Whatever it becomes goes with it: all inputs of a category, and
what a source made of it beforehand. The rows stay where they are, and a split may still go by the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from coterie.core.errors import BadInput, Gathered, UnknownName
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.base import Deal
from coterie.data.tables.texts import plain
from coterie.data.tabular import TabularPrepare

NO_COLUMNS = "are not columns that have names: leave forbid and require out"


def check_asked(forbid: Iterable[str], require: Iterable[str]) -> None:
    """What can be seen before any data is."""
    keys = {plain(name) for name in forbid}
    for name in require:
        if plain(name) in keys:
            raise BadInput(f"column {name!r} is forbidden and required: name it in forbid or in require")


def _origins(data: Dataset) -> list[tuple[str, ...]]:
    """[column of x] the columns of the table that it is made of; refused where inputs have no names."""
    if isinstance(data.prepare, TabularPrepare):
        return [(column.name,) for column in data.prepare.columns]
    if data.prepare is not None or not data.features or data.train.x.shape[1:] != (len(data.features),):
        raise BadInput(f"inputs of {data.name} {NO_COLUMNS}")
    return list(data.made_of) or [(name,) for name in data.features]


def inputs_of(data: Dataset) -> tuple[str, ...]:
    """The columns that inputs are made of, each once; none where inputs have no names."""
    try:
        return tuple(dict.fromkeys(raw for origin in _origins(data) for raw in origin))
    except BadInput:
        return ()


def check_columns(data: Dataset, forbid: Sequence[str], require: Sequence[str], whose: str) -> None:
    """Refuses names that are no columns, or columns that are for something else; all at once. `whose` is the
    column that tells clients apart.
    """
    wrong, inputs = Gathered(), {plain(raw): raw for origin in _origins(data) for raw in origin}
    apart, unused = _kept_apart(data, whose), _names_in(data).keys() - inputs
    for what, names in (("forbid", forbid), ("require", require)):
        for name in names:
            key = plain(name)
            if key in apart and key not in inputs:
                wrong.add(f"column {name!r} {apart[key]}, and is never an input: leave it out of {what}")
            elif key in unused and what == "require":
                wrong.add(f"column {name!r} is no input, so that no model needs it: leave it out of require")
            elif key not in inputs and key not in unused:
                with wrong.one():
                    raise UnknownName(f"column of {data.name}", name, inputs.values())
    wrong.refuse()


def _kept_apart(data: Dataset, whose: str) -> dict[str, str]:
    """{column: what it is for}, of those that are for something else than to learn from."""
    recipe, uses = data.recipe, dict[str, str]()
    if recipe is not None:
        uses |= {recipe.target: "is what is predicted", recipe.event: "says whether the event was seen"}
        uses |= {recipe.site: "says whose a row is"}
    uses |= dict.fromkeys((data.silos, whose), "says whose a row is")
    uses |= dict.fromkeys(data.together, "says whom a row is about")
    return {plain(name): use for name, use in uses.items() if name}


def _names_in(data: Dataset) -> dict[str, str]:
    """{column: as it is written}, of all that the data has, whether models see them or not."""
    rules = () if data.recipe is None else (rule.name for rule in data.recipe.rules)
    inputs = (raw for origin in _origins(data) for raw in origin)
    return {plain(name): name for name in (*(data.train.columns or ()), *rules, *inputs)}


def without(data: Dataset, forbid: Sequence[str]) -> Dataset:
    """The data without what these columns become; names that it does not have change nothing."""
    if not forbid:
        return data
    keys, made_of = {plain(name) for name in forbid}, _origins(data)
    wrong = Gathered()
    for rule in () if data.recipe is None else data.recipe.inputs:
        if rule.kind.counted and plain(rule.since) in keys and plain(rule.name) not in keys:
            said = f"column {rule.name!r} is counted since {rule.since!r}, which is forbidden"
            wrong.add(f"{said}: forbid both")  # the date would tell of it
    wrong.refuse()
    kept = [i for i, origin in enumerate(made_of) if keys.isdisjoint(map(plain, origin))]
    if not kept:
        raise BadInput(f"forbidding {', '.join(forbid)} leaves {data.name} no input: forbid fewer columns")
    recipe = data.recipe and data.recipe.forgetting(forbid)
    return replace(with_inputs(data, kept), recipe=recipe)


def with_inputs(data: Dataset, kept: Sequence[int]) -> Dataset:
    """The data with these columns of x alone."""
    x = (np.ascontiguousarray(pool.x[:, kept]) for pool in data.pools)
    train, *test = (Arrays(values, pool.y, pool.columns) for values, pool in zip(x, data.pools, strict=True))
    data = replace(data, train=train, test=test[0] if test else None)
    if isinstance(data.prepare, TabularPrepare):
        prepare = replace(data.prepare, columns=tuple(data.prepare.columns[i] for i in kept))
        return replace(data, prepare=prepare, features=prepare.features)
    made_of = tuple(data.made_of[i] for i in kept) if data.made_of else ()
    return replace(data, features=tuple(data.features[i] for i in kept), made_of=made_of)


def forbidden_notes(data: Dataset, forbid: Iterable[str]) -> tuple[str, ...]:
    """For the record, of the data as it was before."""
    names = [_names_in(data).get(plain(name), name) for name in forbid]
    made = list(zip(data.features, data.made_of, strict=True)) if data.made_of else []
    others = {name: [f for f, origin in made if name in origin and f != name] for name in names}
    return tuple(forbidden_note(name, features) for name, features in others.items())


def forbidden_note(name: str, made: Sequence[str] = ()) -> str:
    """`made` are inputs of other names that go with it."""
    more = f", nor is what is made of it: {', '.join(made)}" if made else ""
    return f"column {name} is forbidden: it is no input of any model{more}"


# who records a column


def _values_of(data: Dataset, pool: Arrays, name: str) -> Array:
    """[row] of a column; as the table has it, where inputs are made of several."""
    raw = {plain(column): values for column, values in (pool.columns or {}).items()}
    if data.made_of and plain(name) in raw:
        return raw[plain(name)]
    return np.asarray(pool.x[:, [plain(origin[0]) for origin in _origins(data)].index(plain(name))])


def _known(values: Array) -> bool:
    """Whether any is there: neither None nor NaN."""
    return any(value is not None and value == value for value in values.tolist())


def recording(
    data: Dataset, deal: Deal, published: Deal | None, require: Sequence[str]
) -> tuple[Deal, Deal | None, tuple[str, ...]]:
    """Only the clients that record what is required, and a note on the others."""
    lacks = dict[str, tuple[str, ...]]()
    for number, name in enumerate(deal.names):
        pools = [data.train.take(np.flatnonzero(deal.owner == number))]
        if data.test is not None and published is not None:
            pools.append(data.test.take(np.flatnonzero(published.owner == number)))
        lacks[name] = tuple(c for c in require if not any(_known(_values_of(data, p, c)) for p in pools))
    kept = [i for i, name in enumerate(deal.names) if not lacks[name]]
    if len(kept) == len(deal.names):
        return deal, published, ()
    if len(kept) < 2:
        columns = ", ".join(require)
        raise BadInput(
            f"{len(kept)} of {len(deal.names)} clients record {columns}, at least 2 are needed: require less"
        )
    why = dict[tuple[str, ...], list[str]]()
    for name, columns_gone in lacks.items():
        why.setdefault(columns_gone, []).append(name)
    why.pop((), None)
    notes = tuple(
        f"clients left out, as they do not record {', '.join(columns)}: {', '.join(names)}"
        for columns, names in why.items()
    )
    return _narrower(deal, kept), published and _narrower(published, kept), notes


def _narrower(deal: Deal, kept: Sequence[int]) -> Deal:
    """With these clients alone, numbered anew; rows of the others are nobody's."""
    numbers = np.full(len(deal.names) + 1, -1, dtype=np.int64)  # the last is for rows that are nobody's, -1
    numbers[list(kept)] = np.arange(len(kept))
    return replace(
        deal,
        owner=numbers[deal.owner],
        names=tuple(deal.names[i] for i in kept),
        clusters=deal.clusters and tuple(deal.clusters[i] for i in kept),
        turns=deal.turns and tuple(deal.turns[i] for i in kept),
    )
