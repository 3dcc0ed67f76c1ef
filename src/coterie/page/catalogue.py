"""Everything that the page says, in three languages: `texts.toml` has each text once for each of them.

A text has blanks by name, {partner}; one that counts something has a form for one and another for several,
under `.one` and `.many`. What fills a blank is never read as a text of its own.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from coterie.metrics.table import METRICS

LANGUAGES = {"en": "English", "fr": "Français", "de": "Deutsch"}
DECIMAL = {"en": ".", "fr": ",", "de": ","}
THOUSANDS = {"en": ",", "fr": "\u202f", "de": "."}
UNITS = ("B", "kB", "MB", "GB", "TB")
PREFIXES = (("k", 1e3), ("", 1.0), ("m", 1e-3), ("µ", 1e-6))
LISTED = 6  # names in a sentence


@functools.cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """{"gain.title": {"en": ..., "fr": ..., "de": ...}}"""
    table = tomllib.loads(files("coterie.page").joinpath("texts.toml").read_text(encoding="utf-8"))
    found: dict[str, Mapping[str, str]] = {}

    def walk(name: str, part: Mapping[str, Any]) -> None:
        if all(isinstance(value, str) for value in part.values()):
            found[name] = part
            return
        for key, value in part.items():
            walk(f"{name}.{key}" if name else key, value)

    walk("", table)
    return found


@dataclass(frozen=True)
class Words:
    """The texts of one language."""

    language: str = "en"

    def __call__(self, key: str, **blanks: Any) -> str:
        return texts()[key][self.language].format(**blanks)

    def of(self, key: str, otherwise: str) -> str:
        """A text that there may not be: of a method or a matrix of somebody's own, say."""
        return texts()[key][self.language] if key in texts() else otherwise

    def metric(self, name: str) -> str:
        """What a metric is called; one of somebody's own goes by the name it was given."""
        return METRICS[name].words[self.language] if name in METRICS else name

    def count(self, key: str, n: int, **blanks: Any) -> str:
        """3 rounds, 1 round"""
        return self(f"{key}.{'one' if n == 1 else 'many'}", n=self.whole(n), **blanks)

    def number(self, value: float, digits: int = 3) -> str:
        """So many significant digits, as the language writes them."""
        if not math.isfinite(value):
            return "–"
        if value and not 1e-4 <= abs(value) < 1e6:
            return f"{value:.{digits - 1}e}".replace(".", DECIMAL[self.language])
        places = 0 if value == 0 else max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return self._written(f"{value:,.{places}f}")

    def percent(self, share: float, digits: int = 0) -> str:
        """0.341 is 34 %"""
        if not math.isfinite(share):
            return "–"
        return self._written(f"{100 * share:.{digits}f}") + "\u00a0%"

    def whole(self, n: float) -> str:
        return self._written(f"{n:,.0f}")

    def size(self, n: float) -> str:
        """Bytes"""
        for unit in UNITS[:-1]:
            if n < 1000:
                return f"{self.number(n)} {unit}"
            n /= 1000
        return f"{self.number(n)} {UNITS[-1]}"

    def scaled(self, low: float, high: float, unit: str) -> str:
        """0.35 to 4.4 mWh: in thousandths or thousands, so that people can read it."""
        prefix, factor = next(((p, f) for p, f in PREFIXES if high >= f), PREFIXES[-1])
        ends = [self.number(end / factor, 2) for end in (low, high)]
        said = ends[1] if ends[0] == ends[1] else self("list.to", low=ends[0], high=ends[1])
        return f"{said}\u00a0{prefix}{unit}"

    def listed(self, names: Sequence[str], most: int = LISTED) -> str:
        """a, b and c; of many the first"""
        if len(names) > most:
            return self("list.more", names=", ".join(names[:most]), n=len(names) - most)
        if len(names) < 2:
            return "".join(names)
        return self("list.and", names=", ".join(names[:-1]), last=names[-1])

    def _written(self, text: str) -> str:
        marks = {",": THOUSANDS[self.language], ".": DECIMAL[self.language], "-": "−"}
        return "".join(marks.get(c, c) for c in text)


def language_of(wanted: str) -> str:
    """Of a browser's list: fr-CH, fr;q=0.9, en;q=0.8"""
    ranked = []
    for part in wanted.split(","):
        name, _, weight = part.partition(";q=")
        try:
            ranked.append((-float(weight or 1), name.strip().lower().partition("-")[0]))
        except ValueError:
            continue
    return next((name for _, name in sorted(ranked, key=lambda r: r[0]) if name in LANGUAGES), "en")
