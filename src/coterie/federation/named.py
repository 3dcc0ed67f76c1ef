"""What a message names, counted before anything is done with it: a small message may name much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.core.client import Client, class_count
from coterie.core.errors import Refused, shown
from coterie.kernels.poisoned import Poisoned
from coterie.kernels.sketches import column_count

LETTER = 600.0  # seconds, at most, for another site to take a letter
MOST_ORDERS = 10_000  # letters of one message, or sums of one offer
MOST_PARTS = 1_000  # of one belief
MOST_NAMED = 100_000  # parts of all beliefs of a message, or ids of an offer
MOST_CLASSES = 10_000  # where a site does not know them by name
AGAIN = "is it of another version?"


def check_ids(message: Mapping[str, Any]) -> None:
    """Ids are whole numbers, and new ones differ from each other; beliefs have not too many parts."""
    rows = [row for key in ("rows", "beliefs", "replies", "origin") for row in message.get(key, ())]
    rows += [row for some in message.get("beside", {}).values() for row in some]
    check_parts([row for row in rows if isinstance(row, list)])
    known = [part[0] for row in rows if isinstance(row, list) for part in row]
    fresh = [*message.get("new", ()), *(id for id in message.get("replies", ()) if not isinstance(id, list))]
    wrong = any(type(id) is not int for id in (*known, *fresh)) or len({*fresh}) < len(fresh)
    uneven = message.get("do") == "visit" and len(fresh) not in (0, len(message["rows"]))
    if wrong or uneven:
        raise Refused(f"models by names that are no numbers, or the same twice: {AGAIN}")


def check_parts(rows: list[list[Any]]) -> None:
    refuse_many(max(map(len, rows), default=0), "parts of a model", MOST_PARTS)
    refuse_many(sum(map(len, rows)), "parts of models in a message", MOST_NAMED)


def check_orders(message: Mapping[str, Any]) -> None:
    """Letters, sealed replies, or sums that are offered: how many, and how many models these name."""
    orders, sums = message.get("orders", ()), message.get("sums", ())
    refuse_many(len(orders), "letters in a message", MOST_ORDERS)
    refuse_many(len(sums), "sums in an offer", MOST_ORDERS)
    refuse_many(sum(len(told["ids"]) for told in sums), "models in an offer", MOST_NAMED)
    rows = [row for order in orders for row in order.get("rows", ())]
    rows += [order[key] for order in orders for key in ("row", "less") if order.get(key)]
    check_parts([row for row in rows if isinstance(row, list)])


def check_look(kernel: Any, client: Client) -> None:
    """A look at rows is of the columns and classes that are here, or it could take long."""
    columns, classes = getattr(kernel, "columns", None), getattr(kernel, "classes", 0)
    here = column_count(client.train.x.shape[1:])
    if columns not in (None, here):
        raise Refused(f"a look at {shown(columns)} columns, where {here} are here: is it another table?")
    least, most = classes_of(client)
    if classes != 0 and not (type(classes) is int and least <= classes <= most):
        raise Refused(f"a look at {shown(classes)} classes, where {least} are here: is it another table?")


def check_turned(kernel: Any, client: Client) -> None:
    """Labels that are turned round among more or fewer classes than there are fail as soon as one row's is
    none: that they do, or do not, would tell of single rows.
    """
    least, most = classes_of(client)
    while kernel is not None:
        turns = isinstance(kernel, Poisoned) and kernel.how == "label-flip"
        if turns and not least <= kernel.classes <= most:
            many = shown(kernel.classes)
            raise Refused(f"labels turned among {many} classes, where {least} are here: {AGAIN}")
        kernel = getattr(kernel, "inner", None)


def classes_of(client: Client) -> tuple[int, int]:
    """How many classes a run may have for this client, at least and at most: the same where it knows their
    names, as all sites do then; none where it has no classes.
    """
    if client.task != "classification":
        return 0, 0
    parts = [part for part in (client.train, client.validation, client.test) if len(part)]
    least = class_count([client]) if parts else max(2, len(client.classes))
    return least, least if client.classes else max(least, MOST_CLASSES)


def refuse_many(many: int, what: str, most: int) -> None:
    if many > most:
        raise Refused(f"{many} {what}, at most {most}: ask for fewer at once")


def seconds_of(told: Any) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told < 1e9:
        raise Refused(f"{shown(told)} seconds: {AGAIN}")
    return min(float(told), LETTER)
