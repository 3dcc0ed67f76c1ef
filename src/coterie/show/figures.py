"""What the figures for a paper share: their look, a sheet to draw on, names that fit."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coterie.core.errors import BadInput
from coterie.show import views
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOK: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "legend.frameon": False,
    "text.parse_math": False,
    "svg.hashsalt": "coterie",
    "savefig.dpi": 200,
}
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


def need_matplotlib() -> Any:
    """Asked before anything is computed that is to be drawn."""
    try:
        import matplotlib
    except ImportError:
        raise BadInput(
            "figures need matplotlib: pip install 'coterie[figures]', or set figures=none"
        ) from None
    return matplotlib


def write(
    folder: Path, draw: Callable[[], Mapping[str, Figure]], format: Literal["none", "svg", "png"]
) -> list[Path]:
    """What is drawn, by file name without its ending; the same bytes each time. Returns their paths."""
    if format == "none":
        return []
    written = []
    with need_matplotlib().rc_context(LOOK):
        stamp = {"Date": None} if format == "svg" else {"Software": None}
        for name, figure in draw().items():
            content = io.BytesIO()
            figure.savefig(content, format=format, metadata=stamp)
            written.append(write_whole(folder / f"{name}.{format}", content.getvalue()))
    return written


def sheet(width: float, height: float, axes: bool = True) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots() if axes else None


def ramp(steps: Sequence[str]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("coterie", list(steps))


def ticks(axes: Axes, names: Sequence[str], which: Literal["x", "y"]) -> None:
    """Names along an axis: at most 24, evenly chosen."""
    places = views.thin(range(len(names)), 24)
    texts = [plain(names[i]) for i in places]
    small = 7 if len(texts) <= 15 else 6
    if which == "x":
        tall = max(map(len, texts)) * len(texts) > 60
        axes.set_xticks(places, texts, rotation=90 if tall else 0, fontsize=small)
    else:
        axes.set_yticks(places, texts, fontsize=small)


def plain(name: str) -> str:
    """A name that matplotlib has room for: one line, not too long."""
    text = " ".join(str(name).split())
    return text if len(text) <= 18 else f"{text[:12]}…{text[-5:]}"
