from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def coterie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in an empty folder; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def refused(coterie: Run, tmp_path: Path) -> Callable[..., str]:
    """Runs a command that must end with exit code 2, one line, and nothing left behind."""

    def run(*words: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        code, _, said = coterie(*words)
        lines = [line for line in said.splitlines() if not line.startswith("·")]
        assert code == 2, said
        assert len(lines) == 1, said
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        return lines[0]

    return run
