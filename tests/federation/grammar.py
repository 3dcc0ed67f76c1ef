"""A grammar of well-formed orders of a lead who means harm: every verb that a site takes and every kernel,
with options from where things go wrong, and beliefs beside a visit as its kernel needs them.

grammar = Grammar(seed, met, shape=4, ground="g")
message, tensors = grammar.order()
grammar.heard(message, found)          what came of it, so that later orders name what is there
"""

from __future__ import annotations

import copy
import dataclasses
import math
import random
import typing

import torch

from coterie.core.kernel import KERNELS, scores
from coterie.federation.lead.sites import Rule, deal_message
from coterie.federation.site.server import CALLS, ORDERS
from coterie.federation.site.session import Session

LEAST, ROWS, TEST = 12, 75, 15
TRAIN = ROWS - TEST
WHOLE = [
    *(0, 1, 2, 3, 5, 7, LEAST - 1, LEAST, LEAST + 1, 2 * LEAST, TEST - 1, TEST),
    *(TRAIN - 1, TRAIN, TRAIN + 1, ROWS - 1, ROWS, 1000, 10**6, 10**9, 2**31, 2**63, -1),
]  # fmt: skip
REAL = [0.0, 1e-300, 1e-9, 0.01, 0.1, 0.5, 0.8, 0.99, 1.0, 2.0, 59 / 60, 74 / 75, 1e6, 1e300, -1.0]
REAL += [math.nan, math.inf, -math.inf]
MODEL = ("head.weight", "head.bias")
CLASSES = 2

# how often each verb is drawn
VERBS = {
    "visit": 45, "deal": 4, "sums": 3, "fit": 4, "fold": 3, "begin": 1, "mix": 3, "give": 3, "letters": 3,
    "copy": 2, "letter": 1, "distances": 3, "take": 2, "keep": 1, "store": 1, "fetch": 1, "lacks": 1,
    "rows": 1, "offer": 1, "seal": 1, "unseal": 1, "hello": 1, "check": 2, "finish": 1, "end": 1,
    "ping": 1, "left-out": 1, "ledger": 1, "cancel": 1,
}  # fmt: skip

# options with which a kernel gets as far as the rows, drawn as often as others
CALM = {
    "ala": {"rows": 1.0, "batch": 60},
    "curvature": {"apart": True},
    "draws": {"like": [["head.weight", "float32", [2, 4]], ["head.bias", "float32", [2]]]},
    "fold": {"folds": 3},
    "held-out": {"folds": 4},
    "hmc": {"steps": 3, "leaps": 2, "adapt": 1, "burn": 0, "lr": 0.01},
    "moments": {"columns": 4, "classes": 2, "least": LEAST},
    "poisoned": {"classes": 2},
    "fooled": {"target": 1},
    "quantiles": {"columns": 4},
    "refresh": {"batch": 60},
    "tallied": {"least": LEAST},
    "only": {"names": ["head.bias"]},
}
WITHIN = {
    "gather": ("swag", "sgld", "psgld", "hmc"),
    "controlled": ("sgd", "newton"),
    "mixture": ("sgd", "adam", "adamw"),
    "meta": ("sgd",),
    "moreau": ("sgd", "adam"),
    "choice": ("score", "noisy", "held-out", "calibrate"),
    "crowd": ("score", "calibrate", "tallied", "noisy"),
    "noisy": ("score", "calibrate", "held-out", "crowd"),
    "relative": ("score", "held-out"),
}
WORK = ("sgd", "adam", "swag", "proximal", "fold", "bounded", "constant", "newton", "leaning")


def verbs_of(station):
    """All that a station and its session take."""
    mine = {name.removeprefix("do_") for name in dir(Session) if name.startswith("do_")}
    return {*CALLS, *ORDERS, *mine, "lacks"}


def missing_verbs(station):
    """Those that the grammar does not have."""
    return verbs_of(station) - VERBS.keys()


def all_names(kernel):
    """A kernel's name and those of all inside of it."""
    return [kernel["name"], *(n for v in kernel.values() if isinstance(v, dict) for n in all_names(v))]


class Grammar:
    """Orders by a seed. `ids` are what the site holds, with the names of their tensors."""

    def __init__(self, seed, met, columns, ground):
        self.draw, self.met, self.columns, self.ground = random.Random(seed), met, columns, ground
        self.ids, self.next, self.grounds, self.bag = [], 10_000, [ground], []

    def id(self):
        self.next += 1
        return self.next

    # kernels

    def value(self, hint, default):
        draw = self.draw
        hints = [h for h in typing.get_args(hint) if h is not type(None)]
        if typing.get_origin(hint) is typing.Literal:
            return draw.choice(typing.get_args(hint))
        if hint is bool:
            return draw.random() < 0.5
        if hint is int or int in hints:
            return draw.choice(WHOLE)
        if hint is float or float in hints:
            return draw.choice(REAL)
        if isinstance(default, tuple):
            return draw.choice(
                [
                    [],
                    ["loss"],
                    ["head.weight"],
                    ["samples", "loss"],
                    ["accuracy"],
                    ["auc"],
                    ["balanced_accuracy"],
                ]
            )
        return draw.choice([default, "", "nonsense", "x" * 2000]) if draw.random() < 0.2 else default

    def kernel(self, name=None, deep=0, calm=None):
        """As data. `calm` ones have options with which they do something."""
        draw = self.draw
        cls = KERNELS[name or self.turn()]
        calm = draw.random() < 0.5 if calm is None else calm
        hints, told = typing.get_type_hints(cls), {"name": cls.name}
        told |= copy.deepcopy(CALM.get(cls.name, {})) if calm or draw.random() < 0.5 else {}
        for option in dataclasses.fields(cls):
            default = None if option.default is dataclasses.MISSING else option.default
            if option.name == "inner":
                if cls.name == "gather" or draw.random() < 0.7:
                    told["inner"] = self.inner(cls, deep, calm)
            elif draw.random() < (0.1 if calm else 0.4) and option.name not in ("like", "columns"):
                told[option.name] = self.value(hints[option.name], default)
        return told

    def turn(self):
        """Each kernel as often as others."""
        if not self.bag:
            self.bag = self.draw.sample(list(KERNELS), len(list(KERNELS)))
        return self.bag.pop()

    def inner(self, cls, deep, calm):
        fits = WITHIN.get(cls.name)
        if not calm and (self.draw.random() < 0.5 or deep > 1):
            fits = ("sgd",) if deep > 1 else tuple(KERNELS)
        elif fits is None:
            trains = not hasattr(cls, "measure")
            fits = WORK if trains and deep < 2 else ("sgd",) if trains else ("score",)
        return self.kernel(self.draw.choice(fits), deep + 1, calm)

    # models, as kernels need them

    def model(self, prefix=""):
        make = torch.Generator().manual_seed(self.draw.randrange(5))
        weight, bias = (
            torch.randn(CLASSES, self.columns, generator=make),
            torch.randn(CLASSES, generator=make),
        )
        return {prefix + "head.weight": weight, prefix + "head.bias": bias}

    def natural(self):
        p = CLASSES * (self.columns + 1)
        return {"shift": torch.ones(p).double(), "diagonal": torch.full((p,), 3.0).double()}

    def collected(self):
        """As gather replies."""
        model = self.model()
        more = {f"variance/{n}": torch.ones_like(t) for n, t in model.items()}
        rings = {
            f"{kind}/{k}/{n}": torch.randn_like(t)
            for kind in ("deviation", "draw")
            for k in range(3)
            for n, t in model.items()
        }
        return {**model, **more, **rings, "count": torch.tensor(5.0), "columns": torch.tensor(3.0)}

    def sums(self):
        """As `column-sums` tells of all, and in what units."""
        flat = torch.zeros(self.columns + 1)
        return {"centres": flat, "units": flat + 1, "means": flat, "squares": flat + 1}

    def everybody(self):
        """As `curvature` tells of all."""
        q = self.columns + 1
        return {
            "bend": torch.eye(q) * 3,
            "slope": torch.ones(q),
            "constant": torch.ones(1),
            "rest": torch.ones(2),
        }

    def visitor(self, names):
        if "natural" in names or "visited" in names:
            return self.collected()
        if "draws" in names or "share" in names:
            return self.natural()
        return {**self.model(), **(self.model("own/") if "taken" in names else {})}

    def beside(self, names):
        """Beliefs by name for one kernel and those inside of it; at times one is not there, or another."""
        found = {}
        for name in names:
            found |= {
                "ala": lambda: {"shared": self.model()},
                "controlled": lambda: {"server": self.model("control/"), "own": self.model("own/")},
                "curvature": lambda: {"scale": self.sums()},
                "near": lambda: {"scale": self.sums(), "all": self.everybody()},
                "column-sums": lambda: {"units": {k: self.sums()[k] for k in ("means", "squares")}},
                "mixture": lambda: {
                    "own": self.model(),
                    "alpha": {"mixture/alpha": torch.tensor(0.5).double()},
                },
                "moreau": lambda: {"own": self.model("own/")},
                "proximal": lambda: {"anchor": self.model()},
                "tethered": lambda: {"anchor": self.model()},
                "lie": lambda: {"sent": self.model(), "sent/0": self.model(), "reply/0": self.model()},
                "share": lambda: {"mine": self.natural()},
                "slopes": lambda: {"one": self.model(), "two": self.model()},
            }.get(name, dict)()
        if found and self.draw.random() < 0.08:
            del found[self.draw.choice(list(found))]
        if self.draw.random() < 0.03:
            found["odd"] = self.model()
        return found

    def visit(self, kernel=None):
        kernel = kernel or self.kernel()
        names, tensors = all_names(kernel), {}
        guests = self.draw.choice([1, 1, 1, 2, 3]) if scores(KERNELS[kernel["name"]]) else 1

        def row(belief):
            if set(belief) == set(MODEL) and self.ids and self.draw.random() < 0.3:
                return self.draw.choice(self.rows(1) or [[]])
            id = self.id()
            tensors.update({f"{id}/{n}": t for n, t in belief.items()})
            return [[id, list(belief)]]

        beside = {name: [row(belief) for _ in range(guests)] for name, belief in self.beside(names).items()}
        round = self.draw.choice([1, 2, 3, 50, 100, 101, 10**9] if self.draw.random() < 0.1 else [1, 2, 50])
        return {
            "kernel": kernel,
            "key": {"seed": self.draw.randrange(3), "path": [], "round": round, "rounds": 100},
            "slot": self.draw.choice(["", "", "s"]),
            "beliefs": [row(self.visitor(names)) for _ in range(guests)],
            "beside": beside,
            "rows": list(range(guests)),
            "guests": list(range(guests)),
            "replies": [self.id() for _ in range(guests)],
        }, tensors

    # other orders

    def rows(self, most=3):
        """Beliefs that are there."""
        if not self.ids:
            return []
        some = [self.draw.choice(self.ids) for _ in range(self.draw.randint(1, most))]
        return [[[id, names]] for id, names in some]

    def alike(self):
        """Beliefs with the tensors of a model, so that they add up."""
        some = [i for i in self.ids if set(MODEL) <= set(i[1])]
        return [[[id, list(MODEL)]] for id, _ in self.draw.sample(some, min(len(some), 3))]

    def weights(self, rows):
        return torch.tensor([[self.draw.choice([0.0, 1.0, 0.5, -1.0, 1e6, 1e-9]) for _ in rows]])

    def fold(self):
        draw, edge = self.draw, self.draw.random() < 0.5
        fold = {
            "folds": draw.choice(WHOLE if edge else [2, 3, 5]),
            "fold": draw.choice([*WHOLE[:6], -1]) if edge else 0,
            "seed": draw.choice([0, 1, *WHOLE]) if edge else 0,
        }
        if draw.random() < 0.2:
            fold["within"] = {"folds": 2, "fold": 0, "seed": 0}
        return fold

    def deal(self):
        """Rows set aside in another way, with columns spelled in another way."""
        draw, share = self.draw, [*REAL, 1 / ROWS, LEAST / ROWS, (LEAST - 1) / ROWS, 0.2, 0.2, 0.2]
        common = copy.deepcopy(self.met.common)
        spell = draw.choice(
            [str, str.upper, str.title, lambda s: f" {s} ", lambda s: s.replace("e", "\u0435")]
        )
        for column in common["columns"]:
            column["name"] = spell(column["name"])
            if draw.random() < 0.05:
                column["center"], column["spread"] = draw.choice(REAL), draw.choice(REAL)
        if draw.random() < 0.2:
            draw.shuffle(common["columns"])
        calm = draw.random() < 0.5
        rule = Rule(
            0.2 if calm else draw.choice(share),
            0.0 if calm else draw.choice([0.0, 0.0, 0.2, *share]),
            draw.choice([draw.randrange(50), *(() if calm else WHOLE)]),
            draw.random() < 0.8,
            draw.choice([(), (), (), ("age",), ("PULSE",), ("age", "pulse"), ("nothing",)]),
        )
        message = {**deal_message(rule, common, draw.choice([0, 0, 1, *WHOLE])), "ground": str(self.id())}
        return message, {}

    def gaps(self):
        """Which columns some site lacks: at times as it is, else as it is not."""
        real, many = self.met.agreed["gaps"], len(self.met.common["columns"])
        if self.draw.random() < 0.6:
            return real
        some = [self.draw.random() < 0.5 for _ in range(many)]
        every = [s and self.draw.random() < 0.2 for s in some]
        return {"some": some, "every": every}

    def scale(self, told):
        """A column's count, mean and deviation, as nobody has them."""
        if told is None or self.draw.random() < 0.4:
            return told
        odd = [*REAL, 2.0**-150, 2.0**126, 1e38, 3.4e38, 1e90, -1000.0, 1 / 60]
        return [self.draw.choice([told[0], *WHOLE]), self.draw.choice(odd), self.draw.choice(odd)]

    def fit(self):
        agreed = [[flag, self.scale(s), list(mean)] for flag, s, mean in self.met.agreed["agreed"]]
        for one in agreed:
            if self.draw.random() < 0.1:
                one[0] = not one[0]
            if self.draw.random() < 0.1:
                one[2] = [self.draw.choice(REAL) for _ in one[2]]
        told = {"ground": self.draw.choice(self.grounds), "gaps": self.gaps(), "agreed": agreed}
        return {**told, "late": self.draw.random() < 0.3}, {}

    def letter_order(self, rows):
        why = self.draw.choice(["mix", "open", "copy", "visit", None])
        return {
            "to": self.draw.choice(["b", "b", "", "a", "c"]),
            "rows": rows,
            "new": self.new(rows),
            "why": why,
        }

    def new(self, rows):
        return [self.id() for _ in rows]

    def order(self, verb=None):
        """A message and its tensors."""
        verb = verb or self.draw.choices(list(VERBS), list(VERBS.values()))[0]
        make = getattr(self, verb.replace("-", "_"), None)
        message, tensors = make() if verb in ("visit", "deal", "fit") else self.other(verb)
        return {"do": verb, **message}, tensors

    def other(self, verb):
        draw, rows, live = self.draw, self.rows(), [id for id, _ in self.ids[-20:]]
        if verb == "mix":
            rows = self.alike()
            return {"rows": rows, "new": [self.id()]}, {"weights/*": self.weights(rows)}
        if verb == "distances":
            rows = self.alike()
            to = [draw.choice([0, 0, len(rows) - 1]) for _ in rows]
            told = {"replies": rows, "origin": rows, "guests": [0] * len(rows), "to": to, "importance": None}
            return told, {}
        if verb == "take":
            return {"copies": draw.random() < 0.5}, {f"{self.id()}/{n}": t for n, t in self.model().items()}
        few = {"bits": 32, "room": 8, "words": 1}
        ground, tell = draw.choice(self.grounds), draw.choice(["mix", "open", "visit"])
        given = {"rows": rows, "new": self.new(rows), "why": tell}
        seal = [{"name": "x", "row": row, "less": None} for row in rows]
        bounds = {"deadline": draw.choice([1, 0, *REAL[:4]]), "patience": 1}
        return {
            "sums": {"ground": ground, "gaps": self.gaps()},
            "fold": {"ground": ground, "fold": self.fold()},
            "begin": {"ground": self.ground, "fold": draw.choice([None, None, self.fold()])},
            "give": given,
            "letter": {**given, "to": draw.choice([None, "b"])},
            "letters": {"orders": [self.letter_order(rows)], **bounds},
            "copy": {"rows": rows, "new": self.new(rows)},
            "keep": {"live": live, "round": draw.choice([0, 1, 5]), "store": draw.choice([None, 1])},
            "store": {"live": live, "round": draw.choice([1, 2])},
            "fetch": {"live": live, "round": 2, "fresh": draw.random() < 0.3},
            "lacks": {"like": {}},
            "offer": {"circle": draw.random() < 0.5, "sums": self.offers(rows)},
            "seal": {"orders": seal, "to": "b", "terms": few, "floats": list(MODEL), **bounds},
            "unseal": {"told": {}, "op": "x", "new": [self.id()]},
            "check": {
                "checks": draw.choice(
                    [[], ["ranges"], ["constant"], ["nothing"], ["duplicates"], ["missing"]]
                )
            },
            "finish": {"row": rows[0] if rows else []},
            "left-out": {"why": "no reason"},
            "ledger": {"first": draw.choice(WHOLE), "entries": [], "shown": draw.choice([{}, [], None, "x"])},
        }.get(verb, {}), {}

    def offers(self, rows):
        share = {
            "share": self.draw.choice([0.5, 1.0]),
            "others": self.draw.choice([0, 1, 5]),
            "leverage": 0.5,
        }
        return [{"to": self.draw.choice(["", "b"]), "ids": [row[0][0] for row in rows], **share}]

    def heard(self, message, found):
        """Replies, copies and sums can be named from now on."""
        do = message["do"]
        if do == "visit" and found.get("like"):
            self.ids += [(id, list(found["like"])) for id in message["replies"]]
        elif do == "mix":
            self.ids += [(id, list(MODEL)) for id in message["new"]]
        elif do == "copy":
            self.ids += [(i, row[0][1]) for i, row in zip(message["new"], message["rows"], strict=True)]
        elif do == "keep":
            self.ids = [(id, names) for id, names in self.ids if id in set(message["live"])]
        elif do == "deal":
            self.grounds = [self.ground, self.ground, *self.grounds[-6:], message["ground"]]
        self.ids = self.ids[-60:]
