import numpy as np
import pandas as pd
import pytest

from coterie.core.errors import CoterieError
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition import Silos
from coterie.data.sources.table import TableFile


@pytest.fixture
def patients():
    n = 40
    return pd.DataFrame(
        {
            "age": np.arange(20, 20 + n),
            "sex": ["f", "m"] * (n // 2),
            "site": ["a"] * 20 + ["b"] * 20,
            "ill": ["no", "yes", "yes", "no"] * (n // 4),
        }
    )


def source(frame, tmp_path, **options):
    path = tmp_path / "patients.csv"
    frame.to_csv(path, index=False)
    return TableFile(str(path), **{"target": "ill", "leave_out": ("site",), **options})


def dealt(frame, tmp_path, **options):
    return deal_clients(source(frame, tmp_path, **options).load(), Silos("site"), None, Key(0))


def test_columns_classes_and_scale(patients, tmp_path):
    found = dealt(patients, tmp_path)
    first = found.clients[0]
    assert [c.name for c in found.clients] == ["a", "b"]
    assert first.features == ("age", "sex=f", "sex=m")
    assert first.classes == ("no", "yes")
    assert len(first.train) == 14
    assert len(first.test) == 6
    assert first.train.x[:, 0].mean().item() == pytest.approx(0, abs=1e-6)
    assert first.train.x[:, 1:].sum(dim=1).tolist() == [1.0] * 14


def test_whole_numbers_are_classes_and_fractions_a_regression(patients, tmp_path):
    patients["ill"] = [1, 3, 3, 1] * 10
    assert source(patients, tmp_path).load().classes == ("1", "3")
    assert source(patients, tmp_path, task="regression").load().task == "regression"
    patients["ill"] = [(7 * i % 40) / 32 for i in range(40)]  # in another order than their ages
    data = source(patients, tmp_path).load()
    assert data.task == "regression"
    assert data.train.y[-1] == 33 / 32


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (
            lambda f: f.assign(age=f["age"].where(f["age"] != 45)),
            {},
            "client 'b': column 'age' has 1 missing",
        ),
        (lambda f: f.assign(age=f["age"].replace(25, np.inf)), {}, "column 'age': these are no numbers"),
        (lambda f: f.assign(ill="no"), {}, "'ill' is no in every row"),
        (
            lambda f: f.assign(ill=f["ill"].where(f["age"] > 22)),
            {},
            "column 'ill': the target is missing in 3 row(s)",
        ),
        (lambda f: f, {"target": "il"}, "did you mean ill?"),
        (lambda f: f, {"leave_out": ("sight",)}, "did you mean site?"),
        (lambda f: f, {"leave_out": ("site", "age", "sex")}, "no input columns are left"),
        (lambda f: f, {"task": "regression"}, "is not a number"),
        (lambda f: f, {"missing": "mean"}, "rule for missing values 'mean'"),
        (lambda f: f, {"target": ""}, "needs a recipe, or files and a target"),
    ],
)
def test_refusals(patients, tmp_path, change, options, said):
    with pytest.raises(CoterieError) as refusal:
        dealt(change(patients), tmp_path, **options)
    assert said in str(refusal.value).splitlines()[0]


def test_names_and_remarks_are_left_out_and_said(patients, tmp_path):
    long = pd.concat([patients.assign(name=[f"{i} {j}" for i in range(40)]) for j in range(2)])
    data = source(long, tmp_path).load()
    assert data.features == ("age", "sex=f", "sex=m")
    assert "columns left out by the recipe: site, name" in data.notes


def test_the_column_that_says_whose_a_row_is_is_no_input(patients, tmp_path):
    owned = patients.rename(columns={"site": "owner"})
    data = source(owned, tmp_path, leave_out=()).load()
    found = deal_clients(data, Silos("owner"), None, Key(0))
    assert found.clients[0].features == ("age", "sex=f", "sex=m")
    assert "columns left out, as the split goes by them: owner" in found.notes
    assert not found.recipe.rule("owner").read
    by_option = source(patients, tmp_path, leave_out=(), site="SITE").load()
    assert by_option.silos == "site"
    dealt_so = deal_clients(by_option, Silos(), None, Key(0))
    assert [c.name for c in dealt_so.clients] == ["a", "b"]
    assert dealt_so.clients[0].features == ("age", "sex=f", "sex=m")


def test_one_file_that_does_not_say_whose_its_rows_are(patients, tmp_path):
    data = source(patients, tmp_path).load()
    with pytest.raises(CoterieError) as refusal:
        deal_clients(data, Silos(), None, Key(0))
    assert str(refusal.value) == (
        "patients does not say whose its rows are: name the column with --table.site, or deal them to "
        "invented clients with --split iid --clients 10"
    )


def test_decimals_that_are_classes(patients, tmp_path):
    patients["ill"] = [0.0, 1.0, 1.0, 0.0] * 10
    data = source(patients, tmp_path).load()
    assert (data.task, data.classes) == ("classification", ("0", "1"))
    patients["ill"] = [7 * i % 40 for i in range(40)]  # in another order than their ages
    assert source(patients, tmp_path).load().task == "regression"  # too many whole numbers to be classes


def test_several_files_are_sites(patients, tmp_path):
    for site, part in patients.groupby("site"):
        part.drop(columns="site").to_csv(tmp_path / f"{site}.csv", index=False)
    files = tuple(str(tmp_path / f"{s}.csv") for s in "ba")
    found = deal_clients(TableFile(files, "ill").load(), Silos(), None, Key(0))
    assert [c.name for c in found.clients] == ["a", "b"]
    with pytest.raises(CoterieError, match="2 files and a site column"):
        TableFile(files, "ill", site="sex").load()


def test_rows_with_gaps_are_counted_when_dropped(patients, tmp_path):
    patients.loc[[3, 30], "age"] = np.nan
    found = dealt(patients, tmp_path, missing="drop")
    assert sum(len(c.train) + len(c.test) for c in found.clients) == 38
    assert all(any("left out for missing values" in n for n in c.notes) for c in found.clients)
