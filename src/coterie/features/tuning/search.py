"""What is searched, and what to try next.

An option is searched over a range (sgd.lr=0.01..1:log, finetune.tune=1..10) or a list of values
(fedavg.weighted=true|false), and so is the number of rounds (rounds=10|30). What to try next comes from
Optuna's tree-structured Parzen estimator (Bergstra et al., 2011, "Algorithms for Hyper-Parameter
Optimization"), as a pure function of what was tried and a key.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.core.errors import BadInput
from coterie.core.options import coerced, options_of, plain
from coterie.core.seeds import Key
from coterie.kernels import WORK

DRAWS = 10  # before options that were tried already are taken again
Options = dict[str, Any]  # by dotted name: {"sgd.lr": 0.3, "finetune.tune": 4}


@dataclass(frozen=True)
class Axis:
    """One searched option: a number from `low` to `high`, or one of `values`; of no table, a setting."""

    table: str
    option: str
    low: float = math.nan
    high: float = math.nan
    log: bool = False
    values: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.table}.{self.option}" if self.table else self.option

    def ends(self) -> tuple[Any, ...]:
        return self.values or (self.low, self.high)

    def holds(self, value: Any) -> bool:
        return value in self.values if self.values else value is not None and self.low <= value <= self.high

    def distribution(self, optuna: Any) -> Any:
        kinds = optuna.distributions
        if self.values:
            return kinds.CategoricalDistribution(range(len(self.values)))
        kind = kinds.IntDistribution if isinstance(self.low, int) else kinds.FloatDistribution
        return kind(self.low, self.high, log=self.log)

    def code(self, value: Any) -> Any:
        """As Optuna sees it: a number, or the place among the values."""
        return self.values.index(value) if self.values else value

    def value(self, code: Any) -> Any:
        """The inverse of `code`; numbers get three digits, so that they can be read and typed."""
        if self.values:
            return self.values[code]
        return min(max(float(f"{code:.3g}"), self.low), self.high) if isinstance(code, float) else code


def suggest(
    axes: Sequence[Axis], tried: Sequence[tuple[Options, float | None]], key: Key, larger: bool
) -> Options:
    """The options to try next, after those `tried` with their values, None for one that failed."""
    optuna = need_optuna()
    space = {a.name: a.distribution(optuna) for a in axes}
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # a study for one question is nothing to announce
    try:
        study = optuna.create_study(direction="maximize" if larger else "minimize")
        for options, value in tried:
            # one that failed counts as worse than any other: "pruned" is Optuna's word for that
            state = optuna.trial.TrialState.PRUNED if value is None else optuna.trial.TrialState.COMPLETE
            params = {a.name: a.code(options[a.name]) for a in axes}
            study.add_trial(optuna.create_trial(state=state, value=value, params=params, distributions=space))
        for draw in range(DRAWS):
            study.sampler = optuna.samplers.TPESampler(seed=key.at(draw).integer() % 2**32)
            drawn = study.ask(space).params
            options = {a.name: a.value(drawn[a.name]) for a in axes}
            if all(options != before for before, _ in tried):
                break
        return options
    finally:
        optuna.logging.set_verbosity(level)


def need_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise BadInput("tuning needs Optuna: install it with pip install 'coterie[tune]'") from None
    return optuna


DECAYS = {"adamw": (0.01, 0.1, 1.0, 3.0)}
"""Values of weight decay where it is apart from the gradient; it shrinks by the learning rate times it."""
ROUNDS = "rounds"


def default_axes(kernel: str, rounds: int) -> list[Axis]:
    """What matters of local work that ends after so many rounds at most: how far steps go (on a log scale,
    around their default), how they shrink, how weights are held, and when to stop.

    `newton` has none of these: its pull is the length of a step and, as rounds are given, when to stop.
    """
    known = {o.name: o.default for o in options_of(WORK[kernel])}
    if "pull" in known:
        holds = Axis(kernel, "penalty", values=(0.0, 0.001, 0.01, 0.1, 1.0))
        return [Axis(kernel, "pull", 0.01, 100.0, log=True), holds]
    if "lr" not in known:
        return []
    rate = known["lr"]
    axes = [Axis(kernel, "lr", float(f"{rate / 100:.3g}"), float(f"{rate * 30:.3g}"), log=True)]
    if "weight_decay" in known:
        decays = DECAYS.get(kernel, (0.0, 0.001, 0.01, 0.1))
        axes += [Axis(kernel, "weight_decay", values=decays)]
        axes += [Axis(kernel, "schedule", values=("constant", "cosine"))]
    stops = tuple(sorted({max(1, rounds // 4), max(1, rounds // 2), rounds}))
    return axes + ([Axis("", ROUNDS, values=stops)] if len(stops) > 1 else [])


def read_axis(entry: str, classes: Mapping[str, type]) -> Axis:
    """sgd.lr=0.01..1:log, finetune.tune=1..10 or fedavg.weighted=true|false, in the option's own type."""
    name, equals, text = entry.partition("=")
    table, dot, option = name.strip().partition(".")
    if table == ROUNDS and not dot:
        table, dot, option = "", ".", ROUNDS
    if not (equals and dot and text):
        raise BadInput(f"search {entry!r} needs the form table.option=low..high: try sgd.lr=0.01..1:log")
    if table not in classes:
        raise BadInput(
            f"search {entry!r}: {table!r} is not tuned here: name an option of "
            f"{', '.join(c for c in classes if c)}"
        )
    option = option.replace("-", "_")

    def typed(word: str) -> Any:
        """true, false and numbers as such; anything else is text."""
        value: Any = word.strip()
        with contextlib.suppress(ValueError):
            known = json.loads(value)
            value = known if isinstance(known, bool | int | float) else value
        return plain(coerced(classes[table], {option: value}, f"search of {table or 'settings'}")[option])

    if ".." not in text:
        values = tuple(typed(word) for word in text.split("|"))
        if len(values) < 2 or any(values.count(v) > 1 for v in values):
            raise BadInput(f"search {entry!r} needs at least 2 different values: give low..high or a|b|c")
        return Axis(table, option, values=values)
    span, colon, scale = text.partition(":")
    low, high = (typed(word) for word in span.split("..", 1))
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)):
        raise BadInput(f"search {entry!r}: {name} is not a number: list its values as a|b|c")
    if not low < high < math.inf:
        raise BadInput(f"search {entry!r} is an empty range: {low} must lie below {high}")
    if colon and scale != "log":
        raise BadInput(f"search {entry!r}: unknown scale {scale!r}: write :log or nothing")
    if colon and low <= 0:
        raise BadInput(f"search {entry!r}: a log scale needs bounds above 0; got {low}")
    return Axis(table, option, low, high, log=bool(colon))
