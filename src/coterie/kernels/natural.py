"""Which local work a method does on tables if nobody says: `kernel=auto`.

A linear model of a table is solved rather than trained in small steps. Alone, by the optimum of one's own
penalised likelihood (`ridge`); in a method that goes on from a model that came, by the optimum near it
(`newton`). A method whose local work has to go in small steps says by which in `small_steps`, as a class
attribute. Pictures, and models of one's own, are trained by `sgd`, as are papers' presets, which name it. A
method that is one kind of work and no other names it in `only_work`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from coterie.core.errors import BadInput
from coterie.core.kernel import WORK
from coterie.core.options import options_of

AUTO, STEPS = "auto", "sgd"
LINEAR = ("logistic", "linear")
"""Models, by name, that are one linear map."""


def natural_work(method: Any, table: bool, model: str) -> str:
    """The work of a method, given as its class, on a table or something else, with a model of that name."""
    if only := only_work(method):
        return only
    steps: str = getattr(method, "small_steps", "")
    if not table or model not in (*LINEAR, AUTO) or steps:
        return steps or STEPS
    own: str = getattr(method, "solved_by", "newton")
    return own


def only_work(method: Any) -> str:
    """The one kind of work that a method does, given as its class; nothing for those that do any."""
    only: str = getattr(method, "only_work", "")
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
