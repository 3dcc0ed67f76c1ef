"""To decide: what may be decided of a run, a comparison or a site's part in a federation, and of whom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadInput, BadRun, Gathered, UnknownName, shown
from coterie.federation.consent import site_at
from coterie.federation.plan_notes import known_plans
from coterie.methods import ranks_by
from coterie.runs.compare import is_comparison, read_records
from coterie.runs.decisions import RULES, Decisions, check_fields, folded, listed
from coterie.runs.folder import is_run, read_record
from coterie.runs.record import Record
from coterie.storage import decided
from coterie.storage.atomic import readable_errors

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
        found = [line for folder in (*self.also, self.home) for line in decided.decided(folder)]
        return sorted(found, key=decided.instant)

    def of(self, client: str) -> Decisions:
        known("client", client, self.clients)
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
    about = record.about
    asked = (*record.config.get("forbid", ()), *record.config.get("require", ()))
    columns = tuple(dict.fromkeys((*(about.get("columns") or about.get("features", ())), *asked)))
    circles = published(record) if ranks else {}
    return Place(path, tuple(record.clients), columns, tuple(about.get("classes", ())), circles, also)


def published(record: Record) -> dict[str, tuple[str, ...]]:
    """Who is in whose circle, where a ranking has published them."""
    found = ranks_by(str(record.config["method"]))
    rounds = [] if found is None else list(record.matrices.get(found[0], {}))
    if found is None or not rounds:
        return {}
    values, weights = record.matrices[found[0]][max(rounds)], record.weights[max(rounds)]
    return {
        name: tuple(record.clients[j] for j in np.flatnonzero(weights[i] > 0) if j != i)
        for i, name in enumerate(record.clients)
        if np.isfinite(values[i]).any()
    }


def decide(path: Path, client: str, asked: Sequence[Asked], by: str = "") -> list[dict[str, Any]]:
    """Writes decisions of one client down, all or none, and returns the lines; what is wrong is said at once.

    `by` is who decides, by default who is logged in. A threshold also takes effect with `use/deciding.py`.
    """
    place = checked(path, client, asked)
    with readable_errors(place.home):
        place.home.mkdir(mode=0o700, exist_ok=True)  # of a site that has not been started yet
    return [decided.add(place.home, client, kind, told, by) for kind, told in asked]


def checked(path: Path, client: str, asked: Sequence[Asked]) -> Place:
    """The place, if all that is asked can be decided of it."""
    place, wrong = place_of(path), Gathered()
    with wrong.one():
        known("client", client, place.clients)
    for kind, told in asked:
        with wrong.one():
            known("kind of decision", kind, CHECKS)
            if place.site and kind not in ("veto", "plan"):
                raise BadInput(f"a {kind} is decided of a run: name the folder of one, not that of a site")
            check_fields(kind, told)
            CHECKS[kind](place, client, told)
    wrong.refuse()
    return place


def known(what: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        raise UnknownName(what, name, names)


def another(place: Place, what: str, name: str, client: str) -> None:
    if name == client:
        raise BadInput(f"{what} {shown(name)} is the client itself: name another")
    known(what, name, place.clients)


def check_partner(place: Place, client: str, told: Mapping[str, Any]) -> None:
    another(place, "partner", told["name"], client)


def check_column(place: Place, client: str, told: Mapping[str, Any]) -> None:
    if not place.columns:
        raise BadInput(f"inputs of {place.home} are no columns that have names: none can be decided of")
    known("column", told["name"], place.columns)
    known("rule", told["rule"], RULES)


def check_threshold(place: Place, client: str, told: Mapping[str, Any]) -> None:
    if len(place.classes) != 2:
        many = len(place.classes) or "no"
        raise BadInput(f"{place.home} has {many} classes, and a threshold is for two: leave it out")
    known("class", told["class"], place.classes)
    if not 0 < told["at"] < 1:
        raise BadInput(f"threshold {told['at']} must lie between 0 and 1: try 0.5")


def check_circle(place: Place, client: str, told: Mapping[str, Any]) -> None:
    wrong = Gathered()
    if not told["approved"]:
        wrong.add("a circle is approved, or not decided: approve one of fewer, or of nobody")
    for name in told["among"]:
        with wrong.one():
            another(place, "partner", name, client)
            if client in place.circles and name not in place.circles[client]:
                raise BadInput(
                    f"partner {shown(name)} is not in the circle that was published for {client} "
                    f"({listed(place.circles[client])}): a circle can be approved, or made smaller"
                )
    wrong.refuse()


def check_veto(place: Place, client: str, told: Mapping[str, Any]) -> None:
    if not place.site or told["requester"] == client:
        another(place, "requester", told["requester"], client)
        return
    from coterie.federation.certificates import check_name  # which needs what a network needs

    check_name(told["requester"])


def check_plan(place: Place, client: str, told: Mapping[str, Any]) -> None:
    if not place.site:
        raise BadInput("a plan is decided of a site: name its kit, not the folder of a run")
    known("plan", told["plan"], [line["plan"] for line in known_plans(place.home)])


CHECKS: dict[str, Callable[[Place, str, Mapping[str, Any]], None]] = {
    "partner": check_partner,
    "column": check_column,
    "threshold": check_threshold,
    "circle": check_circle,
    "veto": check_veto,
    "plan": check_plan,
}
