"""Ten thousand well-formed orders of a lead who means harm, under a policy that allows nothing.

A grammar makes them: every verb, every kernel within every other, with options from where things go wrong.
What a site does with each is seen from inside, by the rows that training takes and by which rows a score
depends on; not by what the site says of it.
"""

from __future__ import annotations

import dataclasses
import random
import resource
import time
import typing
from collections import Counter

import numpy as np
import pytest
import torch
from hostile import Hostile, logistic
from room import Room

from coterie.core.client import Samples
from coterie.core.errors import CoterieError, Refused
from coterie.core.kernel import KERNELS, makes, scores
from coterie.engines import loop
from coterie.federation.policy import MAY, Policy
from coterie.kernels import kernel_of
from coterie.nets.site import Site

LEAST, ROWS, SECONDS, MEMORY = 12, 75, 2.0, 2**28
POLICY = Policy(
    **{key: False for key in MAY if key != "sums"},  # sums are what sites scale by
    scores="own",
    min_rows=LEAST,
    max_seconds=SECONDS,
    max_memory=MEMORY,
    max_steps=400,
    deals_a_day=10**6,
    runs_a_day=10**6,
    row_leverage=1.0,
)
WHOLE = [
    0,
    1,
    2,
    3,
    5,
    7,
    LEAST - 1,
    LEAST,
    LEAST + 1,
    2 * LEAST,
    59,
    60,
    61,
    120,
    1000,
    10**6,
    10**9,
    2**31,
    -1,
]
REAL = [0.0, 1e-300, 1e-9, 0.01, 0.1, 0.5, 0.8, 0.99, 1.0, 2.0, 1e6, 1e300, -1.0]
ORDERS = 10_000


class Grammar:
    """Orders by a seed. `ids` are of what the site holds."""

    def __init__(self, seed):
        self.draw, self.ids = random.Random(seed), []

    def value(self, hint, default):
        draw = self.draw
        if typing.get_origin(hint) is typing.Literal:
            return draw.choice(typing.get_args(hint))
        if hint is bool:
            return draw.random() < 0.5
        if hint is int:
            return draw.choice(WHOLE)
        if hint is float:
            return draw.choice(REAL)
        if isinstance(default, tuple):
            return draw.choice([[], ["loss"], ["head.weight"], ["samples", "loss"], ["accuracy"]])
        return default

    def kernel(self, deep=0):
        cls = KERNELS[self.draw.choice(list(KERNELS))]
        hints = typing.get_type_hints(cls)
        told = {"name": cls.name}
        for option in dataclasses.fields(cls):
            default = None if option.default is dataclasses.MISSING else option.default
            if option.name == "inner":
                if deep < 2 and self.draw.random() < 0.9:
                    told["inner"] = self.kernel(deep + 1)
            elif self.draw.random() < 0.4 and isinstance(default, bool | int | float | str | tuple):
                told[option.name] = self.value(hints[option.name], default)
        return told

    def rows(self, most=3):
        some = self.draw.choices(self.ids, k=self.draw.randint(1, most)) if self.ids else []
        return [[[id, ["head.weight", "head.bias"]]] for id in some]

    def weights(self, rows):
        return torch.tensor([[self.draw.choice([0.0, 1.0, 0.5, -1.0, 1e6, 1e-9]) for _ in rows]])

    def order(self, lead):
        """A verb, its fields and tensors."""
        draw, new = self.draw, lead.id()
        verb = draw.choice(
            ["visit"] * 12
            + ["mix", "copy", "give", "letters", "distances", "rows", "take"]
            + ["keep", "store", "fetch", "lacks", "sums", "fit", "fold", "check", "offer", "hello"]
        )
        rows = self.rows()
        if verb == "mix" and rows:
            return verb, {"rows": rows, "new": [new]}, {"weights/*": self.weights(rows)}
        orders = [
            {"to": "b", "rows": rows, "new": [new] * len(rows), "why": draw.choice(["mix", "open", "copy"])}
        ]
        return {
            "copy": (verb, {"rows": rows, "new": [lead.id() for _ in rows]}, {}),
            "give": (verb, {"rows": rows, "new": [new] * len(rows), "why": draw.choice(["mix", "open"])}, {}),
            "letters": (verb, {"orders": orders, "deadline": 1, "patience": 1}, {}),
            "distances": (
                verb,
                {
                    "replies": rows,
                    "origin": rows,
                    "guests": [0] * len(rows),
                    "to": [[0]] * len(rows),
                    "importance": None,
                },
                {},
            ),
            "take": (
                verb,
                {"copies": True},
                {f"{new}/head.weight": torch.ones(2, 3), f"{new}/head.bias": torch.ones(2)},
            ),
            "keep": (verb, {"live": self.ids[-50:], "round": draw.choice([0, 1, 5]), "store": None}, {}),
            "store": (verb, {"live": self.ids[-5:], "round": 1}, {}),
            "fetch": (verb, {"live": self.ids[-5:], "round": 1, "fresh": False}, {}),
            "lacks": (verb, {"like": {}}, {}),
            "fold": (verb, {"ground": lead.ground, "fold": self.fold()}, {}),
            "fit": (verb, {"ground": lead.ground, **lead.agreed, "late": False}, {}),
            "sums": (verb, {"ground": lead.ground, "gaps": lead.agreed["gaps"]}, {}),
            "offer": (verb, {"circle": draw.random() < 0.5, "sums": []}, {}),
        }.get(verb, (verb, {}, {}))

    def fold(self):
        return {"folds": self.draw.choice([2, 3, 5, 10, 60]), "fold": 0, "seed": self.draw.choice([0, 1])}


@pytest.fixture
def taken(monkeypatch):
    """Rows of each step that training takes, as they are taken."""
    steps, plain = [], loop.batch_of

    def seen(x, y, rows):
        steps.append(rows[rows >= 0].numpy())
        return plain(x, y, rows)

    monkeypatch.setattr(loop, "batch_of", seen)
    return steps


def depends_on(kernel, client, model):
    """How many rows of the client a score depends on: each is changed in turn."""
    site = Site(client, 0)
    x, y = getattr(client, kernel.part).x, getattr(client, kernel.part).y

    def figures(rows):
        changed = dataclasses.replace(client, **{kernel.part: Samples(rows, y)})
        site.client = changed
        site.do_begin(
            {
                "model": "logistic",
                "options": {},
                "shape": [3],
                "outputs": 2,
                "precision": "float32",
                "engine": {"name": "loop"},
            },
            {},
        )
        message = {
            "kernel": told_of(kernel),
            "key": {"seed": 0, "path": [], "round": 1, "rounds": 2},
            "slot": "",
            "beliefs": [[[1, list(model)]]],
            "beside": {},
            "rows": [0],
            "guests": [0],
            "replies": [],
        }
        found = site.do_visit(message, {f"1/{n}": t for n, t in model.items()})[1]
        return torch.cat([t.double().flatten().nan_to_num() for t in found.values()])

    before, many = figures(x), 0
    for i in range(len(x)):
        other = x.clone()
        other[i] += torch.tensor([5.0, -7.0, 3.0])
        many += not torch.equal(figures(other), before)
    return many


def told_of(kernel):
    from coterie.core.kernel import told

    return told(kernel)


def test_no_order_gets_a_figure_of_few_rows(tmp_path, taken):
    room = Room(tmp_path, dict.fromkeys(("a", "b"), POLICY), ("a", "b"), rows=ROWS)
    lead, grammar = Hostile(room), Grammar(34)
    met = lead.begin("a")
    lead.ground, lead.agreed = met.rule.ground, met.agreed
    before, slowest, outcomes, sets, looked = memory(), 0.0, Counter(), {}, 0
    model = {
        n: torch.randn(t.shape, generator=torch.Generator().manual_seed(3)) for n, t in logistic().items()
    }
    for _ in range(ORDERS):
        verb, fields, tensors = grammar.order(lead)
        taken.clear()
        start = time.monotonic()
        kernel = grammar.kernel() if verb == "visit" else {}
        try:
            if verb == "visit":
                numbers = lead.visit(
                    "a",
                    kernel,
                    [model],
                    round=grammar.draw.choice([1, 2, 50]),
                    seed=grammar.draw.randrange(3),
                )
                grammar.ids = [*grammar.ids[-60:], *lead.replies]
            else:
                _, numbers = lead.ask("a", verb, tensors, **fields)
            outcomes[verb, "done"] += 1
        except Refused:
            outcomes[verb, "refused"] += 1
            continue
        except CoterieError:
            outcomes[verb, "failed"] += 1
            continue
        finally:
            slowest = max(slowest, time.monotonic() - start)
        if verb != "visit":
            assert not numbers, f"{verb} brought {list(numbers)}"
            continue
        made = kernel_of(kernel)
        if makes(made) or (scores(made) and made.part is None):
            continue
        if scores(made):
            if looked < 20 and "loss" in numbers and "bound" not in kernel:  # a loss sees every row
                looked += 1
                assert depends_on(made, room.stations["a"].session.client, model) >= LEAST, kernel
            if "samples" in numbers:
                assert float(numbers["samples"].min()) >= LEAST, kernel
            continue
        rows = np.unique(np.concatenate(taken))
        assert len(rows) >= LEAST, kernel
        if "loss" in numbers and "'dp'" not in str(kernel):  # whose rows are drawn by a secret of the site's
            sets.setdefault(frozenset(rows.tolist()), kernel)
    near = [(sets[a], sets[b], len(a ^ b)) for a in sets for b in sets if 0 < len(a ^ b) < LEAST]
    assert not near, near[:3]
    assert slowest < SECONDS + 3
    assert memory() - before < MEMORY + 2**28
    done = sum(many for (_, how), many in outcomes.items() if how == "done")
    assert {verb for verb, _ in outcomes} >= {"visit", "mix", "give", "letters", "distances", "rows"}
    for verb in ("give", "letters", "distances", "rows", "check"):
        assert outcomes[verb, "done"] == 0
    assert outcomes["visit", "done"] > 100  # what is allowed is done
    assert looked == 20
    assert done < ORDERS


def memory():
    """The most that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
