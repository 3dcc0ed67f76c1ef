"""The table of the study, from the runs that are kept; the page is made of the lines of its CSV alone.

Why a method breaks is said only where the tables say that it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from coterie.core.errors import BadRun
from coterie.metrics.summary import interval
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, Paper, Scale
from coterie.studies.robustness import KINDS, NONE, STUDIES, WAYS, Trace, kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR = 3.0  # points that count as held

INTRO = (
    "The honest clients' mean accuracy on their own test rows. *Nobody lies* is in %, ± half of the 95 % "
    "interval over seeds: on digits and hospitals over splits of the same rows, corrected for those they "
    "share, on MNIST over seeds that share test rows; under each way of lying stands what it "
    "changes for the very same clients, in points, the mean over seeds. **Bold** lies more than 3 points "
    "below. From `mean` to `bulyan` there is one model for all, from `monna` on one for each."
)
FREE = (
    "free riders send what they got, an update of nothing: it is short, all of them send the same, and so it "
    "passes for everybody's near neighbour and takes the place of honest replies"
)
FOUR = "with four clients n > 2f + 2 allows no liar at all, f is 0, and what is left is a plain mean"
WHY = {
    "mean": "a mean has no bound: a reply that is long enough moves it anywhere, and wrong labels count in "
    "full",
    "krum": f"it looks for replies that have near neighbours, and liars that work together are each other's; "
    f"{FREE}; {FOUR}",
    "nnm+krum": f"mixing with neighbours first takes from liars what they gain by being alike, but {FREE}; "
    f"{FOUR}",
    "geometric-median": "it needs no f and pays for it: a third that pulls the same way moves it by as much "
    "as honest replies differ, in every round",
    "nnm+geometric-median": f"{FREE}; and where a liar's reply cannot be used at all, f stays at the guess, "
    "so that honest replies are discounted in its place",
    "centred-clipping": "it bounds how far a reply pulls, not where to: liars whose replies are no longer "
    "than honest ones count in full, and a third of them outweighs what the honest agree on",
    "minimum-diameter": "it takes the replies that lie closest together, and liars that agree lie closest",
    "norm-bound": "as centred clipping, with one step: directions are left alone",
    "median": "each weight of the model has a median of its own; where honest clients differ, a third of "
    "liars moves it far within what is honest, in every round",
    "trimmed-mean": "as the median: lies within the honest range are not trimmed",
    "meamed": "as the median; and replies that are the same, as free riders' are, gather around it",
    "bulyan": "n >= 4f + 3 allows one liar of ten and none of four: here are two, three and one",
    "influence": "it ranks once, by one round: who is right at first and repeats itself from then on stays "
    "in the circle, and so does who sends a good update ten times as long; and with few held-out rows a lie "
    "may look like help",
    "ndoye": "it takes the loss at home off the loss at the requester, so that a model which is bad at home "
    "is forgiven for being bad here: wrong labels, turned signs and a claimed loss all make a liar look like "
    "a good partner. That is its weak point",
}
MORE = (
    "Figures above 0 are no gift of the liars: where one client is unlike the others, as among the four "
    "hospitals, one model for all gains when it happens to be the one left out. `local` listens to nobody, "
    "and is what lying cannot touch. Accuracy says nothing of a backdoor: look at how often its trigger "
    "works. And all of it is for clients that differ mildly; where labels are dealt more unevenly, rules for "
    "one model lose more to honest clients being unlike than to liars ([robust rules](../robust.md))."
)


def write_all(paper: Paper, asked: Asked) -> list[Path]:
    lines = _rows(asked.out, asked.scale)
    if not lines:
        raise BadRun(f"{asked.out} has no results of {paper.name}: run some cells first")
    frame, origins = pd.DataFrame(lines), dict[str, Any]()
    for cell in {(line["study"], line["method"]) for line in lines}:
        origins |= {t.origin["commit"]: t.origin for t in kept(asked.out, asked.scale, *cell)}
    runs = f"{len(frame)} runs, seeds {frame['seed'].min()} to {frame['seed'].max()}"
    text = pages.joined(
        f"# {paper.name}",
        f"{paper.citation}: `coterie.studies.robustness`.",
        pages.facts(runs, origins.values()),
        pages.commands(paper, "text", asked.scale, _seeds(frame)),
        body(frame),
    )
    return pages.write(asked, text, lines, partial(_draw, frame))


def _rows(out: Path, scale: Scale) -> list[dict[str, Any]]:
    """One line for each run, beside what the same clients have in the run of that seed where nobody lies."""
    lines = []
    for study in STUDIES:
        for way in WAYS:
            traces = kept(out, scale, study, way)
            clean = {t.seed: t.accuracy for t in traces if t.kind == NONE}
            lines += [line(study, way, t, clean[t.seed]) for t in traces if t.seed in clean]
    return lines


def line(study: str, way: str, found: Trace, clean: Mapping[str, float]) -> dict[str, Any]:
    honest = list(found.accuracy.values())
    before = [clean[client] for client in found.accuracy]
    return {
        "study": study,
        "method": way,
        "kind": found.kind,
        "share": found.share,
        "seed": found.seed,
        "honest": len(honest),
        "accuracy": round(float(np.mean(honest)), 5),
        "worst": round(min(honest), 5),
        "clean": round(float(np.mean(before)), 5),
        "clean_worst": round(min(before), 5),
        "fooled": None if found.fooled is None else round(found.fooled, 5),
        "left_out": len(found.left_out),
        "commit": found.origin["commit"],
    }


def _seeds(frame: pd.DataFrame) -> dict[str, int]:
    """How many seeds, from 0, each cell has."""
    return {f"{s}/{w}": int(f["seed"].max()) + 1 for (s, w), f in _ordered(frame)}


def _ordered(frame: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """Cells in the order of the study."""
    found = {(str(s), str(w)): part for (s, w), part in frame.groupby(["study", "method"])}
    return [((s, w), found[s, w]) for s in STUDIES for w in WAYS if (s, w) in found]


def body(frame: pd.DataFrame) -> str:
    parts = [INTRO]
    for study in dict.fromkeys(s for (s, _), _ in _ordered(frame)):
        mine = frame[frame["study"] == study]
        for share in sorted(set(mine["share"]) - {0.0}):
            some = mine[mine["share"].isin((0.0, share))]
            parts += [f"## {study}, {100 * share:.0f} % lie", _table(some, "accuracy", "clean")]
            parts += ["The worst of the honest:", _table(some, "worst", "clean_worst")]
    parts += ["## How often the trigger works", _trigger(frame)]
    parts += ["## What holds, and what breaks", _held(frame), _words_of(_broken(frame))]
    return "\n\n".join(parts)


def _changes(cell: pd.DataFrame, value: str, before: str) -> dict[str, float]:
    """By kind, the mean over seeds of what lying changes, in points."""
    lied = cell[cell["kind"] != NONE]
    found = (100 * (lied[value] - lied[before])).groupby(lied["kind"]).mean()
    return {str(kind): float(change) for kind, change in found.items()}


def _table(frame: pd.DataFrame, value: str, before: str) -> str:
    """What each method has when nobody lies, in %, and the points that each way of lying changes."""
    kinds = [kind for kind in KINDS if kind in set(frame["kind"])]
    lines = []
    for (study, way), cell in _ordered(frame):
        plain = interval(list(cell[cell["kind"] == NONE][value]), overlap=STUDIES[study].overlap)
        found = _changes(cell, value, before)
        lines.append([way, pages.plus_minus(plain), *(points(found.get(kind)) for kind in kinds)])
    return pages.table(["method", "nobody lies", *kinds], lines)


def points(change: float | None) -> str:
    if change is None:
        return "–"
    said = f"{change:+.1f}".replace("-", "−").replace("−0.0", "0.0").replace("+0.0", "0.0")
    return f"**{said}**" if change < -NEAR else said


def _trigger(frame: pd.DataFrame) -> str:
    """% of honest clients' test rows of other classes that a trigger turns into the class it calls up."""
    some = frame[frame["kind"] == "backdoor"]
    groups = [(s, share) for s in STUDIES for share in sorted(set(some[some["study"] == s]["share"]))]
    lines = []
    for way in [w for w in WAYS if w in set(some["method"])]:
        mine = some[some["method"] == way]
        cells = [mine[(mine["study"] == s) & (mine["share"] == share)]["fooled"] for s, share in groups]
        lines.append([way, *(f"{100 * c.mean():.0f}" if len(c) else "–" for c in cells)])
    return pages.table(["method", *(f"{s}, {100 * share:.0f} %" for s, share in groups)], lines)


def _broken(frame: pd.DataFrame) -> dict[str, bool]:
    """Of each method, whether any way of lying takes the honest further down than counts as held."""
    found = dict.fromkeys((w for w in WAYS if w in set(frame["method"])), False)
    for (_, way), cell in _ordered(frame):
        for share in set(cell["share"]) - {0.0}:
            some = _changes(cell[cell["share"] == share], "accuracy", "clean")
            found[way] |= any(change < -NEAR for change in some.values())
    return found


def _held(frame: pd.DataFrame) -> str:
    """Of each method: under how many ways of lying the honest stay near, and which break it."""
    lines = []
    for way in [w for w in WAYS if w in set(frame["method"])]:
        cells, near, all_of, worst = list[str](), 0, 0, dict[str, float]()
        for study, spec in STUDIES.items():
            for share in spec.shares:
                mine = frame[(frame["study"] == study) & (frame["method"] == way)]
                found = _changes(mine[mine["share"].isin((0.0, share))], "accuracy", "clean")
                bad = {k: v for k, v in found.items() if v < -NEAR}
                near, all_of = near + len(found) - len(bad), all_of + len(found)
                cells.append(f"{len(found) - len(bad)} of {len(found)}" if found else "–")
                for kind, change in bad.items():
                    worst[kind] = min(change, worst.get(kind, 0.0))
        said = ", ".join(f"{k} {points(worst[k]).strip('*')}" for k in KINDS if k in worst) or "nothing"
        lines.append([way, *cells, f"{near} of {all_of}", said])
    names = [f"{s}, {100 * share:.0f} %" for s, spec in STUDIES.items() for share in spec.shares]
    return pages.prose_table(["method", *names, "in all", "broken by, at the worst"], lines)


def _draw(frame: pd.DataFrame) -> dict[str, Figure]:
    """For each study, a picture of the changes of the mean: methods downwards, ways of lying to the right."""
    made = {}
    for study, spec in STUDIES.items():
        share = spec.shares[-1]
        mine = frame[(frame["study"] == study) & frame["share"].isin((0.0, share))]
        if not mine.empty:
            made[f"{study}-{100 * share:.0f}"] = _picture(mine)
    return made


def _picture(frame: pd.DataFrame) -> Figure:
    kinds = [kind for kind in KINDS if kind in set(frame["kind"])]
    ways = [way for (_, way), _ in _ordered(frame)]
    found = {way: _changes(cell, "accuracy", "clean") for (_, way), cell in _ordered(frame)}
    values = np.array([[found[way].get(kind, np.nan) for kind in kinds] for way in ways])
    figure, axes = drawing.canvas(7.5, 0.3 * len(ways) + 1.2, 1, 1)
    plot = axes[0, 0]
    shown, _ = drawing.heat_map(plot, values, (ways, kinds), 30, 45, lambda value: f"{round(value)}")
    figure.colorbar(shown, ax=plot, label="change for the honest, points")
    return figure


def _words_of(broken: Mapping[str, bool]) -> str:
    """By method, in order: whether any way of lying breaks it."""
    fine = [f"`{way}`" for way, bad in broken.items() if not bad]
    held = f"No way of lying breaks {', '.join(fine)}." if fine else "No method is broken by no way of lying."
    whys = [f"- `{way}`: {WHY[way]}." for way, bad in broken.items() if bad and way in WHY]
    return "\n\n".join([held, "Why the others break:", "\n".join(whys), MORE])
