"""coterie posterior add | remove | show | predict"""

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
from coterie.cli.command import Flags, command_with, flag, subcommands, word
from coterie.cli.predict import notes_of, some_answers
from coterie.cli.run import title
from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client, class_count
from coterie.core.errors import BadData, BadInput, BadRun
from coterie.core.held import hold
from coterie.core.seeds import Key
from coterie.engines import Loop
from coterie.kernels.refresh import Refresh, momenta
from coterie.metrics.calibration import brier, ece, logits_of, normalised_nll
from coterie.metrics.classification import accuracy, hits
from coterie.nets import InProcess
from coterie.posteriors import Saved, ensemble, pools
from coterie.posteriors.gaussian import Gaussian, isotropic, mean
from coterie.posteriors.meaning import own_scales, refuse_other_meaning, some_names
from coterie.posteriors.online import joint
from coterie.posteriors.pools import Network, SavedPool, read_pool, refuse_empty
from coterie.posteriors.slots import size
from coterie.posteriors.store import read
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

COMMANDS = {"posterior": ("partners", 80, "join posteriors saved apart, let clients come and go, predict")}
HELP = """Joins posteriors that clients saved by themselves; who comes or goes later costs one sum.

usage: coterie posterior add POOL FILE [FILE ...] [--update] [--prior PRECISION]
       coterie posterior remove POOL CLIENT [CLIENT ...]
       coterie posterior show POOL
       coterie posterior predict POOL RUN_OR_FILE [--client NAME] [--samples 30] [--out FILE]

examples:
  coterie posterior add all.safetensors north.safetensors south.safetensors
  coterie posterior predict all.safetensors runs/digits-shift-fl-swag-seed0
"""

ADD = """Multiplies posteriors into a pool, which is made if it is not there.

A run of fl-swag leaves one posterior for each client; naming its folder adds them all.

examples:
  coterie posterior add all.safetensors north.safetensors south.safetensors
  coterie posterior add all.safetensors runs/digits-shift-fl-swag-seed0
  coterie posterior add all.safetensors north-in-may.safetensors --update
"""

REMOVE = """Divides clients' posteriors out of a pool; nobody else is asked, nothing is trained.

example:
  coterie posterior remove all.safetensors north
"""

SHOW = """Shows who is in a pool, and how much narrower the joint posterior is than each one's own.

example:
  coterie posterior show all.safetensors
"""

PREDICT = """Predicts with models drawn from a pool's joint posterior.

For the folder of a run, scores the predictions on each of its clients' test rows. For a table (CSV, TSV,
Excel, Parquet) writes them as a table: columns are found by name, and prepared as by one of the clients: that
which --client names, where they do not all prepare alike.

examples:
  coterie posterior predict all.safetensors runs/table-silos-fl-swag-seed0
  coterie posterior predict all.safetensors patients.csv --client north --threshold 0.7 --out predictions.csv
"""


@dataclass(frozen=True)
class _Add:
    pool: str = word("The file of the pool.", "POOL")
    files: tuple[str, ...] = word("Saved posteriors, or folders of runs that saved some.", "FILE")
    update: bool = flag(False, "Take the new posterior of a client that is in the pool already.")
    prior: float = flag(
        0.0,
        "For a new pool: precision of a Gaussian prior that every client has counted, to count it "
        "once; 0 for none.",
    )


@dataclass(frozen=True)
class _Remove:
    pool: str = word("The file of the pool.", "POOL")
    clients: tuple[str, ...] = word("Who leaves.", "CLIENT")


@dataclass(frozen=True)
class _Show:
    pool: str = word("The file of the pool.", "POOL")


@command_with(Flags(_Add, "posterior add", ADD))
def _add(asked: _Add) -> None:
    path = Path(asked.pool)
    if not 0 <= asked.prior < math.inf:
        raise BadInput(f"prior={asked.prior} must be at least 0 and finite: try 1, or 0 for none")
    sent = _read_all(asked.files)
    there: set[str] = set()

    def joined(pool: SavedPool) -> SavedPool:
        there.update(pool.members)
        if asked.prior:
            if pool.total is not None:
                raise BadInput(f"prior={asked.prior:g} comes too late for {path}: make a new pool with it")
            pool = pools.with_prior(isotropic(mean(sent[0].posterior), 1 / asked.prior))
        for saved in sent:
            if saved.client in there:
                if not asked.update:
                    raise BadInput(f"client {saved.client!r} is in {path} already: replace it with --update")
                pool = pools.renew(pool, saved)
        return pools.join(pool, *(saved for saved in sent if saved.client not in there))

    after = pools.change(path, joined, new=True)
    for what, some in (("added", False), ("updated", True)):
        if names := [s.client for s in sent if (s.client in there) == some]:
            print(f"{what}: {', '.join(names)}")
    print(f"pool: {path}, {_counted(after)}")
    if columns := own_scales(after.members.values()):
        note = "columns that clients scale each by its own numbers, so that weights count per deviation of"
        screen.err.print(f"[dim]· {escape(f'{note} each: {some_names(columns)}')}[/dim]", soft_wrap=True)


def _read_all(places: Sequence[str]) -> list[Saved]:
    """The posteriors in files and in folders of runs; each client once."""
    if not places:
        raise BadInput("no posteriors to add: name at least one file or folder of a run")
    found: dict[str, tuple[Path, Saved]] = {}
    for place in map(Path, places):
        files = sorted((place / "posteriors").glob("*.safetensors")) if place.is_dir() else [place]
        if not files:
            raise BadData(f"{place} holds no posteriors: name a finished run of fl-swag, or files")
        for file in files:
            saved = read(file)
            if saved.client in found:
                other, _ = found[saved.client]
                raise BadInput(f"client {saved.client!r} is both in {other} and in {file}: give one of them")
            found[saved.client] = (file, saved)
    return [saved for _, saved in found.values()]


@command_with(Flags(_Remove, "posterior remove", REMOVE))
def _remove(asked: _Remove) -> None:
    path, names = Path(asked.pool), list(dict.fromkeys(asked.clients))
    if not names:
        raise BadInput("nobody to remove: name at least one client")

    def left(pool: SavedPool) -> SavedPool:
        refuse_empty(pool, path)
        for name in names:
            pool = pools.leave(pool, name)
        return pool

    after = pools.change(path, left)
    print(f"removed: {', '.join(names)}")
    print(f"pool: {path}, {_counted(after)}")


@command_with(Flags(_Show, "posterior show", SHOW))
def _show(asked: _Show) -> None:
    path = Path(asked.pool)
    pool = refuse_empty(read_pool(path), path)
    together = joint(pool.pool)
    model = pool.model  # as far as the file says
    sizes = f"inputs {model.get('shape')}, outputs {model.get('outputs')}"
    network = f" ({model['name']}, {sizes})" if "name" in model else ""
    screen.out.print(
        f"\n[bold]{escape(str(path))}[/bold]: {_counted(pool)}, "
        f"{wording.several(size(together.slots), 'parameter')}{escape(network)}",
        soft_wrap=True,
    )
    table = Table("client", box=None, header_style="bold")
    for column in ("rows", "form", "spread", "joint / own"):
        table.add_column(column, justify="left" if column == "form" else "right")
    width = _spread(together)
    for name, saved in pool.members.items():
        own = _spread(saved.posterior)
        cells = [wording.whole(saved.samples), saved.posterior.form, wording.number(own)]
        table.add_row(escape(name), *cells, wording.number(width / own))
    if pool.prior is not None:
        table.add_row("prior", "", pool.prior.form, wording.number(_spread(pool.prior)), "", style="dim")
    table.add_row("joint", "", together.form, wording.number(width), "", style="bold")
    screen.out.print(table)
    screen.out.print("[dim]spread: geometric mean of the standard deviations of all parameters[/dim]")


def _spread(posterior: Gaussian) -> float:
    """(Π_j σ_j)^(1/p), σ_j² the j-th entry of Σ's diagonal."""
    return math.exp(float(posterior.precision.root.variances().log().mean()) / 2)


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


@command_with(Flags(_Predict, "posterior predict", PREDICT))
def _predict(asked: _Predict) -> None:
    path, source = Path(asked.pool), Path(asked.source)
    pool = refuse_empty(read_pool(path), path)
    if source.is_dir():
        _predict_run(asked, pool, source)
        return
    if not source.is_file():
        raise BadInput(f"no run folder or table at {source}: check the path")
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
    network = pools.network_of(pool, Path(asked.pool))
    record, clients = _clients_of(source)
    _refuse_other_data(clients, network, pool, asked)
    each = _for_clients(asked, pool, network, clients)
    how = f"{asked.samples} models drawn from" if asked.samples else "the mean of"
    screen.out.print(f"\n[bold]{escape(title(record))}, predicted by {escape(asked.pool)}[/bold]")
    screen.out.print(score_table(clients, [scores(q, c.test.y) for q, c in zip(each, clients, strict=True)]))
    warmth = f", temperature {asked.temperature:g}" if asked.temperature != 1 else ""
    renewed = "; batch norm renewed on each client's training rows" if momenta(network.learner) else ""
    screen.out.print(f"[dim]{how} the joint posterior of {_counted(pool)}{warmth}{renewed}[/dim]")
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
    first, shape, many = clients[0], list(clients[0].test.x.shape[1:]), class_count(clients)
    why = ""
    if first.task != "classification":
        why = f"{asked.source} predicts {PREDICTS[first.task]}, {asked.pool} classes"
    elif shape != list(network.shape):
        takes = f"the network of {asked.pool} takes {list(network.shape)}"
        why = f"{asked.source} has inputs of shape {shape}, {takes}"
    elif many > network.classes:
        why = f"{asked.source} has {many} classes, the network of {asked.pool} knows {network.classes}"
    if why:
        raise BadInput(f"{why}: take a run on the same data")
    known = next(iter(pool.members.values()))
    run = Saved(asked.source, 1, known.posterior, {}, {}, first.features, first.classes, first.preparation)
    refuse_other_meaning(known, run)


def _for_clients(
    asked: _Predict, pool: SavedPool, network: Network, clients: Sequence[Client]
) -> Sequence[Tensor]:
    """Probabilities [n, class] for each client's test rows, by the same draws.

    Batch norm's statistics belong to weights: each client renews those of a draw on its own training rows.
    """
    posterior, key = joint(pool.pool) * (1 / asked.temperature), Key(asked.seed)

    def predicted(x: Tensor, whose: str, network_at: Callable[[Belief], Belief]) -> Tensor:
        """Under a bar that moves with each drawn model."""
        with screen.progress(max(asked.samples, 1), f"predicting {whose}".strip(), "models") as bar:

            def outputs(belief: Belief, inputs: Tensor) -> Tensor:
                bar.start()
                logits = network.outputs(network_at(belief), inputs)
                bar.advance(bar.task_ids[0])
                return logits

            return ensemble.predict(outputs, posterior, x, asked.samples, key.at("predict"))

    tests = [c.test.x for c in clients]
    if not momenta(network.learner):
        return torch.split(predicted(torch.cat(tests), "", lambda belief: belief), [len(x) for x in tests])
    net = InProcess(Loop(), network.learner, tuple(clients))

    def renewed(client: int, belief: Belief) -> Belief:
        whole = hold(tree.stack([{**network.buffers, **belief}]), torch.tensor([client]))
        replies = net.visit(Refresh(), whole, torch.tensor([[0, client]]), key.at("refresh"))
        return tree.row(net.open(replies.beliefs), 0)

    return [predicted(x, clients[i].name, partial(renewed, i)) for i, x in enumerate(tests)]


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


def _counted(pool: SavedPool) -> str:
    rows = sum(s.samples for s in pool.members.values())
    return f"{wording.several(len(pool.members), 'client')}, {wording.several(rows, 'row')}"


KINDS = {"add": _add, "remove": _remove, "show": _show, "predict": _predict}
posterior = subcommands("posterior", HELP, KINDS)
