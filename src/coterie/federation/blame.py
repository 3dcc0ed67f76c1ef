"""Letters that did not arrive as they should have, and whose fault that is.

The coordinator sees none of them: it has the word of the sender and that of the receiver. One that lies is in
many disputes, each with another site; those are in one each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import Tensor

Pair = tuple[int, int]  # sender and receiver
Kind = list[Any]  # of a tensor: its dtype and shape


def kind_of(t: Tensor) -> Kind:
    return [str(t.dtype).removeprefix("torch."), list(t.shape)]


def lacking(held: Mapping[int, Mapping[str, Tensor]], like: Mapping[str, Mapping[str, Kind]]) -> list[int]:
    """Ids of what is not held, or is of other kinds than it should be."""
    return [
        int(id)
        for id, kinds in like.items()
        if {name: kind_of(t) for name, t in held.get(int(id), {}).items() if name in kinds} != dict(kinds)
    ]


def blamed(failed: Mapping[Pair, str], before: Counter[int]) -> dict[int, str]:
    """Sites without which no letter would have failed, and why: who has part in most of them; then who had
    in earlier ones; then the sender.
    """
    found, left = dict[int, str](), dict(failed)
    while left:
        counts = Counter(site for pair in left for site in pair)
        site = max(counts, key=lambda s: (counts[s], before[s]))
        found[site] = next(why for pair, why in left.items() if site in pair)
        left = {pair: why for pair, why in left.items() if site not in pair}
    return found
