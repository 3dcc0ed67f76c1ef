"""coterie plan-privacy: figures of settings, and all that is wrong with one said at once."""

from __future__ import annotations

import re

import pytest

from coterie.kernels import SGD
from coterie.kernels.dp import DP
from coterie.privacy.accounting import epsilon

pytest.importorskip("dp_accounting")
TRIAL = ("--rows", "400", "--batch", "32", "--rounds", "30", "--sigma", "2")


def figures(printed: str) -> list[str]:
    """The cells of the last site's line."""
    return [line.split() for line in printed.splitlines() if re.match(r"site( \d+)? ", line)][-1]


@pytest.mark.parametrize(
    ("more", "all", "one"),
    [
        (("--cap", "64"), "3.75", "3.75"),
        (("--cap", "48"), "3.87", "3.87"),
        (("--cap", "64", "--requesters", "6"), "10.5", "3.75"),
        (("--cap", "64", "--requesters", "20"), "22.5", "3.75"),
    ],
)
def test_figures_of_the_trial(coterie, more, all, one):
    code, printed, said = coterie("plan-privacy", *TRIAL, *more)
    assert code == 0, said
    assert figures(printed)[-2:] == [all, one]


def test_forty_steps_without_a_cap_that_matters(coterie):
    words = (
        "--rows",
        "256",
        "--batch",
        "32",
        "--steps",
        "40",
        "--rounds",
        "1",
        "--sigma",
        "1",
        "--cap",
        "256",
    )
    assert figures(coterie("plan-privacy", *words)[1])[-1] == "5.79"


def test_the_sigma_that_reaches_a_wanted_epsilon(coterie):
    _, printed, _ = coterie("plan-privacy", *TRIAL, "--cap", "64", "--epsilon", "3.752")
    assert figures(printed)[-1] == "2"
    assert "with sigma 2, 30 rounds fit into 3.752" in printed


def test_all_that_is_wrong_is_said_at_once(coterie):
    words = ("--rows", "20", "--batch", "32", "--delta", "0.1", "--epsilon", "0", "--sigma", "-1")
    code, printed, said = coterie("plan-privacy", *words)
    assert (code, printed) == (2, "")
    assert said.splitlines() == [
        "coterie: epsilon=0.0 must lie above 0 and be finite: try 3",
        "coterie: rows=20 are fewer than a batch of 32: lower --batch, or leave it out",
        "coterie: delta=0.1 is above 1/n = 0.05 for the 20 rows: take delta=0.005 or less",
        "coterie: sigma=-1.0 must be above 0 and finite: try 1, or leave dp out",
    ]


def test_a_method_on_data(coterie):
    words = (
        "--data",
        "titanic",
        "--method",
        "pens",
        "--kernel",
        "dp(sgd)",
        "--dp.sigma",
        "4",
        "--rounds",
        "2",
    )
    code, printed, said = coterie("plan-privacy", *words)
    assert code == 0, said
    line = next(line for line in printed.splitlines() if line.startswith("age 21-35"))
    visits = 2 * DP(SGD(batch=32), sigma=4.0).charges(333)
    wanted = f"{epsilon(visits, 1e-5):.3g}"
    assert line.split()[2:] == ["333", "22", wanted, wanted]  # who trains at home trains for everybody


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--kernel", "sgd"), 'coterie: sgd gives no bound: take --kernel "dp(sgd)"'),
        (
            ("--kernel", "dp(sgd)", "--epsilon", "-1"),
            "coterie: epsilon=-1.0 must lie above 0 and be finite: try 3",
        ),
        (
            ("--kernel", "dp(sgd)", "--sgd.batch", "200"),
            "coterie: client 'age 0-20' has 174 training rows, and dp needs at least a batch of them, 200: "
            "lower batch, or leave the client out",
        ),
    ],
)
def test_what_is_wrong_with_a_method(coterie, words, line):
    code, _, said = coterie("plan-privacy", "--data", "titanic", "--rounds", "2", *words)
    assert code == 2
    assert said.splitlines()[-1] == line
