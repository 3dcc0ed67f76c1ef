"""What a command is: what it does with its words, and the flags that completion offers for it.

Both come from one declaration above the command's function: a frozen dataclass whose fields are flags
(`Flags`), or the settings of a run with some options more (`SettingsFlags`, in flags.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NoReturn,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from coterie.core.errors import Gathered, UnknownName, shown

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


class _Parser(Protocol[Read]):
    def read(self, words: Sequence[str]) -> Read: ...

    def flags(self) -> type: ...


def command_with(parser: _Parser[T]) -> Callable[[Callable[[T], int | None]], Command]:
    """Makes a command of a function of what the parser reads."""
    return lambda do: Command(lambda words: do(parser.read(words)), parser.flags)


REQUIRED: Any = dataclasses.MISSING
"""In the place of a default: the flag has to be given."""


def flag(default: Any, about: str, metavar: str | None = None, switch: bool = False) -> Any:
    """A field that is a flag; one that is a `switch` can only be switched on."""
    facts = {"about": about, "metavar": metavar, "switch": switch, "place": False}
    return field(default=default, metadata=facts)


def word(about: str, metavar: str | None = None, default: Any = REQUIRED) -> Any:
    """A field for a word, or several, that stands for itself."""
    facts = {"about": about, "metavar": metavar, "switch": False, "place": True}
    return field(default=default, metadata=facts)


@dataclass(frozen=True)
class Flags(Generic[T]):
    """The fields of a dataclass (`flag`, `word`) as flags of a command; `about` is its help."""

    kind: type[T]
    name: str
    about: str

    def read(self, words: Sequence[str]) -> T:
        if asks_for_help(words):
            show_help(self.flags(), self.name, self.about)
        hints, fields = get_type_hints(self.kind), self._fields()
        places = {f.name: hints[f.name] for f in fields if f.metadata["place"]}
        flags = {named(f"--{f.name}"): hints[f.name] for f in fields if not f.metadata["place"]}
        values, wrong = read_words(words, flags, self.name, places=places)
        given = {name.replace("-", "_"): value for name, value in values.items()}
        lacking = [f for f in fields if f.default is REQUIRED and f.name not in given]
        if lacking and not wrong.found:
            said = " ".join(_needed(f) for f in lacking)
            wrong.add(f"Missing from coterie {self.name}: {said} (see coterie {self.name} --help)")
        wrong.refuse()
        return self.kind(**given)

    def flags(self) -> type:
        import tyro

        conf: Any = tyro.conf
        hints, shown = get_type_hints(self.kind), []
        for f in self._fields():
            hint = conf.Positional[hints[f.name]] if f.metadata["place"] else hints[f.name]
            hint = conf.FlagCreatePairsOff[hint] if f.metadata["switch"] else hint
            shown.append(shown_flag(f.name, hint, f.default, f.metadata["about"], f.metadata["metavar"]))
        return dataclasses.make_dataclass(self.kind.__name__, shown, frozen=True)

    def _fields(self) -> tuple[dataclasses.Field[Any], ...]:
        return dataclasses.fields(self.kind)  # type: ignore[arg-type]


def _needed(lacking: dataclasses.Field[Any]) -> str:
    facts, name = lacking.metadata, lacking.name
    flag = facts["metavar"] or name.upper() if facts["place"] else named(f"--{name}")
    return f"{flag} {facts['about']} (required)"


def shown_flag(
    name: str, hint: Any, default: Any, about: str, metavar: str | None = None
) -> tuple[str, Any, Any]:
    """A field of a dataclass that tyro makes help and completion of."""
    from tyro.conf import arg  # only then: it takes a while to import

    return name, Annotated[hint, arg(help=about, metavar=metavar)], field(default=default)


def asks_for_help(words: Sequence[str]) -> bool:
    return bool({"-h", "--help"} & set(words))


def show_help(kind: type, command: str, about: str) -> NoReturn:
    """All flags with their defaults, as tyro shows them; then the command is over."""
    import tyro

    tyro.cli(kind, prog=f"coterie {command}", description=about, args=["--help"])
    raise SystemExit(0)


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


# words as values


SWITCH = "switch"  # the type of a flag that only switches on
_KINDS = {int: "a whole number", float: "a number"}


def read_words(
    words: Sequence[str],
    hints: Mapping[str, Any],
    command: str,
    strange: Callable[[str], str | None] = lambda flag: None,
    places: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], Gathered]:
    """The values of flags and of places, by name ("sgd.lr"; of several of a flag the last), and all mistakes.

    `hints` has the type of each flag, {"--sgd.lr": float}; `places` those of words that stand for themselves,
    in their order. `strange` may say what is wrong with a flag that is not among them; nothing ("") if it is
    to be let pass.
    """
    values, wrong, loose = dict[str, Any](), Gathered(), list[str]()
    for flag, given in by_flag(words):
        found, off = named(flag), _switched(named(flag))
        if not flag:
            loose += given
        elif found in hints or (off in hints and hints[off] is bool):
            hint = hints.get(found, SWITCH)
            if places:
                taken = _taken(given, hint)
                given, loose = given[:taken], [*loose, *given[taken:]]
            try:
                value = _value(found, given, hint)
                values[(found if found in hints else off)[2:]] = found in hints and value
            except _Misfit as problem:
                wrong.add(str(problem))
        elif (said := strange(found)) is None:
            near = _nearest(found.lstrip("-").lower(), [name.removeprefix("--") for name in hints])
            hint = f"did you mean --{near}?" if near else f"see coterie {command} --help"
            wrong.add(f"unknown option {shown(flag)[1:-1]}: {hint}")
        elif said:
            wrong.add(said)
    for name, hint in (places or {}).items():
        several = get_origin(hint) is tuple
        given, loose = (loose, []) if several else (loose[:1], loose[1:])
        try:
            if given:
                values[name] = _value(name, given, hint)
            elif several:
                values[name] = ()
        except _Misfit as problem:
            wrong.add(str(problem))
    for word in loose:
        wrong.add(f"unexpected {shown(word)}: options begin with -- (see coterie {command} --help)")
    return values, wrong


def _taken(given: Sequence[str], hint: Any) -> int:
    """How many of the words behind a flag are its own, where words may stand for themselves."""
    if hint in (bool, SWITCH):
        return 0
    return len(given) if get_origin(hint) is tuple else 1


def _nearest(name: str, known: Sequence[str]) -> str:
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
        if _is_flag(word):
            yield from [(flag, values)] if flag else (("", [v]) for v in values)
            flag, equals, joined = word.partition("=")
            values = [joined] if equals else []
        else:
            values.append(word)
    yield from [(flag, values)] if flag else (("", [v]) for v in values)


def _is_flag(word: str) -> bool:
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


def _switched(flag: str) -> str:
    """The flag that --fedavg.no-weighted switches off."""
    head, dot, last = flag.removeprefix("--").rpartition(".")
    return f"--{head}{dot}{last.removeprefix('no-')}"


class _Misfit(Exception):
    """What is wrong with the words of a flag."""


def _value(flag: str, words: Sequence[str], hint: Any) -> Any:
    """The value that words behind a flag, or in a place, mean."""
    if hint in (bool, SWITCH):
        head, _, last = flag.rpartition(".")
        off = f"{head}.no-{last}" if head else f"--no-{last.removeprefix('--')}"
        remedy = f"leave it out, or write {off}" if hint is bool else "leave it out"
        if words:
            raise _Misfit(f"{flag} takes no value; got {shown(words[0])}: {remedy}")
        return True
    if get_origin(hint) is tuple:
        kinds = [kind for kind in get_args(hint) if kind is not ...]
        if ... not in get_args(hint) and len(words) != len(kinds):
            raise _Misfit(f"{flag} needs {len(kinds)} values; got {len(words)}")
        pairs = zip(words, itertools.cycle(kinds), strict=False)
        return tuple(_one_value(flag, word, kind) for word, kind in pairs)
    if not words:
        raise _Misfit(f"{flag} needs a value")
    if len(words) > 1:
        raise _Misfit(f"{flag} takes one value; got {len(words)}: leave {shown(words[1])} out")
    return _one_value(flag, words[0], hint)


def _one_value(flag: str, word: str, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        choices = {str(choice): choice for choice in get_args(hint)}
        if word not in choices:
            raise _Misfit(f"invalid choice {shown(word)} for {flag}: choose one of {', '.join(choices)}")
        return choices[word]
    if get_origin(hint) in (Union, types.UnionType):
        for kind in get_args(hint):
            with contextlib.suppress(_Misfit):
                several = get_origin(kind) is tuple
                return _value(flag, [word], kind) if several else _one_value(flag, word, kind)
        return _one_value(flag, word, next(kind for kind in get_args(hint) if kind is not type(None)))
    if hint is type(None):
        if word != "None":
            raise _Misfit(f"{flag} {shown(word)} is not None")
        return None
    try:
        return hint(word)
    except ValueError:
        if hint not in _KINDS:
            raise
        raise _Misfit(f"{flag} must be {_KINDS[hint]}; got {shown(word)}") from None
