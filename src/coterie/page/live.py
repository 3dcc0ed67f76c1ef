"""How a study stands at this moment, in a few words; and news as they come, to every page that is open on the
same, by server-sent events.

However many pages are open on a study, or on the list of all, it is looked at once in a while by one task;
each page is told that there is something new, and asks for it when it is seen. What it gets was made once for
all who read the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from markupsafe import Markup

from coterie.core.errors import CoterieError
from coterie.features.live.live import ALONE, GONE, KILLED, NO_LINE, Live, read_live, read_study
from coterie.page.library import Entry
from coterie.page.render import render_part
from coterie.page.studies import Study
from coterie.runs.compare import is_comparison
from coterie.show.words import LANGUAGES, Words

LOOK = 0.7  # seconds between two looks at files, for one page
MANY, SELDOM = 15, 3.0  # pages for which they are looked at half as often; seconds between two looks at most
_WAIT = 1.0  # seconds between two looks whether the server ends
_BEAT = 15.0  # seconds after which a line is sent anyway, so that a dead connection is noticed
_RETRY = 2000  # milliseconds after which a browser that lost the line tries again


_Told = dict[str, str]
"""What pages are told, as JSON with a version, by language."""


@dataclass(eq=False)
class Watched:
    """What somebody has open, and what was last told of it."""

    listeners: int = 0
    turn: int = 0
    told: _Told = field(default_factory=dict)
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
        self, key: str, told: Callable[[], _Told], say: Words, gone: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[str]:
        """Events for one page, until it is closed; who listens to the same key is told the same."""
        one = self.watched.setdefault(key, Watched())
        one.listeners += 1
        if one.task is None or one.task.done():
            one.task = asyncio.create_task(self._watch(key, told, one))
        seen, quiet = 0, 0.0
        try:
            yield f"retry: {_RETRY}\n\n"
            while not gone():
                if seen != one.turn:
                    seen, quiet = one.turn, 0.0
                    yield f"event: news\ndata: {one.told[say.language]}\n\n"
                elif quiet >= _BEAT:
                    quiet = 0.0
                    yield ": still here\n\n"
                try:
                    async with asyncio.timeout(_WAIT), one.news:
                        await one.news.wait_for(lambda: one.turn != seen)  # noqa: B023  it is this very turn
                except TimeoutError:
                    quiet += _WAIT
        finally:
            one.listeners -= 1
            if one.listeners == 0 and one.task is not None:
                one.task.cancel()
                self.watched.pop(key, None)

    async def _watch(self, key: str, told: Callable[[], _Told], one: Watched) -> None:
        while True:
            with contextlib.suppress(CoterieError, OSError):  # what is broken now may be whole in a moment
                new = await asyncio.to_thread(told)
                if new != one.told:
                    async with one.news:
                        one.told, one.turn = new, one.turn + 1
                        one.news.notify_all()
            await asyncio.sleep(self.pace(key))


_FEW = 8  # sites that are named
_CAUSES = {KILLED: "killed", ALONE: "no_site", NO_LINE: "no_line"}
_REASONS = {GONE: "gone", "has not answered in time": "silent", "ask there whether its process hangs": "mute"}
"""How usual reasons end, and the texts for them; others are told as they were written down, in English."""
_BUSY = re.compile(r"busy: a \S+ of (?P<name>.+) since (?P<seconds>\d+) s$")


@dataclass(frozen=True)
class _Status:
    """`done` of `of` rounds, of all runs of a study together; `live` is the run that goes on, or the last."""

    state: str
    done: int
    of: int
    live: Live | None
    label: str = ""

    @property
    def goes_on(self) -> bool:
        return self.state in ("running", "waiting")


def status_of(entry: Entry) -> _Status:
    """Of a folder that may be read while it is written."""
    if is_comparison(entry.path):
        study = read_study(entry.path)
        begun = [cell for cell in study.cells if cell.live is not None]
        now = study.going[0] if study.going else begun[-1] if begun else None
        live, label = (now.live, now.label) if now is not None else (None, "")
        return _Status(study.state, study.done, study.of, live, label)
    live = read_live(entry.path)
    return _Status(live.state, live.done, live.of, live)


def status_or_error(entry: Entry) -> _Status | str:
    """The same, or why it cannot be told."""
    try:
        return status_of(entry)
    except (CoterieError, OSError) as error:
        return str(error)


def status_line(now: _Status | str, say: Words) -> Markup:
    """A line at the top of a page. Who cannot see it is told of states and people, not of rounds."""
    live, people = None if isinstance(now, str) else now.live, list[str]()
    if live is not None and isinstance(now, _Status) and now.goes_on:  # who is late, and who is away and why
        people = [say("live.late", name=n, seconds=say.whole(5 * (s // 5))) for n, s in live.late.items()]
        people += [say("live.away", name=n, why=reason_away(why, say)) for n, why in live.away.items()]
        more = len(people) - _FEW
        people = people if more <= 0 else [*people[:_FEW], say("list.others", n=more)]
    why = live.why if live is not None else ""
    why = say(f"cause.{_CAUSES[why]}") if why in _CAUSES else why
    return render_part("status.html", say, now=now, people=people, why=why)


def reason_away(why: str, say: Words) -> str:
    if busy := _BUSY.search(why):
        return say("reason_away.busy", name=busy["name"], seconds=say.whole(int(busy["seconds"])))
    key = next((key for end, key in _REASONS.items() if why.endswith(end)), "")
    return say(f"reason_away.{key}") if key else why


def news_of(study: Study, entry: Entry) -> dict[str, str]:
    """What pages that have it open are told."""
    now = status_or_error(entry)
    return {
        language: json.dumps({"version": study.version, "standing": status_line(now, Words(language))})
        for language in LANGUAGES
    }


def events_list(now: _Status | str, say: Words) -> Markup:
    """The last events, the newest first."""
    live, lines = None if isinstance(now, str) else now.live, []
    for event in reversed(live.events if live is not None else ()):
        text = say(f"event.{event.what}", who=event.who or "", round=str(event.round))
        why = f": {event.why}" if event.why and event.what != "resumed" else ""
        lines.append((event.time[11:19], text + why))
    return render_part("events.html", say, lines=lines)
