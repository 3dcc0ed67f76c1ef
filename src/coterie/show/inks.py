"""Colours and marks that stay apart for colour-blind readers (Okabe and Ito, 2008), on screen and paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# without yellow, too pale on white, and without black, which is kept for training alone
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot")
HATCHES = ("", "/", ".", "x")
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
ALONE = "#333333"

SPLITS = {"train": "#0072B2", "validation": "#56B4E9", "test": "#E69F00"}

# light to dark in one hue: 0 is the paper, and grey prints keep the order
SCALE = ("#FFFFFF", "#D3E6F3", "#8FC1E0", "#3D93C6", "#0072B2", "#00568A")
# below zero in orange
SCALE_SIGNED = ("#8A3D00", "#D55E00", "#F3C4A0", "#FFFFFF", "#9CCBE6", "#0072B2", "#00568A")


@dataclass(frozen=True)
class Ink:
    """How one method is drawn."""

    colour: str
    dash: str
    mark: str
    hatch: str

    def shade(self, alpha: float) -> str:
        """The same colour, see-through."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{alpha:g})"


def inks(labels: Sequence[str], baseline: str | None = None) -> dict[str, Ink]:
    """One ink for each label; after six, colours come round with another dash, mark and hatch."""
    made: dict[str, Ink] = {}
    for label in dict.fromkeys(labels):
        if label == baseline:
            made[label] = Ink(ALONE, "dash", "circle-open", "")
            continue
        i = len(made) - (baseline in made)
        turn, place = divmod(i, len(COLOURS))
        turn %= len(DASHES)
        made[label] = Ink(COLOURS[place], DASHES[turn], MARKS[(place + turn) % len(MARKS)], HATCHES[turn])
    return made
