"""A net around a net: everything is passed on but the verbs that a wrapper changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from coterie.core.method import Reveals
from coterie.core.net import Net
from coterie.core.roster import Roster

Scores = Literal["clear", "noisy", "none"]


@dataclass(frozen=True, eq=False)
class Wrapped:
    """Passes on every verb and fact of `Net` that it does not have itself. A wrapper is registered in
    `WRAPS`, and says of itself what is to be known.
    """

    net: Net

    @property
    def roster(self) -> Roster:
        return self.net.roster

    # what a wrapper has to say before there is a net, of its options

    @staticmethod
    def check(*_: Any, **options: Any) -> None:
        """Refuses options that make no sense."""

    @staticmethod
    def ordered(*names: Any, **options: Any) -> None:
        """Refuses wrappers beside which it makes no sense: ordered(names, **options), innermost first."""

    @staticmethod
    def admit(*method_and_roster: Any, **options: Any) -> None:
        """Refuses a method, on these sites, that it does not go with: admit(method, roster, **options)."""

    @staticmethod
    def adds(
        reveals: Reveals, kernels: tuple[Any, ...], *_: Any, **options: Any
    ) -> tuple[Reveals, tuple[Any, ...]]:
        """What a method shows and does at sites, with what the wrapper adds to it."""
        return reveals, kernels

    @staticmethod
    def scores_leave(**options: Any) -> Scores | None:
        """How scores of models leave sites, where the wrapper decides it."""
        return None

    studied: ClassVar[bool] = False  # for studies alone: sites of their own cannot be made to do it
    always_seals: ClassVar[bool] = False
    unasked: ClassVar[bool] = False  # without it sites are asked no less
    unbounded: ClassVar[Mapping[str, Any]] = {}  # its options where nothing is to be refused for its cost

    if TYPE_CHECKING:  # all else is as the net has it

        def __getattr__(self, name: str) -> Any: ...


def _passed_on(name: str) -> Any:
    """A verb or a fact of the net within."""
    if isinstance(vars(Net)[name], property):
        return property(lambda wrapper: getattr(wrapper.net, name))

    def verb(wrapper: Wrapped, *args: Any, **options: Any) -> Any:
        return getattr(wrapper.net, name)(*args, **options)

    return verb


for _name in vars(Net).keys() - vars(Wrapped).keys():
    if not _name.startswith("_"):
        setattr(Wrapped, _name, _passed_on(_name))


def innermost(net: Any) -> Any:
    while isinstance(net, Wrapped):
        net = net.net
    return net
