"""Do the rows of all sites fit together? From what each says of its own.

Columns are matched by name and classes by name, wherever they stand; each site then puts its own into the
common order (`SiteData.joined`). What more than half of the sites agree on is common. A site that differs is
refused with all of its differences in one line; where no majority agrees, nothing runs, and everything that
keeps the sites apart is said. A column that a site has no value of is welcome, where the common rule for
absent columns says what stands for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from coterie.core.errors import BadData, BadInput, Gathered, Several, UnknownName, shown
from coterie.core.roster import Roster
from coterie.data.forbidden import NO_COLUMNS
from coterie.data.partition.silos import in_order
from coterie.data.preparation import Column
from coterie.data.tables.names import unit_of
from coterie.data.tables.texts import plain, some
from coterie.federation.data.messages import Common, Facts, Hello

T = TypeVar("T", bound=Hashable)
_MOST_SAID = 20  # differences that a person is shown at once


@dataclass(frozen=True)
class Agreement:
    """Who learns together, and what they have in common.

    sites     in order: a site's number is its place here
    refused   {site: why}, one line each
    hellos    of those that take part
    """

    common: Common
    sites: tuple[str, ...]
    refused: Mapping[str, str]
    hellos: Mapping[str, Hello]

    def roster(self, facts: Mapping[str, Any]) -> Roster:
        """Of what sites say of their inputs, {site: as `SiteData.facts` makes it, and labels, notes}."""
        gone = [name for name in self.sites if name not in facts]
        if gone:
            raise BadData(f"site {shown(gone[0])} has not said what its inputs are: start the run anew")
        found = {name: Facts.of(facts[name], name) for name in self.sites}
        first_name, first = next(iter(found.items()))
        for name, one in found.items():
            if (one.shape, one.features) != (first.shape, first.features):
                strange = sorted(set(one.features) ^ set(first.features))
                shapes = f"{_shape_text(first.shape)} and {_shape_text(one.shape)}"
                how = f"shapes {shapes}, names {_names_listed(tuple(strange))}: start the run anew"
                raise BadData(f"inputs of sites {shown(first_name)} and {shown(name)} differ: {how}")
        task, classes = self.common.task, self.common.classes
        many = max(2 if task == "classification" else 1, len(classes), *(f.outputs for f in found.values()))
        if many > max(len(classes), 2) and (classes or task != "classification"):
            raise BadData(f"{many} outputs for {len(classes)} classes of a {task}: start the run anew")
        members = tuple(one.member(name, many) for name, one in found.items())
        return Roster(members, task, first.shape, many, first.features, classes)


def match(hellos: Mapping[str, Any], forbid: Sequence[str] = (), require: Sequence[str] = ()) -> Agreement:
    """Of what every site says of itself, {site: as `SiteData.hello` makes it}. Forbidden columns are not
    looked at, and who does not record a required one has no say in what is common.
    """
    found, refused = dict[str, Hello](), dict[str, str]()
    for name, told in hellos.items():
        try:
            found[name] = Hello.of(told, name)
        except BadData as error:
            refused[name] = str(error)
    if not found:
        raise Several([*refused.values(), "no site says of its rows what can be read: nothing runs"])
    _check_columns(found, forbid, require)
    found = {name: found[name].without(forbid) for name in _order_of(found)}
    lacking = {n: f"site {shown(n)}: {why}" for n, h in found.items() if (why := h.unrecorded(require))}
    found = {name: hello for name, hello in found.items() if name not in lacking}
    if not found:
        raise Several([*refused.values(), *lacking.values(), "no site is left: require less, nothing runs"])
    common = _common_to(found)
    for name, hello in found.items():
        if said := differences(hello.common, hello.absent, common):
            refused[name] = f"site {shown(name)}: {joined_lines(said)}: change its recipe"
    here = {name: hello for name, hello in found.items() if name not in refused}
    asked = len(hellos) - len(lacking)
    if 2 * len(here) <= asked:
        last = f"{len(here)} of {asked} sites agree, more than half are needed: nothing runs"
        raise Several([*refused.values(), last])
    return Agreement(_in_usual_order(common, here), tuple(here), {**lacking, **refused}, here)


def _order_of(hellos: Mapping[str, Hello]) -> list[str]:
    """As the clients of a study that was dealt everywhere alike; else by name, as split silos has them."""
    places = {name: hello.place for name, hello in hellos.items()}
    if None not in places.values() and len(set(places.values())) == len(places):
        return sorted(places, key=lambda name: places[name] or 0)

    def by_name(name: str) -> tuple[float, str]:
        number, text = in_order(name)
        return (number if math.isfinite(number) else math.inf, text)

    return sorted(hellos, key=by_name)


# what most agree on


def _common_to(hellos: Mapping[str, Hello]) -> Common:
    """What more than half say, aspect by aspect; refused, all at once, where no such half is."""
    troubles, own = list[str](), {name: hello.common for name, hello in hellos.items()}

    def vote(what: str, of: Callable[[Common], T], show: Callable[[T], str]) -> T:
        return _majority(what, {name: of(c) for name, c in own.items()}, show, troubles)

    task = vote("the task", lambda c: c.task, str)
    target = vote("the target", lambda c: plain(c.target), _escaped)
    classes = vote("the classes", lambda c: frozenset(c.classes), _names_listed)
    rules = {
        rule: _majority(f"the rule {rule}", {n: c.rules.get(rule, "") for n, c in own.items()}, str, troubles)
        for rule in ("missing", "scale", "absent")
    }
    shape = vote("the shape of inputs", lambda c: c.shape, _shape_text)
    by_column = dict[str, dict[str, Column]]()
    for name, c in own.items():
        for column in c.columns:
            by_column.setdefault(plain(column.name), {})[name] = column
    columns = []
    for where in by_column.values():
        if 2 * len(where) == len(own):
            gone = [n for n in own if n not in where]
            half = f"column {shown(_spelling(where))} is at {_names_of(where)}, not at {_names_of(gone)}"
            remedy = "leave it out, or add it to the other recipes, with absent = true where a site has none"
            troubles.append(f"{half}: {remedy}")
        elif 2 * len(where) > len(own):
            columns.append(_column_of(where, hellos, troubles))
    if troubles:
        last = f"{len(troubles)} question(s) on which no majority agrees: change the recipes, nothing runs"
        raise Several([*troubles[:_MOST_SAID], last])
    return Common(
        task,
        tuple(columns),
        next(c.classes for c in own.values() if frozenset(c.classes) == classes),
        next(c.target for c in own.values() if plain(c.target) == target),
        {rule: value for rule, value in rules.items() if value},
        shape,
    )


def _column_of(where: Mapping[str, Column], hellos: Mapping[str, Hello], troubles: list[str]) -> Column:
    """What most of those say that have a value of it; of all, where nobody has one."""
    name = _spelling(where)
    having = {n: c for n, c in where.items() if c.name not in hellos[n].absent} or where
    signs = {n: tuple(of(c) for _, of, _ in _ASPECTS.values()) for n, c in having.items()}
    best, times = Counter(signs.values()).most_common(1)[0]
    for i, (part, (_, _, show)) in enumerate(_ASPECTS.items() if times < len(signs) else ()):
        _majority(f"column {shown(name)}, its {part}", {n: s[i] for n, s in signs.items()}, show, troubles)
    return replace(next(c for n, c in having.items() if signs[n] == best), name=name)


def _majority(what: str, votes: Mapping[str, T], show: Callable[[T], str], troubles: list[str]) -> T:
    """What more than half say, or the most frequent with a line on who says what."""
    counted = Counter(votes.values()).most_common()
    if 2 * counted[0][1] <= len(votes):
        sides = [f"{show(v)} at {_names_of([n for n in votes if votes[n] == v])}" for v, _ in counted]
        troubles.append(f"{what}: {joined_lines(sides)}")
    return counted[0][0]


def _in_usual_order(common: Common, hellos: Mapping[str, Hello]) -> Common:
    """Columns and classes in the order that most have; of several, the first site's."""
    own = [hello.common for hello in hellos.values()]
    orders = Counter(tuple(plain(c.name) for c in one.columns) for one in own)
    by_name = {plain(c.name): c for c in common.columns}
    columns = tuple(by_name[name] for name in orders.most_common(1)[0][0])
    classes = Counter(one.classes for one in own).most_common(1)[0][0]
    return replace(common, columns=columns, classes=classes)


# how one site differs


def differences(mine: Common, absent: Collection[str], common: Common) -> list[str]:
    """Of what a site has from what is common, each in a few words."""
    said = list[str]()
    if mine.task != common.task:
        said.append(f"a {mine.task}, the others have a {common.task}")
    if plain(mine.target) != plain(common.target):
        said.append(f"target {shown(mine.target)} against {shown(common.target)}")
    if set(mine.classes) != set(common.classes):
        said.append(f"classes {_names_listed(mine.classes)} against {_names_listed(common.classes)}")
    if mine.shape != common.shape:
        said.append(f"inputs of shape {_shape_text(mine.shape)} against {_shape_text(common.shape)}")
    for rule in sorted({*mine.rules, *common.rules}):
        own, others = mine.rules.get(rule, "none"), common.rules.get(rule, "none")
        if own != others:
            said.append(f"rule {rule} = {own}, the others have {others}")
    here = {plain(c.name): c for c in mine.columns}
    for column in common.columns:
        found = here.pop(plain(column.name), None)
        if found is None:
            said.append(f"column {shown(column.name)} is missing (absent = true, if there is none)")
        elif found.name not in absent:
            for says, of, show in _ASPECTS.values():
                if of(found) != of(column):
                    others = f"the others have {show(of(column))}"
                    said.append(f"column {shown(found.name)} {says} {show(of(found))}, {others}")
        elif common.rules.get("absent") == "refuse":
            said.append(f"column {shown(found.name)} has no value, and the rule is absent = refuse")
    return said + [f"column {shown(c.name)} is one that the others do not have" for c in here.values()]


def _escaped(text: str) -> str:
    """A text of others without quotes, escaped and cut short."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")[1:-1] or "none"


def joined_lines(said: Sequence[str]) -> str:
    more = len(said) - _MOST_SAID
    return "; ".join(said[:_MOST_SAID]) + (f" and {more} more" if more > 0 else "")


def _names_listed(names: Collection[str]) -> str:
    return _escaped(", ".join(names if isinstance(names, tuple) else sorted(names)))


def _shape_text(shape: Sequence[float]) -> str:
    return _escaped(" x ".join(f"{n:g}" for n in shape))


def _spelling(where: Mapping[str, Column]) -> str:
    """As most sites write the column's name."""
    return Counter(c.name for c in where.values()).most_common(1)[0][0]


def _names_of(sites: Collection[str]) -> str:
    return some([_escaped(name) for name in sites], _MOST_SAID)


_ASPECTS: dict[str, tuple[str, Callable[[Column], Any], Callable[[Any], str]]] = {
    "kind": ("is a", lambda c: c.kind, str),
    "unit": ("is in", lambda c: unit_of(c.unit), _escaped),
    "values": ("has values", lambda c: c.values, _names_listed),
    "codes": ("has codes", lambda c: c.codes, lambda codes: _escaped(", ".join(f"{n:g}" for n in codes))),
    "center and spread": (
        "has center and spread",
        lambda c: (c.center, c.spread),
        lambda pair: f"{pair[0]:g} and {pair[1]:g}",
    ),
}
"""What of a column must be the same for all: how a difference is said, what it is, how that is shown."""


# columns that a run forbids or requires: sites leave forbidden ones out themselves, before they make inputs
# (`SiteData.without`); one that does not would have a column that is not common


def _check_columns(hellos: Mapping[str, Hello], forbid: Sequence[str], require: Sequence[str]) -> None:
    """Refuses names that are no column of any site, all at once."""
    if not forbid and not require:
        return
    wrong, told = Gathered(), [hello.common for hello in hellos.values()]
    known = {plain(column.name): column.name for common in told for column in common.columns}
    goals = {goal for common in told for goal in plain(common.target).split(" until ")}
    if not known:
        raise BadInput(f"inputs of the sites {NO_COLUMNS}")
    for name in (*forbid, *require):
        if plain(name) in known:
            continue
        if plain(name) in goals:
            wrong.add(f"column {name!r} is what is predicted, and is never an input: leave it out")
        else:
            with wrong.one():
                raise UnknownName("column of the sites", name, known.values())
    if known.keys() <= set(map(plain, forbid)):
        wrong.add(f"forbidding {', '.join(forbid)} leaves the sites no input: forbid fewer columns")
    wrong.refuse()
