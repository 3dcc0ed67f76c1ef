"""Options as data: what a frozen dataclass can be told by a flag, a TOML table or a keyword.

An option is a field of a plain type with a default. Its help is the docstring below the field, or its line
in the class docstring ("alpha   how concentrated"). Fields of other types (a method's local work) are set by
whoever builds the object and are no options.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from coterie.core.errors import BadInput, Gathered, UnknownName, shown
from coterie.core.registry import Registry

MOST = 2**63  # whole numbers stay below it, as tensors and other readers of TOML hold no larger ones


class Option(NamedTuple):
    name: str
    hint: Any
    default: Any
    help: str


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a setting says of itself beside its type, its default and its help."""

    part: Registry[Any] | None = None
    """Where the names that it takes are registered, with options of their own."""
    decides: Literal["rows", "start", "run"] = "run"
    """Who has which rows, what the first models are, or what is done then: a builder keeps the first two."""
    source: bool = False
    """Whether it is of data by name alone: clients that are given from Python have their rows already."""
    least: int | None = None
    """The least whole number that it takes."""
    otherwise: str = ""
    """What can be done besides giving another number."""
    check: Callable[[Any], object] | None = None
    """Refuses other values that do not do."""
    alone: tuple[Any, ...] | None = None
    """Values that no feature is needed for: others are refused where no hook `meets` them."""
    quiet: bool = False
    """Left out of a record where it has its default, so that runs of versions without it go on."""


def setting(default: Any, **facts: Any) -> Any:
    """A field of `Settings`. One is all that an option of a run takes: flags, completion, files, records and
    keywords of `train` and `compare` are made of it.
    """
    return dataclasses.field(default=default, metadata={"facts": Facts(**facts)})


BOUNDS: Mapping[str, Callable[[Any], bool]] = {
    "be above 0": lambda v: 0 < v < math.inf,
    "be above 0 and finite": lambda v: 0 < v < math.inf,
    "be at least 0": lambda v: 0 <= v < math.inf,
    "be at least 0 and finite": lambda v: 0 <= v < math.inf,
    "be at least 0 and below 1": lambda v: 0 <= v < 1,
    "be at least 1": lambda v: 1 <= v < math.inf,
    "lie in [0, 1)": lambda v: 0 <= v < 1,
    "lie from 0 to below 1": lambda v: 0 <= v < 1,
    "lie between 0 and 1": lambda v: 0 <= v <= 1,
    "lie above 0 and up to 1": lambda v: 0 < v <= 1,
}
"""What the words of a bound mean."""


def bounded(default: Any, must: str, remedy: str, besides: Any = ...) -> Any:
    """An option of a method or a kernel that must be so (`BOUNDS`), or the one value `besides`."""
    return dataclasses.field(default=default, metadata={"bound": (must, remedy, besides)})


def chosen(default: Any, choices: Any) -> Any:
    """An option of a method or a kernel that is one of these: `choices` is a Literal."""
    return dataclasses.field(default=default, metadata={"choices": get_args(choices)})


def check_options(obj: Any) -> None:
    """Refuses an option that is not as its class, or one that it inherits from, declares it."""
    kind: type = type(obj)
    for name, facts in _declared_of(kind).items():
        value = getattr(obj, name)
        if "choices" in facts and value not in facts["choices"]:
            raise UnknownName(name, str(value), facts["choices"])
        if "bound" in facts:
            must, remedy, besides = facts["bound"]
            if value != besides and (isinstance(value, str) or not BOUNDS[must](value)):
                raise BadInput(f"{name}={value} must {must}: {remedy}")


@functools.cache
def _declared_of(cls: type) -> dict[str, Mapping[str, Any]]:
    """By option what its nearest class says that declares something of it."""
    bases = [base for base in reversed(cls.__mro__) if dataclasses.is_dataclass(base)]
    return {f.name: f.metadata for base in bases for f in dataclasses.fields(base) if f.metadata}


def options_of(cls: type) -> list[Option]:
    """The options of a dataclass, in the order of its fields."""
    hints, helps, options = _hints(cls), _field_docs(cls), []
    for f in _plain_fields(cls):
        default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        if default is dataclasses.MISSING:
            raise TypeError(f"option {f.name!r} needs a default")
        options.append(Option(f.name, hints[f.name], default, helps.get(f.name, "")))
    return options


def coerced(cls: type, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A table of plain values (from TOML or keywords) as the options' own types; all that is wrong with it is
    said at once, a line each.
    """
    known = {o.name: o for o in options_of(cls)}
    values, wrong = {}, Gathered()
    for name, value in table.items():
        key = name.replace("-", "_")
        with wrong.one():
            if not known:
                raise BadInput(f"{where} has no options; got {shown(name)}: leave it out")
            if key not in known:
                raise UnknownName(f"option of {where}", name, known)
            values[key] = _coerce(value, known[key].hint, f"{where}: {name}")
    wrong.refuse()
    return values


def read_pairs(text: str, whose: str) -> dict[str, Any]:
    """option=value,option=value as a table: true, false and numbers as such, anything else is text."""
    table = {}
    for pair in filter(None, text.split(",")):
        option, equals, value = pair.partition("=")
        if not equals:
            raise BadInput(f"{whose}: {shown(pair)} needs the form option=value")
        table[option.strip()] = read_value(value.strip())
    return table


def read_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def plain(value: Any) -> Any:
    """An option's value as TOML and JSON hold it."""
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def table_of(obj: Any) -> dict[str, Any]:
    """The options of an object as a table; what is None is left out, as TOML has no word for it.

    A field that is itself a registered part (the work inside of a fold, a method's local work) is a table
    with its name.
    """
    pairs = ((f.name, getattr(obj, f.name)) for f in _plain_fields(type(obj)))
    table = {name: plain(value) for name, value in pairs if value is not None}
    inner = {f.name: getattr(obj, f.name) for f in dataclasses.fields(obj) if f.name not in table}
    for name, value in inner.items():
        if dataclasses.is_dataclass(value) and hasattr(value, "name"):
            table[name] = {"name": value.name, **table_of(value)}
    return table


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _plain_fields(cls: type) -> list[dataclasses.Field[Any]]:
    hints = _hints(cls)
    return [f for f in dataclasses.fields(cls) if _is_plain(hints[f.name])]


def _is_plain(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal or hint in (bool, int, float, str, type(None), ...):
        return True
    return origin in (tuple, Union, types.UnionType) and all(_is_plain(a) for a in get_args(hint))


def _coerce(value: Any, hint: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        if not any(isinstance(value, type(choice)) and value == choice for choice in args):
            raise UnknownName(f"value for {where},", str(value), map(str, args))
        return value
    if origin in (Union, types.UnionType):
        for kind in args:
            try:
                return _coerce(value, kind, where)
            except BadInput:
                continue
    elif origin is tuple and isinstance(value, list | tuple):
        kinds = [args[0]] * len(value) if args[-1] is ... else list(args)
        if len(kinds) != len(value):
            raise BadInput(f"{where} needs {len(kinds)} values; got {len(value)}")
        return tuple(_coerce(v, k, where) for v, k in zip(value, kinds, strict=True))
    elif hint is float and isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(_bounded(value, where) if isinstance(value, int) else value)
    elif hint is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return _bounded(int(value), where)
    elif hint is type(None) and value is None:
        return None
    elif isinstance(hint, type) and type(value) is hint:
        return value
    raise BadInput(f"{where} must be {_in_words(hint)}; got {shown(value)}")


def _bounded(value: int, where: str) -> int:
    if not -MOST <= value < MOST:
        raise BadInput(f"{where} must lie below 2^63; got {shown(value)}: give a smaller number")
    return value


def _docstring_lines(doc: str) -> list[tuple[str, str]]:
    """The lines "name   text" of a docstring, each with what follows it further to the right."""
    found: list[tuple[str, str]] = []
    for line in doc.splitlines():
        if entry := re.fullmatch(r"(\w+) {2,}(\S.*)", line):
            found.append((entry[1], entry[2]))
        elif found and line.startswith("    ") and line.strip():
            name, text = found[-1]
            found[-1] = (name, f"{text} {line.strip()}")
    return found


@functools.cache
def _field_docs(cls: type) -> dict[str, str]:
    """Docstrings below fields, the nearest class's first."""
    docs: dict[str, str] = {}
    for base in cls.__mro__:
        if not dataclasses.is_dataclass(base):
            continue
        try:
            found: ast.stmt | None = _classes_at_top(base.__module__).get(base.__qualname__)
            if found is None:  # inside of a function or a class
                found = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError):
            continue
        for name, text in _docstring_lines(inspect.cleandoc(base.__doc__ or "")):
            docs.setdefault(name, text)
        for field, doc in itertools.pairwise(found.body if isinstance(found, ast.ClassDef) else []):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(doc, ast.Expr)
                and isinstance(doc.value, ast.Constant)
            ):
                docs.setdefault(field.target.id, inspect.cleandoc(str(doc.value.value)))
    return docs


@functools.cache
def _classes_at_top(module: str) -> dict[str, ast.ClassDef]:
    """Parsed once a module: inspect.getsource walks through all of it for each class."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _in_words(hint: Any) -> str:
    """A type as people call it."""
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if get_origin(hint) is tuple:
        of = words.get(get_args(hint)[0], "values").removeprefix("a ")
        return f"a list of {of if of.endswith('s') else of + 's'}"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_in_words(kind) for kind in get_args(hint) if kind is not type(None))
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")
