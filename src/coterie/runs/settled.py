"""Settings once rows are there: with all that these decided."""

from __future__ import annotations

import dataclasses

from coterie.runs.settings import Settings
from coterie.runs.target_scales import AUTO, SCALED, has_scale
from coterie.sites.footing import Footing


def settled(settings: Settings, footing: Footing) -> Settings:
    """Settings that name the model that the task decided on, the scale of its targets, the sites that were
    met, and the kit, so that a run goes on later with the same.
    """
    settings = settings.for_task(footing.roster.task)
    scaled = footing.made is not None and has_scale(footing.made.options)
    if settings.targets == SCALED and not scaled:  # no regression, or sites that tell no mean of theirs
        settings = dataclasses.replace(settings, targets=AUTO)
    tables = {name: dict(table) for name, table in settings.options.items()}
    if footing.made is not None and scaled:
        tables[settings.model] = {**tables.get(settings.model, {}), **footing.made.options}
        settings = dataclasses.replace(settings, options=tables)
    if footing.met is None:
        return settings
    tables[settings.net]["sites"] = tuple(footing.roster.names)
    tables[settings.net]["kit"] = str(footing.met.lines.kit.folder.absolute())
    return dataclasses.replace(settings, options=tables)
