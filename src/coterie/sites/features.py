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

What the server made is kept on disk, in the folder `features` beside downloaded data: many runs of one
comparison share one pretraining and one pass. A file's name is a hash of everything that decides what is in
it: the clients' samples, the server's first weights, what the network computes, the options, the seed, the
one that deals its rows if that is another, and `VERSION`. So an entry is never out of date, and any file may
be deleted at any time.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from rich.console import Console
from rich.progress import track
from safetensors import SafetensorError
from torch import Tensor, nn

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Client, Samples, digest_of
from coterie.core.errors import BadData, BadInput, BadRun, Diverged, UnknownName
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.net import to_own
from coterie.core.options import coerced, table_of
from coterie.core.seeds import Key
from coterie.data.build import check_clients
from coterie.data.dataset import hold_out
from coterie.data.downloads import store
from coterie.engines import Pool
from coterie.engines.bank import place
from coterie.engines.threads import one_thread_each
from coterie.kernels import SGD
from coterie.kernels.score import Score
from coterie.metrics.table import METRICS, headline
from coterie.nets.in_process import InProcess, joined
from coterie.sites.last_layer import Body, cut, headless, last_linear
from coterie.storage.tensors import read_tensors, write_tensors

log = logging.getLogger("coterie")

Source = Literal["aside", "clients"]
VERSION = 1  # of the server's training and of φ: count up when either gives other numbers
SERVER, FEATURES = "server/", "features/"


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


@dataclass(frozen=True)
class _Figures:
    """Of the server's work: its training rows, a metric on the clients' test rows, seconds of training."""

    rows: int
    metric: str
    value: float
    seconds: float


@dataclass(frozen=True, eq=False)
class _Entry:
    """The server's tensors; the features of each set of samples, in order; figures."""

    server: Belief
    features: tuple[Tensor, ...]
    figures: _Figures


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
    thin = _check_kept(clients, kept, share, one_class)
    sets = {where: i for i, where in enumerate(_distinct(kept))}
    shared = [[sets[place(s)] for s in (c.train, c.validation, c.test)] for c in kept]
    asked = options if options.source == "aside" else replace(options, aside=Features.aside)
    decided = {"features": table_of(asked), "seed": key.seed, "device": str(device), "shared": shared}
    if share and dealing != key:
        decided["deal"] = dealing.seed
    path = _entry_path(clients, model, x, decided)
    entry, how = _found_or_made(path, lambda: _made(options, model, last, kept, server, key, device))
    trained = tree.load(copy.deepcopy(model), entry.server)
    body = headless(trained, last, tuple(x.shape[1:])) if options.freeze else None
    notes = (*_said(options, clients, entry.figures, body), how, *thin)
    if body is None:
        # the server's weights, one set or one for each client, with the last layer's bias as it was drawn
        all_alike = tree.repeat(tree.stack([entry.server]), tree.count(beliefs))
        bias = f"{last}.bias" if last else "bias"
        start = {n: t if n == bias else all_alike[n] for n, t in beliefs.items()}
        return Staged(tuple(kept), trained, start, notes, None)
    # the last layer's tensors alone, under their names in it
    head = {n.removeprefix(f"{last}."): t for n, t in beliefs.items() if n.startswith(f"{last}.")}
    layer = tree.load(copy.deepcopy(model.get_submodule(last)), tree.row(head, 0))
    return Staged(tuple(_seen_through(kept, entry.features)), layer, head, notes, body)


def _made(
    options: Features,
    model: nn.Module,
    last: str,
    kept: Sequence[Client],
    server: Client,
    key: Key,
    device: torch.device,
) -> _Entry:
    """The server's training, and one pass over every client's samples."""
    begin = time.perf_counter()
    belief, value = pretrained(model, server, options.work(), options.epochs, key, device)
    figures = _Figures(len(server.train), headline(server.task), value, time.perf_counter() - begin)
    if not options.freeze:
        return _Entry(belief, (), figures)
    trained = tree.load(copy.deepcopy(model), belief).to(device)
    body = headless(trained, last, tuple(server.train.x.shape[1:]))
    return _Entry(belief, tuple(body.features(s.x) for s in _distinct(kept).values()), figures)


def _found_or_made(path: Path, make: Callable[[], _Entry]) -> tuple[_Entry, str]:
    """What the cache has, else what is made now; and which of the two it was."""
    told = ""
    try:
        if entry := _read_entry(path):
            spared = entry.figures.seconds
            return entry, f"features, the server's training: {spared:.1f} s spared, as the cache has it"
    except BadRun:
        told = "; what the cache had was damaged, and is replaced"
    entry = make()
    try:
        tensors = {SERVER + n: t for n, t in entry.server.items()}
        tensors |= {f"{FEATURES}{i}": t for i, t in enumerate(entry.features)}
        total = digest_of(tensors=dict(sorted(tensors.items())))
        write_tensors(path, tensors, {"figures": asdict(entry.figures), "sum": total})
    except BadRun as error:
        told += f"; not kept for other runs: {error}"
    return entry, f"features, the server's training: {entry.figures.seconds:.1f} s{told}"


def _distinct(clients: Sequence[Client]) -> dict[tuple[object, ...], Samples]:
    """Every set of samples once, by where it lies: clients may share one."""
    return {place(s): s for c in clients for s in (c.train, c.validation, c.test)}


def _seen_through(clients: Sequence[Client], features: Sequence[Tensor]) -> list[Client]:
    """The clients with features for inputs; what they shared they share again."""
    pairs = zip(_distinct(clients).items(), features, strict=True)
    by_place = {where: Samples(z, samples.y) for (where, samples), z in pairs}
    parts: list[dict[str, Any]] = [
        {part: by_place[place(getattr(c, part))] for part in ("train", "validation", "test")} for c in clients
    ]
    # no names of columns, which these are no more
    return [replace(c, features=(), **mine) for c, mine in zip(clients, parts, strict=True)]


def _said(options: Features, clients: Sequence[Client], figures: _Figures, body: Body | None) -> list[str]:
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


# the server: to an engine one more client, visited by one belief, epoch after epoch


def divided(clients: Sequence[Client], share: float, key: Key) -> tuple[list[Client], Client]:
    """The clients with what is left to them, and the server: its training rows, all clients' test rows.

    With a share of 0 it has all training rows of the clients, and nothing is taken from them.
    """
    kept, own = list(clients), [c.train for c in clients]
    for i, client in enumerate(clients) if share else ():  # each label in proportion
        x, y = client.train.x, client.train.y
        if len(y) < 2:
            raise BadInput(
                f"client {client.name!r} has {len(y)} training row(s), of which none can be set aside: "
                "give it more, or take features source=clients"
            )
        rows = hold_out(y.cpu().numpy(), share, key.at("aside", i).numpy(), f"client {client.name!r}")
        mine, own[i] = (Samples(x[r], y[r]) for r in map(torch.from_numpy, rows))
        kept[i] = replace(client, train=mine)
    tests = list({place(c.test): c.test for c in clients}.values())
    nothing = Samples(clients[0].train.x[:0], clients[0].train.y[:0])
    censored = clients[0].censored
    return kept, Client("the server", joined(own), joined(tests), validation=nothing, censored=censored)


def _check_kept(
    clients: Sequence[Client], kept: Sequence[Client], share: float, one_class: bool
) -> tuple[str, ...]:
    """Refuses a client that lost all of a class and has one left; says so where that is allowed."""
    several = [k for c, k in zip(clients, kept, strict=True) if len(torch.unique(c.train.y)) > 1]
    try:
        return check_clients(several, allow_one_class=one_class) if several else ()
    except BadData as error:
        raise BadData(f"with {share:g} of its training rows set aside, {error}") from None


def pretrained(
    model: nn.Module, server: Client, work: SGD, epochs: int, key: Key, device: torch.device
) -> tuple[Belief, float]:
    """The server's model after so many rounds of its work, and its headline metric on the test rows."""
    net = InProcess(Pool(), Learner(copy.deepcopy(model).to(device), server.task), (server,), device)
    first = tree.stack([{n: t.to(device) for n, t in tree.belief_of(model).items()}])
    beliefs = hold(first, torch.tensor([0]))  # the server is the only site of this net
    screen, seen = Console(stderr=True), sys.stderr.isatty()
    rounds = range(1, epochs + 1)
    for epoch in track(rounds, "the server trains", console=screen, transient=True, disable=not seen):
        try:
            replies = net.visit(work, beliefs, to_own(1), key.at_round(epoch, epochs))
        except Diverged:
            why = f"epoch {epoch} of the server gave numbers that are not finite"
            raise Diverged(f"features: {why}: lower its lr={work.lr:g}") from None
        except BadInput as error:
            raise BadInput(f"features: the server cannot train: {error}") from None
        beliefs = replies.beliefs
        log.info("the server, epoch %d: loss %.4g", epoch, float(replies.numbers["loss"][0]))
    value = net.visit(Score("test"), beliefs, to_own(1), key).numbers[headline(server.task)]
    # strides as those of tensors that come back from a file: they may decide the order of sums
    plain = torch.contiguous_format
    found = {n: t.cpu().clone(memory_format=plain) for n, t in tree.row(net.open(beliefs), 0).items()}
    return found, float(value[0])


# what it made, on disk


def _entry_path(clients: Sequence[Client], model: nn.Module, x: Tensor, decided: Mapping[str, Any]) -> Path:
    """The file for this server on these clients; x is a few inputs, `decided` what else matters."""
    first = tree.stack([tree.belief_of(model)])
    with one_thread_each(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        computed = copy.deepcopy(model).eval()(x)  # two modules may differ in nothing but their forward
    told = {"version": VERSION, "data": digest_of(*clients, tensors=first), "model": repr(model)}
    told |= {"computed": digest_of(tensors={"": computed}), **decided}
    name = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:24]
    return store("features") / f"{name}.safetensors"


def _read_entry(path: Path) -> _Entry | None:
    """The entry as it was written; None if there is none. A damaged one is refused."""
    if not path.exists():
        return None
    try:
        tensors, header = read_tensors(path)
        if header["sum"] != digest_of(tensors=dict(sorted(tensors.items()))):
            raise ValueError("its checksum is wrong")
        figures = _Figures(**header["figures"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it") from None
    server = {n.removeprefix(SERVER): t for n, t in tensors.items() if n.startswith(SERVER)}
    parts = range(len(tensors) - len(server))
    return _Entry(server, tuple(tensors[f"{FEATURES}{i}"] for i in parts), figures)
