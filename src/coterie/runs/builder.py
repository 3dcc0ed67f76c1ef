"""From settings to experiments: data are loaded once for a study, and dealt once for a seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from coterie.core import belief as tree
from coterie.core.client import Client, class_count
from coterie.core.clock import CLOCK
from coterie.core.devices import device_of
from coterie.core.errors import BadInput, UnknownName
from coterie.core.facts import called, kernel_fact
from coterie.core.kernel import Trainer
from coterie.core.method import Method, check_method
from coterie.core.net import NETS
from coterie.core.options import table_of
from coterie.core.roster import Roster, roster_of
from coterie.core.seeds import Key
from coterie.data.build import Dealt, check_clients, deal_clients
from coterie.data.dataset import Dataset, some_of
from coterie.data.sources.base import Source
from coterie.engines.auto import SMALL as SMALL_MODEL
from coterie.engines.threads import SMALL as FEW_NUMBERS
from coterie.engines.threads import narrow
from coterie.kernels import nested
from coterie.metrics.own import NOTHING, Own
from coterie.models import MODELS
from coterie.nets import Made
from coterie.nets.ground import Rule
from coterie.runs.about import fingerprint
from coterie.runs.experiment import Experiment, check_model, check_work, experiment_of, refuse
from coterie.runs.settings import GIVEN, PARTS, Given, Settings, settings_that_decide
from coterie.runs.target_scales import (
    AUTO,
    SCALED,
    has_scale,
    note_on_scale,
    note_on_sites,
    options_with_scale,
)
from coterie.sites.setup import Check, Setup, check_outputs, precision_of, reinitialised, set_up

INITS = ("given", "common", "independent")


@dataclass(frozen=True, eq=False)
class Handed:
    """Clients that are not `tested` may lack test rows, and are then not scored."""

    model: nn.Module | str
    clients: Sequence[Client]
    own: Own = NOTHING
    tested: bool = True

    @property
    def called(self) -> str:
        return self.model if isinstance(self.model, str) else type(self.model).__name__

    def settings(self, settings: Settings, work: Trainer | None, method: Method) -> Settings:
        """Settings that say of these clients, this work and this method what a record can say of them."""
        name = called(method)
        table, kernel, tables = table_of(method), "", dict[str, dict[str, Any]]()
        if work is not None:
            table.pop("local", None)
            kernel, tables = nested.tables_of(work)
        return dataclasses.replace(
            settings,
            data=GIVEN,
            split=GIVEN,
            clients=len(self.clients),
            model=self.called,
            method=name,
            kernel=kernel,
            options={**tables, name: table},
            given=Given("", self.own.table()),
        )

    def setup(self, settings: Settings, check: Check) -> Setup:
        if self.own.transform is not None and settings.features is not None:
            raise BadInput(
                "with features clients train on what the server's layers make of their rows, and a transform "
                "is of the rows themselves: leave one of them out"
            )
        clients, allow = self.clients, settings.one_class == "allow"
        notes = check_clients(clients, allow_one_class=allow, allow_untested=not self.tested)
        named = self.model if isinstance(self.model, str) else ""
        scale = options_with_scale(settings.targets, clients[0].task, named, {}, clients)
        module, beliefs = self._start(settings, scale)
        as_given = isinstance(self.model, nn.Module) and str(settings.init) == "given"

        def all_checks(roster: Roster, start: tree.Beliefs) -> None:
            check(roster, start)
            self.own.check(module, [c.cast(precision_of(start)) for c in clients] if self.own else ())

        recipe = clients[0].recipe
        setup = set_up(
            clients,
            module,
            beliefs,
            (*notes, *note_on_scale(scale)),
            all_checks,
            made=Made(named, scale, settings.plugins) if named else None,
            features=settings.features,
            key=Key(settings.seed, rounds=settings.rounds),
            server=lambda drawn: module if as_given else reinitialised(module, drawn),
            called=self.called,
            device=settings.device,
            one_class=allow,
            recipe=recipe if all(c.recipe == recipe for c in clients) else None,
        )
        if setup.body is None:  # otherwise it was checked before the server trained
            self.own.check(setup.model, setup.clients)
        return setup

    def _start(self, settings: Settings, options: Mapping[str, Any]) -> tuple[nn.Module, tree.Beliefs]:
        """The module and the first weights [1 or client]."""
        model, init = self.model, str(settings.init)
        if init not in INITS:
            raise UnknownName("init", init, INITS)
        seeds = [Key(settings.seed, ("model", i)).integer() for i in range(len(self.clients))]
        shape = tuple(self.clients[0].train.x.shape[1:])
        if isinstance(model, str):
            module = MODELS.make(model, **options).build(shape, class_count(self.clients), seeds[0])
        elif isinstance(model, nn.Module):
            if any(nn.parameter.is_lazy(p) for p in model.parameters()):
                raise BadInput("the model has layers without a shape yet: run one batch through it first")
            module = model if init == "given" else reinitialised(model, seeds[0])
        else:
            raise BadInput(f"model must be a torch module or a name; got {type(model).__name__}")
        refuse_no_parameters(module)
        others = seeds[1:] if init == "independent" else []
        modules = [module, *(reinitialised(module, s) for s in others)]
        return module, tree.stack([tree.belief_of(m) for m in modules])


def refuse_no_parameters(module: nn.Module) -> None:
    if not any(True for _ in module.parameters()):
        raise BadInput("the model has no parameters, so there is nothing to train: give one that has")


class Builder:
    """Makes experiments from settings; the data of a source and the sites of a seed are loaded and dealt
    once. Rows that `deal` fixes for all seeds are dealt once for all.

    Clients and a model that were `handed` over in Python stand in the place of those that settings name. A
    method is made from settings by its name, or is an object that comes with them.
    """

    def __init__(self, handed: Handed | None = None) -> None:
        self.handed = handed
        self._data: dict[Source, Dataset] = {}
        self._fixed: dict[str, Dealt] = {}
        self._setup: dict[str, Setup] = {}

    def prepare(
        self, settings: Settings, command: str | None = None, method: Method | None = None
    ) -> Experiment:
        with CLOCK.part("data"), narrow():
            settings, method, key = _method(settings, method)
            setup = self.setup(settings, lambda roster, start: check_method(method, roster, start, key))
            settings = settled(settings, setup)
            connector, engine = settings.made("net"), settings.made("engine")
            return experiment_of(
                setup, settings, method, connector=connector, engine=engine, command=command, own=self.own
            )

    def check(self, settings: Settings, method: Method | None = None) -> None:
        """Refuses a method that cannot work, whole, with its local work; nothing is written or started."""
        with CLOCK.part("data"), narrow():
            settings, made, key = _method(settings, method)
            device_of(settings.device)
            setup = self.setup(settings, lambda roster, start: check_method(made, roster, start, key))
            check_work(made, setup.roster, setup.model, self.own.loss, self.own.transform is not None)
            check_method(made, setup.roster, setup.beliefs, key)
            refuse(made, settings, setup.roster, setup.met is not None)
        if settings.budget and setup.met is None:
            self.prepare(settings, method=method).net.close()

    @property
    def own(self) -> Own:
        """A loss and metrics of somebody's own."""
        return NOTHING if self.handed is None else self.handed.own

    def setup(self, settings: Settings, check: Check) -> Setup:
        """Sites and model of these settings. Those of the last seed are kept, and found by the next method.

        `check` may refuse sites and first weights before a server trains on them, in last-layer mode.
        """
        features = None if settings.features is None else dataclasses.asdict(settings.features)
        mark = repr(
            (_told(settings, (*settings_that_decide("rows"), *settings_that_decide("start"))), features)
        )
        if mark not in self._setup:
            deal = self._deal if self.handed is None else self.handed.setup
            self._setup = {mark: deal(settings, check)}
        return self._setup[mark]

    def small(self, settings: Settings) -> bool:
        """Whether a run of these keeps one core busy and no more: no operation is large enough to split."""
        settings, method, key = _method(settings, None)
        if settings.features is not None or not NETS[settings.net].here or settings.device != "cpu":
            return False
        with CLOCK.part("data"), narrow():
            setup = self.setup(settings, lambda roster, start: check_method(method, roster, start, key))
        rows = len(setup.roster) * int(kernel_fact(settings.made("kernel"), "batch"))
        most = max(rows, sum(len(c.train) + len(c.test) for c in setup.clients))
        numbers = most * math.prod(setup.roster.shape)
        weights = tree.size_in_bytes(tree.row(setup.beliefs, 0)) // 4
        return numbers < FEW_NUMBERS and weights <= SMALL_MODEL

    def _load(self, settings: Settings) -> Dataset:
        source = settings.made("data")
        if source not in self._data:
            self._data = {source: source.load()}
        return self._data[source]

    def _dealt(self, settings: Settings) -> Dealt:
        """Who has which rows. Those of the last `deal` are kept, and found by the next seed."""
        if settings.deal is None:
            return _deal_rows(settings, self._load(settings))
        mark = repr(_told(settings, settings_that_decide("rows")))
        if mark not in self._fixed:
            dealt = _deal_rows(settings, self._load(settings))
            note = f"dealt by deal={settings.deal}: clients and test rows are the same for every seed"
            self._fixed = {mark: dataclasses.replace(dealt, notes=(*dealt.notes, note))}
        return self._fixed[mark]

    def _meet(self, settings: Settings) -> Setup:
        """Sites that have rows of their own set some aside, and say what they have in common."""
        if settings.split != "silos" or settings.clients is not None or settings.rows is not None:
            raise BadInput(
                "sites of a federation are not dealt any rows: leave --split, --clients and --rows out"
            )
        if settings.features is not None:
            raise BadInput(
                "features are trained on rows of a server, and these are at their sites: leave it out"
            )
        rule = Rule(
            settings.test,
            settings.validation,
            settings.dealt_by,
            settings.one_class == "allow",
            settings.forbid,
            settings.require,
        )
        met = settings.made("net").meet(rule)
        settings = settings.for_task(met.roster.task)
        model_of, roster = settings.made("model"), met.roster
        check_model(model_of, settings.model, roster)
        built = _first_models(model_of, settings, roster)
        check_outputs(built[0], roster, torch.zeros(1, *roster.shape))
        made = Made(settings.model, settings.options.get(settings.model, {}), settings.plugins)
        noted = (*met.notes, *note_on_sites(settings.targets, roster.task, settings.model, made.options))
        beliefs = tree.stack([tree.belief_of(m) for m in built])
        columns = tuple(str(column["name"]) for column in met.common["columns"])
        return Setup((), roster, built[0], beliefs, noted, made=made, met=met, columns=columns)

    def _deal(self, settings: Settings, check: Check) -> Setup:
        if NETS[settings.net].meets:
            return self._meet(settings)
        dealt = self._dealt(settings)
        roster = roster_of(dealt.clients)
        settings = settings.for_task(roster.task)
        own = settings.options.get(settings.model, {})
        own = options_with_scale(settings.targets, roster.task, settings.model, own, dealt.clients)
        settings = dataclasses.replace(settings, options={**settings.options, settings.model: own})
        model_of = settings.made("model")
        check_model(model_of, settings.model, roster)
        built = _first_models(model_of, settings, roster)
        setup = set_up(
            dealt.clients,
            built[0],
            tree.stack([tree.belief_of(m) for m in built]),
            (*dealt.notes, *note_on_scale(own)),
            check,
            made=Made(settings.model, own, settings.plugins),
            features=settings.features,
            key=Key(settings.seed, rounds=settings.rounds),
            deal=settings.deal,
            server=lambda seed: model_of.build(roster.shape, roster.outputs, seed),
            called=settings.model,
            device=settings.device,
            one_class=settings.one_class == "allow",
            recipe=dealt.recipe,
            published=dealt.published,
        )
        return dataclasses.replace(setup, columns=dealt.columns)


def _first_models(model_of: Any, settings: Settings, roster: Roster) -> list[nn.Module]:
    """One for all clients, or one for each, from seeds of their own."""
    many = len(roster) if settings.init == "independent" else 1
    seeds = (Key(settings.seed).at("model", i).integer() for i in range(many))
    return [model_of.build(roster.shape, roster.outputs, seed) for seed in seeds]


def _told(settings: Settings, names: Sequence[str]) -> list[Any]:
    """These settings, and the options of the parts among them."""
    values = [getattr(settings, name) for name in names]
    return [*values, *(settings.options.get(v, {}) for n, v in zip(names, values, strict=True) if n in PARTS)]


def _deal_rows(settings: Settings, data: Dataset) -> Dealt:
    key = Key(settings.dealt_by).at("data")
    return deal_clients(
        some_of(data, settings.rows, key),
        settings.made("split"),
        settings.clients,
        key,
        test=settings.test,
        validation=settings.validation,
        one_class=settings.one_class == "allow",
        forbid=settings.forbid,
        require=settings.require,
    )


def _method(settings: Settings, method: Method | None) -> tuple[Settings, Method, Key]:
    if method is None:
        settings = settings.resolved()
        method = settings.made("method", local=settings.made("kernel"))
    return settings, method, Key(settings.seed, rounds=settings.rounds)


def prepare(settings: Settings, command: str | None) -> Experiment:
    return Builder().prepare(settings, command)


def settled(settings: Settings, setup: Setup) -> Settings:
    """Settings that name the model that the task decided on, the scale of its targets, the sites that were
    met, and the kit, so that a run goes on later with the same; of clients that were given, what they are.
    """
    if settings.given is not None:
        scale = {settings.model: setup.made.options} if setup.made and setup.made.options else {}
        given = settings.given._replace(fingerprint=fingerprint(setup.roster, setup.beliefs))
        return dataclasses.replace(settings, given=given, options={**scale, **settings.options})
    settings = settings.for_task(setup.roster.task)
    scaled = setup.made is not None and has_scale(setup.made.options)
    if settings.targets == SCALED and not scaled:  # no regression, or sites that tell no mean of theirs
        settings = dataclasses.replace(settings, targets=AUTO)
    tables = {name: dict(table) for name, table in settings.options.items()}
    if setup.made is not None and scaled:
        tables[settings.model] = {**tables.get(settings.model, {}), **setup.made.options}
        settings = dataclasses.replace(settings, options=tables)
    if setup.met is None:
        return settings
    tables[settings.net]["sites"] = tuple(setup.roster.names)
    tables[settings.net]["kit"] = str(setup.met.lines.kit.folder.absolute())
    return dataclasses.replace(settings, options=tables)
