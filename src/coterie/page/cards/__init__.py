"""The four questions of a site, a file each: with whom, why, what do I gain, what did I give away."""

from collections.abc import Callable, Mapping

from coterie.page.cards import gain, given, why, with_whom
from coterie.page.cards.base import Card
from coterie.page.catalogue import Words
from coterie.page.view import View

CARDS: Mapping[str, Callable[[View, Words], Card]] = {
    "with": with_whom.card,
    "why": why.card,
    "gain": gain.card,
    "given": given.card,
}
