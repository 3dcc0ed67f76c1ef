"""How much of a single reply the sums that somebody got give away.

Of replies x_1 ... x_n (one of them perhaps its own) a receiver knows the sums R x and its own x_k. What it
can work out is the row space of R and e_k. With P the projection onto that space, the leverage of reply i is

    l_i = |P e_i|^2        0: nothing of it alone; 1: it can be solved for exactly

The mean of n replies has l_i = 1/n; all leave-one-out means together have 1, and so has the mean of oneself
and one other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.core.errors import BadInput, Refused

Sum = dict[str, float]  # weights by reply
NEGLIGIBLE = 1e-9  # of the largest singular value, and above a bound


def check_leverage(bound: float) -> None:
    if not 0 < bound <= 1:
        remedy = "try 0.75; 1 gives single replies away"
        raise BadInput(f"leverage={bound} must lie above 0 and up to 1: {remedy}")


def leverage(rows: np.ndarray, own: Sequence[int] = ()) -> np.ndarray:
    """[reply] of sums with these weights [sum, reply], for somebody who knows the replies `own`.

    What it knows can be taken off, so that it does not hide the others.
    """
    rows = np.array(rows, dtype=np.float64)
    rows[:, list(own)] = 0.0
    if not rows.size:
        return np.zeros(rows.shape[1])
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    kept = directions[values > NEGLIGIBLE * max(values.max(), np.finfo(float).tiny)]
    found: np.ndarray = np.square(kept).sum(axis=0)
    return found


class Guard:
    """What receivers have got so far: a further sum that would give a reply away is refused.

    A reply goes by its name, whatever it was sent under; each tensor of it is a reply of its own, as it may
    have weights of its own.
    """

    def __init__(self, bound: float) -> None:
        check_leverage(bound)
        self.bound = bound
        self.got: dict[tuple[str, str], dict[str, list[Sum]]] = {}  # (receiver, tensor) -> reply -> sums
        self.own: dict[str, float] = {}  # bounds that hosts have set for their replies, if they are lower
        self.most = 0.0

    def look(
        self, receiver: str, tensor: str, sums: Sequence[Sum], own: set[str]
    ) -> tuple[list[str], np.ndarray]:
        """The leverage of each reply, by name, if a receiver that knows its `own` got these sums as well."""
        # these sums, and those before that have a reply in common with them, directly or by others
        before, near = self.got.get((receiver, tensor), {}), list(sums)
        seen = {name for some in sums for name in some} - own
        left = sorted(seen)
        while left:
            for some in before.get(left.pop(), ()):
                if not any(some is other for other in near):
                    near.append(some)
                    left += sorted(some.keys() - own - seen)
                    seen |= some.keys() - own
        names = sorted({name for some in near for name in some})
        rows = np.array([[some.get(name, 0.0) for name in names] for some in near])
        # its own replies are known to it, those of earlier sums too
        known = [i for i, name in enumerate(names) if name in own or name.startswith(f"{receiver}/")]
        return names, leverage(rows, known)

    def pass_on(self, receiver: str, tensor: str, sums: Sequence[Sum], own: set[str]) -> float:
        """These sums {reply: weight} go to a receiver that knows its `own`; the largest leverage after it.

        Refused, and nothing is noted, if that were above the bound.
        """
        names, found = self.look(receiver, tensor, sums, own)
        most = float(found.max(initial=0.0))
        bounds = np.array([min(self.bound, self.own.get(name, 1.0)) for name in names])
        if bool((found > bounds + NEGLIGIBLE).any()):
            i = int((found - bounds).argmax())
            whose = names[i].partition("/")[0]
            by = "sealed:leverage" if bounds[i] == self.bound else "its policy's"
            raise Refused(
                f"this sum would show {receiver} {found[i]:.2f} of the reply of {whose}, above the bound of "
                f"{bounds[i]:g} ({by}): mix more replies at once, or raise it (1 shows single replies)"
            )
        for some in sums:
            for name in some:
                self.got.setdefault((receiver, tensor), {}).setdefault(name, []).append(some)
        self.most = max(self.most, most)
        return most

    def read(self) -> float:
        """The largest leverage since it was last asked for."""
        found, self.most = self.most, 0.0
        return found
