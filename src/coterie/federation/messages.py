"""The messages between the parties of a federation, and what each of them must be: schema 1.

    Header       of every frame on a line: few short texts and whole numbers
    MemberNote   notes of the relay: who is here, who comes and goes
    SITE_ORDERS  what a lead asks of a site, by what it says to `do`; models go beside it as tensors
    ...Answer    what a site says to an order

What helpers are asked is in `sealing/helper.py`, what sites and helpers send each other in
`sealing/messages.py`, and what sites tell of their rows in `data/`.
All of it is decoded strictly: a field that is missing, unknown, or of another kind is refused, as is a schema
that is not known here. Parties greet the relay with their schema too, so that one federation speaks one. A
message without a schema is of a version before there was one, and that is the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, ValidationError

from coterie.core.errors import BadData, CoterieError, Refused, shown

SCHEMA = 1
MOST_TEXT = 128  # letters of a text in a header
AGAIN = "is it of another version?"

Text = Annotated[str, Meta(max_length=MOST_TEXT)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0, lt=1e9)]
Row = list[tuple[int, list[str]]]
"""One belief in its parts, each an id and the names of its tensors."""
Kind = Literal[
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"
]
Like = dict[str, tuple[Kind, list[Annotated[int, Meta(ge=0, le=2**40)]]]]
"""By name, what a tensor is: its kind, and its shape."""
MOST_NUMBERS = 10_000  # that a site tells of one visit
T = TypeVar("T")


# frames, and notes of the relay


class Header(Struct, forbid_unknown_fields=True, rename={"sender": "from"}):
    """`to` and `from` are names, "" is the relay, who writes `from` by the sender's certificate. `boot` is
    the start of the process that a message is for, `mine` of the one that sends it; a question's answer
    repeats its `number`. `id`, `at` and `size` are of a body that goes in parts.
    """

    to: Text
    kind: Text
    sender: Text = ""
    boot: Text = ""
    mine: Text = ""
    number: Number = 0
    id: Number = 0
    at: Number = 0
    size: Number = 0


class MemberNote(Struct):
    """One who is connected, as the relay tells it. Of helpers: a mark of their address, which is the same for
    two of one address and says nothing else.
    """

    name: str
    card: str
    boot: Text
    version: Text
    since: float
    where: Text = ""


class LeftNote(Struct):
    name: str


NOTES: dict[str, Any] = {"members": list[MemberNote], "arrived": MemberNote, "left": LeftNote}
"""By kind, what a note of the relay's has in JSON; "revoked" has a list that the authority has signed."""


# what a lead asks of a site


class _Order(Struct, forbid_unknown_fields=True, tag_field="do"):
    """`squeeze` says how models cross, `whole` that none may be told as a change of another."""

    run: str = ""
    squeeze: str = "none"
    whole: bool = False
    parcels: Any = None
    schema: int = SCHEMA


class _Fold(Struct, forbid_unknown_fields=True):
    folds: int
    fold: int
    seed: int
    within: _Fold | None = None


class _RandomKey(Struct, forbid_unknown_fields=True):
    seed: int
    path: list[int | str]
    round: int
    rounds: int


class _ModelsFor(Struct, forbid_unknown_fields=True):
    """Models for one other site."""

    to: str
    rows: list[Row]
    new: list[int]
    why: str | None = None


class _Offered(Struct, forbid_unknown_fields=True):
    """A sum that a model of the site would be in; `to` is "" for the lead."""

    to: str
    ids: list[int]
    share: Annotated[float, Meta(ge=0, le=1 + 1e-6)]
    others: Number
    leverage: Annotated[float, Meta(ge=0, le=1 + 1e-6)]


class Terms(Struct, forbid_unknown_fields=True):
    """Of sealed replies: `features/sealed/parties.py`."""

    bits: int
    room: float
    words: int


class _SealOf(Struct, forbid_unknown_fields=True):
    """One reply, less a belief that the receiver has."""

    name: str
    row: Row
    less: Row | None = None


_Table, _Rows, _Ids, _Texts = dict[str, Any], list[Row], list[int], list[str]


def _order(do: str, **fields: Any) -> type[Struct]:
    """An order with these fields beside those of all; of two, the second is what it is if it is not told."""
    told = [(name, *kind) if isinstance(kind, tuple) else (name, kind) for name, kind in fields.items()]
    return msgspec.defstruct(do, told, bases=(_Order,), tag=do, kw_only=True)


_ORDERS = (
    *map(_order, ("ping", "cancel", "hello", "end", "rows")),  # which say nothing but what to do
    _order(
        "deal",
        ground=str,
        common=_Table,
        number=int,
        test=float,
        validation=float,
        deal=int,
        one_class=bool,
        forbid=(_Texts, []),
    ),
    _order("sums", ground=str, gaps=_Table),
    _order("fit", ground=str, gaps=_Table, agreed=list[Any], late=bool),
    _order("fold", ground=str, fold=_Fold),
    _order("check", checks=(_Texts | None, None)),
    _order("left-out", why=str),
    _order(
        "begin",
        ground=str,
        number=int,
        model=str,
        options=_Table,
        shape=_Ids,
        outputs=int,
        precision=str,
        engine=_Table,
        work=_Table,  # for the policy (`policy/rules.py`)
        sites=_Texts,
        fold=(_Fold | None, None),
        plan=(dict[str, str] | None, None),  # for people and the guard (`plans/plan.py`)
        helpers=(dict[str, str] | None, None),
    ),
    _order("finish", row=Row, facts=(_Table, {})),
    _order("ledger", first=int, entries=_Texts, shown=(Any, None)),
    _order(
        "visit",
        kernel=_Table,
        key=_RandomKey,
        slot=str,
        beliefs=_Rows,
        rows=list[Number],
        guests=_Ids,
        beside=dict[str, list[Row]],
        replies=_Ids,
    ),
    _order("mix", rows=_Rows, new=_Ids),
    _order(
        "distances",
        replies=_Rows,
        origin=_Rows,
        guests=list[Number],
        to=list[Number],
        importance=dict[str, float] | None,
    ),
    _order("copy", rows=_Rows, new=_Ids),
    _order("take", copies=bool),
    _order("give", rows=_Rows, new=_Ids, why=(str | None, None)),
    _order("letters", orders=list[_ModelsFor], deadline=Seconds, patience=Seconds),
    _order("lacks", like=dict[str, dict[str, tuple[str, list[int]]]]),
    _order("offer", circle=bool, sums=list[_Offered]),
    _order("keep", live=_Ids, round=int, store=(int | None, None)),
    _order("store", live=_Ids, round=int),
    _order("fetch", live=_Ids, round=int, fresh=bool),
    _order(
        "seal",
        orders=list[_SealOf],
        terms=Terms,
        floats=_Texts,
        to=(str | None, None),
        deadline=Seconds,
        patience=Seconds,
    ),
    _order("unseal", told=_Table, op=str, new=_Ids),
)
SITE_ORDERS: dict[str, type[Struct]] = {str(kind.__struct_config__.tag): kind for kind in _ORDERS}


# what a site answers


class VisitAnswer(Struct):
    """Names of the numbers beside it, and what replies are made of."""

    numbers: Annotated[list[str], Meta(max_length=MOST_NUMBERS)]
    like: Like


class OfferAnswer(Struct):
    """From which of the sums, by number, the site withdraws, and why."""

    withdraws: list[tuple[Number, str]]


class SendModelsAnswer(Struct):
    """Bytes of models in each peer message, or why one did not arrive."""

    sent: list[Number | str]


class LacksAnswer(Struct):
    """Ids of what is not there as it should be."""

    lacks: list[int]


# reading


def read(kind: type[T], told: Any, what: str, refused: type[CoterieError] = BadData) -> T:
    """What is told as plain data, if it is of this kind; else refused in one line."""
    if isinstance(told, Mapping) and (why := unknown_schema(told.get("schema", SCHEMA))):
        raise Refused(why)
    try:
        return msgspec.convert(told, kind)
    except (ValidationError, RecursionError, OverflowError) as error:
        why = printable(error, 200)
        raise refused(f"{what} that is not as it must be ({why}): {AGAIN}") from None


def check_order(message: Mapping[str, Any]) -> None:
    """An order that a site may be asked: known, and as it must be."""
    do = message.get("do")
    kind = SITE_ORDERS.get(do) if isinstance(do, str) else None
    if kind is None:
        raise Refused(f"{shown(do)} is nothing that a site can be asked: {AGAIN}")
    read(kind, message, f"a message {shown(do)}", Refused)


def fits(kind: type[T], answer: Any) -> T | None:
    """A site's answer, if it is of this kind."""
    try:
        return msgspec.convert(answer, kind)
    except (ValidationError, RecursionError, OverflowError):
        return None


def unknown_schema(schema: Any) -> str:
    """Why messages of this schema are not taken; nothing if they are."""
    if type(schema) is int and schema == SCHEMA:
        return ""
    return (
        f"messages of schema {shown(schema)}, and {SCHEMA} is known here: install the same version of "
        "Coterie everywhere in the federation"
    )


# for people


def printable(text: Any, most: int = 500) -> str:
    """What another party says, in one line that cannot write over others on a screen."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)[:most]).split())


def safely(say: Callable[[str], None]) -> Callable[[str], None]:
    """A screen that nobody reads any more ends no connection."""

    def told(line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            say(line)

    return told
