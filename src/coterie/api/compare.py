"""Several methods and seeds on one's own clients, from Python."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import tomli_w
from torch import Tensor, nn

from coterie.api import checks
from coterie.api.checks import settings_as_keywords, split_settings
from coterie.api.result import Result, result_of
from coterie.api.train import (
    asked_for,
    natural_for,
    options_of_work,
    refuse_other_contents,
    warn_of_leaks,
)
from coterie.core.checks import FILE, FOLDER, checked, or_none
from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput, BadRun, CoterieWarning
from coterie.core.kernel import Trainer
from coterie.core.learner import Loss
from coterie.core.method import Method
from coterie.core.options import options_of
from coterie.data.intake import anew
from coterie.engines.threads import narrow
from coterie.kernels import nested
from coterie.kernels.natural import STEPS, only_work, work_of_options
from coterie.methods import METHODS
from coterie.methods.baselines import NOTHING
from coterie.methods.baselines.nothing import Nothing
from coterie.metrics.own import Transform, own_of
from coterie.report.outcome import brief
from coterie.report.page import write_report
from coterie.report.progress import watched
from coterie.report.summary import runs_html
from coterie.report.tables import latex_table, summary_frame, sweep_frame, write_csv
from coterie.runs.about import fingerprint
from coterie.runs.budget import specs_of
from coterie.runs.builder import Builder, Handed
from coterie.runs.compare import is_comparison, left_out, parsed, slug
from coterie.runs.loop import run_in
from coterie.runs.record import Record
from coterie.runs.settings import Settings, read_toml
from coterie.runs.sweeps import Entry, expanded, grid_from, specs_from
from coterie.show.parts import Runs as Section
from coterie.sites.features import Features
from coterie.storage.atomic import write_whole
from coterie.storage.locks import locked
from coterie.storage.paths import given_file, given_folder
from coterie.watching import Watcher, called_after_rounds, nobody

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Compared:
    """Results by method, one for each seed."""

    results: dict[str, list[Result]]

    def __repr__(self) -> str:
        return f"Compared({brief(self.records)})"

    def _repr_html_(self) -> str:
        return runs_html("Compared", self.records)

    @property
    def records(self) -> list[Record]:
        return [r.record for results in self.results.values() for r in results]

    def summary(self) -> pd.DataFrame:
        """One line for each method: mean over clients with its interval over seeds, worst client, cost."""
        return summary_frame(self.records)

    def frame(self) -> pd.DataFrame:
        """One row for each method, seed and client: `name` of the method, each option that a spec names as a
        column, the client's rows and its final figures.
        """
        return sweep_frame(self.records)

    @checked(path=or_none(FILE))
    def latex(self, path: str | Path | None = None) -> str:
        """The summary as a LaTeX table (booktabs), best bold and ties marked; also written to `path`."""
        text = latex_table(self.records)
        if path is not None:
            write_whole(given_file(str(path), "path"), text)
        return text

    @checked(folder=FOLDER)
    def csv(self, folder: str | Path) -> list[Path]:
        """Writes history, summary, clients, collaboration and more as CSV; returns the files."""
        return write_csv(given_folder(str(folder), "folder"), self.records)

    @checked(**checks.PAGE)
    def report(self, path: str | Path) -> Path:
        """Writes one HTML page that opens offline."""
        target = given_file(str(path), "path")
        write_report(target, [Section("comparison", self.records)])
        return target


@checked(**checks.COMPARE)
@settings_as_keywords
@narrow()
def compare(
    model: nn.Module | str,
    clients: Sequence[Client],
    methods: Sequence[Entry] | Mapping[str, Mapping[str, Any]] = ("local", "fedavg", "finetune"),
    *,
    grid: Sequence[str] | Mapping[str, Any] = (),
    seeds: int = 3,
    kernel: str | Trainer | None = None,
    loss: Loss | None = None,
    metrics: Mapping[str, Callable[[Tensor, Tensor], Any]] | None = None,
    lower: Collection[str] = (),
    transform: Transform | None = None,
    init: Literal["given", "common", "independent"] = "common",
    budget: Sequence[str] | Mapping[str, float] = (),
    features: Features | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watcher = nobody,
    progress: bool | None = None,
    **options: Any,
) -> Compared:
    """Trains with each method and seed on the same clients; keywords are those of `train`.

    A method may carry options: "fedavg:weighted=false" or {"fedavg": {"weighted": False}}. Several values are
    a sweep, of which all combinations are compared: "finetune:tune=1|5" or {"finetune": {"tune": [1, 5]}};
    `grid` does so for every method that has the option: {"lr": [0.03, 0.1]}. With seeds, first
    weights are drawn anew for each (init="common") unless `init` says otherwise. With `out`, everything is
    written as `coterie compare` does, for `coterie report`. What always the same answer has is beside them as
    `nothing`; with resume=True, what is finished there is read
    and the rest goes on. `progress`: a bar, True, False, or None for one in a terminal or a notebook.
    """
    path = None if out is None else given_folder(str(out), "out")
    shared, options = split_settings(
        options, "compare", init=init, budget=specs_of(budget), features=features
    )
    handed = Handed(model, clients, own_of(loss, metrics, lower, anew(clients, transform)))
    builder, cells = Builder(handed), _asked(handed, shared, methods, grid, kernel, options)
    for cell in cells:
        builder.check(cell.settings, cell.method)
    cells = _with_nothing(cells, builder, path if resume else None, handed, shared, options)
    results: dict[str, list[Result]] = {cell.spec: [] for cell in cells}
    total, done = seeds * sum(cell.settings.rounds for cell in cells), 0
    with ExitStack() as inside:
        watch_of = inside.enter_context(watched(total, progress, called_after_rounds(watch)))
        if path is not None:
            _begin(path, cells, seeds, shared, builder, resume)
            inside.enter_context(closing(locked(path)))
        for seed in range(shared.seed, shared.seed + seeds):
            for spec, way, method in cells:
                settings = replace(way, seed=seed)
                place = None if path is None else path / slug(spec) / f"seed-{seed}"
                refuse_other_contents(place, resume)
                ready = partial(builder.prepare, settings, method=method)
                result = run_in(place, ready, spec, watch_of(f"{spec} seed {seed}", done), result_of)
                warn_of_leaks(result)
                results[spec].append(result)
                done += settings.rounds
    return Compared(results)


class _Cell(NamedTuple):
    """A method with its options, as it is written; its settings, and the method itself."""

    spec: str
    settings: Settings
    method: Method


def _asked(
    handed: Handed,
    shared: Settings,
    methods: Sequence[Entry] | Mapping[str, Mapping[str, Any]],
    grid: Sequence[str] | Mapping[str, Any],
    kernel: str | Trainer | None,
    options: Mapping[str, Any],
) -> list[_Cell]:
    """The methods that are asked for, each with the natural work on these clients unless some is named."""
    if "method" in options:
        raise BadInput("compare takes several methods: pass methods=['local', 'fedavg']")
    if not len(methods):
        raise BadInput("no methods to compare: try local, fedavg, finetune")
    given = [methods] if isinstance(methods, Mapping) else [m for m in methods if isinstance(m, Mapping)]
    inner = [option for entry in given for own in entry.values() for option in own]
    texts = [spec for spec in methods if isinstance(spec, str)]
    asked: Any = kernel or _meant_by([*options, *grid_from(grid), *texts, *inner])
    named = asked or "newton" if isinstance(asked, str) else ""
    found = expanded(specs_from(methods, named), grid_from(grid), named)
    specs = {spec: parsed(spec) for spec in found}
    if len({slug(spec) for spec in specs}) < len(found):
        raise BadInput(f"methods {', '.join(found)} name one twice: name each once")
    # each does its own work, what was asked for, or what is natural for it
    own_work = {s: own.pop("kernel", "" if only_work(METHODS[n]) else asked) for s, (n, own) in specs.items()}
    works = {s: own_work[s] or natural_for(handed, name).kernel for s, (name, _) in specs.items()}
    for spec, (_, own) in specs.items():
        done = works[spec]
        names = nested.names_in(done) if isinstance(done, str) else ()
        for option in own:
            table, dot, _ = option.partition(".")
            if dot and table not in names:
                work = ", ".join(names) or "an object with its own options"
                raise BadInput(f"method {spec!r} has {option}, but its local work is {work}: leave it out")
    # options that all share go to those that have them
    taken = {s: options_of_work(works[s]) for s in specs}
    taken = {s: taken[s] | {o.name for o in options_of(METHODS[name])} for s, (name, _) in specs.items()}
    cells, alone = [], {option for names in taken.values() for option in names}
    for spec, (name, own) in specs.items():
        mine = {k: v for k, v in options.items() if k not in alone or k in taken[spec]}
        settings, method = asked_for(handed, shared, name, own_work[spec] or None, {**mine, **own})
        rounds = 1 if name == NOTHING else settings.rounds  # what is found in one has one
        cells.append(_Cell(spec, replace(settings, rounds=rounds), method))
    return cells


def _with_nothing(
    cells: list[_Cell],
    builder: Builder,
    begun: Path | None,
    handed: Handed,
    shared: Settings,
    options: Mapping[str, Any],
) -> list[_Cell]:
    """The same with `nothing` first, unless somebody asked for it or a comparison that was `begun` did
    without; a warning says why this model or these wrappers do.
    """
    if any(cell.settings.method == NOTHING for cell in cells):
        return cells
    old = begun is not None and is_comparison(begun) and read_toml(begun / "compare.toml")
    if old and NOTHING not in old.get("methods", [NOTHING]):
        return cells
    own = {k: v for k, v in options.items() if k in {o.name for o in options_of(Nothing)}}
    cell = _Cell(NOTHING, *asked_for(handed, replace(shared, rounds=1), NOTHING, None, own))
    try:
        builder.check(cell.settings, cell.method)
    except (BadInput, BadData) as error:
        warnings.warn(left_out(error), CoterieWarning, stacklevel=5)
        return cells
    return [cell, *cells]


def _meant_by(words: Sequence[str]) -> str:
    """The local work whose options are among these, or in these specs, if it is the usual one of small steps
    and nobody names any.
    """
    parts = [part for word in words for part in re.split("[:,]", word)]
    options = [re.split(r"[=|]", part)[0].rpartition(".") for part in parts]
    plain = [option for table, _, option in options if not table]
    return STEPS if any(table == STEPS for table, _, _ in options) else work_of_options(plain)


def _begin(
    path: Path, cells: Sequence[_Cell], seeds: int, shared: Settings, builder: Builder, resume: bool
) -> None:
    """Says what is compared, for a report of it; or finds the same said. Where weights begin, by what they
    are computed and what is frozen, each run says itself.
    """
    plain = replace(shared, init=Settings.init, engine=Settings.engine, features=None)
    table = {"methods": [cell.spec for cell in cells], "seeds": seeds, **plain.table(), **builder.own.table()}
    said = {k: v for k, v in table.items() if k not in ("data", "split", "model", "kernel", "method")}
    setup = builder.setup(replace(cells[-1].settings, targets=shared.targets), lambda roster, start: ())
    said["given"] = fingerprint(setup.roster, setup.beliefs)
    if path.is_dir() and any(path.iterdir()):
        if not resume:
            raise BadRun(
                f"output folder {path} is not empty: pass resume=True to go on, or choose another out"
            )
        if not is_comparison(path) or read_toml(path / "compare.toml") != said:
            raise BadRun(f"{path} holds something else than this comparison: choose another out")
    write_whole(path / "compare.toml", tomli_w.dumps(said))
