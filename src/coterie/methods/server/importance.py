"""How much layers count in a distance, said as layer=number (Gengler, 2020, section V.C)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from coterie.core.errors import BadInput, UnknownName


def parsed(entries: Iterable[str]) -> dict[str, float]:
    """Importance by layer, from entries such as head=2."""
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
    for layer, value in sorted(parsed(entries).items(), key=lambda entry: len(entry[0])):
        mine = [n for n in names if n == layer or n.startswith(f"{layer}.")]
        if not mine:
            raise UnknownName("layer in importance", layer, names)
        table |= dict.fromkeys(mine, value)
    return table
