"""D-PSGD: everybody averages with its neighbours in a fixed graph.

Lian, Zhang, Zhang, Hsieh, Zhang and Liu, 2017, "Can decentralized algorithms outperform centralized
algorithms? A case study for decentralized parallel stochastic gradient descent".

    w_k ← Σ_j W_kj LocalWork(w_j)
    W_kj = 1 / (1 + max(d_k, d_j)) on edges,   W_kk = 1 - Σ_{j≠k} W_kj         metropolis

d_k is the number of k's neighbours. The paper asks for a symmetric W whose rows and columns add up to 1 and
leaves its choice open: these are Metropolis weights (Xiao, Boyd and Lall, 2005, "A scheme for robust
distributed sensor fusion based on average consensus"), by which the mean of all models stays where it is if
all average at-once.

Deviations. The paper's step goes from the averaged model, with the gradient at the model before; here models
are averaged after the step. Local work may be more than one step. Whoever is gone leaves its weight to those
who would have heard it. A graph in several pieces is allowed: each piece learns for itself, the run's notes
say so, and Info's extras of how many `pieces`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Info, Key, Net, Partners, Roster
from coterie.core.method import METHODS
from coterie.core.options import bounded, chosen
from coterie.core.partners import WEIGHTS
from coterie.methods.peers.rounds import Choices, Order, Peers, play
from coterie.methods.peers.turns import State

Graph = Literal["ring", "torus", "erdos-renyi"]


@METHODS.register("d-psgd")
@dataclass(frozen=True)
class DPSGD(Peers):
    """Everybody averages with its neighbours in a fixed graph."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        shares="model",
        words={
            "en": "Each averages with its neighbours in a fixed graph; nothing is measured of them.",
            "fr": "Chacun fait la moyenne avec ses voisins dans un graphe fixe ; rien n'est mesuré chez eux.",
            "de": "Jeder mittelt mit seinen Nachbarn in einem festen Graphen; von ihnen wird nichts "
            "gemessen.",
        },
    )

    order: Order = "at-once"
    graph: Graph = chosen("ring", Graph)
    """ring; torus, as square as the number of clients allows; erdos-renyi: each edge by chance."""
    edge_chance: float = bounded(0.5, "lie between 0 and 1", "try 0.5")
    """With which chance an erdos-renyi graph has an edge."""

    def links(self, n: int, key: Key) -> Tensor:
        """The graph of this run: the same in every round."""
        return links_of(self.graph, n, self.edge_chance, Key(key.seed, ("graph",)).integer())

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        said, pieces = super().check(roster, start, key), _pieces_of(self.links(len(roster), key))
        if pieces > 1:
            said.append(f"the {self.graph} graph is in {pieces} pieces, each of which learns for itself")
        return said

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        links = self.links(len(net.roster), key)
        choices = Choices(
            asked=[[row.nonzero().flatten()] for row in links],
            weigh=lambda me, picked, merit: metropolis(me, picked, links.sum(dim=1)),
            show=lambda turns, notes: ({"pieces": _pieces_of(links)}, {}),
        )
        return play(self, state, net, key, choices)


def metropolis(me: int, picked: Tensor, degree: Tensor) -> Tensor:
    """A row of W: 1 / (1 + max(d_k, d_j)) for the neighbours there, the rest for oneself; [client]."""
    row = torch.zeros(len(degree), dtype=torch.float64)
    row[picked] = 1 / (1 + degree[picked].clamp(min=int(degree[me])).double())
    row[me] = 1 - row.sum()
    return row


def _pieces_of(links: Tensor) -> int:
    """In how many pieces a graph [client, client] is."""
    import networkx as nx  # type: ignore[import-untyped]  # only here: it takes a while to import

    return int(nx.number_connected_components(nx.from_numpy_array(links.numpy())))


@lru_cache(maxsize=4)  # asked for by every client of every round
def links_of(graph: Graph, n: int, edge_chance: float, seed: int) -> Tensor:
    """[client, client] who is whose neighbour; nobody is one's own."""
    import networkx as nx

    if graph == "ring":
        made = nx.cycle_graph(n)
    elif graph == "torus":
        high = max(h for h in range(1, math.isqrt(n) + 1) if n % h == 0)
        made = nx.convert_node_labels_to_integers(
            nx.grid_2d_graph(high, n // high, periodic=True), ordering="sorted"
        )
    else:
        made = nx.gnp_random_graph(n, edge_chance, seed=seed % 2**32)
    made.remove_edges_from(list(nx.selfloop_edges(made)))
    return torch.from_numpy(nx.to_numpy_array(made, nodelist=range(n)) > 0)
