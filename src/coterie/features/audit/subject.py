"""What is audited: a finished run, read from its folder, with its rows dealt again from its settings.

The rows of a run in one process come back by its settings, as for `resume`; that they are the same is held
against the fingerprint in its record. Those of a federation are at its sites, and those of a run that was
started from Python are nowhere in its folder: of these only the record is there, and `why` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client, Samples
from coterie.core.errors import BadRun, UnknownName
from coterie.core.facts import kernel_fact, method_fact
from coterie.core.learner import Learner
from coterie.core.method import Method, state_type
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.engines.bank import banked
from coterie.features.audit import BEFORE
from coterie.nets.ground import Simulated
from coterie.runs.builder import Builder
from coterie.runs.experiment import Experiment, experiment_of
from coterie.runs.folder import read_models, read_record, way_on
from coterie.runs.loop import same_threads
from coterie.runs.record import Record
from coterie.runs.settings import Settings, digest, from_table
from coterie.sites.setup import Setup
from coterie.storage import checkpoint
from coterie.storage.atomic import brought_back
from coterie.use.folders import refuse_no_run


@dataclass(frozen=True, eq=False)
class _Ground:
    """What the run's settings make again: clients, model, method."""

    settings: Settings
    method: Method
    setup: Setup

    def again(self, clients: Sequence[Client] | None = None) -> Experiment:
        """The run once more, in this process, with these clients in the place of its own."""
        setup = self.setup
        if clients is not None:
            together = banked(clients)
            setup = replace(setup, clients=together, roster=roster_of(together, digests=True))
        whole = self.settings.rounds  # as many rounds as there were, whatever they cost
        settings, engine = replace(self.settings, evaluate=whole, budget=()), self.settings.made("engine")
        return experiment_of(setup, settings, self.method, connector=Simulated(), engine=engine, command=None)


@dataclass(frozen=True, eq=False)
class Subject:
    """A run under audit.

    ground    its clients and method; None where its rows are elsewhere, `why` then says where
    models    client -> its own model, as the run kept it
    shared    a model that everybody has, if the method has one
    target    the client that attacks on single rows are tried on
    asked     the clients that are looked at
    key       where the audit's own random numbers come from
    canaries  how many rows the one-run audit plants
    """

    path: Path
    record: Record
    ground: _Ground | None
    why: str
    models: Mapping[str, Belief]
    shared: Belief | None
    target: str
    asked: tuple[str, ...]
    key: Key
    canaries: int

    @property
    def here(self) -> _Ground:
        if self.ground is None:
            raise BadRun(self.why)
        return self.ground

    @property
    def clients(self) -> tuple[Client, ...]:
        return self.here.setup.clients

    @property
    def place(self) -> int:
        """The number of the target."""
        return self.record.clients.index(self.target)

    @cached_property
    def learner(self) -> Learner:
        return Learner(self.here.setup.model, self.here.setup.roster.task)

    @property
    def sealed(self) -> bool:
        """Whether replies were hidden from everybody, unless the two helpers collude."""
        return any(str(spec).startswith("sealed") for spec in self.record.settings.wrap)

    @property
    def adds_noise(self) -> bool:
        """Whether local work says what it costs in privacy."""
        return kernel_fact(method_fact(self.here.method, "local"), "charges") is not None

    def first(self, client: int) -> Belief:
        """What that client began with."""
        beliefs = self.here.setup.beliefs
        return tree.row(beliefs, client if tree.count(beliefs) > 1 else 0)

    def models_of(self, client: int) -> dict[str, Belief]:
        """What the run made for a client: its own model, the shared one if it is another, the first one."""
        name, found = self.clients[client].name, dict[str, Belief]()
        if name in self.models:
            found["own"] = self.models[name]
        own, shared = found.get("own"), self.shared
        if shared is not None and (own is None or not all(torch.equal(own[n], shared[n]) for n in shared)):
            found["shared"] = shared
        return {**found, BEFORE: self.first(client)}

    def losses(self, belief: Belief, rows: Samples) -> np.ndarray:
        """[row] the loss that the model was trained by."""
        with torch.no_grad():
            pieces = zip(torch.split(rows.x, 1024), torch.split(rows.y, 1024), strict=True)
            losses = torch.cat([self.learner.losses(self.learner.outputs(belief, x), y) for x, y in pieces])
        return losses.double().numpy()


def read_subject(path: Path, client: str = "", seed: int = 0, canaries: int = 200) -> Subject:
    """A run that is over, ready to be attacked; refused with the reason if it is not."""
    record = check_run(path, client)
    why = ""  # why its rows cannot be had here
    if record.settings.connector.meets:
        why = "this run's rows are at the sites of a federation: audit a run on rows that are here"
    elif "given" in record.config:
        why = "this run was started from Python and its rows are not in its folder: audit a run of the shell"
    ground = None if why else _dealt_again(path, record)
    models = {} if ground is None else read_models(path)
    shared = None if ground is None else _shared_model(path, record, ground)
    asked = (client,) if client else tuple(record.clients)
    # by itself the client with the fewest training rows, which has the most to lose; the first of several
    target = client or min(record.about["clients"], key=lambda c: int(c["train"]))["name"]
    return Subject(path, record, ground, why, models, shared, target, asked, Key(seed), canaries)


def check_run(path: Path, client: str = "") -> Record:
    """The record of a run that can be audited; refused if it is none, is not over, or lacks that client."""
    refuse_no_run(path)
    record = read_record(path)
    if not record.finished or not (path / "models.safetensors").exists():
        done = f"{record.done} of {record.settings.rounds} rounds"
        raise BadRun(f"{path} is not finished ({done}), an audit needs its models: {way_on(path)}")
    if client and client not in record.clients:
        raise UnknownName("client", client, record.clients)
    return record


def _dealt_again(path: Path, record: Record) -> _Ground:
    """The clients of a run, from its settings; refused if they are not the same any more."""
    same_threads(record)
    settings = from_table(record.config, str(path / "config.toml")).resolved()
    method = settings.made("method", local=settings.made("kernel"))
    key = Key(settings.seed, rounds=settings.rounds)
    setup = Builder().setup(settings, lambda roster, start: method.check(roster, start, key))
    ground = _Ground(settings, method, setup)
    experiment = ground.again()
    experiment.net.close()
    if experiment.about["fingerprint"] != record.about["fingerprint"]:
        why = "the data or the first model differ from those it began with: run it anew, then audit it"
        raise BadRun(f"{path}: {why}")
    return ground


def _shared_model(path: Path, record: Record, ground: _Ground) -> Belief | None:
    """The model that everybody has, from the run's last checkpoint; None where there is none, or where it
    lies in other processes.
    """
    file = brought_back(path / "checkpoint.safetensors")
    if not file.exists():
        return None
    experiment = ground.again()
    try:
        saved = checkpoint.load(file, state_type(experiment.method), digest(record.config))
        models = experiment.method.models(saved.state)
    finally:
        experiment.net.close()
    if models.shared is None or any(t.device.type == "meta" for t in models.shared.tensors.values()):
        return None
    return tree.row(models.shared.tensors, 0)
