"""coterie methods"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass

from rich.table import Table

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import UnknownName
from coterie.core.options import options_of
from coterie.methods import METHODS, partners_of
from coterie.nets import WRAPS
from coterie.report.reveals import in_words, reveals_page
from coterie.rules import RULES, Rule
from coterie.runs.settings import PARTS
from coterie.storage.plugins import load_plugins

COMMANDS = {"methods": ("try", 30, "list methods, splits, models and kernels, or explain one")}
HELP = """Lists methods, splits, models, kernels, engines, nets, wrappers and rules, or explains one of them.

examples:
  coterie methods
  coterie methods fedavg
  coterie methods krum
  coterie methods halfway --plugins halfway.py
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
class _Methods:
    name: str = word("One of them, to explain.", default="")
    plugins: tuple[str, ...] = flag((), "Python files that register methods, models or splits of your own.")
    reveals: bool = flag(False, "Print the page of what each method reveals to whom.")


@command_with(Flags(_Methods, "methods", HELP))
def methods(asked: _Methods) -> int:
    load_plugins(asked.plugins)
    if asked.reveals:
        print(reveals_page(), end="")
        return 0
    if asked.name:
        explain(asked.name)
        return 0
    parts = [(title, PARTS[kind]) for kind, title in SHOWN.items()]
    for title, registry in (*parts, ("wrappers", WRAPS), ("rules", RULES)):
        table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False)
        for entry, cls in registry.items():
            table.add_row(f"  {entry}", _first_line(cls))
        screen.out.print(table)
    return 0


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").splitlines()[0]


def explain(name: str) -> None:
    """The paper, as the file's docstring tells it, and the options as flags."""
    known = [*PARTS.values(), RULES]
    found = [registry[name] for registry in known if name in registry]
    if not found:
        raise UnknownName("name", name, [n for registry in known for n in registry])
    cls = found[0]
    print(inspect.getdoc(sys.modules[cls.__module__]) or "")
    print(f"\n{name}: {inspect.getdoc(cls)}")
    if name in METHODS:
        if (chooses := partners_of(name)) is not None:
            print(chooses.in_words())
        print(in_words(METHODS.make(name).reveals()))
    for option in options_of(cls):
        default = "none" if option.default in (None, "") else option.default
        flag = f"{name}:{option.name}=" if name in RULES else f"--{name}.{option.name.replace('_', '-')}"
        print(f"\n  {flag} (default: {default})\n      {option.help}")
    if name in RULES:
        print(f"\n  {_rule_in_words(cls)}")
    if any(option.name == "rule" for option in options_of(cls)):
        print("\nrules (coterie methods RULE explains one; options are written rule:option=value):")
        for entry, rule in RULES.items():
            print(f"  {entry:<18}{_first_line(rule)}\n{'':<20}{_rule_in_words(rule)}")


def _rule_in_words(rule: type[Rule]) -> str:
    needs = rule.needs
    words = [f"needs {needs.bound}", "looks at single models (open)" if needs.opens else "runs sealed"]
    words += ["trusts one's own reply"] if needs.root else []
    words += ["starts from what went out"] if needs.origin else []
    return ", ".join([*words, "a step before another, as nnm+krum"] if needs.before else words)
