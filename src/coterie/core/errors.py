"""What can go wrong, as one drawn tree.

CoterieError                 one line for the person at the keyboard; the shell exits with 2
├── BadInput                 a value out of bounds: names the value, the bound and the remedy
│   └── UnknownName          a name nobody registered: names the nearest right one
├── BadData                  data that cannot be learned from, or a file that is not what it should be
│   └── Several              many mishaps of one table or file at once, one line each
│       └── BadInputs        several values out of bounds at once: BadInput as well
├── BadRun                   a run folder that is in use, foreign, damaged or cannot be written
├── Diverged                 a loss or a weight that is no longer a number, or is far above knowing nothing
├── Gone                     sites went while they were needed: the round is done again, without them
└── Refused                  something that a site, or the net, does not allow

A `CoterieWarning` is no error: something was done that a person should know before trusting a figure.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any


class CoterieError(Exception):
    """A mistake or a mishap that its message explains in one line."""


class BadInput(CoterieError):
    """A value out of its bounds."""


class UnknownName(BadInput):
    """A name that is not in the list of known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(map(str, known)))
        near = difflib.get_close_matches(str(name)[:LONG].lower(), self.known, n=1, cutoff=0.5)
        listed = f"known are {', '.join(self.known)}" if self.known else "none is known"
        hint = f"did you mean {near[0]}?" if near else listed
        super().__init__(" ".join(f"unknown {kind} {shown(name)}: {hint}".split()))


class BadData(CoterieError):
    """Data that cannot be used as it is."""


class Several(BadData):
    """Many mishaps at once, so that a person mends them in one go; one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(" ".join(line.split()) for line in lines)
        super().__init__("\n".join(self.lines))


class BadInputs(Several, BadInput):
    """Several values out of their bounds; one line each."""


class BadRun(CoterieError):
    """A run folder that cannot be used as it is."""


class Diverged(CoterieError):
    """Training ran away; `why` tells how, without where and what to do."""

    def __init__(self, text: str, why: str = "") -> None:
        super().__init__(text)
        self.why = why or text


class Refused(CoterieError):
    """What a site, or the net around it, does not allow."""


class Withdrawn(Refused):
    """Nobody is left in a sum, and there is nothing to go on with in its place."""


class Gone(CoterieError):
    """Sites that a round needs do not answer any more."""

    def __init__(self, why: Mapping[str, str]) -> None:
        self.why = dict(why)
        super().__init__("; ".join(f"site {name} is away: {text}" for name, text in self.why.items()))


class CoterieWarning(UserWarning):
    """Something was done, or found, that a person should know before trusting a figure."""


LONG = 80  # characters of a value that a message shows


def shown(value: Any) -> str:
    """A value as people write it in Python, in one line and cut short if it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # whatever an object of one's own may raise
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONG else f"{text[: LONG - 4]} ..."


_in_shell: ContextVar[bool] = ContextVar("in_shell", default=False)


@contextlib.contextmanager
def spelled_for_shell() -> Iterator[None]:
    """Within, messages name options as the shell does."""
    before = _in_shell.set(True)
    try:
        yield
    finally:
        _in_shell.reset(before)


def option(name: str, value: Any, part: str = "") -> str:
    """An option as whoever reads the message would write it: one_class='allow' in Python, --one-class allow
    in the shell; with the part that it belongs to, --table.missing median.
    """
    if not _in_shell.get():
        return f"{name}={value!r}"
    if isinstance(value, bool):  # a switch
        return flag_of(name if value else f"no-{name}", part)
    return f"{flag_of(name, part)} {value}"


def flag_of(name: str, part: str = "") -> str:
    return "--" + ".".join(word.replace("_", "-") for word in (part, name) if word)


@contextlib.contextmanager
def naming_flags_of(*parts: Any) -> Iterator[None]:
    """Within, what a method, a split, a kernel refuses ends in a remedy that its reader can type.

    Parts say `minimum=20`, `keep=false` and `lower minimum`, and know nothing of the shell; there it becomes
    `--silos.minimum 20`, `--sgd.no-keep` and `lower --silos.minimum`. A part may be its class, before there
    is an instance.
    """
    try:
        yield
    except (BadInput, BadData) as error:
        flags = {name: flag for part in parts for name, flag in _flags_within(part).items()}
        if _in_shell.get() and flags:
            lines = [with_flags(line, flags) for line in lines_of(error)]
            error.args = ("\n".join(lines),)
            if isinstance(error, Several):
                error.lines = tuple(lines)
        raise


def _flags_within(part: Any) -> dict[str, str]:
    """The shell's flags for the options of a part that has a name, and of the parts within it."""
    if not dataclasses.is_dataclass(part):
        return {}
    inner = () if isinstance(part, type) else [getattr(part, f.name) for f in dataclasses.fields(part)]
    flags = {name: flag for one in inner for name, flag in _flags_within(one).items()}
    called = getattr(part, "name", "")
    return flags | {f.name: flag_of(f.name, called) for f in dataclasses.fields(part) if called}


def with_flags(text: str, flags: Mapping[str, str]) -> str:
    """A message whose remedy, after the last colon, writes options as in Python, with the shell's flags."""

    def spelled(found: re.Match[str]) -> str:
        flag, value = flags[found[1]], found[2]
        if value.lower() in ("true", "false"):
            head, dot, name = flag.rpartition(".")
            return flag if value.lower() == "true" else f"{head}{dot}no-{name}"
        return f"{flag} {value.replace(',', ' ')}"

    said, colon, remedy = text.rpartition(": ")
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))
    one = (
        r"[Tt]rue\b|[Ff]alse\b|[\d.]+(?:,[\d.]+)+|(?=[^\s=])"  # a switch, a list of numbers, any other value
    )
    remedy = re.sub(rf"(?<![\w.-])({names})=({one})", spelled, remedy)
    bare = rf"\b(set|lower|raise|name it with) ({names})(?![\w=.-])"
    return said + colon + re.sub(bare, lambda m: f"{m[1]} {flags[m[2]]}", remedy)


class Gathered:
    """Mistakes that can be seen at once, to be said at once.

    `with gathered.one(): ...` around each check; `gathered.refuse()` after the last.
    """

    def __init__(self) -> None:
        self.found: list[BadInput] = []

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        try:
            yield
        except BadInput as error:
            self.found.append(error)

    def add(self, line: str) -> None:
        self.found.append(BadInput(line))

    def refuse(self) -> None:
        """Raises the only mistake as it was, or all of them as one; nothing if there is none."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise BadInputs(list(dict.fromkeys(line for e in self.found for line in lines_of(e))))


def lines_of(error: BaseException) -> list[str]:
    """What an error says, each mistake in a line."""
    return list(error.lines) if isinstance(error, Several) else [" ".join(str(error).split())]
