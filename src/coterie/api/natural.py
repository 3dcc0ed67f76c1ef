"""Local work and method of a call from Python: what is natural for clients given as such, and which of a
call's keywords goes where.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from coterie.api import checks
from coterie.core.checks import refuse_wrong
from coterie.core.client import Client
from coterie.core.errors import BadInput, UnknownName
from coterie.core.kernel import Trainer
from coterie.core.method import Method
from coterie.core.options import coerced, options_of
from coterie.kernels import WORK, nested
from coterie.kernels.natural import (
    Natural,
    natural_work,
    only_work,
    refuse_other_than,
    with_local,
    work_of_options,
)
from coterie.methods import METHODS
from coterie.methods.baselines.local import Local
from coterie.metrics.own import NOTHING, Own
from coterie.runs.settings import Settings
from coterie.runs.target_scales import AUTO, SCALED, takes_scale


def natural_for(
    model: nn.Module | str, clients: Sequence[Client], method: Any, own: Own = NOTHING
) -> Natural:
    """The local work of a method on these clients: linear models of tables are solved."""
    plain = own.loss is None and own.transform is None and all(c.train.x.ndim == 2 for c in clients)
    named = model if isinstance(model, str) else ""
    return natural_work(METHODS[method] if isinstance(method, str) else method, plain, named)


def with_targets(
    settings: Settings, model: nn.Module | str, works: Sequence[tuple[Natural, Any]]
) -> Settings:
    """Settings that scale targets where natural work, if some method does it, needs that."""
    fits = isinstance(model, str) and takes_scale(model) and settings.targets == AUTO
    wanted = any(natural.scaled and getattr(w, "name", "") == natural.kernel for natural, w in works)
    return dataclasses.replace(settings, targets=SCALED) if fits and wanted else settings


def parts_of(
    kernel: str | Trainer | None,
    method: str | Method,
    options: dict[str, Any],
    asked: str | Trainer | None = None,
    natural: Mapping[str, Any] | None = None,
) -> tuple[Trainer, Method]:
    """The local work and the method; each keyword goes to whichever has such an option: if both have, to the
    method, and "sgd.momentum" to the work. Options of sgd mean sgd, if no work was `asked` for; `natural` are
    those that the kernel has if nobody says otherwise.
    """
    meant = kernel if asked is not None else work_of_options(options) or kernel
    usual = dict(natural or {}) if meant == kernel else {}
    kernel = meant
    refuse_wrong({"kernel": checks.KERNEL}, {"kernel": asked})
    if not isinstance(method, str):
        if not hasattr(method, "round") or not dataclasses.is_dataclass(method):
            raise BadInput(
                f"method must be a name or a frozen dataclass with round; got {type(method).__name__}"
            )
        if asked is not None or options:
            named = "kernel" if asked is not None else next(iter(options))
            raise BadInput(
                f"a method given as an object brings its own options and local work; {named} goes there"
            )
        return getattr(method, "local", None), method
    if only := only_work(METHODS[method]):
        refuse_other_than(only, method, only if asked is None else str(getattr(asked, "name", asked)))
        kernel = only
    kernel = "sgd" if kernel is None else kernel
    way_type, for_work = METHODS[method], set() if only else options_of_work(kernel)
    for_way = {o.name for o in options_of(way_type)}
    inside = nested.names_in(kernel) if isinstance(kernel, str) and not only else ()
    full = {f"{n}.{o.name}" for n in inside for o in options_of(WORK[n])}
    for option in options:
        if option not in for_work | for_way | full:
            raise UnknownName("option", option, for_work | for_way)
    work = kernel
    if isinstance(kernel, str):
        its = {k: v for k, v in options.items() if k not in for_way}
        work = nested.made(kernel, {n: options_for(n, {**usual, **its}) for n in nested.names_in(kernel)})
    mine = {k: v for k, v in options.items() if k in for_way}
    mine = coerced(way_type, mine, f"method {method}") | with_local(way_type, work)
    return work, METHODS.make(method, **mine)  # type: ignore[return-value]


def options_for(work: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are of local work by its name, as momentum or as sgd.momentum."""
    names = {o.name for o in options_of(WORK[work])}
    full = {f"{work}.{name}": name for name in names}
    plain = {k: v for k, v in options.items() if k in names}
    return plain | {full[k]: v for k, v in options.items() if k in full}


def options_of_work(kernel: str | Trainer | None) -> set[str]:
    """What local work that is given by name takes: its own options, and those of the work inside it."""
    if kernel is not None and not isinstance(kernel, str):
        return set()
    return {o.name for name in nested.names_in(kernel or "sgd") for o in options_of(WORK[name])}


def alone(
    model: nn.Module | str,
    clients: Sequence[Client],
    kernel: str | Trainer | None,
    method: str | Method,
    options: dict[str, Any],
) -> tuple[Local, str]:
    """What a single site does, which has nobody to learn with by a method; and how targets are learnt."""
    natural = natural_for(model, clients, "local")
    work, _ = parts_of(kernel or natural.kernel, method, options, kernel, natural.unless(kernel))
    settings = Settings() if kernel is not None else with_targets(Settings(), model, [(natural, work)])
    return Local(work), settings.targets
