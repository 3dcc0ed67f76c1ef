"""coterie completion"""

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from coterie.cli.again import Again
from coterie.cli.audit import Audit
from coterie.cli.bench import Bench
from coterie.cli.compare import GRID, JOBS
from coterie.cli.contributions import Asked as Contributions
from coterie.cli.decide import Decide
from coterie.cli.demo import Demo
from coterie.cli.energy import Asked as Energy
from coterie.cli.export import Export
from coterie.cli.flags import all_tables, parse
from coterie.cli.ledger import KINDS as LEDGER
from coterie.cli.methods import Methods
from coterie.cli.page import Page
from coterie.cli.plan_privacy import Numbers
from coterie.cli.posterior import KINDS as POSTERIOR
from coterie.cli.predict import Predict
from coterie.cli.rank import BY, FIGURES, REQUESTER
from coterie.cli.report import Report
from coterie.cli.reproduce import Reproduce
from coterie.cli.resume import Resume
from coterie.cli.run import ENERGY, WATCH
from coterie.cli.tune import OWN
from coterie.cli.watch import Watch
from coterie.cli.withdraw import Withdraw
from coterie.core.options import options_of
from coterie.data.sources import SOURCES
from coterie.runs.settings import PARTS, Settings

HELP = """Prints a completion script.

examples:
  coterie completion bash > ~/.local/share/bash-completion/completions/coterie
  coterie completion zsh > ~/.zfunc/_coterie
"""


@dataclass(frozen=True)
class Completion:
    shell: Annotated[tyro.conf.Positional[Literal["bash", "zsh", "fish"]], tyro.conf.arg(help="Your shell.")]


@dataclass(frozen=True)
class Data:
    command: tyro.conf.Positional[Literal["list", "fetch", "show"]]
    name: tyro.conf.Positional[Literal[tuple(SOURCES)]] = "digits"  # type: ignore[valid-type]


def completion(words: Sequence[str]) -> int:
    shell = parse(Completion, words, "completion", HELP).shell
    try:
        tyro.cli(everything(), prog="coterie", args=["--tyro-print-completion", shell])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def everything() -> Any:
    """All commands with all flags, and the names each of them takes."""
    named: dict[str, Any] = {kind: Literal[("auto", *registry)] for kind, registry in PARTS.items()}
    shared = [(o.name, named.get(o.name, o.hint), _default(o.default)) for o in options_of(Settings)]
    own = [(name, str, _default("")) for name in ("config", "out")]
    method: Any = named["method"]
    many = [("methods", tuple[method, ...], _default(())), ("seeds", int, _default(3))]
    swept = [(o.name, o.hint, _default(o.default)) for o in (GRID, JOBS)]
    watch = [(o.name, o.hint, _default(o.default)) for o in (WATCH, ENERGY)]
    tuned = [(o.name, many[0][1] if o.name == "methods" else o.hint, _default(o.default)) for o in OWN[:-1]]
    ranking = [(o.name, o.hint, _default(o.default)) for o in (BY, REQUESTER, FIGURES)]
    tables = list(all_tables())
    hints = get_type_hints(Numbers, include_extras=True)
    planned = [(f.name, hints[f.name], _default(f.default)) for f in dataclasses.fields(Numbers)]
    others = [s for s in shared if s[0] not in {f[0] for f in planned}]
    kinds: dict[str, Any] = {
        "demo": Demo,
        "run": dataclasses.make_dataclass("Run", [*shared, *own, *watch, *tables]),
        "compare": dataclasses.make_dataclass("Compare", [*shared, *own, *many, *swept, *watch, *tables]),
        "tune": dataclasses.make_dataclass("Tune", [*shared, *own, *tuned, *tables]),
        "rank": dataclasses.make_dataclass(
            "Rank", [*(s for s in shared if s[0] not in ("method", "rounds")), *own, *ranking, *tables]
        ),
        "reproduce": Reproduce,
        "decide": Decide,
        "again": Again,
        "resume": Resume,
        "watch": Watch,
        "report": Report,
        "page": Page,
        "contributions": Contributions,
        "energy": Energy,
        "audit": Audit,
        "plan-privacy": dataclasses.make_dataclass(
            "Plan", [*planned, *others, ("config", str, _default("")), *tables]
        ),
        "predict": Predict,
        "export": Export,
        "withdraw": Withdraw,
        "ledger": _either(LEDGER),
        "posterior": _either(POSTERIOR),
        "data": Data,
        "methods": Methods,
        "bench": Bench,
        "completion": Completion,
    }
    with contextlib.suppress(ModuleNotFoundError):  # of the extra coterie[network]
        from coterie.cli.coordinate import Coordinate
        from coterie.cli.federation import KINDS as FEDERATION
        from coterie.cli.site import OWN as SITE
        from coterie.cli.site import SETTINGS

        kinds["federation"], kinds["coordinate"] = _either(FEDERATION), Coordinate
        own_flags = [(o.name, o.hint, _default(o.default)) for o in SITE]
        rows = [s for s in shared if s[0] in SETTINGS]
        kit: Any = ("kit", tyro.conf.Positional[str])
        kinds["site"] = dataclasses.make_dataclass("AtSite", [kit, *rows, *own_flags, *tables])
    return _either(kinds)


def _either(kinds: Mapping[str, Any]) -> Any:
    """A subcommand for each name."""
    return functools.reduce(
        operator.or_, (Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds.items())
    )


def _default(value: Any) -> Any:
    return dataclasses.field(default=value)
