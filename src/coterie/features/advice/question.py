"""With whom should each client train? A folder of trials, and the answers that follow from them.

    advise.toml    what is asked: settings, with the options of `advised`, and how many inner folds
    run.json       versions, commit, machine, clients: where and on what
    trials/        a file for each trial
    advice.json    the answers
    follow.toml    a run in which each client follows its advice, for `coterie run --config`
    report.html    the answers to read

The same question goes on where it was cut off: a trial that is there is not made again.
"""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from coterie.core.errors import BadInput, BadRun
from coterie.engines.threads import narrow
from coterie.features.advice.answers import Advice, advice_in, advice_of
from coterie.features.trials.bench import Bench, Files, Tell, all_trials
from coterie.features.trials.trial import begin, same_data
from coterie.methods.advised import Advised
from coterie.runs.about import about_run
from coterie.runs.builder import Builder, settled
from coterie.runs.folder import Folder
from coterie.runs.jobs import Say, processes, side_by_side
from coterie.runs.settings import Settings, from_table, read_toml
from coterie.sites.setup import Setup
from coterie.storage.atomic import write_whole

QUESTION, ANSWERS, FOLLOW = "advise.toml", "advice.json", "follow.toml"


@dataclass(frozen=True)
class Question:
    """Settings whose method is `advised`, and into how many inner folds an outer one's rest is cut."""

    settings: Settings
    inner: int = 3

    def __post_init__(self) -> None:
        if self.inner != 0 and not 2 <= self.inner <= 1000:
            raise BadInput(f"inner={self.inner} must lie in [2, 1000], or be 0 to promise nothing: try 3")

    def table(self) -> dict[str, Any]:
        return {"inner": self.inner, **self.settings.table()}


def bench_of(question: Question, builder: Builder) -> tuple[Bench, Settings]:
    """What is tried, checked whole, before anything is written; and the settings with the sites met."""
    settings = question.settings.resolved()
    builder.check(settings)
    setup = builder.setup(settings, lambda roster, start: ())
    settings = settled(settings, setup)
    method: Advised = settings.made("method", local=settings.made("kernel"))
    connector, engine = settings.made("net"), settings.made("engine")
    bench = Bench(method, setup, settings, connector, engine, inner=question.inner)
    _check(bench)
    return bench, settings


def _check(bench: Bench) -> None:
    """What could not be tried is said before the first trial."""
    if bench.method.choice:
        raise BadInput("choice is what the advice will be: leave it out")
    if len(bench.setup.roster) < 2:
        raise BadInput("advice needs at least 2 clients: there is nobody to train with")
    bench.check()


@narrow()
def advise(
    question: Question,
    out: Path,
    tell: Tell = lambda done, total, spec: None,
    command: str | None = None,
    jobs: int = 0,
    builder: Builder | None = None,
) -> Advice:
    """Makes every trial that is left, and writes the answers; in a folder that may have some already."""
    builder = builder or Builder()
    bench, settings = bench_of(question, builder)
    if jobs > 1 and settings.connector.meets:
        raise BadInput(f"--jobs {jobs}: sites of a federation are in one run at a time: leave it out")
    total = len(bench.places())
    jobs = processes(jobs, total, builder.small(settings))
    begin(out, QUESTION, question.table(), "question")
    with closing(Folder(out)):
        about = same_data(out, _about_of(bench.setup, command))
        kept = Files(out / "trials", bench.specs)
        left = [place for place in bench.places() if kept.get(place) is None]
        if min(jobs, len(left)) > 1:

            def work(task: int, say: Say) -> None:
                """One trial by one of several processes, which leave them in files."""
                kept[left[task]] = bench.attempt(left[task])
                say({"task": task})

            tasks = (entry["task"] for entry in side_by_side(len(left), jobs, work) if "task" in entry)
            for done, task in enumerate(tasks, start=1):
                tell(total - len(left) + done, total, left[task].spec)
        advice = advice_of(bench, all_trials(bench, kept, tell), about)
        write_whole(out / ANSWERS, json.dumps(advice.table(), indent=1) + "\n")
        tables = {name: dict(table) for name, table in settings.options.items()}
        tables["advised"] = {**tables["advised"], "choice": advice.choice}
        follow = replace(settings, options=tables, deal=settings.dealt_by)  # on rows dealt as in the trials
        write_whole(out / FOLLOW, tomli_w.dumps(follow.table()))
    return advice


def in_memory(bench: Bench, tell: Tell) -> Advice:
    """The same without a folder, one trial after the other."""
    _check(bench)
    return advice_of(bench, all_trials(bench, {}, tell), _about_of(bench.setup, None))


def _about_of(setup: Setup, command: str | None) -> dict[str, Any]:
    about = about_run(setup.roster, setup.beliefs, setup.notes, command)
    return {**about, "leaks": list(setup.leaks)}


def is_advice(path: Path) -> bool:
    return (path / QUESTION).exists()


def read_question(path: Path) -> Question:
    table = read_toml(path / QUESTION)
    inner = table.pop("inner", None)
    if not isinstance(inner, int):
        raise BadRun(f"{path / QUESTION} is damaged: ask anew with another --out")
    return Question(from_table(table, str(path / QUESTION)), inner)


def read_advice(path: Path) -> Advice:
    try:
        return advice_in(json.loads((path / ANSWERS).read_bytes()))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadRun(
            f"{path / ANSWERS} is damaged ({error}): make it again with "
            f"'coterie report {shlex.quote(str(path))}'"
        ) from None
