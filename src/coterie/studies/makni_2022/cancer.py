"""Makni, 2022, section 6: SWAG beside Hamiltonian Monte Carlo on Breast Cancer Wisconsin.

One client has all tumours but the 20 % to test on. A network of 21,401 weights θ tells them apart:

    z(x) = net(x),   p(y=1|x, θ) = 1 / (1 + exp(-z))          30-200-50-50-50-1 with ReLU
    log p(θ|D) = Σ_n log p(y_n|x_n, θ) - λ/2 ‖θ‖² + const     λ `prior`; divided by T, `temperature`

The text has "3 hidden layers" and 21,401 coordinates. No three widths that are multiples of 50 give this
number, and of four only 200, 50, 50, 50; the published program has these. Its softmax over the rows of a
batch is left out, for it makes no probability of a row. Logits come as (0, z): one logit's weights.

SWAG: SGD towards the mode, then `swag`, both with the weight decay λ / N of the same prior. HMC:

    text      chains in all 21,401 weights, from the ends of SGD: one half from each of two first models, so
              that R̂ tells whether they met
    as-run    chains in a plane, from SWAG's mean: θ = θ_⊥ + t₁ v₁ + t₂ v₂, where v_k are the principal axes
              of SWAG's draws and θ_⊥ is its mean less the part along them: λ/2 ‖t‖² is the prior there

The published program's parts for this section sample in the span of SWAG's deviations. How many of them, the
prior on t, λ, T, rates and lengths of runs are not known: `Setting` has ours. So has
`measures.py` of what is measured. Each deviation and gap between SWAG and HMC stands beside those
between two halves of the chains and between SWAG from two first models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from coterie.api.play import net_of
from coterie.core.belief import Beliefs, belief_of, row, rows, stack
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.net import Net, to_own
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Dataset
from coterie.data.partition import Iid
from coterie.data.sources import SOURCES
from coterie.kernels import HMC, SGD, SWAG, Gather
from coterie.kernels.posterior import collected, ring_of
from coterie.metrics.calibration import probabilities
from coterie.models.mlp import Mlp
from coterie.posteriors import Gaussian, from_collected, sample
from coterie.posteriors.slots import Slots, flat, slots_of, tree
from coterie.studies.base import Preset, Scale, Step
from coterie.studies.makni_2022.measures import Plane, deviation, gap, mixing, on_plane, plane_of, scores

FLOOR = 1e-12  # of a variance that SWAG saw: a weight behind a unit that never fires hardly moves
TARGET = 0.65  # accepted draws: what is best for long paths in many dimensions (Beskos et al., 2013)
CHUNK = 32  # models that predict at once


# what the paper leaves open, which is ours at each scale


class _Leaps(NamedTuple):
    """Leapfrog steps for one draw, and the length of a step at first in units of 1 / √N."""

    number: int
    length: float


FREE, CONFINED = _Leaps(30, 0.02), _Leaps(6, 0.1)


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open."""

    hidden: tuple[int, ...] = (200, 50, 50, 50)
    """Units of the hidden layers."""
    held: float = 0.2
    """Share of the rows to test on."""
    prior: float = 15.0
    """λ, a standard deviation of 0.26; from 20 on, SGD ends for some first models at the zero network."""
    temperature: float = 1.0
    """1 for the posterior itself."""
    batch: int = 32
    """Rows in a batch of SGD and SWAG."""
    pretrain: int = 60
    """Epochs of SGD, with momentum 0.9 and a rate that falls on a cosine."""
    lr: float = 0.05
    """SGD's rate at first."""
    collect: int = 40
    """Epochs of SWAG, each of which gives one state."""
    swag_lr: float = 0.2
    """SWAG's rate, constant and without momentum; its spread is nearly proportional to it."""
    rank: int = 20
    """K, the columns that SWAG keeps."""
    chains: int = 4
    """Of HMC, one half from each first model."""
    block: int = 20
    """Draws between two reports of progress; even, for a chain goes on from the last that was kept."""
    warm: int = 4
    """Blocks before the first that counts; in the last of them the length of a step is settled."""
    blocks: int = 6
    """Blocks that count, with every second draw of each."""
    free: _Leaps = FREE
    """Of chains in all weights."""
    confined: _Leaps = CONFINED
    """Of chains in a plane."""
    grid: int = 41
    """Points along each side of a plane at which the posterior is worked out."""

    def __post_init__(self) -> None:
        if self.block % 2:
            raise BadInput(
                f"block={self.block} must be even, every second draw is kept: try {self.block + 1}"
            )

    @property
    def draws(self) -> int:
        """That count, of all chains; and as many of SWAG."""
        return self.chains * self.blocks * (self.block // 2)


SETTINGS: dict[Scale, Setting] = {
    "full": Setting(),
    "tiny": Setting(
        hidden=(8, 6, 6, 6), prior=2.0, pretrain=20, collect=8, rank=5, chains=2, block=10, warm=3, blocks=2,
        free=_Leaps(5, 0.1), grid=7
    ),
}  # fmt: skip


# the network and the task


class _AgainstZero(nn.Module):
    """Logits (0, z) of one logit z: a softmax over them is the logistic function of z."""

    def forward(self, z: Tensor) -> Tensor:
        return F.pad(z, (1, 0))


class InPlane(nn.Module):
    """A network whose weights are origin + t · axes; t, `place`, is all that is trained."""

    origin: Tensor
    axes: Tensor

    def __init__(self, net: nn.Module, slots: Slots, origin: Tensor, axes: Tensor) -> None:
        super().__init__()
        self.inner = (net, slots)  # in a tuple its weights are no parameters of this one
        self.place = nn.Parameter(torch.zeros(len(axes)))
        self.register_buffer("origin", origin.float())
        self.register_buffer("axes", axes.float())

    def forward(self, x: Tensor) -> Tensor:
        net, slots = self.inner
        out: Tensor = functional_call(net, dict(tree(slots, self.origin + self.place @ self.axes)), (x,))
        return out


@dataclass(frozen=True, eq=False)
class Task:
    """A client, a network to call through, and where its weights stand in a vector [parameter]."""

    given: Setting
    client: Client
    net: nn.Module
    learner: Learner
    slots: Slots

    @property
    def decay(self) -> float:
        """λ / N, the prior in SGD's terms."""
        return self.given.prior / len(self.client.train)

    def several(self, n: int, module: nn.Module) -> Net:
        """n visits side by side: the client n times over."""
        twins = [replace(self.client, name=f"{self.client.name}-{i}") for i in range(n)]
        return net_of(module, twins, engine="pool")

    def over(self, theta: Tensor, x: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
        """`of` the logits [row, 2] of each model [model, parameter]: [model, ...]."""

        def one(vector: Tensor) -> Tensor:
            return of(self.learner.outputs(tree(self.slots, vector), x))

        with torch.no_grad():
            out: Tensor = vmap(one, chunk_size=CHUNK)(theta)
        return out

    def chances(self, theta: Tensor) -> Tensor:
        """p(y=1|x) on the test rows: [model, row]."""
        return self.over(theta, self.client.test.x, lambda logits: probabilities(logits)[:, 1])

    def log_posterior(self, theta: Tensor) -> Tensor:
        """log p(θ|D) / T without its constant: [model]."""
        data = self.client.train
        losses = self.over(theta, data.x, lambda z: self.learner.losses(z.double(), data.y).sum())
        return -(losses + self.given.prior / 2 * theta.square().sum(dim=-1)) / self.given.temperature


class _Fit(NamedTuple):
    """Of two first models: the end of SGD [2, ...] and what SWAG made of it."""

    solutions: Beliefs
    posteriors: list[Gaussian]


class _Chains(NamedTuple):
    """Draws [chain, draw, parameter], the share of accepted ones and the length of a leap."""

    draws: Tensor
    acceptance: float
    leap: float


@cache
def _loaded() -> Dataset:
    return SOURCES.make("breast-cancer").load()


def task_of(given: Setting, seed: int) -> Task:
    """The rows are dealt by the seed; the network is only a shape, whose own weights nobody uses."""
    client = deal_clients(_loaded(), Iid(), 1, Key(seed).at("data"), test=given.held).clients[0]
    net = _network(given, client.train, Key(seed))
    return Task(given, client, net, Learner(net, "classification"), slots_of(belief_of(net)))


def _network(given: Setting, data: Samples, key: Key) -> nn.Module:
    core = Mlp(given.hidden).build(tuple(data.x.shape[1:]), 1, key.at("model").integer())
    return nn.Sequential(core, _AgainstZero())


def _fit(task: Task, key: Key) -> _Fit:
    """SGD and then SWAG, from two first models at once."""
    given, net = task.given, task.several(2, task.net)
    models = stack([belief_of(_network(given, task.client.train, key.at(i))) for i in range(2)])
    firsts = hold(models, torch.arange(2))
    descent = SGD(
        lr=given.lr, momentum=0.9, epochs=given.pretrain, batch=given.batch, weight_decay=task.decay,
        schedule="cosine",
    )  # fmt: skip
    solutions = net.visit(descent, firsts, to_own(2), key.at("sgd").at_round(1, 1)).beliefs
    walk = SWAG(
        lr=given.swag_lr, epochs=given.collect, batch=given.batch, weight_decay=task.decay, per="epoch",
        rank=given.rank,
    )  # fmt: skip
    opened = net.open(net.visit(Gather(walk), solutions, to_own(2), key.at("swag").at_round(1, 1)).beliefs)
    found = [collected(row(opened, i)) for i in range(2)]
    return _Fit(
        net.open(solutions),
        [from_collected(f.mean, f.variance, f.deviations, f.count, "low-rank", FLOOR) for f in found],
    )


def sampler(given: Setting, leaps: _Leaps) -> HMC:
    """A block of draws; its reply is the last state, and every second one is kept."""
    return HMC(
        lr=leaps.length, leaps=leaps.number, steps=given.block, adapt=(given.warm - 1) * given.block,
        target=TARGET, burn=0, every=2, rank=given.block // 2, prior=given.prior,
        temperature=given.temperature, keep=True, average=False,
    )  # fmt: skip


def run_chains(
    task: Task, module: nn.Module, starts: Beliefs, leaps: _Leaps, key: Key, progress: Step
) -> tuple[Beliefs, float, float]:
    """Draws [chain, draw, ...] of the module's parameters, the acceptance and the length of a leap."""
    given, work = task.given, sampler(task.given, leaps)
    net, names = task.several(given.chains, module), tuple(n for n, _ in module.named_parameters())
    beliefs = hold(starts, torch.arange(given.chains))
    kept, accepted, leap = [], [], 0.0
    total = given.warm + given.blocks
    for block in range(1, total + 1):
        replies = net.visit(Gather(work), beliefs, to_own(given.chains), key.at_round(block, total))
        found = net.open(replies.beliefs)
        # Gather brings the mean home: the chain goes on from its last state, the newest draw of an even block
        newest = {n: found.get(f"draw/0/{n}", found[n]) for n in starts}
        beliefs = hold(newest, torch.arange(given.chains))
        net.keep((), block)
        if block > given.warm:
            each = [row(found, c) for c in range(given.chains)]
            kept.append(
                {n: torch.stack([ring_of(m, "draw", n, int(m["columns"])) for m in each]) for n in names}
            )
            accepted.append(float(replies.numbers["acceptance"].mean()))
        leap = float(replies.numbers["step"].mean()) / math.sqrt(len(task.client.train))
        progress(block / total, f"draw {block * given.block} of {total * given.block}")
    draws = {n: torch.cat([k[n] for k in kept], dim=1) for n in names}
    return draws, sum(accepted) / len(accepted), leap


def halved(two: Beliefs, chains: int) -> Beliefs:
    """The first of two for the first half of the chains, the second for the rest."""
    return rows(two, torch.arange(chains) * 2 // chains)


def in_swags_plane(task: Task, swag: Tensor, key: Key, progress: Step) -> _Chains:
    """as-run: all chains from SWAG's mean, within the plane of its draws."""
    plane, start = confined(plane_of(swag))
    module = InPlane(task.net, task.slots, plane.origin, plane.axes)
    starts = stack([{**belief_of(module), "place": start.float()}] * task.given.chains)
    draws, *said = run_chains(task, module, starts, task.given.confined, key, progress)
    return _Chains(plane.lift(draws["place"].double()), *said)


def confined(plane: Plane) -> tuple[Plane, Tensor]:
    """The same plane from its point next to zero, and where its former origin now lies.

    So ‖θ(t)‖² = ‖θ_⊥‖² + ‖t‖², and a normal prior on θ is the same on t.
    """
    inside = plane.origin @ plane.axes.T
    return plane._replace(origin=plane.origin - inside @ plane.axes), inside


def cancer(preset: Preset, seed: int, progress: Step, scale: Scale = "full") -> dict[str, Any]:
    """All that is measured with one seed, as JSON can hold it; the same for the same seed."""
    given, key = SETTINGS[scale], Key(seed).at("cancer")
    progress(0, "sgd and swag")
    task = task_of(given, seed)
    found = _fit(task, key.at("fit"))
    swag, other = (
        flat(task.slots, sample(p, given.draws, key.at("draw", i)), (given.draws,))
        for i, p in enumerate(found.posteriors)
    )

    def step(share: float, said: str) -> None:
        progress(0.1 + 0.85 * share, said)

    if preset == "text":  # half of the chains from each solution
        starts = halved(found.solutions, given.chains)
        drawn, *said = run_chains(task, task.net, starts, given.free, key.at("hmc"), step)
        lead = next(iter(drawn.values())).shape[:2]
        chains = _Chains(flat(task.slots, drawn, lead), *said)
    else:
        chains = in_swags_plane(task, swag, key.at("hmc"), step)
    return {"preset": preset, "seed": seed, **_measured(task, swag, other, chains)}


def _measured(task: Task, swag: Tensor, other: Tensor, chains: _Chains) -> dict[str, Any]:
    """SWAG's draws, those from another first model, and HMC's, compared."""
    hmc, y, shape = chains.draws.flatten(0, 1), task.client.test.y, chains.draws.shape[:2]
    first, second = hmc.chunk(2)
    p, p_other, p_hmc = (task.chances(theta) for theta in (swag, other, hmc))

    # where a move is refused a draw is there twice, and in so many dimensions an axis would point at it
    distinct = torch.unique_consecutive(hmc, dim=0)

    def plane(of: Tensor) -> dict[str, Any]:
        return on_plane(plane_of(of), swag, hmc, task.log_posterior, task.given.grid)

    return {
        "parameters": swag.shape[1],
        "rows": [len(task.client.train), len(y)],
        "draws": list(shape),
        "acceptance": chains.acceptance,
        "leap": chains.leap,
        "deviation": {
            "swag-hmc": deviation(swag, hmc),
            "hmc-hmc": deviation(first, second),
            "swag-swag": deviation(swag, other),
            "zero-hmc": deviation(torch.zeros_like(hmc), hmc),
        },
        "size": {"swag": float(swag.abs().mean()), "hmc": float(hmc.abs().mean())},
        "spread": {"swag": float(swag.std(dim=0).mean()), "hmc": float(hmc.std(dim=0).mean())},
        "log_posterior": {
            "swag": float(task.log_posterior(swag).mean()),
            "hmc": float(task.log_posterior(hmc).mean()),
        },
        "mixing": {"weights": mixing(chains.draws), "predictions": mixing(p_hmc.view(*shape, -1))},
        "scores": {"swag": scores(p.mean(dim=0), y), "hmc": scores(p_hmc.mean(dim=0), y)},
        "gap": {"swag-hmc": gap(p, p_hmc), "hmc-hmc": gap(*p_hmc.chunk(2)), "swag-swag": gap(p, p_other)},
        "planes": {"both": plane(torch.cat([swag, distinct])), "swag": plane(swag)},
    }
