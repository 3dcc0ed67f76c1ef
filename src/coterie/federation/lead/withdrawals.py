"""The lead's side of ownership: sites are asked before sums are made of their models.

Sites say when they join whether they have limits (`share_at_most`, `others_at_least`, `leverage` of their
policies), ask a person (`circles`), or have said no to anybody: only those are asked before a sum, so that
nothing becomes slower for others. A circle that is published is told to everybody in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coterie.core.held import COORDINATOR
from coterie.federation.lead.orders import NO_ANSWER
from coterie.federation.messages import OfferAnswer, fits, printable
from coterie.federation.policy.rules import policy_from
from coterie.nets.courier import Message, Silence
from coterie.nets.offers import Offer

if TYPE_CHECKING:
    from coterie.federation.lead.net import Federated


def limited(net: Federated) -> set[int]:
    """Sites that want to be asked."""
    for name, policy in net.met.policies.items():
        if name not in net.limits or net.limits[name][0] is not policy:  # it came, or came back
            own = policy_from(policy)
            wants = bool(own.limits) or own.circles == "ask" or policy.get("vetoes") is True
            net.limits[name] = policy, wants
    return {s for s, name in enumerate(net.roster.names) if net.limits.get(name, ({}, False))[1]}


def withdrawing(net: Federated, offers: Sequence[Offer], circle: bool) -> dict[int, str]:
    """From which of these offers, by number, their sites withdraw, and why. One that does not answer, or not
    to this, is away as with any other order.
    """
    wanted = (set(range(len(net.roster))) if circle else limited(net)) & set(net.here())
    mine: dict[int, list[int]] = {}
    for i, offer in enumerate(offers):
        if offer.site in wanted:
            mine.setdefault(offer.site, []).append(i)
    orders: dict[int, Message] = {}
    for site, some in mine.items():
        sums = []
        for offer in (offers[i] for i in some):
            to = "" if offer.receiver == COORDINATOR else net.roster.names[offer.receiver]
            figures = {"share": offer.share, "others": offer.others, "leverage": offer.leverage}
            sums.append({"to": to, "ids": list(offer.contents), **figures})
        orders[site] = ({"do": "offer", "circle": circle, "sums": sums}, {})
    found: dict[int, str] = {}
    for site, (answer, _) in net.post.ask(orders, quiet=True).items():
        out = withdrawn(answer, len(mine[site]))
        if out is None:
            net.post.need({site: Silence(NO_ANSWER, lasting=True)})
            continue
        found |= {mine[site][k]: why for k, why in out.items()}
        if out and site not in net.withdrew:
            net.withdrew.add(site)
            k, why = next(iter(out.items()))
            where = net.post.name_of(offers[mine[site][k]].receiver)
            name, what = net.roster.names[site], f"from the {'circle' if circle else 'sum'} of {where}: {why}"
            net.tell("withdrew", name, what, f"{name} withdraws {what}; the round goes on without it")
    return found


def withdrawn(answer: Any, offers: int) -> dict[int, str] | None:
    """From which of so many offers a site withdraws, and why, as it says; None if that is nonsense."""
    told = fits(OfferAnswer, answer)
    if told is None or len(told.withdraws) > offers or not all(k < offers for k, _ in told.withdraws):
        return None
    return {k: printable(why, 200) for k, why in told.withdraws}
