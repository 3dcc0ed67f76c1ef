"""Odd calls of the Python API: each works, or is refused in plain lines; none ends in a traceback or a hang.

Calls are drawn from a fixed seed: a call that works, with one to three of its arguments replaced by something
odd. Sizes are bounded, so that what is taken seriously takes no time.
"""

from __future__ import annotations

import copy
import datetime
import math
import random
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import coterie
from coterie.api.play import rounds
from coterie.core.client import Samples
from coterie.core.errors import CoterieError, Several
from coterie.data.clients import Client
from coterie.methods import METHODS, Local

X = np.linspace(-1, 1, 24).reshape(12, 2)
Y = np.arange(12) % 2
FRAME = pd.DataFrame({"p": X[:, 0], "sex": ["f", "m"] * 6, "flag": [True, False] * 6, "ill": Y})


class Thing:
    def __repr__(self) -> str:
        raise RuntimeError("no words for it")


ODD = [
    None, True, False, 0, 1, -1, 2, 7, 0.0, 0.5, 1.0, -0.5, 2.5, math.nan, math.inf, -math.inf, 10**30,
    1e39, "", " ", "x", "a\nb", "\0", "\ud800", "a" * 300, "fedavg", "local:", ":", "finetune:tune=nan",
    "0.3", b"x", (), [], {}, set(), (1,), (1, 2), [None], [[]], ["x"], ["x", "x"], [1, 2, 3],
    [1.5, math.nan], {"a": 1}, {"lr": "x"}, [{}], object(), Thing(), Thing, lambda *a: None, Path("x"),
    datetime.date(2020, 1, 1), complex(1, 2), range(3), range(12), iter([]), np.float32(0.3),
    np.int64(3), np.array(3), np.zeros((0, 2)), np.zeros(12), np.zeros((12, 2)),
    np.zeros((12, 2), complex), np.full((12, 2), np.nan), np.zeros((2, 2, 2)),
    np.array([["x"] * 2] * 12), np.arange(12), np.arange(12) * 10**9, np.array([2**63] * 12, np.uint64),
    np.arange(12).astype("datetime64[D]"), np.array([None] * 12), np.array([[1], [1, 2]], object), X, Y,
    Y / 3, Y.astype(float), Y + 1.0, X.tolist(), ["a", "b"] * 6, ["a", None] * 6, pd.NA, pd.NaT,
    pd.Timestamp(0), pd.Series(Y), pd.Series(["a"] * 12), pd.Series([1, None] * 6, dtype="Int64"),
    pd.Categorical(["a", "b"] * 6), pd.DataFrame(), pd.DataFrame({"ill": Y}), FRAME,
    FRAME.assign(ill=None), FRAME[["p", "ill"]].iloc[:1], FRAME.assign(when=pd.Timestamp(0)),
    FRAME.assign(p=[[1]] * 12), FRAME.set_axis(["ill"] * 4, axis=1), FRAME.assign(p=np.inf),
    FRAME.assign(p=np.nan), FRAME.assign(p=1e300), {"a": FRAME}, {"a": FRAME, "": FRAME},
    torch.zeros(12, 2), torch.zeros(12, 2, dtype=torch.bfloat16), torch.eye(12).to_sparse(),
    torch.arange(12), torch.zeros(12, requires_grad=True), nn.Linear(2, 2), nn.Linear(9, 2), nn.Linear,
    nn.Identity(), Local(), Local, torch.optim.AdamW,
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1), coterie.SGD(), coterie.SGD,
    coterie.Client, TensorDataset(torch.zeros(3, 2), torch.zeros(3)), TensorDataset(torch.zeros(0, 2)),
    {"source": "x"}, {"epochs": math.nan}, {"p": (1, 0)}, {"p": (0, 1)}, "site", "shared", "constants",
    "median", "drop", "mask", "flag", "common", "regression", "classification", "given", "independent",
    "processes ", "adam",
]  # fmt: skip
FEW = [v for v in ODD if not isinstance(v, int | np.integer) or v < 4]
"""For counts of what is done: rounds, seeds."""


def clients() -> list[Client]:
    return [Client.from_arrays(X, Y, name=name, test=0.4, validation=0.3) for name in "ab"]


def odd_clients(draw: random.Random) -> list[object]:
    """Clients that nobody's intake has looked at."""
    good = clients()
    y = draw.choice([torch.tensor([0, 10**9]), torch.tensor([-1, 1]), torch.zeros(2), torch.zeros(2).long()])
    x = draw.choice(
        [torch.zeros(2, 2), torch.zeros(2, 5), torch.full((2, 2), math.nan), torch.zeros(2, 3, 4, 4)]
    )
    one = Samples(x, y)
    strange = coterie.core.client.Client("c", one, one, Samples(x[:0], y[:0]))
    return draw.choice(
        [[strange], [*good, strange], [good[0], good[0]], good[:1], [*good, None], tuple(good)]
    )


def args(**given: object) -> dict[str, object]:
    return given


CALLS = {
    "from_arrays": (
        Client.from_arrays,
        args(
            X=X, y=Y, name="a", test=0.3, validation=0.0, seed=0, features=["p", "q"], classes=None,
            task="auto",
        ),
    ),
    "from_frame": (
        Client.from_frame,
        args(
            frame=FRAME, target="ill", name="a", test=0.3, validation=0.0, seed=0, classes=None,
            task="auto", missing="median", scale="site", constants=None, absent="mask", leave_out=[],
        ),
    ),
    "from_dataset": (
        Client.from_dataset,
        args(
            dataset=TensorDataset(torch.as_tensor(X), torch.as_tensor(Y)), name="a", test=0.3,
            validation=0.0, seed=0, classes=None, task="auto", every_epoch=False,
        ),
    ),
    "clients_from": (
        coterie.clients_from,
        args(
            tables={"a": FRAME, "b": FRAME}, target="ill", site=None, recipe=None, missing="drop",
            scale="shared", constants=None, absent="flag", test=0.3, validation=0.0, seed=0,
            classes=None, task="auto", leave_out=[],
        ),
    ),
    "train": (
        coterie.train,
        args(
            model="logistic", clients=clients, method="finetune", rounds=2, seed=0, kernel=None,
            engine="auto", device="cpu", memory="half", init="common", net="in-process", wrap=[],
            evaluate=1, checkpoint=1, one_class="refuse", features=None, loss=None,
            metrics=None, lower=(), transform=None, out=None, resume=False,
            watch=len, lr=0.1, tune=1,
        ),
    ),
    "compare": (
        coterie.compare,
        args(
            model="logistic", clients=clients, methods=["local", "fedavg"], seeds=1, seed=0, rounds=1,
            grid=(), kernel="sgd", out=None, resume=False, init="common", wrap=[], lr=0.1, watch=None,
        ),
    ),
    "rounds": (
        lambda **given: list(rounds(**given)),
        args(
            model=nn.Linear(2, 2), clients=clients, method="fedavg", rounds=1, seed=0, kernel=None,
            engine="loop",
        ),
    ),
}  # fmt: skip
CALLS["train"][1]["watch"] = CALLS["compare"][1]["watch"] = lambda record: None
LARGE = {"epochs": 10**9, "steps": 10**9, "batch": 10**12}


def odd_call(name: str, seed: int) -> dict[str, object]:
    """The call's arguments, some of them odd."""
    draw = random.Random(f"{name}/{seed}")
    given = {k: v() if v is clients else v for k, v in CALLS[name][1].items()}
    for argument in draw.sample(list(given), draw.choice((1, 1, 1, 2, 3))):
        pool = FEW if argument in ("rounds", "seeds", "tune") else ODD
        value = draw.choice([v for v in pool if not callable(v)] if argument == "watch" else pool)
        given[argument] = odd_clients(draw) if argument == "clients" and draw.random() < 0.5 else value
    return given


def told(error: CoterieError) -> list[str]:
    """Lines that a person sees."""
    return list(error.lines) if isinstance(error, Several) else [str(error)]


def tried(call, given) -> None:
    try:
        call(**given)
    except CoterieError as error:
        for line in told(error):
            assert line.strip()
            assert "\n" not in line
            assert len(line) < 1000


@pytest.mark.parametrize("name", CALLS)
def test_odd_calls_work_or_are_refused_in_plain_lines(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for what is taken as a folder
    call = CALLS[name][0]
    for seed in range(150):
        given = odd_call(name, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tried(call, given)
            except Exception as error:
                odd = {k: v for k, v in given.items() if v is not CALLS[name][1][k]}
                pytest.fail(f"call {seed}: {type(error).__name__}: {error}\n{list(odd)}: {safe(odd)}")


def safe(odd) -> str:
    try:
        return repr(odd)
    except RuntimeError:
        return "(no words for it)"


@pytest.mark.parametrize("option", LARGE)
@pytest.mark.parametrize("kernel", ["sgd", "adam", "sgld", "swag", "hmc"])
def test_what_would_take_for_ever_is_refused(option, kernel):
    given = {"kernel": kernel, "rounds": 1, option: LARGE[option]}
    if option == "batch" and kernel != "hmc":
        coterie.train("logistic", clients(), "local", **given)  # a batch is at most all rows
        return
    with pytest.raises(CoterieError) as caught:
        coterie.train("logistic", clients(), "local", **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", list(METHODS))
def test_odd_options_of_every_method(method):
    from coterie.core.options import options_of

    draw = random.Random(method)
    cls = METHODS[method]
    odd = [v for v in ODD if not isinstance(v, int) or abs(v) < 4]
    for option in options_of(cls):
        for value in [math.nan, -math.inf, -1, "", *draw.sample(odd, 2)]:
            given = {"kernel": "swag"} if "swag" in method else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tried(
                    coterie.train,
                    {
                        "model": "logistic",
                        "clients": clients(),
                        "method": method,
                        "rounds": 2,
                        "engine": "loop",
                        **given,
                    }
                    | {option.name: copy.copy(value) if not isinstance(value, Thing) else None},
                )
