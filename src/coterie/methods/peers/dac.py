"""DAC: sample peers by how well their models do on one's own data, guessing what was not tried.

Listo Zec, Ekblom, Willbo, Mogren and Girdzijauskas, 2022, "Decentralized adaptive clustering of deep nets is
beneficial for client collaboration", arXiv:2206.08839.

    s_kj = 1 / loss of w_j on D_k, when j was last sampled               tried
    s_kj = s_ij,  i = argmax s_ki over k's sampled i that know j         otherwise: two_hops
    C_k  = m_selected others, drawn one by one from softmax_j(τ s_kj)    draw_by
    w_k ← (w_k + Σ_{j∈C_k} w_j) / (1 + |C_k|)

D_k are training data, τ is `tau`, m_selected `selected`; s is Info's matrix `similarity`, the losses are
`loss`. Where nothing is known s = 0, so that the first round draws evenly.

Deviations. All weigh alike in the average, where the authors' program weighs by numbers of samples. There a
client passes on its guesses too; here only what it has tried, so that two hops are two. There all train once
and then average and train in turn (`order` program). Its second variant, with a τ that grows from round to
round, is not offered. Losses below 1e-6 count as 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Held, Info, Key, Net, Partners, Reveals
from coterie.core.method import METHODS
from coterie.core.options import bounded
from coterie.methods.peers.random import Random
from coterie.methods.peers.rounds import Choices, Notes, Peers, Shown, play
from coterie.methods.peers.turns import State, Turns

LEAST = 1e-6  # of a loss


@METHODS.register("dac")
@dataclass(frozen=True)
class DAC(Random):
    """Everybody averages with others drawn by how well their models do on its data."""

    chooses: ClassVar[Partners] = Partners(
        by={"loss": "low", "similarity": "high"},
        shares="model",
        words={
            "en": "Others are asked the more often, the better their models do on your rows.",
            "fr": "Les autres sont sollicités d'autant plus souvent que leurs modèles réussissent "
            "mieux sur vos lignes.",
            "de": "Andere werden umso öfter gefragt, je besser ihre Modelle auf Ihren Zeilen abschneiden.",
        },
    )

    tau: float = bounded(30.0, "be at least 0 and finite", "try 30")
    """How much likelier the better ones are drawn; 0 draws evenly."""

    def init(self, start: Held, net: Net) -> State:
        n = len(net.roster)
        nothing = {
            "similarity": torch.zeros(n, n, dtype=torch.float64),
            "tried": torch.zeros(n, n, dtype=torch.bool),
        }
        return self.begun(start, net, nothing)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        draws, alike = key.at("peers").torch(), self.tau * state.notes["similarity"]
        asked = [[draw_by(row, k, self.selected, draws)] for k, row in enumerate(alike)]
        choices = Choices(asked, direction="theirs-on-mine", learn=_learned, show=_shown)
        return play(self, state, net, key, choices)

    def reveals(self, scored: Sequence[str] = ()) -> Reveals:
        return Peers.reveals(self, ("loss",))


def _learned(notes: Notes, turns: Turns) -> Notes:
    """Similarities after a round's losses."""
    fresh = ~turns.scores.merit.isnan()
    similarity = torch.where(fresh, 1 / (-turns.scores.merit).clamp(min=LEAST), notes["similarity"])
    tried = notes["tried"] | fresh
    return {"similarity": two_hops(similarity, tried, fresh), "tried": tried}


def _shown(turns: Turns, notes: Notes) -> Shown:
    known = notes["similarity"] > 0
    return {}, {"similarity": notes["similarity"].where(known, math.nan)}


def two_hops(similarity: Tensor, tried: Tensor, sampled: Tensor) -> Tensor:
    """s, with guesses where k has not tried j: what the most alike of k's sampled [k, i] found of j."""
    guessed = similarity.clone()
    for k in range(len(similarity)):
        friends = sampled[k].nonzero().flatten()
        # the least alike first, so that the most alike has the last word
        for i in friends[similarity[k, friends].argsort(stable=True)].tolist():
            ask = tried[i] & ~tried[k]
            ask[k] = False
            guessed[k, ask] = similarity[i, ask]
    return guessed


def draw_by(logits: Tensor, me: int, size: int, draws: torch.Generator) -> Tensor:
    """`size` others without replacement, each next one from the softmax over those left (Gumbel's trick)."""
    uniform = torch.rand(len(logits), generator=draws, dtype=torch.float64).clamp(min=1e-300)
    noisy = logits - (-uniform.log()).log()
    noisy[me] = -math.inf
    return noisy.argsort(descending=True, stable=True)[:size]
