"""Pages that are open in so many browsers, imitated in one process, for `page_load.py`.

Each does what a browser does with `coterie/page/static/page.js`: it loads a client's page and the files that
it names, keeps a line for news open, and asks for the cards some time after news of another version. Nothing
is drawn, and of what comes packed only the page itself is unpacked. Clients and languages take turns.

    python benchmarks/page_readers.py ADDRESS RUN PAGES CLIENT ...

until it is ended by SIGTERM; then it says in a line of JSON what it got.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from html import unescape
from urllib.parse import quote, urlsplit

GAP, SPREAD = 2.5, 0.4  # seconds between two askings for cards, and how much of that by chance: as in page.js
LANGUAGES = ("en", "fr", "de")
LONG = 60.0  # seconds that no answer takes if all is well; a line for news beats every 15
LINKED = re.compile(r'(?:src|href)="(/static/[^"]+)"')
TOLD = re.compile(r'data-(news|refresh)="([^"]+)"')
LATER = "/static/plotly.js"  # what a browser loads with the first figure that is seen
Headers = Mapping[str, str]


class Line:
    """A connection that is kept, for one request after the other."""

    def __init__(self, host: str, port: int, headers: Headers) -> None:
        self.host, self.port, self.headers = host, port, headers
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, path: str, **more: str) -> tuple[int, Headers]:
        """Status and headers; what comes after them is still to be read."""
        if self.writer is None or self.writer.is_closing() or (self.reader and self.reader.at_eof()):
            self.close()
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        assert self.reader is not None
        told = {"Host": f"{self.host}:{self.port}", **self.headers, **more}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        first, *rest = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in rest if line)
        return int(first.split()[1]), {name.lower(): value for name, _, value in pairs}

    async def get(self, path: str, **more: str) -> tuple[int, Headers, bytes]:
        async with asyncio.timeout(LONG):
            status, headers = await self.ask(path, **more)
            if "chunked" in headers.get("transfer-encoding", ""):
                return status, headers, b"".join([part async for part in self.chunks()])
            assert self.reader is not None
            return status, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def chunks(self) -> AsyncIterator[bytes]:
        assert self.reader is not None
        while True:
            async with asyncio.timeout(LONG):
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                part = await self.reader.readexactly(size + 2)
            if not size:
                return
            yield part[:-2]

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class Readers:
    """All pages, and what they got together."""

    def __init__(self, host: str, port: int, cookie: str) -> None:
        self.host, self.port, self.cookie = host, port, cookie
        self.got, self.errors, self.slowest = Counter[str](), list[str](), 0.0

    def line(self, language: str, **more: str) -> Line:
        headers = {"Cookie": self.cookie, "Accept-Language": language, **more}
        return Line(self.host, self.port, headers)

    @contextlib.contextmanager
    def noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError) as error:
            self.errors.append(f"{what}: {type(error).__name__} {error}")


class Page:
    """One browser's page."""

    def __init__(self, readers: Readers, run: str, client: str, language: str) -> None:
        self.readers, self.address = readers, f"/run/{run}/{quote(client, safe='')}"
        self.news = readers.line(language, Accept="text/event-stream")
        self.rest = readers.line(language, **{"Accept-Encoding": "gzip"})
        self.mark, self.cards, self.last = "", "", time.monotonic()
        self.planned: asyncio.Task[None] | None = None

    async def get(self, path: str, what: str, **more: str) -> tuple[int, Headers, bytes]:
        status, headers, body = await self.rest.get(path, **more)
        self.readers.got[f"{what} {status}"] += 1
        self.readers.got["bytes"] += len(body)
        if status not in (200, 304):
            raise ValueError(f"{path} answered {status}")
        return status, headers, body

    async def open(self) -> None:
        with self.readers.noting(self.address):
            _, _, packed = await self.get(self.address, "page")
            body = gzip.decompress(packed).decode()
            for path in [*LINKED.findall(body), LATER]:
                await self.get(path, "file")
            told = {name: unescape(value) for name, value in TOLD.findall(body)}
            self.cards = told["refresh"]
            await self.follow(told["news"])

    async def follow(self, where: str) -> None:
        async with asyncio.timeout(LONG):
            status, _ = await self.news.ask(where)
        if status != 200:
            raise ValueError(f"{where} answered {status}")
        version, text = -1, b""
        async for part in self.news.chunks():
            *events, text = (text + part).split(b"\n\n")
            for event in events:
                if not event.startswith(b"event: news\ndata: "):
                    continue
                self.readers.got["events"] += 1
                self.readers.got["opened"] += version < 0
                told = json.loads(event.partition(b"data: ")[2])["version"]
                if told != version:
                    self.soon()
                version = told
        raise EOFError("the line for news ended")

    def soon(self) -> None:
        if self.planned is None or self.planned.done():
            gap = GAP * (1 + SPREAD * random.random())
            self.planned = asyncio.create_task(self.refresh(gap - (time.monotonic() - self.last)))

    async def refresh(self, wait: float) -> None:
        await asyncio.sleep(max(0.0, wait))
        self.last = time.monotonic()
        known = {"If-None-Match": self.mark} if self.mark else {}
        with self.readers.noting(self.cards):
            status, headers, _ = await self.get(self.cards, "cards", **known)
            self.mark = headers["etag"] if status == 200 else self.mark
            self.readers.slowest = max(self.readers.slowest, time.monotonic() - self.last)

    def close(self) -> None:
        for line in (self.news, self.rest):
            line.close()
        if self.planned is not None:
            self.planned.cancel()


async def entered(address: str) -> Readers:
    """With the cookie that whoever opens the printed address gets."""
    url = urlsplit(address)
    assert url.hostname is not None
    assert url.port is not None
    line = Line(url.hostname, url.port, {})
    status, headers, _ = await line.get(f"/?{url.query}")
    line.close()
    if status != 303:
        raise SystemExit(f"{address} answered {status}")
    return Readers(url.hostname, url.port, headers["set-cookie"].partition(";")[0])


async def read(address: str, run: str, pages: int, clients: list[str]) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    readers = await entered(address)
    turns = [(clients[i % len(clients)], LANGUAGES[i // len(clients) % len(LANGUAGES)]) for i in range(pages)]
    open_ones = [Page(readers, run, *turn) for turn in turns]
    tasks = [asyncio.create_task(page.open()) for page in open_ones]
    await over.wait()
    for task, page in zip(tasks, open_ones, strict=True):
        task.cancel()
        page.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    found = {"got": readers.got, "errors": readers.errors, "slowest": readers.slowest}
    print(json.dumps({**found, "cpu": time.process_time()}), flush=True)


if __name__ == "__main__":
    asyncio.run(read(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
