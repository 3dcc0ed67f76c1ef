"""The notebooks under examples/ run from top to bottom."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


def code(path: Path) -> list[str]:
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def shown(cell: str, scope: dict) -> object:
    """What a notebook shows of a cell: the value of its last line, if that is an expression."""
    *lines, last = ast.parse(cell).body
    if not isinstance(last, ast.Expr):
        lines, last = [*lines, last], None
    exec(compile(ast.Module(lines, []), "cell", "exec"), scope)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), scope)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_has_no_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    assert [c["id"] for c in cells if c.get("outputs") or c.get("execution_count")] == []


def test_a_study_of_ones_own(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    scope: dict = {"__name__": "__main__"}
    values = [shown(cell, scope) for cell in code(NOTEBOOKS[0].parent / "own_study.ipynb")]
    htmls = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
    assert any("north" in html for html in htmls)
    assert any("finetune:tune=2,sgd.lr=0.3" in html for html in htmls)
    said = capsys.readouterr().out
    assert r"\toprule" in said
    assert (tmp_path / "table.tex").read_text() in said
    same, other = (scope["weights"][scope[kind]].mean() for kind in ("same_kind", "other_kind"))
    assert same > 2 * other
    assert {p.name for p in tmp_path.iterdir()} == {"table.tex", "study.png", "study.html"}
