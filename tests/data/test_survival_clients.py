"""Times and events of one's own: arrays, frames, files by a recipe; what is refused, in which words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from coterie.core.client import counts_of
from coterie.core.errors import BadData, BadInput, Several
from coterie.data.build import check_clients
from coterie.data.clients import Client
from coterie.data.clients_from import clients_from
from coterie.data.tables.inspect import inspect
from coterie.data.tables.recipe_file import read_recipe, recipe_text, write_recipe

X = np.arange(24.0).reshape(12, 2) / 10
TIMES = np.arange(1.0, 13)
SEEN = np.array([1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0])
SIGNED = np.where(SEEN == 1, TIMES, -TIMES)
COUNTS = ((3, 3), (1, 1), (2, 2))  # training, validation, test rows without and with an event
MUST = "must be 1 where it was seen, 0 where the row was only watched until then"


def rows_of(client) -> list[float]:
    return sorted(torch.cat([client.train.y, client.validation.y, client.test.y]).tolist())


@pytest.mark.parametrize(
    "given",
    [
        {"y": TIMES, "event": SEEN},
        {"y": TIMES.tolist(), "event": (SEEN == 1).tolist()},
        {"y": torch.tensor(TIMES), "event": torch.tensor(SEEN)},
        {"y": pd.Series(TIMES), "event": pd.Series(SEEN == 1)},
        {"y": np.column_stack([TIMES, SEEN]), "task": "survival"},
        {"y": TIMES, "event": SEEN, "task": "survival"},
    ],
)
def test_arrays_of_times_and_events(given):
    client = Client.from_arrays(X, name="north", validation=0.2, **given)
    assert client.task == "survival"
    assert rows_of(client) == sorted(SIGNED.tolist())
    assert "survival" in repr(client)
    # events and censored rows are held out in proportion
    assert counts_of(client, 1) == COUNTS
    assert client.cast(torch.float64).task == "survival"


def test_a_test_set_of_pairs():
    client = Client.from_arrays(X, TIMES, event=SEEN, name="a", test=(X[:2], [[5.0, 1], [7.0, 0]]))
    assert client.test.y.tolist() == [5, -7]
    with pytest.raises(BadData, match=r"shape \(2,\), but need pairs"):
        Client.from_arrays(X, TIMES, event=SEEN, name="a", test=(X[:2], [5.0, 7.0]))


def but(values, row, value):
    changed = np.array(values, dtype=float)
    changed[row] = value
    return changed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": but(TIMES, 3, 0)}, "time is 0 in row 3, but must be above 0 and finite"),
        ({"y": but(TIMES, [3, 5], -2)}, "time is -2 in row 3 (2 such rows), but must be above 0 and finite"),
        ({"y": but(TIMES, 0, np.nan)}, "time is missing in row 0, but must be above 0 and finite"),
        ({"y": but(TIMES, 0, np.inf)}, "time is inf in row 0, but must be above 0 and finite"),
        ({"y": but(TIMES, 0, 1e-60)}, "time is 1e-60 in row 0, but must be above 0 and finite"),
        ({"event": but(SEEN, 4, 2)}, f"event is 2 in row 4, but {MUST}"),
        ({"event": but(SEEN, 4, np.nan)}, f"event is missing in row 4, but {MUST}"),
        (
            {"y": but(TIMES, 0, 0), "event": but(SEEN, 4, 2)},
            f"time is 0 in row 0, but must be above 0 and finite; event is 2 in row 4, but {MUST}",
        ),
    ],
)
def test_what_is_no_time_or_no_event_is_refused(given, message, refused):
    with refused(BadData, f"client 'a': {message}: correct the row, or leave it out"):
        Client.from_arrays(X, name="a", **{"y": TIMES, "event": SEEN, **given})


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"event": SEEN[:5]}, BadData, "12 times but 5 events: give one event, 0 or 1, for each time"),
        (
            {"event": ["x"] * 12},
            BadData,
            "events hold 'x', which is no number: correct the row, or leave it out",
        ),
        (
            {"event": SEEN, "task": "regression"},
            BadInput,
            "task='regression' beside an event, which makes a survival: leave one out",
        ),
        (
            {"event": SEEN, "classes": ["a", "b"]},
            BadInput,
            "classes beside an event, which makes a survival: leave one out",
        ),
        (
            {"task": "survival"},
            BadData,
            "targets of a survival have shape (12,), but need pairs (time, event): pass event=, 1 where the "
            "event was seen, 0 where not",
        ),
    ],
)
def test_what_makes_no_survival_is_refused(given, kind, message, refused):
    with refused(kind, f"client 'a': {message}"):
        Client.from_arrays(X, TIMES, name="a", **given)


def test_times_keep_their_ties_and_their_order(refused):
    client = Client.from_arrays(X, 1000 + TIMES, event=SEEN, name="a").cast(torch.bfloat16)
    assert client.train.x.dtype == torch.bfloat16
    assert len(torch.unique(client.train.y)) == len(client.train)
    with refused(
        BadData,
        "client 'a': 11 of 12 different times become the same number in 32 bits, with seven digits: count "
        "them from a later start, or round them",
    ):
        Client.from_arrays(X, 1.7e9 + TIMES, event=SEEN, name="a")


def test_who_has_no_event_is_said_and_nobody_having_any_refused(refused):
    some = Client.from_arrays(X, TIMES, event=SEEN, name="a")
    none = [Client.from_arrays(X, TIMES, event=0 * SEEN, name=n) for n in "bc"]
    said = "client 'b' has no event among its training rows and learns nothing by itself"
    assert check_clients([some, none[0]]) == (said,) == check_clients(none[:1])
    with refused(
        BadData,
        "none of the 2 clients has an event among its training rows, so there is nothing to learn: watch "
        "longer, or check the events",
    ):
        check_clients(none)


def frame(**other):
    table = {"age": 50 + X[:, 0], "size": 20 + X[:, 1], "days": TIMES, "died": SEEN, "ward": ["u", "v"] * 6}
    return pd.DataFrame({**table, **other})


def test_frames_with_a_column_of_times_and_one_of_events():
    one = Client.from_frame(frame().drop(columns="ward"), target="days", event="died", name="a")
    assert (one.task, one.features) == ("survival", ("age", "size"))
    assert rows_of(one) == sorted(SIGNED.tolist())
    u, v = clients_from(frame(), target="days", event="died", site="ward")
    assert (u.task, u.features, v.features) == ("survival", ("age", "size"), ("age", "size"))
    assert rows_of(u) + rows_of(v) == [*sorted(SIGNED[::2]), *sorted(SIGNED[1::2])]
    assert all(c.train.y.abs().max() > 1 for c in (u, v))


def test_frames_are_refused_table_by_table(refused):
    odd = frame(days=but(TIMES, [0, 1], -1))
    with pytest.raises(Several) as caught:
        clients_from(odd, target="days", event="died", site="ward")
    start = "time is -1 in row 0, but must be above 0 and finite: correct the row, or leave it out"
    assert list(caught.value.lines) == [f"client 'u': {start}", f"client 'v': {start}"]
    with refused(BadInput, "task='survival' needs an event: name its column, event='died'"):
        clients_from(frame(), target="days", task="survival", site="ward")
    with refused(BadData, "client 'a': no event column 'dead'; its columns are age, size, days, died, ward"):
        Client.from_frame(frame(), target="days", event="dead", name="a")
    with refused(BadData, "client 'a': event 'died' is missing or NaN in 1 row(s): fill or drop them"):
        Client.from_frame(frame(died=but(SEEN, 2, np.nan)), target="days", event="died", name="a")


def written(folder, name="north", died=("no", "yes"), **other):
    table = frame(**other).drop(columns="ward")
    table["died"] = [died[int(e)] for e in table["died"]] if died else table["died"]
    table.to_csv(folder / f"{name}.csv", index=False)
    return str(folder / f"{name}.csv")


def test_files_by_a_recipe(tmp_path):
    path = written(tmp_path)
    seen = inspect([path], "days", home=tmp_path, event="died")
    assert seen.asks == ()
    assert seen.recipe.task == "survival"
    assert [r.name for r in seen.recipe.inputs] == ["age", "size"]
    assert dict(seen.classes["north"]) == {"no": 6, "yes": 6}
    write_recipe(tmp_path / "r.toml", seen.recipe)
    again = read_recipe(tmp_path / "r.toml")
    assert again == seen.recipe
    assert recipe_text(again) == (tmp_path / "r.toml").read_text()
    (client,) = clients_from(recipe=tmp_path / "r.toml")
    assert client.task == "survival"
    assert rows_of(client) == sorted(SIGNED.tolist())


def test_rows_of_a_file_are_refused_all_at_once(tmp_path):
    recipe = inspect([written(tmp_path)], "days", home=tmp_path, event="died").recipe
    write_recipe(tmp_path / "r.toml", recipe)
    written(tmp_path, died=None, days=but(TIMES, [0, 1], [-3, 0]), died_=0)
    odd = pd.read_csv(tmp_path / "north.csv").drop(columns="died_")
    odd["died"] = ["no", "maybe", None] + ["yes"] * 9
    odd.to_csv(tmp_path / "north.csv", index=False)
    with pytest.raises(Several) as caught:
        clients_from(recipe=tmp_path / "r.toml")
    text = "\n".join(caught.value.lines)
    assert "line 2, column 'days': a time of -3 must be above 0: correct it, or remove the row" in text
    assert "line 3, column 'days': a time of 0 must be above 0: correct it, or remove the row" in text
    assert "line 3, column 'died': 'maybe' is not one of no, yes" in text
    assert "line 4, column 'died': the target is missing" in text
    assert len(caught.value.lines) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'event = "died"',
            'event = "age"',
            "event: 'age', whether it was seen, is used as number: use it as a flag",
        ),
        ('event = "died"', 'event = "dead"', "event: unknown column 'dead': did you mean died?"),
        (
            'event = "died"',
            'event = "days"',
            "'days', whether it was seen, is used as number: use it as a flag",
        ),
        ('target = "days"', 'target = "died"', "'died', the time until the event, is used as flag"),
    ],
)
def test_a_recipe_of_a_survival_has_a_time_and_a_flag(tmp_path, old, new, message):
    write_recipe(
        tmp_path / "r.toml", inspect([written(tmp_path)], "days", home=tmp_path, event="died").recipe
    )
    text = (tmp_path / "r.toml").read_text()
    (tmp_path / "r.toml").write_text(text.replace(old, new))
    with pytest.raises((Several, BadInput)) as caught:
        read_recipe(tmp_path / "r.toml")
    assert message in str(caught.value)


def test_inspecting_asks_which_word_is_the_event_and_refuses_what_is_none(tmp_path, refused):
    path = written(tmp_path, died=("here", "gone"))
    (ask,) = inspect([path], "days", event="died").asks
    assert "where the event was seen, and" in ask
    with refused(BadInput, "event 'died' without a time: name the column of times as the target too"):
        inspect([path], event="died")
    with refused(BadInput, "'days' is the target and the event: name the time and the event apart"):
        inspect([path], "days", event="days")
    with refused(BadInput, "task=regression and an event, which makes a survival: leave one out"):
        inspect([path], "days", event="died", task="regression")
    with pytest.raises(BadData, match="event 'age' looks like number: name a column of two values"):
        inspect([path], "days", event="age")


def test_what_tells_the_event_or_the_time_is_a_likely_leak(tmp_path):
    rng = np.random.default_rng(0)
    n = 1000
    times, seen = rng.uniform(1, 900, n), rng.integers(0, 2, n)
    table = pd.DataFrame({"age": rng.integers(30, 80, n), "days": times, "died": np.where(seen, "yes", "no")})
    table["months"] = times / 30.4
    table["weight"] = np.where(seen, rng.normal(5, 1, n).round(2).astype(str), "")
    table.to_csv(tmp_path / "a.csv", index=False)
    found = {
        s.rule.name: (s.rule.use, s.asks) for s in inspect([tmp_path / "a.csv"], "days", event="died").columns
    }
    assert found["age"] == ("number", ())
    assert found["months"][0] == found["weight"][0] == "leave-out"
    assert "it predicts the target alone" in found["months"][1][0]
    assert "it is filled in only where the target is yes" in found["weight"][1][0]
