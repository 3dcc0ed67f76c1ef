"""The words of a command line against the flags there are: all that is wrong with them, said at once.

tyro, which parses them, stops at the first mistake. Here is told apart only what is a flag, what is a value,
and whether a value is of its flag's type; what they mean is left to tyro.
"""

from __future__ import annotations

import difflib
import itertools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from coterie.core.errors import Gathered, shown

SWITCH = "switch"  # the type of a flag that only switches on
KINDS = {int: "a whole number", float: "a number"}


def check_words(
    words: Sequence[str], hints: Mapping[str, Any], command: str, strange: Callable[[str], str | None]
) -> Gathered:
    """Every mistake in these words; `hints` has the type of each flag, {"--sgd.lr": float}.

    `strange` may say what is wrong with a flag that is not among them; nothing ("") if it is to be let pass.
    """
    wrong = Gathered()
    for flag, values in by_flag(words):
        found = named(flag)
        if not flag:
            wrong.add(f"unexpected {shown(values[0])}: options begin with -- (see coterie {command} --help)")
        elif found in hints:
            if problem := misfit(found, values, hints[found]):
                wrong.add(problem)
        elif switched(found) in hints and hints[switched(found)] is bool:
            if values:
                wrong.add(f"{found} takes no value; got {shown(values[0])}: leave it out")
        elif (said := strange(found)) is None:
            near = nearest(found.lstrip("-").lower(), [name.removeprefix("--") for name in hints])
            hint = f"did you mean --{near}?" if near else f"see coterie {command} --help"
            wrong.add(f"unknown option {shown(flag)[1:-1]}: {hint}")
        elif said:
            wrong.add(said)
    return wrong


def nearest(name: str, known: Sequence[str]) -> str:
    """The flag that was meant: one of the same part, or of the same option in another; or none."""
    part, _, option = name.rpartition(".")
    mine = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == part}
    near = difflib.get_close_matches(option, mine, n=1, cutoff=0.6)
    return mine[near[0]] if near else next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.75)), "")


def by_flag(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the values after it; words before the first flag have none, and come one by one."""
    flag, values = "", list[str]()
    for word in words:
        if word in ("-h", "--help", "--"):
            continue
        if is_flag(word):
            yield from [(flag, values)] if flag else (("", [v]) for v in values)
            flag, equals, joined = word.partition("=")
            values = [joined] if equals else []
        else:
            values.append(word)
    yield from [(flag, values)] if flag else (("", [v]) for v in values)


def is_flag(word: str) -> bool:
    """Whether it begins with a dash and is no negative number."""
    if not word.startswith("-"):
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def named(flag: str) -> str:
    """As the parser has it: one_class is one-class."""
    return flag.replace("_", "-")


def switched(flag: str) -> str:
    """The flag that --fedavg.no-weighted switches off."""
    head, dot, last = flag.removeprefix("--").rpartition(".")
    return f"--{head}{dot}{last.removeprefix('no-')}"


def misfit(flag: str, values: Sequence[str], hint: Any) -> str | None:
    """What is wrong with a flag's values, if anything is."""
    if hint is SWITCH:
        return f"{flag} takes no value; got {shown(values[0])}: leave it out" if values else None
    if hint is bool:
        head, _, last = flag.rpartition(".")
        off = f"{head}.no-{last}" if head else f"--no-{last.removeprefix('--')}"
        return (
            f"{flag} takes no value; got {shown(values[0])}: leave it out, or write {off}" if values else None
        )
    if get_origin(hint) is tuple:
        kinds = [k for k in get_args(hint) if k is not ...]
        if ... not in get_args(hint) and len(values) != len(kinds):
            return f"{flag} needs {len(kinds)} values; got {len(values)}"
        pairs = zip(values, itertools.cycle(kinds), strict=False)
        return next((said for value, kind in pairs if (said := misread(flag, value, kind))), None)
    if not values:
        return f"{flag} needs a value"
    if len(values) > 1:
        return f"{flag} takes one value; got {len(values)}: leave {shown(values[1])} out"
    return misread(flag, values[0], hint)


def misread(flag: str, value: str, hint: Any) -> str | None:
    """What is wrong with one value, if it is not of this type."""
    if get_origin(hint) is Literal:
        choices = [str(choice) for choice in get_args(hint)]
        if value in choices:
            return None
        return f"invalid choice {shown(value)} for {flag}: choose one of {', '.join(choices)}"
    if get_origin(hint) in (Union, types.UnionType):
        if any(misread(flag, value, kind) is None for kind in get_args(hint)):
            return None
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
        return misread(flag, value, hint)
    if hint is type(None):
        return None if value == "None" else f"{flag} {shown(value)} is not None"
    if hint not in KINDS:
        return None
    try:
        hint(value)
    except ValueError:
        return f"{flag} must be {KINDS[hint]}; got {shown(value)}"
    return None
