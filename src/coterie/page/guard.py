"""Before anything is answered: the name under which a page is asked for, the token, the origin of forms; and
what a browser is told to refuse.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from coterie.page.render import render_part
from coterie.show.words import Words, language_of

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


class Guard:
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
            say = Words(language_of(request.headers.get("accept-language", "")))
            return HTMLResponse(render_part("unknown.html", say), 401)
        own = request.headers.get("origin", "") == f"{request.url.scheme}://{host}"
        if request.method not in ("GET", "HEAD") and not own:
            return PlainTextResponse("a form of another page is not taken\n", 403)
        return None

    def _right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())
