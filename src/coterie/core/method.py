"""A method: pure functions on a frozen dataclass of its options.

State is carried on, Info is for looking. State is a frozen dataclass of handles, tensors and plain values, so
that a checkpoint can hold it without knowing the method. A method knows the sites by the net's roster and
reaches them by the net's verbs, never otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, get_type_hints

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.errors import BadData, BadInput, UnknownName, naming_flags_of
from coterie.core.facts import ALL, method_fact
from coterie.core.held import Held
from coterie.core.kernel import charges_of
from coterie.core.net import Net, Replies
from coterie.core.partners import Partners
from coterie.core.registry import Registry
from coterie.core.roster import Roster
from coterie.core.seeds import Key


@dataclass(frozen=True, eq=False)
class Info:
    """What happened in a round, for people.

    weights     [receiver, sender] who listened to whom, how much; rows add up to 1, or to 0 for a client
                that was not reached
    loss        [client] mean training loss of its visit, NaN for a client that did not train
    extras      further figures by name, anything JSON can hold
    mixed       whether sums by these weights were made in this round; a ranking's are of rounds to come
    matrices    further matrices [receiver, sender] by name ("alpha"), NaN where there is nothing to say;
                one named CIRCLE has 1 for whom the receiver takes for its own kind so far, else 0, and is
                held against true clusters as the weights are
    """

    weights: Tensor
    loss: Tensor
    extras: Mapping[str, Any] = field(default_factory=dict)
    matrices: Mapping[str, Tensor] = field(default_factory=dict)
    mixed: bool = True


@dataclass(frozen=True, eq=False)
class Models:
    """Which belief is whose: client i uses row `of[i]`, and has none of its own where that is NOBODYS;
    `shared` is one that everybody has, in one row.

    crowd     [client, member] rows whose predictions client i averages, if it has more than one model: the
              draws of a posterior, an ensemble. Row `of[i]` is then what stands for them where one must
    shares    [client, member] what each counts in that average, adding up to 1; None: all alike
    """

    beliefs: Held
    of: Tensor
    shared: Held | None = None
    crowd: Tensor | None = None
    shares: Tensor | None = None

    @property
    def owners(self) -> Tensor:
        """The numbers of the clients that have a model of their own."""
        return (self.of != NOBODYS).nonzero().flatten()


@dataclass(frozen=True)
class Reveals:
    """What a method shows to whom, beyond the roster and the scores that a run asks for.

    coordinator   whether models that clients trained reach the coordinator, to be mixed there
    opened        whether it looks at them one by one
    sites         whether clients get models, or posteriors, of other clients
    numbers       that reach the coordinator, by name
    rows          whether clients' rows move
    """

    coordinator: bool = False
    opened: bool = False
    sites: bool = False
    numbers: tuple[str, ...] = ("loss", "samples")
    rows: bool = False


class Method(Protocol):
    """What it may say of itself besides is in `facts.py`.

    `chooses` says with whom its clients learn, and by which number: see `partners.py`.
    """

    chooses: ClassVar[Partners]

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        """Refuses what cannot work for these sites, this first belief [1 or client, ...] and key.rounds
        rounds.

        Returns what is worth saying before anything runs, for the run's record.
        """
        ...

    def init(self, start: Held, net: Net) -> Any:
        """The first state, from one initial belief or one for each client, at the coordinator."""
        ...

    def round(self, state: Any, net: Net, key: Key) -> tuple[Any, Info]: ...

    def models(self, state: Any) -> Models: ...

    def reveals(self) -> Reveals: ...


METHODS: Registry[Method] = Registry("method")
NOBODYS = -1  # in the place of a row: that client has no model of its own
CIRCLE = "circle"
UNTRAINED = "the last round ranked and trained nothing: models are as they began"


def partners_of(name: str) -> Partners | None:
    """How the method of this name chooses; None of one that is not there, or that does not say it."""
    return getattr(METHODS[name], "chooses", None) if name in METHODS else None


def ranks_by(name: str) -> tuple[str, bool] | None:
    """The matrix by which a method ranks others before it trains, and whether a high number is good; None of
    a method that does not rank.
    """
    chooses = partners_of(name)
    return chooses.foremost if chooses is not None and chooses.ranks else None


def paced(method: Method) -> str:
    """What a method does otherwise because of how many rounds there are ("fine-tunes in its last rounds"); a
    budget must not cut it off before. Nothing if every round is like the others.
    """
    return str(method_fact(method, "paced"))


def common(method: Method) -> bool:
    """Whether sites get one model, or one posterior, of all: nobody has sums of its own."""
    return method.reveals().coordinator or bool(method_fact(method, "common"))


def bounds_work(method: Method, roster: Roster) -> bool:
    """Whether its local work has a bound on what it costs rows."""
    least = min((m.train for m in roster.members if m.train), default=0)  # of those who are there
    local = method_fact(method, "local")
    return local is not None and bool(charges_of(local, {"train": least}))


def costs(method: Method, roster: Roster) -> bool:
    """Whether there is a bound to be added up on what it costs rows."""
    return bounds_work(method, roster) or bool(method_fact(method, "hides"))


def state_type(method: Method) -> type:
    """Of its state, as its `init` says; a method that follows several others makes it."""
    if (told := method_fact(method, "state_type")) is not None:
        return told()  # type: ignore[no-any-return]
    kind = get_type_hints(type(method).init).get("return")
    if not dataclasses.is_dataclass(kind):
        raise BadInput(f"method {type(method).__name__}: init must name the dataclass it returns")
    return kind  # type: ignore[return-value]


def handed_out(start: Held, net: Net) -> Held:
    """Each site gets its first belief: the common one, or its own of as many as there are sites."""
    n = len(net.roster)
    if len(start) not in (1, n):
        raise BadInput(f"{len(start)} initial beliefs for {n} clients: give one, or one for each")
    which = torch.arange(n) if len(start) == n else torch.zeros(n, dtype=torch.int64)
    return net.deliver(start, which, torch.arange(n))


def first_of(start: Held) -> Held:
    """The one belief that a server begins with."""
    return start if len(start) == 1 else start.rows(torch.tensor([0]))


def true_clusters(roster: Roster, method: str) -> list[int]:
    """The clusters of a synthetic split, for yardsticks that may know them; a refusal if there are none."""
    for name, cluster in zip(roster.names, roster.clusters, strict=True):
        if cluster is None:
            raise BadData(
                f"client {name!r} has no cluster, which {method} needs: use a split that makes clusters"
            )
    return [cluster for cluster in roster.clusters if cluster is not None]


def check_method(method: Method, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
    """What a method says of sites before a run; refusals name its options as their reader writes them."""
    with naming_flags_of(method):
        return method.check(roster, start, key)


def check_others(roster: Roster, method: str) -> None:
    """Refuses a single client, where a method needs others to learn from."""
    if len(roster) < 2:
        raise BadInput(f"{method} needs at least 2 clients; got {len(roster)}: add some or use local")


def check_validation(roster: Roster, needed_by: str, otherwise: str) -> None:
    for member in roster.members:
        if not member.validation:
            raise BadInput(
                f"client {member.name!r} has no validation samples, which {needed_by} needs: "
                f"hold some out (validation=0.2), or {otherwise}"
            )


def scatter(values: Tensor, hosts: Tensor, n: int, empty: float = float("nan")) -> Tensor:
    """Figures of the replies laid out by client: [client], `empty` where nobody answered."""
    out = torch.full((n,), empty, dtype=torch.float64)
    return out.index_copy_(0, hosts, values.double())


def losses_of(replies: Replies, n: int) -> Tensor:
    """[client] the training loss that each told; NaN for who did not train, or does not tell it."""
    return scatter(loss_by_reply(replies), replies.hosts, n)


def loss_by_reply(replies: Replies) -> Tensor:
    """[reply] training losses, NaN for work that does not tell them."""
    untold = torch.full((len(replies),), float("nan"), dtype=torch.float64)
    return replies.numbers.get("loss", untold)


def asking(requester: str, names: Sequence[str]) -> Tensor:
    """The numbers of the clients that ask for a model: the one of that name, or everybody for `all`."""
    if requester == ALL:
        return torch.arange(len(names))
    if requester not in names:
        raise UnknownName("requester", requester, [ALL, *names])
    return torch.tensor([list(names).index(requester)])


def asked(method: Method, names: Sequence[str]) -> Tensor:
    """[client] whether a method makes a model for it: for all, or for the one requester that it names."""
    return torch.isin(torch.arange(len(names)), asking(method_fact(method, "requester"), names))


def only_for(models: Models, clients: Tensor) -> Models:
    """The same models, of which only these clients [client] have one of their own; a shared one stays."""
    return replace(models, of=models.of.where(clients, NOBODYS))
