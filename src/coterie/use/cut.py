"""Where a class of two is said: from a probability on that somebody decided, in place of one half.

Who must not miss an illness says it from 0.35 on, and has more false alarms for it. What a cut costs and
gains on test rows is in `metrics/operating.py`. Decided cuts are files in the folder of the model that they
are for, and whoever predicts with it from then on predicts by them:

    cut.json     in an exported folder, a site's own too: {"of": "ill", "at": 0.35, "by": ..., "decided": ...}
    cuts.json    in the folder of a run: the same for each client that has one, by its name
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.checks import NAME, in_one_line, is_number
from coterie.core.errors import BadInput, BadRun, shown
from coterie.storage.atomic import write_whole
from coterie.use.folders import BUNDLE, is_exported, one_of, record_in

OF_ONE, OF_RUN = "cut.json", "cuts.json"
WHEN = "%Y-%m-%dT%H:%M:%S%z"
_writing = threading.Lock()  # one file has those of all clients of a run


@dataclass(frozen=True)
class Cut:
    """The class `of` is said where its probability is at least `at`, the other class otherwise.

    by, decided   who decided it and when, as 2026-11-17T10:00:00+0000; empty where nobody wrote it down
    """

    of: str
    at: float
    by: str = ""
    decided: str = ""

    def __post_init__(self) -> None:
        if not is_number(self.at) or not 0 < self.at < 1:
            raise BadInput(f"cut {self} must lie above 0 and below 1: try 0.35")
        object.__setattr__(self, "at", float(self.at))  # as a file holds it

    def __str__(self) -> str:
        return f"{self.of}={self.at}"

    @staticmethod
    def read(text: str) -> Cut:
        """As people write it, CLASS=0.35; there may be such a sign in the name of a class."""
        of, _, at = text.rpartition("=")
        with contextlib.suppress(ValueError):
            if of:
                return Cut(of, float(at))
        raise BadInput(f"cut {shown(text)} is no class with a probability: try ill=0.35")

    def check(self, client: str, classes: Sequence[str]) -> None:
        if len(classes) != 2:
            many = len(classes) or "no"
            raise BadInput(f"cut {self} is for two classes, and {client!r} has {many}: leave it out")
        if self.of not in classes:
            raise BadInput(
                f"cut {self}, but the classes of {client!r} are {' and '.join(classes)}: name one of these"
            )

    def said(self, p: np.ndarray, classes: Sequence[str]) -> np.ndarray:
        """[row] the number of the class that is said, of probabilities [row, class]."""
        own = classes.index(self.of)
        return np.where(p[:, own] >= self.at, own, 1 - own)

    def words(self, classes: Sequence[str]) -> str:
        other = classes[1 - classes.index(self.of)]
        told = f"{self.of!r} is said where its probability is at least {self.at}, else {other!r}"
        who = " ".join(w for w in (f"by {self.by}" * bool(self.by), self.decided) if w)
        return f"{told}; decided {who}" if who else told


def read_cut(folder: Path | str, client: str) -> Cut | None:
    """The cut that was decided for a client's model; None if none was. An exported folder has one model."""
    path = Path(folder)
    if is_exported(path):
        told = _table(path / OF_ONE)
        return None if told is None else _cut(path / OF_ONE, told)
    told = _table(path / OF_RUN) or {}
    return _cut(path / OF_RUN, told[client]) if client in told else None


def write_cut(folder: Path | str, client: str, cut: Cut, by: str) -> Cut:
    """Writes down that somebody decided it now, in place of an earlier one; refused if the folder has no such
    model. The client may be left out where there is only one.
    """
    path = Path(folder)
    if not NAME.fits(by):
        raise BadInput(f"by={shown(by)} must be a name of 1 to 100 characters in one line: say who decides")
    if is_exported(path):
        try:
            bundle = json.loads((path / BUNDLE).read_bytes())
            known, classes = [str(bundle["client"])], [str(c) for c in bundle["classes"]]
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise BadRun(f"{path} is damaged ({error}): export it again") from None
    else:
        record = record_in(path)
        known, classes = list(record.clients), list(record.about["classes"])
    name = one_of(client, known, known, str(path))
    cut.check(name, classes)
    made = replace(cut, by=by, decided=time.strftime(WHEN))
    if is_exported(path):
        write_whole(path / OF_ONE, text_of(asdict(made)))
    else:
        with _writing:
            write_whole(path / OF_RUN, text_of({**(_table(path / OF_RUN) or {}), name: asdict(made)}))
    return made


def text_of(told: Mapping[str, Any]) -> str:
    return json.dumps(told, indent=1) + "\n"


def fitting(folder: Path, client: str, classes: tuple[str, ...]) -> Cut | None:
    """The decided cut, refused as a mistake of the file if the model is of other classes."""
    cut = read_cut(folder, client)
    if cut is not None:
        try:
            cut.check(client, classes)
        except BadInput as error:
            raise _damaged(folder / (OF_ONE if is_exported(folder) else OF_RUN), str(error)) from None
    return cut


def _table(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    try:
        told = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(file, str(error)) from None
    if not isinstance(told, dict):
        raise _damaged(file, f"{shown(told)} is no table")
    return told


def _cut(file: Path, told: Any) -> Cut:
    try:
        found = Cut(**{name: told[name] for name in ("of", "at", "by", "decided")})
        if not all(isinstance(t, str) and in_one_line(t) for t in (found.of, found.by, found.decided)):
            raise ValueError("who decided what is no text")
        if found.decided:
            time.strptime(found.decided, WHEN)
    except (BadInput, LookupError, TypeError, ValueError) as error:
        raise _damaged(file, str(error)) from None
    return found


def _damaged(file: Path, why: str) -> BadRun:
    return BadRun(f"{file} is damaged ({why}): decide the cut again, or delete the file to do without")
