"""What helpers, sites and whoever leads a sealed run all know: who helps, and what passes between helpers and
sites, by the schema of `federation/messages.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta, Struct
from torch import Tensor

from coterie.core.errors import BadData, BadRun, Refused, shown
from coterie.features.sealed.ring import Words
from coterie.federation.kits.certificates import Card
from coterie.federation.messages import Number, Terms, Text

SIDES = ("a", "b", "dealer")
UNREADABLE = (AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError)
Hex = Annotated[str, Meta(pattern=r"\A([0-9a-f]{2}){1,64}\Z")]


class PeerHeader(Struct, forbid_unknown_fields=True):
    """Of what passes between helpers and sites in a sealed run."""

    run: str
    what: str
    op: str = ""


class SiteSeeds(Struct, forbid_unknown_fields=True):
    """Of the dealer, for a site: both seeds of each of its masks."""

    seeds: dict[str, tuple[Hex, Hex]]


class Seeds(Struct, forbid_unknown_fields=True):
    """Of the dealer, for a server: a seed for each mask, and which site has it."""

    seeds: dict[str, Hex]
    hosts: dict[str, str]


class Blind(Struct, forbid_unknown_fields=True):
    seed: Hex


class Masked(Terms, kw_only=True):
    """A site's reply, masked, for a server."""

    name: str
    reply: Text
    bound: float
    others: Number = 0


def check_parties(parties: Mapping[str, str], card_of: Callable[[str], Card | None]) -> None:
    """Three helpers, each with a key of its own: two that are one would see every reply."""
    if len(set(parties.values())) < len(SIDES):
        raise Refused(
            f"{', '.join(parties.values())} are not three parties: two that are one see every reply"
        )
    keys: dict[Any, str] = {}
    for name in parties.values():
        card = card_of(name)
        if card is None:
            raise BadRun(f"helper {shown(name)} is not connected: start it with coterie helper")
        if card.role != "helper":
            raise Refused(f"{shown(name)} is a {card.role}, no helper: invite one with --role helper")
        point = card.public_key.public_numbers()
        if point in keys:
            raise Refused(
                f"{keys[point]} and {name} have one key, and together they see every reply: make new kits"
            )
        keys[point] = name


def as_tensor(words: Words) -> Tensor:
    """Ring elements as a wire takes them."""
    return torch.from_numpy(np.ascontiguousarray(words).view(np.int64))


def as_words(tensor: Tensor) -> Words:
    if tensor.dtype != torch.int64:
        raise BadData("words of another kind: is it of another version?")
    return tensor.contiguous().numpy().view(np.uint64)
