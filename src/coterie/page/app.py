"""The page as a web application: who may see it, what it answers, and what a browser is told to refuse.

    GET  /                              all that there is; at a site, the site
    GET  /run/ID                        a study: a client's page, if one is chosen
    GET  /report/ID, /data/ID           in full, as in a report; quality and similarity of all clients
    GET  /run/ID/CLIENT                 four cards
    GET  /run/ID/CLIENT/cards           the same without the rest, for news
    GET  /run/ID/CLIENT/data            quality, and what differs from others, column by column
    GET  /run/ID/CLIENT/card/KEY.csv    a card's table
    GET  /run/ID/CLIENT/letter/PARTNER  feedback
    POST /run/ID/CLIENT/decide          a decision, of people
    POST /site/decide                   a site's yes or no to a requester
    GET  /news, /news/ID                server-sent events, of all or of a study
    GET  /side?id=..&id=..              studies side by side

Who opens the address that was printed has its token from then on in a cookie. Without it there is nothing to
see; a form of another origin, or a name under which the page was not asked for, is refused.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from coterie.core.errors import CoterieError, lines_of
from coterie.page import client, gallery, home, judgement, letter, offers, own_rows, rows
from coterie.page.cards import CARDS
from coterie.page.catalogue import LANGUAGES, Words, language_of
from coterie.page.files import attachment, shipped
from coterie.page.guard import Guard
from coterie.page.library import Entry, Library
from coterie.page.live import Watchers
from coterie.page.render import Frame, address, document
from coterie.page.standing import news_of
from coterie.page.view import View, view_of

MOST_SENT = 1 << 16  # bytes of a form


def still(answer: Callable[..., Response]) -> Callable[..., Response]:
    """While it answers, nothing that it reads is read anew for somebody else."""

    @functools.wraps(answer)
    def held(app: App, *asked: Any) -> Response:
        with app.library.lock:
            return answer(app, *asked)

    return held


class App:
    """Answers, from a library."""

    def __init__(self, library: Library) -> None:
        self.library, self.watchers = library, Watchers()
        self.ends: Callable[[], bool] = lambda: False  # whether the server is about to

    def routes(self) -> list[Route]:
        get: Mapping[str, Callable[[Request], Any]] = {
            "/": self.front,
            "/side": self.side,
            "/report/{id}": self.report,
            "/data/{id}": self.data,
            "/run/{id}": self.study,
            "/run/{id}/{client}": self.client,
            "/run/{id}/{client}/cards": self.cards,
            "/run/{id}/{client}/data": self.own_data,
            "/run/{id}/{client}/card/{name}": self.csv,
            "/run/{id}/{client}/letter/{partner}": self.letter,
            "/news": self.all_news,
            "/news/{id}": self.news,
            "/static/{name}": shipped,
        }
        post: Mapping[str, Callable[[Request], Any]] = {
            "/run/{id}/{client}/decide": self.decide,
            "/site/decide": self.site_decides,
        }
        return [
            *(Route(path, handler) for path, handler in get.items()),
            *(Route(path, handler, methods=["POST"]) for path, handler in post.items()),
        ]

    # who reads

    def say(self, request: Request) -> Words:
        wanted = request.query_params.get("lang") or request.cookies.get("lang", "")
        return Words(
            wanted if wanted in LANGUAGES else language_of(request.headers.get("accept-language", ""))
        )

    def frame(self, request: Request, title: str = "") -> Frame:
        site = self.library.sites[0] if self.library.sites else None
        name = f"{site.name}, {site.federation}" if site else ""
        return Frame(self.say(request), request.url.path, dict(request.query_params), title, name)

    def answer(self, request: Request, html: str, status: int = 200) -> Response:
        response = HTMLResponse(html, status)
        wanted = request.query_params.get("lang", "")
        if wanted in LANGUAGES:
            response.set_cookie("lang", wanted, samesite="lax", max_age=365 * 86400)
        return response

    def entry(self, request: Request) -> Entry:
        found = self.library.entry(request.path_params["id"])
        if found is None:
            raise HTTPException(404)
        return found

    def view(self, request: Request, age: float = 0.0) -> View:
        label = request.query_params.get("label", "")
        found = view_of(self.library, self.entry(request), request.path_params["client"], label, age)
        if found is None:
            raise HTTPException(404)
        return found

    # what is asked for

    @still
    def front(self, request: Request) -> Response:
        trouble = request.query_params.get("trouble", "")
        return self.answer(request, home.page(self.library, self.frame(request), trouble))

    @still
    def side(self, request: Request) -> Response:
        found = [self.library.entry(id) for id in request.query_params.getlist("id")]
        entries = [entry for entry in found if entry is not None and entry.study]
        frame = self.frame(request, self.say(request)("gallery.side"))
        return self.answer(request, gallery.side_by_side(self.library, entries, frame))

    @still
    def study(self, request: Request) -> Response:
        """To a client's page, if one was chosen; of what has no clients' pages, all there is to show."""
        entry, say = self.entry(request), self.say(request)
        if not entry.study:
            return self.answer(request, home.other(entry, self.frame(request, entry.name)))
        wanted, label = (request.query_params.get(k, "") for k in ("client", "label"))
        if wanted:
            return RedirectResponse(address("run", entry.id, wanted, label=label), 303)
        study = self.library.study(entry)
        if not study.records:
            return self.answer(request, waiting(self.frame(request, entry.name), entry, say))
        return self.answer(request, home.clients(self.library, entry, study, self.frame(request, entry.name)))

    @still
    def report(self, request: Request) -> Response:
        entry = self.entry(request)
        frame, study = self.frame(request, entry.name), self.library.study(entry)
        html = study.once(("report", frame.say.language), lambda: gallery.whole(entry, study, frame))
        return self.answer(request, html)

    @still
    def data(self, request: Request) -> Response:
        entry = self.entry(request)
        study = self.library.study(entry)
        return self.answer(request, rows.page(self.library, entry, study, self.frame(request, entry.name)))

    @still
    def client(self, request: Request, trouble: str = "", status: int = 200) -> Response:
        entry = self.entry(request)
        if entry.study and not self.library.study(entry).records:
            return self.answer(request, waiting(self.frame(request, entry.name), entry, self.say(request)))
        view = self.view(request)
        frame = self.frame(request, f"{view.client} · {entry.name}")
        return self.answer(request, client.page(self.library, view, frame, trouble), status)

    @still
    def cards(self, request: Request) -> Response:
        """Made and packed once for all who read the same version in the same language: of the last look that
        news were told of, as in short rounds every page would find another version.
        """
        view, say = self.view(request, self.watchers.pace(self.entry(request).id)), self.say(request)
        mark = f'"{view.study.version}-{say.language}"'
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304)
        key = ("cards", view.client, view.label, say.language)
        packed = view.study.once(key, lambda: gzip.compress(client.news(view, say).encode(), 5))
        return Response(
            packed,
            media_type="text/html; charset=utf-8",
            headers={"Content-Encoding": "gzip", "ETag": mark, "Cache-Control": "no-cache"},
        )

    @still
    def own_data(self, request: Request) -> Response:
        view = self.view(request)
        frame = self.frame(request, f"{view.client} · {view.entry.name}")
        return self.answer(request, own_rows.page(self.library, view, frame))

    @still
    def csv(self, request: Request) -> Response:
        view, say = self.view(request), self.say(request)
        key = request.path_params["name"].removesuffix(".csv")
        if key not in CARDS:
            raise HTTPException(404)
        card = CARDS[key](view, say)
        text = "" if card.table is None else card.table.csv(card.columns)
        return attachment(text, "text/csv; charset=utf-8", f"{key}-{view.client}.csv")

    @still
    def letter(self, request: Request) -> Response:
        view, partner = self.view(request), request.path_params["partner"]
        if partner not in view.names or partner == view.client:
            raise HTTPException(404)
        text = letter.text(view, partner, self.say(request))
        return attachment(text, "text/plain; charset=utf-8", f"letter-{partner}.txt")

    async def news(self, request: Request) -> Response:
        entry = self.entry(request)
        return self.listening(request, entry.id, lambda: news_of(self.library.study(entry), entry))

    async def all_news(self, request: Request) -> Response:
        def told() -> dict[str, str]:
            with self.library.lock:
                return home.news(self.library)

        return self.listening(request, "", told)

    def listening(self, request: Request, key: str, told: Callable[[], dict[str, str]]) -> Response:
        events = self.watchers.listen(key, told, self.say(request), lambda: self.ends())
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    # what people decide

    async def decide(self, request: Request) -> Response:
        form = await sent(request)
        return await run_in_threadpool(self._decide, request, form)

    def _decide(self, request: Request, form: Mapping[str, Sequence[str]]) -> Response:
        view = self.view(request)
        try:
            if judgement.one(form, "kind") == "wish":
                return attachment(
                    judgement.wish(view), "text/plain; charset=utf-8", f"wish-{view.client}.txt"
                )
            to = judgement.decide(view, form, self.library)
        except CoterieError as error:
            return self.client(request, "; ".join(lines_of(error)), 422)
        label = request.query_params.get("label", "")
        return RedirectResponse(
            to or address("run", view.entry.id, view.client, label=label) + "#judgement", 303
        )

    async def site_decides(self, request: Request) -> Response:
        form = await sent(request)
        try:
            await run_in_threadpool(offers.site_decides, self.library, form)
        except CoterieError as error:
            return RedirectResponse(address("", trouble="; ".join(lines_of(error))), 303)
        return RedirectResponse("/#offers", 303)


async def sent(request: Request) -> Mapping[str, Sequence[str]]:
    """The fields of a small form."""
    size = 0
    body = bytearray()
    async for part in request.stream():
        size += len(part)
        if size > MOST_SENT:
            raise HTTPException(413)
        body += part
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=5000)


def waiting(frame: Frame, entry: Entry, say: Words) -> str:
    """Before the first round."""
    told = f'<p id="standing" data-live data-reload>{escape(say("live.before"))}</p>'
    main = f'<div class="head"><h1>{escape(frame.title)}</h1>{told}</div>'
    return document(frame, main, live=address("news", entry.id))


async def not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    say = Words(language_of(request.headers.get("accept-language", "")))
    text = say("shell.missing") if status == 404 else str(status)
    frame = Frame(say, request.url.path, {}, text)
    return HTMLResponse(
        document(frame, f'<div class="head"><h1>{text}</h1><p><a href="/">Coterie</a></p></div>'), status
    )


async def trouble(request: Request, error: Exception) -> Response:
    """What a folder cannot tell is said, in a line, as in the shell."""
    say = Words(language_of(request.headers.get("accept-language", "")))
    frame = Frame(say, request.url.path, {}, say("shell.trouble"))
    assert isinstance(error, CoterieError)
    lines = "".join(f'<p class="warning">{escape(line)}</p>' for line in lines_of(error))
    return HTMLResponse(
        document(frame, f'<div class="head"><h1>{say("shell.trouble")}</h1>{lines}</div>'), 409
    )


def application(
    library: Library, token: str, hosts: Sequence[str], cookie: str = "coterie", secure: bool = False
) -> Starlette:
    app = App(library)
    guard = Middleware(Guard, token=token, hosts=hosts, cookie=cookie, secure=secure)
    made = Starlette(
        routes=app.routes(),
        middleware=[guard, Middleware(GZipMiddleware, minimum_size=800, compresslevel=5)],
        exception_handlers={HTTPException: not_found, CoterieError: trouble},
    )
    made.state.page = app
    return made
