"""Models in messages, in fewer bytes: each end remembers what crossed, and sends what has changed since.

A message's tensors called ID/NAME are models by id. From 16 KiB on, each is squeezed (`nets/lossy.py`)
against a model that both ends hold, which they name by its digest:

    lead to site, and back   the last model that the lead sent there, for each place in a message
    site to site             the last that the one sent to the other

An end that has lost it says so (`LostReference`), the other forgets its own, and sends the model whole. With
lossy squeezes each end remembers the model as the receiver has it, and a sender what is still owed.

A small message may become a large one, and what is remembered stays: neither takes more than a message may
have that came as it is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import BadData, Refused, shown
from coterie.core.wire import aligned, pack, unpack
from coterie.nets.lossy import Lossy, Memory, squeeze_of
from coterie.nets.lossy import unpack as unsqueezed
from coterie.nets.packing import LEAST, Layout, Reference
from coterie.storage.checkpoint import as_tensor

ROOM = 2**30  # bytes of models that are remembered
TO, FROM = "to ", "from "  # before the name of another site: ways of peer messages
MARK = "#"  # before the bytes of a squeezed model, among a message's tensors
Place = tuple[str, int]
Message = tuple[dict[str, Any], dict[str, Tensor]]


class Compression:
    """What this end remembers of each way: (with whom, place in a message); `most` are the bytes that the
    models of one message may have once they are unpacked, and those that are remembered of one way.
    """

    def __init__(self, most: int = ROOM) -> None:
        self.most = most
        self.known: OrderedDict[Place, Reference] = OrderedDict()
        self.owed: dict[Place, Memory] = {}
        self.pending: dict[str, dict[Place, tuple[Reference | None, Memory | None]]] = {}
        self.lock = threading.RLock()  # a lead and other sites send at once

    def pack(
        self, way: str, message: Mapping[str, Any], tensors: Mapping[str, Tensor], squeeze: str, learns: bool
    ) -> bytes:
        """A message; `learns` where what goes is what the next change will be of, once it has been taken."""
        models, others = dict[str, dict[str, Tensor]](), dict[str, Tensor]()
        for key, t in tensors.items():
            id, slash, name = key.partition("/")
            if slash and id.isdecimal():
                models.setdefault(id, {})[name] = t
            else:
                others[key] = t
        for id in [i for i, model in models.items() if sum(t.nbytes for t in model.values()) < LEAST]:
            others |= {f"{id}/{name}": t for name, t in models.pop(id).items()}  # not worth a parcel
        how = squeeze_of(squeeze)
        if squeeze == "none" or not models:
            return pack(message, tensors)
        told, sent = dict[str, Any](), dict[Place, tuple[Reference | None, Memory | None]]()
        with self.lock:
            for k, (id, model) in enumerate(models.items()):
                place = (way, k)
                reference, after = self.known.get(place), None
                meta, data, owed = how.pack(model, reference, self.owed.get(place) if reference else None)
                if learns:  # the model as the receiver has it
                    lossy = isinstance(how, Lossy)
                    after = Reference.of(unsqueezed(meta, data, reference) if lossy else dict(model))
                if way.startswith(TO):  # a peer goes on with a model of its own, which has what was not sent
                    owed = None
                told[id], sent[place] = meta, (after, owed)
                others[MARK + id] = as_tensor(data)
            self.pending[way] = sent
        return pack({**message, "parcels": told}, others)

    def taken(self, way: str) -> None:
        """What went this way last has arrived."""
        with self.lock:
            for place, (reference, owed) in self.pending.pop(way, {}).items():
                if reference is not None:
                    self._remember(place, reference)
                if owed is not None:
                    self.owed[place] = owed

    def unpack(self, way: str, data: bytes, learns: bool) -> Message:
        """The inverse of `pack`; whatever is not one of its messages is refused."""
        message, tensors = unpack(data)
        told = message.pop("parcels", None)
        if told is None:
            return message, tensors
        if not isinstance(told, Mapping) or any(MARK + str(id) not in tensors for id in told):
            raise BadData(f"parcels {shown(told)} are not in the message: are both ends of the same version?")
        found = {n: t for n, t in tensors.items() if not n.startswith(MARK)}
        with self.lock:
            size = sum(_size_in(meta, self.known.get((way, k))) for k, meta in enumerate(told.values()))
            if size > self.most:
                raise Refused(
                    f"a message of {len(data)} bytes with models of {size}, of at most {self.most}: send "
                    "smaller ones, or raise max_bytes"
                )
            for k, (id, meta) in enumerate(told.items()):
                packed, reference = tensors[MARK + str(id)], self.known.get((way, k))
                if packed.dtype != torch.uint8 or packed.ndim != 1:
                    raise BadData(f"parcel {shown(id)} is no bytes: are both ends of the same version?")
                model = unsqueezed(meta, packed.numpy().data, reference)
                found |= {f"{id}/{name}": aligned(t) for name, t in model.items()}
                if learns:
                    self._remember((way, k), Reference.of(model))
        return message, found

    def clear(self) -> None:
        """Nothing is known of what others have."""
        with self.lock:
            for table in (self.known, self.owed, self.pending):
                table.clear()

    def forget(self, way: str) -> None:
        """The other end has lost what it had, or has been started anew."""
        with self.lock:
            for table in (self.known, self.owed):
                for place in [p for p in table if p[0] == way]:
                    del table[place]
            self.pending.pop(way, None)

    def _remember(self, place: Place, reference: Reference) -> None:
        self.known[place] = reference
        self.known.move_to_end(place)
        mine = [p for p in self.known if p[0] == place[0]]
        while len(mine) > 1 and sum(_size_of(self.known[p]) for p in mine) > self.most:
            self._let_go(mine.pop(0))
        while len(self.known) > 1 and sum(map(_size_of, self.known.values())) > ROOM:
            self._let_go(next(iter(self.known)))

    def _let_go(self, place: Place) -> None:
        del self.known[place]
        self.owed.pop(place, None)


def _size_of(reference: Reference) -> int:
    return sum(t.nbytes for t in reference.tensors.values())


def _size_in(meta: Mapping[str, Any], reference: Reference | None = None) -> int:
    """Bytes of the model that a packed one becomes, by what is told of it, before memory is taken for it."""
    if isinstance(meta, Mapping) and "tensors" in meta and "reference" not in meta:
        return Layout.read(meta["tensors"]).size
    return 0 if reference is None else reference.layout.size
