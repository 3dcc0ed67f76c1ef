"""Tables and figures of grimberg-2020, from the runs that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coterie.core.errors import BadRun
from coterie.metrics import summary
from coterie.papers import drawing, pages
from coterie.papers.base import Asked, Paper, Preset
from coterie.papers.grimberg_2020.claims import CLAIMS, EROSION, LABELS, OURS, Results, log_odds, read
from coterie.papers.grimberg_2020.paper import METHODS, OVERLAP, STUDIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

interval = partial(summary.interval, overlap=OVERLAP)
FIGURES = {"age-strict": "figure-6", "age-some": "figure-9", "heart": "heart-disease"}


def write_all(paper: Paper, asked: Asked) -> list[Path]:
    results = read(asked.out)
    if not results:
        raise BadRun(f"{asked.out} has no results of {paper.name}: run some cells first")
    return pages.write(asked, page(paper, results), rows(results), lambda: draw(results))


def page(paper: Paper, results: Mapping[Preset, Results]) -> str:
    runs = [t for r in results.values() for seeds in r.runs.values() for t in seeds.values()]
    seeds = sorted({t.seed for t in runs})
    parts = [
        f"# {paper.name}",
        f"{paper.citation}. What the presets are and where they differ: `coterie.papers.grimberg_2020`.",
        "\n".join(
            [
                f"- seeds: {seeds[0]} to {seeds[-1]}, {len(runs)} runs of 30 rounds",
                *pages.origin_lines(t.origin for t in runs),
            ]
        ),
        "Accuracy on the user's test rows after the last round, in %, and paired differences in points; ± is "
        "half of the 95 % interval over splits of the user's rows into halves, corrected for the rows they "
        "share. *Commonest* is the accuracy of always naming the user's "
        "commonest class. Commands give all lines of their cells; `--cells` picks one.",
    ]
    for preset, found in results.items():
        parts.append(pages.commands(paper, preset, "full", found.seeds()))
        for study in STUDIES:
            if lines := accuracy_rows(found, study):
                parts += [f"## {STUDIES[study].title}, {preset}", accuracy_table(lines)]
                if preset == "as-run":
                    plain = Results("text", found.runs)
                    parts += [
                        "As the author's program measures it: the mean over the test set's batches of "
                        f"{STUDIES[study].batch}, however short the last. Over all test rows alike:",
                        accuracy_table(accuracy_rows(plain, study)),
                    ]
                    if study == "age-strict" and (said := one_row_decides(found)):
                        parts.append(said)
    parts += ["## Claims", f"{pages.JUDGED} {pages.SPLITS}", pages.claims_table(CLAIMS, results)]
    if "text" in results and any(study == "heart" for study, _, _ in results["text"].runs):
        parts.append(pages.claims_table(OURS, {"text": results["text"]}))
    return "\n\n".join(parts) + "\n"


def one_row_decides(r: Results) -> str:
    """Why agent 2's accuracy by batches may be spectacular."""
    traces = list(r.of("age-strict", 2, "local").values())
    right = [t.by_batches[-1] for t in traces if t.by_batches[-1] > t.accuracy[-1]]
    wrong = [t.by_batches[-1] for t in traces if t.by_batches[-1] < t.accuracy[-1]]
    if not right or not wrong:
        return ""
    return (
        "Agent 2 tests on 162 rows, a batch of 161 and one of 1, which has half of the say: where Local is "
        f"right in it ({len(right)} of {len(traces)} seeds) its accuracy by batches is "
        f"{100 * np.mean(right):.1f} %, else {100 * np.mean(wrong):.1f} %. That would "
        "explain the paper's accuracy above 90 % for this agent, and why it is gone with AGE_SOME, whose "
        "batches are of 132."
    )


def accuracy_rows(r: Results, study: str) -> list[list[object]]:
    lines: list[list[object]] = []
    for i, user in enumerate(STUDIES[study].users):
        found = r.of(study, i, EROSION) or r.of(study, i, "global") or r.of(study, i, "local")
        if not found:
            continue
        trace = next(iter(found.values()))
        commonest = interval([max(t.always, 1 - t.always) for t in found.values()])
        who = trace.names[i] if user.isdigit() else user
        lines.append(
            [
                f"{study}/{user}" + (f" ({who})" if user.isdigit() else ""),
                f"{100 * commonest.mean:.1f}",
                *(pages.plus_minus(interval(r.final(study, i, m))) for m in METHODS),
                *(
                    pages.plus_minus(interval(r.gain(study, i, EROSION, m)), factor=1)
                    for m in ("global", "local")
                ),
            ]
        )
    return lines


def accuracy_table(lines: list[list[object]]) -> str:
    gains = [f"Weight Erosion – {LABELS[m]}" for m in ("global", "local")]
    return pages.table(["user", "commonest", *(LABELS[m] for m in METHODS), *gains], lines)


def rows(results: Mapping[Preset, Results]) -> list[dict[str, object]]:
    """One line for each run."""
    return [
        {
            "preset": preset,
            "cell": f"{study}/{STUDIES[study].users[user]}",
            "user": trace.names[user],
            "method": method,
            "seed": trace.seed,
            "accuracy": trace.accuracy[-1],
            "accuracy_by_batches": trace.by_batches[-1],
            "commit": trace.origin["commit"],
            "command": pages.again(
                "grimberg-2020", f"{study}/{STUDIES[study].users[user]}", preset, "full", trace.seed
            ),
        }
        for preset, r in results.items()
        for (study, user, method), seeds in r.runs.items()
        for trace in seeds.values()
    ]


def draw(results: Mapping[Preset, Results]) -> dict[str, Figure]:
    """Figures 6 and 9 (and the hospitals'), 7 and 8, for each preset."""
    made = {}
    for preset, r in results.items():
        for study, name in FIGURES.items():
            if any(s == study for s, _, _ in r.runs):
                made[f"{name}-{preset}"] = rounds(r, study)
        for user, name in ((0, "figure-7"), (2, "figure-8")):
            if any(r.of("age-strict", user, m) for m in METHODS):
                made[f"{name}-{preset}"] = parameters(r, user)
    return made


def rounds(r: Results, study: str) -> Figure:
    """For each user: the schemes' accuracy by round above, the agents' mean weights below."""
    users = [i for i in range(4) if any(r.of(study, i, m) for m in METHODS)]
    figure, axes = drawing.canvas(2.4 * len(users), 4.2, 2, len(users), sharex=True, sharey="row")
    for column, i in zip(axes.T, users, strict=True):
        found = {m: np.array([r.curve(t) for t in r.of(study, i, m).values()]) for m in METHODS}
        drawing.curves(column[0], {m: v for m, v in found.items() if len(v)}, LABELS, OVERLAP)
        traces = [t for m in METHODS for t in r.of(study, i, m).values()]
        always = float(np.mean([t.always for t in traces]))
        for level in (always, 1 - always):
            column[0].axhline(100 * level, color="#c0392b", linestyle=":", linewidth=0.8)
        column[0].set_title(f"user: {traces[0].names[i]}", fontsize=8)
        eroded = [np.array(t.alpha) for t in r.of(study, i, EROSION).values()]
        if eroded:
            drawing.weights(column[1], np.mean(eroded, axis=0), traces[0].names, i)
            column[1].legend(fontsize=6)
    axes[0, 0].set_ylabel("test accuracy, %")
    axes[0, 0].legend(fontsize=6)
    axes[1, 0].set_ylabel("weight α")
    return figure


def parameters(r: Results, user: int) -> Figure:
    """Weights in the log-odds of survival, by feature: means over seeds, thin lines for intervals."""
    figure, axes = drawing.canvas(5.5, 3, 1, 1)
    plot = axes[0, 0]
    for k, method in enumerate(METHODS):
        traces = list(r.of("age-strict", user, method).values())
        if not traces:
            continue
        found = [interval(list(v)) for v in np.array([log_odds(t) for t in traces]).T]
        half = np.nan_to_num([f.half for f in found])
        at = np.arange(len(found)) + (k - 1) * 0.27
        ink = drawing.INKS[method]
        plot.bar(
            at,
            [f.mean for f in found],
            0.25,
            yerr=half,
            color=ink.colour,
            label=LABELS[method],
            error_kw={"elinewidth": 0.7},
        )
        plot.set_xticks(range(len(found)), traces[0].features, rotation=45, ha="right", fontsize=7)
        plot.set_title(f"user: {traces[0].names[user]}", fontsize=8)
    plot.axhline(0, color="#333333", linewidth=0.6)
    plot.set_ylabel("log-odds of survival")
    plot.legend(fontsize=7)
    return figure
