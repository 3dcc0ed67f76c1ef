"""PENS on real data: the small digits, half of the clients with theirs turned upside down."""

import pytest
import torch

from coterie.core.belief import belief_of, stack
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES
from coterie.kernels import SGD
from coterie.methods.peers import PENS, Random
from coterie.metrics.collaboration import neighbours_found
from coterie.models import MODELS

# in the order `program` the first picks are those of untrained models, the same in every sampling: as many
# rounds as others there are, so that these picks alone stay below what chance would give
ROUNDS, STEP_1 = 12, 10


@pytest.fixture(scope="module")
def federation(net_of):
    """Ten clients with 126 digits each (the thesis: 125 pictures), five of each kind."""

    def make(seed: int):
        key = Key(seed)
        dealt = deal_clients(
            SOURCES.make("digits").load(),
            SPLITS.make("clusters"),
            10,
            key.at("data"),
            test=0.3,
            validation=0.0,
        )
        model = MODELS.make("logistic").build((1, 8, 8), 10, key.at("model", 0).integer())
        return net_of(model, dealt.clients, "auto"), stack([belief_of(model)])

    return make


def last_weights(method, net, beliefs, seed) -> torch.Tensor:
    state = method.init(beliefs, len(net.names))
    for r in range(1, ROUNDS + 1):
        state, info = method.round(state, net, Key(seed).at_round(r, ROUNDS))
    return info.weights


@pytest.mark.parametrize(
    ("order", "direction"),
    [("thesis", "mine-on-theirs"), ("thesis", "theirs-on-mine"), ("program", "mine-on-theirs")],
)
@pytest.mark.parametrize("seed", range(3))
def test_nearly_all_neighbours_are_of_the_same_kind(federation, seed, order, direction):
    net, beliefs = federation(seed)
    # 4 of 9 others are of one's own kind: of 5 asked, there is one in all but 1 of 126 samplings
    work = SGD(batch=8, epochs=5 if order == "thesis" else 2)
    method = PENS(work, order, direction=direction, sampled=5, samplings=10, rounds_step1=STEP_1)
    found = neighbours_found(last_weights(method, net, beliefs, seed), net.clusters)
    assert found.mean_precision > 0.95
    assert found.mean_recall > 0.3


def test_blind_picks_are_mostly_wrong(federation):
    net, beliefs = federation(0)
    blind = last_weights(Random(SGD(batch=8), selected=4), net, beliefs, 0)
    assert neighbours_found(blind, net.clusters).mean_precision < 0.7
