"""Real data, by name: importing this registers every source of this folder in `SOURCES`, one file each."""

import importlib
import pkgutil

from coterie.data.sources.base import SOURCES, Natural, Source, natural_of

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["SOURCES", "Natural", "Source", "natural_of"]
