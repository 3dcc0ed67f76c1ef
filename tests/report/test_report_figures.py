from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import pytest

from coterie.core.errors import BadInput, BadRun
from coterie.report.paper_figures import draw, write_figures
from coterie.show.inks import ALONE, inks

pytest.importorskip("matplotlib")


def test_svg_is_the_same_each_time_and_well_formed(make_likely, tmp_path):
    some = {"clients": 3, "rounds": 2, "classes": 3}
    records = [make_likely(label, seed, **some) for label in ("local", "greedy") for seed in (0, 1)]
    one, two = write_figures(tmp_path / "a", records), write_figures(tmp_path / "b", records)
    names = ["rounds", "clients", "gains", "matrix-local", "collected-local", "matrix-greedy"]
    names += ["collected-greedy", "sizes", "labels"]
    assert [p.name for p in one] == [f"{n}.svg" for n in names]
    for a, b in zip(one, two, strict=True):
        assert a.read_bytes() == b.read_bytes()
        assert ET.parse(a).getroot().tag.endswith("svg")
        assert b"dc:date" not in a.read_bytes()


def test_png(make_known, tmp_path):
    records = [make_known({"rmse": [1.0, 2.0]}, task="regression")]
    one = write_figures(tmp_path / "a", records, "png")
    assert [p.name for p in one] == [
        f"{name}.png" for name in ("rounds", "clients", "matrix-fedavg", "collected-fedavg", "sizes")
    ]
    assert one[0].read_bytes().startswith(b"\x89PNG")


def test_figures_hold_the_numbers(two_seeds):
    made = draw(two_seeds)
    (axes,) = made["clients"].axes
    assert [round(bar.get_height(), 6) for bar in axes.patches] == [65, 85, 75, 90]
    line = made["rounds"].axes[0].lines[1]
    assert line.get_label() == "fedavg"
    assert line.get_ydata().tolist() == pytest.approx([41.25, 82.5, 82.5])
    image = made["matrix-local"].axes[0].images[0]
    assert image.get_array().tolist() == [[1, 0], [0, 1]]
    assert [round(bar.get_height(), 6) for bar in made["gains"].axes[0].patches] == [10, 5]


def test_close_ups_hold_the_numbers(make_known, telling):
    runs = [telling(make_known({"accuracy": [0.6, 0.8]}, label)) for label in ("local", "greedy")]
    runs[0].matrices = {}
    made = draw(runs)
    assert [n for n in made if n.startswith(("traces", "features"))] == [
        "traces-greedy-a",
        "traces-greedy-b",
        "features-a",
        "features-b",
    ]
    score, alpha, distance = made["traces-greedy-b"].axes
    greedy, always = score.lines[1:]
    assert (greedy.get_label(), greedy.get_ydata().tolist()) == ("greedy", [40, 80, 80])
    assert always.get_ydata() == [100, 100]
    assert {line.get_label(): list(line.get_ydata()) for line in alpha.lines[:2]} == {
        "a": [0.75, 0.5],
        "b (itself)": [1, 1],
    }
    # its own distance is no line, and the last one is the axis
    assert [list(line.get_ydata()) for line in distance.lines] == [[1, 1], [0, 0]]
    # rows (0, 1) and (2, 3), twice that for b: the log-odds move by 4 with either feature
    bars = made["features-b"].axes[0].patches
    assert [bar.get_width() for bar in bars] == [4, 4, 4, 4]


@pytest.mark.slow
def test_close_ups_of_many_clients_and_classes_say_what_they_leave_out(make_likely, telling):
    runs = [telling(make_likely("greedy", seed, clients=20, classes=13, rounds=2)) for seed in (0, 1)]
    made = draw(runs)
    names = [f"agent-{i}" for i in (0, 6, 13, 19)]
    assert [n for n in made if n.startswith(("traces", "features"))] == [
        *(f"traces-greedy-{n}" for n in names),
        *(f"features-{n}" for n in names),
    ]
    traced, weighed = made["traces-greedy-agent-6"], made["features-agent-6"]
    assert "4 of 20 clients drawn" in traced.axes[0].get_title("left")
    legend = [text.get_text() for text in traced.axes[1].get_legend().get_texts()]
    assert sorted(legend) == ["agent 6 (itself)", "group 0", "group 1"]
    assert weighed.get_suptitle() == (
        "agent 6 (4 of 20 clients, 12 of 13 classes drawn); thin lines: the range over 2 seeds"
    )
    for client in runs[0].about["clients"]:
        client["cluster"] = None
    plain = draw(runs)["traces-greedy-agent-6"].axes[1].get_legend().get_texts()
    assert sorted(text.get_text() for text in plain) == ["agent 6 (itself)", "others"]


def test_many_clients_odd_names_and_gaps(make_likely, make_known, tmp_path):
    assert draw([make_likely("fedavg", clients=40, rounds=2)])
    odd = [
        make_known({"accuracy": [0.5, None]}, x, names=["$\\alpha", "<b>" * 20]) for x in ("a/b", "a b", "?")
    ]
    names = [p.name for p in write_figures(tmp_path / "odd", odd)]
    labels = ("a-b", "a-b-2", "method")
    assert names[2:8] == [f"{what}-{x}.svg" for x in labels for what in ("matrix", "collected")]


def test_a_run_without_scores_still_shows_its_data(make_known):
    run = make_known({"accuracy": [0.5, 0.6]}, done=0)
    run.metrics.clear()
    assert list(draw([run])) == ["sizes", "labels"]


def test_wrong_format_missing_matplotlib_and_a_file_in_the_way(two_seeds, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("here")
    with pytest.raises(BadRun, match="cannot write"):
        write_figures(tmp_path / "file", two_seeds)
    with pytest.raises(BadInput, match="format='pdf' is not known: choose svg or png"):
        write_figures(tmp_path, two_seeds, "pdf")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BadInput, match=r"figures need matplotlib: pip install 'coterie\[figures\]'"):
        write_figures(tmp_path, two_seeds)


def test_inks_stay_apart():
    made = inks([f"m{i}" for i in range(12)] + ["local"], "local")
    assert made["local"].colour == ALONE
    assert len({(ink.colour, ink.dash) for ink in made.values()}) == 13
    assert made["m0"].shade(0.5) == "rgba(0,114,178,0.5)"
