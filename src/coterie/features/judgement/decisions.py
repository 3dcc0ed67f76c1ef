"""What a client's people decided of a run, read from the lines in which it is kept (`storage/decisions.py`).

    kind        has                 what it says
    partner     name, in            whether a partner takes part at all
    column      name, rule          require, forbid or free
    threshold   class, at           from which probability on a class is said
    circle      among, approved     the only others that may be in one's sums
    veto        requester, allow    whether one's own models may be in the sums of that one
    plan        plan, allow         whether a site of a federation takes part in runs of that plan
    again       out                 a run was started again with what was decided so far

Of several lines about the same the last counts. What may be decided is checked of a run, a comparison or a
site's part in a federation, and of whom (`place_of`, `decide`). What a new run makes of decisions is in
`next_run.py`, what a site of a federation makes of vetoes in `federation/site/consent.py` and of plans in
`federation/plans/at_site.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadInput, BadRun, Gathered, UnknownName, shown
from coterie.federation.site.consent import known_plans, site_at
from coterie.methods import ranks_by
from coterie.runs.compare import is_comparison, read_records
from coterie.runs.folder import is_run, read_record
from coterie.runs.record import Record
from coterie.storage import decisions
from coterie.storage.atomic import readable_errors
from coterie.use.cut import Cut, write_cut
from coterie.use.folders import record_in

KINDS: dict[str, dict[str, type]] = {
    "partner": {"name": str, "in": bool},
    "column": {"name": str, "rule": str},
    "threshold": {"class": str, "at": float},
    "circle": {"among": list, "approved": bool},
    "veto": {"requester": str, "allow": bool},
    "plan": {"plan": str, "allow": bool},
    "again": {"out": str},
}
"""What each has beside who decided, for which client and when."""
RULES = ("require", "forbid", "free")
SAID: tuple[tuple[str, str, str, Any], ...] = (
    ("left_out", "leaves {} out", "partner", False),
    ("taken_in", "takes {} in", "partner", True),
    ("require", "requires column {}", "column", "require"),
    ("forbid", "forbids column {}", "column", "forbid"),
    ("free", "leaves column {} free", "column", "free"),
    ("circle", "approves a circle of {}", "circle", None),
    ("cut", "says {}", "threshold", None),
    ("vetoed", "is in no circle of {}", "veto", False),
    ("allowed", "may be in a circle of {}", "veto", True),
    ("refused", "takes no run of plan {}", "plan", False),
    ("taken", "takes runs of plan {}", "plan", True),
)
"""A field of `Decisions`, in plain English, and whose names are in it: of which kind this was last said."""
WORDS = {str: "a text", bool: "true or false", float: "a number", list: "a list of names"}


@dataclass(frozen=True)
class Decisions:
    """All that one client has decided so far.

    left_out, taken_in      partners, as last decided
    require, forbid, free   columns, likewise
    cut                     a class, from which probability on it is said, and who decided so
    circle                  the others that were approved; None: no circle is
    vetoed, allowed         requesters
    refused, taken          plans of runs
    """

    client: str
    left_out: tuple[str, ...] = ()
    taken_in: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    cut: tuple[str, float, str] | None = None
    circle: tuple[str, ...] | None = None
    vetoed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """In plain English, for the record."""
        told = dict(vars(self))
        told["circle"] = [] if self.circle is None else [joined_names(self.circle)]
        told["cut"] = [] if self.cut is None else [f"{self.cut[0]} from a probability of {self.cut[1]:g} on"]
        return [f"{self.client} {what.format(name)}" for field, what, *_ in SAID for name in told[field]]


def joined_names(names: Sequence[str]) -> str:
    """a, b and c; or nobody"""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "nobody"


def _check_fields(kind: str, told: Mapping[str, Any]) -> None:
    """Whether a decision has what its kind has, of the right types."""
    if told.keys() != KINDS[kind].keys():
        raise BadInput(f"a {kind} has {joined_names(list(KINDS[kind]))}; got {joined_names(list(told))}")
    for name, value in told.items():
        wanted = KINDS[kind][name]
        fits = type(value) is wanted or (wanted is float and type(value) is int)
        if not fits or (wanted is list and not all(isinstance(one, str) for one in value)):
            raise BadInput(f"{name} of a {kind} must be {WORDS[wanted]}; got {shown(value)}")


def folded(lines: Sequence[Mapping[str, Any]], client: str) -> Decisions:
    """The last word on each partner, column and requester, and on the rest."""
    last: dict[tuple[str, str], Any] = {}
    for line in lines:
        if line["client"] != client:
            continue
        kind = str(line["kind"])
        try:
            _check_fields(kind, {name: line[name] for name in KINDS[kind]})
        except (BadInput, KeyError):
            raise BadRun(
                f"{shown(dict(line))} is no decision: mend or delete that line, or take the version of "
                "Coterie that wrote it"
            ) from None
        if kind in LAST:
            about, value = LAST[kind](line)
            last[kind, about] = value

    found: dict[str, Any] = {"cut": last.get(("threshold", "")), "circle": last.get(("circle", ""))}
    for name, _, kind, value in SAID:
        if name not in found:
            found[name] = tuple(who for (of, who), told in last.items() if (of, told) == (kind, value))
    return Decisions(client, **found)


LAST: dict[str, Callable[[Mapping[str, Any]], tuple[str, Any]]] = {
    "partner": lambda line: (line["name"], line["in"]),
    "column": lambda line: (line["name"], line["rule"]),
    "threshold": lambda line: ("", (line["class"], float(line["at"]), line["by"])),
    "circle": lambda line: ("", tuple(line["among"])),
    "veto": lambda line: (line["requester"], line["allow"]),
    "plan": lambda line: (line["plan"], line["allow"]),
}
"""What a line is about, and what it says of it."""


Asked = tuple[str, Mapping[str, Any]]
"""A kind of decision, and what it has (`KINDS`)."""


@dataclass(frozen=True)
class Place:
    """A folder of which something can be decided, and what it knows.

    home      where the lines are
    also      folders whose lines count as well: the comparison that a run is part of
    circles   {requester: who is in it}, as a ranking published them
    site      whether it is a site's own, which knows of nobody else
    """

    home: Path
    clients: tuple[str, ...]
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    circles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    also: tuple[Path, ...] = ()
    site: bool = False

    def lines(self) -> list[dict[str, Any]]:
        """All decisions that count here, the oldest first."""
        found = [line for folder in (*self.also, self.home) for line in decisions.read_decisions(folder)]
        return sorted(found, key=decisions.instant)

    def of(self, client: str) -> Decisions:
        _known("client", client, self.clients)
        return folded(self.lines(), client)


def place_of(path: Path, record: Record | None = None) -> Place:
    """Of the folder of a run or a comparison, of a site's kit, or of the folder of its state; `record` is the
    run's, if it was read already.
    """
    if is_run(path):
        above = path.absolute().parent.parent
        return _place(path, record or read_record(path), (above,) if is_comparison(above) else ())
    if is_comparison(path):
        return _place(path, read_records(path)[0], (), ranks=False)
    if site := site_at(path):
        return Place(site[0], (site[1],), site=True)
    raise BadRun(f"{path} is no run, no comparison and no site's kit: there is nothing to decide")


def _place(path: Path, record: Record, also: tuple[Path, ...], ranks: bool = True) -> Place:
    about, names = record.about, tuple(record.clients)
    asked = (*record.settings.forbid, *record.settings.require)
    columns = tuple(dict.fromkeys((*(about.get("columns") or about.get("features", ())), *asked)))
    circles = dict[str, tuple[str, ...]]()  # who is in whose, where a ranking has published them
    found = ranks_by(record.settings.method) if ranks else None
    if found is not None and (by_round := record.matrices.get(found[0], {})):
        values, weights = by_round[max(by_round)], record.weights[max(by_round)]
        for i in np.flatnonzero(np.isfinite(values).any(axis=1)):
            circles[names[i]] = tuple(names[j] for j in np.flatnonzero(weights[i] > 0) if j != i)
    return Place(path, names, columns, tuple(about.get("classes", ())), circles, also)


def decide(path: Path, client: str, asked: Sequence[Asked], by: str = "") -> list[dict[str, Any]]:
    """Writes decisions of one client down, all or none, and returns the lines; what is wrong is said at once.

    `by` is who decides, by default who is logged in. A threshold takes effect by `decide_and_cut`.
    """
    place = checked(path, client, asked)
    with readable_errors(place.home):
        place.home.mkdir(mode=0o700, exist_ok=True)  # of a site that has not been started yet
    return [decisions.add(place.home, client, kind, told, by) for kind, told in asked]


def decide_and_cut(path: Path, client: str, asked: Sequence[Asked], by: str = "") -> list[dict[str, Any]]:
    """As `decide`; from then on the client's model, in each run of a comparison, says the class from the
    decided probability on (`use/cut.py`).
    """
    checked(path, client, asked)
    cuts = [Cut(told["class"], told["at"]) for kind, told in asked if kind == "threshold"]
    folders = sorted(p for p in path.glob("*/seed-*") if is_run(p)) if is_comparison(path) else [path]
    for folder in folders if cuts else ():
        record_in(folder)  # models of a federation are at their sites
    for folder in folders:
        for cut in cuts:
            write_cut(folder, client, cut, by or decisions.user())
    return decide(path, client, asked, by)


def checked(path: Path, client: str, asked: Sequence[Asked]) -> Place:
    """The place, if all that is asked can be decided of it."""
    place, wrong = place_of(path), Gathered()
    with wrong.one():
        _known("client", client, place.clients)
    for kind, told in asked:
        with wrong.one():
            _known("kind of decision", kind, LAST)
            if place.site and kind not in ("veto", "plan"):
                raise BadInput(f"a {kind} is decided of a run: name the folder of one, not that of a site")
            _check_fields(kind, told)
            _check(place, client, kind, told)
    wrong.refuse()
    return place


def _known(what: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        raise UnknownName(what, name, names)


def _another(place: Place, what: str, name: str, client: str) -> None:
    if name == client:
        raise BadInput(f"{what} {shown(name)} is the client itself: name another")
    _known(what, name, place.clients)


def _check(place: Place, client: str, kind: str, told: Mapping[str, Any]) -> None:
    """Refuses what cannot be decided there."""
    match kind:
        case "partner":
            _another(place, "partner", told["name"], client)
        case "column":
            if not place.columns:
                raise BadInput(
                    f"inputs of {place.home} are no columns that have names: none can be decided of"
                )
            _known("column", told["name"], place.columns)
            _known("rule", told["rule"], RULES)
        case "threshold":
            if len(place.classes) != 2:
                many = len(place.classes) or "no"
                raise BadInput(f"{place.home} has {many} classes, and a threshold is for two: leave it out")
            _known("class", told["class"], place.classes)
            if not 0 < told["at"] < 1:
                raise BadInput(f"threshold {told['at']} must lie between 0 and 1: try 0.5")
        case "circle":
            wrong = Gathered()
            if not told["approved"]:
                wrong.add("a circle is approved, or not decided: approve one of fewer, or of nobody")
            for name in told["among"]:
                with wrong.one():
                    _another(place, "partner", name, client)
                    if client in place.circles and name not in place.circles[client]:
                        raise BadInput(
                            f"partner {shown(name)} is not in the circle that was published for {client} "
                            f"({joined_names(place.circles[client])}): a circle can be approved, or made "
                            "smaller"
                        )
            wrong.refuse()
        case "veto" if place.site and told["requester"] != client:
            from coterie.federation.kits.certificates import check_name  # which needs what a network needs

            check_name(told["requester"])
        case "veto":
            _another(place, "requester", told["requester"], client)
        case "plan":
            if not place.site:
                raise BadInput("a plan is decided of a site: name its kit, not the folder of a run")
            _known("plan", told["plan"], [line["plan"] for line in known_plans(place.home)])
