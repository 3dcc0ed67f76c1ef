"""A model for other programs: one ONNX file from raw columns to probabilities, checked against the model.

columns          [n, column] float64, in the order of the names in the file's metadata; NaN where missing,
                 codes for categories, 0 and 1 for flags; where inputs have no names it is `inputs`, [n, ...]
outputs          [n, class] logits, recalibrated where the model is; of a regression [n, 1], of a survival
                 risks [n, 1]
probabilities    [n, class]; only of a classification
"""

from __future__ import annotations

import importlib.util
import io
import json
import logging
import warnings
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from coterie.core.errors import BadInput
from coterie.data.preparation import Part
from coterie.use.predictor import Predictor

CLOSE = 1e-4  # how far probabilities or numbers of the two may be apart, relative to the largest


def need_onnx() -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise BadInput(f"onnx needs {package}: pip install 'coterie[onnx]', or leave onnx out")


def write_onnx(path: Path, predictor: Predictor) -> None:
    """Refused if what was written does not give the same for a few rows."""
    import onnx

    whole, x = _Whole(predictor).eval(), _sample(predictor)
    names = ["outputs", "probabilities"] if predictor.classifies else ["outputs"]
    given = "columns" if predictor.intake.way is not None else "inputs"
    rows = torch.export.Dim("rows")
    logger = logging.getLogger("torch.onnx")  # what the exporter says is not for the person at the keyboard
    with ExitStack() as ends:
        ends.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)
        ends.enter_context(warnings.catch_warnings())
        ends.enter_context(redirect_stdout(io.StringIO()))
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            whole,
            (x,),
            dynamo=True,
            input_names=[given],
            output_names=names,
            dynamic_shapes=({0: rows},),
            verbose=False,
        )
        assert program is not None
        program.save(str(path), external_data=False)
    model = onnx.load(str(path))
    # lowest and highest number of a column, or codes, where recorded: the file holds values against nothing
    ways = predictor.intake.way.parts if predictor.intake.way is not None else ()
    ranges = {part.column.name: part.training for part in ways if part.training is not None}
    training = {n: [t.lowest, t.highest] if t.quantiles else list(t.codes) for n, t in ranges.items()}
    about = {
        "client": predictor.client,
        "columns": list(predictor.intake.columns),
        "classes": list(predictor.classes),
        "training": training,
    }
    entry = model.metadata_props.add()
    entry.key, entry.value = "coterie", json.dumps(about)
    onnx.save(model, str(path))
    _refuse_other(path, whole, x, given)


def _refuse_other(path: Path, whole: nn.Module, x: Tensor, given: str) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for rows in (x, x[:1]):  # as many rows as it likes
        with torch.no_grad():
            ours = whole(rows)
        theirs = session.run(None, {given: rows.numpy()})
        for mine, other in zip(ours, theirs, strict=True):
            mine = mine.numpy()
            if np.abs(mine - other).max() > CLOSE * max(1.0, float(np.abs(mine).max())):
                raise BadInput(
                    "the model in ONNX gives other numbers than the one in PyTorch: leave onnx out"
                )


def _sample(predictor: Predictor) -> Tensor:
    """A few rows that the model may be asked about."""
    draw = np.random.default_rng(0)
    way = predictor.intake.way
    if way is None:
        return torch.from_numpy(draw.normal(size=(4, *predictor.shape)).astype(np.float32))
    columns = []
    for part in way.parts:
        column = part.column
        if column.allowed is None:
            columns.append(column.center + column.spread * draw.normal(size=4))
        else:
            columns.append(draw.choice(column.allowed, size=4))
    return torch.from_numpy(np.stack(columns, axis=1))


class _Whole(nn.Module):
    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.network, self.classifies = predictor.model, predictor.classifies
        self.rescaled = predictor.rescaled
        way = predictor.intake.way
        self.parts = nn.ModuleList([] if way is None else [_Made(p) for p in way.parts])
        self.precision = next(p.dtype for p in self.network.parameters() if p.is_floating_point())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        if len(self.parts):
            x = torch.cat([part(x[:, i : i + 1]) for i, part in enumerate(self.parts)], dim=1).float()
        outputs = self.rescaled(self.network(x.to(self.precision)))
        return (outputs, outputs.double().softmax(dim=1)) if self.classifies else (outputs,)


class _Made(nn.Module):
    """A column's inputs [n, input] of raw numbers [n, 1]: `Part.made` in the operations that ONNX has."""

    codes: Tensor
    instead: Tensor

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.part = part
        self.register_buffer("codes", torch.tensor([part.column.codes], dtype=torch.float64))
        self.register_buffer("instead", torch.tensor([part.instead], dtype=torch.float64))

    def forward(self, raw: Tensor) -> Tensor:
        part, column = self.part, self.part.column
        if part.unused:
            return raw[:, :0]
        nothing = torch.zeros_like(raw)
        if part.absent:
            made = nothing + self.instead
        else:
            known = raw if part.fill is None else torch.where(torch.isnan(raw), nothing + part.fill, raw)
            made = column.of.exported(column, known, self.codes)
        return torch.cat([made, nothing + float(part.absent)], dim=1) if part.told else made
