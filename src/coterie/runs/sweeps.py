"""Options of methods as a grid: a spec with several values is one spec for each combination of them.

    fedprox:mu=0.01|0.1,sgd.lr=0.1|0.3     ->  fedprox:mu=0.01,sgd.lr=0.1   fedprox:mu=0.01,sgd.lr=0.3
                                               fedprox:mu=0.1,sgd.lr=0.1    fedprox:mu=0.1,sgd.lr=0.3

A grid for all methods goes to each that has the option: sgd.lr to those whose local work is sgd, mu to those
that take mu. What a spec says of an option itself stands.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from coterie.core.checks import is_list
from coterie.core.errors import BadInput, UnknownName, shown
from coterie.core.options import options_of
from coterie.kernels import WORK
from coterie.kernels.nested import names_in
from coterie.methods import METHODS

MOST = 200  # specs of one comparison, each of which is trained once for each seed
SIGNS = ("|", ",", "=")  # what a value in a spec cannot have in it
Values = tuple[str, ...]
Entry = str | Mapping[str, Mapping[str, Any]]


def expanded(
    methods: Sequence[str], grid: Sequence[str] = (), kernel: str | Callable[[str], str] = "sgd"
) -> tuple[str, ...]:
    """All specs that these stand for, in order, the last option changing fastest; `kernel` is the local work
    of those that have none of their own, for all or by method, empty where it has no name.
    """
    shared = dict(_axis_of(entry, f"grid {entry!r}") for entry in grid)
    used, made = set[str](), list[str]()
    for spec in methods:
        name, _colon, tail = spec.partition(":")
        pairs = [pair for pair in tail.split(",") if pair]
        if not any("|" in pair for pair in pairs) and not shared:
            made.append(spec)  # as it was typed, right or wrong
            continue
        own = dict(_axis_of(pair, f"method {spec!r}") for pair in pairs)
        axes, work = dict(own), kernel if isinstance(kernel, str) else kernel(name)
        for option, values in shared.items():
            called = _name_in_spec(name, own.get("kernel", (work,) if work else ()), option)
            if called is not None:
                used.add(option)
                axes.setdefault(called, values)
        _refuse_many(len(made) + math.prod(len(v) for v in axes.values()))
        made += [spec_of(name, dict(zip(axes, v, strict=True))) for v in itertools.product(*axes.values())]
    _refuse_many(len(made))
    for option in shared:
        if option not in used:
            raise BadInput(
                f"grid {option!r}: none of the methods has such an option: name one of theirs, or one of "
                "their local work as in sgd.lr"
            )
    return tuple(made)


def _refuse_many(specs: int) -> None:
    if specs > MOST:
        raise BadInput(
            f"the methods and their values make {specs} combinations or more, at most {MOST} are compared: "
            "give fewer values, or search them with coterie tune"
        )


def _axis_of(pair: str, whose: str) -> tuple[str, Values]:
    """option=value or option=a|b|c."""
    option, equals, text = pair.partition("=")
    values = tuple(value.strip() for value in text.split("|"))
    if not equals or not option.strip() or not all(values):
        raise BadInput(f"{whose}: {shown(pair)} needs the form option=value or option=a|b|c")
    twice = next((v for v in values if values.count(v) > 1), None)
    if twice is not None:
        raise BadInput(f"{whose}: {option.strip()} names {twice} twice: name each value once")
    return option.strip(), values


def _name_in_spec(method: str, kernels: Collection[str], option: str) -> str | None:
    """What a method's spec calls an option of the method, or of its local work (any of these): lr becomes
    sgd.lr. None where neither has it.
    """
    table, dot, key = option.rpartition(".")
    key = key.replace("-", "_")
    if not dot and key in {o.name for o in options_of(METHODS[method])}:
        return key
    if dot and table not in WORK:
        raise UnknownName("local work", table, WORK)
    if dot and key not in _options_of_work(table):
        raise UnknownName(f"option of kernel {table}", key, _options_of_work(table))
    homes = [[n for n in names_in(k) if key in _options_of_work(n) and table in ("", n)] for k in kernels]
    if not homes or not all(homes) or len({found[0] for found in homes}) > 1:
        return None
    return f"{homes[0][0]}.{key}"


def _options_of_work(name: str) -> list[str]:
    return [o.name for o in options_of(WORK[name])]


def spec_of(name: str, options: Mapping[str, str]) -> str:
    tail = ",".join(f"{option}={value}" for option, value in options.items())
    return f"{name}:{tail}" if tail else name


# the same from Python


def specs_from(methods: Sequence[Entry] | Mapping[str, Mapping[str, Any]], kernel: str = "sgd") -> list[str]:
    """Specs as texts: ["fedavg", {"fedprox": {"mu": [0.01, 0.1]}}], or the dict by itself."""
    entries = [{k: v} for k, v in methods.items()] if isinstance(methods, Mapping) else methods
    made: list[str] = []
    for entry in entries:
        if isinstance(entry, str):
            made.append(entry)
            continue
        for name, options in entry.items():  # those of the local work go behind its name
            texts = _texts_of(options, f"method {name}")
            kernels = texts["kernel"].split("|") if "kernel" in texts else [kernel] if kernel else []
            called = {o: "kernel" if o == "kernel" else _name_in_spec(name, kernels, o) or o for o in texts}
            made.append(spec_of(name, {called[o]: text for o, text in texts.items()}))
    return made


def grid_from(grid: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """["sgd.lr=0.01|0.1"] of {"sgd.lr": [0.01, 0.1]}."""
    if not isinstance(grid, Mapping):
        return list(grid)
    return [f"{option}={text}" for option, text in _texts_of(grid, "grid").items()]


def _texts_of(options: Mapping[str, Any], whose: str) -> dict[str, str]:
    found = {}
    for option, value in options.items():
        values = list(value) if is_list(value) else [value]
        if not values:
            raise BadInput(f"{whose}: {option} has no value: give one, or a list of them")
        found[option] = "|".join(_text_of(v, f"{whose}: {option}") for v in values)
    return found


def _text_of(value: Any, where: str) -> str:
    """A value as it is typed in a spec, with all its digits."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str) and value.strip() and not any(sign in value for sign in SIGNS):
        return value
    raise BadInput(f"{where} = {shown(value)} must be a number, true or false, or a text without | , =")
