"""What there is to show, as plain data: a maker reads a record and says nothing of pages or screens.

A text is a `str`. One of the catalogue (`show.words.said`) is said again in the reader's language by whoever
renders it; any other, a name above all, is shown as it is. Nothing in a block is markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cell:
    """A table's cell that has more than a text: `ink`, the colour of what it names, or how far a bar below it
    goes, `share` of the way.
    """

    text: str
    ink: str = ""
    share: float | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Sentence:
    """A paragraph; `lead` stands before it and tells whom it is about, `tail` behind it. One with a `kind` is
    shown as it is, without links at the field's words.
    """

    text: str
    lead: str = ""
    kind: str = ""
    tail: str = ""


@dataclass(frozen=True)
class Note:
    """What must not be overlooked, or should not be in the way."""

    text: str
    kind: Literal["warning", "good", "aside"] = "warning"


@dataclass(frozen=True)
class Points:
    """A list; a point may have more behind it."""

    points: Sequence[str | Sentence | More]
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """The first cell of a row names it.

    title     what it is of, for those who cannot see it and for a caption
    kind      how it looks: "figures" are set to the right
    columns   names of the columns in a file, the same in every language; `raw` are its cells there
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    kind: str = "figures"
    columns: Sequence[str] = ()
    raw: Sequence[Sequence[Any]] = ()


@dataclass(frozen=True)
class Control:
    """What changes a plot; `use` is what page.js knows it by."""

    use: str
    label: str
    form: Literal["menu", "slider", "box"] = "menu"
    choices: Sequence[str] = ()
    first: int = 0


@dataclass(frozen=True)
class Plot:
    """A picture, and in `said` what it shows, for those who cannot see it too.

    key     by which a page finds it; the name of its file
    data    as `page.js` draws it: {"choices": [{"name", "data", "layout"}]} for plotly, or another kind
    paper   the same drawn by matplotlib, where there is such a figure
    """

    key: str
    data: Mapping[str, Any]
    said: str
    kind: str = ""
    controls: Sequence[Control] = ()
    paper: Callable[[], Figure] | None = None


@dataclass(frozen=True)
class Code:
    """What one may type, line by line."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names, and what each is."""

    facts: Sequence[tuple[str, str]]
    kind: str = ""


@dataclass(frozen=True)
class More:
    """What is shown on demand, or, where it is `open`, from the beginning."""

    title: str
    blocks: Sequence[Block] = ()
    open: bool = False
    whom: str = ""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading. One with a `key` can be linked to; an article begins with links to its
    sections, and an outcome is a heading alone that leads to the article of its key.
    """

    title: str
    blocks: Sequence[Block]
    key: str = ""
    kind: Literal["", "article", "outcome"] = ""


SpanKind = Literal["own", "leak", "none"]


@dataclass(frozen=True)
class Span:
    """A figure with its interval, from 0 to 1: `kind` is how it is drawn."""

    name: str
    text: str
    low: float
    value: float
    high: float
    kind: SpanKind = "own"


@dataclass(frozen=True)
class Spans:
    """Figures with their intervals, below each other on one scale, and what that is."""

    spans: Sequence[Span]
    scale: str


@dataclass(frozen=True)
class Picture:
    """One that is there already, as PNG."""

    data: bytes
    said: str
    shows: str


@dataclass(frozen=True)
class Group:
    """Blocks that belong together; `kind` is how they look."""

    blocks: Sequence[Block]
    kind: str


Block = Sentence | Note | Points | Table | Plot | Code | Facts | More | Section | Group | Spans | Picture
