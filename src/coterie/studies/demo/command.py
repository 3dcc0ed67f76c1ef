"""coterie demo"""

from __future__ import annotations

import csv
import io
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag
from coterie.cli.compare import run_all
from coterie.cli.report import read_sections
from coterie.cli.run import fresh
from coterie.features.advice.question import Question
from coterie.report import clients
from coterie.report.outcome import headline
from coterie.report.page import write_report
from coterie.report.summary import render_listening
from coterie.runs.about import command_line
from coterie.runs.builder import Builder
from coterie.runs.compare import Comparison, create
from coterie.runs.settings import Settings
from coterie.show.parts import Runs as Section
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from coterie.use import Predictor

COMMANDS = {"demo": ("try", 10, "ask seven methods, on real data, with whom to train (under a minute)")}
HELP = """With whom should each train? Asks seven methods on real data, tells each client, writes a report.

Titanic passengers go to four clients by their age. Handwritten digits go to six, of which three see them
upside down, and nobody is told who. It needs no network. Then a client's own model predicts, and in the end
one client is told with whom to train, what that brings and what it gives away.

example:
  coterie demo
"""

CIRCLES = ("weight-erosion", "pens", "ndoye")
"""Those that choose for each client whom to learn with; the last ranks first, then trains."""
METHODS = ("nothing", "local", "fedavg", "finetune", *CIRCLES, "central")
MORE = {"titanic": ("partial",)}
"""Of one study alone: linear models of tables are solved, and can be so around a common one."""
STUDIES = {
    "titanic": Settings(data="titanic", split="age-strict", rounds=30),
    "digits": Settings(data="digits", split="clusters", clients=6, rounds=20, options={"sgd": {"lr": 0.5}}),
}
ABOUT = {
    "titanic": "Passengers by age: four clients whose data differ a little. Who survived?",
    "digits": "Six clients, of which three see digits upside down; nobody is told who. Which digit is it?",
}
ASKS, BY = "age 36+", "pens"  # whose model predicts in the end, and which method made it


@dataclass(frozen=True)
class _Demo:
    out: str = flag("", "The folder to write; by default runs/demo.")
    seeds: int = flag(5, "How many seeds.")


@command_with(Flags(_Demo, "demo", HELP))
def demo(asked: _Demo) -> int:
    path = Path(asked.out) if asked.out else fresh("demo")
    builders = {name: Builder() for name in STUDIES}
    for name, settings in STUDIES.items():
        comparison = Comparison(settings, (*METHODS, *MORE.get(name, ())), asked.seeds)
        create(path / name, comparison, builders[name])
        run_all(path / name, comparison, command_line(), builders[name])
    sections = read_sections(path)
    for section in sorted(sections, key=lambda s: list(STUDIES).index(s.records[0].settings.data)):
        _say(section)
    _predict(path, builders["titanic"])
    print(f"report: {write_report(path / 'report.html', sections)}")
    _advise(path / "advice", builders["titanic"])
    return 0


def _say(section: Section) -> None:
    """What was asked and what came out, the table, whom each listens to, and a sentence for each client."""
    records = section.records
    screen.out.print(f"\n[bold]{escape(ABOUT[records[0].settings.data])}[/bold]")
    screen.say_section(section)
    screen.out.print(f"\n{escape(headline(records))}")
    screen.out.print(
        "\n[bold]Whom each client listens to[/bold] (weight in its model, mean over rounds and seeds)"
    )
    screen.out.print(render_listening(records, CIRCLES, screen.out.width))
    screen.out.print("\n[bold]What it means for each client[/bold]")
    screen.out.print(escape("\n".join(clients.client_sentences(records))))
    screen.out.print(f"[dim]{escape(clients.client_legend(records))}[/dim]")


def _predict(path: Path, builder: Builder) -> None:
    """What a client's own model says of a passenger that it never saw, by the way of `coterie predict`."""
    from coterie.use import predictor_of_run  # only here: pandas takes a while to import

    run, file = path / "titanic" / BY / f"seed-{STUDIES['titanic'].seed}", path / "passenger.csv"
    predictor = predictor_of_run(run, ASKS)
    truth = _write_passenger(file, predictor, builder)
    found = predictor.answers_of(file, strict=True)
    chance = dict(zip(predictor.classes, found.p[0], strict=True))
    pushed = ", ".join(map(str, predictor.explained(found, 3)[0]))
    said = ", ".join(f"{name} {p:.2f}" for name, p in chance.items())
    again = shlex.join(["coterie", "predict", str(run), str(file), "--client", ASKS, "--explain", "3"])
    screen.out.print(f"\n[bold]A model in use: a passenger that the model of {ASKS} never saw[/bold]")
    screen.out.print(escape(f"{said}; in truth: {truth}. What pushed most: {pushed}."))
    screen.out.print("[dim]Age and fare are as the model takes them: in deviations from the mean.[/dim]")
    print(f"predict: {again}")


def _advise(path: Path, builder: Builder) -> None:
    """The answer for one client, by the way of `coterie advise`."""
    from coterie.features.advice import command

    asked = {"requester": ASKS, "candidates": ("fedavg", "finetune", *CIRCLES, *MORE["titanic"]), "folds": 4}
    settings = STUDIES["titanic"]
    options = {**settings.options, "advised": asked}
    question = Question(replace(settings, method="advised", options=options), inner=2)
    more = ["coterie", "advise", "--data", "titanic", "--requester", ASKS]
    screen.out.print(f"\n[bold]The answer for {ASKS}: with whom, what it brings, what it gives[/bold]")
    command.answer(path, question, command_line(), builder=builder)
    print(f"more ways: {shlex.join(more)}")


def _write_passenger(file: Path, predictor: Predictor, builder: Builder) -> str:
    """The client's first test row as a CSV of one line; gives what became of the passenger."""
    settings = Comparison(STUDIES["titanic"], METHODS, 1).with_method(BY)
    setup = builder.setup(settings, lambda roster, start: ())
    (client,) = [c for c in setup.clients if c.name == ASKS]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([predictor.features, client.test.x[0].tolist()])
    write_whole(file, text.getvalue())
    return client.classes[int(client.test.y[0])]
