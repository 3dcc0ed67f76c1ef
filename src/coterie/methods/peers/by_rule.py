"""A robust rule as the mixing step among peers: whom to average with is the method's choice, with which
weights the rule's (`coterie/rules`).

    w_k ← Σ_j W_kj w_j,   W_k· = Rule(distances between w_k and those chosen; own w_k)

The models are those that all have just trained, so that one visit's replies are measured, at the receiver; f
auto goes by how many were chosen, oneself included. If they are fewer than the rule's bound needs, f is
lowered to the largest that holds; if none does, the client keeps its own model. Everybody's model comes from
another belief, so that there is no common one that went out: rules that start from it are refused. What a
rule leaves out is not left out of what a method learns (PENS's history): that goes by its own scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.net import Net, Replies
from coterie.methods.ruled import Sum, measured, rule_figures
from coterie.rules import chained, liars_of, with_fewer
from coterie.rules.chain import Liars, check_liars

MEAN = "mean"
NEEDED = "at-once"


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
            row = chain.weights(measured(net, chain, some, k, me, origin=False), fewer, me)[:n]
        weights[k] = torch.zeros_like(weights[k]).index_copy(0, hosts, row)
        found[names[k]] = Sum(None, row, f=fewer), hosts
    return weights, rule_figures(names, found)
