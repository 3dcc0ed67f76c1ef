"""Tables from files and frames, cell by cell as they are written, each row with its line.

pandas reads Excel and Parquet. CSV is read here, as pandas fills up rows that are too short without a word
and does not tell in which line of the file a row stands; at once where nothing can be wrong (`plain_csv.py`).
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core.errors import BadData, BadInput, Several
from coterie.data.intake import Array
from coterie.data.tables.cells import Column, Spellings
from coterie.data.tables.names import name_and_unit
from coterie.data.tables.plain_csv import decoded, likely_separator, plain_text, trimmed_column
from coterie.data.tables.texts import Cell, plain, some, trimmed

if TYPE_CHECKING:
    import pandas as pd

EXCEL, PARQUET, ARCHIVES = (".xlsx", ".xlsm"), (".parquet", ".pq"), (".zip", ".gz", ".bz2", ".xz", ".7z")
MOST_TROUBLES = 50  # lines that a person is shown at once


@dataclass(frozen=True, eq=False)
class Table:
    """name is what messages call it; columns by header, as written but for blanks around it."""

    name: str
    columns: Mapping[str, Column]
    lines: Array  # [row] in the file, whose header is line 1; of a frame, rows from 1
    row_word: str = "line"
    broken: Mapping[int, str] = field(default_factory=dict)  # {line: what is wrong}, where cells are blank
    separator: str = ""  # of a text file

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: Array) -> Table:
        columns = {name: cells.take(rows) for name, cells in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[rows])

    def where(self, row: int) -> str:
        return f"{self.name}, {self.row_word} {self.lines[row]}"

    @cached_property
    def _by_name(self) -> dict[str, str]:
        return {plain(h): h for h in self.columns}

    @cached_property
    def _by_bare_name(self) -> dict[str, list[str]]:
        found = dict[str, list[str]]()
        for h in self.columns:
            found.setdefault(plain(name_and_unit(h)[0]), []).append(h)
        return found

    def header(self, name: str) -> str | None:
        """A column by name: as it is, or but for a unit behind it."""
        bare = self._by_bare_name.get(plain(name_and_unit(name)[0]), [])
        return self._by_name.get(plain(name)) or (bare[0] if len(bare) == 1 else None)


def read_table(
    source: str | Path | pd.DataFrame | Table, encoding: str | None = None, by_row: bool = False
) -> Table:
    """A file by the ending of its name, or a frame; `encoding` is what a recipe says of letters. `by_row`:
    lines with too few or too many cells are handed back as `broken` instead of refused.
    """
    if isinstance(source, Table):
        return source
    if not isinstance(source, str | Path):
        return _table_of_frame(source, "table")
    path = Path(source)
    content = content_of(path)
    ending = path.suffix.lower()
    if ending in EXCEL:
        return _read_excel(path, content)
    if ending in PARQUET:
        return _read_parquet(path, content)
    if ending in ARCHIVES:
        packed = content[:2] in (b"PK", b"\x1f\x8b", b"BZ", b"\xfd7", b"7z")
        wrong = "" if packed else " and not even an archive"
        raise BadData(f"{path} is no table{wrong}: unpack it, and give the CSV file that is in it")
    if ending == ".xls":
        raise BadData(f"{path} is in the Excel format of before 2007: save it as .xlsx or as CSV")
    if content[:2] == b"PK" or content[:4] == b"PAR1":
        zipped, parquet = "a ZIP archive or an Excel file (.xlsx)", "a Parquet file (.parquet)"
        kind = zipped if content[:2] == b"PK" else parquet
        raise BadData(f"{path} is no CSV file but {kind}: give it the ending that it should have")
    return read_csv(str(path), content, "\t" if ending in (".tsv", ".tab") else "", encoding, by_row)


def content_of(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read {str(path)!r}: {said}: check the path") from None
    if not content.strip():
        raise BadData(f"{path} is empty: give a table with a header line and rows")
    return content


def read_csv(
    name: str, content: bytes, separator: str = "", encoding: str | None = None, by_row: bool = False
) -> Table:
    text = decoded(name, content, encoding)
    separator = separator or likely_separator(text)
    if not text.isascii() or len(text) != len(content):
        content = text.encode()
    del text  # a large file is not held twice
    if (found := plain_text(content, separator)) is None:
        return read_rows(name, content, separator, by_row)
    headers = [trimmed(h) for h in found.headers]
    refuse(_twins_in(name, headers))
    return Table(name, dict(zip(headers, found.columns, strict=True)), found.lines, separator=separator)


def read_rows(name: str, content: bytes, separator: str, by_row: bool) -> Table:
    """Row by row, with what is wrong in any."""
    records = list(_records_of(name, content, separator))
    if not records:
        raise BadData(f"{name} is empty: give a table with a header line and rows")
    (_, header), *rows = records
    headers = _named_headers([trimmed(h) for h in header], [r for _, r in rows])
    wide, broken = len(headers), dict[int, str]()
    filled = {line: any(cell.strip() for cell in cells) for line, cells in rows}
    for line, cells in rows:
        blank_end = len(cells) > wide and not "".join(cells[wide:]).strip()
        if len(cells) == wide or blank_end or not filled[line]:
            continue
        if len(cells) < wide:
            says = f"nothing for column {headers[len(cells)]!r}"
        else:
            says = f"{cells[wide]!r} is in none: quote cells that hold a separator, or mend the row"
        broken[line] = f"{len(cells)} cells, but {wide} columns: {says}"
    troubles = [] if by_row else [f"{name}, line {line}: {says}" for line, says in broken.items()]
    refuse([*troubles, *_twins_in(name, headers)])
    if by_row:  # blank rows at the end are a spreadsheet's, one in the middle may be missed
        last = max((line for line, has in filled.items() if has), default=0)
        inside = (line for line, has in filled.items() if line < last and not has)
        broken |= dict.fromkeys(inside, "the row is blank")
    blank = [""] * wide
    kept = [(n, blank if n in broken else cells) for n, cells in rows if n in broken or filled[n]]
    if not kept:
        raise BadData(f"{name}, line 1: a header of {wide} columns, but no rows: add some")
    columns = {h: trimmed_column(Column.of([c[i] for _, c in kept])) for i, h in enumerate(headers) if h}
    return Table(name, columns, np.array([line for line, _ in kept]), broken=broken, separator=separator)


def _records_of(name: str, content: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(line at which it starts, cells) of each row that is not blank; cells that are alike are one text."""
    lines = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
    reader = csv.reader(lines, delimiter=separator, strict=True)
    line, once = 1, dict[str, str]().setdefault
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise BadData(
                f"{name}, line {line}: {error}: check its quotation marks, or save the table again as CSV"
            ) from None
        if cells is None:
            return
        if cells:
            yield line, [once(cell, cell) for cell in cells]
        line = reader.line_num + 1


def _named_headers(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Headers without those at the end that are blank, as are their cells; one within gets a number."""
    found = list(header)
    while found and not found[-1] and not any(c.strip() for row in rows for c in row[len(found) - 1 :]):
        found.pop()
    return [h or f"column {i + 1}" for i, h in enumerate(found)]


def _twins_in(name: str, headers: Sequence[str]) -> list[str]:
    """A line for each name that several columns have."""
    places = dict[str, list[str]]()
    for i, header in enumerate(headers, 1):
        places.setdefault(plain(header), []).append(str(i))
    return [
        f"{name}, line 1: column {twin!r} is there {len(at)} times (columns {some(at)}): rename or drop one"
        for twin, at in places.items()
        if len(at) > 1
    ]


def refuse(troubles: Sequence[str]) -> None:
    """All at once, as far as a person reads."""
    more = len(troubles) - MOST_TROUBLES
    if troubles:
        raise Several([*troubles[:MOST_TROUBLES], *([f"and {more} more of the kind"] if more > 0 else [])])


@contextlib.contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """What pandas' readers raise, in a line."""
    try:
        yield
    except ImportError:
        raise BadInput(
            f"{path}: reading {kind} needs one more package: pip install 'coterie[tables]'"
        ) from None
    except Exception as error:  # openpyxl's and pyarrow's own are of many kinds
        said = " ".join(str(error).split())[:120] or type(error).__name__
        raise BadData(f"{path} is not a readable {kind} file ({said}): save it again") from None


def _read_excel(path: Path, content: bytes) -> Table:
    """The only sheet that has anything in it."""
    import pandas as pd

    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise BadData(
            f"{path} is no Excel file, whatever its name says: save it as .xlsx, or name it .csv if it is"
        )
    as_written = {"header": None, "dtype": object, "na_filter": False}
    with _reading(path, "Excel"):
        sheets = pd.read_excel(io.BytesIO(content), None, engine="openpyxl", **as_written)
    filled = {name: sheet for name, sheet in sheets.items() if sheet.size}
    if len(filled) > 1:
        raise BadData(
            f"{path} has {len(filled)} sheets with cells ({some(list(filled))}): save each as its own file"
        )
    frame = next(iter(filled.values()), pd.DataFrame())
    rows = [[_cell_of(v) for v in row] for row in frame.itertuples(index=False, name=None)]
    texts = [[c if isinstance(c, str) else "x" for c in row] for row in rows]  # whether anything is there
    first = next((i for i, row in enumerate(texts) if any(row)), len(rows))
    if first == len(rows):
        raise BadData(f"{path} is empty: give a sheet with a header line and rows")
    header = [c if isinstance(c, str) else f"{c:g}" for c in rows[first]]
    headers = _named_headers([trimmed(h) for h in header], texts[first + 1 :])
    refuse(_twins_in(str(path), headers))
    kept = [i for i in range(first + 1, len(rows)) if any(texts[i])]
    if not kept:
        raise BadData(f"{path}, line {first + 1}: a header of {len(headers)} columns, but no rows: add some")
    columns = {h: Column.of([rows[i][j] for i in kept]) for j, h in enumerate(headers)}
    return Table(str(path), columns, np.array(kept) + 1)


def _read_parquet(path: Path, content: bytes) -> Table:
    import pandas as pd

    if content[:4] != b"PAR1":
        raise BadData(f"{path} is no Parquet file, whatever its name says: save it as .parquet again")
    with _reading(path, "Parquet"):
        frame = pd.read_parquet(io.BytesIO(content))
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()
    return _table_of_frame(frame, str(path))


def _table_of_frame(frame: pd.DataFrame, name: str) -> Table:
    headers = [trimmed(str(c)) for c in frame.columns]
    refuse(_twins_in(name, headers))
    if not len(frame) or not headers:
        raise BadData(f"{name} has {len(headers)} columns and {len(frame)} rows: add some")
    columns = {h: _cells_of(frame.iloc[:, i]) for i, h in enumerate(headers)}
    return Table(name, columns, np.arange(1, len(frame) + 1), "row")


def _cells_of(column: pd.Series) -> Column:
    """Numbers stay numbers, whatever is missing is empty, anything else is its text."""
    import pandas as pd

    plain_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if plain_number and not pd.api.types.is_complex_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        codes, found = pd.factorize(values, use_na_sentinel=False)
        cells: Array = found.astype(object)
        cells[np.isnan(found)] = ""
        return Column(codes.astype(np.int32), Spellings(cells))
    return Column.of([_cell_of(v) for v in column.astype(object)])


def _cell_of(value: Any) -> Cell:
    import pandas as pd

    if isinstance(value, str):
        return trimmed(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if value is None or value is pd.NaT or value is pd.NA:
        return ""
    if isinstance(value, int | float | np.integer | np.floating):
        try:
            number = float(value)
        except OverflowError:
            return str(type(value).__name__)
        return "" if math.isnan(number) else number
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).replace("T", " ").removesuffix(" 00:00:00")
    return trimmed(str(value))
