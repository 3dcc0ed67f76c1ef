"""coterie posterior predict"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.cli.predict import notes_of, some_answers
from coterie.cli.run import title
from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client, class_count
from coterie.core.errors import BadInput, BadRun
from coterie.core.held import hold
from coterie.core.seeds import Key
from coterie.engines import Loop
from coterie.kernels.refresh import Refresh, momenta
from coterie.metrics.calibration import brier, ece, logits_of, normalised_nll
from coterie.metrics.classification import accuracy, hits
from coterie.nets import InProcess
from coterie.posteriors import Saved, ensemble
from coterie.posteriors.meaning import refuse_other_meaning
from coterie.posteriors.online import joint
from coterie.posteriors.pools import Network, SavedPool, network_of, read_pool, refuse_empty
from coterie.runs.about import fingerprint
from coterie.runs.builder import Builder
from coterie.runs.folder import read_record
from coterie.runs.record import Record
from coterie.runs.settings import from_table
from coterie.show import numbers as wording
from coterie.storage.atomic import write_whole
from coterie.storage.paths import refuse_overwriting
from coterie.use.pool import classes_of, pooled
from coterie.use.predictor import PREDICTS

HELP = """Predicts with models drawn from a pool's joint posterior.

For the folder of a run, scores the predictions on each of its clients' test rows. For a table (CSV, TSV,
Excel, Parquet) writes them as a table: columns are found by name, and prepared as by one of the clients: that
which --client names, where they do not all prepare alike.

examples:
  coterie posterior predict all.safetensors runs/table-silos-fl-swag-seed0
  coterie posterior predict all.safetensors patients.csv --client north --threshold 0.7 --out predictions.csv
"""


@dataclass(frozen=True)
class _Predict:
    pool: str = word("The file of the pool.", "POOL")
    source: str = word("The folder of a run, or a table with a header.", "RUN_OR_FILE")
    samples: int = flag(30, "Models to draw and average; 0 predicts with the mean.")
    seed: int = flag(0, "Where their random numbers come from.")
    temperature: float = flag(1.0, "Times the joint covariance: above 1, models differ more than it says.")
    client: str = flag("", "For a table: by whose recipe and scales its rows are read and prepared.")
    threshold: float = flag(0.0, "For a table: name no class that is less probable than this.")
    strict: bool = flag(
        False, "For a table: refuse it if some row cannot be predicted, instead of skipping it."
    )
    out: str = flag("", "A CSV file to write predictions to; by default those of a table are printed.")

    def __post_init__(self) -> None:
        if self.samples < 0:
            raise BadInput(f"samples={self.samples} must be at least 0: try 30, or 0 for the mean")
        if self.seed < 0:
            raise BadInput(f"seed={self.seed} must be at least 0: try 0")
        if not 0 < self.temperature < math.inf:
            raise BadInput(
                f"temperature={self.temperature} must be above 0 and finite: try 1, or --samples 0"
            )
        refuse_overwriting(self.out, self.pool, self.source)


@command_with(Flags(_Predict, "posterior predict", HELP))
def predict(asked: _Predict) -> None:
    path, source = Path(asked.pool), Path(asked.source)
    pool = refuse_empty(read_pool(path), path)
    if source.is_dir():
        _predict_run(asked, pool, source)
    elif source.is_file():
        _predict_table(asked, pool, source)
    else:
        raise BadInput(f"no run folder or table at {source}: check the path")


def _predict_table(asked: _Predict, pool: SavedPool, source: Path) -> None:
    with screen.progress(max(asked.samples, 1), "predicting", "models") as bar:

        def tick() -> None:
            bar.start()
            bar.advance(bar.task_ids[0])

        predictor = pooled(
            pool,
            asked.client,
            samples=asked.samples,
            seed=asked.seed,
            temperature=asked.temperature,
            threshold=asked.threshold,
            tick=tick,
            called=asked.pool,
        )
        found = some_answers(predictor, source, asked.strict)
        text = predictor.table_of(found).to_csv(index=False)
    screen.say_table(notes_of(found.asked), text, asked.out)


def _predict_run(asked: _Predict, pool: SavedPool, source: Path) -> None:
    network = network_of(pool, Path(asked.pool))
    record, clients = _clients_of(source)
    _refuse_other_data(clients, network, pool, asked)
    parts = [c.test for c in clients]
    each = _for_clients(asked, pool, network, clients)
    how = f"{asked.samples} models drawn from" if asked.samples else "the mean of"
    screen.out.print(f"\n[bold]{escape(title(record))}, predicted by {escape(asked.pool)}[/bold]")
    screen.out.print(score_table(clients, [scores(q, part.y) for q, part in zip(each, parts, strict=True)]))
    warmth = f", temperature {asked.temperature:g}" if asked.temperature != 1 else ""
    renewed = "; batch norm renewed on each client's training rows" if momenta(network.learner) else ""
    screen.out.print(f"[dim]{how} the joint posterior of {counted(pool)}{warmth}{renewed}[/dim]")
    if asked.out:
        classes = classes_of(next(iter(pool.members.values())), network.classes)
        frames = [_frame_of(q, c, classes) for q, c in zip(each, clients, strict=True)]
        print(f"table: {write_whole(Path(asked.out), pd.concat(frames).to_csv(index=False))}")


def _clients_of(path: Path) -> tuple[Record, tuple[Client, ...]]:
    """What a run was about, and its clients, dealt again as it dealt them."""
    record = read_record(path)
    if "given" in record.config:
        raise BadRun(f"{path} was started from Python, its data is there: predict there too")
    settings = from_table(record.config, str(path / "config.toml")).resolved()
    setup = Builder().setup(settings, lambda roster, start: ())
    if record.about.get("fingerprint") != fingerprint(setup.roster, setup.beliefs):
        raise BadRun(f"{path}: the data or the first model differ from those it began with: run it anew")
    return record, setup.clients


def _refuse_other_data(clients: Sequence[Client], network: Network, pool: SavedPool, asked: _Predict) -> None:
    first = clients[0]
    if first.task != "classification":
        raise BadInput(
            f"{asked.source} predicts {PREDICTS[first.task]}, {asked.pool} classes: take a run on the same "
            "data"
        )
    if tuple(first.test.x.shape[1:]) != network.shape:
        raise BadInput(
            f"{asked.source} has inputs of shape {list(first.test.x.shape[1:])}, the network of {asked.pool} "
            f"takes {list(network.shape)}: take a run on the same data"
        )
    if class_count(clients) > network.classes:
        raise BadInput(
            f"{asked.source} has {class_count(clients)} classes, the network of {asked.pool} knows "
            f"{network.classes}: take a run on the same data"
        )
    known = next(iter(pool.members.values()))
    run = Saved(asked.source, 1, known.posterior, {}, {}, first.features, first.classes, first.preparation)
    refuse_other_meaning(known, run)


def _for_clients(
    asked: _Predict, pool: SavedPool, network: Network, clients: Sequence[Client]
) -> Sequence[Tensor]:
    """Probabilities [n, class] for each client's test rows, by the same draws.

    Batch norm's statistics belong to weights: each client renews those of a draw on its own training rows.
    """
    tests = [c.test.x for c in clients]
    if not momenta(network.learner):
        return torch.split(_probabilities(asked, pool, network, torch.cat(tests)), [len(x) for x in tests])
    net = InProcess(Loop(), network.learner, tuple(clients))
    return [
        _probabilities(asked, pool, network, x, partial(renewed, asked, network, net, i), clients[i].name)
        for i, x in enumerate(tests)
    ]


def renewed(asked: _Predict, network: Network, net: InProcess, client: int, belief: Belief) -> Belief:
    whole = hold(tree.stack([{**network.buffers, **belief}]), torch.tensor([client]))
    replies = net.visit(Refresh(), whole, torch.tensor([[0, client]]), Key(asked.seed).at("refresh"))
    return tree.row(net.open(replies.beliefs), 0)


def _probabilities(
    asked: _Predict,
    pool: SavedPool,
    network: Network,
    x: Tensor,
    renew: Callable[[Belief], Belief] = lambda belief: belief,
    whose: str = "",
) -> Tensor:
    """[n, class], under a bar that moves with each drawn model."""
    with screen.progress(max(asked.samples, 1), f"predicting {whose}".strip(), "models") as bar:

        def outputs(belief: Belief, inputs: Tensor) -> Tensor:
            bar.start()
            logits = network.outputs(renew(belief), inputs)
            bar.advance(bar.task_ids[0])
            return logits

        posterior = joint(pool.pool) * (1 / asked.temperature)
        return ensemble.predict(outputs, posterior, x, asked.samples, Key(asked.seed).at("predict"))


def scores(p: Tensor, y: Tensor) -> dict[str, float]:
    return {
        "accuracy": float(accuracy(hits(p, y))),
        "ece": float(ece(p, y)),
        "brier": float(brier(p, y)),
        "nll": float(normalised_nll(logits_of(p), y)),
    }


def score_table(clients: Sequence[Client], figures: Sequence[dict[str, float]]) -> Table:
    """A line for each client, and the mean in which each counts by its test rows."""
    table = Table("client", box=None, header_style="bold")
    for column in ("test rows", *map(wording.unit, figures[0])):
        table.add_column(column, justify="right")
    rows = [len(c.test) for c in clients]
    for client, mine, n in zip(clients, figures, rows, strict=True):
        table.add_row(escape(client.name), wording.whole(n), *(wording.figure(v, m) for m, v in mine.items()))
    means = {m: sum(n * f[m] for n, f in zip(rows, figures, strict=True)) / sum(rows) for m in figures[0]}
    cells = [wording.figure(v, m) for m, v in means.items()]
    table.add_row("weighted mean", wording.whole(sum(rows)), *cells, style="bold")
    return table


def _frame_of(p: Tensor, client: Client, classes: Sequence[str]) -> pd.DataFrame:
    """A line for each row, which count from 1."""
    confidence, guess = p.max(dim=1)
    columns: dict[str, object] = {
        "client": client.name,
        "row": range(1, len(p) + 1),
        "truth": [classes[y] for y in client.test.y.tolist()],
        "class": [classes[c] for c in guess.tolist()],
        "confidence": confidence.tolist(),
    }
    return pd.DataFrame(columns | {f"p({name})": p[:, c].tolist() for c, name in enumerate(classes)})


def counted(pool: SavedPool) -> str:
    rows = sum(s.samples for s in pool.members.values())
    return f"{wording.several(len(pool.members), 'client')}, {wording.several(rows, 'row')}"
