"""Kinds of columns, each an entry found by looking: importing this registers every file of this folder.

See docs/adding-a-column-kind.md for what an entry says, and `base.py` for when it is asked.
"""

import importlib
import pkgutil

from coterie.data.kinds.base import KINDS, ColumnKind, Verdict, in_recipes, kind_called, of_models, register

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["KINDS", "ColumnKind", "Verdict", "in_recipes", "kind_called", "of_models", "register"]
