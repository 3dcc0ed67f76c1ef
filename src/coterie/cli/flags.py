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

from coterie.cli.command import SWITCH, asks_for_help, by_flag, read_words, show_help, shown_flag
from coterie.cli.command import named as flag_named
from coterie.core.clock import CLOCK
from coterie.core.errors import BadInput, CoterieError, Gathered, naming_flags_of, shown
from coterie.core.options import Option, coerced, options_of, table_of
from coterie.data.sources import SOURCES, natural_of
from coterie.kernels import WORK, nested
from coterie.kernels.natural import AUTO, STEPS, only_work
from coterie.runs.settings import PARTS, Settings, data_for, from_table, read_toml, unused
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
    typed = words  # --recipe my.toml is --data table --table.recipe my.toml
    words = [re.sub(r"^--recipe(?==|$)", "--table.recipe", word) for word in words]
    words = ["--data", "table", *words] if words != list(typed) and peek(typed, "data") is None else words
    path, table = peek(words, "config") or "config", config_of(words)
    load_plugins(_peek_many(words, "plugins"))
    base, own = _from_file(table, more, path)
    base, works = _worked(words, base, methods, kernels)
    classes, wrong = _parts(words, base, methods, only, kernels, works)
    unknown = bool(wrong.found)
    for name in base.options:
        if name not in classes and not unknown:
            wrong.add(f"{path}: {unused(name, classes)}")
    for name in (name for name in table if name in without):
        wrong.add(f"{path}: {name} is not for coterie {command}: leave it out")
    shared, staged = _shared(only, without, bool(methods)), base.features is not None
    if asks_for_help(words):
        wrong.refuse()
        show_help(_kind(command, shared, more, base, own, classes, staged or not only), command, description)
    staged = staged or any(word == "--features" or word.startswith("--features.") for word in words)
    tables = classes | ({"features": Features} if staged else {})
    flags = {flag_named(f"--{o.name}"): ("", o) for o in [*shared, CONFIG, *more]}
    for name, cls in tables.items():  # each flag with the table that its option stands in
        flags |= {flag_named(f"--{name}.{o.name}"): (name, o) for o in options_of(cls)}
    hints = {flag: option.hint for flag, (_, option) in flags.items()} | {"--features": SWITCH}
    found, mistakes = read_words(words, hints, command, partial(_strange, tables, unknown))
    wrong.found += mistakes.found
    wrong.refuse()
    given = dict[str, dict[str, Any]]()
    for flag, (of, option) in flags.items():
        if flag[2:] in found:
            given.setdefault(of, {})[option.name] = found[flag[2:]]
    flat = given.pop("", {})
    settings = {o.name: flat.get(o.name, getattr(base, o.name)) for o in shared}
    own = {o.name: flat.get(o.name, own.get(o.name, o.default)) for o in [CONFIG, *more]}
    return _settings_of(settings, given, base, classes, staged, [*kernels, *works]), own


def _shared(only: Collection[str], without: Collection[str], methods: bool) -> list[Option]:
    """The settings of a run that a command takes; one for several methods has no --method."""
    left_out = {*without, *(["method"] if methods else [])}
    return [o for o in options_of(Settings) if (not only or o.name in only) and o.name not in left_out]


def _settings_of(
    flat: Mapping[str, Any],
    given: Mapping[str, Mapping[str, Any]],
    base: Settings,
    classes: Mapping[str, type],
    staged: bool,
    kernels: Sequence[str],
) -> Settings:
    """What was given as settings, over those of a file; all that they and their parts refuse is said at once.
    Every option of every part is spelled out.
    """
    options = {
        name: {o.name: o.default for o in options_of(cls)}
        | coerced(cls, base.options.get(name, {}), name)
        | dict(given.get(name, {}))
        for name, cls in classes.items()
        if options_of(cls)
    }
    wrong, features = Gathered(), None
    with wrong.one():
        before = {} if base.features is None else table_of(base.features)
        features = Features.of({**before, **given.get("features", {})}) if staged else None
    with wrong.one():
        settings = Settings(**flat, options=options)
    for name in (name for name in options if name not in WORK):
        with wrong.one(), naming_flags_of(classes[name]):
            classes[name](**coerced(classes[name], options[name], name))
    named = [flat["kernel"]] if flat.get("kernel", AUTO) != AUTO else []
    for kernel in [*named, *kernels]:
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
    if named["data"] in SOURCES:
        natural = natural_of(named["data"])
        for kind, name in (("split", natural.split), ("model", natural.model)):
            named |= {kind: name} if named.get(kind) == "auto" else {}
    more = [*(("method", name) for name in methods), *(("kernel", name) for name in kernels)]
    for kind, name in [*named.items(), *more]:
        with wrong.one():
            if kind == "kernel":
                some = works if name == AUTO else nested.names_in(name)
                classes |= {part: WORK[part] for part in some}
            elif name != "auto" or kind not in ("split", "model"):  # which rows decide; an engine may be auto
                classes[name] = PARTS[kind][name]
    return classes, wrong


def peek(words: Sequence[str], flag: str) -> str | None:
    """The value of --flag, before anything is parsed; of several the last, as the parser has it."""
    return next(iter(_peek_many(words, flag)), None)


def _peek_many(words: Sequence[str], flag: str) -> list[str]:
    """The values after --flag, up to the next flag; of several the last, as the parser has it."""
    return next((values for name, values in reversed(list(by_flag(words))) if name == f"--{flag}"), [])


def config_of(words: Sequence[str]) -> dict[str, Any]:
    """What the file of --config says, before anything is parsed; nothing without one."""
    path = peek(words, "config")
    return read_toml(given_path(path, "--config")) if path else {}


def method_names(words: Sequence[str], default: Sequence[str]) -> list[str]:
    """The methods that --methods, or the file of --config, lists, without their options."""
    listed = _peek_many(words, "methods") or config_of(words).get("methods", default)
    if not isinstance(listed, list | tuple):
        raise BadInput(f"{peek(words, 'config')}: methods must be a list; got {shown(listed)}: put it in [ ]")
    return [str(spec).partition(":")[0] for spec in listed]


def kernel_names(words: Sequence[str]) -> list[str]:
    """The kernels that methods choose for themselves, as in fedavg:kernel=dp(sgd)."""
    listed = _peek_many(words, "methods") or config_of(words).get("methods", ())
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
        fields = [(o.name, o.hint, dataclasses.field(default=o.default)) for o in more]
        mine = {k: v for k, v in table.items() if k in own}
        given = coerced(dataclasses.make_dataclass("Own", fields), mine, where)  # checked as any others
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


# help and completion, which tyro makes of a dataclass


def _kind(
    command: str,
    shared: Sequence[Option],
    more: Sequence[Option],
    base: Settings,
    own: Mapping[str, Any],
    classes: Mapping[str, type],
    staged: bool,
) -> type:
    """The flags of a command, with the defaults that a file leaves."""
    fields = [_field(o, getattr(base, o.name)) for o in shared]
    fields += [_field(o, own.get(o.name, o.default)) for o in [CONFIG, *more]]
    fields += [_table(name, cls, base.options.get(name, {})) for name, cls in classes.items()]
    fields += [_features(base.features)] if staged else []
    return dataclasses.make_dataclass(command, fields, frozen=True)


def _field(option: Option, default: Any) -> tuple[str, Any, Any]:
    metavar = "INT" if option.hint == int | None else None
    return shown_flag(option.name, option.hint, default, option.help, metavar)


def _table(name: str, cls: type, given: Mapping[str, Any], about: str = "") -> tuple[str, Any, Any]:
    """`about` stands above the table in the help; were there none, tyro would search source files for one."""
    import tyro

    values = coerced(cls, given, name)
    fields = [_field(o, values.get(o.name, o.default)) for o in options_of(cls)]
    name = name.replace("-", "_")
    kind = dataclasses.make_dataclass(name, fields, frozen=True)
    told: Any = Annotated[kind, tyro.conf.arg(help=about)]
    return name, told, dataclasses.field(default_factory=kind)


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
        import tyro

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
        return dataclasses.make_dataclass(self.name.replace("-", "_"), fields, frozen=True)
