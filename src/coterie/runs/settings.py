"""A run as data: one frozen dataclass for flags, TOML and the run's record."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from coterie.core.client import Task
from coterie.core.errors import BadInput, Gathered, UnknownName, naming_flags_of, shown
from coterie.core.options import MOST, coerced, plain, table_of
from coterie.core.registry import Registry
from coterie.data.columns import check_asked
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES
from coterie.engines import ENGINES
from coterie.engines.memory import budget_in_bytes
from coterie.federation import connector  # noqa: F401  registers the net
from coterie.kernels import WORK, nested
from coterie.kernels.natural import AUTO, STEPS, natural_work, only_work, refuse_other_than, with_local
from coterie.kernels.nested import names_in
from coterie.methods import METHODS
from coterie.models import MODELS
from coterie.nets import NETS
from coterie.nets.ground import check_wraps
from coterie.runs.budget import WATTS, check_power, read_budget
from coterie.runs.recalibration import Asked
from coterie.runs.target_scales import SCALED, Targets, takes_scale
from coterie.sites.features import Features
from coterie.storage.plugins import load_plugins

PARTS: dict[str, Registry[Any]] = {
    "data": SOURCES,
    "split": SPLITS,
    "model": MODELS,
    "method": METHODS,
    "kernel": WORK,
    "engine": ENGINES,
    "net": NETS,
}

# what "auto" means: the split and the model with which each source makes a first sensible run
NATURAL = {
    "table": ("silos", "logistic"),
    "sites": ("silos", "logistic"),
    "titanic": ("age-strict", "logistic"),
    "heart-disease": ("silos", "logistic"),
    "tcga-brca": ("silos", "linear"),
    "breast-cancer": ("iid", "logistic"),
    "diabetes": ("iid", "linear"),
    "digits": ("shift", "logistic"),
    "mnist": ("shift", "erosion-cnn"),
    "fashion-mnist": ("interests", "lenet5-small"),
    "cifar10": ("clusters", "pens-cnn"),
    "cifar100": ("dirichlet", "resnet18"),
    "tiny-imagenet": ("dirichlet", "resnet18"),
}
# of rows of your own the task decides, which is known once they are read or the sites are met
OWN_ROWS = ("table", "sites")
TABLES = (*OWN_ROWS, "titanic", "heart-disease", "tcga-brca", "breast-cancer", "diabetes")
BY_TASK: dict[Task, str] = {"classification": "logistic", "regression": "linear", "survival": "linear"}


@dataclass(frozen=True)
class Settings:
    """What a run is made of. Options of its parts stand in `options`, one table for each part's name."""

    data: str = "auto"
    """Where samples come from; `coterie data list` shows all. auto takes digits, or what sites of their own
    have."""
    split: str = "auto"
    """How samples are dealt to clients; auto takes the natural one for the data."""
    rows: int | None = None
    """Take so many rows, drawn by the seed that deals them; a published test set stays whole."""
    clients: int | None = None
    """How many clients; by default what the split finds natural."""
    model: str = "auto"
    """What learns; auto takes the natural one for the data, of your own tables for their task."""
    method: str = "fedavg"
    """How clients learn together; `coterie methods` shows all."""
    kernel: str = AUTO
    """The work of a client in a round; work may go around work, as in dp(sgd). auto solves linear models of
    tables, trains others of tables by adamw, and takes sgd otherwise, or where options of sgd are given."""
    targets: Targets = "auto"
    """Whether a regression learns targets as they are or in a scale that all sites share; predictions are in
    their own unit. auto scales them where kernel auto goes in small steps."""
    rounds: int = 30
    """Rounds of training."""
    seed: int = 0
    """Where all random numbers come from; with deal, all but those that deal rows."""
    deal: int | None = None
    """The seed by which rows are dealt to clients, to training and to testing; by default that of the run."""
    engine: str = "auto"
    """How visits are computed; all engines give the same numbers."""
    device: str = "cpu"
    """Where models and data are while they train: cpu, cuda, mps, ..."""
    memory: str = "half"
    """What engines may use at once: half of what is free, or an amount such as 4G."""
    test: float = 0.3
    """Share of a client's rows held out for testing, where the data has no published test set."""
    validation: float = 0.0
    """Share of a client's remaining rows held out for validation."""
    init: Literal["common", "independent"] = "common"
    """One initial model for all clients, or one for each."""
    net: str = "in-process"
    """Where the sites are: in this process, each in one of its own (processes), or on hosts of their own
    (federation)."""
    wrap: tuple[str, ...] = ()
    """What is around the net, the innermost first: absent=0.3 leaves each site out of a round by that chance,
    private=3 keeps each to a budget of differential privacy, liars=0.2 makes some of them lie, contributions
    says what each gave.
    """
    budget: tuple[str, ...] = ()
    """What a run may spend: steps=20000, bytes=50M, seconds=60, kwh=0.001, or several. It ends after the
    round that reaches the first of them, after --rounds at the latest."""
    power: float = WATTS
    """Watts of a busy core, by which kWh are estimated."""
    evaluate: int = 1
    """Score the models every so many rounds (and after the last)."""
    checkpoint: int = 1
    """Save the state every so many rounds (and after the last)."""
    history: int | None = None
    """Keep the states of every so many rounds beside the last, to train again from there without a client
    that withdraws; by default the last alone is kept."""
    calibrate: Asked = "auto"
    """What recalibrates the probabilities of the models that a run leaves for use: validation rows, or folds
    of training rows (five more runs); auto takes what there is, none leaves them. Scores are of the models
    themselves in any case."""
    one_class: Literal["refuse", "allow"] = "refuse"
    """What to do with a client that trains on a single class, where the split does not aim at it."""
    forbid: tuple[str, ...] = ()
    """Columns that no model may be trained on, by their names in the table: sex postcode."""
    require: tuple[str, ...] = ()
    """Columns that a client must record: one that has no value of them takes no part."""
    plugins: tuple[str, ...] = ()
    """Python files that register methods, models or splits of your own."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    features: Features | None = None  # a table of its own, there or not; no part has its name

    def __post_init__(self) -> None:
        wrong = Gathered()
        for name in ("rounds", "evaluate", "checkpoint"):
            if getattr(self, name) < 1:
                wrong.add(
                    f"{name}={getattr(self, name)} must be at least 1: try {30 if name == 'rounds' else 1}"
                )
        if self.history is not None and self.history < 1:
            wrong.add(f"history={self.history} must be at least 1: try 1, or leave it out")
        with wrong.one():
            budget_in_bytes(self.memory)
        if self.seed < 0:
            wrong.add(f"seed={self.seed} must be at least 0: try 0")
        if self.deal is not None and self.deal < 0:
            wrong.add(f"deal={self.deal} must be at least 0: try 0, or leave it out to deal by the seed")
        for name in ("rounds", "evaluate", "checkpoint", "history", "seed", "deal", "clients", "rows"):
            if (getattr(self, name) or 0) >= MOST:
                wrong.add(f"{name}={shown(getattr(self, name))} must lie below 2^63: give a smaller number")
        with wrong.one():
            check_wraps(self.wrap, self.net)
        with wrong.one():
            read_budget(self.budget)
        with wrong.one():
            check_power(self.power)
        with wrong.one():
            check_asked(self.forbid, self.require)
        wrong.refuse()

    @property
    def dealt_by(self) -> int:
        """The seed that decides who has which rows, and which of them are for testing."""
        return self.seed if self.deal is None else self.deal

    def with_work(self) -> Settings:
        """With the natural work of the method on this data in the place of `auto`; options of sgd alone mean
        sgd.
        """
        if only := only_work(METHODS[self.method]):
            refuse_other_than(only, self.method, only if self.kernel == AUTO else self.kernel)
            return replace(self, kernel=only, targets="auto")
        if self.kernel != AUTO:
            return self
        data = data_for(self.data, self.net)
        model = self.model if self.model != AUTO else NATURAL.get(data, ("", "mlp"))[1]
        kernel, options, scaled = natural_work(METHODS[self.method], data in TABLES, model)
        if kernel != STEPS and [name for name in self.options if name in WORK] == [STEPS]:
            return replace(self, kernel=STEPS)
        tables = {**self.options, kernel: {**options, **self.options.get(kernel, {})}}
        fits = self.features is None and (self.model == AUTO or takes_scale(self.model))
        targets = SCALED if self.targets == AUTO and scaled and fits else self.targets
        return replace(self, kernel=kernel, targets=targets, options=tables if options else self.options)

    def parts(self) -> dict[str, str]:
        """The name of each part; work around work is one, as it is written."""
        return {kind: getattr(self, kind) for kind in PARTS}

    def tables(self) -> list[str]:
        """The names that options may be given for; a method that is one kind of work alone leaves it none."""
        fixed = {"kernel"} if only_work(METHODS[self.method]) else set[str]()
        parts = ((kind, getattr(self.with_work(), kind)) for kind in PARTS if kind not in fixed)
        return [n for kind, name in parts for n in (names_in(name) if kind == "kernel" else (name,))]

    def made(self, kind: str, **more: Any) -> Any:
        """The part of that kind, built from its options; a method with the `local` work that is given, if it
        takes any.
        """
        if kind == "kernel":
            worked = self.with_work()
            return nested.made(worked.kernel, worked.options)
        name = getattr(self, kind)
        cls = PARTS[kind][name]
        more = with_local(cls, more["local"]) if "local" in more else more
        with naming_flags_of(*more.values(), cls):
            return cls(**coerced(cls, self.options.get(name, {}), f"{kind} {name}"), **more)

    def resolved(self) -> Settings:
        """With every `auto` replaced and every option of every part spelled out; but for the model of rows of
        your own, which `for_task` names once their task is known.
        """
        data = data_for(self.data, self.net)
        split, model = NATURAL.get(data, ("iid", "mlp"))
        model = "auto" if data in OWN_ROWS else model
        named = replace(
            self.with_work(),
            data=data,
            plugins=tuple(str(Path(p).resolve()) for p in self.plugins),
            split=split if self.split == "auto" else self.split,
            model=model if self.model == "auto" else self.model,
        )
        tables, wrong = dict[str, Any](), Gathered()
        for kind, name in named.parts().items():
            if (kind, name) == ("model", "auto"):
                continue
            with wrong.one():
                if kind == "kernel":
                    spelled, mine = nested.tables_of(named.made(kind))
                    fixed = only_work(METHODS[named.method])
                    named, tables = replace(named, kernel=spelled), tables if fixed else tables | mine
                else:
                    tables[name] = table_of(named.made(kind))
        used: list[str] = []
        with contextlib.suppress(BadInput):  # of a kernel, and said already
            used = named.tables()
        for table in self.options if used else ():
            if table not in used:
                wrong.add(unused(table, used))
        wrong.refuse()
        tables[named.method].pop("local", None)  # the kernel has a table of its own
        return replace(named, options={name: t for name, t in tables.items() if t})

    def for_task(self, task: Task) -> Settings:
        """With the natural model of a task, unless one is named."""
        return replace(self, model=BY_TASK[task]) if self.model == "auto" else self

    def table(self) -> dict[str, Any]:
        """As TOML holds it: settings first, then one table of options for each part; no None."""
        tables = ("options", "features")
        flat = {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name not in tables}
        # left out, so that runs of earlier versions go on
        unsaid = {
            "budget": [],
            "power": WATTS,
            "calibrate": "auto",
            "forbid": [],
            "require": [],
            "targets": AUTO,
        }
        flat = {name: v for name, v in flat.items() if name not in unsaid or v != unsaid[name]}
        return {
            **{k: v for k, v in flat.items() if v is not None},
            **{k: {o: x for o, x in v.items() if x is not None} for k, v in self.options.items()},
            **({} if self.features is None else {"features": table_of(self.features)}),
        }


def data_for(data: str, net: str) -> str:
    """The data that is meant, where the sites of a net bring their own."""
    brings = hasattr(NETS[net], "meet") if net in NETS else False
    if data == "auto":
        return "sites" if brings else "digits"
    if brings and data != "sites":
        raise BadInput(f"data {data!r}, but sites of net {net} have rows of their own: leave --data out")
    return data


def from_table(table: Mapping[str, Any], where: str) -> Settings:
    """Settings from a TOML table, the inverse of `Settings.table`; all that is wrong is said at once."""
    wrong = Gathered()
    files = table.get("plugins", ())
    if isinstance(files, list | tuple) and all(isinstance(f, str) for f in files):
        load_plugins(files)  # first: they may register names that are used below
    names = {n for registry in PARTS.values() for n in registry}
    options = {k: dict(v) for k, v in table.items() if isinstance(v, Mapping)}
    with wrong.one():
        features = Features.of(options.pop("features", None))
    flat = {k: v for k, v in table.items() if not isinstance(v, Mapping)}
    for name in options:
        with wrong.one():
            if name not in names:
                raise UnknownName(f"table in {where}", name, {*names, "features"})
    with wrong.one():
        values = coerced(Settings, flat, where)
    wrong.refuse()
    return Settings(**values, options=options, features=features)


def unused(table: str, used: Iterable[str]) -> str:
    """Why options of a part that is not among those used are refused."""
    return f"options for {table!r}, which this run does not use: it uses {', '.join(used)}"


def read_toml(path: Path) -> dict[str, Any]:
    """A file of settings, with or without a byte-order mark."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}: check the path") from None
    except RecursionError:
        raise BadInput(f"{path} is not valid TOML: it nests too deeply") from None
    except ValueError as error:  # a number of thousands of digits, letters that are not UTF-8, a typing error
        raise BadInput(f"{path} is not valid TOML: {' '.join(str(error).split())}") from None


def digest(table: Mapping[str, Any]) -> str:
    """A short fingerprint of a config: two runs with the same one compute the same numbers."""
    text = json.dumps(table, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
