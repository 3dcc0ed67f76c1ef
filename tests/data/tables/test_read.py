import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from coterie.core.errors import BadData, CoterieError, Several
from coterie.data.tables.read import read_table


def table(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path)


def cells(found):
    return {name: column.tolist() for name, column in found.columns.items()}


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,x\n2,y\n",
        "\ufeffa,b\r\n1,x\r\n2,y",
        " a , b \n1 ,x  \n\n2, y\n\n",
        "a;b\n1;x\n2;y\n",
        "a\tb\n1\tx\n2\ty\n",
        "a,b,\n1,x,\n2,y,\n,,\n",
        '"a","b"\n"1","x"\n"2",y\n',
        "a,b\n1,x\n2,y\n".encode("utf-16"),
    ],
)
def test_marks_blanks_and_separators_do_not_matter(tmp_path, content):
    assert cells(table(tmp_path, content)) == {"a": ["1", "2"], "b": ["x", "y"]}


def test_lines_are_those_of_the_file(tmp_path):
    found = table(tmp_path, 'a,b\n1,"two\nlines"\n\n2,y\n')
    assert found.lines.tolist() == [2, 5]
    assert cells(found)["b"] == ["two lines", "y"]


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        ("", "t.csv", "{} is empty: give a table with a header line and rows"),
        (" \n\n", "t.csv", "{} is empty: give a table with a header line and rows"),
        ("a,b\n", "t.csv", "{}, line 1: a header of 2 columns, but no rows: add some"),
        (
            "a,b\n1,2\n1,2,3\n",
            "t.csv",
            "{}, line 3: 3 cells, but 2 columns: '3' is in none: quote cells that hold a separator, or mend "
            "the row",
        ),
        ("a,b,c\n1,2\n", "t.csv", "{}, line 2: 2 cells, but 3 columns: nothing for column 'c'"),
        (
            "a,b,A \n1,2,3\n",
            "t.csv",
            "{}, line 1: column 'a' is there 2 times (columns 1, 3): rename or drop one",
        ),
        (
            b"a,name\n1,M\xfcller\n",
            "t.csv",
            "{}, line 2, column 2: byte 0xfc is not UTF-8 text: save the file as CSV UTF-8",
        ),
        (
            b"a,b\n1,\x002\n",
            "t.csv",
            "{}, line 2: holds a NUL character, so it is no text: save it as CSV UTF-8",
        ),
        (
            'a,b\n1,2\n3,"4\n5,6\n',
            "t.csv",
            "{}, line 3: unexpected end of data: check its quotation marks, or save the table again as CSV",
        ),
        (
            b"nonsense",
            "t.zip",
            "{} is no table and not even an archive: unpack it, and give the CSV file that is in it",
        ),
        (
            b"nonsense",
            "t.xlsx",
            "{} is no Excel file, whatever its name says: save it as .xlsx, or name it .csv if it is",
        ),
        (
            b"nonsense",
            "t.parquet",
            "{} is no Parquet file, whatever its name says: save it as .parquet again",
        ),
        (b"old", "t.xls", "{} is in the Excel format of before 2007: save it as .xlsx or as CSV"),
        (
            b"PK\x03\x04",
            "t.csv",
            "{} is no CSV file but a ZIP archive or an Excel file (.xlsx): give it the ending that it "
            "should have",
        ),
    ],
)
def test_refusals_in_one_line(tmp_path, content, name, said):
    with pytest.raises(CoterieError) as refusal:
        table(tmp_path, content, name)
    assert str(refusal.value) == said.format(tmp_path / name)


def test_a_real_zip_and_a_broken_workbook(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("t.csv", "a\n1\n")
    with pytest.raises(CoterieError, match="is no table: unpack it"):
        table(tmp_path, packed.getvalue(), "t.zip")
    with pytest.raises(CoterieError, match="is not a readable Excel file") as refusal:
        table(tmp_path, packed.getvalue(), "t.xlsx")
    assert "\n" not in str(refusal.value)


def test_no_such_file(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path, "a\0b.csv"):
        with pytest.raises(CoterieError, match=r"cannot read .*: check the path"):
            read_table(path)


def test_all_ragged_rows_at_once_as_far_as_a_person_reads(tmp_path):
    with pytest.raises(Several) as refusal:
        table(tmp_path, "a,b\n" + "1\n" * 60)
    assert len(refusal.value.lines) == 51
    assert refusal.value.lines[0].startswith(f"{tmp_path / 't.csv'}, line 2: 1 cells, but 2 columns")
    assert refusal.value.lines[-1] == "and 10 more of the kind"


def test_excel_parquet_and_frames_hold_numbers_and_dates(tmp_path):
    frame = pd.DataFrame(
        {
            " a ": [1, 2],
            "b": [0.1, np.nan],
            "c": pd.to_datetime(["2024-01-31", None]),
            "d": [True, False],
            "e": ["x ", None],
        }
    )
    expected = {
        "a": [1.0, 2.0],
        "b": [0.1, ""],
        "c": ["2024-01-31", ""],
        "d": ["true", "false"],
        "e": ["x", ""],
    }
    assert cells(read_table(frame)) == expected
    frame.to_parquet(tmp_path / "t.parquet")
    assert cells(read_table(tmp_path / "t.parquet")) == expected
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    found = read_table(tmp_path / "t.xlsx")
    assert cells(found) == expected
    assert found.lines.tolist() == [2, 3]


def test_a_header_of_nothing_gets_a_number(tmp_path):
    assert list(cells(table(tmp_path, ",a\n0,x\n1,y\n"))) == ["column 1", "a"]


def test_nothing_of_a_file_is_left_out_in_silence(tmp_path):
    pytest.importorskip("openpyxl")
    frames = {"2022": pd.DataFrame({"age": [1, 2]}), "2023": pd.DataFrame({"age": [3]})}
    with pd.ExcelWriter(tmp_path / "two.xlsx") as writer:
        for name, frame in frames.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    with pytest.raises(
        BadData, match=r"two.xlsx has 2 sheets with cells \(2022, 2023\): save each as its own"
    ):
        read_table(tmp_path / "two.xlsx")
    pytest.importorskip("pyarrow")
    frames["2022"].assign(ill=[0, 1]).set_index("age").to_parquet(tmp_path / "indexed.parquet")
    assert set(read_table(tmp_path / "indexed.parquet").columns) == {"age", "ill"}
