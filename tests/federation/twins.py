"""A site and two twins of it, each with other values in one half of its rows, that are all asked the same.

What leaves the site and differs at a twin is a figure of rows. One that is the same at either twin may be of
few rows: a figure of one row always is, as each row is changed at one twin alone. How many rows it depends on
is then counted, each changed in turn (`rows_behind`). And what is a value of one cell, or a simple function
of one, is known by its number, as no two cells have the same (`Cells`).
"""

from __future__ import annotations

import csv
import dataclasses
import math
import random
import re

import numpy as np
import room as rooms
import torch
from grammar import ROWS
from hostile import Hostile
from planned import planned_begin
from room import Room

from coterie.core.client import Samples
from coterie.core.errors import CoterieError
from coterie.core.method import Reveals
from coterie.core.wire import pack, unpack
from coterie.federation.lead.sites import deal_message
from coterie.federation.policy.rules import to_dict, work_for
from coterie.nets.in_process import InProcess
from coterie.nets.site import Site

RUN = "5" * 32
NUMBERS = ("age", "pulse", "weight")
RECIPE = 'target = "ill"\n[sites]\n{sites}\n[columns.ward]\nuse = "flag"\nvalues = ["north", "south"]\n'
RECIPE += "".join(f'[columns.{name}]\nuse = "number"\n' for name in NUMBERS)
RECIPE += '[columns.ill]\nuse = "flag"\nvalues = ["no", "yes"]\n'
SEEN = 60  # numbers of one tensor that are looked at
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")


def half():
    """Rows that are changed at the first twin; the others are at the second."""
    return frozenset(random.Random(5).sample(range(ROWS), ROWS // 2))


def planted(changed):
    """A function as `write_tables`: every cell is a number of its own, which says where it is from."""

    def write(folder, names, rows):
        for i, name in enumerate(names):
            with (folder / f"{name}.csv").open("w", newline="") as file:
                table = csv.writer(file)
                table.writerow([*NUMBERS, "ward", "ill"])
                for row in range(rows):
                    other = i == 0 and row in changed
                    draws = random.Random(1000 * i + row + 500 * other)
                    x = [draws.gauss(0, 1) for _ in NUMBERS]
                    ill = (x[0] - 0.5 * x[1] + draws.gauss(0, 1) > 0) != other
                    cells = [f"{v:.7f}" for v in x]
                    cells[1] = "" if row in (7, 30, 31, 60) else cells[1]
                    ward = ("north", "south")[(row % 3 == 0) != other]
                    table.writerow([*cells, ward, "yes" if ill else "no"])
        path = folder / "recipe.toml"
        path.write_text(RECIPE.format(sites="\n".join(f'{name} = "{name}.csv"' for name in names)))
        return path

    return write


class Heard(Room):
    """Keeps the letters that sites send."""

    def __init__(self, *args, **more):
        self.post = []
        super().__init__(*args, **more)

    def letter(self, name):
        send = super().letter(name)

        def heard(to, header, body, *deadline):
            self.post.append(body)
            send(to, header, body, *deadline)

        return heard


class World:
    """One site `a` that is asked, beside a site `b`, by a lead of that world."""

    def __init__(self, folder, policy, changed, monkeypatch):
        folder.mkdir()
        monkeypatch.setattr(rooms, "write_tables", planted(changed))
        self.room = Heard(folder, dict.fromkeys(("a", "b"), policy), ("a", "b"), rows=ROWS)
        self.lead, self.station = Hostile(self.room), self.room.stations["a"]

    def meet(self):
        """What an honest lead finds, where it may."""
        return self.lead.meet(deal=0)

    def begin(self, met, fold=None):
        """A run, by a plan that this world's lead has signed; only the plan is not held to."""
        message = {
            **self.lead.model,
            "shape": list(met.roster.shape),
            "outputs": met.roster.outputs,
            "work": to_dict(work_for(Reveals(), ["sgd"], "logistic", 100, 2, deal=met.rule.deal)),
            "sites": ["a", "b"],
            "ground": met.rule.ground,
            "number": 0,
            "fold": fold,
            "run": RUN,
        }
        found = []
        for number, name in enumerate(("a", "b")):
            begin = planned_begin(self.lead.kit, {**message, "number": number})
            found.append(self.ask({"do": "begin", **begin}, {}, name))
            if (session := self.room.stations[name].session) is not None:
                session.plan = None
        return found[0]

    def set_aside(self, met):
        """As `meet` does, without asking for sums: a lead may know from elsewhere what they agree on."""
        for number, name in enumerate(("a", "b")):
            self.ask(deal_message(met.rule, met.common, number), {}, name)
            self.ask({"do": "fit", "ground": met.rule.ground, **met.agreed, "late": False}, {}, name)

    def ask(self, message, tensors, name="a"):
        """How it ended, the answer, its tensors and the letters that left meanwhile."""
        self.room.post.clear()
        body = pack({"run": RUN, **message}, tensors)
        found, numbers = unpack(self.room.stations[name].answer(self.lead.kit.card, {}, body))
        letters = [unpack(letter) for letter in self.room.post]
        how = found.get("error", "done")
        return how, found, numbers, letters


def worlds(folder, policy, monkeypatch):
    """The site, and its twins."""
    rows = frozenset(range(ROWS))
    return [
        World(folder / str(i), policy, changed, monkeypatch)
        for i, changed in enumerate((frozenset(), half(), rows - half()))
    ]


# what leaves


def leaves(answer):
    """All numbers and texts that leave by an answer, by where they are in it."""
    _, found, numbers, letters = answer
    told = {}
    spread(found, "", told)
    for i, (head, tensors) in enumerate([(None, numbers), *letters]):
        spread(head, f"letter {i}", told)
        for name, t in tensors.items():
            flat = t.double() if t.is_floating_point() or t.dtype == torch.bool else t
            spread(flat.flatten()[:SEEN].tolist(), f"tensor {i} {name}", told)
    return told


def spread(value, where, told):
    if isinstance(value, dict):
        for key, one in value.items():
            told[f"{where}/{key}?"] = str(key)
            spread(one, f"{where}/{key}", told)
    elif isinstance(value, list | tuple):
        told[f"{where}#"] = len(value)
        for i, one in enumerate(value):
            spread(one, f"{where}/{i}", told)
    elif value is not None:
        told[where] = value
        for i, number in enumerate(NUMBER.findall(value) if isinstance(value, str) else ()):
            told[f"{where} number {i}"] = float(number)


def same(a, b):
    both = isinstance(a, float) and isinstance(b, float)
    return a == b or (both and math.isnan(a) and math.isnan(b))


def partly(real, *twins):
    """Where what leaves differs at one twin, and not at another."""
    found = []
    for where, value in real.items():
        alike = [same(value, twin[where]) if where in twin else False for twin in twins]
        if any(alike) and not all(alike):
            found.append(where)
    return found


class Cells:
    """Numbers by which cells of a site, and simple functions of one cell, are known."""

    def __init__(self, world):
        client = world.station.session.client
        raw = np.asarray(world.station.holding.data.train.x, dtype=np.float64)
        scaled = np.concatenate([getattr(client, part).x.double().numpy() for part in ("train", "test")])
        cells = np.concatenate([raw, scaled])
        with np.errstate(all="ignore"):
            functions = [cells, -cells, cells**2, np.arcsinh(cells), np.abs(cells), np.sqrt(np.abs(cells))]
            functions += [np.log(np.abs(cells)), np.exp(cells), 1 / (1 + np.exp(-cells)), cells / ROWS]
        self.all = np.stack(functions).reshape(-1)
        usual = np.isin(np.round(self.all, 5), (0, 1, -1, round(1 / ROWS, 5)))
        self.all[~np.isfinite(self.all) | usual] = np.nan  # what is no cell's own
        values, many = np.unique(np.round(self.all, 6), return_counts=True)
        self.all[np.isin(np.round(self.all, 6), values[many > len(functions)])] = np.nan
        self.order = np.argsort(self.all)
        self.sorted = self.all[self.order]

    def near(self, value):
        """Which of them this may be."""
        reach = 2e-6 * abs(value) + 1e-12
        first, last = np.searchsorted(self.sorted, [value - reach, value + reach])
        return self.order[first:last]

    def fits(self, which, value):
        return abs(self.all[which] - value) <= 2e-6 * abs(value) + 1e-12


def cells_in(cells, told):
    """Where a number is one cell's own: the same cell's, in the site and in both of its twins."""
    mine, *others = cells
    real, *twins = told
    found = []
    for where, value in real.items():
        if not isinstance(value, float) or not math.isfinite(value) or value == 0:
            continue
        for which in mine.near(value):
            if all(
                isinstance(twin.get(where), float) and other.fits(which, twin[where])
                for other, twin in zip(others, twins, strict=True)
            ):
                found.append(where)
                break
    return found


# how many rows are behind a figure of a visit


def brought(session, message, tensors):
    """The beliefs of a visit, from where they are, as if all came along."""
    rows = [*message["beliefs"], *(row for some in message["beside"].values() for row in some)]
    held = {f"{id}/{n}": session.held[id][n] for row in rows for id, names in row for n in names
            if id in session.held and n in session.held[id]}  # fmt: skip
    return {**held, **tensors}


def rows_behind(session, message, tensors, where, most=ROWS):
    """On how many rows of the site what a visit told there depends: each is changed strongly, and in turn."""
    client, site, kernel = session.client, Site(session.client, 0), session.kernel(message["kernel"])
    site.kernel = lambda told: kernel
    site.do_begin(session.asked, {})
    engine, learner = site.net.engine, site.net.learner

    def figure(part, rows):
        site.net, site.held = InProcess(engine, learner, (dataclasses.replace(client, **{part: rows}),)), {}
        try:
            found, numbers = site.do_visit(message, dict(tensors))
        except CoterieError as error:
            return str(error)
        replies = own_tensors(site.held, message)
        return leaves(("done", found, {**numbers, **replies}, ())).get(where)

    part, many = getattr(kernel, "part", None) or "train", 0
    rows = getattr(client, part)
    before = figure(part, rows)
    for i in range(len(rows)):
        x, y = rows.x.clone(), rows.y.clone()
        x[i] += torch.tensor([50.0, -70.0, 30.0, 20.0])
        y[i] = 1 - y[i]
        others = (Samples(x, y), Samples(rows.x, y), Samples(x, rows.y))
        many += any(not same(figure(part, other), before) for other in others)
        if many >= most:
            break
    return many


def own_tensors(held, message):
    """What a visit left at a site."""
    return {f"reply {i} {n}": t for i, id in enumerate(message["replies"])
            for n, t in held.get(id, {}).items()}  # fmt: skip


def replied(world, message):
    """The same as figures that may leave later."""
    return leaves(("done", {}, own_tensors(world.station.session.held, message), ()))
