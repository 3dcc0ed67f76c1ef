"""The table of the study, from the runs that are kept; the page is made of the lines of its CSV alone.

Why a method breaks is said only where the tables say that it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from coterie.metrics.summary import interval
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, LineStudy, Paper
from coterie.studies.robustness import KINDS, NONE, STUDIES, WAYS, Trace

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


Runs = Mapping[tuple[str, str], Sequence[Trace]]  # by study and method


def _read(asked: Asked, paper: LineStudy[Trace]) -> Runs:
    """All cells with a line at least: what has no run of its seed where nobody lies has none."""
    runs = paper.kept(asked.out, asked.scale)
    return {cell: found for cell, found in runs.items() if _rows(asked, {cell: found})}


def _rows(asked: Asked, results: Runs) -> list[dict[str, Any]]:
    """One line for each run, beside what the same clients have in the run of that seed where nobody lies."""
    lines = []
    for (study, way), traces in results.items():
        clean = {t.seed: t.accuracy for t in traces if t.kind == NONE}
        lines += [line(study, way, t, clean[t.seed]) for t in traces if t.seed in clean]
    return lines


def _page(paper: Paper, asked: Asked, results: Runs) -> str:
    frame = pd.DataFrame(_rows(asked, results))
    origins = {t.origin["commit"]: t.origin for traces in results.values() for t in traces}
    runs = f"{len(frame)} runs, seeds {frame['seed'].min()} to {frame['seed'].max()}"
    seeds = {f"{s}/{w}": int(part["seed"].max()) + 1 for (s, w), part in _ordered(frame)}
    return pages.joined(
        f"# {paper.name}",
        f"{paper.citation}: `coterie.studies.robustness`.",
        pages.facts(runs, origins.values()),
        pages.commands(paper, "text", asked.scale, seeds),
        body(frame),
    )


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
    parts += ["## What holds, and what breaks", *_what_holds(frame)]
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


def _what_holds(frame: pd.DataFrame) -> list[str]:
    """Of each method: under how many ways of lying the honest stay near, and which break it; then why."""
    lines, broken = [], dict[str, bool]()
    settings = [(study, share) for study, spec in STUDIES.items() for share in spec.shares]
    for way in [w for w in WAYS if w in set(frame["method"])]:
        cells, near, all_of, worst = list[str](), 0, 0, dict[str, float]()
        for study, share in settings:
            mine = frame[(frame["study"] == study) & (frame["method"] == way)]
            found = _changes(mine[mine["share"].isin((0.0, share))], "accuracy", "clean")
            bad = {k: v for k, v in found.items() if v < -NEAR}
            near, all_of = near + len(found) - len(bad), all_of + len(found)
            cells.append(f"{len(found) - len(bad)} of {len(found)}" if found else "–")
            for kind, change in bad.items():
                worst[kind] = min(change, worst.get(kind, 0.0))
        said = ", ".join(f"{k} {points(worst[k]).strip('*')}" for k in KINDS if k in worst) or "nothing"
        lines.append([way, *cells, f"{near} of {all_of}", said])
        broken[way] = bool(worst)
    names = [f"{s}, {100 * share:.0f} %" for s, share in settings]
    fine = [f"`{way}`" for way, bad in broken.items() if not bad]
    held = f"No way of lying breaks {', '.join(fine)}." if fine else "No method is broken by no way of lying."
    whys = [f"- `{way}`: {WHY[way]}." for way, bad in broken.items() if bad and way in WHY]
    table = pages.prose_table(["method", *names, "in all", "broken by, at the worst"], lines)
    return [table, held, "Why the others break:", "\n".join(whys), MORE]


def _draw(asked: Asked, results: Runs) -> dict[str, Figure]:
    return draw_of(pd.DataFrame(_rows(asked, results)))


def draw_of(frame: pd.DataFrame) -> dict[str, Figure]:
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


REPORT = pages.Report(_read, _page, _rows, _draw)
