"""Whether clients can learn together: names, columns, tasks, classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from coterie.core import client as core
from coterie.core.checks import is_list
from coterie.core.client import class_count
from coterie.core.errors import BadData, BadInput, option
from coterie.data.intake import MOST_CLASSES


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
