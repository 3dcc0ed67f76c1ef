"""Letters that are not in UTF-8: proposed and said, followed by every door, refused where they do not fit."""

import random

import pytest

from coterie.cli.main import main
from coterie.core.errors import CoterieError, Several
from coterie.data.tables.inspect import inspect
from coterie.data.tables.plain_csv import decoded, likely_encoding
from coterie.data.tables.read import read_table
from coterie.data.tables.recipe_file import read_recipe, recipe_of, write_recipe

WORDS = ("Müller", "Größe")


def table(path, encoding, n=40, seed=0):
    rng = random.Random(seed)
    lines = ["Alter,Grösse,Ärztin,ill"]
    lines += [
        f"{rng.randint(20, 90)},{rng.randint(150, 200)},{rng.choice(['ja', 'für'])},{i % 2}" for i in range(n)
    ]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


def test_inspect_proposes_what_fits_and_says_so(tmp_path):
    north, south = table(tmp_path / "north.csv", "latin-1"), table(tmp_path / "south.csv", "utf-8", seed=1)
    seen = inspect([north, south], "ill", home=tmp_path)
    assert seen.says[0] == (
        f"{north} is no UTF-8 text, and is read with encoding = \"cp1252\": 'Grösse' in line 1"
    )
    assert seen.recipe.encodings == {"north": "cp1252"}
    assert "Grösse" in [r.name for r in seen.recipe.rules]
    write_recipe(tmp_path / "r.toml", seen.recipe)
    assert 'encoding = { north = "cp1252" }' in (tmp_path / "r.toml").read_text("utf-8")
    assert read_recipe(tmp_path / "r.toml").encodings == {"north": "cp1252"}
    alone = inspect([north], "ill", home=tmp_path).recipe
    assert alone.table()["encoding"] == "cp1252"


def test_run_check_predict_and_an_exported_folder_follow_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(("north", "south")):
        table(tmp_path / f"{name}.csv", ("cp1252", "utf-8")[i], seed=i)
    for words in (
        "table inspect north.csv south.csv --target ill --out r.toml",
        "run --recipe r.toml --rounds 1 --out run",
        "check --recipe r.toml --out quality",
        "predict run north.csv --client north --out p.csv",
        "predict run south.csv --client south",
        "export run --client north --out model",
        "predict model north.csv --out q.csv",
    ):
        assert main(words.split()) == 0, capsys.readouterr().err
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()
    capsys.readouterr()
    assert main(["predict", "model", "south.csv"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert 'south.csv is UTF-8 text, and its recipe says encoding = "cp1252": take that out of' in line


def test_a_wrong_encoding_is_refused_in_one_line_with_the_remedy(tmp_path):
    path = table(tmp_path / "t.csv", "cp1252")
    with pytest.raises(CoterieError) as refusal:
        read_table(path, "")
    assert str(refusal.value) == (
        f"{path}, line 1, column 2: byte 0xf6 is not UTF-8 text: save the file as CSV UTF-8, or write "
        'encoding = "cp1252" into the recipe, if it is that'
    )
    with pytest.raises(CoterieError, match=r"line 1, column 2: byte 0xf6 is not ASCII text"):
        read_table(path, "ascii")
    with pytest.raises(CoterieError, match=r"'\\x94' is no letter, so it is not latin-1 text"):
        read_table(table(tmp_path / "dos.csv", "cp850"), "latin-1")
    recipe = inspect([path], "ill", home=tmp_path).recipe.table()
    with pytest.raises(Several, match="encoding: 'latin-99' is no known encoding"):
        recipe_of({**recipe, "encoding": "latin-99"})
    with pytest.raises(Several, match="encoding: unknown site 'x'"):
        recipe_of({**recipe, "encoding": {"x": "cp1252"}})


def test_what_does_not_read_well_is_not_proposed(tmp_path):
    assert likely_encoding("Müller,37°C,µg/l".encode("latin-1")) == "cp1252"
    assert likely_encoding("Müller".encode()) == ""
    assert likely_encoding("Mädchen".encode("cp850")) == ""
    assert likely_encoding(b"\xff\xfea\x00") == ""
    path = table(tmp_path / "dos.csv", "cp850")
    with pytest.raises(CoterieError, match="is not UTF-8 text: save the file as CSV UTF-8"):
        inspect([path], "ill")
    assert decoded("t", "\ufeffMüller".encode(), "") == "Müller"
