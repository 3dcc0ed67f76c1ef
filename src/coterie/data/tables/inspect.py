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

from coterie.core.errors import BadData, BadInput, CoterieError, Several, UnknownName, lines_of
from coterie.data.intake import Array
from coterie.data.tables.apply_recipe import Reading, rows_by_site, sites_in
from coterie.data.tables.cells import Values
from coterie.data.tables.draft import Draft, Goals
from coterie.data.tables.leaks import Target, by_site, known_afterwards, leak_of, number_text, places
from coterie.data.tables.numerals import USUAL, Writing, marks_of
from coterie.data.tables.plain_csv import WESTERN, first_foreign, likely_encoding
from coterie.data.tables.profile import Profile, matched
from coterie.data.tables.proposed_people import find_people, say_left_out
from coterie.data.tables.read import Table, content_of, read_table
from coterie.data.tables.recipe import Recipe, Rule
from coterie.data.tables.texts import loose, plain, same

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
    tables, encodings, says = _read_all(paths, show)
    places = [os.path.relpath(path, home) if home else str(path) for path in paths]
    written = dict(zip(tables, places, strict=True))
    recipe, files = Recipe((), sites=written, encodings=encodings), tables
    if site:
        (whole,) = tables.values()
        file = next(iter(written.values()))
        header = whole.header(site)
        if header is None:
            raise UnknownName(f"column of {whole.name}", site, whole.columns)
        recipe = Recipe((), file=file, site=header, encodings=encodings)
        files, tables = {"": whole}, _by_column(recipe, whole)
    seen = _inspect_tables(recipe, tables, target, leave_out, task, event, show)
    show("all columns looked at", 100)
    return replace(seen, says=(*says, *seen.says), files=files)


def _read_all(paths: Sequence[str | Path], show: Show) -> tuple[dict[str, Table], dict[str, str], list[str]]:
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
            tables[path.stem], encoding, line = _read_any(path)
            encodings |= {path.stem: encoding} if encoding else {}
            says += [line] if line else []
        except CoterieError as error:
            troubles += lines_of(error)
    if troubles:
        raise Several(troubles)
    return tables, {"": WESTERN} if len(encodings) == len(paths) else encodings, says


def _read_any(path: Path) -> tuple[Table, str, str]:
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


def _by_column(recipe: Recipe, table: Table) -> dict[str, Table]:
    """A table's rows by site; those without one belong to nobody, and are not looked at."""
    whose = sites_in(recipe, table) or []
    found = {site: table.take(rows) for site, rows in rows_by_site(whose) if site}
    if not found:
        raise BadData(f"{table.name}: site column {recipe.site!r} is empty: name another")
    return found


def _inspect_tables(
    recipe: Recipe,
    tables: Mapping[str, Table],
    target: str,
    leave_out: Sequence[str],
    task: str,
    event: str,
    show: Show,
) -> Inspection:
    if event:
        task = _timed(target, event, task)
    headers = {s: [h for h in t.columns if plain(h) != plain(recipe.site)] for s, t in tables.items()}
    profiles = dict[str, dict[str, Profile]]()
    for site, names in headers.items():
        show(f"looking at {site}", READ + (LOOKED - READ) * len(profiles) // len(headers))
        profiles[site] = _profiled(tables[site], names)
    groups = matched(headers, profiles)
    goals, totals = Goals.of(groups, tables, target, event), ""
    if task == "auto":
        profiles, totals = goals.without_totals(profiles, tables)
    drafts = [Draft.of(g, g.of(profiles), list(tables), task if g is goals.target else "") for g in groups]
    its = {d.name: d for d in drafts}
    _drop_named(drafts, leave_out)
    if len(tables) == 1 and not recipe.site:
        _ask_whose(drafts)
    _mark_sites(drafts)
    recipe = goals.check(recipe, its, tables, task)
    if totals:
        its[recipe.target].asks.append(totals)
    show("looking for persons", LOOKED)
    patient = find_people(drafts, profiles, tables, (recipe.target, recipe.event))
    recipe = replace(recipe, rules=tuple(d.rule for d in drafts), patient=patient)
    classes = dict[str, Counter[str]]()
    if recipe.target:
        classes = _find_leaks(recipe, drafts, tables, show)
    say_left_out(drafts)
    seen = tuple(map(_seen, drafts))
    recipe = replace(recipe, rules=tuple(s.rule for s in seen))
    says = [f"column {s.rule.name!r}: {line}" for s in seen for line in s.says]
    asks = [f"column {s.rule.name!r}: {line}" for s in seen for line in s.asks]
    return Inspection(recipe, {s: len(t) for s, t in tables.items()}, seen, classes, tuple(says), tuple(asks))


def _profiled(table: Table, headers: Sequence[str]) -> dict[str, Profile]:
    """Columns of one file; where some have decimal commas, a comma is one elsewhere, and a point may divide
    thousands. Where semicolons divide cells, a comma may be the decimal mark though no cell shows it.
    """
    found = {h: Profile.of_cells(h, table.columns[h]) for h in headers}
    if any(f.decimal == "," for f in found.values()):
        open_ones = [h for h, f in found.items() if f.kind == "number" and (f.writing == USUAL or f.grouped)]
        open_ones = [h for h in open_ones if any(marks_of(c).doubtful for c in found[h].values)]
        found |= {h: Profile.of_cells(h, table.columns[h], commas=True) for h in open_ones}
    elif table.separator not in ("", ",") and not any(_proves_point(f.values) for f in found.values()):
        for h, f in found.items():
            usual = f.kind == "number" and f.writing == USUAL
            if usual and all(marks_of(c).doubtful == "." for c in f.values):
                found[h] = replace(f, writing=Writing(doubtful=str(next(iter(f.values)))))
    return found


def _timed(target: str, event: str, task: str) -> str:
    """The task that the target is looked at by, where there is an event."""
    if not target:
        raise BadInput(f"event {event!r} without a time: name the column of times as the target too")
    if plain(target) == plain(event):
        raise BadInput(f"{event!r} is the target and the event: name the time and the event apart")
    if task != "auto":
        raise BadInput(f"task={task} and an event, which makes a survival: leave one out")
    return "survival"


def _proves_point(cells: Values) -> bool:
    """Whether a cell can only have a decimal point."""
    return bool(cells.spellings.points[cells.which].any()) or any(marks_of(c).decimal == "." for c in cells)


def _seen(draft: Draft) -> Seen:
    """With why, how much is missing where and how that is written, and what is to be said or asked."""
    gaps = [
        f"{s} {p.rows - p.known} of {p.rows} ({', '.join([*(['empty'] if p.empty else []), *p.marks])})"
        for s, p in draft.profiles.items()
        if p.known < p.rows and draft.rule.read
    ]
    (first, *others), says, asks = draft.rule.why, draft.says, draft.asks
    missing = [f"missing: {', '.join(gaps)}"] if gaps else []
    why = (first, *missing, *others, *says, *(f"question: {ask}" for ask in asks))
    share = {s: 1 - p.known / p.rows for s, p in draft.profiles.items()}
    return Seen(replace(draft.rule, why=why), draft.kind, share, tuple(says), tuple(asks))


def _drop_named(drafts: Sequence[Draft], leave_out: Sequence[str]) -> None:
    for name in leave_out:
        found = [d for d in drafts if plain(name) in {plain(d.name), *map(plain, d.group.headers.values())}]
        if not found:
            raise UnknownName("column", name, [d.name for d in drafts])
        for d in found:
            d.rule, d.says, d.asks = replace(d.rule, use="leave-out", why=("left out: you said so",)), [], []


def _ask_whose(drafts: Sequence[Draft]) -> None:
    """One file without a site column: a column that is called like one is a question."""
    for draft in drafts:
        if draft.rule.read and draft.rule.use == "category" and set(loose(draft.name).split()) & SITES:
            draft.asks.append(
                f"does it say whose a row is? Then name it with --site {shlex.quote(draft.name)} (a run: "
                "--table.site). As it stands, all rows are one site's and this is an input"
            )


def _mark_sites(drafts: Sequence[Draft]) -> None:
    """A column that is one value at each site, and not the same at all, tells sites apart, not rows."""
    for draft in drafts:
        found = draft.profiles.values()
        if len(found) > 1 and draft.rule.read and all(p.kind == "constant" for p in found):
            why = ("constant at each site: it tells sites apart, not rows",)
            draft.rule, draft.kind = replace(draft.rule, use="leave-out", why=why), "constant"


def _find_leaks(
    recipe: Recipe, drafts: Sequence[Draft], tables: Mapping[str, Table], show: Show
) -> dict[str, Counter[str]]:
    """Leaves likely leaks out, as a question; gives the classes of each site."""
    rules = [*recipe.inputs, *recipe.goal_rules]
    sizes = [len(t) for t in tables.values()]
    made, whose = np.empty((sum(sizes), len(rules)), order="F"), np.repeat(np.arange(len(sizes)), sizes)
    parts = np.split(made, np.cumsum(sizes)[:-1])
    for part, (site, table) in zip(parts, tables.items(), strict=True):
        part[:] = Reading(recipe, table, site, frozenset()).numbers(rules, True)
    goals = made[:, len(recipe.inputs) :]
    labelled = ~np.isnan(goals).any(axis=1)
    words = [rule.values if rule.kind.words else () for rule in recipe.goal_rules]  # of one that has classes
    names, classes, told = words[-1], dict[str, Counter[str]](), goals[labelled]
    labels = told[:, -1].astype(int) if names else None
    target = Target(labels, names, None if words[0] else told[:, 0])  # classes, numbers, or times with events
    people = _people_in_rows(recipe, drafts, tables)[labelled]
    found = places(target, whose[labelled], list(tables), len(drafts), people)
    for part, site in zip(parts, tables, strict=True):
        if names:
            known = part[:, -1][~np.isnan(part[:, -1])].astype(int)
            classes[site] = Counter({n: int((known == i).sum()) for i, n in enumerate(names)})
    place = {r.name: i for i, r in enumerate(recipe.inputs)}
    for i, draft in enumerate(drafts):
        show(f"does {draft.name} give the target away?", PERSONS + (100 - PERSONS) * i // len(drafts))
        if draft.name in (recipe.target, recipe.event) or draft.kind in ("empty", "constant"):
            continue
        x = made[:, place[draft.name]][labelled] if draft.name in place else None
        has = _filled(draft, tables)[labelled]
        if word := known_afterwards(draft.name):
            why = f"its name ({word}) is that of something known only afterwards"
        else:
            text = draft.rule.column.text if draft.rule.values else number_text
            leak = leak_of(draft.name, x, has, found, not draft.rule.kind.ranked, text)
            why = leak.says if leak else ""
        if why and draft.rule.read:
            draft.rule, draft.kind = replace(draft.rule, use="leave-out"), "likely leak"
            draft.asks.append(f"likely leak, left out: {why}. If it is known before the target, set use back")
        elif why:
            draft.says.append(f"it would be a leak, too: {why}")
    return classes


def _people_in_rows(recipe: Recipe, drafts: Sequence[Draft], tables: Mapping[str, Table]) -> Array:
    """[row of all tables] whom it is about, by the columns proposed for `patient`; each row is about another
    where there are none, or they are empty.
    """
    told = [d for d in drafts if d.name in recipe.patient]
    found = list[Array]()
    for site, table in tables.items():
        columns = list[Array]()
        for d in told:
            if (header := d.group.headers.get(site)) is not None:
                columns.append(table.columns[header].each(same))
                columns[-1][table.columns[header].among(d.rule.missing_marks(site))] = None
        first = dict[tuple[str | None, ...], int]()
        who = enumerate(zip(*columns, strict=True))
        rows = [first.setdefault(w, i) if any(w) else i for i, w in who] if columns else range(len(table))
        found.append(np.array(rows, dtype=int))
    return by_site(found)


def _filled(draft: Draft, tables: Mapping[str, Table]) -> Array:
    """[row of all tables] whether a column has a value there."""
    found = []
    for site, table in tables.items():
        header, marks = draft.group.headers.get(site), draft.rule.missing_marks(site)
        none = np.zeros(len(table), dtype=bool)
        found.append(none if header is None else ~table.columns[header].among(marks))
    return np.concatenate(found)


def status(rule: Rule, seen: Seen, site: str) -> str:
    """How a site has a column, in a letter."""
    here = rule.here(site)
    if here.absent or site not in seen.gaps:
        return "-"
    if seen.gaps[site] == 1:
        return "0"
    letters = {"u": here.factor is not None, "n": here.name, "w": here.spellings, "+": True}
    return next(letter for letter, holds in letters.items() if holds)
