"""Everything a run needs, in memory and checked, before anything is written.

    footing       sites, model and first weights: loaded once, dealt once for a seed (with `deal` once for
                  all), whatever the method
    experiment    a method on a footing, checked whole

`run`, `compare`, `rank` and `tune` come here with settings, `train` and reproductions with clients of their
own.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.clock import CLOCK
from coterie.core.devices import device_of
from coterie.core.errors import BadInput
from coterie.core.kernel import told
from coterie.core.method import Method, check_method, makes_models, works
from coterie.core.net import Net
from coterie.core.roster import Roster, roster_of
from coterie.core.seeds import Key
from coterie.data.build import Dealt, deal_clients
from coterie.data.dataset import Dataset
from coterie.data.some import some_of
from coterie.data.sources.base import Source
from coterie.engines.auto import SMALL as SMALL_MODEL
from coterie.engines.base import Engine
from coterie.engines.threads import SMALL as FEW_NUMBERS
from coterie.engines.threads import narrow
from coterie.methods.advised import Advised
from coterie.metrics.own import NOTHING, Own
from coterie.nets import Accounted, Counting, Ground, Made, wrapped
from coterie.nets.accounted import accounted
from coterie.nets.ground import Connector, admit, read_wrap, shown_by
from coterie.privacy.ledger import cost_of
from coterie.runs.about import about_run
from coterie.runs.budget import check_budget
from coterie.runs.prepared import Origin, preparation_of
from coterie.runs.rehearsal import affordable, refuse_unforeseen
from coterie.runs.room import check_model, check_work
from coterie.runs.settings import PARTS, Settings
from coterie.runs.settled import settled
from coterie.runs.target_scales import note_on_scale, note_on_sites, options_with_scale
from coterie.sites.folds import folds_of
from coterie.sites.footing import Check, Footing, check_outputs, grounded
from coterie.sites.last_layer import Body


@dataclass(frozen=True, eq=False)
class Experiment:
    """A run, ready to go. The net is what the method works on and what models are scored on."""

    config: Mapping[str, Any]
    about: Mapping[str, Any]
    model: nn.Module
    beliefs: Beliefs
    method: Method
    net: Counting
    key: Key
    body: Body | None = None
    origin: Origin = field(default_factory=Origin)
    own: Own = NOTHING
    folds: Callable[[int], Iterator[Experiment]] | None = None  # the same, each without a part of its rows
    in_use: bool = False  # whether its models are for use, not only to be compared

    @property
    def roster(self) -> Roster:
        return self.net.roster

    @property
    def rounds(self) -> int:
        return int(self.config["rounds"])

    def due(self, what: Literal["evaluate", "checkpoint"], round: int) -> bool:
        return round % int(self.config[what]) == 0 or round == self.rounds


class Builder:
    """Makes experiments from settings; the data of a source and the sites of a seed are loaded and dealt
    once. Rows that `deal` fixes for all seeds are dealt once for all.
    """

    def __init__(self) -> None:
        self._data: dict[Source, Dataset] = {}
        self._fixed: dict[str, Dealt] = {}
        self._footing: dict[str, Footing] = {}

    def prepare(self, settings: Settings, command: str | None = None) -> Experiment:
        """A run of these settings, ready to go."""
        with CLOCK.part("data"), narrow():
            settings, method, key = _method(settings)
            footing = self.footing(settings, lambda roster, start: check_method(method, roster, start, key))
            settings = settled(settings, footing)
            connector, engine = settings.made("net"), settings.made("engine")
            return experiment_of(
                footing, settings.table(), method, connector=connector, engine=engine, command=command
            )

    def check(self, settings: Settings) -> None:
        """Refuses a method that cannot work, whole, with its local work; nothing is written or started."""
        with CLOCK.part("data"), narrow():
            settings, method, key = _method(settings)
            device_of(settings.device)
            footing = self.footing(settings, lambda roster, start: check_method(method, roster, start, key))
            check_work(method, footing.roster, footing.model)
            check_method(method, footing.roster, footing.beliefs, key)
            admit(settings.wrap, method, footing.roster)
            refuse_unforeseen(method, settings.table(), footing.met is not None)
        if settings.budget and footing.met is None:
            self.prepare(settings).net.close()

    def footing(self, settings: Settings, check: Check) -> Footing:
        """Sites and model of these settings. Those of the last seed are kept, and found by the next method.

        `check` may refuse sites and first weights before a server trains on them, in last-layer mode.
        """
        features = None if settings.features is None else dataclasses.asdict(settings.features)
        mark = repr((_told(settings, (*DEALING, *GROUND)), features))
        if mark not in self._footing:
            self._footing = {mark: self._deal(settings, check)}
        return self._footing[mark]

    def small(self, settings: Settings) -> bool:
        """Whether a run of these keeps one core busy and no more: no operation is large enough to split."""
        settings, method, key = _method(settings)
        if settings.features is not None or (settings.net, settings.device) != ("in-process", "cpu"):
            return False
        with CLOCK.part("data"), narrow():
            footing = self.footing(settings, lambda roster, start: check_method(method, roster, start, key))
        rows = len(footing.roster) * int(getattr(settings.made("kernel"), "batch", 0))
        most = max(rows, sum(len(c.train) + len(c.test) for c in footing.clients))
        numbers = most * math.prod(footing.roster.shape)
        weights = tree.size_in_bytes(tree.row(footing.beliefs, 0)) // 4
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
        mark = repr(_told(settings, DEALING))
        if mark not in self._fixed:
            dealt = _deal_rows(settings, self._load(settings))
            note = f"dealt by deal={settings.deal}: clients and test rows are the same for every seed"
            self._fixed = {mark: dataclasses.replace(dealt, notes=(*dealt.notes, note))}
        return self._fixed[mark]

    def _meet(self, settings: Settings) -> Footing:
        """Sites that have rows of their own set some aside, and say what they have in common."""
        from coterie.federation.sites import Rule

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
        model_of, roster, key = settings.made("model"), met.roster, Key(settings.seed)
        check_model(model_of, settings.model, roster)
        seeds = [key.at("model", i).integer() for i in range(len(roster))]
        several = settings.init == "independent"
        built = [model_of.build(roster.shape, roster.outputs, s) for s in seeds[: None if several else 1]]
        check_outputs(built[0], roster, torch.zeros(1, *roster.shape))
        made = Made(settings.model, settings.options.get(settings.model, {}), settings.plugins)
        noted = (*met.notes, *note_on_sites(settings.targets, roster.task, settings.model, made.options))
        beliefs = tree.stack([tree.belief_of(m) for m in built])
        columns = tuple(str(column["name"]) for column in met.common["columns"])
        return Footing((), roster, built[0], beliefs, noted, made=made, met=met, columns=columns)

    def _deal(self, settings: Settings, check: Check) -> Footing:
        if hasattr(settings.made("net"), "meet"):
            return self._meet(settings)
        key, dealt = Key(settings.seed), self._dealt(settings)
        roster = roster_of(dealt.clients)
        settings = settings.for_task(roster.task)
        own = settings.options.get(settings.model, {})
        own = options_with_scale(settings.targets, roster.task, settings.model, own, dealt.clients)
        settings = dataclasses.replace(settings, options={**settings.options, settings.model: own})
        model_of = settings.made("model")
        check_model(model_of, settings.model, roster)
        seeds = [key.at("model", i).integer() for i in range(len(roster))]
        model = model_of.build(roster.shape, roster.outputs, seeds[0])
        others = seeds[1:] if settings.init == "independent" else []
        built = (model, *(model_of.build(roster.shape, roster.outputs, s) for s in others))
        footing = grounded(
            dealt.clients,
            model,
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
        return dataclasses.replace(footing, columns=dealt.columns)


DEALING = ("data", "rows", "split", "clients", "deal", "test", "validation", "one_class", "forbid", "require")
GROUND = ("model", "targets", "seed", "init", "device", "net")


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


def _method(settings: Settings) -> tuple[Settings, Method, Key]:
    settings = settings.resolved()
    method = settings.made("method", local=settings.made("kernel"))
    return settings, method, Key(settings.seed, rounds=settings.rounds)


def prepare(settings: Settings, command: str | None) -> Experiment:
    """One run, by a builder of its own."""
    return Builder().prepare(settings, command)


def experiment_of(
    footing: Footing,
    config: Mapping[str, Any],
    method: Method,
    *,
    connector: Connector,
    engine: Engine,
    command: str | None,
    own: Own = NOTHING,
) -> Experiment:
    """A method on a footing; refused if the two do not go together. One that has to try others first does."""
    roster, key = footing.roster, Key(int(config["seed"]), rounds=int(config["rounds"]))
    check_work(method, roster, footing.model, own.loss, own.transform is not None)
    said = [*check_method(method, roster, footing.beliefs, key)]
    if isinstance(method, Advised) and method.undecided:
        if config.get("budget"):
            raise BadInput(
                "advised tries every way first, which no budget counts: leave the budget out, or name a "
                "choice for each client"
            )
        from coterie.runs.choosing import decided  # trials are experiments themselves
        from coterie.runs.trying import Bench

        method, found = decided(Bench(method, footing, config, connector, engine, own))
        said += found
        config = {**config, "advised": {**config.get("advised", {}), "choice": list(method.choice)}}
    check_budget(config)
    admit(tuple(config.get("wrap", ())), method, roster)
    work = local_work(method) if footing.met is not None else ()  # one of somebody's own has no name
    reveals, kernels = shown_by(tuple(config.get("wrap", ())), method.reveals(), work)
    hides = bool(getattr(method, "hides", False))
    device = device_of(str(config.get("device", "cpu")))
    beliefs = {name: t.to(device) for name, t in footing.beliefs.items()}
    ground = Ground(
        footing.clients,
        roster,
        copy.deepcopy(footing.model).to(device),
        engine,
        device,
        str(config.get("memory", "half")),
        footing.made,
        own,
        footing.met,
        reveals,
        kernels if footing.met is not None else (),
        int(config["rounds"]),
        any(read_wrap(spec)[0] == "sealed" for spec in config.get("wrap", ())),
        bounded=costs(method, roster) or (hides and not works(method)),
        scores=scores_of(tuple(config.get("wrap", ()))) if makes_models(method) else "none",
    )
    planned, noted = affordable(method, beliefs, ground, config)
    if planned != int(config["rounds"]):  # then what it says of its rounds is of these
        before = [*check_method(method, roster, footing.beliefs, key)]
        said = [note for note in said if note not in before]
        said += check_method(method, roster, footing.beliefs, Key(key.seed, rounds=planned))
        config = {**config, "rounds": planned}
    if footing.met is not None:
        from coterie.runs.planning import planned as plan_of_method  # which plays an experiment itself

        ground = dataclasses.replace(
            ground, rounds=planned, planned=plan_of_method(method, beliefs, ground, config)
        )
    net: Net = wrapped(connector.connect(ground), tuple(config.get("wrap", ())))
    if accounted(net) is None and (costs(method, roster) or hides):
        net = Accounted(net)
    again = partial(experiment_of, method=method, connector=connector, engine=engine, command=None, own=own)
    scored_once = {**config, "evaluate": int(config["rounds"])}
    notes = [*footing.notes, *_large_batches(method, roster), *own.notes(roster.task), *said, *noted]
    return Experiment(
        config=config,
        about={
            **about_run(roster, beliefs, notes, command),
            "columns": list(footing.columns),
            "inputs": list(roster.shape if footing.body is None else footing.body.inputs),
            "published_tests": footing.published,
            "leaks": list(footing.leaks),
        },
        model=footing.model,
        beliefs=beliefs,
        method=method,
        net=Counting(net),
        key=Key(int(config["seed"])),
        body=footing.body,
        origin=origin_of(footing),
        own=own,
        folds=lambda many: (again(fold, config=scored_once) for fold in folds_of(footing, many, key)),
    )


def origin_of(footing: Footing) -> Origin:
    """How clients made their inputs; behind frozen layers these are others than rows have."""
    ways = {c.name: preparation_of(c) if footing.body is None else c.preparation for c in footing.clients}
    return Origin({name: way for name, way in ways.items() if way}, footing.recipe)


def costs(method: Method, roster: Roster) -> bool:
    """Whether a method's local work has a bound on what it costs rows."""
    local = getattr(method, "local", None)
    least = min((m.train for m in roster.members if m.train), default=0)  # of those who are there
    return local is not None and bool(cost_of(local, {"train": least}))


def scores_of(wraps: Sequence[str]) -> str:
    """How scores leave sites: as the wrapper private has it, or in the clear."""
    found = [options for name, options in map(read_wrap, wraps) if name == "private"]
    return str(found[0].get("scores", "clear")) if found else "clear"


def local_work(method: Method) -> tuple[dict[str, Any], ...]:
    """What a method does at sites, as they are told of it before a run."""
    local = getattr(method, "local", None)
    return () if local is None or not works(method) else (told(local),)


def _large_batches(method: Method, roster: Roster) -> list[str]:
    batch = getattr(getattr(method, "local", None), "batch", 0)
    small = [m.name for m in roster.members if m.train < batch]
    if not small:
        return []
    names = ", ".join(small[:5]) + (", ..." if len(small) > 5 else "")
    return [f"clients with fewer training rows than batch={batch}, so that a step takes all: {names}"]
