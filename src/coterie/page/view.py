"""One client of a study, as its cards see it: through one method, beside training alone."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from coterie.core.errors import BadRun
from coterie.core.partners import Partners, Shares
from coterie.features.ranking.ranking import is_ranking, ranked, reason
from coterie.features.similarity.record import Similarity, similarity_of
from coterie.methods.baselines import NOTHING
from coterie.page.library import Entry, Library, Site
from coterie.page.studies import Study
from coterie.report.learnable import nothing_in
from coterie.runs.record import Record
from coterie.show import views
from coterie.show.numbers import in_percent
from coterie.show.words import Words

_ROUNDS = 200  # of a picture
LEAST = 0.005  # of a model: whoever counts less is not named


@dataclass(frozen=True, eq=False)
class View:
    """
    label        the method, as its study calls it; `runs` are its seeds, of which `record` is the first
    alone        runs that trained alone on the same rows, if there are any
    similarity   what sketches of the rows said, if anybody asked; `same` if of these very rows
    kin          other studies in the same place
    nothing      runs of always the same answer on the same rows, if the study has them
    """

    entry: Entry
    study: Study
    label: str
    client: str
    runs: Sequence[Record]
    alone: Sequence[Record]
    similarity: Similarity | None
    same: bool
    site: Site | None
    kin: Sequence[Study] = ()
    nothing: Sequence[Record] = ()

    @property
    def record(self) -> Record:
        return self.runs[0]

    @property
    def number(self) -> int:
        return self.record.clients.index(self.client)

    @property
    def names(self) -> list[str]:
        return self.record.clients

    @property
    def others(self) -> list[int]:
        return [j for j in range(len(self.names)) if j != self.number]

    @property
    def method(self) -> str:
        return views.method(self.record)

    @property
    def partners(self) -> Partners | None:
        """How the method of this client chooses with whom it learns; None where that is not known."""
        return views.partners(self.record, self.number)

    @property
    def shares(self) -> Shares:
        """What the weights are shares of: a client's model, the part that all share, or nothing known."""
        rule = self.record.config.get(self.method, {}).get("rule", "mean")
        return self.partners.shares if self.partners is not None and rule == "mean" else ""

    @property
    def reasons(self) -> dict[int, str]:
        """By other, the best first: the name of why it is in a ranking's circle or not."""
        if not is_ranking(self.record):
            return {}
        found = ranked(self.record)
        if self.number not in found.requesters:
            return {}
        return {j: reason(found, self.number, j) for j in found.order(self.number)}

    @property
    def path(self) -> Path:
        return self.study.path_of(self.record)

    @cached_property
    def rounds(self) -> list[int]:
        """Those of a picture."""
        return views.thin(sorted(self.record.weights), _ROUNDS)

    @cached_property
    def heard(self) -> np.ndarray:
        """[round, sender] whose model counted how much in this client's, in the rounds of a picture."""
        return self.rows(self.rounds)

    def rows(self, rounds: Sequence[int], name: str = "") -> np.ndarray:
        """[round, other] this client's rows of the weights, or of another matrix; kept, as rounds that are
        over do not change.
        """
        kept: dict[int, np.ndarray] = self.study.kept.setdefault(("row", self.path, name, self.number), {})
        if new := [r for r in rounds if r not in kept]:
            by_round = self.record.matrices[name] if name else self.record.weights
            kept |= {r: np.array(by_round[r][self.number], dtype=float) for r in new}
        return np.stack([kept[r] for r in rounds]) if rounds else np.zeros((0, len(self.names)))

    @cached_property
    def last(self) -> np.ndarray:
        """[receiver, sender] the weights of the last round; zeros before the first."""
        n = len(self.names)
        return np.asarray(self.record.weights[self.rounds[-1]], float) if self.rounds else np.zeros((n, n))


def figure(value: float, metric: str, say: Words) -> str:
    """A metric as the reader's language writes it."""
    return say.percent(value, 1) if in_percent(metric) else say.number(value)


def labels_of(study: Study) -> list[str]:
    """The methods of a study; those that train together first, always the same answer last."""
    by_label = study.groups()
    last = ("local", NOTHING)
    methods = {label: views.method(runs[0]) for label, runs in by_label.items()}
    return sorted(by_label, key=lambda x: last.index(methods[x]) + 1 if methods[x] in last else 0)


def view_of(library: Library, entry: Entry, client: str, label: str = "", age: float = 0.0) -> View | None:
    """As it was at most `age` seconds ago; None where there is nobody of that name, or no such method, or no
    round yet.
    """
    study = library.study(entry, age)
    by_label = study.groups() if study.records else {}
    label = label or next(iter(labels_of(study)), "") if by_label else ""
    if label not in by_label or client not in by_label[label][0].clients:
        return None
    runs = by_label[label]
    kin = study.once(("kin",), lambda: library.kin(entry, runs[0].clients))
    similarity, same = study.once(("alike",), lambda: similarity_of_study(study, kin, runs[0]))
    return View(
        entry,
        study,
        label,
        client,
        runs,
        _alone_beside(study, kin, runs),
        similarity,
        same,
        library.site_of(entry),
        kin,
        by_label.get(nothing_in(by_label) or "", ()),
    )


def _alone_beside(study: Study, kin: Sequence[Study], runs: Sequence[Record]) -> Sequence[Record]:
    """Training alone in the same study, or on the same rows elsewhere; nothing where this is alone itself."""
    if views.method(runs[0]) == "local":
        return ()
    by_label = study.groups()
    if (label := views.baseline(by_label)) is not None:
        return by_label[label]
    rows = {views.seed(r): str(r.about.get("rows", "")) for r in runs}
    found: dict[int, Record] = {}
    for record in (r for other in kin for r in other.records if views.method(r) == "local"):
        seed = next((s for s, mark in rows.items() if mark and mark == record.about.get("rows")), None)
        if seed is not None and record.clients == runs[0].clients and record.finished:
            found.setdefault(seed, record)
    return list(found.values())


def similarity_of_study(study: Study, kin: Sequence[Study], record: Record) -> tuple[Similarity | None, bool]:
    """Sketches of these rows, else of the same sites with other rows set aside."""
    rows, other = str(record.about.get("rows", "")), None
    for owner, one in ((some, one) for some in (study, *kin) for one in some.records):
        found = _sketches(owner, one) if one.clients == record.clients else None
        if found is None:
            continue
        if owner is study or (rows and rows == one.about.get("rows")):
            return found, True
        if one.about.get("features") == record.about.get("features"):
            other = other or found
    return other, False


def _sketches(owner: Study, record: Record) -> Similarity | None:
    """What a run says of them, worked out once while its study stays as it is; damaged, it says nothing."""

    def read() -> Similarity | None:
        with contextlib.suppress(BadRun):
            return similarity_of(record) if record.matrices else None
        return None

    found: Similarity | None = owner.once(("sketches", owner.path_of(record)), read)
    return found
