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

import torch

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.core.errors import BadInput, BadRun, UnknownName
from coterie.core.learner import Learner
from coterie.core.method import Method
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.engines.bank import banked
from coterie.nets.ground import Simulated
from coterie.runs import checkpoint
from coterie.runs.experiment import Builder, Experiment, experiment_of
from coterie.runs.folder import read_models, read_record, way_on
from coterie.runs.record import Record
from coterie.runs.runner import same_threads, state_type
from coterie.runs.settings import Settings, digest, from_table
from coterie.sites.footing import Footing
from coterie.storage.atomic import brought_back
from coterie.use.folders import refuse_no_run


@dataclass(frozen=True, eq=False)
class Ground:
    """What the run's settings make again: clients, model, method."""

    settings: Settings
    method: Method
    footing: Footing


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
    ground: Ground | None
    why: str
    models: Mapping[str, Belief]
    shared: Belief | None
    target: str
    asked: tuple[str, ...]
    key: Key
    canaries: int

    @property
    def here(self) -> Ground:
        if self.ground is None:
            raise BadRun(self.why)
        return self.ground

    @property
    def clients(self) -> tuple[Client, ...]:
        return self.here.footing.clients

    @property
    def place(self) -> int:
        """The number of the target."""
        return self.record.clients.index(self.target)

    @cached_property
    def learner(self) -> Learner:
        return Learner(self.here.footing.model, self.here.footing.roster.task)

    def first(self, client: int) -> Belief:
        """What that client began with."""
        beliefs = self.here.footing.beliefs
        return tree.row(beliefs, client if tree.count(beliefs) > 1 else 0)

    def again(self, clients: Sequence[Client] | None = None) -> Experiment:
        """The run once more, in this process, with these clients in the place of its own."""
        ground, footing = self.here, self.here.footing
        if clients is not None:
            together = banked(clients)
            footing = replace(footing, clients=together, roster=roster_of(together, digests=True))
        config = {**ground.settings.table(), "evaluate": ground.settings.rounds}
        config.pop("budget", None)  # as many rounds as there were, whatever they cost
        engine = ground.settings.made("engine")
        return experiment_of(
            footing, config, ground.method, connector=Simulated(), engine=engine, command=None
        )


def read_subject(path: Path, client: str = "", seed: int = 0, canaries: int = 200) -> Subject:
    """A run that is over, ready to be attacked; refused with the reason if it is not."""
    record = check_run(path, client)
    why = elsewhere(path, record)
    ground = None if why else dealt_again(path, record)
    models = {} if ground is None else read_models(path)
    shared = None if ground is None else shared_of(path, record, ground)
    asked = (client,) if client else tuple(record.clients)
    target = client or smallest(record)
    return Subject(path, record, ground, why, models, shared, target, asked, Key(seed), canaries)


def check_run(path: Path, client: str = "") -> Record:
    """The record of a run that can be audited; refused if it is none, is not over, or lacks that client."""
    refuse_no_run(path)
    record = read_record(path)
    if not record.finished or not (path / "models.safetensors").exists():
        done = f"{record.done} of {record.config['rounds']} rounds"
        raise BadRun(f"{path} is not finished ({done}), an audit needs its models: {way_on(path)}")
    if client and client not in record.clients:
        raise UnknownName("client", client, record.clients)
    return record


def elsewhere(path: Path, record: Record) -> str:
    """Why the rows of a run cannot be had here; nothing if they can."""
    if record.config.get("net") == "federation":
        return "this run's rows are at the sites of a federation: audit a run on rows that are here"
    if "given" in record.config:
        return "this run was started from Python and its rows are not in its folder: audit a run of the shell"
    return ""


def dealt_again(path: Path, record: Record) -> Ground:
    """The clients of a run, from its settings; refused if they are not the same any more."""
    same_threads(record)
    settings = from_table(record.config, str(path / "config.toml")).resolved()
    method = settings.made("method", local=settings.made("kernel"))
    key = Key(settings.seed, rounds=settings.rounds)
    footing = Builder().footing(settings, lambda roster, start: method.check(roster, start, key))
    ground = Ground(settings, method, footing)
    found = Subject(path, record, ground, "", {}, None, "", (), Key(0), 0).again()
    try:
        if found.about["fingerprint"] != record.about["fingerprint"]:
            raise BadRun(
                f"{path}: the data or the first model differ from those it began with: run it anew, then "
                "audit it"
            )
    finally:
        found.net.close()
    return ground


def shared_of(path: Path, record: Record, ground: Ground) -> Belief | None:
    """The model that everybody has, from the run's last checkpoint; None where there is none, or where it
    lies in other processes.
    """
    file = brought_back(path / "checkpoint.safetensors")
    if not file.exists():
        return None
    experiment = Subject(path, record, ground, "", {}, None, "", (), Key(0), 0).again()
    try:
        saved = checkpoint.load(file, state_type(experiment), digest(record.config))
        models = experiment.method.models(saved.state)
    finally:
        experiment.net.close()
    if models.shared is None or any(t.device.type == "meta" for t in models.shared.tensors.values()):
        return None
    return tree.row(models.shared.tensors, 0)


def smallest(record: Record) -> str:
    """The client with the fewest training rows, which has the most to lose; the first of several."""
    rows = [c["train"] for c in record.about["clients"]]
    return record.clients[int(torch.tensor(rows).argmin())]


def check_canaries(canaries: int) -> None:
    if canaries < 10:
        raise BadInput(f"canaries={canaries} must be at least 10: try 200")
    if canaries > 10_000:
        raise BadInput(f"canaries={canaries} must be at most 10000: try 200")
