"""A site: its rows, its own models, what its optimiser remembers; and answers to what it is asked.

It talks in messages alone (`core/wire.py`), so that it may be anywhere. A message names what to do and has
tensors by name; an answer likewise. What is done with a belief is a registered kernel, by name and options:
nothing that arrives is run. Contents are known by id; a belief may lie in parts, each with an id and the
names of its tensors.

    begin      a model by name, and in which precision to compute; what was held before is dropped
    visit      a kernel on beliefs that are here or come along; replies stay here, numbers go back
    mix        weighted sums of what is here, kept under new ids
    distances  norms of differences of what is here; numbers go back
    copy       contents under further ids
    letter     contents for another site: the answer is a message for it, to be passed on as it is
    take       contents that arrive
    give       contents for the coordinator, and why: for a visit or a sum of its own, or to be looked at
    rows       all rows, for a pooled baseline
    keep       drops contents, copies and memories that are not needed any more; and may store the rest
    store      writes what is here into this site's own folder; fetch reads it back

No message names a file. A site of a process that we started ourselves (`LocalSite`) takes two more: in which
folder to keep what is its own, and into which file to write a model.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Client, Samples
from coterie.core.errors import BadData, BadInput, BadRun, CoterieError, Diverged, Refused, shown
from coterie.core.kernel import Kernel
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.core.wire import aligned, pack, unpack
from coterie.engines import ENGINES
from coterie.kernels import kernel_of
from coterie.models import MODELS
from coterie.nets.in_process import LEFT_OUT, InProcess
from coterie.storage import checkpoint
from coterie.storage.plugins import load_plugins
from coterie.storage.tensors import read_tensors, write_tensors

PARTS = ("train", "validation", "test")
ABOUT = ("name", "features", "classes", "cluster", "notes", "censored")  # of a client, beside its rows
_PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
AT_ONCE = 64  # models whose distances are measured between two looks at the watch
BUFFER = 64 << 20  # bytes of a message for which memory is taken before they are there
Answer = tuple[dict[str, Any], dict[str, Tensor]]
Row = Sequence[Sequence[Any]]  # parts of one belief: [id, names]
Kind = list[Any]  # of a tensor: its dtype and shape
ERRORS = {cls.__name__: cls for cls in (BadData, BadInput, BadRun, Diverged, Refused)}


class Site:
    """One client behind messages; `number` is what it goes by among the sites."""

    def __init__(self, client: Client, number: int, home: Path | None = None) -> None:
        self.client, self.number, self.home = client, number, home
        self.held: dict[int, dict[str, Tensor]] = {}
        self.copies: set[int] = set()
        self.net: InProcess | None = None

    def answer(self, data: bytes) -> bytes:
        """A message's answer; a refusal is an answer too."""
        try:
            message, tensors = unpack(data)
            what = message.get("do")
            do: Callable[..., Answer] | None = getattr(self, f"do_{what}", None)
            if do is None:
                raise BadInput(f"site {self.client.name!r} cannot do {what!r}: is it of another version?")
            return pack(*do(message, tensors))
        except CoterieError as error:
            return pack({"error": type(error).__name__, "text": str(error)}, {})

    # what it is asked

    def do_begin(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        made = MODELS.make(message["model"], **{k: lists_to_tuples(v) for k, v in message["options"].items()})
        dtype = _PRECISIONS.get(str(message["precision"]))
        if dtype is None:
            known = ", ".join(_PRECISIONS)
            raise BadInput(f"precision {shown(message['precision'])} is none: known are {known}")
        module = made.build(tuple(message["shape"]), int(message["outputs"]), 0).to(dtype)
        how = {k: lists_to_tuples(v) for k, v in message["engine"].items()}
        engine = ENGINES.make(how.pop("name"), **how)
        self.net = InProcess(engine, Learner(module, self.client.task), (self.client.cast(dtype),))
        self.held, self.copies = {}, set()
        return {}, {}

    def do_visit(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        self._take(tensors)
        net, rows = self._net(), message["rows"]
        guests = [self._belief(row) for row in message["beliefs"]]
        if len(guests) == 1 and all(aligned(t) is t and t.is_contiguous() for t in guests[0].values()):
            beliefs = {name: t.unsqueeze(0) for name, t in guests[0].items()}  # not copied: it may be large
        else:
            beliefs = dict(tree.stack(guests))
        beside = {n: tree.stack([self._belief(row) for row in some]) for n, some in message["beside"].items()}
        edges = torch.tensor([[row, 0] for row in rows])
        called = [(int(g), self.number) for g in message["guests"]]
        kernel, key = self.kernel(message["kernel"]), Key.of(message["key"])
        key, called = self.admitted(kernel, key, called, message, beliefs, beside)
        try:
            _, numbers, replied, _ = net.work(kernel, beliefs, edges, key, message["slot"], beside, called)
        except Diverged as error:
            return {"diverged": error.why}, {}
        if net.odd:  # of some guests: a site answers for all of them, or not
            return {"diverged": net.figures()[LEFT_OUT][self.client.name]}, {}
        like = {}
        if replied:
            for i, id in enumerate(message["replies"]):
                self.held[id] = dict(tree.row(replied, i))
            like = {n: kind_of(t[0]) for n, t in replied.items()}
        return {"like": like, "numbers": list(numbers)}, dict(numbers)

    def kernel(self, told: Mapping[str, Any]) -> Kernel:
        """What is to be done, told as data: a site with a policy may tell less than it is asked for."""
        made: Kernel = kernel_of(told)
        return made

    def admitted(
        self,
        kernel: Kernel,
        key: Key,
        called: list[tuple[int, int]],
        message: Mapping[str, Any],
        beliefs: Beliefs,
        beside: Mapping[str, Beliefs],
    ) -> tuple[Key, list[tuple[int, int]]]:
        """The key of a visit, and what its guests and their host go by: a site with secrets takes others."""
        return key, called

    def do_mix(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        weights = {n.removeprefix("weights/"): t for n, t in tensors.items() if n.startswith("weights/")}
        self._take({n: t for n, t in tensors.items() if not n.startswith("weights/")})
        senders = tree.stack([self._belief(row) for row in message["rows"]])
        mixed = tree.mix(weights.get("*", weights), senders)
        for i, id in enumerate(message["new"]):
            self.held[id] = dict(tree.row(mixed, i))
        return {}, {}

    def do_distances(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        self._take(tensors)
        replies = tree.stack([self._belief(row) for row in message["replies"]])
        origin = [self._belief(row) for row in message["origin"]]
        names, importance = self._net().learner.trainable, message["importance"]
        watch, lengths, apart = self._net().learner.watch, list[Tensor](), list[Tensor]()
        for i, g in enumerate(message["guests"]):
            watch.check()
            reply = tree.rows(replies, torch.tensor([i]))
            lengths.append(tree.distances(reply, tree.stack([origin[g]]), names, importance))
        for some in torch.split(torch.tensor(message["to"]), AT_ONCE):
            watch.check()
            apart.append(tree.distances(replies, tree.rows(replies, some), names, importance))
        return {}, {"apart": torch.cat(apart, dim=1), "lengths": torch.cat(lengths).flatten()}

    def do_copy(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        self._take(tensors)
        for row, id in zip(message["rows"], message["new"], strict=True):
            self._net().learner.watch.check()
            self.held[id] = dict(self._belief(row))
        return {}, {}

    def do_letter(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        return {"do": "take", "copies": True}, self._given(message["rows"], message["new"])

    def do_take(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        self._take(tensors, bool(message["copies"]))
        return {}, {}

    def do_give(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        return {}, self._given(message["rows"], message["new"])

    def do_rows(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        return {}, rows_of(self.client)

    def do_keep(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        live = set(message["live"])
        self.held = {id: t for id, t in self.held.items() if id in live and id not in self.copies}
        self.copies = set()
        self._net().slots.drop(int(message["round"]))
        if message.get("store") is not None:
            self.do_store({**message, "round": message["store"]}, {})
        for round, path in self._stored().items():
            if round < int(message["round"]):
                path.unlink()
        return {}, {}

    def do_store(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        if self.home is None:
            raise BadRun(f"site {self.client.name!r} has no folder to keep its models in: give it one")
        live = set(message["live"])
        held = {id: b for id, b in self.held.items() if id in live}
        path = self.home / f"{int(message['round'])}.safetensors"
        checkpoint.write_round(path, held, self._net().slots.tensors())
        return {}, {}

    def do_fetch(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        """Goes on after a round: with what is here, or with what was stored last by then."""
        live, round, slots = set(message["live"]), int(message["round"]), self._net().slots
        if not live <= self.held.keys() or message["fresh"]:
            path = self._stored().get(max((r for r in self._stored() if r <= round), default=-1))
            if path is None and (live or round):
                raise BadRun(f"site {self.client.name!r} does not hold what round {round} left: start anew")
            self.held, stored = checkpoint.read_round(path) if path else ({}, {})
            slots.load(stored)
            if not live <= self.held.keys():
                raise BadRun(f"site {self.client.name!r} does not hold what round {round} left: start anew")
        slots.rewind(round)
        self.held = {id: t for id, t in self.held.items() if id in live}
        self.copies = set()
        return {}, {}

    # what it holds

    def _net(self) -> InProcess:
        if self.net is None:
            raise BadInput(f"site {self.client.name!r} has no model yet: begin first")
        return self.net

    def _belief(self, row: Row) -> Belief:
        """One belief from its parts."""
        found: dict[str, Tensor] = {}
        for id, names in row:
            if id not in self.held or not set(names) <= self.held[id].keys():
                raise BadRun(f"site {self.client.name!r} does not hold what it is asked for: start anew")
            found |= {n: self.held[id][n] for n in names}
        return found

    def _given(self, rows: Sequence[Row], ids: Sequence[int] | range) -> dict[str, Tensor]:
        return {
            f"{id}/{name}": t
            for row, id in zip(rows, ids, strict=True)
            for name, t in self._belief(row).items()
        }

    def _take(self, tensors: Mapping[str, Tensor], copies: bool = True) -> None:
        """Contents named ID/NAME arrive; a copy lasts until the round is over."""
        for key, id in ids_in(tensors).items():
            if copies and id not in self.held:
                self.copies.add(id)
            self.held.setdefault(id, {})[key.partition("/")[2]] = tensors[key]

    def _stored(self) -> dict[int, Path]:
        """Files of what was stored, by round."""
        files = [] if self.home is None else self.home.glob("*.safetensors")
        return {int(path.stem): path for path in files if path.stem.isdecimal()}


class LocalSite(Site):
    """A site of a process that the coordinator started on its own machine, for one run."""

    def do_home(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        self.home = Path(message["folder"])
        return {}, {}

    def do_save(self, message: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
        self._take(tensors)
        write_tensors(message["path"], self._belief(message["row"]), {})
        return {}, {}


def ids_in(tensors: Iterable[str]) -> dict[str, int]:
    """The ids of contents named ID/NAME, by that."""
    ids = {key: key.partition("/")[0] for key in tensors}
    for key, id in ids.items():
        if not (id.isascii() and id.isdecimal() and len(id) < 20 and "/" in key):
            raise BadData(f"contents called {shown(key)} have no id: is it of another version?")
    return {key: int(id) for key, id in ids.items()}


def kind_of(tensor: Tensor) -> Kind:
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]


def lacking(held: Mapping[int, Mapping[str, Tensor]], like: Mapping[str, Mapping[str, Kind]]) -> list[int]:
    """Ids of what is not held, or is of other kinds than it should be."""
    return [
        int(id)
        for id, kinds in like.items()
        if {name: kind_of(t) for name, t in held.get(int(id), {}).items() if name in kinds} != dict(kinds)
    ]


def rows_of(client: Client) -> dict[str, Tensor]:
    """A client's rows by name."""
    return {f"{part}.{axis}": getattr(getattr(client, part), axis) for part in PARTS for axis in ("x", "y")}


def client_of(told: Mapping[str, Any], rows: Mapping[str, Tensor]) -> Client:
    """The inverse of `rows_of`, with what else there is to know of a client."""
    parts = {part: Samples(rows[f"{part}.x"], rows[f"{part}.y"]) for part in PARTS}
    about: dict[str, Any] = {name: lists_to_tuples(told[name]) for name in ABOUT}
    return Client(train=parts["train"], test=parts["test"], validation=parts["validation"], **about)


def lists_to_tuples(value: Any) -> Any:
    """Options that went through JSON: lists were tuples."""
    return tuple(lists_to_tuples(v) for v in value) if isinstance(value, list) else value


# messages on a socket, each behind eight bytes that say how long it is


def send(line: socket.socket, data: bytes) -> None:
    line.sendall(len(data).to_bytes(8, "big") + data)


def receive(line: socket.socket) -> bytes | None:
    """The next message; None if the other side has hung up."""
    head = _exactly(line, 8)
    return None if head is None else _exactly(line, int.from_bytes(head, "big"))


def _exactly(line: socket.socket, size: int) -> bytes | None:
    """Memory grows with what has come, not with what was said."""
    data, got = bytearray(min(size, BUFFER)), 0
    while got < size:
        if got == len(data):
            data += bytes(min(size - got, got))
        try:
            with memoryview(data) as view:
                more = line.recv_into(view[got:])
        except ConnectionResetError:
            return None
        if not more:
            return None
        got += more
    return bytes(data)


def main(words: Sequence[str]) -> None:
    """A site of its own process: the number of its socket, and a file with its rows, which it removes."""
    torch.set_num_threads(1)
    line = socket.socket(fileno=int(words[0]))
    path = Path(words[1])
    rows, told = read_tensors(path)
    path.unlink()
    load_plugins(told["plugins"])
    send(line, b"")  # hello
    site = LocalSite(client_of(told, rows), int(told["number"]))
    while (data := receive(line)) is not None:
        send(line, site.answer(data))
    os._exit(0)  # nothing is left to write, and a library's leave-taking may take seconds
