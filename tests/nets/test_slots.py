"""What hosts keep between visits: one version a round, so that a round can be done again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.held import hold
from coterie.core.net import SERVER, edges_of, from_server
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.nets.slots import Slots

FRESH = {"v": torch.zeros(1, 1)}


def keep(slots, round, values, slot="s"):
    """Values by host."""
    memory = {"v": torch.tensor(list(values.values())).reshape(-1, 1)}
    before = slots.before(slot, round)
    slots.write(slot, round, torch.tensor(list(values)), memory, FRESH if before is None else before)


def read(slots, round, slot="s"):
    found = slots.before(slot, round)
    return None if found is None else found["v"].flatten().tolist()


@pytest.fixture
def three():
    """Rounds 1, 2 and 4 of three hosts; in round 3 nobody was visited."""
    slots = Slots(3)
    keep(slots, 1, {0: 1.0, 2: 3.0})
    keep(slots, 2, {2: 30.0})
    keep(slots, 4, {1: 200.0, 0: 100.0})
    return slots


def test_a_round_reads_what_was_kept_before_it(three):
    assert [read(three, r) for r in (1, 2, 3, 4, 5)] == [
        None, [1, 0, 3], [1, 0, 30], [1, 0, 30], [100, 200, 30],
    ]  # fmt: skip
    assert read(three, 9, slot="other") is None


def test_visits_of_one_round_to_different_hosts_add_up(three):
    keep(three, 4, {2: 300.0})
    assert read(three, 5) == [100, 200, 300]
    assert read(three, 4) == [1, 0, 30]


def test_drop_leaves_what_a_later_round_reads(three):
    three.drop(3)
    assert read(three, 2) is None
    assert (read(three, 4), read(three, 5)) == ([1, 0, 30], [100, 200, 30])


def test_rewind_drops_what_came_after(three):
    three.rewind(2)
    assert read(three, 9) == [1, 0, 30]
    three.rewind(0)
    assert read(three, 9) is None


@pytest.mark.parametrize("slot", ["", "circle 3", "it's", 'a "b"', "x|2|y", "a\\b", "naïve\n"])
def test_saved_and_loaded_under_any_name(slot):
    slots, again = Slots(2), Slots(2)
    keep(slots, 1, {0: 5.0}, slot)
    keep(slots, 3, {1: 6.0}, slot)
    again.load(slots.tensors())
    assert (read(again, 2, slot), read(again, 4, slot)) == ([5, 0], [5, 6])


class TestVisits:
    kernel = SGD(lr=0.25, momentum=0.5, keep=True)

    def net(self, client_of, net_of):
        clients = [client_of(torch.ones(1, 1), torch.tensor([y]), name=str(y)) for y in (0.0, 10.0)]
        return net_of(nn.Linear(1, 1, bias=False), clients)

    def play(self, net, round, hosts=(0, 1)):
        start, edges = hold({"weight": torch.full((1, 1, 1), 2.0)}, SERVER), from_server(torch.tensor(hosts))
        replies = net.visit(self.kernel, start, edges, Key(0).at_round(round, 9))
        return replies.beliefs.tensors["weight"].flatten().tolist()

    def test_a_round_can_be_done_again_to_the_same_numbers(self, client_of, net_of):
        net = self.net(client_of, net_of)
        # slopes 4 and -16, times 0.25; then velocities 6 and -24, and 7 and -28
        assert self.play(net, 1) == [1, 6]
        assert self.play(net, 2) == self.play(net, 2) == [0.5, 8]
        assert self.play(net, 3) == [0.25, 9]
        assert self.play(net, 2) == [0.5, 8]

    def test_a_net_goes_on_from_what_another_kept(self, client_of, net_of):
        first, pooled = self.net(client_of, net_of), [[0, 1]]
        for r in (1, 2):
            self.play(first, r)
            self.play(first.in_one_place(pooled), r, (0,))
        first.keep([], 1)
        kept, second = first.kept([], 1), self.net(client_of, net_of)
        second.restore(kept, [], 1)
        assert self.play(second, 2) == [0.5, 8]
        # both clients' rows in one: slope -6, then velocity -9
        assert self.play(second.in_one_place(pooled), 2, (0,)) == [4.25]

    def test_an_empty_visit_keeps_what_there_is(self, client_of, net_of):
        net = self.net(client_of, net_of)
        self.play(net, 1)
        start = hold({"weight": torch.zeros(1, 1, 1)}, SERVER)
        assert len(net.visit(self.kernel, start, edges_of([]), Key(0).at_round(2, 9))) == 0
        assert self.play(net, 3) == [0.5, 8]
