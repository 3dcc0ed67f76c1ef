"""The few verbs with which a method reaches the sites.

Axes are [receiver, sender, ...] throughout. An edge (guest, host) sends the guest-th row of a handle to the
host-th site. Beliefs stay where they are until a verb moves them:

    visit       row guest goes to its host, and the reply rests there        numbers go to the coordinator
    mix         replies go to a receiver, which sums them                    and the sum rests there
    distances   replies go to one place, which measures                      numbers go to the coordinator
    offer       sites see their shares of sums to come, and may withdraw     `mix` asks by itself
    deliver     rows are copied to places
    share       every row is copied to every one of some places
    open        rows go to the coordinator, in the clear, to be looked at

Sums and distances say nothing of a single reply to whoever only conducts, so a method that does without
`open` shows the coordinator no model but what it mixes there. Copies last until the round is over (`keep`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from coterie import features
from coterie.core.belief import Beliefs, Weights, everybody
from coterie.core.errors import BadInput
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import Kernel
from coterie.core.observer import Observer
from coterie.core.registry import Registry
from coterie.core.roster import Roster
from coterie.core.seeds import Key

Beside = Mapping[str, Held]
"""What a kernel looks at besides the belief that it changes, by name: one row for all, or one for each edge.
"""


@dataclass(frozen=True, eq=False)
class Replies:
    """What came back from a visit, in the order of the edges that answered (a site may be gone).

    edges     [reply, 2] the (guest, host) pairs that answered
    numbers   public figures by name, [reply] each: loss, samples, accuracy, ...
    held      the replied beliefs [reply, ...], each with its host; None of a visit that only measured
    origin    what went out [guest, ...]
    """

    edges: Tensor
    numbers: Mapping[str, Tensor]
    held: Held | None = None
    origin: Held | None = None

    def __len__(self) -> int:
        return len(self.edges)

    @property
    def guests(self) -> Tensor:
        return self.edges[:, 0]

    @property
    def hosts(self) -> Tensor:
        return self.edges[:, 1]

    def only(self, index: Tensor) -> Replies:
        """Some of them, in the given order."""
        numbers = {name: values[index] for name, values in self.numbers.items()}
        held = None if self.held is None else self.held.rows(index)
        return Replies(self.edges[index], numbers, held, self.origin)

    @property
    def beliefs(self) -> Held:
        """The replied beliefs, of a visit that brought some."""
        if self.held is None:
            raise BadInput("this visit brought no beliefs: nobody answered, or it only measured")
        return self.held


class Distances(NamedTuple):
    """Norms of differences in trained parameters: between replies [reply, to], and to what went out."""

    apart: Tensor
    lengths: Tensor


class Net(Protocol):
    """Sites behind verbs; and, in the end, what a net or a wrapper says of itself. What has a value here is
    so with most nets: one that knows otherwise says so.
    """

    @property
    def roster(self) -> Roster: ...

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        """Sends rows along edges; replies come with the edges that answered and rest with their hosts.

        What a kernel keeps (an optimiser's state) stays at the host under `slot`: the next round's visit with
        the same slot finds it. A slot serves one visit to a host in a round.
        """
        ...

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        """Weighted sums at places `at` [receiver]: weights [receiver, row], or one such matrix for each name.

        With `in_turn`, rows are the receivers' own: receiver i is the place of one row, sums are made one
        after the other, and each takes that row's place for those after it.
        """
        ...

    def offer(self, weights: Weights, at: Tensor, of: Held | None = None) -> Tensor:
        """Who stays in sums that are about to be made at places `at`: [receiver, column], as asked of sites.

        Each site in a sum is told its share of it, how many others are in it, and how much of its reply the
        receiver learns; whoever withdraws changes that for the others, so that they are asked again. Columns
        are rows of the handle `of`, and `mix` asks by itself; without a handle they are the sites, and what
        is offered is a circle, published before anybody trains in it.
        """
        return everybody(weights)

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        """Copies of some rows [copy], each at its place `at` [copy]."""
        ...

    def share(self, beliefs: Held, to: Tensor) -> None:
        """A copy of every row at every one of these places, until the round is over."""
        ...

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        """From each reply of a visit to those numbered `to`, and to the belief that went out; measured at a
        place.

        The squares of each tensor count as often as `importance` says (1 where not named).
        """
        ...

    def open(self, beliefs: Held) -> Beliefs:
        """The beliefs in the clear, at the coordinator."""
        ...

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        """A net at the coordinator in which each group of sites is one. Rows move: for baselines only."""
        ...

    def keep(self, live: Iterable[Held], round: int) -> None:
        """A round is over: what is not in these handles is dropped everywhere, and so are copies.

        A run may go on from that round or a later one.
        """
        ...

    def regroup(self, live: Iterable[Held], round: int) -> None:
        """That round is over and the next about to begin, perhaps anew: who is there is made ready for it.
        Before round 0 makes the first state, it is -1.
        """
        ...

    def away(self) -> Mapping[str, str]:
        """Sites that do not answer at present, and why."""
        return {}

    def peek(self, beliefs: Held) -> Beliefs | None:
        """For an experimenter's measures, never for a method: the tensors, if sites are in this process."""
        ...

    def save(self, beliefs: Held, paths: Mapping[int, str]) -> None:
        """Whoever holds a row writes it into the file that is named for it."""
        ...

    def finish(self, beliefs: Held, of: Mapping[int, int], facts: Mapping[int, Mapping[str, Any]]) -> None:
        """The run is over: a site elsewhere gets the row that is its model, {site: row}, and what the run
        says of it, to keep and to use. Sites of this machine have nobody who would: models are in the run's
        folder.
        """
        return

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        """A checkpoint is made after this round: what it has to hold beside these handles, by name.

        Sites that are elsewhere write down what is theirs.
        """
        ...

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        """Goes on after that round, with what `kept` gave then."""
        ...

    def keep_at(self, folder: str) -> None:
        """Where sites that this process started may keep what is theirs."""
        ...

    def observe(self, observer: Observer) -> None:
        """Who looks on from now on: told of sites that go and come, and of whom is waited for."""
        ...

    def close(self) -> None:
        """Nothing is asked any more: what runs for this net ends."""
        ...

    # what it says of itself

    @property
    def holds_rows(self) -> bool:
        """Whether this process has the sites' rows, and may write down what came of each."""
        return False

    @property
    def seals(self) -> bool:
        """Whether replies are sealed, here or further in."""
        return False

    @property
    def asks(self) -> bool:
        """Whether any site, here or further in, may withdraw from a sum now."""
        return False

    @property
    def withdraws(self) -> bool:
        """Whether sites have rules of their own by which they may withdraw."""
        return False

    @property
    def signs(self) -> bool:
        """Whether sites sign a run's ledger (`witness`)."""
        return False

    @property
    def lies(self) -> bool:
        """Whether some sites lie on purpose: what becomes of models is then studied."""
        return False

    @property
    def accounts(self) -> bool:
        """Whether it is added up what visits cost rows."""
        return False

    @property
    def apart(self) -> frozenset[tuple[int, int]]:
        """(receiver, site): as was decided, the site is in no sum of the receiver."""
        return frozenset()

    @property
    def sealed_bytes(self) -> int:
        """Of what passed between clients and helpers since `figures` was last asked."""
        return 0

    def withdrawing(self, offers: Sequence[Any], circle: bool) -> dict[int, str]:
        """Of some offers (`offers.py`), by number, those whose sites withdraw, and why."""
        return {}

    def as_mixed(self, weights: Tensor, mixed: bool) -> Tensor:
        """The weights [receiver, sender] of a round as they were really mixed, of those that it planned;
        `mixed` says whether it made sums at all.
        """
        return weights

    def figures(self) -> dict[str, Any]:
        """What there is to say of a round, for its record."""
        return {}

    def statement(self) -> dict[str, Any] | None:
        """What looking at rows has cost in all, where that is added up."""
        return None

    def sealing(self, options: Any) -> Any:
        """Replies are sealed from now on by parties of the net's own: who conducts it; None without any."""
        return None

    def run_identity(self) -> dict[str, str]:
        """What a run's ledger names it by, where sites sign it."""
        return {}

    def witness(self, folder: Path, shows: Any) -> list[dict[str, Any]]:
        """Sites that sign a run's ledger sign its new head, and are shown their part."""
        return []


EVALUATION = "evaluate"
"""What keys of a run's own scoring have in their path."""
NETS_IN = (
    "coterie.nets.ground",
    "coterie.nets.processes",
    "coterie.federation.lead.connector",
)
"""Where nets are: each registers itself when its module is imported."""
NETS: Registry[Any] = Registry("net", find=lambda: [importlib.import_module(module) for module in NETS_IN])
"""How a net comes to its sites: `nets/ground.py`."""
WRAPS: Registry[Any] = Registry("wrapper", find=partial(features.brought, "wrapper"))
"""What may be around a net."""


def settle(net: Net, beliefs: Held, replies: Replies) -> Held:
    """Replies come home: each takes the place of the belief that went out; the others stay."""
    if len(torch.unique(replies.guests)) < len(replies):
        raise BadInput("a belief came home from several sites: mix its replies instead")
    if len(replies) == 0:
        return beliefs
    mine = replies.beliefs.only(beliefs.names)
    homes = beliefs.places[replies.guests]
    if not torch.equal(mine.places, homes):
        mine = net.deliver(mine, torch.arange(len(mine)), homes)
    return beliefs.put(replies.guests, mine)


def edges_among(
    present: Tensor, beliefs: Held, edges: Tensor, beside: Beside | None
) -> tuple[Tensor, Beside | None]:
    """The edges of a visit among those who are there [site], and what is beside them."""
    here = present[edges[:, 1]]
    for part in beliefs.parts:  # nor can a model leave a site that is gone
        places = part.places[edges[:, 0]]
        here = here & ((places == COORDINATOR) | present[places])
    if beside and not bool(here.all()):  # what lies beside all edges is one row
        index = here.nonzero().flatten()
        beside = {name: b.rows(index) if len(b) == len(here) > 1 else b for name, b in beside.items()}
    return edges[here], beside


def edges_of(pairs: Sequence[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


def to_own(n: int) -> Tensor:
    """Edges on which every belief visits its own site."""
    return torch.arange(n).unsqueeze(1).expand(n, 2)


def from_server(hosts: Tensor) -> Tensor:
    """Edges on which one belief, number 0, visits each host."""
    return torch.stack([torch.zeros_like(hosts), hosts], dim=1)


SERVER = torch.tensor([COORDINATOR])
"""`at` the coordinator alone."""
