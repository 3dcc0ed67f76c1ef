"""What notebooks show."""

import dataclasses
import sys
import types

import pytest

import coterie
from coterie.report.progress import bar_html, counted, in_notebook
from coterie.report.summary import lines_html, runs_html


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in for IPython, and what was displayed: a list of texts, one for each place."""
    places = []

    class Handle:
        def __init__(self, html):
            places.append([html])

        def update(self, html):
            places[-1].append(html)

    shell = types.SimpleNamespace(kernel=object())
    shown = types.ModuleType("IPython.display")
    shown.HTML, shown.display = str, lambda html, display_id: Handle(html)
    found = types.ModuleType("IPython")
    found.get_ipython, found.display = lambda: shell, shown
    monkeypatch.setitem(sys.modules, "IPython", found)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return places


def test_a_bar_in_one_place(notebook):
    assert in_notebook()
    with counted(3, None, "rounds") as move:
        for done in range(4):
            move("fedavg <b>", done)
    (drawn,) = notebook
    assert 'value="0" max="3"' in drawn[0]
    assert 'value="3" max="3"' in drawn[-1]
    assert "fedavg &lt;b&gt;" in drawn[-1]
    with counted(3, False, "rounds") as move:
        move("nothing", 1)
    assert len(notebook) == 1


def test_no_notebook_no_bar(capsys):
    assert not in_notebook()
    with counted(3, None, "rounds") as move:
        move("x", 1)
    assert capsys.readouterr() == ("", "")


def test_names_are_text_wherever_they_are_shown(make_known):
    record = make_known({"accuracy": [0.5, 0.7]}, label="<script>", names=("<i>a", "b"))
    html = runs_html("Result", [record])
    assert "&lt;script&gt;" in html
    assert "&lt;i&gt;a" in html
    assert "<script>" not in html
    assert "<i>" not in html
    assert "<i>" not in lines_html("Advised", ["<i>"]) + bar_html("<i>", 1, 2, "rounds", 0.0)


def test_many_methods_are_not_listed_one_by_one(make_known):
    many = [make_known({"accuracy": [0.5, 0.7]}, label=f"m{i}") for i in range(41)]
    html = runs_html("Compared", many)
    assert "41 methods: .summary() has them all" in html
    assert "<table" not in html


def test_a_client():
    client = coterie.Client.from_arrays([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], name="x", test=0.5)
    odd = dataclasses.replace(client, name="<b>north</b>")
    assert "&lt;b&gt;north" in odd._repr_html_()
    assert "rows train 2" in odd._repr_html_()
