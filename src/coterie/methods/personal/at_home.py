"""What stays at home: layers of a model by their names, and models of one's own.

Patterns are those of file names (`*` for any text, `?` for one sign), several of them with + between. Without
a pattern it is the last layer: the last tensor that is a matrix or more, and whatever is in the same module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import torch

from coterie.core.contract import Beliefs, Held, Key, Net, Replies, Trainer
from coterie.core.errors import BadInput, shown
from coterie.core.facts import called
from coterie.kernels.around import innermost, reworked
from coterie.kernels.local import LocalWork
from coterie.kernels.newton import Newton
from coterie.kernels.sgd import SGD
from coterie.kernels.solving import solves
from coterie.kernels.taken import OWN, Taken


def names_at_home(home: str, start: Beliefs) -> tuple[str, ...]:
    """The tensors, of those of the first belief [row, ...], that the patterns of `home` match."""
    if not home:
        chosen = _last_layer(start)
    else:
        patterns = [pattern.strip() for pattern in home.split("+")]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in start):
                raise BadInput(
                    f"home: {shown(pattern)} matches none of the model's tensors, {_listed(start)}"
                )
        chosen = tuple(name for name in start if any(fnmatchcase(name, p) for p in patterns))
    if len(chosen) == len(start):
        biases = [name for name in start if name.endswith("bias")]
        less = " with home=*bias only biases stay at home," if biases and len(biases) < len(start) else ""
        raise BadInput(
            f"home={shown(home)} keeps all of the model at home ({_listed(start)}), and nothing is left to "
            f"share:{less} a model of more layers (mlp) shares all but the last, local shares nothing"
        )
    return chosen


def _last_layer(start: Beliefs) -> tuple[str, ...]:
    """The names in the module of the last matrix; tensors are [row, ...]."""
    matrices = [name for name, t in start.items() if t.ndim > 2]
    layer = (matrices or list(start))[-1].rpartition(".")[0]
    return tuple(name for name in start if name.rpartition(".")[0] == layer)


def _listed(names: Sequence[str] | Beliefs, most: int = 8) -> str:
    some = list(names)
    return ", ".join(some[:most]) + (f" and {len(some) - most} more" if len(some) > most else "")


def for_epochs(method: str, option: str, work: Trainer, epochs: int) -> Trainer:
    """The same local work for so many epochs; 0 leaves it as it is, and work that solves has none."""
    inside: Any = innermost(work)
    if isinstance(inside, Newton):
        if epochs:
            raise BadInput(
                f"{option}={epochs}, but newton solves with all rows at once: leave it at 0, or use sgd"
            )
        return work
    if not isinstance(inside, LocalWork):
        name = called(inside)
        raise BadInput(f"{method} needs work by one gradient a step (sgd, adam, adamw, ...); got {name}")
    if epochs < 0:
        raise BadInput(f"{option}={epochs} must be at least 0: 0 takes as many as the shared model's work")
    if not epochs:
        return work
    changed: Trainer = reworked(work, lambda w: replace(w, epochs=epochs, steps=0))
    return changed


SOLVED_PULL = 1.0
"""As much as all rows of a client; of 0.03, 0.1, 0.3, 1 and 3 the one that did best on eight tables of
`benchmarks/tables.py`, by test rows of splits 0 and 1.
"""


def pull_of(work: Trainer, given: float | None, in_steps: float) -> float:
    """A pull that is given, or one that suits how the work goes."""
    if given is not None:
        return given
    return SOLVED_PULL if solves(work) else in_steps


def overshooting(work: Trainer, pull: float) -> tuple[str, ...]:
    """What to say of plain steps that end farther from the shared model than they began: η λ from 2 on."""
    inside: Any = innermost(work)
    if not isinstance(inside, SGD) or inside.lr * pull < 2:
        return ()
    return (
        f"lr={inside.lr} times pull={pull} is {inside.lr * pull:.3g}: from 2 on, steps towards the shared "
        "model end farther from it than they began: lower one of them",
    )


def kept(net: Net, own: Held, replies: Replies, key: Key, prefix: str = OWN) -> Held:
    """Clients' own beliefs [client, ...], with those that replies have under a prefix in the places of the
    last ones. They are taken from the replies where these lie.
    """
    edges = torch.stack([torch.arange(len(replies)), replies.hosts], dim=1)
    found = net.visit(Taken(prefix), replies.beliefs, edges, key.at("taken", prefix))
    return own.put(found.hosts, found.beliefs) if len(found) else own
