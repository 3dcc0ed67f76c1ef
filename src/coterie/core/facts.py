"""What methods and kernels may say of themselves beside their protocols, declared once.

A fact is an attribute of the class, or an option of it; one that does not have it is as said here. Nobody
looks for an attribute that is not in these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALL = "all"

METHOD_FACTS: Mapping[str, Any] = {
    "local": None,  # its local work
    "train": True,  # models come of it; False: it only looks at rows
    "works": True,  # its local work is done at all
    "passes": 1,  # how often a round does that work: of a ranking
    "folds": 0,  # parts of the rows that it leaves out in turn
    "requester": ALL,  # for whom it makes models
    "undecided": False,  # it cannot begin before something was decided for it (`Hook.prepare`)
    "paced": "",  # what it does otherwise because of how many rounds there are, in words
    "common": False,  # sites all hold the same model, made of all
    "hides": False,  # it adds noise of its own to what it asks of rows
    "posteriors": None,  # posteriors(state, look, names): what clients sent for others to join later
    "state_type": None,  # state_type(): of its state, if `init` cannot say it
    "solved_by": "newton",  # the work by which it solves a linear model; "" if it cannot
    "scales_targets": None,  # whether targets are scaled then; None: as the work has it
    "small_steps": "adamw",  # the work that it does in small steps
    "only_work": "",  # the one kind of work that it does
}

KERNEL_FACTS: Mapping[str, Any] = {
    "name": "",  # by which it is registered
    "inner": None,  # the kernel that it is around
    "part": "",  # a scorer's: the rows that it looks at
    "numbers": None,  # the names of what it tells; None: of a scorer nothing, of work a loss and samples
    "together": False,  # all guests of a host are one call
    "tell": None,  # tell(numbers, ...): what leaves of its numbers
    "charges": None,  # charges(rows): what a visit costs so many rows; None: there is no bound
    "keeps": False,  # memory lasts from visit to visit
    "mark": None,  # mark(...): called after some of its steps
    "clip": None,  # the norm that gradients are cut to
    "gradients": 1,  # gradients of a batch that a step takes
    "epochs": 0,
    "steps": 0,
    "batch": 0,
    "sizes": None,  # of what it tells beside numbers
    "solves": False,  # one step that has every row and branches on values
    "forgets": False,  # it begins anew, whatever model comes
    "by_row": False,  # it needs a loss of each row by itself
    "whole": False,  # it needs the same rows at each of its steps
    "suits": None,  # suits(model): refuses a model
    "tries": None,  # tries(model, shape): likewise, by trying
    "needs": None,  # needs(rows): refuses a client with so few
    "sums": False,  # it tells sums over rows
    "tells": "",  # what it tells of rows beside a model, in words
    "compares": False,  # its replies compare models of several sites
    "columns": None,  # which columns its sums are of
    "classes": 0,  # and of how many classes
    "varies": (),  # options that may differ from visit to visit of a plan
    "deals": (),  # options by which it deals rows anew
    "sigma": float("nan"),  # noise
}


def method_fact(method: Any, name: str) -> Any:
    """What a method says of itself, given as an instance or as its class."""
    return getattr(method, name, METHOD_FACTS[name])


def kernel_fact(kernel: Any, name: str) -> Any:
    """What a kernel says of itself, given as an instance or as its class."""
    return getattr(kernel, name, KERNEL_FACTS[name])


def called(thing: Any) -> str:
    """The name by which a method or a kernel is registered, else that of its class."""
    return str(getattr(thing, "name", "") or type(thing).__name__)
