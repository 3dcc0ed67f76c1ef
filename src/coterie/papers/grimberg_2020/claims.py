"""What grimberg-2020 claims of Titanic, in our words, and how the runs answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from coterie.papers import claims
from coterie.papers.base import PRESETS, Preset
from coterie.papers.claims import Claim, Verdict, every, some
from coterie.papers.grimberg_2020.paper import AGENTS, OVERLAP, STUDIES, Trace, kept

above_zero = partial(claims.above_zero, overlap=OVERLAP)
near_zero = partial(claims.near_zero, overlap=OVERLAP)

LABELS = {"global": "Global", "weight-erosion": "Weight Erosion", "local": "Local"}
EROSION = "weight-erosion"
Values = list[float]


@dataclass(frozen=True)
class Results:
    """The runs of one preset, by study, user's number and method."""

    preset: Preset
    runs: Mapping[tuple[str, int, str], Mapping[int, Trace]]

    def of(self, study: str, user: int, method: str) -> Mapping[int, Trace]:
        """By seed."""
        return self.runs.get((study, user, method), {})

    def seeds(self) -> dict[str, int]:
        """How many seeds, from 0, each cell has."""
        found: dict[str, int] = {}
        for (study, user, _), by_seed in self.runs.items():
            cell = f"{study}/{STUDIES[study].users[user]}"
            found[cell] = max(found.get(cell, 0), *(seed + 1 for seed in by_seed))
        return found

    def curve(self, trace: Trace) -> Values:
        """Accuracy by round, as the preset measures it."""
        return trace.by_batches if self.preset == "as-run" else trace.accuracy

    def final(self, study: str, user: int, method: str) -> Values:
        return [self.curve(t)[-1] for t in self.of(study, user, method).values()]

    def gain(self, study: str, user: int, method: str, over: str) -> Values:
        """Points by which a method's last accuracy is above another's, seed by seed."""
        a, b = self.of(study, user, method), self.of(study, user, over)
        return [100 * (self.curve(a[s])[-1] - self.curve(b[s])[-1]) for s in a if s in b]

    def feature(self, study: str, user: int, method: str, name: str) -> dict[int, float]:
        """A feature's weight in the log-odds of the second class, by seed."""
        return {s: log_odds(t)[t.features.index(name)] for s, t in self.of(study, user, method).items()}

    def alpha(self, study: str, user: int) -> np.ndarray:
        """Mean over rounds of each agent's weight: [seed, agent]."""
        found = [np.mean(t.alpha or [], axis=0) for t in self.of(study, user, EROSION).values()]
        return np.array(found).reshape(-1, AGENTS)


def log_odds(trace: Trace) -> Values:
    """What the prediction depends on: the second output's weights less the first's."""
    first, second = np.array(trace.weights)
    return [float(v) for v in second - first]


def read(out: Path) -> dict[Preset, Results]:
    """All that is below OUT, by preset."""
    found: dict[Preset, Results] = {}
    for preset in PRESETS:
        runs: dict[tuple[str, int, str], dict[int, Trace]] = {}
        for name, study in STUDIES.items():
            for i, user in enumerate(study.users):
                for trace in kept(out, preset, name, user):
                    runs.setdefault((name, i, trace.method), {})[trace.seed] = trace
        if runs:
            found[preset] = Results(preset, runs)
    return found


def by_method(check: Callable[[str], Verdict]) -> Verdict:
    return every({LABELS[m]: check(m) for m in (EROSION, "local")})


def ahead(found: np.ndarray, agent: int, *others: int) -> Verdict:
    """One agent's weight lies above those of all the others."""
    if not len(found):
        return above_zero([])
    return above_zero(list(found[:, agent] - found[:, list(others)].max(axis=1)), 2)


def lead(found: np.ndarray, agent: int, *others: int) -> np.ndarray:
    gap: np.ndarray = found[:, agent] - found[:, list(others)].max(axis=1)
    return gap


def erosion_beats(r: Results, study: str, user: int) -> Verdict:
    over = {LABELS[m]: above_zero(r.gain(study, user, EROSION, m)) for m in ("global", "local")}
    return every(over)


def marked_for_agent_2(r: Results) -> Verdict:
    gaps = [lead(a, 1, *({0, 2, 3} - {u})) for u in (2, 0, 3) if len(a := r.alpha("age-strict", u))]
    if len(gaps) < 3 or len({len(g) for g in gaps}) > 1:
        return above_zero([])
    return above_zero(list(gaps[0] - np.maximum(gaps[1], gaps[2])), 2)


def outside(r: Results, feature: str) -> Verdict:
    """The feature parts Weight Erosion from Global by more than it parts Local from Global."""
    ours, alone, common = (r.feature("age-strict", 0, m, feature) for m in (EROSION, "local", "global"))
    seeds = [s for s in ours if s in alone and s in common]
    return above_zero([abs(ours[s] - common[s]) - abs(alone[s] - common[s]) for s in seeds], 2)


def weighs_most(r: Results, method: str) -> Verdict:
    """Sex against the largest of the other features, for agent 2."""
    gaps = []
    for trace in r.of("age-strict", 2, method).values():
        sizes = {n: abs(w) for n, w in zip(trace.features, log_odds(trace), strict=True) if n != "bias"}
        male = sizes.pop("male")
        gaps.append(male - max(sizes.values()))
    return above_zero(gaps, 2)


def shrinks(r: Results, feature: str) -> Verdict:
    ours, alone = (r.feature("age-strict", 0, m, feature) for m in (EROSION, "local"))
    return above_zero([abs(alone[s]) - abs(ours[s]) for s in ours if s in alone], 2)


def first_class(r: Results, method: str) -> Verdict:
    one, two = (r.feature("age-strict", 2, method, c) for c in ("class 1", "class 2"))
    return above_zero([one[s] - two[s] for s in one], 2)


def loses(r: Results, method: str) -> Verdict:
    strict, loose = (r.of(study, 2, method) for study in ("age-strict", "age-some"))
    return above_zero([100 * (r.curve(strict[s])[-1] - r.curve(loose[s])[-1]) for s in strict if s in loose])


def alike(r: Results, user: int) -> Verdict:
    found = r.alpha("age-some", user)
    return near_zero(list(found[:, 0] - found[:, 1]) if len(found) else [], 0.05, 2)


STRICT = {str(u): u for u in range(4)}
CLAIMS: list[Claim[Results]] = [
    Claim(
        "AGE_STRICT: Weight Erosion is better than Global, whoever is the user",
        "5.3, figure 6",
        lambda r: every(
            {u: above_zero(r.gain("age-strict", i, EROSION, "global")) for u, i in STRICT.items()}
        ),
    ),
    Claim(
        "AGE_STRICT: for agent 0, Weight Erosion is better than Local",
        "5.3, figure 6 left",
        lambda r: above_zero(r.gain("age-strict", 0, EROSION, "local")),
    ),
    Claim(
        "AGE_STRICT: agent 2 is right in more than 90 %, with Weight Erosion and alone",
        "5.3, figures 6 and 8",
        lambda r: by_method(lambda m: above_zero([100 * a - 90 for a in r.final("age-strict", 2, m)])),
    ),
    Claim(
        "AGE_STRICT: for agent 2, Weight Erosion and Local are within a point of each other",
        "5.3, figure 8",
        lambda r: near_zero(r.gain("age-strict", 2, EROSION, "local"), 1.0),
    ),
    Claim(
        "somewhere on Titanic, Weight Erosion is better than both (the best of eight tries: chance helps)",
        "6",
        lambda r: some(
            {
                f"{s}/{u}": erosion_beats(r, s, i)
                for s in ("age-strict", "age-some")
                for u, i in STRICT.items()
            }
        ),
    ),
    Claim(
        "AGE_STRICT: agent 1, the largest, keeps the most weight in every other agent's model",
        "5.3, figure 6",
        lambda r: every(
            {f"user {u}": ahead(r.alpha("age-strict", u), 1, *({0, 2, 3} - {u})) for u in (0, 2, 3)}
        ),
    ),
    Claim("AGE_STRICT: its lead is largest for agent 2", "5.3, figure 6", marked_for_agent_2),
    Claim(
        "AGE_STRICT: for agent 0, travelling alone counts against survival",
        "5.3, figure 7",
        lambda r: by_method(
            lambda m: above_zero([-w for w in r.feature("age-strict", 0, m, "alone").values()], 2)
        ),
    ),
    Claim(
        "AGE_STRICT: for agent 2 it counts for survival",
        "5.3, figure 8",
        lambda r: by_method(lambda m: above_zero(list(r.feature("age-strict", 2, m, "alone").values()), 2)),
    ),
    Claim(
        "AGE_STRICT: travelling alone, Queenstown and second class weigh less in agent 0's Weight Erosion "
        "model than in its local one",
        "5.3, figure 7",
        lambda r: every({f: shrinks(r, f) for f in ("alone", "port Q", "class 2")}),
    ),
    Claim(
        "AGE_STRICT: for agent 0, Weight Erosion is no average of Global and Local: sex, age or Queenstown "
        "part it further from Global than they part Local",
        "5.3, figure 7",
        lambda r: some({f: outside(r, f) for f in ("male", "age", "port Q")}),
    ),
    Claim(
        "AGE_STRICT: for agent 2, sex weighs more than anything else",
        "5.3, figure 8",
        lambda r: by_method(lambda m: weighs_most(r, m)),
    ),
    Claim(
        "AGE_STRICT: for agent 2, first class weighs more than second",
        "5.3, figure 8",
        lambda r: by_method(lambda m: first_class(r, m)),
    ),
    Claim(
        "AGE_SOME: agents 0 and 1, of the same ages, have the most weight in each other's model",
        "5.3, figure 9",
        lambda r: every(
            {
                "user 0": ahead(r.alpha("age-some", 0), 1, 2, 3),
                "user 1": ahead(r.alpha("age-some", 1), 0, 2, 3),
            }
        ),
    ),
    Claim(
        "AGE_SOME: their weights are within 0.05 of each other in the two other agents' models",
        "5.3, figure 9",
        lambda r: every({f"user {u}": alike(r, u) for u in (2, 3)}),
    ),
    Claim(
        "AGE_SOME: agent 2, with the same rows, is not as good as under AGE_STRICT",
        "5.3, figure 9",
        lambda r: by_method(lambda m: loses(r, m)),
    ),
]
HOSPITALS = dict(zip(STUDIES["heart"].users, range(4), strict=True))
OURS: list[Claim[Results]] = [
    Claim(
        f"four hospitals: Weight Erosion is better than {LABELS[m]}, whoever is the user",
        "not in the paper",
        lambda r, m=m: every(  # type: ignore[misc]
            {u: above_zero(r.gain("heart", i, EROSION, m)) for u, i in HOSPITALS.items()}
        ),
    )
    for m in ("global", "local")
]
