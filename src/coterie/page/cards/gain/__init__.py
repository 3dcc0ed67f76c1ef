"""What do I gain: this client's own model on its own test rows, beside training alone on the same rows.

gain        the difference in the headline figure; its interval is the wider, at either end, of that over
            seeds and that over test rows (a paired bootstrap, `metrics/bootstrap.py`), or, while a site's run
            goes on, that of two accuracies (`operating.difference`). It is clear as in reports
            (`Interval.side`): never from one seed alone
threshold   sensitivity, specificity and net benefit at a probability that the reader moves
            (`metrics/operating.py`)
trust       how often it is right when it says how sure it is, and what it is worth to let it be silent
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.core.errors import CoterieError
from coterie.core.seeds import Key
from coterie.methods.baselines import NOTHING
from coterie.metrics import bootstrap, operating
from coterie.metrics.summary import Interval
from coterie.metrics.table import BY_ROW, METRICS
from coterie.page.card import Card, Cell, table_of
from coterie.page.cards.gain.pictures import Rows, pictures
from coterie.page.view import View, figure
from coterie.report.learnable import no_gain
from coterie.runs.artifacts import read_probabilities
from coterie.runs.record import Record
from coterie.show import numbers, views
from coterie.show.blocks import Table
from coterie.show.plotly import tidy
from coterie.show.words import Words
from coterie.sites.leaks import NAMED

NAME, ORDER = "gain", 30
_COLUMNS = ("measure", "together", "alone", "difference")


def card(view: View, say: Words) -> Card:
    metric = views.headline_metric([view.record])
    mine, theirs = _rows_of(view, view.record), _rows_of(view, view.alone[0]) if view.alone else None
    gain, wide = gain_over_alone(view, metric, mine, theirs)
    known = mine if mine is not None and len(mine[1]) else None
    return Card(
        NAME,
        answer(view, metric, gain, say),
        [
            *_leak_lines(view, say),
            *_level_lines(view, metric, say),
            *interval_lines(metric, gain, wide, say),
            *_abstention_line(mine, say),
        ],
        pictures(view, metric, mine, theirs, say),
        _table(view, say),
        _how(view, mine, say),
        "cards/gain/threshold.html" if known else "",
        _slider(view, known, theirs, say) if known else {},
    )


def _rows_of(view: View, record: Record) -> Rows | None:
    """What the model in use says of each of this client's test rows, recalibrated if it is: of a run in one
    process from its folder, at a site from beside its own model, and nowhere else.
    """
    try:
        found = record.of("probabilities")
        if found is not None:
            p, y = found.of(view.number)
            changed = (record.of("recalibration") or {}).get(view.client)
            return (changed.found.of_probabilities(p), y) if changed and changed.found else (p, y)
        if view.site is None:
            return None
        runs = ((path, run) for study in (view.study, *view.kin) for path, run in study.runs.items())
        folder = next(path for path, run in runs if run.record is record)
        told = json.loads((folder / "model.json").read_bytes())
        mine = read_probabilities(view.site.state / str(told["model"]))
        return None if mine is None else mine.of(0)
    except (CoterieError, OSError, ValueError, LookupError, TypeError):
        return None  # there is none, or it cannot be read: the rest of the card does without


def gain_over_alone(
    view: View, metric: str, mine: Rows | None, theirs: Rows | None
) -> tuple[Interval | None, bool]:
    """None where nobody trained alone, or there is no figure yet; and whether its interval is wider than need
    be, as it is not known which rows are right.
    """
    if not view.alone:
        return None, False
    found = views.gain_by_client(view.runs, view.alone, metric)[view.number]
    if math.isnan(found.mean):
        return None, False
    unknown = math.isnan(found.half) and math.isnan(found.low) and metric == "accuracy"
    if found.seeds > 1 and found.mean != 0:
        return found, False  # the rows of one seed prove nothing of a gain in several
    if unknown and mine is not None and theirs is not None and np.array_equal(mine[1], theirs[1]):
        low, high = over_rows(mine, theirs)
        return found._replace(low=low, high=high), False
    if unknown and (rows := _rows_tested(view)):
        finals = (views.final(runs[0], "accuracy")[view.number] for runs in (view.runs, view.alone))
        low, high = operating.difference(*(operating.share(round(right * rows), rows) for right in finals))
        return found._replace(low=low, high=high), True
    return found, False


def _rows_tested(view: View) -> int:
    return int(view.record.about["clients"][view.number].get("test") or 0)


def over_rows(mine: Rows, theirs: Rows) -> tuple[float, float]:
    """Bounds of a gain in accuracy over test rows, as in reports of runs in one process."""
    if len(mine[1]) < 2:
        return math.nan, math.nan
    ours, alone = ((p.argmax(axis=1) == y).astype(float)[None] for p, y in (mine, theirs))
    rows, figure = np.array([len(mine[1])]), BY_ROW["accuracy"]
    draws = bootstrap.differences(ours, alone, rows, figure, Key(0).at("rows").numpy())
    low, high = bootstrap.bounds_by_client(draws, rows, figure)[:, 0]
    return float(low), float(high)


def _leak_lines(view: View, say: Words) -> list[str]:
    """Columns that tell the outcome alone in this client's training rows, or in everybody's, before any
    figure.
    """
    lines = []
    for leak in view.record.about.get("leaks") or ():
        if leak["site"] in ("", view.client):
            told = {"column": leak["column"], "rows": say.whole(leak["rows"])}
            told |= {"figure": f"{leak['measure']} {say.number(leak['score'])}"} if leak["measure"] else {}
            lines.append(say("gain.leak" if leak["measure"] else "gain.leaking", **told))
    return lines[:NAMED]


def _amount(value: float, metric: str, say: Words) -> str:
    """A difference: points of per cent, or a number."""
    if numbers.in_percent(metric):
        return say.number(100 * value, 2 if abs(value) < 0.1 else 3)
    return say.number(value, 2)


def answer(view: View, metric: str, gain: Interval | None, say: Words) -> str:
    if not math.isfinite(views.final(view.record, metric)[view.number]):
        return say("gain.not_yet")
    if view.method == "local":
        return say("gain.is_alone")
    if view.method == NOTHING:
        return say("gain.is_nothing")
    groups = {view.label: view.runs, **({NOTHING: view.nothing} if view.nothing else {})}
    if bool(no_gain(groups, view.runs, metric)[view.number]):
        now = _mean_of(view.runs, metric, view.number)
        return say("gain.below", metric=say.metric(metric), value=figure(now, metric, say))
    if gain is None:
        return say("gain.no_alone")
    sizes = zip(("amount", "low", "high"), (abs(gain.mean), *gain.bounds), strict=True)
    blanks = {name: _amount(value, metric, say) for name, value in sizes}
    points = "points" if numbers.in_percent(metric) else "number"
    return say(f"gain.{points}.{_verdict(gain)}", metric=say.metric(metric), **blanks)


def _verdict(gain: Interval) -> str:
    """Which text is true of it."""
    low, high = gain.bounds
    if gain.mean == 0:
        return "same"
    if math.isnan(low):
        return "better" if gain.mean > 0 else "worse"
    if gain.side:
        return "clear" if gain.side > 0 else "harm"
    if low <= 0 <= high:
        return "unclear"
    return "once_better" if gain.mean > 0 else "once_worse"  # test rows can tell, a single seed cannot


def _level_lines(view: View, metric: str, say: Words) -> list[str]:
    now, before = (_mean_of(runs, metric, view.number) for runs in (view.runs, view.alone))
    if not math.isfinite(now):
        return []
    blanks = {"metric": say.metric(metric), "value": figure(now, metric, say)}
    blanks["rows"] = say.whole(_rows_tested(view))
    blanks |= {"alone": figure(before, metric, say)} if math.isfinite(before) else {}
    line = say("gain.levels" if "alone" in blanks else "gain.level", **blanks)
    return [line, *without_model(view, metric, say)]


def without_model(view: View, metric: str, say: Words) -> list[str]:
    """What always the class that is most frequent in training would have on the test rows, where it is known:
    an accuracy by itself says little. The mean over seeds, as the level beside it: each may have other rows.
    """
    each = [run.about["clients"][view.number].get("labels") for run in view.runs]
    if metric != "accuracy" or not all(of and sum(of[0]) and sum(of[-1]) for of in each):
        return []
    most = [max(range(len(train)), key=lambda c: train[c]) for train, *_ in each]
    names = list(view.record.about.get("classes") or ())
    named = [names[c] if c < len(names) else str(c) for c in dict.fromkeys(most)]
    share = float(np.mean([of[-1][c] / sum(of[-1]) for of, c in zip(each, most, strict=True)]))
    return [say("gain.no_model", name=" / ".join(named), value=figure(share, metric, say))]


def _mean_of(runs: Sequence[Record], metric: str, client: int) -> float:
    """A client's last figure, the mean over seeds; NaN where there is none."""
    return float(np.mean([views.final(r, metric)[client] for r in runs])) if runs else math.nan


def interval_lines(metric: str, gain: Interval | None, wide: bool, say: Words) -> list[str]:
    """What the interval is of."""
    if gain is None:
        return []
    low, high = gain.bounds
    if math.isnan(low):
        return [say("gain.one_seed")]
    said = []
    if gain.mean == 0:
        points = "points" if numbers.in_percent(metric) else "number"
        ends = {"low": _amount(low, metric, say), "high": _amount(high, metric, say)}
        said = [say(f"gain.{points}.same_range", **ends)]
    over = "wide" if wide else "over_rows"
    if math.isfinite(gain.half):
        over = "over_both" if math.isfinite(gain.low) else "over_seeds"
    return [*said, say(f"gain.{over}", n=gain.seeds)]


def _abstention_line(mine: Rows | None, say: Words) -> list[str]:
    """Abstention in one sentence: at the confidence that leaves three quarters of the rows answered."""
    if mine is None or not len(mine[1]):
        return []
    answered, right = operating.abstention(*mine, operating.grid())
    at = int(np.flatnonzero(answered.value >= 0.75)[-1])
    shares = {"at": operating.grid()[at], "answered": answered.value[at]}
    shares |= {"right": right.value[at], "whole": right.value[0]}
    return [say("gain.silent", **{name: say.percent(share) for name, share in shares.items()})]


def _how(view: View, mine: Rows | None, say: Words) -> list[str]:
    lines = [say("gain.how"), say("gain.how_interval")]
    if view.record.about["task"] == "classification":
        kinds = ("threshold", "benefit", "calibration", "silent")
        lines += [say(f"gain.how_{kind}") for kind in kinds]
        changed = (view.record.of("recalibration") or {}).get(view.client)
        if changed and changed.found:
            lines.append(say("gain.how_recalibrated"))
        if mine is None:
            lines.append(say("gain.no_rows"))
    return lines


def _slider(view: View, mine: Rows, theirs: Rows | None, say: Words) -> dict[str, Any]:
    """What the template and page.js need, with the words beside it: for each class, sensitivity and
    specificity at 101 thresholds, each as [value, low, high], and the net benefit of the model and of
    treating all; the page moves over them. Of two classes the outcome stands first (`positive_class` in
    `runs/about.py`).
    """
    classes = list(view.record.about["classes"]) or [str(c) for c in range(mine[0].shape[1])]
    own = int(view.record.about.get("positive", 1))
    sides = {"together": mine, "alone": theirs}
    known = {name: rows for name, rows in sides.items() if rows is not None and len(rows[1])}
    told = []
    for c in (own, 1 - own) if len(classes) == 2 else range(len(classes)):
        positive = int((mine[1] == c).sum())
        one = {"class": classes[c], "positive": positive, "negative": len(mine[1]) - positive}
        told.append(one | {name: _at_thresholds(rows, c) for name, rows in known.items()})
    named = ("together", "alone", "sensitivity", "specificity", "net_benefit", "treat_all", "sick", "well")
    words = {key: say(f"gain.{key}") for key in named}
    names = [(str(i), one["class"]) for i, one in enumerate(told)]
    threshold = {"classes": told, "two": len(classes) == 2, "words": words, "language": say.language}
    return {"threshold": threshold, "names": names}


def _at_thresholds(rows: Rows, c: int) -> dict[str, Any]:
    counts = operating.counts(rows[0][:, c], rows[1] == c, operating.grid())
    made = {"sensitivity": operating.sensitivity(counts), "specificity": operating.specificity(counts)}
    found = {name: [tidy(part) for part in share] for name, share in made.items()}
    both = (counts, operating.treating_all(counts))
    return {**found, "net_benefit": [tidy(operating.net_benefit(c, operating.grid())) for c in both]}


def _table(view: View, say: Words) -> Table:
    """Every measure, together and alone."""
    rows = []
    for metric in views.metrics_to_show([view.record]):
        mine, alone = (_mean_of(runs, metric, view.number) for runs in (view.runs, view.alone))
        if not math.isfinite(mine):
            continue
        row: list[Cell] = [(metric, say.metric(metric)), (mine, figure(mine, metric, say))]
        if math.isfinite(alone):
            gain, better = mine - alone, metric not in METRICS or METRICS[metric].higher
            mark = "" if gain == 0 else " ▲" if (gain > 0) == better else " ▼"
            row += [(alone, figure(alone, metric, say)), (gain, _amount(gain, metric, say) + mark)]
        rows.append(row if math.isfinite(alone) else [*row, (None, "–"), (None, "–")])
    return table_of(NAME, _COLUMNS, rows, say)
