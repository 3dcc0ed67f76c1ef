"""A net around a net: everything is passed on but the verbs that a wrapper changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from coterie.core.belief import Beliefs, Weights
from coterie.core.held import Held
from coterie.core.kernel import Kernel
from coterie.core.net import Beside, Distances, Net, Replies
from coterie.core.observer import Observer
from coterie.core.roster import Roster
from coterie.core.seeds import Key


@dataclass(frozen=True, eq=False)
class Wrapped:
    """Passes every verb on."""

    net: Net

    @property
    def roster(self) -> Roster:
        return self.net.roster

    @property
    def seals(self) -> bool:
        """Whether replies are sealed, here or further in."""
        return bool(getattr(self.net, "seals", False))

    @property
    def asks(self) -> bool:
        """Whether any site, here or further in, may withdraw from a sum."""
        return bool(getattr(self.net, "asks", False))

    @property
    def lies(self) -> bool:
        """Whether some sites lie on purpose, here or further in: what becomes of models is then studied."""
        return bool(getattr(self.net, "lies", False))

    @property
    def apart(self) -> frozenset[tuple[int, int]]:
        """(receiver, site): as was decided, here or further in, the site is in no sum of the receiver."""
        return frozenset(getattr(self.net, "apart", ()))

    @property
    def sealed_bytes(self) -> int:
        """Of what passed between clients and helpers since `figures` was last asked."""
        return int(getattr(self.net, "sealed_bytes", 0))

    def withdrawing(self, offers: Sequence[Any], circle: bool) -> dict[int, str]:
        """Of some offers (`offers.py`), by number, those whose sites withdraw, and why."""
        ask = getattr(self.net, "withdrawing", None)
        return {} if ask is None else dict(ask(offers, circle))

    def figures(self) -> dict[str, Any]:
        """What wrappers have to say of a round, for its record."""
        return dict(getattr(self.net, "figures", dict)())

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        return self.net.mix(weights, beliefs, at, in_turn)

    def offer(self, weights: Weights, at: Tensor, of: Held | None = None) -> Tensor:
        return self.net.offer(weights, at, of)

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        return self.net.deliver(beliefs, rows, at)

    def share(self, beliefs: Held, to: Tensor) -> None:
        self.net.share(beliefs, to)

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        return self.net.distances(replies, to, at, importance)

    def open(self, beliefs: Held) -> Beliefs:
        return self.net.open(beliefs)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        return self.net.in_one_place(groups)

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.net.keep(live, round)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        self.net.regroup(live, round)

    def away(self) -> Mapping[str, str]:
        return self.net.away()

    def peek(self, beliefs: Held) -> Beliefs | None:
        return self.net.peek(beliefs)

    def save(self, beliefs: Held, paths: Mapping[int, str]) -> None:
        self.net.save(beliefs, paths)

    def finish(self, beliefs: Held, of: Mapping[int, int], facts: Mapping[int, Mapping[str, Any]]) -> None:
        self.net.finish(beliefs, of, facts)

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        return self.net.kept(live, round)

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        self.net.restore(kept, live, round)

    def keep_at(self, folder: str) -> None:
        self.net.keep_at(folder)

    def observe(self, observer: Observer) -> None:
        self.net.observe(observer)

    def close(self) -> None:
        self.net.close()


def innermost(net: Any) -> Any:
    while isinstance(net, Wrapped):
        net = net.net
    return net
