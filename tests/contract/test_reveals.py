"""A curious coordinator: what reaches it is what the method says; and what works if nothing may be opened."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from table import ROUNDS, ROWS, SEED, SOLVED, Here, clients_of, method_of, model_for, remote_of, start_of

from coterie.core.errors import Refused
from coterie.core.held import COORDINATOR, handles_in
from coterie.core.method import Reveals
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import METHODS
from coterie.nets.courier import Courier
from coterie.nets.remote import Remote
from coterie.report.reveals import reveals_page

PAGE = Path(__file__).parents[2] / "docs" / "reveals.md"
# what may look at replies or move rows: yardsticks, metrics that look at layers, medians
OPENING = {"central", "central by cluster", "bayes-central", "guided", "fedkg", "fedunique"}
OPENING |= {"robust-personal of one by medians, half a step"}


class Noting(Courier):
    """Notes every tensor and number that reaches the coordinator."""

    def __init__(self, *told) -> None:
        self.notes = {"coordinator": False, "opened": False, "sites": False, "numbers": set(), "rows": False}
        super().__init__(*told)

    def seen(self, place, tensors):
        self.notes["coordinator"] = True

    def heard(self, place, names):
        self.notes["numbers"] |= {name.partition("/")[0] for name in names}

    def carry(self, peer_messages, why):
        self.notes["sites"] |= any(to != COORDINATOR for _, to in peer_messages)
        super().carry(peer_messages, why)


class Curious(Remote):
    """A coordinator that notes what it learns."""

    courier = Noting

    def open(self, beliefs):
        away = any(bool((p.places != COORDINATOR).any()) for p in beliefs.parts)
        self.post.notes["opened"] |= away
        return super().open(beliefs)

    def in_one_place(self, groups):
        self.post.notes["rows"] = True
        return super().in_one_place(groups)


class Closed(Curious):
    """Sites have not allowed anything of theirs to be opened, or their rows to move."""

    def open(self, beliefs):
        if any(bool((p.places != COORDINATOR).any()) for p in beliefs.parts):
            raise Refused("open: sites have not allowed it")
        return super().open(beliefs)

    def in_one_place(self, groups):
        raise Refused("rows: sites have not allowed them to move")


def run(row, kind):
    """Three rounds on sites that see nothing but messages, with local work that every method takes: one step,
    as what is told does not depend on how many there are.
    """
    method, model = method_of(row, SGD(lr=0.1, batch=100)), model_for(row)
    net = remote_of(Here(clients_of(torch.float64)), model, torch.float64, kind=kind)
    start = start_of(model, torch.float64)
    method.check(net.roster, start.tensors, Key(SEED, rounds=ROUNDS))
    state = method.init(start, net)
    for r in range(1, ROUNDS + 1):
        state, _ = method.round(state, net, Key(SEED).at_round(r, ROUNDS))
        net.keep(handles_in(state), r)
    return method, net


@pytest.mark.parametrize("row", [*ROWS, *SOLVED])
def test_the_notes_of_a_curious_coordinator_are_what_the_method_says(row):
    """With nothing to be opened every method runs, but those that have to look."""
    looks = row in OPENING or row.startswith("guided")
    if looks:
        with pytest.raises(Refused):
            run(row, Closed)
    method, net = run(row, Curious if looks else Closed)
    said, noted = method.reveals(), net.post.notes
    assert noted.pop("numbers") == set(said.numbers)
    assert Reveals(numbers=said.numbers, **noted) == said


def test_no_personal_model_reaches_the_coordinator():
    """But replies to a shared model, where there is one: the test above holds the methods to their word."""
    seen = {row for row in ROWS if method_of(row).reveals().coordinator}
    assert {row for row in seen if row not in OPENING and not row.startswith("guided")} == {
        *(
            "advised",
            "apfl",
            "cfl",
            "ditto",
            "fedadagrad",
            "fedadam",
            "fedala",
            "fedavg",
            "fedavgm",
            "fedper",
        ),
        *("fedprox", "fedrep", "fedyogi", "finetune", "ifca", "partial", "per-fedavg", "pfedme", "pooled"),
        *("recalibrated", "robust", "scaffold"),
        "robust by a root's trust",
        "scaffold of some, weighed, half a step",
    }


def test_the_page_says_what_methods_say():
    """`coterie methods --reveals > docs/reveals.md` writes it."""
    assert PAGE.read_text() == reveals_page()
    assert all(f"| `{name}` |" in PAGE.read_text() for name in METHODS)
