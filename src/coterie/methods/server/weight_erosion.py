"""Weight Erosion: a model for a requester, from everyone whose gradients go its way.

Grimberg, 2020, "Privacy-preserving and Personalized Federated Machine Learning for Medical Data", section
4.4 (also Grimberg, Hartley, Jaggi and Karimireddy, 2020, "Weight Erosion"); Gengler, Beaussart and Yuan,
2020, "Personalized Federated Image classification using Weight Erosion", for networks. Client 0 requests:

    d_i  = ‖g_i - g_0‖ / ‖g_0‖                                       (1)  relative_distance
    α_i ← max{0, α_i - (1 + p_s ⌊(r-1) b / |S_i|⌋) p_d d_i}          (2)  erode, whole_passes
    ḡ    = Σ_i α_i g_i / Σ_i α_i, layer by layer                     (3), (4)  mixing_weights
    w   ← w - γ ḡ                                                    stepped

with α_i = 1 at first. g_i is what the local work makes of the requester's belief w at client i, whose reply
is w_i = w - lr g_i. One minibatch (`steps=1`) gives Algorithm 1; more steps or epochs give the sum of the
gradients along local SGD (Gengler). So d_i = ‖w_i - w_0‖ / ‖w - w_0‖ over all trained layers together, and
the last line is w ← (1 - s) w + s w̄ with w̄ = Σ α_i w_i / Σ α_i and s = γ / lr, the `server_step`: the net's
`distances` and `mix` are all that is needed. With momentum or Adam, an update stands for the gradient.

Epochs give a large client more steps, a longer way and so a larger d_i, however much alike its data are: size
is then taken for dissimilarity. With `per_step` each way is divided by its steps n_i before it is compared,

    d_i  = ‖g_i/n_i - g_0/n_0‖ / ‖g_0/n_0‖                           (1')  distance_per_step

which is (1) wherever all make as many steps. Being ours, it is off in the papers' presets.

Each requester has its own belief at home; replies go from client to requester, which measures and mixes them.
The coordinator sees distances and weights, no model.

⌊(r-1) b / |S_i|⌋ are the whole passes over S_i before round r: b is batch times steps, at most |S_i| a step;
with epochs the passes are (r-1) epochs. A subclass may count otherwise by its own `passes`.

Deviations. ‖g_0‖ = 0: d_i is 0 for a reply like the requester's own, else infinite, and so α_i ends at 0. A
requester that does not answer leaves its belief and all α as they are. A client with α_i = 0 can never come
back and is not asked any more. Buffers (batch norm) are mixed like weights and do not count in distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Info, Key, Models, Net, Partners, Replies, Reveals, Roster, Trainer
from coterie.core.errors import BadInput, UnknownName
from coterie.core.held import Held, together
from coterie.core.method import METHODS, asking, check_others, losses_of, scatter
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.server import requesters

Late = Literal["mean", "median", "one"]
Beta = Literal["one", "size"]


@dataclass(frozen=True, eq=False)
class State:
    """For each requester, in rows.

    beliefs    [requester, ...] its own, at home
    alpha      [requester, client] the weights; 1 for a client that has not taken part yet
    rounds     [requester, client] rounds in which the client has taken part
    stopped    [requester] whether training has ended before the last round
    """

    beliefs: Held
    alpha: Tensor
    rounds: Tensor
    stopped: Tensor


class _Turn(NamedTuple):
    """One requester's round: its belief [1, ...], and by client [client] what the state and Info show."""

    belief: Held
    alpha: Tensor
    rounds: Tensor
    stopped: Tensor
    shares: Tensor
    distance: Tensor
    loss: Tensor
    angle: float | None = None


@METHODS.register("weight-erosion")
@dataclass(frozen=True)
class WeightErosion:
    """A model for each requester; clients lose their weight in it as their gradients part from its own."""

    chooses: ClassVar[Partners] = Partners(
        by={"relative distance": "low", "alpha": "high"},
        shares="model",
        words={
            "en": "Others fade out as their training points elsewhere than yours.",
            "fr": "Les autres s'effacent à mesure que leur entraînement va dans une autre direction "
            "que le vôtre.",
            "de": "Andere treten zurück, je mehr ihr Training in eine andere Richtung weist als Ihres.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round: steps=1 for one minibatch, epochs for a sum along local SGD."""
    requester: str = "all"
    """The client that asks for a model, by name; all: each for itself, at as many times the work."""
    p_d: float | Literal["auto"] = bounded(
        0.05, "be at least 0 and finite", "try 0.05 or auto", besides="auto"
    )
    """Distance penalty factor (Grimberg: 0.05); auto is 0.1 / clients (Gengler)."""
    p_s: float = bounded(0.0, "be at least 0 and finite", "try 0")
    """Size penalty factor: how much faster weights fall with each pass over a client's data (Gengler: 2)."""
    beta: Beta = chosen("one", Beta)
    """A second, fixed weight of each client: one, or its number of training samples (Grimberg, section 6)."""
    participation: bool = False
    """Count as r - 1 only the rounds in which a client took part (Grimberg, resilience)."""
    late: Late = chosen("mean", Late)
    """The first weight of a client that joins later: mean or median of all that did before, or one."""
    importance: tuple[str, ...] = ()
    """How often the squares of a layer count in distances, as layer=number; 1 if not named (Gengler, V.C)."""
    server_step: float = bounded(1.0, "lie above 0 and up to 1", "try 1")
    """How far to go from the old model to the mixed one, above 0 and up to 1."""
    per_step: bool = True
    """Compare updates divided by their steps, so that more rows alone do not make a client differ."""
    cone: float = 90.0
    """Stop once no cone of this half-angle, in degrees, holds all gradients (Grimberg, ex. 4); 90: never."""

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 < self.cone <= 90:
            raise BadInput(f"cone={self.cone} must lie above 0 and up to 90 degrees: try 80, or 90 for never")
        _parsed(self.importance)
        requesters.check_keeps(self.local, self.requester)
        if self.p_s:
            self.passes(torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64))

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_others(roster, "weight-erosion")
        asking(self.requester, roster.names)
        by_tensor(self.importance, start)
        return ()

    def passes(self, rounds: Tensor, sizes: Tensor) -> Tensor:
        """Whole passes over each client's samples in so many rounds of local work: [client]."""
        epochs, steps, batch = (getattr(self.local, name, None) for name in ("epochs", "steps", "batch"))
        if epochs is None or steps is None or batch is None:
            raise BadInput("p_s needs local work in epochs or steps: set p_s=0, or use sgd or adam")
        return whole_passes(rounds, sizes, epochs, steps, batch)

    def steps(self, sizes: Tensor) -> Tensor:
        """Steps of each client in a round: [client]; all alike where the local work does not say."""
        epochs, steps, batch = (getattr(self.local, name, None) for name in ("epochs", "steps", "batch"))
        if steps or not epochs or not batch:
            return torch.ones(len(sizes), dtype=torch.float64)
        return steps_in_epochs(sizes, epochs, batch)

    def init(self, start: Held, net: Net) -> State:
        n, own = len(net.roster), requesters.first_at_home(self.requester, start, net)
        return State(
            own,
            alpha=torch.ones(len(own), n, dtype=torch.float64),
            rounds=torch.zeros(len(own), n, dtype=torch.int64),
            stopped=torch.zeros(len(own), dtype=torch.bool),
        )

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        names, n = net.roster.names, len(net.roster)
        who = asking(self.requester, names).tolist()
        beliefs = requesters.guests_of(self.requester, state.beliefs, n)
        begun, turns = [(r, _idle(state, q)) for q, r in enumerate(who)], list[_Turn]()
        for some in requesters.by_room(begun, state.beliefs, n):
            turns += self.turns(some, beliefs, net, key)
        state = State(
            together([t.belief for t in turns]),
            torch.stack([t.alpha for t in turns]),
            torch.stack([t.rounds for t in turns]),
            torch.stack([t.stopped for t in turns]),
        )
        extras = dict[str, Any]()
        if self.cone < 90:
            extras["stopped"] = [names[r] for r, t in zip(who, turns, strict=True) if t.stopped]
            angles = {names[r]: t.angle for r, t in zip(who, turns, strict=True) if t.angle is not None}
            extras["cone_degrees"] = angles
        info = Info(
            weights=requesters.rows_of(who, [t.shares for t in turns], empty=0.0),
            loss=requesters.own_losses(self.requester, [t.loss for t in turns]),
            matrices={
                "alpha": requesters.rows_of(who, [t.alpha.where(t.rounds > 0, math.nan) for t in turns]),
                "relative distance": requesters.rows_of(who, [t.distance for t in turns]),
            },
            extras=extras,
        )
        return state, info

    def turns(self, some: Sequence[tuple[int, _Turn]], beliefs: Held, net: Net, key: Key) -> list[_Turn]:
        """The rounds of some requesters, whose beliefs go to all clients at once."""
        asked = {r: turn.alpha.nonzero().flatten() for r, turn in some if not turn.stopped}
        edges = [torch.stack([torch.full_like(hosts, r), hosts], dim=1) for r, hosts in asked.items()]
        if not edges:
            return [turn for _, turn in some]
        replies = net.visit(self.local, beliefs, torch.cat(edges), key)
        own = requesters.by_requester(replies, list(asked))
        return [self.turn(turn, net, key, r, own[r]) if r in own else turn for r, turn in some]

    def turn(self, turn: _Turn, net: Net, key: Key, r: int, replies: Replies) -> _Turn:
        """What one requester, client number r, makes of its replies."""
        n, sizes = len(net.roster), net.roster.sizes
        here, own = replies.hosts, (replies.hosts == r).nonzero().flatten()
        turn = turn._replace(loss=losses_of(replies, n))
        if len(own) == 0:
            return turn
        everyone = torch.arange(len(replies))
        importance = by_tensor(self.importance, turn.belief.names)
        # to its own reply alone, unless the angles between all are wanted
        apart, lengths = net.distances(replies, own if self.cone == 90 else everyone, r, importance)
        mine = apart[:, 0 if self.cone == 90 else int(own)]
        distance = relative_distance(mine, lengths[own])
        if self.per_step:
            steps = self.steps(sizes[here])
            distance = distance_per_step(distance, lengths / lengths[own], steps / steps[own])
        turn = turn._replace(distance=scatter(distance, here, n))
        if self.cone < 90:
            angle = cone_angle(apart, lengths)
            turn = turn._replace(angle=angle, stopped=torch.tensor(angle > self.cone))
            if turn.stopped:
                return turn
        before = turn.rounds[here] if self.participation else torch.full_like(here, key.round - 1)
        passes = self.passes(before, sizes[here]) if self.p_s else torch.zeros_like(before)
        alpha = _joining_weights(turn.alpha, turn.rounds, self.late)[here]
        alpha = erode(alpha, distance, distance_penalty(self.p_d, n), self.p_s, passes)
        # β_i = |S_i| makes the mean of minibatch gradients the one over all samples
        beta = sizes[here].double() if self.beta == "size" else torch.ones(len(here), dtype=torch.float64)
        shares = mixing_weights(alpha, beta)
        return turn._replace(
            belief=self.stepped(turn.belief, replies.beliefs, shares, net, r),
            alpha=turn.alpha.index_copy(0, here, alpha),
            rounds=turn.rounds.index_add(0, here, torch.ones_like(here)),
            shares=scatter(shares, here, n, empty=0),
        )

    def stepped(self, old: Held, replies: Held, shares: Tensor, net: Net, r: int) -> Held:
        """(4) (1 - s) w + s w̄, made by the requester."""
        at, s = torch.tensor([r]), self.server_step
        if s == 1:
            return net.mix(shares.unsqueeze(0), replies, at)
        weights = torch.cat([s * shares, torch.tensor([1 - s], dtype=shares.dtype)])
        return net.mix(weights.unsqueeze(0), together([replies, old]), at)

    def models(self, state: State) -> Models:
        return requesters.models_for(self.requester, state.beliefs, state.alpha.shape[1])

    def reveals(self) -> Reveals:
        return Reveals(sites=True, numbers=(*numbers_of(self.local), "distances"))


def relative_distance(apart: Tensor, reference: Tensor) -> Tensor:
    """(1) ‖g_i - g_0‖ / ‖g_0‖; where ‖g_0‖ = 0, infinite for all that differ from it and 0 for the others."""
    return torch.where(apart == 0, torch.zeros_like(apart), apart / reference)


def distance_per_step(distance: Tensor, length: Tensor, steps: Tensor) -> Tensor:
    """(1') from d_i of (1), lengths ‖g_i‖ / ‖g_0‖ and steps ρ_i = n_i / n_0, all relative to client 0.

    ‖g_i/n_i - g_0/n_0‖² / ‖g_0/n_0‖² = ‖g_i - ρ_i g_0‖² / (ρ_i ‖g_0‖)², and by the law of cosines
    ‖g_i - ρ g_0‖² / ‖g_0‖² = ρ d² + (1 - ρ) (‖g_i‖² / ‖g_0‖² - ρ). With ρ = 1 it is d, bit for bit.
    """
    squared = steps * distance**2 + (1 - steps) * (length**2 - steps)
    as_it_is = (steps == 1) | ~length.isfinite()  # ‖g_0‖ = 0
    return torch.where(as_it_is, distance, squared.clamp(min=0).sqrt() / steps)


def erode(alpha: Tensor, distance: Tensor, p_d: float, p_s: float, passes: Tensor) -> Tensor:
    """(2) max{0, α - (1 + p_s passes) p_d d}; nothing falls without a penalty, however far."""
    if p_d == 0:
        return alpha
    return (alpha - (1 + p_s * passes.double()) * p_d * distance).clamp(min=0)


def mixing_weights(alpha: Tensor, beta: Tensor) -> Tensor:
    """(3) α_i β_i / Σ_j α_j β_j; the requester's own α is 1, so that the sum is never 0."""
    return alpha * beta / (alpha * beta).sum()


def distance_penalty(p_d: float | Literal["auto"], clients: int) -> float:
    """p_d, or 0.1 / N."""
    return 0.1 / clients if p_d == "auto" else p_d


def whole_passes(rounds: Tensor, sizes: Tensor, epochs: int, steps: int, batch: int) -> Tensor:
    """⌊rounds · b / |S_i|⌋ with b = steps · min(batch, |S_i|) samples a round, or rounds · epochs."""
    return rounds * steps * sizes.clamp(max=batch) // sizes if steps else rounds * epochs


def steps_in_epochs(sizes: Tensor, epochs: int, batch: int) -> Tensor:
    """n_i: epochs times the batches that hold |S_i| samples, a last short one included."""
    return (epochs * -(-sizes // batch)).double()


def _joining_weights(alpha: Tensor, rounds: Tensor, late: Late) -> Tensor:
    """α before the round; newcomers have the mean or median of all that took part before, if any did."""
    known = rounds > 0
    if late == "one" or not bool(known.any()):
        return alpha
    typical = alpha[known].mean() if late == "mean" else alpha[known].quantile(0.5)
    return torch.where(known, alpha, typical)


def _idle(state: State, q: int) -> _Turn:
    """A round of the q-th requester in which nothing happens."""
    nothing = torch.full_like(state.alpha[q], math.nan)
    return _Turn(
        belief=state.beliefs.rows(torch.tensor([q])),
        alpha=state.alpha[q],
        rounds=state.rounds[q],
        stopped=state.stopped[q],
        shares=torch.zeros_like(nothing),
        distance=nothing,
        loss=nothing,
    )


def cone_angle(apart: Tensor, lengths: Tensor) -> float:
    """Half-angle, in degrees, of the narrowest round cone around all gradients (Grimberg, example 4); 90 if
    they fit into none.

    Cosines come from distances, by the law of cosines. Of the convex hull of the gradients' directions u_i,
    the point next to 0 is on the axis, and its length is the cosine of the half-angle:
    min ‖Σ λ_i u_i‖² over λ ≥ 0, Σ λ_i = 1. With λ free to scale, it is x of the non-negative least squares
    min ‖Σ x_i u_i‖² + (1 - Σ x_i)², whose value is q / (1 + q) at ‖Σ λ_i u_i‖² = q.
    """
    from scipy.optimize import nnls  # only here: it takes a while to import

    real = lengths > 0  # a gradient of 0 fits everywhere
    apart, lengths = apart[real][:, real], lengths[real]
    if len(lengths) < 2:
        return 0.0
    squares = lengths.square()
    cosines = (squares + squares.unsqueeze(1) - apart.square()) / (2 * lengths * lengths.unsqueeze(1))
    values, vectors = torch.linalg.eigh(cosines.clamp(-1, 1))
    directions = values.clamp(min=0).sqrt().unsqueeze(1) * vectors.T
    system = torch.cat([directions, torch.ones(1, len(lengths), dtype=torch.float64)])
    wanted = torch.zeros(len(system), dtype=torch.float64)
    wanted[-1] = 1
    _, rest = nnls(system.numpy(), wanted.numpy(), maxiter=100 * len(system))
    return math.degrees(math.acos(min(1.0, rest / math.sqrt(1 - rest**2))))


def _parsed(entries: Iterable[str]) -> dict[str, float]:
    """How much layers count in a distance, from entries such as head=2 (Gengler, 2020, section V.C)."""
    table = {}
    for entry in entries:
        layer, _, text = entry.rpartition("=")
        try:
            table[layer] = float(text)
        except ValueError:
            table[layer] = math.nan
        if not layer or not 0 <= table[layer] < math.inf:
            raise BadInput(f"importance {entry!r} needs the form layer=number, at least 0: try head.weight=2")
    return table


def by_tensor(entries: Iterable[str], names: Iterable[str]) -> Mapping[str, float]:
    """Importance by tensor: a layer's goes to all its tensors, the more precise name has the last word."""
    names, table = list(names), dict[str, float]()
    for layer, value in sorted(_parsed(entries).items(), key=lambda entry: len(entry[0])):
        mine = [n for n in names if n == layer or n.startswith(f"{layer}.")]
        if not mine:
            raise UnknownName("layer in importance", layer, names)
        table |= dict.fromkeys(mine, value)
    return table
