"""How a study stands at this moment, in a few words: the strip at the top of its page, and the terminal's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from coterie.core.errors import CoterieError
from coterie.page.catalogue import LANGUAGES, Words
from coterie.page.library import Entry
from coterie.page.reading import Study
from coterie.runs.compare import is_comparison
from coterie.runs.live import ALONE, GONE, KILLED, NO_LINE, Live, read_live, read_study
from coterie.storage.events import Event

FEW = 8  # sites that are named
CAUSES = {KILLED: "killed", ALONE: "no_site", NO_LINE: "no_line"}
REASONS = {GONE: "gone", "has not answered in time": "silent", "ask there whether its process hangs": "mute"}
"""How usual reasons end, and the texts for them; others are told as they were written down, in English."""
BUSY = re.compile(r"busy: a \S+ of (?P<name>.+) since (?P<seconds>\d+) s$")


@dataclass(frozen=True)
class Standing:
    """`done` of `of` rounds, of all runs of a study together; `live` is the run that goes on, or the last."""

    state: str
    done: int
    of: int
    live: Live | None
    label: str = ""

    @property
    def goes_on(self) -> bool:
        return self.state in ("running", "waiting")


def standing(entry: Entry) -> Standing:
    """Of a folder that may be read while it is written."""
    if is_comparison(entry.path):
        study = read_study(entry.path)
        begun = [cell for cell in study.cells if cell.live is not None]
        now = study.going[0] if study.going else begun[-1] if begun else None
        live, label = (now.live, now.label) if now is not None else (None, "")
        return Standing(study.state, study.done, study.of, live, label)
    live = read_live(entry.path)
    return Standing(live.state, live.done, live.of, live)


def seen(entry: Entry) -> Standing | str:
    """The same, or why it cannot be told."""
    try:
        return standing(entry)
    except (CoterieError, OSError) as error:
        return str(error)


def strip(now: Standing | str, say: Words) -> str:
    """As HTML."""
    if isinstance(now, str):
        return f'<p class="state failed">{escape(now)}</p>'
    live = now.live
    parts = [f'<strong class="state {now.state}" data-say>{escape(say(f"state.{now.state}"))}</strong>']
    parts.append(escape(say("live.rounds", done=say.whole(now.done), of=say.whole(now.of))))
    if now.label and now.goes_on:
        parts.append(escape(now.label))
    called = escape(say("live.progress"))
    bar = f'<progress max="{max(1, now.of)}" value="{now.done}" aria-label="{called}"></progress>'
    lines = ""
    if live is not None and now.goes_on:
        parts.append(escape(say.count("live.here", len(live.here))))
        lines = people(live, say)
    if live is not None and live.why:
        why = say(f"cause.{CAUSES[live.why]}") if live.why in CAUSES else live.why
        lines += f'<p class="warning" data-say>{escape(why)}</p>'
    return f'<p class="now">{" · ".join(parts)}</p>{bar}{lines}'


def live_strip(entry: Entry, say: Words) -> str:
    """The same where it is kept up to date. Who cannot see it is told of states and people, not of rounds."""
    return f'<div id="standing" class="standing" data-live>{strip(seen(entry), say)}</div>'


def people(live: Live, say: Words) -> str:
    """Who is late, and who is away and why."""
    late = {n: say("live.late", name=n, seconds=say.whole(5 * (s // 5))) for n, s in live.late.items()}
    away = {n: say("live.away", name=n, why=reason(why, say)) for n, why in live.away.items()}
    listed = [*late.values(), *away.values()]
    more = [say("list.others", n=len(listed) - FEW)] if len(listed) > FEW else []
    items = "".join(f"<li>{escape(line)}</li>" for line in [*listed[:FEW], *more])
    return f'<ul class="people" data-say>{items}</ul>' if items else ""


def reason(why: str, say: Words) -> str:
    if busy := BUSY.search(why):
        return say("reason_away.busy", name=busy["name"], seconds=say.whole(int(busy["seconds"])))
    key = next((key for end, key in REASONS.items() if why.endswith(end)), "")
    return say(f"reason_away.{key}") if key else why


def news_of(study: Study, entry: Entry) -> dict[str, str]:
    """What pages that have it open are told."""
    now = seen(entry)
    return {
        language: json.dumps({"version": study.version, "standing": strip(now, Words(language))})
        for language in LANGUAGES
    }


def happened(events: tuple[Event, ...], say: Words) -> str:
    """The last events, the newest first."""
    if not events:
        return f"<p>{escape(say('live.no_events'))}</p>"
    items = "".join(
        f"<li><time>{escape(event.time[11:19])}</time> {escape(told(event, say))}</li>"
        for event in reversed(events)
    )
    return f'<ol class="events" reversed>{items}</ol>'


def told(event: Event, say: Words) -> str:
    blanks: Mapping[str, str] = {"who": event.who or "", "round": str(event.round)}
    said = say(f"event.{event.what}", **blanks)
    return f"{said}: {event.why}" if event.why and event.what != "resumed" else said
