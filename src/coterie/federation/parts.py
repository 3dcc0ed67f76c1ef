"""A site's part of a run's record, as it comes from who leads the run: JSON that a stranger may have written.

    config, about    once: the settings, and what the run is about
    rounds           each a `line`, a `timing` and, from the first on, what was `heard`: the site's row and
                     column of the weights, its rows of further matrices, what passed with it at an end
    end              once: calibration and privacy of the site; or how training diverged

Every field is checked before anything is made of it. A part that tells figures of other sites is refused like
any other that does not fit; fields that are not known here are not looked at.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

import numpy as np
import tomli_w

from coterie.core.checks import Kind, in_one_line
from coterie.core.client import Task
from coterie.core.errors import BadData, Refused, shown
from coterie.federation.told import (
    COUNT,
    FACTS,
    NAME,
    OTHER_VERSION,
    fields,
    is_count,
    is_list,
    list_of,
    one_of,
)
from coterie.metrics.calibration import Calibration, Tally

AT_ONCE = 64  # rounds in a message
MOST_LETTERS = 64 << 20  # of a message
MOST_CLIENTS = 1_000  # whose matrices are written out
MOST_MATRICES = 20  # beside the weights
MOST_NAMES = 50  # of metrics, of parts of the time
MOST_BINS = 1_000
LONGEST = 4_000  # letters of a text
DEEPEST = 8
LARGE = sys.float_info.max
SIZES = ("train", "validation", "test")


class Seat(NamedTuple):
    """A site's place in a run: who leads it, its name and number, the others, a mark of its rows."""

    run: str
    leader: str
    name: str
    number: int
    others: frozenset[str]
    rows: str

    @property
    def sites(self) -> int:
        return len(self.others) + 1


class Round(NamedTuple):
    """Lines of metrics.jsonl and timings.jsonl, and what was heard, None before the first round."""

    line: Mapping[str, Any]
    timing: Mapping[str, Any]
    heard: Mapping[str, Any] | None


class Part(NamedTuple):
    """What may be written down; no config, which is a text in TOML, where only rounds came."""

    config: str | None
    about: Mapping[str, Any]
    rounds: list[Round]
    calibration: Mapping[str, np.ndarray] | None
    privacy: Mapping[str, Any] | None
    diverged: str


def part_of(told: Any, seat: Seat, most_rounds: int) -> Part:
    few = list_of("tables", lambda v: isinstance(v, Mapping), AT_ONCE)
    kinds = {"rounds": few, "config": optional(SETTINGS), "end": optional(TABLE)}
    found = fields(told, kinds, "what is shown")
    if seat.sites > MOST_CLIENTS:
        raise Refused(f"{seat.sites} sites, where parts are kept of runs with at most {MOST_CLIENTS:,}")
    if len(json.dumps(told)) > MOST_LETTERS:
        raise Refused(f"more than {MOST_LETTERS >> 20} MB of a record at once: {OTHER_VERSION}")
    rounds = [round_of(one, seat, most_rounds) for one in found["rounds"]]
    if len({one.line["round"] - i for i, one in enumerate(rounds)}) > 1:
        raise BadData(f"rounds that are shown do not follow each other: {OTHER_VERSION}")
    config = None if found["config"] is None else config_of(found["config"], most_rounds)
    about = {} if config is None else about_of(told.get("about"), seat)
    end = found["end"] or {}
    diverged = fields(end, {"diverged": LINE}, "what is shown")["diverged"] if "diverged" in end else ""
    return Part(config, about, rounds, calibration_of(end, seat), privacy_of(end, seat), diverged)


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGE <= value <= LARGE


def is_line(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and in_one_line(value)


def is_plain(value: Any, deep: int = DEEPEST, most: float = LARGE) -> bool:
    """JSON of short texts and of numbers that are not beyond a bound."""
    if isinstance(value, Mapping):
        return deep > 0 and all(is_line(k) and is_plain(v, deep - 1, most) for k, v in value.items())
    if isinstance(value, list):
        return deep > 0 and all(is_plain(v, deep - 1, most) for v in value)
    number = isinstance(value, int | float) and -most <= value <= most
    return value is None or number or is_line(value)


def own_alone(number: int, many: int, empty: Any, fits: Callable[[Any], bool]) -> Kind:
    """[client] with nothing for others."""

    def is_own(value: Any) -> bool:
        if not isinstance(value, list) or len(value) != many:
            return False
        return all(fits(v) if i == number else v == empty and v is not False for i, v in enumerate(value))

    return Kind(f"a list of {many} with {json.dumps(empty)} for others", is_own)


def each(kind: Kind, needs: str = "", most: int = MOST_NAMES) -> Kind:
    """A table of what is of a kind, by name."""

    def fits(value: Any) -> bool:
        if not isinstance(value, Mapping) or len(value) > most or (needs and needs not in value):
            return False
        return all(is_line(k) and kind.fits(v) for k, v in value.items())

    return Kind(f"a table by name of {kind.must}{f', with {needs}' if needs else ''}", fits)


def optional(kind: Kind) -> Kind:
    return Kind(f"{kind.must}, or nothing", lambda v: v is None or kind.fits(v))


TABLES = list_of("tables", lambda v: isinstance(v, Mapping), MOST_CLIENTS)
TABLE = Kind(
    "a table of finite numbers and texts in one line", lambda v: isinstance(v, Mapping) and is_plain(v)
)
SETTINGS = Kind(
    "a table of numbers and texts in one line",
    lambda v: isinstance(v, Mapping) and is_plain(v, most=math.inf),  # an option may be inf
)
PLAIN = Kind("made of finite numbers and texts in one line", is_plain)
LINE = Kind(f"a text in one line of at most {LONGEST:,} letters", is_line)
SEED = Kind("a whole number that is not negative", lambda v: is_count(v, 2**64))
FINITE = Kind("a finite number", is_finite)
TEXTS = list_of("texts in one line", is_line, 1_000_000)


def config_of(told: Mapping[str, Any], most_rounds: int) -> str:
    """Settings, as TOML holds them."""
    found = fields(told, {"method": NAME, "rounds": COUNT, "seed": SEED}, "settings that are shown")
    if found["rounds"] > most_rounds:
        raise Refused(f"rounds={found['rounds']} are shown, where max_rounds is {most_rounds}")
    try:
        return tomli_w.dumps(dict(told))
    except (TypeError, ValueError) as error:
        raise BadData(f"settings that are shown are none ({error}): {OTHER_VERSION}") from None


def about_of(told: Any, seat: Seat) -> dict[str, Any]:
    """What the run is about: all names, and of others nothing more."""
    whose = "what is shown of the run"
    kinds = {"task": one_of(get_args(Task)), "classes": TEXTS, "features": TEXTS, "clients": TABLES}
    some = {"coterie": LINE, "versions": each(LINE), "commit": LINE, "inputs": list_of("sizes", is_count, 8)}
    some |= {"published_tests": PLAIN, "parameters": COUNT, "belief_bytes": COUNT}
    some |= {"small": each(LINE), "columns": TEXTS, "positive": Kind("0 or 1", lambda v: is_count(v, 1))}
    found = fields(told, kinds | {name: optional(kind) for name, kind in some.items()}, whose)
    clients = [client_of(c, i == seat.number) for i, c in enumerate(found["clients"])]
    names = [c["name"] for c in clients]
    placed = (seat.number, seat.name) in enumerate(names) and len(names) == seat.sites
    if not placed or {*names} != {*seat.others, seat.name}:
        raise BadData(
            f"{whose}: {shown(names)} are not the sites of the run in their places: {OTHER_VERSION}"
        )
    if set(found["small"] or {}) - {seat.name}:
        raise BadData(f"{whose}: it tells of the rows of other sites")
    return {**{k: v for k, v in found.items() if v is not None}, "clients": clients, "command": None}


def client_of(told: Mapping[str, Any], own: bool) -> dict[str, Any]:
    names = (*SIZES, "labels", "cluster", "notes")
    found = fields(told, {"name": NAME, **{key: FACTS[key] for key in names}}, "a client that is shown")
    if not own and any(found[key] not in (0, None, ()) for key in names):
        raise BadData(f"it tells of the rows of {shown(found['name'])}, which is another site")
    return found


def round_of(told: Mapping[str, Any], seat: Seat, most_rounds: int) -> Round:
    line = line_of(told.get("line"), seat, most_rounds)
    whose, many = f"round {line['round']} that is shown", seat.sites
    kinds = dict.fromkeys(("evaluate_seconds", "cpu_seconds", "evaluate_cpu_seconds"), optional(FINITE))
    kinds |= {"round": COUNT, "seconds": FINITE, "parts": optional(each(FINITE))}
    timing = fields(told.get("timing"), kinds, whose)
    if timing["round"] != line["round"] or (told.get("heard") is None) != (line["round"] == 0):
        raise BadData(f"{whose}: what it tells is not of one round: {OTHER_VERSION}")
    timing = {k: v for k, v in timing.items() if v is not None}
    if told.get("heard") is None:
        return Round(line, timing, None)
    numbers = Kind(f"{many} finite numbers", lambda v: is_list(v, is_finite, many) and len(v) == many)
    known = Kind(f"{many} finite numbers or nulls", lambda v: is_row(v, many))
    ends = Kind("counts that passed with this site at an end", lambda v: is_passed(v, seat.number, many))
    kinds = {"row": numbers, "column": numbers, "named": each(known, most=MOST_MATRICES), "passed": ends}
    return Round(line, timing, fields(told["heard"], kinds, whose, quote=False))


def matrices_of(
    heard: Mapping[str, Any] | None, seat: Seat
) -> tuple[np.ndarray | None, dict[str, np.ndarray], np.ndarray]:
    """Weights, further matrices and what passed, as a line of collaboration.jsonl has them: of other sites
    among each other the weights are 0, the others NaN.
    """
    if heard is None:
        return None, {}, np.zeros((0, 5), dtype=np.int64)
    weights = np.zeros((seat.sites, seat.sites), dtype=np.float32)
    weights[:, seat.number] = heard["column"]
    weights[seat.number] = heard["row"]
    matrices = {name: np.full((seat.sites, seat.sites), np.nan) for name in heard["named"]}
    for name, row in heard["named"].items():
        matrices[name][seat.number] = [np.nan if v is None else v for v in row]
    return weights, matrices, np.array(heard["passed"], dtype=np.int64).reshape(-1, 5)


def is_row(value: Any, many: int) -> bool:
    return is_list(value, lambda v: v is None or is_finite(v), many) and len(value) == many


def is_passed(value: Any, number: int, many: int) -> bool:
    """Entries of sender, receiver, models, bytes and numbers; who leads has the number after the last."""

    def fits(entry: Any) -> bool:
        if not is_list(entry, is_count, 5) or len(entry) != 5:
            return False
        return number in entry[:2] and max(entry[:2]) <= many

    return is_list(value, fits, 4 * many + 4)


def line_of(told: Any, seat: Seat, most_rounds: int) -> dict[str, Any]:
    """A line of metrics.jsonl; what is not known here is left out."""
    number, many, whose = seat.number, seat.sites, "a round that is shown"
    figures = own_alone(number, many, None, lambda v: v is None or is_finite(v))
    counts = own_alone(number, many, 0, is_count)
    kinds = {
        "round": Kind(f"a whole number up to {most_rounds}", lambda v: is_count(v, most_rounds)),
        "scores": optional(each(each(figures), "own/test")),
        "train_loss": figures,
        "transfers": each(COUNT, "bytes"),
        **dict.fromkeys(("sent", "received", "sent_bytes", "received_bytes", "numbers"), counts),
        "extras": TABLE,
        "measures": each(figures),
    }
    found = fields(told, kinds, whose, quote=False)
    sites = {*seat.others, seat.name}
    away = Kind("why, by site", lambda v: isinstance(v, Mapping) and set(v) <= sites and is_plain(v, 1))
    more = {"rows": counts, "away": away, "ended": LINE}
    return found | fields(told, {key: kind for key, kind in more.items() if key in told}, whose, quote=False)


def calibration_of(end: Mapping[str, Any], seat: Seat) -> dict[str, np.ndarray] | None:
    """How sure the site's model is and how often right: by kind [sum, client, bin]."""
    if end.get("calibration") is None:
        return None
    sums = Kind(f"{len(Tally._fields)} sums by bin", is_tally)
    found = fields(end["calibration"], dict.fromkeys(Calibration._fields, sums), "calibration that is shown")
    arrays = {kind: np.zeros((len(rows), seat.sites, len(rows[0]))) for kind, rows in found.items()}
    for kind, rows in found.items():
        arrays[kind][:, seat.number] = rows
    return arrays


def is_tally(value: Any) -> bool:
    if not is_list(value, lambda row: is_list(row, is_finite, MOST_BINS), len(Tally._fields)):
        return False
    return len(value) == len(Tally._fields) and len({len(row) for row in value}) == 1


def privacy_of(end: Mapping[str, Any], seat: Seat) -> dict[str, Any] | None:
    """What looking at the site's rows has cost."""
    if end.get("privacy") is None:
        return None
    whose = "what looking at rows has cost, as it is shown"
    kinds = dict.fromkeys(("budget", "outside", "scores"), PLAIN) | {"delta": FINITE, "sites": TABLES}
    found = fields(end["privacy"], kinds, whose)
    if [site.get("name") for site in found["sites"]] != [seat.name]:
        raise BadData(f"{whose}: it is of other sites")
    return dict(end["privacy"])
