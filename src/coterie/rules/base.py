"""What a rule is.

n replies x_0 ... x_{n-1}, of which at most f are lies, were made of one belief x_n that went out. There are
two kinds of rule, and a step before either:

    weights    from squared distances D [n+1, n+1] between replies and, last, the belief that went out, a rule
               gives weights w [n+1] that add up to 1; the result is Σ_j w_j x_j. Nothing looks at a reply: a
               net's `distances` and one `mix` are all that is needed, so that these run sealed
    opens      the rule looks at the replies' numbers one by one, which the net must `open`
    before     replies are mixed among each other first, by a matrix of weights; then another rule goes on

Each rule says how many replies it needs for how many liars, and refuses less in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.registry import Registry

Reads = Literal["nothing", "lengths", "mine", "all"]
NEVER = 2**31  # replies that nobody has
SAME = 1e-6  # relative difference of squared distances that counts as none, as sealed ones are that coarse


class Needs(NamedTuple):
    """What a rule must have.

    bound    in words, how many replies n for f liars
    least    the same as a function: from f to the smallest n
    reads    which distances: none, those to what went out, those to one's own reply too, or all
    origin   whether what it gives depends on the belief that went out
    root     whether it trusts one reply, the receiver's own
    opens    whether it looks at replies one by one
    before   whether it is a step before another rule
    """

    bound: str
    least: Callable[[int], int]
    reads: Reads = "all"
    origin: bool = False
    root: bool = False
    opens: bool = False
    before: bool = False


@dataclass(frozen=True)
class Rule:
    """Options of a rule; a rule has those of the functions below that its kind says."""

    needs: ClassVar[Needs]
    name: ClassVar[str]

    def check(self, n: int, f: int) -> None:
        """Refuses options that do not go with so many replies and liars, beyond the bound."""

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        """[n+1], adding up to 1, from squared distances [n+1, n+1]; `me` is the reply that is trusted."""
        raise NotImplementedError

    def mixing(self, D: Tensor, f: int) -> Tensor:
        """Of a step before: what each point becomes, [n+1, n+1], rows adding up to 1; the last stays."""
        raise NotImplementedError

    def chosen(self, D: Tensor, f: int) -> Tensor:
        """Of a rule that opens: the numbers of the replies that it goes on with."""
        return torch.arange(len(D) - 1)

    def summed(self, values: Tensor, n: int, f: int) -> Tensor:
        """Of a rule that opens: one tensor [...] from those of the chosen replies [chosen, ...] of n."""
        raise NotImplementedError


RULES: Registry[Any] = Registry("rule")


def more_than(times: int, plus: int = 0) -> Callable[[int], int]:
    """n > times f + plus."""
    return lambda f: times * f + plus + 1


def refuse_beyond(rule: Rule, n: int, f: int, lower: str = "lower f or add clients") -> None:
    """The bound, in one line."""
    if n < rule.needs.least(f):
        remedy = lower if f else "add clients"
        raise BadInput(f"{rule.name} needs {rule.needs.bound}; got n={n}, f={f}: {remedy}")
