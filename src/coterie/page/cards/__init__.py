"""The questions of a client, a folder each, found by looking: no other file names them.

A card's package has

NAME                of its address, of its ids on the page, and of its texts: its heading is `NAME.title`
ORDER               where it stands among the others
card(view, say)     what it says of a client, in a language
words.toml          its texts, in every language
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from importlib import import_module

from coterie.page.card import Card
from coterie.page.view import View
from coterie.show.words import Words


def _found() -> Mapping[str, Callable[[View, Words], Card]]:
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return {module.NAME: module.card for module in sorted(modules, key=lambda module: int(module.ORDER))}


CARDS = _found()
