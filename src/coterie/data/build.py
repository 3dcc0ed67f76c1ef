"""From a source and a split to clients: deal, set test rows aside, prepare each client by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from coterie.core.client import Client, in_one_piece
from coterie.core.errors import BadData, BadInput, Gathered, naming_flags_of
from coterie.core.seeds import Key
from coterie.data.clients import samples
from coterie.data.columns import (
    check_asked,
    check_columns,
    forbidden_notes,
    inputs_of,
    recording,
    with_inputs,
    without,
)
from coterie.data.dataset import Arrays, Dataset, FitsTogether, Prepare
from coterie.data.fit_together import check_clients
from coterie.data.holdout import hold_out_last, hold_out_whole
from coterie.data.intake import Array
from coterie.data.partition.base import Deal, Split
from coterie.data.partition.silos import Silos
from coterie.data.partition.turns import TURNS
from coterie.data.preparation import Preparation
from coterie.data.tabular import TabularPrepare

if TYPE_CHECKING:
    from coterie.data.tables.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Dealt:
    """Clients, and everything worth saying of how they came to their data; `published` where test rows are
    shares of a published test set. `chosen` are those of the notes that say what was forbidden and required;
    `columns` are those that inputs are made of, by their names in the table.
    """

    clients: tuple[Client, ...]
    notes: tuple[str, ...]
    recipe: Recipe | None = None
    published: bool = False
    chosen: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def deal_clients(
    data: Dataset,
    split: Split,
    clients: int | None,
    key: Key,
    *,
    test: float = 0.3,
    validation: float = 0.0,
    one_class: bool = False,
    forbid: Sequence[str] = (),
    require: Sequence[str] = (),
) -> Dealt:
    """Every row goes to at most one client, and there either to training, validation or testing.

    Where the source has a published test set it is dealt by the same split, so that each client is tested
    on its own distribution; else each client sets aside `test` of its rows. What preparing fits, it fits
    on the client's training rows. Columns of `forbid` are no inputs; clients that record nothing of a column
    of `require` take no part.
    """
    check_asked(forbid, require)
    if clients is not None and clients < 1:
        raise BadInput(f"clients={clients} must be at least 1: try 10")
    if not 0 <= validation < 1:
        raise BadInput(f"validation={validation} must lie in [0, 1): try 0.2, or 0 for none")
    data = apart_from_split(data, split)
    with naming_flags_of(split):
        deal = split.deal(data, data.train, clients, key)
        published = None if data.test is None else split.deal(data, data.test, len(deal.names), key)
    data, chosen = as_dealt(data, deal, published), tuple[str, ...]()
    if forbid or require:
        check_columns(data, forbid, require, _silo(data, split))
        chosen, data = forbidden_notes(data, forbid), without(data, forbid)
        deal, published, left = recording(data, deal, published, require)
        chosen += left
    dealt, wrong = list[list[Arrays]](), Gathered()
    for i, name in enumerate(deal.names):
        rows, held = np.flatnonzero(deal.owner == i), None
        if published is not None and data.test is not None:
            held = data.test.take(np.flatnonzero(published.owner == i))
        with wrong.one():
            pools = parted(data, rows, held, test, validation, key, i, f"client {name!r}")
            dealt.append([turned(pool, deal, i) for pool in pools])
        if wrong.found and not 0 < test < 1:  # which is the same for all
            break
    wrong.refuse()  # all that have too few rows at once
    ways = _ways(data, dealt, deal.names)
    clusters = deal.clusters or [None] * len(ways)
    made = [
        client_of(data, name, way, pools, cluster)
        for name, way, pools, cluster in zip(deal.names, ways, dealt, clusters, strict=True)
    ]
    said = check_clients(made, allow_one_class=one_class or deal.one_class or data.one_class)
    in_one_piece(made)
    notes = [*data.notes, *chosen, *deal.notes, *_left_over("rows", deal.owner)]
    if published is not None:
        notes += [n for n in published.notes if n not in deal.notes]
        notes += _left_over("published test rows", published.owner)
    else:
        last = "the last " if deal.order is not None else ""
        notes.append(f"each client holds out {last}{test:g} of its rows for testing")
    recipe, test_set = data.recipe, published is not None
    return Dealt(tuple(made), (*notes, *said), recipe, test_set, chosen, inputs_of(data))


def parted(
    data: Dataset,
    rows: Array,
    held: Arrays | None,
    test: float,
    validation: float,
    key: Key,
    number: int,
    whose: str,
) -> list[Arrays]:
    """A client's rows for training, validation and testing, drawn by its number among the clients; `held` is
    its share of a published test set, where there is one.
    """
    kept, aside, out = parted_rows(data, rows, held is not None, test, validation, key, number, whose)
    return [data.train.take(kept), data.train.take(aside), data.train.take(out) if held is None else held]


def parted_rows(
    data: Dataset,
    rows: Array,
    published: bool,
    test: float,
    validation: float,
    key: Key,
    number: int,
    whose: str,
) -> tuple[Array, Array, Array]:
    """Which rows these are; none for testing where a published set is for that.

    Nothing here depends on what other clients have, so that each can do it where its rows are.
    """
    units, out = units_of(data.train, data.together, rows), rows[:0]
    if not published:
        if data.order is not None:
            keep, held = hold_out_last(data.order[rows], units, test, whose)
        else:
            rng = key.at("test", number).numpy()
            keep, held = hold_out_whole(data.train.y[rows], units, test, rng, whose)
        out, rows, units = rows[held], rows[keep], units[keep]
    kept, aside = rows, rows[:0]
    if validation:
        if data.order is not None:
            keep, held = hold_out_last(data.order[rows], units, validation, whose)
        else:
            rng = key.at("validation", number).numpy()
            keep, held = hold_out_whole(data.train.y[rows], units, validation, rng, whose)
        kept, aside = rows[keep], rows[held]
    return kept, aside, out


def as_dealt(data: Dataset, deal: Deal, published: Deal | None) -> Dataset:
    """The data as the split changes it for its clients, and in the order that it says."""
    train = data.train if deal.rows is None else deal.rows
    test = data.test if published is None or published.rows is None else published.rows
    return replace(data, train=train, test=test, order=deal.order)


def turned(pool: Arrays, deal: Deal, number: int) -> Arrays:
    """Pictures as the split turns them for this client."""
    if deal.turns is None:
        return pool
    return Arrays(TURNS[deal.turns[number]](pool.x), pool.y, pool.columns)


def units_of(pool: Arrays, together: Sequence[str], rows: Array) -> Array:
    """[row] a number for whom it is about; rows that do not say are about somebody each."""
    columns = pool.columns or {}
    names = list(zip(*(columns[c][rows].tolist() for c in together), strict=True)) if together else []
    seen = dict[tuple[object, ...], int]()
    told = (
        seen.setdefault(name, i) if any(v is not None for v in name) else i for i, name in enumerate(names)
    )
    return np.fromiter(told, dtype=np.int64) if names else np.arange(len(rows))


def apart_from_split(data: Dataset, split: Split) -> Dataset:
    """The data without the column that says whose a row is: it tells clients apart, not rows."""
    if not isinstance(split, Silos) or not isinstance(data.prepare, TabularPrepare):
        return data
    name = split.column or data.silos
    kept = [i for i, c in enumerate(data.prepare.columns) if c.name != name]
    if len(kept) == len(data.prepare.columns):
        return data
    return replace(
        with_inputs(data, kept),
        notes=(*data.notes, f"columns left out, as the split goes by them: {name}"),
        recipe=data.recipe and data.recipe.without(name),
    )


def _silo(data: Dataset, split: Split) -> str:
    """The column that tells clients apart, if one does."""
    return (split.column or split.natural(data)) if isinstance(split, Silos) else data.silos


def _ways(data: Dataset, dealt: Sequence[Sequence[Arrays]], names: Sequence[str]) -> Sequence[Prepare | None]:
    """How each client's rows are prepared; what is fitted may be fitted by all together."""
    if isinstance(data.prepare, FitsTogether):
        return data.prepare.fitted([train for train, *_ in dealt], names)
    return [data.prepare] * len(dealt)


def client_of(
    data: Dataset, name: str, way: Prepare | None, pools: Sequence[Arrays], cluster: int | None = None
) -> Client:
    """Of its rows for training, validation and testing, prepared that way."""
    train, validation, test = pools
    notes = _together_note(data.together, pools)
    features = way.features if isinstance(way, Preparation) else data.features
    if way is not None:
        try:
            (train, validation, test), done = way(train, validation, test)
            notes = (*notes, *done)
        except BadData as error:
            raise BadData(f"client {name!r}: {error}") from None
    for part, pool in (("training", train), ("validation", validation), ("test", test)):
        _refuse_not_finite(pool.x, name, part, features)
    return Client(
        name=name,
        train=samples(train.x, train.y),
        validation=samples(validation.x, validation.y),
        test=samples(test.x, test.y),
        features=features,
        classes=data.classes,
        cluster=cluster,
        notes=notes,
        preparation=way if isinstance(way, Preparation) else None,
        censored=data.task == "survival",
        units=units_of(train, data.together, np.arange(len(train))) if data.together else None,
    )


def _together_note(together: Sequence[str], pools: Sequence[Arrays]) -> tuple[str, ...]:
    """That a client's rows were not dealt one by one, if some are about one patient."""
    rows, patients = (
        sum(map(len, pools)),
        sum(len(np.unique(units_of(p, together, np.arange(len(p))))) for p in pools),
    )
    if patients == rows:
        return ()
    told = f"{patients} by {', '.join(together)} in {rows} rows"
    return (f"rows of one patient are all for training or all for testing: {told}",)


def _refuse_not_finite(x: Array, name: str, part: str, features: tuple[str, ...]) -> None:
    bad = ~np.isfinite(x.reshape(len(x), math.prod(x.shape[1:])))
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        label = features[column] if len(features) > column else column
        raise BadInput(f"client {name!r}: column {label} is not finite in {part} row {row}: fill or drop it")


def _left_over(what: str, owner: Array) -> list[str]:
    lost = int((owner < 0).sum())
    some = f"{len(owner) - lost} of {len(owner)}, the other {lost} left out"
    return [f"{what} dealt to clients: {some if lost else f'all {len(owner)}'}"]
