"""Replies summed by a rule: measured in one place, weighed by the rule, mixed once (see `rules/base.py`).

Among peers whom to average with is the method's choice, with which weights the rule's:

    w_k ← Σ_j W_kj w_j,   W_k· = Rule(distances between w_k and those chosen; own w_k)

The models are those that all have just trained, so that one visit's replies are measured, at the receiver; f
auto goes by how many were chosen, oneself included. If they are fewer than the rule's bound needs, f is
lowered to the largest that holds; if none does, the client keeps its own model. Everybody's model comes from
another belief, so that there is no common one that went out: rules that start from it are refused. What a
rule leaves out is not left out of what a method learns (PENS's history): that goes by its own scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.core.belief import Weights
from coterie.core.errors import BadInput
from coterie.core.held import COORDINATOR, Held, hold, together
from coterie.core.net import SERVER, Net, Replies
from coterie.methods.server.norms import norm_names
from coterie.rules import Chain, chained, liars_of, with_fewer
from coterie.rules.chain import Liars, check_liars

STATISTICS = ("running_mean", "running_var")
MEAN = "mean"
NEEDED = "at-once"


class Sum(NamedTuple):
    """What a rule made of replies.

    belief   [1, ...] where it was asked for; None if too few answered for any f
    shares   [reply] of the senders' part, adding up to 1
    stayed   the share of what went out
    f        liars reckoned with; None if too few answered for any
    """

    belief: Held | None
    shares: Tensor
    stayed: float = 0.0
    f: int | None = None


def summed(
    net: Net, chain: Chain, f: int, replies: Replies, old: Held, at: int, me: int | None, step: float = 1.0
) -> Sum:
    """Replies to one belief, `old` [1, ...], summed at a place; `step` is how far to go from old to the sum.

    If fewer answered than the bound needs, f is lowered to the largest that holds; if none does, nothing is
    summed.
    """
    n = len(replies)
    fewer = with_fewer(chain, f, n) if n else None
    if fewer is None:
        return Sum(None, torch.zeros(n, dtype=torch.float64))
    if chain.last.needs.opens:
        return _opened(net, chain, fewer, replies, old, at, step)
    w = chain.weights(_measured(net, chain, replies, at, me), fewer, me)
    part = w[:-1]
    shares = part / part.sum() if float(part.sum()) > 0 else part
    mixed = stepped(net, w, replies.beliefs, old, at, step)
    return Sum(mixed, shares, float(w[-1]), fewer)


def _opened(net: Net, chain: Chain, f: int, replies: Replies, old: Held, at: int, step: float) -> Sum:
    """The coordinator looks at all replies; what it makes of them goes to the place that asked."""
    made, shares = chain.summed(
        net.open(replies.beliefs), _measured(net, chain, replies, COORDINATOR, None), f
    )
    held = hold({name: t.unsqueeze(0) for name, t in made.items()}, SERVER)
    if at != COORDINATOR:
        held = net.deliver(held, torch.tensor([0]), torch.tensor([at]))
    return Sum(stepped(net, torch.tensor([1.0, 0.0]).double(), held, old, at, step, True), shares, 0.0, f)


def _measured(
    net: Net, chain: Chain, replies: Replies, at: int, me: int | None, origin: bool = True
) -> Tensor:
    """Squared distances [n+1, n+1] between replies and, last, the belief that went out; 0 where the rule
    does not look, which nobody is asked for.
    """
    n, reads = len(replies), chain.reads
    D = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    if reads == "nothing":
        return D
    to = torch.arange(n) if reads == "all" else torch.tensor([me or 0])
    apart, lengths = net.distances(replies, to, at)
    D[:n, to] = apart.square()
    D[to, :n] = apart.square().T
    if origin:
        D[:n, n] = D[n, :n] = lengths.square()
    return D


def stepped(net: Net, w: Tensor, replies: Held, old: Held, at: int, step: float, whole: bool = False) -> Held:
    """(1 - s) x + s Σ_j w_j x_j, with x what went out, the last of w; at a place."""
    w = torch.cat([step * w[:-1], 1 - step * (1 - w[-1:])])
    where = torch.tensor([at])
    if float(w[-1]) == 0:
        return replies if whole else net.mix(w[:-1].unsqueeze(0), replies, where)
    return net.mix(by_name(w, old.names), together([replies, old]), where)


def by_name(w: Tensor, names: Sequence[str]) -> Weights:
    """Weights [1, n+1]; below 0, as FLTrust may have it, they would make a variance of batch norm negative:
    statistics then go by the senders' part alone.
    """
    row = w.unsqueeze(0)
    if not bool((w < 0).any()):
        return row
    norms = [n for n in norm_names(names) if n.endswith(STATISTICS)]
    inside = (w.clamp(min=0) / w.clamp(min=0).sum()).unsqueeze(0)
    return {n: inside if n in norms else row for n in names} if norms else row


def rule_figures(names: Sequence[str], found: Mapping[str, tuple[Sum, Tensor]]) -> dict[str, Any]:
    """For Info's extras, of sums and the hosts [reply] that answered, by receiver.

    f          liars reckoned with; null if too few answered, and nothing was summed
    left_out   how often each sender's reply had no weight
    stayed     the share of what went out, where there is one
    """
    times: dict[str, int] = {}
    for some, hosts in found.values():
        for host in hosts[some.shares == 0].tolist() if some.f is not None else ():
            times[names[host]] = times.get(names[host], 0) + 1
    stayed = {receiver: some.stayed for receiver, (some, _) in found.items() if some.stayed != 0}
    return {
        "f": {receiver: some.f for receiver, (some, _) in found.items()},
        "left_out": dict(sorted(times.items())),
        **({"stayed": stayed} if stayed else {}),
    }


def check_rule(rule: str, f: Liars, order: str, patience: int) -> None:
    """Refuses what does not go with peers; `mean` is the method's own averaging."""
    check_liars(f)
    needs = chained(rule).last.needs
    if rule == MEAN:
        if f not in ("auto", 0):
            raise BadInput(f"f={f} needs a rule, as the mean holds against no liar: set rule=monna")
        return
    if needs.opens:
        raise BadInput(f"rule={rule} looks at single models, which peers do not: set rule=monna or nnm+krum")
    if needs.origin:
        raise BadInput(
            f"rule={rule} starts from one belief that went to all, and peers have many: "
            "set rule=monna or nnm+krum, or use robust-personal"
        )
    if order != NEEDED:
        raise BadInput(
            f"rule={rule} measures models that were trained in one visit, and order={order} mixes in turn: "
            f"set order={NEEDED}"
        )
    if patience:
        raise BadInput(
            f"rule={rule} measures models that were trained in one visit, and patience={patience} lets "
            "some rest: set patience=0"
        )


def check_bound(rule: str, f: Liars, clients: int) -> None:
    """If a client averaged with all others, the bound should hold."""
    if rule != MEAN:
        liars_of(chained(rule), f, clients)


def ruled(
    net: Net, rule: str, f: Liars, replies: Replies, weights: Tensor, names: Sequence[str]
) -> tuple[Tensor, dict[str, Any]]:
    """W with the rule's weights [receiver, sender] in the rows of who answered, and what to tell of it."""
    chain, where = chained(rule), {host: i for i, host in enumerate(replies.hosts.tolist())}
    weights, found = weights.clone(), dict[str, tuple[Sum, Tensor]]()
    for k in where:
        hosts = torch.tensor([j for j in weights[k].nonzero().flatten().tolist() if j in where])
        n, me = len(hosts), hosts.tolist().index(k)
        fewer = with_fewer(chain, (n - 1) // 3 if f == "auto" else f, n)
        row = torch.zeros(n, dtype=torch.float64)
        if fewer is None or n == 1:
            row[me] = 1
        else:
            some = replies.only(torch.tensor([where[j] for j in hosts.tolist()]))
            row = chain.weights(_measured(net, chain, some, k, me, origin=False), fewer, me)[:n]
        weights[k] = torch.zeros_like(weights[k]).index_copy(0, hosts, row)
        found[names[k]] = Sum(None, row, f=fewer), hosts
    return weights, rule_figures(names, found)
