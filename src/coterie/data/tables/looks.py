"""Looking at the tables of all sites at once, and proposing a recipe for them.

What is certain is done and said, with why; what a person must decide is asked, and stands in the recipe as a
proposal. Identifiers, free text, dates, constants and likely leaks are left out unless a person says
otherwise.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from coterie.core.errors import BadData, BadInput, CoterieError, Several, UnknownName
from coterie.data.intake import Array
from coterie.data.tables.cells import Column
from coterie.data.tables.encodings import WESTERN, first_foreign, likely_encoding
from coterie.data.tables.follow import Reading, missing_marks, rows_by_site, sites_in
from coterie.data.tables.goals import check_event, check_goal, goal_of, timed
from coterie.data.tables.kinds import Found, look
from coterie.data.tables.leaks import Target, by_site, known_afterwards, leak_of, number_text, places
from coterie.data.tables.match import Group, matched
from coterie.data.tables.merge import merge
from coterie.data.tables.merged import Merged
from coterie.data.tables.numerals import USUAL, Writing, marks_of, proves_point
from coterie.data.tables.proposed_people import find_people, say_left_out
from coterie.data.tables.read import Table, content_of, read_table
from coterie.data.tables.rules import Recipe, Rule
from coterie.data.tables.texts import loose, plain, same
from coterie.data.tables.totals import without_totals

Show = Callable[[str, int], None]
READ, LOOKED, PERSONS = 35, 50, 70  # per cent of the work that are then done, of a large table
SITES = {"hospital", "site", "centre", "center", "clinic", "klinik", "institution", "facility"}


@dataclass(frozen=True, eq=False)
class Seen:
    """A column, as found and as proposed.

    gaps    {site: share of its cells that is missing}, of sites that have it
    """

    rule: Rule
    kind: str
    gaps: Mapping[str, float]
    says: tuple[str, ...]
    asks: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Inspection:
    """classes   {site: rows of each class}, of a target that has classes
    files     {site: its table as read, before its rows went to sites}; one without a site's name has all
    """

    recipe: Recipe
    rows: Mapping[str, int]
    columns: tuple[Seen, ...]
    classes: Mapping[str, Counter[str]]
    says: tuple[str, ...]
    asks: tuple[str, ...]
    files: Mapping[str, Table] = field(default_factory=dict)


def inspect(
    paths: Sequence[str | Path],
    target: str = "",
    site: str = "",
    home: str | Path = "",
    leave_out: Sequence[str] = (),
    task: str = "auto",
    event: str = "",
    show: Show = lambda doing, done: None,
) -> Inspection:
    """Files, one a site or one with a site column; `home` is where the recipe will be. With an event the
    target is the time until it. `show` is told what is being done, and how much of it is, in per cent.
    """
    if not paths:
        raise BadInput("no file to look at: give one for each site, or one with --site COLUMN")
    if site and len(paths) > 1:
        raise BadInput(
            f"{len(paths)} files and a site column: give one file with --site, or one file a site without"
        )
    tables, encodings, says = read_all(paths, show)
    written = {
        name: os.path.relpath(path, home) if home else str(path)
        for name, path in zip(tables, paths, strict=True)
    }
    recipe, files = Recipe((), sites=written, encodings=encodings), tables
    if site:
        (whole,) = tables.values()
        file = next(iter(written.values()))
        recipe = Recipe((), file=file, site=site_header(whole, site), encodings=encodings)
        files, tables = {"": whole}, by_column(recipe, whole)
    seen = inspect_tables(recipe, tables, target, leave_out, task, event, show)
    show("all columns looked at", 100)
    return replace(seen, says=(*says, *seen.says), files=files)


def read_all(paths: Sequence[str | Path], show: Show) -> tuple[dict[str, Table], dict[str, str], list[str]]:
    """By file name without its ending; the encodings that recipes hold, and what is to be said of them. What
    is wrong with any is said at once.
    """
    stems = Counter(Path(p).stem for p in paths)
    twins = [s for s, n in stems.items() if n > 1]
    if twins:
        raise BadInput(f"two files are called {twins[0]!r}, and a site is called by its file: rename one")
    tables, encodings, says, troubles = dict[str, Table](), dict[str, str](), list[str](), list[str]()
    for i, path in enumerate(map(Path, paths)):
        show(f"reading {path.name}", READ * i // len(paths))
        try:
            tables[path.stem], encoding, line = read_any(path)
            encodings |= {path.stem: encoding} if encoding else {}
            says += [line] if line else []
        except CoterieError as error:
            troubles += error.lines if isinstance(error, Several) else [str(error)]
    if troubles:
        raise Several(troubles)
    return tables, {"": WESTERN} if len(encodings) == len(paths) else encodings, says


def read_any(path: Path) -> tuple[Table, str, str]:
    """A table, how it writes letters if not in UTF-8, and what a person should know of that."""
    try:
        return read_table(path), "", ""
    except BadData:
        content = content_of(path)
        encoding = likely_encoding(content)
        if not encoding:
            raise
        line, word = first_foreign(content, encoding)
        said = f'{path} is no UTF-8 text, and is read with encoding = "{encoding}": {word!r} in line {line}'
        return read_table(path, encoding), encoding, said


def site_header(table: Table, site: str) -> str:
    header = table.header(site)
    if header is None:
        raise UnknownName(f"column of {table.name}", site, table.columns)
    return header


def by_column(recipe: Recipe, table: Table) -> dict[str, Table]:
    """A table's rows by site; those without one belong to nobody, and are not looked at."""
    whose = sites_in(recipe, table) or []
    found = {site: table.take(rows) for site, rows in rows_by_site(whose) if site}
    if not found:
        raise BadData(f"{table.name}: site column {recipe.site!r} is empty: name another")
    return found


def inspect_tables(
    recipe: Recipe,
    tables: Mapping[str, Table],
    target: str = "",
    leave_out: Sequence[str] = (),
    task: str = "auto",
    event: str = "",
    show: Show = lambda doing, done: None,
) -> Inspection:
    if event:
        task = timed(target, event, task)
    headers = {s: [h for h in t.columns if plain(h) != plain(recipe.site)] for s, t in tables.items()}
    looks = dict[str, dict[str, Found]]()
    for site, names in headers.items():
        show(f"looking at {site}", READ + (LOOKED - READ) * len(looks) // len(headers))
        looks[site] = looked_at(tables[site], names)
    groups = matched(headers, looks)
    goal, seen_at = goal_of(groups, target, tables), goal_of(groups, event, tables, "the event")
    totals = ""
    if goal is not None and task == "auto":
        looks, totals = without_totals(goal, looks, tables)
    pairs = [
        (g, merge(g, {s: looks[s][h] for s, h in g.headers.items()}, list(tables), task if g is goal else ""))
        for g in groups
    ]
    drop_named(pairs, leave_out)
    if len(tables) == 1 and not recipe.site:
        ask_whose(pairs)
    mark_sites(pairs, looks)
    if goal is not None:
        recipe = replace(recipe, target=goal.name)
        recipe = check_goal(recipe, pairs, goal, looks, tables, task)
        next(m for g, m in pairs if g is goal).asks += [totals] if totals else []
    if seen_at is not None:
        recipe = replace(recipe, event=seen_at.name)
        recipe = check_event(recipe, pairs, seen_at, looks, tables)
    show("looking for persons", LOOKED)
    patient = find_people(pairs, looks, tables, (recipe.target, recipe.event))
    recipe = replace(recipe, rules=tuple(m.rule for _, m in pairs), patient=patient)
    classes = dict[str, Counter[str]]()
    if goal is not None:
        classes = find_leaks(recipe, pairs, tables, show)
    say_left_out(pairs)
    seen = tuple(
        Seen(with_why(g, m, looks), m.kind, gaps_of(g, looks), tuple(m.says), tuple(m.asks)) for g, m in pairs
    )
    recipe = replace(recipe, rules=tuple(s.rule for s in seen))
    says = [f"column {s.rule.name!r}: {line}" for s in seen for line in s.says]
    asks = [f"column {s.rule.name!r}: {line}" for s in seen for line in s.asks]
    return Inspection(recipe, {s: len(t) for s, t in tables.items()}, seen, classes, tuple(says), tuple(asks))


def looked_at(table: Table, headers: Sequence[str]) -> dict[str, Found]:
    """Columns of one file; where some have decimal commas, a comma is one elsewhere, and a point may divide
    thousands. Where semicolons divide cells, a comma may be the decimal mark though no cell shows it.
    """
    found = {h: look(h, table.columns[h]) for h in headers}
    if any(f.decimal == "," for f in found.values()):
        open_ones = [h for h, f in found.items() if f.kind == "number" and (f.writing == USUAL or f.grouped)]
        open_ones = [h for h in open_ones if any(marks_of(c).doubtful for c in found[h].values)]
        found |= {h: look(h, table.columns[h], commas=True) for h in open_ones}
    elif table.separator not in ("", ",") and not any(proves_point(f.values) for f in found.values()):
        for h, f in found.items():
            if (
                f.kind == "number"
                and f.writing == USUAL
                and all(marks_of(c).doubtful == "." for c in f.values)
            ):
                found[h] = replace(f, writing=Writing(doubtful=str(next(iter(f.values)))))
    return found


def with_why(group: Group, merged: Merged, looks: Mapping[str, Mapping[str, Found]]) -> Rule:
    first, *others = merged.rule.why
    gaps = [line] if merged.rule.read and (line := gap_line(group, looks)) else []
    said = (first, *gaps, *others, *merged.says, *(f"question: {ask}" for ask in merged.asks))
    return replace(merged.rule, why=said)


def gap_line(group: Group, looks: Mapping[str, Mapping[str, Found]]) -> str:
    """How much is missing where, and how it is written."""
    found = {s: looks[s][h] for s, h in group.headers.items()}
    told = [
        f"{s} {f.rows - f.known} of {f.rows} ({', '.join([*(['empty'] if f.empty else []), *f.marks])})"
        for s, f in found.items()
        if f.known < f.rows
    ]
    return f"missing: {', '.join(told)}" if told else ""


def drop_named(pairs: Sequence[tuple[Group, Merged]], leave_out: Sequence[str]) -> None:
    for name in leave_out:
        found = [m for g, m in pairs if plain(name) in {plain(g.name), *map(plain, g.headers.values())}]
        if not found:
            raise UnknownName("column", name, [g.name for g, _ in pairs])
        for m in found:
            m.rule, m.says, m.asks = replace(m.rule, use="leave-out", why=("left out: you said so",)), [], []


def ask_whose(pairs: Sequence[tuple[Group, Merged]]) -> None:
    """One file without a site column: a column that is called like one is a question."""
    for group, merged in pairs:
        if merged.rule.read and merged.rule.use == "category" and set(loose(group.name).split()) & SITES:
            merged.asks.append(
                f"does it say whose a row is? Then name it with --site {shlex.quote(group.name)} (a run: "
                "--table.site). As it stands, all rows are one site's and this is an input"
            )


def mark_sites(pairs: Sequence[tuple[Group, Merged]], looks: Mapping[str, Mapping[str, Found]]) -> None:
    """A column that is one value at each site, and not the same at all, tells sites apart, not rows."""
    for group, merged in pairs:
        found = [looks[s][h] for s, h in group.headers.items()]
        if len(found) > 1 and merged.rule.read and all(f.kind == "constant" for f in found):
            merged.rule = replace(
                merged.rule, use="leave-out", why=("constant at each site: it tells sites apart, not rows",)
            )
            merged.kind = "constant"


def find_leaks(
    recipe: Recipe, pairs: Sequence[tuple[Group, Merged]], tables: Mapping[str, Table], show: Show
) -> dict[str, Counter[str]]:
    """Leaves likely leaks out, as a question; gives the classes of each site."""
    rules = [*recipe.inputs, *recipe.goal_rules]
    sizes = [len(t) for t in tables.values()]
    made, whose = np.empty((sum(sizes), len(rules)), order="F"), np.repeat(np.arange(len(sizes)), sizes)
    parts = np.split(made, np.cumsum(sizes)[:-1])
    for part, (site, table) in zip(parts, tables.items(), strict=True):
        part[:] = Reading(recipe, table, site, frozenset(), []).numbers(rules, True)
    goals = made[:, len(recipe.inputs) :]
    labelled = ~np.isnan(goals).any(axis=1)
    target = target_of(goals[labelled], [words_of(rule) for rule in recipe.goal_rules])
    found = places(
        target, whose[labelled], list(tables), len(pairs), people_in_rows(recipe, pairs, tables)[labelled]
    )
    names, classes = words_of(recipe.goal_rules[-1]), dict[str, Counter[str]]()
    for part, site in zip(parts, tables, strict=True):
        if names:
            known = part[:, -1][~np.isnan(part[:, -1])].astype(int)
            classes[site] = Counter({n: int((known == i).sum()) for i, n in enumerate(names)})
    place = {r.name: i for i, r in enumerate(recipe.inputs)}
    for i, (group, merged) in enumerate(pairs):
        show(f"does {group.name} give the target away?", PERSONS + (100 - PERSONS) * i // len(pairs))
        if group.name in (recipe.target, recipe.event) or merged.kind in ("empty", "constant"):
            continue
        x = made[:, place[group.name]][labelled] if group.name in place else None
        has = filled(group, merged.rule, tables)[labelled]
        if word := known_afterwards(group.name):
            why = f"its name ({word}) is that of something known only afterwards"
        else:
            text = merged.rule.column.text if merged.rule.values else number_text
            leak = leak_of(group.name, x, has, found, merged.rule.use == "category", text)
            why = leak.says if leak else ""
        if why and merged.rule.read:
            merged.rule, merged.kind = replace(merged.rule, use="leave-out"), "likely leak"
            merged.asks.append(
                f"likely leak, left out: {why}. If it is known before the target, set use back"
            )
        elif why:
            merged.says.append(f"it would be a leak, too: {why}")
    return classes


def people_in_rows(
    recipe: Recipe, pairs: Sequence[tuple[Group, Merged]], tables: Mapping[str, Table]
) -> Array:
    """[row of all tables] whom it is about, by the columns proposed for `patient`; each row is about another
    where there are none, or they are empty.
    """
    told = [(g, m.rule) for g, m in pairs if g.name in recipe.patient]
    found = list[Array]()
    for site, table in tables.items():
        columns = [
            known_cells(table.columns[header], missing_marks(rule, rule.here(site)))
            for group, rule in told
            if (header := group.headers.get(site)) is not None
        ]
        first = dict[tuple[str | None, ...], int]()
        who = enumerate(zip(*columns, strict=True))
        rows = [first.setdefault(w, i) if any(w) else i for i, w in who] if columns else range(len(table))
        found.append(np.array(rows, dtype=int))
    return by_site(found)


def known_cells(column: Column, marks: set[str]) -> Array:
    """[row] cells for comparing; None where missing."""
    return column.each(lambda c: None if (text := same(c)) in marks else text)


def target_of(goals: Array, words: Sequence[tuple[str, ...]]) -> Target:
    """What is predicted, of [row, goal]: classes that have words, numbers, or a time and its event."""
    labels = goals[:, -1].astype(int) if words[-1] else None
    return Target(labels, words[-1], None if words[0] else goals[:, 0])


def words_of(goal: Rule) -> tuple[str, ...]:
    """Of a target that has classes."""
    return () if goal.use in ("number", "date") else goal.values


def filled(group: Group, rule: Rule, tables: Mapping[str, Table]) -> Array:
    """[row of all tables] whether a column has a value there."""
    found = []
    for site, table in tables.items():
        header, here = group.headers.get(site), rule.here(site)
        marks = missing_marks(rule, here)
        none = np.zeros(len(table), dtype=bool)
        found.append(none if header is None else ~table.columns[header].among(marks))
    return np.concatenate(found)


def gaps_of(group: Group, looks: Mapping[str, Mapping[str, Found]]) -> dict[str, float]:
    found = {s: looks[s][h] for s, h in group.headers.items()}
    return {s: 1 - f.known / f.rows for s, f in found.items()}


def status(rule: Rule, seen: Seen, site: str) -> str:
    """How a site has a column, in a letter."""
    here = rule.here(site)
    if here.absent or site not in seen.gaps:
        return "-"
    if seen.gaps[site] == 1:
        return "0"
    return (
        ("u" if here.factor is not None else "")
        or ("n" if here.name else "")
        or ("w" if here.spellings else "")
        or "+"
    )
