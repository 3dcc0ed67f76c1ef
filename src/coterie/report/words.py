"""Figures as people write them, and the outcome in one sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from coterie.methods.baselines import YARDSTICKS
from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS, NAMED
from coterie.report import views
from coterie.report.kinds import covers, kind_of
from coterie.report.nothing import always_the_same, below_nothing, no_gain
from coterie.runs.record import Record

NONE = "—"
MOST = 9  # methods that are named in a line
GAP = "\u00a0"  # a space that no line ends at


def number(value: float, like: float | None = None, sign: bool = False) -> str:
    """Four significant digits, three below 1; or as many decimals as `like` gets."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value if like is None else like)
    decimals = min(6, max(0, (3 if size >= 1 else 2) - math.floor(math.log10(size)))) if size else 3
    return f"{value:{'+' if sign else ''},.{decimals}f}".replace("-", "−").replace(",", "\u202f")


def figure(value: float, metric: str, sign: bool = False, like: float | None = None) -> str:
    """A metric without its unit: accuracies in percent with one decimal."""
    if in_percent(metric) and math.isfinite(value):
        return f"{100 * value:{'+' if sign else ''}.1f}".replace("-", "−")
    return number(value, like, sign)


def factor(metric: str) -> int:
    """What a figure is multiplied by where it is drawn."""
    return 100 if in_percent(metric) else 1


def spread(value: Interval, metric: str, sign: bool = False) -> str:
    """Mean ± half its interval; — for the half where one seed, or seeds that all agree, tell none."""
    if math.isnan(value.mean):
        return NONE
    return f"{figure(value.mean, metric, sign)} ± {half_of(value, metric)}"


def half_of(value: Interval, metric: str) -> str:
    """Half of an interval, with the digits of its mean; one that would round to nothing is below the last."""
    text = figure(value.half, metric, like=value.mean)
    return f"<{text[:-1]}1" if value.half > 0 and not text.strip("0.,\u202f") else text


def in_percent(metric: str) -> bool:
    return metric in NAMED and NAMED[metric].percent


def label(metric: str) -> str:
    """A metric of somebody's own goes by the name it was given."""
    return NAMED[metric].label if metric in NAMED else metric


def called(metric: str) -> str:
    """The same, with its range where others have another."""
    return label(metric) + (NAMED[metric].range if metric in NAMED else "")


def unit(metric: str) -> str:
    return f"{called(metric)},{GAP}%" if in_percent(metric) else called(metric)


def size(count: float) -> str:
    """Bytes in steps of a thousand."""
    for name in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.{0 if name == 'B' else 1}f}{GAP}{name}"
        count /= 1000
    return f"{count:.1f}{GAP}TB"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f}{GAP}s"
    return f"{seconds / 60:.1f}{GAP}min" if seconds < 7200 else f"{seconds / 3600:.1f}{GAP}h"


def energy(kwh: float) -> str:
    """Two digits, in the unit that suits: short runs take millionths of a kWh."""
    return _two_digits(((kwh, "kWh"), (1e3 * kwh, "Wh"), (1e6 * kwh, "mWh")))


def grams(co2: float) -> str:
    """The same of CO2e."""
    return _two_digits(((co2 / 1e3, "kg"), (co2, "g"), (1e3 * co2, "mg"), (1e6 * co2, "µg")))


def _two_digits(units: Sequence[tuple[float, str]]) -> str:
    value, unit = next(((v, name) for v, name in units if v >= 1), units[-1])
    return f"{value:.0f}{GAP}{unit}" if value >= 10 else f"{value:.2g}{GAP}{unit}"


def several(many: float, what: str) -> str:
    """1 client, 2 clients."""
    return f"{many:,.0f} {what}{'' if many == 1 else 's'}".replace(",", "\u202f")


def whole(value: float) -> str:
    """A count with its thousands apart; one decimal where a mean over seeds is no whole number."""
    return f"{value:,.{0 if float(value).is_integer() else 1}f}".replace(",", "\u202f")


def headline(records: Sequence[Record]) -> str:
    """What came out, in plain words: the best method, against training alone, for whom, and what the interval
    covers. All of it is of the clients that have a figure from every method.
    """
    by_label = views.groups(records)
    metric = views.headline_metric(records)
    known = {label: views.with_figure(runs, metric) for label, runs in by_label.items()}
    known = {label: clients for label, clients in known.items() if clients.any()}
    if not known:
        everybody = several(len(records[0].clients), "client")
        return f"Over {everybody}, there is no test score yet: no round was scored."
    among = np.logical_and.reduce(list(known.values()))
    if not among.any():
        return f"{', '.join(known)} have no client with figures from all in common: none is called the best."
    start = "" if all(r.finished for r in records) else "Some runs are unfinished. "
    start += _over(records[0].clients, among, by_label)
    means = {label: views.over_seeds(by_label[label], metric, among=among) for label in known}
    label, of = _best(by_label, means, metric)
    said = f"{start}, {label}{_chosen(of)} reaches {_reached(means[label], metric)}"
    said += _against(by_label, label, means, metric, among)
    said += _yardstick(by_label, means, metric, label)
    said += f" ± is {covers(records)}." if "±" in said else ""
    return f"{said} {BRACKETS}" if re.search(r"\[[+−\d]", said) else said


def _over(clients: Sequence[str], among: np.ndarray, by_label: views.Groups) -> str:
    """Whose figures these are, and over how many seeds."""
    count, of = int(among.sum()), several(len(clients), "client")
    seeds = max(len(runs) for runs in by_label.values())
    if count == len(clients):
        return f"Over {of}" + (f" and {several(seeds, 'seed')}" if seeds > 1 else "")
    who = f"{clients[int(among.argmax())]}, the only one" if count == 1 else f"the {whole(count)}"
    why = " from every method" if len(by_label) > 1 else ""
    return f"For {who} of {of} with a figure{why}" + (f", over {several(seeds, 'seed')}" if seeds > 1 else "")


def _best(by_label: views.Groups, means: dict[str, Interval], metric: str) -> tuple[str, int]:
    """The best method that clients could use, alone and pooled only if there is nothing else; and of how
    many it is the best.
    """
    sign = 1 if METRICS[metric].higher else -1
    together = [x for x in means if views.method(by_label[x][0]) not in YARDSTICKS]
    candidates = together or list(means)
    return max(candidates, key=lambda x: sign * means[x].mean), len(candidates)


def _chosen(of: int) -> str:
    """That the figures chose it, which makes them look better than they are."""
    return f" (the best of {of} by these very test rows, so it looks better than it is)" if of > 1 else ""


BRACKETS = "In brackets: the 95 % interval of a gain over which test rows there happened to be."


def beside(gain: Interval, metric: str) -> str:
    """The bounds of a gain over test rows, where there are any: " [+0.2 to +2.4]"."""
    if math.isnan(gain.low):
        return ""
    low, high = (figure(v, metric, sign=True, like=gain.mean or None) for v in (gain.low, gain.high))
    return f" [{low} to {high}]"


def beside_legend(records: Sequence[Record]) -> list[str]:
    """What such bounds are; or that there are none, where ± does not cover test rows."""
    by_label = views.groups(records)
    alone, metric = views.baseline(by_label), views.headline_metric(records)
    if alone is None or len(by_label) == 1:
        return []
    others = [runs for label, runs in by_label.items() if label != alone]
    gains = [views.gain_over_seeds(runs, by_label[alone], metric) for runs in others]
    if any(not math.isnan(g.low) for g in gains):
        return [BRACKETS]
    if kind_of(records) == "splits" or all(g.seeds < 2 for g in gains):
        return []
    return ["What other test rows would say of a gain is not known of these runs."]


def _against(
    by_label: views.Groups, label: str, means: dict[str, Interval], metric: str, among: np.ndarray
) -> str:
    """How the best method compares with training alone; without that, who is worst off."""
    runs, alone = by_label[label], views.baseline(by_label)
    if alone is None or alone == label or alone not in means:
        said = "."
        if among.sum() > 1:
            place, value = _worst(runs, metric, among)
            said = f"; the worst-off client, {place}, has {_amount(value, metric)}."
        if alone is None and views.method(runs[0]) != "central":
            said += " A run of local on the same clients would tell what training together brings."
        return said
    said = f", {alone} (each client by itself) {_spread(means[alone], metric)}: "
    gain = views.gain_over_seeds(runs, by_label[alone], metric, among)
    if below_nothing(by_label, runs, metric, among):
        same = np.where(among, always_the_same(by_label, runs, metric), math.nan)
        return f"{said}no gain, as always the same answer has {_amount(float(np.nanmean(same)), metric)}."
    if math.isnan(gain.mean):
        return f"{said}they share no seed, so they are not compared."
    if gain.seeds == 1:
        single = "a single run" if len(runs) == 1 else "the one seed they share"
        said += f"{more_or_less(gain.mean, metric)}{beside(gain, metric)} in {single}"
        return f"{said}, which only more seeds can tell from chance."
    each = np.where(among, views.gain_bars(label, runs, by_label[alone], metric).mean, math.nan)
    worthless = no_gain(by_label, runs, metric)
    return said + _verdict(gain, metric) + _who(runs[0].clients, each, worthless, metric)


def more_or_less(difference: float, metric: str) -> str:
    """A difference without a verdict."""
    if difference == 0:
        return "no difference"
    amount, more = _difference(abs(difference), metric), difference > 0
    if in_percent(metric):
        return f"{amount} {'more' if more else 'less'}"
    return f"{article(metric)} {moved(metric)} {amount} {way(metric, more)}"


def moved(metric: str) -> str:
    """What goes up or down, of a metric that is not in per cent."""
    return label(metric) if METRICS[metric].higher else "error"


def article(metric: str) -> str:
    return METRICS[metric].article if METRICS[metric].higher else "an"


def way(metric: str, better: bool) -> str:
    """Which way it goes where a client fares better, or worse."""
    if METRICS[metric].higher:
        return "higher" if better else "lower"
    return "smaller" if better else "larger"


def _amount(value: float, metric: str) -> str:
    return figure(value, metric) + (f"{GAP}%" if in_percent(metric) else "")


def _spread(value: Interval, metric: str) -> str:
    said = _amount(value.mean, metric)
    return said if math.isnan(value.half) else f"{said} (±{half_of(value, metric)})"


def _reached(value: Interval, metric: str) -> str:
    return f"{METRICS[metric].article} {label(metric)} of {_spread(value, metric)}"


def _verdict(gain: Interval, metric: str) -> str:
    """Gain or loss over several seeds, and whether they can tell it from nothing."""
    mean, half, seeds = gain.mean, gain.half, gain.seeds
    if mean == 0:
        return f"training together makes {no_difference(gain, metric)}"
    around = "" if math.isnan(half) else f" (±{half_of(gain, metric)})"
    amount = f"{_difference(abs(mean), metric)}{around}{beside(gain, metric)}"
    if in_percent(metric):
        said = f"training together {'gains' if mean > 0 else 'loses'} {amount}"
    else:
        said = f"training together makes the {moved(metric)} {amount} {way(metric, mean > 0)}"
    if math.isnan(half) and math.isnan(gain.low):
        return f"{said} in each of {seeds} seeds, which without any spread cannot be told from none"
    if abs(mean) <= half:
        return f"{said}, which {seeds} seeds cannot tell from none"
    return said if gain.side else f"{said}, which these test rows cannot tell from none"


def _difference(value: float, metric: str) -> str:
    """A gain with its unit; at one decimal in points."""
    text = figure(value, metric)
    return f"{text} point{'' if text == '1.0' else 's'}" if in_percent(metric) else text


def no_difference(gain: Interval, metric: str) -> str:
    """Two figures that are the same on these rows, which may differ on others: what is known of that."""
    return f"no difference on these rows{_over_seeds(gain, metric)}{beside(gain, metric)}"


def _over_seeds(gain: Interval, metric: str) -> str:
    known = not math.isnan(gain.half)
    return f" (±{half_of(gain, metric)} over {several(gain.seeds, 'seed')})" if known else ""


def size_of(gain: Interval, metric: str) -> str:
    """How much it is, whichever way it goes: "3.1 points (±1.2 over 5 seeds)", "0.42 (...) in RMSE"."""
    same = f" (the same in {several(gain.seeds, 'seed')})" if gain.seeds > 1 else ""
    half = _over_seeds(gain, metric) or same
    what = "" if in_percent(metric) else f" in {label(metric)}"
    return f"{_difference(abs(gain.mean), metric)}{half}{what}{beside(gain, metric)}"


def _who(clients: Sequence[str], gain: np.ndarray, worthless: np.ndarray, metric: str) -> str:
    """How many gain and lose in their means over seeds; of one client all is said. Who is no better off than
    with always the same answer (`worthless`) gains nothing.
    """
    gain = np.where(np.abs(gain) < 1e-9, 0.0, gain)  # rounding is no loss
    known = int(np.isfinite(gain).sum())
    if known == 1:
        return "."
    better, worse = int(((gain > 0) & ~worthless).sum()), int((gain < 0).sum())
    said = f"; in their means over seeds, {whole(better)} of {several(known, 'client')} gain"
    if still := int(((gain > 0) & worthless).sum()):
        said += f" ({whole(still)} more have no better than always the same answer)"
    if not worse:
        return f"{said}, none loses."
    place = int(np.nanargmin(gain))
    loss = f"with {figure(float(gain[place]), metric, sign=True)} points"
    if not in_percent(metric):
        by = figure(-float(gain[place]), metric)
        loss = f"with {article(metric)} {moved(metric)} {by} {way(metric, better=False)}"
    largest = "loses:" if worse == 1 else "lose, the largest loss is"
    return f"{said}, {whole(worse)} {largest} {clients[place]} {loss}."


def _worst(runs: Sequence[Record], metric: str, among: np.ndarray) -> tuple[str, float]:
    values = np.where(among, views.bars(runs[0].label, runs, metric).mean, math.nan)
    place = int(np.nanargmin(values) if METRICS[metric].higher else np.nanargmax(values))
    return runs[0].clients[place], float(values[place])


def _yardstick(by_label: views.Groups, means: dict[str, Interval], metric: str, told: str) -> str:
    """What pooling all data would reach, if it was run and is not the one just told of."""
    for label, runs in by_label.items():
        if views.method(runs[0]) == "central" and label != told and label in means:
            return f" All data in one place ({label}) would reach {_amount(means[label].mean, metric)}."
    return ""


def brief(records: Sequence[Record]) -> str:
    """Runs in a line or two: of what, and the mean of each method; of many methods the first."""
    by_label, metric = views.groups(records), views.headline_metric(records)
    parts = [several(len(records[0].clients), "client"), several(max(r.done for r in records), "round")]
    parts.append(several(len({views.seed(r) for r in records}), "seed"))
    known = {label: spread(views.over_seeds(runs, metric), metric) for label, runs in by_label.items()}
    said = [f"{label} {value.removesuffix(f' ± {NONE}')}" for label, value in list(known.items())[:MOST]]
    more = f", and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"{', '.join(parts)}; test {unit(metric)}: {', '.join(said)}{more}".replace(GAP, " ")


def share_of_time(seconds: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Parts with their seconds and their per cent of all, and the sum."""
    total = sum(seconds.values())
    rows = [(part, f"{s:.2f}", f"{100 * s / total if total else 0:.0f}") for part, s in seconds.items()]
    return [*rows, ("in all", f"{total:.2f}", "100")]
