"""Options of methods as a grid."""

import pytest

from coterie.cli.main import main
from coterie.core.errors import BadInput, UnknownName
from coterie.runs.compare import options_in, read_records
from coterie.runs.sweeps import MOST, expanded, grid_from, specs_from

STAND_FOR = [
    (["fedavg"], [], ["fedavg"]),
    (["finetune:tune=1|5"], [], ["finetune:tune=1", "finetune:tune=5"]),
    (
        ["fedavg", "finetune:tune=1|5,sgd.lr=0.1|0.3"],
        [],
        [
            "fedavg",
            "finetune:tune=1,sgd.lr=0.1",
            "finetune:tune=1,sgd.lr=0.3",
            "finetune:tune=5,sgd.lr=0.1",
            "finetune:tune=5,sgd.lr=0.3",
        ],
    ),
    (["fedavg:kernel=sgd|dp(sgd)"], [], ["fedavg:kernel=sgd", "fedavg:kernel=dp(sgd)"]),
    # to every method that has the option, and to no other; what a spec says itself stands
    (["local", "finetune"], ["tune=1|2"], ["local", "finetune:tune=1", "finetune:tune=2"]),
    (["local", "fedavg:sgd.lr=1"], ["lr=2|3"], ["local:sgd.lr=2", "local:sgd.lr=3", "fedavg:sgd.lr=1"]),
    (["fedavg", "fedavg:kernel=adam"], ["sgd.lr=2"], ["fedavg:sgd.lr=2", "fedavg:kernel=adam"]),
]


@pytest.mark.parametrize(("methods", "grid", "specs"), STAND_FOR)
def test_all_combinations_in_order(methods, grid, specs):
    assert list(expanded(methods, grid)) == specs


@pytest.mark.parametrize(
    ("methods", "grid", "said"),
    [
        (["finetune:tune=1||2"], [], "'tune=1||2' needs the form option=value or option=a|b|c"),
        (["finetune:tune|5"], [], "'tune|5' needs the form option=value or option=a|b|c"),
        (["finetune:tune=2|2"], [], "tune names 2 twice: name each value once"),
        (["fedavg"], ["tune=1|2"], "grid 'tune': none of the methods has such an option"),
        (["fedavg"], ["sdg.lr=1"], "unknown local work 'sdg': did you mean sgd?"),
        (["fedavg"], ["sgd.lt=1"], "unknown option of kernel sgd 'lt': did you mean lr?"),
        (
            ["finetune:tune=" + "|".join(map(str, range(MOST + 1)))],
            [],
            f"make {MOST + 1} combinations or more",
        ),
        (["finetune:" + ",".join(f"o{i}=1|2" for i in range(64))], [], f"at most {MOST} are compared"),
    ],
)
def test_what_no_grid_is(methods, grid, said):
    with pytest.raises((BadInput, UnknownName)) as found:
        expanded(methods, grid)
    assert said in str(found.value)


def test_lists_and_dicts_say_the_same():
    asked = ["fedavg", {"finetune": {"tune": [1, 5], "lr": 1e-05}}, {"fedavg": {"weighted": [True, False]}}]
    assert specs_from(asked) == ["fedavg", "finetune:tune=1|5,sgd.lr=1e-05", "fedavg:weighted=true|false"]
    assert specs_from({"local": {}, "fedavg": {"sample": 0.5}}) == ["local", "fedavg:sample=0.5"]
    assert grid_from({"sgd.lr": [0.01, 1]}) == ["sgd.lr=0.01|1"]
    assert options_in("finetune:tune=5,sgd.lr=1e-05") == {"tune": 5, "sgd.lr": 1e-05}
    for wrong in (None, "a|b", [], [[1]], ""):
        with pytest.raises(BadInput):
            specs_from([{"finetune": {"tune": wrong}}])


def test_from_the_shell(tmp_path, capsys):
    words = ["--data", "digits", "--clients", "3", "--rounds", "1", "--seeds", "1", "--jobs", "1"]
    words += ["--methods", "local", "fedavg:weighted=true|false", "--grid", "sgd.lr=0.1|0.5"]
    assert main(["compare", *words, "--out", str(tmp_path / "all")]) == 0
    records = {r.label: r.config for r in read_records(tmp_path / "all")}
    ways = ("local:", "fedavg:weighted=true,", "fedavg:weighted=false,")
    assert list(records) == ["nothing", *(f"{way}sgd.lr={lr}" for way in ways for lr in (0.1, 0.5))]
    one = records["fedavg:weighted=false,sgd.lr=0.5"]
    assert (one["fedavg"]["weighted"], one["sgd"]["lr"]) == (False, 0.5)
    page = (tmp_path / "all" / "report.html").read_text()
    assert "Against the value of an option" in page
    capsys.readouterr()
    assert main(["report", str(tmp_path / "all"), "--latex", str(tmp_path / "table.tex")]) == 0
    assert r"\toprule" in (tmp_path / "table.tex").read_text()
    assert main(["compare", "--methods", "finetune:tune=1|1", "--out", str(tmp_path / "no")]) == 2
    assert not (tmp_path / "no").exists()
