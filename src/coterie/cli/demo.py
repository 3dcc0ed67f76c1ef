"""coterie demo"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coterie.cli import screen
from coterie.cli.compare import run_all
from coterie.cli.flags import parse
from coterie.cli.report import read_sections
from coterie.cli.run import fresh
from coterie.report.page import write_report
from coterie.runs.about import command_line
from coterie.runs.compare import Comparison, create
from coterie.runs.experiment import Builder
from coterie.runs.settings import Settings

HELP = """Compares training alone, together, and together then alone, on real data, and writes a report.

Titanic passengers are split by age among four agents, handwritten digits by a label shift among ten.

example:
  coterie demo
"""

METHODS = ("local", "fedavg", "finetune", "central")
STUDIES = {
    "titanic": Settings(data="titanic", split="age-strict", rounds=30, options={"sgd": {"lr": 0.5}}),
    "digits": Settings(
        data="digits",
        split="shift",
        clients=10,
        rounds=30,
        options={"shift": {"distribution": "F"}, "sgd": {"lr": 0.5}},
    ),
}


@dataclass(frozen=True)
class Demo:
    out: Annotated[str, tyro.conf.arg(help="The folder to write; by default runs/demo.")] = ""
    seeds: Annotated[int, tyro.conf.arg(help="How many seeds.")] = 5


def demo(words: Sequence[str]) -> int:
    asked = parse(Demo, words, "demo", HELP)
    path = Path(asked.out) if asked.out else fresh("demo")
    for name, settings in STUDIES.items():
        comparison = Comparison(settings, METHODS, asked.seeds)
        builder = Builder()
        create(path / name, comparison, builder)
        run_all(path / name, comparison, command_line(), builder)
    sections = read_sections(path)
    screen.say_sections(sections, write_report(path / "report.html", sections))
    return 0
