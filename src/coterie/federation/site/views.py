"""What a site is shown of a run while it goes on, kept as a run's folder: STATE/shown/RUN.

    config.toml, run.json    the settings, and what the run is about; who leads it, whose part this is, a
                             mark of the rows that it has here, when it began
    metrics.jsonl, timings.jsonl, collaboration.jsonl    a line a round, with nothing for other sites
    calibration.npz, privacy.json    once the run is over; model.json says where its model is, from STATE

Rounds that are done again replace what was there. While the site is in the run it has the folder's lock, by
which others know that the run goes on. All of it comes from who leads the run, as JSON that a stranger may
have written, and every field is checked before a byte is written:

    config, about    once: the settings, and what the run is about
    rounds           each a `line`, a `timing` and, from the first on, what was `heard`: the site's row and
                     column of the weights, its rows of further matrices, what passed with it at an end
    end              once: calibration and privacy of the site; or how training diverged

A part that tells figures of other sites is refused; fields that are not known here are not looked at.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, get_args

import numpy as np
import tomli_w

from coterie.core.checks import Kind, in_one_line
from coterie.core.client import Task
from coterie.core.errors import BadData, Refused, shown
from coterie.federation.data.messages import (
    COUNT,
    NAME,
    TABLE,
    Facts,
    fields,
    is_count,
    is_list,
    kinds_of,
    list_of,
    none_or,
    one_of,
)
from coterie.federation.messages import AGAIN
from coterie.federation.site.state_folders import last_use
from coterie.metrics.calibration import Calibration, Tally
from coterie.nets.site import PARTS
from coterie.runs.site_view import AT_ONCE
from coterie.storage import locks
from coterie.storage.atomic import readable_errors, write_whole
from coterie.storage.events import Events
from coterie.storage.rounds import LINES, drop_after, write_round, written
from coterie.storage.tensors import write_arrays

KEPT = 50  # runs
MOST_BYTES = 64 << 20  # of a run's lines
MOST_LETTERS = 64 << 20  # of a message
_MOST_CLIENTS = 1_000  # whose matrices are written out
_MOST_MATRICES = 20  # beside the weights
_MOST_NAMES = 50  # of metrics, of parts of the time
_MOST_BINS = 1_000
_LONGEST = 4_000  # letters of a text
_DEEPEST = 8
_LARGE = sys.float_info.max
_Matrices = tuple[np.ndarray | None, dict[str, np.ndarray], np.ndarray]


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


class _Round(NamedTuple):
    """Lines of metrics.jsonl and timings.jsonl, and what was heard, None before the first round."""

    line: Mapping[str, Any]
    timing: Mapping[str, Any]
    heard: Mapping[str, Any] | None


class _SiteView(NamedTuple):
    """What may be written down; no config, which is a text in TOML, where only rounds came."""

    config: str | None
    about: Mapping[str, Any]
    rounds: list[_Round]
    calibration: Mapping[str, np.ndarray] | None
    privacy: Mapping[str, Any] | None
    diverged: str


class ViewStore:
    """The shown runs of a site; of one, the last round is remembered."""

    def __init__(self, state: Path, most_rounds: int) -> None:
        self.state, self.most_rounds = state, most_rounds
        self._at, self._last = ("", ""), -1  # a run and who leads it
        self._lock: IO[str] | None = None
        self._locked = ""

    def folder(self, run: str) -> Path:
        return self.state / "shown" / run

    def take(self, seat: Seat, told: Any) -> int | None:
        """Keeps what is new; the last round that is here then, -1 for none, None without the settings."""
        part = _view_of(told, seat, self.most_rounds)
        with readable_errors(self.folder(seat.run)):
            return self._keep(seat, part)

    def model(self, run: str, where: str) -> None:
        """The run's model for this site lies there; below the site's folder, told from there."""
        place = Path(where)
        with contextlib.suppress(ValueError):
            place = place.relative_to(self.state)
        if (self.folder(run) / "run.json").exists():
            _write_json(self.folder(run) / "model.json", {"model": place.as_posix()})

    def let_go(self) -> None:
        """The site is in no run any more, or in another."""
        if self._lock is not None:
            self._lock.close()
        self._lock, self._locked = None, ""

    def _keep(self, seat: Seat, part: _SiteView) -> int | None:
        folder = self.folder(seat.run)
        if part.config is not None:
            self._begin(seat, part.config, part.about)
        if not (folder / "run.json").exists():
            return None
        if (seat.run, seat.leader) != self._at:
            self._before(seat)
            self._last = written(folder)
            drop_after(folder, self._last)  # what a kill left after it
        last, self._at = self._last, ("", "")  # until all is written
        if self._locked != seat.run:
            self.let_go()
            self._lock, self._locked = locks.locked(folder), seat.run
        new = part.rounds
        if new and new[0].line["round"] <= last:
            last = new[0].line["round"] - 1
            drop_after(folder, last)
        for one in new if new and new[0].line["round"] == last + 1 else ():
            if sum((folder / name).stat().st_size for name in LINES if (folder / name).exists()) > MOST_BYTES:
                raise Refused(f"more than {MOST_BYTES >> 20} MB of one run's record: no more is kept of it")
            write_round(folder, one.line, one.timing, *_matrices_of(one.heard, seat))
            last += 1
        if part.calibration is not None:
            write_arrays(folder / "calibration.npz", part.calibration)
        if part.privacy is not None:
            _write_json(folder / "privacy.json", part.privacy)
        if part.diverged:
            Events(folder).append(last, "diverged", None, part.diverged)
        elif new and (events := Events(folder)).last == "diverged":
            events.append(last, "resumed")
        self._at, self._last = (seat.run, seat.leader), last
        return last

    def _begin(self, seat: Seat, config: str, about: Mapping[str, Any]) -> None:
        """Writes the settings; anew for a run that is there, which began when it began."""
        folder, before = self.folder(seat.run), dict[str, Any]()
        if (folder / "run.json").exists():
            before = self._before(seat)
        else:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            runs = [path for path in folder.parent.iterdir() if path.is_dir()]
            for path in sorted(runs, key=last_use)[:-KEPT]:  # those heard of last stay
                shutil.rmtree(path, ignore_errors=True)
        note = f"{seat.name}'s part of a run that {seat.leader} leads: figures of other sites are not in it"
        times = before.get("times", {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        mine = {"lead": seat.leader, "site": seat.name, "rows": seat.rows, "notes": [note], "times": times}
        write_whole(folder / "config.toml", config)
        _write_json(folder / "run.json", {**about, **mine})

    def _before(self, seat: Seat) -> dict[str, Any]:
        """What run.json says; a run belongs to who began it."""
        told: dict[str, Any] = json.loads((self.folder(seat.run) / "run.json").read_bytes())
        if told.get("lead") != seat.leader:
            raise Refused(f"this run was led by {shown(told.get('lead'))}, not by {shown(seat.leader)}")
        return told


def _write_json(path: Path, told: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(told, indent=2) + "\n")


def _view_of(told: Any, seat: Seat, most_rounds: int) -> _SiteView:
    kinds = {"rounds": list_of("tables", TABLE.fits, AT_ONCE)}
    kinds |= {"config": none_or(_SETTINGS), "end": none_or(_TABLE)}
    found = fields(told, kinds, "what is shown")
    if seat.sites > _MOST_CLIENTS:
        raise Refused(f"{seat.sites} sites, where parts are kept of runs with at most {_MOST_CLIENTS:,}")
    if len(json.dumps(told)) > MOST_LETTERS:
        raise Refused(f"more than {MOST_LETTERS >> 20} MB of a record at once: {AGAIN}")
    rounds = [_round_of(one, seat, most_rounds) for one in found["rounds"]]
    if len({one.line["round"] - i for i, one in enumerate(rounds)}) > 1:
        raise BadData(f"rounds that are shown do not follow each other: {AGAIN}")
    config = None
    if (settings := found["config"]) is not None:
        seed = Kind(COUNT.must, lambda v: is_count(v, 2**64))
        known = fields(settings, {"method": NAME, "rounds": COUNT, "seed": seed}, "settings that are shown")
        if known["rounds"] > most_rounds:
            raise Refused(f"rounds={known['rounds']} are shown, where max_rounds is {most_rounds}")
        try:
            config = tomli_w.dumps(dict(settings))
        except (TypeError, ValueError) as error:
            raise BadData(f"settings that are shown are none ({error}): {AGAIN}") from None
    about = {} if config is None else _about_of(told.get("about"), seat)
    end = found["end"] or {}
    diverged = fields(end, {"diverged": LINE}, "what is shown")["diverged"] if "diverged" in end else ""
    calibration, privacy = _calibration_of(end, seat), end.get("privacy")  # what looking at rows has cost
    if privacy is not None:
        whose = "what looking at rows has cost, as it is shown"
        kinds = dict.fromkeys(("budget", "outside", "scores"), _PLAIN) | {"delta": _FINITE, "sites": _TABLES}
        costs = fields(privacy, kinds, whose)
        if [site.get("name") for site in costs["sites"]] != [seat.name]:
            raise BadData(f"{whose}: it is of other sites")
        privacy = dict(privacy)
    return _SiteView(config, about, rounds, calibration, privacy, diverged)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGE <= value <= _LARGE


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and in_one_line(value)


def _is_plain(value: Any, deep: int = _DEEPEST, most: float = _LARGE) -> bool:
    """JSON of short texts and of numbers that are not beyond a bound."""
    if isinstance(value, Mapping):
        return deep > 0 and all(_is_line(k) and _is_plain(v, deep - 1, most) for k, v in value.items())
    if isinstance(value, list):
        return deep > 0 and all(_is_plain(v, deep - 1, most) for v in value)
    number = isinstance(value, int | float) and -most <= value <= most
    return value is None or number or _is_line(value)


def _just(must: str, fits: Callable[[Any], bool], many: int) -> Kind:
    """A list of so many."""
    return Kind(must, lambda v: is_list(v, fits, many) and len(v) == many)


def _own_alone(number: int, many: int, empty: Any, fits: Callable[[Any], bool]) -> Kind:
    """[client] with nothing for others."""

    def is_own(value: Any) -> bool:
        if not isinstance(value, list) or len(value) != many:
            return False
        return all(fits(v) if i == number else v == empty and v is not False for i, v in enumerate(value))

    return Kind(f"a list of {many} with {json.dumps(empty)} for others", is_own)


def _each(kind: Kind, needs: str = "", most: int = _MOST_NAMES) -> Kind:
    """A table of what is of a kind, by name."""

    def fits(value: Any) -> bool:
        table = isinstance(value, Mapping) and len(value) <= most and (not needs or needs in value)
        return table and all(_is_line(k) and kind.fits(v) for k, v in value.items())

    return Kind(f"a table by name of {kind.must}{f', with {needs}' if needs else ''}", fits)


_TABLES = list_of("tables", TABLE.fits, _MOST_CLIENTS)
_PLAIN = Kind("made of finite numbers and texts in one line", _is_plain)
_TABLE = Kind("a table of finite numbers and texts in one line", lambda v: TABLE.fits(v) and _is_plain(v))
_SETTINGS = Kind(
    "a table of numbers and texts in one line",
    lambda v: TABLE.fits(v) and _is_plain(v, most=math.inf),  # an option may be inf
)
LINE = Kind(f"a text in one line of at most {_LONGEST:,} letters", _is_line)
_FINITE = Kind("a finite number", _is_finite)
_TEXTS = list_of("texts in one line", _is_line, 1_000_000)


def _about_of(told: Any, seat: Seat) -> dict[str, Any]:
    """What the run is about: all names, and of others nothing more."""
    whose = "what is shown of the run"
    kinds = {"task": one_of(get_args(Task)), "classes": _TEXTS, "features": _TEXTS, "clients": _TABLES}
    some = {"coterie": LINE, "versions": _each(LINE), "commit": LINE, "inputs": list_of("sizes", is_count, 8)}
    some |= {"published_tests": _PLAIN, "parameters": COUNT, "belief_bytes": COUNT}
    some |= {"small": _each(LINE), "columns": _TEXTS, "positive": Kind("0 or 1", lambda v: is_count(v, 1))}
    found = fields(told, kinds | {name: none_or(kind) for name, kind in some.items()}, whose)
    clients, own = list[dict[str, Any]](), (*PARTS, "labels", "cluster", "notes")
    for i, client in enumerate(found["clients"]):
        kinds = {"name": NAME} | {key: kinds_of(Facts)[key] for key in own}
        clients.append(fields(client, kinds, "a client that is shown"))
        if i != seat.number and any(clients[i][key] not in (0, None, ()) for key in own):
            named = shown(clients[i]["name"])
            raise BadData(f"it tells of the rows of {named}, which is another site")
    names = [c["name"] for c in clients]
    placed = (seat.number, seat.name) in enumerate(names) and len(names) == seat.sites
    if not placed or {*names} != {*seat.others, seat.name}:
        wrong = f"{whose}: {shown(names)} are not the sites of the run in their places"
        raise BadData(f"{wrong}: {AGAIN}")
    if set(found["small"] or {}) - {seat.name}:
        raise BadData(f"{whose}: it tells of the rows of other sites")
    return {**{k: v for k, v in found.items() if v is not None}, "clients": clients, "command": None}


def _round_of(told: Mapping[str, Any], seat: Seat, most_rounds: int) -> _Round:
    line = _line_of(told.get("line"), seat, most_rounds)
    whose, many = f"round {line['round']} that is shown", seat.sites
    kinds = dict.fromkeys(("evaluate_seconds", "cpu_seconds", "evaluate_cpu_seconds"), none_or(_FINITE))
    kinds |= {"round": COUNT, "seconds": _FINITE, "parts": none_or(_each(_FINITE))}
    timing = fields(told.get("timing"), kinds, whose)
    if timing["round"] != line["round"] or (told.get("heard") is None) != (line["round"] == 0):
        raise BadData(f"{whose}: what it tells is not of one round: {AGAIN}")
    timing = {k: v for k, v in timing.items() if v is not None}
    if told.get("heard") is None:
        return _Round(line, timing, None)

    def is_passed(entry: Any) -> bool:
        """A sender, a receiver, models, bytes and numbers; who leads has the number after the last."""
        five = is_list(entry, is_count, 5) and len(entry) == 5
        return five and seat.number in entry[:2] and max(entry[:2]) <= many

    numbers = _just(f"{many} finite numbers", _is_finite, many)
    known = _just(f"{many} finite numbers or nulls", lambda v: v is None or _is_finite(v), many)
    passed = "counts that passed with this site at an end"
    ends = Kind(passed, lambda v: is_list(v, is_passed, 4 * many + 4))
    kinds = {"row": numbers, "column": numbers, "named": _each(known, most=_MOST_MATRICES), "passed": ends}
    return _Round(line, timing, fields(told["heard"], kinds, whose, quote=False))


def _matrices_of(heard: Mapping[str, Any] | None, seat: Seat) -> _Matrices:
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


def _line_of(told: Any, seat: Seat, most_rounds: int) -> dict[str, Any]:
    """A line of metrics.jsonl; what is not known here is left out."""
    number, many, whose = seat.number, seat.sites, "a round that is shown"
    figures = _own_alone(number, many, None, lambda v: v is None or _is_finite(v))
    counts = _own_alone(number, many, 0, is_count)
    kinds = {"round": Kind(f"a whole number up to {most_rounds}", lambda v: is_count(v, most_rounds))}
    kinds |= {"scores": none_or(_each(_each(figures), "own/test")), "train_loss": figures}
    kinds |= {"transfers": _each(COUNT, "bytes")}
    kinds |= dict.fromkeys(("sent", "received", "sent_bytes", "received_bytes", "numbers"), counts)
    kinds |= {"extras": _TABLE, "measures": _each(figures)}
    found = fields(told, kinds, whose, quote=False)
    sites = {*seat.others, seat.name}
    away = Kind("why, by site", lambda v: isinstance(v, Mapping) and set(v) <= sites and _is_plain(v, 1))
    more = {"rows": counts, "away": away, "ended": LINE}
    return found | fields(told, {key: kind for key, kind in more.items() if key in told}, whose, quote=False)


def _calibration_of(end: Mapping[str, Any], seat: Seat) -> dict[str, np.ndarray] | None:
    """How sure the site's model is and how often right: by kind [sum, client, bin]."""
    if end.get("calibration") is None:
        return None
    row = list_of("sums", _is_finite, _MOST_BINS)
    tally = _just(f"{len(Tally._fields)} sums by bin", row.fits, len(Tally._fields))
    sums = Kind(tally.must, lambda v: tally.fits(v) and len({len(one) for one in v}) == 1)
    found = fields(end["calibration"], dict.fromkeys(Calibration._fields, sums), "calibration that is shown")
    arrays = {kind: np.zeros((len(rows), seat.sites, len(rows[0]))) for kind, rows in found.items()}
    for kind, rows in found.items():
        arrays[kind][:, seat.number] = rows
    return arrays
