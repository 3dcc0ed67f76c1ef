"""How a run's clients made inputs of their rows: what a model needs to be used later on such rows.

preparation.json    {client: how its inputs are made, with the numbers that were fitted}
recipe.toml         how rows were read from files, if they were
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.core.client import Client
from coterie.core.errors import BadRun
from coterie.data.preparation import Preparation, as_they_are, told_of
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from coterie.data.tables.recipe import Recipe

PREPARATION = "preparation.json"
RECIPE = "recipe.toml"


@dataclass(frozen=True, eq=False)
class Origin:
    """Preparations by client, for those that have one, and the recipe of their tables."""

    preparations: Mapping[str, Preparation] = field(default_factory=dict)
    recipe: Recipe | None = None


def preparation_of(client: Client) -> Preparation | None:
    """A client's own; where it takes columns with names as they are, one that tells training's ranges."""
    x = client.train.x
    if client.preparation is not None or x.dim() != 2 or x.shape[1] != len(client.features) or not len(x):
        return client.preparation  # type: ignore[no-any-return]
    return as_they_are(client.features, x.numpy())


def save_origin(folder: Path, origin: Origin) -> None:
    """Nothing where inputs have no names."""
    if origin.preparations:
        table = {name: p.told() for name, p in origin.preparations.items()}
        write_whole(folder / PREPARATION, json.dumps(table, indent=1) + "\n")
    if origin.recipe is not None:
        from coterie.data.tables.recipe import write_recipe

        write_recipe(folder / RECIPE, origin.recipe)


def read_preparations(folder: Path) -> dict[str, Preparation]:
    """Of a run; empty where inputs have no names."""
    path = folder / PREPARATION
    if not path.exists():
        return {}
    try:
        return {name: told_of(told) for name, told in json.loads(path.read_text()).items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadRun(f"{path} is damaged ({error}): run it again with another --out") from None


def read_recipe_of(folder: Path) -> Recipe | None:
    """Of a run whose rows came from files."""
    path = folder / RECIPE
    if not path.exists():
        return None
    from coterie.data.tables.recipe import read_recipe

    return read_recipe(path)


def recipe_for(recipe: Recipe | None, client: str) -> Recipe | None:
    """What of it may leave with one client's model: nothing of other sites."""
    if recipe is None:
        return None
    from coterie.data.tables.one_site import for_site

    return for_site(recipe, client)
