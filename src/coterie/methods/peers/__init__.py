"""Learning without a server: everybody has a model of its own and averages it with those of some peers."""

from coterie.methods.peers.d_psgd import DPSGD
from coterie.methods.peers.dac import DAC
from coterie.methods.peers.epsilon_greedy import EpsilonGreedy
from coterie.methods.peers.gossip import Gossip
from coterie.methods.peers.greedy import Greedy
from coterie.methods.peers.oracle import Oracle
from coterie.methods.peers.pens import PENS
from coterie.methods.peers.random import Random
from coterie.methods.peers.random_weighted import RandomWeighted

__all__ = [
    "DAC",
    "DPSGD",
    "PENS",
    "EpsilonGreedy",
    "Gossip",
    "Greedy",
    "Oracle",
    "Random",
    "RandomWeighted",
]
