"""What a person sees of an odd call of the Python API, word for word."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import coterie
from coterie.core.errors import BadData, BadInput, BadInputs, Diverged, option, spelled_for_shell
from coterie.data.build import check_clients
from coterie.data.clients import Client

X = np.linspace(-1, 1, 40).reshape(20, 2)
Y = np.arange(20) % 2


@pytest.fixture
def clients() -> list[Client]:
    return [Client.from_arrays(X, Y, name=name) for name in "ab"]


NAMES = "must be a text of 1 to 100 characters without line breaks: try 'hospital-a'"
WORK = (
    "kernel=<class 'torch.optim.adamw.AdamW'> must be the name of local work (adam, adamw, bounded, "
    "constant, dp, hmc, newton, psgld, ridge, sgd, sgld, swag) or an object such as coterie.SGD(lr=0.1), "
    "not an optimiser of torch: try 'adamw', or write your own as docs/own-parts.md shows"
)


@pytest.mark.parametrize(
    ("name", "shown"), [(None, "None"), (7, "7"), ("", "''"), ("a\nb", r"'a\nb'"), ("\ud800", r"'\ud800'")]
)
def test_names(name, shown, refused):
    with refused(BadInput, f"name={shown} {NAMES}"):
        Client.from_arrays(X, Y, name=name)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"test": (X,)},
            "must be a share of the rows, a number between 0 and 1, or a pair (X, y): try 0.3",
        ),
        ({"seed": "7"}, "client 'a': seed='7' must be a whole number of at least 0: try 0"),
        ({"seed": -1}, "client 'a': seed=-1 must be a whole number of at least 0: try 0"),
        (
            {"validation": math.nan},
            "client 'a': validation=nan must be a share of the rows, a number from 0 to",
        ),
        (
            {"classes": "ab"},
            "client 'a': classes='ab' must be a list of classes, each once: try ['well', 'ill']",
        ),
        (
            {"y": Y * 10**9},
            "client 'a': label 1000000000 asks for as many outputs, at most 65536 are possible: count labels",
        ),
    ],
)
def test_clients(given, said):
    with pytest.raises((BadInput, BadData)) as caught:
        Client.from_arrays(**{"X": X, "y": Y, "name": "a", **given})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kernel": torch.optim.AdamW}, WORK),
        (
            {"epochs": 10**7 + 1},
            "epochs=10000001 asks for 10000001 steps in one round, at most 10000000 are planned: lower it "
            "and raise rounds",
        ),
        ({"wrap": "absent=0.3"}, "wrap='absent=0.3' must be a list of texts: try ['absent=0.3']"),
        ({"watch": 3}, "watch=3 must be a function"),
        ({"out": "a\0b"}, r"out='a\x00b' must be a path to a folder, or None"),
        ({"engine": 3}, "engine=3 must be a text"),
        ({"lr": math.nan}, "lr=nan must be above 0 and finite: try 0.1"),
    ],
)
def test_training(clients, given, said, refused):
    with refused(BadInput, said):
        coterie.train("logistic", clients, **{"rounds": 1, **given})


def test_comparisons(clients, refused):
    with refused(
        BadInput, "methods=3 must be a list of names of methods: try ['local', 'fedavg', 'finetune']"
    ):
        coterie.compare("logistic", clients, methods=3)
    with refused(BadInput, "compare takes several methods: pass methods=['local', 'fedavg']"):
        coterie.compare("logistic", clients, method="local")


def test_all_that_is_wrong_is_said_at_once(clients):
    with pytest.raises(BadInputs) as caught:
        coterie.train("logistic", clients, rounds=0, seed="x", resume=1)
    assert caught.value.lines == (
        "seed='x' must be a whole number of at least 0: try 0",
        "rounds=0 must be a whole number of at least 1: try 30",
        "resume=1 must be True or False",
    )


def test_an_option_is_spelled_as_its_reader_writes_it():
    assert option("one_class", "allow") == "one_class='allow'"
    with spelled_for_shell():
        assert option("one_class", "allow") == "--one-class allow"
        assert option("missing", "median", part="table") == "--table.missing median"


def test_a_client_of_one_class_is_refused_in_the_readers_spelling(refused):
    one = [Client.from_arrays(X, Y * 0, name="a")]
    said = "client 'a' trains on one class only (0), at least 2 are needed: add samples, or allow it with"
    with refused(BadData, f"{said} one_class='allow'"):
        check_clients(one)
    with spelled_for_shell(), refused(BadData, f"{said} --one-class allow"):
        check_clients(one)


def test_a_folder_that_is_taken(clients, tmp_path, refused):
    from coterie.core.errors import BadRun

    coterie.train("logistic", clients, rounds=1, out=tmp_path / "run")
    with refused(
        BadRun,
        f"output folder {tmp_path / 'run'} holds a run: pass resume=True to go on, or choose another out",
    ):
        coterie.train("logistic", clients, rounds=1, out=tmp_path / "run")
    with refused(BadRun, f"output folder {tmp_path} is not empty: choose another out"):
        coterie.train("logistic", clients, rounds=1, out=tmp_path)


def test_a_loss_that_explodes_without_leaving_the_finite_numbers_is_no_result():
    rng = np.random.default_rng(0)
    far = rng.normal(size=(40, 2)) * [1, 12]
    y = (rng.random(40) < 0.5).astype(int)
    clients = [Client.from_arrays(far, y, name="a")]
    with pytest.raises(
        Diverged, match=r"round 3: the model of 'a' has a loss \d+ times that of giving every"
    ):
        coterie.train(nn.Linear(2, 2), clients, "local", rounds=3, lr=20.0)


def test_short_words_for_long_things(clients):
    compared = coterie.compare("logistic", clients, ["local", "fedavg"], seeds=2, rounds=2)
    for thing in (compared, compared.results["local"][0], clients[0], clients[0].train):
        assert len(repr(thing)) < 300
        assert "\n" not in repr(thing)


def test_notes_begin_with_the_clients_name():
    frame = pd.DataFrame({"p": X[:, 0], "q": [np.nan, *X[1:, 1]], "ill": Y})
    clients = coterie.clients_from({"north": frame, "south": frame}, target="ill", missing="median")
    result = coterie.train("logistic", clients, rounds=1)
    filled = [n for n in result.notes if "missing values filled" in n]
    assert [n.partition(": ")[0] for n in filled] == ["north", "south"]


class TestInUse:
    FRAME = pd.DataFrame({"age": 60 + 10 * X[:, 0], "sex": ["f", "m"] * 10, "ill": np.where(Y, "yes", "no")})

    def result(self, **options):
        tables = {"north": self.FRAME, "south": self.FRAME.assign(age=self.FRAME["age"] + 5)}
        clients = coterie.clients_from(tables, target="ill", scale="shared")
        return coterie.train("logistic", clients, rounds=3, **options), clients

    def test_raw_rows_by_name_are_predicted_as_the_test_rows_were(self, tmp_path):
        result, clients = self.result()
        predictor = result.predictor("south")
        rows = self.FRAME[["sex", "age"]]  # in another order
        wanted = torch.softmax(
            result.models["south"](torch.from_numpy(clients[1].preparation.inputs(raw(rows)))), dim=1
        )
        np.testing.assert_allclose(predictor.proba(rows), wanted.detach().numpy(), atol=1e-6)
        folder = result.export("south", tmp_path / "south")
        assert np.array_equal(coterie.load(folder).proba(rows), predictor.proba(rows))
        assert set(predictor.predict(rows)) <= {"no", "yes"}

    def test_from_the_runs_folder_too(self, tmp_path):
        result, _ = self.result(out=tmp_path / "run")
        rows = self.FRAME[["age", "sex"]]
        read = coterie.load(tmp_path / "run", "north")
        assert np.array_equal(read.proba(rows), result.predictor("north").proba(rows))

    def test_a_client_that_is_not_there(self, refused):
        result, _ = self.result()
        with refused(BadInput, "client 'east' is not in this result: take one of north, south"):
            result.predictor("east")


def raw(rows: pd.DataFrame) -> np.ndarray:
    return np.column_stack([rows["age"], (rows["sex"] == "m").astype(float)])
