"""Numbers as people read them: metrics, bytes, seconds, energy. Who renders one writes it in its language."""

from __future__ import annotations

import math
from collections.abc import Sequence

from coterie.metrics.summary import Interval
from coterie.metrics.table import NAMED
from coterie.show.words import Figure, Saying, counted, measure, said

NONE = "—"
GAP = "\u00a0"  # a space that no line ends at


def number(value: float, like: float | None = None, sign: bool = False) -> Figure:
    """Four significant digits, three below 1; or as many decimals as `like` gets."""
    if math.isnan(value):
        return Figure(NONE)
    if math.isinf(value):
        return Figure("∞" if value > 0 else "−∞")
    size = abs(value if like is None else like)
    decimals = min(6, max(0, (3 if size >= 1 else 2) - math.floor(math.log10(size)))) if size else 3
    return Figure(f"{value:{'+' if sign else ''},.{decimals}f}".replace("-", "−").replace(",", "\u202f"))


def figure(value: float, metric: str, sign: bool = False, like: float | None = None) -> Figure:
    """A metric without its unit: accuracies in percent with one decimal."""
    if in_percent(metric) and math.isfinite(value):
        return Figure(f"{100 * value:{'+' if sign else ''}.1f}".replace("-", "−"))
    return number(value, like, sign)


def factor(metric: str) -> int:
    """What a figure is multiplied by where it is drawn."""
    return 100 if in_percent(metric) else 1


def spread(value: Interval, metric: str, sign: bool = False) -> Figure:
    """Mean ± half its interval; — for the half where one seed, or seeds that all agree, tell none."""
    if math.isnan(value.mean):
        return Figure(NONE)
    return Figure(f"{figure(value.mean, metric, sign)} ± {half_of(value, metric)}")


def half_of(value: Interval, metric: str) -> Figure:
    """Half of an interval, with the digits of its mean; one that would round to nothing is below the last."""
    text = figure(value.half, metric, like=value.mean)
    return Figure(f"<{text[:-1]}1") if value.half > 0 and not text.strip("0.,\u202f") else text


def in_percent(metric: str) -> bool:
    return metric in NAMED and NAMED[metric].percent


label = measure


def called(metric: str) -> str:
    """The same, with its range where others have another."""
    return measure(metric, ranged=True)


def unit(metric: str) -> str:
    return said("number.percent", metric=called(metric)) if in_percent(metric) else called(metric)


def size(count: float) -> Figure:
    """Bytes in steps of a thousand."""
    for name in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return Figure(f"{count:.{0 if name == 'B' else 1}f}{GAP}{name}")
        count /= 1000
    return Figure(f"{count:.1f}{GAP}TB")


def duration(seconds: float) -> Figure:
    if seconds < 120:
        return Figure(f"{seconds:.1f}{GAP}s")
    return Figure(f"{seconds / 60:.1f}{GAP}min" if seconds < 7200 else f"{seconds / 3600:.1f}{GAP}h")


def energy(kwh: float) -> Figure:
    """Two digits, in the unit that suits: short runs take millionths of a kWh."""
    return _two_digits(((kwh, "kWh"), (1e3 * kwh, "Wh"), (1e6 * kwh, "mWh")))


def grams(co2: float) -> Figure:
    """The same of CO2e."""
    return _two_digits(((co2 / 1e3, "kg"), (co2, "g"), (1e3 * co2, "mg"), (1e6 * co2, "µg")))


def _two_digits(units: Sequence[tuple[float, str]]) -> Figure:
    value, unit = next(((v, name) for v, name in units if v >= 1), units[-1])
    return Figure(f"{value:.0f}{GAP}{unit}" if value >= 10 else f"{value:.2g}{GAP}{unit}")


def several(many: float, what: str) -> Saying:
    """1 client, 2 clients: of what the catalogue has under `count`."""
    return counted(f"count.{what.replace(' ', '_')}", round(many))


def whole(value: float) -> Figure:
    """A count with its thousands apart; one decimal where a mean over seeds is no whole number."""
    return Figure(f"{value:,.{0 if float(value).is_integer() else 1}f}".replace(",", "\u202f"))
