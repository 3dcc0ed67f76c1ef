"""The first sentence of every answer, and no gain that does not beat always the same answer."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

import coterie
from coterie.metrics.learnt import Learnt, Shown
from coterie.page.pages import learnable_words as on_the_page
from coterie.report import clients, summary, tables
from coterie.report.learnable import first_sentence, in_words
from coterie.report.outcome import headline
from coterie.report.page import report_blocks
from coterie.report.summary import print_table
from coterie.report.tables import summary_frame
from coterie.show.html import blocks_to_html
from coterie.show.parts import Runs as Section
from coterie.show.words import LANGUAGES, Words


def sites(signal, seed=0, rows=60, numbers=False):
    """Three, whose targets follow the first column, or nothing at all."""
    draws, made = np.random.default_rng(seed), []
    for name in ("north", "south", "west"):
        x = draws.normal(size=(rows, 3))
        y = signal * x[:, 0] + draws.normal(size=rows)
        made.append(coterie.Client.from_arrays(x, y if numbers else (y > 0).astype(int), name=name))
    return made


@pytest.mark.parametrize("numbers", [False, True])
def test_yes_where_there_is_a_clear_signal_and_no_where_targets_are_chance(numbers):
    model = "linear" if numbers else "logistic"
    said = {}
    for signal in (3, 0):
        found = coterie.compare(model, sites(signal, numbers=numbers), ["local", "fedavg"], seeds=2, rounds=2)
        said[signal] = first_sentence(found.records)
        page = blocks_to_html(report_blocks([Section("", found.records)])[0])
        assert page.index("Is there anything to learn here?") < page.index("Over 3 clients")
        assert found._repr_html_().index("Is there anything") < found._repr_html_().index("Over 3 clients")
    assert said[3].startswith("Is there anything to learn here? Yes: alone, ")
    assert said[0].startswith(
        "Is there anything to learn here? No: no model beats always saying each site's own "
    )


def test_a_single_run_says_it_from_its_own_labels():
    found = coterie.train("logistic", sites(3), "fedavg", rounds=3)
    assert first_sentence([found.record]).startswith(
        "Is there anything to learn here? Yes: with fedavg, log loss"
    )
    nothing = coterie.train("logistic", sites(3), "nothing", rounds=1)
    beside = [nothing.record, found.record]
    assert first_sentence(beside) == first_sentence([found.record])  # what follows from labels is what it has


def test_no_gain_over_alone_that_is_below_nothing(make_known):
    """All models are worse than the mean: RMSE 740 alone, 695 together, 677 for always saying the mean."""
    made = []
    for seed in (0, 1):
        for label, rmse in (("nothing", 677.0), ("local", 740.0), ("fedavg", 695.0)):
            figures = {"rmse": [rmse + seed, rmse - seed], "r2": [-0.1, -0.1]}
            made.append(make_known(figures, label=label, seed=seed, task="regression"))
    said = headline(made)
    assert "no gain, as always the same answer has 677" in said
    assert "smaller" not in said
    assert "clients gain" not in said
    header, rows = summary.cells(made)
    column = [row[header.index("gain over local")] for row in rows]
    assert column == ["—", "—", "below nothing"]
    assert all("nothing to gain" in line for line in clients.client_sentences(made))
    assert "below nothing" in tables.latex_table(made)
    screen = io.StringIO()
    print_table(made, Console(file=screen, width=120))
    assert "no better than always the same answer, so no gain" in " ".join(screen.getvalue().split())
    assert "No: no model beats always saying each site's own mean (RMSE 677" in str(
        blocks_to_html(report_blocks([Section("", made)])[0])
    ).replace("&#x27;", "'")
    frame = summary_frame(made).set_index("method")
    assert frame.loc["fedavg", "over_nothing"] == pytest.approx(-18.0)


def test_who_is_below_nothing_is_not_among_those_who_gain(make_known):
    made = []
    for seed in (0, 1):
        for label, rmse in (("nothing", [5.0, 5.0]), ("local", [9.0, 4.0]), ("fedavg", [6.0, 2.0])):
            values = [v + 0.1 * seed * (label == "fedavg") for v in rmse]
            made.append(
                make_known({"rmse": values, "r2": [0.1, 0.1]}, label=label, seed=seed, task="regression")
            )
    said = headline(made)
    assert "1 of 2 clients gain (1 more have no better than always the same answer)" in said


SHOWN = Shown("local", "nll", 0.39, 0.45, 9.0)


def test_sentences_by_hand():
    yes = in_words(Learnt("yes", SHOWN))
    assert yes == "Yes: alone, log loss 0.390 where always saying the site's own rates has 0.450."
    nearest = Shown("fedavg", "rmse", 740.0, 677.0, -3.0)
    no = in_words(Learnt("no", nearest))
    assert (
        no == "No: no model beats always saying the site's own mean (RMSE 677.0; the nearest, fedavg, 740.0)."
    )
    hardly = Shown("fedavg", "rmse", 675.0, 677.0, 0.5)
    assert "by more than chance brings; fedavg has 675.0." in in_words(Learnt("no", hardly))
    bold = Learnt("partly", Shown("local", "accuracy", 0.6, 0.1, 99.0), Shown("local", "nll", 3.0, 2.3, -9.0))
    assert in_words(bold).endswith(
        "its probabilities are no better than these rates: log loss 3.000 against 2.300."
    )
    alone = Learnt("yes", nearest._replace(model=600.0), None, Shown("local", "rmse", 700.0, 677.0, -2.0))
    assert "; but not alone, with 700.0" in in_words(alone)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_it_in_every_language(language):
    say = Words(language)
    starts = {"en": ("Yes:", "No:"), "fr": ("Oui :", "Non :"), "de": ("Ja:", "Nein:")}[language]
    for metric in ("nll", "accuracy", "auc", "rmse", "concordance"):
        shown = SHOWN._replace(metric=metric)
        yes, no = (on_the_page(Learnt(v, shown, shown, shown), "local", say) for v in ("yes", "no"))
        assert yes.startswith(f"{say('learn.question')} {starts[0]}")
        assert no.startswith(f"{say('learn.question')} {starts[1]}")
        assert say("learn.alone") in yes
    assert say("learn.unknown") in on_the_page(Learnt("unknown"), "", say)
