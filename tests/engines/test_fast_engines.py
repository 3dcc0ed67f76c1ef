"""What is particular to the fast engines; that all numbers agree is the business of tests/contract."""

import logging

import pytest
import torch
from torch import nn

from coterie.core import belief as tree
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.net import edges_of, to_own
from coterie.core.seeds import Key
from coterie.engines import Auto, Loop, Pool, Stacked, passage, replay
from coterie.engines import stacked as stacked_module
from coterie.engines.auto import CACHED, LARGE, SMALL, TINY, choose
from coterie.engines.bank import Bank, adjoined
from coterie.engines.eager import channels_last
from coterie.engines.memory import budget_in_bytes, free_bytes
from coterie.kernels import SGD, SWAG, Adam, Gather, Proximal, Score
from coterie.nets import InProcess

KEY = Key(0).at_round(1, 1)


def clients_of(sizes, shape=(3,)):
    draws = torch.Generator().manual_seed(0)
    made = []
    for i, n in enumerate(sizes):
        part = Samples(torch.randn(n, *shape, generator=draws), torch.randint(2, (n,), generator=draws))
        made.append(Client(name=f"c{i}", train=part, test=part, validation=Samples(part.x[:0], part.y[:0])))
    return tuple(made)


def net_of(engine, model, sizes=(5, 3, 8), shape=(3,), memory="half"):
    net = InProcess(engine, Learner(model, "classification"), clients_of(sizes, shape), memory=memory)
    return net, held(tree.repeat(tree.stack([tree.belief_of(model)]), len(sizes)))


def held(tensors):
    return hold(tensors, at_coordinator(tree.count(tensors)))


def trained(prepared, work):
    """What comes of every belief at its own client, in a first round."""
    net, beliefs = prepared
    return net.visit(work, beliefs, to_own(len(beliefs)), KEY).beliefs.tensors


def all_same(found):
    return all(torch.equal(other[n], t) for other in found[1:] for n, t in found[0].items())


class TestBank:
    def test_samples_are_held_once_and_clients_are_views(self):
        net, _ = net_of(Loop(), nn.Linear(3, 2))
        bank = net.banks["train"]
        assert bank.starts.tolist() == [0, 5, 8]
        assert bank.sizes.tolist() == [5, 3, 8]
        for i, client in enumerate(net.clients):
            assert client.train.x.untyped_storage().data_ptr() == bank.x.whole.untyped_storage().data_ptr()
            assert torch.equal(client.train.x, clients_of((5, 3, 8))[i].train.x)

    def test_neighbours_are_joined_without_a_copy_but_strangers_and_gaps_are_copied(self):
        x = torch.arange(12.0).reshape(6, 2)
        joined = adjoined([x[:2], x[2:2], x[2:6]])
        assert torch.equal(joined, x)
        assert joined.data_ptr() == x.data_ptr()
        for parts in ([x[:2], x[3:]], [x[3:], x[:2]], [x, x.clone()]):
            assert torch.equal(adjoined(parts), torch.cat(parts))

    def test_what_clients_share_is_held_once(self):
        shared, own = (Samples(torch.randn(n, 2), torch.zeros(n)) for n in (4, 3))
        bank = Bank.of([shared, own, shared])
        assert len(bank.x) == 7
        assert bank.starts.tolist() == [0, 4, 0]
        assert torch.equal(bank.part(2).x, shared.x)
        nothing = Samples(torch.zeros(0, 2), torch.zeros(0))
        assert Bank.of([nothing, nothing]).part(1).x.shape == (0, 2)

    def test_pooling_all_copies_nothing(self):
        net, _ = net_of(Loop(), nn.Linear(3, 2))
        everything = net.in_one_place([range(3)])
        assert everything.banks["train"].x.whole.data_ptr() == net.banks["train"].x.whole.data_ptr()
        assert everything.roster.sizes.tolist() == [16]


class Counting(nn.Linear):
    passes = 0

    def forward(self, x):
        Counting.passes += 1
        return super().forward(x)


class TestScoring:
    def test_a_pair_is_scored_once_and_all_guests_in_one_pass(self, monkeypatch):
        monkeypatch.setattr(replay, "PATIENCE", 100)  # recording passes some times more
        net, beliefs = net_of(Stacked(), Counting(3, 2))
        edges = edges_of([(0, 2), (0, 0), (1, 1), (0, 2), (0, 1)])
        net.visit(Score(), beliefs, edges, Key(0))  # what the model is like is found out once, by trying
        Counting.passes = 0
        replies = net.visit(Score(), beliefs, edges, Key(0))
        assert Counting.passes == 1
        assert torch.equal(replies.edges, edges)
        alone = [net.visit(Score(), beliefs, edges_of([pair]), Key(0)) for pair in edges.tolist()]
        for figure, values in replies.numbers.items():
            expected = torch.cat([a.numbers[figure] for a in alone])
            torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("channels", [1, 3])
    def test_pictures_a_few_at_a_time_and_side_by_side_score_as_all_at_once(self, channels, monkeypatch):
        monkeypatch.setattr(passage, "NUMBERS", 4 * channels * 36)  # four pictures at a time
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        model.append(nn.Linear(16, 2))
        net, _ = net_of(Stacked(), model, (5, 9, 8), (channels, 6, 6))
        others = [tree.belief_of(model), {n: -t for n, t in tree.belief_of(model).items()}]
        edges = edges_of([(0, 2), (1, 0), (0, 0), (1, 1)])
        found = net.visit(Score(), held(tree.stack(others)), edges, Key(0)).numbers
        for i, (guest, host) in enumerate(edges.tolist()):
            mine = net.clients[host].test
            with torch.no_grad():
                out = torch.func.functional_call(model, others[guest], (mine.x,))
            loss = nn.functional.cross_entropy(out, mine.y)
            torch.testing.assert_close(found["loss"][i].float(), loss, rtol=1e-5, atol=1e-6)
            assert found["accuracy"][i] == (out.argmax(1) == mine.y).double().mean()


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 1, 4, 5), (2, 3)])
def test_the_same_pictures_with_channels_last(shape):
    x = torch.randn(shape)
    last = channels_last(x)
    assert torch.equal(last, x)
    if len(shape) == 4:
        out = torch.nn.functional.conv2d(last, torch.ones(4, shape[1], 2, 2))
        assert out.is_contiguous(memory_format=torch.channels_last)


class TestStacked:
    def test_chunks_change_nothing(self, monkeypatch):
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        found = []
        for at_once in (1, 2, 256):
            monkeypatch.setattr(stacked_module, "LOCKSTEP", at_once)
            found.append(trained(net_of(Stacked(), model, (5, 3, 8, 1, 6)), SGD(batch=2)))
        for other in found[1:]:
            for name, tensor in found[0].items():
                torch.testing.assert_close(other[name], tensor, rtol=1e-6, atol=1e-7)

    def test_the_budget_bounds_the_edges_at_once(self):
        # a belief of 8 floats and a batch of 2 rows of 3: 8 * 32 + 8 * 24 bytes; the counter of steps: 2 * 8
        # SWAG's book: mean, variance and 5 columns of 8 floats, and three counters more: 2 * 248
        plain, swag = SGD(batch=2), SWAG(batch=2, rank=5)
        for work, memory, edges in ((plain, "9k", 9000 // 464), (plain, "1", 1), (swag, "9k", 9000 // 960)):
            net, beliefs = net_of(Stacked(), nn.Linear(3, 2), memory=memory)
            fresh = tree.stack([work.fresh(net.learner, tree.row(beliefs.tensors, 0))])
            assert Stacked().edges_at_once(net, beliefs.tensors, [work.plan(5, KEY)], fresh) == edges

    @pytest.mark.parametrize(
        ("layer", "said"),
        [
            (nn.BatchNorm1d(3), "batch norm (BatchNorm1d)"),
            (nn.RReLU(), "random numbers of its own"),
        ],
    )
    def test_refusals(self, layer, said):
        with pytest.raises(BadInput) as refusal:
            trained(net_of(Stacked(), nn.Sequential(layer, nn.Linear(3, 2))), SGD())
        assert said in str(refusal.value)
        assert "use pool or auto" in str(refusal.value)

    def test_a_model_that_looks_at_its_values(self):
        class Peeking(nn.Linear):
            def forward(self, x):
                return super().forward(x) if x.sum() > 0 and self.weight.sum() > -1e9 else super().forward(-x)

        with pytest.raises(BadInput, match="operations that have no batched form"):
            trained(net_of(Stacked(), Peeking(3, 2)), SGD())
        assert len(trained(net_of(Auto(), Peeking(3, 2)), SGD())["weight"]) == 3


class TestPool:
    def test_threads_are_given_back(self):
        torch.set_num_threads(2)
        try:
            trained(net_of(Pool(2), nn.Linear(3, 2)), SGD())
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(1)

    def test_more_workers_change_nothing(self):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
        nets = [net_of(Pool(workers), model, (6, 4, 8, 7)) for workers in (1, 2, 4)]
        assert all_same([trained(net, SGD(batch=4)) for net in nets])

    def test_a_module_that_draws_is_repeatable(self):
        model = nn.Sequential(nn.Linear(3, 4), nn.RReLU(), nn.Linear(4, 2))
        before = torch.get_rng_state()
        assert all_same([trained(net_of(Pool(4), model), SGD()) for _ in range(2)])
        assert torch.equal(before, torch.get_rng_state())

    def test_an_error_in_a_worker_reaches_the_caller(self):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        with pytest.raises(BadInput, match="batch norm cannot train on a batch of 1"):
            trained(net_of(Pool(2), model), SGD(batch=1))

    def test_negative_workers(self):
        with pytest.raises(BadInput, match="workers=-1 must be at least 0"):
            Pool(-1)


class TestAuto:
    @pytest.mark.parametrize(
        ("model", "shape", "edges", "name", "why"),
        [
            (nn.Linear(3, 2), (3,), 3, "stacked", "8 parameters, 3 edges"),
            (nn.Linear(3, 2), (3,), 1, "stacked", "8 parameters, 1 edges"),
            (nn.Linear(3, TINY // 2), (3,), 1, "pool", "a single edge"),
            (nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)), (3,), 3, "pool", "batch norm"),
            (nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten()), (1, 3, 3), 3, "pool", "convolutions"),
            (nn.Linear(3, SMALL // 4), (3,), 1000, "stacked", f"{SMALL} parameters, 1000 edges"),
            (nn.Linear(3, SMALL // 2), (3,), CACHED // SMALL // 2, "stacked", "edges"),
            (nn.Linear(3, SMALL // 2), (3,), CACHED // SMALL, "pool", "one model fills a core"),
            (nn.Linear(3, LARGE // 2), (3,), 2, "pool", "one model fills a core"),
        ],
    )
    def test_the_rule(self, model, shape, edges, name, why):
        net, beliefs = net_of(Auto(), model, shape=shape)
        chosen, reason = choose(net, beliefs.tensors, edges)
        assert chosen == name
        assert why in reason

    def test_it_says_what_it_chose(self, caplog):
        with caplog.at_level(logging.INFO, "coterie"):
            trained(net_of(Auto(), nn.Linear(3, 2)), SGD())
        assert "engine stacked for 3 edge(s)" in caplog.text


class TestMemory:
    @pytest.mark.parametrize(
        ("text", "amount"), [("4G", 4 * 10**9), ("500M", 5 * 10**8), ("1.5 GB", 15 * 10**8), ("12", 12)]
    )
    def test_amounts(self, text, amount):
        assert budget_in_bytes(text) == amount

    def test_half_of_what_is_free(self):
        assert 0 < budget_in_bytes("half") < free_bytes()

    @pytest.mark.parametrize("text", ["much", "0", "-1G", "", "4X"])
    def test_refused(self, text):
        with pytest.raises(BadInput, match="must be half or an amount: try 4G"):
            budget_in_bytes(text)


@pytest.mark.parametrize(
    ("layers", "work"),
    [
        ([nn.Linear(3, 4), nn.Dropout(0.4), nn.Linear(4, 2)], SGD(batch=4, momentum=0.9)),
        ([nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 4, 2), nn.GroupNorm(2, 4), nn.Flatten()], Adam(batch=4)),
        ([nn.Linear(3, 2)], Gather(SWAG(batch=4, epochs=2, per="epoch", rank=2))),
        ([nn.Linear(3, 2)], Proximal(SGD(batch=4))),
    ],
    ids=["sgd", "adam", "swag", "proximal"],
)
def test_replayed_bit_for_bit(layers, work, monkeypatch):
    """A resumed run begins without traces: replaying must give the very bits that tracing was made from."""
    model, found = nn.Sequential(*layers), []
    for patience in (10**9, 0, 1):
        monkeypatch.setattr(replay, "PATIENCE", patience)
        net, beliefs = net_of(Stacked(), model, (9, 5, 8))
        beside = {"anchor": beliefs.rows(torch.tensor([0]))}
        found.append(net.visit(work, beliefs, to_own(3), KEY, beside=beside).beliefs.tensors)
    assert any(not torch.equal(found[0][n], t) for n, t in beliefs.tensors.items())
    assert all_same(found)


class Named(nn.Module):
    """A parameter with the name of a counter in every optimiser's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.t = nn.Parameter(torch.full((3, 2), 0.5))

    def forward(self, x):
        return x @ self.t


@pytest.mark.parametrize(
    "kernel", [Adam(keep=True), SGD(momentum=0.5), SWAG()], ids=lambda k: type(k).__name__
)
def test_a_parameter_may_have_the_name_of_a_counter(kernel):
    first, *others = (trained(net_of(engine, Named()), kernel)["t"] for engine in (Loop(), Pool(), Stacked()))
    for other in others:
        torch.testing.assert_close(other, first)
