"""The coordinator's side of sites that are elsewhere: verbs become messages (`courier.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs, Weights
from coterie.core.facts import kernel_fact
from coterie.core.held import COORDINATOR, Held, Part, fresh_ids, hold
from coterie.core.kernel import Kernel, kernel_to_dict, scores
from coterie.core.learner import Learner
from coterie.core.net import Beside, Distances, Net, Replies, edges_among
from coterie.core.observer import NOBODY, Observer
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.engines.base import Engine
from coterie.nets.courier import Courier, Message, Silence, Transport, Wanted
from coterie.nets.in_process import LEFT_OUT, InProcess, rows_heard
from coterie.nets.site import client_of
from coterie.nets.slots import Slots, groups_of, told_groups
from coterie.nets.sound import diverged
from coterie.nets.wrapped import Wrapped
from coterie.storage.checkpoint import by_name, named, taken
from coterie.storage.tensors import write_tensors


class Remote(Net):
    """A net whose sites answer messages."""

    courier: ClassVar[type[Courier]] = Courier

    def __init__(
        self,
        transport: Transport,
        roster: Roster,
        learner: Learner,
        engine: Engine,
        begin: Mapping[str, Any] | None,
    ) -> None:
        """Sites begin anew with a model, or live on and hold what they held for another coordinator."""
        self.learner, self.engine = learner, engine
        self.post = self.courier(transport, roster)
        self.pools: dict[tuple[tuple[int, ...], ...], Pooled] = {}
        self.now = 0  # the round of the last visit
        self.odd: dict[str, str] = {}
        self.stores = False
        self.observer: Observer = NOBODY
        self.fresh = begin is not None
        if begin is not None:
            self.ask_all(lambda site: {"do": "begin", **begin}, quiet=False)

    @property
    def roster(self) -> Roster:
        return self.post.roster

    def ask_all(self, message: Callable[[int], dict[str, Any]], quiet: bool = True) -> None:
        """Every site is asked, and needed."""
        self.post.ask({site: (message(site), {}) for site in range(len(self.roster))}, quiet=quiet)

    # who is there: everybody, unless a subclass knows better

    def present(self) -> Tensor:
        """[site] who answers."""
        return torch.ones(len(self.roster), dtype=torch.bool)

    def unsound(
        self, kernel: Kernel, beliefs: Held, answers: Mapping[int, Message], visits: Mapping[int, int]
    ) -> dict[int, Silence]:
        """Answers to a visit that cannot be: sites that this process started are trusted."""
        return {}

    def missed(self, silent: Mapping[int, Silence]) -> None:
        """Sites did not answer a visit, which can do without them."""
        self.post.need(silent)

    def bring(self, wanted: Mapping[int, Wanted], why: str = "mix") -> dict[int, dict[str, Tensor]]:
        """Rows come to places, to be summed, kept (copy), measured (distances) or looked at (visit) there."""
        return self.post.bring(wanted, why)

    def order(self, messages: Mapping[int, Message], counted: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Sites make something new of what they have and what comes along."""
        self.post.ask(messages, counted)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        """Every site, unless a subclass knows better."""
        self.odd = {}

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
        self.now = key.round
        edges, beside = edges_among(self.present(), beliefs, edges, beside)
        pairs: list[tuple[int, int]] = [(g, h) for g, h in edges.tolist()]
        if not pairs:
            return Replies(edges, {}, None, beliefs)
        data, others = kernel_to_dict(kernel), dict(beside or {})
        mine: dict[int, list[int]] = {}
        for e, (_, host) in enumerate(pairs):
            mine.setdefault(host, []).append(e)
        ids = [] if scores(kernel) else fresh_ids(len(pairs)).tolist()
        messages, wanted = dict[int, dict[str, Any]](), dict[int, Wanted]()
        for host, some in mine.items():
            guests = list(dict.fromkeys(pairs[e][0] for e in some))
            looked = {n: [0] if len(b) == 1 else some for n, b in others.items()}
            wanted[host] = [(beliefs, guests), *((others[n], rows) for n, rows in looked.items())]
            messages[host] = {"do": "visit", "kernel": data, "key": key.to_dict(), "slot": slot}
            messages[host] |= {
                "beliefs": [self.post.row(beliefs, g) for g in guests],
                "rows": [guests.index(pairs[e][0]) for e in some],
                "guests": [pairs[e][0] for e in some],
                "beside": {n: [self.post.row(others[n], r) for r in rows] for n, rows in looked.items()},
                "replies": [ids[e] for e in some] if ids else [],
            }
        along = self.post.bring(wanted, why="visit")
        answers, silent = self.post.try_to_ask({h: (m, along[h]) for h, m in messages.items()})
        # who diverged has no part in this round; if everybody did, the run has
        wrong = {h: self.post.said(a["diverged"]) for h, (a, _) in answers.items() if "diverged" in a}
        named = {self.roster.names[h]: why for h, why in wrong.items()}
        if wrong and len(wrong) == len(answers):
            raise diverged(key.round, *next(iter(named.items())))
        self.odd |= named
        answers = {h: a for h, a in answers.items() if h not in wrong}
        silent |= self.unsound(kernel, beliefs, answers, {h: len(some) for h, some in mine.items()})
        answers = {h: a for h, a in answers.items() if h not in silent}
        self.missed(silent)
        here = {host: some for host, some in mine.items() if host in answers}
        return self._replies(beliefs, edges, here, ids, answers, bool(kernel_fact(kernel, "together")))

    def figures(self) -> dict[str, Any]:
        """Whose replies of the round were left out, and why."""
        found, self.odd = self.odd, {}
        return {LEFT_OUT: found} if found else {}

    def _replies(
        self,
        beliefs: Held,
        edges: Tensor,
        mine: Mapping[int, list[int]],
        ids: Sequence[int],
        answers: Mapping[int, Message],
        together: bool,
    ) -> Replies:
        """One for each edge that answered, or for each host if its guests answered together."""
        found = {}
        for host, (answer, told_numbers) in answers.items():
            self.post.heard(host, answer["numbers"])
            for name in answer["numbers"]:
                values = told_numbers[name]
                self.post.measured.numbers[host, COORDINATOR] += values.numel()
                for i, e in enumerate(mine[host][:1] if together else mine[host]):
                    found[name, e] = values[i]
        if together:
            which = [mine[host][0] for host in sorted(mine)]
        else:
            which = sorted(e for some in mine.values() for e in some)
        answered = edges[which]
        if not which:
            return Replies(answered, {}, None, beliefs)
        stacked = {}
        for name, like in {name: t for (name, _), t in found.items()}.items():
            nothing = torch.full_like(
                like, torch.nan, dtype=torch.float64
            )  # of who tells not what others tell
            stacked[name] = torch.stack([found.get((name, e), nothing) for e in which])
        if not ids:
            return Replies(answered, stacked, None, beliefs)
        like = next(iter(answers.values()))[0]["like"]
        tensors = {
            name: torch.empty((len(which), *shape), dtype=getattr(torch, kind), device="meta")
            for name, (kind, shape) in like.items()
        }
        held = Held((Part(tensors, torch.tensor(ids)[which], answered[:, 1].clone()),))
        return Replies(answered, stacked, held, beliefs)

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        tensors = {n: t.new_empty((len(at), *t.shape[1:]), device="meta") for n, t in beliefs.tensors.items()}
        mixed = hold(tensors, at)
        with self.observer.doing("mixing"):
            if not in_turn:
                where = {place: (at == place).nonzero().flatten() for place in dict.fromkeys(at.tolist())}
                self._mix_at(where, weights, beliefs, mixed)
                return mixed
            now, whose = beliefs, {p: i for i, p in enumerate(beliefs.places.tolist())}
            for i, place in enumerate(at.tolist()):
                self._mix_at({place: torch.tensor([i])}, weights, now, mixed)
                now = now.put(torch.tensor([whose[place]]), mixed.rows(torch.tensor([i])))
        return mixed

    def _mix_at(self, where: Mapping[int, Tensor], weights: Weights, beliefs: Held, mixed: Held) -> None:
        """The sums of some receivers at each of some places."""
        by_name = {"*": weights} if isinstance(weights, Tensor) else {n: weights[n] for n in beliefs.names}
        chosen = {place: {n: w[i] for n, w in by_name.items()} for place, i in where.items()}
        heard = {place: rows_heard(some) for place, some in chosen.items()}
        brought = self.bring({place: [(beliefs, rows)] for place, rows in heard.items()})
        messages = {}
        for place, rows in heard.items():
            new = mixed.parts[0].ids[where[place]].tolist()
            named = [self.post.row(beliefs, r) for r in rows]
            plain = {n: w[:, rows] for n, w in chosen[place].items()}
            if place == COORDINATOR:
                made = tree.mix(plain.get("*", plain), tree.stack([self.post.belief(row) for row in named]))
                self.post.store |= {id: dict(tree.row(made, i)) for i, id in enumerate(new)}
            else:
                along = {**{f"weights/{n}": w for n, w in plain.items()}, **brought[place]}
                messages[place] = ({"do": "mix", "rows": named, "new": new}, along)
        self.order(messages, counted=brought)

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        like = {n: t.new_empty((len(at), *t.shape[1:]), device="meta") for n, t in beliefs.tensors.items()}
        copies = hold(like, at)
        new, to = copies.parts[0].ids.tolist(), dict[int, list[int]]()
        for i, place in enumerate(at.tolist()):
            to.setdefault(place, []).append(i)
        wanted = {p: [(beliefs, [int(rows[i]) for i in some])] for p, some in to.items()}
        brought = self.bring(wanted, why="copy")
        messages = {}
        for place, some in to.items():
            named = [self.post.row(beliefs, int(rows[i])) for i in some]
            own = [new[i] for i in some]
            if place == COORDINATOR:
                self.post.store |= zip(own, (dict(self.post.belief(row)) for row in named), strict=True)
            else:
                messages[place] = ({"do": "copy", "rows": named, "new": own}, brought[place])
        self.order(messages, counted=brought)
        return copies

    def share(self, beliefs: Held, to: Tensor) -> None:
        present = self.present()
        there = [place for place in to.tolist() if place == COORDINATOR or bool(present[place])]
        brought = self.bring({place: [(beliefs, range(len(beliefs)))] for place in there}, why="copy")
        take = {"do": "take", "copies": True}
        self.post.ask({p: (take, some) for p, some in brought.items() if some and p != COORDINATOR})

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        assert replies.origin is not None
        held, guests = replies.beliefs, list(dict.fromkeys(replies.guests.tolist()))
        wanted = {at: [(held, range(len(replies))), (replies.origin, guests)]}
        brought = self.bring(wanted, why="distances")
        named = [self.post.row(held, i) for i in range(len(replies))]
        origin = [self.post.row(replies.origin, g) for g in guests]
        which = [guests.index(g) for g in replies.guests.tolist()]
        self.post.heard(at, ["distances"])
        if at == COORDINATOR:
            many = tree.stack([self.post.belief(row) for row in named])
            sent = [tree.stack([self.post.belief(row)]) for row in origin]
            names = self.learner.trainable
            lengths = [
                tree.distances(tree.rows(many, torch.tensor([i])), sent[g], names, importance)
                for i, g in enumerate(which)
            ]
            apart = tree.distances(many, tree.rows(many, to), names, importance)
            return Distances(apart, torch.cat(lengths).flatten())
        message: dict[str, Any] = {"do": "distances", "replies": named, "origin": origin, "guests": which}
        message |= {"to": to.tolist(), "importance": dict(importance or {})}
        _, found = self.post.ask({at: (message, brought[at])}, counted=brought)[at]
        like = torch.empty((len(replies), len(to)), dtype=torch.float64, device="meta")
        self.post.check(at, found, {"apart": like, "lengths": like[:, 0]})
        self.post.measured.numbers[at, COORDINATOR] += found["apart"].numel() + found["lengths"].numel()
        return Distances(found["apart"], found["lengths"])

    def open(self, beliefs: Held) -> Beliefs:
        return self.post.tensors(beliefs)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Pooled:
        chosen = tuple(tuple(group) for group in groups)
        if chosen not in self.pools:
            precision = next(p.dtype for p in self.learner.training.parameters() if p.is_floating_point())
            sites = sorted({i for group in chosen for i in group})
            answers = self.post.ask({site: ({"do": "rows"}, {}) for site in sites})
            for site, (_, rows) in answers.items():
                self.post.check_rows(site, rows)
            clients, roster = [], self.roster
            for site, member in enumerate(roster.members):  # who is in no group has any rows: nobody looks
                told: dict[str, Any] = {
                    "name": member.name,
                    "features": roster.features,
                    "classes": roster.classes,
                }
                told |= {"cluster": member.cluster, "notes": member.notes}
                told |= {"censored": roster.task == "survival"}
                rows = answers[site if site in answers else sites[0]][1]
                clients.append(client_of(told, rows).cast(precision))
                self.post.measured.rows[site] += member.train if site in answers else 0
            here = InProcess(self.engine, self.learner, tuple(clients))
            self.pools[chosen] = Pooled(here.in_one_place(chosen), self.post)
        return self.pools[chosen]

    def keep(self, live: Iterable[Held], round: int) -> None:
        ids = self.post.ids(live)
        self.post.store = {id: t for id, t in self.post.store.items() if id in ids[COORDINATOR]}
        self.post.known = set()
        self.ask_all(lambda site: {"do": "keep", "live": sorted(ids[site]), "round": round})
        for net in self.pools.values():
            net.keep((), round)

    def peek(self, beliefs: Held) -> Beliefs | None:
        """Sites are elsewhere: there is nothing to see."""
        return None

    def save(self, beliefs: Held, paths: Mapping[int, str]) -> None:
        for i, path in paths.items():
            home = [place for place in (int(p.places[i]) for p in beliefs.parts) if place != COORDINATOR]
            row = self.post.row(beliefs, i)
            place = home[0] if home else COORDINATOR
            brought = self.post.bring({place: [(beliefs, [i])]})[place]
            if place == COORDINATOR:
                write_tensors(path, self.post.belief(row), {})
            else:
                self.post.ask({place: ({"do": "save", "row": row, "path": path}, brought)})

    def keep_at(self, folder: str) -> None:
        self.stores = True
        self.ask_all(lambda site: {"do": "home", "folder": f"{folder}/{site:05d}"})

    def observe(self, observer: Observer) -> None:
        self.observer = observer

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        ids = self.post.ids(live)
        if self.stores:
            self.ask_all(lambda s: {"do": "store", "live": sorted(ids[s]), "round": round}, quiet=False)
        return self.kept_here(ids[COORDINATOR])

    def kept_here(self, ids: set[int]) -> dict[str, Tensor]:
        """What is the coordinator's own, of these ids."""
        here = sorted(id for id in ids if id in self.post.store)
        mine = {k: t for id in here for k, t in named(id, self.post.store[id]).items()}
        for groups, net in self.pools.items():
            mine |= named("pool", named(told_groups(groups), net.slots.tensors()))
        return mine

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        ids = self.post.ids(live)
        self.restore_here(kept, round)
        fetch = {"do": "fetch", "round": round}
        self.ask_all(lambda s: {**fetch, "live": sorted(ids[s]), "fresh": self.fresh}, quiet=False)

    def restore_here(self, kept: Mapping[str, Tensor], round: int) -> None:
        """What is the coordinator's own."""
        pools, own = taken("pool", kept)
        for mark, tensors in by_name(pools).items():
            net = self.in_one_place(groups_of(mark))
            net.slots.load(tensors)
            net.slots.rewind(round)
        for id, belief in by_name(own).items():
            self.post.store.setdefault(int(id), {}).update(belief)
        self.post.known = set()

    def close(self) -> None:
        self.post.transport.close()


@dataclass(frozen=True, eq=False)
class Pooled(Wrapped):
    """For yardsticks: the coordinator trains on rows that moved to it; its beliefs are in its store."""

    net: InProcess
    post: Courier

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
        there = hold(self.post.tensors(beliefs), beliefs.places)
        looked = {n: hold(self.post.tensors(b), b.places) for n, b in (beside or {}).items()}
        replies = self.net.visit(kernel, there, edges, key, slot, looked)
        if replies.held is None:
            return replies
        (part,) = replies.held.parts
        for i, id in enumerate(part.ids.tolist()):
            self.post.store[id] = dict(tree.row(part.tensors, i))
        empty = {n: t.to("meta") for n, t in part.tensors.items()}
        return Replies(replies.edges, replies.numbers, Held((part._replace(tensors=empty),)), beliefs)
