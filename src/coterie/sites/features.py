"""Last-layer mode: a server learns the first layers, clients the last one.

Makni, "Deriving FL-SWAG as a one-shot method for the sake of calibration and privacy protection", 2022,
section 8.3; the idea is Brosse et al., "On last-layer algorithms for classification", 2020.

    server      θ_S ← SGD on rows of its own,   η from `lr` to `lr_end`, evenly on a log scale
    client i    z = φ_S(x), once, for every row it has;   then logits = W_i z + b_i, by any method

φ_S is θ_S without its last layer. It stands between dealing the data and building the model: methods, kernels
and engines see clients whose samples are features and a model that is one linear layer.

| symbol | here |
| --- | --- |
| rows of the server | `aside`, a share of every client's training rows, which it loses; or `source` |
| θ_S | `Entry.server` |
| φ_S | `Body.features` |
| W_i, b_i | the clients' model, `Staged.model`, freshly drawn |

The authors' program differs from their text: the server trained on all clients' data, clients copied
everything but the last layer's bias, and nothing was frozen. That is source="clients" with freeze=false.
Their rate went from .1 to .005 in 20 epochs; between the two, the log scale is ours.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput, BadRun, UnknownName
from coterie.core.options import coerced, table_of
from coterie.core.seeds import Key
from coterie.engines.bank import place
from coterie.kernels import SGD
from coterie.metrics.table import METRICS, headline
from coterie.sites import feature_store as cache
from coterie.sites.feature_store import Entry, Figures
from coterie.sites.last_layer import Body, cut, headless, last_linear, of_last
from coterie.sites.pretraining import check_kept, divided, pretrained

Source = Literal["aside", "clients"]


@dataclass(frozen=True)
class Features:
    """The server's share of the work."""

    source: Source = "aside"
    """What the server trains on: rows set aside for it, or all training rows of the clients (data moves)."""
    aside: float = 0.2
    """Share of each client's training rows that source=aside sets aside for the server, and takes from it."""
    freeze: bool = True
    """Clients train the last layer only, on features; else all of the server's model, its last bias fresh."""
    epochs: int = 20
    """The server's passes over its rows."""
    lr: float = 0.1
    """The server's learning rate at first."""
    lr_end: float = 0.005
    """The server's learning rate at last; in between it falls evenly on a log scale."""
    batch: int = 64
    """Samples in a batch of the server."""

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise UnknownName("features source", self.source, get_args(Source))
        if not 0 < self.aside < 1:
            raise BadInput(f"features: aside={self.aside} must lie between 0 and 1: try 0.2")
        for option, usual in (("epochs", 20), ("batch", 64)):
            if getattr(self, option) < 1:
                raise BadInput(f"features: {option}={getattr(self, option)} must be at least 1: try {usual}")
        if not 0 < self.lr < math.inf:
            raise BadInput(f"features: lr={self.lr} must be above 0 and finite: try 0.1")
        if not 0 < self.lr_end <= self.lr:
            bound = f"must be above 0 and at most lr={self.lr}"
            raise BadInput(f"features: lr_end={self.lr_end} {bound}: try {self.lr / 20:g}")

    def work(self) -> SGD:
        """One epoch of the server."""
        final = self.lr_end / self.lr
        return SGD(lr=self.lr, batch=self.batch, schedule="exponential", final=final)

    @staticmethod
    def of(given: Features | Mapping[str, Any] | None) -> Features | None:
        """From a table of options, which may be empty; None stays None."""
        if given is None or isinstance(given, Features):
            return given
        return Features(**coerced(Features, given, "features"))


@dataclass(frozen=True, eq=False)
class Staged:
    """What a run goes on with: clients, the model they train, first weights [1 or client], notes.

    `body` is what was frozen, None if nothing was.
    """

    clients: tuple[Client, ...]
    model: nn.Module
    beliefs: Beliefs
    notes: tuple[str, ...]
    body: Body | None


def stage(
    options: Features,
    clients: Sequence[Client],
    model: nn.Module,
    beliefs: Beliefs,
    key: Key,
    *,
    called: str,
    device: torch.device,
    one_class: bool = False,
    deal: int | None = None,
) -> Staged:
    """`model` is what the server starts from, `beliefs` what clients would start from without it.

    Rows are set aside by the seed `deal`, by default the key's; the server trains by the key's.
    """
    key, x = key.at("features"), clients[0].train.x[:2]
    last = cut(model, x, called).last if options.freeze else last_linear(model, x, called)
    share = options.aside if options.source == "aside" else 0.0
    dealing = key if deal is None else replace(key, seed=deal)
    kept, server = divided(clients, share, dealing)
    thin = check_kept(clients, kept, share, one_class)
    sets = {where: i for i, where in enumerate(distinct(kept))}
    shared = [[sets[place(s)] for s in (c.train, c.validation, c.test)] for c in kept]
    asked = options if options.source == "aside" else replace(options, aside=Features.aside)
    decided = {"features": table_of(asked), "seed": key.seed, "device": str(device), "shared": shared}
    if share and dealing != key:
        decided["deal"] = dealing.seed
    path = cache.place_of(clients, model, x, decided)
    entry, how = found_or_made(path, lambda: made(options, model, last, kept, server, key, device))
    trained = tree.load(copy.deepcopy(model), entry.server)
    body = headless(trained, last, tuple(x.shape[1:])) if options.freeze else None
    notes = (*said(options, clients, entry.figures, body), how, *thin)
    if body is None:
        return Staged(tuple(kept), trained, fresh_bias(entry.server, beliefs, last), notes, None)
    head = of_last(beliefs, last)
    layer = tree.load(copy.deepcopy(model.get_submodule(last)), tree.row(head, 0))
    return Staged(tuple(seen_through(kept, entry.features)), layer, head, notes, body)


def made(
    options: Features,
    model: nn.Module,
    last: str,
    kept: Sequence[Client],
    server: Client,
    key: Key,
    device: torch.device,
) -> Entry:
    """The server's training, and one pass over every client's samples."""
    begin = time.perf_counter()
    belief, value = pretrained(model, server, options.work(), options.epochs, key, device)
    figures = Figures(len(server.train), headline(server.task), value, time.perf_counter() - begin)
    if not options.freeze:
        return Entry(belief, (), figures)
    trained = tree.load(copy.deepcopy(model), belief).to(device)
    body = headless(trained, last, tuple(server.train.x.shape[1:]))
    return Entry(belief, tuple(body.features(s.x) for s in distinct(kept).values()), figures)


def found_or_made(path: Path, make: Callable[[], Entry]) -> tuple[Entry, str]:
    """What the cache has, else what is made now; and which of the two it was."""
    told = ""
    try:
        if entry := cache.read(path):
            spared = entry.figures.seconds
            return entry, f"features, the server's training: {spared:.1f} s spared, as the cache has it"
    except BadRun:
        told = "; what the cache had was damaged, and is replaced"
    entry = make()
    try:
        cache.write(path, entry)
    except BadRun as error:
        told += f"; not kept for other runs: {error}"
    return entry, f"features, the server's training: {entry.figures.seconds:.1f} s{told}"


def distinct(clients: Sequence[Client]) -> dict[tuple[object, ...], Samples]:
    """Every set of samples once, by where it lies: clients may share one."""
    return {place(s): s for c in clients for s in (c.train, c.validation, c.test)}


def seen_through(clients: Sequence[Client], features: Sequence[Tensor]) -> list[Client]:
    """The clients with features for inputs; what they shared they share again."""
    by_place = {
        where: Samples(z, samples.y)
        for (where, samples), z in zip(distinct(clients).items(), features, strict=True)
    }
    return [
        replace(
            c,
            train=by_place[place(c.train)],
            validation=by_place[place(c.validation)],
            test=by_place[place(c.test)],
            features=(),  # names of columns, which these are no more
        )
        for c in clients
    ]


def fresh_bias(server: Belief, beliefs: Beliefs, last: str) -> Beliefs:
    """The server's weights, one set or one for each client, with the last layer's bias as it was drawn."""
    all_alike = tree.repeat(tree.stack([server]), tree.count(beliefs))
    bias = f"{last}.bias" if last else "bias"
    return {n: t if n == bias else all_alike[n] for n, t in beliefs.items()}


def said(options: Features, clients: Sequence[Client], figures: Figures, body: Body | None) -> list[str]:
    """For the run's record: whose rows the server had, how good it is alone, what clients train."""
    total = sum(len(c.train) for c in clients)
    if options.source == "clients":
        rows = f"all {total} training rows of the clients, so data moved"
    else:
        rows = f"{figures.rows} of the clients' {total} training rows, set aside; "
        rows += f"{total - figures.rows} stay with them"
    percent = METRICS[figures.metric].percent
    value = f"{100 * figures.value:.2f} %" if percent else f"{figures.metric} {figures.value:.4g}"
    if body is None:
        work = "the server's whole model, the bias of its last layer drawn afresh"
    else:
        frozen = sum(p.numel() for p in body.network.parameters())
        work = f"the last layer on {body.width} features; {frozen} parameters before it are frozen"
    told = {
        "rows the server trained on": rows,
        "the server's model alone": f"{value} on the test rows of all clients",
        "what clients train" if body else "what clients start from": work,
        "not in the traffic of the rounds": "what the server sends at first",
    }
    return [f"features, {what}: {text}" for what, text in told.items()]
