"""A net wrapped: the senders of every sum of training replies are valued, beside the run.

Nothing that a method sees changes. Its visits, sums and distances are passed on as they come, and answers as
they are; what is asked besides goes straight to the net inside, with keys of its own, so that a run gives the
same figures with and without. What was found is a round's `contributions` in its record:

    level, rows    of intervals; on which rows senders are judged
    by             each estimate's `games`, and what they took: `looks` at sites, `sent` models, their `bytes`
    unvalued       why sums, or estimates of them, have no value, and how often

A game has `receivers` (the receiver of a sum; for one at the coordinator all who judged it), `senders`,
`value` [receiver, sender], how sure that is where it was drawn, what was `said`, and for a sum at the
coordinator what each sender `given` to all others together: losses times rows.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from torch import Tensor

from coterie.core.belief import Weights
from coterie.core.clock import CLOCK
from coterie.core.errors import BadInput, Gathered, Gone, UnknownName
from coterie.core.facts import kernel_fact, method_fact
from coterie.core.held import Held
from coterie.core.kernel import WORK, Kernel, kernel_to_dict
from coterie.core.method import Method, Reveals
from coterie.core.net import WRAPS, Beside, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.features.contributions import ESTIMATES
from coterie.features.contributions.valuing import (
    FIRST_ORDER,
    Sum,
    Trained,
    Unvalued,
    estimated,
    part_of,
    sums_of,
)
from coterie.kernels.downhill import Downhill
from coterie.kernels.leaning import Leaning
from coterie.kernels.proximal import Proximal, Tethered
from coterie.kernels.score import Score
from coterie.nets.counting import Counting
from coterie.nets.wrapped import Wrapped
from coterie.privacy.spending import cost_of

NOTHING = "no replies were summed up"
PART = "contributions: "  # and the estimate: parts of the clock
INSIDE = ("absent", "liars", "sealed")  # wrappers whose work is to be seen
OUTSIDE = ("ownership",)  # and one that decides who is in a sum
LIMITS = (
    "contributions: {} sums up the replies of some senders alone, and sites have limits on sums: take "
    "by=first-order"
)


class _Notes:
    """This round's training replies by id; games and prices by estimate; what was not valued; by round."""

    def __init__(self) -> None:
        self.replies: dict[int, Trained] = {}
        self.round, self.rounds = 0, 0
        self.games: list[tuple[int, str, dict[str, Any], dict[str, int]]] = []
        self.unvalued: list[tuple[int, str]] = []


@WRAPS.register("contributions")
@dataclass(frozen=True, eq=False)
class Contributions(Wrapped):
    """Values what each client gave to each other: the section contributions of a run."""

    by: str = FIRST_ORDER
    """Estimates, joined by +: first-order, leave-one-out, shapley, gtg, exact-shapley."""
    every: int = 1
    """Value every so many rounds, and the last."""
    permutations: int = 256
    """Orders that shapley and gtg draw for each sum."""
    level: float = 0.999
    """At which all intervals of an estimate hold at once."""
    tolerance: float = 0.01
    """Cut an order once it is as near to everybody's value, as a share of what all changed together."""
    skip: float = 0.001
    """gtg skips a round that changed the judged loss by no more than this share of it."""

    notes: _Notes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check(**{name: getattr(self, name) for name in OPTIONS})
        if self.asks and self.by != FIRST_ORDER:
            raise BadInput(LIMITS.format(self.by))
        object.__setattr__(self, "notes", _Notes())
        object.__setattr__(self, "net", Counting(self.net))  # so that it is known what looks took

    @staticmethod
    def check(
        by: str = FIRST_ORDER,
        every: int = 1,
        permutations: int = 256,
        level: float = 0.999,
        tolerance: float = 0.01,
        skip: float = 0.001,
    ) -> None:
        wrong = Gathered()
        for name in by.split("+"):
            if name != FIRST_ORDER and name not in ESTIMATES:
                wrong.found.append(UnknownName("estimate", name, [FIRST_ORDER, *ESTIMATES]))
        if every < 1:
            wrong.add(f"contributions: every={every} must be at least 1: try 1")
        if permutations < 16:
            wrong.add(f"contributions: permutations={permutations} must be at least 16: try 256")
        if not 0 < level < 1:
            wrong.add(f"contributions: level={level} must lie between 0 and 1: try 0.999")
        for option, value in (("tolerance", tolerance), ("skip", skip)):
            if not 0 <= value < 1:
                wrong.add(f"contributions: {option}={value} must be at least 0 and below 1: try 0.01")
        wrong.refuse()

    @staticmethod
    def ordered(names: Sequence[str], by: str = FIRST_ORDER, **options: Any) -> None:
        """Refuses other wrappers, in their order, with which nothing could be valued."""
        here = list(names).index("contributions")
        if "private" in names:
            raise BadInput(
                "contributions are judged on rows in the clear, outside of any budget: leave the wrapper "
                "private or contributions out"
            )
        late = [name for name in names[here + 1 :] if name in INSIDE or name == "contributions"]
        early = [name for name in names[:here] if name in OUTSIDE]
        if late or early:
            order = [n for n in dict.fromkeys(names) if n not in ("contributions", *OUTSIDE)]
            order += ["contributions", *(n for n in names if n in OUTSIDE)]
            why = f"{late[0]} comes after it" if late else f"{early[0]} comes before it"
            raise BadInput(f"contributions: {why}: write --wrap {' '.join(order)}")
        many = [name for name in by.split("+") if name != FIRST_ORDER]
        if "sealed" in names and many:
            raise BadInput(
                f"contributions: {', '.join(many)} sums replies up in so many ways that each could be solved "
                "for, which sealed rules out: take by=first-order"
            )
        if "ownership" in names and many:
            raise BadInput(LIMITS.format(", ".join(many)))

    @staticmethod
    def admit(method: Method, roster: Roster, by: str = FIRST_ORDER, **options: Any) -> None:
        """Refuses work with noise, and too many clients for an estimate."""
        wrong, local = Gathered(), method_fact(method, "local")
        least = min((m.train for m in roster.members if m.train), default=0)
        if local is not None and cost_of(local, {"train": least}):
            wrong.add(
                "contributions are judged on rows in the clear, outside of what the noise of the local work "
                "bounds: leave the wrapper out"
            )
        for name in by.split("+"):
            if name in ESTIMATES and len(roster) > (most := ESTIMATES[name].most):
                wrong.add(
                    f"{name} looks at all 2^n sets of clients, n <= {most}; got n={len(roster)}: take "
                    "by=gtg or by=shapley"
                )
        wrong.refuse()

    @staticmethod
    def adds(
        reveals: Reveals, kernels: tuple[Any, ...], by: str = FIRST_ORDER, **options: Any
    ) -> tuple[Reveals, tuple[Any, ...]]:
        """What is shown and done besides: sums of some replies, single ones too, go to whoever judges them,
        and scores come back; or a step down the gradient is measured with the replies.
        """
        sums = [name for name in by.split("+") if name != FIRST_ORDER]
        numbers = [*reveals.numbers, "loss", "samples"]
        if FIRST_ORDER in by.split("+"):
            numbers, kernels = [*numbers, "steepness", "distances"], (*kernels, kernel_to_dict(Downhill()))
        if sums:
            kernels = (*kernels, kernel_to_dict(Score()))
        sites = reveals.sites or (bool(sums) and reveals.coordinator)
        return replace(reveals, sites=sites, numbers=tuple(dict.fromkeys(numbers))), kernels

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        self.notes.round, self.notes.rounds = key.round, key.rounds
        # a client's work on a model, pulled or not, not a look at one
        trains = kernel_fact(kernel, "name") in WORK or isinstance(kernel, Leaning | Proximal | Tethered)
        if self.due and trains and replies.held is not None and len(beliefs.parts) == 1:
            ids, guests = replies.held.parts[0].ids.tolist(), replies.guests.tolist()
            self.notes.replies |= {i: Trained(beliefs, g, key) for i, g in zip(ids, guests, strict=True)}
        return replies

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        mixed = self.net.mix(weights, beliefs, at, in_turn)
        if self.due:
            try:
                for summed in sums_of(weights, beliefs, at, in_turn, mixed, self.notes.replies):
                    self._value(summed)
            except Unvalued as why:
                self.notes.unvalued.append((self.notes.round, str(why)))
        return mixed

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.notes.replies.clear()
        self.net.keep(live, round)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        """What was found in a round that is done again is forgotten."""
        self.notes.replies.clear()
        self.notes.games = [g for g in self.notes.games if g[0] <= round]
        self.notes.unvalued = [u for u in self.notes.unvalued if u[0] <= round]
        self.net.regroup(live, round)

    @property
    def due(self) -> bool:
        return self.notes.round % self.every == 0 or self.notes.round == self.notes.rounds

    def _value(self, summed: Sum) -> None:
        book = cast(Counting, self.net).book
        for name in self.by.split("+"):
            book.read()
            try:
                with CLOCK.part(PART + name):
                    options = {option: getattr(self, option) for option in OPTIONS}
                    game, looks = estimated(self.net, summed, name, options)
            except (Unvalued, Gone) as error:
                why = str(error) if isinstance(error, Unvalued) else "a site went while it was asked"
                self.notes.unvalued.append((self.notes.round, why))
                continue
            passed = book.read()
            price = {"looks": looks, "sent": int(passed.models.sum()), "bytes": int(passed.bytes.sum())}
            self.notes.games.append((summed.key.round, name, game, price))

    def figures(self) -> dict[str, Any]:
        """What was found since it was last asked; nothing of a round that was not looked at."""
        notes, found = self.notes, self.net.figures()
        games, unvalued = notes.games, Counter(why for _, why in notes.unvalued)
        notes.games, notes.unvalued = [], []
        if not self.due:
            return found
        by: dict[str, dict[str, Any]] = {}
        for _, name, game, price in games:
            mine = by.setdefault(name, {"games": [], "looks": 0, "sent": 0, "bytes": 0})
            mine["games"].append(game)
            for what, many in price.items():
                mine[what] += many
        if not games and not unvalued:
            unvalued[NOTHING] += 1
        said = {"level": self.level, "rows": part_of(self.roster), "by": by, "unvalued": dict(unvalued)}
        return {**found, "contributions": said}


OPTIONS = tuple(f.name for f in dataclasses.fields(Contributions) if f.init and f.name != "net")
