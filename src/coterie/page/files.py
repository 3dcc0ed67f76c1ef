"""Files that come with the package, and files that readers take away."""

from __future__ import annotations

import functools
import gzip
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coterie.report.page import PLOTLY

STATIC = {
    "style.css": ("coterie.report", "style.css", "text/css"),
    "figures.js": ("coterie.report", "page.js", "text/javascript"),
    "plotly.js": ("coterie.report", PLOTLY, "text/javascript"),
    "page.css": ("coterie.page", "static/page.css", "text/css"),
    "plotly.css": ("coterie.page", "static/plotly.css", "text/css"),
    "page.js": ("coterie.page", "static/page.js", "text/javascript"),
    "icon.svg": ("coterie.page", "static/icon.svg", "image/svg+xml"),
}


def shipped(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    data, packed, kind = read(name)
    headers = {"Cache-Control": "private, max-age=300", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, media_type=kind, headers={**headers, "Content-Encoding": "gzip"})
    return Response(data, media_type=kind, headers=headers)


@functools.cache
def read(name: str) -> tuple[bytes, bytes, str]:
    """As it is, packed, and of which kind: once for all who ask."""
    package, path, kind = STATIC[name]
    data = files(package).joinpath(path).read_bytes()
    return data, gzip.compress(data, 9, mtime=0), kind


def attachment(text: str, kind: str, name: str) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    return Response(text, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{plain}"'})
