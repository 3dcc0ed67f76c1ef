"""A site's part in a sealed run, as its policy has it, when the run begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from coterie.federation.certificates import Card
from coterie.federation.policy_keys import Policy, limits_of
from coterie.nets.offers import Limits

NEARLY_ALONE = 0.9  # leverage, at most, of a sealed reply that who leads must not see


def sealed_limits(policy: Policy) -> Limits:
    """A site whose models are not for who leads is not alone in a sum, nor nearly so."""
    limits = limits_of(policy)
    if policy.to_coordinator:
        return limits
    others, most = max(1, limits.others_at_least), min(limits.leverage, NEARLY_ALONE)
    return replace(limits, others_at_least=others, leverage=most)


def sealed_site(
    name: str, parties: Mapping[str, str], card_of: Callable[[str], Card | None], limits: Limits
) -> Any:
    """Loaded where a run is sealed alone."""
    from coterie.federation.sealed_site import SealedSite

    return SealedSite(name, parties, card_of, limits.leverage, limits.others_at_least)
