"""What came out, in a few sentences: the best method, against training alone, for whom, and how surely."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from coterie.methods.baselines import YARDSTICKS
from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS
from coterie.report.learnable import always_the_same, below_nothing, no_gain
from coterie.runs.record import Record
from coterie.show import numbers, views
from coterie.show.intervals import covers, kind_of
from coterie.show.numbers import figure, half_of, in_percent, label, several, whole
from coterie.show.words import Figure, Saying, said, sentences

MOST = 9  # methods that are named in a line


def headline(records: Sequence[Record]) -> str:
    """What came out, in plain words: the best method, against training alone, for whom, and what the interval
    covers. All of it is of the clients that have a figure from every method.
    """
    by_label = views.groups(records)
    metric = views.headline_metric(records)
    known = {name: views.with_figure(runs, metric) for name, runs in by_label.items()}
    known = {name: clients for name, clients in known.items() if clients.any()}
    if not known:
        return said("outcome.none", clients=several(len(records[0].clients), "client"))
    among = np.logical_and.reduce(list(known.values()))
    if not among.any():
        return said("outcome.nothing_common", methods=list(known))
    means = {name: views.over_seeds(by_label[name], metric, among=among) for name in known}
    # the best method that clients could use, alone and pooled only if there is nothing else
    sign = 1 if METRICS[metric].higher else -1
    together = [x for x in means if views.method(by_label[x][0]) not in YARDSTICKS] or list(means)
    best = max(together, key=lambda x: sign * means[x].mean)
    # that the figures chose it makes them look better than they are
    several_ways = len(together) > 1
    chosen = said("outcome.chosen", method=best, n=len(together)) if several_ways else best
    key, value = f"outcome.value.{METRICS[metric].article}", _spread(means[best], metric)
    reached = said(key, metric=label(metric), value=value)
    over = _over(records[0].clients, among, by_label)
    first = said("outcome.reached", over=over, method=chosen, reached=reached)
    unfinished = "" if all(r.finished for r in records) else said("outcome.unfinished")
    text = sentences(unfinished, _against(first, by_label, best, means, metric, among))
    pooled = [x for x, runs in by_label.items() if views.method(runs[0]) == "central" and x in means]
    for name in [x for x in pooled if x != best][:1]:  # what pooling all data would reach, if it was run
        value = _amount(means[name].mean, metric)
        text = sentences(text, said("outcome.central", method=name, value=value))
    text = sentences(text, said("covers.pm", covers=covers(records)) if "±" in text else "")
    return sentences(text, said("outcome.brackets") if re.search(r"\[[+−\d]", text) else "")


def _over(clients: Sequence[str], among: np.ndarray, by_label: views.Groups) -> Saying:
    """Whose figures these are, and over how many seeds."""
    count, of = int(among.sum()), several(len(clients), "client")
    most = max(len(runs) for runs in by_label.values())
    seeds = several(most, "seed")
    if count == len(clients):
        blanks = {"seeds": seeds} if most > 1 else {}
        return said("outcome.over_seeds" if blanks else "outcome.over", clients=of, **blanks)
    who = clients[int(among.argmax())] if count == 1 else whole(count)
    key = f"outcome.of.{'one' if count == 1 else 'some'}{'_every' if len(by_label) > 1 else ''}"
    over = said(key, who=who, clients=of)
    return said("outcome.of.seeds", over=over, seeds=seeds) if most > 1 else over


def bounds_of_gain(gain: Interval, metric: str) -> str:
    """The bounds of a gain over test rows, where there are any: " [+0.2 to +2.4]"."""
    if math.isnan(gain.low):
        return ""
    low, high = (figure(v, metric, sign=True, like=gain.mean or None) for v in (gain.low, gain.high))
    return said("outcome.bounds", low=low, high=high)


def partly(by_label: views.Groups, metric: str) -> list[Saying]:
    """Whose figures those of a method are, where some clients have none."""
    whose: dict[tuple[str, int], list[str]] = {}
    for name, runs in by_label.items():
        known = views.with_figure(runs, metric)
        names = [c for c, k in zip(runs[0].clients, known, strict=True) if k]
        if 0 < len(names) < len(known):
            who = names[0] if len(names) == 1 else str(len(names))
            whose.setdefault((who, len(names)), []).append(name)
    n = len(next(iter(by_label.values()))[0].clients)
    return [
        said(f"summary.partly.{'one' if count == 1 else 'many'}", methods=methods, who=who, n=n)
        for (who, count), methods in whose.items()
    ]


def beside_legend(records: Sequence[Record]) -> list[str]:
    """What such bounds are; or that there are none, where ± does not cover test rows."""
    by_label = views.groups(records)
    alone, metric = views.baseline(by_label), views.headline_metric(records)
    if alone is None or len(by_label) == 1:
        return []
    others = [runs for name, runs in by_label.items() if name != alone]
    gains = [views.gain_over_seeds(runs, by_label[alone], metric) for runs in others]
    if any(not math.isnan(g.low) for g in gains):
        return [said("outcome.brackets")]
    if kind_of(records) == "splits" or all(g.seeds < 2 for g in gains):
        return []
    return [said("outcome.rows_unknown")]


def _against(
    first: str, by_label: views.Groups, best: str, means: dict[str, Interval], metric: str, among: np.ndarray
) -> str:
    """How the best method compares with training alone; without that, who is worst off."""
    runs, alone = by_label[best], views.baseline(by_label)
    if alone is None or alone == best or alone not in means:
        text = said("outcome.alone", said=first)
        if among.sum() > 1:
            values = np.where(among, views.bars(best, runs, metric).mean, math.nan)
            place = int(np.nanargmin(values) if METRICS[metric].higher else np.nanargmax(values))
            worst = _amount(float(values[place]), metric)
            text = said("outcome.worst", said=first, who=runs[0].clients[place], value=worst)
        tell = alone is None and views.method(runs[0]) != "central"
        return sentences(text, said("outcome.try_local") if tell else "")

    def against(verdict: str) -> Saying:
        value = _spread(means[alone], metric)
        return said("outcome.against", said=first, alone=alone, value=value, verdict=verdict)

    gain = views.gain_over_seeds(runs, by_label[alone], metric, among)
    if below_nothing(by_label, runs, metric, among):
        same = np.where(among, always_the_same(by_label, runs, metric), math.nan)
        return against(said("outcome.same", value=_amount(float(np.nanmean(same)), metric)))
    if math.isnan(gain.mean):
        return against(said("outcome.no_pair"))
    if gain.seeds == 1:
        key = "outcome.single" if len(runs) == 1 else "outcome.single_shared"
        difference = more_or_less(gain.mean, metric)
        return against(said(key, difference=difference, bounds=bounds_of_gain(gain, metric)))
    each = np.where(among, views.gain_bars(best, runs, by_label[alone], metric).mean, math.nan)
    worthless = no_gain(by_label, runs, metric)
    return against(_who(_verdict(gain, metric), runs[0].clients, each, worthless, metric))


def more_or_less(difference: float, metric: str) -> str:
    """A difference without a verdict."""
    if difference == 0:
        return said("difference.none")
    size, more = _difference(abs(difference), metric), difference > 0
    if in_percent(metric):
        return said(f"difference.{'more' if more else 'less'}", amount=size)
    if not METRICS[metric].higher:
        return said(f"difference.{'smaller' if more else 'larger'}", amount=size)
    way = "higher" if more else "lower"
    return said(f"difference.{way}.{METRICS[metric].article}", metric=label(metric), amount=size)


def _amount(value: float, metric: str) -> Figure:
    """A metric with its unit."""
    return Figure(figure(value, metric) + (f"{numbers.GAP}%" if in_percent(metric) else ""))


def _spread(value: Interval, metric: str) -> str:
    mean = _amount(value.mean, metric)
    return mean if math.isnan(value.half) else said("outcome.spread", value=mean, half=half_of(value, metric))


def _verdict(gain: Interval, metric: str) -> str:
    """Gain or loss over several seeds, and whether they can tell it from nothing."""
    mean, half, seeds = gain.mean, gain.half, gain.seeds
    if mean == 0:
        return said("verdict.none", difference=no_difference(gain, metric))
    size, bounds = _difference(abs(mean), metric), bounds_of_gain(gain, metric)
    if math.isnan(half):
        size = said("difference.plain", amount=size, bounds=bounds)
    else:
        size = said("verdict.around", amount=size, half=half_of(gain, metric), bounds=bounds)
    if in_percent(metric):
        text = said(f"verdict.{'gains' if mean > 0 else 'loses'}", amount=size)
    elif METRICS[metric].higher:
        text = said(f"verdict.{'higher' if mean > 0 else 'lower'}", metric=label(metric), amount=size)
    else:
        text = said(f"verdict.{'smaller' if mean > 0 else 'larger'}", amount=size)
    if math.isnan(half) and math.isnan(gain.low):
        return said("verdict.each", said=text, n=seeds)
    if abs(mean) <= half:
        return said("verdict.seeds", said=text, n=seeds)
    return text if gain.side else said("verdict.rows", said=text)


def _difference(value: float, metric: str) -> str:
    """A gain with its unit; at one decimal in points."""
    text = figure(value, metric)
    if not in_percent(metric):
        return text
    return said(f"difference.points.{'one' if text == '1.0' else 'many'}", n=text)


def no_difference(gain: Interval, metric: str) -> Saying:
    """Two figures that are the same on these rows, which may differ on others: what is known of that."""
    bounds = bounds_of_gain(gain, metric)
    if math.isnan(gain.half):
        return said("difference.no_seeds", bounds=bounds)
    seeds = several(gain.seeds, "seed")
    return said("difference.no_over", half=half_of(gain, metric), seeds=seeds, bounds=bounds)


def size_of(gain: Interval, metric: str) -> Saying:
    """How much it is, whichever way it goes: "3.1 points (±1.2 over 5 seeds)", "0.42 (...) in RMSE"."""
    size, seeds = _difference(abs(gain.mean), metric), several(gain.seeds, "seed")
    if not math.isnan(gain.half):
        size = said("difference.over", amount=size, half=half_of(gain, metric), seeds=seeds)
    elif gain.seeds > 1:
        size = said("difference.alike", amount=size, seeds=seeds)
    bounds = bounds_of_gain(gain, metric)
    if in_percent(metric):
        return said("difference.plain", amount=size, bounds=bounds)
    return said("difference.in", amount=size, metric=label(metric), bounds=bounds)


def _who(text: str, clients: Sequence[str], gain: np.ndarray, worthless: np.ndarray, metric: str) -> Saying:
    """How many gain and lose in their means over seeds; of one client all is said. Who is no better off than
    with always the same answer (`worthless`) gains nothing.
    """
    gain = np.where(np.abs(gain) < 1e-9, 0.0, gain)  # rounding is no loss
    known = int(np.isfinite(gain).sum())
    if known == 1:
        return said("who.one", said=text)
    better, worse = int(((gain > 0) & ~worthless).sum()), int((gain < 0).sum())
    text = said("who.gain", said=text, n=whole(better), clients=several(known, "client"))
    if still := int(((gain > 0) & worthless).sum()):
        text = said("who.still", said=text, n=whole(still))
    if not worse:
        return said("who.none_loses", said=text)
    place = int(np.nanargmin(gain))
    lost = float(gain[place])
    loss = more_or_less(lost, metric)
    if in_percent(metric):
        loss = said("who.points", n=figure(lost, metric, sign=True))
    key = "who.loses" if worse == 1 else "who.lose"
    return said(key, said=text, n=whole(worse), who=clients[place], loss=loss)


def brief(records: Sequence[Record]) -> str:
    """Runs in a line or two, as Python shows them: of what, the mean of each method; of many the first."""
    by_label, metric = views.groups(records), views.headline_metric(records)
    parts = [several(len(records[0].clients), "client"), several(max(r.done for r in records), "round")]
    parts.append(several(len({views.seed(r) for r in records}), "seed"))
    means = []
    for name, runs in list(by_label.items())[:MOST]:
        value = numbers.spread(views.over_seeds(runs, metric), metric)
        means.append(f"{name} {value.removesuffix(f' ± {numbers.NONE}')}")
    more = f", and {len(by_label) - MOST} more" if len(by_label) > MOST else ""
    text = f"{', '.join(parts)}; test {numbers.unit(metric)}: {', '.join(means)}{more}"
    return text.replace(numbers.GAP, " ")


def share_of_time(seconds: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Parts with their seconds and their per cent of all, and the sum."""
    total = sum(seconds.values())
    rows = [(part, f"{s:.2f}", f"{100 * s / total if total else 0:.0f}") for part, s in seconds.items()]
    return [*rows, ("in all", f"{total:.2f}", "100")]
