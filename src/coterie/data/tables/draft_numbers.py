"""One rule for a column of numbers: how each site writes them, and in which unit.

A header that names a unit tells it for its own site. Of a site whose header is silent the unit is a question:
proposed is what its values say beside those of sites that name theirs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from coterie.data.tables.names import CONVERSIONS, Conversion, conversion, conversions_for, name_and_unit
from coterie.data.tables.numerals import NAMES, OTHER, Writing, marks_of, two_readings
from coterie.data.tables.recipe import Here
from coterie.data.tables.texts import cell_text, number_of, some

if TYPE_CHECKING:
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.profile import Profile, Profiles

BOUNDED = re.compile(r"\s*[<>≤≥~]?=?\s*([+\u2212-]?[\d.,]+)\s*\*?\s*")  # <5, >=300, 12*
ANOTHER_UNIT = 1.6  # medians further apart than this may be in different units
FITTING = 1.25  # converted medians this near each other speak for a conversion
FAR_APART = 5.0  # medians further apart are worth a question, conversion or not


def propose_number(draft: Draft) -> None:
    profiles, pooled = draft.profiles, draft.pooled
    named = {s: u for s in profiles if (u := name_and_unit(draft.group.headers[s])[1])}
    levels = {s: float(np.median(n)) for s, f in profiles.items() if len(n := f.numbers())}
    guessed = _guesses(draft.name, named, levels)
    unit = _common_unit(named, guessed, profiles)
    draft.use("number", unit=unit)
    _ways_of_writing(draft)
    _odd_numbers(draft)
    for site, there in named.items():
        if there != unit:
            _convert(draft, site, there, conversion(draft.name, there, unit))
    if named:
        _ask_units(draft, guessed, levels)
    if pooled.kind == "number":
        _by_medians(draft, named)
    _thousands(draft)
    draft.why = f"from {_bound(draft, min):g} to {_bound(draft, max):g}"
    numbers = pooled.values.numbers()
    whole = np.unique(numbers[~np.isnan(numbers)])
    if 3 <= len(whole) <= 6 and (whole % 1 == 0).all() and pooled.known >= 30:
        few = some([f"{v:g}" for v in whole], 6)
        draft.says.append(
            f"holds {len(whole)} whole numbers only ({few}): "
            'if they are codes, write use = "category" and values'
        )


def _guesses(name: str, named: Mapping[str, str], levels: Mapping[str, float]) -> dict[str, str]:
    """{site whose header is silent: the unit in which its level is nearest to that of sites that name theirs,
    empty where it is near in none}; of a column that some header tells the unit of.
    """
    units = dict.fromkeys([*named.values(), *(u for k in CONVERSIONS for u in (k.here, k.there))])
    usual = dict[str, float]()
    for unit in units:
        known = [(conversion(name, there, unit), levels[s]) for s, there in named.items() if s in levels]
        made = [by(level) for by, level in known if by is not None]
        if made:
            usual[unit] = float(np.median(made))
    found = dict[str, str]()
    for site, level in levels.items() if named else ():
        if site not in named:
            best = min(usual, key=lambda u: _apart(level, usual[u]), default="")
            found[site] = best if best and _apart(level, usual[best]) < ANOTHER_UNIT else ""
    return found


def _common_unit(named: Mapping[str, str], guessed: Mapping[str, str], profiles: Profiles) -> str:
    """What most sites have, of which headers name it before those of which values tell it."""
    sites, rows = Counter[str](), Counter[str]()
    for site, unit in {**guessed, **named}.items():
        if unit:
            sites[unit] += 1
            rows[unit] += profiles[site].known
    first = list(named.values())
    return max(sites, key=lambda u: (sites[u], u in first, rows[u]), default="")


def _ask_units(draft: Draft, guessed: Mapping[str, str], levels: Mapping[str, float]) -> None:
    """What a silent header means is never taken for granted."""
    unit = draft.rule.unit
    for guess in dict.fromkeys(guessed.values()):
        sites = [s for s in guessed if guessed[s] == guess]
        level = ", ".join(f"{levels[s]:g}" for s in sites)
        where = f"under {', '.join(f'at.{s}' for s in sites)}"
        by = conversion(draft.name, guess, unit) if guess and guess != unit else None
        ask = f"its unit is not named at {', '.join(sites)} (median {level})"
        if not guess:
            ask += f", and no unit that others have fits: read as {unit}. If not, write unit {where}"
        elif by is None:
            ask += f": read as {guess}, as values of sites that name theirs say. If not, write unit {where}"
        else:
            for site in sites:
                draft.differs(site, unit=guess, factor=by.factor, offset=by.offset)
            ask += f": in {guess}, not {unit}? Converted, {_formula(by)}. If not, take it out {where}"
        draft.asks.append(ask)


def _convert(draft: Draft, site: str, there: str, by: Conversion | None) -> None:
    """The header tells the unit, so that nothing is asked where the conversion is known."""
    unit = draft.rule.unit
    if by is None:
        draft.differs(site, unit=there, absent=True)
        draft.asks.append(
            f"{site} has {there}, others {unit}: write factor under at.{site}; until then it counts "
            "as absent there"
        )
    else:
        draft.differs(site, unit=there, factor=by.factor, offset=by.offset)
        draft.says.append(f"converted from {there} to {unit} at {site}, {_formula(by)}")


def _formula(by: Conversion) -> str:
    return f"value x {by.factor:.6g}" + (f" {by.offset:+.6g}" if by.offset else "")


def _by_medians(draft: Draft, named: Mapping[str, str]) -> None:
    """Asks whether a site whose median is far from the others' has another unit; where headers name units,
    silent sites were asked about, and what a header says is not converted.
    """
    medians, rows = dict[str, float](), dict[str, int]()
    for site, found in draft.profiles.items():
        numbers = found.numbers()
        if len(numbers) >= 5 and draft.here.get(site, Here()).factor is None:
            medians[site], rows[site] = float(np.median(numbers)), len(numbers)
    if len(medians) < 2 or min(medians.values()) <= 0:
        return
    near = {s: [o for o in medians if _apart(medians[s], medians[o]) < ANOTHER_UNIT] for s in medians}
    lead = max(medians, key=lambda s: (len(near[s]), sum(rows[o] for o in near[s])))
    usual = float(np.median([medians[s] for s in near[lead]]))
    for site, median in medians.items():
        if site in near[lead] or (named and site not in named):
            continue
        level = f"its median is {median:g} at {site}, {usual:g} elsewhere"
        for known in conversions_for(draft.name):
            fits = known.by(median) > 0 and _apart(known.by(median), usual) < FITTING
            if fits and site in named:
                draft.asks.append(f"{level}: its header says {named[site]}, are they in {known.there}?")
                break
            if fits and draft.rule.unit in ("", known.here):
                draft.rule = replace(draft.rule, unit=known.here)
                draft.differs(site, unit=known.there, factor=known.by.factor, offset=known.by.offset)
                draft.asks.append(
                    f"{level}: in {known.there}, not {known.here}? Converted, {_formula(known.by)}"
                )
                break
        else:
            if _apart(median, usual) > FAR_APART:
                draft.asks.append(f"{level}: another unit? If so, write unit and factor under at.{site}")


def _bound(draft: Draft, which: Callable[[list[float]], float]) -> float:
    """The least or greatest number of all sites, converted."""
    found = list[float]()
    for site, profile in draft.profiles.items():
        here, numbers = draft.here.get(site, Here()), [v for v in profile.read().tolist() if v == v]
        if numbers and not here.absent:
            found.append(float(which(numbers)) * (here.factor or 1.0) + here.offset)
    return which(found) if found else 0.0


def told_by_others(profiles: Profiles) -> dict[str, Profile]:
    """A site whose cells may be thousands or have a decimal mark, 1,003, writes them as brings it nearest to
    the other sites, if they tell; one that is in doubt itself tells nothing.
    """
    made = dict(profiles)
    others = _sure_levels(profiles)
    for site, found in profiles.items():
        if not found.grouped or not others:
            continue
        comma = marks_of(found.grouped).doubtful == ","
        ways = (Writing("," if comma else ""), Writing("" if comma else ",", "," if comma else "."))
        for way in ways:
            other = replace(found, writing=way._replace(doubtful=found.grouped))
            level = float(np.median(np.abs(other.numbers())))
            if _apart(level, abs(float(np.median(others)))) < ANOTHER_UNIT:
                made[site] = other
    return made


def _sure_levels(profiles: Profiles) -> list[float]:
    """Medians of sites at which no mark is in doubt."""
    sure = (f.numbers() for f in profiles.values() if not f.writing.doubtful)
    return [float(np.median(numbers)) for numbers in sure if len(numbers)]


def _thousands(draft: Draft) -> None:
    """Asks what a mark means, unless the other sites' numbers tell."""
    for site, found in draft.profiles.items():
        both = two_readings(found.grouped)
        if both is None:
            continue
        mark = marks_of(found.grouped).doubtful
        taken, else_ = both if found.decimal == mark or not found.writing.thousands else both[::-1]
        what = "thousands with a" if taken == both[1] else "a decimal"
        others = _sure_levels(draft.profiles)
        mine = float(np.median(found.numbers()))
        if others and _apart(mine, float(np.median(others))) < ANOTHER_UNIT:
            draft.says.append(f"{what} {NAMES[mark]} at {site}, as the other sites' numbers show")
        else:
            other = f'decimal = "{OTHER[mark]}" and thousands = "{mark}"'
            how = f'decimal = "{mark}" and no thousands' if taken == both[1] else other
            draft.asks.append(
                f"{cell_text(found.grouped)} of {site} is read as {taken:g}; if it is {else_:g}, write {how}"
            )


def _apart(one: float, other: float) -> float:
    return max(one / other, other / one) if one > 0 and other > 0 else float("inf")


def _ways_of_writing(draft: Draft) -> None:
    """Decimal marks and thousands: for all where all have the same, else by site."""
    ways = {s: (f.writing.decimal, f.writing.thousands) for s, f in draft.profiles.items()}
    commas = [s for s, f in draft.profiles.items() if f.decimal == ","]
    if len(set(ways.values())) == 1:
        decimal, divides = next(iter(ways.values()))
        draft.rule = replace(draft.rule, decimal=decimal, thousands=divides)
    else:
        for site, (decimal, divides) in ways.items():
            if decimal or divides:
                draft.differs(site, decimal=decimal, thousands=divides)
    if commas:
        draft.says.append(f"numbers with a decimal comma at {', '.join(commas)}")


def _odd_numbers(draft: Draft) -> None:
    """Cells such as <5 are proposed to be the number in them, others to be missing."""
    for site, found in draft.profiles.items():
        meant = [(cell, (two_readings(cell) or (0.0, 0.0))[1]) for cell in sorted(found.writing.spelled)]
        for cell in map(str, found.odd):
            bare = BOUNDED.fullmatch(cell)
            value = number_of(bare[1], found.writing.decimal, found.writing.thousands) if bare else None
            meant.append((cell, math.nan if value is None else value))
        gone = tuple(cell for cell, value in meant if math.isnan(value))
        spellings = dict[str, tuple[str, ...]]()
        for cell, value in meant:
            if cell not in gone:
                spellings[f"{value:.15g}"] = (*spellings.get(f"{value:.15g}", ()), cell)
        if spellings or gone:
            draft.differs(site, spellings=spellings, missing=gone)
        read = [f"{cell_text(w)} as {value}" for value, words in spellings.items() for w in words]
        read += [f"{cell_text(w)} as missing" for w in gone]
        if read:
            draft.asks.append(f"these are no numbers at {site}, and are read so: {some(read)}")
