"""Several methods and seeds on one's own clients, from Python."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w
from torch import nn

from coterie.api import checks
from coterie.api.natural import natural_for, options_of_work, parts_of, with_targets
from coterie.api.result import Result
from coterie.api.train import (
    finished,
    footing_of,
    given_config,
    given_experiment,
    train,
)
from coterie.core.belief import Beliefs
from coterie.core.checks import FILE, FOLDER, checked, or_none
from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput, BadRun, CoterieWarning
from coterie.core.kernel import Trainer
from coterie.core.method import Method
from coterie.core.options import coerced, options_of
from coterie.core.roster import Roster, roster_of
from coterie.core.seeds import Key
from coterie.data.fit_together import check_clients
from coterie.data.rereading import anew
from coterie.engines.threads import narrow
from coterie.kernels import nested
from coterie.kernels.constant import Constant
from coterie.kernels.natural import STEPS, Natural, only_work, work_of_options
from coterie.methods import METHODS
from coterie.methods.baselines import NOTHING
from coterie.methods.baselines.nothing import Nothing
from coterie.metrics.own import own_of
from coterie.nets.ground import admit
from coterie.report.latex import latex_table
from coterie.report.notebook import runs_html
from coterie.report.page import Section, write_report
from coterie.report.progress import watched
from coterie.report.sweeps import sweep_frame
from coterie.report.tables import summary_frame, write_csv
from coterie.report.words import brief
from coterie.runs.about import fingerprint
from coterie.runs.budget import specs_of
from coterie.runs.compare import is_comparison, left_out, parsed, slug
from coterie.runs.record import Record
from coterie.runs.settings import Settings, read_toml
from coterie.runs.sweeps import Entry, expanded, grid_from, specs_from
from coterie.sites.footing import Footing
from coterie.storage.atomic import write_whole
from coterie.storage.locks import locked
from coterie.storage.paths import given_file, given_folder
from coterie.watching import nobody, told

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
@narrow()
def compare(
    model: nn.Module | str,
    clients: Sequence[Client],
    methods: Sequence[Entry] | Mapping[str, Mapping[str, Any]] = ("local", "fedavg", "finetune"),
    *,
    grid: Sequence[str] | Mapping[str, Any] = (),
    seeds: int = 3,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Compared:
    """Trains with each method and seed on the same clients; further keywords are those of `train`.

    A method may carry options: "fedavg:weighted=false" or {"fedavg": {"weighted": False}}. Several values are
    a sweep, of which all combinations are compared: "finetune:tune=1|5" or {"finetune": {"tune": [1, 5]}};
    `grid` does so for every method that has the option: {"lr": [0.03, 0.1]}. With seeds, first
    weights are drawn anew for each (init="common") unless `init` says otherwise. With `out`, everything is
    written as `coterie compare` does, for `coterie report`. What always the same answer has is beside them as
    `nothing`; with resume=True, what is finished there is read
    and the rest goes on. `progress`: a bar, True, False, or None for one in a terminal or a notebook.
    """
    checks.check_keywords(options)
    if "method" in options:
        raise BadInput("compare takes several methods: pass methods=['local', 'fedavg']")
    if not len(methods):
        raise BadInput("no methods to compare: try local, fedavg, finetune")
    brought = own_of(
        options.pop("loss", None),
        options.pop("metrics", None),
        options.pop("lower", ()),
        anew(clients, options.pop("transform", None)),
    )
    asked = options.get("kernel") or meant_by([*options, *grid_from(grid), *named_in(methods)])
    named = asked or "newton" if isinstance(asked, str) else ""
    methods = expanded(specs_from(methods, named), grid_from(grid), named)
    specs = {spec: parsed(spec) for spec in methods}
    if len({slug(spec) for spec in specs}) < len(methods):
        raise BadInput(f"methods {', '.join(methods)} name one twice: name each once")
    known = set(inspect.signature(train).parameters)
    common = {k: v for k, v in options.items() if k in known}
    init, features = common.pop("init", "common"), common.pop("features", None)
    common.pop("kernel", None)
    engine = common.pop("engine", "auto")
    watch = told(common.pop("watch", nobody))
    rest = {k: v for k, v in options.items() if k not in known}
    common["budget"] = specs_of(common.get("budget", ()))
    natural = {spec: natural_for(model, clients, name, brought) for spec, (name, _) in specs.items()}
    free = {spec for spec, (_, own) in specs.items() if not own.get("kernel", asked)}
    ways = ways_of(specs, asked, rest, natural)
    path = None if out is None else given_folder(str(out), "out")
    first, done = Settings(**coerced(Settings, {**common, "seed": seed}, "compare")), 0
    works = {s: [(natural[s], ways[s][0])] if s in free and features is None else [] for s in ways}
    targets = {spec: with_targets(first, model, work).targets for spec, work in works.items()}
    check_clients(clients, allow_one_class=first.one_class == "allow")  # before anything counts their labels
    ways = with_nothing(ways, path if resume else None, model, clients, first, rest)
    methods = list(ways)
    results: dict[str, list[Result]] = {spec: [] for spec in ways}
    total = seeds * sum(rounds_of(first, way).rounds for _, way in ways.values())
    with ExitStack() as inside:
        watch_of = inside.enter_context(watched(total, progress, watch))
        for i in range(seeds):
            settings = replace(first, seed=first.seed + i)
            key = Key(settings.seed, rounds=settings.rounds)

            def check(roster: Roster, start: Beliefs, key: Key = key) -> None:
                for _, way in ways.values():
                    way.check(roster, start, key)

            footing = footing_of(model, clients, settings, init, features, check, own=brought)
            check(footing.roster, footing.beliefs)
            for work, way in ways.values() if i == 0 and first.budget else ():  # all refusals first
                config = given_config(footing, model, settings, work, way, engine, init, features, brought)
                given_experiment(footing, config, settings, way, brought).net.close()
            if path is not None and i == 0:
                table = {"methods": list(methods), "seeds": seeds, **settings.table(), **brought.table()}
                begin(path, table, footing, resume)
                inside.enter_context(closing(locked(path)))
            for spec, (work, way) in ways.items():
                its, ground = rounds_of(settings, way), footing
                if (wanted := targets.get(spec, first.targets)) != first.targets:
                    its = replace(its, targets=wanted)
                    ground = footing_of(model, clients, its, init, features, check, own=brought)
                config = given_config(ground, model, its, work, way, engine, init, features, brought)
                experiment = given_experiment(ground, config, its, way, brought)
                place = None if path is None else path / slug(spec) / f"seed-{settings.seed}"
                seen = watch_of(f"{spec} seed {settings.seed}", done)
                results[spec].append(finished(experiment, place, resume, seen, label=spec))
                done += its.rounds
    return Compared(results)


Ways = dict[str, tuple[Trainer, Method]]
"""By spec: the local work, and the method."""


def ways_of(
    specs: Mapping[str, tuple[str, dict[str, Any]]],
    asked: Any,
    rest: Mapping[str, Any],
    natural: Mapping[str, Natural],
) -> Ways:
    """Each method with the work that it does: its own, what was asked for, or what is natural for it. Options
    that all share (`rest`) go to those that have them.
    """
    of = {name: {o.name for o in options_of(METHODS[name])} for name, _ in specs.values()}
    alone = {option for names in of.values() for option in names}
    named = {
        spec: own.pop("kernel", "" if only_work(METHODS[name]) else asked)
        for spec, (name, own) in specs.items()
    }
    works = {spec: named[spec] or natural[spec].kernel for spec in specs}
    refuse_other_work(specs, works)
    alone |= {option for work in works.values() for option in options_of_work(work)}
    made = Ways()
    for spec, (name, own) in specs.items():
        here = of[name] | options_of_work(works[spec])
        shared = {k: v for k, v in rest.items() if k not in alone or k in here}
        usual = natural[spec].unless(named[spec] or None)
        made[spec] = parts_of(works[spec], name, {**shared, **own}, works[spec], usual)
    return made


def with_nothing(
    ways: Ways,
    begun: Path | None,
    model: nn.Module | str,
    clients: Sequence[Client],
    settings: Settings,
    rest: Mapping[str, Any],
) -> Ways:
    """The same with `nothing` first, unless somebody asked for it or a comparison that was `begun` did
    without; a warning says why this model or these wrappers do.
    """
    if any(isinstance(way, Nothing) for _, way in ways.values()):
        return ways
    old = begun is not None and is_comparison(begun) and read_toml(begun / "compare.toml")
    if old and NOTHING not in old.get("methods", [NOTHING]):
        return ways
    of = {k: v for k, v in rest.items() if k in {o.name for o in options_of(Nothing)}}
    work, way = parts_of(None, NOTHING, of)
    try:
        roster = roster_of(clients)
        if isinstance(model, nn.Module):
            Constant().tries(model, roster.shape)
        admit(settings.wrap, way, roster)
    except (BadInput, BadData) as error:
        warnings.warn(left_out(error), CoterieWarning, stacklevel=5)
        return ways
    return {NOTHING: (work, way), **ways}


def rounds_of(settings: Settings, way: Method) -> Settings:
    """What is found in one round has one."""
    return replace(settings, rounds=1) if isinstance(way, Nothing) else settings


def named_in(methods: Sequence[Entry] | Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Specs, and the options of those that are given as dictionaries."""
    entries = [methods] if isinstance(methods, Mapping) else [m for m in methods if isinstance(m, Mapping)]
    options = [option for entry in entries for own in entry.values() for option in own]
    return [*(spec for spec in methods if isinstance(spec, str)), *options]


def meant_by(words: Sequence[str]) -> str:
    """The local work whose options are among these, or in these specs, if it is the usual one of small steps
    and nobody names any.
    """
    options = [
        re.split(r"[=|]", part)[0].rpartition(".") for word in words for part in re.split("[:,]", word)
    ]
    tables = {table for table, _, _ in options if table}
    plain = [option for table, _, option in options if not table]
    return STEPS if STEPS in tables else work_of_options(plain)


def refuse_other_work(specs: Mapping[str, tuple[str, Mapping[str, Any]]], works: Mapping[str, Any]) -> None:
    """A spec's options of local work, sgd.lr, must be of the work that its method does."""
    for spec, (_, own) in specs.items():
        done = works[spec] or "sgd"
        names = nested.names_in(done) if isinstance(done, str) else ()
        for option in own:
            table, dot, _ = option.partition(".")
            if dot and table not in names:
                work = ", ".join(names) or "an object with its own options"
                raise BadInput(f"method {spec!r} has {option}, but its local work is {work}: leave it out")


def begin(path: Path, table: dict[str, Any], footing: Footing, resume: bool) -> None:
    """Says what is compared, for a report of it; or finds the same said."""
    told = {k: v for k, v in table.items() if k not in ("data", "split", "model", "kernel", "method")}
    told["given"] = fingerprint(footing.roster, footing.beliefs)
    if path.is_dir() and any(path.iterdir()):
        if not resume:
            raise BadRun(
                f"output folder {path} is not empty: pass resume=True to go on, or choose another out"
            )
        if not is_comparison(path) or read_toml(path / "compare.toml") != told:
            raise BadRun(f"{path} holds something else than this comparison: choose another out")
    write_whole(path / "compare.toml", tomli_w.dumps(told))
