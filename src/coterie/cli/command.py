"""What a command is: what it does with its words, and the flags that completion offers for it.

Both come from one declaration above the command's function: a frozen dataclass whose fields are flags
(`Flags`), or the settings of a run with some options more (`SettingsFlags`, in flags.py).
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import tyro

from coterie.core.errors import BadInput, UnknownName

T = TypeVar("T")
Read = TypeVar("Read", covariant=True)


@dataclass(frozen=True)
class Nothing:
    """No flag but --help."""


@dataclass(frozen=True)
class Command:
    """Called with the words after its name; gives the exit code."""

    do: Callable[[Sequence[str]], int | None]
    flags: Callable[[], type] = lambda: Nothing
    """Its flags, as a dataclass: made when completion asks, as there may be hundreds."""
    below: Mapping[str, Command] = field(default_factory=dict)
    """Its sub-commands."""

    def __call__(self, words: Sequence[str]) -> int:
        return self.do(words) or 0


class Parser(Protocol[Read]):
    def read(self, words: Sequence[str]) -> Read: ...

    def flags(self) -> type: ...


def command_with(parser: Parser[T]) -> Callable[[Callable[[T], int | None]], Command]:
    """Makes a command of a function of what the parser reads."""
    return lambda do: Command(lambda words: do(parser.read(words)), parser.flags)


@dataclass(frozen=True)
class Flags(Generic[T]):
    """The fields of a dataclass as flags of the command of that name; `about` is its help."""

    kind: type[T]
    name: str
    about: str

    def read(self, words: Sequence[str]) -> T:
        found: T = parse(self.kind, words, self.name, self.about)
        return found

    def flags(self) -> type:
        return self.kind


def subcommands(
    name: str, about: str, known: Mapping[str, Command], otherwise: Command | None = None
) -> Command:
    """A command whose first word names one of several; `otherwise` is what it does with any other word."""

    def do(words: Sequence[str]) -> int:
        if words and words[0] in known:
            return known[words[0]](words[1:])
        if otherwise is not None:
            return otherwise(words)
        if words and words[0] not in ("-h", "--help"):
            raise UnknownName(f"{name} command", words[0], known)
        print(about, end="")
        return 0

    return Command(do, otherwise.flags if otherwise else lambda: Nothing, known)


def parse(kind: Any, words: Sequence[str], command: str, description: str) -> Any:
    """tyro's parser, with its refusals in one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, prog=f"coterie {command}", description=description, args=list(words))
    except SystemExit as stop:
        if stop.code == 0:
            raise
        raise BadInput(one_line(said.getvalue(), command)) from None


def one_line(box: str, command: str) -> str:
    """The message of tyro's box, which rules divide into parts, and the flag it suggests."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    parts: list[list[str]] = [[]]
    for line in plain.splitlines():
        if re.search(r"[─-]{5,}", line):
            parts.append([])
        elif inside := line.strip("│| \t"):
            parts[-1].append(inside)
    # a box drawn with lines has its title in a rule; one in plain letters has it as its first part
    message, *rest = [p for p in parts if p][0 if "╭" in plain else 1 :] or [[plain.strip()]]
    text = " ".join(message).rstrip(".")
    for part in rest:
        if part[0].startswith("Perhaps you meant"):
            text += f": did you mean {part[1].split()[0].rstrip(',')}?"
    return f"{text} (see coterie {command} --help)"
