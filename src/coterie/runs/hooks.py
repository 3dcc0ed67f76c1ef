"""What hangs on a run beside its rounds, declared in one place.

The builder (`experiment.py`) and the loop (`loop.py`) call these hooks and know nobody who has one. A feature
(`coterie.features`) brings a class of its own, `HOOK` in its hook.py, with those that it needs:

    while an experiment is built    prepare, refuse, plan, around, use
    while its rounds are played     inside, start, begin, round, trained, tell, written, diverged
    when they are over              asks, look, save, over

Each run has hooks of its own, called in the order of `order`, the lowest first: what one found is there for
the next (`Run.found`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from coterie import features
from coterie.core.belief import Beliefs
from coterie.core.clock import Times
from coterie.core.errors import Gone
from coterie.core.held import Held, handles_in
from coterie.core.method import Info, Method, Models
from coterie.core.net import Net
from coterie.core.observer import NOBODY, Observer
from coterie.core.roster import Roster
from coterie.engines.base import Engine
from coterie.metrics.own import NOTHING, Own
from coterie.nets.counting import Counting, Traffic
from coterie.nets.ground import Connector, Ground
from coterie.runs.record import Record
from coterie.sites.setup import Setup

if TYPE_CHECKING:
    from coterie.runs.experiment import Experiment
    from coterie.runs.folder import Folder
    from coterie.runs.settings import Settings

T = TypeVar("T")
log = logging.getLogger("coterie")


@dataclass(eq=False)
class Turn:
    """One round, as it comes about; round 0 has no training, and scores the first models.

    info      what the method says of it
    moved     what passed in it, and `looked` for its scoring alone
    sealed    bytes that passed between clients and helpers
    ended     why no round comes after it: a word for the record, or nothing
    entry, timing   its lines in metrics.jsonl and timings.jsonl
    """

    round: int
    info: Info | None
    moved: Traffic
    sealed: int = 0
    ended: str = ""
    looked: Traffic | None = None
    entry: dict[str, Any] = field(default_factory=dict)
    timing: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Run:
    """A run that goes on.

    folder      where it is written down, if anywhere
    observer    who is told what happens to it
    start       the first beliefs
    state, done     the method's, after the last round that is over
    safe, saved     the state of the last checkpoint, and after which round that was: it may be gone on from
    models      in the end, whose is which
    found       what hooks found in the end, by name, for hooks that come after them
    """

    experiment: Experiment
    folder: Folder | None
    record: Record
    start: Held
    hooks: Sequence[Hook]
    times: Times = field(default_factory=Times)
    observer: Observer = NOBODY
    state: Any = None
    done: int = 0
    safe: Any = None
    saved: int = -1
    models: Models | None = None
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def net(self) -> Counting:
        return self.experiment.net

    @property
    def live(self) -> list[Held]:
        """Handles of the state that the run may have to go on from."""
        return [*handles_in(self.state), *(handles_in(self.safe) if self.safe is not None else ())]

    @property
    def ended_models(self) -> Models:
        assert self.models is not None, "models are there when the rounds are over"
        return self.models

    def at_sites(self, work: Callable[[], T]) -> T:
        """Looks at what the last round has left; anew if a site that is needed for it goes meanwhile."""
        return retry_look(self.net, [*handles_in(self.state)], self.done, work)


class Wanted(NamedTuple):
    """A run in the making: what was asked for, of whom."""

    method: Method
    settings: Settings
    roster: Roster
    elsewhere: bool  # sites have rows of their own


class Hook:
    """Does nothing. A feature's hook does something of this."""

    order: ClassVar[int] = 50
    meets: ClassVar[tuple[str, ...]] = ()
    """Settings that ask something of this hook (`Facts.alone`)."""

    # while an experiment is built

    def prepare(
        self,
        method: Method,
        setup: Setup,
        settings: Settings,
        connector: Connector,
        engine: Engine,
        own: Own = NOTHING,
    ) -> tuple[Method, Settings, list[str]] | None:
        """What a method cannot begin without (`core.method.undecided`): the method that has it, the settings
        that say so, and what to say of it; None where the hook does not know.
        """
        return None

    def refuse(self, wanted: Wanted) -> None:
        """Refuses what cannot be had, before anything is trained."""

    def plan(
        self, method: Method, beliefs: Beliefs, ground: Ground, settings: Settings
    ) -> tuple[int, list[str]] | None:
        """How many rounds there can be, and what to say of it; None for as many as were asked for."""
        return None

    def around(self, net: Net, method: Method) -> Net:
        """The net, in a wrapper where one is needed that nobody has to ask for."""
        return net

    def use(self, experiment: Experiment) -> None:
        """The models of this run are to be used, not only compared: refuses what cannot be had then."""

    # while rounds are played

    def inside(self, run: Run) -> AbstractContextManager[Any]:
        """Entered before all else, left whatever comes."""
        return nullcontext()

    def start(self, run: Run, after: int | None) -> None:
        """What was saved is read back: the run goes on after that round, or begins (None)."""

    def begin(self, run: Run) -> None:
        """The first models are scored and written, or read back; rounds begin."""

    def round(self, run: Run, round: int) -> None:
        """A round begins."""

    def trained(self, run: Run, turn: Turn) -> str:
        """A round is trained, not yet scored: why it is the last, if it is, in a word."""
        return ""

    def tell(self, run: Run, turn: Turn) -> Mapping[str, Any]:
        """What its line in metrics.jsonl says besides: the same each time that the run is repeated."""
        return {}

    def written(self, run: Run, turn: Turn) -> None:
        """The round is in the record."""

    def diverged(self, run: Run, why: str) -> None:
        """The run ends without a result."""

    # when they are over

    def asks(self, experiment: Experiment, models: Models, round: int) -> Any:
        """What sites are asked of the models that the run ends with; a plan of the run asks it too."""
        return None

    def look(self, run: Run) -> None:
        """Sites are still there: looks at the models that the run ends with."""

    def save(self, run: Run) -> None:
        """Writes into the run's folder, before the models are there, with which it counts as over."""

    def over(self, run: Run) -> None:
        """Models are written: the run is over. Without a folder, the record is all there is."""


def hooks() -> tuple[Hook, ...]:
    """One of each feature's, for one run, in their order."""
    made = [module.HOOK() for module in features.brought("hook")]
    return tuple(sorted(made, key=lambda hook: (hook.order, type(hook).__module__)))


def around(net: Net, method: Method) -> Net:
    """A net in the wrappers that features put around it unasked."""
    for hook in hooks():
        net = hook.around(net, method)
    return net


# sites that go in the middle of some work: visits are pure, so that it is done again and nothing is lost


def retry_round(
    net: Net, live: Sequence[Held], round: int, work: Callable[[], T], observer: Observer = NOBODY
) -> T:
    """Does some work after a round with those who are there; again, if some of them go meanwhile."""
    while True:
        net.regroup(live, round)
        try:
            return work()
        except Gone as gone:
            log.info("round %d is done again: %s", round + 1, gone)
            for name, why in gone.why.items():
                observer.happened("round-again", name, why)


def retry_look(net: Net, live: Sequence[Held], round: int, work: Callable[[], T]) -> T:
    """Looks at what a round has left, with who is there; from the start if some go who are needed for it."""
    try:
        return work()
    except Gone:
        return retry_round(net, live, round, work)
