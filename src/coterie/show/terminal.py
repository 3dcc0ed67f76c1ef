"""Blocks on a terminal, in the language that is spoken: tables that fit it, what is said of them below."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from coterie.show.blocks import Block, Cell, More, Note, Points, Section, Sentence, Table
from coterie.show.words import said, say


def print_blocks(blocks: Sequence[Block], console: Console) -> None:
    """Prints them, each table after an empty line."""
    for made in renderables(blocks, console.width):
        if isinstance(made, RichTable):
            console.print()
        console.print(made)


def renderables(blocks: Sequence[Block], width: int) -> list[RichTable | Text]:
    """What rich prints: tables each with the sentences behind it as its caption, and what is said before."""
    made: list[RichTable | Text] = []
    table: Table | None = None
    captions: list[str] = []
    for block in (*blocks, None):
        if table is not None and (block is None or isinstance(block, Table)):
            text = " ".join(captions)
            made.append(fitting(table.header, plain(table.rows), text, text, width))
        if isinstance(block, Table):
            table, captions = block, []
        elif block is not None and table is not None:
            captions += map(say.again, texts_of(block))
        elif block is not None:
            style = "bold" if isinstance(block, Note) and block.kind == "warning" else "dim"
            made += [Text(say.again(text), style=style) for text in texts_of(block)]
    return made


def texts_of(block: Block) -> list[str]:
    """What it says, in lines; a table or a picture says nothing."""
    if isinstance(block, Sentence | Note):
        return [block.text]
    if isinstance(block, Points):
        return [text for p in block.points for text in ([p] if isinstance(p, str) else texts_of(p))]
    if isinstance(block, Section | More):
        return [block.title, *(text for inner in block.blocks for text in texts_of(inner))]
    return []


def plain(rows: Sequence[Sequence[str | Cell]]) -> list[list[str]]:
    return [[say.again(cell.text if isinstance(cell, Cell) else cell) for cell in row] for row in rows]


def fitting(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    text: str,
    shorter: str,
    width: int | None,
    least: int = 2,
) -> RichTable:
    """A table and what is said of it; without room the last columns go, down to so many, and then the shorter
    is said.
    """
    every = len(header)
    header, rows = fitted(header, rows, header, least, width)
    cut = len(header) < every
    return rich(header, rows, [shorter, said("summary.wider")] if cut else [text])


def fitted(
    header: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[str], least: int, width: int | None
) -> tuple[list[str], list[list[str]]]:
    """The columns that fit, the first of the `order` before others and so many at least; then names go into
    several lines, each option of a method whole.
    """
    header, kept = [say.again(title) for title in header], [say.again(title) for title in order]
    rows = [[say.again(cell) for cell in row] for row in rows]

    def chosen(cells: Sequence[str]) -> list[str]:
        return [cell for title, cell in zip(header, cells, strict=True) if title in kept]

    while width is not None and len(kept) > least and _width(chosen(header), [*map(chosen, rows)]) > width:
        kept.pop()
    titles, found = chosen(header), [chosen(row) for row in rows]
    over = 0 if width is None else _width(titles, found) - width
    if over > 0:
        room = max(cell_len(name) for name, *_ in found) - over
        found = [["\n".join(in_pieces(name, room)), *rest] for name, *rest in found]
    return titles, found


def in_pieces(name: str, room: int) -> list[str]:
    """A method's name in lines of at most so many cells, parted after : and , and at spaces only."""
    lines = [""]
    for piece in re.findall(r"[^:, ]*[:, ]?", name):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > room:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def rich(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> RichTable:
    look: dict[str, Any] = {"padding": (0, 1, 0, 0), "show_edge": False, "pad_edge": False}
    table = RichTable(box=box.SIMPLE_HEAD, caption_justify="left", caption_style="dim", **look)
    for i, title in enumerate(header):
        side: Literal["right", "left"] = "right" if i else "left"
        heading = Text("\n".join(_heading(title)))
        table.add_column(heading, justify=side, vertical="bottom", no_wrap=i > 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(c) for c in row))
    table.caption = Text(" ".join(map(say.again, notes)))
    return table


def _heading(title: str) -> list[str]:
    """A column's title in lines that are as short as its cells."""
    return textwrap.wrap(title, 11, break_long_words=False)


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Of the table that `rich` makes: of each column its longest line, and two spaces between columns.

    rich would say the same, but takes longer for it than for the printing.
    """
    columns = (
        [*_heading(title), *(line for cell in cells for line in cell.split("\n"))]
        for title, *cells in zip(header, *rows, strict=True)
    )
    return sum(max(map(cell_len, lines)) for lines in columns) + 2 * (len(header) - 1)
