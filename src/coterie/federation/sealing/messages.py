"""What a lead asks of a helper in a sealed run, and what helpers and sites send each other, by the schema of
`federation/messages.py`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from coterie.federation.messages import SCHEMA, Number, Terms, Text

Hex = Annotated[str, Meta(pattern=r"\A([0-9a-f]{2}){1,64}\Z")]
Pairs = list[tuple[str, str]]
Groups = list[list[tuple[Number, Number]]]


class HelperOrder(Struct, forbid_unknown_fields=True, tag_field="do"):
    run: str = ""
    schema: int = SCHEMA


class HelperHello(HelperOrder, tag="hello"):
    pass


class Sit(HelperOrder, tag="sit", kw_only=True):
    """To be on a side of a run: a or b, the servers, or the dealer."""

    side: str
    parties: dict[str, str]
    sites: list[str]
    leverage: float
    projections: int


class DealMasks(HelperOrder, tag="deal", kw_only=True):
    hosts: dict[str, str]
    words: int


class Products(HelperOrder, tag="products", kw_only=True):
    op: str
    pairs: Pairs
    groups: Groups


class Coin(HelperOrder, tag="coin", kw_only=True):
    op: str
    names: list[str]


class Nonces(Struct, forbid_unknown_fields=True):
    a: Hex
    b: Hex


class Project(HelperOrder, tag="project", kw_only=True):
    op: str
    names: list[str]
    nonces: Nonces


class Judge(HelperOrder, tag="judge", kw_only=True):
    op: str


class MixShares(HelperOrder, tag="mix", kw_only=True):
    op: str
    names: list[str]
    slices: dict[str, tuple[Number, Number]]
    receiver: str


class DistanceShares(HelperOrder, tag="distances", kw_only=True):
    op: str
    pairs: Pairs
    wanted: Pairs
    groups: Groups


class Over(HelperOrder, tag="over"):
    pass


class HelperEnd(HelperOrder, tag="end"):
    pass


class PeerHeader(Struct, forbid_unknown_fields=True):
    """Of what passes between helpers and sites in a sealed run."""

    run: str
    what: str
    op: str = ""


class Seeds(Struct, forbid_unknown_fields=True):
    """Of the dealer, for a server: a seed for each mask, and which site has it."""

    seeds: dict[str, Hex]
    hosts: dict[str, str]


class SiteSeeds(Struct, forbid_unknown_fields=True):
    """Of the dealer, for a site: both seeds of each of its masks."""

    seeds: dict[str, tuple[Hex, Hex]]


class Blind(Struct, forbid_unknown_fields=True):
    seed: Hex


class Masked(Terms, kw_only=True):
    """A site's reply, masked, for a server."""

    name: str
    reply: Text
    bound: float
    others: Number = 0
