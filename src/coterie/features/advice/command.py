"""coterie advise"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.compare import JOBS
from coterie.cli.flags import SPENDING, Given, SettingsFlags
from coterie.cli.run import LANGUAGE, OUT, fresh, resumable, spoken
from coterie.core.errors import BadInput
from coterie.core.options import Option, options_of
from coterie.features.advice import question as advising
from coterie.features.advice.question import FOLLOW, Question
from coterie.features.advice.report import write_advice
from coterie.features.advice.sentences import cells, cost_of_asking, legend, sentences
from coterie.features.tuning.report import command
from coterie.methods.advised import Advised
from coterie.runs.about import command_line
from coterie.runs.builder import Builder
from coterie.show.terminal import fitting, plain
from coterie.show.words import say
from coterie.storage.paths import given_folder

COMMANDS = {"advise": ("partners", 30, "tell a client with whom to train, why, what it gains and gives away")}
HELP = """With whom should a client train, why, what does it gain, what does it give away?

Tries training alone, with everybody, with everybody and then alone, each personal method, and circles from
rankings, on parts of the client's own training rows that are held out in turn. Alone is the answer unless
another way is clearly better: nobody is sent to others on a gain whose interval holds 0. The gain that is
promised comes from rows that neither training nor choosing had seen (nested cross-validation). Test rows are
never looked at. The same command goes on where it was cut off.

examples:
  coterie advise --data heart-disease --requester cleveland
  coterie advise --recipe recipe.toml --requester all --measure auc
  coterie advise --data heart-disease --measure sensitivity --specificity 0.95
  coterie advise --data titanic --candidates fedavg finetune ndoye:best=1
  coterie advise --net federation --federation.kit ward/people/lead --requester north
"""

ADVISED = {o.name: o for o in options_of(Advised) if o.name != "choice"}
INNER = Option(
    "inner", int, 3, "Folds inside each, which choose while it judges; 0 promises no gain, and is quicker."
)
OWN = (*ADVISED.values(), INNER, OUT, JOBS, LANGUAGE)


@command_with(SettingsFlags("advise", HELP, OWN, methods=lambda words: ["advised"], without=SPENDING))
@spoken
def advise(given: Given) -> int:
    settings, extra, _ = given
    asked = {name: extra[name] for name in ADVISED}
    if settings.options.get("advised"):
        usual = {o.name: o.default for o in options_of(Advised)}
        for first in (k for k, v in settings.options["advised"].items() if v != usual[k]):
            raise BadInput(f"--advised.{first} belongs to 'coterie run': give --{first} here")
    settings = replace(settings, method="advised", options={**settings.options, "advised": asked})
    question = Question(settings, extra["inner"])
    path = given_folder(extra["out"]) if extra["out"] else None
    split = settings.resolved().split
    return answer(path or fresh(f"advise-{settings.data}-{split}"), question, command_line(), extra["jobs"])


def answer(
    path: Path, question: Question, typed: str | None, jobs: int = 0, builder: Builder | None = None
) -> int:
    """Every trial that is left, then the answers."""
    with resumable(path, "every finished trial"), screen.progress(1, "trying", "trials") as bar:

        def tell(done: int, total: int, spec: str) -> None:
            bar.start()
            bar.update(bar.task_ids[0], completed=done, total=total, description=f"trying {escape(spec)}")

        advice = advising.advise(question, path, tell, typed, jobs, builder)
    screen.say_notes(advice.about)
    for name, lines in sentences(advice).items():
        screen.out.print(f"\n[bold]{escape(name)}[/bold]")
        for line in lines:
            screen.out.print(escape(say.again(line)))
    screen.out.print("")
    header, rows = cells(advice)
    text, least = say.again(legend(advice)), 4  # what each has without a model and alone stands before it
    header, rows, width = [*map(say.again, header)], plain(rows), screen.out.width
    screen.out.print(fitting(header, rows, text, text, width, least=least))
    screen.out.print(f"[dim]{escape(say.again(cost_of_asking(advice)))}[/dim]")
    page = write_advice(path / "report.html", advice, path)
    print(say("advise.follow", command=command("run", path / FOLLOW)))
    print(f"report: {page}")
    return 0
