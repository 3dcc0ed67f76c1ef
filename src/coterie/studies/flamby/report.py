"""Ours beside FLamby's, its claims, where the two differ, and personal methods; the page is made of the lines
of its CSV alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from coterie.metrics.summary import interval
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, LineStudy, Paper
from coterie.studies.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.studies.flamby import AS_RUN, BASELINES, PERSONAL, PUBLISHED_WAYS, RATED, WAYS, Trace
from coterie.studies.flamby.federations import FEDERATIONS, POOLED
from coterie.studies.flamby.published import FINE_TUNED, PUBLISHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAR = 2.0  # of their standard deviations
LOCAL = f"local{RATED}"
CSV = "its results file of {}, five seeds"
HEART, BRCA = CSV.format("heart disease"), CSV.format("TCGA-BRCA")
ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad")
NEAR = 1.0  # points

TITLES = {
    "heart": "Heart disease, four hospitals: accuracy, %",
    "brca": "Breast cancer, six regions: concordance, %",
}
INTRO = (
    "FLamby's split, standardisation, models, first weights, batch sizes, updates and rates. Each cell is "
    "ours, mean ± standard deviation over five seeds, and in brackets what FLamby published. The column "
    "`pooled` is one model on all test rows, which FLamby standardises together for heart disease, as the "
    "training rows of the pooled model are and those of the others are not. Test rows are the same for "
    "all seeds. The row `cyclic` is the method as its paper has it, a whole cycle in each round; "
    "`cyclic-as-run` is what FLamby's program does."
)
CYCLE = (
    "FLamby's program never hands the model on: each client trains a model of its own, one client a "
    "round, and the first client's is tested. `cyclic-as-run` does that: see its row"
)
CHANCE = "not found out: batches in another order are the only difference that we know"
PERSONAL_INTRO = (
    "All with SGD at 0.01, a rate that nobody searched, 100 updates a round and as many rounds as above; "
    "options are the defaults, but `finetune` tunes for one round more, `fedper` and `fedrep` keep the bias "
    "of the one layer at home, and `fedfomo` holds a fifth of the training rows out, which it needs. Each "
    "client's own model on its own test rows, means over seeds; the gain over `local`, at the same rate, in "
    "points, ± half of the 95 % interval over seeds, which share test rows: it does not cover other test "
    "rows, of which Switzerland has 16 and Canada 11."
)


# claims: differences between ways, one for each seed, in points


def means(frame: pd.DataFrame, federation: str, way: str) -> dict[int, float]:
    """By seed the mean over clients, each on its own test rows; seeds that lack a client are left out."""
    clients = FEDERATIONS[federation].clients
    some = frame[(frame["federation"] == federation) & (frame["way"] == way) & frame["test"].isin(clients)]
    whole = some.dropna(subset=["ours"]).groupby("seed")["ours"].agg(["mean", "size"])
    return {int(s): float(row["mean"]) for s, row in whole.iterrows() if row["size"] == len(clients)}


def gains(frame: pd.DataFrame, federation: str, way: str, over: str) -> list[float]:
    """What a way has beyond another, means over clients, by seed."""
    one, other = (means(frame, federation, name) for name in (way, over))
    return [one[seed] - other[seed] for seed in one if seed in other]


def _pooled_points(frame: pd.DataFrame, federation: str, way: str, over: str) -> list[float]:
    """What a way has beyond another on all test rows, by seed."""
    mine = frame[(frame["federation"] == federation) & (frame["test"] == POOLED)]
    one, other = (mine[mine["way"] == name].set_index("seed")["ours"].to_dict() for name in (way, over))
    return [100 * (float(one[seed]) - float(other[seed])) for seed in one if seed in other]


def _above(federation: str, way: str, *over: str) -> Callable[[pd.DataFrame], Verdict]:
    """A way above others on all test rows."""
    return lambda frame: every(
        {f"{way} over {other}": above_zero(_pooled_points(frame, federation, way, other)) for other in over}
    )


def _adaptive_above(federation: str, over: str) -> Callable[[pd.DataFrame], Verdict]:
    return lambda frame: every(
        {f"{way} over {over}": above_zero(_pooled_points(frame, federation, way, over)) for way in ADAPTIVE}
    )


def _alike(federation: str, way: str, other: str) -> Callable[[pd.DataFrame], Verdict]:
    return lambda frame: near_zero(_pooled_points(frame, federation, way, other), NEAR)


def _over_clients(federation: str, way: str, other: str) -> Callable[[pd.DataFrame], Verdict]:
    return lambda frame: above_zero([100 * gain for gain in gains(frame, federation, way, other)])


ADAPTIVE_ABOVE = "The server's adaptive steps are above {} on all test rows"
OWN = "is above FedAvg, mean over clients' own tests"
CLAIMS: tuple[Claim[pd.DataFrame], ...] = (
    Claim("Pooled training is above FedAvg on all test rows", HEART, _above("heart", "pooled", "fedavg")),
    Claim(ADAPTIVE_ABOVE.format("FedAvg"), HEART, _adaptive_above("heart", "fedavg")),
    Claim("FedProx is within a point of FedAvg", HEART, _alike("heart", "fedprox", "fedavg")),
    Claim("SCAFFOLD is within a point of FedAvg", HEART, _alike("heart", "scaffold", "fedavg")),
    Claim(f"Training alone {OWN}", HEART, _over_clients("heart", "alone", "fedavg")),
    Claim(
        f"Fine-tuning {OWN}", "its figure of personalisation", _over_clients("heart", "finetune", "fedavg")
    ),
    Claim("Cyclic transfer is above FedAvg on all test rows", HEART, _above("heart", "cyclic", "fedavg")),
    Claim(ADAPTIVE_ABOVE.format("FedAvg"), BRCA, _adaptive_above("brca", "fedavg")),
    Claim(ADAPTIVE_ABOVE.format("pooled training"), BRCA, _adaptive_above("brca", "pooled")),
    Claim(
        "FedAdam is above SCAFFOLD and above cyclic transfer on all test rows",
        BRCA,
        _above("brca", "fedadam", "scaffold", "cyclic"),
    ),
)


# the page


Runs = Mapping[tuple[str, str], Sequence[Trace]]  # by federation and way


def _read(asked: Asked, paper: LineStudy[Trace]) -> Runs:
    runs = paper.kept(asked.out, asked.scale)
    return {cell: sorted(found, key=lambda t: t.seed) for cell, found in runs.items()}


def _rows(asked: Asked, results: Runs) -> list[dict[str, Any]]:
    """One line for each figure of each run, beside the published mean and deviation.

    A method that refused a federation has one line without a figure, and why.
    """
    return [
        {
            "federation": name,
            "way": way,
            "seed": found.seed,
            "test": test,
            "ours": None if math.isnan(value) else round(value, 5),
            **_published(name, way, test),
            "refused": found.refused,
            "commit": found.origin["commit"],
        }
        for (name, way), traces in results.items()
        for found in traces
        for test, value in (found.scores or {"": math.nan}).items()
    ]


def _published(name: str, way: str, test: str) -> dict[str, float | None]:
    figures = PUBLISHED[name].get("cyclic" if way == AS_RUN else way, {})
    mean, deviation = figures.get(test, (None, None))
    return {"published": mean, "published_sd": deviation}


def _page(paper: Paper, asked: Asked, results: Runs) -> str:
    frame = pd.DataFrame(_rows(asked, results))
    counts = {f"{f}/{w}": len({trace.seed for trace in traces}) for (f, w), traces in results.items()}
    origins = {t.origin["commit"]: t.origin for traces in results.values() for t in traces}
    return pages.joined(
        f"# {paper.name}",
        f"{paper.citation}: `coterie.studies.flamby`.",
        pages.facts(f"seeds {frame['seed'].min()} to {frame['seed'].max()}", origins.values()),
        pages.commands(paper, "text", asked.scale, counts),
        body(frame),
    )


def body(frame: pd.DataFrame) -> str:
    empty = {name: frame[name].astype(object).fillna("") for name in ("test", "refused")}
    frame = frame.assign(**empty)
    parts = [INTRO]
    for name in [f for f in FEDERATIONS if f in set(frame["federation"])]:
        mine = frame[frame["federation"] == name]
        parts += [f"## {TITLES[name]}", _side_by_side(name, mine)]
        if name == "heart" and "finetune" in set(mine["way"]):
            parts.append(_fine_tuned(mine))
    parts += ["## Claims", pages.claims_table(CLAIMS, {"text": frame}), pages.CLAIMS_NOTE]
    parts += ["## Where ours and theirs differ", differences(frame)]
    parts += ["## Personal methods on the same work", PERSONAL_INTRO]
    for name in [f for f in FEDERATIONS if f in set(frame["federation"])]:
        table = _personal(name, frame[frame["federation"] == name])
        if table:
            parts += [f"### {TITLES[name]}", table]
    refused = frame[frame["refused"] != ""].drop_duplicates(["federation", "way"])
    if len(refused):
        said = [f"- `{r.way}` on {r.federation}: {r.refused}" for r in refused.itertuples()]
        parts.append("\n".join(["Refused, each for its reason:", "", *said]))
    absent = [f"`{name}`" for name in PERSONAL if f"{name}{RATED}" not in set(frame["way"])]
    if absent:
        parts.append(f"Not run: {', '.join(absent)}.")
    return "\n\n".join(parts)


def _side_by_side(name: str, frame: pd.DataFrame) -> str:
    """In %: ours, and in brackets theirs, means ± standard deviations over seeds."""
    lines, tests = [], (*FEDERATIONS[name].clients, POOLED)
    for way in [w for w in (*BASELINES, *PUBLISHED_WAYS, AS_RUN) if w in set(frame["way"])]:
        line = [f"`{way}`"]
        for test in tests:
            some = frame[(frame["way"] == way) & (frame["test"] == test)]
            if some.empty:
                line.append("–")
                continue
            ours = _spread(some["ours"].mean(), some["ours"].std())
            theirs, deviation = some["published"].iloc[0], some["published_sd"].iloc[0]
            line.append(ours if pd.isna(theirs) else f"{ours} ({_spread(theirs, deviation)})")
        lines.append(line)
    return pages.table(["", *tests], lines)


def _spread(mean: float, deviation: float) -> str:
    said = f"{100 * mean:.1f}"
    return said if pd.isna(deviation) else f"{said} ± {100 * deviation:.1f}"


def _fine_tuned(frame: pd.DataFrame) -> str:
    """The mean over clients and seeds, beside theirs."""
    found = {w: 100 * float(np.mean(list(means(frame, "heart", w).values()))) for w in ("finetune", "fedavg")}
    table = np.mean([PUBLISHED["heart"]["fedavg"][c][0] for c in FEDERATIONS["heart"].clients])
    tuned, plain = FINE_TUNED
    return (
        f"FedAvg then fine-tuning, mean over clients and seeds: {found['finetune']:.1f} against "
        f"{found['fedavg']:.1f} without. Theirs are {100 * tuned:.1f} against {100 * plain:.1f}, from an "
        f"experiment of its own whose settings are not known: by its table FedAvg has {100 * table:.1f}."
    )


def differences(frame: pd.DataFrame) -> str:
    """Every mean that lies more than two of their deviations from theirs, and why."""
    lines, compared = [], 0
    known = frame[frame["published"].notna() & frame["ours"].notna()]
    for (name, way, test), some in known.groupby(["federation", "way", "test"], sort=False):
        ours, theirs, deviation = some["ours"].mean(), some["published"].iloc[0], some["published_sd"].iloc[0]
        compared += 1
        if abs(ours - theirs) > FAR * deviation + 1e-4:  # published figures have four digits here
            away = f"{abs(ours - theirs) / deviation:.1f}" if deviation else "theirs is 0"
            apart = f"{100 * (ours - theirs):+.1f}"
            why = CYCLE if way == "cyclic" else CHANCE
            lines.append([str(name), f"`{way}`", str(test), apart, away, why])
    said = f"{len(lines)} of {compared} means lie more than {FAR:g} of FLamby's standard deviations away."
    header = ["federation", "way", "test rows", "points", "in their deviations", "why"]
    return said if not lines else f"{said}\n\n{pages.prose_table(header, lines)}"


def _personal(name: str, frame: pd.DataFrame) -> str:
    """Each client's own model on its own test rows, the mean of clients, and the gain over training alone."""
    lines = []
    clients = FEDERATIONS[name].clients
    for way in [w for w in WAYS if w.endswith(RATED) and w in set(frame["way"])]:
        some = frame[(frame["way"] == way) & frame["ours"].notna()]
        if some.empty:
            continue
        cells = [f"{100 * some[some['test'] == c]['ours'].mean():.1f}" for c in clients]
        mean = interval(list(means(frame, name, way).values()))
        gain = interval(gains(frame, name, way, LOCAL)) if way != LOCAL else None
        shown = "" if gain is None else pages.plus_minus(gain)
        lines.append([f"`{way.removesuffix(RATED)}`", *cells, f"{100 * mean.mean:.1f}", shown])
    header = ["", *clients, "mean of clients", "gain over `local`"]
    return pages.table(header, lines) if lines else ""


def _draw(asked: Asked, results: Runs) -> dict[str, Figure]:
    return draw_of(pd.DataFrame(_rows(asked, results)))


def draw_of(frame: pd.DataFrame) -> dict[str, Figure]:
    """For each federation, ours against theirs: every mean a point, the line where they are the same."""
    made = {}
    known = frame[frame["published"].notna() & frame["ours"].notna()]
    for name in [f for f in FEDERATIONS if f in set(known["federation"])]:
        figure, axes = drawing.canvas(5, 4.5, 1, 1)
        plot, mine = axes[0, 0], known[known["federation"] == name]
        for way, some in mine.groupby("way", sort=False):
            by_test = some.groupby("test")[["ours", "published"]].mean()
            plot.scatter(100 * by_test["published"], 100 * by_test["ours"], s=14, label=str(way))
        ends: Sequence[float] = [100 * mine["published"].min(), 100 * mine["published"].max()]
        plot.plot(ends, ends, color="0.6", linewidth=1)
        plot.set_xlabel("published, %")
        plot.set_ylabel("ours, %")
        plot.legend(fontsize=6)
        made[name] = figure
    return made


REPORT = pages.Report(_read, _page, _rows, _draw)
