"""DP-SGD on MNIST beside opacus: the same first weights, rows, clip, noise, batches by coins and steps.

    pip install -e ".[privacy]" -r benchmarks/peers/opacus/requirements.txt
    python benchmarks/peers/opacus/run.py --csv opacus.csv

Both train in one process, in turns, ours first for even seeds. Sigma is what dp-accounting's PLD accountant
needs for the wanted epsilon with our capped batches; opacus's have no cap, which costs no more. Seconds are
those of training, on one thread: data are in memory and models built before. Ours include recording steps.

A line of the CSV is one training. The table has means over seeds with half of a 95 % interval (Student's t),
and the median over seeds of seconds of processor time by opacus over ours, which others on the machine hardly
change.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass, replace

import dp_accounting
import torch
from dp_accounting.pld import PLDAccountant
from opacus import PrivacyEngine
from scipy import stats
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from coterie.core.belief import belief_of, load, row, stack
from coterie.core.client import Client, Samples
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.net import to_own
from coterie.core.seeds import Key
from coterie.data.sources import SOURCES
from coterie.engines import ENGINES
from coterie.kernels import DP, SGD
from coterie.kernels.dp import usual_cap
from coterie.models import MODELS
from coterie.nets import InProcess

ROWS, BATCH, DELTA, CLIP = 10_000, 250, 1e-5, 1.0
EPSILONS = (1.0, 3.0, 8.0)


@dataclass(frozen=True)
class Work:
    """What both do."""

    model: str
    epochs: int
    lr: float

    @property
    def steps(self) -> int:
        return self.epochs * ROWS // BATCH


WORKS = (Work("logistic", 10, 1.0), Work("lenet5", 4, 1.0))


@dataclass(frozen=True)
class Line:
    """One training."""

    model: str
    epsilon: float
    sigma: float
    seed: int
    who: str
    accuracy: float
    seconds: float
    cpu: float


def sigma_for(work: Work, epsilon: float) -> float:
    """The least noise with which all steps stay within epsilon."""

    def event(sigma: float) -> dp_accounting.DpEvent:
        once = dp_accounting.TruncatedSubsampledGaussianDpEvent(ROWS, BATCH / ROWS, usual_cap(BATCH), sigma)
        return dp_accounting.SelfComposedDpEvent(once, work.steps)

    interval = dp_accounting.ExplicitBracketInterval(0.3, 20.0)
    found = dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, epsilon, DELTA, interval, tol=1e-4)
    return float(found)


def ours(work: Work, sigma: float, model: nn.Module, client: Client, seed: int) -> tuple[float, nn.Module]:
    kernel = DP(SGD(lr=work.lr, batch=BATCH, epochs=work.epochs), clip=CLIP, sigma=sigma)
    net = InProcess(ENGINES.make("auto"), Learner(model, "classification"), (client,))
    start = hold(stack([belief_of(model)]), at_coordinator(1))
    begin = time.perf_counter()
    replies = net.visit(kernel, start, to_own(1), Key(seed).at_round(1, 1))
    took = time.perf_counter() - begin
    assert replies.beliefs is not None
    return took, load(model, row(replies.beliefs.tensors, 0))


def theirs(work: Work, sigma: float, model: nn.Module, client: Client, seed: int) -> tuple[float, nn.Module]:
    torch.manual_seed(seed)
    optimiser = torch.optim.SGD(model.parameters(), lr=work.lr)
    loader = DataLoader(TensorDataset(client.train.x, client.train.y), batch_size=BATCH)
    model.train()
    private, optimiser, loader = PrivacyEngine(accountant="prv").make_private(
        module=model,
        optimizer=optimiser,
        data_loader=loader,
        noise_multiplier=sigma,
        max_grad_norm=CLIP,
        poisson_sampling=True,
    )
    assert len(loader) == ROWS // BATCH
    begin = time.perf_counter()
    for _ in range(work.epochs):
        for x, y in loader:
            optimiser.zero_grad()
            F.cross_entropy(private(x), y).backward()
            optimiser.step()
    return time.perf_counter() - begin, private._module


def accuracy(model: nn.Module, test: Samples) -> float:
    with torch.no_grad():
        return float((model.eval()(test.x).argmax(1) == test.y).double().mean())


def mnist() -> Client:
    """The first rows for training, and the published test set."""
    data = SOURCES.make("mnist").load()
    parts = []
    for pool in (data.train, data.test):
        x = (torch.as_tensor(pool.x).float() / 255 - 0.1307) / 0.3081
        parts.append(Samples(x.view(-1, 1, 28, 28), torch.as_tensor(pool.y).long()))
    train, test = parts
    return Client("all", Samples(train.x[:ROWS], train.y[:ROWS]), test, Samples(test.x[:0], test.y[:0]))


def interval(values: list[float]) -> float:
    """Half of the 95 % interval of a mean."""
    if len(values) < 2:
        return math.nan
    spread = statistics.stdev(values) / math.sqrt(len(values))
    return float(stats.t.ppf(0.975, len(values) - 1)) * spread


def table(works: list[Work], lines: list[Line]) -> str:
    said = ["| model | steps | epsilon | sigma | ours, % | opacus, % | difference, % | times as fast |"]
    said.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for work in works:
        for epsilon in sorted({r.epsilon for r in lines}):
            mine, other = (
                [r for r in lines if (r.model, r.epsilon, r.who) == (work.model, epsilon, who)]
                for who in ("ours", "opacus")
            )
            if not mine or len(mine) != len(other):
                continue
            figures = [[100 * r.accuracy for r in some] for some in (mine, other)]
            figures.append([a - b for a, b in zip(*figures, strict=True)])
            shown = [f"{statistics.mean(f):.1f} ± {interval(f):.1f}" for f in figures]
            fast = statistics.median(b.cpu / a.cpu for a, b in zip(mine, other, strict=True))
            said.append(
                f"| {work.model} | {work.steps} | {epsilon:g} | {mine[0].sigma:.3f} | {' | '.join(shown)} | "
                f"{fast:.1f} |"
            )
    return "\n".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description="DP-SGD on MNIST beside opacus.")
    parser.add_argument("--models", nargs="+", default=[w.model for w in WORKS])
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--csv", default="", help="the file to write, a line for each training")
    parser.add_argument("--epochs", type=int, default=0, help="fewer, to see that it works")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    client, lines = mnist(), list[Line]()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    works = [replace(w, epochs=asked.epochs or w.epochs) for w in WORKS if w.model in asked.models]
    for work in works:
        for epsilon in asked.epsilons:
            sigma = sigma_for(work, epsilon)
            for seed in range(asked.first, asked.first + asked.seeds):
                turns = [("ours", ours), ("opacus", theirs)]
                for who, train in turns if seed % 2 == 0 else turns[::-1]:
                    model = MODELS.make(work.model).build((1, 28, 28), 10, seed)
                    begin = time.process_time()
                    seconds, trained = train(work, sigma, model, client, seed)
                    cpu = time.process_time() - begin
                    scored = accuracy(trained, client.test)
                    lines.append(Line(work.model, epsilon, sigma, seed, who, scored, seconds, cpu))
                    print(*asdict(lines[-1]).values(), file=sys.stderr, flush=True)
    if asked.csv:
        with open(asked.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*Line.__dataclass_fields__, "commit"])
            writer.writerows([*asdict(r).values(), commit] for r in lines)
    print(table(works, sorted(lines, key=lambda r: r.seed)))


if __name__ == "__main__":
    main()
