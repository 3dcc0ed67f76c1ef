"""Tables of counts [client, class]: from shares to whole rows, and from counts to owners.

Splits by label first settle how many rows of each class each client gets, then shuffle. Rounding keeps
every cell within one row of its quota and, by carrying remainders on, keeps clients' sizes near theirs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.core.errors import BadInput
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.tables.texts import some

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


def client_names(clients: int) -> tuple[str, ...]:
    return tuple(f"client-{i}" for i in range(clients))


def how_many(split: str, data: Dataset, clients: int | None, minimum: int, default: int = 10) -> int:
    """The number of clients asked for, or the default, if the training rows suffice for `minimum` each."""
    n = default if clients is None else clients
    if n < 1:
        raise BadInput(f"split {split}: clients={n} must be at least 1: try {default}")
    rows = len(data.train)
    if n * minimum > rows:
        most = rows // max(minimum, 1)
        remedy = f"ask for at most {most} client(s)" if most else "use a larger dataset"
        if rows // n >= 2 and minimum > 2:
            remedy += f" or for minimum={rows // n}"
        raise BadInput(
            f"split {split}: {n} clients need {n * minimum} training samples, at least {minimum} each, "
            f"but {data.name} has {rows}: {remedy}"
        )
    return n


def check_minimum(split: str, minimum: int) -> None:
    if minimum < 2:
        raise BadInput(
            f"split {split}: minimum={minimum} must be at least 2, one row to train and one to test: try 10"
        )


def class_total(split: str, data: Dataset) -> int:
    """How many classes there are; a regression is refused."""
    if data.task != "classification":
        raise BadInput(
            f"split {split} goes by class, but {data.name} is a {data.task}: use iid, bands or silos"
        )
    return max([len(data.classes), *(int(pool.y.max()) + 1 for pool in data.pools if len(pool))])


def tally(y: Array, classes: int) -> Counts:
    """Rows of each class: [class]."""
    return np.bincount(y, minlength=classes).astype(np.int64)


def columns_to_shares(table: Counts | Shares) -> Shares:
    """Each class's column divided by its sum: who gets which part of that class; a column of zeros stays."""
    total = table.sum(axis=0, keepdims=True)
    shares: Shares = np.divide(table, total, out=np.zeros(table.shape), where=total > 0)
    return shares


def round_column(supply: int, shares: Shares, carry: Shares) -> Counts:
    """Largest remainders for one class: quota_k = supply * share_k becomes its floor or its ceiling.

    carry [client] is what earlier classes still owe each client; it takes part in who is rounded up.
    """
    quota = supply * shares
    whole = np.rint(quota)
    quota = np.where(np.abs(quota - whole) < 1e-9 * np.maximum(whole, 1), whole, quota)
    counts = np.floor(quota).astype(np.int64)
    rest = quota - counts
    extra = min(round(float(quota.sum())), supply) - int(counts.sum())
    ranked = np.argsort(-np.where(rest > 0, rest + carry, -np.inf), kind="stable")
    counts[ranked[:extra]] += 1
    return counts


def round_shares(supply: Counts, shares: Shares) -> Counts:
    """Counts [client, class] for supplies [class] and shares [client, class] of each class."""
    counts = np.zeros(shares.shape, dtype=np.int64)
    carry = np.zeros(len(shares))
    for c, rows in enumerate(supply):
        counts[:, c] = round_column(int(rows), shares[:, c], carry)
        carry += rows * shares[:, c] - counts[:, c]
    return counts


def top_up(counts: Counts, wants: Shares | Counts, minimum: int) -> tuple[Counts, tuple[int, ...]]:
    """Gives every client that wants anything at least `minimum` rows, while others have more than that.

    One row at a time, of the class that the client wants most among those on offer, from the client
    with the most rows: at most clients * minimum steps. Returns the table and who was given rows.
    """
    counts, given = counts.copy(), []
    for k in np.flatnonzero((counts.sum(axis=1) < minimum) & (wants.sum(axis=1) > 0)):
        while (sizes := counts.sum(axis=1))[k] < minimum:
            on_offer = (counts > 0) & (sizes > minimum)[:, None]
            wanted = np.where(on_offer.any(axis=0), wants[k], -1)
            c = int(np.argmax(wanted))
            if wanted[c] < 0:
                break
            donor = int(np.argmax(np.where(on_offer[:, c], sizes, -1)))
            counts[donor, c] -= 1
            counts[k, c] += 1
            given.append(int(k))
    return counts, tuple(dict.fromkeys(given))


def deal_rows(y: Array, counts: Counts, rng: np.random.Generator | None) -> Counts:
    """Owners [row]: each class's rows, shuffled (or in file order without rng), dealt by its counts."""
    owner = np.full(len(y), -1, dtype=np.int64)
    for c in range(counts.shape[1]):
        rows = np.flatnonzero(y == c)
        if rng is not None:
            rng.shuffle(rows)
        taken = np.repeat(np.arange(len(counts)), counts[:, c])
        owner[rows[: len(taken)]] = taken
    return owner


def deal_table(
    pool: Arrays, counts: Counts, wants: Shares | Counts, minimum: int, rng: np.random.Generator | None
) -> tuple[Counts, tuple[str, ...]]:
    """Owners [row] by a table of counts, after `top_up`; the notes say who was topped up, who is empty and
    how many rows are nobody's.
    """
    names, notes = client_names(len(counts)), []
    counts, given = top_up(counts, wants, minimum)
    if given:
        notes.append(
            f"clients that were given others' rows, as they would have had fewer than {minimum} of "
            f"{len(pool)}: {some([names[k] for k in given])}"
        )
    empty = [names[k] for k in np.flatnonzero(counts.sum(axis=1) == 0)]
    if empty:
        notes.append(f"clients that get none of {len(pool)} rows: {some(empty)}")
    owner = deal_rows(pool.y, counts, rng)
    if left := int((owner < 0).sum()):
        notes.append(f"rows that no client gets: {left} of {len(pool)}, as no client's share covers them")
    return owner, tuple(notes)
