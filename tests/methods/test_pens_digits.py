"""PENS on real data: the small digits, half of the clients with theirs turned upside down."""

import pytest

from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES
from coterie.kernels import SGD
from coterie.methods import PENS, Random
from coterie.metrics.collaboration import neighbours_found
from coterie.models import MODELS

# in the order `program` the first picks are those of untrained models, the same in every sampling: as many
# rounds as others there are, so that these picks alone stay below what chance would give
ROUNDS, STEP_1 = 11, 10


@pytest.fixture
def found(net_of, play):
    """Whom clients find, half of each kind; ten have 126 digits each (the thesis: 125 pictures)."""

    def make(method, seed, rounds=ROUNDS, clients=10):
        key = Key(seed)
        digits, split = SOURCES.make("digits").load(), SPLITS.make("clusters")
        dealt = deal_clients(digits, split, clients, key.at("data"), test=0.3, validation=0.0)
        model = MODELS.make("logistic").build((1, 8, 8), 10, key.at("model", 0).integer())
        net = net_of(model, dealt.clients, "auto")
        _, infos = play(method, net, model, rounds, seed)
        return neighbours_found(infos[-1].weights, net.roster.clusters)

    return make


@pytest.mark.parametrize(
    ("seed", "order", "direction"),
    [(0, "thesis", "theirs-on-mine"), (1, "program", "mine-on-theirs")],
)
def test_nearly_all_neighbours_are_of_the_same_kind(found, seed, order, direction):
    # 4 of 9 others are of one's own kind: of 5 asked, there is one in all but 1 of 126 samplings
    work = SGD(batch=8, epochs=5 if order == "thesis" else 2)
    method = PENS(work, order, direction=direction, sampled=5, samplings=10, rounds_step1=STEP_1)
    neighbours = found(method, seed)
    assert neighbours.mean_precision > 0.95
    assert neighbours.mean_recall > 0.3


@pytest.mark.parametrize("order", ["thesis", "trained"])
@pytest.mark.parametrize("clients", [6, 20])
def test_the_defaults_find_one_s_own_kind_with_an_epoch_a_round(found, clients, order):
    neighbours = found(PENS(order=order), 0, rounds=30, clients=clients)
    assert neighbours.mean_precision > 0.95
    assert neighbours.mean_recall > 0.25


def test_blind_picks_are_mostly_wrong(found):
    assert found(Random(SGD(batch=8), selected=4), 0, rounds=1).mean_precision < 0.7
