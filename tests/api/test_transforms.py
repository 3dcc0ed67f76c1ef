"""What training batches go through at each step: a transform, or a dataset that is read anew."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.core.draws import SeededDraws
from coterie.core.errors import BadData, BadInput

SHORT = {"rounds": 2, "lr": 0.3, "batch": 8, "epochs": 2}


def flat(result):
    return torch.cat([p.flatten() for m in result.models.values() for p in m.state_dict().values()])


def train(clients, method="fedavg", **options):
    torch.manual_seed(0)
    return coterie.train(nn.Linear(4, 2), clients, method, **SHORT | options)


def noisy(x):
    return x + 0.5 * torch.randn_like(x)


def flipped(x):
    """Each row by its own chance."""
    coin = torch.rand(len(x), 1) < 0.5
    return torch.where(coin, -x, x)


def shuffled_columns(x):
    """Draws as seeded draws do not reach, so that clients go one after the other."""
    return x[:, torch.randperm(x.shape[1])]


def by_value(x):
    """Has no batched form."""
    return -x if float(torch.rand(1)) < 0.5 else x


def across(x):
    """Draws with the row axis last: other numbers where padding is behind."""
    return x + torch.randn(2, len(x)).sum(0).unsqueeze(1)


# by hand


def test_doubling_is_training_on_doubled_rows_and_testing_on_the_rows_themselves(hospitals):
    doubled = train(hospitals, transform=lambda x: 2 * x)
    rows = [
        coterie.Client.from_arrays(2 * c.train.x, c.train.y, name=c.name, test=(c.test.x, c.test.y))
        for c in hospitals
    ]
    plain = train(rows)
    assert torch.equal(flat(doubled), flat(plain))
    assert doubled.record.final("loss") == plain.record.final("loss")
    assert doubled.record.final("loss", "own/validation") != doubled.record.final("loss")
    assert torch.equal(flat(train(hospitals, transform=lambda x: x)), flat(train(hospitals)))


def test_draws_are_those_of_the_seed_and_as_they_should_be():
    def drawn(seed):
        with SeededDraws(torch.tensor(seed)):
            return [
                torch.rand(2000),
                torch.randn(50, 40).flatten(),
                torch.randn_like(torch.zeros(2000, dtype=torch.float64)),
                torch.randint(3, 7, (2000,)),
                torch.randint(4, size=(2000,)),
                torch.bernoulli(torch.full((2000,), 0.25)),
            ]

    one, again, other = drawn(5), drawn(5), drawn(6)
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    means = [float(t.double().mean()) for t in one]
    assert means == pytest.approx([0.5, 0, 0, 4.5, 1.5, 0.25], abs=0.1)
    assert [float(t.double().std()) for t in one[1:3]] == pytest.approx([1, 1], abs=0.1)
    assert (one[3].min(), one[3].max(), one[3].dtype) == (3, 6, torch.int64)
    assert not torch.equal(one[1].double(), one[2])  # each call has numbers of its own


# the same on every engine, other numbers in each epoch


@pytest.mark.parametrize("transform", [noisy, flipped, shuffled_columns, by_value, across])
def test_every_engine_draws_the_same(hospitals, transform):
    found = {e: flat(train(hospitals, transform=transform, engine=e)) for e in ("loop", "pool", "auto")}
    assert torch.allclose(found["loop"], found["pool"], atol=1e-5)
    assert torch.allclose(found["loop"], found["auto"], atol=1e-5)
    assert not torch.allclose(found["loop"], flat(train(hospitals)), atol=1e-3)
    if transform in (noisy, flipped):
        assert torch.allclose(
            found["loop"], flat(train(hospitals, transform=transform, engine="stacked")), atol=1e-5
        )
    else:
        with pytest.raises(BadInput, match="engine stacked cannot train a model with"):
            train(hospitals, transform=transform, engine="stacked")


@pytest.mark.parametrize(
    "way",
    [
        {"method": "central"},
        pytest.param({"kernel": "dp(sgd)", "epochs": 1, "rounds": 1}, marks=pytest.mark.slow),
        {"kernel": "adam"},
    ],
)
def test_with_other_ways_to_train(hospitals, way):
    assert torch.equal(
        flat(train(hospitals, transform=noisy, **way)), flat(train(hospitals, transform=noisy, **way))
    )
    assert not torch.equal(flat(train(hospitals, transform=noisy, **way)), flat(train(hospitals, **way)))


def test_each_step_has_other_numbers(hospitals):
    seen = []

    def kept(x):
        noise = torch.randn_like(x)
        seen.append(noise)
        return x + noise

    train(hospitals[:1], "local", transform=kept, engine="loop", batch=30)
    steps = [n for n in seen if n.shape[0] == len(hospitals[0].train)]
    assert len(steps) == 4  # two rounds of two epochs
    assert not any(torch.equal(a, b) for i, a in enumerate(steps) for b in steps[:i])


# what is refused


def mixes(x):
    return x + x.mean(0)


def numpy_drawn(x):
    return x + float(np.random.normal())


REFUSED = [
    (mixes, "transform 'mixes' gives a row other numbers when another row changes"),
    (numpy_drawn, "transform 'numpy_drawn' gives other numbers when it is repeated from one seed"),
    (lambda x: x[:, :2], r"gave \[4, 2\] of torch.float32 for x \[4, 4\]"),
    (lambda x: x.double(), "of torch.float64 for x"),
    (lambda x: None, "gave NoneType for x"),
    (lambda x: x / 0, "not finite"),
    (lambda x: x @ x, r"failed on x \[4, 4\]|other numbers"),
    (lambda x: x.nothing, "AttributeError"),
]


@pytest.mark.parametrize(("transform", "said"), REFUSED)
def test_what_cannot_work_is_refused_before_the_first_round(hospitals, transform, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        train(hospitals, transform=transform, out=tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_where_functions_do_not_go(hospitals):
    with pytest.raises(BadInput, match="they cannot know transform 'noisy': take net='in-process'"):
        coterie.train("logistic", hospitals, transform=noisy, net="processes", rounds=1)
    with pytest.raises(BadInput, match="a transform is of the rows themselves"):
        train(hospitals, transform=noisy, features={})
    with pytest.raises(BadInput, match="hmc needs the same rows at each of its steps"):
        coterie.train(nn.Linear(4, 2), hospitals, "bayes-local", kernel="hmc", transform=noisy, rounds=1)
    with pytest.raises(BadInput, match="transform=3 must be a function of x"):
        train(hospitals, transform=3)


def test_it_is_recorded_by_name(hospitals, tmp_path):
    result = train(hospitals, transform=noisy, out=tmp_path / "run")
    assert result.record.config["transform"] == "noisy"
    assert any("training batches go through noisy" in note for note in result.notes)
    found = coterie.compare("logistic", hospitals, ["local"], seeds=1, rounds=1, transform=flipped)
    assert found.records[0].config["transform"] == "flipped"


# datasets that draw their items


class Turned(torch.utils.data.Dataset):
    """Rows with noise from a generator, a new one each time that they are read."""

    def __init__(self, samples, draw):
        self.samples, self.draw, self.reads = samples, draw, 0

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        self.reads += 1
        return self.samples.x[i] + self.draw(), int(self.samples.y[i])


class Still(Turned):
    def __init__(self, samples):
        super().__init__(samples, lambda: 0.0)


DRAWS = {
    "torch": lambda: torch.randn(4),
    "numpy": lambda: torch.tensor(np.random.normal(size=4), dtype=torch.float32),
    "python": lambda: torch.tensor([random.gauss(0, 1) for _ in range(4)]),
}


def turned(hospitals, draw):
    return [
        coterie.Client.from_dataset(Turned(c.train, draw), name=c.name, test=Still(c.test), every_epoch=True)
        for c in hospitals
    ]


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_dataset_is_read_anew_at_each_epoch(hospitals, draw):
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    clients = turned(hospitals, draw)
    state = random.getstate()
    one, again = (flat(train(clients, engine=e)) for e in ("loop", "auto"))
    assert torch.allclose(one, again, atol=1e-5)
    assert random.getstate() == state
    frozen = [
        coterie.Client.from_arrays(c.train.x, c.train.y, name=c.name, test=(c.test.x, c.test.y))
        for c in clients
    ]
    assert not torch.allclose(one, flat(train(frozen)), atol=1e-3)


def test_reading_anew_is_reading_each_row_once_an_epoch(hospitals):
    clients = turned(hospitals, DRAWS["torch"])
    before = [c.again.dataset.reads for c in clients]
    result = train(clients, "local", transform=lambda x: x)
    more = [c.again.dataset.reads - b for c, b in zip(clients, before, strict=True)]
    tried = [m - 4 * len(c.train) for m, c in zip(more, clients, strict=True)]
    assert all(0 <= t <= 40 for t in tried), tried  # a few rows are tried before the first round
    assert result.record.config["transform"] == "every_epoch+<lambda>"
    still = [
        coterie.Client.from_dataset(Still(c.train), name=c.name, test=Still(c.test), every_epoch=True)
        for c in hospitals
    ]
    once = [coterie.Client.from_dataset(Still(c.train), name=c.name, test=Still(c.test)) for c in hospitals]
    assert torch.equal(flat(train(still, engine="loop")), flat(train(once, engine="loop")))


def test_chance_is_not_frozen_unseen(hospitals):
    data, test = Turned(hospitals[0].train, DRAWS["torch"]), Still(hospitals[0].test)
    make = coterie.Client.from_dataset
    with pytest.raises(BadData, match="gives other rows when it is read again: pass every_epoch=True"):
        make(data, name="a", test=test)
    with pytest.raises(BadData, match="the test dataset gives other rows"):
        make(test, name="a", test=data)
    with pytest.raises(BadInput, match="pass test= a dataset without chance"):
        make(data, name="a", every_epoch=True)
    with pytest.raises(BadInput, match="make all of them with from_dataset"):
        train([*turned(hospitals[:1], DRAWS["torch"]), *hospitals[1:]])
