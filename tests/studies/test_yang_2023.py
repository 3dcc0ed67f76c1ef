"""yang-2023: cells and data by hand, verdicts on made-up runs, and a tiny run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from coterie.api.folders import read_record
from coterie.core.errors import BadInput
from coterie.kernels import Adam
from coterie.studies import yang_2023 as y
from coterie.studies.base import Asked
from coterie.studies.command import reproduce
from coterie.studies.yang_2023 import report


def test_the_full_grid_is_three_sets_two_alphas_three_methods():
    cells = y.PAPER.cells("full")
    assert len(cells) == 18
    assert {y.parts_of(cell) for cell in cells} == {
        (d, a, m)
        for d in ("cifar10", "cifar100", "tiny-imagenet")
        for a in ("0.3", "0.0001")
        for m in ("fedavg", "fedkg", "fedunique")
    }


def test_methods_differ_in_nothing_but_what_guides_them():
    for scale, batch in (("full", 128), ("small", 32)):
        made = [y.method_of(m, scale) for m in y.METHODS]
        assert {m.local for m in made} == {Adam(lr=1e-3, batch=batch, epochs=1)}
    assert [m.metric for m in made[1:]] == ["knowledge-gain", "uniqueness"]
    assert dataclasses.replace(made[1], metric="uniqueness").beta == made[2].beta == 0.8


def test_rows_are_drawn_for_each_seed_and_never_tested_on():
    data = y.loaded("digits")
    first, again, other = (y.rows_of(data, "tiny", seed) for seed in (0, 0, 1))
    assert (len(first.train), len(first.test)) == (1297, 500)
    np.testing.assert_array_equal(first.train.x, again.train.x)
    np.testing.assert_array_equal(first.test.x, other.test.x)
    np.testing.assert_array_equal(first.test.x, data.train.x[-500:])


@pytest.mark.parametrize("alpha", y.ALPHAS)
def test_four_clients_are_tested_on_classes_they_learn(alpha):
    clients = y.clients_of(f"digits-{alpha}", "tiny", 0)
    assert len(clients) == 4
    assert all(set(c.test.y.tolist()) <= set(c.train.y.tolist()) for c in clients)


def cells(**gains):
    """Three seeds of FedAvg at 50 % in two groups, and methods so many points above."""

    def made(best):
        return report.Run(best, 0.0, np.zeros((4, 10)), {})

    found = {f"a-{i}/fedavg": {s: made(0.5 + s / 100) for s in range(3)} for i in range(2)}
    for method, values in gains.items():
        for i, gain in enumerate(values):
            found[f"a-{i}/{method}"] = {s: made(0.5 + (s + gain + s / 1000) / 100) for s in range(3)}
    return found


def test_verdicts():
    assert report.differences_are_small(cells(fedkg=(0.5, -0.5), fedunique=(0.1, 0.9))).word == "holds"
    assert report.differences_are_small(cells(fedkg=(0.5, 1.5))).word == "fails"
    assert report.nobody_wins(cells(fedkg=(0.5, -0.5))).word == "holds"
    assert report.nobody_wins(cells(fedkg=(0.5, 0.5))).word == "fails"
    assert report.nobody_wins(cells(fedkg=(-0.5, -0.5))).word == "fails"
    assert all(claim.check({}).word == "undecided" for claim in report.CLAIMS)


def test_a_tiny_run_from_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(y.SETTINGS, "tiny", dataclasses.replace(y.SETTINGS["tiny"], rounds=1, batch=64))
    cells = "digits-0.3/fedavg,digits-0.3/fedkg"
    assert reproduce(["yang-2023", "--scale", "tiny", "--cells", cells, "--seeds", "1"]) == 0
    out = tmp_path / "runs/yang-2023"
    assert (out / "figures/figure-2.svg").exists()
    record = read_record(out / "text/tiny/digits-0.3/fedkg/seed-0")
    means = record.curve("accuracy")[1].mean(axis=1)
    page = (out / "results.md").read_text()
    assert f"| digits-0.3 | FedKG | 1 | {100 * means.max():.1f} | {100 * means[-1]:.1f} |" in page


def test_there_is_no_program_to_run_again(tmp_path):
    with pytest.raises(BadInput, match="no preset 'as-run', for no program was published: take text"):
        y.PAPER.jobs(Asked(("as-run",), "tiny", ("digits-0.3/fedavg",), 1, tmp_path))
