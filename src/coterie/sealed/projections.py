"""Liars in the ring: replies that no honest host can have sealed, found without seeing them.

Adding 2^63 to some words of a reply leaves every distance as it is and moves a sum by a lot. So both servers,
once all masked replies have come, draw a coin together, from it vectors p with entries 0 (one half), 1 and -1
(one quarter each), and open z = <p, X> between them. For an honest reply |z| <= |p| |X| <= sqrt(words) times
the length that was agreed on, always; half of the projections of a liar fall on an odd number of its 2^63s,
and stick out. Signs of 1 and -1 alone would find no pair of them. A liar that wants to stay unseen stays
within sqrt(words) times the agreed length.

The price: each projection tells both servers one number of each reply.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.core.errors import BadInput
from coterie.sealed.ring import Words, dot, masks

PROJECTIONS = 16


def check_projections(many: int) -> None:
    if not 0 <= many <= 64:
        raise BadInput(
            f"projections={many} must lie between 0 and 64: try {PROJECTIONS}; 0 looks for no liar"
        )


def directions(coin: bytes, words: int, number: int) -> Words:
    """The number-th p, in the ring."""
    told = number.to_bytes(8, "big")
    seed = bytes(c ^ t for c, t in zip(coin, told.rjust(len(coin), b"\0"), strict=True))
    letters = masks(seed, -(-words // 8)).view(np.uint8)[:words] & 3
    table = np.array([0, 0, 1, 2**64 - 1], dtype=np.uint64)
    return table[letters]  # type: ignore[no-any-return]


def projected(shares: Sequence[Words], coin: bytes, many: int) -> np.ndarray:
    """[reply, projection] of shares of replies of one length each."""
    found = np.zeros((len(shares), many), dtype=np.uint64)
    for k in range(many):
        drawn: dict[int, Words] = {}
        for i, share in enumerate(shares):
            p = drawn.get(len(share))
            if p is None:
                p = drawn[len(share)] = directions(coin, len(share), k)
            found[i, k] = dot(p, share)
    return found


def furthest_projected(room: float, words: int) -> float:
    """sqrt(words) (2^room + sqrt(words)): what |<p, X>| is at the most; rounding makes X a little longer."""
    return float(words**0.5 * (2.0**room + words**0.5))


def liars(opened: np.ndarray, limits: Sequence[float]) -> list[bool]:
    """Whether any projection [reply, projection] is beyond what an honest reply can have."""
    sizes = np.abs(opened.view(np.int64).astype(np.float64))
    return [bool((line > limit).any()) for line, limit in zip(sizes, limits, strict=True)]
