"""Methods, models, splits, sources and kernels of one's own: Python files that register them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path

from coterie.core.errors import BadInput
from coterie.storage.paths import given_path

_loaded: set[Path] = set()


class _Source(SourceFileLoader):
    """A user's file is read; no bytecode is left beside it."""

    def set_data(self, *_: object, **__: object) -> None:
        pass


def load_plugins(files: Iterable[str]) -> None:
    """Runs each file once; whatever it registers is known by name from then on."""
    for name in files:
        path = given_path(name, "plugin").resolve()
        if path in _loaded:
            continue
        if not path.is_file() or path.suffix != ".py":
            raise BadInput(f"plugin {name} is not a Python file: check the path")
        known = f"coterie_plugin_{path.stem}"
        loader = _Source(known, str(path))
        spec = importlib.util.spec_from_loader(known, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[spec.name]
            raise BadInput(f"plugin {name} fails: {type(error).__name__}: {error}") from error
        _loaded.add(path)
