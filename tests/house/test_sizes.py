"""No file and no function is longer than can be read at once; ruff holds how tangled one is (C901)."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "coterie"
FILE, FUNCTION = 400, 60
FILES = sorted(SOURCE.rglob("*.py"))


def long_functions(text):
    return [
        (node.name, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > FUNCTION
    ]


@pytest.mark.parametrize("room", sorted({path.relative_to(SOURCE).parts[0] for path in FILES}))
def test_files_and_functions_are_short(room):
    for path in (p for p in FILES if p.relative_to(SOURCE).parts[0] == room):
        text = path.read_text()
        assert text.count("\n") <= FILE, f"{path.relative_to(SOURCE)}: at most {FILE} lines: cut it in two"
        assert long_functions(text) == [], f"{path.relative_to(SOURCE)}: at most {FUNCTION} lines"


def test_a_long_function_is_found():
    body = "\n".join("    x = 1" for _ in range(FUNCTION))
    assert long_functions(f"def f():\n{body}\n") == [("f", FUNCTION + 1)]
    assert long_functions(f"def f():\n{body[:-10]}\n") == []
