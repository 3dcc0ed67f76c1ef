"""How far a large table is, on a terminal and nowhere else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coterie.cli import screen
from coterie.data.tables.inspect import inspect


@pytest.mark.parametrize(
    ("terminal", "large", "shown"), [(True, 1, True), (False, 1, False), (True, 10**9, False)]
)
def test_a_bar_on_a_terminal_for_a_large_file(tmp_path, monkeypatch, terminal, large, shown):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    written = io.StringIO()
    monkeypatch.setattr(screen, "err", Console(file=written, force_terminal=terminal, width=80))
    monkeypatch.setattr(screen, "LARGE", large)
    with screen.stages(str(tmp_path / "a.csv")) as show:
        show("reading a.csv", 10)
        show("all columns looked at", 100)
    assert ("all columns looked at" in written.getvalue()) == shown


def test_stages_only_go_on(tmp_path):
    rows = "".join(f"{i % 7}.5,{i % 3},{'north' if i % 2 else 'south'},{i % 4 // 2}\n" for i in range(60))
    (tmp_path / "a.csv").write_text("dose,grade,site,ill\n" + rows)
    seen = list[int]()
    inspect([tmp_path / "a.csv"], "ill", "site", show=lambda doing, done: seen.append(done))
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 100)
