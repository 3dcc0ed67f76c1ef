"""What Python shows of results without being asked: short, and with names."""

import dataclasses

import coterie


def test_a_comparison_is_shown_in_a_line(hospitals):
    study = coterie.compare("logistic", hospitals, ["local", "fedavg"], seeds=2, rounds=3, lr=0.1)
    shown = repr(study)
    assert shown.startswith("Compared(3 clients, 3 rounds, 2 seeds; test accuracy, %: nothing ")
    assert ", local " in shown
    assert ", fedavg " in shown
    assert len(shown) < 200
    result = study.results["fedavg"][0]
    assert repr(result).startswith("Result(3 clients, 3 rounds, 1 seed; test accuracy, %: fedavg ")
    assert repr(result.record) == "Record('fedavg', 3 clients, 3 of 3 rounds)"


def test_progress_is_shown_where_it_is_asked_for(hospitals, capsys):
    options = {"rounds": 3, "lr": 0.1}
    coterie.train("logistic", hospitals, "fedavg", **options)
    coterie.compare("logistic", hospitals, ["local"], seeds=1, **options)
    assert capsys.readouterr().err == ""
    seen = []
    coterie.train("logistic", hospitals, "fedavg", progress=True, watch=seen.append, **options)
    assert "3/3 rounds" in capsys.readouterr().err
    assert len(seen) == 4
    coterie.compare("logistic", hospitals, ["local", "fedavg"], seeds=2, progress=True, **options)
    said = capsys.readouterr().err
    assert "fedavg seed 1 accuracy" in said
    assert "14/14 rounds" in said  # one of `nothing` for each seed


def test_notes_say_whose_they_are(hospitals):
    first = dataclasses.replace(hospitals[0], notes=("values filled: age (2)",))
    result = coterie.train("logistic", [first, *hospitals[1:]], "fedavg", rounds=1, lr=0.1)
    assert "hospital-a: values filled: age (2)" in result.notes
