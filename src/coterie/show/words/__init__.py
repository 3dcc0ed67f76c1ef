"""Everything that the page, the report and the shell say, in three languages: each text once for each.

Texts lie in a file for each room, beside this one, and in `words.toml` of a feature's or a card's own folder,
which are found by looking. A text has blanks by name, {partner}; one that counts something has a form for one
and another for several, under `.one` and `.many`. What fills a blank is never read as a text of its own.
"""

from __future__ import annotations

import contextlib
import functools
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

LANGUAGES = {"en": "English", "fr": "Français", "de": "Deutsch"}
DECIMAL = {"en": ".", "fr": ",", "de": ","}
THOUSANDS = {"en": ",", "fr": "\u202f", "de": "."}
UNITS = ("B", "kB", "MB", "GB", "TB")
PREFIXES = (("k", 1e3), ("", 1.0), ("m", 1e-3), ("µ", 1e-6))
BROUGHT = ("features", "page/cards")  # whose folders may bring words of their own
LISTED = 6  # names in a sentence


@functools.cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """{"gain.title": {"en": ..., "fr": ..., "de": ...}}"""
    found: dict[str, Mapping[str, str]] = {}

    def walk(name: str, part: Mapping[str, Any]) -> None:
        if all(isinstance(value, str) for value in part.values()):
            if name in found:
                raise ValueError(f"two texts are called {name}: give one of them another name")
            found[name] = part
            return
        for key, value in part.items():
            walk(f"{name}.{key}" if name else key, value)

    for file in _files():
        walk("", tomllib.loads(file.read_text(encoding="utf-8")))
    return found


def _files() -> list[Path]:
    """Of every room, feature and card."""
    here = Path(__file__).parent
    brought = (file for place in BROUGHT for file in here.parents[1].glob(f"{place}/*/words.toml"))
    return sorted([*here.glob("*.toml"), *brought])


_SPOKEN: ContextVar[str] = ContextVar("language", default="en")


@contextlib.contextmanager
def speaking(language: str) -> Iterator[None]:
    """The language of everything that is said inside by `say`."""
    before = _SPOKEN.set(language)
    try:
        yield
    finally:
        _SPOKEN.reset(before)


class Share(float):
    """A number that is written in per cent; 0 % is none at all, and 100 % is all."""


class Figure(str):
    """A number with the digits that it is to have, in English."""


class _Measure(str):
    """What a metric is called in English; `name` is the metric's."""

    name: str


def measure(name: str, ranged: bool = False) -> _Measure:
    """A metric as a text, in English perhaps with its range, which other languages' words have; one of
    somebody's own goes by the name it was given.
    """
    from coterie.metrics.table import NAMED  # here alone, so that data can speak before metrics do

    known = NAMED.get(name)
    made = _Measure(name if known is None else known.label + (known.range if ranged else ""))
    made.name = name
    return made


class _Translated(str):
    """A text that somebody brings in several languages, as methods do; as a text, the English one."""

    by_language: Mapping[str, str]


def translated(by_language: Mapping[str, str]) -> _Translated:
    made = _Translated(by_language.get("en", ""))
    made.by_language = by_language
    return made


class Saying(str):
    """A sentence as data: the text of a key with what fills its blanks. As a text it is the English one, so
    that files and programs know it by that; `Words.again` says it in another language.
    """

    key: str
    blanks: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"say": self.key, **{name: _told(value) for name, value in self.blanks.items()}}


def said(key: str, **blanks: Any) -> Saying:
    """Blanks are texts, whole numbers, numbers, shares, figures, lists, and other sayings."""
    made = Saying(Words("en").again({"say": key, **blanks}))
    made.key, made.blanks = key, blanks
    return made


def from_json(told: Any, otherwise: str = "") -> str:
    """A saying that a file has (`Saying.to_dict`); `otherwise` where an older one has none."""
    if not isinstance(told, Mapping) or told.get("say") not in texts():
        return str(otherwise or told or "")
    return said(told["say"], **{name: value for name, value in told.items() if name != "say"})


def known(room: str, english: str) -> str:
    """An English text that a file has, in any language if the catalogue has it below `room`."""
    some = (key for key, words in texts().items() if key.startswith(f"{room}.") and words["en"] == english)
    key = next(some, None)
    return english if key is None else said(key)


def counted(key: str, n: int, **blanks: Any) -> Saying:
    """The form for one or for several."""
    return said(f"{key}.{'one' if n == 1 else 'many'}", n=Figure(f"{n:,}".replace(",", "\u202f")), **blanks)


def listed(names: Sequence[str], most: int = 0) -> str:
    """a, b and c; of many the first `most`."""
    if most and len(names) > most:
        return said("list.more", names=list(names[:most]), n=len(names) - most)
    return (
        said("list.and", names=list(names[:-1]), last=names[-1]) if len(names) > 1 else next(iter(names), "")
    )


def semicolons(texts: Iterable[str]) -> str:
    """a; b; c"""
    return functools.reduce(lambda a, b: said("list.semicolon", first=a, second=b) if a else b, texts, "")


def sentences(*texts: str) -> str:
    """One after the other, as one text; those that are empty are left out."""
    some = [text for text in texts if text] or [""]
    return functools.reduce(lambda first, second: said("list.then", first=first, second=second), some)


def _told(value: Any) -> Any:
    if isinstance(value, Saying):
        return value.to_dict()
    if isinstance(value, Share):
        return {"share": float(value)}
    if isinstance(value, Figure):
        return {"figure": str(value)}
    if isinstance(value, _Measure | _Translated):
        return str(value)
    return [_told(v) for v in value] if isinstance(value, list | tuple) else value


class Words:
    """The texts of one language; unless it is told, of the one that is spoken."""

    def __init__(self, language: str | None = None) -> None:
        self._language = language

    @property
    def language(self) -> str:
        return self._language or _SPOKEN.get()

    def __call__(self, key: str, **blanks: Any) -> str:
        return texts()[key][self.language].format(**blanks)

    def again(self, what: Any, otherwise: str = "") -> str:
        """A saying, or what JSON had of it, in this language; `otherwise` where an older file has none."""
        if isinstance(what, Saying):
            what = {"say": what.key, **what.blanks}
        if isinstance(what, _Measure):
            return str(what) if self.language == "en" else self.metric(what.name)
        if isinstance(what, _Translated):
            return what.by_language.get(self.language, str(what))
        if isinstance(what, Figure):
            return self.written(what)
        if not isinstance(what, Mapping) or what.get("say") not in texts():
            return str(what or otherwise)
        blanks = {name: self._blank(value) for name, value in what.items() if name != "say"}
        return self(str(what["say"]), **blanks)

    def _blank(self, value: Any) -> str:
        if isinstance(value, list | tuple):
            return ", ".join(map(self._blank, value))
        of_words = isinstance(value, Saying | _Measure | _Translated)
        if of_words or (isinstance(value, Mapping) and "say" in value):
            return self.again(value)
        if isinstance(value, Figure) or (isinstance(value, Mapping) and "figure" in value):
            return self.written(str(value["figure"]) if isinstance(value, Mapping) else value)
        if isinstance(value, Share | Mapping):
            return self.share(value if isinstance(value, Share) else float(value["share"]))
        if isinstance(value, float):
            return self.written(f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e7 else f"{value:.0f}")
        return str(value)

    def share(self, share: float) -> str:
        """As findings have it: 12.3 %; next to nothing is not none."""
        if 0 < share < 0.001 or 0.999 < share < 1:
            return self("check.below" if share < 0.5 else "check.above")
        return self.written(f"{100 * share:.3g} %")

    def written(self, text: str) -> str:
        """An English number with its unit as the language writes it."""
        if self.language == "en":
            return text
        return text.replace(".", DECIMAL[self.language]).replace(" %", "\u00a0%")

    def of(self, key: str, otherwise: str) -> str:
        """A text that there may not be: of a method or a matrix of somebody's own, say."""
        return texts()[key][self.language] if key in texts() else otherwise

    def metric(self, name: str) -> str:
        """What a metric is called; one of somebody's own goes by the name it was given."""
        from coterie.metrics.table import METRICS  # here alone, so that data can speak before metrics do

        return METRICS[name].words[self.language] if name in METRICS else self.of(f"measured.{name}", name)

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


say = Words()
"""In the language that is spoken."""


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
