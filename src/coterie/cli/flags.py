"""Flags from the same frozen dataclasses that TOML tables and keywords fill.

The names of a run's parts are read first (from --config and from flags such as --data digits); then the
options of just these parts become flags behind their names: --fedavg.sample 0.5, --sgd.lr 0.1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from coterie.cli.command import parse
from coterie.cli.words import SWITCH, by_flag, check_words
from coterie.cli.words import named as flag_named
from coterie.core.clock import CLOCK
from coterie.core.errors import BadInput, CoterieError, Gathered, naming_flags_of, shown
from coterie.core.options import Option, coerced, options_of, table_of
from coterie.kernels import WORK, nested
from coterie.kernels.natural import AUTO, STEPS, only_work
from coterie.runs.settings import NATURAL, PARTS, Settings, data_for, from_table, read_toml, unused
from coterie.sites.features import Features
from coterie.storage.paths import given_path
from coterie.storage.plugins import load_plugins

SPENDING = ("budget", "power")
"""Settings of a run or comparison, and of no other command."""
CONFIG = Option("config", str, "", "A TOML file with settings; flags go before it.")
RECIPE = Option("recipe", str, "", "How tables of your own are read: --data table --table.recipe FILE.")


def read_settings(
    words: Sequence[str],
    command: str,
    description: str,
    more: Sequence[Option],
    methods: Sequence[str] = (),
    only: Collection[str] = (),
    kernels: Sequence[str] = (),
    without: Collection[str] = (),
) -> tuple[Settings, dict[str, Any]]:
    """Settings from --config and flags, and the command's own further flags.

    `methods` and `kernels` name further ones whose options become flags too (for comparisons); `only` the
    settings that a command takes, if not all, and `without` those that it does not.
    """
    words = recipe_alias(words)
    path, table = peek(words, "config") or "config", config_of(words)
    load_plugins(peek_many(words, "plugins"))
    base, given = _from_file(table, more, path)
    base, works = _worked(words, base, methods, kernels)
    classes, wrong = _parts(words, base, methods, only, kernels, works)
    unknown = bool(wrong.found)
    for name in base.options:
        if name not in classes and not unknown:
            wrong.add(f"{path}: {unused(name, classes)}")
    for name in (name for name in table if name in without):
        wrong.add(f"{path}: {name} is not for coterie {command}: leave it out")
    shared, own = _shared(only, without, bool(methods)), [CONFIG, *more]
    asked = bool({"-h", "--help"} & set(words))
    staged = base.features is not None or asks_for("features", words)
    if not asked:
        tables = classes | ({"features": Features} if staged else {})
        hints = {**_hints([*shared, *own], tables), "--features": SWITCH}
        wrong.found += check_words(words, hints, command, partial(_strange, tables, unknown)).found
    wrong.refuse()
    fields = [_field(o, getattr(base, o.name)) for o in shared]
    fields += [_field(o, given.get(o.name, o.default)) for o in own]
    fields += [_table(name, cls, base.options.get(name, {})) for name, cls in classes.items()]
    fields += [_features(base.features)] if staged or (asked and not only) else []
    kind = dataclasses.make_dataclass(command, fields, frozen=True)
    parsed = parse(kind, [w for w in words if w != "--features"], command, description)
    settings = _settings_of(parsed, shared, classes, staged, [*kernels, *works])
    return settings, {o.name: getattr(parsed, o.name) for o in own}


def _shared(only: Collection[str], without: Collection[str], methods: bool) -> list[Option]:
    """The settings of a run that a command takes; one for several methods has no --method."""
    left_out = {*without, *(["method"] if methods else [])}
    return [o for o in options_of(Settings) if (not only or o.name in only) and o.name not in left_out]


def _settings_of(
    parsed: Any, shared: Sequence[Option], classes: Mapping[str, type], staged: bool, kernels: Sequence[str]
) -> Settings:
    """What was parsed as settings; all that they and their parts refuse is said at once."""
    wrong = Gathered()
    options = {
        name: {o.name: getattr(getattr(parsed, _identifier(name)), o.name) for o in options_of(cls)}
        for name, cls in classes.items()
        if options_of(cls)
    }
    with wrong.one():
        features = Features(**vars(parsed.features)) if staged else None
    with wrong.one():
        settings = Settings(**{o.name: getattr(parsed, o.name) for o in shared}, options=options)
    for name in (name for name in options if name not in WORK):
        with wrong.one(), naming_flags_of(classes[name]):
            classes[name](**coerced(classes[name], options[name], name))
    own = [parsed.kernel] if getattr(parsed, "kernel", AUTO) != AUTO else []
    for kernel in [*own, *kernels]:
        with wrong.one():
            nested.made(kernel, options)
    wrong.refuse()
    return dataclasses.replace(settings, features=features)


NAMED = ("data", "model", "net", "method")
"""What natural work depends on."""


def _worked(
    words: Sequence[str], base: Settings, methods: Sequence[str], kernels: Sequence[str]
) -> tuple[Settings, list[str]]:
    """The settings with sgd for local work, if options of it are given and no work is named; else what is
    natural for each method.
    """
    if (peek(words, "kernel") or base.kernel) != AUTO:
        return base, []
    named: dict[str, Any] = {kind: peek(words, kind) or getattr(base, kind) for kind in NAMED}
    bare = dataclasses.replace(base, options={})
    natural, tables = list[str](), dict[str, Mapping[str, Any]]()
    with contextlib.suppress(CoterieError):  # of a part that nobody knows, which is said elsewhere
        for method in methods or [named["method"]]:
            worked = dataclasses.replace(bare, **{**named, "method": method}).with_work()
            natural += [] if only_work(PARTS["method"][method]) else [worked.kernel]
            tables |= worked.options
    of_steps = re.compile(rf"(?<![\w-]){STEPS}\.")
    given = STEPS in base.options or any(of_steps.search(word.lstrip("-")) for word in words)
    if given and STEPS not in natural and not kernels:
        return dataclasses.replace(base, kernel=STEPS), []
    merged = {name: {**table, **base.options.get(name, {})} for name, table in tables.items()}
    return dataclasses.replace(base, options={**base.options, **merged}), list(dict.fromkeys(natural))


def _parts(
    words: Sequence[str],
    base: Settings,
    methods: Sequence[str],
    only: Collection[str],
    kernels: Sequence[str],
    works: Sequence[str],
) -> tuple[dict[str, type], Gathered]:
    """The class of each part that is named, by its name; and the names that nobody knows."""
    named = {kind: peek(words, kind) or getattr(base, kind) for kind in PARTS if not only or kind in only}
    if methods:
        del named["method"]
    classes, wrong = dict[str, type](), Gathered()
    with wrong.one():
        named["data"] = data_for(named["data"], named.get("net", base.net))
    if named["data"] in NATURAL:
        for kind, natural in zip(("split", "model"), NATURAL[named["data"]], strict=True):
            named |= {kind: natural} if named.get(kind) == "auto" else {}
    more = [*(("method", name) for name in methods), *(("kernel", name) for name in kernels)]
    for kind, name in [*named.items(), *more]:
        with wrong.one():
            if kind == "kernel":
                some = works if name == AUTO else nested.names_in(name)
                classes |= {part: WORK[part] for part in some}
            elif not unresolved(kind, name):
                classes[name] = PARTS[kind][name]
    return classes, wrong


def _hints(flat: Sequence[Option], tables: Mapping[str, type]) -> dict[str, Any]:
    """The type of each flag, by the flag."""
    hints = {o.name: o.hint for o in flat}
    hints |= {f"{name}.{o.name}": o.hint for name, cls in tables.items() for o in options_of(cls)}
    return {flag_named(f"--{name}"): hint for name, hint in hints.items()}


def unresolved(kind: str, name: str) -> bool:
    """Whether a split or a model is still to be chosen by the data; an engine may be called auto."""
    return name == "auto" and kind in ("split", "model")


def peek(words: Sequence[str], flag: str) -> str | None:
    """The value of --flag, before anything is parsed; of several the last, as the parser has it."""
    return next(iter(peek_many(words, flag)), None)


def recipe_alias(words: Sequence[str]) -> list[str]:
    """--recipe my.toml is --data table --table.recipe my.toml."""
    found = [re.sub(r"^--recipe(?==|$)", "--table.recipe", word) for word in words]
    return ["--data", "table", *found] if found != list(words) and peek(words, "data") is None else found


def asks_for(table: str, words: Sequence[str]) -> bool:
    """Whether a table that is not there by default is named, by itself or by one of its options."""
    return any(word == f"--{table}" or word.startswith(f"--{table}.") for word in words)


def peek_many(words: Sequence[str], flag: str) -> list[str]:
    """The values after --flag, up to the next flag; of several the last, as the parser has it."""
    return next((values for name, values in reversed(list(by_flag(words))) if name == f"--{flag}"), [])


def config_of(words: Sequence[str]) -> dict[str, Any]:
    """What the file of --config says, before anything is parsed; nothing without one."""
    path = peek(words, "config")
    return read_toml(given_path(path, "--config")) if path else {}


def method_names(words: Sequence[str], default: Sequence[str]) -> list[str]:
    """The methods that --methods, or the file of --config, lists, without their options."""
    listed = peek_many(words, "methods") or config_of(words).get("methods", default)
    if not isinstance(listed, list | tuple):
        raise BadInput(f"{peek(words, 'config')}: methods must be a list; got {shown(listed)}: put it in [ ]")
    return [str(spec).partition(":")[0] for spec in listed]


def kernel_names(words: Sequence[str]) -> list[str]:
    """The kernels that methods choose for themselves, as in fedavg:kernel=dp(sgd)."""
    listed = peek_many(words, "methods") or config_of(words).get("methods", ())
    pairs = [pair for spec in listed for pair in str(spec).partition(":")[2].split(",")]
    found = [value for name, _, value in (pair.partition("=") for pair in pairs) if name.strip() == "kernel"]
    return [kernel for value in found for kernel in value.split("|")]


def _from_file(
    table: Mapping[str, Any], more: Sequence[Option], where: str
) -> tuple[Settings, dict[str, Any]]:
    """The settings of a file, and those that are the command's own."""
    own, wrong = {o.name for o in more}, Gathered()
    with wrong.one():
        base = from_table({k: v for k, v in table.items() if k not in own}, where)
    with wrong.one():
        given = _own_values(more, {k: v for k, v in table.items() if k in own}, where)
    wrong.refuse()
    return base, given


def _strange(used: Iterable[str], unknown: bool, flag: str) -> str | None:
    """What is wrong with a flag of a part that the run does not have; nothing while a part is unknown."""
    part, dot, _ = flag.removeprefix("--").partition(".")
    if not dot or part in used:
        return None
    if unknown:
        return ""
    known = {flag_named(name) for registry in PARTS.values() for name in registry}
    return f"{flag}: {unused(part, used)}" if part in known else None


def _own_values(own: Sequence[Option], table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A command's own settings in a file, checked as any others."""
    fields = [(o.name, o.hint, dataclasses.field(default=o.default)) for o in own]
    return coerced(dataclasses.make_dataclass("Own", fields), table, where)


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def _field(option: Option, default: Any) -> tuple[str, Any, Any]:
    hint: Any = option.hint
    metavar = "INT" if hint == int | None else None
    return (
        option.name,
        Annotated[hint, tyro.conf.arg(help=option.help, metavar=metavar)],
        dataclasses.field(default=default),
    )


def _table(name: str, cls: type, given: Mapping[str, Any], about: str = "") -> tuple[str, Any, Any]:
    """`about` stands above the table in the help; were there none, tyro would search source files for one."""
    values = coerced(cls, given, name)
    fields = [_field(o, values.get(o.name, o.default)) for o in options_of(cls)]
    kind = dataclasses.make_dataclass(_identifier(name), fields, frozen=True)
    told: Any = Annotated[kind, tyro.conf.arg(help=about)]
    return _identifier(name), told, dataclasses.field(default_factory=kind)


def _features(given: Features | None) -> tuple[str, Any, Any]:
    about = "Last-layer mode, off unless --features or one of these is given."
    return _table("features", Features, {} if given is None else table_of(given), about)


class Given(NamedTuple):
    """What a command that takes the settings of a run was given."""

    settings: Settings
    own: dict[str, Any]
    words: Sequence[str]


@dataclass(frozen=True)
class SettingsFlags:
    """The settings of a run as flags, the options of its parts, and options that are the command's own."""

    name: str
    about: str
    own: Sequence[Option] = ()
    only: Collection[str] = ()
    """The settings that the command takes, if not all."""
    without: Collection[str] = ()
    """The settings that it does not take."""
    methods: Callable[[Sequence[str]], Sequence[str]] | None = None
    """The methods whose options are flags, by the words; there is no --method then."""
    kernels: Callable[[Sequence[str]], Sequence[str]] = lambda words: ()
    """Further kernels whose options are flags, by the words."""
    first: str = ""
    """A setting that the first word is, if it is no flag."""

    def read(self, words: Sequence[str]) -> Given:
        if self.first and words and not words[0].startswith("-"):
            words = [f"--{self.first}", *words]
        with CLOCK.part("start-up"):
            methods = self.methods(words) if self.methods else ()
            limits = self.only, self.kernels(words), self.without
            return Given(*read_settings(words, self.name, self.about, self.own, methods, *limits), words)

    def flags(self) -> type:
        """The flags with any parts whatever, whose names are choices."""
        names: dict[str, Any] = {kind: Literal[("auto", *registry)] for kind, registry in PARTS.items()}
        names["methods"] = GenericAlias(tuple, (names["method"], ...))
        shared = _shared(self.only, self.without, self.methods is not None)
        flat = [CONFIG, RECIPE, *shared, *self.own]
        fields = [_field(o._replace(hint=names.get(o.name, o.hint)), o.default) for o in flat]
        for kind, registry in PARTS.items():
            if not self.only or kind in self.only:
                fields += [_table(name, cls, {}) for name, cls in registry.items() if options_of(cls)]
        if not self.only:
            switch: Any = Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="features")]
            fields += [_features(None), ("last_layer", switch, dataclasses.field(default=False))]
        return dataclasses.make_dataclass(_identifier(self.name), fields, frozen=True)
