"""A method of one's own whose state lives by the order of its maps, cut and resumed, ends as an uncut run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.held import Held
from coterie.core.kernel import Trainer
from coterie.core.method import METHODS, Info, Models, Reveals, handed_out, scatter
from coterie.core.net import Net, to_own
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.core.wire import pack, unpack
from coterie.kernels.sgd import SGD
from coterie.nets.site import Site
from coterie.runs.builder import Builder
from coterie.runs.folder import Folder, read_models
from coterie.runs.loop import run
from coterie.runs.settings import Settings
from coterie.storage.atomic import read_lines


class Cut(BaseException):
    """Stands for a kill: nothing is saved on its way out."""


@dataclass(frozen=True)
class Turn:
    """How far the method has gone, and by which steps."""

    past: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class State:
    beliefs: Held
    pulls: dict[str, Tensor]
    turn: Turn | None = None


@dataclass(frozen=True)
class Ordered:
    """Draws models together by what its map says, the first name counting most."""

    local: Trainer = SGD()
    odd: bool = False

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return ()

    def init(self, start: Held, net: Net) -> State:
        pulls = {"weight": torch.tensor([0.2]), "bias": torch.tensor([0.7]), "also": torch.tensor([0.1])}
        return State(handed_out(start, net), pulls)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, to_own(n), key)
        share = sum(float(p) / 3**i for i, p in enumerate(state.pulls.values()))
        weights = (1 - share) * torch.eye(n) + share / n
        mixed = net.mix(weights.double(), replies.beliefs, at=torch.arange(n))
        pulls = {name: 0.5 * p + 0.1 * i for i, (name, p) in enumerate(state.pulls.items())}
        turn = Turn((*(state.turn.past if state.turn else ()), share))
        if self.odd:
            turn = {share}
        return State(mixed, pulls, turn), Info(weights, scatter(replies.numbers["loss"], replies.hosts, n))

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(sites=True)


@pytest.fixture
def experiment(monkeypatch):
    monkeypatch.setattr(METHODS, "_known", {**METHODS._known, "ordered": Ordered})
    builder = Builder()

    def make(net: str, **options):
        return builder.prepare(
            Settings(
                data="digits",
                split="iid",
                clients=2,
                model="logistic",
                method="ordered",
                net=net,
                rounds=4,
                options={"ordered": options, "sgd": {"batch": 64, "momentum": 0.5, "keep": True}},
            )
        )

    return make


def go(path: Path, what, until: int = 0) -> None:
    def watch(record) -> None:
        if until and record.done == until:
            raise Cut

    folder = Folder(path) if path.exists() else Folder.create(path, what.config, what.about)
    try:
        run(what, folder, "ordered", watch)
    finally:
        folder.close()
        what.net.close()


@pytest.mark.parametrize("net", ["in-process", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_cut_run_ends_as_the_uncut_one(experiment, tmp_path, net):
    go(tmp_path / "whole", experiment(net))
    with pytest.raises(Cut):
        go(tmp_path / "cut", experiment(net), until=2)
    go(tmp_path / "cut", experiment(net))
    whole, cut = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "cut"))
    assert [line["scores"] for line in cut] == [line["scores"] for line in whole]
    models = [read_models(tmp_path / name) for name in ("whole", "cut")]
    for client, belief in models[0].items():
        assert list(belief) == list(models[1][client])
        assert all(torch.equal(t, models[1][client][name]) for name, t in belief.items())


def test_a_state_that_would_come_back_as_another_ends_the_run_where_it_first_appears(experiment, tmp_path):
    with pytest.raises(BadInput, match=r"state/turn is a set: keep sorted\(x\) as a list$"):
        go(tmp_path / "run", experiment("in-process", odd=True))


def test_what_a_site_stores_comes_back_in_its_order(tmp_path):
    rows = Samples(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))
    site = Site(Client("a", rows, rows, rows), 0, tmp_path)
    begin = {"do": "begin", "model": "logistic", "options": {}, "shape": [2], "outputs": 2}
    site.answer(pack({**begin, "precision": "float32", "engine": {"name": "loop"}}, {}))
    belief = {"7/weight": torch.randn(3, 2).T, "7/bias": torch.randn(2), "7/also": torch.zeros(1).double()}
    site.answer(pack({"do": "take", "copies": False}, belief))
    assert list(site.held[7]) == ["weight", "bias", "also"]
    memory = {"z": torch.ones(1, 2), "a": torch.ones(1)}
    site.net.slots.write("s", 1, torch.tensor([0]), memory, memory)
    site.answer(pack({"do": "store", "live": [7], "round": 1}, {}))
    site.held = {}
    site.answer(pack({"do": "fetch", "live": [7], "round": 1, "fresh": True}, {}))
    assert list(site.held[7]) == ["weight", "bias", "also"]
    assert list(site.net.slots.before("s", 2)) == ["z", "a"]


def test_tensors_of_a_message_come_in_the_order_in_which_they_were_sent():
    sent = {"z": torch.zeros(1), "a": torch.zeros(2).double(), "m": torch.zeros(0)}
    message, came = unpack(pack({"b": 1, "a": 2}, sent))
    assert list(came) == ["z", "a", "m"]
    assert list(message) == ["b", "a"]
