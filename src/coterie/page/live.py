"""News of studies as they come, to every page that is open on them, by server-sent events.

However many pages are open, a study is looked at once in a while by one task; each page is told that there is
something new, and asks for it when it is seen. What it gets was made once for all who read the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from coterie.core.errors import CoterieError
from coterie.page.catalogue import LANGUAGES, Words
from coterie.page.library import Entry, Library
from coterie.page.standing import seen, strip

LOOK = 0.7  # seconds between two looks at a study's files, for one page
MANY, SELDOM = 25, 2.0  # pages for which it is looked at half as often; seconds between two looks at most
WAIT = 1.0  # seconds between two looks whether the server ends
BEAT = 15.0  # seconds after which a line is sent anyway, so that a dead connection is noticed
RETRY = 2000  # milliseconds after which a browser that lost the line tries again


@dataclass(eq=False)
class Watched:
    """A study that somebody has open: its version, and its strip in every language."""

    listeners: int = 0
    turn: int = 0
    told: dict[str, str] = field(default_factory=dict)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None


class Watchers:
    """`library` is read in threads, so that a large file keeps nobody waiting."""

    def __init__(self, library: Library, look: float = LOOK) -> None:
        self.library, self.look = library, look
        self.watched: dict[str, Watched] = {}

    def pace(self, entry: Entry) -> float:
        """Seconds between two looks: more for many pages, as what is new is told to each of them."""
        one = self.watched.get(entry.id)
        return min(max(SELDOM, self.look), self.look * (1 + (one.listeners / MANY if one else 0)))

    async def listen(
        self, entry: Entry, say: Words, gone: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[str]:
        """Events for one page, until it is closed."""
        one = self.watched.setdefault(entry.id, Watched())
        one.listeners += 1
        if one.task is None or one.task.done():
            one.task = asyncio.create_task(self._watch(entry, one))
        seen, quiet = 0, 0.0
        try:
            yield f"retry: {RETRY}\n\n"
            while not gone():
                if seen != one.turn:
                    seen, quiet = one.turn, 0.0
                    yield f"event: news\ndata: {one.told[say.language]}\n\n"
                elif quiet >= BEAT:
                    quiet = 0.0
                    yield ": still here\n\n"
                try:
                    async with asyncio.timeout(WAIT), one.news:
                        await one.news.wait_for(lambda: one.turn != seen)  # noqa: B023  it is this very turn
                except TimeoutError:
                    quiet += WAIT
        finally:
            one.listeners -= 1
            if one.listeners == 0 and one.task is not None:
                one.task.cancel()
                self.watched.pop(entry.id, None)

    async def _watch(self, entry: Entry, one: Watched) -> None:
        last: dict[str, str] = {}
        while True:
            with contextlib.suppress(CoterieError, OSError):  # what is broken now may be whole in a moment
                told = await asyncio.to_thread(self._told, entry)
                if told != last:
                    last = told
                    async with one.news:
                        one.told, one.turn = told, one.turn + 1
                        one.news.notify_all()
            await asyncio.sleep(self.pace(entry))

    def _told(self, entry: Entry) -> dict[str, str]:
        version, now = self.library.study(entry).version, seen(entry)
        return {
            language: json.dumps({"version": version, "standing": strip(now, Words(language))})
            for language in LANGUAGES
        }
