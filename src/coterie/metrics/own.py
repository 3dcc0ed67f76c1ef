"""A loss, metrics and a transform of one's own: functions of this process, known elsewhere by name alone.

    loss(outputs [n, ...], y [n]) -> [n]       one number for each row, in operations of torch
    metric(predicted, y [n]) -> number         on all rows of one client; NaN where it is not defined

A metric's `predicted` are probabilities [n, class], the predictions [n] of a regression, or the
risks [n] of a survival, whose y is negative where the event was not seen. A loss is of each
row by itself: rows of many clients are computed side by side, and short batches are filled up with rows that
count nothing.

    transform(x [n, ...]) -> [n, ...]          in operations of torch, each row by itself

A transform is what training batches go through at each step, and no other rows. It is drawn anew for each
batch, so each epoch sees other numbers. What it draws comes from the run's seed (`core/draws.py`). Rows must
not touch each other: a row that is hidden by noise must not be in another's gradient.
"""

from __future__ import annotations

import copy
import numbers
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coterie.core.client import Client, Samples, Task
from coterie.core.devices import seeded
from coterie.core.draws import SeededDraws
from coterie.core.errors import BadInput
from coterie.core.learner import Loss
from coterie.metrics.calibration import probabilities
from coterie.metrics.table import COLLABORATION, METRICS

Transform = Callable[[Tensor], Tensor]
ROWS = 4  # that a loss and a transform are tried on
NAME = re.compile(r"[^\W\d][\w -]{0,39}")
USUAL: dict[Task, tuple[str, str]] = {
    "classification": ("the cross-entropy", "accuracy, NLL and calibration"),
    "regression": ("the squared error", "RMSE and R²"),
    "survival": ("Cox's partial likelihood", "figures of concordance"),
}
"""The loss of a task, and the figures that stay what they are whatever the loss is."""
TAKEN = {
    *METRICS,
    *COLLABORATION,
    *("method", "seeds", "clients", "scored", "rounds", "finished", "gain", "samples"),
    *("sent", "received", "models", "models_each", "bytes", "seconds"),
    *("label", "seed", "client", "cluster", "train", "validation", "test"),
}
"""What summaries have columns of already."""


@dataclass(frozen=True)
class Metric:
    """A figure by name, and whether more of it is better."""

    name: str
    function: Callable[[Tensor, Tensor], Any]
    higher: bool = True

    def of(self, predicted: Tensor, y: Tensor, where: str) -> float:
        """The figure on the rows of one client; `where` says of a failure which they are."""
        try:
            with torch.no_grad():
                value = self.function(predicted.clone(), y.clone())
        except Exception as error:  # whatever a function of one's own may raise
            raise BadInput(
                f"metric {self.name!r} failed on {where} ({_told(error)}): {self.contract(predicted)}"
            ) from None
        if not isinstance(value, numbers.Real) and getattr(value, "ndim", None) != 0:
            raise BadInput(f"metric {self.name!r} gave {_described(value)}: {self.contract(predicted)}")
        return float(value)

    @staticmethod
    def contract(predicted: Tensor) -> str:
        what = "probabilities [n, class]" if predicted.ndim == 2 else "predictions [n]"
        return f"it gets {what} and y [n], and must give one number, float('nan') where there is none"


@dataclass(frozen=True)
class Own:
    """What somebody brings along; nothing, as a rule."""

    loss: Loss | None = None
    metrics: tuple[Metric, ...] = ()
    transform: Transform | None = None

    def __bool__(self) -> bool:
        return self.loss is not None or self.transform is not None or bool(self.metrics)

    def names(self) -> Iterator[str]:
        """For people: loss 'huber', metric 'f1'."""
        yield from [] if self.loss is None else [f"loss {_name_of(self.loss)!r}"]
        yield from (f"metric {m.name!r}" for m in self.metrics)
        yield from [] if self.transform is None else [f"transform {_name_of(self.transform)!r}"]

    def notes(self, task: Task) -> list[str]:
        """What to know before trusting a figure."""
        said = []
        if self.loss is not None:
            usual, kept = USUAL[task]
            name = _name_of(self.loss)
            said.append(f"trained by a loss of your own: {name} instead of {usual}; {kept} are as ever")
        if self.transform is not None:
            name = _name_of(self.transform)
            said.append(f"training batches go through {name} at each step; test and validation rows do not")
        return said

    def table(self) -> dict[str, Any]:
        """What a record says of them: names, and of each metric what is better."""
        loss = {} if self.loss is None else {"loss": _name_of(self.loss)}
        found = {m.name: "higher" if m.higher else "lower" for m in self.metrics}
        transform = {} if self.transform is None else {"transform": _name_of(self.transform)}
        return loss | transform | ({"metrics": found} if found else {})

    def check(self, model: nn.Module, clients: Sequence[Client]) -> None:
        """Tries the loss on a few rows and each metric on every client's, with the model as it is."""
        if not self:
            return
        scoring = copy.deepcopy(model).eval()
        with torch.random.fork_rng(devices=[]):
            if self.loss is not None:
                few = torch.arange(ROWS) % len(clients[0].train)
                rows = Samples(clients[0].train.x[few], clients[0].train.y[few])
                _check_loss(self.loss, _outputs_of(scoring, rows.x), rows.y)
            if self.transform is not None:
                for client in clients:
                    _check_transform(self.transform, client.train.x, _name_of(self.transform))
            for client in clients if self.metrics else ():
                part = "test" if len(client.test) else "train"
                rows = getattr(client, part)
                seen = predicted(client.task, _outputs_of(scoring, rows.x))
                for metric in self.metrics:
                    metric.of(seen, rows.y, f"the {len(rows)} {part} rows of client {client.name!r}")


NOTHING = Own()


def own_of(
    loss: Loss | None,
    metrics: Mapping[str, Callable[[Tensor, Tensor], Any]] | None,
    lower: Collection[str],
    transform: Transform | None = None,
) -> Own:
    """A loss, metrics by name, of which those named in `lower` are the better the lower, and a transform."""
    found = dict(metrics or {})
    for name in found:
        if name in TAKEN or name.startswith(("worst_", "gain_")) or name.endswith("_half"):
            raise BadInput(f"metric {name!r} has a name that summaries use already: try 'my_{name}'")
        if not NAME.fullmatch(name):
            raise BadInput(
                f"metric {name!r} must have a name of at most 40 letters, digits, spaces, - or _, a letter "
                "first: try 'f1'"
            )
    for name in lower:
        if name not in found:
            known = ", ".join(map(repr, found)) or "none"
            raise BadInput(
                f"lower names {name!r}, which is no metric of yours ({known}): name it in metrics too"
            )
    named = tuple(Metric(name, function, name not in lower) for name, function in found.items())
    return Own(loss, named, transform)


def _check_loss(loss: Loss, outputs: Tensor, y: Tensor) -> None:
    """Refuses what training would stumble over, or be wrong with."""
    n, whose = len(y), f"loss {_name_of(loss)!r}"
    outputs = outputs.detach().requires_grad_()
    before = torch.get_rng_state()
    try:
        with torch.enable_grad():
            values = loss(outputs, y)
            fewer = loss(outputs[: n // 2], y[: n // 2])
    except Exception as error:  # whatever a function of one's own may raise
        shapes = f"outputs {list(outputs.shape)} and y {list(y.shape)}"
        raise BadInput(
            f"{whose} failed on {shapes} ({_told(error)}): it must give one number for each row, [{n}]"
        ) from None
    if not isinstance(values, Tensor) or values.shape != (n,) or fewer.shape != (n // 2,):
        raise BadInput(
            f"{whose} gave {_described(values)} for outputs {list(outputs.shape)} and y [{n}]: it must give "
            f"one number for each row, [{n}]; losses of torch do with reduction='none'"
        )
    slope = None
    if values.requires_grad:
        (slope,) = torch.autograd.grad(values.sum(), [outputs], allow_unused=True, retain_graph=True)
    if slope is None:
        raise BadInput(
            f"{whose} has no gradient: work on outputs with operations of torch alone, without .item(), "
            ".detach(), argmax or numpy"
        )
    if not bool(torch.isfinite(values).all()):
        raise BadInput(
            f"{whose} gave {float(values.detach().sum())} on the first model's outputs: keep it finite"
        )
    if not torch.equal(before, torch.get_rng_state()):
        raise BadInput(f"{whose} draws random numbers, so no run could be repeated: leave them out")
    if not torch.allclose(values[: n // 2], fewer, rtol=1e-3, atol=1e-5):
        raise BadInput(
            f"{whose} gives a row another number when other rows are beside it: work on each row by itself"
        )


def _changed(transform: Transform, x: Tensor, seed: int) -> Any:
    """What it makes of rows, from one seed; they themselves stay as they are."""
    with torch.no_grad(), seeded(seed, x.device), SeededDraws(torch.tensor(seed, device=x.device)):
        return transform(x.clone())


def _check_transform(transform: Transform, x: Tensor, called: str) -> None:
    """Refuses what training would stumble over, or be wrong with."""
    few = x[torch.arange(ROWS, device=x.device) % len(x)]
    whose = f"transform {called!r}"
    kept = random.getstate(), np.random.get_state()
    try:
        made = _changed(transform, few, 1)
        if not isinstance(made, Tensor) or made.shape != few.shape or made.dtype != few.dtype:
            found = f"{list(made.shape)} of {made.dtype}" if isinstance(made, Tensor) else type(made).__name__
            raise BadInput(
                f"{whose} gave {found} for x {list(few.shape)} of {few.dtype}: it must give as many rows of "
                "the same shape and kind"
            )
        if not bool(torch.isfinite(made).all()):
            raise BadInput(f"{whose} made numbers of rows that are not finite: keep them finite")
        if not torch.equal(made, _changed(transform, few, 1)):
            raise BadInput(
                f"{whose} gives other numbers when it is repeated from one seed, so no run could be: draw "
                "with torch.rand, torch.randn and their kin alone"
            )
        by_row = getattr(transform, "after", transform)  # what reads a dataset anew knows its own rows alone
        if by_row is None:
            return
        other, made = few.clone(), _changed(by_row, few, 1)
        other[0] = few[0] + torch.linspace(0.5, 1.5, few[0].numel(), device=x.device).view_as(few[0]).to(few)
        if not torch.equal(_changed(by_row, other, 1)[1:], made[1:]):
            raise BadInput(
                f"{whose} gives a row other numbers when another row changes: work on each row by itself"
            )
    except BadInput:
        raise
    except Exception as error:  # whatever a function of one's own may raise
        said = (str(error).splitlines() or [""])[0][:120]
        raise BadInput(
            f"{whose} failed on x {list(few.shape)} ({type(error).__name__}: {said}): it must give x as "
            f"changed, {list(few.shape)}"
        ) from None
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])


def predicted(task: Task, outputs: Tensor) -> Tensor:
    """What metrics look at: probabilities [n, class] in float64, predictions [n] or risks [n]."""
    return probabilities(outputs) if task == "classification" else outputs.squeeze(-1)


def _outputs_of(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(rows) for rows in torch.split(x, 256)])


def _name_of(function: Any) -> str:
    """What a function is called; of a partial one, the function's name; of an object, its class's."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def _told(error: Exception) -> str:
    """Its kind and its first line."""
    first = (str(error).splitlines() or [""])[0][:120]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _described(value: Any) -> str:
    """The shape of a tensor or array, the kind of anything else."""
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else "one number" if not len(shape) else f"{list(shape)}"
