"""Cross-validation inside each client: a fold of its training rows takes the place of its test rows.

The clients are those of the run itself. While a trial runs, a client trains on k - 1 folds and its `test` is
the fold that is left: its real test rows are nowhere in the trial. What prepared the rows (medians, scales)
was fitted on all of the client's training rows, as in the run. Rows about one patient are in one fold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.data.dataset import Rows
from coterie.engines.bank import banked
from coterie.sites.setup import Setup


def deal_folds(y: npt.NDArray[np.generic], folds: int, rng: np.random.Generator) -> Rows:
    """The fold of each row: sizes differ by at most one, and so do the counts of each label.

    Rows are ordered by label (ties at random) and dealt in turn, so each range of a continuous target is
    spread over the folds too.
    """
    order = np.lexsort((rng.random(len(y)), y))
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = (np.arange(len(y)) + rng.integers(folds)) % folds
    return fold


def folds_of(whole: Setup, folds: int, key: Key) -> list[Setup]:
    """For each fold of every client's training rows, what leaving it out makes of the clients."""
    if whole.met is not None:  # sites that have rows of their own leave them out themselves
        parts = [whole.met.without(folds, fold, key.seed) for fold in range(folds)]
        return [replace(whole, met=met, roster=met.roster) for met in parts]
    firsts = [first_rows(c) for c in whole.clients]
    fewest = min(range(len(firsts)), key=lambda i: len(firsts[i][0]))
    refuse_many_folds(whole.clients[fewest], folds, len(firsts[fewest][0]))
    dealt = [
        deal_folds(c.train.y.cpu().numpy()[first], folds, key.at("folds", i).numpy())[of]
        for i, (c, (first, of)) in enumerate(zip(whole.clients, firsts, strict=True))
    ]
    made = []
    for fold in range(folds):
        clients = banked([held_out(c, f, fold) for c, f in zip(whole.clients, dealt, strict=True)])
        made.append(replace(whole, clients=clients, roster=roster_of(clients)))
    return made


def refuse_many_folds(client: Client, folds: int, many: int) -> None:
    """`many` are the client's rows, or patients, to deal."""
    if many < folds:
        what = "training row(s)" if client.units is None else "patient(s) in training rows"
        raise BadInput(
            f"folds={folds} exceeds the {many} {what} of client {client.name!r}: "
            "lower it or give every client more rows"
        )


def first_rows(client: Client) -> tuple[Rows, Rows]:
    """The first row about each patient, and [row] which of these it is about; mostly each its own."""
    rows = np.arange(len(client.train))
    if client.units is None:
        return rows, rows
    if len(client.units) != len(rows):
        raise BadInput(
            f"client {client.name!r}: folds cannot keep rows of one patient together once a server has set "
            "some aside: tune without features"
        )
    _, first, of = np.unique(client.units, return_index=True, return_inverse=True)
    return first, of


def held_out(client: Client, fold: Rows, i: int) -> Client:
    """The client with fold i for its test part, the other folds for training, and no other test rows."""
    x, y, mine = client.train.x, client.train.y, torch.from_numpy(fold == i)
    units = None if client.units is None else client.units[fold != i]
    return replace(client, train=Samples(x[~mine], y[~mine]), test=Samples(x[mine], y[mine]), units=units)
