"""News as they come, to every page that is open on the same, by server-sent events.

However many pages are open on a study, or on the list of all, it is looked at once in a while by one task;
each page is told that there is something new, and asks for it when it is seen. What it gets was made once for
all who read the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from coterie.core.errors import CoterieError
from coterie.page.catalogue import Words

LOOK = 0.7  # seconds between two looks at files, for one page
MANY, SELDOM = 15, 3.0  # pages for which they are looked at half as often; seconds between two looks at most
WAIT = 1.0  # seconds between two looks whether the server ends
BEAT = 15.0  # seconds after which a line is sent anyway, so that a dead connection is noticed
RETRY = 2000  # milliseconds after which a browser that lost the line tries again


Told = dict[str, str]
"""What pages are told, as JSON with a version, by language."""


@dataclass(eq=False)
class Watched:
    """What somebody has open, and what was last told of it."""

    listeners: int = 0
    turn: int = 0
    told: Told = field(default_factory=dict)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None


class Watchers:
    """Looks are taken in threads, so that a large file keeps nobody waiting."""

    def __init__(self, look: float = LOOK) -> None:
        self.look = look
        self.watched: dict[str, Watched] = {}

    def pace(self, key: str) -> float:
        """Seconds between two looks: more for many pages, as what is new is told to each of them."""
        one = self.watched.get(key)
        return min(max(SELDOM, self.look), self.look * (1 + (one.listeners / MANY if one else 0)))

    async def listen(
        self, key: str, told: Callable[[], Told], say: Words, gone: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[str]:
        """Events for one page, until it is closed; who listens to the same key is told the same."""
        one = self.watched.setdefault(key, Watched())
        one.listeners += 1
        if one.task is None or one.task.done():
            one.task = asyncio.create_task(self._watch(key, told, one))
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
                self.watched.pop(key, None)

    async def _watch(self, key: str, told: Callable[[], Told], one: Watched) -> None:
        while True:
            with contextlib.suppress(CoterieError, OSError):  # what is broken now may be whole in a moment
                new = await asyncio.to_thread(told)
                if new != one.told:
                    async with one.news:
                        one.told, one.turn = new, one.turn + 1
                        one.news.notify_all()
            await asyncio.sleep(self.pace(key))
