"""coterie methods"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.table import Table

from coterie.cli import screen
from coterie.cli.flags import parse
from coterie.core.errors import UnknownName
from coterie.core.options import options_of
from coterie.methods import METHODS
from coterie.nets import WRAPS
from coterie.report.reveals import in_words, reveals_page
from coterie.runs.settings import PARTS

HELP = """Lists methods, splits, models, kernels, engines, nets and wrappers, or explains one of them.

examples:
  coterie methods
  coterie methods fedavg
"""

SHOWN = {
    "method": "methods",
    "split": "splits",
    "model": "models",
    "kernel": "kernels",
    "engine": "engines",
    "net": "nets",
}


@dataclass(frozen=True)
class Methods:
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(help="One of them, to explain.")] = ""
    reveals: Annotated[bool, tyro.conf.arg(help="Print the page of what each method reveals to whom.")] = (
        False
    )


def methods(words: Sequence[str]) -> int:
    asked = parse(Methods, words, "methods", HELP)
    if asked.reveals:
        print(reveals_page(), end="")
        return 0
    if asked.name:
        explain(asked.name)
        return 0
    for kind, title in SHOWN.items():
        table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False)
        for entry, cls in PARTS[kind].items():
            table.add_row(f"  {entry}", first_line(cls))
        screen.out.print(table)
    table = Table(title="wrappers", title_justify="left", title_style="bold", box=None, show_header=False)
    for entry, cls in WRAPS.items():
        table.add_row(f"  {entry}", first_line(cls))
    screen.out.print(table)
    return 0


def first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").splitlines()[0]


def explain(name: str) -> None:
    """The paper, as the file's docstring tells it, and the options as flags."""
    found = [registry[name] for registry in PARTS.values() if name in registry]
    if not found:
        raise UnknownName("name", name, [n for registry in PARTS.values() for n in registry])
    cls = found[0]
    print(inspect.getdoc(sys.modules[cls.__module__]) or "")
    print(f"\n{name}: {inspect.getdoc(cls)}")
    if name in METHODS:
        print(in_words(METHODS.make(name).reveals()))
    for option in options_of(cls):
        default = "none" if option.default is None else option.default
        print(f"\n  --{name}.{option.name.replace('_', '-')} (default: {default})\n      {option.help}")
