"""Which local work a method does on tables if nobody says: `kernel=auto`.

A linear model of a table is solved rather than trained in small steps. Alone, by the optimum of one's own
penalised likelihood (`ridge`); in a method that goes on from a model that came, by the optimum near it
(`newton`). Any other model of a table is trained by `adamw`, whose steps have a bounded length whatever the
loss, with the options in `ON_TABLES`. Pictures, and models of one's own, are trained by `sgd`, as are papers'
presets, which name it.

A regression that goes on from a model that came, in steps of either kind, learns scaled targets
(`core/target_scale.py`). Where inputs of sites lie far apart, averaged models learn a mean that is far from 0
by slopes, over many rounds, and what they still miss of it is large beside all else.

A method says by class attributes where it differs:

    only_work        that it is one kind of work and no other
    solved_by        by what linear models are solved; "" if its local work has to go in small steps
    small_steps      by what it goes in small steps: "sgd", where its theory is of plain gradients
    scales_targets   whether it needs scaled targets though models are solved: newton's do unless it says no,
                     ridge's do where it goes in small steps elsewhere, as at the server
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from coterie.core.errors import BadInput
from coterie.core.facts import method_fact
from coterie.core.kernel import WORK
from coterie.core.options import options_of

AUTO, STEPS = "auto", "sgd"
LINEAR = ("logistic", "linear")
"""Models, by name, that are one linear map."""
ON_TABLES: Mapping[str, Mapping[str, Any]] = {
    "adamw": {"lr": 0.005, "weight_decay": 1.0, "schedule": "cosine"},
    "sgd": {"lr": 0.3, "clip": 1.0, "schedule": "cosine"},
}
"""Options of work in small steps that suit tables of a few dozen to a few thousand rows a site."""
LINEAR_RATE = 0.03
"""Of adamw on a linear model, which learns too little of few rows before it learns too much."""


class Natural(NamedTuple):
    """Local work by name, its options where they differ from its own, and whether targets are scaled."""

    kernel: str
    options: Mapping[str, Any] = {}
    scaled: bool = False

    def unless(self, kernel: Any) -> Mapping[str, Any]:
        """Its options, unless somebody names other work."""
        return self.options if kernel is None else {}


def natural_work(method: Any, table: bool, model: str) -> Natural:
    """The work of a method, given as its class, on a table or something else, with a model of that name; ""
    is a module of one's own.
    """
    if only := only_work(method):
        return Natural(only)
    if not table or not model:
        return Natural(STEPS)
    solved: str = method_fact(method, "solved_by")
    if solved and model in (*LINEAR, AUTO):
        scales = method_fact(method, "scales_targets")
        return Natural(solved, scaled=solved == "newton" if scales is None else scales)
    steps: str = method_fact(method, "small_steps")
    linear = {"lr": LINEAR_RATE} if steps == "adamw" and model in (*LINEAR, AUTO) else {}
    return Natural(steps, {**ON_TABLES[steps], **linear}, scaled=True)


def only_work(method: Any) -> str:
    """The one kind of work that a method does, given as its class; nothing for those that do any."""
    only: str = method_fact(method, "only_work")
    return only


def refuse_other_than(only: str, method: str, kernel: str) -> None:
    if kernel != only:
        raise BadInput(f"method {method} does the work {only} alone; got kernel {kernel}: leave it out")


def with_local(method: Any, local: Any) -> dict[str, Any]:
    """Local work as an option of a method, given as its class, if it takes any."""
    return {} if only_work(method) else {"local": local}


def work_of_options(names: Collection[str]) -> str:
    """The work that is meant by whoever gives options of the usual one (lr, epochs), and names none."""
    return STEPS if {o.name for o in options_of(WORK[STEPS])} & set(names) else ""
