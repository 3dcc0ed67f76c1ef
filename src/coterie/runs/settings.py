"""A run as data: one frozen dataclass for flags, TOML and the run's record."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from coterie.core.client import Task
from coterie.core.errors import BadInput, Gathered, UnknownName, naming_flags_of, shown
from coterie.core.options import MOST, Facts, coerced, plain, setting, table_of
from coterie.data.forbidden import check_asked
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES, natural_of
from coterie.engines import ENGINES
from coterie.engines.memory import budget_in_bytes
from coterie.kernels import WORK, nested
from coterie.kernels.natural import AUTO, STEPS, natural_work, only_work, refuse_other_than, with_local
from coterie.kernels.nested import names_in
from coterie.methods import METHODS
from coterie.models import MODELS
from coterie.nets import NETS
from coterie.nets.ground import Connector, check_wraps
from coterie.runs.budget import WATTS, check_power, read_budget
from coterie.runs.target_scales import SCALED, Targets, has_scale, takes_scale
from coterie.sites.features import Features
from coterie.storage.plugins import load_plugins

BY_TASK: dict[Task, str] = {"classification": "logistic", "regression": "linear", "survival": "linear"}


Calibrate = Literal["auto", "none", "validation", "folds"]

GIVEN = "given in Python"
OWN = ("loss", "transform", "metrics")
"""What a record of a run from Python may name of one's own."""


class Given(NamedTuple):
    """What somebody brought along in Python, in the place of data and a split by name."""

    fingerprint: str
    """Of rows and first weights."""
    own: Mapping[str, Any]
    """A loss, a transform and metrics of one's own, as a record names them."""


@dataclass(frozen=True)
class Settings:
    """What a run is made of. Options of its parts stand in `options`, one table for each part's name.

    Where clients are `given` in Python, `data` and `split` say so; the model and the method may be objects of
    one's own, and are called by their names.
    """

    data: str = setting("auto", part=SOURCES, decides="rows", source=True)
    """Where samples come from; `coterie data list` shows all. auto takes digits, or what sites of their own
    have."""
    split: str = setting("auto", part=SPLITS, decides="rows", source=True)
    """How samples are dealt to clients; auto takes the natural one for the data."""
    rows: int | None = setting(None, decides="rows", source=True)
    """Take so many rows, drawn by the seed that deals them; a published test set stays whole."""
    clients: int | None = setting(None, decides="rows", source=True)
    """How many clients; by default what the split finds natural."""
    model: str = setting("auto", part=MODELS, decides="start")
    """What learns; auto takes the natural one for the data, of your own tables for their task."""
    method: str = setting("fedavg", part=METHODS)
    """How clients learn together; `coterie methods` shows all."""
    kernel: str = setting(AUTO, part=WORK)
    """The work of a client in a round; work may go around work, as in dp(sgd). auto solves linear models of
    tables, trains others of tables by adamw, and takes sgd otherwise, or where options of sgd are given."""
    targets: Targets = setting("auto", decides="start", quiet=True)
    """Whether a regression learns targets as they are or in a scale that all sites share; predictions are in
    their own unit. auto scales them where kernel auto goes in small steps."""
    rounds: int = setting(30, least=1)
    """Rounds of training."""
    seed: int = setting(0, decides="start", least=0)
    """Where all random numbers come from; with deal, all but those that deal rows."""
    deal: int | None = setting(
        None, decides="rows", source=True, least=0, otherwise=", or leave it out to deal by the seed"
    )
    """The seed by which rows are dealt to clients, to training and to testing; by default that of the run."""
    engine: str = setting("auto", part=ENGINES)
    """How visits are computed; all engines give the same numbers."""
    device: str = setting("cpu", decides="start")
    """Where models and data are while they train: cpu, cuda, mps, ..."""
    memory: str = setting("half", check=budget_in_bytes)
    """What engines may use at once: half of what is free, or an amount such as 4G."""
    test: float = setting(0.3, decides="rows", source=True)
    """Share of a client's rows held out for testing, where the data has no published test set."""
    validation: float = setting(0.0, decides="rows", source=True)
    """Share of a client's remaining rows held out for validation."""
    init: Literal["common", "independent"] = setting("common", decides="start")
    """One initial model for all clients, or one for each."""
    net: str = setting("in-process", part=NETS, decides="start")
    """Where the sites are: in this process, each in one of its own (processes), or on hosts of their own
    (federation)."""
    wrap: tuple[str, ...] = ()
    """What is around the net, the innermost first: absent=0.3 leaves each site out of a round by that chance,
    private=3 keeps each to a budget of differential privacy, liars=0.2 makes some of them lie, contributions
    says what each gave.
    """
    budget: tuple[str, ...] = setting((), quiet=True, alone=((),), check=read_budget)
    """What a run may spend: steps=20000, bytes=50M, seconds=60, kwh=0.001, or several. It ends after the
    round that reaches the first of them, after --rounds at the latest."""
    power: float = setting(WATTS, quiet=True, check=check_power)
    """Watts of a busy core, by which kWh are estimated."""
    evaluate: int = setting(1, least=1)
    """Score the models every so many rounds (and after the last)."""
    checkpoint: int = setting(1, least=1)
    """Save the state every so many rounds (and after the last)."""
    history: int | None = setting(None, least=1, otherwise=", or leave it out")
    """Keep the states of every so many rounds beside the last, to train again from there without a client
    that withdraws; by default the last alone is kept."""
    calibrate: Calibrate = setting("auto", quiet=True, alone=("auto", "none"))
    """What recalibrates the probabilities of the models that a run leaves for use: validation rows, or folds
    of training rows (five more runs); auto takes what there is, none leaves them. Scores are of the models
    themselves in any case."""
    one_class: Literal["refuse", "allow"] = setting("refuse", decides="rows")
    """What to do with a client that trains on a single class, where the split does not aim at it."""
    forbid: tuple[str, ...] = setting((), decides="rows", source=True, quiet=True)
    """Columns that no model may be trained on, by their names in the table: sex postcode."""
    require: tuple[str, ...] = setting((), decides="rows", source=True, quiet=True)
    """Columns that a client must record: one that has no value of them takes no part."""
    plugins: tuple[str, ...] = ()
    """Python files that register methods, models or splits of your own."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    features: Features | None = None  # a table of its own, there or not; no part has its name
    given: Given | None = None  # no option

    def __post_init__(self) -> None:
        wrong = Gathered()
        for name, facts in sorted(FACTS.items(), key=lambda entry: entry[1].least == 0):  # seeds are last
            value, default = getattr(self, name), getattr(Settings, name)
            if facts.least is not None and value is not None and value < facts.least:
                usual = facts.least if default is None else default
                said = f"must be at least {facts.least}: try {usual}{facts.otherwise}"
                wrong.add(f"{name}={value} {said}")
            elif isinstance(value, int) and value >= MOST:
                wrong.add(f"{name}={shown(value)} must lie below 2^63: give a smaller number")
            elif facts.check is not None:
                with wrong.one():
                    facts.check(value)
        with wrong.one():
            check_wraps(self.wrap, self.net)
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
        natural = natural_of(data_for(self.data, self.net))
        model = self.model if self.model != AUTO else natural.model
        kernel, options, scaled = natural_work(METHODS[self.method], natural.table, model)
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

    @property
    def connector(self) -> type[Connector]:
        """What the net says of itself; one that is not known here (its plugin is gone) says what most say."""
        known = self.net in NETS
        return NETS[self.net] if known else Connector

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
        natural = natural_of(data)
        model = AUTO if natural.by_task else natural.model
        named = replace(
            self.with_work(),
            data=data,
            plugins=tuple(str(Path(p).resolve()) for p in self.plugins),
            split=natural.split if self.split == "auto" else self.split,
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
        return replace(self, model=BY_TASK[task]) if self.model == "auto" else self

    def table(self) -> dict[str, Any]:
        """As TOML holds it: settings first, then one table of options for each part; no None."""
        flat = {name: plain(getattr(self, name)) for name in FACTS}
        said = {k: v for k, v in flat.items() if not (FACTS[k].quiet and v == plain(getattr(Settings, k)))}
        said = {k: v for k, v in said.items() if v is not None}
        return {
            **(said if self.given is None else self._without_data(said, self.given)),
            **{k: {o: x for o, x in v.items() if x is not None} for k, v in self.options.items()},
            **({} if self.features is None else {"features": table_of(self.features)}),
        }

    def _without_data(self, said: Mapping[str, Any], given: Given) -> dict[str, Any]:
        """Settings of a run on clients that were given: those that decide who has which rows are left out."""
        names = ("data", "split", "given", "clients", "model", "method", "engine", "init")
        last = {name: given.fingerprint if name == "given" else said[name] for name in names}
        scaled = {"targets": self.targets} if has_scale(self.options.get(self.model, {})) else {}
        work = {"kernel": self.kernel} if self.kernel else {}
        left_out = {
            *names,
            "targets",
            "kernel",
            *settings_that_decide("rows"),
            *([] if self.plugins else ["plugins"]),
        }
        first = {name: value for name, value in said.items() if name not in left_out}
        return {**first, **last, **given.own, **scaled, **work}


FACTS: dict[str, Facts] = {
    f.name: f.metadata.get("facts", Facts())
    for f in fields(Settings)
    if f.name not in ("options", "features", "given")
}
"""What each setting says of itself, by its name."""
PARTS = {name: facts.part for name, facts in FACTS.items() if facts.part is not None}
"""The parts of a run that are named: the registry of each, by the setting."""


def settings_that_decide(what: str) -> tuple[str, ...]:
    """The settings that decide this: who has which rows, or what the first models are."""
    return tuple(name for name, facts in FACTS.items() if facts.decides == what)


def recorded(config: Mapping[str, Any]) -> Settings:
    """Settings as the record of a run has them, to be read. Nothing is checked or loaded: plugins may be
    gone. What a run of an earlier version did not know of yet has its default.
    """
    values: dict[str, Any] = {name: getattr(Settings, name) for name in FACTS}
    values |= {k: tuple(v) if isinstance(v, list) else v for k, v in config.items() if k in FACTS}
    values["features"] = Features.of(config.get("features"))
    own = {name: config[name] for name in OWN if name in config}
    values["given"] = Given(str(config["given"]), own) if "given" in config else None
    others = (*FACTS, *OWN, "features")
    values["options"] = {k: v for k, v in config.items() if isinstance(v, Mapping) and k not in others}
    made = object.__new__(Settings)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def data_for(data: str, net: str) -> str:
    """The data that is meant, where the sites of a net bring their own."""
    brings = net in NETS and NETS[net].meets
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
