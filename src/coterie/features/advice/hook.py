"""The method `advised` begins with trials, unless it was told what each client follows."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from coterie.core.errors import BadInput
from coterie.core.method import Method
from coterie.engines.base import Engine
from coterie.features.advice.judge import Judge
from coterie.features.trials.bench import Bench, all_trials
from coterie.methods.advised import Advised
from coterie.metrics.own import NOTHING, Own
from coterie.nets.ground import Connector
from coterie.runs.hooks import Hook
from coterie.runs.settings import Settings
from coterie.sites.setup import Setup


class _AdviceHook(Hook):
    def prepare(
        self,
        method: Method,
        setup: Setup,
        settings: Settings,
        connector: Connector,
        engine: Engine,
        own: Own = NOTHING,
    ) -> tuple[Method, Settings, list[str]]:
        """The method with a choice for each client, the settings that say so, and what to say of it."""
        if settings.budget:
            raise BadInput(
                "advised tries every way first, which no budget counts: leave the budget out, or name a "
                "choice for each client"
            )
        bench = Bench(cast(Advised, method), setup, settings, connector, engine, own)
        bench.check()
        trials = all_trials(bench, {})
        choices = {name: Judge(bench, trials, i).choice() for i, name in enumerate(bench.names)}
        follow = ", ".join(f"{name}: {choice.way}" for name, choice in choices.items())
        models = sum(entry[2] for trial in trials.values() for entry in trial.passed)
        notes = [
            *bench.able[1],
            f"advised follows, by {bench.metric}: {follow}; tried were {len(bench.ways)} ways on "
            f"{bench.method.folds} folds of each client's training rows, for which {models} models passed",
        ]
        if bench.measure.why:
            notes.append(f"advised: {bench.measure.why}")
        if kept := [
            f"{name} ({choice.best})" for name, choice in choices.items() if choice.way != choice.best
        ]:
            notes.append(
                f"advised: another way looked better for {', '.join(kept)}, but by no more than the best "
                f"of {len(bench.ways) - 1} may by chance, or no better than always the same answer: "
                "each stays alone"
            )
        ways = [choice.way for choice in choices.values()]
        told = {**settings.options.get("advised", {}), "choice": ways}
        settings = replace(settings, options={**settings.options, "advised": told})
        return replace(bench.method, choice=tuple(ways)), settings, notes


HOOK = _AdviceHook
