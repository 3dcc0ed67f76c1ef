"""coterie completion"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import zlib
from ast import literal_eval
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from coterie.cli.command import Command, Flags, command_with, word
from coterie.cli.main import COMMANDS as ALL
from coterie.cli.main import NETWORK, load

COMMANDS = {"completion": ("try", 50, "print a completion script for bash, zsh or fish")}
HELP = """Prints a completion script.

examples:
  coterie completion bash > ~/.local/share/bash-completion/completions/coterie
  coterie completion zsh > ~/.zfunc/_coterie
  coterie completion fish > ~/.config/fish/completions/coterie.fish
"""

Spec = dict[str, Any]
"""What tyro's script knows of a command: its description, options, sub-commands."""
SPEC = re.compile(r"^COMPLETION_SPEC = (\{.*\})$", re.MULTILINE)
UNPACKED = """import base64, json, zlib
TREE, OPTIONS = json.loads(zlib.decompress(base64.b64decode('{packed}')))
def unpacked(node):
    below = {{name: unpacked(one) for name, one in node['subcommands'].items()}}
    return {{**node, 'options': [OPTIONS[i] for i in node['options']], 'subcommands': below}}
COMPLETION_SPEC = unpacked(TREE)"""
ALWAYS = (("-v", "Tell more."), ("--debug", "Show where an error came from."))


@dataclass(frozen=True)
class _Completion:
    shell: Literal["bash", "zsh", "fish"] = word("Your shell.")


@command_with(Flags(_Completion, "completion", HELP))
def completion(asked: _Completion) -> int:
    print(SPEC.sub(_packed(everything()), _script_of(_Completion, asked.shell)), end="")
    return 0


def everything() -> Spec:
    """All commands; without its packages, those of a federation are left out."""
    below = {}
    for name, entry in ALL.items():
        try:
            below[name] = _spec_of(load(name), entry.about)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in NETWORK:
                raise
    whole = _spec_of(Command(lambda words: None), "")
    version = {"flags": ["-V", "--version"], "description": "Print the version.", "type": "flag"}
    return {"prog": "coterie", **whole, "options": [*whole["options"], version], "subcommands": below}


def _spec_of(command: Command, about: str) -> Spec:
    found = SPEC.search(_script_of(command.flags(), "bash"))
    assert found is not None, "tyro writes its scripts in another way"
    options = [*literal_eval(found[1])["options"]]
    options += [{"flags": [flag], "description": said, "type": "flag"} for flag, said in ALWAYS]
    below = {name: _spec_of(one, name) for name, one in command.below.items()}
    return {"description": about, "options": options, "subcommands": below, "frontier_groups": []}


def _script_of(kind: type, shell: str) -> str:
    """tyro's script for the flags of this dataclass."""
    script = io.StringIO()
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        tyro.cli(kind, prog="coterie", args=["--tyro-print-completion", shell])
    return script.getvalue()


def _packed(whole: Spec) -> str:
    """The same as lines of Python, with each option once, compressed; none has a sign that shells take apart.

    It is a megabyte otherwise, as options of parts stand with each command that takes them. A shell hands it
    to Python at every Tab; fish does so in an argument, of which Linux takes 128 KiB.
    """
    numbers = dict[str, int]()

    def tree(node: Spec) -> Spec:
        options = [numbers.setdefault(json.dumps(option), len(numbers)) for option in node["options"]]
        below = {name: tree(one) for name, one in node["subcommands"].items()}
        return {**node, "options": options, "subcommands": below}

    text = json.dumps([tree(whole), [json.loads(option) for option in numbers]])
    return UNPACKED.format(packed=base64.b64encode(zlib.compress(text.encode(), 9)).decode())
