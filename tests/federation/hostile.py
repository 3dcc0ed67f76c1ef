"""A lead who means harm: a genuine kit, and messages of its own making.

lead = Hostile(room)
lead.begin("a")
numbers = lead.visit("a", {"name": "score", "part": "train"}, [logistic(4, bias=3.0)])
"""

from __future__ import annotations

import secrets

import torch
from planned import planned_begin

from coterie.core.errors import BadRun, Refused
from coterie.core.method import Reveals
from coterie.core.wire import pack, unpack
from coterie.federation.lead.sites import Rule, meet
from coterie.federation.policy.rules import to_dict, work_for

ERRORS = {"Refused": Refused}


def logistic(features=3, classes=2, weight=0.0, bias=0.0, column=0):
    """Logits 0 and weight x_column + bias."""
    w, b = torch.zeros(classes, features), torch.zeros(classes)
    w[1, column], b[1] = weight, bias
    return {"head.weight": w, "head.bias": b}


class Hostile:
    """Talks to stations of a `Room` directly. Its runs begin with a plan of fedavg; what it asks is held
    against that only if it is `planned`: policies have to hold whatever somebody plans.
    """

    def __init__(self, room, kit="lead", planned=False):
        self.planned = planned
        self.room, self.kit, self.run, self.next = room, room.kits[kit], {}, 1000
        self.model = {"model": "logistic", "options": {}, "precision": "float32", "engine": {"name": "loop"}}

    def ask(self, name, do, tensors=None, **message):
        """The answer and its tensors; a refusal is raised."""
        asked = {"do": do, **message}
        if name in self.run:
            asked.setdefault("run", self.run[name])
        answer = self.room.stations[name].answer(self.kit.card, {}, pack(asked, tensors or {}))
        found, numbers = unpack(answer)
        if "error" in found:
            raise ERRORS.get(found["error"], BadRun)(found["text"])
        return found, numbers

    def meet(self, names=None, **rule):
        """Rows are set aside at sites, as an honest lead would."""
        given = Rule(**{"test": 0.2, "validation": 0.0, "deal": 0, "one_class": True, **rule})
        return meet(self.room.lines, given, names or self.room.names, 1, 0.0, lambda line: None)

    def begin(self, *names, sites=None, fold=None, run=None, **rule):
        """A run begins at these sites; what is told of it is as harmless as can be."""
        met = self.meet(**rule)
        everybody = list(sites or met.roster.names)
        run = run or secrets.token_hex(16)
        work = to_dict(work_for(Reveals(), ["sgd"], "logistic", 100, len(everybody), deal=met.rule.deal))
        for name in names or met.roster.names:
            message = {
                **self.model,
                "shape": list(met.roster.shape),
                "outputs": met.roster.outputs,
                "work": work,
                "sites": everybody,
                "ground": met.rule.ground,
                "number": met.roster.names.index(name),
                "fold": fold,
            }
            self.run[name] = run
            self.ask(name, "begin", **planned_begin(self.kit, {**message, "run": run}))
            if not self.planned:
                self.room.stations[name].session.plan = None
        return met

    def id(self):
        self.next += 1
        return self.next

    def visit(self, name, kernel, models, round=1, seed=0, beside=None, replies=None):
        """Models of one's own, or ids of what is there, visit a site; numbers come back."""
        tensors, rows = {}, []
        for model in models:
            if isinstance(model, int):
                rows.append([[model, ["head.weight", "head.bias"]]])
                continue
            id = self.id()
            tensors |= {f"{id}/{n}": t for n, t in model.items()}
            rows.append([[id, list(model)]])
        replies = replies or [self.id() for _ in models]
        self.replies = replies
        key = {"seed": seed, "path": [], "round": round, "rounds": 100}
        found, numbers = self.ask(
            name,
            "visit",
            tensors,
            kernel=kernel,
            key=key,
            slot="",
            beliefs=rows,
            beside=beside or {},
            rows=list(range(len(models))),
            guests=list(range(len(models))),
            replies=replies,
        )
        if "diverged" in found:
            raise BadRun(found["diverged"])
        return numbers

    def rows_of(self, name):
        """What nobody but the site may know: for tests to hold what was learned against."""
        return self.room.stations[name].session.client.train
