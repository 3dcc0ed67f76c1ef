"""What methods are tried on: sites, a model and its first weights; the same for every method of a seed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.devices import device_of
from coterie.core.errors import BadInput
from coterie.core.roster import Roster, roster_of
from coterie.core.seeds import Key
from coterie.engines.bank import banked
from coterie.nets import Made
from coterie.sites.features import Features, Staged, stage
from coterie.sites.last_layer import Body
from coterie.sites.leaks import leaning

if TYPE_CHECKING:
    from coterie.data.tables.recipe import Recipe

Check = Callable[[Roster, Beliefs], object]


@dataclass(frozen=True, eq=False)
class Setup:
    """What methods are compared on: sites, a model, its first weights [1 or client, ...], and what to say of
    them.

    `body` is what came before the model on its way to the clients' samples, in last-layer mode; `made` how to
    build the model by name; `recipe` how rows were read from files, if they were. `met` are sites elsewhere
    with rows of their own: there are no clients here then. `published` says that test rows are shares of a
    published test set; `columns` are those that inputs are made of, by their names in the table; `leaks`
    those of them that tell the outcome alone (`leaks.py`).
    """

    clients: tuple[Client, ...]
    roster: Roster
    model: nn.Module
    beliefs: Beliefs
    notes: tuple[str, ...]
    body: Body | None = None
    made: Made | None = None
    recipe: Recipe | None = None
    met: Any = None
    published: bool = False
    columns: tuple[str, ...] = ()
    leaks: tuple[dict[str, Any], ...] = ()


def set_up(
    clients: Sequence[Client],
    model: nn.Module,
    beliefs: Beliefs,
    notes: Sequence[str],
    check: Check,
    *,
    made: Made | None,
    features: Features | None,
    key: Key,
    server: Callable[[int], nn.Module],
    called: str,
    device: str,
    one_class: bool,
    deal: int | None = None,
    recipe: Recipe | None = None,
    published: bool = False,
) -> Setup:
    """Clients and model as methods meet them: in the model's precision, held once, behind frozen layers if
    wanted.

    `server` builds the network that the server starts from, from a seed. `deal` is the seed by which its rows
    are set aside, if it is not that of the key.
    """
    clients = [c.cast(precision_of(beliefs)) for c in clients]
    check_outputs(model, roster_of(clients), clients[0].train.x[:1])
    ready = Staged(tuple(clients), model, beliefs, (), None)
    if features is not None:
        check(roster_of(clients), beliefs)  # what cannot work is refused before the server trains, not after
        first, where = server(key.at("features").integer()), device_of(device)
        ready = stage(features, clients, first, beliefs, key, called, where, one_class, deal)
    together, notes = banked(ready.clients), (*notes, *ready.notes)
    named, roster = made if ready.body is None else None, roster_of(together, digests=True)
    whole = Setup(together, roster, ready.model, ready.beliefs, notes, ready.body, named, recipe)
    return replace(whole, published=published, leaks=leaning(clients))


def precision_of(beliefs: Beliefs) -> torch.dtype:
    return next((t.dtype for t in beliefs.values() if t.is_floating_point()), torch.float32)


def check_outputs(model: nn.Module, roster: Roster, x: Tensor) -> None:
    """One sample through a copy of the model: does it take these inputs and give enough outputs?"""
    wanted = roster.outputs
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            out = copy.deepcopy(model).eval()(x)
    except Exception as error:  # whatever a module of one's own may raise
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"the model does not take inputs of shape {list(x.shape[1:])}: {text}") from None
    if not isinstance(out, Tensor):
        kind = type(out).__name__
        raise BadInput(f"the model gives a {kind}, one tensor is needed: return the logits alone")
    if out.ndim != 2 or out.shape[1] < wanted or (wanted == 1 and out.shape[1] != 1):
        raise BadInput(
            f"the model gives outputs of shape {list(out.shape[1:])}, the data needs [{wanted}]: "
            "change its last layer"
        )


def reinitialised(model: nn.Module, seed: int) -> nn.Module:
    """A copy whose layers drew their first weights anew, from this seed."""
    fresh = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for layer in fresh.modules():
            reset = getattr(layer, "reset_parameters", None)
            if callable(reset):
                reset()
    return fresh
