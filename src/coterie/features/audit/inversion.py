"""Inversion: which rows can be worked out from what left a client?

What leaves is a step θ - θ', of one row at worst, of a whole visit in the run. Four steps are attacked, all
at the model that the client began with:

    gradient     of one row by itself, without local work: the worst case, whatever the run does
    one row      what the run's local work makes of a client that has this row alone, in one step
    one batch    the same of as many rows as the run has in a batch
    one visit    the run's own work on the client's own rows: its batches, its epochs, its noise

The attack (`deep_leakage.py`) is exact where a first linear layer takes rows as they are. A step is
taken for a gradient times learning rate and number of steps. With one step of plain SGD it is one; after many
local steps, with Adam or with noise it is not, and the attack fails there: that is for others to improve.

How close a candidate comes is its cosine with the row (1: the same direction); for pictures also the PSNR in
dB (30 and more can hardly be told from the original). Beside it stands how close a stranger comes: the best
of as many of the client's test rows, which nobody trained on. Somebody who knows what such rows look like
gets that far without any attack.
"""

from __future__ import annotations

import dataclasses
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client, Samples
from coterie.core.errors import CoterieError
from coterie.core.facts import method_fact
from coterie.core.held import at_coordinator, hold
from coterie.core.kernel import Trainer
from coterie.core.net import edges_of
from coterie.core.seeds import Key
from coterie.data.preparation import Preparation
from coterie.engines import ENGINES
from coterie.features.audit import deep_leakage
from coterie.features.audit.subject import Subject
from coterie.nets.in_process import InProcess

PROVES = (
    "Where a recovered row is the original, whoever receives such a step has the patient's row, without "
    "ever having seen the data."
)
PROVES_NOT = (
    "Where the recovered row is noise, or no closer than a stranger's, this attack failed on this step. A "
    "better one, or one that combines many rounds, may succeed: nothing is proved."
)
SAME = 0.99  # a cosine from which a row counts as recovered
TRIED = 4  # single rows
SHOWN = 2  # rows of a case that are shown
TOGETHER = 8  # pictures that are looked for at once
MOST_COLUMNS = 40
SIDE = 96  # pixels, at the least, of a picture that is shown
LOUDEST = 150.0  # dB: what is left is rounding
PNG = b"\x89PNG\r\n\x1a\n"


class _Step(NamedTuple):
    """A step that left a client: from which rows, in how many local steps, and read as what gradient."""

    rows: Samples
    steps: int
    gradient: Belief


class _Case(NamedTuple):
    """What is attacked, and in words."""

    name: str
    about: str
    steps: tuple[_Step, ...]


def attack(subject: Subject) -> dict[str, Any]:
    """All cases, with the rows that came closest side by side; pictures are under `files`, as PNG."""
    client, key = subject.clients[subject.place], subject.key.at("inversion")
    layer = deep_leakage.takes_rows_as_they_are(subject.learner.scoring, client.train.x[:1])
    made, body = client.preparation, subject.here.setup.body
    if made is not None and (body is not None or len(made.features) != client.train.x[0].numel()):
        made = None  # it is not known how this client's inputs came from the columns of a table
    files: dict[str, bytes] = {}
    cases = []
    for case in cases_of(subject, client, key):
        found = [_candidates(subject, layer, step, key.at(case.name, i)) for i, step in enumerate(case.steps)]
        cases.append(_judged(client, made, case, found, files))
    picture = is_picture(client.train.x.shape[1:])
    return {
        "client": client.name,
        "attack": "linear" if layer else "deep leakage",
        "inputs": "pictures" if picture else "inputs" if made is None else "columns",
        "noise": subject.adds_noise,
        "frozen_layers": subject.here.setup.body is not None,
        "cases": cases,
        "files": files,
        "proves": PROVES,
        "proves_not": PROVES_NOT,
    }


def why_not(subject: Subject) -> str:
    """Why it cannot be tried; nothing if it can."""
    learner = subject.learner
    client = subject.clients[subject.place]
    if deep_leakage.takes_rows_as_they_are(learner.scoring, client.train.x[:1]):
        return ""
    if client.task != "classification":
        return f"pictures are looked for by their class, and this run is a {client.task}"
    return deep_leakage.why_not(learner.scoring, sum(p.numel() for p in learner.scoring.parameters()))


def cases_of(subject: Subject, client: Client, key: Key) -> list[_Case]:
    """What can be attacked in this run, from the worst case to what really left."""
    first, learner = subject.first(subject.place), subject.learner
    chosen = torch.randperm(len(client.train), generator=key.at("rows").torch())
    x, y = client.train.x, client.train.y
    ones = [Samples(x[i : i + 1], y[i : i + 1]) for i in chosen[:TRIED].tolist()]
    steps = []
    for rows in ones:
        gradient = deep_leakage.gradient_at(learner, first, rows.x, rows.y)
        steps.append(_Step(rows, 1, {name: t.detach() for name, t in gradient.items()}))
    found = [_Case("gradient", "the gradient of one row by itself: the worst case", tuple(steps))]
    work = method_fact(subject.here.method, "local")
    if work is None or not hasattr(work, "plan"):
        return found
    single = in_one_step(work, 1)
    if single is not None:
        left = [_left_behind(subject, client, rows, single, key.at("one", i)) for i, rows in enumerate(ones)]
        said = "one row, by the run's local work in one step"
        found.append(_Case("one row", said, tuple(step for step in left if step is not None)))
    whole = _left_behind(subject, client, client.train, work, key.at("visit"))
    batch = min(int(option_of(work, "batch", 1)), len(client.train))
    several = in_one_step(work, batch)
    if several is not None and whole is not None and whole.steps > 1 and batch > 1:
        rows = Samples(x[chosen[:batch]], y[chosen[:batch]])
        step = _left_behind(subject, client, rows, several, key.at("batch"))
        said = f"one batch of {batch} rows, in one step"
        found.append(_Case("one batch", said, () if step is None else (step,)))
    if whole is not None:
        work_done = f"{len(client.train)} rows, {whole.steps} local step{'s' * (whole.steps > 1)}"
        said = f"one visit as in the run: {work_done}"
        found.append(_Case("one visit", said, (whole,)))
    return [case for case in found if case.steps]


def _left_behind(subject: Subject, client: Client, rows: Samples, work: Trainer, key: Key) -> _Step | None:
    """The step that local work leaves on some rows, read as a gradient; None if its reply is no model."""
    net = InProcess(ENGINES.make("loop"), subject.learner, (replace(client, train=rows),))
    first, key = subject.first(subject.place), key.at_round(1, subject.here.settings.rounds)
    sent = hold(tree.stack([first]), at_coordinator(1))
    try:
        replies = net.visit(work, sent, edges_of([(0, 0)]), key)
    except CoterieError:  # work that this client alone cannot do: it needs something beside it
        return None
    names = subject.learner.trainable
    if replies.held is None or not set(names) <= set(replies.beliefs.names):
        return None
    reply = tree.row(replies.beliefs.tensors, 0)
    steps = len(work.plan(len(rows), key.at("guest", 0, "host", 0)))
    scale = (option_of(work, "lr", 1.0) or 1.0) * steps
    return _Step(rows, steps, {n: (first[n] - reply[n]).detach() / scale for n in names})


def in_one_step(work: Any, batch: int) -> Any:
    """The same local work in a single step on so many rows; None if it cannot be told so."""
    options = {f.name for f in dataclasses.fields(work)}
    if {"steps", "batch"} <= options:
        return replace(work, steps=1, batch=batch)
    for name in options:
        inner = getattr(work, name)
        if dataclasses.is_dataclass(inner) and hasattr(inner, "plan"):
            changed = in_one_step(inner, batch)
            return None if changed is None else replace(work, **{name: changed})
    return None


def option_of(work: Any, name: str, default: float) -> float:
    """An option of local work, or of the work inside it."""
    for f in dataclasses.fields(work):
        value = getattr(work, f.name)
        if f.name == name:
            return float(value)
        if dataclasses.is_dataclass(value) and hasattr(value, "plan"):
            return option_of(value, name, default)
    return default


def _candidates(
    subject: Subject, layer: tuple[str, str] | None, step: _Step, key: Key
) -> tuple[Tensor, int | None]:
    """Rows that a step may have come from [candidate, ...], and the label of a single one, if it was read."""
    if layer:
        weight, bias = (step.gradient[name] for name in layer)
        return deep_leakage.rows_of(weight, bias).reshape(-1, *step.rows.x.shape[1:]), None
    learner, belief = subject.learner, subject.first(subject.place)
    labels, label = step.rows.y[:TOGETHER], None
    if len(step.rows) == 1:
        label = deep_leakage.label_of(step.gradient[deep_leakage.last_bias(learner.scoring)])
        labels = torch.tensor([label])
    like = subject.clients[subject.place].test.x
    like = like if len(like) else step.rows.x
    pictures = deep_leakage.recovered(learner, belief, step.gradient, labels, like, key).pictures
    return pictures.double(), label


def _judged(
    client: Client,
    made: Preparation | None,
    case: _Case,
    found: list[tuple[Tensor, int | None]],
    files: dict[str, bytes],
) -> dict[str, Any]:
    """How close the candidates of a case come to its rows, and the closest ones to be shown."""
    closest, strange, shown, labels = list[float](), list[float](), list[dict[str, Any]](), list[bool]()
    pairs = []
    for step, (some, label) in zip(case.steps, found, strict=True):
        if len(some):
            alike = cosines(some, step.rows.x).nan_to_num(0.0)
            best, which = alike.max(dim=0)
        else:  # no bias moved: there is nothing to divide by
            best, which = torch.zeros(len(step.rows)), torch.zeros(len(step.rows), dtype=torch.int64)
        closest += best.tolist()
        others = client.test.x[: max(1, len(some))]
        if len(others):
            strange += cosines(others, step.rows.x).max(dim=0).values.tolist()
        if label is not None:
            labels.append(label == int(step.rows.y[0]))
        nearest = best.argsort(descending=True, stable=True).tolist()
        pairs += [(float(best[i]), step.rows.x[i], some[which[i]]) for i in nearest if len(some)]
    pairs.sort(key=lambda pair: -pair[0])
    low, high = float(client.train.x.min()), float(client.train.x.max())
    picture = is_picture(client.train.x.shape[1:])
    louder = [psnr(b, a, (high - low) or 1.0) for _, a, b in pairs] if picture else []
    for i, (cosine, original, recovered) in enumerate(pairs[:SHOWN]):
        if picture:
            name = f"{case.name.replace(' ', '-')}-{i + 1}.png"
            files[name] = side_by_side(original, recovered, low, high)
            shown.append({"cosine": cosine, "psnr": louder[i], "picture": name})
        else:
            table = columns(original, recovered, client.features, made)
            shown.append({"cosine": cosine, "columns": table})
    return {
        "case": case.name,
        "about": case.about,
        "rows": len(closest),
        "steps": max(step.steps for step in case.steps),
        "cosine": median(closest),
        "best": max(closest),
        "recovered": sum(cosine >= SAME for cosine in closest),
        "stranger": median(strange) if strange else None,
        **({"psnr": max(louder)} if louder else {}),
        **({"labels_right": sum(labels), "labels": len(labels)} if labels else {}),
        "shown": shown,
    }


def png(pixels: np.ndarray) -> bytes:
    """Grey [height, width] or coloured [height, width, 3] pixels of 0 to 255."""
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    lines = pixels.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), dtype=np.uint8), lines], axis=1).tobytes()
    header, whole = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0), PNG
    for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b"")):
        whole += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return whole


def pixels_of(picture: np.ndarray, low: float, high: float) -> np.ndarray:
    """[channel, height, width] as pixels, `low` black and `high` white; the first channel unless there are
    three.
    """
    scaled = (np.asarray(picture, dtype=np.float64) - low) / ((high - low) or 1.0)
    levels = np.rint(255 * np.clip(np.nan_to_num(scaled), 0, 1)).astype(np.uint8)
    return np.moveaxis(levels, 0, 2) if len(levels) == 3 else levels[0]


def cosines(found: Tensor, rows: Tensor) -> Tensor:
    """[candidate, row] of the angle between them."""
    a, b = (t.double().flatten(1) for t in (found, rows))
    sizes = a.norm(dim=1, keepdim=True) * b.norm(dim=1)
    found_cosines: Tensor = (a @ b.T) / sizes.clamp(min=torch.finfo(torch.float64).tiny)
    return found_cosines


def psnr(found: Tensor, row: Tensor, span: float) -> float:
    """10 log10(span² / mean squared error), in dB; `span` is from the darkest to the brightest."""
    error = float((found.double() - row.double()).square().mean())
    return LOUDEST if error == 0 else min(LOUDEST, 10 * math.log10(span**2 / error))


def is_picture(shape: Sequence[int]) -> bool:
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) > 1


def side_by_side(original: Tensor, found: Tensor, low: float, high: float) -> bytes:
    """Two pictures as one PNG, the original on the left, with a grey bar between them."""
    pixels = [pixels_of(t.double().numpy(), low, high) for t in (original, found)]
    times = max(1, -(-SIDE // max(pixels[0].shape[:2])))  # small ones are to be seen too
    left, right = (some.repeat(times, axis=0).repeat(times, axis=1) for some in pixels)
    bar = np.full((left.shape[0], 12, *left.shape[2:]), 128, dtype=np.uint8)
    return png(np.concatenate([left, bar, right], axis=1))


def columns(
    original: Tensor, found: Tensor, features: Sequence[str], preparation: Preparation | None
) -> list[dict[str, Any]]:
    """{column, original, recovered} in the units of the table, where it is known how inputs were made."""
    a, b = original.double().flatten().tolist(), found.double().flatten().tolist()
    if preparation is None or len(preparation.features) != len(a):
        names = list(features) if len(features) == len(a) else [f"input {i + 1}" for i in range(len(a))]
        read = [(name, f"{x:.4g}", f"{y:.4g}") for name, x, y in zip(names, a, b, strict=True)]
    else:
        read, at = [], 0
        for part in preparation.parts:
            here, at = slice(at, at + len(part.inputs)), at + len(part.inputs)
            if part.read:
                x, y = (part.column.of.text_of_inputs(part.column, values[here]) for values in (a, b))
                read.append((part.column.name, x, y))
    listed = [{"column": name, "original": x, "recovered": y} for name, x, y in read]
    return listed[:MOST_COLUMNS]
