"""From a source and a split to clients: deal, set test rows aside, prepare each client by itself, and see
whether they can learn together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coterie.core import client as core
from coterie.core.checks import is_list
from coterie.core.client import Client, Samples, class_count
from coterie.core.errors import BadData, BadInput, Gathered, naming_flags_of, option
from coterie.core.seeds import Key
from coterie.data.dataset import (
    Arrays,
    Dataset,
    FitsTogether,
    Prepare,
    hold_out_last,
    hold_out_whole,
    parts_of,
)
from coterie.data.forbidden import (
    check_asked,
    check_columns,
    forbidden_notes,
    inputs_of,
    recording,
    with_inputs,
    without,
)
from coterie.data.intake import Array
from coterie.data.partition.base import Deal, Split
from coterie.data.partition.clusters import turn
from coterie.data.partition.silos import Silos
from coterie.data.preparation import Preparation
from coterie.data.tabular import TabularPrepare
from coterie.data.targets import MOST_CLASSES

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
        by_column = (split.column or split.natural(data)) if isinstance(split, Silos) else data.silos
        check_columns(data, forbid, require, by_column)
        chosen, data = forbidden_notes(data, forbid), without(data, forbid)
        deal, published, left = recording(data, deal, published, require)
        chosen += left
    dealt = _parted_by(data, deal, published, test, validation, key)
    ways: Sequence[Prepare | None] = [data.prepare] * len(dealt)
    if isinstance(data.prepare, FitsTogether):
        ways = data.prepare.fitted([train for train, *_ in dealt], deal.names)
    clusters = deal.clusters or [None] * len(ways)
    made = [
        client_of(data, name, way, pools, cluster)
        for name, way, pools, cluster in zip(deal.names, ways, dealt, clusters, strict=True)
    ]
    said = check_clients(made, allow_one_class=one_class or deal.one_class or data.one_class)
    _in_one_piece(made)
    notes = (*data.notes, *chosen, *deal.notes, *_notes(deal, published, test), *said)
    return Dealt(tuple(made), notes, data.recipe, published is not None, chosen, inputs_of(data))


def _parted_by(
    data: Dataset, deal: Deal, published: Deal | None, test: float, validation: float, key: Key
) -> list[list[Arrays]]:
    """[client] its rows for training, validation and testing; all that have too few are refused at once."""
    dealt, wrong = list[list[Arrays]](), Gathered()
    for i, name in enumerate(deal.names):
        rows, held = np.flatnonzero(deal.owner == i), None
        if published is not None and data.test is not None:
            held = data.test.take(np.flatnonzero(published.owner == i))
        with wrong.one():
            whose = f"client {name!r}"
            places = parted_rows(data, rows, held is not None, test, validation, key, i, whose)
            *pools, out = (data.train.take(place) for place in places)
            dealt.append([turned(pool, deal, i) for pool in (*pools, out if held is None else held)])
        if wrong.found and not 0 < test < 1:  # which is the same for all
            break
    wrong.refuse()
    return dealt


def _notes(deal: Deal, published: Deal | None, test: float) -> list[str]:
    """Which rows went to nobody, and what is tested on."""
    notes = _left_over("rows", deal.owner)
    if published is not None:
        notes += [n for n in published.notes if n not in deal.notes]
        return notes + _left_over("published test rows", published.owner)
    last = "the last " if deal.order is not None else ""
    return [*notes, f"each client holds out {last}{test:g} of its rows for testing"]


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
    """Which of a client's rows are for training, validation and testing, drawn by its number among them; none
    for testing where a published set is for that.

    Nothing here depends on what other clients have, so that each can do it where its rows are.
    """
    units = units_of(data.train, data.together, rows)
    aside = {"test": rows[:0], "validation": rows[:0]}
    shares = {} if published else {"test": test}
    for part, share in (shares | ({"validation": validation} if validation else {})).items():
        if data.order is not None:
            keep, held = hold_out_last(data.order[rows], units, share, whose)
        else:
            rng = key.at(part, number).numpy()
            keep, held = hold_out_whole(data.train.y[rows], units, share, rng, whose)
        aside[part], rows, units = rows[held], rows[keep], units[keep]
    return rows, aside["validation"], aside["test"]


def as_dealt(data: Dataset, deal: Deal, published: Deal | None) -> Dataset:
    """The data as the split changes it for its clients, and in the order that it says."""
    train = data.train if deal.rows is None else deal.rows
    test = data.test if published is None or published.rows is None else published.rows
    return replace(data, train=train, test=test, order=deal.order)


def turned(pool: Arrays, deal: Deal, number: int) -> Arrays:
    """Pictures as the split turns them for this client."""
    if deal.turns is None:
        return pool
    return Arrays(turn(deal.turns[number], pool.x), pool.y, pool.columns)


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


def client_of(
    data: Dataset, name: str, way: Prepare | None, pools: Sequence[Arrays], cluster: int | None = None
) -> Client:
    """Of its rows for training, validation and testing, prepared that way."""
    (train, validation, test), notes, rows = pools, tuple[str, ...](), sum(map(len, pools))
    patients = sum(len(np.unique(units_of(p, data.together, np.arange(len(p))))) for p in pools)
    if patients != rows:
        told = f"{patients} by {', '.join(data.together)} in {rows} rows"
        notes = (f"rows of one patient are all for training or all for testing: {told}",)
    features = way.features if isinstance(way, Preparation) else data.features
    if way is not None:
        try:
            (train, validation, test), done = way(train, validation, test)
            notes = (*notes, *done)
        except BadData as error:
            raise BadData(f"client {name!r}: {error}") from None
    for part, pool in (("training", train), ("validation", validation), ("test", test)):
        bad = ~np.isfinite(pool.x.reshape(len(pool), math.prod(pool.x.shape[1:])))
        if bad.any():
            row, column = map(int, np.argwhere(bad)[0])
            where = f"column {features[column] if len(features) > column else column} is not finite in {part}"
            raise BadInput(f"client {name!r}: {where} row {row}: fill or drop it")
    return Client(
        name,
        **parts_of((train, validation, test)),
        features=features,
        classes=data.classes,
        cluster=cluster,
        notes=notes,
        preparation=way if isinstance(way, Preparation) else None,
        censored=data.task == "survival",
        units=units_of(train, data.together, np.arange(len(train))) if data.together else None,
    )


def _left_over(what: str, owner: Array) -> list[str]:
    lost = int((owner < 0).sum())
    some = f"{len(owner) - lost} of {len(owner)}, the other {lost} left out"
    return [f"{what} dealt to clients: {some if lost else f'all {len(owner)}'}"]


def check_clients(
    clients: Sequence[core.Client], *, allow_one_class: bool = False, allow_untested: bool = False
) -> tuple[str, ...]:
    """Refuses clients that cannot learn together; returns what is worth saying of the others.

    Clients without test rows are for those who test elsewhere (`allow_untested`).
    """
    if not is_list(clients) or not all(isinstance(c, core.Client) for c in clients):
        raise BadInput("clients must be a list of clients: make each with Client.from_arrays(X, y, name=...)")
    if not len(clients):
        raise BadInput("no clients: give at least one")
    first, said, alone = clients[0], list[str](), list[str]()
    for name, times in Counter(c.name for c in clients).items():
        if times > 1:
            raise BadInput(f"client name {name!r} is used {times} times: give each its own")
    for c in clients:
        if len(c.train) == 0 or (len(c.test) == 0 and not allow_untested):
            raise BadData(
                f"client {c.name!r} has {len(c.train)} training and {len(c.test)} test samples; "
                "both need at least 1: add samples or leave it out"
            )
        if c.task != first.task:
            raise BadData(
                f"client {c.name!r} has a {c.task}, {first.name!r} a {first.task}: use one task for all, "
                f"{option('task', 'classification', 'table')} or {option('task', 'regression', 'table')}"
            )
        if c.features != first.features:
            strange = sorted(set(c.features) ^ set(first.features)) or ["their order"]
            raise BadData(
                f"clients {first.name!r} and {c.name!r} disagree in columns ({', '.join(strange)}): "
                "give all the same columns in the same order, or make them together with clients_from"
            )
        if c.train.x.shape[1:] != first.train.x.shape[1:]:
            raise BadData(
                f"clients {first.name!r} and {c.name!r} disagree in columns: shapes "
                f"{list(first.train.x.shape[1:])} and {list(c.train.x.shape[1:])}: give all the same"
            )
        if c.classes != first.classes:
            raise BadData(
                f"clients {first.name!r} and {c.name!r} disagree in classes ({', '.join(first.classes)} and "
                f"{', '.join(c.classes)}): pass the same classes=[...] to both"
            )
        if c.task == "classification":
            found = torch.unique(c.train.y)
            if len(found) == 1:
                label = c.classes[int(found)] if c.classes else str(int(found))
                alone.append(f"{c.name!r} ({label})")
                text = f"client {c.name!r} trains on one class only ({label})"
                said.append(text)
    if said and not allow_one_class:
        others = f", as for {', '.join(alone[1:])}" if len(alone) > 1 else ""
        raise BadData(
            f"{said[0]}, at least 2 are needed{others}: add samples, or allow it with "
            f"{option('one_class', 'allow')}"
        )
    if first.task == "classification":
        _refuse_odd_labels(clients)
    if first.task == "survival":
        said += _without_events(clients)
    return tuple(said)


def _without_events(clients: Sequence[core.Client]) -> list[str]:
    """Who learns nothing by itself; refused where nobody does. A single client may have others elsewhere."""
    without = [c.name for c in clients if not bool((c.train.y > 0).any())]
    if len(without) == len(clients) > 1:
        raise BadData(
            f"none of the {len(clients)} clients has an event among its training rows, so there is nothing "
            "to learn: watch longer, or check the events"
        )
    return [
        f"client {name!r} has no event among its training rows and learns nothing by itself"
        for name in without
    ]


def _refuse_odd_labels(clients: Sequence[core.Client]) -> None:
    """Clients that nobody's intake has looked at may have any."""
    lowest = min(int(s.y.min()) for c in clients for s in (c.train, c.validation, c.test) if len(s))
    if lowest < 0 or class_count(clients) > MOST_CLASSES:
        odd = lowest if lowest < 0 else class_count(clients) - 1
        raise BadData(f"label {odd} is none of 0 to {MOST_CLASSES - 1}: count labels from 0")


def _in_one_piece(clients: list[Client]) -> None:
    """Puts the samples of all into one tensor for each part, of which each client's own are then views.

    In place, and one client after the other: what it had before can go before the next one's turn, so that
    nothing is there twice.
    """
    for part in ("train", "validation", "test"):
        first: Samples = getattr(clients[0], part)
        total = sum(len(getattr(c, part)) for c in clients)
        x, y = (t.new_empty((total, *t.shape[1:])) for t in (first.x, first.y))
        end = 0
        for i, client in enumerate(clients):
            own: Samples = getattr(client, part)
            begin, end = end, end + len(own)
            x[begin:end], y[begin:end] = own.x, own.y
            moved: dict[str, Any] = {part: Samples(x[begin:end], y[begin:end])}
            clients[i] = replace(client, **moved)
