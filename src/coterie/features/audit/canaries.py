"""The one-run audit of a run: its own training once more, with planted rows at one client.

Steinke, Nasr and Jagielski, 2023, "Privacy Auditing with One (1) Training Run". Each of m canaries is put
among the client's training rows with chance 1/2; then the run is done again by its own settings: method,
local work, rounds, seed. Two onlookers guess which canaries were in:

    replies   sees what the client sent: for each visit whose reply θ' left the client, θ and θ'. With the
              gradients g_i of the canaries at θ, it solves for how much of each is in the steps,

                  min_c Σ_visits |θ - θ' - Σ_i c_i ĝ_i|² + λ|c|²,     ĝ_i = g_i / |g_i|

              and takes c_i for the score of canary i (`shares_of`). The paper scores by the product of step
              and gradient; solving keeps canaries whose gradients overlap apart.
    model     has the client's finished model alone: how much lower the canary's loss is than by the first
              model.

A canary is noise around the client's mean row, as far from it as its rows are, with a label drawn at random:
no patient is like it, and nothing but having seen it tells its label. Planted rows change the run: a small
client has more canaries than rows of its own, which is said (`planted`).

Where local work adds noise, `_upper_bound` asks the accountant about the same training, planted rows
included: its upper bound is to lie above both lower bounds. As everywhere, how many rows there are counts
as public.

Deviations. Canaries are rows, not gradients put into training, so that every method and kernel can be
audited as it is; the bound is lower than what a gradient of one's own choice would give.

Theorem 5.2. Whoever sees the outcome guesses for r of the m canaries whether they were in, says nothing of
the others, and is right v times. Were training (ε, δ)-private, then

    P[right ≥ v] ≤ β + α m δ
    β = P[W ≥ v],    W ~ Binomial(r, q),  q = e^ε / (1 + e^ε)
    α = max_{i=1..m} (2/i) P[v > W ≥ v - i]

m is `canaries`, r `guesses`, v `right`, β + α m δ `chance`, q `accuracy`, β `tail`, α `slope`. The largest ε
for which that chance is below 1 - confidence is refuted, and so a lower bound: `lower_bound`. With δ = 0 it
is the binomial tail alone.

Guesses (`guessed`): the k highest scores are said to be in, the k lowest to be out, the rest is abstained
from. How many guesses do best is not known beforehand. Deviation: several numbers are tried (`TRIED`), and
each bound is held at a confidence that allows for so many tries (Bonferroni), where the paper reports the
best of them as it is.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.learner import Batch, Learner
from coterie.core.seeds import Key
from coterie.features.audit.overheard import Reply, flat, played
from coterie.features.audit.subject import Subject

TRIED = (0.1, 0.25, 0.5, 1.0)  # guesses, as shares of the canaries
MOST = 60.0  # an epsilon that means nothing any more


@dataclass(frozen=True)
class _Bound:
    """What the guesses came to: the best of the numbers of guesses that were tried."""

    epsilon: float
    guesses: int
    right: int
    canaries: int
    delta: float
    confidence: float


def accuracy(epsilon: float) -> float:
    """q = e^ε / (1 + e^ε): how often a guess is right at best, if training is ε-private."""
    return 1 / (1 + math.exp(-epsilon))


def tail(guesses: int, right: int, epsilon: float) -> float:
    """β = P[W ≥ v]"""
    from scipy.stats import binom  # only here: it takes a while to import

    return float(binom.sf(right - 1, guesses, accuracy(epsilon)))


def slope(guesses: int, right: int, epsilon: float) -> float:
    """α = max_i (2/i) P[v > W ≥ v - i]; beyond i = v the sum grows no more."""
    from scipy.stats import binom

    if right == 0:
        return 0.0
    each = binom.pmf(np.arange(right - 1, -1, -1), guesses, accuracy(epsilon))
    return float((2 * np.cumsum(each) / np.arange(1, right + 1)).max())


def chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """β + α m δ: how likely so many right guesses are at most, if training is (ε, δ)-private."""
    extra = slope(guesses, right, epsilon) * canaries * delta if delta else 0.0
    return min(1.0, tail(guesses, right, epsilon) + extra)


def lower_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The largest ε that so many right guesses refute; 0 if they refute none."""
    refuted = 1 - confidence
    if chance(canaries, guesses, right, 0.0, delta) >= refuted:
        return 0.0
    low, high = 0.0, MOST
    for _ in range(60):
        middle = (low + high) / 2
        is_refuted = chance(canaries, guesses, right, middle, delta) < refuted
        low, high = (middle, high) if is_refuted else (low, middle)
    return low


def guessed(scores: np.ndarray, present: np.ndarray, guesses: int) -> int:
    """How many of so many guesses are right: the higher half of them `in`, the lower half `out`.

    Of equal scores the first counts as lower: a score that says nothing is right half of the time.
    """
    order = np.argsort(scores, kind="stable")
    upper, lower = guesses - guesses // 2, guesses // 2
    said_in, said_out = order[len(order) - upper :], order[:lower]
    return int(present[said_in].sum() + (~present[said_out]).sum())


def best_bound(scores: np.ndarray, present: np.ndarray, delta: float, confidence: float = 0.95) -> _Bound:
    """Over all numbers of guesses in `TRIED`, with a confidence that holds for all of them at once."""
    m = len(scores)
    each = 1 - (1 - confidence) / len(TRIED)
    found = []
    for share in TRIED:
        guesses = max(1, round(share * m))
        right = guessed(scores, present, guesses)
        epsilon = lower_bound(m, guesses, right, delta, each)
        found.append(_Bound(epsilon, guesses, right, m, delta, confidence))
    return max(found, key=lambda b: (b.epsilon, b.right / b.guesses))


PROVES = (
    "A lower bound of 1 or more is a leak that was shown: with 95 % confidence, no promise of a smaller "
    "epsilon would be true of this training."
)
PROVES_NOT = (
    "A bound of 0, or a small one, does not say that epsilon is small. It says that these guesses, from this "
    "one training run, were too few or too often wrong to refute more. Only accounting gives an upper bound."
)
DELTA = 1e-5
RIDGE, RIDGE_IN_NOISE = 1e-2, 1.0  # λ, as shares of the mean of the diagonal
GRID = 1e-2  # of the accountant, which errs on the safe side: a coarse one says slightly more
AT_ONCE = 2**24  # numbers of gradients at a time


def planted_rows(client: Client, canaries: int, key: Key, classes: int) -> Samples:
    """Noise around the client's mean row, as far from it as its rows are; labels at random."""
    source, x = key.torch(), client.train.x.double()
    mean = x.mean(dim=0, keepdim=True)
    spread = float((x - mean).square().mean().sqrt()) or 1.0
    noise = torch.randn(canaries, *x.shape[1:], generator=source, dtype=torch.float64)
    made = (mean + spread * noise).to(client.train.x.dtype)
    if client.task == "regression":
        y = client.train.y.double()
        away = torch.randn(canaries, generator=source, dtype=torch.float64)
        labels = (y.mean() + 3 * (float(y.std(correction=0)) or 1.0) * away).to(client.train.y.dtype)
    else:
        labels = torch.randint(classes, (canaries,), generator=source).to(client.train.y.dtype)
    return Samples(made, labels)


def with_planted(client: Client, rows: Samples, present: Tensor) -> Client:
    """The client with some more training rows."""
    x, y = torch.cat([client.train.x, rows.x[present]]), torch.cat([client.train.y, rows.y[present]])
    return replace(client, train=Samples(x, y))


def gradients_of(learner: Learner, belief: Belief, rows: Samples) -> Tensor:
    """[row, parameter] the gradient of each row's loss by itself."""
    one, seed = torch.ones(1, dtype=rows.x.dtype), torch.zeros((), dtype=torch.int64)

    def gradient(x: Tensor, y: Tensor) -> Tensor:
        found = learner.gradient(belief, Batch(x.unsqueeze(0), y.unsqueeze(0), one), seed)
        return torch.cat([found.grads[name].reshape(-1) for name in learner.trainable])

    size = sum(belief[name].numel() for name in learner.trainable)
    chunk = max(1, AT_ONCE // max(1, 2 * size))
    pieces = zip(torch.split(rows.x, chunk), torch.split(rows.y, chunk), strict=True)
    return torch.cat([vmap(gradient)(x, y) for x, y in pieces]).detach()


def shares_of(products: Tensor, alike: Tensor, ridge: float) -> Tensor:
    """c = (A + λI)⁻¹ b of products b [canary] and likeness A [canary, canary], λ as a share of A's diagonal.

    Solving to the end makes noise louder: where local work adds some, λ is larger.
    """
    weight = ridge * float(alike.diagonal().mean())
    found: Tensor = torch.linalg.solve(alike + weight * torch.eye(len(alike), dtype=alike.dtype), products)
    return found


class _Listener:
    """Adds up Σ_visits Ĝ (θ - θ') and Σ_visits Ĝ Ĝᵀ for the replies that leave one client."""

    def __init__(self, learner: Learner, rows: Samples, host: int) -> None:
        self.learner, self.rows, self.host = learner, rows, host
        self.visits, self.seen = 0, 0
        m = len(rows)
        self.products, self.alike = (torch.zeros(*shape, dtype=torch.float64) for shape in ((m,), (m, m)))

    def made(self, reply: Reply) -> None:
        self.visits += reply.host == self.host

    def left(self, reply: Reply) -> None:
        if reply.host != self.host:
            return
        names = self.learner.trainable
        step = flat(reply.sent, names) - flat(reply.replied, names)
        found = gradients_of(self.learner, reply.sent, self.rows)
        unit = found / found.norm(dim=1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
        self.products += (unit @ step.to(unit.dtype)).double()
        self.alike += (unit @ unit.T).double()
        self.seen += 1


def why_not(subject: Subject) -> str:
    """Why it cannot be tried; nothing if it can."""
    if subject.record.config.get("features") is not None:
        return "canaries are rows, and here a server's frozen layers stand before the models that are trained"
    return ""


def attack(subject: Subject) -> dict[str, Any]:
    """Both onlookers' bounds, with what accounting says of the same training, if it can say anything."""
    key, place = subject.key.at("canaries"), subject.place
    client, outputs = subject.clients[place], subject.here.setup.roster.outputs
    rows = planted_rows(client, subject.canaries, key.at("rows"), outputs)
    present = torch.rand(subject.canaries, generator=key.at("in").torch()) < 0.5
    clients = list(subject.clients)
    clients[place] = with_planted(client, rows, present)
    listener = _Listener(subject.learner, rows, place)
    again = subject.here.again(clients)
    models, beliefs = played(again, subject.record.done, replied=listener.made, left=listener.left)
    of = int(models.of[place])
    was_in, bounds = present.numpy(), {}
    if listener.seen:
        ridge = RIDGE_IN_NOISE if subject.adds_noise else RIDGE
        scores = shares_of(listener.products, listener.alike, ridge).numpy()
        bounds["replies"] = asdict(best_bound(scores, was_in, DELTA))
    if beliefs is not None and of >= 0:
        before, after = (subject.losses(b, rows) for b in (subject.first(place), tree.row(beliefs, of)))
        bounds["model"] = asdict(best_bound(before - after, was_in, DELTA))
    return {
        "client": client.name,
        "canaries": subject.canaries,
        "planted": int(present.sum()),
        "rows": len(client.train),
        "visits": listener.visits,
        "seen": listener.seen,
        "sealed": subject.sealed,
        "bounds": bounds,
        "upper": _upper_bound(subject, len(clients[place].train), listener.visits),
        "proves": PROVES,
        "proves_not": PROVES_NOT,
    }


def _upper_bound(subject: Subject, rows: int, visits: int) -> dict[str, Any] | None:
    """What accounting says of so many visits to so many rows; None where local work adds no noise."""
    if not subject.adds_noise:
        return None
    charges = subject.here.method.local.charges  # type: ignore[attr-defined]
    from coterie.privacy.accounting import epsilon, repeated

    try:
        value = epsilon(repeated(charges(rows), visits), DELTA, GRID)
    except BadInput as error:  # the package is not there
        return {"epsilon": None, "delta": DELTA, "why": str(error)}
    return {"epsilon": value if math.isfinite(value) else None, "delta": DELTA}
