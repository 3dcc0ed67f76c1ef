"""Natural parameters, their sums, and what is drawn from them, against products of posteriors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, row, stack
from coterie.core.errors import BadInput
from coterie.core.held import hold
from coterie.core.net import SERVER, edges_of, from_server, to_own
from coterie.core.seeds import Key
from coterie.kernels import SGLD, SWAG, Draws, Gather, Natural, Share, Visited
from coterie.kernels.posterior import MINE, collected, make_of, spread_over
from coterie.posteriors import isotropic, mean, product, sample

KEY, RANK, FLOOR = Key(0).at_round(1, 1), 3, 1e-4
FORMS = ["diagonal", "low-rank", "full"]
DRAWS = {"members": 3, "seed": 7}


@pytest.fixture(scope="module")
def three(client_of, net_of):
    """A net of three clients, a model with a buffer, and what SWAG collected at each."""
    torch.manual_seed(2)
    clients = [client_of(torch.randn(n, 3), torch.randint(2, (n,)), name=str(n)) for n in (8, 12, 20)]
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    net, start = net_of(module, clients), hold(stack([belief_of(module)]), SERVER)
    work = Gather(SWAG(lr=0.2, batch=4, epochs=2, rank=RANK))
    return net, start, net.visit(work, start, from_server(torch.arange(3)), KEY).beliefs


def natural_of(net, gathered, form):
    kernel = Natural(form, FLOOR, RANK)
    return net.visit(kernel, gathered, to_own(len(gathered)), KEY)


def joined(net, natural, at=SERVER):
    """The sum of all at a place, and the columns that do not add up."""
    ones = torch.ones(len(at), len(natural), dtype=torch.float64)
    each = {n: ones / len(natural) if n.startswith("buffer/") else ones for n in natural.names}
    columns = {
        f"factor/{i}": natural.rows(torch.tensor([i])).only(["factor"]) for i in range(len(natural))
    } if "factor" in natural.names else {}  # fmt: skip
    return net.mix(each, natural.without(["factor"]), at), columns


@pytest.mark.parametrize(("prior", "temperature"), [(0.0, 1.0), (0.3, 0.25)])
@pytest.mark.parametrize("form", FORMS)
def test_a_sum_of_natural_parameters_is_the_product(form, prior, temperature, three):
    net, start, gathered = three
    each = [collected(row(gathered.tensors, i)) for i in range(3)]
    posteriors = [c.gaussian(form, FLOOR) for c in each]
    trained = {n: t for n, t in each[0].mean.items() if n in each[0].variance}
    wanted = product(posteriors, isotropic(trained, 1 / prior) if prior else None) * (1 / temperature)

    joint, columns = joined(net, natural_of(net, gathered, form).beliefs)
    kernel = Draws(make_of(start.like), prior=prior, temperature=temperature, **DRAWS)
    drawn = net.visit(kernel, joint, edges_of([(0, 1)] * 4), KEY, beside=columns).beliefs
    assert drawn.places.tolist() == [1] * 4
    assert drawn.names == start.names
    models, middle, draws = drawn.tensors, mean(wanted), sample(wanted, 3, Key(7))
    for n in trained:
        torch.testing.assert_close(models[n][0], middle[n], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(models[n][1:], draws[n], rtol=1e-4, atol=1e-5)
        assert models[n].dtype == start.tensors[n].dtype
    # buffers are averaged, those that count come from the first
    means = torch.stack([c.mean["1.running_mean"] for c in each]).mean(0)
    torch.testing.assert_close(models["1.running_mean"], means.expand(4, 2))
    assert models["1.num_batches_tracked"].tolist() == [int(each[0].mean["1.num_batches_tracked"])] * 4


def test_draws_are_the_sites_own_unless_a_seed_is_given(three):
    net, start, gathered = three
    joint, _ = joined(net, natural_of(net, gathered, "diagonal").beliefs)
    edges = edges_of([(0, 0), (0, 0), (0, 1), (0, 1)])

    def weights(seed):
        kernel = Draws(make_of(start.like), 3, seed=seed)
        return net.visit(kernel, joint, edges, KEY).beliefs.tensors["0.weight"]

    own, alike = weights(None), weights(5)
    assert torch.equal(own[0], own[2])
    assert not torch.equal(own[1], own[3])
    assert torch.equal(alike[1], alike[3])


def test_a_product_that_is_none_says_so(three):
    net, start, gathered = three
    joint, _ = joined(net, natural_of(net, gathered, "diagonal").beliefs)
    kernel = Draws(make_of(start.like), prior=1e9, **DRAWS)
    with pytest.raises(BadInput, match=r"product of 3 posteriors has precision .*larger variance"):
        net.visit(kernel, joint, edges_of([(0, 0)]), KEY)


@pytest.mark.parametrize("form", FORMS)
def test_shares_add_up_to_one(form, three):
    net, _, gathered = three
    natural, everyone = natural_of(net, gathered, form).beliefs, torch.arange(3)
    joint, columns = joined(net, natural, everyone)
    found = net.visit(Share(), joint, to_own(3), KEY, beside={MINE: natural, **columns}).numbers["share"]
    assert float(found.sum()) == pytest.approx(1)
    assert bool((found > 0).all())
    if form == "diagonal":
        entries = natural.tensors["diagonal"]
        torch.testing.assert_close(found, (entries / entries.sum(0)).mean(1))


@pytest.mark.parametrize("form", FORMS)
def test_too_little_collected_adds_nothing(form, client_of, net_of):
    module = nn.Linear(1, 1)
    net = net_of(module, [client_of(torch.ones(2, 1), torch.tensor([1.0, 2.0]))])
    start = hold(stack([belief_of(module)]), SERVER)
    one = net.visit(Gather(SWAG(steps=1, origin=False, rank=2)), start, edges_of([(0, 0)]), KEY).beliefs
    replies = net.visit(Natural(form, FLOOR, 2), one, edges_of([(0, 0)]), KEY)
    assert (replies.numbers["count"].tolist(), replies.numbers["columns"].tolist()) == ([1], [1])
    assert all(not t.any() for t in replies.beliefs.tensors.values())
    more = {"diagonal": {"diagonal"}, "low-rank": {"diagonal", "factor"}, "full": {"diagonal", "dense"}}
    assert set(replies.beliefs.names) == {"shift", *more[form]}


def test_visited_brings_the_mean_and_states_spread_over_those_kept(client_of, net_of):
    # w · x on (1, 2) and (2, 4) without noise: each step halves the way from 1 to 2
    data = client_of(torch.tensor([[1.0], [2.0]]).double(), torch.tensor([2.0, 4.0]).double())
    net = net_of(nn.Linear(1, 1, bias=False).double(), [data])
    start = hold({"weight": torch.ones(1, 1, 1).double()}, SERVER)
    work = Gather(SGLD(lr=0.1, batch=2, prior=0, temperature=0, steps=4, rank=4))
    gathered = net.visit(work, start, edges_of([(0, 0)]), KEY).beliefs
    states = [1.5, 1.75, 1.875, 1.9375]
    for edges, wanted in ((1, []), (3, states[1::2]), (5, states)):
        replies = net.visit(Visited(), gathered, edges_of([(0, 0)] * edges), KEY)
        found = replies.beliefs.tensors["weight"].flatten().tolist()
        assert found == pytest.approx([sum(states) / 4, *wanted])
        assert replies.numbers["count"].tolist() == [4] * edges
    assert spread_over(5, 2).tolist() == [2, 4]
