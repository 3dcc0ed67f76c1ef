"""coterie export"""

from __future__ import annotations

from dataclasses import dataclass

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import BadInput
from coterie.use import load, save

COMMANDS = {"export": ("after", 100, "write a client's own model into a folder that works without its run")}
HELP = """Writes a client's own model into a folder that works without the run.

It holds the weights, how rows are read and prepared, and a model card with lines for you to fill in; of other
clients, their names and how much this one listened to each, in the card. A cut that was decided for the model
goes with it. Use it with `coterie predict FOLDER FILE`, or in Python with coterie.load(FOLDER).

examples:
  coterie export runs/table-silos-finetune-seed0 --client north --out north-model
  coterie export runs/table-silos-finetune-seed0 --client north --out north-model --onnx
"""


@dataclass(frozen=True)
class _Export:
    run: str = word("The folder of a run, or one of a comparison's.", "RUN")
    client: str = flag("", "Whose model; may be left out where the run has only one.")
    out: str = flag("", "The folder to write.")
    onnx: bool = flag(False, "Also write model.onnx, for other programs.")


@command_with(Flags(_Export, "export", HELP))
def export(asked: _Export) -> int:
    if not asked.out:
        raise BadInput("no folder to write to: name one with --out")
    predictor = load(asked.run, asked.client)
    path = save(predictor, asked.out, asked.onnx)
    for note in (*predictor.means, *predictor.notes):
        screen.err.print(f"[dim]· {escape(note)}[/dim]", soft_wrap=True)
    print(f"model: {path}, of {predictor.client}; fill in what card.md leaves to you")
    return 0
