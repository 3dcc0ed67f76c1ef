"""The coordinator's side of sites that are elsewhere: verbs become messages.

What lies at the coordinator (a server's belief) is in `store`, by id. Everything else a handle only names.
Models of peers go from site to site in letters that are passed on unread; the coordinator unpacks what sites
tell it, what is mixed at its own place, and what it opens. `log` tells what crosses.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs, Weights
from coterie.core.errors import BadRun
from coterie.core.held import COORDINATOR, Held, Part, fresh_ids, hold
from coterie.core.kernel import Kernel, scores, told
from coterie.core.learner import Learner
from coterie.core.net import Beside, Distances, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.core.wire import pack, payload, told_key, unpack
from coterie.engines.base import Engine
from coterie.nets.counting import nothing_passed
from coterie.nets.in_process import InProcess
from coterie.nets.site import ERRORS, client_of
from coterie.nets.slots import Slots
from coterie.nets.wrapped import Wrapped
from coterie.storage.tensors import write_tensors

log = logging.getLogger("coterie")

Rows = list[list[Any]]  # parts of one belief: [id, names]


class Transport(Protocol):
    """How messages reach sites: each of several gets one, and all of their answers come back."""

    def ask(self, messages: Mapping[int, bytes]) -> dict[int, bytes]: ...

    def close(self) -> None: ...


class Remote:
    """A net whose sites answer messages."""

    def __init__(
        self,
        transport: Transport,
        roster: Roster,
        learner: Learner,
        engine: Engine,
        begin: Mapping[str, Any] | None,
    ) -> None:
        """Sites begin anew with a model, or live on and hold what they held for another coordinator."""
        self.transport, self.roster, self.learner, self.engine = transport, roster, learner, engine
        self.store: dict[int, dict[str, Tensor]] = {}
        self.known: set[tuple[int, int, str]] = set()  # (id, place, name) of what a place has got a copy of
        self.measured = nothing_passed(len(roster))
        self.pools: dict[tuple[tuple[int, ...], ...], Pooled] = {}
        self.stores = False
        self.fresh = begin is not None
        if begin is not None:
            self._ask({site: ({"do": "begin", **begin}, {}) for site in range(len(roster))})

    # verbs

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        pairs: list[tuple[int, int]] = [(g, h) for g, h in edges.tolist()]
        if not pairs:
            return Replies(edges, {}, None, beliefs)
        data, others = told(kernel), dict(beside or {})
        mine: dict[int, list[int]] = {}
        for e, (_, host) in enumerate(pairs):
            mine.setdefault(host, []).append(e)
        ids = [] if scores(kernel) else fresh_ids(len(pairs)).tolist()
        messages: dict[int, tuple[dict[str, Any], dict[str, Tensor]]] = {}
        for host, some in mine.items():
            guests = list(dict.fromkeys(pairs[e][0] for e in some))
            looked = {n: [0] if len(b) == 1 else some for n, b in others.items()}
            wanted = [(beliefs, guests), *((others[n], rows) for n, rows in looked.items())]
            message = {
                "do": "visit",
                "kernel": data,
                "key": told_key(key),
                "slot": slot,
                "beliefs": [self._row(beliefs, g) for g in guests],
                "rows": [guests.index(pairs[e][0]) for e in some],
                "guests": [pairs[e][0] for e in some],
                "beside": {n: [self._row(others[n], r) for r in rows] for n, rows in looked.items()},
                "replies": [ids[e] for e in some] if ids else [],
            }
            messages[host] = (message, self._bring(host, wanted))
        answers = self._ask(messages)
        return self._replies(beliefs, edges, mine, ids, answers, bool(getattr(kernel, "together", False)))

    def _replies(
        self,
        beliefs: Held,
        edges: Tensor,
        mine: Mapping[int, list[int]],
        ids: Sequence[int],
        answers: Mapping[int, tuple[dict[str, Any], dict[str, Tensor]]],
        together: bool,
    ) -> Replies:
        """One for each edge, or for each host if its guests answered together."""
        order = sorted(mine) if together else None
        found = {}
        for host, (answer, told_numbers) in answers.items():
            self.heard(host, answer["numbers"])
            for name in answer["numbers"]:
                values = told_numbers[name]
                self.measured.numbers[host, COORDINATOR] += len(values)
                for i, e in enumerate(mine[host][:1] if together else mine[host]):
                    found[name, e] = values[i]
        which = [mine[host][0] for host in order] if order is not None else range(len(edges))
        names = dict.fromkeys(name for name, _ in found)
        stacked = {name: torch.stack([found[name, e] for e in which]) for name in names}
        answered = edges[list(which)] if order is not None else edges
        if not ids:
            return Replies(answered, stacked, None, beliefs)
        like = next(iter(answers.values()))[0]["like"]
        tensors = {
            name: torch.empty((len(edges), *shape), dtype=getattr(torch, kind), device="meta")
            for name, (kind, shape) in like.items()
        }
        held = Held((Part(tensors, torch.tensor(ids), edges[:, 1].clone()),))
        return Replies(answered, stacked, held, beliefs)

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        tensors = {n: t.new_empty((len(at), *t.shape[1:]), device="meta") for n, t in beliefs.tensors.items()}
        mixed = hold(tensors, at)
        if not in_turn:
            for place in dict.fromkeys(at.tolist()):
                self._mix_at(place, (at == place).nonzero().flatten(), weights, beliefs, mixed)
            return mixed
        now, whose = beliefs, {p: i for i, p in enumerate(beliefs.places.tolist())}
        for i, place in enumerate(at.tolist()):
            self._mix_at(place, torch.tensor([i]), weights, now, mixed)
            now = now.put(torch.tensor([whose[place]]), mixed.rows(torch.tensor([i])))
        return mixed

    def _mix_at(self, place: int, receivers: Tensor, weights: Weights, beliefs: Held, mixed: Held) -> None:
        """The sums of some receivers, all at one place."""
        by_name = {"*": weights} if isinstance(weights, Tensor) else {n: weights[n] for n in beliefs.names}
        chosen = {n: w[receivers] for n, w in by_name.items()}
        heard = (
            torch.stack([w != 0 for w in chosen.values()]).any(dim=0).any(dim=0).nonzero().flatten().tolist()
        )
        heard = heard or [0]  # a sum of nothing still has a shape
        new = mixed.parts[0].ids[receivers].tolist()
        brought = self._bring(place, [(beliefs, heard)])
        rows = [self._row(beliefs, r) for r in heard]
        told_weights = {f"weights/{n}": w[:, heard] for n, w in chosen.items()}
        if place != COORDINATOR:
            message = {"do": "mix", "rows": rows, "new": new}
            self._ask({place: (message, {**told_weights, **brought})}, counted=brought)
            return
        senders = tree.stack([self._belief(row) for row in rows])
        plain = {n: w[:, heard] for n, w in chosen.items()}
        made = tree.mix(plain.get("*", plain), senders)
        for i, id in enumerate(new):
            self.store[id] = dict(tree.row(made, i))

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        like = {n: t.new_empty((len(at), *t.shape[1:]), device="meta") for n, t in beliefs.tensors.items()}
        copies = hold(like, at)
        new = copies.parts[0].ids.tolist()
        to: dict[int, list[int]] = {}
        for i, place in enumerate(at.tolist()):
            to.setdefault(place, []).append(i)
        for place, some in to.items():
            wanted = [int(rows[i]) for i in some]
            named = [self._row(beliefs, r) for r in wanted]
            if place == COORDINATOR:
                self._bring(place, [(beliefs, wanted)])
                for i, row in zip(some, named, strict=True):
                    self.store[new[i]] = dict(self._belief(row))
                continue
            self._hand_over(place, self._bring(place, [(beliefs, wanted)]))
            self._ask({place: ({"do": "copy", "rows": named, "new": [new[i] for i in some]}, {})})
        return copies

    def share(self, beliefs: Held, to: Tensor) -> None:
        for place in to.tolist():
            self._hand_over(place, self._bring(place, [(beliefs, list(range(len(beliefs))))]))

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        assert replies.origin is not None
        held, guests = replies.beliefs, list(dict.fromkeys(replies.guests.tolist()))
        brought = self._bring(at, [(held, list(range(len(replies)))), (replies.origin, guests)])
        named = [self._row(held, i) for i in range(len(replies))]
        origin = [self._row(replies.origin, g) for g in guests]
        which = [guests.index(g) for g in replies.guests.tolist()]
        if at == COORDINATOR:
            many = tree.stack([self._belief(row) for row in named])
            sent = [tree.stack([self._belief(row)]) for row in origin]
            names = self.learner.trainable
            lengths = [
                tree.distances(tree.rows(many, torch.tensor([i])), sent[g], names, importance)
                for i, g in enumerate(which)
            ]
            apart = tree.distances(many, tree.rows(many, to), names, importance)
            return Distances(apart, torch.cat(lengths).flatten())
        message = {
            "do": "distances",
            "replies": named,
            "origin": origin,
            "guests": which,
            "to": to.tolist(),
            "importance": dict(importance or {}),
        }
        _, found = self._ask({at: (message, brought)}, counted=brought)[at]
        self.measured.numbers[at, COORDINATOR] += found["apart"].numel() + found["lengths"].numel()
        self.heard(at, ["distances"])
        return Distances(found["apart"], found["lengths"])

    def open(self, beliefs: Held) -> Beliefs:
        rows = list(range(len(beliefs)))
        self._bring(COORDINATOR, [(beliefs, rows)])
        return tree.stack([self._belief(self._row(beliefs, r)) for r in rows])

    def pool(self, groups: Sequence[Sequence[int]]) -> Pooled:
        chosen = tuple(tuple(group) for group in groups)
        if chosen not in self.pools:
            sites = sorted({i for group in chosen for i in group})
            answers = self._ask({site: ({"do": "rows"}, {}) for site in sites})
            clients = []
            for site in range(len(self.roster)):
                member = self.roster.members[site]
                about: dict[str, Any] = {
                    "name": member.name,
                    "features": self.roster.features,
                    "classes": self.roster.classes,
                }
                about |= {"cluster": member.cluster, "notes": member.notes}
                clients.append(client_of(about, answers[site if site in answers else sites[0]][1]))
                self.measured.rows[site] += member.train if site in answers else 0
            dtype = next(p.dtype for p in self.learner.training.parameters() if p.is_floating_point())
            here = InProcess(self.engine, self.learner, tuple(c.cast(dtype) for c in clients))
            self.pools[chosen] = Pooled(here.pool(chosen), self)
        return self.pools[chosen]

    def keep(self, live: Iterable[Held], round: int) -> None:
        ids = self._ids(live)
        self.store = {id: t for id, t in self.store.items() if id in ids[COORDINATOR]}
        self.known = set()
        everyone = range(len(self.roster))
        self._ask(
            {s: ({"do": "keep", "live": sorted(ids[s]), "round": round}, {}) for s in everyone}, quiet=True
        )
        for net in self.pools.values():
            net.keep((), round)

    def peek(self, beliefs: Held) -> Beliefs | None:
        """Sites are elsewhere: there is nothing to see."""
        return None

    def save(self, beliefs: Held, paths: Mapping[int, str]) -> None:
        for i, path in paths.items():
            home = [place for place in (int(p.places[i]) for p in beliefs.parts) if place != COORDINATOR]
            row = self._row(beliefs, i)
            place = home[0] if home else COORDINATOR
            brought = self._bring(place, [(beliefs, [i])])
            if place == COORDINATOR:
                write_tensors(path, self._belief(row), {})
                continue
            self._hand_over(place, brought)
            self._ask({place: ({"do": "save", "row": row, "path": path}, {})})

    def keep_at(self, folder: str) -> None:
        self.stores = True
        everyone = range(len(self.roster))
        self._ask({s: ({"do": "home", "folder": f"{folder}/{s:05d}"}, {}) for s in everyone}, quiet=True)

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        ids = self._ids(live)
        if self.stores:
            everyone = range(len(self.roster))
            self._ask({s: ({"do": "store", "live": sorted(ids[s]), "round": round}, {}) for s in everyone})
        here = sorted(id for id in ids[COORDINATOR] if id in self.store)
        mine = {f"{id}|{name}": t for id in here for name, t in self.store[id].items()}
        for groups, net in self.pools.items():
            mark = ";".join(",".join(map(str, group)) for group in groups)
            mine |= {f"pool|{mark}|{name}": t for name, t in net.slots.tensors().items()}
        return mine

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        ids = self._ids(live)
        pooled: dict[str, dict[str, Tensor]] = {}
        for key, t in kept.items():
            id, _, name = key.partition("|")
            if id == "pool":
                mark, _, slot = name.partition("|")
                pooled.setdefault(mark, {})[slot] = t
            else:
                self.store.setdefault(int(id), {})[name] = t
        for mark, tensors in pooled.items():
            net = self.pool([[int(i) for i in group.split(",")] for group in mark.split(";")])
            net.slots.load(tensors)
            net.slots.rewind(round)
        self.known = set()
        everyone = range(len(self.roster))
        message = {"do": "fetch", "round": round}
        self._ask({s: ({**message, "live": sorted(ids[s]), "fresh": self.fresh}, {}) for s in everyone})

    def close(self) -> None:
        self.transport.close()

    # what lies where

    def _row(self, held: Held, row: int) -> Rows:
        """One row by its parts."""
        return [[int(p.ids[row]), list(p.tensors)] for p in held.parts]

    def _belief(self, row: Rows) -> Belief:
        return {name: self.store[id][name] for id, names in row for name in names}

    def _ids(self, live: Iterable[Held]) -> dict[int, set[int]]:
        """The ids of handles by place."""
        ids: dict[int, set[int]] = {place: set() for place in range(-1, len(self.roster))}
        for held in live:
            for part in held.parts:
                for id, place in zip(part.ids.tolist(), part.places.tolist(), strict=True):
                    ids[place].add(id)
        return ids

    def _bring(self, to: int, wanted: Sequence[tuple[Held, Sequence[int]]]) -> dict[str, Tensor]:
        """Rows of handles come to a place: from sites at once; what the coordinator has is returned, to go
        along.
        """
        along: dict[str, Tensor] = {}
        letters: dict[int, list[tuple[int, list[str]]]] = {}
        first = {(id, place) for id, place, _ in self.known}
        for held, rows in wanted:
            self._sight(held, rows)
            for part in held.parts:
                names, ids, places = list(part.tensors), part.ids.tolist(), part.places.tolist()
                for row in dict.fromkeys(rows):
                    id, place = ids[row], places[row]
                    missing = [n for n in names if (id, to, n) not in self.known]
                    if place == to or not missing:
                        continue
                    self.known |= {(id, to, n) for n in missing}
                    self.measured.models[place, to] += (id, to) not in first  # else more of it follows
                    if place != COORDINATOR:
                        letters.setdefault(place, []).append((id, missing))
                    elif to != COORDINATOR:
                        along |= {f"{id}/{n}": self.store[id][n] for n in missing}
        for place, some in letters.items():
            self._carry(place, to, some)
        return along

    def _sight(self, held: Held, rows: Sequence[int]) -> None:
        """What a handle of the coordinator's own making has in it (first weights, shares) is in the store
        too.
        """
        for part in held.parts:
            if not part.tensors or next(iter(part.tensors.values())).device.type == "meta":
                continue
            for row in rows:
                if int(part.places[row]) == COORDINATOR:
                    self.store.setdefault(int(part.ids[row]), {}).update(tree.row(part.tensors, row))

    def _hand_over(self, place: int, brought: dict[str, Tensor]) -> None:
        if brought:
            self._ask({place: ({"do": "take", "copies": True}, brought)}, counted=brought)

    def _carry(self, place: int, to: int, some: Sequence[tuple[int, list[str]]]) -> None:
        """Contents go from a site to another, unread, or to the coordinator, to be mixed or looked at."""
        rows, new = [[[id, names]] for id, names in some], [id for id, _ in some]
        request = {"do": "letter", "rows": rows, "new": new, "copies": True}
        letter = self.transport.ask({place: pack(request, {})})[place]
        if payload(letter) == 0:
            self._answer(place, letter)  # a refusal
        self.measured.bytes[place, to] += payload(letter)
        log.info(
            "%s ⇒ %s  %d model(s), %d bytes", self._name(place), self._name(to), len(new), payload(letter)
        )
        if to != COORDINATOR:
            self._answer(to, self.transport.ask({to: letter})[to])
            return
        _, tensors = unpack(letter)
        self.seen(place, tensors)
        for key, t in tensors.items():
            id, _, name = key.partition("/")
            self.store.setdefault(int(id), {})[name] = t

    # hooks for those who want to know what the coordinator learns

    def seen(self, place: int, tensors: Mapping[str, Tensor]) -> None:
        """It unpacks models of a site."""

    def heard(self, place: int, names: Sequence[str]) -> None:
        """A site tells it numbers of these names."""

    # messages

    def _ask(
        self,
        messages: Mapping[int, tuple[dict[str, Any], dict[str, Tensor]]],
        counted: Mapping[str, Tensor] | None = None,
        quiet: bool = False,
    ) -> dict[int, tuple[dict[str, Any], dict[str, Tensor]]]:
        """Several sites at once; a refusal of any is ours."""
        packed = {}
        for site, (message, tensors) in messages.items():
            models = tensors if counted is None else counted
            if models:
                self.measured.bytes[COORDINATOR, site] += sum(t.nbytes for t in models.values())
            packed[site] = pack(message, tensors)
            if not quiet:
                log.info("→ %s  %s, %d bytes of models", self._name(site), _words(message), _size(models))
        answers = {site: self._answer(site, data) for site, data in self.transport.ask(packed).items()}
        for site, (_, tensors) in answers.items():
            if tensors and not quiet:
                some = ", ".join(sorted(tensors)) if len(tensors) < 12 else f"{len(tensors)} numbers"
                log.info("← %s  %s", self._name(site), some)
        return answers

    def _answer(self, site: int, data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
        answer, tensors = unpack(data)
        if "error" in answer:
            raise ERRORS.get(answer["error"], BadRun)(answer["text"])
        return answer, tensors

    def _name(self, place: int) -> str:
        return "coordinator" if place == COORDINATOR else self.roster.names[place]


@dataclass(frozen=True, eq=False)
class Pooled(Wrapped):
    """Rows of sites that moved to the coordinator, which trains on them; its beliefs are in its store.
    """

    net: InProcess
    remote: Remote

    @property
    def slots(self) -> Slots:
        return self.net.slots

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        """Handles come out of the store as tensors, and replies go into it."""
        there = hold(self.remote.open(beliefs), beliefs.places)
        looked = {n: hold(self.remote.open(b), b.places) for n, b in (beside or {}).items()}
        replies = self.net.visit(kernel, there, edges, key, slot, looked)
        if replies.held is None:
            return replies
        (part,) = replies.held.parts
        for i, id in enumerate(part.ids.tolist()):
            self.remote.store[id] = dict(tree.row(part.tensors, i))
        empty = {n: t.to("meta") for n, t in part.tensors.items()}
        return Replies(replies.edges, replies.numbers, Held((part._replace(tensors=empty),)), beliefs)


def _words(message: Mapping[str, Any]) -> str:
    """What a message asks, in a few words."""
    if message["do"] != "visit":
        return str(message["do"])
    return f"visit {_said(message['kernel'])} by {len(message['rows'])} belief(s)"


def _said(kernel: Mapping[str, Any]) -> str:
    """fold(sgd(lr=0.1))"""
    inner = [
        f"{k}={_said(v)}" if isinstance(v, Mapping) else f"{k}={v}" for k, v in kernel.items() if k != "name"
    ]
    return f"{kernel['name']}({', '.join(inner)})"


def _size(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.nbytes for t in tensors.values())
