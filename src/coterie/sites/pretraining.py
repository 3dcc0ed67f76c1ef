"""The server of last-layer mode: rows of its own, and its training.

To an engine the server is one more client, visited by one belief, epoch after epoch.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from rich.console import Console
from rich.progress import track
from torch import nn

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client, Samples
from coterie.core.errors import BadData, BadInput, Diverged
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.net import to_own
from coterie.core.seeds import Key
from coterie.data.fit_together import check_clients
from coterie.data.holdout import hold_out
from coterie.engines import Pool
from coterie.engines.bank import adjoined, place
from coterie.kernels import SGD
from coterie.kernels.score import Score
from coterie.metrics.table import headline
from coterie.nets import InProcess

log = logging.getLogger("coterie")


def divided(clients: Sequence[Client], share: float, key: Key) -> tuple[list[Client], Client]:
    """The clients with what is left to them, and the server: its training rows, all clients' test rows.

    With a share of 0 it has all training rows of the clients, and nothing is taken from them.
    """
    kept, own = list(clients), [c.train for c in clients]
    if share:
        pairs = [set_aside(c, share, key.at("aside", i)) for i, c in enumerate(clients)]
        kept, own = [client for client, _ in pairs], [rows for _, rows in pairs]
    tests = list({place(c.test): c.test for c in clients}.values())
    nothing = Samples(clients[0].train.x[:0], clients[0].train.y[:0])
    return kept, Client(
        "the server",
        train=joined(own),
        test=joined(tests),
        validation=nothing,
        censored=clients[0].censored,
    )


def joined(parts: Sequence[Samples]) -> Samples:
    return Samples(adjoined([p.x for p in parts]), adjoined([p.y for p in parts]))


def set_aside(client: Client, share: float, key: Key) -> tuple[Client, Samples]:
    """The client without a share of its training rows, each label in proportion, and these rows."""
    x, y = client.train.x, client.train.y
    if len(y) < 2:
        raise BadInput(
            f"client {client.name!r} has {len(y)} training row(s), of which none can be set aside: "
            "give it more, or take features source=clients"
        )
    rows = hold_out(y.cpu().numpy(), share, key.numpy(), f"client {client.name!r}")
    mine, held = (Samples(x[r], y[r]) for r in map(torch.from_numpy, rows))
    return replace(client, train=mine), held


def check_kept(
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
            raise Diverged(
                f"features: epoch {epoch} of the server gave numbers that are not finite: "
                f"lower its lr={work.lr:g}"
            ) from None
        except BadInput as error:
            raise BadInput(f"features: the server cannot train: {error}") from None
        beliefs = replies.beliefs
        log.info("the server, epoch %d: loss %.4g", epoch, float(replies.numbers["loss"][0]))
    value = net.visit(Score("test"), beliefs, to_own(1), key).numbers[headline(server.task)]
    # strides as those of tensors that come back from a file: they may decide the order of sums
    plain = torch.contiguous_format
    return {n: t.cpu().clone(memory_format=plain) for n, t in tree.row(net.open(beliefs), 0).items()}, float(
        value[0]
    )
