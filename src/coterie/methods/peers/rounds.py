"""The round of methods without a server, as functions. A method says in `Choices` whom to ask, pick and
weigh.

    w_k ← LocalWork(w_k)
    w_k ← Σ_j W_kj w_j,   W_kj > 0 for oneself and the picked,   Σ_j W_kj = 1

Karlsson and Onoszko, 2021, "PENS: Leveraging Data Heterogeneity in Federated Learning",
algorithms 1 to 5, section 3.4.
W is Info's `weights`. When the averaging happens is the `order`:

thesis      all train; then clients average one after the other, in a random order drawn for each round, and
            see the new models of those before them: the net's `mix` in turn. So section 3.4 puts it.
trained     clients average one after the other, as in thesis; then all train, and the round ends with trained
            models. So algorithms 1 to 5 put it. Their training before round 1 is round 1 here, in which
            nobody scores or averages: every order trains as often as there are rounds.
program     one client after the other, in random order, averages and then trains at once; those after it
            see its new model. Nobody trains before its first averaging.
at-once     all train, then all average the trained models at the same moment.

Scores are those of the models before the averaging: of all trained ones, in `trained` since the round before,
or, in `program`, of the models as they are when the client's turn comes. A pair of model and data is scored
once in a round.

By default W is the method's own; another `rule` weighs those that it averages with: see `methods/ruled.py`.

Deviations. Whoever is gone keeps its model, is not picked and not averaged with. Whoever has stopped early
neither trains nor averages, yet serves others. Models go from peer to peer, where they are scored and
averaged; none reaches the coordinator, which sees scores and says who averages with whom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Part, Reveals, Roster, Scorer, Trainer
from coterie.core.errors import BadInput
from coterie.core.held import together
from coterie.core.method import check_validation, handed_out, loss_by_reply, losses_of, scatter
from coterie.core.net import Net, edges_of, settle, to_own
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.around import numbers_of
from coterie.kernels.choice import CHOSEN, Choice
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.methods.peers.picks import Asked, alike, counts, distinct, last_of
from coterie.methods.peers.turns import (
    Scores,
    State,
    Turns,
    among,
    first_watch,
    going_on,
    merits,
    metric_of,
    next_watch,
    present,
    put_rows,
)
from coterie.methods.ruled import MEAN, check_bound, check_rule, ruled
from coterie.rules.chain import Liars

Order = Literal["thesis", "trained", "program", "at-once"]
Direction = Literal["mine-on-theirs", "theirs-on-mine"]
Notes = Mapping[str, Tensor]
Shown = tuple[dict[str, Any], dict[str, Tensor]]


class Choices(NamedTuple):
    """What a method decides of a round.

    asked       the others that each client turns to, for each of its samplings
    direction   whose model is scored on whose training data, if any
    keep        if above 0, a client tells only which so many of those that it tried it chooses, and no score
    own         on which of its own data a client scores its own model too
    pick        whom a client picks of each sampling, by merit [client]; the last ones are averaged with
    weigh       a row of W [client], of oneself, the picked and the merits
    learn       the notes after the round
    show        further extras and matrices for Info
    work        the local work, if it is not the method's usual one
    watching    whether early stopping, if wanted, looks at this round
    """

    asked: Asked
    direction: Direction | None = None
    keep: int = 0
    own: Part | None = None
    pick: Callable[[Sequence[Tensor], Tensor, Key], list[Tensor]] = lambda asked, merit, key: list(asked)
    weigh: Callable[[int, Tensor, Tensor], Tensor] = lambda me, picked, merit: alike(me, picked, len(merit))
    learn: Callable[[Notes, Turns], Notes] = lambda notes, turns: notes
    show: Callable[[Turns, Notes], Shown] = lambda turns, notes: ({}, {})
    work: Trainer | None = None
    watching: bool = True


@dataclass(frozen=True)
class Peers:
    """Options of everybody with a model of its own, averaged with those of some others."""

    local: Trainer = SGD()
    """The work of a client in a round."""
    order: Order = chosen("thesis", Order)
    """All train, then average in turn (thesis) or at-once; or average first (trained, program)."""
    patience: int = bounded(0, "be at least 0", "0 never stops early")
    """Stop a client after so many rounds without a better validation accuracy; 0: never."""
    window: int = bounded(5, "be at least 1", "try 5")
    """Rounds over which early stopping averages the validation accuracy."""
    rule: str = MEAN
    """How to mix with those chosen: mean, by the method's own weights; monna, nnm+krum, ... at-once."""
    f: Liars = "auto"
    """With a rule, how many of those mixed may lie; auto: the largest number with n > 3f that it allows."""

    def __post_init__(self) -> None:
        check_options(self)
        check_rule(self.rule, self.f, self.order, self.patience)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        if len(roster) < 2:
            raise BadInput(f"peers need at least 2 clients; got {len(roster)}: add some or use local")
        if self.patience:
            check_validation(roster, f"patience={self.patience}", "set patience=0")
        check_bound(self.rule, self.f, len(roster))
        return []

    def init(self, start: Held, net: Net) -> State:
        return self.begun(start, net, {})

    def begun(self, start: Held, net: Net, notes: Notes) -> State:
        """The first state, with these notes."""
        own = handed_out(start, net)
        if not self.patience:
            return State(own, notes, {})
        return State(own, notes, first_watch(len(net.roster), self.window), own)

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self, scored: Sequence[str] = ()) -> Reveals:
        """With these scores of models on data; accuracies are losses for a regression."""
        watched = ["accuracy"] if self.patience else []
        measured = [] if self.rule == MEAN else ["distances"]
        told = dict.fromkeys([*numbers_of(self.local), *scored, *watched, *measured])
        return Reveals(sites=True, numbers=tuple(told))


def play(options: Peers, state: State, net: Net, key: Key, choices: Choices) -> tuple[State, Info]:
    """One round, in the order that the options name."""
    n = len(net.roster)
    order = torch.randperm(n, generator=key.at("order").torch()).tolist()
    if key.round < first_averaging(options.order):
        # everybody trains alone: nobody is asked, scored or averaged with
        choices = choices._replace(asked=[[] for _ in range(n)], direction=None, own=None)
    turns = PLAYED[options.order](options, state, net, key, choices, order)
    notes = choices.learn(state.notes, turns)
    state = _stopped(options, state, turns, notes, net, key, choices)
    return state, _info_of(options, turns, state, choices)


def _all_at_once(
    options: Peers, state: State, net: Net, key: Key, choices: Choices, order: Sequence[int]
) -> Turns:
    """All train, all score, all average: in one visit, one visit and one mix."""
    n, going = len(net.roster), going_on(state)
    replies = net.visit(choices.work or options.local, state.beliefs, to_own(n)[going], key)
    trained = settle(net, state.beliefs, replies)
    who, acting = replies.hosts, among(replies.hosts, n)
    here = acting | present(net, trained, ~going, key)
    asked = _reached(choices.asked, acting, here)
    scores = _score(net, trained, range(n), asked, who.tolist(), key, choices)
    weights, picked = _chosen(asked, who, here & ~going, scores, key, choices)
    told = None
    if options.rule != MEAN:
        weights, told = ruled(net, options.rule, options.f, replies, weights, net.roster.names)
    in_turn = options.order == "thesis"
    at = torch.tensor([k for k in order if acting[k]], dtype=torch.int64) if in_turn else who
    beliefs = _averaged(net, trained, weights, at, in_turn)
    loss = losses_of(replies, n)
    return Turns(beliefs, here, asked, picked, weights, scores, loss, told)


def _trained_last(
    options: Peers, state: State, net: Net, key: Key, choices: Choices, order: Sequence[int]
) -> Turns:
    """All score the models they trained last, average them in turn, and train: the round ends with that."""
    n, going = len(net.roster), going_on(state)
    here = present(net, state.beliefs, torch.ones(n, dtype=torch.bool), key)
    acting = here & going
    asked, who = _reached(choices.asked, acting, here), acting.nonzero().flatten()
    scores = _score(net, state.beliefs, range(n), asked, who.tolist(), key, choices)
    weights, picked = _chosen(asked, who, here & ~going, scores, key, choices)
    at = torch.tensor([k for k in order if acting[k]], dtype=torch.int64)
    beliefs = _averaged(net, state.beliefs, weights, at, in_turn=True)
    replies = net.visit(choices.work or options.local, beliefs, to_own(n)[acting], key)
    loss = losses_of(replies, n)
    return Turns(settle(net, beliefs, replies), here, asked, picked, weights, scores, loss)


def _one_by_one(
    options: Peers, state: State, net: Net, key: Key, choices: Choices, order: Sequence[int]
) -> Turns:
    """Each in turn scores, averages and trains; those after it see its new model."""
    n, going = len(net.roster), going_on(state)
    here = present(net, state.beliefs, torch.ones(n, dtype=torch.bool), key)
    asked = _reached(choices.asked, here & going, here)
    own = [state.beliefs.rows(torch.tensor([k])) for k in range(n)]
    scores = _nothing_scored(n)
    weights = torch.diag((here & ~going).double())
    picked: Asked = [[] for _ in range(n)]
    loss = torch.full((n,), math.nan, dtype=torch.float64)
    for k in (k for k in order if here[k] and going[k]):
        near = sorted({k, *distinct(asked[k])})
        found = _score(net, together([own[j] for j in near]), near, asked, [k], key, choices)
        scores.merit[k] = found.merit[k]
        scores = Scores(scores.merit, max(scores.by, found.by))  # loss, as soon as anybody goes by it
        weights[k], picked[k] = _choose(k, asked[k], found.merit[k], key, choices)
        senders = weights[k].nonzero().flatten()
        heard = together([own[j] for j in senders.tolist()])
        own[k] = net.mix(weights[k, senders].unsqueeze(0), heard, torch.tensor([k]))
        replies = net.visit(choices.work or options.local, own[k], edges_of([(0, k)]), key)
        own[k] = settle(net, own[k], replies)
        if len(replies):
            loss[k] = loss_by_reply(replies)[0]
    return Turns(together(own), here, asked, picked, weights, scores, loss)


PLAYED = {"thesis": _all_at_once, "at-once": _all_at_once, "trained": _trained_last, "program": _one_by_one}


def first_averaging(order: Order) -> int:
    """In which round anybody averages at the earliest: algorithms 1 to 5 train once before."""
    return 2 if order == "trained" else 1


def _reached(asked: Asked, active: Tensor, here: Tensor) -> Asked:
    """Who is away asks nobody and is asked by nobody."""
    return [[s[here[s]] for s in samplings] if active[k] else [] for k, samplings in enumerate(asked)]


def _nothing_scored(n: int) -> Scores:
    return Scores(torch.full((n, n), math.nan, dtype=torch.float64), "accuracy")


def _chosen(
    asked: Asked, who: Tensor, resting: Tensor, scores: Scores, key: Key, choices: Choices
) -> tuple[Tensor, Asked]:
    """W, and whom those in `who` picked; the `resting` [client] listen to themselves."""
    weights, picked = torch.diag(resting.double()), [list[Tensor]() for _ in asked]
    for k in who.tolist():
        weights[k], picked[k] = _choose(k, asked[k], scores.merit[k], key, choices)
    return weights, picked


def _averaged(net: Net, beliefs: Held, weights: Tensor, at: Tensor, in_turn: bool) -> Held:
    """The beliefs, with those `at` these places mixed by their rows of W."""
    return beliefs.put(at, net.mix(weights[at], beliefs, at, in_turn)) if len(at) else beliefs


def _choose(
    me: int, asked: Sequence[Tensor], merit: Tensor, key: Key, choices: Choices
) -> tuple[Tensor, list[Tensor]]:
    """A client's row of W, and whom it picked of each sampling; only who answered can be picked."""
    known = [s[~merit[s].isnan()] for s in asked] if choices.direction else asked
    picked = choices.pick(known, merit, key.at("pick", me))
    return choices.weigh(me, last_of(picked), merit), picked


def _score(
    net: Net,
    beliefs: Held,
    whose: Sequence[int],
    asked: Asked,
    who: Sequence[int],
    key: Key,
    choices: Choices,
) -> Scores:
    """Merits of those that the clients in `who` asked, each pair once; their own on the diagonal.

    Row i of the beliefs is the model of client whose[i].
    """
    n, place = len(net.roster), {client: row for row, client in enumerate(whose)}
    scores, client = _nothing_scored(n), torch.tensor(list(whose))
    if choices.direction:
        theirs = choices.direction == "theirs-on-mine"
        by = metric_of(net.roster, by_loss=theirs)
        pairs = [(k, j) for k in who for j in distinct(asked[k])]
        edges = edges_of([(place[j], k) if theirs else (place[k], j) for k, j in pairs])
        kernel: Scorer = Score("train", (by,))
        if choices.keep:
            kernel, by = Choice(kernel, choices.keep), CHOSEN
        replies = net.visit(kernel, beliefs, edges, key.at("score"))
        guests = client[replies.guests]
        answered = (replies.hosts, guests) if theirs else (guests, replies.hosts)
        scores.merit[answered] = merits(replies, by)
        told = len(replies) > 0 or choices.keep > 0
        scores = Scores(scores.merit, by if told else "loss" if theirs else "accuracy")
    if choices.own:
        by = metric_of(net.roster)
        edges = edges_of([(place[k], k) for k in who])
        replies = net.visit(Score(choices.own, (by,)), beliefs, edges, key.at("own"))
        scores.merit[replies.hosts, replies.hosts] = merits(replies, by)
        scores = Scores(scores.merit, by)
    return scores


def _stopped(
    options: Peers, state: State, turns: Turns, notes: Notes, net: Net, key: Key, choices: Choices
) -> State:
    """The state after the round; with early stopping, who stops goes back to its best model."""
    if state.best is None or not choices.watching:
        return State(turns.beliefs, notes, state.watch, state.best)
    n, updated, by = len(net.roster), turns.here & going_on(state), metric_of(net.roster)
    judge = Score("validation", (by,))
    replies = net.visit(judge, turns.beliefs, to_own(n)[updated], key.at("validation"))
    judged = scatter(merits(replies, by), replies.hosts, n)
    watched, better = next_watch(state.watch, judged, options.patience)
    best = put_rows(state.best, better, turns.beliefs)
    ends = watched["stopped"] & ~state.watch["stopped"]
    return State(put_rows(turns.beliefs, ends, best), notes, watched, best)


def _info_of(options: Peers, turns: Turns, state: State, choices: Choices) -> Info:
    n = len(turns.here)
    requests, taken = counts(turns.asked, n), counts([[last_of(p)] for p in turns.picked], n)
    extras, matrices = choices.show(turns, state.notes)
    if choices.direction:
        matrices = {turns.scores.by: turns.scores.shown, **matrices}
        extras = {"repeated_requests": int((requests - 1).clamp(min=0).sum()), **extras}
    if turns.told is not None:
        extras = {"rule": turns.told, **extras}
    if options.patience:
        extras = {"stopped": int(state.watch["stopped"].sum()), **extras}
    return Info(
        weights=turns.weights,
        loss=turns.loss,
        extras={"neighbours": taken.sum(dim=1).tolist(), **extras},
        matrices=matrices,
    )
