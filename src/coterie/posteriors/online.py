"""Clients that come, change and go, one exchange each (Makni, 2022, section 5.3).

    add       Λ_S ← Λ_S + Λ_{b+1}             η_S ← η_S + η_{b+1}
    update    Λ_S ← Λ_S - Λ_i + Λ̄_i           η_S ← η_S - η_i + η̄_i
    remove    Λ_S ← Λ_S - Λ_i                 η_S ← η_S - η_i

with η = Λ μ. Λ_S, η_S are `total`, a client's own are its entry in `members`: to subtract them, the server
keeps what the client sent. Nobody else is asked, nothing is summed anew. Removing is not in the paper; it is
the update without its last term. With a `prior` that every client has counted, a client's share is Λ_i - Λ_0
and the sum begins at Λ_0 (see `gaussian.py`).

A sum may be no Gaussian: where a client is less certain than the prior, its share is negative, and where much
is taken away, only rounding may be left. Both are refused, and the pool stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.core.errors import BadInput, UnknownName
from coterie.posteriors.gaussian import Gaussian, checked, product
from coterie.posteriors.precision import ROUNDING
from coterie.posteriors.slots import place, same_model


@dataclass(frozen=True, eq=False)
class Pool:
    """The joint posterior (None without clients or prior) and each client's own."""

    total: Gaussian | None = None
    members: Mapping[str, Gaussian] = field(default_factory=dict)
    prior: Gaussian | None = None


def pool_of(posteriors: Mapping[str, Gaussian], prior: Gaussian | None = None) -> Pool:
    """All of them at once: on the way to it, some might be less than a Gaussian."""
    total = product(list(posteriors.values()), prior) if posteriors else prior
    return Pool(total, dict(posteriors), prior)


def joint(pool: Pool) -> Gaussian:
    """The product of all, for predictions."""
    if pool.total is None:
        raise BadInput("a pool of 0 clients has no posterior: add one")
    return pool.total


def add(pool: Pool, client: str, posterior: Gaussian) -> Pool:
    """One client more."""
    if client in pool.members:
        raise BadInput(f"client {client!r} is in the pool already: update it")
    share = _share(pool, posterior)
    total = share if pool.total is None else pool.total + share
    total = checked(total, f"adding {client!r} leaves", "take a prior of larger variance")
    return Pool(total, {**pool.members, client: posterior}, pool.prior)


def update(pool: Pool, client: str, posterior: Gaussian) -> Pool:
    """One client's new posterior for its old one."""
    same_model(_member(pool, client).slots, posterior.slots)
    kept = {**pool.members, client: posterior}
    if len(kept) == 1:
        return add(Pool(pool.prior, prior=pool.prior), client, posterior)
    rest = joint(pool) - _share(pool, pool.members[client])
    total = _left(joint(pool), rest + _share(pool, posterior), f"updating {client!r} leaves")
    return Pool(total, kept, pool.prior)


def remove(pool: Pool, client: str) -> Pool:
    """One client less."""
    share = _share(pool, _member(pool, client))
    kept = {name: p for name, p in pool.members.items() if name != client}
    if not kept:  # nothing is exact; a difference of equal numbers need not be
        return Pool(pool.prior, prior=pool.prior)
    total = _left(joint(pool), joint(pool) - share, f"removing {client!r} leaves")
    return Pool(total, kept, pool.prior)


def _member(pool: Pool, client: str) -> Gaussian:
    if client not in pool.members:
        raise UnknownName("client", client, pool.members)
    return pool.members[client]


def _share(pool: Pool, posterior: Gaussian) -> Gaussian:
    return posterior if pool.prior is None else posterior - pool.prior


def _left(before: Gaussian, after: Gaussian, whose: str) -> Gaussian:
    """What is left of a joint posterior, if it is one and more than rounding."""
    had, has = before.precision.entries(), after.precision.entries()
    ratio = has / had
    worst = int(ratio.argmin())
    if 0 < ratio[worst] < ROUNDING:
        raise BadInput(
            f"{whose} precision {float(has[worst]):.3g} of {float(had[worst]):.3g} at "
            f"{place(after.slots, worst)}, which is rounding: join the others anew"
        )
    return checked(after, whose, "update or remove others first, or take a prior of larger variance")
