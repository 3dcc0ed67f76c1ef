"""What a command is: what it does with its words, and the flags that completion offers for it.

Both come from one declaration above the command's function: a frozen dataclass whose fields are flags
(`Flags`), or the settings of a run with some options more (`SettingsFlags`, in flags.py).
"""

from __future__ import annotations

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


class Parser(Protocol[Read]):
    def read(self, words: Sequence[str]) -> Read: ...

    def flags(self) -> type: ...


def command_with(parser: Parser[T]) -> Callable[[Callable[[T], int | None]], Command]:
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
            if problem := _misfit(found, given, hint):
                wrong.add(problem)
            else:
                values[(found if found in hints else off)[2:]] = found in hints and _value(given, hint)
        elif (said := strange(found)) is None:
            near = _nearest(found.lstrip("-").lower(), [name.removeprefix("--") for name in hints])
            hint = f"did you mean --{near}?" if near else f"see coterie {command} --help"
            wrong.add(f"unknown option {shown(flag)[1:-1]}: {hint}")
        elif said:
            wrong.add(said)
    for name, hint in (places or {}).items():
        several = get_origin(hint) is tuple
        given, loose = (loose, []) if several else (loose[:1], loose[1:])
        if given and (problem := _misfit(name, given, hint)):
            wrong.add(problem)
        elif given or several:
            values[name] = _value(given, hint)
    for word in loose:
        wrong.add(f"unexpected {shown(word)}: options begin with -- (see coterie {command} --help)")
    return values, wrong


def _taken(given: Sequence[str], hint: Any) -> int:
    """How many of the words behind a flag are its own, where words may stand for themselves."""
    if hint in (bool, SWITCH):
        return 0
    return len(given) if get_origin(hint) is tuple else 1


def _value(words: Sequence[str], hint: Any) -> Any:
    if hint in (bool, SWITCH):
        return True
    if get_origin(hint) is tuple:
        kinds = [kind for kind in get_args(hint) if kind is not ...]
        return tuple(_value([word], kind) for word, kind in zip(words, itertools.cycle(kinds), strict=False))
    (word,) = words
    if get_origin(hint) in (Union, types.UnionType):
        return _value(words, next(kind for kind in get_args(hint) if _misread("", word, kind) is None))
    if get_origin(hint) is Literal:
        return next(choice for choice in get_args(hint) if str(choice) == word)
    return None if hint is type(None) else hint(word)


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


def _misfit(flag: str, values: Sequence[str], hint: Any) -> str | None:
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
        return next((said for value, kind in pairs if (said := _misread(flag, value, kind))), None)
    if not values:
        return f"{flag} needs a value"
    if len(values) > 1:
        return f"{flag} takes one value; got {len(values)}: leave {shown(values[1])} out"
    return _misread(flag, values[0], hint)


def _misread(flag: str, value: str, hint: Any) -> str | None:
    if get_origin(hint) is Literal:
        choices = [str(choice) for choice in get_args(hint)]
        if value in choices:
            return None
        return f"invalid choice {shown(value)} for {flag}: choose one of {', '.join(choices)}"
    if get_origin(hint) in (Union, types.UnionType):
        if any(_misread(flag, value, kind) is None for kind in get_args(hint)):
            return None
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
        return _misread(flag, value, hint)
    if hint is type(None):
        return None if value == "None" else f"{flag} {shown(value)} is not None"
    if hint not in _KINDS:
        return None
    try:
        hint(value)
    except ValueError:
        return f"{flag} must be {_KINDS[hint]}; got {shown(value)}"
    return None
