"""The bar that moves with the rounds."""

import io

import pytest
from rich.console import Console

from coterie.report.progress import bar_of, figure, watched, watcher


def test_a_long_name_is_cut_and_numbers_are_not(make_known):
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=False)
    record = make_known({"accuracy": [0.5, 0.7]})
    with bar_of(1200, console) as bar:
        watcher(bar, "weight-erosion:p_d=0.1,sgd.lr=0.25,server_step=0.5 seed 4", 1198)(record)
    (line,) = [line for line in out.getvalue().splitlines() if line.strip()]
    assert line.startswith("weight-erosion:p_d=0.1,")
    assert "1200/1200 rounds 0:00:00 left 0:00:00" in line
    assert len(line) <= 80


@pytest.mark.parametrize(("asked", "shown"), [(True, True), (False, False), (None, False)])
def test_in_python_a_bar_is_shown_where_it_is_asked_for(make_known, capsys, asked, shown):
    """Standard error is no terminal here."""
    seen = []
    with watched(2, asked, seen.append) as watch_of:
        watch_of("fedavg", 0)(make_known({"accuracy": [0.5, 0.7]}))
    assert len(seen) == 1
    assert ("fedavg accuracy 60.0 %" in capsys.readouterr().err) == shown


def test_without_a_score_no_figure_is_shown(make_known):
    record = make_known({"accuracy": [0.5, 0.7]})
    record.metrics.clear()
    assert figure(record) == ""
