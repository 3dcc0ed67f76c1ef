"""A pool of posteriors as one file, to which clients are added and from which they are removed later.

The file keeps what each client sent, since leaving subtracts just that (see `online.py`), beside the product
of all and the prior. Format: safetensors, as in `store.py`, with `total/`, `prior/` and `member/0/`,
`member/1/`, ... before the names of each one's tensors; a tensor that is in two of them (a client's factor in
the product) is stored once, and `twins` in the header says for whom it stands too.

One process at a time changes a pool, others wait: the lock is a hidden file beside it, which goes with the
change and does not bind if its process was killed. Readers need none, as files are replaced whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.errors import BadData, BadInput
from coterie.core.learner import Learner
from coterie.core.options import coerced
from coterie.models import MODELS
from coterie.posteriors import online, store
from coterie.posteriors.gaussian import Gaussian, checked, mean
from coterie.posteriors.meaning import refuse_other_meaning
from coterie.posteriors.online import joint
from coterie.posteriors.slots import Slot, same_model
from coterie.posteriors.store import Header, Saved, Tensors, intact
from coterie.storage.atomic import readable_errors
from coterie.storage.tensors import write_tensors

KIND = "pool 2"
REMEDY = "join its posteriors anew"


@dataclass(frozen=True, eq=False)
class SavedPool:
    """The product of all (None without clients or prior), and what each client sent."""

    total: Gaussian | None = None
    members: Mapping[str, Saved] = field(default_factory=dict)
    prior: Gaussian | None = None

    @property
    def pool(self) -> online.Pool:
        return online.Pool(self.total, {n: s.posterior for n, s in self.members.items()}, self.prior)

    @property
    def model(self) -> Mapping[str, Any]:
        """How to build the network, from the first who says it; empty if nobody does."""
        return next((s.model for s in self.members.values() if s.model), {})

    @property
    def buffers(self) -> Belief:
        """What is outside the posterior, averaged over members alike; of integers, the first one's."""
        each = [s.buffers for s in self.members.values()]
        alike = torch.full((1, len(each)), 1 / max(len(each), 1), dtype=torch.float64)
        return tree.row(tree.mix(alike, tree.stack(each)), 0) if each else {}


def with_prior(prior: Gaussian) -> SavedPool:
    """A pool of nobody, for posteriors that have each counted this prior."""
    return SavedPool(prior, prior=prior)


def join(pool: SavedPool, *new: Saved) -> SavedPool:
    """More clients, by one sum: on the way to it, some might be less than a Gaussian."""
    members, total = dict(pool.members), pool.total
    for saved in new:
        if saved.client in members:
            raise BadInput(f"client {saved.client!r} is in the pool already: update it")
        _same_network(members, saved)
        members[saved.client] = saved
        share = saved.posterior if pool.prior is None else saved.posterior - pool.prior
        total = share if total is None else total + share
    if total is not None:
        names = ", ".join(repr(saved.client) for saved in new)
        checked(total, f"adding {names} leaves", "take a prior of larger variance")
    return SavedPool(total, members, pool.prior)


def renew(pool: SavedPool, new: Saved) -> SavedPool:
    """One client's new posterior for its old one."""
    _same_network(pool.members, new)
    after = online.update(pool.pool, new.client, new.posterior)
    return SavedPool(after.total, {**pool.members, new.client: new}, pool.prior)


def leave(pool: SavedPool, client: str) -> SavedPool:
    """One client less."""
    after = online.remove(pool.pool, client)
    return SavedPool(after.total, {n: pool.members[n] for n in after.members}, pool.prior)


def change(path: Path, how: Callable[[SavedPool], SavedPool], new: bool = False) -> SavedPool:
    """Reads a pool, changes it and writes it, with nobody in between; a refusal leaves it as it was.

    With `new`, a pool that is not there begins empty.
    """
    if path.exists() or not new:
        _there(path)
    elif not path.parent.is_dir():
        how(SavedPool())  # what is refused leaves no folder behind
    with locked(path):
        after = how(read_pool(path) if path.exists() else SavedPool())
        write_pool(path, after)
    return after


def write_pool(path: Path, pool: SavedPool) -> Path:
    """Readers see the whole file or none; folders on the way are made."""
    tensors: Tensors = {}
    header: Header = {"kind": KIND, "members": []}
    for i, saved in enumerate(pool.members.values()):
        parts, said = store.pack(saved)
        tensors |= _below(f"member/{i}", parts)
        header["members"].append(said)
    for name, gaussian in (("prior", pool.prior), ("total", pool.total)):
        parts, header[name] = ({}, None) if gaussian is None else store.pack_gaussian(gaussian)
        tensors |= _below(name, parts)
    first = {id(t): name for name, t in reversed(tensors.items())}
    header["twins"] = {name: first[id(t)] for name, t in tensors.items() if first[id(t)] != name}
    own = {name: t for name, t in tensors.items() if name not in header["twins"]}
    return write_tensors(path, own, header)


def read_pool(path: Path) -> SavedPool:
    """The pool in a file; refused if it is damaged or something else."""
    _there(path)
    with store.intact(path, "pool", REMEDY):
        tensors, header = store.of_kind(path, KIND, REMEDY)
        tensors |= {name: tensors[other] for name, other in header["twins"].items()}
        total, prior = (
            store.unpack_gaussian(_above(name, tensors), header[name]) if header[name] else None
            for name in ("total", "prior")
        )
        each = [store.unpack(_above(f"member/{i}", tensors), h) for i, h in enumerate(header["members"])]
        members = {saved.client: saved for saved in each}
        parts = [g for g in (total, prior, *(s.posterior for s in each)) if g is not None]
        shapes = {tuple(slot[:2] for slot in g.slots) for g in parts}
        if len(members) < len(each) or len(shapes) > 1 or (total is None) != (not parts):
            raise ValueError("its parts do not belong together")
    if total is not None:
        checked(total, f"the pool in {path} has", REMEDY)
    return SavedPool(total, members, prior)


def refuse_empty(pool: SavedPool, path: Path) -> SavedPool:
    """The pool at `path`, if anybody is in it."""
    if not pool.members:
        raise BadInput(f"{path} has no clients: add one with 'coterie posterior add {path} FILE'")
    return pool


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone with a pool: whoever comes meanwhile waits."""
    place = path.parent / f".{path.name}.lock"
    with contextlib.ExitStack() as stack:
        with readable_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                file = stack.enter_context(place.open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(place.stat(), os.fstat(file.fileno())):
                        break  # else whoever we waited for has taken the file away
            stack.callback(place.unlink, missing_ok=True)
            for draft in path.parent.iterdir():  # of a writer that was killed
                if re.fullmatch(re.escape(f".{path.name}.") + r"\w{8}", draft.name):
                    draft.unlink()
        yield


def _same_network(members: Mapping[str, Saved], new: Saved) -> None:
    """Refuses what has other weights than the members, or the same ones of other inputs or networks."""
    for first in list(members.values())[:1]:
        same_model(first.posterior.slots, new.posterior.slots)
        shapes = (tuple(Slot(n, tuple(t.shape), t.dtype) for n, t in s.buffers.items()) for s in (first, new))
        same_model(*shapes)
    for member in members.values():
        refuse_other_meaning(member, new)
    known = next((s for s in members.values() if s.model), new)
    for key in sorted(known.model.keys() | new.model.keys()) if new.model else ():
        here, there = (json.dumps(s.model.get(key), sort_keys=True) for s in (known, new))
        if here != there:
            raise BadInput(
                f"posteriors of different models: {key} is {here} for {known.client!r}, {there} for "
                f"{new.client!r}: join those of one model"
            )


def _there(path: Path) -> None:
    if path.is_dir():
        raise BadData(f"{path} is a folder, a pool is a file: name one in it")
    if not path.is_file():
        raise BadData(f"no pool at {path}: make one with 'coterie posterior add {path} FILE'")


def _below(name: str, tensors: Mapping[str, Tensor]) -> Tensors:
    return {f"{name}/{n}": t for n, t in tensors.items()}


def _above(name: str, tensors: Mapping[str, Tensor]) -> Tensors:
    return {n.removeprefix(f"{name}/"): t for n, t in tensors.items() if n.startswith(f"{name}/")}


ROWS = 512  # samples of one forward pass


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier for inputs of this shape; `buffers` are its tensors outside the posterior."""

    learner: Learner
    shape: tuple[int, ...]
    classes: int
    dtype: torch.dtype
    buffers: Belief

    def outputs(self, belief: Belief, x: Tensor) -> Tensor:
        """Logits [n, class] of a draw, for `ensemble.predict`."""
        whole = {**self.buffers, **belief}
        return torch.cat([self.learner.outputs(whole, part.to(self.dtype)) for part in torch.split(x, ROWS)])


def network_of(pool: SavedPool, path: Path) -> Network:
    """The network of the pool at `path`; refused if that pool does not know it, or if it is no classifier."""
    posterior, model = joint(pool.pool), pool.model
    if "name" not in model:
        raise BadInput(
            f"{path} does not say how to build its network: predict from Python with "
            "coterie.posteriors.ensemble.predict"
        )
    with intact(path, "pool", REMEDY):
        name, options = str(model["name"]), dict(model.get("options", {}))
        shape, outputs = tuple(int(n) for n in model["shape"]), int(model["outputs"])
    if outputs < 2:
        raise BadInput(
            f"the network of {path} has {outputs} output: predictions need a classifier of at least 2 classes"
        )
    kind = MODELS[name]
    module = kind(**coerced(kind, options, f"model {name}")).build(shape, outputs, seed=0)
    buffers = pool.buffers
    tree.load(module, {**buffers, **mean(posterior)})  # refuses tensors that are not this network's
    return Network(Learner(module, "classification"), shape, outputs, posterior.slots[0].dtype, buffers)
