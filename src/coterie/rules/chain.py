"""A rule as text, with its options and the steps before it: "krum", "nnm+krum:m=3".

    text      [step+]rule, each with :option=value if need be; several with : or , between them
    f         how many of the replies may be lies; auto: the largest number with n > 3f that the rule allows

When fewer answer than the bound needs, f is lowered for that round to the largest that holds; where not even
f = 0 does, the rule has nothing to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput, shown
from coterie.core.options import coerced, read_pairs
from coterie.rules.base import RULES, Reads, Rule, refuse_beyond
from coterie.rules.identities import between_sums, mean_of

Liars = int | Literal["auto"]
ORDER: tuple[Reads, ...] = ("nothing", "lengths", "mine", "all")


@dataclass(frozen=True)
class Chain:
    """A rule and the steps before it."""

    steps: tuple[Rule, ...]
    last: Rule

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (*self.steps, self.last)

    @property
    def reads(self) -> Reads:
        return max((rule.needs.reads for rule in self.rules), key=ORDER.index)

    @property
    def name(self) -> str:
        return "+".join(rule.name for rule in self.rules)

    def least(self, f: int) -> int:
        """Replies that f liars need."""
        return max(rule.needs.least(f) for rule in self.rules)

    def weights(self, D: Tensor, f: int, me: int | None = None) -> Tensor:
        """[n+1] of replies and of what went out, adding up to 1, from squared distances [n+1, n+1]."""
        D, mixing = self._stepped(D, f)
        w: Tensor = self.last.weights(D, f, me) @ mixing
        return w

    def _stepped(self, D: Tensor, f: int) -> tuple[Tensor, Tensor]:
        """Squared distances after the steps, and what has become of each point [n+1, n+1]."""
        mixing = torch.eye(len(D), dtype=torch.float64)
        for step in self.steps:
            made = step.mixing(D, f)
            D, mixing = between_sums(D, made), made @ mixing
        return D, mixing

    def summed(self, opened: Beliefs, D: Tensor, f: int) -> tuple[Belief, Tensor]:
        """Of a rule that opens: the sum of replies [n, ...], and shares [n] of those that it went on with.

        The shares are alike, as every number of the model has weights of its own. What is not averaged comes
        from the first of them.
        """
        n = len(D) - 1
        D, mixing = self._stepped(D, f)
        if self.steps:
            opened = tree.mix(mixing[:n, :n], opened)
        used = self.last.chosen(D, f)
        some = tree.rows(opened, used)
        made = {
            name: self.last.summed(t, n, f) if t.is_floating_point() else t[0] for name, t in some.items()
        }
        return made, (mean_of(n + 1, used) @ mixing)[:n]


@lru_cache(maxsize=64)
def chained(text: str) -> Chain:
    """A rule from its text."""
    parts = [_made(part.strip()) for part in text.split("+")]
    for part in parts[:-1]:
        if not part.needs.before:
            raise BadInput(f"rule {shown(text)}: {part.name} is no step before another: try nnm+{part.name}")
    if parts[-1].needs.before:
        raise BadInput(f"rule {shown(text)}: {parts[-1].name} is a step before another: try nnm+krum")
    return Chain(tuple(parts[:-1]), parts[-1])


def _made(part: str) -> Rule:
    name, _, pairs = part.partition(":")
    cls = RULES[name.strip()]
    told = read_pairs(pairs.replace(":", ","), f"rule {shown(part)}")
    rule: Rule = cls(**coerced(cls, told, f"rule {name}"))
    return rule


def liars_of(chain: Chain, f: Liars, n: int) -> int:
    """How many liars are reckoned with among n; refuses what is beyond a rule's bound."""
    if f == "auto":
        found = with_fewer(chain, (n - 1) // 3, n)
        f = 0 if found is None else found
    check_liars(f)
    for rule in chain.rules:
        refuse_beyond(rule, n, f)
        rule.check(n, f)
    return f


def check_liars(f: Liars) -> None:
    """Whatever the number of replies."""
    if f != "auto" and (isinstance(f, str) or f < 0):
        raise BadInput(f"f={f} must be at least 0: try auto")


def with_fewer(chain: Chain, f: int, n: int) -> int | None:
    """The largest number of liars up to f that n replies allow; None if not even 0."""
    return next((g for g in range(f, -1, -1) if chain.least(g) <= n), None)


def unguarded(chain: Chain, f: Liars, found: int, n: int) -> tuple[str, ...]:
    """What to say before a run whose rule was to find its own number of liars, and can bear none."""
    if f != "auto" or found or chain.name == "mean":
        return ()
    rule = max(chain.rules, key=lambda rule: rule.needs.least(1))
    return (
        f"{chain.name} holds against no liar among {n} clients ({rule.name} needs {rule.needs.bound}, auto "
        "n > 3f): take another rule, or add clients",
    )
