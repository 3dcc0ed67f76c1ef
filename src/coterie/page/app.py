"""The page as a web application: who may see it, what it answers, and what a browser is told to refuse.

Who opens the address that was printed has its token from then on in a cookie. Without it there is nothing to
see; a form of another origin, or a name under which the page was not asked for, is refused.
"""

from __future__ import annotations

import functools
import gzip
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from coterie.core.errors import CoterieError, lines_of
from coterie.page import decisions, pages
from coterie.page.card import csv_of
from coterie.page.cards import CARDS
from coterie.page.differences import letter
from coterie.page.library import Entry, Library
from coterie.page.live import Watchers, news_of
from coterie.page.render import Frame, address, render_page, render_part
from coterie.page.view import View, view_of
from coterie.show.html import PLOTLY
from coterie.show.words import LANGUAGES, Words, language_of, speaking

_MOST_SENT = 1 << 16  # bytes of a form
_STATIC = {
    "style.css": ("coterie.show", "static/style.css", "text/css"),
    "figures.js": ("coterie.show", "static/figures.js", "text/javascript"),
    "plotly.js": ("coterie.show", f"static/{PLOTLY}", "text/javascript"),
    "page.css": ("coterie.page", "static/page.css", "text/css"),
    "plotly.css": ("coterie.page", "static/plotly.css", "text/css"),
    "page.js": ("coterie.page", "static/page.js", "text/javascript"),
    "icon.svg": ("coterie.page", "static/icon.svg", "image/svg+xml"),
}


_EMPTY = "'unsafe-hashes' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""Of an empty style, which plotly sets: no other has this hash."""
_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_EMPTY}; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any, a browser would not say where a form comes from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class _Guard:
    """Around the application: what it refuses, nobody else sees."""

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str], cookie: str, secure: bool) -> None:
        self.app, self.token, self.hosts = app, token, set(hosts)
        self.cookie, self.secure = cookie, secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = list(message.get("headers", ()))
                known = {name.lower() for name, _ in kept}
                more = _HEADERS if b"cache-control" in known else {**_HEADERS, "Cache-Control": "no-store"}
                message["headers"] = [*kept, *((k.encode(), v.encode()) for k, v in more.items())]
            await send(message)

        await (self._refusal(request) or self.app)(scope, receive, with_headers)

    def _refusal(self, request: Request) -> ASGIApp | None:
        host = request.headers.get("host", "").rpartition("@")[2]
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        if name.lower() not in self.hosts:
            return PlainTextResponse("this page is not served under that name\n", 400)
        given = request.query_params.get("token")
        if given is not None and self._right(given):
            query = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
            to = request.url.path + (f"?{urlencode(query)}" if query else "")
            answer = RedirectResponse(to, 303)
            answer.set_cookie(
                self.cookie, self.token, httponly=True, samesite="lax", secure=self.secure, max_age=30 * 86400
            )
            return answer
        if not self._right(request.cookies.get(self.cookie, "")) or given is not None:
            return HTMLResponse(render_part("unknown.html", _accepted(request)), 401)
        own = request.headers.get("origin", "") == f"{request.url.scheme}://{host}"
        if request.method not in ("GET", "HEAD") and not own:
            return PlainTextResponse("a form of another page is not taken\n", 403)
        return None

    def _right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())


def _still(answer: Callable[..., Response | str]) -> Callable[..., Response]:
    """While it answers, nothing that it reads is read anew for somebody else; in the language of who asks."""

    @functools.wraps(answer)
    def held(app: _App, request: Request, *more: Any) -> Response:
        with app.library.lock, speaking(app.say(request).language):
            found = answer(app, request, *more)
        return app.answer(request, found) if isinstance(found, str) else found

    return held


class _App:
    """Answers, from a library."""

    def __init__(self, library: Library) -> None:
        self.library, self.watchers = library, Watchers()
        self.ends: Callable[[], bool] = lambda: False  # whether the server is about to

    def routes(self) -> list[Route]:
        get: Mapping[str, Callable[[Request], Any]] = {
            "/": self.front,  # all that there is; at a site, the site
            "/side": self.side,  # studies side by side: ?id=..&id=..
            "/report/{id}": self.report,  # in full, as in a report
            "/data/{id}": self.data,  # quality and similarity of all clients
            "/run/{id}": self.study,  # its clients
            "/run/{id}/{client}": self.client,
            "/run/{id}/{client}/cards": self.cards,  # what changes on that page, for news
            "/run/{id}/{client}/data": self.own_data,  # quality, and what differs from others by column
            "/run/{id}/{client}/card/{name}": self.csv,  # a card's table
            "/run/{id}/{client}/letter/{partner}": self.letter,  # feedback
            "/news": self.all_news,  # server-sent events
            "/news/{id}": self.news,
            "/static/{name}": _shipped,
        }
        made = [Route(path, handler) for path, handler in get.items()]
        decide = Route("/run/{id}/{client}/decide", self.decide, methods=["POST"])
        return [*made, decide, Route("/site/decide", self.site_decides, methods=["POST"])]

    # who reads

    def say(self, request: Request) -> Words:
        wanted = request.query_params.get("lang") or request.cookies.get("lang", "")
        return Words(wanted) if wanted in LANGUAGES else _accepted(request)

    def frame(self, request: Request, title: str = "") -> Frame:
        site = self.library.sites[0] if self.library.sites else None
        name = f"{site.name}, {site.federation}" if site else ""
        return Frame(self.say(request), request.url.path, dict(request.query_params), title, name)

    def live_frame(self, request: Request, entry: Entry, title: str = "") -> Frame:
        """Of a page that follows a study."""
        return replace(self.frame(request, title or entry.name), live=address("news", entry.id))

    def waiting(self, request: Request, entry: Entry) -> str:
        """Before the first round."""
        return render_page("message.html", self.live_frame(request, entry), waiting=True)

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

    @_still
    def front(self, request: Request) -> Response | str:
        return pages.home_page(self.library, self.frame(request), request.query_params.get("trouble", ""))

    @_still
    def side(self, request: Request) -> Response | str:
        found = map(self.library.entry, request.query_params.getlist("id"))
        entries = [entry for entry in found if entry is not None and entry.study]
        frame = self.frame(request, self.say(request)("run_list.side"))
        return pages.side_by_side_page(self.library, entries, frame)

    @_still
    def study(self, request: Request) -> Response | str:
        """To a client's page, if one was chosen; of what has no clients' pages, all there is to show."""
        entry = self.entry(request)
        if not entry.study:
            return pages.advice_or_check_page(entry, self.frame(request, entry.name))
        wanted, label = (request.query_params.get(k, "") for k in ("client", "label"))
        if wanted:
            return RedirectResponse(address("run", entry.id, wanted, label=label), 303)
        study = self.library.study(entry)
        if not study.records:
            return self.waiting(request, entry)
        return pages.clients_page(entry, study, self.live_frame(request, entry))

    @_still
    def report(self, request: Request) -> Response | str:
        entry = self.entry(request)
        frame, study = self.live_frame(request, entry), self.library.study(entry)
        key = ("report", frame.say.language)
        return str(study.once(key, lambda: pages.report_page([study.section(entry.name)], frame)))

    @_still
    def data(self, request: Request) -> Response | str:
        entry = self.entry(request)
        return pages.study_data_page(self.library, entry, self.frame(request, entry.name))

    @_still
    def client(self, request: Request, trouble: str = "", status: int = 200) -> Response | str:
        entry = self.entry(request)
        if entry.study and not self.library.study(entry).records:
            return self.waiting(request, entry)
        view = self.view(request)
        frame = self.live_frame(request, entry, f"{view.client} · {entry.name}")
        return self.answer(request, pages.client_page(view, frame, trouble), status)

    @_still
    def cards(self, request: Request) -> Response:
        """Made and packed once for all who read the same version in the same language: of the last look that
        news were told of, as in short rounds every page would find another version.
        """
        view, say = self.view(request, self.watchers.pace(self.entry(request).id)), self.say(request)
        mark = f'"{view.study.version}-{say.language}"'
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304)
        key = ("cards", view.client, view.label, say.language)
        packed = view.study.once(key, lambda: gzip.compress(pages.client_news(view, say).encode(), 5))
        return Response(
            packed,
            media_type="text/html; charset=utf-8",
            headers={"Content-Encoding": "gzip", "ETag": mark, "Cache-Control": "no-cache"},
        )

    @_still
    def own_data(self, request: Request) -> str:
        view = self.view(request)
        return pages.client_data_page(
            self.library, view, self.frame(request, f"{view.client} · {view.entry.name}")
        )

    @_still
    def csv(self, request: Request) -> Response:
        view, say = self.view(request), self.say(request)
        key = request.path_params["name"].removesuffix(".csv")
        if key not in CARDS:
            raise HTTPException(404)
        card = CARDS[key](view, say)
        text = "" if card.table is None else csv_of(card.table)
        return _attachment(text, "text/csv", f"{key}-{view.client}.csv")

    @_still
    def letter(self, request: Request) -> Response:
        view, partner = self.view(request), request.path_params["partner"]
        if partner not in view.names or partner == view.client:
            raise HTTPException(404)
        text = letter(view, partner, self.say(request))
        return _attachment(text, "text/plain", f"letter-{partner}.txt")

    async def news(self, request: Request) -> Response:
        entry = self.entry(request)
        return self.listening(request, entry.id, lambda: news_of(self.library.study(entry), entry))

    async def all_news(self, request: Request) -> Response:
        def told() -> dict[str, str]:
            with self.library.lock:
                return pages.home_news(self.library)

        return self.listening(request, "", told)

    def listening(self, request: Request, key: str, told: Callable[[], dict[str, str]]) -> Response:
        events = self.watchers.listen(key, told, self.say(request), lambda: self.ends())
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    # what people decide

    async def decide(self, request: Request) -> Response:
        form = await _sent(request)
        return await run_in_threadpool(self._decide, request, form)

    def _decide(self, request: Request, form: Mapping[str, Sequence[str]]) -> Response:
        view = self.view(request)
        try:
            if decisions.field_of(form, "kind") == "wish":
                return _attachment(decisions.wish_text(view), "text/plain", f"wish-{view.client}.txt")
            to = decisions.decide(view, form, self.library)
        except CoterieError as error:
            return self.client(request, "; ".join(lines_of(error)), 422)
        back = address("run", view.entry.id, view.client, label=request.query_params.get("label", ""))
        return RedirectResponse(to or f"{back}#judgement", 303)

    async def site_decides(self, request: Request) -> Response:
        form = await _sent(request)
        try:
            await run_in_threadpool(decisions.site_decides, self.library, form)
        except CoterieError as error:
            return RedirectResponse(address("", trouble="; ".join(lines_of(error))), 303)
        return RedirectResponse("/#offers", 303)


async def _sent(request: Request) -> Mapping[str, Sequence[str]]:
    """The fields of a small form."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_SENT:
            raise HTTPException(413)
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=5000)


def _accepted(request: Request) -> Words:
    """The language of the browser."""
    return Words(language_of(request.headers.get("accept-language", "")))


async def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    say = _accepted(request)
    frame = Frame(say, request.url.path, {}, say("shell.missing") if status == 404 else str(status))
    return HTMLResponse(render_page("message.html", frame, home=True), status)


async def _trouble(request: Request, error: Exception) -> Response:
    """What a folder cannot tell is said, in a line, as in the shell."""
    frame = Frame(say := _accepted(request), request.url.path, {}, say("shell.trouble"))
    assert isinstance(error, CoterieError)
    return HTMLResponse(render_page("message.html", frame, warnings=lines_of(error)), 409)


def application(
    library: Library, token: str, hosts: Sequence[str], cookie: str = "coterie", secure: bool = False
) -> Starlette:
    app = _App(library)
    guard = Middleware(_Guard, token=token, hosts=hosts, cookie=cookie, secure=secure)
    made = Starlette(
        routes=app.routes(),
        middleware=[guard, Middleware(GZipMiddleware, minimum_size=800, compresslevel=5)],
        exception_handlers={HTTPException: _not_found, CoterieError: _trouble},
    )
    made.state.page = app
    return made


def _shipped(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        raise HTTPException(404)
    data, packed, kind = _read(name)
    headers = {"Cache-Control": "private, max-age=300", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, media_type=kind, headers={**headers, "Content-Encoding": "gzip"})
    return Response(data, media_type=kind, headers=headers)


@functools.cache
def _read(name: str) -> tuple[bytes, bytes, str]:
    """As it is, packed, and of which kind: once for all who ask."""
    package, path, kind = _STATIC[name]
    data = files(package).joinpath(path).read_bytes()
    return data, gzip.compress(data, 9, mtime=0), kind


def _attachment(text: str, kind: str, name: str) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    headers = {"Content-Disposition": f'attachment; filename="{plain}"'}
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)
